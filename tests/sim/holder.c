/* SPDX-License-Identifier: Apache-2.0 */
/* Records, calls, losses and deaths: what dispatch.c, deaths.c, outgoing.c and incoming.c do. See
 * holder.h. */
#include "tests/sim/holder.h"

#include <stdlib.h>
#include <string.h>

#include "tests/sim/holder_int.h"

typedef enum kind {
    CALL,
    REPLY,
    LOCATE,
    LOCATED,
    BORROW,
    BORROWED,
    RELEASE,
    COPY
} kind_t;

typedef struct message {
    uint64_t kind, number, request;
    bool is_failed, is_stored, is_gone;
    crt_status_t status; /* failed */
    crti_id_t process;   /* BORROW: on behalf of */
    /* BORROW, RELEASE: of so many objects; BORROWED: these are gone */
    uint64_t object_count, objects[SIM_BATCH], tokens_of[SIM_BATCH];
    uint64_t node_count, ref_count;
    crti_id_t nodes[4];
    sim_name_t refs[SIM_REFS];
} message_t;

/* A BORROW of several refs, for ourselves or on behalf of who gets our result; or a RELEASE. */
typedef struct request {
    crti_list_t link; /* remote->open, then, a BORROW, remote->borrowing */
    message_t m;
    sim_ref_t *refs[SIM_BATCH]; /* BORROW: held */
    bool *is_void[SIM_BATCH];   /* on behalf */
    sim_ending_t *ending;       /* BORROW: waits for the answer, may be NULL */
} request_t;

typedef struct locator {
    crti_list_t link;
    sim_peer_t *peer;
    crti_object_id_t id;
} locator_t;

/* ---------------------------------------------------------------- remotes */

static sim_remote_t *find_remote(const sim_holder_t *h, crti_id_t id)
{
    return crti_map_get(&h->by_process, &id);
}

sim_remote_t *sim_holder_remote(sim_holder_t *h, crti_id_t id, unsigned place)
{
    sim_remote_t *r = find_remote(h, id);

    if (r && r->place == SIM_NOWHERE)
        r->place = place;
    if (r)
        return r;
    r = sim_zeroed(sizeof(*r));
    r->id = id;
    r->incarnation = 1;
    r->place = place;
    crti_list_init(&r->in_flight);
    crti_list_init(&r->borrowing);
    crti_list_init(&r->open);
    crti_list_append(&h->remotes, &r->link);
    if (crti_map_put(&h->by_process, &id, r) != CRT_OK)
        abort();
    return r;
}

static bool send_on(sim_peer_t *peer, const message_t *m)
{
    size_t size = offsetof(message_t, refs) + m->ref_count * sizeof(m->refs[0]);

    return sim_peer_send(peer, m, size, m->kind != CALL && m->kind != REPLY) == CRT_OK;
}

/* On the session that we made. False: it certainly was not sent. */
static bool send_to(sim_holder_t *h, sim_remote_t *r, const message_t *m)
{
    if (r->is_dead)
        return false;
    if (!r->peer) {
        r->peer = sim_process_dial(&h->process, r->place, r->id, r->incarnation);
        r->peer->user = r;
        h->ops->watch(h, r->id);
    }
    return send_on(r->peer, m);
}

/* The process that will hold an object of ours: its death must end its registration. */
static void watch_borrower(sim_holder_t *h, crti_id_t process)
{
    if (crti_id_equal(process, h->process.id))
        return;
    sim_holder_remote(h, process, SIM_NOWHERE);
    h->ops->watch(h, process);
}

/* ---------------------------------------------------------------- registrations */

/* What is requested of an owner at a time goes in one record, as far as there is room in it, and
 * BORROW goes first: see core/refs/owner_requests.h. */

static request_t *request_of(crti_list_t *item)
{
    return CRTI_CONTAINER(item, request_t, link);
}

static void end_request(sim_holder_t *h, request_t *r, const message_t *answer);

static void close_open(sim_holder_t *h, sim_remote_t *owner)
{
    crti_list_t *item;

    while ((item = crti_list_pop(&owner->open))) {
        request_t *r = request_of(item);
        bool is_sent = send_to(h, owner, &r->m);

        if (r->m.kind == BORROW && is_sent) {
            crti_list_append(&owner->borrowing, &r->link);
        } else {
            if (r->m.kind == BORROW)
                end_request(h, r, NULL);
            free(r);
        }
    }
}

void sim_requests_gather(sim_holder_t *h)
{
    h->gathers++;
}

void sim_requests_send(sim_holder_t *h)
{
    if (--h->gathers > 0)
        return;
    CRTI_LIST_FOREACH (item, &h->remotes) {
        sim_remote_t *r = CRTI_CONTAINER(item, sim_remote_t, link);

        /* Nobody waits for a RELEASE: those that follow may join it. */
        if (crti_list_is_empty(&r->borrowing) ||
            (!crti_list_is_empty(&r->open) && request_of(r->open.next)->m.kind == BORROW))
            close_open(h, r);
    }
}

static bool has_room(const request_t *r, crti_id_t process, const sim_ending_t *ending)
{
    return r->m.object_count < SIM_BATCH && crti_id_equal(r->m.process, process) &&
           r->ending == ending;
}

/* An object more in the request of that kind. */
static request_t *request(sim_ref_t *ref, kind_t kind, crti_id_t process,
                          sim_ending_t *ending)
{
    sim_holder_t *h = ref->holder;
    sim_remote_t *owner = ref->owner;
    request_t *r = NULL;

    CRTI_LIST_FOREACH (item, &owner->open) {
        if (request_of(item)->m.kind == kind)
            r = request_of(item);
    }
    if (r && !has_room(r, process, ending)) {
        close_open(h, owner);
        r = NULL;
    }
    if (!r) {
        r = sim_zeroed(sizeof(*r));
        r->m =
            (message_t){.kind = kind, .process = process, .request = h->next_request++};
        r->ending = ending;
        if (ending)
            ending->waits++;
        crti_list_append(kind == BORROW ? owner->open.next : &owner->open, &r->link);
    }
    r->m.number = r->m.objects[r->m.object_count++] = ref->id.number;
    return r;
}

static void borrow(sim_ref_t *ref, crti_id_t process, sim_ending_t *ending, bool *is_void)
{
    request_t *r = request(ref, BORROW, process, ending);

    sim_ref_hold(ref);
    r->refs[r->m.object_count - 1] = ref;
    r->is_void[r->m.object_count - 1] = is_void;
}

void sim_send_borrow(sim_ref_t *ref, sim_ending_t *ending)
{
    sim_requests_gather(ref->holder);
    if (ref->owner->is_dead)
        sim_ref_owner_answered(ref, true);
    else
        borrow(ref, (crti_id_t){0, 0}, ending, NULL);
    sim_requests_send(ref->holder);
}

static bool is_gone(const message_t *answer, uint64_t number)
{
    for (uint64_t i = 0; answer && i < answer->object_count; i++)
        if (answer->objects[i] == number)
            return true;
    return !answer;
}

/* NULL: the owner is gone. */
static void end_request(sim_holder_t *h, request_t *r, const message_t *answer)
{
    sim_requests_gather(h);
    for (uint64_t i = 0; i < r->m.object_count; i++) {
        sim_ref_t *ref = r->refs[i];
        bool gone = is_gone(answer, ref->id.number);

        if (r->is_void[i])
            *r->is_void[i] = gone;
        else
            sim_ref_owner_answered(ref, gone);
        sim_ref_release(ref);
    }
    if (r->ending)
        sim_ending_done(r->ending);
    sim_requests_send(h);
}

static void end_borrowing(sim_holder_t *h, sim_remote_t *owner)
{
    crti_list_t *item;

    close_open(h, owner);
    while ((item = crti_list_pop(&owner->borrowing))) {
        end_request(h, request_of(item), NULL);
        free(request_of(item));
    }
}

void sim_send_release(sim_ref_t *ref)
{
    request_t *r;

    if (ref->owner->is_dead)
        return;
    sim_requests_gather(ref->holder);
    r = request(ref, RELEASE, (crti_id_t){0, 0}, NULL);
    r->m.tokens_of[r->m.object_count - 1] = ref->borrow.tokens;
    sim_requests_send(ref->holder);
}

void sim_send_locate(sim_ref_t *ref)
{
    message_t m = {.kind = LOCATE, .number = ref->id.number};

    if (send_to(ref->holder, ref->owner, &m))
        ref->is_locating = true;
    else
        sim_ref_fail(ref, CRT_ERR_OWNER_DIED);
}

void sim_send_copy(sim_ref_t *ref)
{
    sim_holder_t *h = ref->holder;
    message_t m = {.kind = COPY, .number = ref->id.number, .process = h->ops->node_id(h)};

    h->ops->on_copy(h, ref->id);
    if (ref->is_owned)
        sim_ref_copied(ref, m.process);
    else
        send_to(h, ref->owner, &m);
}

/* ---------------------------------------------------------------- calls out */

sim_ref_t *sim_holder_put(sim_holder_t *h, sim_ref_t *const *inner, unsigned count,
                          bool is_stored)
{
    sim_ref_t *ref = sim_ref_new(h);

    ref->inner_is_held = true;
    for (unsigned i = 0; i < count; i++) {
        sim_ref_hold(inner[i]);
        ref->inner[ref->inner_count++] = inner[i];
    }
    if (is_stored)
        h->ops->store(h, ref->id);
    sim_ref_set_value(ref, is_stored, h->ops->node_id(h));
    return ref;
}

sim_ref_t *sim_holder_send_call(sim_holder_t *h, sim_remote_t *to, sim_ref_t *const *args,
                                unsigned count)
{
    sim_ref_t *ref = sim_ref_new(h);
    message_t m = {.kind = CALL, .number = ref->id.number, .ref_count = count};
    sim_pending_t *p;

    for (unsigned i = 0; i < count; i++)
        m.refs[i] = sim_ref_name(args[i]);
    if (!send_to(h, to, &m)) {
        sim_ref_fail(ref, CRT_ERR_WORKER_DIED);
        return ref;
    }
    p = sim_zeroed(sizeof(*p));
    p->number = ref->id.number;
    p->result = ref;
    sim_ref_hold(ref);
    for (unsigned i = 0; i < count; i++) {
        sim_ref_pin(args[i]);
        p->pins[p->pin_count++] = args[i];
    }
    crti_list_append(&to->in_flight, &p->link);
    return ref;
}

/* It was answered or lost; its result has its content. */
static void end_pending(sim_pending_t *p)
{
    crti_list_remove(&p->link);
    for (unsigned i = 0; i < p->pin_count; i++)
        sim_ref_unpin(p->pins[i]);
    sim_ref_release(p->result);
    free(p);
}

static void on_reply(sim_holder_t *h, sim_remote_t *r, const message_t *m)
{
    CRTI_LIST_FOREACH (item, &r->in_flight) {
        sim_pending_t *p = CRTI_CONTAINER(item, sim_pending_t, link);

        if (p->number != m->number)
            continue;
        if (!m->is_failed && sim_inner_open(p->result, m->refs, m->ref_count, &r->id)) {
            sim_ref_set_value(p->result, m->is_stored, m->nodes[0]);
        } else {
            if (m->is_stored)
                h->ops->unstore(h, p->result->id, m->nodes[0]);
            sim_ref_fail(p->result, CRT_ERR_USER);
        }
        end_pending(p);
        return;
    }
    sim_fail(h->process.world, "an answer to no call");
}

/* ---------------------------------------------------------------- calls in */

sim_call_t *sim_holder_call(const sim_holder_t *h, uint64_t serial)
{
    CRTI_LIST_FOREACH (item, &h->calls) {
        if (SIM_CALL_OF(item)->serial == serial)
            return SIM_CALL_OF(item);
    }
    return NULL;
}

static void on_call(sim_holder_t *h, sim_peer_t *peer, const message_t *m)
{
    sim_call_t *call = sim_zeroed(sizeof(*call));
    bool is_lost = false;

    call->holder = h;
    call->serial = h->ops->serial(h);
    call->number = m->number;
    call->caller = peer->session.config.peer;
    call->caller_place = peer->place;
    call->peer = peer;
    crti_list_append(&h->calls, &call->link);
    for (uint64_t i = 0; i < m->ref_count; i++) {
        sim_ref_t *ref = sim_ref_arrive(h, &m->refs[i]);

        if (!ref && !h->ops->may_lose(h))
            sim_fail(h->process.world, "an argument of ours was freed under a call");
        is_lost = is_lost || !ref;
        if (!ref)
            continue;
        sim_ref_cover(ref);
        call->arg_ids[call->arg_count] = ref->id;
        call->args[call->arg_count++] = ref;
    }
    if (is_lost) /* who gave it to the caller died before the caller was registered */
        sim_call_finish(call, NULL, 0, false, true);
    else
        h->ops->on_call(h, call);
}

static void reply(sim_ending_t *ending)
{
    sim_call_t *call = CRTI_CONTAINER(ending, sim_call_t, ending);
    sim_holder_t *h = call->holder;
    message_t m = {.kind = REPLY,
                   .number = call->number,
                   .is_failed = call->is_failed,
                   .is_stored = call->is_stored,
                   .nodes = {h->ops->node_id(h)},
                   .ref_count = call->result_count};

    for (unsigned i = 0; i < call->result_count; i++) {
        m.refs[i] = sim_ref_name(call->results[i]);
        m.refs[i].is_void = call->is_void[i];
    }
    if (call->peer)
        send_on(call->peer, &m);
    crti_list_remove(&call->link);
    sim_requests_gather(h);
    for (unsigned i = 0; i < call->result_count; i++)
        sim_ref_release(call->results[i]);
    sim_requests_send(h);
    free(call);
}

/* Before the reply the caller is registered with the owner of each ref in it. */
static void register_caller(sim_call_t *call, unsigned index)
{
    sim_ref_t *ref = call->results[index];
    sim_holder_t *h = call->holder;

    call->is_void[index] = true;
    if (!call->peer)
        return;
    if (ref->is_owned) {
        if (crti_owned_borrow(&ref->owned, call->caller) != CRT_OK)
            abort();
        watch_borrower(h, call->caller);
        h->ops->on_grant(h, ref, call->caller, h->process.id);
        call->is_void[index] = false;
        return;
    }
    if (ref->borrow.state == CRTI_BORROW_ORPHANED)
        return;
    if (!ref->owner->is_dead)
        borrow(ref, call->caller, &call->ending, &call->is_void[index]);
}

void sim_call_finish(sim_call_t *call, sim_ref_t *const *results, unsigned count,
                     bool is_stored, bool is_failed)
{
    sim_holder_t *h = call->holder;

    call->ending = (sim_ending_t){1, reply};
    call->is_ending = true;
    call->is_failed = is_failed;
    call->is_stored = is_stored && !is_failed;
    for (unsigned i = 0; i < count && !is_failed; i++) {
        sim_ref_hold(results[i]);
        call->results[call->result_count++] = results[i];
    }
    if (call->is_stored)
        h->ops->store(h, (crti_object_id_t){call->caller, call->number});
    sim_requests_gather(h);
    for (unsigned i = 0; i < call->result_count; i++)
        register_caller(call, i);
    for (unsigned i = 0; i < call->arg_count; i++)
        sim_ref_uncover(call->args[i], &call->ending);
    sim_ending_done(&call->ending);
    sim_requests_send(h);
}

/* ---------------------------------------------------------------- objects of ours */

static void answer_located(sim_holder_t *h, sim_peer_t *peer, uint64_t number,
                           sim_ref_t *ref)
{
    message_t m = {.kind = LOCATED, .number = number, .is_failed = true};

    m.status = ref ? ref->status : CRT_ERR_OBJECT_LOST;
    if (ref && ref->content == SIM_VALUE) {
        m.is_failed = false;
        m.is_stored = ref->is_stored;
        crti_owned_tell(&ref->owned);
        for (uint32_t i = 0; i < ref->owned.node_count && i < 4; i++)
            m.nodes[m.node_count++] = ref->owned.nodes[i];
        for (unsigned i = 0; i < ref->inner_count; i++)
            m.refs[m.ref_count++] = sim_ref_name(ref->inner[i]);
    }
    m.is_gone = !ref;
    send_on(peer, &m);
}

void sim_answer_locators(sim_ref_t *ref)
{
    CRTI_LIST_FOREACH_SAFE (item, &ref->holder->locators) {
        locator_t *l = CRTI_CONTAINER(item, locator_t, link);

        if (!crti_object_id_equal(l->id, ref->id))
            continue;
        answer_located(ref->holder, l->peer, ref->id.number, ref);
        crti_list_remove(&l->link);
        free(l);
    }
}

static void on_locate(sim_holder_t *h, sim_peer_t *peer, crti_object_id_t id)
{
    sim_ref_t *ref = sim_holder_ref(h, id);
    locator_t *l;

    if (!ref || ref->content != SIM_NONE) {
        answer_located(h, peer, id.number, ref);
        return;
    }
    l = sim_zeroed(sizeof(*l));
    *l = (locator_t){.peer = peer, .id = id};
    crti_list_append(&h->locators, &l->link);
    sim_ref_wanted(ref);
}

static void on_borrow(sim_holder_t *h, sim_peer_t *peer, const message_t *m)
{
    crti_id_t sender = peer->session.config.peer;
    bool is_behalf = !crti_id_is_zero(m->process);
    crti_id_t process = is_behalf ? m->process : sender;
    const sim_remote_t *r = find_remote(h, process);
    message_t answer = {.kind = BORROWED, .request = m->request};

    for (uint64_t i = 0; i < m->object_count; i++) {
        sim_ref_t *ref =
            sim_holder_ref(h, (crti_object_id_t){h->process.id, m->objects[i]});

        if (!ref || (r && r->is_dead)) {
            answer.objects[answer.object_count++] = m->objects[i];
            continue;
        }
        if (crti_owned_borrow(&ref->owned, process) != CRT_OK)
            abort();
        watch_borrower(h, process);
        if (is_behalf)
            h->ops->on_grant(h, ref, process, sender);
    }
    send_on(peer, &answer);
}

static void on_release(sim_holder_t *h, const sim_peer_t *peer, const message_t *m)
{
    sim_requests_gather(h);
    for (uint64_t i = 0; i < m->object_count; i++) {
        sim_ref_t *ref =
            sim_holder_ref(h, (crti_object_id_t){h->process.id, m->objects[i]});

        if (ref)
            sim_ref_released(ref, peer->session.config.peer, m->tokens_of[i]);
    }
    sim_requests_send(h);
}

static void from_caller(sim_holder_t *h, sim_peer_t *peer, const message_t *m)
{
    static const char *const names[] = {"CALL",   "REPLY",    "LOCATE",  "LOCATED",
                                        "BORROW", "BORROWED", "RELEASE", "COPY"};

    sim_note(h->process.world, "    %u -> %u: %s of object %llu", peer->place,
             h->process.place, names[m->kind], (unsigned long long)m->number);
    crti_object_id_t id = {h->process.id, m->number};
    sim_ref_t *ref = sim_holder_ref(h, id);

    switch (m->kind) {
    case CALL: on_call(h, peer, m); break;
    case LOCATE: on_locate(h, peer, id); break;
    case BORROW: on_borrow(h, peer, m); break;
    case RELEASE: on_release(h, peer, m); break;
    case COPY:
        if (ref)
            sim_ref_copied(ref, m->process);
        else /* freed meanwhile, and so is the copy */
            h->ops->unstore(h, id, m->process);
        break;
    default: sim_fail(h->process.world, "an answer from a caller");
    }
}

/* ---------------------------------------------------------------- answers */

static void on_located(sim_holder_t *h, sim_remote_t *r, const message_t *m)
{
    sim_ref_t *ref = sim_holder_ref(h, (crti_object_id_t){r->id, m->number});

    if (!ref || !ref->is_locating)
        return;
    ref->is_locating = false;
    if (m->is_failed) {
        sim_ref_fail(ref, m->status);
        return;
    }
    ref->name_count = (unsigned)m->ref_count;
    ref->node_count = (unsigned)m->node_count;
    memcpy(ref->names, m->refs, sizeof(m->refs));
    memcpy(ref->nodes, m->nodes, sizeof(m->nodes));
    if (!m->is_stored || h->ops->has(h, ref->id)) {
        sim_ref_set_value(ref, m->is_stored, (crti_id_t){0, 0});
        return;
    }
    ref->is_pulling = true;
    h->ops->pull(h, ref);
}

static void on_borrowed(sim_holder_t *h, sim_remote_t *r, const message_t *m)
{
    CRTI_LIST_FOREACH (item, &r->borrowing) {
        if (request_of(item)->m.request != m->request)
            continue;
        crti_list_remove(item);
        end_request(h, request_of(item), m);
        free(request_of(item));
        break;
    }
    if (crti_list_is_empty(&r->borrowing))
        close_open(h, r);
}

static void on_record(sim_process_t *p, sim_peer_t *peer, const void *data, size_t size)
{
    sim_holder_t *h = (sim_holder_t *)p;
    message_t m = {0};

    if (sim_seek_record(h, peer, data, size))
        return;
    memcpy(&m, data, size < sizeof(m) ? size : sizeof(m));
    if (!peer->session.initiator) {
        from_caller(h, peer, &m);
        return;
    }
    switch (m.kind) {
    case REPLY: on_reply(h, peer->user, &m); break;
    case LOCATED: on_located(h, peer->user, &m); break;
    case BORROWED: on_borrowed(h, peer->user, &m); break;
    default: sim_fail(p->world, "a question from who is called");
    }
}

/* ---------------------------------------------------------------- ends */

static void lose_client(sim_holder_t *h, sim_peer_t *peer)
{
    CRTI_LIST_FOREACH (item, &h->calls) {
        if (SIM_CALL_OF(item)->peer == peer)
            SIM_CALL_OF(item)->peer = NULL;
    }
    CRTI_LIST_FOREACH_SAFE (item, &h->locators) {
        locator_t *l = CRTI_CONTAINER(item, locator_t, link);

        if (l->peer != peer)
            continue;
        crti_list_remove(&l->link);
        free(l);
    }
}

/* Refs that `pick` names, each held, since what happens to one may end others. */
static sim_ref_t **gather(sim_holder_t *h, bool (*pick)(const sim_ref_t *, crti_id_t),
                          crti_id_t of, size_t *count_out)
{
    sim_ref_t **refs = sim_zeroed((h->by_id.count + 1) * sizeof(sim_ref_t *));
    size_t count = 0;

    CRTI_LIST_FOREACH (item, &h->refs) {
        if (pick(SIM_REF_OF(item), of))
            refs[count++] = SIM_REF_OF(item);
    }
    for (size_t i = 0; i < count; i++)
        sim_ref_hold(refs[i]);
    *count_out = count;
    return refs;
}

static bool is_of_owner(const sim_ref_t *ref, crti_id_t process)
{
    return !ref->is_owned && crti_id_equal(ref->owner->id, process);
}

/* Questions to it will not be answered. */
static void fail_locating(sim_holder_t *h, sim_remote_t *r)
{
    size_t count;
    sim_ref_t **refs = gather(h, is_of_owner, r->id, &count);

    for (size_t i = 0; i < count; i++) {
        if (refs[i]->is_locating)
            sim_ref_fail(refs[i], CRT_ERR_OWNER_DIED);
        sim_ref_release(refs[i]);
    }
    free(refs);
}

static void lose_remote(sim_holder_t *h, sim_remote_t *r)
{
    r->peer = NULL;
    while (!crti_list_is_empty(&r->in_flight)) {
        sim_pending_t *p = CRTI_CONTAINER(r->in_flight.next, sim_pending_t, link);

        sim_ref_fail(p->result, CRT_ERR_WORKER_DIED);
        end_pending(p);
    }
    end_borrowing(h, r);
    fail_locating(h, r);
}

static void on_lost(sim_process_t *p, sim_peer_t *peer, crt_status_t status)
{
    sim_holder_t *h = (sim_holder_t *)p;

    sim_seek_lost(h, peer);
    if (!peer->session.initiator)
        lose_client(h, peer);
    else if (peer->user)
        lose_remote(h, peer->user);
}

static const sim_process_ops_t process_ops = {.on_record = on_record, .on_lost = on_lost};

static bool is_lent(const sim_ref_t *ref, crti_id_t process)
{
    return ref->is_owned && ref->owned.borrower_count;
}

static bool is_owned(const sim_ref_t *ref, crti_id_t node)
{
    return ref->is_owned;
}

void sim_holder_process_died(sim_holder_t *h, crti_id_t process)
{
    sim_remote_t *r = sim_holder_remote(h, process, SIM_NOWHERE);
    sim_ref_t **refs;
    size_t count;

    if (r->is_dead)
        return;
    sim_note(h->process.world, "place %u hears of the death of %04llx", h->process.place,
             (unsigned long long)(process.high & 0xffff));
    sim_process_peer_died(&h->process, process);
    r->is_dead = true;
    end_borrowing(h, r);
    sim_requests_gather(h);
    refs = gather(h, is_of_owner, process, &count);
    for (size_t i = 0; i < count; i++) {
        sim_ref_owner_died(refs[i]);
        sim_ref_release(refs[i]);
    }
    free(refs);
    refs = gather(h, is_lent, process, &count);
    for (size_t i = 0; i < count; i++) {
        sim_ref_borrower_died(refs[i], process);
        sim_ref_release(refs[i]);
    }
    free(refs);
    sim_requests_send(h);
}

void sim_holder_node_died(sim_holder_t *h, crti_id_t node)
{
    size_t count;
    sim_ref_t **refs = gather(h, is_owned, node, &count);

    for (size_t i = 0; i < count; i++) {
        sim_ref_node_died(refs[i], node);
        sim_ref_release(refs[i]);
    }
    free(refs);
}

/* ---------------------------------------------------------------- life */

void sim_holder_init(sim_holder_t *h, sim_network_t *net, unsigned place,
                     const sim_holder_ops_t *ops, void *user)
{
    *h = (sim_holder_t){.ops = ops, .next_number = 1, .next_request = 1};
    sim_process_init(&h->process, net, place, &process_ops, user);
    h->process.window = 4 << 20;
    crti_list_init(&h->refs);
    crti_list_init(&h->remotes);
    crti_list_init(&h->calls);
    crti_list_init(&h->locators);
    crti_list_init(&h->asked);
    crti_list_init(&h->questions);
    crti_map_init(&h->by_id, sizeof(crti_object_id_t));
    crti_map_init(&h->by_process, sizeof(crti_id_t));
}

static void free_members(crti_list_t *list, size_t offset)
{
    crti_list_t *item;

    while ((item = crti_list_pop(list)))
        free((char *)item - offset);
}

void sim_holder_fini(sim_holder_t *h)
{
    crti_list_t *item;

    sim_process_fini(&h->process);
    sim_seek_fini(h);
    while ((item = crti_list_pop(&h->refs)))
        sim_ref_discard(SIM_REF_OF(item));
    while ((item = crti_list_pop(&h->remotes))) {
        sim_remote_t *r = CRTI_CONTAINER(item, sim_remote_t, link);

        free_members(&r->in_flight, offsetof(sim_pending_t, link));
        free_members(&r->borrowing, offsetof(request_t, link));
        free_members(&r->open, offsetof(request_t, link));
        free(r);
    }
    free_members(&h->calls, offsetof(sim_call_t, link));
    free_members(&h->locators, offsetof(locator_t, link));
    crti_map_fini(&h->by_id);
    crti_map_fini(&h->by_process);
    h->next_number = 1;
    h->gathers = 0;
}
