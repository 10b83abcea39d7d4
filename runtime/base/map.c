/* SPDX-License-Identifier: Apache-2.0 */
/* Hash map: open addressing, linear probing, backward-shift deletion. See map.h. */
#include "runtime/base/map.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct crti_map_slot {
    uint64_t hash; /* 0: free */
    void *value;
    void *key; /* keys of at most 24 bytes lie in `inline_key` */
    uint64_t inline_key[3];
} slot_t;

#define CAPACITY_MIN ((size_t)8)

static pthread_once_t seed_once = PTHREAD_ONCE_INIT;
static uint64_t seed; /* written once, before the first hash */

static void make_seed(void)
{
    seed = crti_id_random().high;
}

static uint64_t mix(uint64_t h)
{
    h ^= h >> 32;
    h *= 0xd6e8feb86659fd93ull;
    h ^= h >> 32;
    h *= 0xd6e8feb86659fd93ull;
    return h ^ h >> 32;
}

static size_t key_length(const crti_map_t *map, const void *key)
{
    return map->key_size ? map->key_size : strlen(key) + 1;
}

static uint64_t hash_of(const void *key, size_t length)
{
    const unsigned char *p = key;
    uint64_t h = seed ^ length, word;

    for (; length >= 8; length -= 8, p += 8) {
        memcpy(&word, p, 8);
        h = mix(h ^ word);
    }
    word = 0;
    memcpy(&word, p, length);
    h = mix(h ^ word);
    return h ? h : 1;
}

static const void *slot_key(const crti_map_t *map, const slot_t *slot)
{
    return map->key_size && map->key_size <= sizeof(slot->inline_key) ? slot->inline_key
                                                                      : slot->key;
}

static bool key_equal(const crti_map_t *map, const slot_t *slot, const void *key)
{
    const void *have = slot_key(map, slot);

    return map->key_size ? memcmp(have, key, map->key_size) == 0 : strcmp(have, key) == 0;
}

void crti_map_init(crti_map_t *map, size_t key_size)
{
    pthread_once(&seed_once, make_seed);
    *map = (crti_map_t){.key_size = key_size};
}

void crti_map_fini(crti_map_t *map)
{
    for (size_t i = 0; i < map->capacity; i++)
        if (map->slots[i].hash)
            free(map->slots[i].key);
    free(map->slots);
    crti_map_init(map, map->key_size);
}

static slot_t *find(const crti_map_t *map, const void *key)
{
    uint64_t hash;

    if (map->count == 0)
        return NULL;
    hash = hash_of(key, key_length(map, key));
    for (size_t i = hash & (map->capacity - 1); map->slots[i].hash;
         i = (i + 1) & (map->capacity - 1))
        if (map->slots[i].hash == hash && key_equal(map, &map->slots[i], key))
            return &map->slots[i];
    return NULL;
}

void *crti_map_get(const crti_map_t *map, const void *key)
{
    const slot_t *slot = find(map, key);

    return slot ? slot->value : NULL;
}

static void insert(crti_map_t *map, const slot_t *entry)
{
    size_t i = entry->hash & (map->capacity - 1);

    while (map->slots[i].hash)
        i = (i + 1) & (map->capacity - 1);
    map->slots[i] = *entry;
}

/* False when there is no memory; the map is then as it was. */
static bool resize(crti_map_t *map, size_t capacity)
{
    crti_map_t other = *map;

    other.capacity = capacity;
    other.slots = calloc(capacity, sizeof(slot_t));
    if (other.slots == NULL)
        return false;
    for (size_t i = 0; i < map->capacity; i++)
        if (map->slots[i].hash)
            insert(&other, &map->slots[i]);
    free(map->slots);
    *map = other;
    return true;
}

crt_status_t crti_map_put(crti_map_t *map, const void *key, void *value)
{
    size_t length = key_length(map, key);
    slot_t *slot = find(map, key), entry = {.value = value};

    if (slot) {
        slot->value = value;
        return CRT_OK;
    }
    if (map->count + 1 > map->capacity / 4 * 3 &&
        !resize(map, map->capacity ? map->capacity * 2 : CAPACITY_MIN))
        return crt_raise(CRT_ERR_NO_MEMORY, "map of more than %zu entries", map->count);
    if (map->key_size && map->key_size <= sizeof(entry.inline_key)) {
        memcpy(entry.inline_key, key, length);
    } else {
        entry.key = malloc(length);
        if (entry.key == NULL)
            return crt_raise(CRT_ERR_NO_MEMORY, "map key of %zu bytes", length);
        memcpy(entry.key, key, length);
    }
    entry.hash = hash_of(key, length);
    insert(map, &entry);
    map->count++;
    return CRT_OK;
}

void *crti_map_remove(crti_map_t *map, const void *key)
{
    slot_t *slot = find(map, key);
    size_t mask = map->capacity - 1, hole;
    void *value;

    if (slot == NULL)
        return NULL;
    value = slot->value;
    free(slot->key);
    map->count--;
    /* Backward shift: move up every later entry of the run that may lie in the hole. */
    hole = (size_t)(slot - map->slots);
    for (size_t i = (hole + 1) & mask; map->slots[i].hash; i = (i + 1) & mask) {
        size_t home = map->slots[i].hash & mask;

        if (((i - home) & mask) >= ((i - hole) & mask)) {
            map->slots[hole] = map->slots[i];
            hole = i;
        }
    }
    memset(&map->slots[hole], 0, sizeof(slot_t));
    /* When there is no memory for the smaller table, the larger one serves on. */
    if (map->capacity > CAPACITY_MIN && map->count < map->capacity / 8)
        resize(map, map->capacity / 2);
    return value;
}

bool crti_map_next(const crti_map_t *map, size_t *cursor, const void **key_out,
                   void **value_out)
{
    while (*cursor < map->capacity) {
        const slot_t *slot = &map->slots[(*cursor)++];

        if (slot->hash == 0)
            continue;
        if (key_out)
            *key_out = slot_key(map, slot);
        *value_out = slot->value;
        return true;
    }
    return false;
}
