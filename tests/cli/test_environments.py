#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runtime environments of jobs: setup commands and what they print meanwhile, Python environments
by pip, uv and conda, images by podman. pip is the real one, with a wheel of this host; conda, uv
and podman are stand-ins (cluster/images has a real podman).
Usage: test_environments.py CRT JOB_PROGRAM IMAGE_PROGRAM"""
import base64
import glob
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
import zipfile

import images
from real_cluster import until

CRT, JOB_PROGRAM, IMAGE_PROGRAM = map(os.path.abspath, sys.argv[1:4])
PATIENCE = 280
HAS_PIP = subprocess.run(["python3", "-c", "import pip"], stderr=subprocess.DEVNULL,
                         check=False).returncode == 0
CONDA = """#!/bin/sh
[ "$1 $2 $3" = "run --no-capture-output -n" ] || exit 9
echo "conda runs $4"
CONDA_DEFAULT_ENV=$4
export CONDA_DEFAULT_ENV
shift 4
exec "$@"
"""
UV = """#!/bin/sh
case "$1 $2" in
"venv --system-site-packages") [ -z "$(ls "$3")" ] && python3 -m venv --without-pip "$3" ;;
"pip install") [ "$3 $4 $5 $6" = "--python bin/python -r requirements.txt" ] &&
    sed 's/^/uv installs /' requirements.txt ;;
*) exit 9 ;;
esac
"""
# Which keeps what it was asked, and whose images are a tar file.
PODMAN = """#!/bin/sh
echo "$@" >>"$0.asked"
case "$1 $2" in
"image exists") [ "${3%:*}" = localhost/tiny ] ;;
"image inspect") cat "$0.variables" ;;
"pull --quiet") echo "Error: initializing source docker://$3: no such host" >&2; exit 125 ;;
"export --output") cp "$0.tar" "$3" ;;
"rm --force" | "create --name") ;;
*) exit 9 ;;
esac
"""
# As the practical has it.
CPU_YAML = """# RuntimeEnv spec
conda: aims-ray
num_cpus: 1 # Number of CPUs to allocate to the job
num_gpus: 0 # Number of GPUs to allocate to the job
resources: null # Custom resources to allocate to the job
env_vars: # Env vars to set in the job
  KEY: "VALUE"
"""


def make_wheel(folder, word):
    """tiny 1.0, whose `word` is that."""
    files = {
        "tiny.py": f"word = {word!r}\n",
        "tiny-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n",
        "tiny-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\n"
                                    "Root-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    for name, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode()
        record += f"{name},sha256={digest.rstrip('=')},{len(text)}\n"
    files["tiny-1.0.dist-info/RECORD"] = record + "tiny-1.0.dist-info/RECORD,,\n"
    with zipfile.ZipFile(os.path.join(folder, "tiny-1.0-py3-none-any.whl"), "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)


class Environments(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.TemporaryDirectory()
        cls.programs = cls.path("bin")
        os.mkdir(cls.programs)
        for name, text in (("conda", CONDA), ("uv", UV), ("podman", PODMAN)):
            with open(os.path.join(cls.programs, name), "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(file.name, 0o755)
        make_wheel(cls.place.name, "from a wheel")
        podman = os.path.join(cls.programs, "podman")
        variables = images.make(cls.path("image"), IMAGE_PROGRAM, podman + ".tar")
        with open(podman + ".variables", "w", encoding="utf-8") as file:
            file.write("\n".join([*variables, "CRT_STATE_DIR=/nowhere", "", ""]))
        cls.requirements = ["--no-index", f"--find-links {cls.place.name}", "tiny==1.0"]
        os.environ["CRT_STATE_DIR"] = cls.path("state")
        said = cls.start("--head", "--port", "0", "--dashboard-port", "0", "--num-cpus", "2")
        cls.address = re.search(r"--address (\S+) --key-file", said)[1]
        cls.key = re.search(r"--key-file (\S+)", said)[1]

    @classmethod
    def tearDownClass(cls):
        subprocess.run([CRT, "stop", "--address", cls.address], stdout=subprocess.DEVNULL,
                       check=True)
        cls.place.cleanup()

    @classmethod
    def path(cls, *names):
        return os.path.join(cls.place.name, *names)

    @classmethod
    def start(cls, *options):
        path = f"{cls.programs}:{os.environ['PATH']}"
        return subprocess.run([CRT, "start", "--object-store-memory", "50M", *options],
                              env=dict(os.environ, PATH=path), stdout=subprocess.PIPE, text=True,
                              check=True, timeout=PATIENCE).stdout

    def setUp(self):
        self.folder = self.path("folder-" + self.id().rsplit(".", 1)[1])
        os.mkdir(self.folder)

    def words(self, environment, *command, options=()):
        file = self.path("environment.yaml")
        if not isinstance(environment, str):
            environment = json.dumps(environment)  # YAML, too
        with open(file, "w", encoding="utf-8") as out:
            out.write(environment)
        return [
            CRT, "job", "submit", "--address", self.address, "--runtime-env", file, *options, "--",
            *command
        ]

    def submit(self, environment, *command, code=0, options=()):
        done = subprocess.run(self.words(environment, *command, options=options), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                              timeout=PATIENCE)
        self.assertEqual(done.returncode, code, done.stdout)
        return done.stdout

    def packages(self):
        """Folders and environments that are on the disk."""
        return {
            path
            for path in glob.glob(self.path("state", "packages", "*"))
            if not path.endswith(".lock")
        }

    @unittest.skipUnless(HAS_PIP, "this Python has no pip")
    def test_pip_makes_an_environment_once_and_workers_have_it_on_their_node(self):
        line = "import sys, tiny; print(tiny.word, sys.prefix)"
        first = self.submit({"pip": self.requirements}, "python", "-c", line)
        self.assertIn("(crt) pip makes the job's Python environment\n", first)
        self.assertIn("Successfully installed tiny-1.0", first)
        self.assertRegex(first, r"\(crt\) that took [0-9.]+ s\n")
        self.assertRegex(first, rf"from a wheel {self.path('state')}/packages/[0-9a-f]{{64}}\n")
        again = self.submit({"pip": {"packages": self.requirements}, "working_dir": self.folder},
                            "python", "-c", line)
        self.assertIn("from a wheel", again)
        self.assertNotIn("(crt)", again)
        listed = self.path("requirements.txt")
        with open(listed, "w", encoding="utf-8") as file:
            file.write("# of the job\n" + "\n".join(self.requirements) + "\n\n")
        with_setup = self.submit(
            f"pip: {listed}\nworking_dir: {self.folder}\n"
            "setup: python -c 'import tiny; print(\"set up\", tiny.word)'\n", "true")
        self.assertIn("set up from a wheel\n", with_setup)
        self.assertNotIn("pip makes", with_setup)

        self.join("state2", "--resources", "far=1")
        self.submit({"pip": self.requirements}, JOB_PROGRAM, "look")
        made = glob.glob(self.path("state2", "packages", "*", "lib", "*", "*", "tiny.py"))
        self.assertEqual(len(made), 1)

    @unittest.skipUnless(HAS_PIP, "this Python has no pip")
    def test_what_pip_cannot_install_fails_the_job_with_the_end_of_its_log(self):
        before = self.packages()
        said = self.submit({"pip": ["--no-index", "no-such-package-at-all"]}, "python", "-c", "",
                           code=1)
        self.assertIn("Status message: runtime_env setup failed: ", said)
        self.assertRegex(said.split("Status message:")[1],
                         r"no-such-package-at-all.* \| pip install exited with status 1")
        self.assertEqual(self.packages(), before)

    def test_uv_makes_one_where_it_is(self):
        said = self.submit({"uv": ["a>=1", "b"]}, "python", "-c",
                           "import os; print(os.environ['VIRTUAL_ENV'])")
        self.assertIn("uv installs a>=1\nuv installs b\n", said)
        self.assertIn(self.path("state", "packages"), said)

    def test_conda_runs_the_job_as_the_practical_has_it(self):
        said = self.submit(CPU_YAML, "sh", "-c", "echo \"$KEY in $CONDA_DEFAULT_ENV\"")
        self.assertIn("conda runs aims-ray\nVALUE in aims-ray\n", said)
        self.assertIn("num_cpus, num_gpus of the runtime environment: passed over", said)
        program = os.path.join(self.folder, "program")
        with open(program, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\necho \"$0 $1\"\n")
        os.chmod(program, 0o755)
        self.assertIn("/program/program x\n", self.submit(CPU_YAML, program, "x"))
        said = self.submit(
            f"conda: e\nworking_dir: {self.folder}\nsetup: echo $CONDA_DEFAULT_ENV\n",
            "./program", "y")
        self.assertIn("conda runs e\ne\n", said)
        self.assertIn("./program y\n", said)

    def test_a_node_without_the_program_says_so_in_one_sentence(self):
        for tool, value in (("conda", "e"), ("uv", ["a"]), ("pip", ["a"])):
            said = self.submit({tool: value, "env_vars": {"PATH": self.folder}}, "python", code=1)
            name = "python3" if tool == "pip" else tool
            self.assertRegex(
                said, rf"runtime_env setup failed: the job wants .* and there is no {name} in the "
                "PATH of this node: install it there, or let \"setup\" make what the job needs\n")

    def test_what_is_wrong_or_not_supported_is_told_with_the_word_setup(self):
        for text, why in (("conda: environment.yml\n",
                           "name of an environment that the nodes have"),
                          ("conda:\n  dependencies: [a]\n",
                           "environment.yaml:2:3: conda is the name"),
                          ("pip: {packages: [a], pip_check: true}\n", "pip_check is not supported"),
                          ("pip: [a]\nuv: [a]\n", "one of conda, pip and uv, not several"),
                          ("pip: []\n", "1 to 16384 bytes of requirements"),
                          ("pip: /no/such/file\n", "a file of them here; /no/such/file: No such"),
                          ("py_modules: [a]\n", "py_modules is not supported: let \"setup\"")):
            self.assertIn(why, self.submit(text, "python", code=1))

    def join(self, state, *options):
        os.environ["CRT_STATE_DIR"] = self.path(state)
        try:
            self.start("--num-cpus", "1", *options, "--address", self.address)
        finally:
            os.environ["CRT_STATE_DIR"] = self.path("state")

    def test_driver_and_workers_of_a_job_are_in_its_image(self):
        self.join("state3", "--resources", "away=1")
        image = {"image_uri": "localhost/tiny:2"}
        said = self.submit(image, "program", "look", "away")
        self.assertIn("(crt) podman gives the files of the image localhost/tiny:2\n", said)
        self.assertRegex(said, rf"\(look pid=.*\) task: {images.SEEN}, 1048576\n")
        self.assertIn(f"driver: {images.SEEN}, 1\n", said)
        with open(os.path.join(self.programs, "podman.asked"), encoding="utf-8") as file:
            made = re.findall(r"^create --name (\S+) localhost/tiny:2 ", file.read(), re.MULTILINE)
        self.assertEqual((len(made), len(set(made))), (2, 2))  # once on each node
        shutil.copy(IMAGE_PROGRAM, self.folder)
        own = {"working_dir": self.folder, "env_vars": {"IMAGE_WORD": "mine"}}
        again = self.submit(image | own, "./" + os.path.basename(IMAGE_PROGRAM), "look")
        self.assertNotIn("podman gives", again)
        self.assertEqual(again.count("tiny, mine, root is read-only"), 2, again)
        self.assertIn("driver: no image, no word", self.submit({}, IMAGE_PROGRAM, "look"))

    def in_image(self):
        """Processes whose root directory is one of an image."""
        roots = {(s.st_dev, s.st_ino) for s in map(os.stat, glob.glob(
            self.path("state*", "packages", "*", "root")))}
        found = []
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                root = os.stat(f"/proc/{entry}/root")
            except OSError:
                continue
            if (root.st_dev, root.st_ino) in roots:
                found.append(int(entry))
        return found

    def test_a_worker_in_an_image_is_killed_like_any_other_and_leaves_nothing(self):
        words = self.words({"image_uri": "localhost/tiny:1"}, "program", "stay")
        with subprocess.Popen(words, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT) as job:
            pids = (int(pid) for pid in (re.findall(r"^worker (\d+)$", line)
                                         for line in job.stdout) for pid in pid)
            first = next(pids)
            self.assertIn(first, self.in_image())
            os.kill(first, signal.SIGKILL)
            self.assertIn(next(pid for pid in pids if pid != first), self.in_image())
            name = next(row["submission_id"] for row in json.loads(subprocess.run(
                [CRT, "job", "list", "--address", self.address, "--json"], text=True,
                stdout=subprocess.PIPE, check=True).stdout) if row["status"] == "RUNNING")
            subprocess.run([CRT, "job", "stop", "--address", self.address, name],
                           stdout=subprocess.DEVNULL, check=True)
            job.stdout.read()
        until("no process is in the image", lambda: not self.in_image())
        with open("/proc/self/mounts", encoding="utf-8") as file:
            self.assertNotIn(self.path("state"), file.read())

    def test_who_lacks_a_library_for_other_nodes_is_told_once(self):
        self.join("state4", "--resources", "late=1")
        with open(os.path.join(self.folder, "libzmq.so.5"), "w", encoding="ascii"):
            pass
        path = f"{self.folder}:{os.path.dirname(os.path.dirname(CRT))}"
        subprocess.run(
            self.words({"env_vars": {"LD_LIBRARY_PATH": path}}, IMAGE_PROGRAM, "look", "late",
                       options=("--submission-id", "lacks", "--no-wait")),
            stdout=subprocess.DEVNULL, check=True, timeout=PATIENCE)

        def told():
            return subprocess.run([CRT, "job", "logs", "--address", self.address, "lacks"],
                                  text=True, stdout=subprocess.PIPE, check=True,
                                  timeout=PATIENCE).stdout.count("other nodes can't be reached")

        until("it is told", told)
        subprocess.run([CRT, "job", "stop", "--address", self.address, "lacks"],
                       stdout=subprocess.DEVNULL, check=True)
        self.assertEqual(told(), 1)

    def test_an_image_that_can_not_be_had_fails_the_job_in_words(self):
        before = self.packages()
        said = self.submit({"image_uri": "here/no:1"}, "program", code=1)
        self.assertIn("runtime_env setup failed: Error: initializing source docker://here/no:1: no "
                      "such host | the image here/no:1 can't be had here; podman says why", said)
        self.assertEqual(self.packages(), before)
        said = self.submit({"image_uri": "localhost/tiny:1"}, "nothing", code=127)
        self.assertIn("nothing can't be executed in the image: it, or the loader", said)
        for text, why in (("image_uri: [a]\n", "image_uri"),
                          ("image_uri: -x\n", "the name of an image"),
                          ("image_uri: a b\n", "a name without blanks"),
                          ("image_uri: a\npip: [b]\n", "image_uri and \"pip\": let the image"),
                          (f"image_uri: a\nworking_dir: {self.folder}\nsetup: b\n",
                           "image_uri and \"setup\": let")):
            self.assertIn(why, self.submit(text, "program", code=1))

    def test_what_a_setup_command_prints_is_seen_while_it_runs(self):
        go = self.path("go")
        environment = {"working_dir": self.folder,
                       "setup": f"echo begins; until [ -e {go} ]; do sleep 0.1; done; echo ends"}
        with subprocess.Popen(self.words(environment, "echo", "the program"), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as job:
            said = ""
            while "begins\n" not in said:
                line = job.stdout.readline()
                self.assertTrue(line, said)
                said += line
            with open(go, "w", encoding="utf-8"):
                pass
            said += job.stdout.read()
        self.assertEqual(job.returncode, 0, said)
        self.assertRegex(
            said, r"\(crt\) setting up the folder: echo begins; [^\n]*\nbegins\nends\n"
            r"\(crt\) that took [0-9.]+ s\n(.*\n)*the program\n")

    def test_a_setup_that_takes_longer_than_its_job_allows_is_ended(self):
        said = self.submit({"working_dir": self.folder, "setup": "echo begins; sleep 600",
                            "config": {"setup_timeout_seconds": 1}}, "true", code=1)
        self.assertIn("runtime_env setup failed: it took longer than 1 s", said)

    def test_jobs_at_the_same_time_share_one_setup(self):
        count = self.path("count")
        environment = {"working_dir": self.folder, "setup": f"echo x >>{count}; sleep 1"}
        jobs = []
        for _ in range(6):
            words = self.words(environment, "true", options=("--no-wait",))
            said = subprocess.run(words, text=True, stdout=subprocess.PIPE, check=True,
                                  timeout=PATIENCE).stdout
            jobs.append(re.search(r"Job '(\S+)' submitted", said)[1])
        for job in jobs:
            said = subprocess.run([CRT, "job", "logs", "--address", self.address, "-f", job],
                                  text=True, stdout=subprocess.PIPE, check=True,
                                  timeout=PATIENCE).stdout
            self.assertIn("succeeded", said)
        with open(count, encoding="utf-8") as file:
            self.assertEqual(file.read(), "x\n")

    def test_a_setup_command_that_fails_leaves_nothing_and_may_be_tried_again(self):
        before, go = self.packages(), self.path("may")
        environment = {"working_dir": self.folder, "setup": f"touch half; echo why; test -e {go}"}
        said = self.submit(environment, "ls", code=1)
        self.assertRegex(said, r"runtime_env setup failed: why \| the setup command \".*\" exited "
                         "with status 1")
        self.assertEqual(self.packages(), before)
        with open(go, "w", encoding="utf-8"):
            pass
        self.assertIn("half\n", self.submit(environment, "ls"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
