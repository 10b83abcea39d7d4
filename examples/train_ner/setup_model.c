/* SPDX-License-Identifier: Apache-2.0 */
/* From [components.ner.model], and from the tok2vec that it listens to, to the options of a
 * model. */
#include <string.h>

#include "setup.h"

/* Layers of static vectors, which are not here: false, or the vectors are named. */
static crt_status_t refuse_vectors(crt_configuration_t *c, const char *section,
                                   const char *name)
{
    const char *vectors = "";
    bool wanted = false;

    if (!crt_configuration_is_set(c, key(section, name)))
        return read_bool(c, section, name, &wanted);
    if (crt_configuration_is_set(c, "initialize.vectors"))
        CRT_TRY(crt_configuration_string(c, "initialize.vectors", &vectors));
    return crt_configuration_raise(
        c, key(section, name), CRT_ERR_UNSUPPORTED,
        "%s: the static vectors %s%s%scan't be read here; without them say false", name,
        vectors[0] ? "'" : "(no [initialize] vectors are named) ", vectors,
        vectors[0] ? "' of [initialize] " : "");
}

/* Tables as HashEmbedCNN and the first MultiHashEmbed have them. */
static void set_tables(crt_ner_options_t *o, int rows, bool subwords)
{
    static const crt_ner_feature_t features[] = {CRT_NER_NORM, CRT_NER_PREFIX,
                                                 CRT_NER_SUFFIX, CRT_NER_SHAPE};

    o->table_count = subwords ? 4 : 1;
    for (int i = 0; i < o->table_count; i++)
        o->tables[i] = (crt_ner_table_t){features[i], i == 0 ? rows : rows / 2};
}

static crt_status_t find_feature(crt_configuration_t *c, const char *path,
                                 const char *name, crt_ner_feature_t *feature_out)
{
    for (int i = 0; i < CRT_NER_FEATURES; i++)
        if (strcmp(crt_ner_feature_name((crt_ner_feature_t)i), name) == 0) {
            *feature_out = (crt_ner_feature_t)i;
            return CRT_OK;
        }
    return crt_configuration_raise(c, path, CRT_ERR_UNSUPPORTED,
                                   "attrs: the attribute %s is not here", name);
}

/* Lists of attributes and of the rows of their tables. */
static crt_status_t read_tables(crt_configuration_t *c, const char *section,
                                crt_ner_options_t *o)
{
    static const char *const usual[] = {"NORM", "PREFIX", "SUFFIX", "SHAPE"};
    size_t attributes = 0, rows = 0;

    CRT_TRY(crt_configuration_require(c, key(section, "rows")));
    for (size_t i = 0; i < CRT_NER_TABLES_MAX; i++) {
        const char *name = i < 4 ? usual[i] : "";
        int64_t n = 0;

        CRT_TRY(
            crt_configuration_string_at(c, key(section, "attrs"), i, &name, &attributes));
        attributes = attributes ? attributes : 4;
        CRT_TRY(
            crt_configuration_int_at(c, key(section, "rows"), i, 1, 1 << 24, &n, &rows));
        if (i >= attributes)
            break;
        CRT_TRY(find_feature(c, key(section, "attrs"), name, &o->tables[i].feature));
        o->tables[i].rows = (int)n;
    }
    if (rows != attributes)
        return crt_configuration_raise(c, key(section, "rows"), CRT_ERR_INVALID,
                                       "%zu attributes with the rows of %zu tables",
                                       attributes, rows);
    if (attributes > CRT_NER_TABLES_MAX)
        return crt_configuration_raise(c, key(section, "attrs"), CRT_ERR_UNSUPPORTED,
                                       "%zu attributes, not 1..%d", attributes,
                                       CRT_NER_TABLES_MAX);
    o->table_count = (int)attributes;
    return CRT_OK;
}

static crt_status_t make_embedding_2(crt_configuration_t *c, const char *section,
                                     void *made)
{
    crt_ner_options_t *o = &((setup_t *)made)->model;

    CRT_TRY(read_int(c, section, "width", 1, 1 << 16, &o->width));
    CRT_TRY(refuse_vectors(c, section, "include_static_vectors"));
    return read_tables(c, section, o);
}

/* Before spaCy 3.0 the first version had a number of rows, and attributes that it chose; then it
 * became the second. */
static crt_status_t make_embedding(crt_configuration_t *c, const char *section,
                                   void *made)
{
    crt_ner_options_t *o = &((setup_t *)made)->model;
    int rows = 2000;
    bool subwords = true;

    if (crt_configuration_has(c, key(section, "attrs")) ||
        crt_configuration_has(c, key(section, "include_static_vectors")))
        return make_embedding_2(c, section, made);
    CRT_TRY(read_int(c, section, "width", 1, 1 << 16, &o->width));
    CRT_TRY(read_int(c, section, "rows", 2, 1 << 24, &rows));
    CRT_TRY(refuse_vectors(c, section, "also_use_static_vectors"));
    CRT_TRY(read_bool(c, section, "also_embed_subwords", &subwords));
    set_tables(o, rows, subwords);
    return CRT_OK;
}

static crt_status_t read_encoder(crt_configuration_t *c, const char *section,
                                 crt_ner_options_t *o)
{
    int width = o->width;

    CRT_TRY(read_int(c, section, "width", 1, 1 << 16, &width));
    if (width != o->width)
        return crt_configuration_raise(c, key(section, "width"), CRT_ERR_INVALID,
                                       "the encoder's width is %d, the embedding's %d",
                                       width, o->width);
    CRT_TRY(read_int(c, section, "depth", 0, 64, &o->depth));
    return read_int(c, section, "window_size", 1, 1000, &o->window);
}

static crt_status_t make_maxout_encoder(crt_configuration_t *c, const char *section,
                                        void *made)
{
    crt_ner_options_t *o = &((setup_t *)made)->model;

    CRT_TRY(read_encoder(c, section, o));
    return read_int(c, section, "maxout_pieces", 1, 64, &o->pieces);
}

static crt_status_t make_mish_encoder(crt_configuration_t *c, const char *section,
                                      void *made)
{
    crt_ner_options_t *o = &((setup_t *)made)->model;

    o->pieces = 0;
    return read_encoder(c, section, o);
}

static const crt_factory_t embeddings[] = {
    CRT_FACTORY(.registry = "architectures", .name = "spacy.MultiHashEmbed.v1",
                .make = make_embedding),
    CRT_FACTORY(.registry = "architectures", .name = "spacy.MultiHashEmbed.v2",
                .make = make_embedding_2),
    {0}};
static const crt_factory_t encoders[] = {
    CRT_FACTORY(.registry = "architectures", .name = "spacy.MaxoutWindowEncoder.v1",
                .make = make_maxout_encoder),
    CRT_FACTORY(.registry = "architectures", .name = "spacy.MaxoutWindowEncoder.v2",
                .make = make_maxout_encoder),
    CRT_FACTORY(.registry = "architectures", .name = "spacy.MishWindowEncoder.v1",
                .make = make_mish_encoder),
    CRT_FACTORY(.registry = "architectures", .name = "spacy.MishWindowEncoder.v2",
                .make = make_mish_encoder),
    {0}};

static crt_status_t make_tok2vec(crt_configuration_t *c, const char *section, void *made)
{
    CRT_TRY(make_below(c, section, "embed", "architectures", embeddings, made));
    return make_below(c, section, "encode", "architectures", encoders, made);
}

static crt_status_t make_cnn(crt_configuration_t *c, const char *section, void *made)
{
    crt_ner_options_t *o = &((setup_t *)made)->model;
    int rows = 2000;
    bool subwords = true;

    CRT_TRY(read_int(c, section, "width", 1, 1 << 16, &o->width));
    CRT_TRY(read_int(c, section, "depth", 0, 64, &o->depth));
    CRT_TRY(read_int(c, section, "embed_size", 2, 1 << 24, &rows));
    CRT_TRY(read_int(c, section, "window_size", 1, 1000, &o->window));
    CRT_TRY(read_int(c, section, "maxout_pieces", 1, 64, &o->pieces));
    CRT_TRY(refuse_vectors(c, section, "pretrained_vectors"));
    CRT_TRY(read_bool(c, section, "subword_features", &subwords));
    set_tables(o, rows, subwords);
    return CRT_OK;
}

static const crt_factory_t components[] = {
    CRT_FACTORY(.registry = "architectures", .name = "spacy.Tok2Vec.v1",
                .make = make_tok2vec),
    CRT_FACTORY(.registry = "architectures", .name = "spacy.Tok2Vec.v2",
                .make = make_tok2vec),
    CRT_FACTORY(.registry = "architectures", .name = "spacy.HashEmbedCNN.v1",
                .make = make_cnn),
    CRT_FACTORY(.registry = "architectures", .name = "spacy.HashEmbedCNN.v2",
                .make = make_cnn),
    {0}};

/* What makes vectors of words; where nothing is said, spaCy's default for the component. */
static crt_status_t make_vectors(crt_configuration_t *c, const char *section,
                                 const char *name, const crt_factory_t *factories,
                                 setup_t *s)
{
    char path[PATH_ROOM], architecture[PATH_ROOM + 16];
    const char *made_by = "";

    snprintf(path, sizeof(path), "%s.%s", section, name);
    if (!crt_configuration_has(c, path))
        return CRT_OK;
    snprintf(architecture, sizeof(architecture), "%s.@architectures", path);
    if (crt_configuration_is_set(c, architecture))
        CRT_TRY(crt_configuration_string(c, architecture, &made_by));
    if (strstr(made_by, "-transformers.") || strstr(made_by, "Transformer"))
        return crt_configuration_raise(c, architecture, CRT_ERR_UNSUPPORTED,
                                       "%s: there are no transformers here", made_by);
    return crt_configuration_make(c, path, "architectures", factories, s);
}

/* The component that a listener listens to: the one of that name, or any. */
static crt_status_t find_upstream(crt_configuration_t *c, const char *section, setup_t *s)
{
    const char *name = "*", *factory = "tok2vec";
    char path[PATH_ROOM];

    CRT_TRY(crt_configuration_string(c, key(section, "upstream"), &name));
    for (size_t i = 0, count = 1; strcmp(name, "*") == 0 && i < count; i++) {
        const char *other = "tok2vec";

        CRT_TRY(crt_configuration_string_at(c, "nlp.pipeline", i, &other, &count));
        snprintf(path, sizeof(path), "components.%s.factory", other);
        if (crt_configuration_is_set(c, path))
            CRT_TRY(crt_configuration_string(c, path, &factory));
        if (strcmp(other, "tok2vec") == 0 ||
            (crt_configuration_is_set(c, path) && strcmp(factory, "tok2vec") == 0))
            name = other;
    }
    snprintf(s->upstream, sizeof(s->upstream), "components.%s",
             strcmp(name, "*") == 0 ? "tok2vec" : name);
    factory = "tok2vec";
    CRT_TRY(crt_configuration_string(c, key(s->upstream, "factory"), &factory));
    if (strcmp(factory, "tok2vec") != 0)
        return crt_configuration_raise(c, key(s->upstream, "factory"),
                                       CRT_ERR_UNSUPPORTED,
                                       "ner listens to a %s, not to a tok2vec", factory);
    return CRT_OK;
}

static crt_status_t make_listener(crt_configuration_t *c, const char *section, void *made)
{
    setup_t *s = made;
    int width = 0;

    CRT_TRY(find_upstream(c, section, s));
    CRT_TRY(make_vectors(c, s->upstream, "model", components, s));
    width = s->model.width;
    CRT_TRY(read_int(c, section, "width", 1, 1 << 16, &width));
    if (width != s->model.width)
        return crt_configuration_raise(c, key(section, "width"), CRT_ERR_INVALID,
                                       "the listener's width is %d, the tok2vec's %d",
                                       width, s->model.width);
    return CRT_OK;
}

static const crt_factory_t tok2vecs[] = {
    CRT_FACTORY(.registry = "architectures", .name = "spacy.Tok2VecListener.v1",
                .make = make_listener),
    CRT_FACTORY(.registry = "architectures", .name = "spacy.Tok2Vec.v1",
                .make = make_tok2vec),
    CRT_FACTORY(.registry = "architectures", .name = "spacy.Tok2Vec.v2",
                .make = make_tok2vec),
    CRT_FACTORY(.registry = "architectures", .name = "spacy.HashEmbedCNN.v1",
                .make = make_cnn),
    CRT_FACTORY(.registry = "architectures", .name = "spacy.HashEmbedCNN.v2",
                .make = make_cnn),
    {0}};

static crt_status_t make_parser(crt_configuration_t *c, const char *section, void *made)
{
    crt_ner_options_t *o = &((setup_t *)made)->model;
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
    return make_vectors(c, section, "tok2vec", tok2vecs, made);
}

static crt_status_t make_parser_1(crt_configuration_t *c, const char *section, void *made)
{
    crt_ner_options_t *o = &((setup_t *)made)->model;

    CRT_TRY(read_int(c, section, "nr_feature_tokens", 3, 6, &o->features));
    if (o->features != 3 && o->features != 6)
        return crt_configuration_raise(c, key(section, "nr_feature_tokens"),
                                       CRT_ERR_INVALID, "%d words of a state, not 3 or 6",
                                       o->features);
    return make_parser(c, section, made);
}

static const crt_factory_t parsers[] = {
    CRT_FACTORY(.registry = "architectures", .name = "spacy.TransitionBasedParser.v1",
                .make = make_parser_1),
    CRT_FACTORY(.registry = "architectures", .name = "spacy.TransitionBasedParser.v2",
                .make = make_parser),
    {0}};

crt_status_t read_model(crt_configuration_t *c, setup_t *s)
{
    const char *factory = "ner";

    s->model = crt_ner_options();
    CRT_TRY(crt_configuration_float(c, "training.dropout", 0, 0.999, &s->model.dropout));
    CRT_TRY(crt_configuration_string(c, "components.ner.factory", &factory));
    if (strcmp(factory, "ner") != 0)
        return crt_configuration_raise(c, "components.ner.factory", CRT_ERR_UNSUPPORTED,
                                       "components.ner is a %s, not a ner", factory);
    CRT_TRY(read_int(c, "components.ner", "update_with_oracle_cut_size", 0, 1 << 20,
                     &s->model.oracle_cut));
    return make_vectors(c, "components.ner", "model", parsers, s);
}

void print_model_factories(FILE *out)
{
    print_factories(out, parsers);
    print_factories(out, tok2vecs);
    print_factories(out, embeddings);
    print_factories(out, encoders);
}
