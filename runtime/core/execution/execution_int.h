/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of execution/, which its own files see. */
#ifndef CRTI_CORE_EXECUTION_EXECUTION_INT_H
#define CRTI_CORE_EXECUTION_EXECUTION_INT_H

#include "runtime/core/execution/execution.h"
#include "runtime/core/execution/executor.h"
#include "runtime/core/execution/queue_figures.h"
#include "runtime/core/execution/result_wait.h"
#include "runtime/core/process/context.h"
#include "runtime/core/values/pool.h"

struct crti_execution {
    crti_class_t const *class_; /* of the actor that lives here */
    void *self;
    bool is_unordered; /* its calls begin when their arguments are here, in any order */
    bool is_created, is_ending;
    bool is_retiring;     /* it ends when every call that it has was answered */
    bool is_exiting;      /* it ends itself: no more calls begin */
    bool is_spent;        /* no more tasks begin: max_calls */
    unsigned *runs;       /* of each task of the program; NULL: none has max_calls */
    bool awaits_debugger; /* what CRT_DEBUG_WORKER names was not called yet */
    crti_executors_t executors;
    crti_list_t questions; /* crt_call_t.link, of crt_actor_ready */
    crti_queue_figures_t queue_figures;
    crti_pool_t pool;             /* of crt_call_t */
    const crti_function_t *shown; /* whose name is on the blackboard */
    uint64_t next_serial;
    crti_result_waits_t result_waits;
};

#endif
