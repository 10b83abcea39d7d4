/* SPDX-License-Identifier: Apache-2.0 */
/* A head that a test plays, real node daemons, and drivers, all in one loop of the test.
 *
 * Everything lives in a private temporary directory; nothing is left after scene_end, which
 * also checks that the daemons end cleanly and that none of their processes are left.
 */
#ifndef CRTI_TESTS_NODE_SCENE_H
#define CRTI_TESTS_NODE_SCENE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "runtime/base/clock.h"
#include "runtime/base/list.h"
#include "runtime/net/channel.h"
#include "runtime/net/stream.h"

#include <cmocka.h>

#define SCENE_NODES 3

/* A message that arrived, copied. */
typedef struct scene_message {
    crti_message_t message;
    crti_buffer_t bytes;
    int node; /* from which node's link, or which node's driver */
    bool seen;
} scene_message_t;

typedef struct scene scene_t;

typedef struct scene_node {
    scene_t *scene;
    int number;
    pid_t pid;
    int lifeline;
    char hex[33];
    crti_id_t id;
    char run_dir[200];
    crti_stream_t *stream; /* the head's side; NULL: not connected */
    uint64_t incarnation;
    uint64_t register_request;
    int registrations;
    char endpoint[64];
    char stderr_path[200];
} scene_node_t;

typedef struct scene_driver {
    scene_t *scene;
    int node;
    crti_channel_t *channel;
    crti_id_t process, job;
    int fds[2]; /* arena, blackboard */
    unsigned slot;
    bool closed;
    bool dies; /* it leaves without a word */
} scene_driver_t;

struct scene {
    crti_loop_t *loop;
    char dir[64];
    char key_file[96];
    crti_key_t key;
    crti_stream_context_t *context;
    crti_stream_listener_t *listener;
    char address[64];
    scene_node_t nodes[SCENE_NODES];
    scene_driver_t drivers[4];
    crti_stream_t *unknown[8]; /* accepted, not registered yet */
    scene_message_t **log;     /* what arrived, each in memory of its own */
    int logged;
    const char *mode; /* of the program */
    bool silent;      /* the head answers nothing */
    bool plain;       /* streams between nodes are not encrypted */
    uint64_t headless_ms;
    int file_limit;    /* of the nodes that are started, 0: none */
    bool refuse;       /* NODE_REGISTER gets CRT_ERR_NODE_LOST once */
    int clashes;       /* so many NODE_REGISTER get CRT_ERR_EXISTS */
    bool hesitates;    /* NODE_REGISTER gets no answer until scene_welcome */
    bool hides;        /* of no other node is told behind a registration */
    bool dies_early;   /* at the first NODE_REGISTER the head breaks the link */
    int exits_refused; /* so many JOB_EXITED are answered by an error */
    uint64_t lease_number;
    bool quiet;              /* messages are not kept, but ATTACHED */
    crti_id_t foreign_owner; /* of leases, zero: the driver */
};

void scene_begin(scene_t *s);
/* Stops the nodes, checks that nothing is left, frees everything. */
void scene_end(scene_t *s);

/* The head's listener goes away, with all links, and comes back on the same port. */
void scene_head_down(scene_t *s);
void scene_head_up(scene_t *s);

/* Answers the NODE_REGISTER of node n that was held back. */
void scene_welcome(scene_t *s, int n);

/* Starts crt-node number `n` and waits for `ready`. `options`: more options, ended by NULL. */
void scene_start_node(scene_t *s, int n, const char *const *options);
/* The one line that a failed start tells. */
void scene_start_fails(scene_t *s, const char *const *options, char *line, size_t size);
/* SIGTERM, or `signal_number`; waits for the end; the exit status of waitpid. */
int scene_stop_node(scene_t *s, int n, int signal_number);
/* One message of every kind there is, with plausible fields, to `send`. */
void scene_every_message(scene_t *s, unsigned seed,
                         void (*send)(void *user, crti_message_kind_t kind,
                                      uint64_t request, const void *body),
                         void *user);
/* Tells every node of all others, as the head does. */
void scene_send_view(scene_t *s, int to, const crti_msg_node_view_t *view);
void scene_send_views(scene_t *s, double cpus_free);

/* program.c: what main calls in a zygote or worker. */
int program_main(int argc, char **argv);
bool program_is_meant(void);
/* program_store.c: attaches to the arena and stops inside a change of it. */
void program_stop_inside(int fd, unsigned slot, crti_id_t process);
/* This program's bytes (to be freed), and the SHA-256 of bytes in hex. */
char *scene_read_program(size_t *size_out);
void scene_sha(const void *bytes, size_t size, char text[65]);

/* Attaches this process as a driver to node `n`; its program runs in mode s->mode. */
void scene_attach(scene_t *s, int d, int n);
void scene_detach(scene_t *s, int d);

/* Remembers what came from node `node`, or its driver, for those who wait below. */
void scene_keep(scene_t *s, int node, const crti_message_t *message);

/* Runs the loop until a message of that kind arrived that was not returned yet; fails the test
 * after 10 s. Borrowed: valid until scene_end. */
const crti_message_t *scene_wait(scene_t *s, crti_message_kind_t kind);
/* Runs the loop until `count` such messages came or the time is over: how many. */
int scene_count(scene_t *s, crti_message_kind_t kind, uint64_t wait_ms, int count);
bool scene_seen(scene_t *s, crti_message_kind_t kind);
void scene_turn(scene_t *s, uint64_t ms);
/* How many turns that takes is not known: one reads what has come. */
#define TURN_UNTIL(s, condition)                                                         \
    for (uint64_t until = crti_now_ns() + 60 * CRTI_S;                                   \
         !(condition) && crti_now_ns() < until; scene_turn(s, 10))                       \
    continue

/* Driver `d` asks for a lease of `cpus`; its id. */
crti_id_t scene_lease(scene_t *s, int d, double cpus);
pid_t scene_pid(const crti_msg_lease_granted_t *granted);

/* A request of the head to node n. */
void scene_head_send(scene_t *s, int n, crti_message_kind_t kind, uint64_t request,
                     const void *body);
bool scene_is_alive(pid_t pid);
/* Waits until the process is gone. */
void scene_wait_gone(scene_t *s, pid_t pid);
/* How many processes have CRT_NODE_DIR of node n in their environment. */
int scene_processes(scene_t *s, int n);

#endif
