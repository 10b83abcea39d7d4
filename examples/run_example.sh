#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run_example.sh PROGRAM EXPECTED: exit 0 when the program's stdout is EXPECTED.
set -eu
output=$("$1")
printf '%s\n' "$output" | diff -u "$2" -
