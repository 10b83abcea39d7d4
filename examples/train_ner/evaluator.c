/* SPDX-License-Identifier: Apache-2.0 */
/* Scores weights on the development corpus, in a process of its own, while the members train on. */
#include <string.h>

#include "train_ner.h"

typedef struct evaluator {
    setup_t setup;
    crt_ner_corpus_t *corpus;
    crt_ner_model_t *model;
} evaluator_t;

static crt_status_t create(void *self, crt_call_t *call)
{
    evaluator_t *e = self;
    crt_configuration_t *configuration;
    crt_ner_corpus_t *train;
    const char *text, *train_path, *dev_path;
    crt_status_t status;

    CRT_TRY(crt_args(call, &text, &train_path, &dev_path));
    CRT_TRY(
        crt_configuration_parse("the configuration", text, strlen(text), &configuration));
    if (crt_configuration_resolve(configuration) != CRT_OK) {
        crt_configuration_drop(&configuration);
        return crt_raise(CRT_ERR_INVALID, "the configuration can't be read again");
    }
    CRT_TRY(setup_init(&e->setup, configuration));
    crt_ml_set_threads(1);
    CRT_TRY(open_corpus(dev_path, &e->setup.dev.selection, &e->corpus));
    CRT_TRY(
        open_corpus(train_path, &e->setup.train.selection, &train)); /* for its labels */
    status = crt_ner_model_new(&e->setup.model, train, 0, &e->model);
    crt_ner_corpus_drop(&train);
    return status;
}

static void destroy(void *self)
{
    evaluator_t *e = self;

    crt_ner_model_drop(&e->model);
    crt_ner_corpus_drop(&e->corpus);
    setup_fini(&e->setup);
}

static crt_arg_t describe(const char *label, const crt_ner_count_t *count,
                          crt_arg_t *items)
{
    items[0] = crt_arg_string(label);
    items[1] = crt_arg_unsigned(count->gold);
    items[2] = crt_arg_unsigned(count->predicted);
    items[3] = crt_arg_unsigned(count->correct);
    return crt_list(items, 4);
}

static crt_status_t evaluate(void *self, crt_call_t *call)
{
    evaluator_t *e = self;
    const crt_tensor_t *weights;
    crt_ner_scores_t *scores;
    crt_ner_count_t count;
    size_t labels = 0;
    static crt_arg_t items[511][4], rows[511]; /* one evaluation at a time */
    crt_status_t status;

    CRT_TRY(crt_args(call, &weights));
    CRT_TRY(crt_ner_evaluate(e->model, weights, e->corpus, &scores));
    count = crt_ner_scores_all(scores);
    rows[0] = describe("", &count, items[0]);
    for (const char *label; (label = crt_ner_scores_label(scores, labels, &count));) {
        labels++;
        rows[labels] = describe(label, &count, items[labels]);
    }
    status = crt_return(call, crt_list(rows, labels + 1));
    crt_ner_scores_drop(&scores);
    return status;
}

const crt_method_t evaluator_evaluate =
    CRT_METHOD(.name = "evaluate", .run = evaluate, .signature = "tensor");

const crt_actor_class_t ner_evaluator =
    CRT_ACTOR_CLASS(.name = "NerEvaluator", .size = sizeof(evaluator_t), .create = create,
                    .signature = "string, string, string", .destroy = destroy,
                    .methods = CRT_METHODS(&evaluator_evaluate));
