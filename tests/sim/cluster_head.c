/* SPDX-License-Identifier: Apache-2.0 */
/* The head around control: born, killed, born again. See cluster.h. */
#include <stdlib.h>

#include "tests/sim/cluster.h"

/* Views of other nodes decide nothing here, and would be most of what is sent. */
static bool is_view(const void *message, size_t size)
{
    crti_message_t m;

    return crti_message_decode(message, size, &m) == CRT_OK &&
           m.kind == CRTI_MSG_NODE_VIEWS;
}

static void do_send(void *user, uint64_t link, const void *message, size_t size)
{
    if (!is_view(message, size))
        links_send(user, (unsigned)link, TO_NODE, message, size);
}

static void do_drop(void *user, uint64_t link, const char *why)
{
    scene_t *s = user;

    sim_note(s->world, "link of %u dropped: %s", s->link[link].place, why);
    links_close(s, (unsigned)link, TO_HEAD);
}

static size_t get_queued(void *user, uint64_t link)
{
    return 0;
}

static void do_store(void *user, const crti_store_operation_t *operation)
{
    store_add(user, operation);
}

static bool do_revoke(void *user, crti_id_t id, bool is_revoked)
{
    scene_t *s = user;

    if (is_revoked)
        return crti_map_put(&s->revoked, &id, s) == CRT_OK;
    crti_map_remove(&s->revoked, &id);
    return true;
}

static void load_revoked(scene_t *s)
{
    size_t cursor = 0;
    const void *key;
    void *value;

    while (crti_map_next(&s->revoked, &cursor, &key, &value))
        crti_control_load_revoked(s->control, *(const crti_id_t *)key);
}

static void tick(void *user, uint64_t life)
{
    scene_t *s = user;

    if (life != s->head_life || s->control == NULL || s->world->now < s->tick_at)
        return;
    s->tick_at = UINT64_MAX;
    crti_control_tick(s->control, s->world->now);
    head_settle(s);
}

void head_settle(scene_t *s)
{
    uint64_t now = s->world->now, next = crti_control_deadline(s->control);

    if (next == UINT64_MAX || next >= s->tick_at)
        return; /* one that comes too early looks again */
    next = next > now ? next : now;
    s->tick_at = next;
    sim_after(s->world, next - now, tick, s, s->head_life);
}

void head_start(scene_t *s)
{
    crti_control_config_t config = {
        .cluster = {1, 1},
        .address = "10.0.0.1:6380",
        .headless_timeout_ms = 600000,
        .seed = sim_random(s->world),
        .actions = {.user = s,
                    .send = do_send,
                    .drop = do_drop,
                    .queued = get_queued,
                    .store = do_store,
                    .revoke = do_revoke},
    };

    if (crti_control_new(&config, &s->control) != CRT_OK)
        abort();
    s->head_life++;
    s->head_first_link = s->links;
    s->tick_at = UINT64_MAX;
    s->store_due = 0;
    load_revoked(s);
    store_load(s);
    crti_control_loaded(s->control, s->world->now);
    if (crti_control_figures(s->control).rows_unreadable)
        sim_fail(s->world, "a row can't be read: %s", crt_error_detail());
    sim_note(s->world, "the head serves");
    head_settle(s);
}

void head_kill(scene_t *s)
{
    sim_note(s->world, "the head is killed");
    crti_control_free(s->control);
    s->control = NULL;
    store_head_died(s);
    links_head_died(s);
}
