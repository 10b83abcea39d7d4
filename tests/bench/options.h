/* SPDX-License-Identifier: Apache-2.0 */
/* Options of benchmarks: --name VALUE or --name=VALUE, each in a variable of its kind.
 *
 *     static int rounds = 5;
 *     static const char *only;
 *     TAKE_OPTIONS(argc, argv, OPTION("rounds", rounds, 1, 1000), OPTION("only", only, 0, 0));
 */
#ifndef CRTI_TESTS_BENCH_OPTIONS_H
#define CRTI_TESTS_BENCH_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct bench_option {
    const char *name;
    enum { BENCH_FLAG, BENCH_TEXT, BENCH_INT, BENCH_LONG, BENCH_SIZE, BENCH_NUMBER } kind;
    void *to;
    double least, most; /* of numbers */
} bench_option_t;

#define OPTION(name, variable, least, most)                                                \
    {                                                                                      \
        name,                                                                            \
            _Generic(&(variable), bool *                                                 \
                     : BENCH_FLAG, const char **                                         \
                     : BENCH_TEXT, int *                                                 \
                     : BENCH_INT, long *                                                 \
                     : BENCH_LONG, unsigned long *                                       \
                     : BENCH_SIZE, double *                                              \
                     : BENCH_NUMBER),                                                    \
            &(variable), least, most \
    }

#define TAKE_OPTIONS(argc, argv, ...)                                                    \
    take_options(argc, argv, (const bench_option_t[]){__VA_ARGS__, {.name = NULL}})

static inline void take_number(const char *program, const bench_option_t *option,
                               const char *text)
{
    char *end;
    double value = strtod(text, &end);

    if (end == text || *end || !(value >= option->least && value <= option->most)) {
        fprintf(stderr, "%s: --%s takes a number from %g to %g, not %s\n", program,
                option->name, option->least, option->most, text);
        exit(2);
    }
    switch (option->kind) {
    case BENCH_INT: *(int *)option->to = (int)value; break;
    case BENCH_LONG: *(long *)option->to = (long)value; break;
    case BENCH_SIZE: *(unsigned long *)option->to = (unsigned long)value; break;
    default: *(double *)option->to = value;
    }
}

/* Exits with 2 and a sentence when they are not what the list allows. */
static inline void take_options(int argc, char **argv, const bench_option_t *options)
{
    for (int i = 1; i < argc; i++) {
        const char *name = strncmp(argv[i], "--", 2) == 0 ? argv[i] + 2 : "";
        size_t length = strcspn(name, "=");
        const bench_option_t *o = options;
        const char *value = NULL;

        while (o->name && (strlen(o->name) != length || memcmp(o->name, name, length)))
            o++;
        if (o->name && o->kind != BENCH_FLAG)
            value = name[length] ? name + length + 1 : i + 1 < argc ? argv[++i] : NULL;
        if (!o->name || (o->kind != BENCH_FLAG && !value)) {
            fprintf(stderr, "%s: %s %s\n", argv[0], argv[i],
                    o->name ? "needs a value" : "is no option, there are:");
            for (o = o->name ? o : options; o->name; o++)
                fprintf(stderr, "    --%s\n", o->name);
            exit(2);
        }
        if (o->kind == BENCH_FLAG)
            *(bool *)o->to = true;
        else if (o->kind == BENCH_TEXT)
            *(const char **)o->to = value;
        else
            take_number(argv[0], o, value);
    }
}

#endif
