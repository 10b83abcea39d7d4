#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Calls of an actor by HTTP, beside nginx that gives out a static file of the same size.

Rounds take turns: nginx (one worker process), then crt-http, each with the same keep-alive
connections of wrk. Either server is bound to the first core; wrk, and the actor's worker, to the
others. A ratio is that of the medians, above 1 is quicker than nginx. The call adds two numbers;
with --row predict a tensor of 784 float32 goes to it.
"""
import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

SOURCE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
NGINX = """
daemon off; worker_processes 1; pid {dir}/pid; error_log {dir}/error.log; {user}
events {{ worker_connections 1024; }}
http {{ access_log off; keepalive_requests 100000000; sendfile on; tcp_nodelay on;
  client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy; fastcgi_temp_path {dir}/fastcgi;
  uwsgi_temp_path {dir}/uwsgi; scgi_temp_path {dir}/scgi;
  server {{ listen 127.0.0.1:{port}; root {dir}/files; }} }}
"""


def read_arguments():
    parser = argparse.ArgumentParser(prog="http_calls", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(SOURCE, "build"),
                        help="build folder of a release build")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=2, help="of a round of each server")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--row", choices=("add", "predict"), default="add")
    parser.add_argument("--no-nginx", dest="nginx", action="store_false", help="only crt-http")
    parser.add_argument("--no-pin", dest="pin", action="store_false", help="bind nothing to a core")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    given = parser.parse_args()
    given.pin = given.pin and os.cpu_count() > 1
    for tool in ["wrk"] + ["nginx"] * given.nginx:
        if not shutil.which(tool, path=os.environ["PATH"] + ":/usr/sbin"):
            parser.error(f"{tool} is not installed")
    return given


def bind(given, pid, is_server):
    if given.pin:
        cores = "0" if is_server else f"1-{os.cpu_count() - 1}"
        subprocess.run(["taskset", "--all-tasks", "--cpu-list", "--pid", cores,
                        str(pid)], check=True, stdout=subprocess.DEVNULL)


def children(pid):
    return subprocess.run(["pgrep", "-P", str(pid)], stdout=subprocess.PIPE,
                          text=True).stdout.split()


def processor_time(pid):
    """Seconds that the process has used."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Nginx:
    def __init__(self, given, directory, port):
        os.makedirs(f"{directory}/files")
        with open(f"{directory}/files/answer", "w") as file:
            file.write("5")
        user = "user root;" if os.getuid() == 0 else ""
        with open(f"{directory}/nginx.conf", "w") as file:
            file.write(NGINX.format(dir=directory, port=port, user=user))
        nginx = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin")
        self.process = subprocess.Popen([nginx, "-p", directory, "-c", f"{directory}/nginx.conf"],
                                        stderr=subprocess.DEVNULL)
        self.url, self.script = f"http://127.0.0.1:{port}/answer", None
        until = time.monotonic() + 10
        while not children(self.process.pid) and time.monotonic() < until:
            time.sleep(0.05)
        self.pid = children(self.process.pid)[0]
        bind(given, self.pid, True)

    def end(self):
        self.process.terminate()
        self.process.wait()


class Crt:
    def __init__(self, given, directory):
        self.crt = os.path.join(given.build, "cli", "crt")
        self.environment = dict(os.environ, CRT_RUN_DIR=f"{directory}/run",
                                CRT_STATE_DIR=f"{directory}/state")
        for name in ("run", "state"):
            os.mkdir(f"{directory}/{name}", 0o700)
        said = self.run("start", "--head", "--port", "0", "--dashboard-port", "0", "--num-cpus",
                        "1", "--object-store-memory", "50M")
        self.environment["CRT_ADDRESS"] = re.search(r"--address (\S+) --key-file", said)[1]
        token = self.run("token").strip()
        self.program = subprocess.Popen(
            [os.path.join(given.build, "tests", "bench", "http_calls_program")],
            env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        worker = self.program.stdout.readline().split()[1]
        self.url = re.search(r"http://[\d.]+:\d+",
                             said)[0] + f"/api/actors/bench/server/{given.row}"
        self.script = f"{directory}/call.lua"
        with open(self.script, "w") as file:
            file.write(self.wrk_script(given, token))
        with open(self.info_file(directory)) as file:
            self.pid = re.search(r"http_pid=?\s*(\d+)", file.read())[1]
        self.measure_once(given)  # it joins the cluster, and has all of its threads
        bind(given, self.pid, True)
        bind(given, worker, False)

    def run(self, *command):
        return subprocess.run([self.crt, *command], env=self.environment, stdout=subprocess.PIPE,
                              text=True, check=True).stdout

    @staticmethod
    def info_file(directory):
        found = subprocess.run(["find", f"{directory}/run", "-name", "head.info"],
                               stdout=subprocess.PIPE, text=True).stdout
        return found.split()[0]

    @staticmethod
    def wrk_script(given, token):
        lines = ['wrk.method = "POST"', f'wrk.headers["Authorization"] = "Bearer {token}"']
        if given.row == "add":
            lines.append('wrk.body = "[2,3]"')
        else:
            lines += [
                'wrk.body = string.rep("\\0\\0\\128\\63", 784)',
                'wrk.headers["Content-Type"] = "application/octet-stream"',
                'wrk.headers["X-CRT-Dtype"] = "float32"', 'wrk.headers["X-CRT-Shape"] = "1,784"'
            ]
        return "\n".join(lines) + "\n"

    def measure_once(self, given):
        wrk(given, self, 0.5)

    def end(self):
        self.program.communicate("")
        self.run("stop")


def wrk(given, server, seconds):
    """Requests a second, those that failed, median and 99 % latency in ms."""
    command = ["wrk", "-t1", f"-c{given.connections}", f"-d{max(1, round(seconds))}s", "--latency"]
    if given.pin:
        command = ["taskset", "--cpu-list", f"1-{os.cpu_count() - 1}"] + command
    if server.script:
        command += ["-s", server.script]
    said = subprocess.run([*command, server.url], stdout=subprocess.PIPE, text=True,
                          check=True).stdout
    bad = re.search(r"Non-2xx or 3xx responses: (\d+)", said)
    errors = re.search(r"Socket errors: (.*)", said)
    if bad or errors:
        sys.exit(f"http_calls: {server.url}: {said}")

    def milliseconds(label):
        number, unit = re.search(rf"{label}\s+([\d.]+)(us|ms|s)", said).groups()
        return float(number) * {"us": 0.001, "ms": 1, "s": 1000}[unit]

    return float(re.search(r"Requests/sec:\s+([\d.]+)",
                           said)[1]), milliseconds("50%"), milliseconds("99%")


def measure(given, servers):
    rows = {name: [] for name in servers}
    for _ in range(given.rounds):
        for name, server in servers.items():
            used = processor_time(server.pid)
            rate, median, slow = wrk(given, server, given.seconds)
            used = processor_time(server.pid) - used
            rows[name].append({
                "rate": rate, "median_ms": median, "slow_ms": slow,
                "us": used / (rate * given.seconds) * 1e6
            })
    return {
        name: {key: statistics.median(row[key] for row in taken)
               for key in taken[0]}
        for name, taken in rows.items()
    }


def report(given, figures):
    if given.json:
        print(json.dumps(figures))
        return
    print(f"{given.rounds} rounds of {given.seconds:g} s, {given.connections} connections, "
          f"{'bound' if given.pin else 'not bound'} to cores")
    for name, row in figures.items():
        print(
            f"{name:10} {row['rate']:9.0f} requests/s   median {row['median_ms']:6.2f} ms   99 % "
            f"{row['slow_ms']:6.2f} ms   {row['us']:5.1f} us of the server's processor time each")
    if "nginx" in figures:
        print(f"crt-http / nginx: {figures['crt-http']['rate'] / figures['nginx']['rate']:.2f}")


def main():
    given = read_arguments()
    servers = {}
    with tempfile.TemporaryDirectory(prefix="crt-http-calls-") as directory:
        try:
            if given.nginx:
                servers["nginx"] = Nginx(given, directory, 18000 + os.getpid() % 10000)
            servers["crt-http"] = Crt(given, directory)
            report(given, measure(given, servers))
        finally:
            for server in servers.values():
                server.end()


if __name__ == "__main__":
    main()
