#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds crt for arm64 on another processor, and runs what can be run of its tests under qemu-user:
# the unit tests. qemu runs threads of the guest as threads of the host, so that the order of memory
# is the host's; what is shown is that the code compiles, and is right in its sizes, alignments and
# kernels.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/arm64.sh [--build FOLDER] [--help] [TEST...]

Cross-builds crt for arm64 and runs its unit tests under qemu-user. TEST: names of tests, as meson
test takes them (default: the suite unit, without simulations, fuzz targets and what qemu can't do).
  --build FOLDER   where it is built (default: build-arm64 in the source folder); the libraries for
                   arm64 are unpacked into FOLDER.root

Wants Debian's cross compiler and qemu (setup.sh --with-arm64) and the package mirror that apt uses;
nothing is installed into the system.
TEXT
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build-arm64
while [ $# -gt 0 ]; do
    case "$1" in
    --build) build=$(realpath -m "${2:?--build needs a folder}"); shift ;;
    --help | -h) usage; exit 0 ;;
    -*) usage >&2; exit 2 ;;
    *) break ;;
    esac
    shift
done
sysroot=$build.root
prefix=aarch64-linux-gnu

say() { printf 'arm64: %s\n' "$*"; }
die() { printf 'arm64: %s\n' "$*" >&2; exit 1; }

qemu=$(command -v qemu-aarch64-static || command -v qemu-aarch64 || true)
command -v $prefix-gcc >/dev/null && [ -n "$qemu" ] ||
    die "no cross compiler or qemu: run ./setup.sh --with-arm64"

# Headers and libraries that Debian has for arm64: unpacked, not installed.
unpack_libraries() {
    local state=$sysroot.apt lib=$sysroot/usr/lib row choice names=()
    local options=(-qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o "Dir::State=$state"
        -o "Dir::State::status=$state/status" -o "Dir::Cache=$state/cache" -o Debug::NoLocking=1
        -o APT::Sandbox::User=root -o APT::Install-Recommends=false)
    rm -rf "$sysroot" "$state"
    mkdir -p "$state/lists/partial" "$state/cache/archives/partial" "$lib" "$sysroot/usr/bin"
    : >"$state/status"
    ln -s usr/lib "$sysroot/lib"
    ln -s usr/bin "$sysroot/bin"
    apt-get "${options[@]}" update ||
        die "apt-get update failed for arm64; does the mirror have it?"
    # Of each library of the table in docs/building.md the first choice that apt knows.
    while read -r row; do
        for choice in ${row// or / }; do
            [ -n "$(apt-cache "${options[@]}" show "$choice" 2>/dev/null)" ] || continue
            names+=("$choice")
            break
        done
    done < <(sed -n 's/^| *\(build\|parts\|tests\) *|[^|]*|[^|]*| *\([^|]*[^| ]\) *|.*/\2/p' \
        "$root/docs/building.md" |
        grep -E '^(lib.*|zlib1g)-dev' | grep -vE '^(libc6|libclang)')
    apt-get "${options[@]}" --download-only -y install libc6-dev libgcc-s1 libstdc++6 \
        "${names[@]}" >"$state/log" 2>&1 ||
        { tail -n 20 "$state/log" >&2; die "apt-get could not fetch the libraries for arm64"; }
    for package in "$state"/cache/archives/*.deb; do
        dpkg-deb --fsys-tarfile "$package" | tar -x -C "$sysroot" --exclude='./dev/*'
    done
    rm -rf "$state"
    # Alternatives, which an installation would have made.
    for library in blas lapack openblas; do
        find "$lib/$prefix" -path "*/openblas-*/lib$library.so*" \
            -exec ln -sf -t "$lib/$prefix" {} + || true
    done
    touch "$sysroot/complete"
}

[ -e "$sysroot/complete" ] || { say "libraries into $sysroot"; unpack_libraries; }
if [ ! -e "$build/build.ninja" ]; then
    mkdir -p "$build"
    cat >"$build.ini" <<TEXT
[binaries]
c = ['$prefix-gcc', '--sysroot=$sysroot']
cpp = ['$prefix-g++', '--sysroot=$sysroot']
ar = '$prefix-ar'
strip = '$prefix-strip'
pkgconfig = 'pkg-config'
exe_wrapper = ['$qemu', '-L', '$sysroot']
[properties]
sys_root = '$sysroot'
pkg_config_libdir = ['$sysroot/usr/lib/$prefix/pkgconfig',
    '$sysroot/usr/lib/$prefix/openblas-pthread/pkgconfig',
    '$sysroot/usr/lib/pkgconfig', '$sysroot/usr/share/pkgconfig']
needs_exe_wrapper = true
[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'aarch64'
endian = 'little'
TEXT
    meson setup "$build" "$root" --cross-file "$build.ini" -Dbuildtype=debugoptimized \
        >"$build/setup.log" 2>&1 ||
        { tail -n 30 "$build/setup.log" >&2; die "meson setup failed"; }
fi
ninja -C "$build"
# Not these: they look at a process from outside (its memory, its instructions, its threads, its
# group), where qemu is to be seen; or hold deadlines that qemu does not.
outside='base/memory net/stream_peers store/store store/trim store/steps core/zygote'
outside+=' node/supervisor'
if [ $# = 0 ]; then
    mapfile -t names < <(
        meson test -C "$build" --list --suite unit --no-suite sim --no-suite fuzz --no-suite lint \
            2>/dev/null | sed -n 's/^crt:[^ ]* \/ //p' | grep -vxF "${outside// /$'\n'}")
    set -- "${names[@]}"
fi
meson test -C "$build" --no-rebuild --timeout-multiplier 10 "$@"
