"""``python stage_forker.py``: load what a stage needs once, then run it in a fork for every line on stdin, a JSON list of arguments.

So a stage can be killed ten times without loading transformers ten times. Answers, a JSON list a line: ["pid", N] at once, then
["ended", exit code or minus the signal]. The stage's own output goes to the file named by the first argument.
"""

import json
import os
import sys


def main() -> None:
    import openai  # noqa: F401
    import tenacity  # noqa: F401
    import transformers

    transformers.AutoTokenizer  # noqa: B018 - the attribute loads the module
    from pipeline.__main__ import main as stage
    from pipeline.stages import generate  # noqa: F401

    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            with open(sys.argv[1], "a") as log:
                os.dup2(log.fileno(), 1)
                os.dup2(log.fileno(), 2)
            code = 70
            try:
                code = stage(json.loads(line))
            finally:
                os._exit(code)
        print(json.dumps(["pid", pid]), flush=True)
        print(json.dumps(["ended", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])]), flush=True)


if __name__ == "__main__":
    main()
