# SPDX-License-Identifier: Apache-2.0
"""A Slurm of this machine's own: munged, slurmctld and several slurmd of one host, in a folder that
goes with it. Needs Debian's munge, slurmctld, slurmd and slurm-client, and root."""
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile

from real_cluster import free_port, until

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scancel", "sinfo")
PATH = os.environ["PATH"] + ":/usr/sbin:/sbin"
PATIENCE = 120


def missing():
    """What is not installed, a text; "" when nothing is."""
    if os.geteuid() != 0:
        return "root"
    return " ".join(name for name in PROGRAMS if not shutil.which(name, path=PATH))


class Slurm:
    """`count` nodes, n0 and so on, of two CPUs each."""

    def __init__(self, count):
        self.folder = tempfile.mkdtemp(prefix="crt-slurm-lab-")
        os.chmod(self.folder, 0o755)
        self.daemons = {}
        socket_path = self.path("munge/socket")
        os.makedirs(self.path("munge"))
        with open(self.path("munge/key"), "wb") as file:
            file.write(os.urandom(128))
        munge = pwd.getpwnam("munge")
        for path in (self.path("munge"), self.path("munge/key")):
            os.chown(path, munge.pw_uid, munge.pw_gid)
        os.chmod(self.path("munge/key"), 0o400)
        os.chmod(self.path("munge"), 0o755)
        host = socket.gethostname().split(".")[0]
        nodes = "".join(f"NodeName=n{i} NodeHostname={host} NodeAddr=127.0.0.1 Port={free_port()} "
                        "CPUs=2 RealMemory=2000 State=UNKNOWN\n" for i in range(count))
        with open(self.path("slurm.conf"), "w", encoding="ascii") as file:
            file.write(f"""ClusterName=crt
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={socket_path}
CredType=cred/munge
SlurmctldPort={free_port()}
SlurmctldPidFile={self.path("ctld.pid")}
SlurmdPidFile={self.path("d.%n.pid")}
SlurmdSpoolDir={self.path("spool.%n")}
StateSaveLocation={self.path("state")}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1
ReturnToService=2
MpiDefault=none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
KillWait=5
SlurmdTimeout=10
InactiveLimit=0
MessageTimeout=30
SlurmdParameters=config_overrides
{nodes}PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
""")
        os.makedirs(self.path("state"))
        self.environment = os.environ | {"SLURM_CONF": self.path("slurm.conf"), "PATH": PATH}
        self._start("munged", "runuser", "-u", "munge", "--", shutil.which("munged", path=PATH),
                    "-F", "--key-file", self.path("munge/key"), "-S", socket_path,
                    "--pid-file", self.path("munge/pid"), "--log-file", self.path("munge/log"),
                    "--seed-file", self.path("munge/seed"))
        until("munged answers", lambda: os.path.exists(socket_path))
        self._start("slurmctld", "slurmctld", "-D", "-f", self.path("slurm.conf"))
        for i in range(count):
            self._start(f"n{i}", "slurmd", "-D", "-N", f"n{i}", "-f", self.path("slurm.conf"))
        until("all nodes are idle", lambda: self.run("sinfo", "-h", "-N", "-o", "%t",
                                                     code=None).split() == ["idle"] * count)

    def path(self, name):
        return os.path.join(self.folder, name)

    def _start(self, name, *argv):
        with open(self.path(name + ".log"), "wb") as log:
            self.daemons[name] = subprocess.Popen(argv, stdout=log, stderr=subprocess.STDOUT,
                                                  env=self.environment)

    def run(self, *argv, code=0, env=None):
        done = subprocess.run(argv, text=True, timeout=PATIENCE, check=False,
                              env=self.environment | (env or {}), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if code is not None and done.returncode != code:
            raise AssertionError((argv, done.returncode, done.stdout))
        return done.stdout

    def end(self):
        self.run("scancel", "-u", "root", code=None)
        for daemon in reversed(self.daemons.values()):
            daemon.send_signal(signal.SIGTERM)
        for daemon in self.daemons.values():
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
