/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of net share: a private directory and key, a net of this process that collects
 * what it receives, and serving child processes.
 *
 * A child obeys the first byte of each record:
 *     e  echo it                          b  compute (no crt call) for u32 ms, then echo
 *     c  count it, no answer              n  answer with the count of records so far (u64)
 *     k  kill itself with SIGKILL         h  keep it unconsumed until an r
 * r (sent as a control record) gives the kept ones back. j is an e whose number is written down in
 * the journal when it is delivered, so that what ran is known whatever becomes of the child.
 */
#ifndef CRTI_TESTS_NET_FIXTURE_H
#define CRTI_TESTS_NET_FIXTURE_H

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/types.h>

#include "runtime/base/clock.h"
#include "runtime/net/net.h"

#include <cmocka.h>

#define DEADLINE (crti_now_ns() + 20 * CRTI_S)

typedef struct fixture {
    char dir[64];
    unsigned char key[32];
    crti_id_t here, elsewhere; /* node ids */
} fixture_t;

#define JOURNAL_MAX 65536

/* A file in the directory, mapped by all. */
typedef struct journal {
    _Atomic uint64_t count;
    uint64_t entry[JOURNAL_MAX]; /* incarnation << 32 | number */
} journal_t;

typedef struct child {
    pid_t pid;
    int lifeline; /* closing it ends the child */
    crti_address_t address;
} child_t;

typedef struct party {
    crti_net_t *net;
    size_t count, bytes; /* records received */
    char *last;          /* copy of the last one */
    size_t last_size;
    uint64_t next_number; /* of numbered records: what must come next */
    bool out_of_order;
    int lost, rooms; /* how often a peer was lost, a window had room again */
    crt_status_t loss_status;
    uint64_t acked, handed;
    char loss_detail[256];
    size_t target;
} party_t;

/* The main of a test program: all tests, or those whose names match the argument (* and ?), or
 * a child. */
int fixture_main(int argc, char **argv, const struct CMUnitTest *tests, size_t count);

void fixture_init(fixture_t *f);
void fixture_fini(fixture_t *f);

/* Made by the first who opens it. */
journal_t *journal_open(const fixture_t *f);
void journal_close(journal_t *journal);

/* tcp: binds 127.0.0.1 as well, and lives on another node than the party. */
void child_start(fixture_t *f, bool tcp, child_t *child);

/* The same with the process id and incarnation of an address. */
void child_start_as(fixture_t *f, bool tcp, crti_id_t process, uint64_t incarnation,
                    child_t *child);

/* Ends it and reaps it, once; checks that it left cleanly unless it was killed. */
void child_stop(child_t *child);
void child_kill(child_t *child);

void party_start(fixture_t *f, bool tcp, size_t window, party_t *party);
/* Like a worker: its progress thread comes when it is needed. No sessions. */
void party_start_late(fixture_t *f, party_t *party);
void party_stop(party_t *party);
/* A pipe whose every byte counts, in `party->count`, until party_unwatch. With the lock held. */
void party_watch(party_t *party, int fds[2]);
void party_unwatch(party_t *party, const int fds[2]);

/* With the lock held. Each asserts that it works within the deadline. */
void party_send(party_t *party, crti_peer_t *peer, char what, const void *data,
                size_t size);
void party_wait_count(party_t *party, size_t count);
void party_wait_lost(party_t *party, int lost);
crti_peer_t *party_connect(party_t *party, const crti_address_t *to);

/* A party that is connected to a child. */
typedef struct pair {
    fixture_t f;
    child_t child;
    party_t party;
    crti_peer_t *peer;
} pair_t;

void pair_open(pair_t *s, bool tcp, size_t window);
/* The child is stopped, unless it was. */
void pair_close(pair_t *s);

/* Echoes `count` numbered records with `extra` more bytes each and checks their order. */
void party_stream(party_t *party, crti_peer_t *peer, size_t count, size_t extra);

int open_files(void);

#endif
