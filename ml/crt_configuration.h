/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration of a training program: a text of sections in the manner of Thinc and spaCy, with
 * groups of choices in the manner of Hydra.
 *
 *     [paths]
 *     root = "corpus"
 *
 *     [training]
 *     max_steps = 1000                      values are JSON; other text is a string
 *     train = "${paths.root}/train.iob"     the value of another key, in a text
 *     seed = ${system.seed}                 or as it is
 *
 *     [training.optimizer]                  a section in a section
 *     @optimizers = "Adam.v1"               made by the factory of that name
 *     learn_rate = 0.001
 *
 *     [defaults]                            the section [model] begins with what model/cnn.cfg says,
 *     model = "cnn"                         beside this file
 *
 * It is read, then overridden by the command line, then resolved; then the program asks for what it
 * knows, with its defaults, and at last whether anything was left that nobody has asked for:
 *
 *     crt_configuration_t *c;
 *     int64_t steps = 1000;
 *
 *     CRT_TRY(crt_configuration_read("train.cfg", &c));
 *     CRT_TRY(crt_configuration_override(c, "--training.max_steps=50"));
 *     CRT_TRY(crt_configuration_resolve(c));
 *     CRT_TRY(crt_configuration_int(c, "training.max_steps", 1, 1000000, &steps));
 *     CRT_TRY(crt_configuration_finish(c));
 *     CRT_TRY(crt_configuration_write(c, "output/config.cfg"));
 *
 * Errors name file and line. A long value goes on in lines that begin with a space; lines that begin
 * with # or ; are comments. "$$" is a dollar sign. The same text as a whole block is "${section}".
 *
 * Threads: a configuration is used by one thread at a time.
 */
#ifndef CRT_CONFIGURATION_H
#define CRT_CONFIGURATION_H

#include "crt_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sections, keys and values. */
typedef struct crt_configuration crt_configuration_t;

/* Reads a file of at most 1 MiB. CRT_ERR_NOT_FOUND: there is none; CRT_ERR_INVALID names the
 * line that can't be read; CRT_ERR_CORRUPT: UTF-16. Lines end as they do on any system, and
 * there may be a byte order mark. Caller owns the result and frees it with
 * crt_configuration_free. */
CRT_API crt_status_t crt_configuration_read(const char *path,
                                            crt_configuration_t **configuration_out);

/* The same of a text of `size` bytes; `name` stands for the file in errors, and its folder is where
 * groups are looked for. Caller owns the result and frees it with crt_configuration_free. */
CRT_API crt_status_t crt_configuration_parse(const char *name, const char *text,
                                             size_t size,
                                             crt_configuration_t **configuration_out);

/* What a command line says, before crt_configuration_resolve: "--section.key=value", "--section.flag" (true), or
 * "group=choice", another choice for a group of [defaults]. Later ones win. CRT_ERR_INVALID when it is none of
 * these. */
CRT_API crt_status_t crt_configuration_override(crt_configuration_t *configuration,
                                                const char *argument);

/* Takes from a command line what is about the configuration, and gives it resolved: the file that the word after
 * argv[0] names, when that is no option (else the configuration is empty and goes by the name argv[0]), and all
 * overrides. What is left stays in argv, `*argc` words with argv[0]. Errors are those of crt_configuration_read,
 * _override and _resolve. Caller owns the result and frees it with crt_configuration_free. */
CRT_API crt_status_t crt_configuration_arguments(int *argc, char **argv,
                                                 crt_configuration_t **configuration_out);

/* Puts groups and overrides in place and replaces all references by what they refer to. To be called
 * once, before any key is asked for. CRT_ERR_NOT_FOUND: a choice or what a reference names is not
 * there; CRT_ERR_INVALID: references form a circle. */
CRT_API crt_status_t crt_configuration_resolve(crt_configuration_t *configuration);

/* The value of a key, "section.key". `*value` is its default and stays when there is no such key, or when it
 * is null; then it becomes part of the configuration. CRT_ERR_INVALID names file and line of
 * a value of another type or outside low..high. Texts are borrowed: valid until the configuration is freed. */
CRT_API crt_status_t crt_configuration_int(crt_configuration_t *configuration,
                                           const char *path, int64_t low, int64_t high,
                                           int64_t *value);
CRT_API crt_status_t crt_configuration_float(crt_configuration_t *configuration,
                                             const char *path, double low, double high,
                                             double *value);
CRT_API crt_status_t crt_configuration_bool(crt_configuration_t *configuration,
                                            const char *path, bool *value);
CRT_API crt_status_t crt_configuration_string(crt_configuration_t *configuration,
                                              const char *path, const char **value);

/* Number `index` of a list of texts into `*value`; `*count_out` (may be NULL) is how many there are: 0 when
 * there is no such key. `*value` stays when index >= count. */
CRT_API crt_status_t crt_configuration_string_at(crt_configuration_t *configuration,
                                                 const char *path, size_t index,
                                                 const char **value, size_t *count_out);

/* The same of a list of whole numbers, each in low..high. */
CRT_API crt_status_t crt_configuration_int_at(crt_configuration_t *configuration,
                                              const char *path, size_t index, int64_t low,
                                              int64_t high, int64_t *value,
                                              size_t *count_out);

/* True when there is a key or a section of this name. */
CRT_API bool crt_configuration_has(const crt_configuration_t *configuration,
                                   const char *path);

/* True when there is a key of this name whose value is not null, false, 0, "", [] or {}; or a
 * section with such a key, in it or below it. */
CRT_API bool crt_configuration_is_set(const crt_configuration_t *configuration,
                                      const char *path);

/* The path of key number `index` of those in a section and below it (NULL: of all), in the order
 * in which they were read; NULL when there are not so many. Borrowed: valid until the
 * configuration is freed. */
CRT_API const char *crt_configuration_path_at(const crt_configuration_t *configuration,
                                              const char *section, size_t index);

/* CRT_ERR_NOT_FOUND, naming section and key, when there is no such key, or it is null or "". */
CRT_API crt_status_t crt_configuration_require(const crt_configuration_t *configuration,
                                               const char *path);

/* Whatever is in this section, or the key of this name, is fine and has no effect: of programs that
 * read the configurations of other programs. */
CRT_API void crt_configuration_skip(crt_configuration_t *configuration, const char *path);

/* crt_raise with file and line of a key or section before the text; gives `status`. For values that a
 * program can't use for a reason of its own. */
CRT_API crt_status_t crt_configuration_raise(const crt_configuration_t *configuration,
                                             const char *path, crt_status_t status,
                                             const char *format, ...) CRT_PRINTF(4, 5);

/* Makes something of a section (or of a value {"@registry": "name", ...}, which is a section in one line) that says `@registry = "name"`; the keys of the section are its arguments. */
typedef struct crt_factory {
    const char *registry; /* "optimizers" */
    const char *name;     /* "Adam.v1" */
    crt_status_t (*make)(crt_configuration_t *configuration, const char *section,
                         void *made);
} crt_factory_t;

/* Has the factory that `section` names make `*made`; `factories` end with one whose name is NULL. CRT_ERR_NOT_FOUND
 * when there is no such section, or no factory of that name: then the nearest one is named. */
CRT_API crt_status_t crt_configuration_make(crt_configuration_t *configuration,
                                            const char *section, const char *registry,
                                            const crt_factory_t *factories, void *made);

/* CRT_ERR_INVALID when there is a key that nobody has asked for: with file, line, and the nearest name that
 * was asked for. */
CRT_API crt_status_t crt_configuration_finish(const crt_configuration_t *configuration);

/* All of it as a text that can be read again: resolved, with the defaults that were asked for.
 * Caller frees the text with free. */
CRT_API crt_status_t crt_configuration_text(const crt_configuration_t *configuration,
                                            char **text_out);

/* Writes that text to a file, whole or not at all. */
CRT_API crt_status_t crt_configuration_write(const crt_configuration_t *configuration,
                                             const char *path);

/* Frees a configuration; NULL is fine. */
CRT_API void crt_configuration_free(crt_configuration_t *configuration);

#ifdef __cplusplus
}
#endif

#endif
