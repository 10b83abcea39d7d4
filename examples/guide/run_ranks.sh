#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run_ranks.sh CRT PROGRAM EXPECTED: exit 0 when the lines of four ranks, sorted, are EXPECTED.
set -eu
output=$("$1" run --object-store-memory 64M --ranks 4 -- "$2")
printf '%s\n' "$output" | LC_ALL=C sort | diff -u "$3" -
