/* SPDX-License-Identifier: Apache-2.0 */
/* Streams between places and the head. See cluster.h. */
#include <stdlib.h>
#include <string.h>

#include "tests/sim/cluster.h"

#define DELAY_NS (200 * 1000ull)

typedef struct packet {
    crti_list_t in_queue;
    bool is_end; /* the other side closed */
    size_t size;
    unsigned char data[];
} packet_t;

static void deliver(void *user, uint64_t number);

static bool is_cut(const scene_t *s, const sim_link_t *link)
{
    return s->place[link->place].cut_until > s->world->now;
}

static void enqueue(scene_t *s, unsigned index, int direction, packet_t *packet)
{
    sim_link_t *link = &s->link[index];
    sim_world_t *w = s->world;
    uint64_t at =
        w->now + sim_between(w, DELAY_NS / 4, DELAY_NS * (sim_chance(w, 300) ? 100 : 2));

    if (at < link->arrival[direction])
        at = link->arrival[direction];
    link->arrival[direction] = at;
    crti_list_append(&link->queue[direction], &packet->in_queue);
    sim_after(w, at - w->now, deliver, s, (uint64_t)index << 1 | (unsigned)direction);
}

static void clear(sim_link_t *link, int direction)
{
    crti_list_t *item;

    while ((item = crti_list_pop(&link->queue[direction])))
        free(CRTI_CONTAINER(item, packet_t, in_queue));
}

/* An end hears that the link is gone. */
static void lost(scene_t *s, unsigned index, int end)
{
    sim_link_t *link = &s->link[index];

    if (!link->open[end])
        return;
    link->open[end] = false;
    if (end == TO_NODE) {
        node_link_lost(s, link->place);
    } else if (s->control) {
        crti_control_closed(s->control, index, "the link broke", s->world->now);
        head_settle(s);
    }
}

/* Which actor a message is about, for the trace; -1: none. */
static int subject(const scene_t *s, const crti_message_t *m)
{
    switch (m->kind) {
    case CRTI_MSG_ACTOR_CREATE: return truth_actor_of(s, m->actor_create.actor);
    case CRTI_MSG_ACTOR_WATCH: return truth_actor_of(s, m->actor_watch.actor);
    case CRTI_MSG_ACTOR_KILL: return truth_actor_of(s, m->actor_kill.actor);
    case CRTI_MSG_ACTOR_STATE: return truth_actor_of(s, m->actor_state.actor);
    case CRTI_MSG_ACTOR_START: return truth_actor_of(s, m->actor_start.actor);
    case CRTI_MSG_ACTOR_STARTED: return truth_actor_of(s, m->actor_started.actor);
    case CRTI_MSG_ACTOR_STOP: return truth_actor_of(s, m->actor_stop.actor);
    case CRTI_MSG_ACTOR_DIED: return truth_actor_of(s, m->actor_died.actor);
    default: return -1;
    }
}

static void hand_over(scene_t *s, unsigned index, int direction, const packet_t *packet)
{
    const sim_link_t *link = &s->link[index];
    crti_message_t m;

    if (crti_message_decode(packet->data, packet->size, &m) != CRT_OK) {
        sim_fail(s->world, "a message can't be decoded: %s", crt_error_detail());
        return;
    }
    sim_note(s->world, "%s %u: %s %llu, actor %d", direction == TO_NODE ? "to" : "from",
             link->place, crti_message_name(m.kind), (unsigned long long)m.request,
             subject(s, &m));
    if (direction == TO_HEAD) {
        crti_control_message(s->control, index, &m, s->world->now);
        head_settle(s);
    } else if (link->place == ADMIN_PLACE) {
        admin_receive(s, &m);
    } else {
        node_receive(s, link->place, &m);
    }
}

static void deliver(void *user, uint64_t number)
{
    scene_t *s = user;
    unsigned index = (unsigned)(number >> 1);
    int direction = (int)(number & 1);
    sim_link_t *link = &s->link[index];
    packet_t *packet;

    if (crti_list_is_empty(&link->queue[direction]))
        return;
    if (is_cut(s, link)) { /* waits for the cut's end, in its place in the queue */
        sim_after(s->world, s->place[link->place].cut_until - s->world->now + DELAY_NS,
                  deliver, s, number);
        return;
    }
    packet = CRTI_CONTAINER(crti_list_pop(&link->queue[direction]), packet_t, in_queue);
    if (packet->is_end)
        lost(s, index, direction);
    else if (link->open[direction])
        hand_over(s, index, direction, packet);
    free(packet);
}

static packet_t *make(const void *data, size_t size)
{
    packet_t *packet = malloc(sizeof(*packet) + size);

    if (packet == NULL)
        abort();
    packet->is_end = data == NULL;
    packet->size = size;
    if (size)
        memcpy(packet->data, data, size);
    return packet;
}

void links_send(scene_t *s, unsigned index, int direction, const void *data, size_t size)
{
    if (index < s->links && s->link[index].open[!direction])
        enqueue(s, index, direction, make(data, size));
}

bool links_connect(scene_t *s, unsigned place)
{
    sim_link_t *link = &s->link[s->links];

    if (s->control == NULL || s->place[place].cut_until > s->world->now ||
        s->links == LINKS)
        return false;
    link->place = place;
    link->open[0] = link->open[1] = true;
    link->arrival[0] = link->arrival[1] = 0;
    crti_list_init(&link->queue[0]);
    crti_list_init(&link->queue[1]);
    s->place[place].link = (int)s->links++;
    crti_control_opened(s->control, s->links - 1, place == ADMIN_PLACE, s->world->now);
    head_settle(s);
    return true;
}

void links_break(scene_t *s, unsigned index)
{
    sim_link_t *link = &s->link[index];

    for (int end = 0; end < 2; end++) {
        clear(link, end);
        if (link->open[end])
            enqueue(s, index, end, make(NULL, 0));
    }
}

void links_close(scene_t *s, unsigned index, int end)
{
    sim_link_t *link = &s->link[index];

    if (!link->open[end])
        return;
    link->open[end] = false;
    clear(link, end); /* nobody reads it any more */
    if (link->open[!end])
        enqueue(s, index, !end, make(NULL, 0));
}

void links_head_died(scene_t *s)
{
    for (unsigned i = (unsigned)s->head_first_link; i < s->links; i++)
        links_close(s, i, TO_HEAD);
    s->head_first_link = s->links;
}

void links_free(scene_t *s)
{
    for (unsigned i = 1; i < s->links; i++) {
        clear(&s->link[i], 0);
        clear(&s->link[i], 1);
    }
}
