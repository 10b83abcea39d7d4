/* SPDX-License-Identifier: Apache-2.0 */
/* The store of a node and its attachments, by the words of runtime/store/store.h. See system.h; the
 * real one has its own tests, which kill it after every instruction. */
#include <stdlib.h>
#include <string.h>

#include "runtime/store/store.h"
#include "tests/sim/system.h"

typedef struct object {
    crti_object_id_t id;
    unsigned char *data;
    size_t size;
    bool is_sealed, is_primary, is_freed;
    unsigned maker, pins; /* slot */
    uint64_t used_at;
    crti_list_t link;
} object_t;

struct sys_arena {
    size_t bytes, used;
    crti_map_t objects;  /* id -> object_t that is not freed */
    crti_list_t list;    /* the same */
    crti_list_t writing; /* freed, and still being written */
    int fd;
};

struct crti_store {
    sys_arena_t *arena;
    unsigned slot;
    crti_map_t pins; /* mark -> object_t */
    uint64_t last_pin;
};

/* Attachments by slot outlive their processes: the daemon takes back what they had. */
static crti_store_t *attached[64 * 1024];
static unsigned attached_count;

sys_arena_t *sys_arena_of(crti_store_t *store)
{
    return store->arena;
}

size_t sys_arena_objects(const sys_arena_t *arena)
{
    return arena->objects.count;
}

crti_object_id_t sys_arena_first(const sys_arena_t *arena)
{
    return CRTI_CONTAINER(arena->list.next, object_t, link)->id;
}

/* ---------------------------------------------------------------- life */

static crti_store_t *new_store(sys_arena_t *arena, unsigned slot)
{
    crti_store_t *store = calloc(1, sizeof(*store));

    if (!store || attached_count == sizeof(attached) / sizeof(attached[0]))
        abort();
    store->arena = arena;
    store->slot = slot;
    crti_map_init(&store->pins, sizeof(uint64_t));
    attached[attached_count++] = store;
    return store;
}

crt_status_t crti_store_new(size_t bytes, unsigned process_slots,
                            crti_store_t **store_out)
{
    sys_arena_t *arena = calloc(1, sizeof(*arena));

    if (!arena)
        abort();
    arena->bytes = bytes;
    crti_map_init(&arena->objects, sizeof(crti_object_id_t));
    crti_list_init(&arena->list);
    crti_list_init(&arena->writing);
    arena->fd = sys_fd_new(SYS_FD_STORE, arena);
    *store_out = new_store(arena, 0);
    return CRT_OK;
}

int crti_store_fd(const crti_store_t *store)
{
    return store->arena->fd;
}

crt_status_t crti_store_attach(int fd, unsigned slot, crti_id_t process,
                               crti_store_t **store_out)
{
    const sys_fd_t *f = sys_fd_of(fd);

    if (!f || f->kind != SYS_FD_STORE)
        return crt_raise(CRT_ERR_CORRUPT, "no arena");
    *store_out = new_store(f->thing, slot);
    return CRT_OK;
}

static void unpin(sys_arena_t *arena, object_t *o)
{
    if (--o->pins || !o->is_freed)
        return;
    arena->used -= o->size;
    free(o->data);
    free(o);
}

/* Gone for new gets; the memory follows the last pin, and who writes it. */
static void end_object(sys_arena_t *arena, object_t *o)
{
    crti_map_remove(&arena->objects, &o->id);
    crti_list_remove(&o->link);
    o->is_freed = true;
    o->pins++;
    if (o->is_sealed)
        unpin(arena, o);
    else
        crti_list_append(&arena->writing, &o->link);
}

/* Its maker writes no more into what was freed meanwhile; `id` NULL: into none. */
static void end_writing(const crti_store_t *store, const crti_object_id_t *id)
{
    CRTI_LIST_FOREACH_SAFE (item, &store->arena->writing) {
        object_t *o = CRTI_CONTAINER(item, object_t, link);

        if (o->maker != store->slot || (id && !crti_object_id_equal(o->id, *id)))
            continue;
        crti_list_remove(&o->link);
        unpin(store->arena, o);
    }
}

static object_t *find(const crti_store_t *store, crti_object_id_t id)
{
    return crti_map_get(&store->arena->objects, &id);
}

static void take_back(crti_store_t *store)
{
    sys_arena_t *arena = store->arena;
    size_t cursor = 0;
    void *value;

    while (crti_map_next(&store->pins, &cursor, NULL, &value))
        unpin(arena, value);
    crti_map_fini(&store->pins);
    CRTI_LIST_FOREACH_SAFE (item, &arena->list) {
        object_t *o = CRTI_CONTAINER(item, object_t, link);

        if (!o->is_sealed && o->maker == store->slot)
            end_object(arena, o);
    }
    end_writing(store, NULL);
}

void crti_store_detach(crti_store_t *store)
{
    if (store)
        take_back(store);
}

/* ---------------------------------------------------------------- objects */

static bool evict_one(sys_arena_t *arena)
{
    CRTI_LIST_FOREACH (item, &arena->list) {
        object_t *o = CRTI_CONTAINER(item, object_t, link);

        if (o->is_sealed && !o->is_primary && o->pins == 0) {
            end_object(arena, o);
            return true;
        }
    }
    return false;
}

crt_status_t crti_store_create(crti_store_t *store, crti_object_id_t id, size_t size,
                               void **data_out)
{
    sys_arena_t *arena = store->arena;
    object_t *o;

    if (find(store, id))
        return crt_raise(CRT_ERR_EXISTS, "the node has the object");
    if (sim_chance(sys->world, 500)) /* others need memory, too */
        evict_one(arena);
    while (arena->used + size > arena->bytes)
        if (!evict_one(arena))
            return crt_raise(CRT_ERR_STORE_FULL, "the store is full");
    o = calloc(1, sizeof(*o));
    if (!o || !(o->data = malloc(size + 1)))
        abort();
    o->id = id;
    o->size = size;
    o->maker = store->slot;
    arena->used += size;
    if (crti_map_put(&arena->objects, &id, o) != CRT_OK)
        abort();
    crti_list_append(&arena->list, &o->link);
    *data_out = o->data;
    return CRT_OK;
}

static bool has_space(void *user)
{
    const crti_store_t *store = user;

    return store->arena->used < store->arena->bytes / 2;
}

crt_status_t crti_store_wait_space(crti_store_t *store, size_t size, uint64_t deadline_ns)
{
    uint64_t again = sys->world->now + 20 * CRTI_MS;

    if (!sys->is_in_fiber || sys->world->now >= deadline_ns)
        return crt_raise(CRT_ERR_STORE_FULL, "the store is full");
    (void)sys_wait_for(has_space, store, again < deadline_ns ? again : deadline_ns,
                       false);
    return CRT_OK;
}

crt_status_t crti_store_seal(crti_store_t *store, crti_object_id_t id, bool primary)
{
    object_t *o = find(store, id);

    end_writing(store, &id);
    if (!o)
        return CRT_OK; /* freed meanwhile */
    if (o->is_sealed || o->maker != store->slot)
        return crt_raise(CRT_ERR_NOT_FOUND, "not being written by this process");
    sim_note(sys->world, "  pid %d seals object %llu of pid %d", (int)sys->self->pid,
             (unsigned long long)id.number,
             sys_net_process(id.owner) ? (int)sys_net_process(id.owner)->pid : 0);
    o->is_sealed = true;
    o->is_primary = primary;
    return CRT_OK;
}

crt_status_t crti_store_make_primary(crti_store_t *store, crti_object_id_t id)
{
    object_t *o = find(store, id);

    if (!o || !o->is_sealed)
        return crt_raise(CRT_ERR_NOT_FOUND, "not on this node");
    o->is_primary = true;
    return CRT_OK;
}

void crti_store_abort(crti_store_t *store, crti_object_id_t id)
{
    object_t *o = find(store, id);

    if (o && !o->is_sealed && o->maker == store->slot)
        end_object(store->arena, o);
    end_writing(store, &id);
}

crt_status_t crti_store_get(crti_store_t *store, crti_object_id_t id,
                            crti_store_view_t *view_out)
{
    object_t *o = find(store, id);

    if (!o || !o->is_sealed)
        return crt_raise(CRT_ERR_NOT_FOUND, "not on this node");
    o->pins++;
    *view_out = (crti_store_view_t){o->data, o->size, ++store->last_pin};
    if (crti_map_put(&store->pins, &view_out->pin, o) != CRT_OK)
        abort();
    return CRT_OK;
}

void crti_store_release(crti_store_t *store, crti_store_view_t *view)
{
    object_t *o = view->pin ? crti_map_remove(&store->pins, &view->pin) : NULL;

    if (o)
        unpin(store->arena, o);
    *view = (crti_store_view_t){0};
}

bool crti_store_contains(crti_store_t *store, crti_object_id_t id)
{
    const object_t *o = find(store, id);

    return o && o->is_sealed;
}

void crti_store_free(crti_store_t *store, crti_object_id_t id)
{
    object_t *o = find(store, id);

    if (o)
        end_object(store->arena, o);
}

void crti_store_copy(void *destination, const void *source, size_t size)
{
    memcpy(destination, source, size);
}

/* ---------------------------------------------------------------- the daemon's part */

crt_status_t crti_store_reclaim(crti_store_t *store, unsigned slot)
{
    for (unsigned i = 0; i < attached_count; i++)
        if (attached[i]->arena == store->arena && attached[i]->slot == slot) {
            take_back(attached[i]);
            attached[i] = attached[--attached_count];
            return CRT_OK;
        }
    return CRT_OK;
}

void crti_store_set_group(crti_store_t *store, unsigned slot, uint16_t group)
{
}

bool crti_store_slot_is_free(const crti_store_t *store, unsigned slot)
{
    return true;
}

size_t crti_store_drop_owner(crti_store_t *store, crti_id_t owner)
{
    size_t count = 0;

    CRTI_LIST_FOREACH_SAFE (item, &store->arena->list) {
        object_t *o = CRTI_CONTAINER(item, object_t, link);

        if (!crti_id_equal(o->id.owner, owner))
            continue;
        end_object(store->arena, o);
        count++;
    }
    return count;
}

size_t crti_store_drop_numbers(crti_store_t *store, crti_id_t owner, uint64_t number,
                               uint64_t mask)
{
    size_t count = 0;

    CRTI_LIST_FOREACH_SAFE (item, &store->arena->list) {
        object_t *o = CRTI_CONTAINER(item, object_t, link);

        if (!crti_id_equal(o->id.owner, owner) || ((o->id.number ^ number) & mask))
            continue;
        end_object(store->arena, o);
        count++;
    }
    return count;
}

size_t crti_store_drop_owners(crti_store_t *store,
                              bool (*is_dead)(void *user, crti_id_t owner), void *user)
{
    size_t count = 0;

    CRTI_LIST_FOREACH_SAFE (item, &store->arena->list) {
        object_t *o = CRTI_CONTAINER(item, object_t, link);

        if (!is_dead(user, o->id.owner))
            continue;
        end_object(store->arena, o);
        count++;
    }
    return count;
}

crt_status_t crti_store_reserve(crti_store_t *store, crti_object_id_t id, size_t size,
                                void **data_out)
{
    return crti_store_create(store, id, size, data_out);
}

crt_status_t crti_store_prepare(crti_store_t *store, void *data, size_t size)
{
    return CRT_OK;
}

unsigned crti_store_stalled(crti_store_t *store, unsigned *slot_out)
{
    return 0;
}

void crti_store_stats(crti_store_t *store, struct crti_store_stats *stats_out)
{
    *stats_out = (struct crti_store_stats){.capacity = store->arena->bytes,
                                           .used = store->arena->used,
                                           .objects = store->arena->objects.count};
}
