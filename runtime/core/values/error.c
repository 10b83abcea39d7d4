/* SPDX-License-Identifier: Apache-2.0 */
/* Errors of refs: why a call failed, kept with its result, and as it goes to others.
 *
 * Where it sits
 *     refs.c, incoming.c -> [ error.c ] -> what a program is told, records
 * Ownership
 *     An error is one block; texts lie behind the struct.
 * Threads
 *     None; pure functions.
 */
#include "runtime/core/values/error.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/net/message.h"

static void copy_text(char *to, crti_span_t text)
{
    if (text.size)
        memcpy(to, text.data, text.size);
}

crti_error_t *crti_error_new(const crti_failure_t *f)
{
    size_t size = f->text.size + f->class_name.size + f->method.size + 3;
    crti_error_t *error = calloc(1, sizeof(*error) + size);
    char *text;

    if (!error)
        return NULL;
    text = (char *)(error + 1);
    error->actor = f->actor;
    error->node = f->node;
    if (!crti_id_is_zero(f->actor))
        crti_id_hex(f->actor, error->actor_hex);
    if (!crti_id_is_zero(f->node))
        crti_id_hex(f->node, error->node_hex);
    error->user = (crt_error_t){.status = f->status,
                                .text = text,
                                .class_name = text + f->text.size + 1,
                                .method = text + f->text.size + f->class_name.size + 2,
                                .actor = error->actor_hex,
                                .node = error->node_hex,
                                .pid = f->pid,
                                .may_have_run = f->may_have_run};
    copy_text(text, f->text);
    copy_text(text + f->text.size + 1, f->class_name);
    copy_text(text + f->text.size + f->class_name.size + 2, f->method);
    return error;
}

crti_failure_t crti_error_failure(const crti_error_t *error)
{
    if (!error) /* there was no memory to keep it */
        return (crti_failure_t){.status = CRT_ERR_NO_MEMORY,
                                .text = crti_str("out of memory"),
                                .class_name = crti_str(""),
                                .method = crti_str("")};
    return (crti_failure_t){.status = error->user.status,
                            .may_have_run = error->user.may_have_run,
                            .text = crti_str(error->user.text),
                            .class_name = crti_str(error->user.class_name),
                            .method = crti_str(error->user.method),
                            .actor = error->actor,
                            .node = error->node,
                            .pid = error->user.pid};
}
