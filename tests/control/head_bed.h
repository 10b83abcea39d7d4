/* SPDX-License-Identifier: Apache-2.0 */
/* Head bed: a real crt-head with its redis-server in private directories, and nodes that are the
 * test itself. */
#ifndef TESTS_CONTROL_HEAD_BED_H
#define TESTS_CONTROL_HEAD_BED_H

#include <sys/types.h>

#include "runtime/base/clock.h"
#include "runtime/net/channel.h"
#include "runtime/net/loop.h"
#include "runtime/net/stream.h"

#define HEAD_PATIENCE (20 * CRTI_S)
#define NODE_MESSAGES 65536

typedef struct head_bed {
    char folder[32];
    char line[2048]; /* what it said on its ready pipe */
    char address[96], key_file[256], head_dir[256];
    pid_t pid; /* 0: does not run */
    int lifeline;
    /* of the state directory, in a mount namespace; 0: an ordinary one */
    size_t tmpfs_bytes;
    unsigned tmpfs_files; /* that may be there, 0: any number */
    const char *path;     /* its PATH; NULL: that of the test */
    crti_loop_t *loop;
    crti_stream_context_t *context;
} head_bed_t;

/* The program, from the command line of the test. */
extern const char *head_program;

head_bed_t *head_bed_new(void);
void head_bed_free(head_bed_t *bed);
/* A bed as the state of a test. */
int head_set_up(void **state);
int head_tear_down(void **state);

/* Starts it; `extra` (ended by NULL, may be NULL) are further arguments. True when it serves;
 * bed->line says why not. */
bool head_start(head_bed_t *bed, const char *port, const char *const *extra);
/* The key for nodes; called by head_start. */
void head_take_key(head_bed_t *bed);
void head_kill(head_bed_t *bed);             /* SIGKILL, reaped */
int head_stop(head_bed_t *bed);              /* SIGTERM; its exit status */
pid_t head_redis_pid(const head_bed_t *bed); /* from head.info */
const char *head_port(const head_bed_t *bed);

/* A node. Messages are kept until they are looked at. */
typedef struct fake_node {
    head_bed_t *bed;
    crti_stream_t *stream;
    crti_id_t id;
    uint64_t incarnation, last_request;
    bool opened, closed, registered;
    crt_status_t status;
    char text[512];
    crti_span_t jobs;  /* what it reports when it registers */
    bool start_actors; /* answers ACTOR_START by itself */
    bool count_only;   /* keeps no messages: only answered and errors below */
    crti_buffer_t received[NODE_MESSAGES];
    size_t count, seen;
    uint64_t answered, errors;
    unsigned char *acknowledged; /* by request number, when set */
    crti_timer_t beat;           /* see node_keep_alive */
} fake_node_t;

fake_node_t *node_new(head_bed_t *bed, uint64_t id);
/* Connects with the bed's key. */
void node_connect(fake_node_t *node);
/* And registers; waits until it is done. */
void node_join(fake_node_t *node);
/* A heartbeat now and every second, while the loop turns, until the node is closed. */
void node_keep_alive(fake_node_t *node);
void node_close(fake_node_t *node);
void node_free(fake_node_t *node);

uint64_t node_send(fake_node_t *node, crti_message_kind_t kind, const void *body);
/* The next message of that kind (0: any) that was not looked at; waits for it. `request` 0: any.
 * Fails the test after HEAD_PATIENCE. Borrowed: until the node is freed. */
crti_message_t node_next(fake_node_t *node, crti_message_kind_t kind, uint64_t request);
/* Sends a request and waits for its answer. */
crti_message_t node_ask(fake_node_t *node, crti_message_kind_t kind, const void *body);
/* A driver of job `job` attached. */
void node_add_job(fake_node_t *node, uint64_t job);
crti_msg_actor_create_t node_actor(const fake_node_t *node, uint64_t actor, uint64_t job,
                                   const char *name);

/* Stores, looks up (NULL: nothing is there), creates; fail the test when that fails. */
void node_put(fake_node_t *node, const char *key, const char *value);
void node_expect_stored(fake_node_t *node, const char *key, const char *value);
void node_make_actor(fake_node_t *node, uint64_t id, const char *name);

/* Turns the loop until `done`; false when HEAD_PATIENCE passed. */
bool head_until(head_bed_t *bed, bool (*done)(void *user), void *user);

/* One question on the admin socket; the caller frees the storage. */
crt_status_t admin_ask(head_bed_t *bed, crti_message_kind_t kind, const void *body,
                       crti_message_t *answer_out, crti_buffer_t *storage);
/* JSON of STATE_QUERY; caller frees it. */
char *admin_state(head_bed_t *bed, const char *what, const char *filter);

/* The first 48 bits differ, too, as those of nodes must. */
static inline crti_id_t an_id(uint64_t n)
{
    return (crti_id_t){n << 16, n};
}

#endif
