#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From a clone to a trained model: installs what is needed, builds, and trains a small network on
# drawn digits with a parameter server and two workers, on a cluster that it starts and ends.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

"$root/setup.sh" --without-tests
build=$root/build-release
printf 'quickstart: building in %s\n' "$build"
mkdir -p "$build"
[ -f "$build/build.ninja" ] ||
    meson setup "$build" "$root" -Dbuildtype=release -Dtests=false >"$build/setup.log" 2>&1 ||
    { tail -n 30 "$build/setup.log" >&2; exit 1; }
ninja -C "$build" >"$build/ninja.log" 2>&1 || { tail -n 30 "$build/ninja.log" >&2; exit 1; }

printf 'quickstart: training on 2 workers; "iteration accuracy" as it rises\n'
# A cluster that runs here already is for other programs: it is not seen from this run directory.
run=$(mktemp -d)
trap 'rm -rf "$run"' EXIT
env -u CRT_ADDRESS CRT_RUN_DIR="$run" "$build/examples/train_mnist" --data builtin --mode sync \
    --workers 2 "$@"
