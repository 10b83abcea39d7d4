#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Named entities on a GPU, by spaCy and by build/tests/bench/ner_steps: the same synthetic corpus,
batches of as many words, the model that is the default of both. Prints the words of all batches
in a second of each, without the first step.

    pip install spacy[cuda12x] && python3 tests/bench/ner_gpu_spacy.py --program
    build/tests/bench/ner_steps
"""
import argparse
import os
import subprocess
import tempfile
import time


def documents(path):
    """Lists of (word, tag)."""
    with open(path, encoding="utf-8") as file:
        for text in file.read().split("\n\n"):
            if text.strip():
                yield [line.split(" ") for line in text.strip().split("\n")]


def batches(examples, words, steps):
    """Round and round through the corpus, each with some more than `words` words."""
    at = 0
    for _ in range(steps):
        batch, size = [], 0
        while size < words and len(batch) < len(examples):
            batch.append(examples[at % len(examples)])
            size += len(batch[-1].reference)
            at += 1
        yield batch, size


def run_spacy(options, path):
    import spacy
    from spacy.tokens import Doc
    from spacy.training import Example
    spacy.require_gpu(options.gpu_id)
    nlp = spacy.blank("en")
    nlp.add_pipe("ner")
    examples = [
        Example.from_dict(Doc(nlp.vocab, words=[w for w, _ in d]), {"entities": [t for _, t in d]})
        for d in documents(path)
    ]
    optimizer = nlp.initialize(lambda: examples)
    begin, words = 0, 0
    for i, (batch, size) in enumerate(batches(examples, options.words, options.steps + 1)):
        if i == 1:
            begin = time.monotonic()
        words += size if i > 0 else 0
        nlp.update(batch, sgd=optimizer, drop=0.1, losses={})
    spacy.util.get_cuda_stream(require=True).synchronize()
    return words / (time.monotonic() - begin)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--gpu-id", type=int, default=0)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--words", type=int, default=1000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "corpus")
        ours = subprocess.run([
            options.program, "--gpu-id", str(options.gpu_id), "--steps", str(options.steps),
            "--words", str(options.words), "--write", path
        ], check=True, text=True, stdout=subprocess.PIPE).stdout
        print(ours, end="")
        theirs = run_spacy(options, path)
    own = float(ours.split("words/s: GPU ")[1].split(",")[0])
    print(f"words/s on the GPU: {own:.0f}, spaCy {theirs:.0f}: {own / theirs:.1f} times")


main()
