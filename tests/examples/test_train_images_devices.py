#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_train_images_devices.py TRAIN_IMAGES [OLD_DRIVER [STAND_IN]]

What is said, in a sentence and before a step is made, when the devices that a training wants are
not there or can't be used. Nodes here believe in the GPUs of CUDA_VISIBLE_DEVICES; OLD_DRIVER
stands in for libraries on a driver that is too old for them, STAND_IN for a GPU.
"""
import os
import subprocess
import sys

PROGRAM = sys.argv[1]
OLD_DRIVER = sys.argv[2] if len(sys.argv) > 2 else None
STAND_IN = sys.argv[3] if len(sys.argv) > 3 else None
SMALL = ["--data.limit=640", "--data.test_limit=40", "--data.batch=16", "--training.steps=1"]


def said(visible, *args, **variables):
    environment = {**os.environ, "CRT_NVML_LIBRARY": "/nonexistent", **variables}
    environment.pop("CUDA_VISIBLE_DEVICES", None)
    if visible is not None:
        environment["CUDA_VISIBLE_DEVICES"] = visible
    width = [] if "--network.name=vit" in args else ["--network.hidden=24"]
    return subprocess.run([PROGRAM, "train", *SMALL, *width, *args], capture_output=True, text=True,
                          timeout=100, env=environment)


def refused(words, visible, *args, also="", **variables):
    done = said(visible, *args, **variables)
    assert done.returncode == 1 and words in done.stderr, (visible, args, words, done)
    assert also in done.stderr, (visible, args, also, done)
    assert "epoch" not in done.stdout, done


def gpus_that_cuda_may_not_see_are_none():
    for visible in ("", "-1", "NoDevFiles", "banana", ",0", " "):
        refused("accelerator gpu: no node of the cluster has a GPU", visible, "--accelerator=gpu",
                "--devices=1")


def auto_falls_back_where_none_is_visible_and_says_so():
    done = said("-1", "--accelerator=auto", "--devices=1", "--training.test=false")
    assert done.returncode == 0, done
    assert "no node of the cluster has a GPU; members compute on CPUs" in done.stdout, done


def fewer_gpus_than_asked_for_are_counted():
    for visible, has in (("0,1", 2), ("0,0,1", 1), ("1,-1,0", 1), ("0,,1", 1)):
        refused(f"{has + 1} devices of 1 GPU: the cluster has {has} GPU", visible,
                "--accelerator=gpu", "--training.strategy=server", f"--devices={has + 1}")
    refused("3 devices of 0.5 GPU: the cluster has 1 GPU", "0", "--accelerator=auto",
            "--training.strategy=server", "--training.num_gpus=0.5", "--devices=3")


def workers_wait_for_a_gpu_to_a_limit():
    for strategy in [], ["--training.strategy=server", "--accelerator=gpu", "--devices=1"]:
        refused("member 1 of 1 did not come within 0.001 s: each needs 1 CPU and 1 GPU", "0",
                *(strategy or ["--training.device=gpu", "--training.workers=1"]),
                "--training.limit_s=0.001")


def a_gpu_whose_libraries_are_missing_is_refused_by_their_name():
    refused("the CUDA runtime can't be opened (/nonexistent/cudart", "0", "--accelerator=gpu",
            "--training.strategy=server", "--devices=1", CRT_CUDART_LIBRARY="/nonexistent/cudart")


def a_driver_older_than_the_libraries_is_refused_in_its_own_words():
    libraries = {f"CRT_{name}_LIBRARY": OLD_DRIVER
                 for name in ("CUDART", "CUDA_DRIVER", "CUBLAS", "CUDNN", "NVRTC", "NCCL")}
    refused("CUDA says: CUDA driver version is insufficient for CUDA runtime version", "0",
            "--accelerator=gpu", "--training.strategy=server", "--devices=1", **libraries)


def a_gpu_without_memory_is_told_with_layer_and_holders():
    """Of a ViT's 16 samples attention needs the most; another process has most of 100 MiB."""
    libraries = {f"CRT_{name}_LIBRARY": STAND_IN
                 for name in ("CUDART", "CUDA_DRIVER", "CUBLAS", "CUDNN", "NVRTC", "NVML")}
    for strategy in "sharded", "server":
        refused("GPU 0 has no memory for outputs of 16 samples, the largest of layer 8 (attention)",
                "0", "--accelerator=gpu", f"--training.strategy={strategy}", "--devices=1",
                "--network.name=vit", FAKE_GPU_MIB="100", FAKE_GPU_OTHERS_MIB="96", **libraries,
                also=" holds 96 MiB; this process holds ")


def main():
    gpus_that_cuda_may_not_see_are_none()
    auto_falls_back_where_none_is_visible_and_says_so()
    fewer_gpus_than_asked_for_are_counted()
    workers_wait_for_a_gpu_to_a_limit()
    if OLD_DRIVER:  # else this build has no models on GPUs
        a_gpu_whose_libraries_are_missing_is_refused_by_their_name()
        a_driver_older_than_the_libraries_is_refused_in_its_own_words()
    if STAND_IN:
        a_gpu_without_memory_is_told_with_layer_and_holders()


if __name__ == "__main__":
    main()
