/* SPDX-License-Identifier: Apache-2.0 */
/* Models of named entities on a GPU beside the same models on the host: gradients, steps, tags,
 * files. Exits with 77 where there is no GPU, or a library is missing.
 *
 * Both compute with float32 and sum in different orders; LIMIT as in test_gpu.c. Dropout is left
 * out where numbers are compared: a GPU draws other masks.
 */
#include "ml_test.h"

#include <crt_ml_gpu.h>
#include <unistd.h>

#include "ml/ner_model.h"

#define SKIPPED     77
#define LIMIT       2e-5
#define STEP_LIMIT  1e-3
#define MIXED_LIMIT 5e-2
#define COUNT_OF(a) (sizeof(a) / sizeof((a)[0]))

static const char documents[] =
    "Anna B-PER\nAhn L-PER\nwent O\nto O\nParis U-LOC\n. O\n\n"
    "The O\nNew B-LOC\nYork I-LOC\nCity L-LOC\nmen O\n\n"
    "Otto U-PER\n\n"
    "von B-PER\nder I-PER\nAa I-PER\nzu I-PER\nEms I-PER\nRat I-PER\nOhm L-PER\nin "
    "O\nUlm U-LOC\n";

typedef struct pair {
    crt_ner_model_t *host, *gpu;
    crt_ner_corpus_t *corpus;
} pair_t;

static crt_ner_options_t small_options(int features, int pieces, bool upper)
{
    crt_ner_options_t o = crt_ner_options();

    o.width = 12;
    o.depth = 2;
    o.pieces = pieces == 1 ? 0 : 2;
    o.dropout = 0;
    o.features = features;
    o.hidden = 7;
    o.state_pieces = pieces;
    o.upper = upper;
    o.oracle_cut = 0;
    for (int k = 0; k < o.table_count; k++)
        o.tables[k].rows = 30;
    return o;
}

/* Arrays that begin with zeros, so that all gradients depend on all weights. */
static void fill_parser(crt_ner_model_t *m)
{
    size_t moves = m->move_count, outs = (size_t)m->outs;

    fill_wave(m->network->weights + m->places.bias, (size_t)m->units, 0.7, 0.3);
    if (m->options.upper)
        fill_wave(m->network->weights + m->places.upper, moves * (outs + 1), 0.9, 0.5);
}

static void pair_begin(pair_t *p, const crt_ner_options_t *options,
                       crt_ner_corpus_t *corpus, crt_precision_t precision)
{
    p->corpus = corpus;
    assert_ok(crt_ner_model_new(options, corpus, 1, &p->host));
    assert_ok(crt_ner_model_new(options, corpus, 1, &p->gpu));
    p->host->state_dropout = p->gpu->state_dropout = 0;
    fill_parser(p->host);
    assert_ok(crt_model_set_weights(crt_ner_model_network(p->gpu),
                                    crt_model_weights(crt_ner_model_network(p->host))));
    assert_ok(crt_model_to_gpu(crt_ner_model_network(p->gpu), 0, precision));
}

static void pair_end(pair_t *p)
{
    crt_ner_model_drop(&p->host);
    crt_ner_model_drop(&p->gpu);
    crt_ner_corpus_drop(&p->corpus);
}

static crt_ner_corpus_t *few_documents(void)
{
    crt_ner_corpus_t *corpus;

    assert_ok(crt_ner_corpus_parse("text", documents, strlen(documents), 1, &corpus));
    return corpus;
}

static crt_ner_corpus_t *synthetic(size_t count)
{
    crt_ner_corpus_t *corpus;

    assert_ok(crt_ner_corpus_new_synthetic(count, 7, &corpus));
    return corpus;
}

static crt_ner_batch_t whole(const crt_ner_corpus_t *corpus)
{
    static size_t all[1000];

    for (size_t i = 0; i < COUNT_OF(all); i++)
        all[i] = i;
    return CRT_NER_BATCH(.documents = all, .count = crt_ner_corpus_documents(corpus),
                         .words = crt_ner_corpus_words(corpus));
}

static float *fetch(crt_ner_model_t *m, const crt_tensor_t *tensor)
{
    float *copy = malloc(crt_tensor_bytes(tensor) + 1);
    crt_tensor_t to = crt_tensor_floats(copy, crt_tensor_count(tensor));

    assert_non_null(copy);
    assert_ok(crt_model_copy_tensor(crt_ner_model_network(m), tensor, &to));
    return copy;
}

static void assert_same(const char *what, pair_t *p, const crt_tensor_t *got,
                        const crt_tensor_t *expected, double limit)
{
    float *a = fetch(p->gpu, got), *b = fetch(p->host, expected);
    double off = 0, norm = 0;

    for (size_t i = 0; i < crt_tensor_count(got); i++) {
        off += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        norm += (double)b[i] * (double)b[i];
    }
    printf("    %s: %.2e of the norm\n", what, sqrt(off / norm));
    if (!(sqrt(off) <= limit * sqrt(norm)))
        fail_msg("%s: the GPU is off by %.3e of the norm, not %.1e", what,
                 sqrt(off / norm), limit);
    free(a);
    free(b);
}

static void compare_gradients(pair_t *p, double limit)
{
    crt_ner_batch_t batch = whole(p->corpus);
    double expected, got;

    crt_ner_model_set_seed(p->host, 3);
    crt_ner_model_set_seed(p->gpu, 3);
    assert_ok(
        crt_ner_compute_gradients(p->host, NULL, p->corpus, &batch, NULL, &expected));
    assert_ok(crt_ner_compute_gradients(p->gpu, NULL, p->corpus, &batch, NULL, &got));
    printf("    loss %.6f, on the host %.6f\n", got, expected);
    assert_true(fabs(got / expected - 1) < limit);
    assert_same("gradients", p, crt_model_gradients(crt_ner_model_network(p->gpu)),
                crt_model_gradients(crt_ner_model_network(p->host)), limit);
}

/* ---------------------------------------------------------------- gradients and steps */

static void gradients_of_the_parser_are_those_of_the_host(void **state)
{
    static const int shapes[][4] = {/* features, pieces, upper, cut */
                                    {3, 2, 1, 0}, {3, 3, 1, 4}, {6, 2, 1, 2},
                                    {6, 1, 1, 0}, {3, 2, 0, 3}, {3, 1, 0, 0}};

    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        crt_ner_options_t o = small_options(shapes[i][0], shapes[i][1], shapes[i][2]);
        pair_t p;

        o.oracle_cut = shapes[i][3];
        pair_begin(&p, &o, few_documents(), CRT_PRECISION_FLOAT32);
        compare_gradients(&p, LIMIT);
        pair_end(&p);
    }
}

static void gradients_of_mixed_precision_are_nearly_those_of_the_host(void **state)
{
    crt_ner_options_t o = small_options(3, 2, true);
    pair_t p;

    pair_begin(&p, &o, few_documents(), CRT_PRECISION_MIXED);
    compare_gradients(&p, MIXED_LIMIT);
    pair_end(&p);
}

/* With RAdam and averages, as train_ner does. */
static void models_of_named_entities_learn_as_on_the_host(void **state)
{
    crt_ner_options_t o = small_options(3, 2, true);
    crt_optimizer_options_t radam = crt_radam_options(0.01);
    crt_optimizer_t *a, *b;
    pair_t p;

    pair_begin(&p, &o, synthetic(6), CRT_PRECISION_FLOAT32);
    assert_ok(crt_optimizer_new(crt_ner_model_network(p.host), &radam, &a));
    assert_ok(crt_optimizer_new(crt_ner_model_network(p.gpu), &radam, &b));
    for (int i = 0; i < 4; i++) {
        compare_gradients(&p, STEP_LIMIT);
        assert_ok(crt_optimizer_step(a, crt_ner_model_network(p.host)));
        assert_ok(crt_optimizer_step(b, crt_ner_model_network(p.gpu)));
    }
    assert_same("weights", &p, crt_model_weights(crt_ner_model_network(p.gpu)),
                crt_model_weights(crt_ner_model_network(p.host)), STEP_LIMIT);
    assert_same("averages", &p, crt_optimizer_averages(b), crt_optimizer_averages(a),
                STEP_LIMIT);
    crt_optimizer_drop(&a);
    crt_optimizer_drop(&b);
    pair_end(&p);
}

static float *trained(crt_ner_corpus_t *corpus, size_t *bytes_out)
{
    crt_ner_options_t o = small_options(3, 2, true);
    crt_optimizer_options_t radam = crt_radam_options(0.01);
    crt_ner_batch_t batch = whole(corpus);
    crt_ner_model_t *m;
    crt_optimizer_t *optimizer;
    float *weights;

    o.dropout = 0.2;
    o.oracle_cut = 5;
    assert_ok(crt_ner_model_new(&o, corpus, 1, &m));
    assert_ok(crt_model_to_gpu(crt_ner_model_network(m), 0, CRT_PRECISION_FLOAT32));
    assert_ok(crt_optimizer_new(crt_ner_model_network(m), &radam, &optimizer));
    for (int i = 0; i < 3; i++) {
        assert_ok(crt_ner_compute_gradients(m, NULL, corpus, &batch, NULL, NULL));
        assert_ok(crt_optimizer_step(optimizer, crt_ner_model_network(m)));
    }
    weights = fetch(m, crt_model_weights(crt_ner_model_network(m)));
    *bytes_out = crt_tensor_bytes(crt_model_weights(crt_ner_model_network(m)));
    crt_optimizer_drop(&optimizer);
    crt_ner_model_drop(&m);
    return weights;
}

static void equal_steps_with_dropout_give_equal_bits(void **state)
{
    crt_ner_corpus_t *corpus = synthetic(5);
    size_t bytes;
    float *a = trained(corpus, &bytes), *b = trained(corpus, &bytes);

    assert_memory_equal(a, b, bytes);
    free(a);
    free(b);
    crt_ner_corpus_drop(&corpus);
}

static void a_batch_without_a_known_tag_has_a_gradient_of_zero(void **state)
{
    static const char unknown[] = "one -\ntwo -\n";
    crt_ner_options_t o = small_options(3, 2, true);
    crt_ner_corpus_t *corpus;
    crt_ner_batch_t batch;
    crt_model_t *network;
    double loss;
    float *gradients;
    pair_t p;

    pair_begin(&p, &o, few_documents(), CRT_PRECISION_FLOAT32);
    compare_gradients(&p, LIMIT);
    assert_ok(crt_ner_corpus_parse("text", unknown, strlen(unknown), 1, &corpus));
    batch = whole(corpus);
    network = crt_ner_model_network(p.gpu);
    assert_ok(crt_ner_compute_gradients(p.gpu, NULL, corpus, &batch, NULL, &loss));
    assert_true(loss == 0);
    gradients = fetch(p.gpu, crt_model_gradients(network));
    for (size_t i = 0; i < crt_model_parameters(network); i++)
        assert_true(gradients[i] == 0);
    free(gradients);
    crt_ner_corpus_drop(&corpus);
    pair_end(&p);
}

/* ---------------------------------------------------------------- tags and files */

static void tags_are_those_of_the_host(void **state)
{
    crt_ner_options_t o = small_options(3, 2, true);
    pair_t p;

    for (int upper = 0; upper < 2; upper++) {
        crt_ner_corpus_t *a, *b;
        size_t entities = 0;

        o.upper = upper;
        pair_begin(&p, &o, synthetic(40), CRT_PRECISION_FLOAT32);
        assert_ok(crt_ner_predict(p.host, NULL, p.corpus, &a));
        assert_ok(crt_ner_predict(p.gpu, NULL, p.corpus, &b));
        for (size_t i = 0; i < a->words; i++) {
            assert_int_equal(b->tags[i].action, a->tags[i].action);
            assert_int_equal(b->tags[i].label, a->tags[i].label);
            entities += a->tags[i].action == CRT_NER_BEGIN;
        }
        printf("    %zu words, %zu entities of several\n", a->words, entities);
        crt_ner_corpus_drop(&a);
        crt_ner_corpus_drop(&b);
        pair_end(&p);
    }
}

static void a_file_of_the_gpu_goes_on_there(void **state)
{
    char *folder = new_folder();
    const char *path = path_in(folder, "model");
    crt_ner_options_t o = small_options(3, 2, true);
    crt_optimizer_options_t radam = crt_radam_options(0.01);
    crt_ner_batch_t batch;
    crt_optimizer_t *a;
    crt_ner_model_t *loaded;
    pair_t p;

    pair_begin(&p, &o, synthetic(4), CRT_PRECISION_FLOAT32);
    batch = whole(p.corpus);
    assert_ok(crt_optimizer_new(crt_ner_model_network(p.gpu), &radam, &a));
    assert_ok(crt_ner_compute_gradients(p.gpu, NULL, p.corpus, &batch, NULL, NULL));
    assert_ok(crt_optimizer_step(a, crt_ner_model_network(p.gpu)));
    assert_ok(crt_ner_model_save(p.gpu, a, NULL, 0, path));
    assert_ok(crt_ner_model_load(path, &loaded));
    crt_ner_model_drop(&p.host);
    p.host = loaded;
    assert_same("weights", &p, crt_model_weights(crt_ner_model_network(p.gpu)),
                crt_model_weights(crt_ner_model_network(p.host)), 0);
    assert_ok(crt_ner_compute_gradients(p.gpu, NULL, p.corpus, &batch, NULL, NULL));
    assert_ok(crt_optimizer_step(a, crt_ner_model_network(p.gpu)));
    assert_ok(crt_ner_model_restore(p.gpu, a, NULL, 0, path));
    assert_int_equal(crt_optimizer_steps(a), 1);
    assert_same("weights, restored", &p, crt_model_weights(crt_ner_model_network(p.gpu)),
                crt_model_weights(crt_ner_model_network(p.host)), 0);
    crt_optimizer_drop(&a);
    pair_end(&p);
    unlink(path);
    rmdir(folder);
    free(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_of_the_parser_are_those_of_the_host),
        cmocka_unit_test(gradients_of_mixed_precision_are_nearly_those_of_the_host),
        cmocka_unit_test(models_of_named_entities_learn_as_on_the_host),
        cmocka_unit_test(equal_steps_with_dropout_give_equal_bits),
        cmocka_unit_test(a_batch_without_a_known_tag_has_a_gradient_of_zero),
        cmocka_unit_test(tags_are_those_of_the_host),
        cmocka_unit_test(a_file_of_the_gpu_goes_on_there),
    };
    crt_model_t *model;
    crt_status_t status;

    if (crt_mlp_new((const int[]){4, 3, 2, 0}, 0, 1, &model) != CRT_OK)
        return 1;
    status = crt_model_to_gpu(model, 0, CRT_PRECISION_FLOAT32);
    crt_model_drop(&model);
    if (status == CRT_ERR_UNSUPPORTED) {
        printf("skipped: %s\n", crt_error_detail());
        return SKIPPED;
    }
    return cmocka_run_group_tests_name("gpu ner", tests, NULL, NULL);
}
