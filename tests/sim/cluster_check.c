/* SPDX-License-Identifier: Apache-2.0 */
/* What must hold in a cluster. See cluster.h. */
#include <stdio.h>
#include <string.h>

#include "runtime/base/fence.h"
#include "runtime/base/limit.h"
#include "runtime/control/control_request.h"
#include "runtime/control/control_resource_request.h"
#include "tests/sim/cluster.h"

int truth_actor_of(const scene_t *s, crti_id_t id)
{
    const truth_actor_t *actor = crti_map_get(&s->actor_by_id, &id);

    return actor ? (int)(actor - s->actor) : -1;
}

int truth_job_of(const scene_t *s, crti_id_t id)
{
    const truth_job_t *job = crti_map_get(&s->job_by_id, &id);

    return job ? (int)(job - s->job) : -1;
}

static uint64_t serial_of(scene_t *s, unsigned index)
{
    truth_actor_t *actor = &s->actor[index];
    const crti_actor_entry_t *entry =
        s->control ? crti_actor_table_get(&s->control->actors, actor->id) : NULL;

    if (entry)
        actor->serial = entry->serial;
    return actor->serial;
}

void check_start(scene_t *s, unsigned index, uint64_t incarnation, unsigned place)
{
    truth_actor_t *actor = &s->actor[index];

    /* An older one may begin late, behind a cut; its node hears soon that it was dead. */
    if (incarnation == 0 || incarnation > 63 || actor->ran >> incarnation & 1)
        sim_fail(s->world, "actor %u runs a second time as incarnation %llu, on place %u",
                 index, (unsigned long long)incarnation, place);
    if (actor->refused)
        sim_fail(s->world, "actor %u runs although its maker was told that it failed",
                 index);
    actor->ran |= 1ull << (incarnation & 63);
    serial_of(s, index); /* the head may be gone when it is asked for */
}

static bool takes_calls(const scene_t *s, const process_t *process)
{
    return process->running && !process->gone &&
           !(s->actor[process->actor].fenced &&
             crti_fence_is_shut(s->place[process->place].fence_ns, s->world->now));
}

static bool is_before(scene_t *s, const process_t *a, const process_t *b)
{
    if (a->actor == b->actor)
        return a->incarnation < b->incarnation;
    return serial_of(s, a->actor) < serial_of(s, b->actor);
}

/* Of two that follow each other the first one gave the promise: nobody takes calls beside a fenced
 * actor that is older. */
void check_fence(scene_t *s, const process_t *process)
{
    const truth_actor_t *actor = &s->actor[process->actor];

    if (!takes_calls(s, process))
        return;
    for (unsigned i = 0; i < s->processes; i++) {
        const process_t *other = &s->process[i];
        const truth_actor_t *its = &s->actor[other->actor];
        bool is_same = its == actor || (*actor->name && !strcmp(its->name, actor->name));
        const truth_actor_t *older = is_before(s, other, process) ? its : actor;

        if (other != process && is_same && older->fenced && takes_calls(s, other))
            sim_fail(
                s->world,
                "actor %u.%llu takes calls on place %u and %u.%llu on %u, and one is "
                "fenced",
                process->actor, (unsigned long long)process->incarnation, process->place,
                other->actor, (unsigned long long)other->incarnation, other->place);
    }
}

/* ---------------------------------------------------------------- at rest */

static const process_t *running(const scene_t *s, unsigned actor, unsigned *count_out)
{
    const process_t *found = NULL;

    *count_out = 0;
    for (unsigned i = 0; i < s->processes; i++)
        if (s->process[i].actor == actor && !s->process[i].gone) {
            found = &s->process[i];
            (*count_out)++;
        }
    return found;
}

/* May an actor whose creation was acknowledged be dead? */
static bool may_be_dead(const scene_t *s, const truth_actor_t *a,
                        const crti_actor_entry_t *entry)
{
    if (a->killed || a->failed || (!a->detached && s->job[a->job].over))
        return true;
    if (a->max_restarts < 0 || (int64_t)entry->restarts < a->max_restarts)
        return false;
    return !s->calm || a->deaths > 0;
}

/* The head keeps the dead for some time, which may be over. */
static bool may_be_forgotten(const scene_t *s, const truth_actor_t *a)
{
    bool may_have_died = a->killed || a->failed || a->deaths > 0 || !s->calm ||
                         (!a->detached && s->job[a->job].over);

    return may_have_died && s->world->now > SIM_START + CRTI_LIMIT(dead_actors_time);
}

static void check_actor(scene_t *s, unsigned index)
{
    const truth_actor_t *a = &s->actor[index];
    const crti_actor_entry_t *entry = crti_actor_table_get(&s->control->actors, a->id);
    unsigned count;
    const process_t *process = running(s, index, &count);
    bool alive = entry && entry->state == CRTI_ACTOR_ALIVE;

    if (a->acked && entry == NULL && !may_be_forgotten(s, a))
        sim_fail(s->world, "acknowledged actor %u is lost", index);
    else if (entry && a->acked && entry->state == CRTI_ACTOR_DEAD &&
             !may_be_dead(s, a, entry))
        sim_fail(s->world, "actor %u is dead without a reason: %s", index, entry->text);
    else if (entry && entry->state == CRTI_ACTOR_STARTING)
        sim_fail(s->world, "actor %u starts and starts", index);
    else if (entry &&
             (entry->state == CRTI_ACTOR_PENDING ||
              entry->state == CRTI_ACTOR_RESTARTING) &&
             !a->never_fits && crti_control_figures(s->control).actors_living < SIM_NODES)
        sim_fail(s->world, "actor %u waits: %s", index, entry->text);
    else if (count > 1)
        sim_fail(s->world, "actor %u has %u processes", index, count);
    else if (alive && (process == NULL || process->incarnation != entry->incarnation ||
                       !crti_id_equal(process->id, entry->process)))
        sim_fail(s->world, "actor %u is alive and has no such process", index);
    else if (!alive && process)
        sim_fail(s->world, "actor %u is %s and has a process", index,
                 entry ? crti_actor_state_name(entry->state) : "unknown");
    else if (entry && entry->state == CRTI_ACTOR_DEAD && a->killed == false && s->calm &&
             a->deaths == 0 && !a->failed && a->acked && !s->job[a->job].over)
        sim_fail(s->world, "actor %u died while nothing died: %s", index, entry->text);
}

static void check_names(scene_t *s)
{
    for (unsigned i = 0; i < s->actors; i++)
        for (unsigned j = i + 1; j < s->actors; j++) {
            unsigned one, two;

            if (s->actor[i].name[0] == '\0' ||
                strcmp(s->actor[i].name, s->actor[j].name) != 0)
                continue;
            running(s, i, &one);
            running(s, j, &two);
            if (one && two)
                sim_fail(s->world, "two actors live under the name %s", s->actor[i].name);
        }
}

static void check_submission(scene_t *s, const truth_job_t *job)
{
    const crti_job_entry_t *entry =
        crti_job_table_find(&s->control->jobs, crti_str(job->submission));

    if (entry == NULL) {
        if (job->acked)
            sim_fail(s->world, "acknowledged submission %s is lost", job->submission);
        return;
    }
    if (!crti_job_entry_is_ended(entry))
        sim_fail(s->world, "submission %s is %s at rest", job->submission,
                 crti_job_state_name(entry->state));
    if (entry->state == CRTI_JOB_SUCCEEDED && job->executions != 1)
        sim_fail(s->world, "submission %s succeeded and ran %u times", job->submission,
                 job->executions);
    if (entry->state == CRTI_JOB_STOPPED && !job->stop_asked)
        sim_fail(s->world, "submission %s is stopped and nobody asked", job->submission);
}

static void check_job(scene_t *s, unsigned index)
{
    const truth_job_t *job = &s->job[index];
    const crti_job_entry_t *entry;
    bool lives = s->place[job->place].driver == (int)index;

    if (job->submission[0]) {
        check_submission(s, job);
        return;
    }
    entry = crti_job_table_get(&s->control->jobs, job->id);
    if (lives && job->added && (entry == NULL || crti_job_entry_is_ended(entry)))
        sim_fail(s->world, "job %u runs and the head says it %s", index,
                 entry ? "has ended" : "is unknown");
    if (!lives && entry && !crti_job_entry_is_ended(entry))
        sim_fail(s->world, "job %u is gone and the head says it runs", index);
}

/* Whoever watches knows how it ended. */
static void check_watchers(scene_t *s)
{
    for (unsigned place = 0; place < SIM_NODES; place++)
        for (unsigned i = 0; i < s->actors; i++) {
            const sim_place_t *p = &s->place[place];
            const crti_actor_entry_t *entry =
                crti_actor_table_get(&s->control->actors, s->actor[i].id);

            if (!(p->watched[i / 64] >> i % 64 & 1) || entry == NULL)
                continue;
            if (p->seen[i].state != entry->state ||
                p->seen[i].incarnation != entry->incarnation)
                sim_fail(s->world, "place %u saw actor %u last as %s %llu, it is %s %llu",
                         place, i, crti_actor_state_name(p->seen[i].state),
                         (unsigned long long)p->seen[i].incarnation,
                         crti_actor_state_name(entry->state),
                         (unsigned long long)entry->incarnation);
        }
}

/* What groups agreed on is there for jobs that somebody belongs to. */
static void check_groups(scene_t *s)
{
    char before[32], hex[CRTI_ID_HEX];

    snprintf(before, sizeof(before), "%d/collective/", (int)CRTI_STORE_KV);
    CRTI_LIST_FOREACH (item, &s->rows) {
        const char *key = CRTI_CONTAINER(item, row_t, in_rows)->key;
        const crti_job_entry_t *job;
        crti_id_t id;

        if (strncmp(key, before, strlen(before)) != 0)
            continue;
        snprintf(hex, sizeof(hex), "%s", key + strlen(before));
        job = crti_id_parse(hex, &id) ? crti_job_table_get(&s->control->jobs, id) : NULL;
        if (job == NULL || (crti_job_entry_is_ended(job) && job->actors == 0))
            sim_fail(s->world, "%s is left of a job that %s", key,
                     job ? "has ended" : "is not known");
    }
}

/* What a driver was told to be asked for is, or what it asked for since. */
static void check_room(scene_t *s)
{
    crti_demand_t demand;

    crti_demand_init(&demand);
    crti_control_resource_requests_add(s->control, &demand);
    for (unsigned place = 0; place < SIM_NODES; place++) {
        int driver = s->place[place].driver;
        const truth_job_t *job = &s->job[driver < 0 ? 0 : driver];
        bool is_there = driver < 0 || job->room_acked == 0;

        for (size_t i = 0; i < demand.count && !is_there; i++) {
            uint64_t amount =
                (uint64_t)crti_resources_get(&demand.entries[i].need, "CPU");

            is_there = amount / ROOM_OF_JOB == (uint64_t)driver &&
                       amount % ROOM_OF_JOB >= job->room_acked &&
                       amount % ROOM_OF_JOB <= job->room_asked;
        }
        if (!is_there)
            sim_fail(s->world, "job %d was told that %llu is asked for, and it is not",
                     driver, (unsigned long long)job->room_acked);
    }
    crti_demand_fini(&demand);
}

static void check_rows(scene_t *s)
{
    const crti_control_t *c = s->control;

    if (store_count(s, CRTI_STORE_ACTORS) != c->actors.by_id.count ||
        store_count(s, CRTI_STORE_ACTOR_STATES) != c->actors.by_id.count)
        sim_fail(s->world, "%zu actors, %zu and %zu rows", c->actors.by_id.count,
                 store_count(s, CRTI_STORE_ACTORS),
                 store_count(s, CRTI_STORE_ACTOR_STATES));
    if (store_count(s, CRTI_STORE_JOBS) != c->jobs.by_id.count ||
        store_count(s, CRTI_STORE_JOB_STATES) != c->jobs.by_id.count)
        sim_fail(s->world, "%zu jobs, %zu and %zu rows", c->jobs.by_id.count,
                 store_count(s, CRTI_STORE_JOBS), store_count(s, CRTI_STORE_JOB_STATES));
    if (store_count(s, CRTI_STORE_NODES) != c->nodes.by_id.count)
        sim_fail(s->world, "%zu nodes, %zu rows", c->nodes.by_id.count,
                 store_count(s, CRTI_STORE_NODES));
    if (store_count(s, CRTI_STORE_RESOURCE_REQUESTS) != c->resource_request_count)
        sim_fail(s->world, "%zu requests for room, %zu rows", c->resource_request_count,
                 store_count(s, CRTI_STORE_RESOURCE_REQUESTS));
    if (c->resource_request_count > SIM_NODES)
        sim_fail(s->world, "%zu requests for room of %d drivers",
                 c->resource_request_count, SIM_NODES);
    check_groups(s);
}

/* Those of others: the head asks by itself, again and again, while something waits for room. */
static size_t open_requests(const crti_control_t *c)
{
    size_t count = 0;

    CRTI_LIST_FOREACH (item, &c->requests)
        count += CRTI_CONTAINER(item, crti_request_t, in_requests)->kind !=
                 CRTI_MSG_STATE_QUERY;
    return count;
}

void check_rest(scene_t *s)
{
    crti_control_figures_t f = crti_control_figures(s->control);
    size_t requests = open_requests(s->control);

    if (f.nodes_alive != SIM_NODES || f.links != PLACES)
        sim_fail(s->world, "%zu nodes alive, %zu links", f.nodes_alive, f.links);
    if (f.outbox || requests || f.dirty)
        sim_fail(s->world, "left over: %zu in the outbox, %zu requests, %zu rows",
                 f.outbox, requests, f.dirty);
    if (s->revoked.count)
        sim_fail(s->world, "%zu creations stay revoked", s->revoked.count);
    for (unsigned i = 0; i < PLACES; i++)
        if (!crti_list_is_empty(&s->place[i].questions))
            sim_fail(s->world, "place %u has a question without an answer: %s", i,
                     crti_message_name(
                         CRTI_CONTAINER(s->place[i].questions.next, question_t, in_list)
                             ->kind));
    for (unsigned i = 0; i < s->actors && !s->world->failed; i++)
        check_actor(s, i);
    for (unsigned i = 0; i < s->jobs && !s->world->failed; i++)
        check_job(s, i);
    check_names(s);
    check_watchers(s);
    check_rows(s);
    check_room(s);
}
