/* SPDX-License-Identifier: Apache-2.0 */
/* What caller.c and its helper share. */
#ifndef CRTI_HTTP_CALLER_INT_H
#define CRTI_HTTP_CALLER_INT_H

#include <pthread.h>

#include "runtime/http/caller.h"
#include "runtime/http/lws_file.h"

#define CRTI_CALLER_BUCKETS 256

/*            first order                     joined
 *  OUTSIDE --------------> MOVING ---------------------> INSIDE
 *     ^                      |  ^                           |
 *     +----------------------+  +---------------------------+
 *           can't be joined         the node has gone: leaves, and joins again
 */
typedef enum crti_caller_state { OUTSIDE, MOVING, INSIDE } crti_caller_state_t;

/* An actor by its name. */
struct crti_caller_actor {
    crti_caller_t *caller;
    crti_caller_actor_t *next; /* in its bucket */
    char name_space[CRTI_CALLER_NAME], name[CRTI_CALLER_NAME];
    crt_actor_t *actor; /* NULL: not known */
    bool is_asked;      /* the head is asked */
    bool by_stranger;   /* in caller->asked_by_strangers */
    bool is_open;       /* strangers' calls have been answered */
    crti_list_t orders; /* crti_order_t.link: wait for the head's answer */
    crti_list_t found;  /* caller->found: under its mutex */
    /* The answer. */
    crt_status_t status;
    char text[512];
    crt_actor_t *answer;
    bool is_alive;
};

/* What the helper is to do. */
typedef struct crti_errand {
    bool leaves, joins, stops;
} crti_errand_t;

struct crti_caller {
    const char *head_dir;
    crti_caller_state_t state;
    crti_caller_actor_t *buckets[CRTI_CALLER_BUCKETS];
    unsigned actor_count, asked_by_strangers, open; /* open: orders that were called */
    crti_list_t orders; /* crti_order_t.link: wait until the cluster is joined */
    crti_lws_file_t file;
    int wake_fd;

    pthread_mutex_t mutex; /* of all that follows */
    pthread_cond_t has_errand;
    pthread_t helper;
    bool has_helper, has_moved;
    crti_errand_t errand;
    /* crti_order_t.link: for the helper; those of strangers last */
    crti_list_t helped[2];
    bool has_helped; /* memory may be free since */
    crti_list_t told, found;
    crt_status_t join_status;
    char join_text[512];
};

/* ---- caller_helper.c */

/* By any thread: there is something to look at. */
void crti_caller_wake(const crti_caller_t *c);
void crti_caller_tell(crti_order_t *order);
/* By the loop or the helper: makes its arguments, and calls. */
void crti_caller_begin_call(crti_order_t *order);
/* CRT_ERR_NO_MEMORY: there is no helper. */
crt_status_t crti_caller_send_helper(crti_caller_t *c, crti_errand_t errand);
/* The helper has it from now on. */
void crti_caller_give_to_helper(crti_order_t *order, bool is_writing);

#endif
