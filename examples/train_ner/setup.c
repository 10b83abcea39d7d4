/* SPDX-License-Identifier: Apache-2.0 */
/* From a configuration, in the manner of spaCy's, to what train_ner does. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "setup.h"

#define STEPS_MAX ((int64_t)1 << 40)

const char *key(const char *section, const char *name)
{
    static _Thread_local char path[PATH_ROOM];

    snprintf(path, sizeof(path), "%s.%s", section, name);
    return path;
}

crt_status_t make_below(crt_configuration_t *c, const char *section, const char *name,
                        const char *registry, const crt_factory_t *factories, void *made)
{
    char path[PATH_ROOM];

    snprintf(path, sizeof(path), "%s.%s", section, name);
    return crt_configuration_make(c, path, registry, factories, made);
}

crt_status_t read_int(crt_configuration_t *c, const char *section, const char *name,
                      int low, int high, int *value)
{
    int64_t wide = *value;
    crt_status_t status = crt_configuration_int(c, key(section, name), low, high, &wide);

    *value = (int)wide;
    return status;
}

crt_status_t read_bool(crt_configuration_t *c, const char *section, const char *name,
                       bool *value)
{
    return crt_configuration_bool(c, key(section, name), value);
}

crt_status_t read_float(crt_configuration_t *c, const char *section, const char *name,
                        double low, double high, double *value)
{
    return crt_configuration_float(c, key(section, name), low, high, value);
}

/* ---------------------------------------------------------------- schedules, batches, optimizer */

/* Keys of which spaCy has no default either. */
static crt_status_t require_all(crt_configuration_t *c, const char *section,
                                const char *const *names)
{
    for (; *names; names++)
        CRT_TRY(crt_configuration_require(c, key(section, *names)));
    return CRT_OK;
}

static crt_status_t make_constant(crt_configuration_t *c, const char *section, void *made)
{
    static const char *const wanted[] = {"rate", NULL};
    double rate = 0;

    CRT_TRY(require_all(c, section, wanted));
    CRT_TRY(read_float(c, section, "rate", 0, INFINITY, &rate));
    *(crt_schedule_t *)made = crt_schedule_constant(rate);
    return CRT_OK;
}

/* What is not said is what the schedule is already: spaCy merges a section with the one of its
 * default configuration, where that names the same function. */
static crt_status_t make_compounding(crt_configuration_t *c, const char *section,
                                     void *made)
{
    static const char *const wanted[] = {"start", "stop", "compound", NULL};
    crt_schedule_t *s = made;
    double start = s->start, stop = s->stop, factor = s->factor;

    if (s->kind != CRT_SCHEDULE_KIND_COMPOUNDING)
        CRT_TRY(require_all(c, section, wanted));
    CRT_TRY(read_float(c, section, "start", 0, 1e9, &start));
    CRT_TRY(read_float(c, section, "stop", 0, 1e9, &stop));
    CRT_TRY(read_float(c, section, "compound", 1e-9, 1e9, &factor));
    crt_configuration_skip(c, key(section, "t"));
    *s = crt_schedule_compounding(start, stop, factor);
    return CRT_OK;
}

static crt_status_t make_warmup(crt_configuration_t *c, const char *section, void *made)
{
    static const char *const wanted[] = {"initial_rate", "warmup_steps", "total_steps",
                                         NULL};
    int64_t warmup = 0, total = 1;
    double rate = 0;

    CRT_TRY(require_all(c, section, wanted));
    CRT_TRY(read_float(c, section, "initial_rate", 0, INFINITY, &rate));
    CRT_TRY(
        crt_configuration_int(c, key(section, "warmup_steps"), 0, STEPS_MAX, &warmup));
    CRT_TRY(crt_configuration_int(c, key(section, "total_steps"), 1, STEPS_MAX, &total));
    *(crt_schedule_t *)made =
        crt_schedule_warmup_linear(rate, (uint64_t)warmup, (uint64_t)total);
    return CRT_OK;
}

static const crt_factory_t schedules[] = {
    CRT_FACTORY(.registry = "schedules", .name = "constant.v1", .make = make_constant),
    CRT_FACTORY(.registry = "schedules", .name = "compounding.v1",
                .make = make_compounding),
    CRT_FACTORY(.registry = "schedules", .name = "warmup_linear.v1", .make = make_warmup),
    {0}};

static bool has_keys(crt_configuration_t *c, const char *section)
{
    const char *path = crt_configuration_path_at(c, section, 0);

    return path && strlen(path) > strlen(section);
}

/* A key, or a section in its place, of which spaCy has no default either. */
static crt_status_t require_set(crt_configuration_t *c, const char *section,
                                const char *name)
{
    return has_keys(c, key(section, name))
               ? CRT_OK
               : crt_configuration_require(c, key(section, name));
}

/* A number, or a section that names a schedule; neither: what it is already. */
static crt_status_t read_schedule(crt_configuration_t *c, const char *section,
                                  const char *name, crt_schedule_t *schedule)
{
    double value = schedule->start;
    char below[PATH_ROOM], at[PATH_ROOM + 16];

    snprintf(below, sizeof(below), "%s.%s", section, name);
    snprintf(at, sizeof(at), "%s.@schedules", below);
    if (crt_configuration_has(c, at))
        return make_below(c, section, name, "schedules", schedules, schedule);
    if (schedule->kind == CRT_SCHEDULE_KIND_COMPOUNDING && has_keys(c, below))
        return make_compounding(c, below, schedule); /* a part of the default */
    if (schedule->kind != CRT_SCHEDULE_KIND_CONSTANT &&
        !crt_configuration_has(c, key(section, name)))
        return CRT_OK;
    CRT_TRY(crt_configuration_float(c, key(section, name), 0, 1e9, &value));
    *schedule = crt_schedule_constant(value);
    return CRT_OK;
}

/* The size of batches, and what all batchers say. */
static crt_status_t read_batcher(crt_configuration_t *c, const char *section,
                                 crt_schedule_t size, crt_ner_batching_t *b)
{
    if (size.kind == CRT_SCHEDULE_KIND_CONSTANT)
        CRT_TRY(require_set(c, section, "size"));
    CRT_TRY(read_schedule(c, section, "size", &size));
    if (size.kind != CRT_SCHEDULE_KIND_CONSTANT &&
        size.kind != CRT_SCHEDULE_KIND_COMPOUNDING)
        return crt_configuration_raise(c, key(section, "size"), CRT_ERR_UNSUPPORTED,
                                       "sizes of batches are constant or compounding");
    b->start = size.start;
    b->stop = size.kind == CRT_SCHEDULE_KIND_CONSTANT ? size.start : size.stop;
    b->factor = size.kind == CRT_SCHEDULE_KIND_CONSTANT ? 1 : size.factor;
    if (b->start < 1 || b->stop < 1)
        return crt_configuration_raise(c, key(section, "size"), CRT_ERR_INVALID,
                                       "batches of size %g",
                                       b->start < 1 ? b->start : b->stop);
    if (crt_configuration_is_set(c, key(section, "get_length")))
        return crt_configuration_raise(c, key(section, "get_length"), CRT_ERR_UNSUPPORTED,
                                       "get_length: a callback in Python");
    crt_configuration_skip(c, key(section, "get_length"));
    return CRT_OK;
}

static crt_status_t make_by_words(crt_configuration_t *c, const char *section, void *made)
{
    crt_ner_batching_t *b = made;

    CRT_TRY(read_batcher(c, section, crt_schedule_compounding(100, 1000, 1.001), b));
    CRT_TRY(read_float(c, section, "tolerance", 0, 1e6, &b->tolerance));
    return read_bool(c, section, "discard_oversize", &b->discard_oversize);
}

static crt_status_t make_by_sequence(crt_configuration_t *c, const char *section,
                                     void *made)
{
    crt_ner_batching_t *b = made;

    b->kind = CRT_NER_BY_DOCUMENTS;
    return read_batcher(c, section, crt_schedule_constant(0), b);
}

static crt_status_t make_by_padded(crt_configuration_t *c, const char *section,
                                   void *made)
{
    static const char *const wanted[] = {"buffer", "discard_oversize", NULL};
    crt_ner_batching_t *b = made;

    b->kind = CRT_NER_BY_PADDED;
    CRT_TRY(require_all(c, section, wanted));
    CRT_TRY(read_batcher(c, section, crt_schedule_constant(0), b));
    CRT_TRY(read_int(c, section, "buffer", 1, 1 << 24, &b->buffer));
    return read_bool(c, section, "discard_oversize", &b->discard_oversize);
}

static const crt_factory_t batchers[] = {
    CRT_FACTORY(.registry = "batchers", .name = "spacy.batch_by_words.v1",
                .make = make_by_words),
    CRT_FACTORY(.registry = "batchers", .name = "spacy.batch_by_sequence.v1",
                .make = make_by_sequence),
    CRT_FACTORY(.registry = "batchers", .name = "spacy.batch_by_padded.v1",
                .make = make_by_padded),
    {0}};

/* What all optimizers say. */
static crt_status_t read_optimizer(crt_configuration_t *c, const char *section,
                                   setup_t *s)
{
    crt_optimizer_options_t *o = &s->optimizer;

    CRT_TRY(read_float(c, section, "L2", 0, 1e6, &o->l2));
    CRT_TRY(read_float(c, section, "grad_clip", 0, 1e9, &o->grad_clip));
    CRT_TRY(read_bool(c, section, "L2_is_weight_decay", &o->l2_is_weight_decay));
    CRT_TRY(read_bool(c, section, "use_averages", &o->use_averages));
    s->learn_rate = crt_schedule_constant(o->learn_rate);
    CRT_TRY(read_schedule(c, section, "learn_rate", &s->learn_rate));
    return crt_schedule_at(&s->learn_rate, 0, &o->learn_rate);
}

static crt_status_t read_adam(crt_configuration_t *c, const char *section, setup_t *s)
{
    crt_optimizer_options_t *o = &s->optimizer;

    CRT_TRY(read_float(c, section, "beta1", 0, 0.999999, &o->beta1));
    CRT_TRY(read_float(c, section, "beta2", 0, 0.999999, &o->beta2));
    CRT_TRY(read_float(c, section, "eps", 1e-30, 1, &o->epsilon));
    return read_optimizer(c, section, s);
}

/* What is not said is what spaCy's default configuration says, not Thinc. */
static crt_status_t make_adam(crt_configuration_t *c, const char *section, void *made)
{
    setup_t *s = made;

    s->optimizer = crt_adam_options(0.001);
    s->optimizer.l2 = 0.01;
    return read_adam(c, section, s);
}

static crt_status_t make_radam(crt_configuration_t *c, const char *section, void *made)
{
    setup_t *s = made;

    s->optimizer = crt_radam_options(0.001);
    CRT_TRY(read_int(c, section, "lookahead_k", 0, 1000, &s->optimizer.lookahead_steps));
    CRT_TRY(
        read_float(c, section, "lookahead_alpha", 0, 1, &s->optimizer.lookahead_rate));
    return read_adam(c, section, s);
}

static crt_status_t make_sgd(crt_configuration_t *c, const char *section, void *made)
{
    setup_t *s = made;

    s->optimizer = crt_sgd_options(0.001, 0);
    CRT_TRY(require_set(c, section, "learn_rate"));
    s->optimizer.grad_clip = 1;
    s->optimizer.use_averages = true;
    return read_optimizer(c, section, s);
}

static const crt_factory_t optimizers[] = {
    CRT_FACTORY(.registry = "optimizers", .name = "Adam.v1", .make = make_adam),
    CRT_FACTORY(.registry = "optimizers", .name = "RAdam.v1", .make = make_radam),
    CRT_FACTORY(.registry = "optimizers", .name = "SGD.v1", .make = make_sgd),
    {0}};

/* ---------------------------------------------------------------- corpora, logger, training */

static crt_status_t make_lower_case(crt_configuration_t *c, const char *section,
                                    void *made)
{
    CRT_TRY(crt_configuration_require(c, key(section, "level")));
    return read_float(c, section, "level", 0, 1, made);
}

/* Of its three only lower case is here. */
static crt_status_t make_combined(crt_configuration_t *c, const char *section, void *made)
{
    static const char *const others[] = {"orth_level", "whitespace_level"};

    for (size_t i = 0; i < 2; i++)
        if (crt_configuration_is_set(c, key(section, others[i])))
            return crt_configuration_raise(c, key(section, others[i]),
                                           CRT_ERR_UNSUPPORTED, "%s: not here",
                                           others[i]);
    CRT_TRY(crt_configuration_require(c, key(section, "lower_level")));
    CRT_TRY(read_float(c, section, "lower_level", 0, 1, made));
    crt_configuration_skip(c, section); /* tables of what is not done */
    return CRT_OK;
}

static const crt_factory_t augmenters[] = {
    CRT_FACTORY(.registry = "augmenters", .name = "spacy.lower_case.v1",
                .make = make_lower_case),
    CRT_FACTORY(.registry = "augmenters", .name = "spacy.combined_augmenter.v1",
                .make = make_combined),
    {0}};

static crt_status_t make_corpus(crt_configuration_t *c, const char *section, void *made)
{
    reading_t *r = made;
    int limit = 0, max_length = 0;
    bool gold = false;

    CRT_TRY(crt_configuration_require(c, key(section, "path")));
    CRT_TRY(crt_configuration_string(c, key(section, "path"), &r->path));
    CRT_TRY(read_int(c, section, "max_length", 0, 1 << 30, &max_length));
    CRT_TRY(read_int(c, section, "limit", 0, 1 << 30, &limit));
    CRT_TRY(read_bool(c, section, "gold_preproc", &gold));
    if (crt_configuration_is_set(c, key(section, "augmenter")))
        CRT_TRY(make_below(c, section, "augmenter", "augmenters", augmenters,
                           &r->selection.lower_case));
    crt_configuration_skip(c, key(section, "augmenter"));
    crt_configuration_skip(c, key(section, "shuffle")); /* each pass is */
    r->selection.limit = (size_t)limit;
    r->selection.max_length = gold ? 0 : (size_t)max_length;
    return CRT_OK;
}

static const crt_factory_t readers[] = {
    CRT_FACTORY(.registry = "readers", .name = "spacy.Corpus.v1", .make = make_corpus),
    {0}};

/* A reader in the section `name` itself, or in the one that its value names: "corpora.train",
 * which is also the default; where there is none of that name, all of the file in [paths]. */
static crt_status_t read_corpus(crt_configuration_t *c, const char *name,
                                const char *otherwise, const setup_t *s, reading_t *made)
{
    const char *usual = otherwise;
    char reader[PATH_ROOM], path[PATH_ROOM];

    made->selection = CRT_NER_SELECTION(.seed = (uint64_t)s->seed);
    snprintf(reader, sizeof(reader), "%s.@readers", name);
    if (!crt_configuration_has(c, reader)) {
        CRT_TRY(crt_configuration_string(c, name, &otherwise));
        name = otherwise;
    }
    snprintf(made->section, sizeof(made->section), "%s", name);
    if (!crt_configuration_has(c, name) && strcmp(name, usual) == 0) {
        snprintf(path, sizeof(path), "paths%s", strchr(usual, '.'));
        CRT_TRY(crt_configuration_require(c, path));
        return crt_configuration_string(c, path, &made->path);
    }
    return crt_configuration_make(c, name, "readers", readers, made);
}

/* Of loggers only what they print matters, not where else they send it. */
static crt_status_t read_logger(crt_configuration_t *c, setup_t *s)
{
    static const char ray[] = "spacy-ray.ConsoleLogger.v1",
                      own[] = "spacy.ConsoleLogger.";
    const char *name = own;

    s->has_plain_logger = true;
    if (!crt_configuration_has(c, "training.logger"))
        return CRT_OK;
    CRT_TRY(crt_configuration_require(c, "training.logger.@loggers"));
    CRT_TRY(crt_configuration_string(c, "training.logger.@loggers", &name));
    s->has_plain_logger = strcmp(name, ray) != 0;
    if (s->has_plain_logger && strncmp(name, own, strlen(own)) != 0)
        s->absent_logger = name;
    return CRT_OK;
}

/* What the factory makes that the section names; where it names none, the first one. */
static crt_status_t make_or_default(crt_configuration_t *c, const char *section,
                                    const char *registry, const crt_factory_t *factories,
                                    void *made)
{
    char path[PATH_ROOM];

    snprintf(path, sizeof(path), "%s.@%s", section, registry);
    return crt_configuration_has(c, path)
               ? crt_configuration_make(c, section, registry, factories, made)
               : factories->make(c, section, made);
}

static crt_status_t read_training(crt_configuration_t *c, setup_t *s)
{
    int64_t accumulate = 1;

    s->patience = 1600;
    s->max_steps = 20000;
    s->eval_frequency = 200;
    s->weight_f = 1;
    CRT_TRY(crt_configuration_int(c, "training.seed", 0, INT64_MAX, &s->seed));
    CRT_TRY(crt_configuration_int(c, "training.patience", 0, STEPS_MAX, &s->patience));
    CRT_TRY(
        crt_configuration_int(c, "training.max_epochs", 0, STEPS_MAX, &s->max_epochs));
    CRT_TRY(crt_configuration_int(c, "training.max_steps", 0, STEPS_MAX, &s->max_steps));
    CRT_TRY(crt_configuration_int(c, "training.eval_frequency", 1, STEPS_MAX,
                                  &s->eval_frequency));
    /* In spaCy the parts that a batch is cut into, whose gradients are summed: the same sum. */
    CRT_TRY(
        crt_configuration_int(c, "training.accumulate_gradient", 1, 1000, &accumulate));
    CRT_TRY(
        crt_configuration_float(c, "training.score_weights.ents_f", 0, 1, &s->weight_f));
    CRT_TRY(
        crt_configuration_float(c, "training.score_weights.ents_p", 0, 1, &s->weight_p));
    CRT_TRY(
        crt_configuration_float(c, "training.score_weights.ents_r", 0, 1, &s->weight_r));
    s->batching = crt_ner_batching((uint64_t)s->seed);
    CRT_TRY(make_or_default(c, "training.batcher", "batchers", batchers, &s->batching));
    CRT_TRY(make_or_default(c, "training.optimizer", "optimizers", optimizers, s));
    CRT_TRY(read_logger(c, s));
    CRT_TRY(read_corpus(c, "training.train_corpus", "corpora.train", s, &s->train));
    return read_corpus(c, "training.dev_corpus", "corpora.dev", s, &s->dev);
}

static crt_status_t read_distributed(crt_configuration_t *c, setup_t *s)
{
    static const char *const modes[] = {"allreduce", "peer", "shared_optimizer",
                                        "head_child"};
    const char *mode = modes[0], *accelerator = "cpu";
    int found = -1;

    s->workers = 1;
    s->restarts = 10;
    s->num_gpus = 1;
    s->limit_s = 60;
    CRT_TRY(
        crt_configuration_int(c, "distributed.workers", 1, MEMBERS_MAX - 1, &s->workers));
    s->quorum = s->workers;
    CRT_TRY(crt_configuration_int(c, "distributed.quorum", 1, 1 << 20, &s->quorum));
    CRT_TRY(crt_configuration_int(c, "distributed.staleness", 0, 1 << 20, &s->staleness));
    CRT_TRY(crt_configuration_int(c, "distributed.restarts", 0, 1 << 20, &s->restarts));
    CRT_TRY(crt_configuration_float(c, "distributed.num_gpus", 0.001, 1, &s->num_gpus));
    CRT_TRY(crt_configuration_float(c, "distributed.limit_s", 0.001, 1e6, &s->limit_s));
    CRT_TRY(crt_configuration_string(c, "distributed.accelerator", &accelerator));
    CRT_TRY(crt_accelerator_parse(accelerator, &s->accelerator));
    CRT_TRY(crt_configuration_string(c, "distributed.mode", &mode));
    for (int i = 0; i < 4; i++)
        if (strcmp(mode, modes[i]) == 0)
            found = i;
    if (found < 0)
        return crt_configuration_raise(
            c, "distributed.mode", CRT_ERR_INVALID,
            "mode %s, not allreduce, peer, shared_optimizer or head_child", mode);
    s->mode = (ner_mode_t)found;
    return CRT_OK;
}

static crt_status_t read_scorer(crt_configuration_t *c)
{
    static const char section[] = "components.ner.scorer", own[] = "spacy.ner_scorer.v1";
    const char *scorer = own;

    if (crt_configuration_has(c, key(section, "@scorers")))
        CRT_TRY(crt_configuration_string(c, key(section, "@scorers"), &scorer));
    else if (crt_configuration_is_set(c, section))
        scorer = "another";
    if (strcmp(scorer, own) != 0)
        return crt_configuration_raise(c, section, CRT_ERR_UNSUPPORTED, "%s: %s, not %s",
                                       section, scorer, own);
    crt_configuration_skip(c, section);
    return CRT_OK;
}

crt_status_t setup_add_defaults(crt_configuration_t *c)
{
    static const char *const defaults[][2] = {
        {"paths.train", "null"},   {"paths.dev", "null"},
        {"paths.vectors", "null"}, {"paths.init_tok2vec", "null"},
        {"system.seed", "0"},      {"system.gpu_allocator", "null"}};
    char override[PATH_ROOM];

    for (size_t i = 0; i < sizeof(defaults) / sizeof(defaults[0]); i++) {
        if (crt_configuration_has(c, defaults[i][0]))
            continue;
        snprintf(override, sizeof(override), "--%s=%s", defaults[i][0], defaults[i][1]);
        CRT_TRY(crt_configuration_override(c, override));
    }
    return CRT_OK;
}

crt_status_t setup_init(setup_t *s, crt_configuration_t *c)
{
    *s = (setup_t){.configuration = c};
    CRT_TRY(
        read_model(c, s)); /* its vectors and transformers are the first to be missed */
    CRT_TRY(refuse_settings(c, s));
    CRT_TRY(read_scorer(c));
    CRT_TRY(read_training(c, s));
    CRT_TRY(read_distributed(c, s));
    CRT_TRY(pass_over(c, s));
    return crt_configuration_finish(c);
}

void setup_fini(setup_t *s)
{
    crt_configuration_drop(&s->configuration);
    s->configuration = NULL;
}

static crt_status_t open_whole(const char *source, crt_ner_corpus_t **corpus_out)
{
    unsigned long long count = 0, seed = 0;
    size_t length = strlen(source);

    if (length > 6 && strcmp(source + length - 6, ".spacy") == 0)
        return crt_raise(
            CRT_ERR_UNSUPPORTED,
            "%s: documents of spaCy can't be read; give the CoNLL or IOB file that "
            "they were made of",
            source);
    if (strncmp(source, "builtin:", 8) != 0)
        return crt_ner_corpus_read(source, 1, corpus_out);
    if (sscanf(source + 8, "%llu:%llu", &count, &seed) < 1 || count > 10000000)
        return crt_raise(CRT_ERR_INVALID,
                         "'%s' is not builtin:COUNT or builtin:COUNT:SEED", source);
    return crt_ner_corpus_new_synthetic(count, seed, corpus_out);
}

crt_status_t open_corpus(const char *source, const crt_ner_selection_t *selection,
                         crt_ner_corpus_t **corpus_out)
{
    crt_ner_corpus_t *whole;
    crt_status_t status = open_whole(source, &whole);

    if (status != CRT_OK)
        return status;
    if (!selection || (selection->limit == 0 && selection->max_length == 0 &&
                       !(selection->lower_case > 0))) {
        *corpus_out = whole;
        return CRT_OK;
    }
    status = crt_ner_corpus_new_selection(whole, selection, corpus_out);
    crt_ner_corpus_drop(&whole);
    return status;
}

void print_training_factories(FILE *out)
{
    print_factories(out, readers);
    print_factories(out, augmenters);
    print_factories(out, batchers);
    print_factories(out, schedules);
    print_factories(out, optimizers);
}
