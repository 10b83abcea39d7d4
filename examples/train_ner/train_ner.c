/* SPDX-License-Identifier: Apache-2.0 */
/* Trains a model that finds named entities, with as many members as you like.
 *
 *     train_ner convert INPUT OUTPUT [--part FIRST:END] [--seed S]
 *     train_ner train CONFIGURATION [--output DIR] [--n-workers N] [--mode MODE] [--resume]
 *     [--section.key=value ...] train_ner evaluate MODEL CORPUS [--output FILE] train_ner settings
 *
 * Configurations are those of spaCy; [distributed] says how many members there are and how they
 * share parameters: see default.cfg beside this file.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "report.h"
#include "train_ner.h"

static const char usage[] =
    "usage: train_ner convert INPUT OUTPUT [--part FIRST:END] [--seed S]\n"
    "       train_ner train CONFIGURATION [options] [--section.key=value ...]\n"
    "       train_ner evaluate MODEL CORPUS [--output FILE]\n"
    "       train_ner settings\n"
    "convert: CoNLL, IOB, IOB2, IOBES or BILUO, plain or gzip, to CoNLL with BILUO "
    "tags;\n"
    "  --part 0:0.8         that part of the documents, in an order drawn from the seed\n"
    "train:\n"
    "  --output, -o DIR     model-best, model-last, config.cfg, log.csv, curve-*.svg\n"
    "                       (output)\n"
    "  --n-workers, -w N    members (distributed.workers)\n"
    "  --epochs N           times that all documents are used (training.max_epochs)\n"
    "  --mode allreduce|peer|shared_optimizer|head_child\n"
    "                       who owns parameters: all members with the average of their "
    "gradients; each\n"
    "                       some; an actor that does not train; member 0\n"
    "  --resume             go on from model-last\n"
    "  --devices N, --training.strategy=allreduce|server\n"
    "                       as of train_images: --n-workers N; --mode allreduce, or\n"
    "                       shared_optimizer\n"
    "  --accelerator cpu|gpu|auto\n"
    "                       where members compute gradients (distributed.accelerator);\n"
    "                       each has distributed.num_gpus of a GPU, 1 if not told\n"
    "  --gpu-id, -g N       as of spaCy: on GPU N of this host; -1: on CPUs\n"
    "  --cluster CLUSTER    local:4 (nodes of this host), HOST:PORT, file:lab.yaml, "
    "slurm:4 "
    "or\n"
    "                       kubernetes\n"
    "evaluate: precision, recall and F of all entities and of each label;\n"
    "  --output FILE        the same as JSON\n"
    "settings: which settings of spaCy are obeyed, which are refused, and which have no "
    "effect\n";

static int wrong(const char *text)
{
    fprintf(stderr, "train_ner: %s; --help tells more\n", text);
    return 2;
}

static int failed(crt_status_t status)
{
    fprintf(stderr, "train_ner: %s: %s\n", crt_status_text(status), crt_error_detail());
    return 1;
}

static crt_status_t convert_part(const crt_ner_corpus_t *corpus, const char *part,
                                 uint64_t seed, const char *output)
{
    crt_ner_corpus_t *some;
    double first, end;
    crt_status_t status;

    if (!part)
        return crt_ner_corpus_write(corpus, output);
    if (sscanf(part, "%lf:%lf", &first, &end) != 2)
        return crt_raise(CRT_ERR_INVALID, "--part %s is not FIRST:END", part);
    CRT_TRY(crt_ner_corpus_new_part(corpus, seed, first, end, &some));
    status = crt_ner_corpus_write(some, output);
    crt_ner_corpus_drop(&some);
    return status;
}

static int convert(int count, char **words)
{
    const char *part = NULL;
    uint64_t seed = 0;
    crt_ner_corpus_t *corpus;
    crt_status_t status;

    if (count < 2)
        return wrong("convert wants an input and an output");
    for (int i = 2; i < count; i += 2) {
        if (!words[i + 1])
            return wrong("an option without a value");
        if (strcmp(words[i], "--part") == 0)
            part = words[i + 1];
        else if (strcmp(words[i], "--seed") == 0)
            seed = strtoull(words[i + 1], NULL, 10);
        else
            return wrong("convert has the options --part and --seed");
    }
    status = open_corpus(words[0], NULL, &corpus);
    if (status != CRT_OK)
        return failed(status);
    status = convert_part(corpus, part, seed, words[1]);
    crt_ner_corpus_drop(&corpus);
    return status == CRT_OK ? 0 : failed(status);
}

static double seconds_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void write_metrics(FILE *out, const crt_ner_scores_t *scores, double speed)
{
    crt_ner_count_t count = crt_ner_scores_all(scores);
    const char *label;

    fprintf(out,
            "{\"ents_p\": %.6f, \"ents_r\": %.6f, \"ents_f\": %.6f, \"speed\": %.1f, "
            "\"ents_per_type\": {",
            crt_ner_precision(&count), crt_ner_recall(&count), crt_ner_f(&count), speed);
    for (size_t i = 0; (label = crt_ner_scores_label(scores, i, &count)); i++)
        fprintf(out, "%s\"%s\": {\"p\": %.6f, \"r\": %.6f, \"f\": %.6f}", i ? ", " : "",
                label, crt_ner_precision(&count), crt_ner_recall(&count),
                crt_ner_f(&count));
    fprintf(out, "}}\n");
}

static int report(const crt_ner_scores_t *scores, double speed, const char *output)
{
    const char *labels[511] = {""};
    crt_ner_count_t counts[511] = {crt_ner_scores_all(scores)};
    size_t count = crt_ner_scores_labels(scores);
    FILE *out;

    for (size_t i = 0; i < count; i++)
        labels[i + 1] = crt_ner_scores_label(scores, i, &counts[i + 1]);
    print_labels(labels, counts, count + 1);
    printf("%.0f words/s\n", speed);
    if (!output)
        return 0;
    out = fopen(output, "w");
    if (out)
        write_metrics(out, scores, speed);
    if (!out || fclose(out) != 0) {
        perror(output);
        return 1;
    }
    return 0;
}

static int evaluate(int count, char **words)
{
    crt_ner_scores_t *scores = NULL;
    crt_ner_corpus_t *corpus = NULL;
    crt_ner_model_t *model = NULL;
    crt_status_t status;
    double began;
    int code = 1;

    if (count != 2 && !(count == 4 && strcmp(words[2], "--output") == 0))
        return wrong("evaluate wants a model and a corpus");
    crt_ml_set_threads(1);
    status = crt_ner_model_load(words[0], &model);
    if (status == CRT_OK)
        status = open_corpus(words[1], NULL, &corpus);
    began = seconds_now();
    if (status == CRT_OK)
        status = crt_ner_evaluate(model, NULL, corpus, &scores);
    if (status != CRT_OK)
        code = failed(status);
    else
        code =
            report(scores, (double)crt_ner_corpus_words(corpus) / (seconds_now() - began),
                   count == 4 ? words[3] : NULL);
    crt_ner_scores_drop(&scores);
    crt_ner_corpus_drop(&corpus);
    crt_ner_model_drop(&model);
    return code;
}

static int driver(int argc, char **argv)
{
    return train(argc - 2, argv + 2);
}

int main(int argc, char **argv)
{
    const char *cluster = crt_context_option(&argc, argv, "--cluster");
    const char *command = argc > 1 ? argv[1] : "--help";
    double cores = (double)sysconf(_SC_NPROCESSORS_ONLN), members = 0;
    crt_status_t status;

    if (strcmp(command, "--help") == 0 || strcmp(command, "-h") == 0) {
        fputs(usage, stdout);
        return 0;
    }
    if (strcmp(command, "convert") == 0)
        return convert(argc - 2, argv + 2);
    if (strcmp(command, "evaluate") == 0)
        return evaluate(argc - 2, argv + 2);
    if (strcmp(command, "settings") == 0) {
        print_settings(stdout);
        return 0;
    }
    if (strcmp(command, "train") != 0)
        return wrong("the commands are convert, train, evaluate and settings");
    status = train_prepare(argc - 2, argv + 2, &members);
    if (status != CRT_OK) /* before there are processes */
        return failed(status);
    return crt_main(argc, argv,
                    CRT_OPTIONS(.classes = CRT_CLASSES(&ner_member, &ner_evaluator),
                                .num_cpus = members > cores ? members : cores,
                                .cluster = cluster),
                    driver);
}
