#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""keep.py BUILD: keeps this version for the tests of the next ones, in tests/abi/VERSION: the
public headers of libcrt and libcrt_ml, and what abidw says of the libraries. Run once, when a
version is made; from then on its interface does not change."""
import glob
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
FOLDERS = ("runtime", "runtime/base", "collective", "ml", "actors")
# As test_abi.py compares: public types only.
ABIDW = ["abidw", "--drop-private-types", "--no-show-locs", "--no-comp-dir-path",
         "--no-corpus-path", "--exported-interfaces-only", "--no-elf-needed"]


def main(build):
    headers = [path for folder in FOLDERS for path in glob.glob(f"{ROOT}/{folder}/crt*.h*")
               if not path.endswith((".in", "crt_tools.h"))] + [f"{build}/crt_version.h"]
    version = subprocess.run(["meson", "introspect", "--projectinfo", build],
                             stdout=subprocess.PIPE, check=True, text=True).stdout
    version = version.split('"version": "')[1].split('"')[0]
    kept = os.path.join(HERE, version)
    shutil.rmtree(kept, ignore_errors=True)
    os.makedirs(f"{kept}/include")
    for header in headers:
        shutil.copy(header, f"{kept}/include/")
    for library in ("libcrt", "libcrt_ml"):
        subprocess.run([*ABIDW, "--headers-dir", f"{kept}/include", "--out-file",
                        f"{kept}/{library}.abi", f"{build}/{library}.so.{version}"], check=True)
    print(f"{kept}: {len(headers)} headers")


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1]))
