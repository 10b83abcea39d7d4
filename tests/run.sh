#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Sets up, builds and runs every test. The last line is "N passed, N failed, N skipped"; the exit
# status is 0 when nothing failed.
set -uo pipefail

usage() {
    cat <<'TEXT'
usage: tests/run.sh [--quick | --matrix] [--suite NAME]... [--help]

  (no option)    one build with the address and undefined-behaviour sanitizers, all tests
  --quick        of these the unit tests and the checks of the sources
  --matrix       also: release builds of gcc and clang, the thread sanitizer for the folders
                 that have threads, a build with all optional parts off
  --suite NAME   only the tests of this suite (a folder, or unit, lint, cluster, ...)

Build folders are build-* in the source folder. Tests are skipped that need a GPU, or what this
system has no package of, which they say; the dashboard is tested where a browser and what drives it
are installed (setup.sh --with-browser; --matrix installs them), Ray's client where CRT_RAY_PYTHON
names a Python that has ray[default].
TEXT
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" || exit 1
matrix=0
suites=()
while [ $# -gt 0 ]; do
    case "$1" in
    --quick) suites+=(--suite unit --suite lint) ;;
    --matrix) matrix=1 ;;
    --suite) suites+=(--suite "${2:?--suite needs a name}"); shift ;;
    --help | -h) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
    esac
    shift
done
jobs=$(nproc)
tests=$((jobs * 5 / 2)) # most of them wait for something
under=() # what the tests are run under
# Folders whose code runs in more than one thread.
threaded=(--suite base --suite net --suite store --suite core --suite collective --suite actors)
logs=()
failed_builds=()

# What is left out where there is no browser.
without_browser() {
    command -v chromedriver >/dev/null && /usr/bin/python3 -c 'import selenium' 2>/dev/null ||
        printf -- '--no-suite browser'
}

# Ray's client is tested where CRT_RAY_PYTHON names a Python that can import it.
without_ray() {
    [ -n "${CRT_RAY_PYTHON:-}" ] || printf -- '--no-suite ray'
}

# build FOLDER [meson setup options]: configures (again) and compiles; CC is taken from outside.
build() {
    local dir=$1 log="$1/setup.log"
    shift
    mkdir -p "$dir"
    if [ -f "$dir/build.ninja" ]; then
        meson setup --reconfigure "$dir" "$@" >"$log" 2>&1 || { rm -rf "$dir"; mkdir -p "$dir"; }
    fi
    printf '== %s: build\n' "$dir"
    if { [ -f "$dir/build.ninja" ] || meson setup "$dir" "$@" >"$log" 2>&1; } &&
        ninja -C "$dir" -j "$jobs" >"$dir/ninja.log" 2>&1; then
        return 0
    fi
    tail -n 60 "$log" "$dir/ninja.log" 2>/dev/null
    failed_builds+=("$dir")
    return 1
}

# run_tests FOLDER [meson test options]
run_tests() {
    local dir=$1
    shift
    printf '== %s: tests\n' "$dir"
    rm -f "$dir"/meson-logs/testlog*.json
    "${under[@]}" meson test -C "$dir" --no-rebuild --num-processes "$tests" "$@"
    logs+=("$dir/meson-logs/testlog.json")
}

./setup.sh || exit 1

# More optimising takes the compiler longer than it saves the tests. LLVM's linker takes half as
# long as GNU's; it can't link what gcc optimises as one, as in release builds.
! command -v ld.lld >/dev/null || export CC_LD=lld CXX_LD=lld
build build-asan -Doptimization=1 -Ddebug=true -Db_sanitize=address,undefined &&
    run_tests build-asan $(without_browser) $(without_ray) "${suites[@]}"

unset CC_LD CXX_LD

if [ $matrix = 1 ]; then
    ./setup.sh --with-browser || exit 1
    build build-gcc -Dbuildtype=release &&
        run_tests build-gcc $(without_ray) "${suites[@]}"
    CC=clang build build-clang -Dbuildtype=release &&
        run_tests build-clang --no-suite browser --no-suite ray --no-suite lint "${suites[@]}"
    # gcc 12's thread sanitizer does not know addresses randomised by more than 28 bits.
    ! setarch -R true 2>/dev/null || under=(setarch -R)
    build build-tsan -Dbuildtype=debugoptimized -Db_sanitize=thread &&
        run_tests build-tsan --no-suite browser --no-suite ray --no-suite lint "${threaded[@]}"
    under=()
    build build-minimal -Dbuildtype=release -Dauto_features=disabled &&
        run_tests build-minimal --no-suite browser --no-suite ray --no-suite lint "${suites[@]}"
fi

python3 tests/tools/summary.py --broken "${failed_builds[*]}" "${logs[@]}"
