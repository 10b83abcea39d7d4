/* SPDX-License-Identifier: Apache-2.0 */
/* Providers of nodes: which command carries out an order. No process is started here.
 *
 * Where it sits
 *     scaler.c -> [ control/scaler_provider.c ]
 * Providers
 *     A row of the table: how an instance is asked for and ended, and which there are.
 *         local     nodes of this host: crt start, crt stop
 *         ssh       hosts of a pool, one node each: crt pool (cli/pool.c)
 *         slurm     jobs of one node: sbatch, squeue, scancel
 *         kubernetes  pods of Deployments: crt kubernetes (cli/kubernetes.c)
 *         commands  three commands of the user's, run by /bin/sh
 * Ownership
 *     A call has its words until crti_provider_call_release.
 */
#ifndef CRTI_CONTROL_SCALER_PROVIDER_H
#define CRTI_CONTROL_SCALER_PROVIDER_H

#include <jansson.h>

#include "runtime/control/autoscale/provider.h"

#define CRTI_PROVIDER_WORDS 64

typedef struct crti_provider crti_provider_t;

typedef struct crti_provider_call {
    /* The order. */
    crti_provider_verb_t verb;
    const char *instance, *type, *node, *machine, *cluster; /* borrowed; "" none */
    /* For whom: {"address", "key_file"}, and the object of scale_file.h. Borrowed. */
    const json_t *setup, *file;
    /* What is run, by PATH; no words: there is nothing to do, which is done. */
    char *argv[CRTI_PROVIDER_WORDS + 1];
    char *env[CRTI_PROVIDER_WORDS + 1]; /* what is added to the environment */
    size_t args, envs;
    bool tells_machines; /* words of its output are names, also of ASK and END */
} crti_provider_call_t;

/* NULL: there is none of that name. */
const crti_provider_t *crti_provider_find(const char *name);

void crti_provider_make_call(const crti_provider_t *provider, crti_provider_call_t *call);
void crti_provider_call_release(crti_provider_call_t *call);

#endif
