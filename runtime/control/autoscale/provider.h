/* SPDX-License-Identifier: Apache-2.0 */
/* What the head asks of a provider of nodes, and what comes back.
 *
 * Where it sits
 *     control_autoscale.c -> orders -> head_scaler.c == pipe ==> scaler.c (crt-scaler)
 *     control_autoscale.c <- answers <-'
 */
#ifndef CRTI_CONTROL_PROVIDER_H
#define CRTI_CONTROL_PROVIDER_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/id.h"

typedef enum crti_provider_verb {
    CRTI_PROVIDER_ASK,  /* start an instance */
    CRTI_PROVIDER_END,  /* end one; done as well when there is none */
    CRTI_PROVIDER_LIST, /* which there are */
    CRTI_PROVIDER_VERBS
} crti_provider_verb_t;

typedef struct crti_provider_order {
    crti_provider_verb_t verb;
    const char *instance, *type; /* not of LIST */
    crti_id_t node;              /* of END: the one that it became; zero: none */
    const char *machine; /* of END: the provider's own name of it; "": not known */
    const char *cluster; /* the part of names of instances that says whose they are */
} crti_provider_order_t;

typedef struct crti_provider_answer {
    crti_provider_verb_t verb;
    const char *instance; /* not of LIST */
    bool is_done;
    const char *text; /* why it is not */
    /* Of LIST: instances; "INSTANCE=MACHINE" where the provider has names of its own, then also
     * of ASK and END. */
    const char *const *names;
    size_t count;
} crti_provider_answer_t;

/* "ask", "end", "list". */
static inline const char *crti_provider_verb_name(crti_provider_verb_t verb)
{
    static const char *const names[CRTI_PROVIDER_VERBS] = {"ask", "end", "list"};

    return names[verb];
}

#endif
