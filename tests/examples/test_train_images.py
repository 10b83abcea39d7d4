#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_train_images.py TRAIN_IMAGES CRT [--kills N]

Runs the image training with small settings on clusters of its own: the same weights after kill -9
of server, workers, evaluator, a node or the driver, stragglers, every compression, the evaluator,
and what it says to wrong input. With --kills N only the kills, N of them.
"""
import contextlib
import csv
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

PROGRAM = sys.argv[1]
CRT = sys.argv[2]
KILLS = int(sys.argv[4]) if sys.argv[3:4] == ["--kills"] else 0
SMALL = [
    "--data.limit=600", "--data.test_limit=200", "--data.batch=16", "--network.hidden=24",
    "--output.log_every=1", "--training.steps=40", "--training.seed=3"
]
END = re.compile(
    r"(\d+) steps in ([\d.]+) s .*gradients: (\d+), late: (\d+), cancelled: (\d+), bytes: (\d+), "
    r"deaths: (\d+), restores: (\d+), weights: ([0-9a-f]{16})")


def command(*args, mode="train"):
    of_mlp = not any(a.startswith("--network.name=") for a in args)
    return [PROGRAM, mode, *(a for a in SMALL if of_mlp or "network.hidden" not in a), *args]


def run(*args, mode="train", expect=0):
    done = subprocess.run(command(*args, mode=mode), capture_output=True, text=True, timeout=120)
    assert done.returncode == expect, (args, done.returncode, done.stdout, done.stderr)
    return done


def end_of(text):
    match = END.search(text)
    assert match, text
    names = "steps", "seconds", "gradients", "late", "cancelled", "bytes", "deaths", "restores"
    return {**{n: float(v) for n, v in zip(names, match.groups())}, "weights": match[9]}


def wrong_settings_are_named(folder):
    for args, part in [
        (["--training.needed=3"], "a step can't wait for 3 gradients of 2 workers"),
        (["--training.wokers=3"], "workers"),
        (["--data.batch=0"], "data.batch"),
        (["--data.order=any"], "order 'any', not shared or shards"),
        (["--data.format=imagenet"], "no format of images is called 'imagenet'"),
        (["--compression.method=zip"], "no compression is called 'zip'"),
        (["--network.name=transformer"], "no network is called 'transformer'"),
        (["--checkpoints.resume"], "resume needs checkpoints.folder"),
        (["--training.device=cuda"], "device 'cuda', not cpu or gpu"),
        (["--training.precision=half"], "precision 'half', not float32, tf32 or mixed"),
        (["--training.num_gpus=2"], "training.num_gpus is 2"),
        (["--training.device=gpu",
          "--training.piece_kb=64"], "gradients of a GPU go to the server whole"),
        (["--training.needed=5",
          "--training.workers=4"], "a step can't wait for 5 gradients of 4 workers"),
        ([f"{folder}/none.cfg"], "none.cfg"),
    ]:
        done = run(*args, expect=2)
        assert part in done.stderr and not done.stdout, (args, done)
    done = run(f"--output.svg={folder}/no/x.svg", expect=1)
    assert "no/x.svg: No such file" in done.stderr and not done.stdout, done
    done = run("--data.limit=3", "--training.workers=4", expect=1)
    assert "3 images for 4 workers" in done.stderr, done
    done = run(f"--data.source={folder}", expect=1)
    assert "train-images-idx3-ubyte" in done.stderr, done
    assert "[checkpoints]" in run("--help").stdout


def wrong_data_are_named(folder):
    """Before anything is trained, and nothing is written."""
    def with_images(name, images):
        os.makedirs(f"{folder}/{name}")
        with open(f"{folder}/{name}/train.bin", "wb") as file:
            file.write(images)
        return [
            "--data.format=cifar10", f"--data.source={folder}/{name}",
            f"--checkpoints.folder={folder}/{name}/out"
        ]
    image = bytes(3072)
    for name, images, part in [
        ("label", b"\0" + image + b"\x0b" + image, "the label of image 1 is 11"),
        ("size", b"\0" + bytes(28 * 28), "not images of 32x32"),
        ("cut", b"\0" + image + b"\1" + image[:-1], "cut short"),
        ("empty", b"", "0 bytes"),
    ]:
        done = run(*with_images(name, images), expect=1)
        assert part in done.stderr and "train.bin" in done.stderr, (name, done)
        assert not os.path.exists(f"{folder}/{name}/out"), name


def checkpoints_that_do_not_fit_are_refused(folder):
    out = f"--checkpoints.folder={folder}/a"
    run(out, "--training.steps=5")
    newest = f"{folder}/a/step-000000000005.checkpoint"
    done = run(out, expect=1)
    assert "has checkpoints" in done.stderr, done
    with open(f"{folder}/a/config.cfg", encoding="utf-8") as file:
        assert re.search(r"^hidden = 24$", file.read(), re.M)
    done = run(out, "--checkpoints.resume", "--network.hidden=25", expect=1)
    assert "parameters, the model has" in done.stderr, done
    done = run(out, "--checkpoints.resume", "--optimizer.name=adam", expect=1)
    assert "another optimizer" in done.stderr, done
    done = run(out, "--checkpoints.resume", "--network.name=lenet", expect=1)
    assert "a checkpoint of network 'mlp', not 'lenet'" in done.stderr, done
    with open(newest, "r+b") as file:
        whole = file.read()
        file.seek(8)
        file.write((0).to_bytes(4, "little"))
    done = run(out, "--checkpoints.resume", expect=1)
    assert "version 0" in done.stderr, done
    with open(newest, "wb") as file:
        file.write(whole)


def a_damaged_checkpoint_is_named_and_the_one_before_is_taken(folder):
    out = f"--checkpoints.folder={folder}/d"
    weights = end_of(run(out, "--training.steps=6", "--checkpoints.every=3").stdout)["weights"]
    newest = f"{folder}/d/step-000000000006.checkpoint"
    os.truncate(newest, 1000)
    done = run(out, "--training.steps=6", "--checkpoints.resume", "--checkpoints.every=3")
    assert f"{newest} is cut short" in done.stderr or "cut short" in done.stderr, done
    assert "goes on from the one before" in done.stderr and "step-000000000003" in done.stderr, done
    assert end_of(done.stdout)["weights"] == weights, done
    for wrong in "--training.seed=4", "--data.batch=8":
        done = run(out, "--training.steps=6", "--checkpoints.resume", wrong, expect=1)
        assert re.search(r"of a training with seed 3 and batches of \d+, not", done.stderr), done
    os.truncate(newest, 1000)
    done = run(out, "--evaluation.patience=1", mode="evaluate", expect=1)
    assert "cut short" in done.stderr and "it is passed over" in done.stderr, done
    assert "step 3: loss" in done.stdout, done
    for name in os.listdir(f"{folder}/d"):
        if name.endswith(".checkpoint"):
            os.truncate(f"{folder}/d/{name}", 1000)
    done = run(out, "--checkpoints.resume", expect=1)
    assert "cut short" in done.stderr, done


def networks_by_name_learn_and_go_on(folder):
    """With batch norms: their statistics go to the server, so the evaluator sees them, and a
    worker's death loses none."""
    small = [
        "--network.name=ResNet-20", "--data.format=cifar10", "--data.limit=64", "--data.batch=8",
        "--training.steps=6", "--optimizer.learn_rate=0.05"
    ]
    whole = end_of(run(*small).stdout)["weights"]
    out = [f"--checkpoints.folder={folder}/n", "--checkpoints.every=3", "--checkpoints.keep=0"]
    assert end_of(run(*small, *out).stdout)["weights"] == whole
    os.unlink(f"{folder}/n/step-000000000006.checkpoint")
    assert end_of(run(*small, *out, "--checkpoints.resume").stdout)["weights"] == whole
    text = run(*small, *out, "--data.test_limit=40", mode="evaluate").stdout
    assert re.search(r"step 6: loss (\d|1\d)\.", text), text
    for args, code, part in [
        (["--network.name=resnet19"], 2, "the nearest name is 'resnet1"),
        (["--network.name=lenet", "--network.hidden=24"], 2, "there is no 'network.hidden'"),
        (["--network.name=vgg11"], 1, "network: invalid argument: layer 20: windows of 2"),
    ]:
        done = run(*args, expect=code)
        assert part in done.stderr, (args, done)


def exploding_gradient_names_step_and_layer():
    done = run("--optimizer.learn_rate=1000000", expect=1)
    assert re.search(r"step \d+", done.stderr) and "layer" in done.stderr, done


def evaluator_follows_and_ends(folder):
    out = [f"--checkpoints.folder={folder}/e", "--checkpoints.every=10", "--checkpoints.keep=0"]
    table = f"{folder}/accuracy.csv"
    evaluator = subprocess.Popen(command(*out, f"--evaluation.csv={table}", mode="evaluate"),
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    run(*out, "--optimizer.learn_rate=0.05", f"--output.csv={folder}/loss.csv")
    text, errors = evaluator.communicate(timeout=60)
    assert evaluator.returncode == 0, (text, errors)
    with open(table, encoding="ascii") as file:
        rows = list(csv.DictReader(file))
    assert [row["step"] for row in rows] == ["10", "20", "30", "40"], rows
    assert float(rows[3]["top1"]) > 0.3 and float(rows[3]["top5"]) > float(rows[3]["top1"]), rows
    assert text.count("Prec@5") == 4, text
    with open(f"{folder}/loss.csv", encoding="ascii") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["step"]) for row in rows] == list(range(1, 41)), rows
    assert float(rows[39]["loss"]) < float(rows[0]["loss"]), rows


def killed_evaluator_goes_on(folder):
    """Killed with half a line written, after some lines, and when all are there: the table is the
    same."""
    out = [f"--checkpoints.folder={folder}/g", "--checkpoints.every=10", "--checkpoints.keep=0"]
    table = f"{folder}/again.csv"
    run(*out)
    run(*out, f"--evaluation.csv={table}", mode="evaluate")
    with open(table, encoding="ascii") as file:
        whole = file.read()
    lines = whole.splitlines(keepends=True)
    assert len(lines) == 5, whole
    for kept in "", lines[0], "".join(lines[:3]) + lines[3][:4], whole:
        with open(table, "w", encoding="ascii") as file:
            file.write(kept)
        run(*out, f"--evaluation.csv={table}", "--checkpoints.resume", "--evaluation.patience=1",
            mode="evaluate")
        with open(table, encoding="ascii") as file:
            assert file.read() == whole, kept
    with open(table, "w", encoding="ascii") as file:
        file.write("dear diary\n")
    done = run(*out, f"--evaluation.csv={table}", "--checkpoints.resume", mode="evaluate", expect=1)
    assert "is no table of an evaluation" in done.stderr, done


def straggler_is_not_waited_for():
    """However fast the others are: when the last step was made, a third gradient is late or
    cancelled."""
    slow = [
        "--training.workers=3", "--training.slow_worker=1", "--training.slowdown=1000",
        "--training.steps=60"
    ]
    both = [end_of(run(*slow, "--training.needed=2", f"--training.cancel={cancel}").stdout)
            for cancel in ("true", "false")]
    for end in both:
        assert end["gradients"] == 120, end
        assert end["late"] + end["cancelled"] > 0, end
    assert both[0]["cancelled"] > 0 and both[1]["cancelled"] == 0, both


def what_a_straggler_does_not_finish_others_take(folder):
    """Images of one class lie in its part only: they are learnt when all workers take turns with
    all images."""
    os.makedirs(f"{folder}/turns")
    for name, classes in ("train", (0, 3, 7)), ("test", (3,)):
        with open(f"{folder}/turns/{name}.bin", "wb") as file:
            for i in range(120):
                kind = classes[i * len(classes) // 120] if len(classes) > 1 else classes[0]
                file.write(
                    bytes([kind]) + bytes([(kind * 80 + i % 40) % 256]) * 1024 +
                    bytes([kind * 30]) * 2048)
    right = {}
    for order in "shared", "shards":
        # With a checkpoint of its own: the evaluator reads the configuration of the training.
        args = [
            f"--checkpoints.folder={folder}/turns-{order}", "--data.format=cifar10",
            f"--data.source={folder}/turns", f"--data.order={order}", "--data.batch=8",
            "--training.workers=3", "--training.needed=2", "--training.slow_worker=1",
            "--training.slowdown=1000", "--optimizer.learn_rate=0.05"
        ]
        run(*args)
        right[order] = float(
            re.findall(r"Prec@1: ([\d.]+)",
                       run(*args, mode="evaluate").stdout)[-1])
    assert right["shared"] > 90 and right["shards"] < 10, right


def asynchronous_training_counts_how_late_gradients_are(folder):
    """Of the first three gradients, of the same weights, two come after an update at least."""
    text = run("--training.workers=3", "--training.needed=1", "--training.staleness=5",
               "--training.steps=60", f"--output.svg={folder}/loss.svg").stdout
    late = {int(steps): int(count) for steps, count in re.findall(r"^ +(\d+): (\d+)$", text, re.M)}
    assert sum(late.values()) == 60 and max(late) <= 5, text
    assert sum(late[i] for i in late if i > 0) + end_of(text)["late"] >= 2, text
    with open(f"{folder}/loss.svg", encoding="ascii") as file:
        picture = xml.etree.ElementTree.parse(file).getroot()
    assert picture.tag.endswith("svg") and len(picture.findall("{*}polyline")) == 2, picture


def every_compression_learns():
    bytes_of, losses = {}, {}
    for method in "none", "lz4", "float16", "bfloat16", "top_k", "one_bit":
        text = run(f"--compression.method={method}", "--compression.keep=0.05",
                   "--optimizer.learn_rate=0.02", "--training.steps=60").stdout
        bytes_of[method] = end_of(text)["bytes"]
        losses[method] = [float(x) for x in re.findall(r"Loss: ([\d.]+)", text)]
        assert sum(losses[method][-5:]) < sum(losses[method][:5]), (method, losses[method])
        if method == "lz4":
            assert losses["lz4"] == losses["none"], losses
    whole = bytes_of["none"]
    assert bytes_of["lz4"] < whole, bytes_of
    assert bytes_of["float16"] == bytes_of["bfloat16"] < 0.51 * whole, bytes_of
    assert bytes_of["top_k"] < 0.11 * whole and bytes_of["one_bit"] < 0.05 * whole, bytes_of


def pieces_make_the_same_weights():
    """Layers that go to the server as soon as they are final: the same sums; each compression
    learns."""
    small = ["--network.name=fcnn", "--data.limit=64", "--data.batch=8", "--training.steps=6"]
    whole = end_of(run(*small).stdout)["weights"]
    for kb in "1", "64", "100000":
        end = end_of(run(*small, f"--training.piece_kb={kb}").stdout)
        assert end["weights"] == whole, (kb, end)
    late = [
        "--training.workers=3", "--training.needed=2", "--training.slow_worker=1",
        "--training.slowdown=1000"
    ]
    end = end_of(run("--training.piece_kb=16", *late).stdout)
    assert end["gradients"] == 80 and end["cancelled"] > 0, end
    for method in "lz4", "float16", "top_k", "one_bit":
        text = run(f"--compression.method={method}", "--compression.keep=0.05",
                   "--training.piece_kb=16", "--optimizer.learn_rate=0.02",
                   "--training.steps=60").stdout
        losses = [float(x) for x in re.findall(r"Loss: ([\d.]+)", text)]
        assert sum(losses[-5:]) < sum(losses[:5]), (method, losses)
    done = run("--training.piece_kb=16", "--training.staleness=2", expect=2)
    assert "staleness must be 0" in done.stderr, done


def children():
    """pid -> (parent, name), of all processes."""
    found = {}
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError, ValueError):
            with open(f"/proc/{name}/stat", encoding="latin1") as file:
                head, rest = file.read().rsplit(")", 1)
                found[int(name)] = (int(rest.split()[1]), head.split("(", 1)[1])
    return found


def below(processes, pid, ancestor):
    """How many generations `pid` is below `ancestor`."""
    return 0 if pid == ancestor else 1 + below(processes, processes[pid][0],
                                               ancestor) if pid in processes else 99


def actors_of(driver):
    """Driver, node daemon, zygote, actor: the server was made first, then the workers."""
    processes = children()
    return sorted(pid for pid in processes if below(processes, pid, driver) == 3)


def driver_of(program):
    """The program itself, or what crt run made of it beside the nodes."""
    processes = children()
    own = os.path.basename(PROGRAM)
    return next(
        (pid
         for pid, (parent, name) in processes.items() if parent == program and name == own[:15]),
        program)


def nodes_of(program):
    processes = children()
    return sorted(pid for pid, (_, name) in processes.items()
                  if name == "crt-node" and below(processes, pid, program) < 99)


def kill(who, program, evaluator):
    """The driver is held meanwhile: it cannot end before somebody was found."""
    if who == "evaluator":
        evaluator.kill()
        return
    driver = driver_of(program.pid) if who == "node" else program.pid
    os.kill(driver, signal.SIGSTOP)
    if who == "driver":
        os.kill(driver, signal.SIGKILL)
        return
    if who == "node":
        os.kill(random.choice(nodes_of(program.pid)), signal.SIGKILL)
    else:
        with contextlib.suppress(IndexError):  # it had ended before it was held: deaths are counted
            actors = actors_of(driver)
            os.kill(actors[0] if who == "server" else random.choice(actors[1:]), signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):  # it was of a node that is dead
        os.kill(driver, signal.SIGCONT)


def run_and_kill(folder, who, step):
    """Trains, kills once when that step was printed, goes on if need be; what the training ended
    with. All the while the checkpoints are evaluated; their table must be whole."""
    args = [
        f"--checkpoints.folder={folder}", "--checkpoints.every=7", "--checkpoints.keep=0", *SLOWED
    ]
    table = [f"--evaluation.csv={folder}.csv", "--checkpoints.resume"]
    cluster = [CRT, "run", "--nodes", "3", "--num-cpus", "2", "--"] if who == "node" else []
    program = subprocess.Popen(cluster + command(*args), stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    evaluator = subprocess.Popen(command(*args, *table, mode="evaluate"), stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True)
    text = ""
    for line in program.stdout:
        text += line
        if line.startswith(f"Step: {step},"):
            break
    kill(who, program, evaluator)
    rest, errors = program.communicate(timeout=120)
    # A node's death is the driver's when it was the driver's own.
    assert program.returncode == 0 or who in ("driver", "node"), (who, text, rest, errors)
    if program.returncode != 0:
        rest = run(*args, "--checkpoints.resume").stdout
    if who == "evaluator":
        evaluator.communicate(timeout=60)
        run(*args, *table, mode="evaluate")
    else:
        said = evaluator.communicate(timeout=60)
        assert evaluator.returncode == 0, said
    with open(f"{folder}.csv", encoding="ascii") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["step"]) for row in rows] == [7, 14, 21, 28, 35, 40], (who, rows)
    return end_of(rest)


# so that a step is still under way when somebody is killed
SLOWED = "--training.slow_worker=0", "--training.slowdown=40"
ROLES = "server", "worker", "evaluator", "node", "driver"


def killed_training_ends_with_the_same_weights(folder, kills):
    expected = end_of(run().stdout)["weights"]
    deaths = 0
    for i in range(kills):
        who = ROLES[i % len(ROLES)]
        step = random.randint(1, 30)
        began = time.monotonic()
        end = run_and_kill(f"{folder}/k{i}", who, step)
        assert end["weights"] == expected, (who, step, end, expected)
        deaths += end["deaths"]
        if kills > len(ROLES):
            print(
                f"kill {i + 1}: {who} at step {step}: the same weights, {end['deaths']:.0f} deaths "
                f"seen, {time.monotonic() - began:.1f} s", flush=True)
    assert deaths >= kills // 4, (deaths, kills)


def main():
    seed = int(time.time())
    print(f"seed {seed}")
    random.seed(seed)
    with tempfile.TemporaryDirectory() as folder:
        if KILLS:
            killed_training_ends_with_the_same_weights(folder, KILLS)
            return
        wrong_settings_are_named(folder)
        wrong_data_are_named(folder)
        checkpoints_that_do_not_fit_are_refused(folder)
        a_damaged_checkpoint_is_named_and_the_one_before_is_taken(folder)
        networks_by_name_learn_and_go_on(folder)
        exploding_gradient_names_step_and_layer()
        evaluator_follows_and_ends(folder)
        killed_evaluator_goes_on(folder)
        straggler_is_not_waited_for()
        what_a_straggler_does_not_finish_others_take(folder)
        asynchronous_training_counts_how_late_gradients_are(folder)
        every_compression_learns()
        pieces_make_the_same_weights()
        killed_training_ends_with_the_same_weights(folder, len(ROLES))


if __name__ == "__main__":
    main()
