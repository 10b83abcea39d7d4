/* SPDX-License-Identifier: Apache-2.0 */
/* System: whole clusters of the real code on virtual time. Node daemons (runtime/node), the head's
 * tables (runtime/control), drivers and workers (runtime/core, the public interface and all) and
 * their sessions (runtime/net/session.c) are the very files of the product; what they stand on is
 * made here: processes, sockets, shared memory, clocks.
 *
 * Where it sits
 *     test_system.c (weather) -> system_programs.c (what users' programs do)
 *         -> runtime/core -> net.h, channel.h, store.h, ...   [ system_net, _channel, _store ]
 *         -> runtime/node, runtime/control -> loop.h, stream.h, exec
 *                                             [ system_loop, _stream, _process ]
 *     system_wrap.h turns the system calls of those files into calls here.
 * Idea
 *     A simulated process is a record with a pid; what happens to it is an event of the world. A
 *     program that waits is a fiber: its main thread, which runs when what it waits for is there.
 *     Handlers run in the event itself, as the progress thread would run them.
 * Ownership
 *     Each seed has an operating system process of its own (runner.h), and nothing is freed here:
 *     what a killed process held is lost with it, as in life.
 * Threads
 *     One.
 */
#ifndef TESTS_SIM_SYSTEM_H
#define TESTS_SIM_SYSTEM_H

#include <setjmp.h>
#include <sys/types.h>

#include "runtime/base/list.h"
#include "runtime/base/map.h"
#include "runtime/control/control.h"
#include "runtime/core/client/zygote.h"
#include "runtime/net/channel.h"
#include "runtime/net/loop.h"
#include "runtime/net/net.h"
#include "runtime/net/stream.h"
#include "runtime/store/store.h"
#include "tests/sim/network.h"

#define SYS_HOSTS     50
#define SYS_HEAD_HOST SYS_HOSTS /* the head's, apart from the nodes' */
#define SYS_PROCESSES 1200
#define SYS_PLACES    (SYS_HOSTS + 1)
#define SYS_FD        100000 /* descriptors of ours begin here */
#define SYS_FIRST_PID 1000

typedef enum sys_kind {
    SYS_HEAD,
    SYS_NODE,
    SYS_ZYGOTE,
    SYS_WORKER,
    SYS_DRIVER
} sys_kind_t;

typedef struct sys_process sys_process_t;
typedef struct sys_fiber sys_fiber_t;
typedef struct sys_arena sys_arena_t; /* system_store.c: the store of a node */
typedef struct crti_node crti_node_t;

/* Main thread of a process: whom it waits for. */
typedef struct sys_wait {
    bool is_waiting, is_in_net; /* in_net: it makes progress meanwhile */
    bool (*done)(void *user);
    void *user;
    uint64_t deadline, number;
} sys_wait_t;

struct sys_process {
    unsigned index;
    pid_t pid;
    sys_kind_t kind;
    unsigned host;
    sys_process_t *parent; /* takes it along when it dies */
    bool is_alive, is_reaped;
    int wait_status;
    uint64_t died_at;
    sys_fiber_t *fiber;
    sys_wait_t wait;
    bool is_locked; /* the net's lock */
    void (*run)(sys_process_t *self);
    void *globals; /* of entry.c, system_core.c */
    crti_net_t *net;
    crti_loop_t *loop;
    crti_node_t *node;
    crti_channel_t *link; /* a zygote's, with its node */
    crti_worker_identity_t identity;
    char run_dir[32]; /* a node's */
    char doing[120];  /* a program: what it waits for, for whoever looks why it hangs */
    void *user;       /* the scenario's */
};

typedef struct sys_head sys_head_t;

typedef struct sys {
    sim_world_t *world;
    /* frames of sessions between hosts; and who is cut off from whom */
    sim_network_t net;
    unsigned host_of[SYS_PLACES];
    unsigned hosts;
    sys_process_t process[SYS_PROCESSES];
    unsigned processes;
    sys_process_t *self; /* who runs */
    jmp_buf exit_jump;
    bool is_in_fiber;
    sys_process_t *node[SYS_HOSTS]; /* the daemon of each host, NULL: none */
    sys_head_t *head;
    bool kills_young; /* workers may die on their way into the world */
    uint64_t faults;  /* what was done to them: without any nothing may fail */
    void *user;
} sys_t;

extern sys_t
    *sys; /* of the seed that runs; NULL: none, time and chance are the kernel's */

/* ---------------------------------------------------------------- system_process.c */

void sys_start(sim_world_t *world, unsigned hosts);
sys_process_t *sys_process_new(sys_kind_t kind, unsigned host, sys_process_t *parent,
                               void (*run)(sys_process_t *self));
sys_process_t *sys_process_find(pid_t pid);
/* The process does something: `act` runs as this process. Then its main thread goes on, if what it
 * waits for is there. Nothing when it is dead. */
void sys_run(sys_process_t *p, void (*act)(void *user, uint64_t number), void *user,
             uint64_t number);
/* It is gone: its children, descriptors, links with it. */
void sys_kill(sys_process_t *p, int wait_status);
/* The main thread waits; CRT_ERR_TIMED_OUT after `deadline`. */
crt_status_t sys_wait_for(bool (*done)(void *user), void *user, uint64_t deadline,
                          bool is_in_net);
void sys_sleep(uint64_t time);
void sys_exit(int code) __attribute__((noreturn));

/* ---------------------------------------------------------------- system_stubs.c */

crt_status_t sys_limits_load(void);

/* ---------------------------------------------------------------- system_fiber.c */

sys_fiber_t *sys_fiber_new(void (*run)(void *user), void *user);
void sys_fiber_resume(sys_fiber_t *fiber);
void sys_fiber_yield(void);

/* ---------------------------------------------------------------- system_core.c */

void *sys_globals_new(void);
/* Loads a process's globals of entry.c (NULL: nobody's) and keeps those of the one before. */
void sys_globals_switch(void *from, const void *to, bool is_main_thread);
/* Of the actor that this process hosts. */
uint64_t sys_actor_incarnation(void);

/* ---------------------------------------------------------------- system_loop.c */

typedef enum sys_fd_kind {
    SYS_FD_NONE,
    SYS_FD_CHANNEL,
    SYS_FD_LISTENER,
    SYS_FD_PIDFD,
    SYS_FD_TIMER,
    SYS_FD_STORE,
    SYS_FD_OTHER
} sys_fd_kind_t;

typedef struct sys_fd {
    sys_fd_kind_t kind;
    sys_process_t *owner;
    void *thing;
    uint64_t number;                 /* TIMER: of the setting that counts */
    crti_watch_t *watch;             /* in a daemon's loop */
    crti_net_fd_handler_t *on_ready; /* or in a core's net */
    void *user;
} sys_fd_t;

int sys_fd_new(sys_fd_kind_t kind, void *thing);
sys_fd_t *sys_fd_of(int fd); /* NULL: not ours, or closed */
/* It is readable, from the next moment on. */
void sys_fd_ready(int fd, uint64_t delay);
void sys_pidfds_ready(const sys_process_t *dead);
void sys_fds_close_all(const sys_process_t *owner);

/* ----------------------------------------------------------- system_channel.c, system_stream.c */

/* The end behind `fd` changes hands: a child has inherited it. */
crti_channel_t *sys_channel_inherit(int fd, sys_process_t *owner);
void sys_channel_owner_died(const sys_process_t *owner);
void sys_channel_closed_fd(crti_channel_t *channel);
void sys_listener_closed(void *listener);
/* Host a hears at once that its connections with host b are broken, host b perhaps seconds later,
 * when a has made others. */
void sys_streams_break(unsigned host_a, unsigned host_b);
void sys_stream_owner_died(const sys_process_t *owner);
void sys_cut(unsigned host_a, unsigned host_b, uint64_t time);

/* ---------------------------------------------------------------- system_net.c */

void sys_net_receive(void *user, const sim_packet_t *packet);
/* The process that has, or had, that id; NULL: none. */
sys_process_t *sys_net_process(crti_id_t id);

/* ---------------------------------------------------------------- system_store.c */

sys_arena_t *sys_arena_of(crti_store_t *store);
size_t sys_arena_objects(const sys_arena_t *arena);
crti_object_id_t sys_arena_first(const sys_arena_t *arena);

/* ---------------------------------------------------------------- system_node.c, system_head.c */

void sys_node_start(unsigned host);
void sys_head_start(void);
void sys_head_kill(void);
bool sys_head_is_up(void);
/* As `crt drain` asks for; nobody hears the answer. */
void sys_head_drain(crti_id_t node, uint64_t left_ms);
const crti_control_t *sys_head_control(void);
/* Redis: gone for a time (what had no answer is sent again), or its disk is full. */
void sys_redis_stall(uint64_t until);
void sys_redis_refuse(uint64_t until);
size_t sys_redis_count(crti_store_table_t table);
/* False: the head does not know the actor. */
bool sys_head_has_actor(crti_id_t id, bool *alive_out, crti_id_t *process_out);
/* Its creation was told to have failed, and the store may still have it; how many of those there
 * are. */
bool sys_head_has_revoked(crti_id_t id);
size_t sys_head_revoked(void);

/* ---------------------------------------------------------------- system_programs.c */

void sys_program_start_driver(unsigned host);
void sys_program_worker(sys_process_t *self);

#endif
