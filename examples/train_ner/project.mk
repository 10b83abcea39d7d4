# SPDX-License-Identifier: Apache-2.0
# The steps of a project of spaCy's kind (its project.yml), for make: a step runs when what it
# depends on is newer than what it made. train_ner is in the PATH.
#
#     make -f project.mk CORPUS=wiki.iob                        corpus, train, evaluate
#     make -f project.mk CORPUS=wiki.iob WORKERS=4 OPTIONS="--cluster local:4"
#     make -f project.mk CORPUS=wiki.iob RUN="crt job submit --"
#     make -f project.mk clean
#
# By RUN the training is a job of the cluster whose head is here. OPTIONS are those of train_ner.
CORPUS = assets/corpus.iob
CONFIG = $(dir $(lastword $(MAKEFILE_LIST)))default.cfg
WORKERS = 2

# Parts of the documents.
train_PART = 0:0.6
dev_PART = 0.6:0.8
test_PART = 0.8:1

.DELETE_ON_ERROR:
.PHONY: all corpus train evaluate clean

all: evaluate
corpus: corpus/train.conll corpus/dev.conll corpus/test.conll
train: training/model-best
evaluate: metrics.json

corpus/%.conll: $(CORPUS)
	mkdir -p corpus
	train_ner convert $< $@ --part $($*_PART)

training/model-best: $(CONFIG) corpus/train.conll corpus/dev.conll
	$(RUN) train_ner train $(abspath $(CONFIG)) --paths.train=$(abspath corpus/train.conll) \
	    --paths.dev=$(abspath corpus/dev.conll) --output $(abspath training) \
	    --n-workers $(WORKERS) $(OPTIONS)

metrics.json: training/model-best corpus/test.conll
	train_ner evaluate $^ --output $@

clean:
	rm -rf corpus training metrics.json
