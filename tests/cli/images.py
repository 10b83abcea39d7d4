# SPDX-License-Identifier: Apache-2.0
"""A small image for tests: a program and what it needs of this machine, without a registry."""
import os
import re
import shutil
import subprocess

SEEN = "tiny, inside, root is read-only"  # as image_program says it


def libraries(file):
    said = subprocess.run(["ldd", file], text=True, stdout=subprocess.PIPE, check=True).stdout
    return set(re.findall(r"(/\S+) \(0x", said))


def make(folder, program, tar):
    """The files of an image in `folder`, which is made, and in `tar`: libraries under the names
    that they have here, the program as /app/program. Its variables, NAME=VALUE."""
    needed = libraries(program)
    listed = subprocess.run(["/sbin/ldconfig", "-p"], text=True, stdout=subprocess.PIPE,
                            check=True).stdout
    late = re.search(r"libzmq\.so\.5 .*=> (\S+)", listed)[1]  # libcrt opens it when it needs it
    needed |= {late, *libraries(late)}
    for source, target in [(program, "/app/program"), *((path, path) for path in needed)]:
        os.makedirs(os.path.dirname(folder + target), exist_ok=True)
        shutil.copy(source, folder + target)
    with open(folder + "/image-name", "w", encoding="ascii") as file:
        file.write("tiny\n")
    subprocess.run(["tar", "-cf", tar, "-C", folder, "."], check=True)
    folders = ":".join(sorted({os.path.dirname(path) for path in needed}))
    return ["IMAGE_WORD=inside", f"LD_LIBRARY_PATH={folders}", "PATH=/app"]
