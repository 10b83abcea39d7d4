/* SPDX-License-Identifier: Apache-2.0 */
/* Files of spilled objects (node/objects/spill_files.c) on storage that fails: appends and settles
 * that report errors and leave garbage, places without room, bytes that change.
 *
 * The scenario is the saver and the readers: it appends batches of objects of several jobs, settles
 * them, drops what failed and what was freed (the word of that is heard before the next batch, when
 * another object may have the id already), and reads. What must hold:
 *     a read gives exactly the bytes that were saved, or says that they are lost, and that only
 *         when somebody changed them;
 *     what is not saved is not found;
 *     bytes, and those of each job, are counted; the limit and the jobs' shares are kept;
 *     when all is dropped there is no file and no byte left.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/node/objects/spill_files.h"
#include "runtime/node/objects/spill_shares.h"
#include "tests/sim/runner.h"

#define OBJECTS  48u
#define GROUPS   4u
#define SMALLEST 100u
#define LARGEST  (5u << 20 >> 2)
#define LIMIT    ((uint64_t)3 << 20)
#define BLOCK    65536u
#define BATCH    6u
#define PACE_NS  1000

/* ---------------------------------------------------------------- storage */

typedef struct disk_file {
    unsigned char *bytes;
    uint64_t size, settled, room;
} disk_file_t;

static struct {
    sim_world_t *world;
    bool is_full, is_failing;
    unsigned files;
} disk;

static int disk_open(const char *where, void **file_out)
{
    if (disk.is_failing && sim_chance(disk.world, 3000))
        return EROFS;
    disk.files++;
    *file_out = calloc(1, sizeof(disk_file_t));
    return *file_out ? 0 : ENOMEM;
}

/* The rest of what was not settled is garbage from now on. */
static int spoil(disk_file_t *file, int error)
{
    memset(file->bytes + file->settled, 0xee, file->size - file->settled);
    return error;
}

static int disk_append(void *user, uint64_t offset, const void *bytes, size_t size)
{
    disk_file_t *file = user;

    if (offset + size > file->room) {
        file->room = 2 * (offset + size);
        file->bytes = realloc(file->bytes, file->room);
        if (!file->bytes)
            abort();
    }
    memset(file->bytes + file->size, 0, offset - file->size);
    file->size = offset + size;
    if (disk.is_full || (disk.is_failing && sim_chance(disk.world, 1000))) {
        memcpy(file->bytes + offset, bytes, size / 2);
        return spoil(file, disk.is_full ? ENOSPC : EIO);
    }
    memcpy(file->bytes + offset, bytes, size);
    return 0;
}

static int disk_settle(void *user)
{
    disk_file_t *file = user;

    if (disk.is_failing && sim_chance(disk.world, 3000))
        return spoil(file, EIO);
    file->settled = file->size;
    return 0;
}

static void disk_want(void *file, uint64_t offset, uint64_t size)
{
}

static int disk_read(void *user, uint64_t offset, void *bytes, size_t size)
{
    const disk_file_t *file = user;

    if (offset + size > file->size)
        return ENODATA;
    memcpy(bytes, file->bytes + offset, size);
    return 0;
}

static void disk_discard(void *user, uint64_t offset, uint64_t size)
{
    const disk_file_t *file = user;

    if (offset < file->size)
        memset(file->bytes + offset, 0xdd,
               file->size - offset < size ? file->size - offset : size);
}

static void disk_remove(void *user)
{
    disk_file_t *file = user;

    disk.files--;
    free(file->bytes);
    free(file);
}

static int disk_room(const char *where, uint64_t *bytes_out)
{
    *bytes_out = disk.is_full && sim_chance(disk.world, 5000) ? 0 : UINT64_MAX / 4;
    return 0;
}

static const crti_spill_ops_t disk_ops = {disk_open,   disk_append, disk_settle,
                                          disk_want,   disk_read,   disk_discard,
                                          disk_remove, disk_room};

/* ---------------------------------------------------------------- objects */

typedef struct object {
    bool is_saved;
    uint64_t version, size;
    uint16_t group;
} object_t;

typedef struct scene {
    sim_world_t *world;
    crti_spill_files_t *files;
    object_t objects[OBJECTS];
    unsigned late[OBJECTS]; /* drops that are not heard of yet */
    unsigned batch[BATCH], batch_count;
    uint64_t versions;
    bool is_ending;
    unsigned char *bytes, *found;
} scene_t;

static crti_object_id_t id_of(uint64_t number)
{
    return (crti_object_id_t){{7, 7}, number + 1};
}

static unsigned char *bytes_of(const scene_t *s, const object_t *o)
{
    uint64_t *words = (uint64_t *)(void *)s->bytes;

    for (uint64_t i = 0; i <= o->size / 8; i++)
        words[i] = (o->version << 32 | i) * 0x9e3779b97f4a7c15u;
    return s->bytes;
}

/* Most are small; some have two parts. */
static uint64_t some_size(sim_world_t *world)
{
    uint64_t kind = sim_below(world, 100);

    return sim_between(world, SMALLEST,
                       kind < 70   ? BLOCK / 8
                       : kind < 98 ? 2 * BLOCK
                                   : LARGEST);
}

static uint64_t taken_by(const scene_t *s, uint16_t group)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < OBJECTS; i++)
        if (s->objects[i].is_saved && s->objects[i].group == group)
            sum += s->objects[i].size;
    return sum;
}

/* ---------------------------------------------------------------- acts */

static void forget(scene_t *s, unsigned number)
{
    s->objects[number].is_saved = false;
    crti_spill_files_drop(s->files, id_of(number));
}

static void hear_of_drops(scene_t *s)
{
    for (unsigned i = 0; i < OBJECTS; i++)
        for (; s->late[i] > 0; s->late[i]--)
            crti_spill_files_drop(s->files, id_of(i));
}

/* As the saver ends a batch. */
static void end_batch(scene_t *s, crti_spill_result_t result)
{
    int error = 0;

    if (result != CRTI_SPILL_FAILED)
        result = crti_spill_files_settle(s->files, &error);
    for (unsigned i = 0; i < s->batch_count && result == CRTI_SPILL_FAILED; i++)
        forget(s, s->batch[i]);
    s->batch_count = 0;
}

static void check_share(scene_t *s, const object_t *o, uint64_t taken, uint64_t used)
{
    uint64_t left = used < LIMIT ? LIMIT - used : 0;

    if (o->size > left || (taken + o->size) / CRTI_SPILL_SHARE > left - o->size)
        sim_fail(s->world, "a job with %llu bytes is given %llu more, %llu are left",
                 (unsigned long long)taken, (unsigned long long)o->size,
                 (unsigned long long)left);
}

static void append_one(scene_t *s, unsigned number)
{
    object_t o = {.is_saved = true,
                  .version = ++s->versions,
                  .size = some_size(s->world),
                  .group = (uint16_t)sim_below(s->world, GROUPS)};
    uint64_t used, taken;
    int error = 0;
    crti_spill_result_t result;

    if (s->batch_count == 0)
        hear_of_drops(s);
    used = crti_spill_files_figures(s->files).disk_bytes;
    taken = crti_spill_files_taken(s->files, o.group);
    result = crti_spill_files_append(s->files, id_of(number), o.group, bytes_of(s, &o),
                                     o.size, &error);
    sim_fold(s->world, (uint64_t)result << 32 | number);
    if (result == CRTI_SPILL_LIMITED || result == CRTI_SPILL_SHARED) {
        end_batch(s, result);
        return;
    }
    if (result == CRTI_SPILL_DONE)
        check_share(s, &o, taken, used);
    s->objects[number] = o;
    s->batch[s->batch_count++] = number;
    if (result == CRTI_SPILL_FAILED && error == 0)
        sim_fail(s->world, "it failed without an error");
    if (result == CRTI_SPILL_FAILED || s->batch_count == BATCH)
        end_batch(s, result);
}

static bool is_in_batch(const scene_t *s, unsigned number)
{
    for (unsigned i = 0; i < s->batch_count; i++)
        if (s->batch[i] == number)
            return true;
    return false;
}

static void free_one(scene_t *s, unsigned number)
{
    s->objects[number].is_saved = false;
    s->late[number]++;
}

static void check_object(scene_t *s, unsigned number)
{
    const object_t *o = &s->objects[number];
    crt_status_t status;
    uint64_t size = 0;

    if (!o->is_saved || is_in_batch(s, number)) /* or its drop is on its way */
        return;
    if (!crti_spill_files_holds(s->files, id_of(number), &size) || size != o->size) {
        sim_fail(s->world, "object %u of %llu bytes has %llu", number,
                 (unsigned long long)o->size, (unsigned long long)size);
        return;
    }
    status = crti_spill_files_read(s->files, id_of(number), 0, s->found, o->size);
    if (status != CRT_OK)
        sim_fail(s->world, "object %u that nobody changed: %s", number,
                 crt_error_detail());
    else if (memcmp(s->found, bytes_of(s, o), o->size) != 0)
        sim_fail(s->world, "object %u has wrong bytes", number);
}

/* A byte of it is changed in its file, read, and put back. */
static disk_file_t *last_file; /* set by a read that is watched */
static uint64_t last_offset;

static int watched_read(void *user, uint64_t offset, void *bytes, size_t size)
{
    last_file = user;
    last_offset = offset;
    return disk_read(user, offset, bytes, size);
}

static void change_one(scene_t *s, unsigned number)
{
    const object_t *o = &s->objects[number];
    uint64_t at, part;
    crt_status_t status;

    if (!o->is_saved || is_in_batch(s, number))
        return;
    last_file = NULL;
    status = crti_spill_files_read(s->files, id_of(number), 0, s->found, o->size);
    if (status != CRT_OK || !last_file)
        return;                                 /* told by check_object */
    part = (o->size - 1) % CRTI_SPILL_PART + 1; /* of its last part */
    at = last_offset + sim_below(s->world, part);
    last_file->bytes[at] ^= 0x10;
    status = crti_spill_files_read(s->files, id_of(number), 0, s->found, o->size);
    last_file->bytes[at] ^= 0x10;
    if (status != CRT_ERR_OBJECT_LOST)
        sim_fail(s->world, "object %u is read though a byte was changed", number);
}

static void check_counts(scene_t *s)
{
    crti_spill_figures_t figures = crti_spill_files_figures(s->files);

    if (figures.disk_bytes > LIMIT + 2 * BLOCK)
        sim_fail(s->world, "%llu bytes of the disk, the limit is %llu",
                 (unsigned long long)figures.disk_bytes, (unsigned long long)LIMIT);
    for (unsigned i = 0; i < OBJECTS; i++)
        if (s->late[i])
            return; /* those count until they are heard of */
    for (uint16_t g = 0; g < GROUPS; g++)
        if (crti_spill_files_taken(s->files, g) != taken_by(s, g))
            sim_fail(s->world, "job %u has %llu bytes, and %llu are counted", g,
                     (unsigned long long)taken_by(s, g),
                     (unsigned long long)crti_spill_files_taken(s->files, g));
}

static void act(void *user, uint64_t unused)
{
    scene_t *s = user;
    unsigned number = (unsigned)sim_below(s->world, OBJECTS);

    switch (sim_below(s->world, 20)) {
    case 0: disk.is_full = sim_chance(s->world, 2000); break;
    case 1: disk.is_failing = sim_chance(s->world, 3000); break;
    case 2: crti_spill_files_look(s->files); break;
    case 3: change_one(s, number); break;
    case 4: check_counts(s); break;
    case 5 ... 9: check_object(s, number); break;
    case 10 ... 13:
        if (s->objects[number].is_saved && !is_in_batch(s, number))
            free_one(s, number);
        break;
    default:
        if (!s->objects[number].is_saved)
            append_one(s, number);
    }
    if (!s->is_ending)
        sim_after(s->world, PACE_NS, act, s, 0);
}

static void end(scene_t *s)
{
    s->is_ending = true;
    disk.is_full = disk.is_failing = false;
    end_batch(s, CRTI_SPILL_DONE);
    hear_of_drops(s);
    for (unsigned i = 0; i < OBJECTS && !s->world->failed; i++) {
        check_object(s, i);
        if (s->objects[i].is_saved)
            forget(s, i);
    }
    check_counts(s);
    if (!s->world->failed &&
        (disk.files > 0 || crti_spill_files_figures(s->files).disk_bytes > 0))
        sim_fail(s->world, "all is dropped, and %u files with %llu bytes are left",
                 disk.files,
                 (unsigned long long)crti_spill_files_figures(s->files).disk_bytes);
}

static void run(sim_world_t *world)
{
    static const char *const places[] = {"one", "two"};
    crti_spill_ops_t ops = disk_ops;
    scene_t *s = calloc(1, sizeof(*s));

    if (!s)
        abort();
    *s =
        (scene_t){.world = world, .bytes = malloc(LARGEST + 8), .found = malloc(LARGEST)};
    memset(&disk, 0, sizeof(disk));
    disk.world = world;
    ops.read = watched_read;
    if (!s->bytes || !s->found ||
        crti_spill_files_new(&ops, places, 2, LIMIT, &s->files) != CRT_OK)
        abort();
    sim_after(world, 0, act, s, 0);
    while (world->events < SIM_EVENTS && sim_step(world))
        ;
    if (!world->failed)
        end(s);
    crti_spill_files_free(s->files);
    free(s->bytes);
    free(s->found);
    free(s);
}

int main(int argc, char **argv)
{
    static const sim_scenario_t scenario = {.name = "spill", .run = run, .seeds = 100};

    return sim_main(argc, argv, &scenario);
}
