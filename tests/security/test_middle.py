#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A man in the middle of three hosts: all that goes from one to another passes through a fourth,
who reads it, puts messages in, changes, repeats and leaves out bytes. He stops no daemon, nothing
of it is believed, and all works again when he is done. Usage: test_middle.py encrypted|clear"""
import os
import re
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cluster"))

import hosts  # noqa: E402
from crt_cluster import Cluster, DAEMONS, build_folder, new_lab  # noqa: E402
from hosts import check, until  # noqa: E402
from test_transfers import PROGRAM, ends_well  # noqa: E402

SIZE = 4 << 20
ALIAS = 100  # the middle's address for 10.77.0.N ends in ALIAS + N
# What a daemon without authentication obeys: the message that ends a node.
SHUTDOWN = bytes.fromhex("07000000" "950d00a178c200")
MESSAGE = b"host0"  # a resource, of which messages between node and head speak
BULK = struct.pack("<QQ", 0x9e3779b97f4a7c15,
                   2 * 0x9e3779b97f4a7c15 % 2**64)  # how each object begins
RELAY = """
import os, socket, struct, sys, threading
forged, needles = bytes.fromhex(sys.argv[1]), [bytes.fromhex(a) for a in sys.argv[2:]]
lock, ways, seen = threading.Lock(), [], [0] * len(needles)

class Way:
    "One direction of a connection."
    def __init__(self, source, sink):
        self.source, self.sink, self.order, self.tail = source, sink, None, b""

    def carry(self):
        try:
            while self.step():
                pass
        except OSError:
            pass
        with lock:
            ways.remove(self)
        for s in (self.source, self.sink):
            try: s.shutdown(socket.SHUT_RDWR)
            except OSError: pass

    def step(self):
        data = self.source.recv(1 << 16)
        with lock:
            text = self.tail + data
            for i, needle in enumerate(needles):
                seen[i] += text.count(needle)
            self.tail = text[-15:]
            order, self.order = (self.order, None) if data else (None, self.order)
        if order:
            print(order, "done", flush=True)
        middle = len(data) // 2
        if order == "change":
            data = data[:middle] + bytes([data[middle] ^ 16]) + data[middle + 1:]
        elif order == "repeat":
            data += data
        elif order == "omit":
            data = b""
        self.sink.sendall(data)
        return data or order

def accept(listener):
    while True:
        client, _ = listener.accept()
        server = socket.socket()
        try:
            port, ip = struct.unpack("!2xH4s8x", client.getsockopt(socket.SOL_IP, 80, 16))
            server.connect((socket.inet_ntoa(ip[:3] + bytes([ip[3] - %d])), port))
        except OSError: # it is gone again
            client.close()
            continue
        for way in (Way(client, server), Way(server, client)):
            with lock:
                ways.append(way)
            threading.Thread(target=way.carry, daemon=True).start()

listener = socket.create_server(("0.0.0.0", 9), backlog=100)
threading.Thread(target=accept, args=(listener,), daemon=True).start()
os.mkfifo("orders")
print("ready", flush=True)
while True:
    with open("orders") as orders:
        for order in orders.read().split():
            with lock:
                if order == "inject":
                    for way in ways: way.sink.sendall(forged)
                elif order != "tell":
                    for way in ways: way.order = order
                print(order, "to", len(ways), *seen, flush=True)
""" % ALIAS


class Middle:
    def __init__(self, host, victims):
        self.host, self.orders = host, 0
        for victim in victims:
            host.run("ip", "address", "add", f"{self.alias(victim)}/24", "dev", "eth0")
        nft(host, "table ip middle { chain in { type nat hook prerouting priority -100; "
                  "ip protocol tcp redirect to :9; }; }")
        self.relay = host.start("/usr/bin/python3", "-c", RELAY, SHUTDOWN.hex(), MESSAGE.hex(),
                                BULK.hex())
        self.relay.wait_line("^ready", 20)
        for victim in victims:
            way = "; ".join(f"ip daddr {other.ip} ip protocol tcp dnat to {self.alias(other)}"
                            for other in victims if other is not victim)
            nft(
                victim,
                f"table ip middle {{ chain out {{ type nat hook output priority -100; {way}; }}; }}"
            )

    @staticmethod
    def alias(host):
        *front, last = host.ip.split(".")
        return ".".join((*front, str(ALIAS + int(last))))

    def order(self, what):
        """(connections' directions at this moment, messages seen, objects seen)"""
        self.orders += 1
        self.host.run("sh", "-c", f"echo {what} > orders")
        lines = until(
            10, f"the middle does: {what}", lambda:
            (found := re.findall(r"^\w+ to (\d+) (\d+) (\d+)$", self.relay.text, re.MULTILINE)
             ) and len(found) == self.orders and found)
        return [int(n) for n in lines[-1]]


def nft(host, rules):
    # nft is no command of the host's own path.
    host.run("sh", "-c", f"echo '{rules}' | /usr/sbin/nft -f -")


def daemons(cluster):
    """Of all hosts; the same ones later: nobody was stopped, and none was started again."""
    return {(host.name, name): host.pids(name)
            for host in (cluster.head, *cluster.others)
            for name in DAEMONS}


def works(cluster, ids):
    until(20, "all nodes are alive", lambda: {n["node_id"]
                                              for n in cluster.nodes().values()} == ids)
    ends_well(
        cluster.head.start(f"./{PROGRAM}", "--bytes", SIZE, env={"CRT_ADDRESS": cluster.address}))


def meddled(lab, encrypt):
    a, b, c, m = (lab.host(name) for name in "abcm")
    a.put(os.path.join(build_folder(), "tests", "bench", PROGRAM), PROGRAM)
    middle = Middle(m, (a, b, c))
    cluster = Cluster(lab, a, b, c, numbered=True, head_options=("--encrypt-streams", encrypt))
    ids = {n["node_id"] for n in cluster.nodes().values()}
    at_first = daemons(cluster)
    works(cluster, ids)
    ways, messages, objects = middle.order("tell")
    print(f"{ways} directions, {messages} messages and {objects} objects read", flush=True)
    check(ways >= 4, "the hosts don't speak through the middle")
    check(messages == 0, "a message went in the clear")
    check((objects > 0) == (encrypt == "off"), f"{objects} objects went in the clear")
    for what in ("inject", "change", "repeat", "omit") if encrypt == "off" else ():
        began, ways = time.monotonic(), middle.order(what)[0]
        check(ways >= 4, f"only {ways} directions to {what}")
        works(cluster, ids)
        check(
            daemons(cluster) == at_first,
            f"{what}: the daemons were {at_first}, and are {daemons(cluster)}")
        print(f"{what}: all is as before after {time.monotonic() - began:.2f} s", flush=True)
        check(what == "inject" or f"{what} done" in middle.relay.text, f"nothing to {what}")
    cluster.stop()


def main():
    with new_lab() as lab:
        meddled(lab, {"encrypted": "on", "clear": "off"}[sys.argv[1]])


if __name__ == "__main__":
    hosts.run(main)
