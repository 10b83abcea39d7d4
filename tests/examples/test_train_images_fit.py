#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_train_images_fit.py TRAIN_IMAGES OWN_MODEL

The image training by crt_fit: one command for each strategy, the same losses from all of them, a
member that is killed, checkpoints, and what is said to wrong input; and a model of one's own on 1,
2 and 4 members.
"""
import contextlib
import csv
import os
import pty
import re
import signal
import subprocess
import sys
import tempfile

PROGRAM, OWN_MODEL = sys.argv[1:3]
SMALL = [
    "--network.hidden=24", "--data.limit=640", "--data.test_limit=100", "--data.batch=16",
    "--training.seed=3", "--optimizer.learn_rate=0.05"
]
END = re.compile(
    r"(\d+) steps in ([\d.]+) s \(([\d.]+) images/s\), ([\d.]+) epochs, devices: (\d+), "
    r"deaths: (\d+), loss: ([\d.]+), validation: ([\d.]+ %|-), test: ([\d.]+ %|-), "
    r"weights: ([0-9a-f]{16})")


def command(*args):
    return [PROGRAM, "train", *SMALL, *args]


def run(*args, expect=0):
    done = subprocess.run(command(*args), capture_output=True, text=True, timeout=120)
    assert done.returncode == expect, (args, done.returncode, done.stdout, done.stderr)
    return done


def end_of(text):
    match = END.search(text)
    assert match, text
    return {"steps": int(match[1]), "devices": int(match[5]), "deaths": int(match[6]),
            "loss": float(match[7]), "validation": match[8], "test": match[9], "weights": match[10]}


def losses_of(path):
    with open(path, encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {phase: [float(r["loss"]) for r in rows if r["phase"] == phase]
            for phase in ("train", "validate", "test")}


def each_strategy_trains_by_one_command(folder):
    ends = []
    for strategy in ("allreduce", "sharded", "server"):
        path = f"{folder}/{strategy}.csv"
        done = run(f"--training.strategy={strategy}", "--accelerator=cpu", "--devices=2",
                   "--training.epochs=2", f"--output.csv={path}", "--output.svg=" + path + ".svg")
        ends.append(end_of(done.stdout))
        losses = losses_of(path)
        assert len(losses["validate"]) == 2 and len(losses["test"]) == 1, losses
        assert re.search(r"epoch 2\.00 of 2  step 32 of 32  loss .* images/s  2 devices",
                         done.stdout), done.stdout
        assert os.path.getsize(path + ".svg") > 0
    # 512 of 640 images in batches of 16, two in a step.
    assert all(e["steps"] == 32 and e["devices"] == 2 for e in ends), ends
    assert all(abs(e["loss"] - ends[0]["loss"]) < 2e-3 for e in ends), ends


def a_checkpoint_of_a_strategy_goes_on_with_another(folder):
    common = ["--devices=2", f"--checkpoints.folder={folder}/out", "--checkpoints.every=4"]
    run("--training.strategy=allreduce", *common, "--training.steps=8")
    done = run("--training.strategy=allreduce", *common, expect=1)
    assert "has checkpoints" in done.stderr, done
    whole = end_of(run("--training.strategy=allreduce", "--devices=2",
                       "--training.steps=12").stdout)
    for strategy in ("allreduce", "sharded", "server"):
        resumed = end_of(run(f"--training.strategy={strategy}", *common, "--training.steps=12",
                             "--checkpoints.resume").stdout)
        assert resumed["steps"] == 12, resumed
        assert strategy != "allreduce" or resumed["weights"] == whole["weights"], (resumed, whole)
        done = run(f"--training.strategy={strategy}", *common, "--training.steps=12",
                   "--checkpoints.resume")  # nothing is left to do
        assert re.search(r"^12 steps in 0\.000 s \(- images/s\), .* loss: -, .* weights: " +
                         resumed["weights"], done.stdout, re.M), done
        os.remove(f"{folder}/out/step-000000000012.checkpoint")


def members_of(driver):
    """Processes of actors, by their parents: driver, node daemon, zygote, worker."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", encoding="ascii",
                                                    errors="replace") as file:
                parents[int(name)] = int(file.read().rsplit(")", 1)[1].split()[1])

    def depth(pid):
        return 0 if pid == driver else 1 + depth(parents[pid]) if pid in parents else 99

    return sorted(pid for pid in parents if depth(pid) == 3)


def a_killed_member_is_replaced_and_nothing_else_changes():
    args = ["--training.strategy=allreduce", "--devices=2", "--training.epochs=40"]
    whole = end_of(run(*args).stdout)
    with subprocess.Popen(command(*args), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as driver:
        first = driver.stdout.readline()
        members = members_of(driver.pid)
        assert len(members) == 2, members
        os.kill(members[1], signal.SIGKILL)
        out, errors = driver.communicate(timeout=120)
        assert driver.returncode == 0, (out, errors)
    end = end_of(first + out)
    assert end["deaths"] == 1 and end["devices"] == 2, end
    assert "killed by signal 9" in out, out
    assert end["weights"] == whole["weights"], (end, whole)


def what_a_training_may_have_it_has_all_at_once():
    done = subprocess.run([
        PROGRAM, "train", "--network.name=fcnn", "--data.limit=96", "--data.test_limit=20",
        "--data.batch=8", "--data.ahead=1", "--training.strategy=allreduce", "--devices=2",
        "--training.steps=3", "--training.accumulate=2", "--training.clip=0.5",
        "--training.sync_norms", "--training.bfloat16", "--optimizer.name=adam"
    ], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and end_of(done.stdout)["steps"] == 3, done


def on_a_terminal_the_line_of_training_is_replaced():
    mine, its = pty.openpty()
    with subprocess.Popen(command("--training.strategy=allreduce", "--devices=2",
                                  "--training.epochs=2"), stdout=its, stderr=its) as driver:
        os.close(its)
        text = ""
        with contextlib.suppress(OSError):  # the other end is closed
            while True:
                text += os.read(mine, 65536).decode()
        assert driver.wait(timeout=120) == 0, text
    os.close(mine)
    assert re.search(r"\repoch [\d.]+ of 2  step \d+ of 32  loss [\d.]+  \d+ images/s  2 devices  "
                     r"\d:\d\d(, \d:\d\d left)?\x1b\[K\r", text), text
    assert text.count("validation  epoch") == 2 and end_of(text)["steps"] == 32, text


def wrong_input_is_named_before_anything_starts(folder):
    for args, status, part in [
        (["--devices=0"], 2, "training.devices is 0"),
        (["--devices=3:2"], 2, "devices '3:2', not a number"),
        (["--devices"], 2, "--devices needs a value"),
        (["--accelerator=tpu"], 2, "accelerator 'tpu', not cpu, gpu or auto"),
        (["--training.strategy=ring"], 2, "strategy 'ring', not server, allreduce or sharded"),
        (["--devices=2", "--training.workers=3"], 2, "training.workers is of trainings by"),
        (["--training.strategy=allreduce", "--training.needed=1"], 2, "training.needed is of"),
        (["--training.strategy=server", "--training.piece_kb=64"], 2, "training.piece_kb is of"),
        (["--devices=2", f"--output.svg={folder}/no/x.svg"], 1, "no/x.svg: No such file"),
        (["--devices=2", f"--output.svg={folder}"], 1, "Is a directory"),
        (["--devices=2", "--training.accumulate=1000"], 1, "1000 batches of 2 devices in each"),
        (["--devices=2", "--training.precision=half"], 2, "precision 'half'"),
        (["--devices=2", "--training.precision=mixed"], 1, "CPUs compute in float32"),
        (["--devices=2", "--compression.method=lz4"], 2, "compression is of training.workers"),
        (["--devices=2", "--data.order=shards"], 2, "members take batches in turns"),
        (["--devices=2", "--training.limit_s=0"], 2, "training.limit_s is 0"),
        (["--devices=2", "--training.validation=0.0001"], 1, "leaves nothing to validate with"),
        (["--devices=2", "--network.name=resnet20", "--data.format=mnist",
          "--data.batch=4000"], 1, "2 devices, and 512 training samples are only 1 batches"),
        (["--devices=2", "--checkpoints.resume"], 2, "resume needs checkpoints.folder"),
        (["--devices=2", "--checkpoints.resume", f"--checkpoints.folder={folder}/new"], 1,
         "no checkpoint in"),
        (["--devices=1:2", "--training.strategy=server"], 1, "a number of devices that changes"),
    ]:
        small = [a for a in SMALL if "hidden" not in a and "batch" not in a]
        done = subprocess.run([PROGRAM, "train", *small, *args], capture_output=True, text=True,
                              timeout=60)
        assert done.returncode == status and part in done.stderr, (args, done)


def without_gpus_they_are_refused_and_auto_says_so():
    if os.path.exists("/dev/nvidia0"):
        return
    done = run("--accelerator=gpu", expect=1)
    assert "accelerator gpu: no node of the cluster has a GPU" in done.stderr, done
    done = run("--accelerator=auto", "--devices", "1", "--training.steps=1")
    assert "no node of the cluster has a GPU; members compute on CPUs" in done.stdout, done


def a_model_of_ones_own_trains_on_any_number_of_members():
    for devices, steps in ((1, 120), (2, 60), (4, 30)):
        done = subprocess.run([OWN_MODEL, str(devices)], capture_output=True, text=True,
                              timeout=120)
        assert done.returncode == 0, done
        match = re.search(r"(\d) devices, (\d+) steps: ([\d.]+) % .*, \d+ images/s", done.stdout)
        assert match and int(match[1]) == devices and int(match[2]) == steps, done
        assert float(match[3]) > 40, done


def main():
    with tempfile.TemporaryDirectory() as folder:
        each_strategy_trains_by_one_command(folder)
        a_checkpoint_of_a_strategy_goes_on_with_another(folder)
        a_killed_member_is_replaced_and_nothing_else_changes()
        what_a_training_may_have_it_has_all_at_once()
        on_a_terminal_the_line_of_training_is_replaced()
        wrong_input_is_named_before_anything_starts(folder)
        without_gpus_they_are_refused_and_auto_says_so()
        a_model_of_ones_own_trains_on_any_number_of_members()


if __name__ == "__main__":
    main()
