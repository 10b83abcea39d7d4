/* SPDX-License-Identifier: Apache-2.0 */
/* Truth: what really happened in a simulated cluster, written down by the programs that ran in it,
 * and compared with what their callers were told. See system_programs.c, system_check.c. */
#ifndef TESTS_SIM_SYSTEM_TRUTH_H
#define TESTS_SIM_SYSTEM_TRUTH_H

#include "runtime/crt.h"
#include "tests/sim/system.h"

#define TRUTH_CALLS  60000
#define TRUTH_ACTORS 600

typedef struct truth_call {
    unsigned runs, by; /* by: process */
    unsigned tries;    /* how often it may run, 0: no limit */
    bool has_backup;   /* it may run twice when nothing fails */
    bool is_over, has_failed, may_have_run;
    crt_status_t status;
} truth_call_t;

typedef struct truth_actor {
    crti_id_t id;
    unsigned maker; /* process */
    bool is_detached, was_killed, is_found_by_others;
    bool is_fenced, is_unordered;
    int64_t saved; /* what crt_actor_save has kept, as its caller was told; */
    /* and the most that it may have kept without being able to tell */
    int64_t may_be_kept;
    int64_t max_restarts, max_task_retries;
    uint64_t newest;       /* the latest incarnation that took a call */
    uint64_t incarnations; /* whose create ran, a bit each */
    char name[16];
} truth_actor_t;

typedef struct truth {
    truth_call_t call[TRUTH_CALLS];
    unsigned calls;
    truth_actor_t actor[TRUTH_ACTORS];
    unsigned actors, cpu_actors;
    uint32_t sent[TRUTH_ACTORS][SYS_PROCESSES]; /* calls of a process to an actor */
    uint32_t seen[TRUTH_ACTORS][SYS_PROCESSES]; /* the last that ran */
    bool is_mild;                               /* nothing may fail in this weather */
    bool is_ending;                             /* programs come to their end */
    unsigned gets, failures, successes, cancels;
    unsigned restarts, removals; /* of actors, of groups with tasks inside, by programs */
    unsigned drains;
} truth_t;

extern truth_t *truth;

/* A call is about to be made; it begins to run; its caller was told. `what` names it. */
unsigned truth_call_new(void);
/* ... of a function that may run again so often when its process died, -1: without limit. */
unsigned truth_call_retried(int64_t retries);
void truth_call_runs(unsigned serial);
void truth_call_ended(unsigned serial, const char *what, crt_status_t status,
                      const crt_error_t *error);
/* Something else failed that nothing had befallen. */
void truth_failed(const char *what, crt_status_t status, const char *text);

/* Whatever must hold when everybody has come to rest. */
void sys_check_rest(void);
/* ... and at any time. */
void sys_check_now(void);

#endif
