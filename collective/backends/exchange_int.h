/* SPDX-License-Identifier: Apache-2.0 */
/* What the two files of the exchange share. */
#ifndef CRTI_COLLECTIVE_EXCHANGE_INT_H
#define CRTI_COLLECTIVE_EXCHANGE_INT_H

#include "collective/backends/exchange.h"

#define CRTI_EXCHANGE_PIECE ((size_t)512 << 10) /* bytes of a message of an operation */
#define CHECK_ROUND                                                                      \
    ((uint64_t)1 << 62) /* rounds of the check; the rest is the algorithm's */

/* Bytes on their way to a member. */
typedef struct crti_exchange_outgoing {
    crti_list_t link; /* peer->outgoing, then peer->leaving */
    struct crti_peer_queue *peer;
    uint64_t round;
    const unsigned char *data;
    size_t size, at;   /* `at` bytes were given to the stream, */
    unsigned pieces;   /* in as many pieces that the system has not taken */
    unsigned *unsent;  /* the caller's count */
    crti_pair_t *pair; /* whose bytes these are; NULL: of the operation that runs */
} crti_exchange_outgoing_t;

/* A send that the member offered, and that was not received yet. */
typedef struct crti_offer {
    crti_list_t link;
    crti_msg_group_offer_t message;
    /* of a small one, or of one that was taken in before its receive */
    unsigned char *data;
    bool is_here;     /* all of `data`, if there is any */
    crti_pair_t pair; /* that takes it in */
    bool is_taken;    /* by that */
} crti_offer_t;

/* A message of a later operation that was read all the same: see exchange_pair.c. */
typedef struct crti_ahead {
    crti_list_t link;
    crti_msg_group_data_t message;
    bool is_here;
    unsigned char data[];
} crti_ahead_t;

/* A send of ours that was offered and not taken yet. */
typedef struct crti_offered {
    crti_list_t link;
    uint64_t number;
    size_t eager;      /* bytes that went with the offer */
    crti_pair_t *pair; /* whose bytes did not */
    bool is_going, has_left;
} crti_offered_t;

/* All that is to and from one member. */
typedef struct crti_peer_queue {
    crti_exchange_t *x;
    int rank;
    crti_list_t incoming;     /* crti_incoming_t */
    crti_list_t outgoing;     /* crti_exchange_outgoing_t: not all given to the stream */
    crti_list_t leaving;      /* crti_exchange_outgoing_t: all given, not all taken */
    crti_incoming_t *current; /* whose bytes come right now */
    unsigned unsent;          /* in outgoing and leaving, but for messages between two */
    bool is_feeding, is_held;
    uint64_t came_to; /* one more than the last operation that bytes of it came for */
    crti_msg_group_data_t held; /* a message of a later operation */
    crti_list_t ahead;          /* crti_ahead_t */
    size_t ahead_bytes;

    /* Messages between two: crti_pair_t */
    crti_list_t sends; /* not offered yet */
    /* whose bytes were given to the stream; the system has not taken all */
    crti_list_t unflushed;
    crti_list_t placed;   /* offered without; also while their bytes leave */
    crti_list_t receives; /* that no offer has come for */
    crti_list_t arriving; /* whose bytes come, in this order */
    crti_list_t offers;   /* crti_offer_t, in order */
    crti_list_t offered;  /* crti_offered_t, in order */
    crti_pair_t *current_pair;
    size_t eager_out,
        eager_in; /* bytes of small ones that were not received: of ours, of its */
    size_t offer_count;
    uint64_t sends_posted, receives_posted, offers_seen; /* numbers of the last */
    crti_msg_group_waits_t waits; /* what it said last; kind 0: nothing */
} crti_peer_queue_t;

struct crti_exchange {
    crt_group_t *group;
    crti_links_t *links;
    unsigned uses;
    crti_peer_queue_t *peers; /* by rank */
    crti_list_t spare;        /* crti_exchange_outgoing_t */

    crti_exchange_call_t call;
    bool is_running;  /* an operation of the group */
    bool is_awaiting; /* messages: group->awaits */
    int connects_to;  /* the member that must act for the opening to go on; -1 */
    int lost;         /* a member that is needed and gone; -1 */
    unsigned unsent;  /* of all peers */
    /* The last operation ended long ago: others may have given up meanwhile, this one. */
    bool was_away;
    uint64_t ended_ns;
    /* When the running operation says for whom it waits; UINT64_MAX: it does not. */
    uint64_t tell_at_ns;
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
/* The same of a message between two. */
crti_msg_group_data_t crti_exchange_pair_header(const crti_pair_t *pair);
/* As crti_operation_describe. */
const char *crti_exchange_describe(const crti_msg_group_data_t *m, char *text,
                                   size_t size);
crt_status_t crti_exchange_mismatch(crti_exchange_t *x, int rank,
                                    const crti_msg_group_data_t *mine,
                                    const crti_msg_group_data_t *theirs);
void crti_exchange_nonsense(crti_exchange_t *x, int rank, const char *what);

/* exchange.c */
crti_peer_queue_t *crti_exchange_use(crti_exchange_t *x, int rank);
void crti_exchange_look_again(crti_exchange_t *x);
crt_status_t crti_exchange_turn(crti_exchange_t *x);
/* The group has failed, with `status` unless it had failed before: the others get the reason, and
 * nothing of the caller's memory is used any more. Every failing wait has done it. */
crt_status_t crti_exchange_give_up(crti_exchange_t *x, crt_status_t status);

/* Starts to send to a member; without bytes: before what has some. */
void crti_exchange_queue(crti_exchange_t *x, int to, uint64_t round, const void *data,
                         size_t size, unsigned *unsent);
/* Waits for an event, at most until `until_ns`. */
crt_status_t crti_exchange_turn_until(crti_exchange_t *x, uint64_t until_ns);
/* The bytes of a message leave, before those of the operation that runs. */
void crti_exchange_send_pair(crti_exchange_t *x, crti_peer_queue_t *peer,
                             crti_pair_t *pair);
/* A message of the operation that runs is at this place, or must wait: see exchange.c. */
typedef enum crti_verdict { CRTI_TAKE, CRTI_LATER, CRTI_WRONG } crti_verdict_t;
crti_verdict_t crti_exchange_judge(crti_exchange_t *x, crti_peer_queue_t *peer,
                                   const crti_msg_group_data_t *m);

/* exchange_check.c */
/* Begins it, of `size` members, of which this is `rank`; how many rounds it has. The message of
 * round 0 is due. */
int crti_exchange_check_begin(crti_exchange_t *x, const int *ranks, int size, int rank);
/* The member that gets this one's message of a round, and the one whose message comes. */
int crti_exchange_check_to(const crti_exchange_t *x, int round);
int crti_exchange_check_from(const crti_exchange_t *x, int round);
/* A message of the check; false: it is none of ours. */
bool crti_exchange_check_arrived(crti_exchange_t *x, int rank, uint64_t round);
/* The next message that is due since one has arrived; false: none. */
bool crti_exchange_check_due(crti_exchange_t *x, int *to_out, uint64_t *round_out);
bool crti_exchange_check_waits_for(const crti_exchange_t *x, int rank);

/* exchange_pair.c */
/* Takes what was read ahead and belongs to what runs now. */
void crti_exchange_take_ahead(crti_exchange_t *x, crti_peer_queue_t *peer);
/* A message that belongs to nothing that runs: waits, in the kernel or here. */
void crti_exchange_set_aside(crti_exchange_t *x, crti_peer_queue_t *peer,
                             crti_stream_t *stream, const crti_msg_group_data_t *m);
/* What messages between two need comes behind what is held: it is read. */
void crti_exchange_read_ahead(crti_exchange_t *x, crti_peer_queue_t *peer);
/* True: the payload was of one that is read ahead. */
bool crti_exchange_ahead_payload(crti_peer_queue_t *peer);
/* GROUP_OFFER, GROUP_TAKEN, GROUP_WAITS. */
void crti_exchange_pair_message(crti_exchange_t *x, crti_peer_queue_t *peer,
                                crti_stream_t *stream, const crti_message_t *message);
/* GROUP_DATA of a send. */
void crti_exchange_pair_data(crti_exchange_t *x, crti_peer_queue_t *peer,
                             crti_stream_t *stream, const crti_msg_group_data_t *m);
void crti_exchange_pair_payload(crti_exchange_t *x, crti_peer_queue_t *peer, size_t size);
/* Its bytes have left. */
void crti_exchange_pair_sent(crti_exchange_t *x, crti_pair_t *pair);
/* There is a link, or room in it. */
void crti_exchange_pair_offer(crti_exchange_t *x, crti_peer_queue_t *peer);
/* Fails the group when that member waits for something of ours that can't come. */
void crti_exchange_pair_check(crti_exchange_t *x, crti_peer_queue_t *peer);
/* Before we leave in good order: a connection that is closed with something unread takes what is
 * still on its way with it. */
void crti_exchange_pair_settle(crti_exchange_t *x);
/* Forgets all messages to and from it. */
void crti_exchange_pair_forget(crti_exchange_t *x, crti_peer_queue_t *peer);
/* One of those that are awaited has ended. */
bool crti_exchange_pair_has_come(const crti_exchange_t *x);
/* Some to or from that member have not ended. */
bool crti_exchange_pair_is_busy(const crti_peer_queue_t *peer);
/* A message that is awaited needs that member to act. */
bool crti_exchange_pair_needs(const crti_exchange_t *x, int rank);

#endif
