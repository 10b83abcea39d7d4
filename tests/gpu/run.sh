#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# All that one GPU can prove, for a machine that is there for minutes only: suite gpu, trainings
# beside PyTorch and spaCy, shares of a GPU, the memory of a worker that was killed, NVML's figures.
set -uo pipefail

usage() {
    cat <<'TEXT'
usage: tests/gpu/run.sh [--build DIR] [--data DIR] [--limit SECONDS] [--out DIR] [--python FILE]

Runs what is there, and prints one table of what came of it; the exit status is 0 when nothing
failed. What needs something that is missing is a row that says what.
  --build DIR      a build of the tests, with `ninja`. Default: build
  --data DIR       a folder with cifar10/train.bin(.gz). Without it PyTorch is not compared
  --limit SECONDS  of all together; what does not fit in is a row, too. Default: 470
  --out DIR        for the logs. Default: DIR of --build/gpu
  --python FILE    with torch, and spacy with cupy. Default: python3
TEXT
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$root/build data='' limit=470 out='' python=python3
while [ $# -gt 0 ]; do
    case "$1" in
    --build) build=${2:?--build needs a folder}; shift ;;
    --data) data=${2:?--data needs a folder}; shift ;;
    --limit) limit=${2:?--limit needs seconds}; shift ;;
    --out) out=${2:?--out needs a folder}; shift ;;
    --python) python=${2:?--python needs a file}; shift ;;
    --help | -h) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
    esac
    shift
done
[[ $limit =~ ^[1-9][0-9]*$ ]] || { echo "gpu: --limit takes seconds" >&2; exit 2; }
[ -d "$build" ] || { echo "gpu: there is no build in $build" >&2; exit 2; }
build=$(cd "$build" && pwd)
out=${out:-$build/gpu}
mkdir -p "$out" || exit 2
rows=() failed=0 end=$((SECONDS + limit))
train=$build/examples/train_images ner=$build/examples/train_ner
if [ ! -x "$train" ] || [ ! -x "$ner" ]; then
    echo "gpu: ninja -C $build has not built all" >&2
    exit 2
fi
# Numbered as the driver does; in a container the first one may have any number.
gpu=$(find /dev -maxdepth 1 -name 'nvidia[0-9]*' 2>/dev/null | sort -V | head -n 1)
gpu=${gpu:-/dev/nvidia0}
first=${CUDA_VISIBLE_DEVICES:-0} # as CUDA numbers them
first=${first%%,*}

last() { tail -n 1 | cut -c1-100; }
row() { rows+=("$(printf '%-44s %-8s %6s  %s' "$1" "$2" "$3" "$4")"); }

# step NAME SECONDS NEEDS SHOWN COMMAND...: a row. NEEDS: a file that must be there, or "". SHOWN: a
# pattern; the last line of output that it fits stands in the row.
step() {
    local name=$1 most=$2 needs=$3 shown=$4 log left=$((end - SECONDS)) from=$SECONDS status=0
    shift 4
    log=$out/${name//[^a-zA-Z0-9]/-}.log
    [ -z "$needs" ] || [ -e "$needs" ] || { row "$name" skipped - "$needs is not there"; return; }
    [ "$left" -ge 10 ] || { row "$name" skipped - "the $limit s are over"; return; }
    timeout -k 5 $((most < left ? most : left)) "$@" >"$log" 2>&1 || status=$?
    if [ $status -ne 0 ] && grep -q "NCCL can't be opened" "$log"; then
        row "$name" skipped $((SECONDS - from)) 'NCCL is not there; CRT_NCCL_LIBRARY names its file'
        return
    fi
    case $status in
    0) row "$name" passed $((SECONDS - from)) "$(grep -E "$shown" "$log" | last)" ;;
    77) row "$name" skipped $((SECONDS - from)) "$(last <"$log")" ;;
    124 | 137) failed=1; row "$name" 'too long' $((SECONDS - from)) "$log" ;;
    *) failed=1; row "$name" failed $((SECONDS - from)) "$log: $(last <"$log")" ;;
    esac
}

# Of the first GPU.
used_mib() {
    nvidia-smi -i "$first" --query-gpu=memory.used --format=csv,noheader,nounits | head -n 1
}

# A training that is killed in the middle gives its memory back, and the next one finds it free.
killed_gives_back() {
    local before most after pid
    before=$(used_mib)
    [[ $before =~ ^[0-9]+$ ]] || { echo "nvidia-smi does not tell the memory"; return 77; }
    "$train" train --network.name=mlp-4096x4 --training.strategy=server --accelerator=gpu \
        --devices=1 --training.steps=100000 --data.limit=2000 --training.test=false &
    pid=$!
    for _ in $(seq 300); do
        most=$(used_mib)
        if [ "$most" -ge $((before + 400)) ] || ! kill -0 "$pid"; then break; fi
        sleep 0.1
    done
    kill -KILL "$pid" || return 1
    for _ in $(seq 100); do
        after=$(used_mib)
        [ "$after" -gt $((before + 100)) ] || break
        sleep 0.1
    done
    echo "before $before MiB, in training $most MiB, killed $after MiB"
    [ "$most" -ge $((before + 400)) ] && [ "$after" -le $((before + 100)) ]
}

# train_ner on CPUs, and on the GPU: the words of the last stretch in a second.
ner_beside_cpu() {
    local where speed=()
    for where in -1 0; do
        "$ner" train "$root/examples/train_ner/default.cfg" --output "$out/ner" --gpu-id "$where" \
            --paths.train=builtin:4000 --paths.dev=builtin:50:1 --training.eval_frequency=30 \
            --training.max_steps=60 --training.batcher.size.start=1000 || return
        speed+=("$(awk -F, '{ last = $NF } END { print last }' "$out/ner/log.csv")")
    done
    awk -v cpu="${speed[0]}" -v gpu="${speed[1]}" 'BEGIN {
        printf "words/s: GPU %.0f, CPU %.0f: %.1f times\n", gpu, cpu, gpu / cpu }'
}

# What NVML says while all this runs: the most memory, and how busy the GPU is when it is.
watch_gpu() {
    exec nvidia-smi --query-gpu=memory.used,utilization.gpu --format=csv,noheader,nounits \
        -lms 250 >"$out/nvml.csv" 2>/dev/null
}
nvml_row() {
    local said
    said=$(awk -F, '$1 > most { most = $1 } $2 > 0 { busy++; sum += $2 } END {
        if (NR) printf "most memory %d MiB, %d %% busy in %d of %d samples", most,
            busy ? sum / busy : 0, busy, NR }' "$out/nvml.csv" 2>/dev/null)
    if [ -n "$said" ]; then row 'NVML, all rows together' passed - "$said"
    else row 'NVML, all rows together' skipped - 'nvidia-smi says nothing'; fi
}

unset CRT_ADDRESS # no cluster of the user's
watch_gpu & watcher=$!
trap 'kill "$watcher" 2>/dev/null' EXIT
# What is proved comes first, what is compared last: that may be done another time.
for name in collective_gpu ml_gpu ml_gpu_ner ml_gpu_group; do
    step "suite gpu: $name" 120 "$gpu" '^\[  PASSED' \
        "$root/tests/tools/isolated.py" "$build/tests/${name%%_*}/test_$name"
done
step 'suite gpu: train_images' 120 "$gpu" 'workers' \
    "$root/tests/tools/isolated.py" "$root/tests/examples/test_train_images_gpu.py" "$train"
step 'suite gpu: train_ner' 120 "$gpu" '^host' "$root/tests/tools/isolated.py" \
    "$root/tests/examples/test_train_ner_gpu.py" "$ner" "$root/examples/train_ner/default.cfg"
# fit NAME STRATEGY STEPS OPTION...: a row of train_images by crt_fit.
fit() {
    step "$1" 60 "$gpu" 'steps in' "$train" train --accelerator=gpu --data.limit=8000 \
        --data.test_limit=500 --training.strategy="$2" --training.steps="$3" "${@:4}"
}
fit 'mlp-4096x4, allreduce (NCCL) on one GPU' allreduce 200 --network.name=mlp-4096x4 --devices=1
fit 'mlp-4096x4, a server, on one GPU' server 20 --network.name=mlp-4096x4 --devices=1
for strategy in allreduce sharded server; do
    fit "two processes share the GPU: $strategy" $strategy 200 --network.hidden=512 --devices=2 \
        --training.num_gpus=0.5
done
export -f killed_gives_back used_mib ner_beside_cpu
export train ner root out first
step 'a killed worker gives its memory back' 60 "$gpu" '^before' bash -c killed_gives_back
step 'train_ner --gpu-id 0 beside its CPU' 90 "$gpu" '^words/s' bash -c ner_beside_cpu
step 'named entities, GPU beside a core' 60 "$gpu" 'words/s' \
    "$build/tests/bench/ner_steps" --gpu-id 0 --steps 60
# has MODULES NAME: python has them; else row NAME says so.
has() {
    "$python" -c "import $1" 2>"$out/${1%%,*}.log" && return
    row "$2" skipped - "$python has no $1"
    false
}
name='named entities on the GPU beside spaCy'
has spacy,cupy "$name" &&
    step "$name" 60 "$gpu" 'words/s on the GPU' "$python" "$root/tests/bench/ner_gpu_spacy.py" \
        --program "$build/tests/bench/ner_steps" --steps 60
for precision in float32 mixed; do
    name="ViT beside PyTorch, $precision"
    has torch "$name" &&
        step "$name" 60 "$gpu" 'median step' "$python" "$root/tests/bench/compare_torch.py" \
            --network vit --gpu-id 0 --rows 128 --steps 200 \
            --program "$build/tests/bench/network_steps" --precision "$precision"
done
for precision in float32 tf32 mixed; do
    name="ResNet-18 beside PyTorch, $precision"
    [ -n "$data" ] || { row "$name" skipped - 'no --data'; continue; }
    has torch "$name" &&
        step "$name" 90 "$gpu" 'median step' "$python" "$root/tests/bench/compare_torch.py" \
            --gpu-id 0 --rows 128 --steps 100 --program "$build/tests/bench/network_steps" \
            --data "$data/cifar10" --precision "$precision"
done
kill "$watcher" 2>/dev/null
wait "$watcher" 2>/dev/null
nvml_row
printf '%-44s %-8s %6s\n' what result s
printf '%s\n' "${rows[@]}"
exit $failed
