/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions of a pair, or of 20 processes on 20 nodes, under loss, repetition, reordering, cuts,
 * silent reconnects and crashes.
 *
 * Every end of a session sends one stream of numbered records. The ledger below knows of each
 * stream what was sent, and what the other end was given; the invariants are stated on it:
 *     what an end is given is what one end sent, in order, each once, without a gap, meant for
 *         this process and incarnation;
 *     bytes that were sent and not consumed never exceed the window, but for one record;
 *     when an end ends: everything it knows as acknowledged was delivered, nothing that it
 *         did not hand over is; after an orderly close all was;
 *     silence ends a session only when there was a cut, or nobody at the other end any more (its
 *         goodbye may have been lost);
 *     once the network is well again everything comes to rest, and every open session carries
 *         another record.
 * In some seeds bytes are damaged as well; then the machine must survive and come to rest.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/base/limit.h"
#include "tests/sim/process.h"
#include "tests/sim/runner.h"

#define PLACES 20
#define WINDOW (32u << 10)

typedef struct record {
    uint64_t stream, index;
    crti_id_t to;
    uint64_t incarnation, control;
} record_t;

/* One end of a session, and the stream that it sends. */
typedef struct end {
    uint64_t sent, bytes;         /* records; bytes of those in the window */
    uint64_t delivered, consumed; /* at the other end */
    uint64_t acked, handed;       /* when it ended */
    size_t reader, reads;         /* the other end; 0: not known yet */
    uint64_t held;                /* bytes that its user holds back */
    int watches;
    uint64_t nonce; /* of the session: two ends have it */
    bool is_over;
} end_t;

typedef struct death {
    crti_id_t id;
    unsigned place;
} death_t;

typedef struct scene {
    sim_world_t *world;
    sim_network_t net;
    sim_process_t process[PLACES];
    unsigned node_of[PLACES], places;
    uint64_t incarnations;
    end_t *ends; /* [0] is nobody */
    size_t end_count;
    death_t *deaths;
    size_t death_count;
    bool is_ending, is_garbled;
    unsigned pace; /* most microseconds between two acts of a process */
} scene_t;

static void act(void *user, uint64_t place);

static size_t end_of(const sim_peer_t *peer)
{
    return (size_t)(uintptr_t)peer->user;
}

/* ---------------------------------------------------------------- what a process sees */

static void on_peer(sim_process_t *p, sim_peer_t *peer)
{
    scene_t *scene = p->user;

    if ((scene->end_count & (scene->end_count - 1)) == 0) {
        scene->ends = realloc(scene->ends, 2 * scene->end_count * sizeof(*scene->ends));
        if (!scene->ends)
            abort();
    }
    scene->ends[scene->end_count] = (end_t){.nonce = peer->session.config.nonce};
    peer->user = (void *)(uintptr_t)scene->end_count++;
}

/* The user of this end takes its time with a part of the record. */
static void hold(sim_peer_t *peer, size_t size);

static void check_record(scene_t *scene, sim_peer_t *peer, const record_t *r, size_t size,
                         unsigned char last)
{
    sim_process_t *p = peer->process;
    size_t at = end_of(peer);
    end_t *stream;

    if (r->stream == 0 || r->stream >= scene->end_count) {
        sim_fail(scene->world, "a record that nobody sent");
        return;
    }
    stream = &scene->ends[r->stream];
    if (!crti_id_equal(r->to, p->id) || r->incarnation != p->incarnation)
        sim_fail(scene->world, "place %u is given a record for another process",
                 p->place);
    if (scene->ends[at].reads == 0 && stream->reader == 0) {
        scene->ends[at].reads = r->stream;
        stream->reader = at;
    }
    if (scene->ends[at].reads != r->stream || stream->reader != at)
        sim_fail(scene->world, "stream %llu is read by two ends",
                 (unsigned long long)r->stream);
    if (r->index != stream->delivered + 1)
        sim_fail(scene->world, "stream %llu: record %llu is delivered after %llu",
                 (unsigned long long)r->stream, (unsigned long long)r->index,
                 (unsigned long long)stream->delivered);
    if (stream->is_over && stream->handed && r->index > stream->handed)
        sim_fail(scene->world, "stream %llu: record %llu was never handed over",
                 (unsigned long long)r->stream, (unsigned long long)r->index);
    if (last != (unsigned char)r->index)
        sim_fail(scene->world, "a record's bytes changed");
    stream->delivered++;
    if (!r->control)
        stream->consumed += size;
    sim_fold(scene->world, r->stream << 32 ^ r->index);
}

static void on_record(sim_process_t *p, sim_peer_t *peer, const void *data, size_t size)
{
    scene_t *scene = p->user;
    record_t r;

    if (scene->is_garbled)
        return;
    if (size < sizeof(r) + 1) {
        sim_fail(scene->world, "a record of %zu bytes", size);
        return;
    }
    memcpy(&r, data, sizeof(r));
    check_record(scene, peer, &r, size, ((const unsigned char *)data)[size - 1]);
    if (!r.control && !scene->is_ending && sim_chance(scene->world, 2000))
        hold(peer, size);
}

static bool has_other_end(const scene_t *scene, size_t end)
{
    for (size_t i = 1; i < scene->end_count; i++)
        if (i != end && scene->ends[i].nonce == scene->ends[end].nonce &&
            !scene->ends[i].is_over)
            return true;
    return false;
}

static void on_ended(sim_process_t *p, sim_peer_t *peer, crt_status_t status)
{
    scene_t *scene = p->user;
    end_t *end = &scene->ends[end_of(peer)];
    const crti_session_t *s = &peer->session;
    uint64_t cut_at = sim_network_cut_at(&scene->net, p->place, peer->place);

    end->is_over = true;
    end->acked = s->acked;
    end->handed = s->handed;
    sim_fold(scene->world, (uint64_t)(unsigned)status);
    if (scene->is_garbled)
        return;
    if (s->acked > end->delivered)
        sim_fail(scene->world, "%llu records are acknowledged, %llu were delivered",
                 (unsigned long long)s->acked, (unsigned long long)end->delivered);
    if (end->delivered > s->handed)
        sim_fail(scene->world, "%llu records are delivered, %llu were handed over",
                 (unsigned long long)end->delivered, (unsigned long long)s->handed);
    if (status == CRT_OK && end->delivered != end->sent)
        sim_fail(scene->world, "closed in order, but %llu of %llu were delivered",
                 (unsigned long long)end->delivered, (unsigned long long)end->sent);
    if (status == CRT_ERR_UNREACHABLE && has_other_end(scene, end_of(peer)) &&
        (cut_at == 0 ||
         cut_at + CRTI_LIMIT(session_timeout) + 5 * CRTI_S < scene->world->now))
        sim_fail(scene->world, "unreachable, without a cut");
}

static void on_lost(sim_process_t *p, sim_peer_t *peer, crt_status_t status)
{
}

static const sim_process_ops_t ops = {
    .on_record = on_record, .on_lost = on_lost, .on_peer = on_peer, .on_ended = on_ended};

static void receive(void *user, const sim_packet_t *packet)
{
    scene_t *scene = user;

    sim_process_receive(&scene->process[packet->to], packet);
}

/* ---------------------------------------------------------------- what a process does */

static sim_peer_t *peer_of_end(const scene_t *scene, size_t end)
{
    for (unsigned i = 0; i < scene->places; i++)
        CRTI_LIST_FOREACH (item, &scene->process[i].peers) {
            if (end_of(SIM_PEER_OF(item)) == end)
                return SIM_PEER_OF(item);
        }
    return NULL;
}

static void let_go(void *user, uint64_t number)
{
    scene_t *scene = user;
    size_t at = number & 0xffffffff, size = number >> 32;
    sim_peer_t *peer = peer_of_end(scene, at);
    end_t *end = &scene->ends[at];

    if (!peer)
        return;
    end->held -= size;
    scene->ends[end->reads].consumed += size;
    sim_peer_release(peer, size);
}

static void hold(sim_peer_t *peer, size_t size)
{
    scene_t *scene = peer->process->user;
    size_t at = end_of(peer), part = sim_between(scene->world, 1, size);

    crti_session_hold(&peer->session, part);
    scene->ends[at].held += part;
    scene->ends[scene->ends[at].reads].consumed -= part;
    sim_after(scene->world, sim_below(scene->world, 500 * CRTI_MS), let_go, scene,
              (uint64_t)part << 32 | at);
}

static size_t pick_size(scene_t *scene)
{
    static const size_t most[] = {64, 200, 1000, 5000, 9000, 20000, 40000};
    size_t limit = most[sim_below(scene->world, sim_chance(scene->world, 9000) ? 3 : 7)];

    return sim_between(scene->world, sizeof(record_t) + 1, limit);
}

static bool send_one(scene_t *scene, sim_peer_t *peer)
{
    static unsigned char bytes[40000];
    size_t at = end_of(peer), size = pick_size(scene);
    record_t r = {.stream = at,
                  .index = scene->ends[at].sent + 1,
                  .to = peer->session.config.peer,
                  .incarnation = peer->session.config.peer_incarnation,
                  .control = sim_chance(scene->world, 1000)};
    uint64_t in_flight;

    memcpy(bytes, &r, sizeof(r));
    bytes[size - 1] = (unsigned char)r.index;
    if (sim_peer_send(peer, bytes, size, r.control) != CRT_OK)
        return false;
    scene->ends[at].sent++;
    if (r.control)
        return true;
    scene->ends[at].bytes += size;
    in_flight = scene->ends[at].bytes - scene->ends[at].consumed;
    if (in_flight > WINDOW && in_flight != size && !scene->is_garbled)
        sim_fail(scene->world, "%llu bytes are sent and not consumed",
                 (unsigned long long)in_flight);
    return true;
}

/* Whom it speaks to: mostly the same few; sometimes by an old name. */
static sim_peer_t *pick_target(scene_t *scene, sim_process_t *p)
{
    sim_world_t *w = scene->world;
    unsigned to = (p->place + 1 + (unsigned)sim_below(w, scene->places == 2 ? 1 : 3)) %
                  scene->places;
    const death_t *death;
    sim_peer_t *peer;

    if (scene->death_count && sim_chance(w, 300)) {
        death = &scene->deaths[sim_below(w, scene->death_count)];
        if (death->place != p->place)
            return sim_process_dial(p, death->place, death->id, 1);
    }
    if (!scene->process[to].is_alive)
        return NULL;
    peer = sim_chance(w, 5000) ? sim_process_find(p, scene->process[to].id,
                                                  scene->process[to].incarnation)
                               : NULL;
    return peer ? peer
                : sim_process_dial(p, to, scene->process[to].id,
                                   scene->process[to].incarnation);
}

static sim_peer_t *any_peer(scene_t *scene, sim_process_t *p)
{
    unsigned count = 0;
    uint64_t pick;

    CRTI_LIST_FOREACH (item, &p->peers) {
        count++;
    }
    if (count == 0)
        return NULL;
    pick = sim_below(scene->world, count);
    CRTI_LIST_FOREACH (item, &p->peers) {
        if (pick-- == 0)
            return SIM_PEER_OF(item);
    }
    return NULL;
}

static void watch_or_not(scene_t *scene, sim_peer_t *peer)
{
    end_t *end = &scene->ends[end_of(peer)];
    int delta = end->watches > 0 && sim_chance(scene->world, 5000) ? -1 : 1;

    end->watches += delta;
    sim_peer_watch(peer, delta);
}

static void act(void *user, uint64_t place)
{
    scene_t *scene = user;
    sim_process_t *p = &scene->process[place];
    sim_world_t *w = scene->world;
    uint64_t kind = sim_below(w, 1000);
    sim_peer_t *peer;

    if (scene->is_ending)
        return;
    sim_after(w, sim_below(w, scene->pace) * 1000, act, scene, place);
    if (!p->is_alive)
        return;
    peer = kind < 900 ? pick_target(scene, p) : any_peer(scene, p);
    if (!peer)
        return;
    if (kind < 900)
        for (uint64_t n = sim_between(w, 1, 8); n > 0 && send_one(scene, peer); n--)
            ;
    else if (kind < 930)
        sim_peer_close(peer);
    else if (kind < 940)
        sim_peer_fail(peer, CRT_ERR_CLOSED, "given up");
    else
        watch_or_not(scene, peer);
}

/* ---------------------------------------------------------------- what happens to them */

static void start_process(void *user, uint64_t place)
{
    scene_t *scene = user;

    if (!scene->process[place].is_alive)
        sim_process_start(&scene->process[place], sim_id(scene->world, 0xb), 1);
}

static void tell_death(scene_t *scene, const death_t *death)
{
    for (unsigned i = 0; i < scene->places; i++)
        sim_process_peer_died(&scene->process[i], death->id);
}

static void on_notice(void *user, uint64_t number)
{
    scene_t *scene = user;

    tell_death(scene, &scene->deaths[number]);
}

static void kill_process(scene_t *scene, sim_process_t *p)
{
    sim_world_t *w = scene->world;

    if (!p->is_alive || scene->death_count == 64)
        return;
    CRTI_LIST_FOREACH (item, &p->peers) {
        scene->ends[end_of(SIM_PEER_OF(item))].is_over = true;
    }
    scene->deaths[scene->death_count] = (death_t){p->id, p->place};
    if (sim_chance(w, 7000))
        sim_after(w, sim_below(w, CRTI_S), on_notice, scene, scene->death_count);
    scene->death_count++;
    sim_process_kill(p);
    sim_after(w, sim_below(w, 2 * CRTI_S), start_process, scene, p->place);
}

static void weather(void *user, uint64_t number)
{
    scene_t *scene = user;
    sim_world_t *w = scene->world;
    unsigned a = (unsigned)sim_below(w, scene->places);
    unsigned b = (unsigned)sim_below(w, scene->places);
    uint64_t kind = sim_below(w, 100);

    if (scene->is_ending)
        return;
    sim_after(w, sim_below(w, 40 * CRTI_MS), weather, scene, 0);
    if (sim_chance(w, 50)) /* a stop of everything: all timers are late */
        w->now += sim_below(w, CRTI_LIMIT(session_timeout) / 15 * 4);
    if (kind < 15)
        kill_process(scene, &scene->process[a]);
    else if (kind < 20)
        sim_network_isolate(&scene->net, a, sim_below(w, CRTI_S));
    else if (kind < 40)
        sim_network_cut(&scene->net, a, (a + 1) % scene->places, sim_below(w, CRTI_S));
    else if (kind == 40)
        sim_network_cut(&scene->net, a, (a + 1) % scene->places,
                        CRTI_LIMIT(session_timeout) + 10 * CRTI_S);
    else if (kind < 80)
        sim_network_reconnect(&scene->net, a, (a + 1) % scene->places);
    else
        sim_network_reconnect(&scene->net, a, b);
}

/* ---------------------------------------------------------------- the end */

static void let_rest(scene_t *scene)
{
    scene->is_ending = true;
    sim_network_heal(&scene->net);
    for (size_t i = 0; i < scene->death_count; i++)
        tell_death(scene, &scene->deaths[i]);
    for (unsigned i = 0; i < scene->places; i++) {
        start_process(scene, i);
        CRTI_LIST_FOREACH (item, &scene->process[i].peers) {
            end_t *end = &scene->ends[end_of(SIM_PEER_OF(item))];

            sim_peer_watch(SIM_PEER_OF(item), -end->watches);
            end->watches = 0;
        }
    }
    sim_run_until(scene->world, UINT64_MAX, 200000, "after the network was well again");
}

/* Every session that is left must be open and take another record; where the frame that told of
 * credit was lost, after it has asked. */
static void send_to_all(scene_t *scene, bool is_last)
{
    for (unsigned i = 0; i < scene->places; i++)
        CRTI_LIST_FOREACH (item, &scene->process[i].peers) {
            const crti_session_t *s = &SIM_PEER_OF(item)->session;

            if (s->state != CRTI_SESSION_OPEN)
                sim_fail(scene->world, "a session of place %u is stuck in %s", i,
                         crti_session_state_name(s->state));
            else if (!send_one(scene, SIM_PEER_OF(item)) && is_last)
                sim_fail(scene->world, "an idle session of place %u takes no record", i);
        }
    sim_run_until(scene->world, UINT64_MAX, 50000, "after the last records");
}

static void check_rest(scene_t *scene)
{
    for (unsigned i = 0; i < scene->places; i++)
        CRTI_LIST_FOREACH (item, &scene->process[i].peers) {
            const sim_peer_t *peer = SIM_PEER_OF(item);
            const end_t *end = &scene->ends[end_of(peer)];

            if (peer->session.acked != end->sent || end->delivered != end->sent)
                sim_fail(scene->world, "place %u sent %llu, delivered are %llu", i,
                         (unsigned long long)end->sent,
                         (unsigned long long)end->delivered);
        }
}

static void begin(scene_t *scene)
{
    static const unsigned losses[] = {0, 0, 50, 200, 1000};
    sim_world_t *w = scene->world;

    scene->places = sim_chance(w, 2500) ? 2 : PLACES;
    scene->is_garbled = sim_chance(w, 800);
    scene->pace = scene->places == 2 ? 20000 : 100000;
    scene->end_count = 1;
    scene->ends = calloc(1, sizeof(*scene->ends));
    scene->deaths = calloc(64, sizeof(*scene->deaths));
    if (!scene->ends || !scene->deaths)
        abort();
    for (unsigned i = 0; i < scene->places; i++)
        scene->node_of[i] = i;
    sim_network_init(&scene->net, w, scene->places, scene->places, scene->node_of,
                     receive, scene);
    scene->net.law = (sim_law_t){.loss = losses[sim_below(w, 5)],
                                 .duplicate = losses[sim_below(w, 5)],
                                 .garble = scene->is_garbled ? 200 : 0,
                                 .is_ordered = sim_chance(w, 5000),
                                 .delay = sim_between(w, 50000, 5 * CRTI_MS),
                                 .jitter = sim_between(w, 1000, 20 * CRTI_MS)};
    for (unsigned i = 0; i < scene->places; i++) {
        sim_process_init(&scene->process[i], &scene->net, i, &ops, scene);
        scene->process[i].window = WINDOW;
        start_process(scene, i);
        sim_after(w, sim_below(w, 10 * CRTI_MS), act, scene, i);
    }
    sim_after(w, 0, weather, scene, 0);
}

static void run(sim_world_t *world)
{
    scene_t *scene = calloc(1, sizeof(*scene));

    if (!scene)
        abort();
    scene->world = world;
    begin(scene);
    while (world->events < SIM_EVENTS && sim_step(world))
        ;
    if (!world->failed)
        let_rest(scene);
    if (!world->failed && !scene->is_garbled) {
        send_to_all(scene, false);
        send_to_all(scene, true);
    }
    if (!world->failed && !scene->is_garbled)
        check_rest(scene);
    for (unsigned i = 0; i < scene->places; i++)
        sim_process_fini(&scene->process[i]);
    sim_network_fini(&scene->net);
    free(scene->ends);
    free(scene->deaths);
    free(scene);
}

int main(int argc, char **argv)
{
    static const char *const machines[] = {"session"};
    static const sim_scenario_t scenario = {"session", run, machines, 1};

    return sim_main(argc, argv, &scenario);
}
