#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The bare machine: a fresh Debian in a folder, in which a clean copy of the last commit is set up,
# trained and tested by the two commands of the README. Takes its time; needs root, debootstrap and
# the package mirror that this machine's apt uses. Everything is removed at the end.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/cluster/bare_debian.sh [--suite NAME] [--keep] [--into FOLDER] [--] [COMMAND...]

Without COMMAND: examples/quickstart.sh, then tests/run.sh. A COMMAND runs in the source folder
of that Debian instead.
  --suite NAME    bookworm, trixie, sid or another one of Debian (default: this machine's)
  --keep          leave the folder, and use it again the next time
  --into FOLDER   where it is made (default: a temporary folder)
TEXT
}

keep=0
into=
suite=$(. /etc/os-release && printf '%s' "${VERSION_CODENAME:-sid}")
while [ $# -gt 0 ]; do
    case "$1" in
    --suite) suite=${2:?--suite needs a name}; shift ;;
    --keep) keep=1 ;;
    --into) into=${2:?--into needs a folder}; shift ;;
    --help | -h) usage; exit 0 ;;
    --) shift; break ;;
    -*) usage >&2; exit 2 ;;
    *) break ;;
    esac
    shift
done
commands=("$@")
[ ${#commands[@]} -gt 0 ] || commands=(sh -c 'examples/quickstart.sh && tests/run.sh')

[ "$(id -u)" = 0 ] || { echo "bare_debian: needs root" >&2; exit 1; }
command -v debootstrap >/dev/null || { echo "bare_debian: needs debootstrap" >&2; exit 1; }
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
[ -n "$into" ] || into=$(mktemp -d /var/tmp/crt-bare-XXXXXX)
mkdir -p "$into"
into=$(cd "$into" && pwd)
# Mounts are made in a mount namespace of their own (below), so that removing the folder can never
# reach through one.
inside=
clean_up() {
    # The first process in there takes no other signal, and all end with it.
    [ -z "$inside" ] || { kill -KILL "$inside" && wait "$inside" || true; } 2>/dev/null
    [ $keep = 1 ] || rm -rf --one-file-system "$into"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

if [ ! -e "$into/etc/debian_version" ]; then
    # The mirror that this machine's apt uses.
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Component: main' |
        head -n 1)
    echo "bare_debian: $suite into $into"
    debootstrap --variant=minbase "$suite" "$into" "$mirror" >"$into.log" 2>&1 ||
        { tail -n 30 "$into.log"; exit 1; }
    rm -f "$into.log"
    printf 'deb %s %s main\n' "$mirror" "$suite" >"$into/etc/apt/sources.list"
    # How this machine reaches it.
    for part in apt.conf.d auth.conf.d keyrings trusted.gpg.d; do
        [ ! -e "/etc/apt/$part" ] || cp -rL "/etc/apt/$part" "$into/etc/apt/"
    done
    cp -L /etc/resolv.conf /etc/hosts "$into/etc/"
fi

rm -rf "$into/src"
mkdir "$into/src"
git -C "$root" archive HEAD | tar -x -C "$into/src"

# By job control, without which it would ignore SIGINT, as would all tests. The folder is mounted on
# itself: a root is a mount.
set -m
unshare --mount --pid --ipc --uts --fork --kill-child bash -euc '
    mount --rbind "$1" "$1"
    mount -t proc proc "$1/proc"
    mount --rbind /sys "$1/sys"
    mount --rbind /dev "$1/dev"
    mount -t tmpfs tmpfs "$1/dev/shm"
    mount -t tmpfs tmpfs "$1/tmp"
    shift_root=$1
    shift
    # A root of its own, not a chroot, which a process with further mounts of its own would see
    # through.
    cd "$shift_root"
    mkdir -p old-root
    pivot_root . old-root
    cd /
    umount -l old-root
    rmdir old-root
    exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb \
        sh -c "cd /src && exec \"\$@\"" sh "$@"
' bash "$into" "${commands[@]}" <&0 &
inside=$!
set +m
status=0
wait "$inside" || status=$?
inside=
exit $status
