#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_train_ner_gpu.py TRAIN_NER DEFAULT_CFG [STAND_IN CRT]

train_ner with members on a GPU, beside the same on CPUs. With STAND_IN in place of CUDA's
libraries; without it on a real GPU, and where there is none it exits with 77.
"""
import csv
import glob
import os
import subprocess
import sys
import tempfile

PROGRAM, CONFIGURATION = sys.argv[1:3]
STAND_IN = sys.argv[3] if len(sys.argv) > 3 else None
SMALL = [
    "--paths.train=builtin:120", "--paths.dev=builtin:20:1", "--training.dropout=0",
    "--components.tok2vec.model.encode.width=16", "--components.tok2vec.model.embed.rows=100",
    "--components.tok2vec.model.encode.depth=1", "--training.optimizer.learn_rate=0.001",
    "--training.batcher.size.start=100", "--training.eval_frequency=2", "--training.max_steps=4"
]
# How far apart losses may be: the first steps of RAdam go as far for gradients that are all but 0,
# whose last bits differ, as for others.
NEAR = 0.01


def train(folder, *words, visible="0", expect=0, **variables):
    environment = {**os.environ, **variables}
    environment.pop("CUDA_VISIBLE_DEVICES", None)
    if visible is not None:
        environment["CUDA_VISIBLE_DEVICES"] = visible
    for name in ("CUDA_DRIVER", "CUDART", "CUBLAS", "CUDNN", "NVRTC", "NVML") if STAND_IN else ():
        environment.setdefault(f"CRT_{name}_LIBRARY", STAND_IN)
    done = subprocess.run([PROGRAM, "train", CONFIGURATION, "-o", folder, *SMALL, *words],
                          capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == expect, (words, done.returncode, done.stdout, done.stderr)
    return done


def losses(folder, *words, **more):
    train(folder, *words, **more)
    with open(os.path.join(folder, "log.csv"), encoding="utf-8") as file:
        return [float(row["loss"]) for row in csv.DictReader(file)]


def assert_near(host, gpu):
    print("host", host, "GPU", gpu)
    assert len(host) == len(gpu) > 0, (host, gpu)
    assert all(abs(a - b) <= NEAR * abs(a) for a, b in zip(host, gpu)), (host, gpu)


def members_on_a_gpu_learn_what_those_on_cpus_do(folder):
    assert_near(losses(f"{folder}/host", "--gpu-id", "-1"),
                losses(f"{folder}/gpu", "--gpu-id", "0", visible=None))


def members_share_a_gpu_in_any_mode(folder):
    shared = ["-w", "2", "--distributed.num_gpus=0.5"]
    host = losses(f"{folder}/two", "-w", "2")
    assert_near(host, losses(f"{folder}/shared", *shared, "--accelerator=auto"))
    peers = losses(f"{folder}/peers", *shared, "--accelerator=gpu", "--mode=peer")
    assert_near(host[:1], peers[:1])  # later ones depend on whose gradients came first


def passes_are_made_on_the_gpu(folder):
    """For there is what has too little memory for them."""
    done = train(folder, "--gpu-id=0", expect=1, FAKE_GPU_MIB="100", FAKE_GPU_OTHERS_MIB="99")
    assert "GPU 0 has no memory for " in done.stderr, done
    assert " MiB wanted, " in done.stderr and " holds 99 MiB; this process " in done.stderr, done
    done = train(folder, "--gpu-id=0", expect=1, CRT_CUDART_LIBRARY="/nonexistent/cudart")
    assert "the CUDA runtime can't be opened (/nonexistent/cudart" in done.stderr, done


def a_gpu_that_is_not_there_is_refused_and_auto_says_so(folder):
    for words, visible, said in (
        (["--gpu-id=0"], "-1", "accelerator gpu: no node of the cluster has a GPU"),
        (["--accelerator=gpu"], "", "accelerator gpu: no node of the cluster has a GPU"),
        (["--gpu-id=3"], "0,1", "--gpu-id 3: CUDA_VISIBLE_DEVICES=0,1 has no such entry"),
        (["--gpu-id=x"], "0", "--gpu-id 'x' is neither -1 nor the number of a GPU"),
        (["--accelerator=gpu", "-w", "2"], "0", "2 members of 1 GPU: the cluster has 1"),
    ):
        done = train(folder, *words, visible=visible, expect=1)
        assert said in done.stderr, (words, visible, done)
    done = train(folder, "--gpu-id=0", "--distributed.limit_s=0.001", expect=1)
    assert "member 1 of 1 did not come within 0.001 s: each needs 1 CPU and 1 GPU" in done.stderr
    done = train(folder, "--gpu-id=0", expect=1, CRT_ADDRESS="127.0.0.1:1")
    assert "a cluster gives the GPUs that it has; --accelerator=gpu" in done.stderr, done
    done = train(folder, "--accelerator=auto", "--training.max_steps=1", visible="-1")
    assert "no node of the cluster has a GPU; members compute on CPUs" in done.stdout, done


def a_cluster_that_has_another_gpu_is_told(folder):
    """A cluster of this user's, which a program joins by itself."""
    crt, environment = sys.argv[4], {**os.environ, "CUDA_VISIBLE_DEVICES": "1"}
    subprocess.run([crt, "start", "--head", "--port", "0", "--dashboard-port", "0"],
                   check=True, timeout=100, env=environment, stdout=subprocess.DEVNULL)
    try:
        done = train(folder, "--gpu-id=0", visible=None, expect=1)
        assert "--gpu-id names GPU 0, and the cluster gave GPU 1: " in done.stderr, done
    finally:
        subprocess.run([crt, "stop"], check=True, timeout=100, stdout=subprocess.DEVNULL)


def main():
    if not STAND_IN and not glob.glob("/dev/nvidia[0-9]*"):
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        members_on_a_gpu_learn_what_those_on_cpus_do(folder)
        members_share_a_gpu_in_any_mode(folder)
        if STAND_IN:
            passes_are_made_on_the_gpu(folder)
            a_cluster_that_has_another_gpu_is_told(folder)
        a_gpu_that_is_not_there_is_refused_and_auto_says_so(folder)


if __name__ == "__main__":
    main()
