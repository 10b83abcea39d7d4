#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_full_disk.py TRAIN_MNIST TRAIN_IMAGES TRAIN_NER NER_CONFIG SHARDED_SERVER

What the training programs do when the disk they save to is full: they end with a sentence that
names the file and the reason, what was saved before stays whole, and no half file is left. The disk
is a small tmpfs in a mount namespace of the test's own.
"""
import os
import subprocess
import sys
import tempfile
import unittest

TRAIN_MNIST, TRAIN_IMAGES, TRAIN_NER, NER_CONFIG, SHARDED_SERVER = sys.argv[1:6]
REASON = "No space left on device"
IMAGES = [
    "--data.limit=200", "--data.test_limit=50", "--data.batch=16", "--network.hidden=24",
    "--training.steps=20", "--checkpoints.every=5"
]

NAMES = [
    "--paths.train=builtin:200", "--paths.dev=builtin:30:1",
    "--components.tok2vec.model.embed.rows=200", "--training.max_steps=8",
    "--training.eval_frequency=4"
]


def files(folder):
    return sorted(os.path.join(at, name) for at, _, names in os.walk(folder) for name in names)


class FullDisk(unittest.TestCase):
    """`self.disk` has 1 MiB; `fill` leaves so many bytes of it."""

    def setUp(self):
        self.disk = os.path.join(directory, "disk")
        os.mkdir(self.disk)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", self.disk], check=True)
        self.addCleanup(lambda:
                        (subprocess.run(["umount", self.disk], check=True), os.rmdir(self.disk)))

    def fill(self, left):
        """Blocks are 4 KiB."""
        with open(os.path.join(self.disk, "ballast"), "wb") as ballast:
            room = os.statvfs(self.disk)
            ballast.write(bytes(room.f_bavail * room.f_bsize - left))

    def fails(self, *words):
        """It ends with 1 and the reason; gives what it said."""
        done = subprocess.run(words, capture_output=True, text=True, timeout=100)
        self.assertEqual(done.returncode, 1, (words, done.stdout, done.stderr))
        self.assertIn(REASON, done.stderr)
        self.assertLess(len(done.stderr.splitlines()), 8, done.stderr)
        return done.stderr

    def saved(self):
        return [file for file in files(self.disk) if not file.endswith("/ballast")]

    def test_weights_that_do_not_fit_are_not_there_at_all(self):
        self.fill(100 << 10)
        said = self.fails(TRAIN_MNIST, "--iterations", "3", "--workers", "1", "--save",
                          f"{self.disk}/weights")
        self.assertIn("weights", said)
        self.assertEqual(self.saved(), [])

    def test_weights_saved_before_stay_when_new_ones_do_not_fit(self):
        words = [
            TRAIN_MNIST, "--iterations", "3", "--workers", "1", "--save", f"{self.disk}/weights"
        ]
        subprocess.run(words, check=True, capture_output=True, timeout=100)
        with open(f"{self.disk}/weights", "rb") as file:
            before = file.read()
        self.fill(100 << 10)
        self.fails(*words)
        with open(f"{self.disk}/weights", "rb") as file:
            self.assertEqual(file.read(), before)
        self.assertEqual(len(self.saved()), 1)

    def test_a_training_ends_at_a_checkpoint_that_does_not_fit_and_goes_on_from_the_one_before(
            self):
        self.ends_and_goes_on("server")

    def test_so_does_one_of_members_that_have_the_weights(self):
        self.ends_and_goes_on("group", "--training.strategy=allreduce", "--devices=2")

    def ends_and_goes_on(self, name, *options):
        words = [
            TRAIN_IMAGES, "train", *IMAGES, *options, f"--checkpoints.folder={self.disk}/c",
            "--checkpoints.keep=0"
        ]
        elsewhere = [
            TRAIN_IMAGES, "train", *IMAGES, *options, f"--checkpoints.folder={directory}/{name}"
        ]
        whole = subprocess.run(elsewhere, check=True, capture_output=True, text=True, timeout=100)
        size = max(os.path.getsize(file) for file in files(f"{directory}/{name}"))
        self.fill(2 * (size + 16384) + size // 2)
        self.fails(*words)
        saved = self.saved()
        self.assertEqual([file for file in saved if file.endswith((".tmp", "~"))], [])
        os.unlink(f"{self.disk}/ballast")
        done = subprocess.run([*words, "--checkpoints.resume"], check=True, capture_output=True,
                              text=True, timeout=100)
        self.assertEqual(
            done.stdout.split("weights: ")[-1].split()[0],
            whole.stdout.split("weights: ")[-1].split()[0])

    def test_a_model_of_names_that_does_not_fit_is_named(self):
        self.fill(64 << 10)
        said = self.fails(TRAIN_NER, "train", NER_CONFIG, "-o", f"{self.disk}/out", *NAMES)
        self.assertIn(f"{self.disk}/out", said)
        self.assertFalse([file for file in self.saved() if "model" in file], self.saved())

    def test_figures_that_do_not_fit_are_told(self):
        self.fill(0)
        for words in ([SHARDED_SERVER, "--elements", "1000", "--csv", f"{self.disk}/figures.csv"], [
                TRAIN_MNIST, "--iterations", "3", "--workers", "1", "--csv",
                f"{self.disk}/figures.csv"
        ], [TRAIN_MNIST, "--iterations", "3", "--workers", "1", "--svg", f"{self.disk}/figures"]):
            with self.subTest(words):
                self.assertIn("figures", self.fails(*words))


if __name__ == "__main__":
    if not os.environ.get("CRT_TEST_IN_NAMESPACE"):
        os.environ["CRT_TEST_IN_NAMESPACE"] = "1"
        os.execvp("unshare",
                  ["unshare", "--user", "--map-root-user", "--mount", sys.executable, *sys.argv])
    with tempfile.TemporaryDirectory(prefix="crt-full-") as directory:
        os.environ["CRT_RUN_DIR"] = os.path.join(directory, "r")
        os.environ["CRT_STATE_DIR"] = os.path.join(directory, "s")
        os.environ.pop("CRT_ADDRESS", None)
        unittest.main(argv=sys.argv[:1])
