#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_train_mnist.py TRAIN_MNIST TRAIN_SERIAL DRAW_DIGITS

Runs the training example with small settings: its lines, its JSON, weights saved and loaded, what
it says to wrong input. Synchronous training must end at the very accuracy of the same arithmetic
without a runtime.
"""
import contextlib
import csv
import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

PROGRAM, SERIAL, DRAW_DIGITS = sys.argv[1:4]
SMALL = ["--hidden", "32", "--seed", "3"]


def run(*args, expect=0, program=PROGRAM):
    done = subprocess.run([program, *args], capture_output=True, text=True, timeout=120)
    assert done.returncode == expect, (args, done.returncode, done.stdout, done.stderr)
    return done


def final(text):
    return float(re.search(r"^final accuracy: (0\.\d{3}|1\.000)$", text, re.M).group(1))


def wrong_options_are_named():
    for args, part in [
        (["--workers", "0"], "--workers 0: not a whole number in 1.."),
        (["--iterations", "1x"], "--iterations 1x"),
        (["--dropout", "1"], "--dropout 1: not a number in [0, 1)"),
        (["--lr", "nan"], "--lr nan"),
        (["--overlap", "maybe"], "--overlap maybe: not on, off or both"),
        (["--on-death", "cry"], "--on-death cry: not fail, shrink or replace"),
        (["--mode", "both"], "--mode both: not sync, async, allreduce or sharded"),
        (["--shards", "65"], "--shards 65: not a whole number in 1..64"),
        (["--devices", "2:8"], "--devices 2:8: not a whole number"),
        (["--training.strategy=ring"], "--training.strategy ring: not server, allreduce or"),
        (["--accelerator", "tpu"], "--accelerator tpu: not cpu, gpu or auto"),
        (["--accelerator=gpu"], "train_images train --accelerator=gpu trains the same network"),
        (["--save", "/nowhere/x"], "--save /nowhere/x: No such file"),
        (["--svg", "/nowhere/x"], "--svg /nowhere/x: No such file"),
        (["--nonsense"], "nonsense"),
        (["builtin"], "builtin"),
    ]:
        done = run(*args, expect=2)
        assert part in done.stderr and not done.stdout, done
    assert "--eval-every" in run("--help").stdout


def missing_and_damaged_files_are_named(folder):
    done = run("--data", folder, expect=1)
    assert f"{folder}/train-images-idx3-ubyte, plain or .gz: No such file" in done.stderr, done
    with open(f"{folder}/train-images-idx3-ubyte", "wb") as f:
        f.write(b"\0\0\x08\x03\0\0")
    with open(f"{folder}/train-labels-idx1-ubyte", "wb") as f:
        f.write(b"\0\0\x08\x01\0\0\0\x01\x05")
    done = run("--data", folder, expect=1)
    assert "damaged" in done.stderr and "cut short" in done.stderr, done
    with open(f"{folder}/w", "wb") as f:
        f.write(b"not weights at all, but long enough")
    done = run("--load", f"{folder}/w", expect=1)
    assert "damaged" in done.stderr and "not a file of crt weights" in done.stderr, done


def sync_equals_the_arithmetic_without_a_runtime(folder):
    args = ["--iterations", "60", *SMALL]
    out = run(*args, "--eval-every", "20", "--save", f"{folder}/saved").stdout
    lines = re.findall(r"^iteration +(\d+) +accuracy: (\d\.\d{3})$", out, re.M)
    assert [int(i) for i, _ in lines] == [0, 20, 40], out
    assert "60 updates, seconds in the loop: " in out and out.endswith("\n"), out
    assert final(out) == final(run(*args, program=SERIAL).stdout), out
    return final(out)


def loaded_weights_go_on_where_they_were(folder, accuracy):
    out = run("--iterations", "1", *SMALL, "--load", f"{folder}/saved", "--eval-every", "0").stdout
    assert "iteration" not in out and abs(final(out) - accuracy) < 0.05, (out, accuracy)
    done = run("--hidden", "16", "--load", f"{folder}/saved", expect=1)
    assert "array 0 is 32 x 784, the model's 16 x 784" in done.stderr, done


def async_makes_an_update_of_every_gradient():
    out = run("--mode", "async", "--workers", "3", "--iterations", "60", *SMALL, "--eval-every",
              "75", "--json").stdout
    result = json.loads(out)
    assert result["updates"] == 180 and result["mode"] == "async", result
    assert [i for i, _ in result["curve"]] == [0, 75, 150], result
    assert result["final_accuracy"] > 0.5 and result["loop_seconds"] > 0, result


def epochs_say_how_often_all_samples_are_used():
    once, twice = (json.loads(
        run("--epochs", n, *SMALL, "--eval-every", "0", "--json").stdout)["updates"]
                   for n in ("1", "2"))
    assert once > 1 and twice in (2 * once, 2 * once - 1), (once, twice)


def what_is_reported_is_complete(folder):
    out = run("--mode", "async", "--iterations", "60", *SMALL, "--eval-every", "30", "--csv",
              f"{folder}/log.csv", "--svg", f"{folder}/curve").stdout
    with open(f"{folder}/log.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["update"]) for row in rows] == [0, 30, 60, 90], rows
    assert float(rows[-1]["loss"]) < float(rows[0]["loss"]) and float(
        rows[-1]["images_per_s"]) > 0, rows
    # Two workers: the second gradient of the first weights comes after an update, whenever it
    # comes.
    assert max(float(row["staleness"])
               for row in rows) > 0 and float(rows[-1]["staleness"]) < 10, rows
    assert f"accuracy: {float(rows[-1]['accuracy']):.3f}" in out, (out, rows)
    for curve in "loss", "accuracy", "throughput":
        with open(f"{folder}/curve-{curve}.svg", encoding="utf-8") as file:
            assert file.read().count("<polyline") == 2, curve


def the_configuration_of_the_notebook_is_read(folder):
    with open(f"{folder}/notebook.cfg", "w", encoding="utf-8") as file:
        file.write("""
[training]
iterations = 200
batch_size = 128

[evaluation]
batch_size = 256
frequency = 10

[model]
@layers = "relu_relu_softmax.v1"
hidden_width = 128
dropout = 0.2

[optimizer]
@optimizers = "Adam.v1"

[ray]
num_workers = 2
object_store_memory = 3000000000
num_cpus = 2
""")
    out = run(f"{folder}/notebook.cfg", "--training.iterations=3", "--evaluation.frequency=2",
              "--seed", "7", "--json").stdout
    result = json.loads(out)
    assert [result[key] for key in ("iterations", "workers", "batch", "hidden", "seed")] == [
        3, 2, 128, 128, 7], result
    assert [i for i, _ in result["curve"]] == [0, 2], result
    assert "No such file" in run(f"{folder}/none.cfg", expect=2).stderr
    for word, part in (("--training.iteration=3", "the nearest name is training.iterations"),
                       ("--model.@layers=relu_softmax.v1", "relu_relu_softmax.v1"),
                       ("--training.mode=asink", "not sync, async"), ("--ray.num_workers=0",
                                                                      "ray.num_workers is 0")):
        assert part in run(f"{folder}/notebook.cfg", word, expect=2).stderr, word


def shards_make_the_updates_of_one_server(folder, accuracy):
    """However many there are; the number of weights is not divisible by most of these."""
    for shards in ("1", "7"):
        out = run("--mode", "sharded", "--shards", shards, "--iterations", "60", *SMALL,
                  "--eval-every", "20", "--save", f"{folder}/sharded").stdout
        lines = re.findall(r"^iteration +(\d+) +accuracy: (\d\.\d{3})$", out, re.M)
        assert [int(i) for i, _ in lines] == [0, 20, 40], out
        assert "60 updates, seconds in the loop: " in out, out
        # Squares are added up in another order, so that the last bits may differ.
        assert abs(final(out) - accuracy) <= 0.005, (shards, out, accuracy)
    out = run("--mode", "sharded", "--iterations", "1", *SMALL, "--load", f"{folder}/sharded",
              "--eval-every", "0").stdout
    assert abs(final(out) - accuracy) < 0.05, (out, accuracy)


def allreduce_reaches_what_sync_reaches(accuracy):
    """Trainers: equal copies, whatever travels and whoever keeps the optimizer's state."""
    workers = 1 if os.path.basename(PROGRAM).startswith("inline") else 2  # one process: one trainer
    args = ["--mode", "allreduce", "--workers", str(workers), "--iterations", "60", *SMALL,
            "--eval-every", "20", "--bucket", "16384"]
    out = run(*args, "--overlap", "both").stdout
    lines = re.findall(r"^iteration +(\d+) +accuracy: (\d\.\d{3})$", out, re.M)
    assert [int(i) for i, _ in lines] == [0, 20, 40], out
    assert "median update with overlap" in out and "median update without overlap" in out, out
    if workers == 2:  # the same samples for each update
        assert abs(final(out) - accuracy) < 0.05, (out, accuracy)
    said = re.search(r"^replicas are identical, hash ([0-9a-f]{16})$", out, re.M)[1]
    result = json.loads(run(*args, "--json").stdout)
    assert result["hash"] == said and result["died"] == 0, (result, said)
    result = json.loads(
        run(*args, "--json", "--optimizer", "sharded", "--gradients", "bfloat16").stdout)
    assert result["hash"] != said, (result, said)
    # The same by the names of train_images.
    other = json.loads(
        run(f"--devices={workers}", "--accelerator=auto", "--training.strategy=sharded", *args[4:],
            "--json", "--gradients", "bfloat16").stdout)
    assert other["hash"] == result["hash"] and other["mode"] == "allreduce", (other, result)
    if workers == 2:
        assert abs(result["final_accuracy"] - accuracy) < 0.05, (result, accuracy)


def a_killed_trainer_is_lost_or_replaced():
    """In the middle of a training that the others end alike."""
    for then in ("shrink", "replace"):
        driver = subprocess.Popen([
            PROGRAM, "--mode", "allreduce", "--workers", "3", "--iterations", "1001", *SMALL,
            "--eval-every", "250", "--on-death", then
        ], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            first = driver.stdout.readline()
            assert first.startswith("iteration "), (first, driver.stderr.read())
            driver.send_signal(
                signal.SIGSTOP)  # it asks for no more steps before one of them is dead
            os.kill(trainers_of(driver.pid)[1], signal.SIGKILL)
            driver.send_signal(signal.SIGCONT)
            out, errors = driver.communicate(timeout=120)
        finally:
            driver.kill()
        assert driver.returncode == 0, (out, errors)
        assert re.search(r"^train_mnist: trainer \d died: .*killed by signal 9", errors,
                         re.M), errors
        assert final(out) > 0.5 and "replicas are identical" in out, out


def a_trainer_that_dies_before_all_have_joined_is_lost_or_replaced():
    """The other ones wait for it then, and form a group without it or with its successor."""
    for then in ("shrink", "replace"):
        driver = subprocess.Popen([
            PROGRAM, "--mode", "allreduce", "--workers", "3", "--iterations", "60", *SMALL,
            "--eval-every", "20", "--on-death", then
        ], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            while len(trainers_of(driver.pid)) < 3 and driver.poll() is None:
                time.sleep(0.001)
            *others, last = trainers_of(driver.pid)
            os.kill(last, signal.SIGSTOP)
            before, now = -math.inf, processor_time(others)
            while now - before > 0.05:  # until they wait, and only look now and then
                time.sleep(0.3)
                before, now = now, processor_time(others)
            os.kill(last, signal.SIGKILL)
            out, errors = driver.communicate(timeout=120)
        finally:
            driver.kill()
        assert driver.returncode == 0, (out, errors)
        assert re.search(r"^train_mnist: trainer \d died: ", errors, re.M), errors
        assert final(out) > 0.3 and "replicas are identical" in out, out


def processor_time(pids):
    """Seconds of all of them."""
    ticks = 0
    for pid in pids:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
            ticks += sum(int(word) for word in f.read().rsplit(")", 1)[1].split()[11:13])
    return ticks / os.sysconf("SC_CLK_TCK")


def trainers_of(driver):
    """Processes of a trainer, by their parents: driver, node daemon, zygote, worker."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", encoding="ascii",
                                                    errors="replace") as f:
                parents[int(name)] = int(f.read().rsplit(")", 1)[1].split()[1])

    def depth(pid):
        return 0 if pid == driver else 1 + depth(parents[pid]) if pid in parents else 99

    return sorted(pid for pid in parents if depth(pid) == 3)


with tempfile.TemporaryDirectory() as where:
    wrong_options_are_named()
    os.mkdir(f"{where}/digits")
    run(f"{where}/digits", "12000", "2000", program=DRAW_DIGITS)
    SMALL += ["--data", f"{where}/digits"]
    os.mkdir(f"{where}/data")
    missing_and_damaged_files_are_named(f"{where}/data")
    reached = sync_equals_the_arithmetic_without_a_runtime(where)
    loaded_weights_go_on_where_they_were(where, reached)
    async_makes_an_update_of_every_gradient()
    epochs_say_how_often_all_samples_are_used()
    what_is_reported_is_complete(where)
    the_configuration_of_the_notebook_is_read(where)
    shards_make_the_updates_of_one_server(where, reached)
    allreduce_reaches_what_sync_reaches(reached)
    if not os.path.basename(PROGRAM).startswith("inline"):
        a_killed_trainer_is_lost_or_replaced()
        a_trainer_that_dies_before_all_have_joined_is_lost_or_replaced()
