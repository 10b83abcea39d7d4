/* SPDX-License-Identifier: Apache-2.0 */
/* Ledger: what was asked for, what ran and what came of it, written down so that it outlives kill
 * -9.
 *
 * Where it sits
 *     load.c, names.c (ASK, END), account.c (RUN) -> [ ledger ] -> files -> ledgers.py
 * Records of 64 bytes, native byte order, appended by one write each: what a killed process has
 * written is in the page cache. A file per process, in $CHAOS_LEDGER, else $HOME/ledger; its
 * name is ROLE-PID-RANDOM.
 * Threads: any.
 */
#ifndef CHAOS_LEDGER_H
#define CHAOS_LEDGER_H

#include <stdint.h>

enum {
    LEDGER_ASK = 1, /* before the call: value is the argument */
    LEDGER_END = 2, /* its outcome: result, or status and whether it may have run */
    /* the function began: value is the argument, result what it will return */
    LEDGER_RUN = 3
};

typedef struct ledger_record {
    uint64_t kind;
    uint64_t origin, number; /* of the call: a process, and its count of calls */
    uint64_t target;         /* first 64 bits of the actor's id, 0: a task */
    int64_t value, result;
    int32_t status, may_have_run;
    uint64_t at_ns; /* CLOCK_MONOTONIC */
} ledger_record_t;

_Static_assert(sizeof(ledger_record_t) == 64, "what ledgers.py reads");

/* This process's part of a call's name; drawn at random when it is first asked for. */
uint64_t ledger_origin(void);
uint64_t ledger_next(void);

/* Appends; exits the process with a line to stderr when that fails. */
void ledger_write(ledger_record_t record);

/* Goes into the names of the files, "worker" when it was not set. */
void ledger_set_role(const char *role);

uint64_t ledger_now_ns(void);

#endif
