#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A cluster on three hosts: head on a, workers on b and c. Usage: test_three_hosts.py SCENARIO

Limits are those that a user is promised: a killed worker or node daemon is an error at the driver
within 1 s, a host whose cable is pulled within 7 s, and nothing ever hangs."""
import json
import re
import sys
import time

import hosts
from crt_cluster import (Cluster, HTTP_PORT, KEY, PORT, install_train_mnist, new_lab,
                         nothing_is_left)
from hosts import check, until

FAILURE = r"^train_mnist: .*(died|lost|reached)"
HTTP_GET = """
import sys, urllib.request
request = urllib.request.Request(sys.argv[1])
if len(sys.argv) > 2: request.add_header("Authorization", "Bearer " + sys.argv[2])
try: print(urllib.request.urlopen(request, timeout=5).read().decode())
except urllib.error.HTTPError as error: print("HTTP", error.code)
"""


def three_hosts(lab):
    a, b, c = (lab.host(name) for name in "abc")
    install_train_mnist(a)
    return a, b, c


def http_get(host, path, *token):
    return host.run("/usr/bin/python3", "-c", HTTP_GET, f"http://127.0.0.1:{HTTP_PORT}{path}",
                    *token)


def driver_fails_within(driver, seconds, began):
    """The driver says what happened in time, and ends; returns the line."""
    at, match = driver.wait_line(FAILURE, seconds + 20)
    print(f"the driver knew after {at - began:.3f} s: {match.string}", flush=True)
    check(at - began <= seconds, f"told after {at - began:.3f} s, not within {seconds} s")
    check(driver.wait(20) != 0, "the driver ended as if nothing had happened")
    return match.string


def no_workers_are_left(*of_hosts):
    for host in of_hosts:
        until(10, f"the workers on {host.name} are gone", lambda h=host: not h.pids("train_mnist"))


def trains(lab):
    """Training by `crt job submit`, and what status, HTTP and job commands say of it."""
    a, b, c = three_hosts(lab)
    cluster = Cluster(lab, a, b, c)
    submitted = a.start("crt", "job", "submit", "--submission-id", "digits", "--", "./train_mnist",
                        "--data", "builtin", "--workers", "2", "--iterations", "200")
    workers = until(60, "two data workers live", lambda: (
        lambda found: len(found) == 2 and found)(cluster.actors("DataWorker")))
    check({w["host"].name for w in workers} == {"b", "c"}, f"the workers are at {workers}")
    text = a.run("crt", "status")
    for part in (b.ip, c.ip, "DataWorker", "ParameterServer", "digits"):
        check(part in text, f"crt status does not show {part}:\n{text}")
    token = a.run("crt", "token").strip()
    check("HTTP 401" in http_get(a, "/api/jobs/"), "jobs are shown without a token")
    jobs = json.loads(http_get(a, "/api/jobs/", token))
    check([j["status"] for j in jobs if j["submission_id"] == "digits"] == ["RUNNING"], f"{jobs}")
    check(json.loads(http_get(a, "/api/cluster_status", token)), "no cluster status")
    check(submitted.wait(300) == 0, f"the job failed:\n{submitted.text}")
    _, match = submitted.wait_line(r"final accuracy: (0\.\d+)", 1)
    check(float(match[1]) >= 0.90, f"accuracy {match[1]}")
    check("SUCCEEDED" in a.run("crt", "job", "list"), "the job did not succeed")
    check(f"final accuracy: {match[1]}" in a.run("crt", "job", "logs", "digits"),
          "no log of the job")
    no_workers_are_left(b, c)
    cluster.stop()


def trainers(lab):
    """Trainers on two hosts with a narrow link; then one is killed and the other goes on alone."""
    a, b, c = three_hosts(lab)
    cluster = Cluster(lab, a, b, c)
    for host in (b, c):
        lab.shape(host, "300mbit")
    done = cluster.train("--mode", "allreduce", "--iterations", "120", "--hidden", "256",
                         "--eval-every", "0", "--overlap", "both", "--bucket", "131072")
    check(done.wait(240) == 0, f"training failed:\n{done.text}")
    for pattern in (r"^final accuracy: (0\.9\d+|1\.000)", r"^replicas are identical, hash \w{16}$",
                    r"^median update with overlap: .*", r"^median update without overlap: .*"):
        print(done.wait_line(pattern, 1)[1][0], flush=True)
    driver = cluster.train("--mode", "allreduce", "--iterations", "601", "--hidden", "64",
                           "--eval-every", "200", "--on-death", "shrink")
    driver.wait_line(r"^iteration +0\b", 60)
    victim = next(w for w in cluster.actors("Trainer") if w["host"] is b)
    began = time.monotonic()
    b.kill(victim["pid"])
    at, match = driver.wait_line(r"^train_mnist: trainer \d died: .*", 20)
    print(f"the driver knew after {at - began:.3f} s: {match[0]}", flush=True)
    check(at - began <= 1, f"told after {at - began:.3f} s, not within 1 s")
    check(driver.wait(240) == 0, f"the other one did not go on:\n{driver.text}")
    driver.wait_line(r"^iteration +600\b", 1)
    no_workers_are_left(b, c)
    cluster.stop()


def killed_worker(lab):
    a, b, c = three_hosts(lab)
    cluster = Cluster(lab, a, b, c)
    driver = cluster.train_forever()
    victim = next(w for w in cluster.actors("DataWorker") if w["host"] is b)
    began = time.monotonic()
    b.kill(victim["pid"])
    line = driver_fails_within(driver, 1, began)
    check("DataWorker" in line, f"the class is not named: {line}")
    no_workers_are_left(b, c)
    check(cluster.train("--iterations", "20").wait(120) == 0, "the cluster no longer trains")
    cluster.stop()


def killed_node(lab):
    a, b, c = three_hosts(lab)
    cluster = Cluster(lab, a, b, c)
    driver = cluster.train_forever()
    began = time.monotonic()
    b.kill(b.only_pid("crt-node"))
    driver_fails_within(driver, 1, began)
    until(5, "the head knows that the node is gone", lambda: b.ip in cluster.nodes("DEAD"))
    no_workers_are_left(b, c)
    cluster.join(b)
    cluster.wait_nodes(3)
    check(cluster.train("--iterations", "20").wait(120) == 0, "the cluster no longer trains")
    cluster.stop()


def pulled_cable(lab):
    a, b, c = three_hosts(lab)
    cluster = Cluster(lab, a, b, c)
    driver = cluster.train_forever()
    began = time.monotonic()
    lab.cut(b)
    driver_fails_within(driver, 7, began)
    until(7, "the head knows that the host is gone", lambda: b.ip in cluster.nodes("DEAD"))
    no_workers_are_left(c)
    lab.mend(b)
    # The host comes back by itself, and its old workers are ended.
    cluster.wait_nodes(3, 30)
    no_workers_are_left(b)
    check(cluster.train("--iterations", "20").wait(120) == 0, "the cluster no longer trains")
    cluster.stop()


def lossy_and_slow_links(lab):
    """Loss and a narrow link make it slow, not wrong: the same accuracy as without."""
    a, b, c = three_hosts(lab)
    cluster = Cluster(lab, a, b, c)
    clean = cluster.train("--iterations", "30", "--eval-every", "0")
    check(clean.wait(120) == 0, f"training failed:\n{clean.text}")
    b.lose(2)
    c.lose(2)
    lab.shape(b, "200mbit")
    rough = cluster.train("--iterations", "30", "--eval-every", "0")
    check(rough.wait(240) == 0, f"training failed:\n{rough.text}")
    final = [p.wait_line(r"final accuracy: (\S+)", 1)[1][1] for p in (clean, rough)]
    check(final[0] == final[1], f"accuracies {final}")
    cluster.stop()


def wrong_key(lab):
    a, b = lab.host("a"), lab.host("b")
    cluster = Cluster(lab, a)
    b.run("sh", "-c", f"umask 077; head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \\n' > {KEY}")
    join = b.start("crt", "start", "--address", cluster.address, "--key-file", KEY,
                   "--node-ip-address", b.ip)
    check(join.wait(120) != 0, "a wrong key was taken")
    lines = [text for _, text in join.lines if text.strip()]
    check(
        len(lines) == 1 and "key" in lines[0], f"not one sentence that names the key:\n{join.text}")
    nothing_is_left(b)
    check(len(cluster.nodes()) == 1, "the stranger is among the nodes")

    a.give(cluster.key_file, b, KEY)
    b.run("chmod", "644", KEY)
    join = b.start("crt", "start", "--address", cluster.address, "--key-file", KEY)
    check(join.wait(120) != 0 and "600" in join.text, f"a key that others can read:\n{join.text}")
    nothing_is_left(b)

    b.run("chmod", "600", KEY)
    join = b.start("crt", "start", "--address", f"{a.ip}:{PORT + 1}", "--key-file", KEY)
    check(join.wait(120) != 0 and f"{a.ip}:{PORT + 1}" in join.text, f"no head there:\n{join.text}")
    nothing_is_left(b)
    cluster.stop()


def missing_library(lab):
    a, b, c = three_hosts(lab)
    b.run("sh", "-c",
          "rm /opt/crt/lib*/libcrt_ml.so* /opt/crt/lib*/*/libcrt_ml.so* 2>/dev/null; true")
    cluster = Cluster(lab, a, b, c)
    driver = cluster.train("--iterations", "20")
    check(driver.wait(120) != 0, f"it trained without its library:\n{driver.text}")
    check("libcrt_ml.so" in driver.text, f"the library is not named:\n{driver.text}")
    check(cluster.nodes().keys() == {a.ip, b.ip, c.ip}, "a node went with it")
    cluster.stop()


def listening_ports(host):
    """TCP ports that other hosts may reach."""
    found = set()
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in host.run("cat", path).splitlines()[1:]:
            address, state = line.split()[1], line.split()[3]
            if state == "0A" and not address.startswith("0100007F"):
                found.add(int(address.rsplit(":", 1)[1], 16))
    return sorted(found)


SHOUT = """
import os, random, socket, sys
random.seed(int(sys.argv[3]))
for kind in range(40):
    s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)
    s.settimeout(5)
    head = [b"", b"GET / HTTP/1.1\\r\\n\\r\\n", b"\\xff\\0\\0\\0\\0\\0\\0\\0\\1\\x7f\\3\\0CURVE",
            b"\\x16\\3\\1\\2\\0"][kind % 4]
    try:
        s.sendall(head + random.randbytes(random.choice([0, 1, 64, 5000, 300000])))
        if kind % 3 == 0: s.recv(64)
    except OSError: pass
    s.close()
"""


def strangers(lab):
    """Noise on every open port of every host costs nobody anything."""
    a, b, c = three_hosts(lab)
    stranger = lab.host("d")
    cluster = Cluster(lab, a, b, c)
    driver = cluster.train("--iterations", "1000000", "--eval-every", "5")
    driver.wait_line(r"^iteration +5\b", 60)
    shouts = [stranger.start("/usr/bin/python3", "-c", SHOUT, host.ip, port, seed)
              for seed, host in enumerate((a, b, c)) for port in listening_ports(host)]
    check(len(shouts) >= 3, f"only {len(shouts)} open ports")
    for shout in shouts:
        check(shout.wait(120) == 0, f"{shout}\n{shout.text}")
    last = max(int(n) for n in re.findall(r"^iteration +(\d+)", driver.text, re.MULTILINE))
    driver.wait_line(rf"^iteration +{last + 10}\b", 60)
    check(len(cluster.nodes()) == 3, "a node was lost")
    driver.kill(2)
    driver.wait(20)
    no_workers_are_left(b, c)
    cluster.stop()


SCENARIOS = {f.__name__: f for f in (trains, trainers, killed_worker, killed_node, pulled_cable,
                                     lossy_and_slow_links, wrong_key, missing_library, strangers)}


def main():
    with new_lab() as lab:
        SCENARIOS[sys.argv[1]](lab)


if __name__ == "__main__":
    hosts.run(main)
