/* SPDX-License-Identifier: Apache-2.0 */
/* Client: how a process joins a cluster. See client.c. */
#ifndef CRTI_CORE_CLIENT_H
#define CRTI_CORE_CLIENT_H

#include "runtime/core/zygote.h"
#include "runtime/crt.h"

/* A worker's life, from its attachment to its end. */
void crti_worker_main(const crt_options_t *options, const crti_worker_birth_t *birth)
    __attribute__((noreturn));

#endif
