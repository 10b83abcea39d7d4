/* SPDX-License-Identifier: Apache-2.0 */
/* Which cluster the text of a program's option means: "local:4", "lab:6380", "file:lab.yaml".
 *
 * Where it sits
 *     core/client/context_start.c -> [ core/client/context_text.c ]
 * Threads: any; no state.
 */
#ifndef CRTI_CORE_CONTEXT_TEXT_H
#define CRTI_CORE_CONTEXT_TEXT_H

#include "runtime/crt.h"

typedef enum crti_context_mode {
    CRTI_CONTEXT_FOUND, /* no text: the cluster that is there, else a private one */
    CRTI_CONTEXT_LOCAL,
    CRTI_CONTEXT_ADDRESS,
    CRTI_CONTEXT_FILE,
    CRTI_CONTEXT_KUBERNETES,
    CRTI_CONTEXT_SLURM
} crti_context_mode_t;

typedef struct crti_context_text {
    crti_context_mode_t mode;
    unsigned nodes;    /* of local: at least 1; of slurm: 0, as the allocation has */
    unsigned num_cpus; /* of each node of local; 0: not said */
    /* The address, the path, or the Service ("": the usual one); points into the text. */
    const char *where;
} crti_context_text_t;

/* `text` NULL: CRTI_CONTEXT_FOUND. CRT_ERR_INVALID: it means nothing; the detail has the modes. */
crt_status_t crti_context_text_read(const char *text, crti_context_text_t *read_out);

#endif
