/* SPDX-License-Identifier: Apache-2.0 */
/* Limits: what the list of limit_list.h says in this process, and how it is set.
 *
 * Where it sits
 *     environment, and what the head or the node hands down -> [ limit_now.c ] -> all that obeys
 *     names, texts and ranges: [ limit.c ], which the command crt has, too
 * Order
 *     A daemon or program calls crti_limits_load when it starts: default, then environment. What
 *     CLUSTER limits are comes later: to a node when it registers, to a process when it attaches.
 * Threads
 *     Any may read. A read is a plain load of a word that hardly ever changes. One thread sets.
 * Failure
 *     A text that is no value of its limit is CRT_ERR_INVALID with the range; nothing is changed.
 */
#ifndef CRTI_BASE_LIMIT_H
#define CRTI_BASE_LIMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/crt_base.h"
#include "runtime/base/limit_list.h"

typedef enum crti_limit_unit {
    CRTI_LIMIT_TIME, /* nanoseconds */
    CRTI_LIMIT_BYTES,
    CRTI_LIMIT_COUNT,
    CRTI_LIMIT_PERCENT
} crti_limit_unit_t;

typedef enum crti_limit_scope {
    CRTI_LIMIT_CLUSTER,
    CRTI_LIMIT_HEAD,
    CRTI_LIMIT_NODE,
    CRTI_LIMIT_PROGRAM,
    CRTI_LIMIT_HTTP,
    CRTI_LIMIT_EACH
} crti_limit_scope_t;

typedef struct crti_limits {
#define CRTI_LIMIT_FIELD(name, ...) uint64_t name;
    CRTI_LIMITS(CRTI_LIMIT_FIELD)
#undef CRTI_LIMIT_FIELD
} crti_limits_t;

typedef struct crti_limit {
    const char *name;
    crti_limit_scope_t scope;
    crti_limit_unit_t unit;
    uint64_t standard, least, most; /* standard: the default */
    const char *meaning;
} crti_limit_t;

#define CRTI_LIMIT_TEXT     32 /* bytes of a value as text */
#define CRTI_LIMIT_VARIABLE 64 /* bytes of the name of a variable */

/* Of this process: for CRTI_LIMIT and limit_now.c only. */
extern crti_limits_t crti_limits_here __attribute__((visibility("hidden")));

/* The value of a limit, as text: good until the end of the block. */
#define CRTI_LIMIT_SAID(name) crti_limit_said(#name, (char[CRTI_LIMIT_TEXT]){0})

/* The value of a limit. */
#define CRTI_LIMIT(name) __atomic_load_n(&crti_limits_here.name, __ATOMIC_RELAXED)

/* ---- limit.c: pure, but for the environment ---- */

/* Limit `index`; NULL: there are no more. */
const crti_limit_t *crti_limit_at(size_t index);
/* NULL: there is none of that name. */
const crti_limit_t *crti_limit_find(const char *name);
/* The name of the limit that was meant by `name`; NULL: none is near. */
const char *crti_limit_nearest(const char *name);
/* Its member of `limits`. */
uint64_t *crti_limit_in(crti_limits_t *limits, const crti_limit_t *limit);
/* "node", "cluster": who obeys it. */
const char *crti_limit_scope_name(crti_limit_scope_t scope);

/* CRT_HEARTBEAT_INTERVAL. */
void crti_limit_variable(const crti_limit_t *limit, char variable[CRTI_LIMIT_VARIABLE]);
/* As it is read: "200ms", "64M", "1000". */
void crti_limit_write(crti_limit_unit_t unit, uint64_t value, char text[CRTI_LIMIT_TEXT]);
/* A time is a number of seconds, or with ns, us, ms, s, m, h, d behind it; a size is a number of
 * bytes, or with K, M, G, T. `name`: what the error calls the limit. */
crt_status_t crti_limit_read(const crti_limit_t *limit, const char *name,
                             const char *text, uint64_t *value_out);

void crti_limits_defaults(crti_limits_t *limits_out);
/* Defaults, and what the environment says. CRT_ERR_INVALID: a value, two that don't go together, or
 * a variable whose name is nearly that of a limit. */
crt_status_t crti_limits_environment(crti_limits_t *limits_out);
/* Whether those that depend on each other go together. */
crt_status_t crti_limits_check(const crti_limits_t *limits);

/* ---- limit_now.c ---- */

/* Sets this process's limits by the environment. On an error they have their defaults. */
crt_status_t crti_limits_load(void);
/* Sets all of them. */
void crti_limits_set(const crti_limits_t *limits);
/* Writes what limit `name` is in this process; returns `text`. */
const char *crti_limit_said(const char *name, char text[CRTI_LIMIT_TEXT]);
/* Those of the cluster, as crti_limits_take reads them. */
#define CRTI_LIMITS_PACKED 2048
void crti_limits_pack(char text[CRTI_LIMITS_PACKED]);
/* Sets those of the cluster, by what the head or the node has. What the environment of this process
 * says else is logged. CRT_ERR_PROTOCOL: it is no such text; nothing is changed. */
crt_status_t crti_limits_take(const char *text, size_t size);

#endif
