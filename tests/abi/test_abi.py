#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_abi.py BUILD: programs and libraries of different versions, see docs/abi.md."""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD, SOURCE = sys.argv.pop(1), os.path.dirname(os.path.abspath(__file__))
KEPT = sorted(name for name in os.listdir(SOURCE) if re.fullmatch(r"\d+\.\d+\.\d+", name))
HERE = os.path.join(BUILD, "tests", "abi")
TODAY, GROWN = BUILD, HERE
DAEMONS = ("runtime/node/crt-node", "runtime/node/crt-unpack", "runtime/control/crt-head")
CASES = {"abi": ("tasks", "actors", "groups"),
         "abi_ml": ("models", "checkpoints", "layers", "input", "optimizer", "schedule", "images",
                    "factories", "entities", "entity_options", "selection", "batching", "servers",
                    "workers", "trainers", "image_workers")}
FOLDERS = ("runtime/base", "runtime", "collective", "ml", "actors")
PUBLIC = ("crt.h", "crt_collective.h", "crt_util.h", "crt_define.h", "crt_dlpack.h")
PUBLIC_ML = ("crt_actors.h", "crt_configuration.h", "crt_ml_gpu.h", "crt_ner.h", "crt_networks.h")


def of_ml(version):
    """Whether programs of that version run with this libcrt_ml: they are made for one minor
    version."""
    return os.path.exists(os.path.join(HERE, f"abi_ml_{version}"))


def run(program, library, *words):
    """(status, what it printed) of a program with the library in that folder."""
    with tempfile.TemporaryDirectory() as daemons:
        for path in DAEMONS:
            os.symlink(os.path.join(BUILD, path), os.path.join(daemons, os.path.basename(path)))
        env = dict(os.environ, LD_LIBRARY_PATH=library, CRT_LIBEXEC=daemons)
        loaded = subprocess.run(["ldd", os.path.join(HERE, program)], env=env,
                                stdout=subprocess.PIPE, text=True, check=True).stdout
        folder = re.escape(os.path.realpath(library))
        for name in ["crt", "crt_ml"] if "_ml_" in program else ["crt"]:
            assert re.search(rf"lib{name}\.so\.[\d.]+ => {folder}/", loaded), loaded
        done = subprocess.run([os.path.join(HERE, program), *words], env=env,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=120, check=False)
        return done.returncode, done.stdout


def difference(described, library):
    """What abidiff says, "" when the library serves all programs of that version. Public types
    only."""
    with tempfile.TemporaryDirectory() as headers:
        for folder in FOLDERS:
            for path in glob.glob(os.path.join(SOURCE, "..", "..", folder, "crt*.h")):
                shutil.copy(path, headers)
        done = subprocess.run(["abidiff", "--no-added-syms", "--drop-private-types",
                               "--headers-dir2", headers, "--suppressions",
                               os.path.join(SOURCE, "grows.abignore"), described, library],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False)
    return done.stdout if done.returncode else ""


def members(text):
    """(struct, member) of the public structs of a header."""
    text = re.sub(r"/\*.*?\*/|#[^\n]*(?:\\\n[^\n]*)*", "", text, flags=re.DOTALL)
    for struct, body in re.findall(r"typedef struct (\w+) \{(.*?)\n\} \w+;", text, re.DOTALL):
        # By its own name.
        body = re.sub(r"(union|struct) \{.*\}", "struct nested", body, flags=re.DOTALL)
        for declaration in filter(str.strip, body.split(";")):
            pointer = re.search(r"\(\*(\w+)\)", declaration)
            names = [pointer[1]] if pointer else [
                re.sub(r"\[.*", "", part).split()[-1].lstrip("*")
                for part in declaration.split(",")]
            yield from ((struct, name) for name in names)


def layout(headers, wanted, with_ml):
    """Where the members are, by the headers in these folders; a struct or member that is gone is an
    error."""
    program = "".join(f"#include <{name}>\n" for name in PUBLIC + (PUBLIC_ML if with_ml else ()))
    program += "#include <stdio.h>\nint main(void) {\n"
    program += "".join(f'printf("{s}.{m} %zu %zu\\n", offsetof(struct {s}, {m}), '
                       f'sizeof(((struct {s} *)0)->{m}));\n' for s, m in wanted)
    with tempfile.TemporaryDirectory() as folder:
        source, binary = os.path.join(folder, "layout.c"), os.path.join(folder, "layout")
        with open(source, "w", encoding="utf-8") as file:
            file.write(program + "return 0; }\n")
        subprocess.run(["cc", *[f"-I{header}" for header in headers], "-o", binary, source,
                        "-Wl,--unresolved-symbols=ignore-all"], check=True)
        return subprocess.run([binary], stdout=subprocess.PIPE, text=True,
                              check=True).stdout.splitlines()


class Versions(unittest.TestCase):
    def works(self, program, library):
        status, said = run(program, library)
        self.assertEqual(status, 0, said)
        self.assertIn("all done", said)

    def test_a_program_runs_with_the_library_of_its_headers(self):
        for program in CASES:
            self.works(f"{program}_today", TODAY)
            self.works(f"{program}_grown_set", GROWN)

    def test_an_older_program_runs_with_a_library_whose_structs_have_grown(self):
        for program in CASES:
            self.works(f"{program}_today", GROWN)

    def test_programs_of_all_kept_versions_run_with_this_library(self):
        for version in KEPT:
            self.works(f"abi_{version}", TODAY)
            self.works(f"abi_{version}", GROWN)
            if of_ml(version):
                self.works(f"abi_ml_{version}", TODAY)
                self.works(f"abi_ml_{version}", GROWN)

    def test_each_member_of_the_kept_versions_is_where_it_was(self):
        root = os.path.join(SOURCE, "..", "..")
        today = [BUILD, *[os.path.join(root, folder) for folder in FOLDERS]]
        grown = [HERE, *[os.path.join(HERE, folder) for folder in FOLDERS], *today]
        ml = {os.path.basename(path) for folder in FOLDERS[-2:]
              for path in glob.glob(os.path.join(root, folder, "crt_*.h"))}
        for version in KEPT:
            kept = os.path.join(SOURCE, version, "include")
            wanted = []
            for path in sorted(glob.glob(f"{kept}/*.h")):
                if os.path.basename(path) in ml and not of_ml(version):
                    continue
                with open(path, encoding="utf-8") as file:
                    wanted += members(file.read())
            self.assertGreater(len(wanted), 100)
            self.assertEqual(layout([kept], wanted, of_ml(version)),
                             layout(today, wanted, of_ml(version)))
            # A newer version has them, too: new members stand behind.
            self.assertEqual(layout([kept], wanted, of_ml(version)),
                             layout(grown, wanted, of_ml(version)))

    @unittest.skipUnless(shutil.which("abidiff"), "there is no abidiff")
    def test_nothing_that_programs_of_the_last_version_use_has_changed(self):
        described = os.path.join(SOURCE, KEPT[-1], "libcrt.abi")
        library = os.path.join(BUILD, "libcrt.so")
        self.assertEqual(difference(described, library), "")
        if of_ml(KEPT[-1]):
            self.assertEqual(difference(os.path.join(SOURCE, KEPT[-1], "libcrt_ml.abi"),
                                        os.path.join(BUILD, "libcrt_ml.so")), "")
        with open(described, encoding="utf-8") as file:
            text = file.read()
        breaks = {"a function is gone": (r"(name='crt_)get_v'", r"\1got_v'"),
                  "a status has another number": (r"(name='CRT_ERR_TIMED_OUT' value=')[^']*'",
                                                  r"\g<1>-99'")}
        for what, (pattern, instead) in breaks.items():
            broken, count = re.subn(pattern, instead, text)
            self.assertGreater(count, 0, what)
            with tempfile.NamedTemporaryFile("w", suffix=".abi") as file:
                file.write(broken)
                file.flush()
                self.assertNotEqual(difference(file.name, library), "", what)

    def test_a_newer_program_that_uses_nothing_new_runs_with_an_older_library(self):
        for program in CASES:
            self.works(f"{program}_grown", TODAY)

    def test_what_an_older_library_does_not_have_is_refused_by_name(self):
        for program, cases in CASES.items():
            for case in cases:
                status, said = run(f"{program}_grown_set", TODAY, case)
                self.assertEqual(status, 1, said)
                self.assertRegex(said,
                                 r"CRT_ERR_UNSUPPORTED: .*(CRT_|crt_)\w+( and its like)?: a member "
                                 r"at byte \d+ is set that crt \S+ does not have")


if __name__ == "__main__":
    unittest.main()
