/* SPDX-License-Identifier: Apache-2.0 */
/* Trains the same model of named entities on the host and on a GPU, with the same batches of a
 * synthetic corpus, and prints the words of each in a second.
 *
 *     ner_steps [--gpu-id N] [--precision float32|tf32|mixed] [--steps N] [--documents N]
 *               [--words N] [--threads N] [--write FILE]
 *
 * A batch has some more than --words words. The first step of each, which makes room and compiles
 * kernels, is not timed. --write: the corpus, a word and its tag in each line, so that another
 * program trains on it (tests/bench/ner_gpu_spacy.py).
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <crt_ml_gpu.h>
#include <crt_ner.h>

#include "options.h"

typedef struct options {
    const char *precision, *file;
    int gpu, steps, documents, words, threads;
} options_t;

typedef struct measured {
    double words_per_second, loss; /* loss: of the last step, for a word */
} measured_t;

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static options_t read_options(int argc, char **argv)
{
    options_t o = {.precision = "float32",
                   .gpu = 0,
                   .steps = 100,
                   .documents = 2000,
                   .words = 1000,
                   .threads = 1};

    TAKE_OPTIONS(argc, argv, OPTION("gpu-id", o.gpu, -1, 63),
                 OPTION("precision", o.precision, 0, 0), OPTION("steps", o.steps, 1, 1e9),
                 OPTION("documents", o.documents, 1, 1e9),
                 OPTION("words", o.words, 1, 1e9), OPTION("threads", o.threads, 0, 1024),
                 OPTION("write", o.file, 0, 0));
    return o;
}

/* The next documents, round and round, until there are words enough; how many words they have. */
static size_t next_batch(const options_t *o, const crt_ner_corpus_t *corpus, size_t *at,
                         size_t *documents, size_t *count_out)
{
    size_t words = 0, count = 0, all = crt_ner_corpus_documents(corpus);

    while (words < (size_t)o->words && count < all) {
        documents[count] = (*at)++ % all;
        words += crt_ner_corpus_length(corpus, documents[count++]);
    }
    *count_out = count;
    return words;
}

static measured_t train(const options_t *o, const crt_ner_corpus_t *corpus, bool on_gpu)
{
    size_t *documents = calloc(crt_ner_corpus_documents(corpus), sizeof(*documents));
    crt_optimizer_options_t radam = crt_radam_options(0.001);
    crt_ner_model_t *model;
    crt_model_t *network;
    crt_optimizer_t *optimizer;
    crt_precision_t precision;
    double begin = 0, loss;
    size_t at = 0, words = 0, own = 1;

    CRT_CHECK(crt_precision_parse(o->precision, &precision));
    CRT_CHECK(crt_ner_model_new(NULL, corpus, 1, &model));
    network = crt_ner_model_network(model);
    if (on_gpu)
        CRT_CHECK(crt_model_to_gpu(network, o->gpu, precision));
    CRT_CHECK(crt_optimizer_new(network, &radam, &optimizer));
    for (int i = 0; i <= o->steps; i++) {
        size_t count;
        crt_ner_batch_t batch;

        if (i == 1)
            begin = now();
        own = next_batch(o, corpus, &at, documents, &count);
        batch = (crt_ner_batch_t)CRT_NER_BATCH(.documents = documents, .count = count,
                                               .words = own);
        words += i > 0 ? own : 0;
        CRT_CHECK(crt_ner_compute_gradients(model, NULL, corpus, &batch, NULL, &loss));
        CRT_CHECK(crt_optimizer_step(optimizer, network));
    }
    begin =
        now() - begin; /* the last loss was read behind all steps but the last update */
    crt_optimizer_drop(&optimizer);
    crt_ner_model_drop(&model);
    free(documents);
    return (measured_t){(double)words / begin, loss / (double)own};
}

static void write_corpus(const crt_ner_corpus_t *corpus, const char *name)
{
    FILE *file = fopen(name, "w");

    if (!file) {
        perror(name);
        exit(1);
    }
    for (size_t i = 0; i < crt_ner_corpus_documents(corpus); i++) {
        for (size_t k = 0; k < crt_ner_corpus_length(corpus, i); k++) {
            const char *label = NULL;
            crt_ner_action_t tag = crt_ner_corpus_tag(corpus, i, k, &label);

            fprintf(file, "%s %c%s%s\n", crt_ner_corpus_word(corpus, i, k), "-BILUO"[tag],
                    label ? "-" : "", label ? label : "");
        }
        fprintf(file, "\n");
    }
    if (fclose(file) != 0) {
        perror(name);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    options_t o = read_options(argc, argv);
    crt_ner_corpus_t *corpus;
    measured_t host, gpu;

    crt_ml_set_threads(o.threads);
    CRT_CHECK(crt_ner_corpus_new_synthetic((size_t)o.documents, 1, &corpus));
    if (o.file)
        write_corpus(corpus, o.file);
    host = train(&o, corpus, false);
    gpu = train(&o, corpus, true);
    printf("loss for a word: GPU %.4f, host %.4f\n", gpu.loss, host.loss);
    printf("words/s: GPU %.0f, host %.0f (%d threads): %.1f times\n",
           gpu.words_per_second, host.words_per_second, o.threads,
           gpu.words_per_second / host.words_per_second);
    crt_ner_corpus_drop(&corpus);
    return 0;
}
