# SPDX-License-Identifier: Apache-2.0
"""Hosts of hosts.py that are reached by ssh: a desk, which has crt, and hosts without anything of
it, each with an sshd. What crt needs of this machine, redis-server and libraries, is hidden there.
"""
import os
import re
import subprocess

import hosts

CONFIG = "ssh_config"
HOME = hosts.HOME
LIBRARIES = re.compile(r"=> (\S+/lib(?:sodium|zmq|jansson|hiredis|websockets|openblas|dnnl|archive|"
                       r"smartcols|dw|norm|pgm)[-.\w]*\.so[.\d]*)")
SSHD = "/usr/sbin/sshd"


def _needed(prefix):
    """Libraries that crt needs and that the programs of a bare system don't."""
    found = set()
    for folder, _, names in os.walk(prefix):
        for name in names:
            path = os.path.join(folder, name)
            if "." in name and ".so" not in name or os.path.islink(path):
                continue
            said = subprocess.run(["ldd", path], stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, text=True, check=False).stdout
            found |= {os.path.realpath(lib) for lib in LIBRARIES.findall(said)}
    return sorted(found)


def _write(host, path, text):
    with open(host.path(path), "w", encoding="utf-8") as file:
        file.write(text)


def read(host, path):
    with open(host.path(path), encoding="utf-8") as file:
        return file.read()


class Desk:
    """Where the user sits. `hosts` are those of the cluster."""

    def __init__(self, lab, names):
        self.lab, self.host = lab, lab.host("desk")
        lab.hidden += [*_needed(os.path.join(hosts.SPACE, "prefix")), "/usr/bin/redis-server",
                       "/usr/bin/redis-check-rdb", "/usr/bin/valkey-server"]
        lab.has_crt = False
        self.host.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "id")
        self.hosts = [self._with_sshd(name) for name in names]
        _write(self.host, CONFIG, f"Host *\n  User root\n  IdentityFile {HOME}/id\n"
               f"  UserKnownHostsFile {HOME}/known_hosts\n  GlobalKnownHostsFile /dev/null\n" +
               "".join(f"Host {h.name}\n  HostName {h.ip}\n" for h in self.hosts))
        _write(self.host, "known_hosts",
               "".join(f"{h.ip} {read(h, 'host_key.pub')}" for h in self.hosts))

    def _with_sshd(self, name):
        host = self.lab.host(name)
        host.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "host_key")
        self.host.give("id.pub", host, "id.pub")
        passed = "".join(f' "{name}={value}"' for name, value in host.environment().items()
                         if hosts.KEPT_VARIABLES.match(name))
        _write(host, "sshd_config", f"ListenAddress {host.ip}\nHostKey {HOME}/host_key\n"
               f"AuthorizedKeysFile {HOME}/id.pub\nStrictModes no\nUsePAM no\nPidFile none\n" +
               (f"SetEnv{passed}\n" if passed else ""))
        host.run("mkdir", "-p", "/run/sshd")
        sshd = host.start(SSHD, "-D", "-e", "-f", f"{HOME}/sshd_config")
        sshd.wait_line("Server listening", 20)
        return host

    def write(self, path, text):
        _write(self.host, path, text)

    def crt(self, *arguments, **more):
        return self.host.run("crt", *arguments, **more)
