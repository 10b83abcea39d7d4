#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Installs below a DESTDIR, moves the tree away, and there builds and runs a CMake project that
says find_package(crt): a program of crt::crt on a cluster of its own, and one of crt::crt_ml.
Versions and components that do not fit are refused.
Usage: test_cmake.py BUILD_ROOT SANITIZERS PROGRAM_C PROGRAM_EXPECTED PROGRAM_ML_C
PROGRAM_ML_EXPECTED"""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from sources import skip

BUILD, SANITIZERS, *PROGRAMS = sys.argv[1:7]
PROJECT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cmake")


def cmake(*words, code=0):
    done = subprocess.run(["cmake", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)
    if (done.returncode == 0) != (code == 0):
        raise AssertionError(f"cmake {' '.join(words)}: exit {done.returncode}\n{done.stdout}")
    return done.stdout


class Cmake(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.TemporaryDirectory(prefix="crt-cmake-")
        staged, cls.prefix = (os.path.join(cls.place.name, part) for part in ("stage", "moved"))
        subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--destdir", staged],
                       check=True, stdout=subprocess.DEVNULL)
        bottom = next(where for where, folders, _ in os.walk(staged) if "include" in folders)
        os.rename(bottom, cls.prefix)
        shutil.rmtree(staged)

    @classmethod
    def tearDownClass(cls):
        cls.place.cleanup()

    def configure(self, project, *more, code=0):
        """In a fresh build folder, which it returns with what was said."""
        built = tempfile.mkdtemp(dir=self.place.name)
        flags = "" if SANITIZERS == "none" else f"-fsanitize={SANITIZERS}"
        return built, cmake("-G", "Ninja", "-S", project, "-B", built,
                            f"-DCMAKE_PREFIX_PATH={self.prefix}", f"-DCMAKE_C_FLAGS={flags}",
                            f"-DPROGRAM={PROGRAMS[0]}", f"-DPROGRAM_ML={PROGRAMS[2]}", *more,
                            code=code)

    def asking(self, what):
        """A project that only asks for a package."""
        project = tempfile.mkdtemp(dir=self.place.name)
        with open(os.path.join(project, "CMakeLists.txt"), "w", encoding="utf-8") as file:
            file.write(
                f"cmake_minimum_required(VERSION 3.16)\nproject(asking C)\nfind_package({what})\n")
        return project

    def test_a_project_outside_builds_and_runs_against_a_tree_that_was_moved(self):
        built, _ = self.configure(PROJECT)
        cmake("--build", built)
        for name, expected in (("outside", PROGRAMS[1]), ("outside_ml", PROGRAMS[3])):
            said = subprocess.run([os.path.join(built, name)], stdout=subprocess.PIPE, text=True,
                                  timeout=120, check=True).stdout
            with open(expected, encoding="utf-8") as file:
                self.assertEqual(said, file.read())

    def test_the_same_minor_version_will_do_and_no_other(self):
        for version in ("0", "0.2", "0.2.0", "0.2.0 EXACT"):
            self.configure(self.asking(f"crt {version} REQUIRED"))
        for version in ("0.0", "0.1", "0.3", "0.2.1", "1", "1.0"):
            _, said = self.configure(self.asking(f"crt {version} REQUIRED"), code=1)
            self.assertIn("0.2.0", said)

    def test_a_component_that_is_none_is_refused_by_name(self):
        _, said = self.configure(self.asking("crt REQUIRED COMPONENTS crt_nothing"), code=1)
        self.assertIn("crt has no component crt_nothing", " ".join(said.split()))

    def test_an_installation_without_a_library_is_not_found(self):
        libraries = next(where for where, _, names in os.walk(self.prefix)
                         if "libcrt_ml.so.0.2" in names)
        library = os.path.join(libraries, "libcrt_ml.so.0.2")
        os.rename(library, library + ".away")
        try:
            _, said = self.configure(self.asking("crt REQUIRED"), code=1)
            self.assertIn("there is no libcrt_ml.so.0.2 in", " ".join(said.split()))
        finally:
            os.rename(library + ".away", library)


if __name__ == "__main__":
    if not shutil.which("cmake"):
        skip("cmake")
    unittest.main(argv=sys.argv[:1])
