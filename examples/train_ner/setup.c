/* SPDX-License-Identifier: Apache-2.0 */
/* From a configuration, in the manner of spaCy's, to what train_ner does. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train_ner.h"

#define STEPS_MAX ((int64_t)1 << 40)
#define PATH_ROOM 256

/* The path of a key in a section; valid until the next call. Not to be a section itself: see make_below. */
static const char *key(const char *section, const char *name)
{
    static _Thread_local char path[PATH_ROOM];

    snprintf(path, sizeof(path), "%s.%s", section, name);
    return path;
}

/* Has the factory that the section `name` in `section` names make something. */
static crt_status_t make_below(crt_configuration_t *c, const char *section,
                               const char *name, const char *registry,
                               const crt_factory_t *factories, void *made)
{
    char path[PATH_ROOM];

    snprintf(path, sizeof(path), "%s.%s", section, name);
    return crt_configuration_make(c, path, registry, factories, made);
}

static crt_status_t read_int(crt_configuration_t *c, const char *section,
                             const char *name, int low, int high, int *value)
{
    int64_t wide = *value;
    crt_status_t status = crt_configuration_int(c, key(section, name), low, high, &wide);

    *value = (int)wide;
    return status;
}

static crt_status_t read_bool(crt_configuration_t *c, const char *section,
                              const char *name, bool *value)
{
    return crt_configuration_bool(c, key(section, name), value);
}

static crt_status_t read_float(crt_configuration_t *c, const char *section,
                               const char *name, double low, double high, double *value)
{
    return crt_configuration_float(c, key(section, name), low, high, value);
}

/* What spaCy has and this program has not, where only one value means that it is not used. */
static crt_status_t refuse(crt_configuration_t *c, const char *section, const char *name)
{
    bool value = false;
    crt_status_t status;

    if (crt_configuration_require(c, key(section, name)) != CRT_OK)
        return CRT_OK;
    status = read_bool(c, section, name, &value);
    if (status == CRT_OK && value)
        status = crt_configuration_raise(c, key(section, name), CRT_ERR_UNSUPPORTED,
                                         "%s: there are no vectors here", name);
    return status;
}

/* ---------------------------------------------------------------- model */

static crt_status_t make_embedding(crt_configuration_t *c, const char *section,
                                   void *made)
{
    crt_ner_options_t *o = made;

    CRT_TRY(read_int(c, section, "width", 1, 1 << 16, &o->width));
    CRT_TRY(read_int(c, section, "rows", 2, 1 << 24, &o->rows));
    CRT_TRY(refuse(c, section, "also_use_static_vectors"));
    return read_bool(c, section, "also_embed_subwords", &o->subwords);
}

/* Lists of the features and of the rows of their tables, in the order of the features. */
static crt_status_t make_embedding_2(crt_configuration_t *c, const char *section,
                                     void *made)
{
    static const char *const features[] = {"NORM", "PREFIX", "SUFFIX", "SHAPE"};
    crt_ner_options_t *o = made;
    size_t count = CRT_NER_FEATURES, rows = 0;

    CRT_TRY(read_int(c, section, "width", 1, 1 << 16, &o->width));
    CRT_TRY(refuse(c, section, "include_static_vectors"));
    CRT_TRY(crt_configuration_require(c, key(section, "rows")));
    for (size_t i = 0; i < count && i < CRT_NER_FEATURES; i++) {
        const char *name = "";
        int64_t n = 0;

        CRT_TRY(crt_configuration_string_at(c, key(section, "attrs"), i, &name, &count));
        if (count > 0 && i < count && strcmp(name, features[i]) != 0)
            return crt_configuration_raise(c, key(section, "attrs"), CRT_ERR_UNSUPPORTED,
                                           "feature %zu is %s, not %s", i, name,
                                           features[i]);
        CRT_TRY(
            crt_configuration_int_at(c, key(section, "rows"), i, 1, 1 << 24, &n, &rows));
        *(i == 0 ? &o->rows : &o->subword_rows[i - 1]) = (int)n;
    }
    o->subwords = count > 1;
    if ((count != 1 && count != CRT_NER_FEATURES) || rows != count)
        return crt_configuration_raise(
            c, key(section, "rows"), CRT_ERR_UNSUPPORTED,
            "%zu features with %zu tables: there must be one, or four, of each", count,
            rows);
    return CRT_OK;
}

static crt_status_t make_encoder(crt_configuration_t *c, const char *section, void *made)
{
    crt_ner_options_t *o = made;
    int width = o->width;

    CRT_TRY(read_int(c, section, "width", 1, 1 << 16, &width));
    if (width != o->width)
        return crt_configuration_raise(c, key(section, "width"), CRT_ERR_INVALID,
                                       "the encoder's width is %d, the embedding's %d",
                                       width, o->width);
    CRT_TRY(read_int(c, section, "depth", 0, 64, &o->depth));
    CRT_TRY(read_int(c, section, "window_size", 1, 1000, &o->window));
    return read_int(c, section, "maxout_pieces", 1, 64, &o->pieces);
}

static const crt_factory_t parts[] = {
    {"architectures", "spacy.MultiHashEmbed.v1", make_embedding},
    {"architectures", "spacy.MultiHashEmbed.v2", make_embedding_2},
    {"architectures", "spacy.MaxoutWindowEncoder.v1", make_encoder},
    {"architectures", "spacy.MaxoutWindowEncoder.v2", make_encoder},
    {0}};

static crt_status_t make_tok2vec(crt_configuration_t *c, const char *section, void *made)
{
    CRT_TRY(make_below(c, section, "embed", "architectures", parts, made));
    return make_below(c, section, "encode", "architectures", parts, made);
}

static crt_status_t make_cnn(crt_configuration_t *c, const char *section, void *made)
{
    crt_ner_options_t *o = made;

    CRT_TRY(read_int(c, section, "width", 1, 1 << 16, &o->width));
    CRT_TRY(read_int(c, section, "depth", 0, 64, &o->depth));
    CRT_TRY(read_int(c, section, "embed_size", 2, 1 << 24, &o->rows));
    CRT_TRY(read_int(c, section, "window_size", 1, 1000, &o->window));
    CRT_TRY(read_int(c, section, "maxout_pieces", 1, 64, &o->pieces));
    CRT_TRY(refuse(c, section, "pretrained_vectors"));
    return read_bool(c, section, "subword_features", &o->subwords);
}

static crt_status_t make_listener(crt_configuration_t *c, const char *section, void *made)
{
    static const crt_factory_t components[] = {
        {"architectures", "spacy.Tok2Vec.v1", make_tok2vec},
        {"architectures", "spacy.Tok2Vec.v2", make_tok2vec},
        {"architectures", "spacy.HashEmbedCNN.v1", make_cnn},
        {"architectures", "spacy.HashEmbedCNN.v2", make_cnn},
        {0}};

    crt_configuration_skip(c, key(section, "upstream"));
    crt_configuration_skip(c, key(section, "width")); /* of what it listens to */
    crt_configuration_skip(c, "components.tok2vec.factory");
    return crt_configuration_make(c, "components.tok2vec.model", "architectures",
                                  components, made);
}

static const crt_factory_t tok2vecs[] = {
    {"architectures", "spacy.Tok2VecListener.v1", make_listener},
    {"architectures", "spacy.Tok2Vec.v1", make_tok2vec},
    {"architectures", "spacy.Tok2Vec.v2", make_tok2vec},
    {"architectures", "spacy.HashEmbedCNN.v1", make_cnn},
    {"architectures", "spacy.HashEmbedCNN.v2", make_cnn},
    {0}};

static crt_status_t make_parser(crt_configuration_t *c, const char *section, void *made)
{
    crt_ner_options_t *o = made;
    bool extra = o->features == 6;
    const char *type = "ner";

    CRT_TRY(read_bool(c, section, "extra_state_tokens", &extra));
    o->features = extra ? 6 : 3;
    CRT_TRY(crt_configuration_string(c, key(section, "state_type"), &type));
    if (strcmp(type, "ner") != 0)
        return crt_configuration_raise(c, key(section, "state_type"), CRT_ERR_UNSUPPORTED,
                                       "a parser of the type %s, not ner", type);
    CRT_TRY(read_int(c, section, "hidden_width", 1, 1 << 14, &o->hidden));
    CRT_TRY(read_int(c, section, "maxout_pieces", 1, 64, &o->state_pieces));
    CRT_TRY(read_bool(c, section, "use_upper", &o->upper));
    crt_configuration_skip(c, key(section, "nO")); /* the labels say it */
    return make_below(c, section, "tok2vec", "architectures", tok2vecs, o);
}

static crt_status_t make_parser_1(crt_configuration_t *c, const char *section, void *made)
{
    crt_ner_options_t *o = made;

    CRT_TRY(read_int(c, section, "nr_feature_tokens", 3, 6, &o->features));
    if (o->features != 3 && o->features != 6)
        return crt_configuration_raise(c, key(section, "nr_feature_tokens"),
                                       CRT_ERR_INVALID, "%d words of a state, not 3 or 6",
                                       o->features);
    return make_parser(c, section, made);
}

static crt_status_t read_model(crt_configuration_t *c, crt_ner_options_t *o)
{
    static const crt_factory_t parsers[] = {
        {"architectures", "spacy.TransitionBasedParser.v1", make_parser_1},
        {"architectures", "spacy.TransitionBasedParser.v2", make_parser},
        {0}};

    *o = crt_ner_options();
    CRT_TRY(crt_configuration_float(c, "training.dropout", 0, 0.999, &o->dropout));
    CRT_TRY(read_int(c, "components.ner", "update_with_oracle_cut_size", 0, 1 << 20,
                     &o->oracle_cut));
    crt_configuration_skip(c, "components.ner.factory");
    crt_configuration_skip(c, "components.ner.moves");
    crt_configuration_skip(c, "components.ner.scorer");
    crt_configuration_skip(c, "components.ner.incorrect_spans_key");
    return crt_configuration_make(c, "components.ner.model", "architectures", parsers, o);
}

/* ---------------------------------------------------------------- schedules, batches, optimizer */

static crt_status_t make_constant(crt_configuration_t *c, const char *section, void *made)
{
    double rate = 0;

    CRT_TRY(read_float(c, section, "rate", 0, INFINITY, &rate));
    *(crt_schedule_t *)made = crt_schedule_constant(rate);
    return CRT_OK;
}

static crt_status_t make_compounding(crt_configuration_t *c, const char *section,
                                     void *made)
{
    double start = 0, stop = 0, factor = 1;

    CRT_TRY(read_float(c, section, "start", 0, 1e9, &start));
    CRT_TRY(read_float(c, section, "stop", 0, 1e9, &stop));
    CRT_TRY(read_float(c, section, "compound", 1e-9, 1e9, &factor));
    crt_configuration_skip(c, key(section, "t"));
    *(crt_schedule_t *)made = crt_schedule_compounding(start, stop, factor);
    return CRT_OK;
}

static crt_status_t make_warmup(crt_configuration_t *c, const char *section, void *made)
{
    int64_t warmup = 0, total = 1;
    double rate = 0.001;

    CRT_TRY(read_float(c, section, "initial_rate", 0, INFINITY, &rate));
    CRT_TRY(
        crt_configuration_int(c, key(section, "warmup_steps"), 0, STEPS_MAX, &warmup));
    CRT_TRY(crt_configuration_int(c, key(section, "total_steps"), 1, STEPS_MAX, &total));
    *(crt_schedule_t *)made =
        crt_schedule_warmup_linear(rate, (uint64_t)warmup, (uint64_t)total);
    return CRT_OK;
}

/* A number, or a section that names a schedule. */
static crt_status_t read_schedule(crt_configuration_t *c, const char *section,
                                  const char *name, crt_schedule_t *schedule)
{
    static const crt_factory_t schedules[] = {
        {"schedules", "constant.v1", make_constant},
        {"schedules", "compounding.v1", make_compounding},
        {"schedules", "warmup_linear.v1", make_warmup},
        {0}};
    double value = schedule->start;
    char at[PATH_ROOM];

    snprintf(at, sizeof(at), "%s.%s.@schedules", section, name);
    if (crt_configuration_has(c, at))
        return make_below(c, section, name, "schedules", schedules, schedule);
    CRT_TRY(crt_configuration_float(c, key(section, name), 0, 1e9, &value));
    *schedule = crt_schedule_constant(value);
    return CRT_OK;
}

static crt_status_t make_by_words(crt_configuration_t *c, const char *section, void *made)
{
    crt_ner_batching_t *b = made;
    crt_schedule_t size = crt_schedule_constant(1000);

    CRT_TRY(read_schedule(c, section, "size", &size));
    if (size.kind != CRT_SCHEDULE_CONSTANT && size.kind != CRT_SCHEDULE_COMPOUNDING)
        return crt_configuration_raise(c, key(section, "size"), CRT_ERR_UNSUPPORTED,
                                       "sizes of batches are constant or compounding");
    b->start = size.start;
    b->stop = size.kind == CRT_SCHEDULE_CONSTANT ? size.start : size.stop;
    b->factor = size.kind == CRT_SCHEDULE_CONSTANT ? 1 : size.factor;
    if (b->start < 1 || b->stop < 1)
        return crt_configuration_raise(c, key(section, "size"), CRT_ERR_INVALID,
                                       "batches of %g words",
                                       b->start < 1 ? b->start : b->stop);
    CRT_TRY(read_float(c, section, "tolerance", 0, 1e6, &b->tolerance));
    crt_configuration_skip(c, key(section, "get_length"));
    return read_bool(c, section, "discard_oversize", &b->discard_oversize);
}

static crt_status_t read_adam(crt_configuration_t *c, const char *section, setup_t *s)
{
    crt_optimizer_options_t *o = &s->optimizer;

    CRT_TRY(read_float(c, section, "beta1", 0, 0.999999, &o->beta1));
    CRT_TRY(read_float(c, section, "beta2", 0, 0.999999, &o->beta2));
    CRT_TRY(read_float(c, section, "eps", 1e-30, 1, &o->epsilon));
    CRT_TRY(read_float(c, section, "L2", 0, 1e6, &o->l2));
    CRT_TRY(read_float(c, section, "grad_clip", 0, 1e9, &o->grad_clip));
    CRT_TRY(read_bool(c, section, "L2_is_weight_decay", &o->l2_is_weight_decay));
    CRT_TRY(read_bool(c, section, "use_averages", &o->use_averages));
    s->learn_rate = crt_schedule_constant(0.001);
    CRT_TRY(read_schedule(c, section, "learn_rate", &s->learn_rate));
    o->learn_rate = crt_schedule_at(&s->learn_rate, 0);
    return CRT_OK;
}

static crt_status_t make_adam(crt_configuration_t *c, const char *section, void *made)
{
    setup_t *s = made;

    s->optimizer = crt_adam_options(0.001);
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

/* ---------------------------------------------------------------- corpora, logger, training */

typedef struct reading {
    const char *path;
    int max_length;
} reading_t;

static crt_status_t make_corpus(crt_configuration_t *c, const char *section, void *made)
{
    reading_t *r = made;

    CRT_TRY(crt_configuration_require(c, key(section, "path")));
    CRT_TRY(crt_configuration_string(c, key(section, "path"), &r->path));
    CRT_TRY(read_int(c, section, "max_length", 0, 1 << 30, &r->max_length));
    crt_configuration_skip(c, key(section, "gold_preproc")); /* words are the file's */
    crt_configuration_skip(c, key(section, "augmenter"));
    crt_configuration_skip(c, key(section, "limit"));
    return CRT_OK;
}

/* A reader in the section `name` itself, or in the one that its value names: "corpora.train". */
static crt_status_t read_corpus(crt_configuration_t *c, const char *name, reading_t *made)
{
    static const crt_factory_t readers[] = {{"readers", "spacy.Corpus.v1", make_corpus},
                                            {0}};
    char reader[PATH_ROOM];

    snprintf(reader, sizeof(reader), "%s.@readers", name);
    if (!crt_configuration_has(c, reader) && crt_configuration_has(c, name))
        CRT_TRY(crt_configuration_string(c, name, &name));
    return crt_configuration_make(c, name, "readers", readers, made);
}

static crt_status_t read_corpora(crt_configuration_t *c, setup_t *s)
{
    reading_t train = {0}, dev = {0};

    CRT_TRY(read_corpus(c, "training.train_corpus", &train));
    CRT_TRY(read_corpus(c, "training.dev_corpus", &dev));
    s->train = train.path;
    s->dev = dev.path;
    s->batching.max_length = train.max_length;
    return CRT_OK;
}

static crt_status_t make_ray_logger(crt_configuration_t *c, const char *section,
                                    void *made)
{
    *(bool *)made = false;
    return CRT_OK;
}

static crt_status_t make_plain_logger(crt_configuration_t *c, const char *section,
                                      void *made)
{
    crt_configuration_skip(c, key(section, "progress_bar"));
    crt_configuration_skip(c, key(section, "console_output"));
    crt_configuration_skip(c, key(section, "output_file")); /* log.csv */
    *(bool *)made = true;
    return CRT_OK;
}

static crt_status_t read_logger(crt_configuration_t *c, setup_t *s)
{
    static const crt_factory_t loggers[] = {
        {"loggers", "spacy-ray.ConsoleLogger.v1", make_ray_logger},
        {"loggers", "spacy.ConsoleLogger.v1", make_plain_logger},
        {"loggers", "spacy.ConsoleLogger.v2", make_plain_logger},
        {"loggers", "spacy.ConsoleLogger.v3", make_plain_logger},
        {0}};

    return crt_configuration_has(c, "training.logger")
               ? crt_configuration_make(c, "training.logger", "loggers", loggers,
                                        &s->has_plain_logger)
               : CRT_OK;
}

static crt_status_t read_training(crt_configuration_t *c, setup_t *s)
{
    static const crt_factory_t batchers[] = {
        {"batchers", "spacy.batch_by_words.v1", make_by_words}, {0}};
    static const crt_factory_t optimizers[] = {{"optimizers", "Adam.v1", make_adam},
                                               {"optimizers", "RAdam.v1", make_radam},
                                               {0}};
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
    crt_configuration_skip(c, "training.score_weights.ents_per_type");
    s->batching = crt_ner_batching((uint64_t)s->seed);
    CRT_TRY(crt_configuration_make(c, "training.batcher", "batchers", batchers,
                                   &s->batching));
    CRT_TRY(crt_configuration_make(c, "training.optimizer", "optimizers", optimizers, s));
    CRT_TRY(read_logger(c, s));
    return read_corpora(c, s);
}

static crt_status_t read_distributed(crt_configuration_t *c, setup_t *s)
{
    static const char *const modes[] = {"allreduce", "peer", "shared_optimizer",
                                        "head_child"};
    const char *mode = modes[0];
    int found = -1;

    s->workers = 1;
    s->restarts = 10;
    CRT_TRY(
        crt_configuration_int(c, "distributed.workers", 1, MEMBERS_MAX - 1, &s->workers));
    s->quorum = s->workers;
    CRT_TRY(crt_configuration_int(c, "distributed.quorum", 1, 1 << 20, &s->quorum));
    CRT_TRY(crt_configuration_int(c, "distributed.staleness", 0, 1 << 20, &s->staleness));
    CRT_TRY(crt_configuration_int(c, "distributed.restarts", 0, 1 << 20, &s->restarts));
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

/* What spaCy needs and this program has no use for. */
static void skip_others(crt_configuration_t *c)
{
    static const char *const others[] = {"paths",
                                         "system",
                                         "nlp",
                                         "initialize",
                                         "pretraining",
                                         "corpora",
                                         "training.vectors",
                                         "training.init_tok2vec",
                                         "training.raw_text",
                                         "training.frozen_components",
                                         "training.annotating_components",
                                         "training.before_to_disk",
                                         "training.before_update",
                                         "training.gpu_allocator"};

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        crt_configuration_skip(c, others[i]);
}

crt_status_t setup_init(setup_t *s, crt_configuration_t *c)
{
    *s = (setup_t){.configuration = c};
    CRT_TRY(read_model(c, &s->model));
    CRT_TRY(read_training(c, s));
    CRT_TRY(read_distributed(c, s));
    skip_others(c);
    return crt_configuration_finish(c);
}

void setup_fini(setup_t *s)
{
    crt_configuration_free(s->configuration);
    s->configuration = NULL;
}

crt_status_t open_corpus(const char *source, crt_ner_corpus_t **corpus_out)
{
    unsigned long long count = 0, seed = 0;

    if (strncmp(source, "builtin:", 8) != 0)
        return crt_ner_corpus_read(source, 1, corpus_out);
    if (sscanf(source + 8, "%llu:%llu", &count, &seed) < 1 || count > 10000000)
        return crt_raise(CRT_ERR_INVALID,
                         "'%s' is not builtin:COUNT or builtin:COUNT:SEED", source);
    return crt_ner_corpus_new_synthetic(count, seed, corpus_out);
}
