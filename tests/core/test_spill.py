#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""More objects than the store holds: they are written to files and read again, exactly; and if that
can't be, the error says why.
Usage: test_spill.py CRT SPILL_PROGRAM HANGING_DISK"""
import concurrent.futures
import ctypes
import glob
import os
import shutil
import signal
import struct
import sys
import tempfile
import unittest
import unittest.mock

from real_cluster import Cluster, Driver, run

CRT, PROGRAM, HANGING_DISK = sys.argv[1:4]
MIB = 1 << 20
STORE = 16 * MIB


def spilled_files(pid):
    """Paths under which the files of a daemon can be opened: they have no names."""
    found = []
    for path in glob.glob(f"/proc/{pid}/fd/*"):
        try:
            target = os.readlink(path)
        except OSError:
            continue
        if "(deleted)" in target and "/memfd:" not in target and os.path.isfile(path):
            found.append((path, target))
    return found


SCHED_SETATTR, SCHED_GETATTR = {"x86_64": (314, 315)}.get(os.uname().machine, (274, 275))
SLICE_NS = 100_000_000


def slice_of(thread):
    """How long it may compute before others have their turn, in ns."""
    attributes = ctypes.create_string_buffer(48)
    if ctypes.CDLL(None).syscall(SCHED_GETATTR, thread, attributes, 48, 0) != 0:
        return 0
    return struct.unpack("IIQiIQQQ", attributes.raw)[5]


def knows_slices():
    """By a thread that ends: whether this kernel lets one choose."""
    def choose():
        attributes = struct.pack("IIQiIQQQ", 48, 0, 0, os.getpriority(os.PRIO_PROCESS, 0), 0,
                                 SLICE_NS, 0, 0)
        ctypes.CDLL(None).syscall(SCHED_SETATTR, 0, attributes, 0)
        return slice_of(0) == SLICE_NS

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(choose).result()


class Spill(unittest.TestCase):

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="crt-spill-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.dir)

    def start(self, *options, cpus=1, store="16M", dirs=None):
        self.cluster = Cluster(CRT, "--num-cpus", cpus, "--spill-dir", dirs or self.dir, *options,
                               store=store, soon=60)
        self.addCleanup(self.cluster.stop)
        return self.driver()

    def driver(self, **variables):
        driver = Driver(PROGRAM, **variables)
        self.addCleanup(driver.end)
        return driver

    def daemon(self):
        return self.cluster.nodes()[0]["pid"]

    def files(self):
        return [path for path, target in spilled_files(self.daemon())
                if target.startswith(self.dir)]

    def test_who_wakes_up_need_not_wait_for_the_threads_of_the_disk(self):
        if not knows_slices():
            self.skipTest("needs Linux 6.12")
        self.start()
        threads = [int(name) for name in os.listdir(f"/proc/{self.daemon()}/task")]
        self.assertEqual(sum(slice_of(thread) == SLICE_NS for thread in threads), 3)
        self.assertLess(slice_of(self.daemon()), SLICE_NS)

    def test_four_times_the_store_is_written_and_read_back_in_random_order(self):
        driver = self.start()
        driver.ok("put", 64, MIB)
        self.assertTrue(self.files())
        self.assertEqual(os.listdir(self.dir), [])
        self.assertEqual(driver.ok("get"), str(64 * MIB))
        self.cluster.wait_for(lambda: not self.files())

    def test_status_and_memory_tell_what_is_on_disk(self):
        driver = self.start()
        driver.ok("put", 40, MIB)
        self.cluster.wait_for(lambda: self.cluster.nodes()[0]["spilled_bytes"] > 20 * MIB)
        node = self.cluster.nodes()[0]
        self.assertEqual(node["spill_trouble"], "")
        self.assertRegex(run(CRT, "status"), r"; \d+\.\d MiB in \d+ objects on disk")
        said = run(CRT, "memory")
        self.assertRegex(said, r"\d+ bytes are on disk")

    def test_small_objects_are_spilled_together(self):
        driver = self.start()
        driver.ok("put", 6000, 8000)
        self.assertEqual(len(self.files()), 1)
        self.assertEqual(driver.ok("get"), str(6000 * 8000))

    def test_results_of_tasks_are_spilled_and_are_arguments_of_tasks(self):
        driver = self.start()
        driver.ok("make", 40, MIB)
        self.assertEqual(driver.ok("sum", driver.ok("node")), str(40 * MIB))
        self.assertEqual(driver.ok("get"), str(40 * MIB))

    def test_another_node_is_given_spilled_objects(self):
        driver = self.start()
        driver.ok("put", 40, 3 * MIB // 2)
        other = self.cluster.add("--num-cpus", 1)
        self.assertEqual(driver.ok("sum", other), str(60 * MIB))

    def test_an_object_as_large_as_the_store_finds_room_and_a_larger_one_never(self):
        driver = self.start()
        driver.ok("put", 14, MIB)
        driver.ok("put", 1, 15 * MIB)
        driver.ok("put", 2, 12 * MIB)
        status, text = driver.ask("put", 1, 20 * MIB)
        self.assertEqual(status, "CRT_ERR_TOO_LARGE")
        self.assertIn("the store holds", text)
        self.assertEqual(driver.ok("get"), str(53 * MIB))

    def test_what_is_in_use_stays_and_then_the_error_names_the_largest_users(self):
        driver = self.start()
        driver.ok("put", 14, MIB)
        driver.ok("hold", 14)
        status, text = driver.ask("put", 1, 3 * MIB)
        self.assertEqual(status, "CRT_ERR_STORE_FULL")
        self.assertRegex(text, r"largest users: process \w+ \(pid \d+\)")

    def test_a_changed_file_is_never_read_as_data(self):
        driver = self.start()
        driver.ok("put", 40, MIB)
        for path in self.files():
            with open(path, "r+b") as file:
                size = os.fstat(file.fileno()).st_size
                for at in range(0, size, 100_000):
                    file.seek(at)
                    file.write(b"x")
        status, text = driver.ask("get")
        self.assertEqual(status, "CRT_ERR_OBJECT_LOST")
        self.assertIn("somebody changed it", text)

    def test_what_tasks_made_is_made_again_after_its_file_was_cut(self):
        driver = self.start()
        driver.ok("make", 40, MIB)
        for path in self.files():
            os.truncate(path, 1000)
        self.assertEqual(driver.ok("get"), str(40 * MIB))

    def test_the_limit_is_told(self):
        driver = self.start("--spill-limit", "2M")
        status, text = driver.ask("put", 40, MIB)
        self.assertEqual(status, "CRT_ERR_STORE_FULL")
        self.assertIn("(--spill-limit)", text)
        count = int(driver.ok("count"))
        self.assertGreaterEqual(count, 14)
        self.assertEqual(driver.ok("get"), str(count * MIB))

    def test_one_job_leaves_room_on_the_disk_to_another(self):
        driver = self.start("--spill-limit", "16M")
        status, text = driver.ask("put", 60, MIB)
        self.assertEqual(status, "CRT_ERR_STORE_FULL")
        job = self.cluster.status()["jobs"][0]["job_id"]
        said = f"the job whose id ends with {job[-4:]} has 1[012] MiB on disk"
        self.assertRegex(text, said)
        self.cluster.wait_for(lambda: self.cluster.nodes()[0]["spill_trouble"])
        self.assertRegex(run(CRT, "memory"), said)
        count = int(driver.ok("count"))
        driver.ok("drop", 10)  # of memory
        other = self.driver()
        other.ok("put", 12, MIB)
        self.assertEqual(driver.ok("get"), str((count - 10) * MIB))
        self.assertEqual(other.ok("get"), str(12 * MIB))

    def test_without_spilling_a_full_store_is_an_error(self):
        self.cluster = Cluster(CRT, "--num-cpus", 1, "--no-spill", store="16M", soon=60)
        self.addCleanup(self.cluster.stop)
        driver = self.driver()
        status, text = driver.ask("put", 40, MIB)
        self.assertEqual(status, "CRT_ERR_STORE_FULL")
        self.assertIn("nothing is spilled to disk", text)

    def test_a_put_that_waits_for_room_on_a_node_that_is_killed_names_the_node(self):
        self.cluster = Cluster(CRT, "--num-cpus", 1, "--no-spill", store="16M", soon=60)
        self.addCleanup(self.cluster.stop)
        driver = self.driver()
        driver.ok("put", 13, MIB)
        victim = self.daemon()
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            asked = pool.submit(driver.ask, "put", 1, 8 * MIB)
            os.kill(victim, signal.SIGKILL)
            status, text = asked.result()
        self.assertEqual(status, "CRT_ERR_NODE_LOST", text)

    def test_a_put_waits_for_a_daemon_that_does_not_run_just_now(self):
        self.start()
        driver = self.driver(CRT_STORE_TIMEOUT="300ms")
        driver.ok("put", 13, MIB)
        daemon = self.daemon()
        os.kill(daemon, signal.SIGSTOP)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            try:
                asked = pool.submit(driver.ask, "put", 13, MIB)
                with self.assertRaises(concurrent.futures.TimeoutError):
                    asked.result(timeout=1.5)  # five times as long as it waits otherwise
            finally:
                os.kill(daemon, signal.SIGCONT)
            self.assertEqual(asked.result()[0], "CRT_OK")
        self.assertEqual(driver.ok("get"), str(26 * MIB))

    def test_two_directories_and_two_nodes_in_one(self):
        other = os.path.join(self.dir, "other")
        os.mkdir(other)
        driver = self.start(dirs=f"{self.dir},{other}")
        self.cluster.join("--num-cpus", 1, "--spill-dir", self.dir)
        driver.ok("put", 40, MIB)
        self.assertEqual(driver.ok("get"), str(40 * MIB))

    def test_a_directory_that_can_not_be_used_ends_the_start_with_a_sentence(self):
        for where, reason in (("/nowhere/at/all", "No such file"), ("/proc/self", "no file can be"),
                              ("relative", "begin with /"), (__file__, "is no directory")):
            said = run(CRT, "start", "--head", "--port", 0, "--dashboard-port", 0, "--spill-dir",
                       where, status=1)
            self.assertIn("--spill-dir", said)
            self.assertIn(reason, said)
        said = run(CRT, "start", "--head", "--port", 0, "--dashboard-port", 0, "--spill-dir",
                   self.dir, "--no-spill", status=1)
        self.assertIn("only one of them", said)

    def test_nothing_is_left_of_a_daemon_that_is_killed_while_it_writes(self):
        """What its tasks had made is made again on another node: the driver's has no CPU."""
        driver = self.start(cpus=0)
        driver.ok("count")  # it has joined that node
        self.cluster.join("--num-cpus", 1, "--spill-dir", self.dir)
        victim = None
        for _ in range(int(os.environ.get("CRT_KILL_ROUNDS", 1))):
            # The head may hear of the death of the one before a little later than the driver.
            victim = next(node["pid"] for node in self.cluster.nodes()
                          if node["state"] == "ALIVE" and node["resources_total"].get("CPU")
                          and node["pid"] != victim)

            def kill(pid=victim):
                self.cluster.wait_for(lambda: spilled_files(pid))
                self.cluster.join("--num-cpus", 1, "--spill-dir", self.dir)
                os.kill(pid, signal.SIGKILL)

            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                killed = pool.submit(kill)
                driver.ok("make", 40, MIB)
                killed.result()
            self.assertEqual(driver.ok("get"), str(40 * MIB))
            self.assertEqual(os.listdir(self.dir), [])

    def test_a_full_disk_loses_nothing_and_is_told(self):
        run("mount", "-t", "tmpfs", "-o", "size=16m", "spill", self.dir)
        self.addCleanup(run, "umount", "-l", self.dir)
        filler = os.path.join(self.dir, "filler")
        with open(filler, "wb") as file:
            file.write(bytes(15 * MIB))
        driver = self.start()
        status, text = driver.ask("put", 60, MIB)
        self.assertEqual(status, "CRT_ERR_STORE_FULL")
        self.assertIn("spilling to disk fails: No space left on device", text)
        self.assertRegex(text, r"largest users: process \w+ \(pid \d+\)")
        self.cluster.wait_for(lambda: "No space left" in self.cluster.nodes()[0]["spill_trouble"])
        events = run(CRT, "list", "cluster-events")
        self.assertIn("spilling to disk fails", events)
        count = int(driver.ok("count"))
        self.assertGreaterEqual(count, 13)
        os.unlink(filler)
        driver.ok("put", 8, MIB)  # there is room again
        self.assertEqual(driver.ok("get"), str((count + 8) * MIB))

    def test_a_disk_that_becomes_read_only_loses_nothing_and_serves_again(self):
        run("mount", "-t", "tmpfs", "-o", "size=100m", "spill", self.dir)
        self.addCleanup(run, "umount", "-l", self.dir)
        driver = self.start()
        run("mount", "-o", "remount,ro", self.dir)
        status, text = driver.ask("put", 40, MIB)
        self.assertEqual(status, "CRT_ERR_STORE_FULL")
        self.assertIn("spilling to disk fails: Read-only file system", text)
        self.assertRegex(text, r"largest users: process \w+ \(pid \d+\)")
        count = int(driver.ok("count"))
        run("mount", "-o", "remount,rw", self.dir)
        driver.ok("put", 40, MIB)
        self.assertEqual(driver.ok("get"), str((count + 40) * MIB))

    def start_on_hanging_disk(self):
        """A driver whose node's disk hangs as soon as something is to be written."""
        fifo = os.path.join(self.dir, "gate")
        os.mkfifo(fifo)
        preloaded = {"LD_PRELOAD": HANGING_DISK, "CRT_TEST_HANGING_DISK": fifo, "ASAN_OPTIONS":
                     os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"}
        with unittest.mock.patch.dict(os.environ, preloaded):
            driver = self.start()
        driver.ok("put", 13, MIB)
        self.cluster.wait_for(
            lambda: "does not answer" in self.cluster.nodes()[0]["spill_trouble"])
        return driver, fifo

    def test_a_disk_that_hangs_holds_up_nobody_who_finds_room(self):
        driver, fifo = self.start_on_hanging_disk()
        driver.ok("put", 1, MIB)
        driver.ok("make", 5, 70000)
        status, text = driver.ask("put", 4, MIB)
        self.assertEqual(status, "CRT_ERR_STORE_FULL")
        self.assertIn("the disk that it spills to does not answer", text)
        self.assertRegex(text, r"largest users: process \w+ \(pid \d+\)")
        count = int(driver.ok("count"))
        gate = os.open(fifo, os.O_WRONLY)  # it answers again
        os.unlink(fifo)
        os.close(gate)
        driver.ok("put", 20, MIB)
        self.cluster.wait_for(lambda: self.cluster.nodes()[0]["spill_trouble"] == "")
        self.assertEqual(driver.ok("get"), str((count - 5 + 20) * MIB + 5 * 70000))

    def test_a_node_whose_disk_hangs_can_be_stopped(self):
        self.start_on_hanging_disk()
        self.doCleanups()  # crt stop fails when a daemon does not end


if __name__ == "__main__":
    if not os.environ.get("CRT_TEST_IN_NAMESPACE"):  # for a disk of a few MiB
        os.environ["CRT_TEST_IN_NAMESPACE"] = "1"
        os.execvp("unshare",
                  ["unshare", "--user", "--map-root-user", "--mount", sys.executable, *sys.argv])
    unittest.main(argv=sys.argv[:1])
