/* SPDX-License-Identifier: Apache-2.0 */
/* The head's tables among 20 nodes: actors with names and restarts, drivers, submissions, values,
 * while links break, hosts are cut off, nodes and processes die, the store refuses to write, and
 * the head itself is killed and started again.
 *
 * Checked at every start of a process: no incarnation of an actor runs twice, and no process of a
 * fenced actor, or of one that has its name, may take calls at the same time. Checked at rest:
 *     nothing that was acknowledged is lost, and nothing is dead without a reason;
 *     an actor that is alive has one process, the one that the head names, others have none;
 *     the room that a living job asked for last is kept, of others nothing;
 *     no two actors live under one name; a submission ran at most once;
 *     whoever watches saw the last state; no question, request, row or message is left over.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/limit.h"
#include "runtime/base/log.h"
#include "tests/sim/cluster.h"
#include "tests/sim/runner.h"
#include "tests/sim/seed_limits.h"

#define NAMES 12
#define REST  (40 * CRTI_S * sim_limits_slack())

/* ---------------------------------------------------------------- drivers */

static void begin_job(scene_t *s, unsigned place)
{
    truth_job_t *job = &s->job[s->jobs];
    crti_msg_job_add_t m;

    if (s->jobs == JOBS)
        return;
    *job = (truth_job_t){
        .id = sim_id(s->world, 2), .driver = sim_id(s->world, 3), .place = place};
    m = (crti_msg_job_add_t){.job = job->id,
                             .driver = job->driver,
                             .node = s->place[place].id,
                             .entrypoint = crti_str("driver")};
    if (!node_ask(s, place, CRTI_MSG_JOB_ADD, &m, s->jobs, 0))
        return;
    crti_map_put(&s->job_by_id, &job->id, job);
    s->place[place].driver = (int)s->jobs++;
}

static void watch_actor(scene_t *s, unsigned place, unsigned actor)
{
    crti_msg_actor_watch_t m = {.actor = s->actor[actor].id};

    s->place[place].watched[actor / 64] |= 1ull << actor % 64;
    node_ask(s, place, CRTI_MSG_ACTOR_WATCH, &m, actor, 0);
}

static void create_actor(scene_t *s, unsigned place)
{
    static const int64_t restarts[] = {0, 0, 1, 3, -1};
    sim_world_t *w = s->world;
    truth_actor_t *actor = &s->actor[s->actors];
    unsigned job = (unsigned)s->place[place].driver;
    crti_msg_actor_create_t m;

    if (s->actors == ACTORS || crti_control_figures(s->control).actors_living > 60)
        return;
    *actor = (truth_actor_t){.id = sim_id(w, 1),
                             .job = job,
                             .owner_place = place,
                             .max_restarts = restarts[sim_below(w, 5)],
                             .never_fits = sim_chance(w, 300),
                             .fenced = sim_chance(w, 4000)};
    actor->detached = sim_chance(w, 2000);
    if (actor->detached || sim_chance(w, 5000))
        snprintf(actor->name, sizeof(actor->name), "n%u", (unsigned)sim_below(w, NAMES));
    m = (crti_msg_actor_create_t){.actor = actor->id,
                                  .job = s->job[job].id,
                                  .owner = s->job[job].driver,
                                  .owner_node = s->place[place].id,
                                  .class_name = crti_str("C"),
                                  .name = crti_str(actor->name),
                                  .detached = actor->detached,
                                  .max_restarts = actor->max_restarts,
                                  .fenced = actor->fenced,
                                  .creation = crti_str("arguments")};
    crti_resources_set(&m.resources, "CPU",
                       actor->never_fits ? 100 * CRTI_RESOURCE_ONE : CRTI_RESOURCE_ONE);
    crti_map_put(&s->actor_by_id, &actor->id, actor);
    node_ask(s, place, CRTI_MSG_ACTOR_CREATE, &m, s->actors, 0);
    watch_actor(s, place, s->actors++);
}

static void kill_actor(scene_t *s, unsigned place)
{
    unsigned index;
    crti_msg_actor_kill_t m = {.no_restart = true, .text = crti_str("killed")};

    if (s->actors == 0)
        return;
    index = (unsigned)sim_below(s->world, s->actors);
    m.actor = s->actor[index].id;
    if (node_ask(s, place, CRTI_MSG_ACTOR_KILL, &m, index, 0))
        s->actor[index].killed = true;
}

static void use_value(scene_t *s, unsigned place)
{
    sim_place_t *p = &s->place[place];
    uint64_t value = p->kv_asked + 1;
    char key[16];

    snprintf(key, sizeof(key), "v%u", place);
    if (sim_chance(s->world, 5000)) {
        crti_msg_kv_get_t get = {.key = crti_str(key)};

        node_ask(s, place, CRTI_MSG_KV_GET, &get, 0, p->kv_acked);
    } else if (!p->kv_busy) {
        crti_msg_kv_put_t put = {.key = crti_str(key),
                                 .value = crti_span(&value, sizeof(value)),
                                 .overwrite = true};

        p->kv_asked = value;
        p->kv_busy = node_ask(s, place, CRTI_MSG_KV_PUT, &put, 0, value);
    }
}

/* Actors of the driver's job become a group. */
static void agree(scene_t *s, unsigned place)
{
    char key[CRTI_ID_HEX + 16], hex[CRTI_ID_HEX];
    crti_msg_kv_swap_t swap = {.key = crti_str(key), .value = crti_str("roster")};

    snprintf(key, sizeof(key), "collective/%s/g",
             crti_id_hex(s->job[s->place[place].driver].id, hex));
    swap.key = crti_str(key);
    node_ask(s, place, CRTI_MSG_KV_SWAP, &swap, 0, 0);
}

/* The driver asks for more room than before. */
static void ask_room(scene_t *s, unsigned place)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t bundle = {0}, bundles = {0};
    unsigned index = (unsigned)s->place[place].driver;
    truth_job_t *job = &s->job[index];
    crti_msg_bundle_t one = {.selector = crti_str("")};
    crti_msg_resource_request_t m = {.job = job->id};

    if (job->room_busy)
        return;
    crti_resources_set(&one.resources, "CPU",
                       (int64_t)(index * ROOM_OF_JOB + ++job->room_asked));
    crti_message_encode(CRTI_MSG_BUNDLE, 0, &one, &bundle);
    crti_list_pack(&bundles, bundle.data, bundle.size);
    m.bundles = crti_span(bundles.data, bundles.size);
    job->room_busy =
        node_ask(s, place, CRTI_MSG_RESOURCE_REQUEST, &m, index, job->room_asked);
}

static void act(void *user, uint64_t place)
{
    scene_t *s = user;
    const sim_place_t *p = &s->place[place];
    uint64_t kind = sim_below(s->world, 100);

    if (s->is_ending)
        return;
    sim_after(s->world, sim_below(s->world, 200 * CRTI_MS), act, s, place);
    if (!p->up || s->control == NULL)
        return;
    if (p->driver < 0) {
        if (kind < 30)
            begin_job(s, (unsigned)place);
    } else if (kind < 35 && s->job[p->driver].added) {
        create_actor(s, (unsigned)place);
    } else if (kind < 45) {
        kill_actor(s, (unsigned)place);
    } else if (kind < 50 && s->actors) {
        watch_actor(s, (unsigned)place, (unsigned)sim_below(s->world, s->actors));
    } else if (kind < 80) {
        use_value(s, (unsigned)place);
    } else if (kind < 83) {
        node_end_driver(s, (unsigned)place, true);
    } else if (kind < 86 && s->job[p->driver].added) {
        agree(s, (unsigned)place);
    } else if (kind < 90 && s->job[p->driver].added) {
        ask_room(s, (unsigned)place);
    }
}

static void administer(void *user, uint64_t number)
{
    scene_t *s = user;

    if (s->is_ending)
        return;
    sim_after(s->world, sim_below(s->world, 800 * CRTI_MS), administer, s, 0);
    if (sim_chance(s->world, 7000))
        admin_submit(s);
    else
        admin_stop_some(s);
}

/* ---------------------------------------------------------------- weather */

static void revive_node(void *user, uint64_t place)
{
    scene_t *s = user;

    if (!s->place[place].up)
        node_start(s, (unsigned)place);
}

static void revive_head(void *user, uint64_t number)
{
    scene_t *s = user;

    if (s->control == NULL)
        head_start(s);
}

static void end_some_process(scene_t *s)
{
    unsigned index;

    if (s->processes == 0)
        return;
    index = (unsigned)sim_below(s->world, s->processes);
    if (s->process[index].running)
        node_end_process(s, index, true, !sim_chance(s->world, 1500));
}

static void cut(scene_t *s, unsigned place)
{
    s->place[place].cut_until =
        s->world->now + sim_below(s->world, CRTI_LIMIT(heartbeat_timeout) / 5 * 9);
    sim_note(s->world, "place %u is cut off until %.3f", place,
             (double)(s->place[place].cut_until - SIM_START) / 1e9);
}

static void trouble_store(scene_t *s)
{
    uint64_t until = s->world->now + sim_below(s->world, 2 * CRTI_S);

    if (sim_chance(s->world, 5000))
        s->store_stall_until = until;
    else
        s->store_fail_until = until;
}

static void weather(void *user, uint64_t number)
{
    scene_t *s = user;
    sim_world_t *w = s->world;
    uint64_t kind = sim_below(w, 100);
    unsigned place = (unsigned)sim_below(w, SIM_NODES);

    if (s->is_ending)
        return;
    sim_after(w, sim_below(w, 600 * CRTI_MS), weather, s, 0);
    if (kind < 6 && s->control) {
        head_kill(s);
        sim_after(w, sim_below(w, sim_chance(w, 2000) ? 12 * CRTI_S : CRTI_S),
                  revive_head, s, 0);
    } else if (kind < 25) {
        unsigned any = (unsigned)sim_below(w, PLACES);

        if (s->place[any].link >= 0)
            links_break(s, (unsigned)s->place[any].link);
    } else if (kind < 32) {
        trouble_store(s);
    } else if (kind < 60 && !s->calm) {
        end_some_process(s);
    } else if (kind < 68 && !s->calm && s->place[place].up) {
        node_kill(s, place);
        sim_after(w, sim_below(w, 4 * CRTI_S), revive_node, s, place);
    } else if (kind < 74 && !s->calm) {
        cut(s, place);
    }
}

/* ---------------------------------------------------------------- a run */

static void begin(scene_t *s)
{
    sim_world_t *w = s->world;

    s->calm = sim_chance(w, 3000);
    s->links = 1; /* 0 is no link */
    crti_list_init(&s->rows);
    crti_list_init(&s->pending);
    crti_map_init(&s->row_by_key, 0);
    crti_map_init(&s->revoked, sizeof(crti_id_t));
    crti_map_init(&s->actor_by_id, sizeof(crti_id_t));
    crti_map_init(&s->job_by_id, sizeof(crti_id_t));
    head_start(s);
    for (unsigned i = 0; i < PLACES; i++) {
        s->place[i].scene = s;
        s->place[i].index = i;
        s->place[i].id = sim_id(w, 5);
        s->place[i].id.high |= (uint64_t)i << 32; /* the first 48 bits tell nodes apart */
        s->place[i].incarnation = 1;
        crti_list_init(&s->place[i].questions);
        node_start(s, i);
        if (i < SIM_NODES)
            sim_after(w, sim_below(w, 200 * CRTI_MS), act, s, i);
    }
    sim_after(w, CRTI_S, weather, s, 0);
    sim_after(w, CRTI_S, administer, s, 0);
}

/* Everything is well; a minute passes. */
static void let_rest(scene_t *s)
{
    s->is_ending = true;
    s->store_fail_until = s->store_stall_until = 0;
    for (unsigned i = 0; i < PLACES; i++)
        s->place[i].cut_until = 0;
    revive_head(s, 0);
    for (unsigned i = 0; i < SIM_NODES; i++)
        revive_node(s, i);
    sim_run_until(s->world, s->world->now + REST, 100000 * 32,
                  "after all was well again");
}

static void end(scene_t *s)
{
    crti_control_free(s->control);
    links_free(s);
    store_free(s);
    node_free(s);
    crti_map_fini(&s->revoked);
    crti_map_fini(&s->actor_by_id);
    crti_map_fini(&s->job_by_id);
    free(s);
}

static void run(sim_world_t *world)
{
    scene_t *s = calloc(1, sizeof(*s));

    if (s == NULL)
        abort();
    s->world = world;
    begin(s);
    while (world->events < SIM_EVENTS * 3 / 2 && sim_step(world))
        continue;
    if (!world->failed)
        let_rest(s);
    if (!world->failed)
        check_rest(s);
    end(s);
}

int main(int argc, char **argv)
{
    static const char *const machines[] = {"node", "actor", "job"};
    static const sim_scenario_t scenario = {"control", run, machines, 3, .seeds = 120};

    crti_log_select(getenv("CRT_LOG") ? getenv("CRT_LOG") : "error");
    return sim_main(argc, argv, &scenario);
}
