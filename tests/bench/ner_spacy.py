#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Named entities by spaCy and by train_ner: the same configuration, corpora and number of updates,
one core.

    pip install spacy && python3 tests/bench/ner_spacy.py --build build --data DIR [--configuration
    FILE]

DIR holds wikigold/wikigold.conll.gz and btc/train.conll.gz, dev.conll.gz, test.conll.gz. Wikigold
is divided at random by train_ner: 80 % to train, 20 % to test. The configuration is that of `spacy
init config --pipeline ner`, or the given file. The two take turns on the same core. Prints F of the
test data behind the last update, mean of all seeds, and the words of all batches in the seconds of
all updates (evaluation and start left out).
"""
import argparse
import csv
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

SOURCE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(SOURCE, "build"),
                        help="build folder of a release build")
    parser.add_argument("--data", required=True)
    parser.add_argument("--corpora", default="wikigold,btc")
    parser.add_argument("--configuration", help="another than that of spacy init config")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--core", type=int, default=0, help="the core that both run on")
    parser.add_argument("--out", help="folder for ner_spacy.json")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    return parser.parse_args()


# ---------------------------------------------------------------- data

def convert(given, folder, corpus):
    """(train, test): files of BILUO tags."""
    paths = [os.path.join(folder, f"{corpus}-{part}.conll") for part in ("train", "test")]
    if corpus == "btc":
        sources = [(os.path.join(given.data, "btc", f"{part}.conll.gz"), "0:1")
                   for part in ("train", "test")]
    else:
        whole = os.path.join(given.data, corpus, f"{corpus}.conll.gz")
        sources = [(whole, "0:0.8"), (whole, "0.8:1")]
    for (source, part), path in zip(sources, paths):
        subprocess.run([train_ner(given), "convert", source, path, "--part", part, "--seed", "1"],
                       check=True)
    return paths


def train_ner(given):
    return os.path.join(given.build, "examples", "train_ner")


def write_configuration(path):
    subprocess.run([
        sys.executable, "-m", "spacy", "init", "config", "--lang", "en", "--pipeline", "ner", path
    ], check=True, stdout=subprocess.DEVNULL)


# ---------------------------------------------------------------- spaCy, in a process of its own

def read_documents(nlp, path):
    from spacy.tokens import Doc
    from spacy.training import Example
    found, words, tags = [], [], []
    with open(path, encoding="utf-8") as file:
        for line in [*file, "\n"]:
            if line.strip():
                word, tag = line.rstrip("\n").split("\t")
                words.append(word)
                tags.append(tag)
            elif words:
                found.append(
                    Example.from_dict(Doc(nlp.vocab, words=words),
                                      {"words": words, "entities": tags}))
                words, tags = [], []
    return found


def endless(examples, batcher):
    """spacy.training.loop: shuffled in each epoch."""
    epoch = 0
    while True:
        random.shuffle(examples)
        for batch in batcher(examples):
            yield epoch, batch
        epoch += 1


def train_spacy(work):
    import spacy
    from spacy import util
    from spacy.training.loop import train_while_improving
    util.fix_random_seed(work["seed"])
    configuration = util.load_config(work["configuration"], overrides={"system.seed": work["seed"]},
                                     interpolate=True)
    nlp = util.load_model_from_config(configuration, auto_fill=True)
    training = util.registry.resolve(nlp.config["training"].copy(), schema=None, validate=False)
    examples, test = (read_documents(nlp, path) for path in work["files"])
    nlp.initialize(lambda: examples)
    random.seed(work["seed"])
    words = 0
    began = None
    for batch, info, _ in train_while_improving(nlp, training["optimizer"],
                                                endless(examples,
                                                        training["batcher"]), lambda: (0.0, {}),
                                                dropout=training["dropout"], eval_frequency=10**9,
                                                accumulate_gradient=training["accumulate_gradient"],
                                                patience=0, max_steps=work["steps"], exclude=[],
                                                annotating_components=[], before_update=None):
        if began is None:
            began = time.monotonic()  # behind the first, as the other's first stretch is one update
        else:
            words += sum(len(example) for example in batch)
    seconds = time.monotonic() - began
    scores = nlp.evaluate(test)
    parameters = sum(
        node.get_param(name).size for _, component in nlp.pipeline
        for node in component.model.walk() for name in node.param_names if node.has_param(name))
    print(
        json.dumps({
            "f": scores["ents_f"], "words": words, "seconds": seconds,
            "parameters": int(parameters), "version": spacy.__version__
        }))


# ---------------------------------------------------------------- both, in turns

ONE_CORE = {
    "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "BLIS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1"
}


def on_core(given, command, **options):
    return subprocess.run(["taskset", "-c", str(given.core), *command],
                          env={**os.environ, **ONE_CORE}, check=True, stdout=subprocess.PIPE,
                          text=True, **options).stdout


def run_spacy(given, _, configuration, files, seed):
    work = {"seed": seed, "steps": given.steps, "files": files, "configuration": configuration}
    said = on_core(given,
                   [sys.executable, __file__, "--data", given.data, "--worker",
                    json.dumps(work)])
    return json.loads(said.splitlines()[-1])


def run_crt(given, folder, configuration, files, seed):
    output = os.path.join(folder, "output")
    on_core(given, [
        train_ner(given), "train", configuration, "-o", output, f"--paths.train={files[0]}",
        f"--paths.dev={files[1]}", f"--system.seed={seed}", f"--training.max_steps={given.steps}",
        f"--training.eval_frequency={given.steps}", "--training.patience=0"
    ])
    with open(os.path.join(output, "log.csv"), encoding="utf-8") as file:
        first, last = list(csv.DictReader(file))
    words = int(last["words"]) - int(first["words"])
    return {"f": float(last["f"]), "words": words, "seconds": words / float(last["words_per_s"])}


def compare(given, folder, configuration, corpus):
    files, runs = convert(given, folder, corpus), {"spaCy": [], "crt": []}
    for seed in range(given.seeds):
        for name, run in ("spaCy", run_spacy), ("crt", run_crt):
            found = run(given, folder, configuration, files, seed)
            runs[name].append(found)
            print(
                f"{corpus}, seed {seed}, {name}: F {100 * found['f']:.2f}, "
                f"{found['words'] / found['seconds']:.0f} words/s", file=sys.stderr, flush=True)
    return runs


def print_table(report):
    print(
        f"spaCy {report['version']}, {report['parameters']} parameters; {report['steps']} updates; "
        f"mean of {report['seeds']} seeds, one core")
    print(
        f"{'corpus':10} {'spaCy F':>8} {'crt F':>8} {'crt - spaCy':>12}  {'spaCy words/s':>13} "
        f"{'crt words/s':>12} {'ratio':>6}")
    for corpus, runs in report["corpora"].items():
        f = {name: 100 * statistics.mean(run["f"] for run in runs[name]) for name in runs}
        speed = {
            name: sum(run["words"] for run in runs[name]) / sum(run["seconds"]
                                                                for run in runs[name])
            for name in runs
        }
        print(
            f"{corpus:10} {f['spaCy']:8.2f} {f['crt']:8.2f} {f['crt'] - f['spaCy']:+12.2f}  "
            f"{speed['spaCy']:13.0f} {speed['crt']:12.0f} {speed['crt'] / speed['spaCy']:6.2f}")


def main():
    given = read_arguments()
    if given.worker:
        train_spacy(json.loads(given.worker))
        return
    report = {"steps": given.steps, "seeds": given.seeds, "corpora": {}}
    with tempfile.TemporaryDirectory() as folder:
        configuration = given.configuration or os.path.join(folder, "ner.cfg")
        if not given.configuration:
            write_configuration(configuration)
        for corpus in given.corpora.split(","):
            report["corpora"][corpus] = compare(given, folder, configuration, corpus)
    last = next(iter(report["corpora"].values()))["spaCy"][-1]
    report.update(version=last["version"], parameters=last["parameters"])
    print_table(report)
    if given.out:
        os.makedirs(given.out, exist_ok=True)
        with open(os.path.join(given.out, "ner_spacy.json"), "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)


if __name__ == "__main__":
    main()
