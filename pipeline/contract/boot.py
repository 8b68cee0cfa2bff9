"""The bootstrap: what the client sends to a host that may know nothing of us yet. See docs/wire.md.

``command`` is the whole command line, free of anything that bash, dash, fish or csh would read differently. ``line`` is the one
line that goes to its stdin: a Python literal of ``_SOURCE``. Then the client waits for ``{"boot": ...}`` and, after "need", sends
the bundle.

``_SOURCE`` is Python 3.6 (older ones must be able to say that they are too old) and the standard library. It reads with ``os.read``,
because ``input()`` has a buffer. It unpacks beside the target and renames, so a code directory is whole or not there.
Error kinds: ``python``, ``data-dir``, ``disk-full``, ``bundle``.
"""

import re

_PYTHON = re.compile(r"(~/)?[A-Za-z0-9_./-]+\Z")


def command(python: str) -> str:
    """The command line for an interpreter: an absolute path, a plain name, or one that starts with ``~/``. Raises ValueError."""
    if not _PYTHON.match(python) or python.startswith("-"):
        raise ValueError("interpreter %r: use a name or path of letters, digits and _ . / - only (a link to it will do)" % python)
    return "exec %s -uc 'exec(eval(input()))'" % python


def line(nonce: str, data_dir: str, code: str, sha256: str, length_bytes: int) -> bytes:
    """The first line to send: marks of this connection, where to unpack, and what the bundle must be."""
    values = {"nonce": nonce, "data_dir": data_dir, "code": code, "sha256": sha256, "length": length_bytes}
    return ascii("A = %s\n%s" % (ascii(values), _SOURCE)).encode("ascii") + b"\n"


_SOURCE = r"""
import errno, json, os, sys

def say(**fields):
    sys.stdout.write("\x1e" + A["nonce"] + json.dumps(fields) + "\n")
    sys.stdout.flush()

def fail(kind, message):
    say(boot="error", kind=kind, message=message)
    sys.exit(2)

def prepare(data):
    try:
        os.makedirs(os.path.join(data, "code"), exist_ok=True)
    except OSError as error:
        explain(data, error)
    for path in (data, os.path.join(data, "code")):
        status = os.stat(path)
        if status.st_uid != os.geteuid():
            fail("data-dir", "%s belongs to user id %d, not to you (%d): name another data_dir" % (path, status.st_uid, os.geteuid()))
        if status.st_mode & 0o022:
            mode = status.st_mode & 0o777
            fail("data-dir", "%s can be written by others (mode %o): chmod go-w it, or name another data_dir" % (path, mode))
        if not os.access(path, os.W_OK | os.X_OK):
            fail("data-dir", "%s cannot be written: check its rights and whether the file system is read-only" % path)

def explain(path, error):
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        fail("disk-full", "no room at %s for the host program (%d bytes): free some space" % (path, 4 * A["length"]))
    fail("data-dir", "%s cannot be used: %s" % (path, error.strerror or error))

def receive(length):
    parts, left = [], length
    while left:
        part = os.read(0, min(left, 1 << 20))
        if not part:
            sys.exit(2)
        parts.append(part)
        left -= len(part)
    return b"".join(parts)

def unpack(bundle, target):
    import hashlib, io, zipfile
    if hashlib.sha256(bundle).hexdigest() != A["sha256"]:
        fail("bundle", "the host program arrived damaged: connect again")
    temporary = os.path.join(os.path.dirname(target), ".new-%d-%s" % (os.getpid(), A["nonce"]))
    made = set()
    try:
        archive = zipfile.ZipFile(io.BytesIO(bundle))
        for name in archive.namelist():
            path = os.path.join(temporary, name)
            if os.path.normpath(path) != path or not path.startswith(temporary + os.sep) or "\\" in name:
                raise zipfile.BadZipFile("it holds the name %r" % name)
            folder = os.path.dirname(path)
            os.makedirs(folder, exist_ok=True)
            made.add(folder)
            write(path, archive.read(name))
        compile_ahead(temporary)
        write(os.path.join(temporary, ".complete"), b"")
        for folder in sorted(made | {temporary}):
            sync(folder)
        if os.path.isdir(target):
            if os.path.exists(os.path.join(target, ".complete")):
                return
            os.rename(target, temporary + "-broken")
        os.rename(temporary, target)
        sync(os.path.dirname(target))
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        fail("bundle", "the host program cannot be unpacked: %s" % error)
    except OSError as error:
        if not os.path.exists(os.path.join(target, ".complete")):
            explain(target, error)
    finally:
        for leftover in (temporary, temporary + "-broken"):
            remove(leftover)

def write(path, data):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        while data:
            data = data[os.write(fd, data):]
        os.fsync(fd)
    finally:
        os.close(fd)

def sync(folder):
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)

def compile_ahead(root):
    # Compiling pynvml takes a quarter of a second and 24 MiB: here, once, and not in the process that reads the GPUs.
    import py_compile
    for folder in ("", "pipeline", "pipeline/contract", "pipeline/host"):
        folder = os.path.join(root, folder)
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
            if name.endswith(".py"):
                try:
                    py_compile.compile(os.path.join(folder, name), doraise=True)
                except (py_compile.PyCompileError, OSError):
                    pass

def remove(path):
    import shutil
    shutil.rmtree(path, ignore_errors=True)

def prune(codes, keep):
    import time
    data = os.path.dirname(codes)
    for run in names(os.path.join(data, "runs")):
        for stage in names(os.path.join(data, "runs", run, "stages")):
            for attempt in names(os.path.join(data, "runs", run, "stages", stage)):
                folder = os.path.join(data, "runs", run, "stages", stage, attempt)
                if not os.path.exists(os.path.join(folder, "exit.json")):
                    keep |= {code_in(os.path.join(folder, "spec.json")), code_in(os.path.join(folder, "ident.json"))}
    keep |= {code_in(os.path.join(data, "agents", name)) for name in names(os.path.join(data, "agents"))}
    whole, now = [], time.time()
    for name in names(codes):
        path = os.path.join(codes, name)
        try:
            if name.startswith(".new-") and now - os.stat(path).st_mtime > 3600:
                remove(path)
            elif not name.startswith("."):
                whole.append((os.stat(path).st_mtime, name))
        except OSError:
            pass
    for _, name in sorted(whole)[:-3]:
        if name not in keep:
            remove(os.path.join(codes, name))

def names(folder):
    try:
        return os.listdir(folder)
    except OSError:
        return []

def code_in(path):
    try:
        with open(path, "rb") as file:
            value = json.loads(file.read().decode("utf-8", "replace"))
        return value.get("code")
    except (OSError, ValueError, AttributeError):
        return None

def main():
    if sys.version_info < (3, 8):
        fail("python", "%s is Python %d.%d; the host program needs 3.8 or newer: name another interpreter"
             % (sys.executable, sys.version_info[0], sys.version_info[1]))
    os.umask(0o077)
    data = os.path.abspath(os.path.expanduser(A["data_dir"]))
    prepare(data)
    target = os.path.join(data, "code", A["code"])
    if not os.path.exists(os.path.join(target, ".complete")):
        room = os.statvfs(data)
        if room.f_bavail * room.f_frsize < 4 * A["length"]:
            explain(data, OSError(errno.ENOSPC, ""))
        say(boot="need")
        unpack(receive(A["length"]), target)
        prune(os.path.dirname(target), {A["code"]})
    say(boot="have")
    os.execv(sys.executable, [sys.executable, "-u", "-s", "-S", target, "agent", "--data", data, "--nonce", A["nonce"]])

main()
"""
