#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a container image of the crt of this host. No registry, no base image and no root is needed:
# the image is the tree that `crt archive` writes, the C library of this host, and busybox.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: packaging/container/build.sh [--crt FILE] [--tag NAME] [--with-ml] [--engine COMMAND]
                                    [PROGRAM...]

Makes an image with crt, redis-server, the C library of this host and busybox, for a user that is
not root. It runs where the root file system can't be written, with /tmp and /var/lib/crt as
volumes. Each PROGRAM goes to /app, which Jobs submit (packaging/kubernetes/job.yaml).
  --crt FILE        the crt that goes in, as it was built or installed; default: that of the PATH
  --tag NAME        of the image; default: localhost/crt:VERSION, with --with-ml crt-ml
  --with-ml         with libcrt_ml, OpenBLAS and oneDNN, for programs with models
  --engine COMMAND  podman (default), docker, or either with options
  --help            this text
TEXT
}

die() { printf 'build.sh: %s\n' "$*" >&2; exit 1; }

crt=crt tag='' engine=podman name=crt programs=() without_ml=--without-ml
while [ $# -gt 0 ]; do
    case "$1" in
    --crt) crt=${2:?} && shift ;;
    --tag) tag=${2:?} && shift ;;
    --engine) engine=${2:?} && shift ;;
    --with-ml) without_ml='' name=crt-ml ;;
    --help | -h) usage; exit 0 ;;
    -*) usage >&2; die "no such option: $1" ;;
    *) programs+=("$1") ;;
    esac
    shift
done

crt=$(command -v "$crt") || die "there is no crt: build it, and say by --crt where it is"
crt=$(readlink -f "$crt")
command -v busybox >/dev/null || die "there is no busybox: apt-get install busybox-static"
version=$("$crt" version)
tag=${tag:-localhost/$name:${version#crt }}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root

# The loader and the C library, where a program looks for them.
add_c_library() {
    local loader folder library
    loader=$(ldd "$crt" | sed -n 's|^\t\(/[^ ]*/ld-[^ ]*\) .*|\1|p')
    folder=$(dirname "$(ldd "$crt" | sed -n 's|^\tlibc\.so\.6 => \([^ ]*\) .*|\1|p')")
    if [ -z "$loader" ] || [ "$folder" = . ]; then
        die "$crt is not linked with glibc"
    fi
    install -D -m 755 "$loader" "$root$loader"
    for library in libc.so.6 libm.so.6 libmvec.so.1 libresolv.so.2 libpthread.so.0 libdl.so.2 \
        librt.so.1 libutil.so.1 libanl.so.1; do
        [ ! -e "$folder/$library" ] ||
            install -D -m 755 "$folder/$library" "$root$folder/$library"
    done
}

# Half of an image without models is ICU's data, which libxml2 needs for character sets, libarchive
# links for archives in XML, and crt never asks for. Where a compiler is, it becomes an empty one.
empty_icu_data() {
    local file name
    file=$(find "$root/usr/libexec/crt/lib" -name 'libicudata.so.*')
    name=${file##*/}
    [ -n "$file" ] && command -v cc >/dev/null || return 0
    printf 'const char icudt%s_dat[64] = {0};' "${name##*.}" |
        cc -shared -fPIC -nostdlib -s "-Wl,-soname,$name" -o "$file" -x c -
}

add_busybox() {
    local applet
    install -m 755 "$(readlink -f "$(command -v busybox)")" "$root/usr/bin/busybox"
    ! ldd "$root/usr/bin/busybox" 2>/dev/null | grep -q "not found" || die "busybox does not run"
    for applet in $(busybox --list); do
        [ -e "$root/usr/bin/$applet" ] || ln -s busybox "$root/usr/bin/$applet"
    done
}

add_settings() {
    local certificates=/etc/ssl/certs/ca-certificates.crt
    printf 'root:x:0:0::/:/bin/sh\ncrt:x:65532:65532::/tmp:/bin/sh\n' >"$root/etc/passwd"
    printf 'root:x:0:\ncrt:x:65532:\n' >"$root/etc/group"
    printf 'hosts: files dns\n' >"$root/etc/nsswitch.conf"
    [ ! -e "$certificates" ] || install -D -m 644 "$certificates" "$root$certificates"
}

mkdir -p "$root"/{etc,proc,sys,dev,run,tmp,usr/bin,usr/lib,usr/lib64,var/lib/crt}
for name in bin lib lib64; do
    ln -s "usr/$name" "$root/$name"
done
# shellcheck disable=SC2086
"$crt" archive $without_ml --output "$work/crt.tar.gz" >/dev/null
tar -xzf "$work/crt.tar.gz" -C "$root/usr"
add_c_library
empty_icu_data
add_busybox
add_settings
for program in ${programs[@]+"${programs[@]}"}; do
    install -D -m 755 "$program" "$root/app/${program##*/}"
done
chmod 1777 "$root/tmp"
mkdir "$work/context"
pack=(tar --format=gnu --numeric-owner --sort=name --mtime=@0 -C "$root")
"${pack[@]}" --owner=0 --group=0 --exclude=./var/lib/crt -cf "$work/context/root.tar" .
"${pack[@]}" --owner=65532 --group=65532 -rf "$work/context/root.tar" ./var/lib/crt
cp "$here/Containerfile" "$work/context/"
# shellcheck disable=SC2086
$engine build --quiet --tag "$tag" --file "$work/context/Containerfile" "$work/context" >/dev/null
printf '%s: %s, %d MB\n' "$tag" "$version" \
    "$(($(stat -c %s "$work/context/root.tar") / 1000000))"
