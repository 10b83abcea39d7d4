/* SPDX-License-Identifier: Apache-2.0 */
/* The control protocol: every message between daemons, drivers and workers, except the calls
 * between processes (core/values/record.h), which have a format of their own for speed.
 *
 * Six links, one vocabulary:
 *
 *     local   driver or worker <-> node daemon   unix stream RUN/node.sock (net/channel.c)
 *     zygote  node daemon <-> zygote             socketpair, inherited descriptor
 *     head    node daemon <-> head               TLS 1.3 PSK stream to the head's port
 *     node    node daemon <-> node daemon        TLS 1.3 PSK stream to the node's endpoint
 *     admin   http, command <-> head             unix stream RUN/head.sock
 *     group   member <-> member of a collective  TLS 1.3 PSK stream between their processes
 *
 * A driver or worker speaks to its own node daemon only; what is meant for the head or another
 * node is forwarded by it (same kind, new request number). A request that was forwarded to a
 * head which then died is sent again to its successor, so every request is idempotent: it
 * carries the id of what it makes.
 *
 * Amounts of time are milliseconds, sizes bytes. "notice" means request 0, no answer.
 * PEER(...) is where a process can be called: net/net.h turns it into crti_address_t.
 */
#ifndef CRTI_NET_PROTOCOL_H
#define CRTI_NET_PROTOCOL_H

/* Raised in each release in which a peer of the last one would misread a message or a record: a
 * field that is added, taken out or means something else. A new kind that only who knows it is sent
 * does not raise it. */
#define CRTI_PROTOCOL_VERSION 22
#define CRTI_MESSAGE_MAX      (16u << 20) /* largest control message */
#define CRTI_CREATION_MAX     (1u << 20)  /* largest creation record of an actor */
#define CRTI_SAVED_MAX        (1u << 20)  /* largest state that an actor saves */

/* Role in ATTACH. */
#define CRTI_ROLE_DRIVER 1
#define CRTI_ROLE_WORKER 2

/* State in ACTOR_STATE; control/tables/actor_table.c holds the machine. */
#define CRTI_ACTOR_PENDING    0 /* waits for a node; text says for what */
#define CRTI_ACTOR_STARTING   1 /* a node makes its process */
#define CRTI_ACTOR_ALIVE      2 /* address is valid */
#define CRTI_ACTOR_RESTARTING 3
#define CRTI_ACTOR_DEAD       4 /* text says why; nothing follows */

/* State in PLACEMENT_GROUP_STATE; control/tables/placement_group_table.c holds the machine. */
#define CRTI_PLACEMENT_GROUP_PENDING      0 /* waits for room; text says for what */
#define CRTI_PLACEMENT_GROUP_CREATED      1 /* every bundle is reserved on its node */
#define CRTI_PLACEMENT_GROUP_RESCHEDULING 2 /* a node died: its bundles wait for room */
#define CRTI_PLACEMENT_GROUP_REMOVED      3 /* status and text say why; nothing follows */

/* What becomes of what no node has the resources for (`if_infeasible`). */
#define CRTI_INFEASIBLE_DEFAULT 0    /* as the head was started */
#define CRTI_INFEASIBLE_FAILS   1    /* CRT_ERR_UNSCHEDULABLE */
#define CRTI_INFEASIBLE_WAITS   (-1) /* for a node that has them */

#define CRTI_MESSAGE_MAP(M)                                                              \
    /* answers */                                                                        \
    M(ERROR, error, 1)                                                                   \
    M(DONE, done, 2)                                                                     \
    /* local link */                                                                     \
    M(ATTACH, attach, 10)                                                                \
    M(ATTACHED, attached, 11)                                                            \
    M(READY, ready, 12)                                                                  \
    M(SHUTDOWN, shutdown, 13)                                                            \
    M(LEASE_REQUEST, lease_request, 14)                                                  \
    M(LEASE_GRANTED, lease_granted, 15)                                                  \
    M(LEASE_WAITING, lease_waiting, 16)                                                  \
    M(LEASE_RETURN, lease_return, 17)                                                    \
    M(LEASE_CANCEL, lease_cancel, 18)                                                    \
    M(BLOCKED, blocked, 19)                                                              \
    M(UNBLOCKED, unblocked, 20)                                                          \
    M(WATCH, watch, 21)                                                                  \
    M(UNWATCH, unwatch, 22)                                                              \
    M(PEER_DIED, peer_died, 23)                                                          \
    M(NODE_DIED, node_died, 24)                                                          \
    M(PULL, pull, 25)                                                                    \
    M(FREE, free, 26)                                                                    \
    M(COPY_MAKE, copy_make, 122)                                                         \
    M(COPY_MADE, copy_made, 123)                                                         \
    M(RESOURCE_REQUEST, resource_request, 124)                                           \
    M(LOG, log, 27)                                                                      \
    M(ACTOR_CREATE, actor_create, 28)                                                    \
    M(ACTOR_WATCH, actor_watch, 29)                                                      \
    M(ACTOR_UNWATCH, actor_unwatch, 30)                                                  \
    M(ACTOR_STATE, actor_state, 31)                                                      \
    M(ACTOR_KILL, actor_kill, 32)                                                        \
    M(ACTOR_FIND, actor_find, 33)                                                        \
    M(ACTOR_FAILED, actor_failed, 34)                                                    \
    M(KV_PUT, kv_put, 35)                                                                \
    M(KV_GET, kv_get, 36)                                                                \
    M(KV_DELETE, kv_delete, 37)                                                          \
    M(KV_KEYS, kv_keys, 38)                                                              \
    M(KV_VALUE, kv_value, 39)                                                            \
    M(STATE_QUERY, state_query, 40)                                                      \
    M(STATE_ANSWER, state_answer, 41)                                                    \
    M(HEAD_LINK, head_link, 42)                                                          \
    M(KV_SWAP, kv_swap, 43)                                                              \
    M(LOG_FLUSH, log_flush, 44)                                                          \
    M(LEASE_YIELD, lease_yield, 45)                                                      \
    M(PLACEMENT_GROUP_CREATE, placement_group_create, 46)                                \
    M(PLACEMENT_GROUP_GET, placement_group_get, 47)                                      \
    M(PLACEMENT_GROUP_REMOVE, placement_group_remove, 48)                                \
    M(PLACEMENT_GROUP_STATE, placement_group_state, 49)                                  \
    M(ACTOR_SAVE, actor_save, 54)                                                        \
    M(VIEW_QUERY, view_query, 55)                                                        \
    M(VIEW_ANSWER, view_answer, 56)                                                      \
    M(VIEW_NODE, view_node, 57)                                                          \
    M(VIEW_ACTOR, view_actor, 58)                                                        \
    M(VIEW_JOB, view_job, 59)                                                            \
    /* zygote link */                                                                    \
    M(ZYGOTE_READY, zygote_ready, 50)                                                    \
    M(FORK, fork, 51)                                                                    \
    M(FORKED, forked, 52)                                                                \
    M(REAPED, reaped, 53)                                                                \
    /* head link */                                                                      \
    M(NODE_REGISTER, node_register, 60)                                                  \
    M(NODE_REGISTERED, node_registered, 61)                                              \
    M(HEARTBEAT, heartbeat, 62)                                                          \
    M(HEARTBEAT_ACK, heartbeat_ack, 63)                                                  \
    M(NODE_VIEW, node_view, 64)                                                          \
    M(ACTOR_START, actor_start, 65)                                                      \
    M(ACTOR_STARTED, actor_started, 66)                                                  \
    M(ACTOR_STOP, actor_stop, 67)                                                        \
    M(ACTOR_RUNNING, actor_running, 68)                                                  \
    M(ACTOR_DIED, actor_died, 69)                                                        \
    M(JOB_ADD, job_add, 70)                                                              \
    M(JOB_END, job_end, 71)                                                              \
    M(JOB_GET, job_get, 72)                                                              \
    M(JOB_INFO, job_info, 73)                                                            \
    M(JOB_START, job_start, 74)                                                          \
    M(JOB_EXITED, job_exited, 75)                                                        \
    M(JOB_STOP, job_stop, 76)                                                            \
    M(LOG_READ, log_read, 77)                                                            \
    M(LOG_DATA, log_data, 78)                                                            \
    M(NODE_LEAVE, node_leave, 79)                                                        \
    M(NODE_FIND, node_find, 80)                                                          \
    M(BUNDLE_RESERVE, bundle_reserve, 81)                                                \
    M(BUNDLE_RETURN, bundle_return, 82)                                                  \
    M(BUNDLE_HELD, bundle_held, 83)                                                      \
    M(NODE_DRAIN, node_drain, 84)                                                        \
    M(NODE_VIEWS, node_views, 85)                                                        \
    M(NODE_ROOM, node_room, 86)                                                          \
    M(JOB_FORGET, job_forget, 87)                                                        \
    M(JOB_USE, job_use, 88)                                                              \
    M(JOB_LEVEL, job_level, 89)                                                          \
    M(JOB_REST, job_rest, 120)                                                           \
    M(LEASE_REFUSE, lease_refuse, 121)                                                   \
    /* node link */                                                                      \
    M(NODE_HELLO, node_hello, 90)                                                        \
    M(OBJECT_GET, object_get, 91)                                                        \
    M(OBJECT_DATA, object_data, 92)                                                      \
    M(PROGRAM_GET, program_get, 93)                                                      \
    M(PROGRAM_DATA, program_data, 94)                                                    \
    M(OBJECT_ELSEWHERE, object_elsewhere, 95)                                            \
    M(OBJECT_LEAVE, object_leave, 96)                                                    \
    M(OBJECT_KEEP, object_keep, 97)                                                      \
    /* admin link */                                                                     \
    M(JOB_SUBMIT, job_submit, 100)                                                       \
    M(JOB_DELETE, job_delete, 101)                                                       \
    /* group link */                                                                     \
    M(GROUP_HELLO, group_hello, 110)                                                     \
    M(GROUP_WELCOME, group_welcome, 111)                                                 \
    M(GROUP_DATA, group_data, 112)                                                       \
    M(GROUP_OFFER, group_offer, 113)                                                     \
    M(GROUP_TAKEN, group_taken, 114)                                                     \
    M(GROUP_ABORT, group_abort, 115)                                                     \
    M(GROUP_LEAVE, group_leave, 116)                                                     \
    M(GROUP_WAITS, group_waits, 117)                                                     \
    /* rows of the control store, never on a link */                                     \
    M(ROW_META, row_meta, 200)                                                           \
    M(ROW_NODE, row_node, 201)                                                           \
    M(ROW_ACTOR, row_actor, 202)                                                         \
    M(ROW_JOB, row_job, 203)                                                             \
    M(ROW_JOB_STATE, row_job_state, 204)                                                 \
    M(ROW_PLACEMENT_GROUP, row_placement_group, 205)                                     \
    M(BUNDLE, bundle, 206)

/* clang-format off */
/* Where a process can be called. `ipc` is a path on its node, `tcp` host:port. */
#define CRTI_PEER(F)                                                                     \
    F(ID, process) F(U64, incarnation) F(ID, node) F(STR, ipc) F(STR, tcp)

/* On which nodes, or in which bundle of a placement group, something may run: base/scheduling.h. */
#define CRTI_SCHEDULING(F)                                                               \
    F(U64, strategy) F(ID, affinity) F(BOOL, is_soft) F(ID, group) F(I64, bundle)        \
        F(STR, selector)

/* ------------------------------------------------------------------ answers */

/* The request failed; `status` is a crt_status_t, `text` the detail. */
#define CRTI_FIELDS_ERROR(F) F(I64, status) F(STR, text)
#define CRTI_FIELDS_DONE(F)

/* ------------------------------------------------------------------ local link */

/* First message of a process. Driver: `process` is its own new random id, `job` zero, or what
 * CRT_JOB in its environment says (a submitted job); `program` is the path of its executable,
 * `sha` its SHA-256 in hex, `argv` and `environment` lists of text, `entrypoint` a text to
 * show. Worker: `process` is the id from FORK or CRT_WORKER; the rest is empty.
 * `pid` must be that of the peer (SO_PEERCRED). Answer: ATTACHED or ERROR. */
#define CRTI_FIELDS_ATTACH(F)                                                            \
    F(U64, protocol)                                                                     \
    F(U64, role) F(ID, process) F(U64, incarnation) F(I64, pid) F(ID, job)               \
        F(STR, program) F(STR, sha) F(BIN, argv) F(BIN, environment) F(STR, directory)   \
            F(STR, entrypoint) F(BOOL, log_to_driver)

/* Variables of a driver by which nodes hear of its job's weight and cap
 * (node/leases/job_shares.h). */
#define CRTI_JOB_PRIORITY  "CRT_JOB_PRIORITY"
/* Of workers: each is executed; OMP_NUM_THREADS is what their node has set, not the user. */
#define CRTI_EXECUTE_WORKERS "CRT_EXECUTE_WORKERS"
#define CRTI_NODE_SETS_OMP   "CRT_NODE_SETS_OMP"
#define CRTI_JOB_MAX_SHARE "CRT_JOB_MAX_SHARE"
#define CRTI_JOB_COPIES    "CRT_JOB_COPIES"
/* Of a job that was submitted with a folder: the SHA-256 of its zip, the command that is run once
 * in each unpacked folder, and where the folder lies on the driver's node. */
#define CRTI_JOB_PACKAGE   "CRT_JOB_PACKAGE"
#define CRTI_JOB_SETUP     "CRT_JOB_SETUP"
#define CRTI_JOB_DIRECTORY "CRT_JOB_DIRECTORY"
/* How the answer to JOB_START begins when the folder can't be made. */
#define CRTI_JOB_SETUP_FAILED "runtime_env setup failed: "

/* And of its namespace, in which its processes name and find actors. */
#define CRTI_JOB_NAMESPACE  "CRT_JOB_NAMESPACE"
#define CRTI_NAMESPACE_SIZE 128 /* bytes of a namespace with its final zero */
#define CRTI_NAMESPACE_RULE "a namespace has 1 to 127 bytes, none of them /"

/* The variable by which CUDA is told which GPUs there are. */
#define CRTI_VISIBLE_GPUS "CUDA_VISIBLE_DEVICES"

/* Carries two descriptors: the arena, and the blackboard, a page of shared memory in which a
 * worker writes what it is doing (base/blackboard.h), so that a death can name the method.
 * Worker: `actor` zero means tasks; else the actor whose creation record follows. `cpus` is
 * what it was given (BLAS threads). Sockets lie in `run_dir` or are named after it, tcp binds to
 * `ip` and a port of low..high (0..0: any). `key` is the cluster key. `encrypt_streams` is the
 * cluster's option, for streams that others make to this process. `fenced`: the actor takes no
 * calls while the blackboard says that the head has not heard of the node. `gpus`: those of the
 * worker, as in CUDA_VISIBLE_DEVICES, "" for none. `saved`: the last ACTOR_SAVE. `limits`: those of
 * the cluster (base/limit.h). */
#define CRTI_FIELDS_ATTACHED(F)                                                          \
    F(ID, node)                                                                          \
    F(ID, cluster) F(ID, job) F(U64, slot) F(BIN, key) F(STR, run_dir) F(STR, ip)        \
        F(U64, port_low) F(U64, port_high) F(F64, cpus) F(ID, actor)                     \
            F(U64, actor_incarnation) F(STR, class_name) F(BIN, creation)                \
                F(BOOL, encrypt_streams) F(BOOL, fenced) F(STR, gpus) F(BIN, saved)         \
                    F(STR, limits) F(BIN, environment)

/* Notice: the process has bound its endpoints and can be called. A worker sends it at once; an
 * actor's calls queue behind its creation. */
#define CRTI_FIELDS_READY(F) F(STR, ipc) F(STR, tcp)

/* Notice, node to process: end now, `graceful` when the calls that it has are answered; `text` says
 * why (job ended, actor killed, node stops). Driver to node: it leaves the cluster on purpose;
 * without it the end of its link is a death. With `has_exit` it leaves as its last act, and
 * `wait_status` (as of waitpid) is how its program ends. */
#define CRTI_FIELDS_SHUTDOWN(F)                                                          \
    F(STR, text) F(BOOL, has_exit) F(I64, wait_status) F(BOOL, graceful)

/* The owner asks for a worker of a shape. Answer: LEASE_GRANTED (`process` is the worker), or
 * ERROR. What no node has waits and is told by LEASE_WAITING; with `if_infeasible`
 * (CRTI_INFEASIBLE) the answer is CRT_ERR_UNSCHEDULABLE. The owner may cancel. `spillbacks` is 1
 * when the owner's node sends it to another one, which may answer CRT_ERR_BACKPRESSURE: another
 * node has room, decide again. `prefer` is the node that holds the largest arguments, or zero. The
 * same `lease` again is the same lease. `weight` and `max_share` (node/leases/job_shares.h) are
 * those of the job, set by the owner's node. `awaits_turn`: it is sent to a node without room, to
 * wait there for the end of another job's turn; CRT_ERR_BACKPRESSURE: none ends. */
#define CRTI_FIELDS_LEASE_REQUEST(F)                                                     \
    F(ID, lease)                                                                         \
    F(ID, job) F(ID, owner) F(ID, owner_node) F(RES, resources) F(STR, function)         \
        F(ID, prefer) F(U64, spillbacks) F(I64, if_infeasible) CRTI_SCHEDULING(F)           \
            F(U64, weight) F(U64, max_share) F(BOOL, awaits_turn) F(BIN, environment)
#define CRTI_FIELDS_LEASE_GRANTED(F) F(ID, lease) CRTI_PEER(F)

/* Notice to the owner, when it must wait longer than 1 s, and again when the reason changes:
 * "needs 3 CPU, the cluster has 2". It begins with CRTI_LACKS_WORKER when CPUs are free, and all
 * workers that the node may have are in use. */
#define CRTI_LACKS_WORKER "needs a worker"
#define CRTI_FIELDS_LEASE_WAITING(F) F(ID, lease) F(STR, text)

/* Notice: the owner needs the worker no more. `broken`: end it; `retires`: when it has answered and
 * nobody has an object of it. Unknown leases are ignored. */
#define CRTI_FIELDS_LEASE_RETURN(F)                                                      \
    F(ID, lease) F(ID, node) F(BOOL, broken) F(BOOL, retires)
/* Notice to the owner, by way of its node: others wait. It sends nothing more to the worker, and
 * gives it back when what runs there has ended; with `when_idle` as soon as it has nothing to run.
 * Unknown leases are ignored. */
#define CRTI_FIELDS_LEASE_YIELD(F)                                                       \
    F(ID, lease) F(ID, owner) F(ID, owner_node) F(BOOL, when_idle)
/* Notice: the owner no longer wants the lease it asked for; a grant that crosses is returned. */
#define CRTI_FIELDS_LEASE_CANCEL(F) F(ID, lease)

/* Notices: the worker's main thread waits in get (its CPUs may be lent) / goes on. */
#define CRTI_FIELDS_BLOCKED(F)
#define CRTI_FIELDS_UNBLOCKED(F)

/* Notice: tell me when that process ends. Answered at once by PEER_DIED when it is gone. */
#define CRTI_FIELDS_WATCH(F)   F(ID, process) F(U64, incarnation) F(ID, node)
#define CRTI_FIELDS_UNWATCH(F) F(ID, process)

/* Notice: a process ended. `status` is CRT_ERR_WORKER_DIED, or CRT_OK for an expected end; `pid` as
 * its host numbered it, 0 when that is not known; `text` the whole report: pid, node, signal or
 * exit status, method, last lines of output, core. `ran_no_call`: of an actor whose create had not
 * ended. `unbegun`: the tasks that `caller` had sent it in that record of a session and in later
 * ones had certainly not begun; 0: that is not known. Node to head, head to all nodes, node to the
 * local processes that watch. Of a process that has made actors it is a request to the head, DONE
 * when their ends are durable. */
#define CRTI_FIELDS_PEER_DIED(F)                                                         \
    F(ID, process)                                                                       \
    F(U64, incarnation)                                                                  \
    F(ID, node) F(I64, status) F(I64, pid) F(STR, text) F(BOOL, ran_no_call)              \
    F(ID, caller) F(U64, unbegun)

/* Notice to every node and every local process: all processes of the node are gone. */
#define CRTI_FIELDS_NODE_DIED(F) F(ID, node) F(STR, text)

/* Bring a copy of a sealed object here from one of `nodes` (list of 16-byte ids). Answer: DONE
 * when it is in the local store, ERROR CRT_ERR_OBJECT_LOST when no node has it. */
#define CRTI_FIELDS_PULL(F) F(OBJECT, object) F(U64, size) F(BIN, nodes)

/* One of ours, of which `nodes` have copies, shall have one more on a node that is not in `avoid`
 * (lists of 16-byte ids), and that keeps it until it is freed. Answer: COPY_MADE; `node` has it if
 * `status` is CRT_OK, else it could not have it; zero: there is no such node. */
#define CRTI_FIELDS_COPY_MAKE(F) F(OBJECT, object) F(U64, size) F(BIN, nodes) F(BIN, avoid)
#define CRTI_FIELDS_COPY_MADE(F) F(ID, node) F(I64, status) F(STR, text)

/* Notice: the owner needs these objects no more; a list of (object 24 bytes, node 16 bytes). A
 * process numbers its objects and calls with CRTI_NUMBER_BITS bits; above them are the parts that
 * a call made. CRTI_EVERY_PART there: whatever the call made, where no process was notified. */
#define CRTI_FIELDS_FREE(F) F(BIN, objects)
#define CRTI_NUMBER_BITS    48
#define CRTI_EVERY_PART     (UINT64_C(0xffff) << CRTI_NUMBER_BITS)

/* Notice towards a driver: output lines of a worker, which may host `actor`; `prefix` is "(Counter
 * pid=7, ip=1.2.3.4)", `lines` raw bytes ended by a newline. `driver_node` is where the driver
 * is. */
#define CRTI_FIELDS_LOG(F)                                                               \
    F(ID, job) F(ID, driver_node) F(ID, actor) F(STR, prefix) F(BIN, lines) F(BOOL, is_stderr)

/* A worker has printed and is about to answer its call; its node asks the driver's node the same.
 * Answer, when all lines, an unfinished last one too, are on their way to the driver, which counts
 * them (blackboard.h): DONE, or to the worker LOG_DATA without data, whose `next` is where its log
 * ends. With a job, between nodes: its driver leaves. What its workers there have printed follows
 * as LOG, and behind it one without lines. */
#define CRTI_FIELDS_LOG_FLUSH(F) F(ID, job)

/* Makes an actor. Answer: DONE when it is durable; its life follows by ACTOR_STATE to those who
 * watch. CRT_ERR_EXISTS when the name is taken by another living actor. `creation` is a record
 * of core (class and arguments), opaque here. The name is one of `name_space`, which has no '/'.
 * `lifetime` is the number of the ref at the owner that says when it ends; 0: detached.
 * What its callers obey: CRTI_ACTOR_TERMS. */
#define CRTI_FIELDS_ACTOR_CREATE(F)                                                      \
    F(ID, actor)                                                                         \
    F(ID, job) F(ID, owner) F(ID, owner_node) F(STR, class_name) F(STR, name)            \
        F(RES, resources) F(BOOL, detached) F(I64, max_restarts) CRTI_ACTOR_TERMS(F)     \
            F(BOOL, fenced) F(BIN, creation) F(I64, if_infeasible) CRTI_SCHEDULING(F)    \
                F(U64, owner_incarnation) F(STR, owner_tcp) F(U64, lifetime)             \
                    F(STR, name_space) F(BIN, environment)

/* Answer: ACTOR_STATE now; then ACTOR_STATE notices on every change until unwatched. `ran_no_call`:
 * of the process that has ended, RESTARTING and DEAD, as in PEER_DIED. */
#define CRTI_FIELDS_ACTOR_WATCH(F)   F(ID, actor)
#define CRTI_FIELDS_ACTOR_UNWATCH(F) F(ID, actor)
#define CRTI_FIELDS_ACTOR_STATE(F)                                                       \
    F(ID, actor)                                                                         \
    F(U64, actor_incarnation) F(U64, state) F(STR, class_name) F(STR, name)              \
        F(U64, restarts) CRTI_ACTOR_TERMS(F)                                             \
            F(I64, status) F(STR, text) CRTI_PEER(F)                                     \
                F(ID, owner) F(ID, owner_node) F(U64, owner_incarnation)                 \
                    F(STR, owner_tcp) F(U64, lifetime) F(BOOL, ran_no_call)

/* Ends an actor for good, or, without no_restart, its process: it is started again as if that had
 * died. `graceful`: when its process has answered the calls that it has, within 30 s.
 * `actor_incarnation`: nothing is done when that process has been followed by another one; 0:
 * whichever there is. Answer: DONE (also when it is dead already). */
#define CRTI_FIELDS_ACTOR_KILL(F)                                                        \
    F(ID, actor) F(BOOL, no_restart) F(STR, text) F(BOOL, graceful) F(U64, actor_incarnation)

/* The state that the next process of the actor begins with; empty: none. Answer: DONE when it is
 * durable, or ERROR: this is not the process of the actor any more. Also a row of the control
 * store. */
#define CRTI_FIELDS_ACTOR_SAVE(F) F(ID, actor) F(U64, actor_incarnation) F(BIN, state)

/* Answer: ACTOR_STATE, or ERROR CRT_ERR_NOT_FOUND. */
#define CRTI_FIELDS_ACTOR_FIND(F) F(STR, name) F(STR, name_space)

/* Makes a placement group. Answer: PLACEMENT_GROUP_STATE, when all bundles are reserved, or it is
 * known that they have to wait; the group is durable then. `strategy`: bundle_placement.h.
 * `bundles` is a list of encoded BUNDLE. The same `group` again is the same group. The name is one
 * of `name_space`, which has no '/'. */
#define CRTI_FIELDS_PLACEMENT_GROUP_CREATE(F)                                            \
    F(ID, group)                                                                         \
    F(ID, job) F(STR, name) F(U64, strategy) F(BOOL, detached) F(I64, if_infeasible)     \
        F(BIN, bundles) F(STR, name_space)

/* A bundle in a list: what it reserves, the labels that its node must have, and, when it is
 * reserved, where. */
#define CRTI_FIELDS_BUNDLE(F)                                                            \
    F(RES, resources) F(STR, selector) F(ID, node) F(U64, incarnation)

/* The cluster is to have room for these bundles, in use or not, as long as the job runs; zero:
 * until it is asked for something else. `bundles`, a list of encoded BUNDLE, replaces what the job
 * asked for before; empty: nothing. Answer: DONE. */
#define CRTI_FIELDS_RESOURCE_REQUEST(F) F(ID, job) F(BIN, bundles)

/* By id, or when that is zero by name. Answer: PLACEMENT_GROUP_STATE as soon as its version is
 * another one than `version`, or after 30 s; ERROR CRT_ERR_NOT_FOUND. */
#define CRTI_FIELDS_PLACEMENT_GROUP_GET(F)                                               \
    F(ID, group) F(STR, name) F(U64, version) F(STR, name_space)
#define CRTI_FIELDS_PLACEMENT_GROUP_STATE(F)                                             \
    F(ID, group)                                                                         \
    F(U64, version) F(U64, state) F(STR, name) F(I64, status) F(STR, text) F(BIN, bundles)

/* Ends it and what runs in it. Answer: DONE, also when it has ended already. */
#define CRTI_FIELDS_PLACEMENT_GROUP_REMOVE(F) F(ID, group)

/* Notice, worker to node: the create function failed; the worker ends after it. */
#define CRTI_FIELDS_ACTOR_FAILED(F) F(ID, actor) F(I64, status) F(STR, text)

/* Key-value store of the cluster. PUT answers KV_VALUE with `found` = the key was there before
 * (with overwrite false an existing value stays); GET KV_VALUE; DELETE KV_VALUE(found); KEYS
 * KV_VALUE with a list of text. SWAP replaces, or deletes, a value that is exactly `expected`
 * (`is_new`: a key that is not there is made) and answers KV_VALUE(found: it was so). It is carried
 * out once for each `swap`. Values up to 1 MiB. */
#define CRTI_FIELDS_KV_PUT(F)    F(STR, key) F(BIN, value) F(BOOL, overwrite)
#define CRTI_FIELDS_KV_GET(F)    F(STR, key)
#define CRTI_FIELDS_KV_DELETE(F) F(STR, key)
#define CRTI_FIELDS_KV_KEYS(F)   F(STR, prefix)
#define CRTI_FIELDS_KV_SWAP(F)                                                           \
    F(STR, key) F(BIN, expected) F(BIN, value) F(ID, swap)            \
        F(BOOL, is_new) F(BOOL, is_deletion)
#define CRTI_FIELDS_KV_VALUE(F)  F(BOOL, found) F(BIN, value)

/* What the cluster looks like, as rows that programs read. `what`: "nodes" (`filter` "": all; else
 * an id), "named_actors" (`filter` "": of all namespaces; else "/" and one), "jobs" (an id of a
 * submission or job). Answer: VIEW_ANSWER with a list of encoded VIEW_NODE, VIEW_ACTOR or VIEW_JOB.
 * Their states are numbered as in crt_cluster_view.h and crt_job.h. */
#define CRTI_FIELDS_VIEW_QUERY(F)  F(STR, what) F(STR, filter)
#define CRTI_FIELDS_VIEW_ANSWER(F) F(BIN, rows)
#define CRTI_FIELDS_VIEW_NODE(F)                                                         \
    F(ID, node)                                                                          \
    F(U64, state) F(STR, ip) F(STR, hostname) F(STR, labels) F(BOOL, is_head_host)       \
        F(RES, resources) F(ROOM, available) F(U64, store_bytes) F(U64, store_used)      \
            F(I64, start_ms) F(I64, end_ms)
#define CRTI_FIELDS_VIEW_ACTOR(F)                                                        \
    F(ID, actor)                                                                         \
    F(STR, name) F(STR, name_space) F(STR, class_name) F(ID, job) F(ID, node)            \
        F(U64, state) F(BOOL, is_detached) F(I64, pid) F(U64, restarts)
#define CRTI_FIELDS_VIEW_JOB(F)                                                          \
    F(ID, job)                                                                           \
    F(STR, submission) F(STR, entrypoint) F(STR, text) F(ID, node) F(U64, state)         \
        F(BOOL, has_exit) F(I64, exit_code) F(I64, pid) F(I64, start_ms) F(I64, end_ms)

/* What the cluster looks like, as JSON text. `what`: "cluster" (nodes, resources, actors by
 * state, pending demand), "nodes", "actors", "jobs", "workers", "tasks", "objects", "refs",
 * "metrics"; `filter` an id or "", of "actors" and "tasks" also a query, of "tasks" and "objects"
 * from the head to a node how many rows at most. The shapes are in docs/design/state.md; what a
 * node answers of "tasks" is no JSON (node/dispatch/task_rows.c), and of "rest", which the head
 * alone asks, a list of JOB_REST for the jobs (hex ids) in `filter` (node/dispatch/rest.c). A node
 * daemon takes this and LOG_READ on its local link also from a process that did not ATTACH: the
 * command asks so where the head is elsewhere. */
#define CRTI_FIELDS_STATE_QUERY(F)  F(STR, what) F(STR, filter)
#define CRTI_FIELDS_STATE_ANSWER(F) F(BIN, json)

/* Notice, node to process: the link to the head went down or came back. */
#define CRTI_FIELDS_HEAD_LINK(F) F(BOOL, up) F(STR, text)

/* ------------------------------------------------------------------ zygote link */

/* First message of a zygote: `problem` is "" when it may fork, else why not ("2 threads run"):
 * the node then executes the program once per worker, also when the program asks for it. */
#define CRTI_FIELDS_ZYGOTE_READY(F) F(STR, problem) F(BOOL, executes)

/* Fork a worker. Carries two descriptors, its stdout and stderr. Answer: FORKED, or ERROR. */
#define CRTI_FIELDS_FORK(F)   F(ID, process) F(F64, cpus)
#define CRTI_FIELDS_FORKED(F) F(ID, process) F(I64, pid)

/* Notice: the zygote reaped a worker; `wait_status` as of waitpid. */
#define CRTI_FIELDS_REAPED(F) F(I64, pid) F(I64, wait_status)

/* ------------------------------------------------------------------ head link */

/* First message of a node daemon, and after every reconnect. `actors`, `jobs` and `bundles` are
 * lists of encoded ACTOR_RUNNING, JOB_ADD and BUNDLE_HELD messages: what runs and is reserved here
 * now. A JOB_ADD without driver is a job whose driver is not on this node; only `job` is set.
 * `drain_ms`: it is drained, and ends after that time at the latest; 0: it is not. Answer:
 * NODE_REGISTERED, or ERROR: CRT_ERR_NODE_LOST, this incarnation was taken for dead;
 * CRT_ERR_EXISTS, the node's processes could not be told from another node's, so that it has to
 * draw another id. */
#define CRTI_FIELDS_NODE_REGISTER(F)                                                     \
    F(U64, protocol)                                                                     \
    F(STR, version) F(ID, node) F(U64, incarnation) F(STR, ip) F(STR, hostname)          \
        F(STR, endpoint) F(I64, pid) F(BOOL, is_head_host) F(RES, resources)             \
            F(ROOM, available) F(U64, store_bytes) F(BIN, actors) F(BIN, jobs)           \
                F(STR, labels) F(BIN, bundles) F(U64, drain_ms)

/* `actors_to_end`: list of 16-byte ids that run there but should not (dead or placed again);
 * `jobs_to_end` likewise. `http`: URL of the dashboard for commands on other hosts, "" where there
 * is none; `http_pin`: of its certificate, "" where that follows from the cluster's key.
 * `fail_if_infeasible`: what CRTI_INFEASIBLE_DEFAULT means; `may_grow`: nodes come for what waits,
 * so that tasks are not infeasible. `limits`: those of the cluster (base/limit.h). */
#define CRTI_FIELDS_NODE_REGISTERED(F)                                                   \
    F(ID, cluster)                                                                       \
    F(U64, head_incarnation) F(BIN, actors_to_end) F(BIN, jobs_to_end)                   \
        F(BOOL, encrypt_streams) F(U64, headless_timeout_ms) F(STR, http) F(STR, http_pin)   \
            F(BOOL, fail_if_infeasible) F(BOOL, may_grow) F(STR, limits)

/* Every second, and at once (at most every 50 ms) when resources change. `demand` is a list of
 * (encoded LEASE_REQUEST) that wait here; memory_ended: so many workers were ended for lack of
 * memory; spilled: on disk, without memory; spill_trouble: why nothing is spilled that should be;
 * lineage: what processes keep to make lost objects again (base/blackboard.h); `uses` a list of
 * JOB_USE, of jobs whose use has changed or, while requests wait, that are there. The
 * acknowledgement has JOB_LEVEL of the same jobs, how far the job that is most ahead is and how
 * many jobs there are. The head acknowledges each; a node that hears nothing for 5 s takes the link
 * for dead and reconnects. */
/* `sequence` 0 of an acknowledgement: the head is there, and promises nothing (base/fence.h). */
#define CRTI_FIELDS_HEARTBEAT(F)                                                         \
    F(U64, sequence)                                                                     \
    F(ROOM, available) F(BIN, demand) F(U64, store_used) F(U64, workers)                  \
        F(U64, memory_used) F(U64, memory_bytes) F(U64, memory_ended) F(BIN, uses)    \
        F(U64, spilled_objects) F(U64, spilled_bytes) F(STR, spill_trouble)              \
        F(U64, lineage_bytes) F(U64, lineage_limit) F(U64, lineage_forgotten)            \
        F(BOOL, is_busy)
#define CRTI_FIELDS_HEARTBEAT_ACK(F) F(U64, sequence) F(BIN, levels) F(F64, ahead) F(U64, jobs)

/* In HEARTBEAT and its acknowledgement: node/leases/job_shares.h says what the fields mean. */
#define CRTI_FIELDS_JOB_USE(F)                                                           \
    F(ID, job) F(U64, weight) F(F64, spent) F(F64, level) F(I64, held)                   \
    F(BOOL, is_alone) F(BOOL, is_here)
#define CRTI_FIELDS_JOB_LEVEL(F) F(ID, job) F(F64, level) F(F64, spent) F(I64, elsewhere)

/* In the answer to STATE_QUERY "rest", of a process (then `node`, `held` and `requests` are empty)
 * and of a node: whether all that runs for the job there waits without a limit of time, or is
 * idle. `activity` counts up when something was done meanwhile; `awaits` are ids (16 bytes each) of
 * actors that others made and whose answers are waited for, and of processes whose objects are held
 * here; `held`: what the job has of the node; `requests`: LEASE_REQUESTs that wait there, one of
 * each shape, the youngest. */
#define CRTI_FIELDS_JOB_REST(F)                                                          \
    F(ID, job)                                                                           \
    F(ID, node) F(U64, round) F(U64, processes) F(BOOL, is_at_rest) F(U64, activity)     \
        F(BIN, awaits) F(RES, held) F(BIN, requests)

/* Notice, head to node: that request for a lease fails, if it still waits. */
#define CRTI_FIELDS_LEASE_REFUSE(F) F(ID, lease) F(I64, status) F(STR, text)

/* How the head sees a node; one that `is_drained` has nothing to offer. In NODE_VIEWS, and the
 * answer to NODE_FIND. */
#define CRTI_FIELDS_NODE_VIEW(F)                                                         \
    F(ID, node)                                                                          \
    F(STR, endpoint) F(RES, resources) F(ROOM, available) F(STR, labels) F(BOOL, is_drained)
/* In NODE_VIEWS: what is free on a node of which nothing else has changed. */
#define CRTI_FIELDS_NODE_ROOM(F) F(ID, node) F(ROOM, available)

/* Notice: what is new of the nodes of the cluster, the one that hears it among them; `rows` is a
 * list of encoded NODE_VIEW and NODE_ROOM. A node that registers hears of all, in one such message
 * or several: the first `begins`, the last `ends`. If then `is_complete`, no node is expected back,
 * and those that were not named are gone. From then on it hears what changes, gathered as
 * docs/design/control.md says. A node's death is NODE_DIED. */
#define CRTI_FIELDS_NODE_VIEWS(F)                                                        \
    F(BOOL, begins) F(BOOL, ends) F(BOOL, is_complete) F(BIN, rows)

/* Admin, or node, to head: the node takes no new work; what may move moves, what runs ends, copies
 * of what it stores are made elsewhere; then it ends, after `left_ms` at the latest. Answer: DONE
 * when that has begun, or ERROR. The same again sets the time anew. Notices: head to that node;
 * other nodes to their processes (left_ms 0), whose objects may be there. */
#define CRTI_FIELDS_NODE_DRAIN(F) F(ID, node) F(U64, left_ms)
#define CRTI_DRAIN_MAX_MS         (UINT64_C(30) * 86400 * 1000)

/* Head to node: make this actor's process. The node answers ACTOR_STARTED when the worker is
 * READY, or ERROR. `program` is the SHA-256; the node asks JOB_GET for the rest. */
#define CRTI_FIELDS_ACTOR_START(F)                                                       \
    F(ID, actor)                                                                         \
    F(U64, actor_incarnation) F(ID, job) F(STR, class_name) F(STR, name)                 \
        F(RES, resources) F(BOOL, fenced) F(BIN, creation) F(ID, group) F(I64, bundle)   \
            F(BIN, saved) F(BIN, environment)
#define CRTI_FIELDS_ACTOR_STARTED(F)                                                     \
    F(ID, actor) F(U64, actor_incarnation) F(I64, pid) CRTI_PEER(F)

/* Head to node: end it; `graceful` as in ACTOR_KILL. Answer: DONE when the process is gone. */
#define CRTI_FIELDS_ACTOR_STOP(F)                                                        \
    F(ID, actor) F(U64, actor_incarnation) F(STR, text) F(BOOL, graceful)

/* Head to node: reserve what a bundle needs. Answer: DONE, or ERROR CRT_ERR_BACKPRESSURE: there is
 * no room. The same incarnation again is the same reservation; a later one takes its place. */
#define CRTI_FIELDS_BUNDLE_RESERVE(F)                                                    \
    F(ID, group) F(U64, bundle) F(U64, incarnation) F(ID, job) F(RES, resources)
/* Notice, head to node: that reservation, and what runs in it, ends. Unknown ones are ignored. */
#define CRTI_FIELDS_BUNDLE_RETURN(F)                                                     \
    F(ID, group) F(U64, bundle) F(U64, incarnation) F(STR, text)
/* In NODE_REGISTER: a bundle that is reserved on the node. */
#define CRTI_FIELDS_BUNDLE_HELD(F) F(ID, group) F(U64, bundle) F(U64, incarnation)

/* Node to head: who is this node, that another process told of? Answer: NODE_VIEW, or ERROR
 * CRT_ERR_NODE_LOST when it died or never was. None for one that is expected back after a restart
 * of the head: NODE_VIEWS or NODE_DIED comes to all. */
#define CRTI_FIELDS_NODE_FIND(F) F(ID, node)

/* In NODE_REGISTER: an actor that runs on the node, or starts there: then its process is zero. */
#define CRTI_FIELDS_ACTOR_RUNNING(F)                                                     \
    F(ID, actor)                                                                         \
    F(U64, actor_incarnation) F(ID, job) F(STR, class_name) F(STR, name)                 \
        F(RES, resources) F(I64, pid) CRTI_PEER(F)

/* Node to head, after PEER_DIED of an actor's worker. `created` is false when its create
 * function failed: then it is not restarted. `ran_no_call` as in PEER_DIED. */
#define CRTI_FIELDS_ACTOR_DIED(F)                                                        \
    F(ID, actor)                                                                         \
    F(U64, actor_incarnation)                                                            \
    F(I64, status) F(STR, text) F(BOOL, created) F(BOOL, ran_no_call)

/* Node to head: a driver attached. `number` in the answer JOB_INFO. Idempotent by `job`. */
#define CRTI_FIELDS_JOB_ADD(F)                                                           \
    F(ID, job)                                                                           \
    F(ID, driver) F(ID, node) F(I64, pid) F(STR, submission) F(STR, entrypoint)          \
        F(STR, program) F(STR, sha) F(BIN, argv) F(BIN, environment) F(STR, directory)

/* Notice, node to head and head to all nodes: the driver ended; its actors (not detached ones)
 * and workers end. To the head, `text` is "" when it left on purpose; `has_exit`: `wait_status` (as
 * of waitpid) is known. */
#define CRTI_FIELDS_JOB_END(F) F(ID, job) F(STR, text) F(BOOL, has_exit) F(I64, wait_status)

/* Node to head: what is this job's program? Answer: JOB_INFO or ERROR CRT_ERR_NOT_FOUND.
 * `driver_node` has the executable `program` (path there, SHA-256 `sha`). */
#define CRTI_FIELDS_JOB_GET(F) F(ID, job)
#define CRTI_FIELDS_JOB_INFO(F)                                                          \
    F(ID, job)                                                                           \
    F(ID, driver) F(ID, driver_node) F(STR, program) F(STR, sha) F(BIN, argv)            \
        F(BIN, environment) F(STR, directory)

/* Head to a node: run a submitted job, which holds `resources` there until it has ended. The
 * executable lies in the content cache of node `source` as `sha`. ERROR CRT_ERR_BACKPRESSURE: there
 * is no room now. Answer: DONE when it runs, or ERROR. At its end: JOB_EXITED with the last lines
 * of its output, answered by DONE, and told again until it is. A submission id may be used again
 * when its job was deleted or forgotten: what runs is named by its job id. */
#define CRTI_FIELDS_JOB_START(F)                                                         \
    F(STR, submission)                                                                   \
    F(ID, job) F(STR, entrypoint) F(BIN, argv) F(STR, sha) F(BIN, environment)           \
        F(RES, resources) F(ID, source)
#define CRTI_FIELDS_JOB_EXITED(F) F(ID, job) F(I64, wait_status) F(STR, text)
/* Head to node (`job`), and admin to head (`submission`): SIGTERM to the whole process group,
 * SIGKILL after 3 s. Answer: DONE, or ERROR CRT_ERR_NOT_FOUND. */
#define CRTI_FIELDS_JOB_STOP(F) F(ID, job) F(STR, submission)
/* Notice, head to a node that ran a submitted job: its directory and log go. */
#define CRTI_FIELDS_JOB_FORGET(F) F(ID, job)

/* Reads a log file of a worker, an actor or "job:SUBMISSION" from `offset`; waits up to
 * `wait_ms` for more. The head names a job to its node by "job:HEX32", the job id. Answer:
 * LOG_DATA; `next` is the offset to go on from, `ended` when the process is gone and all was
 * read. `limit` 0: no bytes, `next` is where the log ends now. */
#define CRTI_FIELDS_LOG_READ(F) F(STR, name) F(U64, offset) F(U64, limit) F(U64, wait_ms)
#define CRTI_FIELDS_LOG_DATA(F) F(U64, next) F(BIN, data) F(BOOL, ended)

/* Notice, node to head: it stops in an orderly way. */
#define CRTI_FIELDS_NODE_LEAVE(F) F(STR, text)

/* ------------------------------------------------------------------ node link */

/* First message in both directions. */
#define CRTI_FIELDS_NODE_HELLO(F) F(U64, protocol) F(ID, node) F(U64, incarnation)

/* Asks for a part of an object. Answer: OBJECT_DATA, whose frame is followed by `length` raw bytes
 * on the stream (net/stream.h says how), ERROR CRT_ERR_NOT_FOUND, or OBJECT_ELSEWHERE: `node`
 * receives the object and gives it away meanwhile. `hops`: how often the asker was sent on so;
 * `direct`: send it on no more, and answer at once (node/objects/share_table.h). */
#define CRTI_FIELDS_OBJECT_GET(F)                                                        \
    F(OBJECT, object) F(U64, offset) F(U64, length) F(U64, hops) F(BOOL, direct)
#define CRTI_FIELDS_OBJECT_ELSEWHERE(F) F(OBJECT, object) F(ID, node)
/* Notice: the sender asks here for the object no more. */
#define CRTI_FIELDS_OBJECT_LEAVE(F) F(OBJECT, object)
/* Have a copy of the object, which `nodes` have, and keep it until it is freed. Answer: DONE or
 * ERROR. */
#define CRTI_FIELDS_OBJECT_KEEP(F) F(OBJECT, object) F(U64, size) F(BIN, nodes)
#define CRTI_FIELDS_OBJECT_DATA(F)                                                       \
    F(OBJECT, object) F(U64, offset) F(U64, length) F(U64, size)

/* The executable with that SHA-256, in parts, the same way. `program` is the path the driver
 * gave, tried when the content cache lacks it. */
#define CRTI_FIELDS_PROGRAM_GET(F)                                                       \
    F(STR, sha) F(STR, program) F(U64, offset) F(U64, length)
#define CRTI_FIELDS_PROGRAM_DATA(F) F(U64, offset) F(U64, length) F(U64, size)

/* ------------------------------------------------------------------ admin link */

/* How the `metadata` of a program's submission begins; a random token follows. The same metadata
 * again is the same submission. */
#define CRTI_JOB_TOKEN "{\"submission_token\":\""
/* Answer: DONE when it is durable and accepted (PENDING), ERROR CRT_ERR_EXISTS and so on.
 * `argv` has the program first; `sha` names the uploaded executable. `metadata` and `runtime_env`,
 * which is shown as it was given, are JSON. `resources` and `selector` (base/scheduling.h): where
 * it may run; without either on a node of the head's host. `retries`: how often it is run again
 * after it has failed. */
#define CRTI_FIELDS_JOB_SUBMIT(F)                                                        \
    F(STR, submission)                                                                   \
    F(STR, entrypoint) F(BIN, argv) F(STR, sha) F(BIN, environment) F(STR, metadata)     \
        F(STR, runtime_env) F(RES, resources) F(STR, selector) F(U64, retries)
#define CRTI_FIELDS_JOB_DELETE(F) F(STR, submission)

/* ------------------------------------------------------------------ group link */

/* First message of the member that dials: the group, the two members, with the
 * nonces of both from the group's roster. Answer: GROUP_WELCOME, or ERROR and the end. */
#define CRTI_FIELDS_GROUP_HELLO(F)                                                       \
    F(U64, protocol)                                                                     \
    F(STR, name) F(U64, incarnation) F(U64, rank) F(U64, nonce) F(U64, to_rank)          \
        F(U64, to_nonce)
#define CRTI_FIELDS_GROUP_WELCOME(F) F(U64, rank) F(U64, nonce)

/* A part of an operation, followed by `length` raw bytes. The first line says which operation:
 * `team` is a hash of the ranks that take part, `sequence` its number, `phase` the step of a
 * combined algorithm; then what the caller asked for (crt_collective.h; `peer` a rank of the
 * group or -1); `round` says which message of the algorithm it is. */
#define CRTI_FIELDS_GROUP_DATA(F)                                                        \
    F(U64, team)                                                                         \
    F(U64, sequence) F(U64, phase) F(U64, kind) F(U64, dtype) F(U64, reduction)          \
        F(U64, count) F(I64, peer) F(U64, round) F(U64, length)

/* Notices of send and receive. A send is offered, with its bytes behind it when it is small and
 * there is room (`length`; else 0), and taken when its receive has come, or its bytes are taken in
 * without one; the bytes of a large one follow then, and are receipted by TAKEN once more. */
#define CRTI_FIELDS_GROUP_OFFER(F)                                                       \
    F(U64, sequence) F(U64, dtype) F(U64, count) F(U64, length)
#define CRTI_FIELDS_GROUP_TAKEN(F) F(U64, sequence)
/* Notice: the sender waits, for nothing else, for the receive of its send of that number, or for
 * the send of its receive. It has finished the operation `done` of the whole group. */
#define CRTI_FIELDS_GROUP_WAITS(F) F(U64, kind) F(U64, sequence) F(U64, done)

/* Notice: the group has failed at the sender, which had finished the operation `done` of the whole
 * group before: up to that one all that it owes has been sent. `rank` is to blame, -1: none. */
#define CRTI_FIELDS_GROUP_ABORT(F) F(I64, status) F(I64, rank) F(U64, done) F(STR, text)

/* Notice: the sender has left the group in good order; its connection ends. */
#define CRTI_FIELDS_GROUP_LEAVE(F)

/* ------------------------------------------------------------------ rows of the control store */

/* What the head keeps in Redis (control/control.h), in this encoding so that what is read back is
 * checked like bytes from a peer. An actor has two rows: ACTOR_CREATE as it came, and what
 * changes. A job likewise. */
#define CRTI_FIELDS_ROW_META(F) F(ID, cluster) F(U64, head_incarnation) F(U64, jobs)
#define CRTI_FIELDS_ROW_NODE(F)                                                          \
    F(ID, node)                                                                          \
    F(U64, incarnation) F(U64, state) F(STR, ip) F(STR, hostname) F(STR, endpoint)       \
        F(I64, pid) F(BOOL, is_head_host) F(RES, resources) F(U64, store_bytes)          \
            F(I64, start_ms) F(I64, end_ms) F(STR, text) F(STR, labels)
#define CRTI_FIELDS_ROW_ACTOR(F)                                                         \
    F(ID, actor)                                                                         \
    F(U64, serial)                                                                       \
    F(U64, actor_incarnation) F(U64, state) F(U64, restarts) F(I64, status) F(STR, text) \
        F(I64, end_ms) CRTI_PEER(F)
#define CRTI_FIELDS_ROW_JOB(F)                                                           \
    F(ID, job)                                                                           \
    F(U64, number) F(STR, submission) F(STR, entrypoint) F(STR, program) F(STR, sha)     \
        F(BIN, argv) F(BIN, environment) F(STR, directory) F(STR, metadata)              \
            F(STR, runtime_env) F(RES, resources) F(STR, selector) F(U64, priority)      \
                F(U64, attempt) F(U64, retries) F(BIN, submitted)
#define CRTI_FIELDS_ROW_JOB_STATE(F)                                                     \
    F(ID, job)                                                                           \
    F(U64, state) F(ID, driver) F(ID, node) F(I64, pid) F(BOOL, stopping)                \
        F(BOOL, has_exit) F(I64, exit_code) F(STR, error_type) F(STR, text)              \
            F(I64, start_ms) F(I64, end_ms) F(BOOL, has_groups)                              \
                F(U64, node_incarnation)
#define CRTI_FIELDS_ROW_PLACEMENT_GROUP(F)                                               \
    F(ID, group)                                                                         \
    F(ID, job) F(STR, name) F(U64, strategy) F(BOOL, detached) F(I64, if_infeasible)     \
        F(U64, serial) F(U64, state) F(U64, incarnation) F(BIN, bundles) F(STR, name_space)

/* clang-format on */
#endif
