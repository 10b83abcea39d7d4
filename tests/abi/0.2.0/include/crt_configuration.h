/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration of a training program: a text of sections as in Thinc and spaCy, with groups
 * of choices as in Hydra.
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
 *     [defaults]                            the section [model] begins with the content of
 *     model = "cnn"                         model/cnn.cfg, next to this file
 *
 * A program reads the configuration, overrides keys from the command line, and resolves it. Then
 * the program asks for the keys that it knows, with their defaults, and at last checks whether the
 * configuration has keys that the program did not ask for:
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
 * Errors name file and line. A long value continues in lines that begin with a space; lines that
 * begin with # or ; are comments. "$$" is a dollar sign. "${section}" stands for a whole section.
 *
 * Threads: one thread at a time uses a configuration.
 */
#ifndef CRT_CONFIGURATION_H
#define CRT_CONFIGURATION_H

#include "crt_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sections, keys and values. */
typedef struct crt_configuration crt_configuration_t;

/* Reads a configuration from a file of at most 1 MiB, in UTF-8. Lines may end as on any
 * system, and there may be a byte order mark. Caller owns the result and drops it with
 * crt_configuration_drop.
 *
 * Errors: CRT_ERR_NOT_FOUND, when there is no such file; CRT_ERR_INVALID, when a line cannot be
 * read (the text names the line); CRT_ERR_CORRUPT, when the text is UTF-16; CRT_ERR_TOO_LARGE,
 * when the text, the number of sections or the number of keys is too large; CRT_ERR_PERMISSION or
 * CRT_ERR_IO, when the file cannot be read; CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_configuration_read(const char *path,
                                            crt_configuration_t **configuration_out);

/* Reads a configuration from a text of `size` bytes (at most 1 MiB), in UTF-8. `name` stands
 * for the file in errors, and groups are looked for in the folder of `name`. Caller owns the
 * result and drops it with crt_configuration_drop.
 *
 * Errors: CRT_ERR_INVALID, when a line cannot be read or a key is there twice (the text names the
 * line); CRT_ERR_CORRUPT, when the text is UTF-16; CRT_ERR_TOO_LARGE, when the text, the number of
 * sections or the number of keys is too large; CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_configuration_parse(const char *name, const char *text,
                                             size_t size,
                                             crt_configuration_t **configuration_out);

/* Overrides a key with one argument of a command line, before crt_configuration_resolve:
 * "--section.key=value", "--section.flag" (true), or "group=choice", another choice for a
 * group of [defaults]. Later arguments have priority.
 *
 * Errors: CRT_ERR_INVALID, when the argument has none of these forms; CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_configuration_override(crt_configuration_t *configuration,
                                                const char *argument);

/* Reads and resolves a configuration from a command line. The first word after argv[0] names
 * the file, if it is not an option (otherwise the configuration is empty and has the name
 * argv[0]). All arguments that are overrides are applied. The other words stay in argv; *argc
 * is their number, with argv[0]. Caller owns the result and drops it with
 * crt_configuration_drop.
 *
 * Errors: those of crt_configuration_read, crt_configuration_override and
 * crt_configuration_resolve, such as CRT_ERR_NOT_FOUND, when there is no such file, and
 * CRT_ERR_INVALID, when a line or an override is wrong. */
CRT_API crt_status_t crt_configuration_arguments(int *argc, char **argv,
                                                 crt_configuration_t **configuration_out);

/* Applies groups and overrides, and replaces all references by their values. Call it once,
 * before any key is asked for.
 *
 * Errors: CRT_ERR_NOT_FOUND, when a group, a choice or the target of a reference does not
 * exist; CRT_ERR_INVALID, when references form a circle or a value is wrong;
 * CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_configuration_resolve(crt_configuration_t *configuration);

/* Reads the value of a key, "section.key", into *value. Before the call *value is the default.
 * If there is no such key, *value stays, and the default becomes part of the configuration; if
 * the value is null, *value stays too. Texts are borrowed: valid until the configuration is
 * freed.
 *
 * Errors: CRT_ERR_INVALID, when the value has another type or is outside low..high, or `path`
 * has no section or is a section (the text names file and line); CRT_ERR_NO_MEMORY. */
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

/* Reads item `index` of a list of texts into *value. *count_out (`count_out` may be NULL) is
 * the number of items: 0 when there is no such key. *value stays when index >= count. The text
 * is borrowed: valid until the configuration is freed.
 *
 * Errors: CRT_ERR_INVALID, when the value is not a list or the item is not a text;
 * CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_configuration_string_at(crt_configuration_t *configuration,
                                                 const char *path, size_t index,
                                                 const char **value, size_t *count_out);

/* Reads item `index` of a list of whole numbers into *value. *count_out (`count_out` may be
 * NULL) is the number of items: 0 when there is no such key. *value stays when index >= count.
 *
 * Errors: CRT_ERR_INVALID, when the value is not a list, or the item is not a whole number in
 * low..high; CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_configuration_int_at(crt_configuration_t *configuration,
                                              const char *path, size_t index, int64_t low,
                                              int64_t high, int64_t *value,
                                              size_t *count_out);

/* True when there is a key or a section of this name. */
CRT_API bool crt_configuration_has(const crt_configuration_t *configuration,
                                   const char *path);

/* True when there is a key of this name, or a key in a section of this name or below it, whose
 * value is not null, false, 0, "", [] or {}. */
CRT_API bool crt_configuration_is_set(const crt_configuration_t *configuration,
                                      const char *path);

/* The path of key number `index` (from 0) of those in a section and below it (`section` NULL:
 * of all keys), in the order in which they were read. NULL when there are fewer keys.
 * Borrowed: valid until the configuration is freed. */
CRT_API const char *crt_configuration_path_at(const crt_configuration_t *configuration,
                                              const char *section, size_t index);

/* Checks that a key has a value. Errors: CRT_ERR_NOT_FOUND, when there is no such key, or its
 * value is null or "" (the text names section and key). */
CRT_API crt_status_t crt_configuration_require(const crt_configuration_t *configuration,
                                               const char *path);

/* Marks all keys of a section, or the key of this name, as allowed but without effect: for
 * programs that read the configurations of other programs. crt_configuration_finish does not
 * report these keys. */
CRT_API void crt_configuration_skip(crt_configuration_t *configuration, const char *path);

/* Sets the error text as crt_raise does, with file and line of a key or section before the
 * text, and returns `status`. For values that a program cannot use for a reason of its own. */
CRT_API crt_status_t crt_configuration_raise(const crt_configuration_t *configuration,
                                             const char *path, crt_status_t status,
                                             const char *format, ...) CRT_PRINTF(4, 5);

/* Makes an object from a section that has a key `@registry = "name"`, or from a value
 * {"@registry": "name", ...}, which is a section in one line. The other keys of the section
 * are the arguments of the factory. Made with CRT_FACTORY, as an element of a constant array:
 *
 *     static const crt_factory_t factories[] = {
 *         CRT_FACTORY(.registry = "optimizers", .name = "Adam.v1", .make = make_adam), {0}};
 */
typedef struct crt_factory {
    /* Set by CRT_FACTORY. */
    size_t struct_size;
    /* Name of the registry, such as "optimizers". */
    const char *registry;
    /* Name of the factory, such as "Adam.v1". */
    const char *name;
    /* Makes the object of `section` in `made`, which crt_configuration_make was given. */
    crt_status_t (*make)(crt_configuration_t *configuration, const char *section,
                         void *made);
} crt_factory_t;
#ifdef __cplusplus
#    define CRT_FACTORY(...)                                                             \
        CRTI_MADE(, crt_factory_t, .struct_size = sizeof(crt_factory_t), __VA_ARGS__)
#else
#    define CRT_FACTORY(...)                                                             \
        {                                                                                \
            .struct_size = sizeof(crt_factory_t), __VA_ARGS__                            \
        }
#endif

/* Calls the factory that `section` names for `registry`, with `made`. `factories` ends with an
 * entry whose name is NULL; all entries have the same size.
 *
 * Errors: CRT_ERR_NOT_FOUND, when there is no such section or it has no key @registry, or
 * there is no factory of that name (the text has the nearest one); CRT_ERR_INVALID, when the
 * name of the section is too long, the name of the factory is not a text, or an entry was not made
 * with CRT_FACTORY; CRT_ERR_UNSUPPORTED, when an entry has a member set that only a newer version
 * has; and the status of the factory. */
CRT_API crt_status_t crt_configuration_make(crt_configuration_t *configuration,
                                            const char *section, const char *registry,
                                            const crt_factory_t *factories, void *made);

/* Checks that the program has asked for all keys, or skipped them. Errors: CRT_ERR_INVALID,
 * when there is a key that the program did not ask for (the text has file, line, and the
 * nearest name that was asked for). */
CRT_API crt_status_t crt_configuration_finish(const crt_configuration_t *configuration);

/* Gives the whole configuration as a text that can be read again: resolved, with the defaults
 * of the keys that were asked for. Caller owns *text_out and frees it with crt_free. Errors:
 * CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_configuration_text(const crt_configuration_t *configuration,
                                            char **text_out);

/* Writes the text of crt_configuration_text to a file, whole or not at all. Errors:
 * CRT_ERR_IO, CRT_ERR_NOT_FOUND or CRT_ERR_PERMISSION, when the file cannot be written;
 * CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_configuration_write(const crt_configuration_t *configuration,
                                             const char *path);

/* Frees a configuration and sets the pointer to NULL. NULL is allowed. */
CRT_API void crt_configuration_drop(crt_configuration_t **configuration);

#ifdef __cplusplus
}
#endif

#endif
