/* SPDX-License-Identifier: Apache-2.0 */
/* The NER model: its moves, gradients and decisions, and its files. */
#include <unistd.h>

#include "ml/ner_file.h"
#include "ml/ner_model.h"

#include "ml_test.h"
#include "recorded_ner.h"

#include <zlib.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* DOCUMENTS of record_ner.py. */
static const char documents[] =
    "Anna B-PER\nAhn L-PER\nwent O\nto O\nParis U-LOC\n. O\n\n"
    "The O\nNew B-LOC\nYork I-LOC\nCity L-LOC\nmen O\n\n"
    "Otto U-PER\n\n"
    "von B-PER\nder I-PER\nAa I-PER\nzu I-PER\nEms I-PER\nRat I-PER\nOhm L-PER\nin "
    "O\nUlm U-LOC\n";

static crt_ner_corpus_t *parsed(const char *text)
{
    crt_ner_corpus_t *corpus;

    assert_ok(crt_ner_corpus_parse("text", text, strlen(text), 1, &corpus));
    return corpus;
}

/* All documents as one batch. */
static crt_ner_batch_t whole(const crt_ner_corpus_t *corpus)
{
    static size_t all[10000];
    crt_ner_batch_t batch =
        CRT_NER_BATCH(.documents = all, .count = crt_ner_corpus_documents(corpus),
                      .words = crt_ner_corpus_words(corpus));

    for (size_t i = 0; i < batch.count; i++)
        all[i] = i;
    return batch;
}

/* Tables of so many rows for NORM, and of half as many for the others. */
static void set_rows(crt_ner_options_t *o, int rows)
{
    for (int k = 0; k < o->table_count; k++)
        o->tables[k].rows = k == 0 ? rows : rows / 2;
}

static crt_ner_options_t tiny(int features, int pieces, bool upper)
{
    crt_ner_options_t o = crt_ner_options();

    o.width = 4;
    o.depth = 1;
    set_rows(&o, 6);
    o.pieces = 2;
    o.dropout = 0;
    o.features = features;
    o.hidden = 3;
    o.state_pieces = pieces;
    o.upper = upper;
    o.oracle_cut = 0;
    return o;
}

static crt_ner_model_t *made(const crt_ner_options_t *options,
                             const crt_ner_corpus_t *corpus)
{
    crt_ner_model_t *model;

    assert_ok(crt_ner_model_new(options, corpus, 1, &model));
    return model;
}

static void models_have_as_many_parameters_as_those_of_spacy(void **state)
{
    crt_ner_corpus_t *c = parsed("a U-A\nb U-B\nc U-C\nd U-D\n");
    crt_ner_options_t o = crt_ner_options();
    crt_ner_model_t *m = made(&o, c);

    assert_int_equal(crt_model_parameters(crt_ner_model_network(m)), 957234);
    crt_ner_model_drop(&m);
    o.features = 6;
    m = made(&o, c);
    assert_int_equal(crt_model_parameters(crt_ner_model_network(m)), 982194);
    crt_ner_model_drop(&m);
    o = crt_ner_options(); /* the large configuration of the first seed */
    o.width = 256;
    o.depth = 8;
    set_rows(&o, 10000);
    o.hidden = 128;
    o.upper = false;
    m = made(&o, c);
    assert_int_equal(crt_model_parameters(crt_ner_model_network(m)), 11963408);
    assert_true(crti_ner_parameters(&o, 4) == 11963408);
    crt_ner_model_drop(&m);
    o = crt_ner_options(); /* of spaCy 3's quick start */
    set_rows(&o, 5000);
    o.tables[1].rows = 1000;
    m = made(&o, c);
    assert_int_equal(crt_model_parameters(crt_ner_model_network(m)), 1533234);
    assert_true(crti_ner_parameters(&o, 4) == 1533234);
    crt_ner_model_drop(&m);
    o.table_count = 2; /* of spaCy 3.0's quick start */
    o.tables[0] = (crt_ner_table_t){CRT_NER_ORTH, 5000};
    o.tables[1] = (crt_ner_table_t){CRT_NER_SHAPE, 2500};
    m = made(&o, c);
    assert_int_equal(crt_model_parameters(crt_ner_model_network(m)), 1141938);
    assert_true(crti_ner_parameters(&o, 4) == 1141938);
    crt_ner_model_drop(&m);
    o.pieces = 0; /* with MishWindowEncoder */
    m = made(&o, c);
    assert_int_equal(crt_model_parameters(crt_ner_model_network(m)), 919986);
    assert_true(crti_ner_parameters(&o, 4) == 919986);
    crt_ner_model_drop(&m);
    crt_ner_corpus_drop(&c);
}

static void moves_cost_what_they_cost_in_spacy(void **state)
{
    crt_ner_corpus_t *c = parsed(documents);
    crt_ner_options_t o = tiny(3, 2, true);
    crt_ner_model_t *m = made(&o, c);
    crt_ner_batch_t batch = whole(c);
    size_t seen = 0;

    assert_ok(crti_ner_gather(m, c, batch.documents, batch.count, true));
    for (size_t i = 0; i < batch.count; i++) {
        size_t first = crti_ner_first(c, i);
        crti_ner_state_t s = {.length = (uint32_t)(c->ends[i] - first),
                              .start = -1,
                              .tags = m->scratch.tags + first};

        for (size_t k = 0; !crti_ner_is_final(&s); k++) {
            size_t valid = 0, chosen;

            for (size_t j = 0; j < m->move_count; j++) {
                assert_int_equal(crti_ner_cost(&s, m->moves[j]), spacy_costs[seen++]);
                valid += crti_ner_is_valid(&s, m->moves[j]);
            }
            chosen = (3 * k + i) % valid;
            for (size_t j = 0; j < m->move_count; j++)
                if (crti_ner_is_valid(&s, m->moves[j]) && chosen-- == 0) {
                    crti_ner_do(&s, m->moves[j]);
                    break;
                }
        }
    }
    assert_int_equal(seen, COUNT(spacy_costs));
    crt_ner_model_drop(&m);
    crt_ner_corpus_drop(&c);
}

static void compare(int features, int pieces, bool upper, const double *gradients,
                    size_t count, double loss)
{
    crt_ner_corpus_t *c = parsed(documents);
    crt_ner_options_t o = tiny(features, pieces, upper);
    crt_ner_model_t *m = made(&o, c);
    crt_ner_batch_t batch = whole(c);
    double got;

    m->state_dropout = 0;
    assert_int_equal(m->network->parameter_count, count);
    fill_wave(m->network->weights, count, 0.9, 0.5);
    assert_ok(crt_ner_compute_gradients(m, NULL, c, &batch, NULL, &got));
    assert_close("gradients", m->network->gradients, gradients, count, 2e-5);
    assert_true(fabs(got - loss) < 1e-3);
    crt_ner_model_drop(&m);
    crt_ner_corpus_drop(&c);
}

static void gradients_are_those_of_spacy(void **state)
{
    compare(3, 2, true, spacy_three_gradients, COUNT(spacy_three_gradients),
            spacy_three_loss[0]);
    compare(6, 3, true, spacy_six_gradients, COUNT(spacy_six_gradients),
            spacy_six_loss[0]);
    compare(3, 2, false, spacy_bare_gradients, COUNT(spacy_bare_gradients),
            spacy_bare_loss[0]);
}

/* Trains for some steps, each with random numbers of its own. */
static void train(crt_ner_model_t *m, crt_optimizer_t *optimizer,
                  const crt_ner_corpus_t *c, crt_ner_batches_t *batches, int first,
                  int end)
{
    const crt_ner_batch_t *batch;

    for (int i = first; i < end; i++) {
        assert_ok(crt_ner_batches_next(batches, &batch));
        crt_ner_model_set_seed(m, (uint64_t)i);
        assert_ok(crt_ner_compute_gradients(m, NULL, c, batch, NULL, NULL));
        assert_ok(crt_optimizer_step(optimizer, crt_ner_model_network(m)));
    }
}

static crt_ner_options_t small(void)
{
    crt_ner_options_t o = crt_ner_options();

    o.width = 32;
    o.depth = 2;
    set_rows(&o, 300);
    o.hidden = 32;
    return o;
}

static void what_was_learned_finds_new_names(void **state)
{
    crt_ner_corpus_t *c, *train_part, *test_part, *tagged;
    crt_ner_options_t o = small();
    crt_ner_batching_t batching = crt_ner_batching(1);
    crt_ner_batches_t *batches;
    crt_ner_scores_t *scores;
    crt_ner_count_t all;
    crt_optimizer_t *optimizer;
    crt_ner_model_t *m;
    size_t gold = 0, predicted = 0, correct = 0;

    assert_ok(crt_ner_corpus_new_synthetic(600, 1, &c));
    assert_ok(crt_ner_corpus_new_part(c, 1, 0, 0.75, &train_part));
    assert_ok(crt_ner_corpus_new_part(c, 1, 0.75, 1, &test_part));
    m = made(&o, train_part);
    assert_ok(crt_adam_new(crt_ner_model_network(m), 0.005, &optimizer));
    assert_ok(crt_ner_batches_new(train_part, &batching, &batches));
    train(m, optimizer, train_part, batches, 0, 300);
    assert_ok(crt_ner_evaluate(m, NULL, test_part, &scores));
    all = crt_ner_scores_all(scores);
    printf("    F %.3f\n", crt_ner_f(&all));
    assert_true(crt_ner_f(&all) > 0.8);

    /* The same counted from the tags. */
    assert_ok(crt_ner_predict(m, NULL, test_part, &tagged));
    for (size_t d = 0; d < crt_ner_corpus_documents(test_part); d++)
        for (size_t i = 0; i < crt_ner_corpus_length(test_part, d); i++) {
            const char *a, *b;
            bool same = true, begins, found;
            crt_ner_action_t x = crt_ner_corpus_tag(test_part, d, i, &a);
            crt_ner_action_t y = crt_ner_corpus_tag(tagged, d, i, &b);

            begins = x == CRT_NER_BEGIN || x == CRT_NER_UNIT;
            found = y == CRT_NER_BEGIN || y == CRT_NER_UNIT;
            gold += begins;
            predicted += found;
            for (size_t k = i; begins && found && same; k++) {
                x = crt_ner_corpus_tag(test_part, d, k, &a);
                y = crt_ner_corpus_tag(tagged, d, k, &b);
                same = x == y && a && b && strcmp(a, b) == 0;
                if (x == CRT_NER_LAST || x == CRT_NER_UNIT)
                    break;
            }
            correct += begins && found && same;
        }
    assert_int_equal(all.gold, gold);
    assert_int_equal(all.predicted, predicted);
    assert_int_equal(all.correct, correct);
    crt_ner_scores_drop(&scores);
    assert_null(scores);
    crt_ner_batches_drop(&batches);
    crt_optimizer_drop(&optimizer);
    crt_ner_model_drop(&m);
    crt_ner_corpus_drop(&c);
    crt_ner_corpus_drop(&train_part);
    crt_ner_corpus_drop(&test_part);
    crt_ner_corpus_drop(&tagged);
}

static void scores_are_zero_where_there_is_nothing_to_divide_by(void **state)
{
    crt_ner_count_t none = {0}, some = {4, 5, 3};

    assert_true(crt_ner_precision(&none) == 0);
    assert_true(crt_ner_recall(&none) == 0);
    assert_true(crt_ner_f(&none) == 0);
    assert_true(crt_ner_precision(&some) == 0.6);
    assert_true(crt_ner_recall(&some) == 0.75);
    assert_true(fabs(crt_ner_f(&some) - 2.0 / 3) < 1e-12);
}

static void labels_that_the_model_has_not_are_an_error_only_in_training(void **state)
{
    crt_ner_corpus_t *c = parsed(documents), *other = parsed("Anna U-NEW\nParis U-LOC\n");
    crt_ner_options_t o = tiny(3, 2, true);
    crt_ner_model_t *m = made(&o, c);
    crt_ner_batch_t batch = whole(other);
    crt_ner_scores_t *scores;
    crt_ner_count_t count;

    assert_fails(crt_ner_compute_gradients(m, NULL, other, &batch, NULL, NULL),
                 CRT_ERR_INVALID, "the label NEW");
    assert_ok(crt_ner_evaluate(m, NULL, other, &scores));
    assert_int_equal(crt_ner_scores_all(scores).gold, 2);
    assert_int_equal(crt_ner_scores_labels(scores), 3);
    assert_string_equal(crt_ner_scores_label(scores, 2, &count), "NEW");
    assert_int_equal(count.gold, 1);
    assert_int_equal(count.predicted, 0);
    assert_null(crt_ner_scores_label(scores, 3, &count));
    crt_ner_scores_drop(&scores);
    crt_ner_model_drop(&m);
    crt_ner_corpus_drop(&c);
    crt_ner_corpus_drop(&other);
}

static void words_that_nobody_knows_the_tag_of_teach_nothing(void **state)
{
    crt_ner_corpus_t *c = parsed(documents), *unknown = parsed("Anna -\nParis -\n");
    crt_ner_options_t o = tiny(3, 2, true);
    crt_ner_model_t *m = made(&o, c);
    crt_ner_batch_t batch = whole(unknown);
    double loss = 1;

    assert_ok(crt_ner_compute_gradients(m, NULL, unknown, &batch, NULL, &loss));
    assert_true(loss == 0);
    for (size_t i = 0; i < m->network->parameter_count; i++)
        assert_true(m->network->gradients[i] == 0);
    crt_ner_model_drop(&m);
    crt_ner_corpus_drop(&c);
    crt_ner_corpus_drop(&unknown);
}

static void white_space_begins_no_entity(void **state)
{
    crt_ner_corpus_t *c = parsed("\tO\nAnna\tB-PER\nAhn\tI-PER\n");
    crt_ner_options_t o = tiny(3, 2, true);
    crt_ner_model_t *m = made(&o, c);
    crti_ner_state_t s = {.length = 3, .start = -1, .tags = c->tags};

    for (size_t i = 0; i < m->move_count; i++)
        assert_int_equal(crti_ner_is_valid(&s, m->moves[i]),
                         m->moves[i].action == CRT_NER_OUT);
    crt_ner_model_drop(&m);
    crt_ner_corpus_drop(&c);
}

static void entities_do_not_reach_into_the_next_sentence(void **state)
{
    crt_ner_corpus_t *c;
    crt_ner_options_t o = tiny(3, 2, true);
    static const char text[] = "Anna U-PER\n\nAhn U-PER\n";
    crt_ner_model_t *m;
    crti_ner_state_t s;

    assert_ok(crt_ner_corpus_parse("text", text, strlen(text), 2, &c));
    m = made(&o, c);
    s = (crti_ner_state_t){.length = 2, .start = -1, .tags = c->tags};
    for (size_t i = 0; i < m->move_count; i++)
        if (m->moves[i].action == CRT_NER_BEGIN)
            assert_false(crti_ner_is_valid(&s, m->moves[i]));
    crt_ner_model_drop(&m);
    crt_ner_corpus_drop(&c);
}

static void long_documents_are_cut_and_all_their_words_count(void **state)
{
    char *text = malloc(1 << 16), *at = text;
    crt_ner_options_t o = tiny(3, 2, true);
    crt_ner_corpus_t *c;
    crt_ner_model_t *m;
    crt_ner_batch_t batch;
    double loss;

    for (int i = 0; i < 900; i++)
        at += sprintf(at, "%s\n",
                      i % 7 == 3   ? "Anna B-PER"
                      : i % 7 == 4 ? "Ahn I-PER"
                                   : "went O");
    c = parsed(text);
    o.oracle_cut = 20;
    m = made(&o, c);
    batch = whole(c);
    for (uint64_t seed = 0; seed < 20; seed++) { /* other limits */
        crt_ner_model_set_seed(m, seed);
        assert_ok(crt_ner_compute_gradients(m, NULL, c, &batch, NULL, &loss));
        /* A state that knows nothing has the loss 1 - 1/n or more in each step. */
        assert_true(loss > 900 * 0.1 && loss < 900 * 2.5);
    }
    crt_ner_model_drop(&m);
    crt_ner_corpus_drop(&c);
    free(text);
}

static void weights_are_read_where_they_are(void **state)
{
    crt_ner_corpus_t *c = parsed(documents);
    crt_ner_options_t o = tiny(3, 2, true);
    crt_ner_model_t *a = made(&o, c), *b;
    size_t count = crt_model_parameters(crt_ner_model_network(a));
    float *gradients = malloc(count * sizeof(float));
    crt_tensor_t tensor = crt_tensor_floats(gradients, count);
    crt_ner_batch_t batch = whole(c);

    assert_ok(crt_ner_model_new(&o, c, 2, &b));
    crt_ner_model_set_seed(a, 7);
    crt_ner_model_set_seed(b, 7);
    assert_ok(crt_ner_compute_gradients(a, NULL, c, &batch, NULL, NULL));
    assert_ok(crt_ner_compute_gradients(b, crt_model_weights(crt_ner_model_network(a)), c,
                                        &batch, &tensor, NULL));
    assert_memory_equal(gradients, a->network->gradients, count * sizeof(float));
    tensor = crt_tensor_floats(gradients, count - 1);
    assert_fails(crt_ner_compute_gradients(b, NULL, c, &batch, &tensor, NULL),
                 CRT_ERR_INVALID, "gradients");
    free(gradients);
    crt_ner_model_drop(&a);
    crt_ner_model_drop(&b);
    crt_ner_corpus_drop(&c);
}

static void options_that_can_not_be_are_named(void **state)
{
    crt_ner_corpus_t *c = parsed(documents), *bare = parsed("a O\n");
    crt_ner_options_t o = tiny(4, 2, true);
    crt_ner_model_t *m;

    assert_fails(crt_ner_model_new(&o, c, 0, &m), CRT_ERR_INVALID, "4 words, not 3 or 6");
    o = tiny(3, 0, true);
    assert_fails(crt_ner_model_new(&o, c, 0, &m), CRT_ERR_INVALID, "0 pieces");
    o = tiny(3, 2, true);
    o.depth = 1000;
    assert_fails(crt_ner_model_new(&o, c, 0, &m), CRT_ERR_INVALID, "a depth of 1000");
    o = tiny(3, 2, true);
    o.dropout = 1;
    assert_fails(crt_ner_model_new(&o, c, 0, &m), CRT_ERR_INVALID, "dropout rate 1");
    o = tiny(3, 2, true);
    assert_fails(crt_ner_model_new(&o, bare, 0, &m), CRT_ERR_INVALID, "0 labels");
    o.table_count = 0;
    assert_fails(crt_ner_model_new(&o, c, 0, &m), CRT_ERR_INVALID,
                 "0 tables of features, not 1..8");
    o.table_count = 9;
    assert_fails(crt_ner_model_new(&o, c, 0, &m), CRT_ERR_INVALID, "9 tables");
    o.table_count = 2;
    o.tables[1].feature = (crt_ner_feature_t)CRT_NER_FEATURES;
    assert_fails(crt_ner_model_new(&o, c, 0, &m), CRT_ERR_INVALID,
                 "a table of feature 16, not 0..15");
    o.tables[1] = (crt_ner_table_t){CRT_NER_ORTH, 0};
    assert_fails(crt_ner_model_new(&o, c, 0, &m), CRT_ERR_INVALID, "a table of 0 rows");
    o.struct_size = 3;
    assert_fails(crt_ner_model_new(&o, c, 0, &m), CRT_ERR_INVALID, "its size is 3");
    crt_ner_corpus_drop(&c);
    crt_ner_corpus_drop(&bare);
}

/* ---------------------------------------------------------------- files */

static void training_that_was_resumed_ends_with_the_same_bits(void **state)
{
    char *folder = new_folder();
    const char *path = path_in(folder, "model");
    crt_ner_corpus_t *c = parsed(documents);
    crt_ner_options_t o = tiny(3, 2, true);
    crt_ner_batching_t batching = crt_ner_batching(1);
    crt_ner_batches_t *batches;
    crt_ner_model_t *a = made(&o, c), *b, *loaded;
    crt_optimizer_t *first, *second;
    size_t size = crt_model_parameters(crt_ner_model_network(a)) * sizeof(float);
    int note = 1234, read = 0;

    batching.start = 8;
    assert_ok(crt_ner_batches_new(c, &batching, &batches));
    assert_ok(crt_adam_new(crt_ner_model_network(a), 0.01, &first));
    train(a, first, c, batches, 0, 5);
    assert_ok(crt_ner_model_save(a, first, &note, sizeof(note), path));
    train(a, first, c, batches, 5, 10);
    crt_ner_batches_drop(&batches);

    assert_ok(crt_ner_model_new(&o, c, 99, &b));
    assert_ok(crt_adam_new(crt_ner_model_network(b), 0.01, &second));
    assert_ok(crt_ner_model_restore(b, second, &read, sizeof(read), path));
    assert_int_equal(read, 1234);
    assert_int_equal(crt_optimizer_steps(second), 5);
    assert_ok(crt_ner_model_load(path, &loaded));
    assert_memory_equal(loaded->network->weights, b->network->weights, size);
    assert_string_equal(crt_ner_model_label(loaded, 0), "PER");
    assert_int_equal(crt_ner_model_labels(loaded), 2);
    assert_null(crt_ner_model_label(loaded, 2));
    assert_ok(crt_ner_batches_new(c, &batching, &batches));
    for (int i = 0; i < 5; i++) {
        const crt_ner_batch_t *batch;

        assert_ok(crt_ner_batches_next(batches, &batch));
    }
    train(b, second, c, batches, 5, 10);
    assert_memory_equal(a->network->weights, b->network->weights, size);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
    crt_ner_batches_drop(&batches);
    crt_optimizer_drop(&first);
    crt_optimizer_drop(&second);
    crt_ner_model_drop(&a);
    crt_ner_model_drop(&b);
    crt_ner_model_drop(&loaded);
    crt_ner_corpus_drop(&c);
    free(folder);
}

/* From the bytes of a file to those that version 2 would have written. */
static size_t as_version_2(unsigned char *bytes, size_t size, const uint32_t rows[4])
{
    const size_t tables = 28, behind = tables + 4 + 4 * 8;
    const uint32_t version = 2, subwords = 1;
    uint32_t sum;

    memcpy(bytes + 8, &version, 4);
    memcpy(bytes + tables, rows, 16);
    memcpy(bytes + tables + 16, &subwords, 4);
    memmove(bytes + tables + 20, bytes + behind, size - 4 - behind);
    size -= behind - tables - 20;
    sum = (uint32_t)crc32(0, bytes, (uInt)size - 4);
    memcpy(bytes + size - 4, &sum, 4);
    return size;
}

static void files_of_the_version_before_are_read(void **state)
{
    char *folder = new_folder();
    const char *path = path_in(folder, "model");
    static const uint32_t rows[] = {6, 0, 3, 3}; /* 0: half as many as of NORM */
    crt_ner_corpus_t *c = parsed(documents);
    crt_ner_options_t o = tiny(3, 2, true);
    crt_ner_model_t *m = made(&o, c), *read;
    unsigned char *bytes = malloc(1 << 16);
    size_t size;
    FILE *file;

    assert_ok(crt_ner_model_save(m, NULL, NULL, 0, path));
    file = fopen(path, "rb");
    size = fread(bytes, 1, 1 << 16, file);
    fclose(file);
    write_file(path, bytes, as_version_2(bytes, size, rows));
    assert_ok(crt_ner_model_load(path, &read));
    assert_int_equal(read->options.table_count, 4);
    assert_int_equal(read->options.tables[1].feature, CRT_NER_PREFIX);
    assert_int_equal(read->options.tables[1].rows, 3);
    assert_memory_equal(read->network->weights, m->network->weights,
                        m->network->parameter_count * sizeof(float));
    unlink(path);
    assert_int_equal(rmdir(folder), 0);
    crt_ner_model_drop(&m);
    crt_ner_model_drop(&read);
    crt_ner_corpus_drop(&c);
    free(bytes);
    free(folder);
}

static void files_of_other_models_are_refused(void **state)
{
    char *folder = new_folder();
    const char *path = path_in(folder, "model");
    crt_ner_corpus_t *c = parsed(documents), *other = parsed("Anna U-NEW\nParis U-LOC\n");
    crt_ner_options_t o = tiny(3, 2, true);
    crt_ner_model_t *a = made(&o, c), *b;
    crt_optimizer_t *adam, *sgd;
    int note = 5;

    assert_ok(crt_adam_new(crt_ner_model_network(a), 0.01, &adam));
    assert_ok(crt_sgd_new(crt_ner_model_network(a), 0.01, 0, &sgd));
    assert_ok(crt_ner_model_save(a, adam, &note, sizeof(note), path));
    assert_fails(crt_ner_model_restore(a, sgd, &note, sizeof(note), path),
                 CRT_ERR_INVALID, "states");
    assert_fails(crt_ner_model_restore(a, adam, &note, 1, path), CRT_ERR_INVALID,
                 "a note of 4 bytes, not 1");
    b = made(&o, other);
    assert_fails(crt_ner_model_restore(b, adam, &note, sizeof(note), path),
                 CRT_ERR_INVALID, "other options or labels");
    crt_ner_model_drop(&b);
    o.hidden = 5;
    b = made(&o, c);
    assert_fails(crt_ner_model_restore(b, adam, &note, sizeof(note), path),
                 CRT_ERR_INVALID, "other options or labels");
    crt_ner_model_drop(&b);
    assert_int_equal(unlink(path), 0);
    assert_fails(crt_ner_model_load(path, &b), CRT_ERR_NOT_FOUND, "model");
    assert_int_equal(rmdir(folder), 0);
    crt_optimizer_drop(&adam);
    crt_optimizer_drop(&sgd);
    crt_ner_model_drop(&a);
    crt_ner_corpus_drop(&c);
    crt_ner_corpus_drop(&other);
    free(folder);
}

static void damaged_files_are_corrupt(void **state)
{
    char *folder = new_folder();
    const char *path = path_in(folder, "model"), *bad = path_in(folder, "bad");
    crt_ner_corpus_t *c = parsed(documents);
    crt_ner_options_t o = tiny(3, 2, true);
    crt_ner_model_t *m = made(&o, c), *read = NULL;
    unsigned char *bytes = malloc(1 << 16);
    size_t size;
    FILE *file;

    assert_ok(crt_ner_model_save(m, NULL, NULL, 0, path));
    file = fopen(path, "rb");
    size = fread(bytes, 1, 1 << 16, file);
    fclose(file);
    for (size_t i = 0; i < size; i += 1 + i / 64) {
        crti_ner_file_t parts;

        bytes[i] ^= 0x11;
        assert_int_equal(crti_ner_file_decode("file", bytes, size, &parts),
                         CRT_ERR_CORRUPT);
        bytes[i] ^= 0x11;
        assert_int_equal(crti_ner_file_decode("file", bytes, i, &parts), CRT_ERR_CORRUPT);
    }
    write_file(bad, bytes, size - 3);
    assert_fails(crt_ner_model_load(bad, &read), CRT_ERR_CORRUPT, "cut short");
    assert_null(read);
    unlink(path);
    unlink(bad);
    assert_int_equal(rmdir(folder), 0);
    crt_ner_model_drop(&m);
    crt_ner_corpus_drop(&c);
    free(bytes);
    free(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_have_as_many_parameters_as_those_of_spacy),
        cmocka_unit_test(moves_cost_what_they_cost_in_spacy),
        cmocka_unit_test(gradients_are_those_of_spacy),
        cmocka_unit_test(what_was_learned_finds_new_names),
        cmocka_unit_test(scores_are_zero_where_there_is_nothing_to_divide_by),
        cmocka_unit_test(labels_that_the_model_has_not_are_an_error_only_in_training),
        cmocka_unit_test(words_that_nobody_knows_the_tag_of_teach_nothing),
        cmocka_unit_test(white_space_begins_no_entity),
        cmocka_unit_test(entities_do_not_reach_into_the_next_sentence),
        cmocka_unit_test(long_documents_are_cut_and_all_their_words_count),
        cmocka_unit_test(weights_are_read_where_they_are),
        cmocka_unit_test(options_that_can_not_be_are_named),
        cmocka_unit_test(training_that_was_resumed_ends_with_the_same_bits),
        cmocka_unit_test(files_of_the_version_before_are_read),
        cmocka_unit_test(files_of_other_models_are_refused),
        cmocka_unit_test(damaged_files_are_corrupt),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
