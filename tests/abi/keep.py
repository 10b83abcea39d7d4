#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""keep.py BUILD: keeps this version for the tests of the next ones, in tests/abi/VERSION: the public headers of libcrt, and
what abidw says of the library. Run once, when a version is made; from then on its interface does not change."""
import glob
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
# As test_abi.py compares: public types only.
ABIDW = ["abidw", "--drop-private-types", "--no-show-locs", "--no-comp-dir-path", "--no-corpus-path", "--exported-interfaces-only",
         "--no-elf-needed"]


def main(build):
    headers = [path for folder in ("runtime", "runtime/base", "collective") for path in glob.glob(f"{ROOT}/{folder}/crt*.h*")
               if not path.endswith((".in", "crt_tools.h"))] + [f"{build}/crt_version.h"]
    version = subprocess.run(["meson", "introspect", "--projectinfo", build], stdout=subprocess.PIPE, check=True, text=True).stdout
    version = version.split('"version": "')[1].split('"')[0]
    kept = os.path.join(HERE, version)
    shutil.rmtree(kept, ignore_errors=True)
    os.makedirs(f"{kept}/include")
    for header in headers:
        shutil.copy(header, f"{kept}/include/")
    subprocess.run([*ABIDW, "--headers-dir", f"{kept}/include", "--out-file", f"{kept}/libcrt.abi", f"{build}/libcrt.so.{version}"],
                   check=True)
    print(f"{kept}: {len(headers)} headers")


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1]))
