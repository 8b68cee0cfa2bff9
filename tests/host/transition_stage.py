"""A small program in place of a stage's interpreter, for tests of transitions: ``-u -m pipeline STAGE --run DIR ...`` and ``preflight``.

It really holds GPUs of the fake driver, writes manifests, a receipt and a file of hidden states, and ends on SIGTERM. Files in its own
directory steer it: ``STAGE.wait``, ``preflight.wait`` and ``preflight--PART.wait`` (go on once it is gone), ``STAGE.fail``,
``extract.torn``, and ``preflight-STAGE--PART.json``, the lines that a preflight tells.
"""

import json
import os
import signal
import sys
import time

here = os.path.dirname(os.path.abspath(sys.argv[0]))
words = sys.argv[1:]
name = words[3]


def there(what: str) -> bool:
    return os.path.exists(os.path.join(here, what))


def note(text: str) -> None:
    with open(os.path.join(here, "notes"), "a") as file:
        file.write(text + "\n")


def publish(path: str, data: bytes) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".new", "wb") as file:
        file.write(data)
    os.rename(path + ".new", path)


def put(path: str, value: object) -> None:
    publish(path, json.dumps(value).encode())


def preflight() -> None:
    stage, part = words[4], words[7]
    note("preflight %s %s" % (stage, part))
    while there("preflight.wait") or there("preflight%s.wait" % part):
        time.sleep(0.02)
    path = os.path.join(here, "preflight-%s%s.json" % (stage, part))
    good = {"check": "model", "ok": True, "evidence": "62 shards", "what_to_do": "", "gpu": part == "--gpu-only"}
    rows = [good]
    if os.path.exists(path):
        with open(path) as file:
            rows = json.load(file)
    for row in rows:
        print(json.dumps(row), flush=True)
    oks = [row["ok"] for row in rows]
    ok = False if False in oks else None if None in oks else True
    print(json.dumps({"check": "end", "ok": ok, "checks": len(rows)}), flush=True)
    sys.exit({True: 0, False: 1, None: 3}[ok])


if name == "preflight":
    preflight()

run = words[5]
folder = os.environ["EAGLEWATCH_ATTEMPT_DIR"]
attempt = os.path.basename(folder)
stopped: "list[int]" = []
signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
note("%s %s" % (name, attempt))


def progress(**fields: object) -> None:
    put(os.path.join(folder, "progress", "0.json"), dict(fields, unit={"extract": "sample"}.get(name), total=3))


def hold(mib: int) -> None:
    """Open the device files and register with the fake driver, as gpu_holder.py does."""
    for device in ["nvidiactl", *("nvidia%d" % gpu for gpu in range(8))]:
        os.open(os.path.join(os.environ["EAGLEWATCH_DEV"], device), os.O_RDWR)
    with open("/proc/self/stat", "rb") as file:
        ticks = int(file.read().rpartition(b")")[2].split()[19])
    lines = "".join("hold %d %d %d %d 0 0\n" % (os.getpid(), ticks, gpu, mib) for gpu in range(8))
    fd = os.open(os.environ["EAGLEWATCH_SIM_GPUS"], os.O_WRONLY | os.O_APPEND)
    os.write(fd, lines.encode())
    os.close(fd)


def end(code: int = 0) -> None:
    if code == 0:
        put(os.path.join(folder, "receipt.json"), {"verified": True, "bad": 0, "attempt": attempt})
    os._exit(code)


def wait(until: "object") -> None:
    while not stopped and not until():  # type: ignore[operator]
        time.sleep(0.02)


def output(source: "str | None") -> None:
    inputs = {}
    if source:
        with open(os.path.join(run, "data", source, "eaglewatch.json")) as file:
            inputs[source] = json.load(file)["fingerprint"]
    manifest = {"complete": True, "fingerprint": "%s of %s" % (name, attempt), "inputs": inputs, "settings": {}}
    put(os.path.join(run, "data", name, "eaglewatch.json"), manifest)


progress(done=0, resumed_done=0, phase="loading")
if name == "serve":
    hold(80000)
    progress(done=0, up=True, phase="steady")
    wait(lambda: False)
    note("serve got SIGTERM")
    end()
if name == "extract":
    hold(70000)
    wait(lambda: not there("extract.wait"))
    if there("extract.fail"):
        end(1)
    head = {"hidden_states": {"data_offsets": [0, 8]}, "token_ids": {"data_offsets": [8, 12]}}
    header = json.dumps(head).encode()
    body = len(header).to_bytes(8, "little") + header + bytes(4 if there("extract.torn") else 12)
    publish(os.path.join(run, "data", "extract", "hs_0.safetensors"), body)
    with open(os.path.join(run, "data", "extract", "ledger-0.jsonl"), "a") as file:
        file.write(json.dumps({"i": 0, "bytes": len(body), "boot_s": time.clock_gettime(time.CLOCK_BOOTTIME)}) + "\n")
    progress(done=1, resumed_done=0, phase="steady")
    wait(lambda: False)
    end(1)
wait(lambda: not there(name + ".wait"))
if there(name + ".fail") or stopped:
    end(1)
output({"prepare": "generate", "vocab": "prepare"}.get(name))
progress(done=3, phase="finishing")
end()
