#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs train_ner with a small model: its commands, its modes, resume, and the death of members.
Usage: test_train_ner.py TRAIN_NER DEFAULT_CFG SPACY_3_CFG NER_MD"""
import csv
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest

PROGRAM, CONFIGURATION, SPACY_3, MANUAL = sys.argv[1:5]
SMALL = [
    "--paths.train=builtin:400", "--paths.dev=builtin:60:1",
    "--components.tok2vec.model.encode.width=16", "--components.tok2vec.model.embed.rows=200",
    "--components.tok2vec.model.encode.depth=1", "--training.optimizer.learn_rate=0.01",
    "--training.batcher.size.start=200", "--training.eval_frequency=15"
]


def run(*words, expect=0):
    done = subprocess.run([PROGRAM, *words], capture_output=True, text=True, timeout=200)
    if done.returncode != expect:
        raise AssertionError(f"{words} ended with {done.returncode}: {done.stdout} {done.stderr}")
    return done


def read(*path):
    with open(os.path.join(*path), "rb") as file:
        return file.read()


def processes(mark, other_than):
    """Processes whose command line has `mark`, those that computed most first."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if int(pid) != other_than and mark.encode() in read("/proc", pid, "cmdline"):
                fields = read("/proc", pid, "stat").rsplit(b")", 1)[1].split()
                found.append((int(fields[11]), int(pid)))
        except OSError:
            pass  # it has ended
    return [pid for _, pid in sorted(found, reverse=True)]


class TrainNer(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def train(self, name, *words, steps=45, expect=0):
        return run("train", CONFIGURATION, "-o", os.path.join(self.folder, name), *SMALL,
                   f"--training.max_steps={steps}", *words, expect=expect)

    def rows(self, name):
        with open(os.path.join(self.folder, name, "log.csv"), encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def test_files_are_converted_and_broken_tags_have_a_line(self):
        source, target = (os.path.join(self.folder, name) for name in ("in.iob", "out.conll"))
        with open(source, "w", encoding="utf-8") as file:
            file.write("Anna|NNP|B-PER Ahn|NNP|I-PER sings|VBZ|O\nin|IN|O Ulm|NNP|I-LOC\n")
        run("convert", source, target)
        self.assertEqual(
            read(target).decode(), "Anna\tB-PER\nAhn\tL-PER\nsings\tO\n\nin\tO\nUlm\tU-LOC\n")
        run("convert", source, target, "--part", "0:0.5", "--seed", "1")
        self.assertIn(read(target).decode().count("\n"), (2, 3))
        with open(source, "a", encoding="utf-8") as file:
            file.write("Anna|NNP|X-PER\n")
        done = run("convert", source, target, expect=1)
        self.assertIn("in.iob:3: no tag: \"X-PER\"", done.stderr)
        self.assertIn("builtin:COUNT", run("convert", "builtin:x", target, expect=1).stderr)

    def test_what_was_trained_is_evaluated(self):
        done = self.train("a", "-w", "2", steps=90)
        lines = done.stdout.splitlines()
        self.assertRegex(lines[0], r"^ +T +E +# +W +LOSS NER +ENTS_F +ENTS_P +ENTS_R +SCORE$")
        self.assertRegex(lines[1], r"^-{8}  -{3}  -{6}  -{6}  -{8}  -{6}  -{6}  -{6}  -{6}$")
        self.assertEqual([int(row["step"]) for row in self.rows("a")], [0, 15, 30, 45, 60, 75, 90])
        self.assertGreater(float(self.rows("a")[-1]["f"]), 0.15)
        best = max(float(row["f"]) for row in self.rows("a"))
        metrics = os.path.join(self.folder, "metrics.json")
        told = run("evaluate", os.path.join(self.folder, "a", "model-best"), "builtin:60:1",
                   "--output", metrics)
        self.assertAlmostEqual(json.loads(read(metrics))["ents_f"], best, places=5)
        self.assertRegex(told.stdout, r"(?m)^PER +\d+\.\d\d +\d+\.\d\d +\d+\.\d\d +\d+$")
        self.assertIn(b"[distributed]", read(self.folder, "a", "config.cfg"))
        for curve in "loss", "accuracy", "throughput":
            self.assertEqual(read(self.folder, "a", f"curve-{curve}.svg").count(b"<polyline"), 2)
        self.assertGreater(min(float(row["words_per_s"]) for row in self.rows("a")), 0)
        self.assertIn("No such file", run("evaluate", "/nowhere", "builtin:1", expect=1).stderr)

    def test_the_columns_of_spacy_are_there_on_demand(self):
        done = self.train("a", "--training.logger.@loggers=spacy.ConsoleLogger.v1", steps=1)
        self.assertRegex(done.stdout.splitlines()[0],
                         r"^ +E +# +LOSS NER +ENTS_F +ENTS_P +ENTS_R +SCORE$")

    def test_a_configuration_of_spacy_3_is_read_as_it_is(self):
        output = os.path.join(self.folder, "a")
        done = run("train", SPACY_3, "-o", output, "--paths.train=builtin:40",
                   "--paths.dev=builtin:9:1", "--training.max_steps=1")
        self.assertRegex(done.stdout.splitlines()[0], r"^ +E +# +LOSS NER +ENTS_F")
        self.assertGreater(len(read(output, "model-best")),
                           4 * 1533234)  # a table of its own size for each feature
        for word, part in (
            ('--components.tok2vec.model.embed.attrs=["NORM","TAG","SUFFIX","PREFIX"]',
             "attribute TAG is not here"), ("--components.tok2vec.model.embed.rows=[9,9]",
                                            "4 attributes with the rows of 2 tables"),
            ("--components.ner.scorer.@scorers=x",
             "components.ner.scorer: x, not spacy.ner_scorer.v1"),
            ("--training.train_corpus=corpora.trian",
             "corpora.trian"), ("--components.ner.model.use_uper=true",
                                "the nearest name is components.ner.model.use_upper")):
            with self.subTest(word):
                done = run("train", SPACY_3, "-o", output, "--paths.train=builtin:40",
                           "--paths.dev=builtin:9:1", word, expect=1)
                self.assertIn(part, done.stderr)

    def train_spacy_3(self, name, *words, configuration=SPACY_3, expect=0):
        """Two steps by the configuration of spaCy 3, in a small size; its model, or what was
        said."""
        output = os.path.join(self.folder, name)
        done = run("train", configuration, "-o", output, "--paths.train=builtin:40",
                   "--paths.dev=builtin:9:1", "--components.tok2vec.model.encode.width=8",
                   "--components.tok2vec.model.embed.rows=[90,50,50,50]", "--training.max_steps=1",
                   *words, expect=expect)
        return done.stderr if expect else read(output, "model-last")

    def spacy_3_with(self, section, text):
        """The configuration of spaCy 3 with this in place of a section and of those below it."""
        with open(SPACY_3, encoding="utf-8") as file:
            blocks = re.split(r"(?m)^(?=\[)", file.read())
        path = os.path.join(self.folder, "changed.cfg")
        with open(path, "w", encoding="utf-8") as file:
            file.write("".join(block for block in blocks
                               if not block.startswith((f"[{section}]", f"[{section}."))) + "\n" +
                       text)
        return path

    def test_architectures_of_public_configurations_are_known(self):
        embed, encode = "--components.tok2vec.model.embed", "--components.tok2vec.model.encode"
        plain = self.train_spacy_3("plain")
        first = self.train_spacy_3("first", f"{embed}.@architectures=spacy.MultiHashEmbed.v1")
        self.assertEqual(plain, first)  # they differ in static vectors only
        attributes = ["ORTH", "LOWER", "SPACY", "IS_SPACE", "ID", "LENGTH", "IS_TITLE", "SHAPE"]
        many = self.train_spacy_3("many", f"{embed}.attrs={json.dumps(attributes)}",
                                  f"{embed}.rows={json.dumps([50] * 8)}")
        # More rows, and more inputs of the layer that mixes them; with the optimizer's two states.
        self.assertEqual(len(many) - len(plain), 3 * 4 * ((400 - 240) * 8 + 3 * 8 * 4 * 8) + 4 * 8)
        for version in "v1", "v2":
            mish = self.train_spacy_3(
                "mish", configuration=self.spacy_3_with(
                    "components.tok2vec.model.encode",
                    "\n[components.tok2vec.model.encode]\nwidth = 8\ndepth = 4\nwindow_size = 1\n"
                    f'@architectures = "spacy.MishWindowEncoder.{version}"\n'))
            self.assertLess(len(mish), len(plain))
        for word, part in (
                (f"{embed}.include_static_vectors=true", "(no [initialize] vectors are named)"),
                (f"{encode}.@architectures=spacy.TorchBiLSTMEncoder.v1",
                 "'spacy.TorchBiLSTMEncoder.v1'"),
                (f"{embed}.@architectures=spacy.CharacterEmbed.v2", "'spacy.CharacterEmbed.v2'"),
                ("--components.ner.model.tok2vec.@architectures="
                 "spacy-transformers.TransformerListener.v1",
                 "spacy-transformers.TransformerListener.v1: there are no transformers here"),
                ("--components.ner.model.@architectures=spacy.TransitionBasedParser.v3",
                 "TransitionBasedParser.v3"),
                ("--components.ner.model.tok2vec.width=9",
                 "the listener's width is 9, the tok2vec's 8")):
            with self.subTest(word):
                self.assertIn(part, self.train_spacy_3("a", word, expect=1))
        said = self.train_spacy_3("a", f"{embed}.include_static_vectors=true",
                                  "--initialize.vectors=en_core_web_lg", expect=1)
        self.assertIn("the static vectors 'en_core_web_lg' of [initialize] can't be read here",
                      said)

    def test_settings_that_change_the_training_do(self):
        plain = self.train_spacy_3("plain", "--training.max_steps=9")
        for change in (
                "--corpora.train.limit=20", "--corpora.train.max_length=9",
                "--training.dropout=0.5", "--training.seed=5", "--training.max_epochs=1",
                '--corpora.train.augmenter={"@augmenters":"spacy.lower_case.v1","level":1.0}',
                '--corpora.train.augmenter={"@augmenters":"spacy.combined_augmenter.v1",'
                '"lower_level":1.0}'
        ):
            with self.subTest(change):
                self.assertNotEqual(plain, self.train_spacy_3("a", "--training.max_steps=9",
                                                              change))
        self.assertEqual(
            plain,
            self.train_spacy_3("a", "--training.max_steps=9", "--corpora.train.max_length=9",
                               "--corpora.train.gold_preproc=true"))
        for section, text in (("training.batcher",
                               '@batchers = "spacy.batch_by_sequence.v1"\nsize = 5\n'),
                              ("training.batcher",
                               '@batchers = "spacy.batch_by_padded.v1"\nsize = 90\nbuffer = 20\n'
                               "discard_oversize = true\n"),
                              ("training.optimizer", '@optimizers = "SGD.v1"\nlearn_rate = 0.1\n')):
            with self.subTest(text):
                path = self.spacy_3_with(section, f"[{section}]\n{text}")
                self.assertNotEqual(
                    plain, self.train_spacy_3("a", "--training.max_steps=9", configuration=path))

    def test_what_a_partial_configuration_leaves_out_is_that_of_spacy(self):
        path = os.path.join(self.folder, "partial.cfg")
        with open(path, "w", encoding="utf-8") as file:
            file.write(
                '[nlp]\nlang = "en"\n'
                'pipeline = ["tok2vec","ner"]\n'
                '[components.ner]\nfactory = "ner"\n[components.ner.model]\n'
                '@architectures = "spacy.TransitionBasedParser.v2"\n'
                '[components.ner.model.tok2vec]\n'
                '@architectures = "spacy.Tok2VecListener.v1"\n[components.tok2vec]\n'
                'factory = "tok2vec"\n'
                '[training]\nseed = ${system.seed}\ngpu_allocator = ${system.gpu_allocator}\n'
                'init_tok2vec = ${paths.init_tok2vec}\n'
                '[training.train_corpus]\n@readers = "spacy.Corpus.v1"\npath = ${paths.train}\n'
                '[training.dev_corpus]\n@readers = "spacy.Corpus.v1"\npath = ${paths.dev}\n'
                '[initialize]\nvectors = ${paths.vectors}\n'
            )
        output = os.path.join(self.folder, "a")
        run("train", path, "-o", output, "--paths.train=builtin:40", "--paths.dev=builtin:9:1",
            "--training.max_steps=1", "--training.batcher.size.start=50")
        text = read(output, "config.cfg").decode()
        for line in ("seed = 0", "start = 50", "stop = 1000.0", "compound = 1.001",
                     "L2 = 0.01", "learn_rate = 0.001", "use_averages = false", "patience = 1600",
                     "dropout = 0.1"):
            self.assertRegex(text, rf"(?m)^{re.escape(line)}$")

    def test_keys_of_which_spacy_has_no_default_are_asked_for_by_name(self):
        rate = '@optimizers = "Adam.v1"\n[training.optimizer.learn_rate]\n@schedules = '
        for section, text, part in (
            ("training.optimizer", f'{rate}"warmup_linear.v1"\ninitial_rate = 0.1\n'
             "total_steps = 9\n", "[training.optimizer.learn_rate] does not say 'warmup_steps'"),
            ("training.optimizer", f'{rate}"warmup_linear.v1"\nwarmup_steps = 2\n'
             "total_steps = 9\n", "does not say 'initial_rate'"),
            ("training.optimizer", f'{rate}"constant.v1"\n', "does not say 'rate'"),
            ("training.optimizer", f'{rate}"compounding.v1"\nstart = 0.1\nstop = 0.2\n',
             "does not say 'compound'"),
            ("training.optimizer", '@optimizers = "SGD.v1"\n', "does not say 'learn_rate'"),
            ("training.batcher", '@batchers = "spacy.batch_by_sequence.v1"\n',
             "[training.batcher] does not say 'size'"),
            ("training.batcher", '@batchers = "spacy.batch_by_padded.v1"\nsize = 9\n',
             "does not say 'buffer'"),
            ("training.batcher", '@batchers = "spacy.batch_by_sequence.v1"\n'
             '[training.batcher.size]\n@schedules = "compounding.v1"\nstop = 9\n',
             "[training.batcher.size] does not say 'start'")):
            with self.subTest(text):
                path = self.spacy_3_with(section, f"[{section}]\n{text}")
                said = self.train_spacy_3("a", configuration=path, expect=1)
                self.assertIn(part, said)
                self.assertIn(f"{path}:", said)
        self.assertIn(
            "[corpora.train.augmenter] does not say 'level'",
            self.train_spacy_3("a", '--corpora.train.augmenter={"@augmenters":'
                               '"spacy.lower_case.v1"}', expect=1))

    def test_languages_with_norms_of_their_own_are_refused_where_norms_are_read(self):
        for language in "hi", "ht", "ne":
            said = self.train_spacy_3("a", f"--nlp.lang={language}", expect=1)
            self.assertIn(f"nlp.lang: spaCy's own norms of words in {language}", said)
        attributes = '--components.tok2vec.model.embed.attrs=["LOWER","PREFIX","SUFFIX","SHAPE"]'
        self.assertIn("mode both, not allreduce",
                      self.train_spacy_3("a", "--nlp.lang=hi", attributes, "--mode=both", expect=1))

    def test_callbacks_are_refused_by_their_names(self):
        self.assertIn("initialize.before_init: a callback in Python (my.callback.v1)",
                      self.train_spacy_3("a", '--initialize.before_init={"@callbacks":'
                                         '"my.callback.v1"}', expect=1))

    def test_a_training_ends_behind_its_last_epoch(self):
        self.train_spacy_3("a", "--training.max_epochs=2", "--training.max_steps=0",
                           "--training.eval_frequency=100", "--training.batcher.size.start=90")
        target = os.path.join(self.folder, "converted.conll")
        run("convert", "builtin:40", target)
        words = sum(len(line) > 0 for line in read(target).splitlines())
        self.assertEqual(int(self.rows("a")[-1]["words"]), 2 * words)

    def settings(self):
        """{setting: what becomes of it} of the command."""
        rows = re.findall(r"(?m)^\| `([^`]+)` \| (.*) \|$", run("settings").stdout)
        self.assertGreater(len(rows), 50)
        return dict(rows)

    def test_the_manual_has_the_table_of_all_settings(self):
        with open(MANUAL, encoding="utf-8") as file:
            self.assertIn(run("settings").stdout, file.read())

    def test_each_setting_is_obeyed_or_refused_by_its_name(self):
        wrong = {
            "corpora.train.augmenter": ('{"@augmenters":"spacy.orth_variants.v1"}',
                                        "spacy.orth_variants.v1")
        }
        for setting, what in self.settings().items():
            if what.startswith("refused"):
                value, part = '"x"', f"{setting}: "
            elif what.startswith("obeyed"):
                value, part = wrong.get(setting, ('{"no such key":1}', setting))
            else:
                continue
            with self.subTest(setting):
                self.assertIn(part, self.train_spacy_3("a", f"--{setting}={value}", expect=1))

    def test_settings_without_effect_have_none(self):
        plain = self.train_spacy_3("plain")
        words = [
            "--nlp.lang=xx", "--nlp.batch_size=7", '--nlp.disabled=["tagger"]',
            '--initialize.vectors="en_core_web_lg"', "--training.gpu_allocator=pytorch",
            "--pretraining.max_epochs=7", "--vars.mine=1",
            "--training.logger.@loggers=spacy.WandbLogger.v3", "--training.logger.project_name=x",
            "--initialize.components.tagger.x=1", "--corpora.pretrain.path=x",
            "--training.score_weights.tag_acc=0.0",
            '--training.annotating_components=["tok2vec","ner"]'
        ]
        with open(SPACY_3, encoding="utf-8") as file:
            text = file.read().replace('pipeline = ["tok2vec", "ner"]',
                                       'pipeline = ["tok2vec", "tagger", "ner"]')
        path = os.path.join(self.folder, "more.cfg")
        with open(path, "w", encoding="utf-8") as file:
            file.write(
                text +
                '\n[components.tagger]\nsource = "en_core_web_sm"\n'
                'replace_listeners = ["model.tok2vec"]\n'
            )
        frozen = '--training.frozen_components=["tagger"]'
        self.assertEqual(plain, self.train_spacy_3("a", *words, frozen, configuration=path))
        for word, part in (
            ("--x.y=1", "nlp.pipeline: the component tagger (tagger) is not here; it may be one of "
             "training.frozen_components"), ('--training.frozen_components=["tagger","ner"]',
                                             "ner is what is trained here"),
            ('--training.frozen_components=["tagger","tok2vec"]',
             "tok2vec is what is trained here")):
            with self.subTest(word):
                self.assertIn(part, self.train_spacy_3("a", word, configuration=path, expect=1))
        self.assertIn(
            "training.annotating_components: the component tagger does not run here",
            self.train_spacy_3("a", frozen, '--training.annotating_components=["tagger"]',
                               configuration=path, expect=1))
        self.assertIn(
            "there is no such score here",
            self.train_spacy_3("a", frozen, "--training.score_weights.tag_acc=0.5",
                               configuration=path, expect=1))
        self.assertIn("documents of spaCy can't be read",
                      self.train_spacy_3("a", "--paths.train=x.spacy", expect=1))

    def test_the_other_configurations_of_the_first_experiment_are_read(self):
        with open(CONFIGURATION, encoding="utf-8") as file:
            default = file.read()
        size = default[default.index("[training.batcher.size]"):default.
                       index("[training.dev_corpus]")]
        large = {
            "nr_feature_tokens = 6": "nr_feature_tokens = 3",
            "hidden_width = 64": "hidden_width = 128", "use_upper = true": "use_upper = false",
            "rows = 2000": "rows = 10000", "width = 96": "width = 256", "depth = 4": "depth = 8",
            "cut_size = 100": "cut_size = 20", "patience = 1600": "patience = 10000",
            "max_steps = 20000": "max_steps = 0",
            size: "[training.batcher.size]\n@schedules = \"constant.v1\"\nrate = 2000\n\n"
        }
        cpu = {
            "nr_feature_tokens = 6": "nr_feature_tokens = 3", "rows = 2000": "rows = 7000",
            "width = 96": "width = 128", "eval_frequency = 200": "eval_frequency = 1000", size: "",
            "get_length = null": "get_length = null\nsize = 1000"
        }
        for name, changes, parameters in ("large", large, 11963408), ("ner-cpu", cpu, 3064146):
            with self.subTest(name):
                text = default
                for old, new in changes.items():
                    self.assertIn(old, text)
                    text = text.replace(old, new)
                path = os.path.join(self.folder, f"{name}.cfg")
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
                output = os.path.join(self.folder, name)
                run("train", path, "-o", output, "--paths.train=builtin:40",
                    "--paths.dev=builtin:9:1", "--training.max_steps=1")
                size_of = os.path.getsize(os.path.join(output, "model-best"))
                self.assertAlmostEqual(size_of, 4 * parameters, delta=300)  # options, labels

    def test_members_exchange_parameters_in_every_mode(self):
        for mode in "peer", "shared_optimizer", "head_child":
            with self.subTest(mode):
                done = self.train(mode, "-w", "2", "--mode", mode, "--distributed.quorum=1",
                                  "--distributed.staleness=3",
                                  "--training.optimizer.learn_rate=0.002", steps=75)
                used, dropped = map(
                    int,
                    re.search(r"gradients used: (\d+), dropped since they were stale: (\d+)",
                              done.stdout).groups())
                owners = 2 if mode == "peer" else 1
                self.assertEqual(used + dropped, 2 * owners * 76)
                self.assertGreater(used, owners * 76 / 2)
                late = dict(
                    re.findall(r"(?m)^ +(\d+)\+?: +(\d+)$",
                               done.stdout.split("updates late")[1]))
                self.assertEqual(sum(map(int, late.values())), used + dropped)
                self.assertEqual(sum(int(count) for by, count in late.items() if int(by) <= 3),
                                 used)
                losses = [float(row["loss"]) for row in self.rows(mode)]
                self.assertLess(min(losses[2:]), losses[1])
                self.assertGreater(max(float(row["f"]) for row in self.rows(mode)), 0.03)

    def test_a_training_that_is_resumed_ends_with_the_same_bits(self):
        self.train("whole", "-w", "2")
        self.train("parts", "-w", "2", steps=15)
        self.train("parts", "--devices", "2", "--training.strategy=allreduce",
                   "--accelerator=cpu", "--resume")
        self.assertEqual(read(self.folder, "whole", "model-last"),
                         read(self.folder, "parts", "model-last"))
        self.assertEqual(read(self.folder, "whole", "model-best"),
                         read(self.folder, "parts", "model-best"))
        self.assertIn("nothing is left to do", self.train("parts", "-w", "2", "--resume").stdout)
        done = self.train("new", "--resume", expect=1)
        self.assertIn("there is none to go on from", done.stderr)
        done = self.train("parts", "--resume", "--components.ner.model.hidden_width=8", expect=1)
        self.assertIn("a model of other options", done.stderr)

    def test_a_member_that_dies_costs_a_stretch_and_changes_nothing(self):
        self.train("calm", "-w", "2", steps=75)
        output = os.path.join(self.folder, "storm")
        command = [
            PROGRAM, "train", CONFIGURATION, "-o", output, *SMALL, "--training.max_steps=75", "-w",
            "2"
        ]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) as driver:
            for line in driver.stdout:
                if re.match(r" +\d:\d\d:\d\d +\d+ +15 ", line):
                    break
            driver.send_signal(signal.SIGSTOP)  # it cannot end before one of them is dead
            os.kill(processes(output, driver.pid)[0], signal.SIGKILL)
            driver.send_signal(signal.SIGCONT)
            rest, errors = driver.communicate(timeout=200)
        self.assertEqual(driver.returncode, 0, errors)
        self.assertIn(" 75 ", rest)
        self.assertEqual(read(output, "model-last"), read(self.folder, "calm", "model-last"))

    def test_an_owner_that_dies_costs_at_most_a_stretch_in_every_mode(self):
        for mode in "peer", "shared_optimizer", "head_child":
            with self.subTest(mode):
                output = os.path.join(self.folder, mode)
                command = [
                    PROGRAM, "train", CONFIGURATION, "-o", output, *SMALL,
                    "--training.max_steps=75", "-w", "2", "--mode", mode, "--distributed.quorum=1",
                    "--distributed.staleness=3", "--training.optimizer.learn_rate=0.002"
                ]
                with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                      text=True) as driver:
                    for line in driver.stdout:
                        if re.match(r" +\d:\d\d:\d\d +\d+ +30 ", line):
                            break
                    driver.send_signal(signal.SIGSTOP)  # it cannot end before they are dead
                    for pid in processes(
                            output, driver.pid)[:3]:  # members and owner; the evaluator may be one
                        os.kill(pid, signal.SIGKILL)
                    driver.send_signal(signal.SIGCONT)
                    rest, errors = driver.communicate(timeout=200)
                self.assertEqual(driver.returncode, 0, errors)
                from_batch = int(
                    re.search(r"going on from batch (\d+) with new members", errors)[1])
                self.assertGreaterEqual(from_batch, 31)  # what the row that was seen is of
                steps = [int(row["step"]) for row in self.rows(mode)]
                self.assertEqual(steps, list(range(0, 76, 15)))
                losses = [float(row["loss"]) for row in self.rows(mode)]
                self.assertLess(min(losses[-3:]), losses[1])

    def test_numbers_that_are_none_end_the_training_with_step_and_layer(self):
        for mode in "allreduce", "peer":
            with self.subTest(mode):
                done = self.train(mode, "-w", "2", "--mode", mode,
                                  "--training.optimizer.learn_rate=1e9", expect=1)
                self.assertRegex(done.stderr, r"step \d+.*layer \d+.*not finite")

    def test_damaged_models_and_those_of_other_options_are_told_apart(self):
        self.train("a", steps=1)
        best, last = (os.path.join(self.folder, "a", f"model-{which}")
                      for which in ("best", "last"))
        for path, size in (best, 1000), (last, -4):
            with open(path, "rb+") as file:
                file.truncate(size if size > 0 else os.path.getsize(path) + size)
        self.assertIn("cut short", run("evaluate", best, "builtin:9", expect=1).stderr)
        self.assertIn("cut short", self.train("a", "--resume", expect=1).stderr)
        with open(best, "w", encoding="utf-8") as file:
            file.write("[paths]\n")
        self.assertIn("not a NER model", run("evaluate", best, "builtin:9", expect=1).stderr)

    def test_references_in_a_circle_and_small_corpora_are_refused(self):
        done = self.train("a", "--paths.train=${paths.dev}", "--paths.dev=${paths.train}", expect=1)
        self.assertIn("paths.train refers to itself", done.stderr)
        done = self.train("a", "-w", "2", "--paths.train=builtin:1", expect=1)
        self.assertIn("1 documents for 2 members", done.stderr)
        broken = os.path.join(self.folder, "broken.conll")
        with open(broken, "w", encoding="utf-8") as file:
            file.write("Anna\tB-PER\nAhn\tL-LOC\n")
        self.assertIn("broken.conll:2: ", self.train("a", f"--paths.dev={broken}", expect=1).stderr)

    def test_wrong_configurations_are_refused_before_anything_starts(self):
        for word, part in (("--training.max_stepz=5", "the nearest name is training.max_steps"),
                           ("--mode=both", "mode both, not allreduce"),
                           ("--devices=0", "distributed.workers is 0"),
                           ("--training.strategy=ring", "strategy 'ring', not server"),
                           ("--training.strategy=sharded", "with --mode peer each"),
                           ("--distributed.num_gpus=2", "distributed.num_gpus is 2"),
                           ("--distributed.accelerator=tpu", "accelerator 'tpu', not cpu, gpu"),
                           ("--accelerator", "accelerator '', not cpu, gpu or auto"),
                           ("--distributed.mode=both", "mode both, not allreduce"),
                           ("--training.batcher.@batchers=spacy.batch_by_word.v1",
                            "batch_by_words.v1"), ("--paths.dev=/nowhere",
                                                   "/nowhere"), ("--paths.train=",
                                                                 "training.train_corpus.path"),
                           ("--components.ner.model.nr_feature_tokens=4", "not 3 or 6"),
                           ("--training.optimizer.beta1=2",
                            "training.optimizer.beta1"), ("--training.batcher.size.start=0",
                                                          "batches of size 0")):
            with self.subTest(word):
                done = self.train("wrong", word, expect=1)
                self.assertIn(part, done.stderr)
        self.assertIn("convert, train, evaluate and settings", run("trian", expect=2).stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
