#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what crt needs to build, to run and to be tested, on Debian and Ubuntu, by apt.
# Safe to run again: what is there is left alone, and then neither root nor network is needed.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: ./setup.sh [--without-tests] [--with-cuda] [--with-browser] [--with-mpi] [--with-iperf3]
                  [--with-slurm] [--with-kubernetes] [--with-prometheus] [--with-arm64]
                  [--with-nightly] [--help]

Installs the Debian packages that crt is built from and tested with (as root, or by sudo): those of
the table in docs/building.md, which says what each is for.
  --without-tests  what building and training needs, and the optional parts of crt
  --with-cuda      headers and libraries of CUDA, cuBLAS, cuDNN, NVRTC and NCCL, from the Python
                   registry's nvidia wheels (2 GB), into build-cuda/ of this folder, unless a
                   toolkit with them is in CUDA_HOME (default /usr/local/cuda). Build with:
                   meson setup ... -Dgpu_root=$PWD/build-cuda
  --with-browser   chromium, and what drives it, for the test of the dashboard; axe-core, which
                   checks its accessibility, from the Python registry into build-browser/ of this
                   folder
  --with-iperf3    iperf3, which build/tests/bench/transfer runs beside crt
  --with-mpi       Open MPI (20 MB), which build/tests/bench/collective runs beside crt
  --with-slurm     slurmctld, slurmd and munge, under which tests/cli/test_slurm.py runs
  --with-kubernetes  podman and busybox, of which packaging/container/build.sh makes an image, and
                   which tests/cluster/test_kubernetes.py plays; Kubernetes' schemas from the Python
                   registry, into build-kubernetes/ of this folder
  --with-prometheus  prometheus, whose promtool tests/http/test_metrics.py asks
  --with-arm64     a cross compiler for arm64 and qemu-user, for tests/arm64.sh
  --with-nightly   cppcheck, clang and clang-tidy, for tests/nightly.sh
  --help           this text
TEXT
}

# nvcc: for the headers in include/crt, which those of the runtime include.
cuda_wheels=(nvidia-cuda-runtime-cu12 nvidia-cuda-nvcc-cu12 nvidia-cuda-nvrtc-cu12
    nvidia-cublas-cu12 nvidia-cudnn-cu12 nvidia-nccl-cu12)

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

is_installed() {
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# Prints "GROUP|FOR|CHOICE CHOICE ..." of every row of the table in docs/building.md.
table() {
    local group='\(build\|parts\|tests\)' cell='\([^|]*[^| ]\)'
    sed -n "s/^| *$group *|[^|]*| *$cell *| *$cell *|.*/\1|\2|\3/p" "$root/docs/building.md" |
        sed 's/ or / /g'
}

# Rows of the wanted groups of which no choice is installed.
missing_rows() {
    local row choice
    for row; do
        for choice in ${row##*|}; do
            is_installed "$choice" && continue 2
        done
        printf '%s\n' "$row"
    done
}

# The first choice that apt knows; of a row without one the group decides whether it can be done
# without.
choose_packages() {
    local row choice for_what
    for row; do
        for choice in ${row##*|}; do
            if [[ $(apt-cache policy "$choice" 2>/dev/null) =~ 'Candidate: '[^\(] ]]; then
                packages+=("$choice")
                continue 2
            fi
        done
        for_what=${row#*|} for_what=${for_what%|*}
        case "$row" in
        build*) die "apt knows no package ${row##*|}: $for_what (docs/building.md)" ;;
        *) say "apt knows no package ${row##*|}, so that this is left out: $for_what" ;;
        esac
    done
}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -- "$@"; fi
}

# Packages with a service start it when installed; crt needs the program redis-server only, and
# a server on the default port is nothing that the user asked for.
hold_services() {
    [ -e /usr/sbin/policy-rc.d ] && return
    printf '#!/bin/sh\nexit 101\n' | as_root tee /usr/sbin/policy-rc.d >/dev/null
    as_root chmod 755 /usr/sbin/policy-rc.d
    trap 'as_root rm -f /usr/sbin/policy-rc.d' EXIT
}

# install_rows ROW...: "GROUP|FOR|CHOICE CHOICE ..."
install_rows() {
    local packages=()
    command -v apt-get >/dev/null ||
        die "no apt-get here: docs/building.md has the names of the packages on Fedora, Arch and" \
            "Alpine"
    [ "$(id -u)" = 0 ] || command -v sudo >/dev/null ||
        die "needs root or sudo to install: ${*##*|}"
    as_root apt-get -qq update || die "apt-get update failed; is the package mirror reachable?"
    choose_packages "$@"
    [ ${#packages[@]} -gt 0 ] || return 0
    say "installing ${#packages[@]} packages by apt: ${packages[*]}"
    hold_services
    as_root env DEBIAN_FRONTEND=noninteractive LC_ALL=C \
        apt-get -qq install -y --no-install-recommends "${packages[@]}" >/dev/null ||
        die "apt-get could not install all of: ${packages[*]}"
    if [[ " ${packages[*]} " =~ ' '((redis|valkey)-server)' ' ]] && [ -d /run/systemd/system ]; then
        as_root systemctl disable --quiet "${BASH_REMATCH[1]}" || true
        say "the packaged service is left disabled; crt starts servers of its own"
    fi
}

install_cuda() {
    local into="$root/build-cuda" wheel place
    for place in "${CUDA_HOME:-/usr/local/cuda}" "$into"; do
        if [ -e "$place/include/cuda_runtime_api.h" ] && [ -e "$place/include/nccl.h" ] &&
            [ -e "$place/include/cudnn.h" ] && [ -e "$place/include/crt/host_defines.h" ]; then
            say "CUDA, cuDNN and NCCL are in $place"
            return
        fi
    done
    command -v pip3 >/dev/null || install_rows "build|wheels from the Python registry|python3-pip"
    say "fetching ${cuda_wheels[*]}"
    rm -rf "$into"
    mkdir -p "$into/wheels"
    pip3 download -q --no-deps --only-binary :all: -d "$into/wheels" "${cuda_wheels[@]}" ||
        { rm -rf "$into"; die "pip3 could not download the nvidia wheels"; }
    for wheel in "$into"/wheels/*.whl; do
        python3 -m zipfile -e "$wheel" "$into/unpacked"
    done
    mkdir -p "$into/include" "$into/lib"
    cp -r "$into"/unpacked/nvidia/*/include/. "$into/include/"
    cp -r "$into"/unpacked/nvidia/*/lib/. "$into/lib/"
    rm -rf "$into/wheels" "$into/unpacked"
    say "CUDA, cuDNN and NCCL are in build-cuda; build with -Dgpu_root=$into and run with" \
        "LD_LIBRARY_PATH=$into/lib"
}

# axe-core is no package of Debian; this wheel has its one file.
install_axe() {
    local into="$root/build-browser"
    [ ! -d "$into/axe_playwright_python" ] || return 0
    command -v pip3 >/dev/null || install_rows "build|wheels from the Python registry|python3-pip"
    say "fetching axe-core"
    rm -rf "$into"
    mkdir -p "$into"
    pip3 download -q --no-deps --only-binary :all: -d "$into" axe-playwright-python &&
        python3 -m zipfile -e "$into"/*.whl "$into" ||
        { rm -rf "$into"; die "pip3 could not download axe-playwright-python"; }
    rm -f "$into"/*.whl
}

install_schemas() {
    local into="$root/build-kubernetes"
    [ ! -d "$into/kubernetes_validate" ] || return 0
    command -v pip3 >/dev/null || install_rows "build|wheels from the Python registry|python3-pip"
    say "fetching the schemas of Kubernetes"
    pip3 install -q --only-binary :all: --target "$into" kubernetes-validate ||
        { rm -rf "$into"; die "pip3 could not install kubernetes-validate"; }
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
with_cuda=0 with_browser=0 with_kubernetes=0 groups='build|parts|tests'
more=()
for argument; do
    case "$argument" in
    --without-tests) groups='build|parts' ;;
    --with-cuda) with_cuda=1 ;;
    --with-browser)
        with_browser=1
        more+=('build|a browser|chromium' 'build|drives it|chromium-driver'
            'build|drives it|python3-selenium')
        ;;
    --with-iperf3) more+=('build|a benchmark|iperf3') ;;
    --with-prometheus) more+=('build|promtool|prometheus') ;;
    --with-arm64)
        more+=('build|arm64|gcc-aarch64-linux-gnu' 'build|arm64|g++-aarch64-linux-gnu'
            'build|arm64|qemu-user-static qemu-user')
        ;;
    --with-nightly)
        more+=('build|static analysis|cppcheck' 'build|static analysis|clang-tidy-14 clang-tidy'
            'build|fuzzing|clang')
        ;;
    --with-slurm)
        more+=('build|Slurm|slurmctld' 'build|Slurm|slurmd' 'build|Slurm|slurm-client'
            'build|Slurm|munge')
        ;;
    --with-kubernetes)
        with_kubernetes=1
        more+=('build|containers|podman' 'build|containers|crun' 'build|containers|catatonit'
            'build|commands in images|busybox-static' 'build|manifests|python3-yaml')
        ;;
    --with-mpi) more+=('build|a benchmark|libopenmpi-dev' 'build|a benchmark|openmpi-bin') ;;
    --help | -h) usage; exit 0 ;;
    *) usage >&2; die "no such option: $argument" ;;
    esac
done

mapfile -t wanted < <(table | grep -E "^($groups)[|]")
[ ${#wanted[@]} -gt 0 ] || die "docs/building.md has no table of packages"
mapfile -t missing < <(missing_rows "${wanted[@]}" "${more[@]}")
if [ ${#missing[@]} -gt 0 ]; then
    install_rows "${missing[@]}"
    say "done"
else
    say "everything is installed"
fi
[ $with_cuda = 0 ] || install_cuda
[ $with_browser = 0 ] || install_axe
[ $with_kubernetes = 0 ] || install_schemas
