#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh [SEEDS] [BUILD]: every scenario of the simulation under so many seeds (10000), on all
# processors. BUILD is a build directory, best a release one (build); its programs are made first.
# All seeds run; those that fail are listed at the end, with the command that plays each again.
set -eu
cd "$(dirname "$0")/../.."
seeds=${1:-10000} build=${2:-build} jobs=$(nproc)
scenarios="session objects control spill"
programs=$build/tests/sim
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

ninja -C "$build" $(for s in $scenarios system; do echo "tests/sim/sim_$s"; done) >"$out/ninja" ||
    { cat "$out/ninja"; exit 1; }
piece=$(((seeds + jobs - 1) / jobs))
for s in $scenarios; do
    for ((from = 1; from <= seeds; from += piece)); do
        count=$((from + piece > seeds + 1 ? seeds + 1 - from : piece))
        "$programs/sim_$s" --from $from --seeds $count --failures 1000000 \
            >"$out/$s.$from" 2>&1 || true &
    done
    wait
    grep -ah "^$s: " "$out/$s".* || echo "$s: ended early"
done
"$programs/sim_system" --seeds "$seeds" --jobs "$jobs" --failures 1000000 \
    >"$out/system.1" 2>&1 || true
grep -ah "^system: " "$out/system.1" || echo "system: ended early"

# A run that ended early (an assertion) has named its seed, too.
grep -ahE "^seed [0-9]+( failed|:)" "$out"/*.[0-9]* >"$out/failed" || true
[ -s "$out/failed" ] || [ -n "$(grep -aL "seeds, " "$out"/*.[0-9]*)" ] || {
    echo "all seeds hold"
    exit 0
}
cat "$out/failed"
exit 1
