/* SPDX-License-Identifier: Apache-2.0 */
/* What the two files of the exchange share. */
#ifndef CRTI_COLLECTIVE_EXCHANGE_INT_H
#define CRTI_COLLECTIVE_EXCHANGE_INT_H

#include "collective/backends/exchange.h"

#define CHECK_ROUND                                                                      \
    ((uint64_t)1 << 62) /* rounds of the check; the rest is the algorithm's */

/* Bytes on their way to a member. */
typedef struct crti_exchange_outgoing {
    crti_list_t link; /* peer->outgoing, then peer->leaving */
    struct crti_peer_queue *peer;
    uint64_t round;
    const unsigned char *data;
    size_t size, at;  /* `at` bytes were given to the stream, */
    unsigned pieces;  /* in as many pieces that the system has not taken */
    unsigned *unsent; /* the caller's count */
} crti_exchange_outgoing_t;

/* A send that the member offered. */
typedef struct crti_offer {
    crti_list_t link;
    crti_msg_group_offer_t message;
    unsigned char *data; /* of a small one */
    bool is_here;        /* all of `data` */
} crti_offer_t;

/* All that is to and from one member. */
typedef struct crti_peer_queue {
    crti_exchange_t *x;
    int rank;
    crti_list_t incoming;     /* crti_incoming_t */
    crti_list_t outgoing;     /* crti_exchange_outgoing_t: not all given to the stream */
    crti_list_t leaving;      /* crti_exchange_outgoing_t: all given, not all taken */
    crti_incoming_t *current; /* whose bytes come right now */
    unsigned unsent;          /* in outgoing and leaving */
    bool is_feeding, is_held;
    uint64_t came_to; /* one more than the last operation that bytes of it came for */
    crti_msg_group_data_t held; /* a message of a later operation */

    /* send and receive */
    crti_list_t offers; /* crti_offer_t: not received yet, in order */
    unsigned offer_count;
    uint64_t offers_seen, sends, taken, receives; /* numbers so far */
} crti_peer_queue_t;

struct crti_exchange {
    crt_group_t *group;
    crti_links_t *links;
    unsigned uses;
    crti_peer_queue_t *peers; /* by rank */
    crti_list_t spare;        /* crti_exchange_outgoing_t */

    crti_exchange_call_t call;
    bool is_running, is_pair;
    /* Set while a send or receive waits: has that member acted? */
    bool (*can_go_on)(const crti_peer_queue_t *peer);
    int pair_waits;  /* the member that must act for a send or receive to go on; -1 */
    int lost;        /* a member that is needed and gone; -1 */
    unsigned unsent; /* of all peers */
    uint64_t done;
    struct {
        const int *ranks;
        int size, rank;
        int rounds, next;
        unsigned arrived; /* bit set of rounds */
    } check;
};

/* exchange_call.c */
/* The running operation as its messages say it. */
crti_msg_group_data_t crti_exchange_header(const crti_exchange_t *x);
/* As crti_operation_describe. */
const char *crti_exchange_describe(const crti_msg_group_data_t *m, char *text,
                                   size_t size);
crt_status_t crti_exchange_mismatch(crti_exchange_t *x, int rank,
                                    const crti_msg_group_data_t *theirs);
void crti_exchange_nonsense(crti_exchange_t *x, int rank, const char *what);

/* exchange.c */
crti_peer_queue_t *crti_exchange_use(crti_exchange_t *x, int rank);
void crti_exchange_look_again(crti_exchange_t *x);
crt_status_t crti_exchange_turn(crti_exchange_t *x);
/* The group has failed, with `status` unless it had failed before: the others get the reason, and nothing
 * of the caller's memory is used any more. Every failing wait has done it. */
crt_status_t crti_exchange_give_up(crti_exchange_t *x, crt_status_t status);

/* exchange_pair.c */
/* Fails the group when that member waits for a receive of ours that can't come. */
void crti_exchange_pair_check(crti_exchange_t *x, crti_peer_queue_t *peer);
/* GROUP_OFFER, GROUP_TAKEN. */
void crti_exchange_pair_message(crti_exchange_t *x, crti_peer_queue_t *peer,
                                crti_stream_t *stream, const crti_message_t *message);
void crti_exchange_pair_payload(crti_exchange_t *x, crti_peer_queue_t *peer);
/* A message of the send that is received here; may fail the group. */
bool crti_exchange_is_of_pair(crti_exchange_t *x, int rank,
                              const crti_msg_group_data_t *m);
void crti_exchange_pair_forget(crti_peer_queue_t *peer);

#endif
