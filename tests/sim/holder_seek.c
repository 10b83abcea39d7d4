/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of a missing object are sought: what missing.c and copy_query.c do. See holder.h. */
#include "tests/sim/holder_int.h"

#include <stdlib.h>
#include <string.h>

/* Beside those of holder.c. */
enum { COPY_QUERY = 100, COPY_REPLY };

typedef struct record {
    uint64_t kind, number, request, is_theirs;
} record_t;

/* Somebody who has to answer for an object of ours; one who waits for our answer. */
typedef struct question {
    crti_list_t link; /* h->asked, h->questions */
    sim_peer_t *peer;
    record_t record;
} question_t;

#define QUESTION_OF(item) CRTI_CONTAINER(item, question_t, link)

static void add(crti_list_t *list, sim_peer_t *peer, const record_t *record)
{
    question_t *q = sim_zeroed(sizeof(*q));

    q->peer = peer;
    q->record = *record;
    crti_list_append(list, &q->link);
}

static void forget(question_t *q)
{
    crti_list_remove(&q->link);
    free(q);
}

/* ---------------------------------------------------------------- the owner */

static bool is_asked(const sim_holder_t *h, uint64_t request)
{
    CRTI_LIST_FOREACH (item, &h->asked) {
        if (QUESTION_OF(item)->record.request == request)
            return true;
    }
    return false;
}

static sim_ref_t *find_decided(const sim_holder_t *h)
{
    CRTI_LIST_FOREACH (item, &h->refs) {
        sim_ref_t *ref = SIM_REF_OF(item);

        if (ref->is_owned && ref->wanted && !ref->is_pulling && !is_asked(h, ref->wanted))
            return ref;
    }
    return NULL;
}

static void decide(void *user, uint64_t unused)
{
    sim_holder_t *h = user;
    sim_ref_t *ref;

    while (h->process.is_alive && (ref = find_decided(h)))
        sim_ref_give_up(h, ref->wanted);
}

void sim_seek_begin(sim_ref_t *ref)
{
    sim_holder_t *h = ref->holder;

    CRTI_LIST_FOREACH (item, &h->process.peers) {
        sim_peer_t *peer = SIM_PEER_OF(item);
        record_t seek = {COPY_QUERY, ref->id.number, ref->wanted,
                         !peer->session.initiator};

        if (!peer->has_ended && sim_peer_send(peer, &seek, sizeof(seek), true) == CRT_OK)
            add(&h->asked, peer, &seek);
    }
    sim_after(h->process.world, 0, decide, h, 0);
}

/* Of the question that was asked on the session that it names. */
static void on_sought(sim_holder_t *h, const sim_peer_t *peer, const record_t *answer)
{
    CRTI_LIST_FOREACH_SAFE (item, &h->asked) {
        question_t *q = QUESTION_OF(item);

        if (q->record.request == answer->request &&
            q->record.is_theirs == answer->is_theirs &&
            crti_id_equal(q->peer->session.config.peer, peer->session.config.peer))
            forget(q);
    }
    decide(h, 0);
}

/* ---------------------------------------------------------------- who is asked */

static void answer(sim_holder_t *h, question_t *q)
{
    crti_id_t owner = q->peer->session.config.peer;
    const sim_remote_t *r = crti_map_get(&h->by_process, &owner);
    record_t sought = q->record;

    sought.kind = COPY_REPLY;
    /* Behind the words of copies. */
    (void)sim_peer_send(r && r->peer ? r->peer : q->peer, &sought, sizeof(sought), true);
    forget(q);
}

static sim_ref_t *sought_ref(const sim_holder_t *h, const question_t *q)
{
    return sim_holder_ref(
        h, (crti_object_id_t){q->peer->session.config.peer, q->record.number});
}

void sim_seek_pulled(sim_holder_t *h)
{
    CRTI_LIST_FOREACH_SAFE (item, &h->questions) {
        question_t *q = QUESTION_OF(item);
        const sim_ref_t *ref = sought_ref(h, q);

        if (!ref || !ref->is_pulling)
            answer(h, q);
    }
    sim_after(h->process.world, 0, decide, h, 0); /* the pull may have been the owner's */
}

static void on_seek(sim_holder_t *h, sim_peer_t *peer, const record_t *seek)
{
    question_t *q;
    sim_ref_t *ref;

    add(&h->questions, peer, seek);
    q = QUESTION_OF(h->questions.prev);
    ref = sought_ref(h, q);
    if (ref && ref->is_pulling)
        return;
    if (ref && ref->content == SIM_VALUE && ref->is_stored && h->ops->has(h, ref->id))
        sim_send_copy(ref);
    answer(h, q);
}

bool sim_seek_record(sim_holder_t *h, sim_peer_t *peer, const void *data, size_t size)
{
    record_t record;

    if (size != sizeof(record))
        return false;
    memcpy(&record, data, sizeof(record));
    if (record.kind == COPY_QUERY)
        on_seek(h, peer, &record);
    else if (record.kind == COPY_REPLY)
        on_sought(h, peer, &record);
    return record.kind == COPY_QUERY || record.kind == COPY_REPLY;
}

/* ---------------------------------------------------------------- ends */

void sim_seek_lost(sim_holder_t *h, const sim_peer_t *peer)
{
    CRTI_LIST_FOREACH_SAFE (item, &h->asked) {
        if (QUESTION_OF(item)->peer == peer)
            forget(QUESTION_OF(item));
    }
    CRTI_LIST_FOREACH_SAFE (item, &h->questions) {
        if (QUESTION_OF(item)->peer == peer)
            forget(QUESTION_OF(item));
    }
    sim_after(h->process.world, 0, decide, h, 0);
}

void sim_seek_fini(sim_holder_t *h)
{
    while (!crti_list_is_empty(&h->asked))
        forget(QUESTION_OF(h->asked.next));
    while (!crti_list_is_empty(&h->questions))
        forget(QUESTION_OF(h->questions.next));
}
