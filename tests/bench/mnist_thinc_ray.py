#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Parameter servers on MNIST: the program of the notebook "Parallel training with Thinc and Ray",
and train_mnist.

    pip install thinc ray && python3 tests/bench/mnist_thinc_ray.py --build build --data DIR

DIR holds MNIST's four IDX files, plain or gzip. Both train Relu(128), dropout 0.2, Relu(128),
dropout 0.2, softmax with Adam 0.001 (gradients clipped to 1 for each array, summed over two
workers, 128 images each), 200 rounds: first synchronous, then asynchronous, both from new weights.
They take turns, each with two processors for its workers. The workers set their gradients to zero
before each pass, which the notebook left out (--published leaves it out, and then the accuracy is
that of the notebook). Prints the seconds of the loop without start and evaluation, medians of the
rounds, and the mean accuracy on the 10,000 test images at the end.
"""
import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
import time

SOURCE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(SOURCE, "build"),
                        help="build folder of a release build")
    parser.add_argument("--data", required=True)
    parser.add_argument("--iterations", type=int, default=200)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3,
                        help="how often both take their turn, each with another seed")
    parser.add_argument("--published", action="store_true",
                        help="gradients are never set to zero, as in the notebook")
    parser.add_argument("--out", help="folder for mnist_thinc_ray.json")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)  # the seed of a turn
    return parser.parse_args()


# ---------------------------------------------------------------- Thinc and Ray, in a process of
# its own

def read_idx(folder, name):
    import numpy as np
    path = os.path.join(folder, name)
    with (open(path, "rb") if os.path.exists(path) else gzip.open(path + ".gz", "rb")) as file:
        data = file.read()
    shape = [int.from_bytes(data[4 + 4 * i:8 + 4 * i], "big") for i in range(data[3])]
    return np.frombuffer(data, dtype=np.uint8, offset=4 + 4 * data[3]).reshape(shape)


def read_mnist(folder):
    import numpy as np
    sets = []
    for part in ("train", "t10k"):
        images = read_idx(folder, f"{part}-images-idx3-ubyte").reshape(-1,
                                                                       784).astype("float32") / 255
        sets.append((images, np.eye(10, dtype="float32")[read_idx(folder,
                                                                  f"{part}-labels-idx1-ubyte")]))
    return sets


def get_model_weights(model):
    return {
        node.id: {name: node.get_param(name)
                  for name in node.param_names if node.has_param(name)}
        for node in model.walk()
    }


def set_model_weights(model, params):
    for node in model.walk():
        for name, param in params[node.id].items():
            node.set_param(name, param)


def get_model_grads(model):
    return {
        node.id: {name: node.get_grad(name)
                  for name in node.grad_names}
        for node in model.walk()
    }


def set_model_grads(model, grads):
    for node in model.walk():
        for name, grad in grads[node.id].items():
            node.set_grad(name, grad)


def clear_model_grads(model):
    for node in model.walk():
        for name in node.grad_names:
            node.set_grad(name, node.get_grad(name) * 0)


class ParameterServer:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer

    def apply_gradients(self, *worker_grads):
        summed = {}
        for grads in worker_grads:
            for node_id, node_grads in grads.items():
                into = summed.setdefault(node_id, {})
                for name, grad in node_grads.items():
                    if name in into:
                        into[name] += grad
                    else:
                        into[name] = grad.copy()
        set_model_grads(self.model, summed)
        self.model.finish_update(self.optimizer)
        return get_model_weights(self.model)

    def get_weights(self):
        return get_model_weights(self.model)


class DataWorker:
    def __init__(self, model, folder, batch_size, seed, published):
        from thinc.api import fix_random_seed
        fix_random_seed(seed)
        self.model, self.batch_size, self.published = model, batch_size, published
        self.train = read_mnist(folder)[0]
        self.batches = self.shuffled()

    def shuffled(self):
        import numpy as np
        while True:
            order = np.random.permutation(len(self.train[0]))
            for first in range(0, len(order), self.batch_size):
                rows = order[first:first + self.batch_size]
                yield self.train[0][rows], self.train[1][rows]

    def ready(self):
        return True

    def compute_gradients(self, weights):
        set_model_weights(self.model, weights)
        if not self.published:
            clear_model_grads(self.model)
        data, target = next(self.batches)
        guesses, backprop = self.model(data, is_train=True)
        backprop((guesses - target) / target.shape[0])
        return get_model_grads(self.model)


def new_model(train):
    from thinc.api import Relu, Softmax, chain
    model = chain(Relu(128, dropout=0.2), Relu(128, dropout=0.2), Softmax())
    model.initialize(X=train[0][:5], Y=train[1][:5])
    return model


def accuracy_of(model, test):
    return float((model.predict(test[0]).argmax(axis=1) == test[1].argmax(axis=1)).mean())


def train_sync(ray, given, server, workers):
    weights = server.get_weights.remote()
    for _ in range(given.iterations):
        weights = server.apply_gradients.remote(
            *[worker.compute_gradients.remote(weights) for worker in workers])
    return ray.get(weights)


def train_async(ray, given, server, workers):
    weights = server.get_weights.remote()
    gradients = {worker.compute_gradients.remote(weights): worker for worker in workers}
    for _ in range(given.iterations * given.workers):
        ready, _ = ray.wait(list(gradients))
        worker = gradients.pop(ready[0])
        weights = server.apply_gradients.remote(ready[0])
        gradients[worker.compute_gradients.remote(weights)] = worker
    return ray.get(weights)


def turn_of_thinc(given):
    import ray
    import thinc
    from thinc.api import Adam, fix_random_seed
    train, test = read_mnist(given.data)
    found = {"versions": f"Thinc {thinc.__version__}, Ray {ray.__version__}"}
    for mode, loop in ("sync", train_sync), ("async", train_async):
        ray.init(num_cpus=given.workers, include_dashboard=False, logging_level="ERROR",
                 object_store_memory=10**9)
        fix_random_seed(given.worker)
        model = new_model(train)
        server = ray.remote(ParameterServer).options(num_cpus=0).remote(model, Adam())
        workers = [
            ray.remote(DataWorker).remote(model, given.data, 128, given.worker * 100 + i,
                                          given.published) for i in range(given.workers)
        ]
        ray.get([worker.ready.remote() for worker in workers])
        ray.get(server.get_weights.remote())
        began = time.monotonic()
        weights = loop(ray, given, server, workers)
        seconds = time.monotonic() - began
        set_model_weights(model, weights)
        found[mode] = {"seconds": seconds, "accuracy": accuracy_of(model, test)}
        ray.shutdown()
    print(json.dumps(found))


# ---------------------------------------------------------------- both, in turns

def start(command):
    return subprocess.run(command,
                          env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
                          check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1]


def turn_of_crt(given, seed):
    found = {}
    for mode in ("sync", "async"):
        said = json.loads(
            start([
                os.path.join(given.build, "examples", "train_mnist"), "--json", "--data",
                given.data, "--mode", mode, "--workers",
                str(given.workers), "--iterations",
                str(given.iterations), "--eval-every", "0", "--seed",
                str(seed)
            ]))
        found[mode] = {"seconds": said["loop_seconds"], "accuracy": said["final_accuracy"]}
    return found


def print_table(given, versions, rounds):
    print(f"{versions}; {given.iterations} rounds of {given.workers} workers, {len(rounds)} turns, "
          f"{os.cpu_count()} processors")
    print(f"{'':6} {'Thinc + Ray s':>14} {'crt s':>8} {'ratio':>7} {'accuracy':>10} {'crt':>7}")
    for mode in ("sync", "async"):
        seconds = [[turn[who][mode]["seconds"] for turn in rounds] for who in ("thinc", "crt")]
        accuracy = [
            statistics.mean(turn[who][mode]["accuracy"] for turn in rounds)
            for who in ("thinc", "crt")
        ]
        ratio = statistics.median(a / b for a, b in zip(*seconds))
        print(
            f"{mode:6} {statistics.median(seconds[0]):14.3f} {statistics.median(seconds[1]):8.3f} "
            f"{ratio:7.2f} {accuracy[0]:10.4f} {accuracy[1]:7.4f}")


def main():
    given = read_arguments()
    if given.worker is not None:
        turn_of_thinc(given)
        return
    rounds, versions = [], ""
    for seed in range(given.rounds):
        command = [
            sys.executable,
            os.path.abspath(__file__), "--data", given.data, "--iterations",
            str(given.iterations), "--workers",
            str(given.workers), "--worker",
            str(seed), *(["--published"] if given.published else [])
        ]
        thinc = json.loads(start(command))
        versions = thinc.pop("versions")
        rounds.append({"thinc": thinc, "crt": turn_of_crt(given, seed)})
        print(f"turn {seed}: {rounds[-1]}", file=sys.stderr, flush=True)
    print_table(given, versions, rounds)
    if given.out:
        os.makedirs(given.out, exist_ok=True)
        with open(os.path.join(given.out, "mnist_thinc_ray.json"), "w", encoding="utf-8") as file:
            json.dump({"versions": versions, "iterations": given.iterations, "rounds": rounds},
                      file, indent=1)


if __name__ == "__main__":
    main()
