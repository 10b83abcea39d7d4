#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who gets the token of a cluster: test_dashboard.py SCENARIO.

docs/security.md says what is promised.
"""
import errno
import hashlib
import http.client
import json
import os
import pty
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time

from dashboard import (STRANGER, Cluster, Elsewhere, Stranger, TlsStranger, check, is_gone,
                       make_certificate, shown_certificate, until)

NETWORK = "10.77.0.1"  # an address in a network of the test's own


def a_stranger_at_a_dead_heads_port_gets_nothing():
    with Cluster() as cluster:
        pids = [int(cluster.info("pid")), int(cluster.info("http_pid"))]
        os.kill(pids[0], signal.SIGKILL)
        until("head and crt-http are gone", lambda: all(is_gone(pid) for pid in pids))
        stranger = Stranger(socket.AF_INET, ("127.0.0.1", cluster.http_port))
        for words in (("list", ), ("submit", "--", "/bin/true"), ("logs", "x"), ("status", "x"),
                      ("stop", "x")):
            cluster.refused("is gone; nothing was sent", "job", *words)
        time.sleep(0.2)  # what was sent would be on its way
        check(stranger.connections == 0, f"the stranger was asked, and got {stranger.bytes}")
        cluster.refused(f"port {cluster.http_port} of 127.0.0.1 is taken", "start", "--head",
                        "--port", cluster.port, "--dashboard-port", str(cluster.http_port))


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
        check("No jobs." in cluster.good("job", "list"),
              "the command did not wait for the next crt-http")
        check(
            waiting.recv(15) == b"HTTP/1.1 200 OK", "who came while there was none was not served")


def a_socket_of_another_user_gets_nothing():
    if os.geteuid() != 0:
        print("only root can be another user")
        sys.exit(77)
    with Cluster() as cluster:
        path = f"{cluster.folder}/http.sock"
        stranger = Stranger(socket.AF_UNIX, path, user=STRANGER)
        cluster.refused(f"user {STRANGER} listens at {path}", "job", "list",
                        CRT_HTTP=f"unix:{path}", CRT_TOKEN=cluster.token)
        # Whoever may write to the head's directory is its user; and yet.
        own = f"{cluster.head_dir()}/http.sock"
        os.rename(own, own + ".away")
        os.rename(path, own)
        cluster.refused("neither you nor root", "job", "submit", "--", "/bin/true")
        os.rename(own + ".away", own)
        time.sleep(0.2)
        check(stranger.bytes == b"", f"the stranger got {stranger.bytes}")
        check("No jobs." in cluster.good("job", "list"), "the head's own socket was refused")
        check(
            "No jobs." in cluster.good("job", "list", CRT_HTTP=f"unix:{own}",
                                       CRT_TOKEN=cluster.token),
            "a socket that is named was refused")
        cluster.refused("Forbidden", "job", "list", CRT_HTTP=f"unix:{own}", CRT_TOKEN="0" * 64)


def in_a_network_of_its_own():
    """The test goes on in a network namespace where the loopback device has another address too."""
    if os.environ.get("CRT_TEST_INSIDE") != "1":
        os.environ["CRT_TEST_INSIDE"] = "1"
        how = "-n" if os.geteuid() == 0 else "-rn"
        os.execvp("unshare", ["unshare", how, "--", sys.executable, "-B", *sys.argv])
    for words in (("link", "set", "lo", "up"), ("addr", "add", f"{NETWORK}/24", "dev", "lo")):
        subprocess.run(["ip", *words], check=True)


def over_a_network_the_server_proves_itself_first():
    in_a_network_of_its_own()
    with Cluster("--dashboard-host", NETWORK) as cluster:
        check((cluster.scheme, cluster.host) == ("https", NETWORK),
              f"crt start says\n{cluster.said}")
        check(
            cluster.info("http") == f"https://{NETWORK}:{cluster.http_port}",
            f"head.info says {cluster.info('http')}")
        where, key = f"{NETWORK}:{cluster.http_port}", cluster.info("key_file")
        for url in (where, f"https://{where}"):
            check("No jobs." in cluster.good("job", "list", CRT_HTTP=url, CRT_KEY_FILE=key),
                  "the pin was refused")
        check(
            "SUCCEEDED" in cluster.good("job", "submit", "--", "/bin/true", CRT_HTTP=where,
                                        CRT_KEY_FILE=key) or
            "succeeded" in cluster.good("job", "list", CRT_HTTP=where, CRT_KEY_FILE=key).lower(),
            "no job over TLS")
        cluster.refused("would go to whoever listens", "job", "list", CRT_HTTP=f"http://{where}",
                        CRT_KEY_FILE=key)
        # Who has the token but not the key believes authorities only.
        cluster.refused("nothing was sent", "job", "list", CRT_HTTP=where, CRT_TOKEN=cluster.token)
        said = cluster.refused("nothing was sent", "job", "list", CRT_HTTP=where,
                               CRT_TOKEN=cluster.token, SSL_CERT_FILE="/no/such.crt")
        check("/no/such.crt" in said and "CRT_KEY_FILE" in said, said)
        authority = os.path.join(cluster.info("state_dir"), "https.crt")
        cluster.good("job", "list", CRT_HTTP=where, CRT_TOKEN=cluster.token,
                     SSL_CERT_FILE=authority)
        with socket.create_connection((NETWORK, cluster.http_port), 10) as plain:
            plain.sendall(b"GET /api/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            try:
                said = plain.recv(4096)
            except ConnectionResetError:
                said = b""
            check(not said.startswith(b"HTTP"), f"plain HTTP was served: {said}")
        # A browser that was told to believe it goes on.
        shown, before = shown_certificate(NETWORK, cluster.http_port), cluster.info("http_pid")
        os.kill(int(before), signal.SIGKILL)
        until("another crt-http serves",
              lambda: cluster.info("http") and cluster.info("http_pid") != before)
        check(shown_certificate(NETWORK, cluster.http_port) == shown, "the certificate changed")


def a_man_in_the_middle_gets_nothing():
    with Cluster() as cluster:
        key = cluster.info("key_file")
        man = TlsStranger(*make_certificate(cluster.folder, "man", "IP:127.0.0.1"))
        plain = Stranger(socket.AF_INET, ("127.0.0.1", 0))
        url = f"https://127.0.0.1:{man.port}"
        for words in (("list",), ("submit", "--", "/bin/true"), ("logs", "x")):
            cluster.refused("does not show the certificate of this cluster's key; nothing was sent",
                            "job", *words, CRT_HTTP=url, CRT_KEY_FILE=key)
            cluster.refused("nothing was sent", "job", *words, CRT_HTTP=url,
                            CRT_TOKEN=cluster.token)
            cluster.refused("no answer", "job", *words, CRT_HTTP=f"https://127.0.0.1:{plain.port}",
                            CRT_KEY_FILE=key)
        # An authority that the system trusts does not count where the key is at hand.
        cluster.refused("nothing was sent", "job", "list", CRT_HTTP=url, CRT_KEY_FILE=key,
                        SSL_CERT_FILE=f"{cluster.folder}/man.crt")
        time.sleep(0.2)
        check(man.connections > 0 and man.bytes == b"", f"the man in the middle got {man.bytes}")
        check(
            plain.connections > 0 and cluster.token.encode() not in plain.bytes and
            b"HTTP" not in plain.bytes, f"who speaks no TLS got {plain.bytes}")


def a_certificate_of_ones_own_is_shown():
    folder = None
    with Cluster() as cluster:
        folder = cluster.folder
        chain, key = make_certificate(folder, "own", "DNS:localhost")
        other = make_certificate(folder, "other", "DNS:localhost")[1]
        start = ("start", "--head", "--port", "0", "--dashboard-port", "0", "--num-cpus", "1",
                 "--dashboard-cert")
        cluster.refused("key values mismatch", *start, chain, "--dashboard-key", other)
        cluster.refused("--dashboard-cert", *start, key, "--dashboard-key", key)
        cluster.refused("No such file", *start, f"{folder}/none", "--dashboard-key", key)
        cluster.refused("go together", *start, chain)
        for mode in (0o604, 0o640, 0o644):
            os.chmod(key, mode)
            cluster.refused(f"(mode {mode:04o}): chmod 600", *start, chain, "--dashboard-key", key)
        os.chmod(key, 0o600)
        with Cluster("--dashboard-cert", chain, "--dashboard-key", key) as own:
            check(own.scheme == "https", f"crt start says\n{own.said}")
            where = f"localhost:{own.http_port}"
            check("No jobs." in own.good("job", "list"), "the head's own socket was refused")
            own.good("job", "list", CRT_HTTP=where, CRT_TOKEN=own.token, SSL_CERT_FILE=chain)
            own.refused("nothing was sent", "job", "list", CRT_HTTP=f"127.0.0.1:{own.http_port}",
                        CRT_TOKEN=own.token, SSL_CERT_FILE=chain)
            own.refused("--dashboard-cert", "job", "list", CRT_HTTP=where,
                        CRT_KEY_FILE=own.info("key_file"))
            context = ssl.create_default_context(cafile=chain)
            with socket.create_connection(("127.0.0.1", own.http_port), 10) as raw:
                with context.wrap_socket(raw, server_hostname="localhost") as browser:
                    browser.sendall(
                        b"POST /api/authenticate HTTP/1.1\r\nHost: localhost\r\n"
                        b"Content-Length: 0\r\n"
                        b"Authorization: Bearer " + own.token.encode() + b"\r\n\r\n")
                    check(b"200 OK" in browser.recv(4096), "nobody signs in over TLS")


def asks(cluster, **headers):
    """The status of GET /api/version with those headers."""
    connection = http.client.HTTPConnection("127.0.0.1", cluster.http_port, timeout=20)
    connection.request("GET", "/api/version",
                       headers={name.replace("_", "-"): text
                                for name, text in headers.items()})
    return connection.getresponse().status


def post(cluster, path, authorization):
    connection = http.client.HTTPConnection("127.0.0.1", cluster.http_port, timeout=20)
    connection.request("POST", path, headers={"Authorization": authorization})
    answer = connection.getresponse()
    check(answer.status == 200 and not answer.getheader("Set-Cookie"), f"{path}: {answer.status}")
    return json.loads(answer.read())


def sign_in(cluster, token):
    """The session that a page gets for the token, and for how many seconds."""
    answer = post(cluster, "/api/authenticate", f"Bearer {token}")
    return answer["session"], answer["expires_s"]


def rotated_and_old_tokens_are_worth_nothing():
    with Cluster() as cluster:
        old, other = cluster.token, cluster.good("token", "--expires", "1h").strip()
        sessions, lives = zip(*[sign_in(cluster, token) for token in (old, other)])
        check(lives[0] == 30 * 86400 and 3590 <= lives[1] <= 3600, f"sessions live {lives} s")
        check(sessions[0] not in (old, other), "the session is the token")
        check(
            asks(cluster, Authorization=f"Bearer {sessions[0]}") == 403,
            "the session is taken for a token")
        check(asks(cluster, X_CRT_Session=old) == 403, "the token is taken for a session")
        code = post(cluster, "/api/authenticate/code", f"Bearer {old}")["code"]
        with Cluster() as stranger:
            check(
                asks(stranger, X_CRT_Session=sessions[0]) == 403,
                "another cluster takes the session")
            check(
                asks(stranger, Authorization=f"Bearer {old}") == 403,
                "another cluster takes the token")

        def statuses():
            return ([asks(cluster, Authorization=f"Bearer {token}") for token in (old, other)] +
                    [asks(cluster, X_CRT_Session=session) for session in sessions])
        check(statuses() == [200] * 4, f"before the rotation: {statuses()}")
        job = cluster.good("job", "submit", "--no-wait", "--", "/bin/sleep", "3")
        job = re.search(r"Job '(\S+)' submitted", job)[1]
        following = cluster.start("job", "logs", "-f", job)
        key_copy = f"{cluster.folder}/copy.key"  # another host's: it knows of no rotation
        shutil.copy(cluster.info("key_file"), key_copy)
        said = cluster.good("token", "--rotate")
        end = time.monotonic() + 1
        check(statuses() == [403] * 4 and time.monotonic() < end,
              f"a second after the rotation: {statuses()}")
        new = re.search(r"^\w{64}$", said, re.M)[0]
        check(asks(cluster, Authorization=f"Bearer {new}") == 200, "the new token is refused")
        check(
            asks(cluster, X_CRT_Session=sign_in(cluster, new)[0]) == 200,
            "a new sign-in is refused")
        connection = http.client.HTTPConnection("127.0.0.1", cluster.http_port, timeout=20)
        connection.request("POST", "/api/authenticate", headers={"Authorization": f"Code {code}"})
        check(connection.getresponse().status == 403, "a link from before the rotation signs in")
        with open(cluster.info("token_file"), encoding="ascii") as file:
            check(file.read().strip() == new, "the head's token file has the old token")
        check(job in cluster.good("job", "list"), "the command stopped working")
        own = f"unix:{cluster.head_dir()}/http.sock"
        check(job in cluster.good("job", "list", CRT_HTTP=own, CRT_KEY_FILE=key_copy),
              "who has the key only was refused")
        cluster.refused("Forbidden", "job", "list", CRT_HTTP=own, CRT_TOKEN=old)
        check(following.wait(30) == 0, "the command that was running was refused")
        # It is kept, also over the death of all.
        os.kill(int(cluster.info("http_pid")), signal.SIGKILL)
        check(statuses() == [403] * 4, "a new crt-http takes the old tokens")


def a_token_ends_when_it_is_said():
    with Cluster() as cluster:
        token = cluster.good("token", "--expires", "2s").strip()
        session = sign_in(cluster, token)[0]
        begin = time.monotonic()
        check(
            asks(cluster, Authorization=f"Bearer {token}") == 200 or time.monotonic() - begin > 1,
            "it never was good")
        until("the token ends", lambda: asks(cluster, Authorization=f"Bearer {token}") == 403, 4)
        check(asks(cluster, X_CRT_Session=session) == 403, "its session outlives it")
        for wrong in ("0s", "12", "h", "-1s", "1y", "99999999999d", "1.5h"):
            cluster.refused("--expires takes a time", "token", "--expires", wrong)
        cluster.refused("--rotate goes to a head", "token", "--rotate", "--key-file",
                        cluster.info("key_file"))


def seen_on_a_terminal(cluster, *words):
    """What the command prints where its output is a terminal."""
    leader, follower = pty.openpty()
    with subprocess.Popen([cluster.crt, *words], stdout=follower,
                          env=cluster.environment) as process:
        os.close(follower)
        said = b""
        while True:
            try:
                part = os.read(leader, 4096)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            said += part
    os.close(leader)
    check(process.returncode == 0, f"crt {' '.join(words)}: {said}")
    return said.decode()


def a_link_bears_a_code_and_only_on_a_terminal():
    with Cluster() as cluster:
        check("#" not in cluster.said and cluster.token not in cluster.said,
              f"crt start printed into a pipe\n{cluster.said}")
        page = f"http://127.0.0.1:{cluster.http_port}"
        check(cluster.good("dashboard") == f"{page}\n", "crt dashboard printed a code into a pipe")
        link = re.search(rf"{page}/#code=(\w{{32}})\r?\n", seen_on_a_terminal(cluster, "dashboard"))
        session = post(cluster, "/api/authenticate", f"Code {link[1]}")["session"]
        check(asks(cluster, X_CRT_Session=session) == 200, "a link does not sign in")
        check(asks(cluster, Authorization=f"Code {link[1]}") == 403, "a code is a token")
        os.kill(int(cluster.info("http_pid")), signal.SIGKILL)
        check(
            asks(cluster, X_CRT_Session=session) == 200, "the next crt-http signs the browser out")
        cluster.good("stop")
        start = ("start", "--head", "--port", cluster.port, "--dashboard-port",
                 str(cluster.http_port), "--num-cpus", "1")
        said = seen_on_a_terminal(cluster, *start)
        check(
            asks(cluster, X_CRT_Session=session) == 403,
            "the next head takes the session of the one before")
        link = re.search(rf"{page}/#code=(\w{{32}})\r?\n", said)
        check(cluster.token not in said, "crt start printed the token")
        post(cluster, "/api/authenticate", f"Code {link[1]}")


WEBSOCKET = (
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    "Sec-WebSocket-Version: 13\r\n")


def opened(cluster, path, token, headers=""):
    """A connection on which the answer to GET has begun to come."""
    connection = socket.create_connection(("127.0.0.1", cluster.http_port), 20)
    connection.sendall(
        f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n{headers}\r\n".
        encode())
    begun = connection.recv(4096)
    check(begun[:12] in (b"HTTP/1.1 200", b"HTTP/1.1 101"), f"{path}: {begun}")
    return connection


def has_ended(connection, seconds):
    """It ends within that time; all that still comes is read."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        connection.settimeout(left)
        try:
            if not connection.recv(65536):
                return True
        except ConnectionResetError:
            return True
        except TimeoutError:
            break
    return False


def talking_job(cluster):
    cluster.good("job", "submit", "--no-wait", "--submission-id", "talks", "--", "/bin/sh", "-c",
                 "while :; do echo more; sleep 0.1; done")
    until("it talks", lambda: "more" in cluster.run("job", "logs", "talks").stdout)


def streams_end_with_the_token_that_opened_them():
    with Cluster() as cluster:
        talking_job(cluster)
        stream, tail = "/api/v0/logs/stream?submission_id=talks", "/api/jobs/talks/logs/tail"

        def open_all(token):
            return [opened(cluster, stream, token), opened(cluster, tail, token, WEBSOCKET)]
        lasting = open_all(cluster.token)
        reading = open_all(cluster.good("token", "--read-only").strip())
        begun = time.monotonic()
        ending = open_all(cluster.good("token", "--expires", "3s").strip())
        check(not has_ended(ending[0], 1), "it ended before its token")
        for connection in ending:
            check(has_ended(connection, 10), "a stream outlives its token")
        check(time.monotonic() - begun < 6,
              f"streams ended {time.monotonic() - begun:.1f} s after they began, not 3 s")
        check(not has_ended(lasting[0], 1), "a stream whose token is good was ended")
        cluster.good("token", "--rotate")
        begun = time.monotonic()
        for connection in lasting + reading:
            check(has_ended(connection, 10), "a stream outlives the rotation of its token")
        check(time.monotonic() - begun < 3,
              f"streams went on for {time.monotonic() - begun:.1f} s after the rotation")


def readers_leave_the_owner_his_places():
    with Cluster() as cluster:
        talking_job(cluster)
        reader = cluster.good("token", "--read-only").strip()
        held = [
            opened(cluster, "/api/v0/logs/stream?submission_id=talks", reader) for _ in range(200)
        ]
        check(asks(cluster, Authorization=f"Bearer {reader}") == 503, "there is no end to readers")
        check(
            asks(cluster, Authorization=f"Bearer {cluster.token}") == 200, "the owner has no place")
        owners = [
            opened(cluster, "/api/v0/logs/stream?submission_id=talks", cluster.token)
            for _ in range(200)
        ]
        check(
            asks(cluster, Authorization=f"Bearer {cluster.token}") == 503,
            "there is no end to owners")
        check("talks" in cluster.good("job", "list"), "the command is locked out")
        cluster.good("job", "submit", "--", "/bin/true")
        cluster.good("job", "stop", "talks")
        for connection in held + owners:
            connection.close()


def a_lost_generation_revives_no_token():
    with Cluster() as cluster:
        first = cluster.token
        cluster.good("token", "--rotate")
        second = cluster.good("token").strip()
        os.unlink(cluster.info("key_file") + ".generation")
        statuses = [asks(cluster, Authorization=f"Bearer {token}") for token in (first, second)]
        check(statuses == [403, 403], f"without the file tokens are answered with {statuses}")
        cluster.refused("crt token --rotate", "job", "list")
        time.sleep(1)  # generations are seconds
        cluster.good("token", "--rotate")
        check("No jobs." in cluster.good("job", "list"), "a rotation does not help")
        check(
            asks(cluster, Authorization=f"Bearer {second}") == 403,
            "the rotation took up an earlier generation")
        os.unlink(cluster.info("key_file") + ".generation")
        cluster.good("stop")
        cluster.good("start", "--head", "--port", cluster.port, "--dashboard-port",
                     str(cluster.http_port), "--num-cpus", "1")
        statuses = [asks(cluster, Authorization=f"Bearer {token}") for token in (first, second)]
        check(statuses == [403, 403], f"the next head answers earlier tokens with {statuses}")
        check("No jobs." in cluster.good("job", "list"), "the next head takes no token")


def a_command_on_another_host_asks_the_head_its_node_knows():
    in_a_network_of_its_own()
    with Cluster("--dashboard-host", "0.0.0.0", "--node-ip-address", NETWORK) as cluster:
        check(cluster.good("dashboard").startswith(f"https://{NETWORK}:{cluster.http_port}"),
              "the link names no address")
        with Elsewhere(cluster, f"{NETWORK}:{cluster.port}") as far:
            check(
                far.node_info("http") == f"https://{NETWORK}:{cluster.http_port}",
                "the node does not know the URL")
            check("No jobs." in far.good("job", "list"), "the head's certificate was refused")
            said = far.good("job", "submit", "--", "/bin/echo", "from afar")
            check("from afar" in said, f"the job said {said}")
            pids = [int(cluster.info("pid")), int(cluster.info("http_pid"))]
            os.kill(pids[0], signal.SIGKILL)
            until("head and crt-http are gone", lambda: all(is_gone(pid) for pid in pids))
            man = TlsStranger(*make_certificate(cluster.folder, "man", f"IP:{NETWORK}"),
                              (NETWORK, cluster.http_port))
            far.refused("does not show the certificate of this cluster's key; nothing was sent",
                        "job", "list")
            check(man.connections > 0 and man.bytes == b"", f"who took the port got {man.bytes}")
    folder = tempfile.mkdtemp(prefix="crt-trust-", dir="/tmp")
    own = make_certificate(folder, "own", f"IP:{NETWORK}")
    with Cluster("--dashboard-host", NETWORK, "--node-ip-address", NETWORK, "--dashboard-cert",
                 own[0], "--dashboard-key", own[1]) as cluster:
        with Elsewhere(cluster, f"{NETWORK}:{cluster.port}") as far:
            check(
                far.node_info("http_pin").startswith("sha256//"),
                "the node does not know the certificate")
            check("No jobs." in far.good("job", "list"), "the user's own certificate was refused")
    with Cluster("--node-ip-address", NETWORK) as cluster:
        with Elsewhere(cluster, f"{NETWORK}:{cluster.port}") as far:
            far.refused("serves its own host only", "job", "list")
    shutil.rmtree(folder)


def what_another_user_put_in_the_cache_is_not_executed():
    """The state directory may be one as /tmp is: there he may make the cache before the user."""
    if os.geteuid() != 0:
        print("only root can be another user")
        sys.exit(77)
    with Cluster() as cluster:
        state, ran = f"{cluster.folder}/s", f"{cluster.folder}/ran"
        os.chmod(state, 0o1777)
        shutil.rmtree(f"{state}/programs", ignore_errors=True)
        with open("/bin/true", "rb") as file:
            planted = f"{state}/programs/{hashlib.sha256(file.read()).hexdigest()}"
        os.mkdir(f"{state}/programs", 0o755)
        with open(planted, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\ntouch {ran}\n")
        os.chmod(planted, 0o755)
        for owner in (STRANGER, 0):  # his folder, then one of the user's that is open to all
            os.chown(f"{state}/programs", owner, owner)
            os.chown(planted, owner, owner)
            cluster.refused("user 65534, not to you" if owner else "can be used by others", "job",
                            "submit", "--", "/bin/true")
        check(not os.path.exists(ran), "what the stranger has put there was executed")


SCENARIOS = {
    "other_host": a_command_on_another_host_asks_the_head_its_node_knows,
    "rotated": rotated_and_old_tokens_are_worth_nothing,
    "expired": a_token_ends_when_it_is_said,
    "dead_head": a_stranger_at_a_dead_heads_port_gets_nothing,
    "killed_http": the_port_is_the_heads_while_it_lives,
    "network": over_a_network_the_server_proves_itself_first,
    "middle": a_man_in_the_middle_gets_nothing,
    "own_certificate": a_certificate_of_ones_own_is_shown,
    "link": a_link_bears_a_code_and_only_on_a_terminal,
    "streams": streams_end_with_the_token_that_opened_them,
    "readers": readers_leave_the_owner_his_places,
    "lost_generation": a_lost_generation_revives_no_token,
    "other_user": a_socket_of_another_user_gets_nothing,
    "planted": what_another_user_put_in_the_cache_is_not_executed,
}

if __name__ == "__main__":
    SCENARIOS[sys.argv[1]]()
