/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of the settings of spaCy that others don't read: what would change the training
 * is refused, by name; what can't change it is passed over. The command `settings` prints all. */
#include <string.h>
#include <unistd.h>

#include "setup.h"

typedef enum effect {
    OBEYED,  /* by setup.c and setup_model.c; here for the command */
    REFUSED, /* when it is set to anything */
    NONE     /* whatever it says */
} effect_t;

typedef struct rule {
    effect_t effect;
    const char *path; /* of a key, or a section with all in it */
    const char *why;
} rule_t;

static const rule_t rules[] = {
    {OBEYED, "nlp.pipeline", "with `ner`; beside it see `components`"},
    {OBEYED, "components.ner.factory", "`ner`"},
    {OBEYED, "components.ner.update_with_oracle_cut_size", ""},
    {OBEYED, "components.ner.scorer", "`spacy.ner_scorer.v1`"},
    {OBEYED, "components.ner.model", ""},
    {OBEYED, "components.tok2vec.factory",
     "of the component that `ner` listens to, whatever its name: `tok2vec`"},
    {OBEYED, "components.tok2vec.model", ""},
    {OBEYED, "corpora.train.path",
     "CoNLL, IOB or IOBES; `builtin:COUNT`; the same of all that `corpora.dev` says"},
    {OBEYED, "corpora.train.limit", ""},
    {OBEYED, "corpora.train.max_length", ""},
    {OBEYED, "corpora.train.gold_preproc",
     "words and sentences are the file's; `max_length` counts without it only"},
    {OBEYED, "corpora.train.augmenter", ""},
    {OBEYED, "training.train_corpus", ""},
    {OBEYED, "training.dev_corpus", ""},
    {OBEYED, "training.seed", ""},
    {OBEYED, "training.dropout", ""},
    {OBEYED, "training.accumulate_gradient",
     "the sum over the parts of a batch is that over the batch"},
    {OBEYED, "training.patience", ""},
    {OBEYED, "training.max_epochs", "not -1"},
    {OBEYED, "training.max_steps", ""},
    {OBEYED, "training.eval_frequency", ""},
    {OBEYED, "training.batcher", ""},
    {OBEYED, "training.optimizer", ""},
    {OBEYED, "training.score_weights.ents_f",
     "so `ents_p` and `ents_r`; other scores must weigh nothing"},
    {OBEYED, "training.frozen_components", "others than `ner` and its tok2vec"},
    {OBEYED, "training.annotating_components",
     "`ner` and its tok2vec, which mark nothing that they read themselves"},
    {REFUSED, "nlp.before_creation", "a callback in Python"},
    {REFUSED, "nlp.after_creation", "a callback in Python"},
    {REFUSED, "nlp.after_pipeline_creation", "a callback in Python"},
    {REFUSED, "components.ner.source", "a trained component of spaCy can't be read"},
    {REFUSED, "components.ner.moves", "labels are those of the training corpus"},
    {REFUSED, "components.ner.incorrect_spans_key",
     "corpora have no spans beside the entities"},
    {REFUSED, "training.before_update", "a callback in Python"},
    {REFUSED, "training.before_to_disk", "a callback in Python"},
    {REFUSED, "training.init_tok2vec", "weights of `spacy pretrain` can't be read"},
    {REFUSED, "training.raw_text", "there is no rehearsal"},
    {REFUSED, "initialize.init_tok2vec", "weights of `spacy pretrain` can't be read"},
    {REFUSED, "initialize.vocab_data",
     "words have no features but those of their letters"},
    {REFUSED, "initialize.lookups", "words have no features but those of their letters"},
    {REFUSED, "initialize.before_init", "a callback in Python"},
    {REFUSED, "initialize.after_init", "a callback in Python"},
    {REFUSED, "initialize.components.ner",
     "labels are those of the training corpus (a file of `spacy.read_labels.v1` that is "
     "not there has none)"},
    {NONE, "nlp.lang",
     "words are the file's; `hi`, `ht` and `ne` are refused with `NORM`"},
    {NONE, "nlp.tokenizer", "words are the file's"},
    {NONE, "nlp.batch_size", "of `nlp.pipe`"},
    {NONE, "nlp.disabled", "such components don't run"},
    {NONE, "nlp.vectors", "no layer reads them"},
    {NONE, "nlp.load_vocab_data", "of spaCy before 3.0"},
    {NONE, "initialize.vectors", "no layer reads them: one that wants to is refused"},
    {NONE, "initialize.tokenizer", "words are the file's"},
    {NONE, "initialize.components", "of others than `ner`"},
    {NONE, "training.vectors", "as `initialize.vectors`"},
    {NONE, "training.gpu_allocator", "memory of a GPU is taken from CUDA itself"},
    {NONE, "training.score_weights.ents_per_type", "always printed"},
    {NONE, "training.logger",
     "rows are printed, and written to log.csv; another logger is told of"},
    {NONE, "pretraining", "of `spacy pretrain`"},
};

#define RULES (sizeof(rules) / sizeof(rules[0]))

/* Others that may be in the pipeline when they are frozen: they leave words and entities as they
 * are. */
static const char *const harmless[] = {"attribute_ruler",
                                       "entity_linker",
                                       "lemmatizer",
                                       "morphologizer",
                                       "parser",
                                       "sentencizer",
                                       "senter",
                                       "spancat",
                                       "tagger",
                                       "textcat",
                                       "textcat_multilabel",
                                       "tok2vec",
                                       "trainable_lemmatizer"};

/* A reader of a file with labels that is not there and need not be: spaCy goes on without. */
static bool has_absent_labels(crt_configuration_t *c)
{
    static const char section[] = "initialize.components.ner.labels";
    const char *reader = "", *path = "";

    return crt_configuration_is_set(c, key(section, "@readers")) &&
           crt_configuration_is_set(c, key(section, "path")) &&
           !crt_configuration_is_set(c, key(section, "require")) &&
           crt_configuration_string(c, key(section, "@readers"), &reader) == CRT_OK &&
           crt_configuration_string(c, key(section, "path"), &path) == CRT_OK &&
           strcmp(reader, "spacy.read_labels.v1") == 0 && access(path, F_OK) != 0;
}

/* " (NAME)", when the section names a callback. */
static const char *name_callback(crt_configuration_t *c, const char *section,
                                 char text[PATH_ROOM])
{
    const char *name = "";

    text[0] = '\0';
    if (crt_configuration_is_set(c, key(section, "@callbacks")) &&
        crt_configuration_string(c, key(section, "@callbacks"), &name) == CRT_OK)
        snprintf(text, PATH_ROOM, " (%s)", name);
    return text;
}

/* These languages have norms of their own in spaCy: stems in two, a list of words in one. */
static crt_status_t refuse_language(crt_configuration_t *c, const setup_t *s)
{
    static const char *const others[] = {"hi", "ht", "ne"};
    const char *language = "";

    if (crt_configuration_is_set(c, "nlp.lang"))
        CRT_TRY(crt_configuration_string(c, "nlp.lang", &language));
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        for (int k = 0; k < s->model.table_count; k++)
            if (strcmp(language, others[i]) == 0 &&
                s->model.tables[k].feature == CRT_NER_NORM)
                return crt_configuration_raise(
                    c, "nlp.lang", CRT_ERR_UNSUPPORTED,
                    "nlp.lang: spaCy's own norms of words in %s are not here; attrs with "
                    "LOWER in place of NORM have none",
                    language);
    return CRT_OK;
}

crt_status_t refuse_settings(crt_configuration_t *c, const setup_t *s)
{
    bool absent = has_absent_labels(c);
    char callback[PATH_ROOM];

    for (size_t i = 0; i < RULES; i++) {
        const rule_t *rule = &rules[i];

        if (rule->effect == REFUSED && crt_configuration_is_set(c, rule->path) &&
            !(absent && strcmp(rule->path, "initialize.components.ner") == 0))
            return crt_configuration_raise(c, rule->path, CRT_ERR_UNSUPPORTED, "%s: %s%s",
                                           rule->path, rule->why,
                                           name_callback(c, rule->path, callback));
        if (rule->effect == REFUSED)
            crt_configuration_skip(c, rule->path);
    }
    return refuse_language(c, s);
}

/* ---------------------------------------------------------------- components */

static bool is_in_list(crt_configuration_t *c, const char *path, const char *wanted)
{
    for (size_t i = 0, count = 1; i < count; i++) {
        const char *name = "";

        if (crt_configuration_string_at(c, path, i, &name, &count) != CRT_OK)
            return false; /* a list is wanted: the next who asks says so */
        if (i < count && strcmp(name, wanted) == 0)
            return true;
    }
    return false;
}

static bool is_harmless(const char *factory)
{
    for (size_t i = 0; i < sizeof(harmless) / sizeof(harmless[0]); i++)
        if (strcmp(harmless[i], factory) == 0)
            return true;
    return false;
}

/* Another component than ner and its tok2vec: neither trained nor heard of. */
static crt_status_t check_component(crt_configuration_t *c, const char *name)
{
    const char *factory =
        name; /* of a component that comes from elsewhere: its name says it */
    char path[PATH_ROOM];
    bool trained;

    snprintf(path, sizeof(path), "components.%s.factory", name);
    if (crt_configuration_is_set(c, path))
        CRT_TRY(crt_configuration_string(c, path, &factory));
    trained = strcmp(factory, "tok2vec") != 0 && strcmp(factory, "sentencizer") != 0 &&
              strcmp(factory, "attribute_ruler") != 0 &&
              !is_in_list(c, "training.frozen_components", name);
    if (is_in_list(c, "nlp.disabled", name) || (is_harmless(factory) && !trained))
        return CRT_OK;
    return crt_configuration_raise(
        c, "nlp.pipeline", CRT_ERR_UNSUPPORTED,
        "nlp.pipeline: the component %s (%s) is not here%s", name, factory,
        is_harmless(factory) ? "; it may be one of training.frozen_components" : "");
}

/* The component that ner listens to may have another name: `upstream`. */
static bool is_trained(const char *name, const char *upstream)
{
    return strcmp(name, "ner") == 0 || (upstream[0] && strcmp(name, upstream) == 0);
}

static crt_status_t check_frozen(crt_configuration_t *c, const char *upstream)
{
    static const char path[] = "training.frozen_components";

    for (size_t i = 0, count = 1; i < count; i++) {
        const char *name = "";

        CRT_TRY(crt_configuration_string_at(c, path, i, &name, &count));
        if (is_trained(name, upstream))
            return crt_configuration_raise(c, path, CRT_ERR_UNSUPPORTED,
                                           "%s: %s is what is trained here", path, name);
    }
    return CRT_OK;
}

/* Another one, such as a sentencizer, marks what ner would read. */
static crt_status_t check_annotating(crt_configuration_t *c, const char *upstream)
{
    static const char path[] = "training.annotating_components";

    for (size_t i = 0, count = 1; i < count; i++) {
        const char *name = "ner";

        CRT_TRY(crt_configuration_string_at(c, path, i, &name, &count));
        if (!is_trained(name, upstream))
            return crt_configuration_raise(c, path, CRT_ERR_UNSUPPORTED,
                                           "%s: the component %s does not run here", path,
                                           name);
    }
    return CRT_OK;
}

static crt_status_t check_pipeline(crt_configuration_t *c, const setup_t *s)
{
    const char *upstream = s->upstream[0] ? strchr(s->upstream, '.') + 1 : "";
    bool has_ner = false;
    size_t count = 1;

    for (size_t i = 0; i < count; i++) {
        const char *name = "ner";

        CRT_TRY(crt_configuration_string_at(c, "nlp.pipeline", i, &name, &count));
        has_ner = has_ner || strcmp(name, "ner") == 0;
        if (i < count && strcmp(name, "ner") != 0 && strcmp(name, upstream) != 0)
            CRT_TRY(check_component(c, name));
    }
    if (!has_ner)
        return crt_configuration_raise(c, "nlp.pipeline", CRT_ERR_UNSUPPORTED,
                                       "nlp.pipeline has no ner");
    CRT_TRY(check_frozen(c, upstream));
    return check_annotating(c, upstream);
}

/* ---------------------------------------------------------------- the rest */

/* The best model is chosen by these; scores of other components may be named with no weight. */
static crt_status_t check_scores(crt_configuration_t *c)
{
    static const char section[] = "training.score_weights";
    const char *path;

    for (size_t i = 0; (path = crt_configuration_path_at(c, section, i)) != NULL; i++) {
        const char *name = path + sizeof(section);

        if (strcmp(name, "ents_f") == 0 || strcmp(name, "ents_p") == 0 ||
            strcmp(name, "ents_r") == 0 || strcmp(name, "ents_per_type") == 0)
            continue;
        if (crt_configuration_is_set(c, path))
            return crt_configuration_raise(c, path, CRT_ERR_UNSUPPORTED,
                                           "%s: there is no such score here", path);
        crt_configuration_skip(c, path);
    }
    return CRT_OK;
}

static bool is_in(const char *path, const char *section)
{
    size_t length = strlen(section);

    return length > 0 && strncmp(path, section, length) == 0 && path[length] == '.';
}

/* Sections that spaCy lets a configuration have for its own use, and components that ner has
 * nothing to do with. */
static bool is_foreign(const char *path, const setup_t *s)
{
    static const char *const known[] = {"nlp", "corpora", "training", "initialize",
                                        "distributed"};

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (is_in(path, known[i]))
            return is_in(path, "corpora") && !is_in(path, s->train.section) &&
                   !is_in(path, s->dev.section);
    return !is_in(path, "components.ner") && !is_in(path, s->upstream);
}

crt_status_t pass_over(crt_configuration_t *c, const setup_t *s)
{
    const char *path;

    CRT_TRY(check_pipeline(c, s));
    CRT_TRY(check_scores(c));
    for (size_t i = 0; i < RULES; i++)
        if (rules[i].effect == NONE)
            crt_configuration_skip(c, rules[i].path);
    for (size_t i = 0; (path = crt_configuration_path_at(c, NULL, i)) != NULL; i++)
        if (is_foreign(path, s))
            crt_configuration_skip(c, path);
    return CRT_OK;
}

/* ---------------------------------------------------------------- the command */

void print_factories(FILE *out, const crt_factory_t *factories)
{
    for (const crt_factory_t *f = factories; f->name; f++)
        fprintf(out, "| `%s` | `@%s`: known |\n", f->name, f->registry);
}

void print_settings(FILE *out)
{
    static const char *const effects[] = {"obeyed", "refused when set", "no effect"};

    fprintf(out, "| setting | |\n|---|---|\n");
    for (size_t i = 0; i < RULES; i++)
        fprintf(out, "| `%s` | %s%s%s |\n", rules[i].path, effects[rules[i].effect],
                rules[i].why[0] ? ": " : "", rules[i].why);
    fprintf(out, "| other components |");
    for (size_t i = 0; i < sizeof(harmless) / sizeof(harmless[0]); i++)
        fprintf(out, "%s `%s`",
                i ? "," : " no effect when frozen or disabled:", harmless[i]);
    fprintf(out, "; refused: any other |\n| attributes |");
    for (int i = 0; i < CRT_NER_FEATURES; i++)
        fprintf(out, "%s `%s`",
                i ? "," : " known:", crt_ner_feature_name((crt_ner_feature_t)i));
    fprintf(out, " |\n");
    print_model_factories(out);
    print_training_factories(out);
}
