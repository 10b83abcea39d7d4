/* SPDX-License-Identifier: Apache-2.0 */
/* The environment of a task or an actor: variables and a folder of its own. Bytes that are shared
 * by whoever asks for it, and never change.
 *
 * Where it sits
 *     options (core/calls/environment.c) -> LEASE_REQUEST, ACTOR_CREATE -> [ base/environment.c ]
 *         -> worker_table.c (which worker), zygote.c (what it is executed with)
 * Form
 *     Texts that end with a zero byte: the folder ("": the job's), then "NAME=VALUE" by name.
 * Ownership
 *     Counted: who keeps one drops it. NULL is the environment of the job. Not thread-safe.
 */
#ifndef CRTI_BASE_ENVIRONMENT_H
#define CRTI_BASE_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/buffer.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/crt_base.h"

#define CRTI_ENVIRONMENT_MAX ((size_t)64 << 10) /* bytes of one */

typedef struct crti_environment crti_environment_t;

/* From bytes, which are checked; none are NULL. Caller owns the result. CRT_ERR_PROTOCOL: they are
 * not of that form. */
crt_status_t crti_environment_read(crti_span_t bytes,
                                   crti_environment_t **environment_out);
crti_environment_t *crti_environment_keep(crti_environment_t *environment);
void crti_environment_drop(crti_environment_t *environment);
CRTI_DEFINE_AUTO(crti_environment_t *, crti_environment_drop)

crti_span_t crti_environment_bytes(const crti_environment_t *environment);
bool crti_environment_equal(const crti_environment_t *a, const crti_environment_t *b);
/* "": that of the job. */
const char *crti_environment_directory(const crti_environment_t *environment);
/* The variable behind `before`, NULL: the first one. NULL: there is none. */
const char *crti_environment_next(const crti_environment_t *environment,
                                  const char *before);

#endif
