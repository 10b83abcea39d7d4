/* SPDX-License-Identifier: Apache-2.0 */
/* Exchange: the messages of an operation, matched with what this member does.
 *
 * Where it sits
 *     ring.c, ring_*.c (algorithms), two_level.c -> [ exchange ] -> collective/links.h
 * Matching
 *     Each message carries the number and the signature of its operation. For the operation that
 *     runs here the signature is compared with ours: a difference fails
 *     the group, naming both. Of a later one it waits, and all behind it on that link: its bytes
 *     stay in the kernel, unless messages between two that go on may come behind it. Messages
 *     with bytes come from each member in the order in which they
 *     are received here; `round` says which it is, to be sure.
 * Threads
 *     That of links.
 * Failure
 *     The first failure of the group ends the operation; the other members get the reason, and no
 *     memory of the caller is used after that.
 */
#ifndef CRTI_COLLECTIVE_EXCHANGE_H
#define CRTI_COLLECTIVE_EXCHANGE_H

#include "collective/links.h"

typedef struct crti_exchange crti_exchange_t;

/* The operation that runs, as the caller asked for it. */
typedef struct crti_exchange_call {
    crt_collective_kind_t kind;
    crt_dtype_t dtype;
    crt_reduction_t reduction;
    uint64_t count;
    int peer; /* rank of the group, -1: none */
    /* Rank of the group whose first message to us waits for nobody else; -1: any. */
    int before;
    uint64_t sequence, phase, team;
    uint64_t deadline_ns;
} crti_exchange_call_t;

/* Bytes that are expected from a member. The caller's memory, until it has come. */
typedef struct crti_incoming {
    crti_list_t link;
    uint64_t round;
    unsigned char *data;
    size_t size, got;
} crti_incoming_t;

/* One per group and incarnation, shared by all backends of it. Caller owns the result and frees
 * it with crti_exchange_close. */
crt_status_t crti_exchange_open(crt_group_t *group, crti_exchange_t **exchange_out);
void crti_exchange_close(crti_exchange_t *x);

/* How many backends have opened it. */
unsigned crti_exchange_uses(const crti_exchange_t *x);

/* Connects with these ranks. */
crt_status_t crti_exchange_connect(crti_exchange_t *x, const int *ranks, int count,
                                   uint64_t deadline_ns);

/* Begins an operation. Every begin has its end. */
void crti_exchange_begin(crti_exchange_t *x, const crti_exchange_call_t *call);

/* Ends it: waits until everything was sent and the check is over. `status` is how it went so far.
 * After a wait that failed no incoming is used any more, and the others have the reason. */
crt_status_t crti_exchange_end(crti_exchange_t *x, crt_status_t status);

/* Every member compares its call with its neighbour's, in log2(n) rounds that run beside all
 * else: it ends when all members have called. `ranks`: the team, `rank` our index in it. */
void crti_exchange_check(crti_exchange_t *x, const int *ranks, int size, int rank);

/* Starts to receive or to send. Nothing happens for 0 bytes. `unsent` (may be NULL) counts sends
 * whose memory is still used. Failures show in the next wait. */
void crti_exchange_receive(crti_exchange_t *x, crti_incoming_t *incoming, int from,
                           uint64_t round, void *data, size_t size);
void crti_exchange_send(crti_exchange_t *x, int to, uint64_t round, const void *data,
                        size_t size, unsigned *unsent);

/* Until it has come, or nothing of it is unsent. */
crt_status_t crti_exchange_wait(crti_exchange_t *x, const crti_incoming_t *incoming);
crt_status_t crti_exchange_wait_sent(crti_exchange_t *x, const unsigned *unsent);
crt_status_t crti_exchange_wait_sent_all(crti_exchange_t *x);

/* The group has failed: sends the reason to the other members, once. */
void crti_exchange_report(crti_exchange_t *x);

/* Messages between two (crti_backend_t): `peer` is a rank of the group. */
crt_status_t crti_exchange_post(crti_exchange_t *x, crti_pair_t *pair);
crt_status_t crti_exchange_progress(crti_exchange_t *x);
/* Waits until one of the messages that the group awaits has ended. */
crt_status_t crti_exchange_await(crti_exchange_t *x, uint64_t deadline_ns);

#endif
