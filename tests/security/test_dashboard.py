#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who gets the token of a cluster: test_dashboard.py SCENARIO.

docs/security.md says what is promised.
"""
import errno
import os
import signal
import socket
import sys
import time

from dashboard import STRANGER, Cluster, Stranger, check, is_gone, until


def a_stranger_at_a_dead_heads_port_gets_nothing():
    with Cluster() as cluster:
        pids = [int(cluster.info("pid")), int(cluster.info("http_pid"))]
        os.kill(pids[0], signal.SIGKILL)
        until("head and crt-http are gone", lambda: all(is_gone(pid) for pid in pids))
        stranger = Stranger(socket.AF_INET, ("127.0.0.1", cluster.http_port))
        for words in (("list",), ("submit", "--", "/bin/true"), ("logs", "x"), ("status", "x"), ("stop", "x")):
            cluster.refused("is gone; nothing was sent", "job", *words)
        time.sleep(0.2)  # what was sent would be on its way
        check(stranger.connections == 0, f"the stranger was asked, and got {stranger.bytes}")
        cluster.refused(f"port {cluster.http_port} of 127.0.0.1 is taken", "start", "--head", "--port",
                        cluster.port, "--dashboard-port", str(cluster.http_port))


def try_to_bind(port):
    with socket.socket() as thief:
        thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            thief.bind(("127.0.0.1", port))
            thief.listen(1)
        except OSError as error:
            return error.errno
    return 0


def the_port_is_the_heads_while_it_lives():
    with Cluster() as cluster:
        saw_none = False
        for _ in range(3):  # each time it takes longer until the next one serves
            before = cluster.info("http_pid")
            os.kill(int(before), signal.SIGKILL)
            while cluster.info("http_pid") in (before, "0") or not cluster.info("http"):
                saw_none = saw_none or not cluster.info("http")
                said = try_to_bind(cluster.http_port)
                check(said == errno.EADDRINUSE, f"the port was free: {errno.errorcode.get(said)}")
        check(saw_none, "head.info named a dashboard while there was none")
        os.kill(int(cluster.info("http_pid")), signal.SIGKILL)
        waiting = socket.create_connection(("127.0.0.1", cluster.http_port), 20)
        waiting.sendall(b"GET /api/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        check("No jobs." in cluster.good("job", "list"), "the command did not wait for the next crt-http")
        check(waiting.recv(15) == b"HTTP/1.1 200 OK", "who came while there was none was not served")


def a_socket_of_another_user_gets_nothing():
    if os.geteuid() != 0:
        print("only root can be another user")
        sys.exit(77)
    with Cluster() as cluster:
        path = f"{cluster.folder}/http.sock"
        stranger = Stranger(socket.AF_UNIX, path, user=STRANGER)
        cluster.refused(f"user {STRANGER} listens at {path}", "job", "list", CRT_HTTP=f"unix:{path}",
                        CRT_TOKEN=cluster.token)
        # Whoever may write to the head's directory is its user; and yet.
        own = f"{cluster.head_dir()}/http.sock"
        os.rename(own, own + ".away")
        os.rename(path, own)
        cluster.refused("neither you nor root", "job", "submit", "--", "/bin/true")
        os.rename(own + ".away", own)
        time.sleep(0.2)
        check(stranger.bytes == b"", f"the stranger got {stranger.bytes}")
        check("No jobs." in cluster.good("job", "list"), "the head's own socket was refused")
        check("No jobs." in cluster.good("job", "list", CRT_HTTP=f"unix:{own}", CRT_TOKEN=cluster.token),
              "a socket that is named was refused")
        cluster.refused("Forbidden", "job", "list", CRT_HTTP=f"unix:{own}", CRT_TOKEN="0" * 64)


SCENARIOS = {
    "dead_head": a_stranger_at_a_dead_heads_port_gets_nothing,
    "killed_http": the_port_is_the_heads_while_it_lives,
    "other_user": a_socket_of_another_user_gets_nothing,
}

if __name__ == "__main__":
    SCENARIOS[sys.argv[1]]()
