# SPDX-License-Identifier: Apache-2.0
"""First process of a host made by hosts.py: hides what is not the host's, then collects orphans.

Runs as process 1 of namespaces of its own. Arguments: NAME HOME PREFIX_FROM PREFIX_TO HIDDEN...
Writes "ready" to stdout when the host is there; lives until it is killed, and all with it.
"""
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys

PRIVATE = ["/tmp", "/var/tmp", "/dev/shm", "/run", "/home", "/mnt", "/opt"]
MS_BIND = 0x1000
libc = ctypes.CDLL(None, use_errno=True)


def mount_tmpfs(path, mode="755"):
    if libc.mount(b"tmpfs", path.encode(), b"tmpfs", 0, f"mode={mode}".encode()) != 0:
        raise OSError(ctypes.get_errno(), f"can't mount a tmpfs on {path}")


def hide(path):
    """A folder is empty from now on, a file is none that can be loaded or executed."""
    if os.path.isdir(path):
        mount_tmpfs(path)
    elif os.path.exists(path) and libc.mount(b"/dev/null", path.encode(), None, MS_BIND, None) != 0:
        raise OSError(ctypes.get_errno(), f"can't hide {path}")


def main(name, home, prefix_from, prefix_to, *hidden):
    socket.sethostname(name)
    os.chdir("/")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    # The copy is made where only this host sees it, before its origin is hidden.
    for path in PRIVATE:
        if path != "/mnt" and os.path.isdir(path):
            mount_tmpfs(path, "1777" if path.endswith(("tmp", "shm")) else "755")
    if prefix_from:
        shutil.copytree(prefix_from, prefix_to, symlinks=True)
    os.makedirs(home, 0o700)
    for path in ("/mnt", "/root", *hidden):
        hide(path)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    print("ready", flush=True)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            signal.sigwait([signal.SIGCHLD])


if __name__ == "__main__":
    main(*sys.argv[1:])
