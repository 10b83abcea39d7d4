/* SPDX-License-Identifier: Apache-2.0 */
/* Objects of 60 processes on 20 nodes: owners and borrowers, refs inside values, refs that are
 * passed on, results with refs, pulls between nodes, deaths of processes and nodes.
 *
 * Programs do what comes to mind (program.c of this file: act, run_call). The checks see the whole
 * cluster at once:
 *     when an owner frees an object, no living process has a ref to it that was backed all the way
 *         (a ref whose cover died with its giver is not), and no registration is on its way;
 *     a get fails with OWNER_DIED only when the owner is dead, with OBJECT_LOST only after a death;
 *     an owner gives an object up only when no node that lives has a copy that it was, or will be,
 *     told of; when everybody has dropped everything and the network is well, no object, ref, call,
 *     pull or
 *         byte in a store is left, but what a giver that died in between took with it.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/sim/objects.h"
#include "tests/sim/runner.h"

/* ---------------------------------------------------------------- programs */

static void add_handle(scene_t *scene, sim_ref_t *ref)
{
    program_t *program = &scene->program[ref->holder->process.place];

    if (program->count == HANDLES || scene->is_ending)
        return;
    sim_ref_hold(ref);
    program->handle[program->count++] = ref;
}

static void drop_handle(scene_t *scene, sim_holder_t *h, unsigned index)
{
    program_t *program = &scene->program[h->process.place];
    sim_ref_t *ref = program->handle[index];

    program->handle[index] = program->handle[--program->count];
    sim_ref_release(ref);
}

static sim_ref_t *pick_handle(scene_t *scene, const sim_holder_t *h)
{
    const program_t *program = &scene->program[h->process.place];

    return program->count ? program->handle[sim_below(scene->world, program->count)]
                          : NULL;
}

/* Up to `most` handles; the same one may come twice. */
static unsigned pick_some(scene_t *scene, const sim_holder_t *h, sim_ref_t **refs,
                          unsigned most)
{
    unsigned count = 0;

    for (uint64_t n = sim_below(scene->world, most + 1); n > 0; n--)
        if ((refs[count] = pick_handle(scene, h)))
            count++;
    return count;
}

/* The hold that came with a new ref becomes a handle, or ends. */
static void keep_or_drop(scene_t *scene, sim_ref_t *ref)
{
    if (sim_chance(scene->world, 8000))
        add_handle(scene, ref);
    sim_ref_release(ref);
}

static void put(scene_t *scene, sim_holder_t *h)
{
    sim_ref_t *inner[SIM_REFS];
    unsigned count = pick_some(scene, h, inner, 2);
    sim_ref_t *ref = sim_holder_put(h, inner, count, sim_chance(scene->world, 4000));

    sim_objects_made_of(scene, ref->id, inner, count);
    keep_or_drop(scene, ref);
}

static void call_somebody(scene_t *scene, sim_holder_t *h, sim_ref_t *const *args,
                          unsigned count)
{
    unsigned place =
        (h->process.place + 1 + (unsigned)sim_below(scene->world, 6)) % PLACES;
    const sim_holder_t *other = &scene->holder[place];

    if (!other->process.is_alive)
        return;
    keep_or_drop(scene,
                 sim_holder_send_call(h, sim_holder_remote(h, other->process.id, place),
                                      args, count));
}

static void act(void *user, uint64_t place)
{
    scene_t *scene = user;
    sim_world_t *w = scene->world;
    sim_holder_t *h = &scene->holder[place];
    uint64_t kind = sim_below(w, 100);
    sim_ref_t *refs[SIM_REFS];
    unsigned count;

    if (scene->is_ending)
        return;
    sim_after(w, sim_below(w, 400 * CRTI_MS), act, scene, place);
    if (!h->process.is_alive)
        return;
    if (kind < 20) {
        put(scene, h);
    } else if (kind < 60) {
        count = pick_some(scene, h, refs, SIM_REFS);
        call_somebody(scene, h, refs, count);
    } else if (kind < 80) {
        if (scene->program[place].count)
            drop_handle(scene, h, (unsigned)sim_below(w, scene->program[place].count));
    } else if ((refs[0] = pick_handle(scene, h))) {
        sim_holder_get(refs[0]);
    }
}

/* What a function does with its arguments before it returns. */
static void use_arguments(scene_t *scene, sim_call_t *call)
{
    sim_holder_t *h = call->holder;
    sim_world_t *w = scene->world;

    for (unsigned i = 0; i < call->arg_count; i++) {
        if (sim_chance(w, 4000))
            add_handle(scene, call->args[i]);
        if (sim_chance(w, 3000))
            sim_holder_get(call->args[i]);
    }
    if (call->arg_count && !scene->is_ending && sim_chance(w, 2500))
        call_somebody(scene, h, call->args, call->arg_count);
}

static void finish_call(void *user, uint64_t number)
{
    scene_t *scene = user;
    sim_world_t *w = scene->world;
    sim_holder_t *h = &scene->holder[number % PLACES];
    sim_call_t *call = sim_holder_call(h, number / PLACES);
    sim_ref_t *picked[SIM_REFS], *results[SIM_REFS];
    unsigned count, kept = 0;
    crti_object_id_t id;
    bool fails = sim_chance(w, 500);

    if (!call || call->is_ending)
        return;
    id = (crti_object_id_t){call->caller, call->number};
    count = pick_some(scene, h, picked, 2);
    if (call->arg_count && sim_chance(w, 2000))
        picked[count++] = call->args[0];
    for (unsigned i = 0; i < count && !fails; i++)
        if (!sim_objects_lead_to(scene, picked[i]->id, id))
            results[kept++] = picked[i];
    sim_objects_made_of(scene, id, results, kept);
    sim_call_finish(call, results, kept, sim_chance(w, 3000), fails);
}

static void on_call(sim_holder_t *h, sim_call_t *call)
{
    scene_t *scene = h->process.user;
    sim_world_t *w = scene->world;
    uint64_t time =
        sim_chance(w, 9000) ? sim_below(w, 20 * CRTI_MS) : sim_below(w, CRTI_S);
    uint64_t serial = call->serial;

    use_arguments(scene, call);
    sim_after(w, time, finish_call, scene, serial * PLACES + h->process.place);
}

static void on_content(sim_holder_t *h, sim_ref_t *ref, crt_status_t status)
{
    scene_t *scene = h->process.user;

    sim_objects_check_content(scene, h, ref, status);
    for (unsigned i = 0; i < ref->inner_count && ref->gets; i++)
        if (sim_chance(scene->world, 4000))
            add_handle(scene, ref->inner[i]);
}

/* ---------------------------------------------------------------- deaths */

static void start_place(void *user, uint64_t place)
{
    scene_t *scene = user;
    sim_holder_t *h = &scene->holder[place];

    if (h->process.is_alive || !scene->node[h->process.node].is_alive)
        return;
    sim_process_start(&h->process, sim_id(scene->world, 0xb), 1);
}

static void on_process_notice(void *user, uint64_t number)
{
    scene_t *scene = user;
    sim_holder_t *h = &scene->holder[number % PLACES];

    if (h->process.is_alive)
        sim_holder_process_died(h, scene->dead[number / PLACES]);
}

static void watch(sim_holder_t *h, crti_id_t process)
{
    scene_t *scene = h->process.user;

    for (size_t i = 0; i < scene->dead_count; i++)
        if (crti_id_equal(scene->dead[i], process))
            sim_after(scene->world, sim_below(scene->world, 300 * CRTI_MS),
                      on_process_notice, scene, i * PLACES + h->process.place);
}

static void kill_place(scene_t *scene, unsigned place)
{
    sim_holder_t *h = &scene->holder[place];
    crti_id_t id = h->process.id;
    sim_world_t *w = scene->world;

    if (!h->process.is_alive || scene->dead_count == DEATHS)
        return;
    sim_note(w, "place %u: killed", place);
    scene->dead[scene->dead_count++] = id;
    scene->program[place].count = 0;
    sim_holder_fini(h);
    sim_holder_init(h, &scene->net, place, h->ops, scene);
    sim_stores_process_died(scene, h->process.node, id);
    for (unsigned i = 0; i < PLACES; i++)
        if (scene->holder[i].process.is_alive &&
            crti_map_get(&scene->holder[i].by_process, &id))
            sim_after(w, sim_below(w, CRTI_S), on_process_notice, scene,
                      (scene->dead_count - 1) * PLACES + i);
    sim_after(w, sim_below(w, 3 * CRTI_S), start_place, scene, place);
}

static void start_node(void *user, uint64_t node)
{
    scene_t *scene = user;

    if (scene->node[node].is_alive)
        return;
    sim_stores_start(scene, (unsigned)node);
    for (unsigned place = 0; place < PLACES; place++)
        if (scene->node_of[place] == node)
            start_place(scene, place);
}

static void on_node_notice(void *user, uint64_t number)
{
    scene_t *scene = user;
    crti_id_t node = scene->dead_nodes[number / NODES];

    for (unsigned place = 0; place < PLACES; place++)
        if (scene->node_of[place] == number % NODES &&
            scene->holder[place].process.is_alive)
            sim_holder_node_died(&scene->holder[place], node);
    sim_stores_node_died(scene, (unsigned)(number % NODES), node);
}

static void kill_node(scene_t *scene, unsigned node)
{
    sim_world_t *w = scene->world;

    if (!scene->node[node].is_alive || scene->dead_count + 3 > DEATHS)
        return;
    sim_note(w, "node %u: dies", node);
    scene->dead_nodes[scene->dead_node_count++] = scene->node[node].id;
    sim_stores_kill(scene, node);
    for (unsigned place = 0; place < PLACES; place++)
        if (scene->node_of[place] == node)
            kill_place(scene, place);
    for (unsigned i = 0; i < NODES; i++)
        sim_after(w, sim_below(w, CRTI_S), on_node_notice, scene,
                  (scene->dead_node_count - 1) * NODES + i);
    sim_after(w, CRTI_S + sim_below(w, 2 * CRTI_S), start_node, scene, node);
}

static void on_source_dies(void *user, uint64_t node)
{
    kill_node(user, (unsigned)node);
}

/* Now and then all others that have the object die before the word of the copy is heard. */
static void on_copy(sim_holder_t *h, crti_object_id_t object)
{
    scene_t *scene = h->process.user;
    sim_world_t *w = scene->world;

    sim_stores_on_copy(h, object);
    if (!scene->has_deaths || scene->is_ending || !sim_chance(w, 100))
        return;
    sim_network_isolate(&scene->net, h->process.node, sim_below(w, 2 * CRTI_S));
    for (unsigned i = 0; i < NODES; i++)
        if (i != h->process.node && scene->node[i].is_alive &&
            crti_map_get(&scene->node[i].store, &object))
            sim_after(w, 0, on_source_dies, scene, i);
}

static void weather(void *user, uint64_t number)
{
    scene_t *scene = user;
    sim_world_t *w = scene->world;
    uint64_t kind = sim_below(w, 100);

    if (scene->is_ending)
        return;
    sim_after(w, sim_below(w, 100 * CRTI_MS), weather, scene, 0);
    if (kind < 20 && scene->has_deaths)
        kill_place(scene, (unsigned)sim_below(w, PLACES));
    else if (kind < 25 && scene->has_deaths)
        kill_node(scene, (unsigned)sim_below(w, NODES));
    else if (kind < 40)
        sim_network_isolate(&scene->net, (unsigned)sim_below(w, NODES),
                            sim_below(w, 2 * CRTI_S));
    else
        sim_network_reconnect(&scene->net, (unsigned)sim_below(w, PLACES),
                              (unsigned)sim_below(w, PLACES));
}

/* ---------------------------------------------------------------- a run */

static bool may_lose(sim_holder_t *h)
{
    return ((const scene_t *)h->process.user)->dead_count > 0;
}

static const sim_holder_ops_t holder_ops = {.on_call = on_call,
                                            .on_content = on_content,
                                            .on_free = sim_objects_check_free,
                                            .watch = watch,
                                            .on_grant = sim_objects_on_grant,
                                            .on_token = sim_objects_on_token,
                                            .has = sim_stores_has,
                                            .pull = sim_stores_pull,
                                            .store = sim_stores_store,
                                            .unstore = sim_stores_unstore,
                                            .may_lose = may_lose,
                                            .node_id = sim_stores_node_id,
                                            .on_copy = on_copy,
                                            .on_lost = sim_stores_check_lost,
                                            .serial = sim_objects_serial};

static void receive(void *user, const sim_packet_t *packet)
{
    scene_t *scene = user;

    sim_process_receive(&scene->holder[packet->to].process, packet);
}

static void begin(scene_t *scene)
{
    static const unsigned losses[] = {0, 0, 50, 200};
    sim_world_t *w = scene->world;

    scene->has_deaths = sim_chance(w, 7000);
    scene->is_tight = sim_chance(w, 3000);
    for (unsigned i = 0; i < PLACES; i++)
        scene->node_of[i] = i / (PLACES / NODES);
    sim_network_init(&scene->net, w, NODES, PLACES, scene->node_of, receive, scene);
    scene->net.law = (sim_law_t){.loss = losses[sim_below(w, 4)],
                                 .duplicate = losses[sim_below(w, 4)],
                                 .is_ordered = sim_chance(w, 5000),
                                 .delay = sim_between(w, 50000, 2 * CRTI_MS),
                                 .jitter = sim_between(w, 1000, 10 * CRTI_MS)};
    crti_map_init(&scene->made_by_id, sizeof(crti_object_id_t));
    crti_list_init(&scene->made);
    for (unsigned i = 0; i < NODES; i++)
        sim_stores_start(scene, i);
    for (unsigned i = 0; i < PLACES; i++) {
        sim_holder_init(&scene->holder[i], &scene->net, i, &holder_ops, scene);
        start_place(scene, i);
        sim_after(w, sim_below(w, 60 * CRTI_MS), act, scene, i);
    }
    sim_after(w, 0, weather, scene, 0);
}

/* The network is well, nobody begins anything; then everybody drops everything. */
static void let_rest(scene_t *scene)
{
    sim_world_t *w = scene->world;

    scene->is_ending = true;
    scene->is_tight = false;
    sim_network_heal(&scene->net);
    sim_run_until(w, UINT64_MAX, 200000, "after the network was well again");
    for (unsigned i = 0; i < PLACES && !w->failed; i++)
        while (scene->program[i].count && !w->failed)
            drop_handle(scene, &scene->holder[i], 0);
    sim_run_until(w, UINT64_MAX, 200000, "after everything was dropped");
}

static void end(scene_t *scene)
{
    crti_list_t *item;

    for (unsigned i = 0; i < PLACES; i++)
        sim_holder_fini(&scene->holder[i]);
    for (unsigned i = 0; i < NODES; i++)
        sim_stores_kill(scene, i);
    while ((item = crti_list_pop(&scene->made)))
        free(CRTI_CONTAINER(item, made_t, link));
    crti_map_fini(&scene->made_by_id);
    sim_network_fini(&scene->net);
    free(scene->grants);
    free(scene->transfers);
    free(scene);
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
    if (!world->failed)
        sim_objects_end_lost_grants(scene);
    if (!world->failed)
        sim_run_until(world, UINT64_MAX, 100000, "after lost grants ended");
    if (!world->failed)
        sim_objects_check_rest(scene);
    end(scene);
}

int main(int argc, char **argv)
{
    static const char *const machines[] = {"ownership", "borrow", "pull"};
    static const sim_scenario_t scenario = {"objects", run, machines, 3, .seeds = 500};

    return sim_main(argc, argv, &scenario);
}
