#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""isolated.py PROGRAM [ARGUMENT]...

Runs a test with run, state and log directories of its own, so that it neither finds nor changes a
cluster of the user who runs it. Meson runs every test and benchmark under it (tests/meson.build).
The directories are removed when the program has ended, and so are those that a killed run left. A
process that the test left behind is ended and makes the test fail. A run that is killed takes its
tests along. The exit status is the program's, 128 + N when signal N killed it.
"""
import ctypes
import fcntl
import glob
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

PREFIX = "/tmp/crt-test-"  # short: sockets lie below it
# Of the variables CRT_..., which say where the user's clusters are, these stay: they are for tests.
LIBRARIES = tuple(f"CRT_{name}_LIBRARY=" for name in
                  ("CUDART", "CUDA_DRIVER", "CUBLAS", "CUDNN", "NVRTC", "NCCL", "NVML"))
KEPT = ("CRT_TEST_", "CRT_LOG=", *LIBRARIES, "CRT_RAY_PYTHON=", "CRT_SEED=", "CRT_KILL_ROUNDS=",
        "CRT_GROUP_ROUNDS=")
MARK = "CRT_TEST_FOLDER"  # by it the processes of a test are found
GRACE_S = 20  # for processes that end because the test did, on a busy machine
PR_SET_PDEATHSIG = 1


def environment(folder):
    """What the user has, without what says where his clusters are."""
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith("CRT_") or f"{name}=".startswith(KEPT)}
    own = {
        MARK: "", "CRT_RUN_DIR": "r", "CRT_STATE_DIR": "s", "XDG_RUNTIME_DIR": "x",
        "XDG_STATE_HOME": "y", "CRT_CONFIG": "none"
    }
    # Undefined behaviour says where it was (meson.build).
    kept["ASAN_OPTIONS"] = "handle_sigill=1:" + kept.get("ASAN_OPTIONS", "")
    modules = [os.path.dirname(os.path.abspath(__file__)), os.environ.get("PYTHONPATH", "")]
    return kept | {name: os.path.join(folder, part) for name, part in own.items()} | {
        "PYTHONPATH": ":".join(filter(None, modules))}


def command(words):
    """A script of Python is run by this one: what `env` finds may be a script that looks for it."""
    return [sys.executable, "-B", *words] if words[0].endswith(".py") else words


def processes_of(folder):
    """Living processes of this user that this test executed."""
    wanted = f"\0{MARK}={folder}/\0".encode()
    found = []
    for path in glob.glob("/proc/[0-9]*/environ"):
        try:
            with open(path, "rb") as file:
                if wanted in b"\0" + file.read():
                    found.append(int(path.split("/")[2]))
        except OSError:  # it has ended, or is another user's
            pass
    return found


def name_of(pid):
    try:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
            return f"{pid} ({file.read().replace(chr(0), ' ').strip()[:100]})"
    except OSError:
        return str(pid)


def end_processes(folder, grace_s):
    """Waits for those that end by themselves, kills the others and returns their names."""
    deadline = time.monotonic() + grace_s
    while (left := processes_of(folder)) and time.monotonic() < deadline:
        time.sleep(0.02)
    names = [name_of(pid) for pid in left]
    while left:
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.02)
        left = processes_of(folder)
    return names


def lock(folder):
    """Held until this process ends; None: somebody else does."""
    try:
        fd = os.open(os.path.join(folder, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return fd
    except OSError:
        return None


def remove(folder):
    end_processes(folder, 0)
    shutil.rmtree(folder, ignore_errors=True)


def sweep():
    """What runs that were killed themselves left behind, with whatever still runs there."""
    for folder in glob.glob(PREFIX + "*"):
        try:
            is_ours = os.lstat(folder).st_uid == os.getuid() and os.path.isdir(folder)
            is_old = time.time() - os.stat(
                folder).st_mtime > 60  # one may be about to take its lock
        except OSError:
            continue
        if is_ours and is_old and (fd := lock(folder)) is not None:
            remove(folder)
            os.close(fd)


def end_with_parent():
    """When that ends, SIGTERM comes, as from a person who has enough of the test."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it has ended meanwhile
        sys.exit("isolated.py: nobody waits for the test")


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    end_with_parent()
    sweep()
    folder = tempfile.mkdtemp(prefix=PREFIX)
    held = lock(folder)
    for name in ("x", "y"):
        os.mkdir(os.path.join(folder, name), 0o700)
    started, early = [], []  # what came before the program was known is handed on then

    def on_signal(given, _):
        if started:
            started[0].send_signal(given)
        else:
            early.append(given)

    # Before the start: a shell's `&` has SIGINT ignored, and what has a handler here is not ignored
    # in the program.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, on_signal)
    try:
        program = subprocess.Popen(command(sys.argv[1:]), env=environment(folder))
    except OSError as error:
        shutil.rmtree(folder)
        sys.exit(f"isolated.py: can't execute {sys.argv[1]}: {error.strerror}")
    started.append(program)
    for given in early:
        program.send_signal(given)
    status = program.wait()
    left = end_processes(folder, GRACE_S)
    shutil.rmtree(folder, ignore_errors=True)
    os.close(held)
    if left:
        print(f"isolated.py: the test left processes behind: {', '.join(left)}", file=sys.stderr)
    sys.exit(status if status > 0 else 128 - status if status < 0 else 1 if left else 0)


if __name__ == "__main__":
    main()
