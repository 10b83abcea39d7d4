/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes as the head sees them. See cluster.h; the real ones are in runtime/node. */
#include <stdlib.h>
#include <string.h>

#include "runtime/base/limit.h"
#include "tests/sim/cluster.h"

static void send_on(sim_place_t *p, crti_message_kind_t kind, uint64_t request,
                    const void *body)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t bytes = {0};

    if (p->link < 0)
        return;
    if (crti_message_encode(kind, request, body, &bytes) != CRT_OK)
        abort();
    links_send(p->scene, (unsigned)p->link, TO_HEAD, bytes.data, bytes.size);
}

/* Also before NODE_REGISTERED: what ends after NODE_REGISTER was sent is still in that report. */
void node_notice(scene_t *s, unsigned place, crti_message_kind_t kind, const void *body)
{
    if (s->place[place].link >= 0)
        send_on(&s->place[place], kind, 0, body);
}

static void send_error(sim_place_t *p, uint64_t request, crt_status_t status,
                       const char *text)
{
    crti_msg_error_t error = {.status = status, .text = crti_str(text)};

    send_on(p, CRTI_MSG_ERROR, request, &error);
}

/* ---------------------------------------------------------------- questions */

static void send_question(sim_place_t *p, const question_t *q)
{
    links_send(p->scene, (unsigned)p->link, TO_HEAD, q->bytes.data, q->bytes.size);
}

bool node_ask(scene_t *s, unsigned place, crti_message_kind_t kind, const void *body,
              unsigned subject, uint64_t value)
{
    sim_place_t *p = &s->place[place];
    question_t *q;

    if (!p->up)
        return false;
    q = calloc(1, sizeof(*q));
    if (q == NULL)
        abort();
    q->number = ++p->last_number;
    q->kind = kind;
    q->subject = subject;
    q->value = value;
    if (crti_message_encode(kind, q->number, body, &q->bytes) != CRT_OK)
        abort();
    crti_list_append(&p->questions, &q->in_list);
    if (p->registered)
        send_question(p, q);
    return true;
}

static void free_question(question_t *q)
{
    crti_list_remove(&q->in_list);
    crti_buffer_fini(&q->bytes);
    free(q);
}

static void drop_questions(sim_place_t *p)
{
    while (!crti_list_is_empty(&p->questions))
        free_question(CRTI_CONTAINER(p->questions.next, question_t, in_list));
}

static void saw_state(sim_place_t *p, const crti_msg_actor_state_t *m)
{
    int actor = truth_actor_of(p->scene, m->actor);

    if (actor < 0)
        return;
    p->seen[actor].incarnation = m->actor_incarnation;
    p->seen[actor].state = (unsigned)m->state;
}

static void answered_kv(sim_place_t *p, const question_t *q, const crti_message_t *m)
{
    uint64_t value = 0;

    if (q->kind == CRTI_MSG_KV_PUT) {
        p->kv_busy = false;
        if (m->kind == CRTI_MSG_KV_VALUE)
            p->kv_acked = q->value;
        return;
    }
    if (m->kind != CRTI_MSG_KV_VALUE)
        return;
    if (m->kv_value.found && m->kv_value.value.size == sizeof(value))
        memcpy(&value, m->kv_value.value.data, sizeof(value));
    if (value < q->value || value > p->kv_asked)
        sim_fail(p->scene->world,
                 "place %u: value %llu is read, %llu was acknowledged, %llu asked",
                 p->index, (unsigned long long)value, (unsigned long long)q->value,
                 (unsigned long long)p->kv_asked);
}

static void answered_room(truth_job_t *job, const question_t *q, const crti_message_t *m)
{
    job->room_busy = false;
    if (m->kind == CRTI_MSG_DONE)
        job->room_acked = q->value;
}

static void tell_again(void *user, uint64_t number)
{
    scene_t *s = user;
    sim_place_t *p = &s->place[number % PLACES];

    CRTI_LIST_FOREACH (item, &p->questions) {
        question_t *q = CRTI_CONTAINER(item, question_t, in_list);

        if (q->number == number / PLACES && p->registered)
            send_question(p, q);
    }
}

static void answered(sim_place_t *p, const crti_message_t *m)
{
    scene_t *s = p->scene;

    CRTI_LIST_FOREACH (item, &p->questions) {
        question_t *q = CRTI_CONTAINER(item, question_t, in_list);

        if (q->number != m->request)
            continue;
        if (q->kind == CRTI_MSG_JOB_EXITED && m->kind == CRTI_MSG_ERROR) {
            /* Told until the head has it on disk. */
            sim_after(s->world, 500 * CRTI_MS, tell_again, s,
                      q->number * PLACES + p->index);
            return;
        }
        if (q->kind == CRTI_MSG_ACTOR_CREATE)
            *(m->kind == CRTI_MSG_DONE ? &s->actor[q->subject].acked
                                       : &s->actor[q->subject].refused) = true;
        else if (q->kind == CRTI_MSG_ACTOR_WATCH && m->kind == CRTI_MSG_ACTOR_STATE)
            saw_state(p, &m->actor_state);
        else if (q->kind == CRTI_MSG_JOB_ADD)
            *(m->kind == CRTI_MSG_JOB_INFO ? &s->job[q->subject].added
                                           : &s->job[q->subject].over) = true;
        else if (q->kind == CRTI_MSG_RESOURCE_REQUEST)
            answered_room(&s->job[q->subject], q, m);
        else if (q->kind == CRTI_MSG_KV_PUT || q->kind == CRTI_MSG_KV_GET)
            answered_kv(p, q, m);
        free_question(q);
        return;
    }
}

/* ---------------------------------------------------------------- processes */

void node_end_process(scene_t *s, unsigned index, bool tell, bool created)
{
    process_t *process = &s->process[index];
    truth_actor_t *actor = &s->actor[process->actor];
    sim_place_t *p = &s->place[process->place];
    crti_msg_actor_died_t died = {.actor = actor->id,
                                  .actor_incarnation = process->incarnation,
                                  .status = CRT_ERR_ACTOR_DIED,
                                  .text = crti_str("its process died"),
                                  .created = created};

    if (process->gone)
        return;
    process->gone = true;
    actor->deaths++;
    if (!created)
        actor->failed = true;
    if (crti_resources_get(&p->available, "CPU") < 4 * CRTI_RESOURCE_ONE &&
        s->actor[process->actor].never_fits == false)
        crti_resources_set(&p->available, "CPU",
                           crti_resources_get(&p->available, "CPU") + CRTI_RESOURCE_ONE);
    sim_note(s->world, "process of actor %u.%llu on %u ends", process->actor,
             (unsigned long long)process->incarnation, process->place);
    if (tell && process->running)
        node_notice(s, process->place, CRTI_MSG_ACTOR_DIED, &died);
}

static process_t *find_process(scene_t *s, unsigned place, int actor)
{
    for (unsigned i = s->processes; i-- > 0;)
        if (!s->process[i].gone && s->process[i].place == place &&
            (int)s->process[i].actor == actor)
            return &s->process[i];
    return NULL;
}

static void answer_started(sim_place_t *p, const process_t *process, uint64_t request)
{
    crti_msg_actor_started_t m = {.actor = p->scene->actor[process->actor].id,
                                  .actor_incarnation = process->incarnation,
                                  .process = process->id,
                                  .incarnation = 1,
                                  .node = p->id,
                                  .ipc = crti_str("ipc"),
                                  .tcp = crti_str("tcp")};

    send_on(p, CRTI_MSG_ACTOR_STARTED, request, &m);
}

/* The process that was being made is there, or could not be made. */
static void made(void *user, uint64_t index)
{
    scene_t *s = user;
    process_t *process = &s->process[index];
    sim_place_t *p = &s->place[process->place];
    unsigned luck = (unsigned)sim_below(s->world, 1000);

    if (process->gone)
        return;
    if (luck < 20 && !s->calm) {
        node_end_process(s, (unsigned)index, false, true);
        send_error(p, process->request, CRT_ERR_WORKER_DIED, "killed while it started");
        return;
    }
    if (luck < 30) {
        s->actor[process->actor].failed = true;
        node_end_process(s, (unsigned)index, false, true);
        send_error(p, process->request, CRT_ERR_NOT_FOUND, "the program is missing");
        return;
    }
    process->running = true;
    check_fence(s, process);
    answer_started(p, process, process->request);
}

/* The node remembers what has ended: the head asks again when the answer was lost with a link. */
static bool has_ended(const scene_t *s, unsigned place, unsigned actor,
                      uint64_t incarnation)
{
    for (unsigned i = s->processes; i-- > 0;)
        if (s->process[i].place == place && s->process[i].actor == actor &&
            s->process[i].incarnation == incarnation)
            return true;
    return false;
}

static void start_actor(sim_place_t *p, const crti_message_t *m)
{
    scene_t *s = p->scene;
    int actor = truth_actor_of(s, m->actor_start.actor);
    process_t *process = find_process(s, p->index, actor);
    int64_t cpus = crti_resources_get(&p->available, "CPU");

    if (process && process->incarnation == m->actor_start.actor_incarnation) {
        process->request = m->request;
        if (process->running)
            answer_started(p, process, m->request);
        return;
    }
    if (process)
        node_end_process(s, (unsigned)(process - s->process), false, true);
    if (has_ended(s, p->index, (unsigned)actor, m->actor_start.actor_incarnation)) {
        send_error(p, m->request,
                   s->actor[actor].failed ? CRT_ERR_NOT_FOUND : CRT_ERR_WORKER_DIED,
                   "that incarnation has ended here already");
        return;
    }
    if (cpus < CRTI_RESOURCE_ONE || sim_chance(s->world, 300) ||
        s->processes == PROCESSES) {
        send_error(p, m->request, CRT_ERR_BACKPRESSURE, "no room");
        return;
    }
    check_start(s, (unsigned)actor, m->actor_start.actor_incarnation, p->index);
    crti_resources_set(&p->available, "CPU", cpus - CRTI_RESOURCE_ONE);
    process = &s->process[s->processes++];
    *process = (process_t){.actor = (unsigned)actor,
                           .place = p->index,
                           .incarnation = m->actor_start.actor_incarnation,
                           .id = sim_id(s->world, 4),
                           .request = m->request};
    sim_after(s->world, sim_between(s->world, CRTI_MS, 30 * CRTI_MS), made, s,
              s->processes - 1);
}

static void stop_actor(sim_place_t *p, const crti_message_t *m)
{
    scene_t *s = p->scene;
    process_t *process =
        find_process(s, p->index, truth_actor_of(s, m->actor_stop.actor));

    if (process && process->incarnation == m->actor_stop.actor_incarnation)
        node_end_process(s, (unsigned)(process - s->process), true, true);
    send_on(p, CRTI_MSG_DONE, m->request, NULL);
}

static void end_all_processes(scene_t *s, unsigned place)
{
    for (unsigned i = 0; i < s->processes; i++)
        if (s->process[i].place == place)
            node_end_process(s, i, false, true);
}

/* ---------------------------------------------------------------- drivers */

/* What a driver asked goes with it: else a question that is asked again after the driver's end was
 * lost with a link would make what nobody ends any more. */
static void drop_driver_questions(sim_place_t *p, unsigned job)
{
    CRTI_LIST_FOREACH_SAFE (item, &p->questions) {
        question_t *q = CRTI_CONTAINER(item, question_t, in_list);

        if (((q->kind == CRTI_MSG_JOB_ADD || q->kind == CRTI_MSG_RESOURCE_REQUEST) &&
             q->subject == job) ||
            (q->kind == CRTI_MSG_ACTOR_CREATE && p->scene->actor[q->subject].job == job))
            free_question(q);
    }
}

void node_end_driver(scene_t *s, unsigned place, bool tell)
{
    sim_place_t *p = &s->place[place];
    truth_job_t *job;
    crti_msg_job_end_t end;
    crti_msg_peer_died_t died;

    if (p->driver < 0)
        return;
    job = &s->job[p->driver];
    job->over = true;
    drop_driver_questions(p, (unsigned)p->driver);
    p->driver = -1;
    end = (crti_msg_job_end_t){.job = job->id};
    died = (crti_msg_peer_died_t){.process = job->driver,
                                  .incarnation = 1,
                                  .node = p->id,
                                  .status = CRT_ERR_WORKER_DIED,
                                  .text = crti_str("the driver died")};
    sim_note(s->world, "driver on %u ends", place);
    if (!tell)
        return;
    if (sim_chance(s->world, 5000))
        node_notice(s, place, CRTI_MSG_PEER_DIED, &died);
    node_notice(s, place, CRTI_MSG_JOB_END, &end);
}

/* The head says that a job is over. */
static void job_ended(scene_t *s, unsigned place, crti_id_t id)
{
    int job = truth_job_of(s, id);

    if (job >= 0)
        s->job[job].over = true;
    if (job >= 0 && s->place[place].driver == job)
        node_end_driver(s, place, false);
}

/* ---------------------------------------------------------------- the link */

static void pack(crti_buffer_t *list, crti_message_kind_t kind, const void *body)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t entry = {0};

    if (crti_message_encode(kind, 0, body, &entry) != CRT_OK ||
        crti_list_pack(list, entry.data, entry.size) != CRT_OK)
        abort();
}

static void list_actors(const sim_place_t *p, crti_buffer_t *list)
{
    const scene_t *s = p->scene;

    for (unsigned i = 0; i < s->processes; i++) {
        const process_t *process = &s->process[i];
        crti_msg_actor_running_t m = {.actor = s->actor[process->actor].id,
                                      .actor_incarnation = process->incarnation,
                                      .process = process->id,
                                      .incarnation = 1,
                                      .node = p->id,
                                      .ipc = crti_str("ipc"),
                                      .tcp = crti_str("tcp")};

        if (process->place == p->index && process->running && !process->gone)
            pack(list, CRTI_MSG_ACTOR_RUNNING, &m);
    }
}

static void register_node(sim_place_t *p)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t actors = {0};
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t jobs = {0};
    const scene_t *s = p->scene;
    crti_msg_node_register_t m = {.protocol = CRTI_PROTOCOL_VERSION,
                                  .node = p->id,
                                  .incarnation = p->incarnation,
                                  .ip = crti_str("10.0.0.1"),
                                  .hostname = crti_str("host"),
                                  .endpoint = crti_str("10.0.0.1:1"),
                                  .is_head_host = p->index == 0,
                                  .available = p->available};

    crti_resources_set(&m.resources, "CPU", 4 * CRTI_RESOURCE_ONE);
    list_actors(p, &actors);
    if (p->driver >= 0) {
        crti_msg_job_add_t job = {.job = s->job[p->driver].id,
                                  .driver = s->job[p->driver].driver,
                                  .node = p->id};

        pack(&jobs, CRTI_MSG_JOB_ADD, &job);
    }
    m.actors = crti_span(actors.data, actors.size);
    m.jobs = crti_span(jobs.data, jobs.size);
    send_on(p, CRTI_MSG_NODE_REGISTER, UINT64_MAX, &m);
}

static void connect_now(void *user, uint64_t number)
{
    scene_t *s = user;
    sim_place_t *p = &s->place[number % PLACES];

    if (!p->up || p->life != number / PLACES || p->link >= 0)
        return;
    p->connecting = false;
    if (!links_connect(s, p->index)) {
        node_reconnect(s, p->index, CRTI_LIMIT(reconnect_pause));
        return;
    }
    p->heard_ns = s->world->now;
    if (p->index == ADMIN_PLACE) {
        admin_connected(s);
        return;
    }
    register_node(p);
}

void node_reconnect(scene_t *s, unsigned place, uint64_t delay)
{
    sim_place_t *p = &s->place[place];

    if (p->connecting)
        return;
    p->connecting = true;
    sim_after(s->world, delay, connect_now, s, p->life * PLACES + place);
}

void node_link_lost(scene_t *s, unsigned place)
{
    sim_place_t *p = &s->place[place];

    p->link = -1;
    p->registered = false;
    if (p->up)
        node_reconnect(s, place, sim_below(s->world, 20 * CRTI_MS));
}

static void drop_link(sim_place_t *p)
{
    unsigned link = (unsigned)p->link;

    if (p->link < 0)
        return;
    links_close(p->scene, link, TO_NODE);
    node_link_lost(p->scene, p->index);
}

static void beat(void *user, uint64_t number)
{
    scene_t *s = user;
    sim_place_t *p = &s->place[number % PLACES];
    crti_msg_heartbeat_t m = {.sequence = s->world->now, .available = p->available};

    if (!p->up || p->life != number / PLACES)
        return;
    sim_after(s->world, CRTI_LIMIT(heartbeat_interval), beat, s, number);
    if (p->link < 0)
        return;
    if (s->world->now - p->heard_ns > CRTI_LIMIT(heartbeat_timeout))
        drop_link(p);
    else if (p->registered)
        send_on(p, CRTI_MSG_HEARTBEAT, 0, &m);
}

/* The head took this node for dead: workers end, it joins again as another incarnation. */
static void rejoin(sim_place_t *p)
{
    sim_note(p->scene->world, "place %u begins anew", p->index);
    end_all_processes(p->scene, p->index);
    p->incarnation++;
    drop_link(p);
}

static void each_id(sim_place_t *p, crti_span_t list, bool actors)
{
    const unsigned char *at = list.data;

    for (size_t i = 0; i + 16 <= list.size; i += 16) {
        crti_id_t id = {0, 0};
        process_t *process;

        for (int byte = 0; byte < 8; byte++) {
            id.high = id.high << 8 | at[i + (size_t)byte];
            id.low = id.low << 8 | at[i + 8 + (size_t)byte];
        }
        if (!actors) {
            job_ended(p->scene, p->index, id);
            continue;
        }
        process = find_process(p->scene, p->index, truth_actor_of(p->scene, id));
        if (process)
            node_end_process(p->scene, (unsigned)(process - p->scene->process), false,
                             true);
    }
}

static void registered(sim_place_t *p, const crti_msg_node_registered_t *m)
{
    scene_t *s = p->scene;

    p->registered = true;
    each_id(p, m->actors_to_end, true);
    each_id(p, m->jobs_to_end, false);
    CRTI_LIST_FOREACH_SAFE (item, &p->questions) { /* all watches are asked anew */
        question_t *q = CRTI_CONTAINER(item, question_t, in_list);

        if (q->kind == CRTI_MSG_ACTOR_WATCH)
            free_question(q);
    }
    for (unsigned i = 0; i < s->actors; i++) {
        crti_msg_actor_watch_t watch = {.actor = s->actor[i].id};

        if (p->watched[i / 64] >> i % 64 & 1)
            node_ask(s, p->index, CRTI_MSG_ACTOR_WATCH, &watch, i, 0);
    }
    CRTI_LIST_FOREACH (item, &p->questions) {
        question_t *q = CRTI_CONTAINER(item, question_t, in_list);

        if (q->kind != CRTI_MSG_ACTOR_WATCH)
            send_question(p, q);
    }
}

static void acknowledged(sim_place_t *p, uint64_t sent_ns)
{
    scene_t *s = p->scene;

    if (sent_ns <= p->fence_ns)
        return;
    p->fence_ns = sent_ns;
    for (unsigned i = 0; i < s->processes; i++)
        if (s->process[i].place == p->index && s->process[i].running &&
            !s->process[i].gone && s->actor[s->process[i].actor].fenced)
            check_fence(s, &s->process[i]);
}

/* To the head's question what is at rest: nothing is. */
static void tell_state(sim_place_t *p, uint64_t request)
{
    send_on(p, CRTI_MSG_STATE_ANSWER, request, &(crti_msg_state_answer_t){0});
}

void node_receive(scene_t *s, unsigned place, const crti_message_t *m)
{
    sim_place_t *p = &s->place[place];

    p->heard_ns = s->world->now;
    if (!p->registered) {
        if (m->kind == CRTI_MSG_NODE_REGISTERED)
            registered(p, &m->node_registered);
        else if (m->kind == CRTI_MSG_ERROR && m->error.status == CRT_ERR_NODE_LOST)
            rejoin(p);
        return;
    }
    switch (m->kind) {
    case CRTI_MSG_ACTOR_START: start_actor(p, m); break;
    case CRTI_MSG_ACTOR_STOP: stop_actor(p, m); break;
    case CRTI_MSG_JOB_START: admin_start(s, place, m); break;
    case CRTI_MSG_JOB_STOP: admin_stop(s, place, m); break;
    case CRTI_MSG_JOB_END: job_ended(s, place, m->job_end.job); break;
    case CRTI_MSG_HEARTBEAT_ACK: acknowledged(p, m->heartbeat_ack.sequence); break;
    case CRTI_MSG_STATE_QUERY: tell_state(p, m->request); break;
    case CRTI_MSG_NODE_DIED:
        if (crti_id_equal(m->node_died.node, p->id))
            rejoin(p);
        break;
    case CRTI_MSG_ACTOR_STATE:
        if (m->request == 0) {
            saw_state(p, &m->actor_state);
            break;
        }
        answered(p, m);
        break;
    default:
        if (m->request)
            answered(p, m);
    }
}

/* ---------------------------------------------------------------- life */

void node_start(scene_t *s, unsigned place)
{
    sim_place_t *p = &s->place[place];

    p->up = true;
    p->life++;
    p->link = -1;
    p->registered = p->connecting = false;
    p->driver = -1;
    p->kv_busy = false;
    memset(p->watched, 0, sizeof(p->watched));
    crti_resources_set(&p->available, "CPU", 4 * CRTI_RESOURCE_ONE);
    node_reconnect(s, place, sim_below(s->world, 50 * CRTI_MS));
    if (place != ADMIN_PLACE)
        sim_after(s->world, sim_below(s->world, CRTI_LIMIT(heartbeat_interval)), beat, s,
                  p->life * PLACES + place);
}

void node_kill(scene_t *s, unsigned place)
{
    sim_place_t *p = &s->place[place];
    int link = p->link;

    sim_note(s->world, "place %u is killed", place);
    if (p->registered && sim_chance(s->world, 3000)) /* or ends in order */
        send_on(p, CRTI_MSG_NODE_LEAVE, 0,
                &(crti_msg_node_leave_t){.text = crti_str("it ends")});
    node_end_driver(s, place, false);
    end_all_processes(s, place);
    admin_place_died(s, place);
    drop_questions(p);
    p->up = false;
    p->incarnation++;
    if (link >= 0)
        links_close(s, (unsigned)link, TO_NODE);
    p->link = -1;
    p->registered = false;
}

void node_free(scene_t *s)
{
    for (unsigned i = 0; i < PLACES; i++)
        drop_questions(&s->place[i]);
}
