/* SPDX-License-Identifier: Apache-2.0 */
/* Job table: drivers that attached, and programs that were submitted. Pure.
 *
 * Where it sits
 *     JOB_ADD, JOB_SUBMIT, JOB_EXITED, ... -> control/control_job.c -> [ tables/job_table.c ]
 * Rules
 *     A submitted job has its job id from the start; the driver that it runs attaches with that
 *     id and becomes the same entry. A submission ends when its process has ended, a driver
 *     when it is gone. The program of an ended job is kept while a detached actor of it
 *     may have to be started again (`actors` counts them).
 * Ownership
 *     The table owns its entries. Ended ones stay: at most ENDED_MAX, for ENDED_KEEP_NS.
 */
#ifndef CRTI_CONTROL_JOB_TABLE_H
#define CRTI_CONTROL_JOB_TABLE_H

#include "runtime/base/buffer.h"
#include "runtime/base/clock.h"
#include "runtime/base/list.h"
#include "runtime/base/map.h"
#include "runtime/base/resources.h"
#include "runtime/net/message.h"

#define CRTI_JOB_MESSAGE                                                                 \
    ((size_t)21000) /* bytes that what is shown of a job's state takes */

/*             runs                 exit status 0
 *  PENDING ----------> RUNNING ------------------> SUCCEEDED
 *     |  |               |  |       else
 *     |  |               |  +----------------------> FAILED
 *     |  |               +--- asked to stop -------> STOPPED
 *     |  +--- could not be started ----------------> FAILED
 *     +--- asked to stop --------------------------> STOPPED
 */
typedef enum crti_job_entry_state {
    CRTI_JOB_PENDING,
    CRTI_JOB_RUNNING,
    CRTI_JOB_STOPPED,
    CRTI_JOB_SUCCEEDED,
    CRTI_JOB_FAILED,
    CRTI_JOB_STATES
} crti_job_entry_state_t;

typedef struct crti_job_entry {
    crti_id_t id;
    /* What is asked for, as its row in the store, in a block of its own. `number`: 1, 2, 3, ... in
     * this cluster; `submission`: "" for a driver that attached; `resources`, of a submission: what
     * its process holds; `attempt` 0: the first; `retries`: attempts that are left; `submitted`:
     * JOB_SUBMIT of the next attempt, empty: there is none; `priority`: the highest begins first;
     * also the weight of its tasks. */
    crti_msg_row_job_t *made;

    crti_job_entry_state_t state;
    crti_id_t driver; /* process; zero: none attached */
    crti_id_t node;   /* of the driver, or of the submission's process */
    /* of a submission: which was asked to begin it; 0: not known */
    uint64_t node_incarnation;
    int64_t pid;
    bool stopping; /* a stop was requested */
    bool has_exit;
    int64_t exit_code;
    char *error_type, *text;
    int64_t start_ms, end_ms;

    size_t actors;   /* living detached actors that keep the program */
    bool unsaved;    /* its row is on the way to the store */
    bool start_sent; /* PENDING submission: JOB_START is on its way */
    bool is_set_up;  /* and was sent: a node makes what it needs, and writes its log */
    /* values of its groups may be in the store; stored when it has ended */
    bool has_groups;
    uint64_t expires_ns;  /* ended */
    crti_list_t in_state; /* running or ended list */
} crti_job_entry_t;

#define CRTI_JOB_OF(item) CRTI_CONTAINER(item, crti_job_entry_t, in_state)

typedef void crti_job_changed_t(void *user, crti_job_entry_t *job);

typedef struct crti_job_table {
    crti_map_t by_id, by_submission;
    crti_list_t running; /* PENDING, RUNNING; oldest first */
    crti_list_t ended;   /* oldest first */
    size_t counts[CRTI_JOB_STATES];
    uint64_t last_number;
    crti_job_changed_t *on_change;
    void *user;
} crti_job_table_t;

void crti_job_table_init(crti_job_table_t *table, crti_job_changed_t *on_change,
                         void *user);
void crti_job_table_fini(crti_job_table_t *table);

crti_job_entry_t *crti_job_table_get(const crti_job_table_t *table, crti_id_t id);
crti_job_entry_t *crti_job_table_find(const crti_job_table_t *table,
                                      crti_span_t submission);
const char *crti_job_state_name(crti_job_entry_state_t state);
bool crti_job_entry_is_ended(const crti_job_entry_t *job);
bool crti_job_entry_is_submission(const crti_job_entry_t *job);
/* Its process needs something of a node; else it runs on one of the head's host and holds
 * nothing. */
bool crti_job_entry_asks_for_node(const crti_job_entry_t *job);

/* A driver attached: its entry, new (unsaved, RUNNING) or that of its submission. `*is_new_out`
 * is false when it was known. CRT_ERR_CLOSED: that job has ended. */
crt_status_t crti_job_table_add(crti_job_table_t *table,
                                const crti_msg_job_add_t *message, int64_t wall_ms,
                                crti_job_entry_t **job_out, bool *is_new_out);

/* Somebody submitted a program: a new entry, unsaved and PENDING, with the job id `id`.
 * CRT_ERR_EXISTS: the submission id is in use. */
crt_status_t crti_job_table_submit(crti_job_table_t *table,
                                   const crti_msg_job_submit_t *message, crti_id_t id,
                                   int64_t wall_ms, crti_job_entry_t **job_out);

/* The next attempt of a submission that has failed: a new entry under its submission id, unsaved
 * and PENDING, with the job id `id`. The failed one is called SUBMISSION.attempt-N from now on. */
crt_status_t crti_job_table_retry(crti_job_table_t *table, crti_job_entry_t *failed,
                                  crti_id_t id, int64_t wall_ms,
                                  crti_job_entry_t **job_out);

/* Takes back what could not be stored. */
void crti_job_table_undo(crti_job_table_t *table, crti_job_entry_t *job);

/* Rows of the store: first what stays, then what changes. */
crt_status_t crti_job_table_load(crti_job_table_t *table, const crti_msg_row_job_t *row,
                                 crti_job_entry_t **job_out);
crt_status_t crti_job_table_load_state(crti_job_table_t *table, crti_job_entry_t *job,
                                       const crti_msg_row_job_state_t *row,
                                       uint64_t now_ns);

/* PENDING -> RUNNING on a node. */
void crti_job_entry_runs(crti_job_table_t *table, crti_job_entry_t *job, crti_id_t node);

/* Why a PENDING job waits (kept for the shown message). */
void crti_job_entry_waits(crti_job_table_t *table, crti_job_entry_t *job,
                          const char *text);

/* Asked to stop: PENDING ends at once; RUNNING is only marked. */
void crti_job_entry_stop(crti_job_table_t *table, crti_job_entry_t *job, uint64_t now_ns,
                         int64_t wall_ms);

/* The process ended; STOPPED when a stop was requested. `wait_status` as of waitpid; `text`: last
 * lines of output. */
void crti_job_entry_exited(crti_job_table_t *table, crti_job_entry_t *job,
                           int64_t wait_status, const char *text, uint64_t now_ns,
                           int64_t wall_ms);

/* A driver that attached is gone; `text` "": on purpose. `wait_status` NULL: not known, else it
 * decides: SUCCEEDED when it is 0. */
void crti_job_entry_driver_left(crti_job_table_t *table, crti_job_entry_t *job,
                                const char *text, const int64_t *wait_status,
                                uint64_t now_ns, int64_t wall_ms);

/* It ended without an exit status: its node died, it could not be started. */
void crti_job_entry_end(crti_job_table_t *table, crti_job_entry_t *job,
                        crti_job_entry_state_t state, const char *error_type,
                        const char *text, uint64_t now_ns, int64_t wall_ms);

/* Drops the program of an ended job that no actor needs. */
void crti_job_entry_release(crti_job_entry_t *job);

crti_job_entry_t *crti_job_table_expired(const crti_job_table_t *table, uint64_t now_ns);
void crti_job_table_forget(crti_job_table_t *table, crti_job_entry_t *job);
uint64_t crti_job_table_deadline(const crti_job_table_t *table);

/* What people are shown: Ray's sentence for the state, or the text. Returns `text`. */
const char *crti_job_entry_message(const crti_job_entry_t *job, char *text, size_t size);

/* They borrow from the entry. */
crti_msg_row_job_state_t crti_job_entry_state_row(const crti_job_entry_t *job);
crti_msg_job_info_t crti_job_entry_info(const crti_job_entry_t *job);

#endif
