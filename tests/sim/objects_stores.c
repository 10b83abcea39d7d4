/* SPDX-License-Identifier: Apache-2.0 */
/* Stores of the nodes, and pulls between them: what node/objects/transfer.c does around
 * pull_table.h and share_table.h. See test_objects.c. */
#include "tests/sim/objects.h"

#include <stdlib.h>

typedef struct stored {
    crti_list_t link;
    crti_object_id_t object;
    crti_id_t maker;  /* process that wrote or pulled it */
    crti_id_t teller; /* process that told the owner of it */
} stored_t;

static void carry_out(scene_t *scene, unsigned node);

static uint64_t size_of(crti_object_id_t object)
{
    return (1 + object.number % 7) * CRTI_PULL_PART - object.number % 7;
}

static scene_t *scene_of(const sim_holder_t *h)
{
    return h->process.user;
}

static node_t *node_of(const sim_holder_t *h)
{
    return &scene_of(h)->node[h->process.node];
}

static node_t *find_node(scene_t *scene, crti_id_t id)
{
    for (unsigned i = 0; i < NODES; i++)
        if (scene->node[i].is_alive && crti_id_equal(scene->node[i].id, id))
            return &scene->node[i];
    return NULL;
}

/* ---------------------------------------------------------------- bytes */

static void add(node_t *node, crti_object_id_t object, crti_id_t maker)
{
    stored_t *s = crti_map_get(&node->store, &object);

    if (s)
        return;
    s = calloc(1, sizeof(*s));
    if (!s || crti_map_put(&node->store, &object, s) != CRT_OK)
        abort();
    s->object = object;
    s->maker = maker;
    crti_list_append(&node->stored, &s->link);
}

static void discard(node_t *node, crti_object_id_t object)
{
    stored_t *s = crti_map_remove(&node->store, &object);

    if (!s)
        return;
    crti_list_remove(&s->link);
    free(s);
}

bool sim_stores_has(sim_holder_t *h, crti_object_id_t object)
{
    return crti_map_get(&node_of(h)->store, &object) != NULL;
}

void sim_stores_store(sim_holder_t *h, crti_object_id_t object)
{
    add(node_of(h), object, h->process.id);
}

crti_id_t sim_stores_node_id(sim_holder_t *h)
{
    return node_of(h)->id;
}

void sim_stores_on_copy(sim_holder_t *h, crti_object_id_t object)
{
    stored_t *s = crti_map_get(&node_of(h)->store, &object);

    if (s)
        s->teller = h->process.id;
}

void sim_stores_check_lost(sim_holder_t *h, sim_ref_t *ref)
{
    scene_t *scene = scene_of(h);

    for (unsigned i = 0; i < NODES; i++) {
        const stored_t *s = scene->node[i].is_alive
                                ? crti_map_get(&scene->node[i].store, &ref->id)
                                : NULL;

        if (s && sim_objects_holder(scene, s->teller))
            sim_fail(
                scene->world,
                "object %llu of place %u is given up, and node %u has told of a copy",
                (unsigned long long)ref->id.number, h->process.place, i);
    }
}

static size_t new_transfer(scene_t *scene, transfer_t transfer)
{
    if (scene->transfer_count == scene->transfer_room) {
        scene->transfer_room = scene->transfer_room ? scene->transfer_room * 2 : 64;
        scene->transfers =
            realloc(scene->transfers, scene->transfer_room * sizeof(transfer));
        if (!scene->transfers)
            abort();
    }
    scene->transfers[scene->transfer_count] = transfer;
    return scene->transfer_count++;
}

static void on_free(void *user, uint64_t number)
{
    scene_t *scene = user;
    node_t *node = find_node(scene, scene->transfers[number].to);

    if (node)
        discard(node, scene->transfers[number].object);
}

void sim_stores_unstore(sim_holder_t *h, crti_object_id_t object, crti_id_t node)
{
    scene_t *scene = scene_of(h);

    if (crti_id_equal(node_of(h)->id, node))
        discard(node_of(h), object);
    else
        sim_after(scene->world, sim_below(scene->world, 50 * CRTI_MS), on_free, scene,
                  new_transfer(scene, (transfer_t){.object = object, .to = node}));
}

/* ---------------------------------------------------------------- pulls */

static void carry_out_shares(scene_t *scene, node_t *node);

static crti_pull_attempt_t attempt_of(const transfer_t *t)
{
    return (crti_pull_attempt_t){t->object, t->from, t->offset, t->attempt};
}

static void on_part(void *user, uint64_t number)
{
    scene_t *scene = user;
    transfer_t t = scene->transfers[number];
    node_t *node = find_node(scene, t.to);

    if (!node)
        return;
    crti_pull_table_part(node->pulls, t.object, t.offset);
    carry_out(scene, (unsigned)(node - scene->node));
    crti_share_table_part(node->shares, t.object, t.offset);
    carry_out_shares(scene, node);
}

static void on_refused(void *user, uint64_t number)
{
    scene_t *scene = user;
    transfer_t t = scene->transfers[number];
    node_t *node = find_node(scene, t.to);
    crti_pull_attempt_t attempt = attempt_of(&t);

    if (!node)
        return;
    crti_pull_table_refused(node->pulls, &attempt, "it has no such object");
    carry_out(scene, (unsigned)(node - scene->node));
}

static void on_elsewhere(void *user, uint64_t number)
{
    scene_t *scene = user;
    transfer_t t = scene->transfers[number];
    node_t *node = find_node(scene, t.to);
    crti_pull_attempt_t attempt = attempt_of(&t);

    if (!node)
        return;
    if (crti_id_equal(t.elsewhere, node->id))
        t.elsewhere = (crti_id_t){0, 0};
    crti_pull_table_elsewhere(node->pulls, &attempt, t.elsewhere);
    carry_out(scene, (unsigned)(node - scene->node));
}

static unsigned pair_of(scene_t *scene, crti_id_t asking, crti_id_t asked)
{
    const node_t *from = find_node(scene, asking), *to = find_node(scene, asked);

    if (!from || !to)
        return NODES * NODES;
    return (unsigned)(from - scene->node) * NODES + (unsigned)(to - scene->node);
}

/* It does not overtake what was asked before it. */
static void on_left(void *user, uint64_t number)
{
    scene_t *scene = user;
    transfer_t t = scene->transfers[number];
    node_t *node = find_node(scene, t.to);

    if (!node || !find_node(scene, t.from))
        return;
    if (scene->asks[pair_of(scene, t.from, t.to)]) {
        sim_after(scene->world, 10 * CRTI_MS, on_left, scene, number);
        return;
    }
    crti_share_table_left(node->shares, t.object, t.from);
    carry_out_shares(scene, node);
}

static void check_send(scene_t *scene, const node_t *node, const crti_share_question_t *q)
{
    if (!crti_map_get(&node->store, &q->object) &&
        !crti_pull_table_has(node->pulls, q->object, q->offset))
        sim_fail(scene->world, "a node sends a part of object %llu that it lacks",
                 (unsigned long long)q->object.number);
}

/* Of the node that was asked. */
static void carry_out_shares(scene_t *scene, node_t *node)
{
    crti_share_action_t a;

    while (crti_share_table_action(node->shares, &a)) {
        uint64_t delay = sim_below(scene->world, 10 * CRTI_MS);

        scene->transfers[a.question.request].elsewhere = a.node;
        if (a.verb == CRTI_SHARE_SEND)
            check_send(scene, node, &a.question);
        sim_after(scene->world, delay,
                  a.verb == CRTI_SHARE_SEND     ? on_part
                  : a.verb == CRTI_SHARE_REFUSE ? on_refused
                                                : on_elsewhere,
                  scene, a.question.request);
    }
}

static crti_share_have_t have(const node_t *node, const transfer_t *t)
{
    if (crti_map_get(&node->store, &t->object) ||
        crti_pull_table_has(node->pulls, t->object, t->offset))
        return CRTI_SHARE_HAS;
    return crti_pull_table_is_coming(node->pulls, t->object) ? CRTI_SHARE_COMING
                                                             : CRTI_SHARE_LACKS;
}

/* The question comes to the source; a cut delays it, as a stream does. */
static void on_ask(void *user, uint64_t number)
{
    scene_t *scene = user;
    transfer_t t = scene->transfers[number];
    node_t *from = find_node(scene, t.from), *to = find_node(scene, t.to);
    crti_share_question_t q = {.object = t.object,
                               .node = t.to,
                               .request = number,
                               .offset = t.offset,
                               .length = CRTI_PULL_PART,
                               .hops = t.hops,
                               .direct = t.direct};

    scene->asks[t.pair]--;
    if (!to)
        return;
    q.link = 1 + (uint64_t)(to - scene->node);
    if (!from) {
        sim_after(scene->world, sim_below(scene->world, 10 * CRTI_MS), on_refused, scene,
                  number);
    } else if (sim_network_is_cut(&scene->net, (unsigned)(from - scene->node),
                                  (unsigned)(to - scene->node))) {
        scene->asks[t.pair]++;
        sim_after(scene->world, 100 * CRTI_MS, on_ask, scene, number);
        if (sim_chance(scene->world, 500)) {
            crti_pull_table_silent(to->pulls, t.from);
            carry_out(scene, (unsigned)(to - scene->node));
        }
    } else {
        crti_share_table_asked(from->shares, &q, have(from, &t), 1 + t.object.number % 7);
        carry_out_shares(scene, from);
    }
}

static void send_ask(scene_t *scene, const node_t *node, const crti_pull_action_t *a)
{
    transfer_t t = {.object = a->object,
                    .from = a->node,
                    .to = node->id,
                    .offset = a->offset,
                    .hops = a->hops,
                    .attempt = a->attempt,
                    .direct = a->direct,
                    .pair = pair_of(scene, node->id, a->node)};

    scene->asks[t.pair]++;
    sim_after(scene->world, sim_below(scene->world, 10 * CRTI_MS), on_ask, scene,
              new_transfer(scene, t));
}

static void make_room(scene_t *scene, node_t *node, crti_object_id_t object)
{
    if (scene->is_tight && sim_chance(scene->world, 200))
        add(node, object, (crti_id_t){0, 0}); /* it came by another way meanwhile */
    if (crti_map_get(&node->store, &object))
        crti_pull_table_no_room(node->pulls, object, CRT_ERR_EXISTS, "",
                                scene->world->now);
    else if (scene->is_tight && sim_chance(scene->world, 9900))
        crti_pull_table_no_room(node->pulls, object, CRT_ERR_STORE_FULL, "full",
                                scene->world->now);
    else
        crti_pull_table_room(node->pulls, object);
}

static void answer(scene_t *scene, const crti_pull_action_t *action)
{
    sim_holder_t *h = sim_objects_holder(scene, action->requester.process);

    if (h)
        sim_holder_pulled(h, action->object, action->status);
}

static void on_tick(void *user, uint64_t number)
{
    scene_t *scene = user;
    node_t *node = &scene->node[number];

    if (!node->is_alive || node->tick_at != scene->world->now)
        return;
    node->tick_at = 0;
    carry_out(scene, (unsigned)number);
}

static void set_tick(scene_t *scene, node_t *node, uint64_t at)
{
    if (at == UINT64_MAX || node->tick_at > scene->world->now)
        return;
    node->tick_at = at;
    sim_after(scene->world, at - scene->world->now, on_tick, scene,
              (uint64_t)(node - scene->node));
}

static void carry_out(scene_t *scene, unsigned index)
{
    node_t *node = &scene->node[index];
    crti_pull_action_t a;
    bool is_due = node->tick_at <= scene->world->now;

    for (;;) {
        while (node->is_alive && crti_pull_table_action(node->pulls, &a))
            switch (a.verb) {
            case CRTI_PULL_MAKE_ROOM: make_room(scene, node, a.object); break;
            case CRTI_PULL_ASK: send_ask(scene, node, &a); break;
            case CRTI_PULL_LEAVE:
                sim_after(scene->world, sim_below(scene->world, 10 * CRTI_MS), on_left,
                          scene,
                          new_transfer(scene, (transfer_t){a.object, node->id, a.node}));
                break;
            case CRTI_PULL_SEAL: add(node, a.object, (crti_id_t){0, 0}); break;
            case CRTI_PULL_ABORT:
                crti_share_table_gone(node->shares, a.object);
                carry_out_shares(scene, node);
                break;
            case CRTI_PULL_ANSWER: answer(scene, &a); break;
            }
        if (!node->is_alive || !is_due)
            return;
        is_due = false;
        set_tick(scene, node, crti_pull_table_tick(node->pulls, scene->world->now));
    }
}

void sim_stores_pull(sim_holder_t *h, sim_ref_t *ref)
{
    scene_t *scene = scene_of(h);
    node_t *node = node_of(h);
    crti_pull_requester_t requester = {h->process.id, ref->id.number};
    const crti_id_t *known = ref->is_owned ? ref->owned.nodes : ref->nodes;
    size_t count = 0,
           known_count = ref->is_owned ? ref->owned.node_count : ref->node_count;
    crti_id_t nodes[NODES];

    if (ref->is_owned)
        crti_owned_tell(&ref->owned);
    for (size_t i = 0; i < known_count && count < NODES; i++)
        if (!crti_id_equal(known[i], node->id)) /* it has been given up here since */
            nodes[count++] = known[i];
    if (crti_pull_table_request(node->pulls, ref->id, size_of(ref->id), nodes, count,
                                requester, scene->world->now) != CRT_OK)
        abort();
    carry_out(scene, h->process.node);
}

/* ---------------------------------------------------------------- deaths */

static void drop_of(node_t *node, crti_id_t owner)
{
    CRTI_LIST_FOREACH_SAFE (item, &node->stored) {
        stored_t *s = CRTI_CONTAINER(item, stored_t, link);

        if (crti_id_equal(s->object.owner, owner))
            discard(node, s->object);
    }
}

/* A death is told to the nodes: they drop what the process owned. */
static void on_death(void *user, uint64_t number)
{
    scene_t *scene = user;
    crti_id_t dead = scene->dead[number / NODES];
    node_t *node = &scene->node[number % NODES];

    if (!node->is_alive)
        return;
    drop_of(node, dead);
    crti_pull_table_owner_died(node->pulls, dead);
    carry_out(scene, (unsigned)(number % NODES));
}

void sim_stores_process_died(scene_t *scene, unsigned node, crti_id_t process)
{
    for (unsigned i = 0; i < NODES; i++)
        sim_after(scene->world, sim_below(scene->world, CRTI_S), on_death, scene,
                  (scene->dead_count - 1) * NODES + i);
    if (!scene->node[node].is_alive)
        return;
    crti_pull_table_requester_died(scene->node[node].pulls, process);
    carry_out(scene, node);
}

void sim_stores_node_died(scene_t *scene, unsigned node, crti_id_t dead)
{
    if (!scene->node[node].is_alive)
        return;
    crti_pull_table_node_lost(scene->node[node].pulls, dead, "the node died");
    crti_share_table_node_lost(scene->node[node].shares, dead);
    carry_out(scene, node);
}

void sim_stores_start(scene_t *scene, unsigned index)
{
    node_t *node = &scene->node[index];

    *node = (node_t){.id = sim_id(scene->world, 0xa), .is_alive = true};
    if (crti_pull_table_new(&node->pulls) != CRT_OK ||
        crti_share_table_new(&node->shares) != CRT_OK)
        abort();
    crti_map_init(&node->store, sizeof(crti_object_id_t));
    crti_list_init(&node->stored);
}

void sim_stores_kill(scene_t *scene, unsigned index)
{
    node_t *node = &scene->node[index];

    if (!node->is_alive)
        return;
    while (!crti_list_is_empty(&node->stored))
        discard(node, CRTI_CONTAINER(node->stored.next, stored_t, link)->object);
    crti_map_fini(&node->store);
    crti_pull_table_free(node->pulls);
    crti_share_table_free(node->shares);
    node->pulls = NULL;
    node->shares = NULL;
    node->is_alive = false;
    for (unsigned i = 0; i < NODES; i++)
        if (scene->node[i].is_alive)
            crti_share_table_link_closed(scene->node[i].shares, 1 + (uint64_t)index);
}

void sim_stores_check_empty(scene_t *scene)
{
    for (unsigned i = 0; i < NODES; i++) {
        if (!scene->node[i].is_alive)
            continue;
        if (crti_share_table_count(scene->node[i].shares) ||
            crti_share_table_waits(scene->node[i].shares))
            sim_fail(scene->world, "node %u remembers who is given %zu objects", i,
                     crti_share_table_count(scene->node[i].shares));
        CRTI_LIST_FOREACH (item, &scene->node[i].stored) {
            const stored_t *s = CRTI_CONTAINER(item, stored_t, link);
            bool was_pulled = crti_id_is_zero(s->maker);

            if (scene->dead_count &&
                (was_pulled || sim_objects_is_dead(scene, s->maker) ||
                 sim_objects_is_dead(scene, s->object.owner)))
                continue;
            sim_fail(scene->world, "node %u keeps bytes of object %llu of %04llx (%s)", i,
                     (unsigned long long)s->object.number,
                     (unsigned long long)(s->object.owner.high & 0xffff),
                     was_pulled ? "a copy" : "the first");
        }
    }
}
