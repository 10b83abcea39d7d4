#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/ml/recorded_ner.h: costs of moves, losses and gradients of spaCy's NER.

    pip install spacy && python3 tests/ml/record_ner.py > tests/ml/recorded_ner.h

The C tests read the header only. Weights come from wave(), which both sides compute; dropout is
off, that of states, for which spaCy has no option, too. One layer deep, since spaCy lets zero rows
between documents become others in deeper ones. Where a state has no word in a place, spaCy's
gradient of the lower weights takes the vector of the batch's last word for it (X[-1]); here it
takes none.
"""
import numpy as np
import spacy
import spacy.ml._precomputable_affine
import spacy.ml.parser_model
from spacy.tokens import Doc
from spacy.training import Example, biluo_tags_to_spans

DOCUMENTS = [
    [("Anna", "B-PER"), ("Ahn", "L-PER"), ("went", "O"), ("to", "O"), ("Paris", "U-LOC"),
     (".", "O")],
    [("The", "O"), ("New", "B-LOC"), ("York", "I-LOC"), ("City", "L-LOC"), ("men", "O")],
    [("Otto", "U-PER")],
    [("von", "B-PER"), ("der", "I-PER"), ("Aa", "I-PER"), ("zu", "I-PER"), ("Ems", "I-PER"),
     ("Rat", "I-PER"), ("Ohm", "L-PER"), ("in", "O"), ("Ulm", "U-LOC")],
]


def lower(model, X, is_train):
    """spacy.ml._precomputable_affine.forward, with no vector for a word that is not there."""
    y, _ = spacy.ml._precomputable_affine.forward(model, X, is_train)
    places, outs, pieces, ins = (model.get_dim(name) for name in ("nF", "nO", "nP", "nI"))

    def backward(given):
        d, ids = given
        model.inc_grad(
            "pad",
            spacy.ml._precomputable_affine._backprop_precomputable_affine_padding(model, d, ids))
        model.inc_grad("b", d.sum(axis=0))
        x = X[ids] * (ids >= 0)[:, :, None]
        model.inc_grad("W", np.einsum("bop,bfi->fopi", d, x).astype("float32"))
        return np.einsum("bop,fopi->bfi", d, model.get_param("W")).astype("float32")

    return y, backward


class NoDropout:
    def __init__(self, ops):
        self.ops = ops

    def get_dropout_mask(self, shape, rate):
        return np.ones(shape, dtype="float32")

    def __getattr__(self, name):
        return getattr(self.ops, name)


def wave(count, step, size):
    return (size * np.sin(step * (np.arange(count, dtype=np.float64) + 1))).astype("float32")


def emit(name, values):
    values = np.asarray(values, dtype=np.float64).ravel()
    print(f"static const double {name}[{len(values)}] = {{")
    for i in range(0, len(values), 6):
        print("    " + ", ".join(f"{v:.8e}" for v in values[i:i + 6]) + ",")
    print("};\n")


def params_of(model):
    return [(node, name) for node in model.walk(order="dfs_pre")
            for name in ("E", "W", "G", "b", "pad") if node.has_param(name)]


def make(nlp, extra, pieces, upper):
    ner = nlp.create_pipe(
        "ner", config={
            "update_with_oracle_cut_size": 0, "model": {
                "@architectures": "spacy.TransitionBasedParser.v2", "state_type": "ner",
                "extra_state_tokens": extra, "hidden_width": 3, "maxout_pieces": pieces,
                "use_upper": upper, "nO": None, "tok2vec": {
                    "@architectures": "spacy.HashEmbedCNN.v2", "pretrained_vectors": None,
                    "width": 4, "depth": 1, "embed_size": 6, "window_size": 1, "maxout_pieces": 2,
                    "subword_features": True
                }
            }
        })
    return ner


def record(name, extra, pieces, upper):
    nlp = spacy.blank("xx")
    examples = []
    for words in DOCUMENTS:
        gold = Doc(nlp.vocab, words=[word for word, _ in words])
        gold.set_ents(biluo_tags_to_spans(gold, [tag for _, tag in words]))
        examples.append(Example(Doc(nlp.vocab, words=[word for word, _ in words]), gold))
    ner = make(nlp, extra, pieces, upper)
    ner.initialize(lambda: examples, nlp=nlp)
    arrays = params_of(ner.model)
    flat, at = wave(sum(node.get_param(key).size for node, key in arrays), 0.9, 0.5), 0
    for node, key in arrays:
        old = node.get_param(key)
        node.set_param(key, flat[at:at + old.size].reshape(old.shape))
        at += old.size
    ner.model.get_ref("lower")._func = lower
    losses = {}
    ner.update(examples, drop=0.0, sgd=None, losses=losses)
    emit(f"spacy_{name}_gradients",
         np.concatenate([node.get_grad(key).ravel() for node, key in arrays]))
    emit(f"spacy_{name}_loss", [losses["ner"]])
    return ner, examples


def record_costs(ner, examples):
    """Costs of all moves along paths that take the (3 k + document)th valid move in step k."""
    costs = []
    for number, example in enumerate(examples):
        state = ner.moves.init_batch([example.predicted])[0]
        gold = ner.moves.init_gold(state, example)
        for k in range(len(example.predicted)):
            row = [ner.moves.get_cost(state, gold, i) for i in range(ner.moves.n_moves)]
            valid = [i for i, cost in enumerate(row) if cost < 9000]
            costs += row
            names = ner.move_names[:-1] + ["U-", "O"
                                           ]  # spaCy does not tell of the unit without a label
            ner.moves.apply_transition(state, names[valid[(3 * k + number) % len(valid)]])
    print(f"static const int spacy_costs[{len(costs)}] = {{")
    for i in range(0, len(costs), 20):
        print("    " + ", ".join(str(int(c)) for c in costs[i:i + 20]) + ",")
    print("};\n")


spacy.ml.parser_model.NUMPY_OPS = NoDropout(spacy.ml.parser_model.NUMPY_OPS)
print("/* SPDX-License-Identifier: Apache-2.0 */")
print(f"/* Made by tests/ml/record_ner.py with spaCy {spacy.__version__}; not edited by hand. */")
print("/* clang-format off */")
print("#ifndef CRTI_TESTS_ML_RECORDED_NER_H\n#define CRTI_TESTS_ML_RECORDED_NER_H\n")
record_costs(*record("three", False, 2, True))
record("six", True, 3, True)
record("bare", False, 2, False)
print("#endif")
