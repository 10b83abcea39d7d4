#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs the fuzz targets, one after the other, each for so many minutes.
#
#     tests/fuzz/run.sh [MINUTES [TARGET...]]        default: 30, all
#
# With clang: libFuzzer with address and undefined behaviour sanitizers, in build-fuzz; what it
# found interesting stays in build-fuzz/corpus/TARGET and is where the next run begins. Without:
# tests/fuzz/driver.c with one seed after the other, in build-asan. An input that ends a target is
# named; it lies in build-fuzz/found, or is made again by the seed. One that takes more than 15
# minutes is a hang: less may be a machine that stood still, as a laptop does.
set -u
cd "$(dirname "$0")/../.." || exit 1
minutes=${1:-30}
shift
targets=("$@")
if [ ${#targets[@]} = 0 ]; then
    for file in tests/fuzz/fuzz_*.c; do
        name=${file##*/fuzz_}
        targets+=("${name%.c}")
    done
fi
failed=0

with_libfuzzer() { # TARGET
    local corpus=$PWD/build-fuzz/corpus/$1 # a target may change its directory
    mkdir -p "$corpus" build-fuzz/found
    build-fuzz/tests/fuzz/fuzz_"$1" --corpus "$corpus" || return
    build-fuzz/tests/fuzz/libfuzzer_"$1" -max_total_time=$((minutes * 60)) -timeout=900 \
        -rss_limit_mb=4096 -print_final_stats=1 -artifact_prefix="$PWD/build-fuzz/found/$1-" \
        "$corpus" > build-fuzz/"$1".log 2>&1
}

with_driver() { # TARGET
    local end=$((SECONDS + minutes * 60)) seed=$RANDOM
    while [ $SECONDS -lt $end ]; do
        seed=$((seed + 1))
        build-asan/tests/fuzz/fuzz_"$1" 5000 $seed > build-asan/fuzz-"$1".log 2>&1 || return
    done
}

if command -v clang > /dev/null; then
    how=with_libfuzzer log=build-fuzz/
    [ -d build-fuzz ] || CC=clang CFLAGS=-fsanitize=fuzzer-no-link meson setup build-fuzz \
        -Dbuildtype=debugoptimized -Db_sanitize=address,undefined -Db_lundef=false \
        -Dlibfuzzer=true -Dwerror=false || exit 1
    names=()
    for target in "${targets[@]}"; do
        names+=(tests/fuzz/fuzz_"$target" tests/fuzz/libfuzzer_"$target")
    done
    ninja -j"${NINJA_JOBS:-2}" -C build-fuzz "${names[@]}" || exit 1
else
    how=with_driver log=build-asan/fuzz-
    [ -d build-asan ] || meson setup build-asan -Doptimization=1 -Ddebug=true \
        -Db_sanitize=address,undefined || exit 1
    ninja -C build-asan || exit 1
fi
export ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
for target in "${targets[@]}"; do
    if $how "$target"; then
        echo "$target: nothing found in $minutes minutes"
    else
        echo "$target: FAILED, see $log$target.log"
        tail -20 $log"$target".log
        failed=1
    fi
done
exit $failed
