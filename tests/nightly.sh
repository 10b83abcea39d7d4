#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What takes a night: long fuzzing, many seeds of the simulations, chaos, the thread sanitizer and
# static analysis.
set -uo pipefail

usage() {
    cat <<'TEXT'
usage: tests/nightly.sh [--hours H] [--brief] [--part NAME]... [--record] [--help]

Runs the parts one after the other and prints a table of what came of them; the exit status is 0
when nothing failed.
  --hours H     about how long all parts take: 1 (default) to 12; fuzz and chaos get what is left
  --brief       a little of each part, to see that it still runs: minutes, beside the builds
  --part NAME   only this one of: static sim tsan chaos hosts fuzz
  --record      writes the table to docs/nightly.md; rows of parts that do not run now stay

What the parts need beside ./setup.sh: ./setup.sh --with-nightly (cppcheck, clang-tidy, clang).
Builds are build-* folders of the source folder. Logs lie in build-nightly/.
TEXT
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" || exit 1
hours=1 brief=0 record=0
parts=()
while [ $# -gt 0 ]; do
    case "$1" in
    --hours) hours=${2:?--hours needs a number}; shift ;;
    --part) parts+=("${2:?--part needs a name}"); shift ;;
    --brief) brief=1 ;;
    --record) record=1 ;;
    --help | -h) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
    esac
    shift
done
[[ $hours =~ ^([1-9]|1[0-2])$ ]] || { echo "nightly: --hours takes 1 to 12" >&2; exit 2; }
[ $brief = 0 ] || [ $record = 0 ] || {
    echo "nightly: --record is for whole parts, not for --brief" >&2
    exit 2
}
all_parts="static sim tsan chaos hosts fuzz"
[ ${#parts[@]} -gt 0 ] || read -ra parts <<<"$all_parts"
logs=$root/build-nightly
mkdir -p "$logs"
export ASAN_OPTIONS=handle_sigill=1 # undefined behaviour says where it was (meson.build)
declare -A rows
failed=0

need() { # PROGRAM...
    local program
    for program; do
        command -v "$program" >/dev/null && continue
        echo "needs $program: ./setup.sh --with-nightly"
        return 1
    done
}

build() { # FOLDER [meson setup options]: prints nothing but what went wrong
    local dir=$1
    shift
    if { [ -f "$dir/build.ninja" ] || meson setup "$dir" "$@"; } >"$logs/build.log" 2>&1 &&
        ninja -C "$dir" >>"$logs/build.log" 2>&1; then
        return 0
    fi
    echo "$dir does not build: $logs/build.log"
    return 1
}

# What clang-tidy found, as "file check line", without what tests/tools/clang_tidy.txt has.
tidy_findings() { # LOG
    local said='^([^ ]*/)?\.\./([^:]+):([0-9]+):[0-9]+: (warning|error): .*\[(.*)\]$'
    sed -nE "s#$said#\2 \5 \3#p" "$1" | sort -u |
        awk 'NR == FNR { known[$1 " " $2] = 1; next } !(($1 " " $2) in known)' \
            tests/tools/clang_tidy.txt -
}

# Each part prints one line that says what was seen, and fails when something was found.

static() {
    local found folders=(runtime collective ml actors cli examples)
    [ $brief = 0 ] || folders=(runtime/base)
    need cppcheck clang-tidy-14 || return
    build build-release -Dbuildtype=release || return
    cppcheck -q -j "$(nproc)" --std=c11 --enable=warning,portability,performance --inline-suppr \
        --suppressions-list=tests/tools/cppcheck.txt -I. -Iruntime -Iruntime/base -Icollective \
        -Iml -Iactors -Ibuild-release \
        --template='{file}:{line}: {id}: {message}' "${folders[@]}" \
        >"$logs/cppcheck.log" 2>&1
    git ls-files "${folders[@]}" | grep '\.c$' | grep -v '^examples/' |
        xargs -P "$(nproc)" -n 8 clang-tidy-14 -quiet -p build-release \
            --extra-arg=-Wno-unknown-warning-option >"$logs/clang-tidy.log" 2>/dev/null
    found=$(grep -cE '^[^ ]+:[0-9]+' "$logs/cppcheck.log") || true
    found="cppcheck $found"
    found+=", clang-tidy $(tidy_findings "$logs/clang-tidy.log" | wc -l)"
    found+=" findings"
    echo "$found"
    [ "$found" = "cppcheck 0, clang-tidy 0 findings" ]
}

sim() {
    local seeds=10000
    [ "$hours" -lt 4 ] || seeds=$((seeds * hours / 2))
    [ $brief = 0 ] || seeds=100
    build build-release -Dbuildtype=release || return
    tests/sim/run.sh "$seeds" build-release >"$logs/sim.log" 2>&1
    local status=$?
    CRT_TEST_TRACES=$seeds build-release/tests/control/test_control_autoscaler \
        >"$logs/autoscaler.log" 2>&1 || status=1
    echo "$seeds seeds of each simulation: $(tail -n 1 "$logs/sim.log")"
    return $status
}

tsan() {
    local under=() status suites=() suite
    for suite in base util daemon net store core collective actors; do
        [ $brief = 1 ] && [ $suite != base ] || suites+=(--suite $suite)
    done
    # gcc 12's thread sanitizer does not know addresses randomised by more than 28 bits.
    ! setarch -R true 2>/dev/null || under=(setarch -R)
    build build-tsan -Dbuildtype=debugoptimized -Db_sanitize=thread || return
    "${under[@]}" meson test -C build-tsan --no-rebuild --num-processes "$(nproc)" \
        --no-suite browser --no-suite ray --no-suite lint "${suites[@]}" >"$logs/tsan.log" 2>&1
    status=$?
    echo "thread sanitizer: $(awk '/^Ok:/{ok=$2} /^Fail:/{bad=$2} /^Timeout:/{late=$2}
        END{print ok " passed, " bad + late " failed"}' "$logs/tsan.log")"
    return $status
}

chaos() {
    local seconds=$((600 * hours)) seed status
    [ $brief = 0 ] || seconds=60
    seed=$(date +%Y%m%d)
    build build-asan -Doptimization=1 -Ddebug=true -Db_sanitize=address,undefined || return
    tests/chaos/chaos.py --seed "$seed" --seconds "$seconds" --rate 1 --hoard 128 \
        --build build-asan >"$logs/chaos.log" 2>&1
    status=$?
    echo "seed $seed, $((seconds / 60)) minutes, a fault a second, stores too small by half:" \
        "$(tail -n 1 "$logs/chaos.log")"
    return $status
}

hosts() {
    local which=(all) what="all its tests"
    [ $brief = 0 ] || which=() what="its shorter tests"
    build build-asan -Doptimization=1 -Ddebug=true -Db_sanitize=address,undefined || return
    tests/tools/isolated.py tests/cli/test_up.py build-asan/cli/crt "${which[@]}" \
        >"$logs/hosts.log" 2>&1
    local status=$?
    echo "crt up with $what: $(tail -n 1 "$logs/hosts.log")"
    return $status
}

fuzz() {
    local targets=() minutes status
    targets=(tests/fuzz/fuzz_*.c)
    targets=("${targets[@]##*/fuzz_}")
    targets=("${targets[@]%.c}")
    [ $brief = 0 ] || targets=(message record)
    minutes=$(((hours * 60 - 40) / ${#targets[@]}))
    [ "$minutes" -ge 1 ] && [ $brief = 0 ] || minutes=1
    need clang || return
    tests/fuzz/run.sh "$minutes" "${targets[@]}" >"$logs/fuzz.log" 2>&1
    status=$?
    echo "${#targets[@]} targets, $minutes minutes each: $(tail -n 1 "$logs/fuzz.log")"
    return $status
}

for part in "${parts[@]}"; do
    [ "$(type -t "$part")" = function ] && [[ " $all_parts " == *" $part "* ]] ||
        { echo "nightly: there is no part $part" >&2; exit 2; }
done
on="$(date +%Y-%m-%d), $(git rev-parse --short HEAD)"
for part in "${parts[@]}"; do
    began=$SECONDS
    if said=$("$part"); then came=passed; else came=failed failed=1; fi
    row="| $part | $came | $(((SECONDS - began + 59) / 60)) | $on | ${said//$'\n'/ } |"
    rows[$part]=$row
    printf '%s\n' "$row"
done

# The row of a part that did not run now is the one of its last run.
row_of() { # PART
    echo "${rows[$1]:-$(grep "^| $1 |" docs/nightly.md 2>/dev/null)}"
}
if [ $record = 1 ]; then
    table=$(for part in $all_parts; do row_of "$part"; done | grep .)
    {
        echo "# The last night"
        echo
        echo "Written by \`tests/nightly.sh --record\`, which says what the parts do. The run of"
        echo "every change is \`tests/run.sh\`. $(nproc) processors," \
            "$(. /etc/os-release && echo "$PRETTY_NAME")."
        echo
        echo "| part | | minutes | commit | |"
        echo "|---|---|---|---|---|"
        echo "$table"
    } >docs/nightly.md
fi
exit $failed
