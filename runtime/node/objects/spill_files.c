/* SPDX-License-Identifier: Apache-2.0 */
/* Spill files. See spill_files.h.
 *
 * Room given back
 *     A file is counted in blocks: how many records touch each. A block that none touches any more
 *     is discarded, so that one small object that lives for long does not keep a whole file.
 * Ownership
 *     A record is in the map until it is dropped, and lives until nobody reads it; a file lives as
 *     long as a record of it, and while it is appended to.
 */
#include "runtime/node/objects/spill_files.h"

#include <errno.h>
#include <pthread.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/base/fault.h"
#include "runtime/base/limit.h"
#include "runtime/base/list.h"
#include "runtime/base/map.h"
#include "runtime/node/objects/spill_shares.h"
#include "runtime/node/objects/spill_tag.h"

#define FILES_MOST   64u /* with more than that they are larger */
#define BLOCK_SHIFT  16
#define STAGED_BYTES (1u << 20)  /* small objects are written together */
#define SMALL_BYTES  (64u << 10) /* smaller is small */
#define ALIGNMENT    64u
#define LOOK_BYTES   ((uint64_t)64 << 20) /* between two looks how much room there is */
#define TAG_BYTES    CRTI_SPILL_TAG_BYTES
#define WANT_BYTES   (8 * CRTI_SPILL_PART) /* are read ahead */

typedef struct file {
    void *file; /* of the place */
    crti_list_t link;
    uint64_t end;
    uint64_t records;
    uint32_t *blocks; /* how many records touch each */
    size_t block_room;
} file_t;

typedef struct record {
    crti_object_id_t id;
    file_t *file;
    uint64_t offset, size;
    uint16_t group;
    unsigned readers;
    unsigned drops; /* that are about earlier objects of this id */
    bool is_dropped;
    unsigned char tag[TAG_BYTES]; /* of an object of one part */
    unsigned char *tags;          /* of all parts, else */
} record_t;

typedef struct place {
    const char *where;
    uint64_t rests_until_ns;
} place_t;

struct crti_spill_files {
    const crti_spill_ops_t *ops;
    unsigned char key[CRTI_SPILL_TAG_KEY_BYTES];
    uint64_t limit;

    /* the saver's */
    place_t places[CRTI_SPILL_PLACES];
    size_t place_count, place; /* the one that is written to */
    file_t *current;           /* NULL: the next append makes one */
    unsigned char *staged;     /* bytes that belong behind what was written */
    uint64_t staged_at;
    size_t staged_size;
    uint64_t room; /* that the place of `current` has at least */
    uint64_t
        most; /* that any place has, as far as is known; UINT64_MAX before it was looked */

    pthread_mutex_t lock; /* of the rest */
    crti_map_t records;   /* object id -> record_t */
    crti_list_t list;     /* of file_t */
    uint64_t file_count, blocks, bytes, written, read;
    crti_spill_shares_t shares;
};

/* ---------------------------------------------------------------- life */

crt_status_t crti_spill_files_new(const crti_spill_ops_t *ops, const char *const *places,
                                  size_t count, uint64_t limit,
                                  crti_spill_files_t **files_out)
{
    crti_spill_files_t *files = calloc(1, sizeof(*files));

    if (files)
        files->staged = calloc(1, STAGED_BYTES);
    if (!files || !files->staged || sodium_init() < 0) {
        if (files)
            free(files->staged);
        free(files);
        return crt_raise(CRT_ERR_NO_MEMORY, "files of spilled objects");
    }
    files->ops = ops;
    files->limit = limit;
    files->most = UINT64_MAX;
    for (size_t i = 0; i < count && i < CRTI_SPILL_PLACES; i++)
        files->places[files->place_count++].where = places[i];
    randombytes_buf(files->key, sizeof(files->key));
    pthread_mutex_init(&files->lock, NULL);
    crti_map_init(&files->records, sizeof(crti_object_id_t));
    crti_list_init(&files->list);
    *files_out = files;
    return CRT_OK;
}

static void free_record(record_t *record)
{
    free(record->tags);
    free(record);
}

static void free_file(const crti_spill_files_t *files, file_t *file)
{
    files->ops->remove(file->file);
    free(file->blocks);
    free(file);
}

void crti_spill_files_free(crti_spill_files_t *files)
{
    crti_list_t *item;

    if (!files)
        return;
    CRTI_MAP_FOREACH (record_t, record, &files->records)
        free_record(record);
    crti_map_fini(&files->records);
    while ((item = crti_list_pop(&files->list)))
        free_file(files, CRTI_CONTAINER(item, file_t, link));
    pthread_mutex_destroy(&files->lock);
    sodium_memzero(files->key, sizeof(files->key));
    free(files->staged);
    free(files);
}

/* ---------------------------------------------------------------- room */

/* A run of blocks that no record touches any more. */
typedef struct hole {
    uint64_t offset, size;
} hole_t;

/* The record's blocks have one record less; those in the middle had no other, so they are one
 * hole. Lock held. Of the file that is appended to its last block stays. */
static hole_t leave_blocks(crti_spill_files_t *files, const record_t *record)
{
    file_t *file = record->file;
    uint64_t first = record->offset >> BLOCK_SHIFT;
    uint64_t last = (record->offset + record->size - (record->size > 0)) >> BLOCK_SHIFT;
    uint64_t end = file == files->current ? file->end >> BLOCK_SHIFT : UINT64_MAX;
    hole_t hole = {0, 0};

    for (uint64_t i = first; i <= last; i++) {
        if (--file->blocks[i] > 0 && !CRTI_FAULT(10))
            continue;
        files->blocks--;
        if (i >= end)
            continue;
        if (hole.size == 0)
            hole.offset = i << BLOCK_SHIFT;
        hole.size = ((i + 1) << BLOCK_SHIFT) - hole.offset;
    }
    return hole;
}

static void forget_file(crti_spill_files_t *files, file_t *file)
{
    for (uint64_t i = 0; i << BLOCK_SHIFT < file->end; i++)
        files->blocks -= file->blocks[i] > 0;
    crti_list_remove(&file->link);
    files->file_count--;
}

/* A record that is dropped and not read any more. Lock held; given up for the storage, and taken
 * again. */
static void end_record(crti_spill_files_t *files, record_t *record)
{
    file_t *file = record->file;
    hole_t hole = leave_blocks(files, record);
    bool is_last = file->records == 1 && file != files->current;

    if (is_last)
        forget_file(files, file);
    pthread_mutex_unlock(&files->lock);
    if (is_last)
        free_file(files, file);
    else if (hole.size > 0)
        files->ops->discard(file->file, hole.offset, hole.size);
    pthread_mutex_lock(&files->lock);
    if (!is_last)
        file->records--; /* it kept the file until here */
    free_record(record);
}

/* The file that was appended to is finished: it goes with its last record. */
static void end_current(crti_spill_files_t *files)
{
    file_t *file = files->current;
    bool is_empty;

    if (!file)
        return;
    pthread_mutex_lock(&files->lock);
    files->current = NULL;
    files->staged_size = 0;
    is_empty = file->records == 0;
    if (is_empty)
        forget_file(files, file);
    pthread_mutex_unlock(&files->lock);
    if (is_empty)
        free_file(files, file);
}

/* ---------------------------------------------------------------- append */

/* The next place that does not rest, or where all do, that which has rested longest. */
static void choose_place(crti_spill_files_t *files)
{
    uint64_t now = crti_now_ns();
    size_t best = files->place;

    for (size_t i = 1; i <= files->place_count; i++) {
        size_t at = (files->place + i) % files->place_count;

        if (files->places[at].rests_until_ns <= now) {
            files->place = at;
            return;
        }
        if (files->places[at].rests_until_ns < files->places[best].rests_until_ns)
            best = at;
    }
    files->place = best;
}

static int begin_file(crti_spill_files_t *files)
{
    file_t *file = calloc(1, sizeof(*file));
    int error;

    choose_place(files);
    error =
        file ? files->ops->open(files->places[files->place].where, &file->file) : ENOMEM;
    if (error) {
        free(file);
        return error;
    }
    files->room = 0;
    pthread_mutex_lock(&files->lock);
    crti_list_append(&files->list, &file->link);
    files->file_count++;
    files->current = file;
    pthread_mutex_unlock(&files->lock);
    return 0;
}

static int flush(crti_spill_files_t *files)
{
    int error = 0;

    if (files->staged_size > 0)
        error = files->ops->append(files->current->file, files->staged_at, files->staged,
                                   files->staged_size);
    files->staged_size = 0;
    return error;
}

static uint64_t parts_of(uint64_t size)
{
    return size == 0 ? 1 : (size + CRTI_SPILL_PART - 1) / CRTI_SPILL_PART;
}

static unsigned char *tag_of(record_t *record, uint64_t part)
{
    return record->tags ? record->tags + part * TAG_BYTES : record->tag;
}

static int write_small(crti_spill_files_t *files, record_t *record, const void *bytes)
{
    int error = 0;

    crti_spill_tag(files->key, bytes, record->size, record->tag);
    if (files->staged_size > 0 &&
        record->offset + record->size - files->staged_at > STAGED_BYTES)
        error = flush(files);
    if (files->staged_size == 0)
        files->staged_at = record->offset;
    memcpy(files->staged + (record->offset - files->staged_at), bytes, record->size);
    files->staged_size = record->offset + record->size - files->staged_at;
    return error;
}

/* Each part is written while the caches have it, from its tag. */
static int write_parts(crti_spill_files_t *files, record_t *record, const void *bytes)
{
    const unsigned char *at = bytes;
    int error = flush(files);

    for (uint64_t part = 0; part < parts_of(record->size) && !error; part++) {
        uint64_t offset = part * CRTI_SPILL_PART;
        uint64_t left = record->size - offset;
        size_t size = left < CRTI_SPILL_PART ? (size_t)left : (size_t)CRTI_SPILL_PART;

        crti_spill_tag(files->key, at + offset, size, tag_of(record, part));
        error = files->ops->append(files->current->file, record->offset + offset,
                                   at + offset, size);
    }
    return error;
}

/* A file that takes one more of `size`; its blocks have their counts. */
static int find_file(crti_spill_files_t *files, uint64_t size)
{
    file_t *file = files->current;
    uint64_t most;
    int error = 0;
    size_t blocks;

    pthread_mutex_lock(&files->lock);
    most = files->file_count > FILES_MOST
               ? files->file_count * CRTI_LIMIT(spill_file) / FILES_MOST
               : CRTI_LIMIT(spill_file);
    pthread_mutex_unlock(&files->lock);
    if (file && file->end > 0 && file->end + size > most) {
        error = flush(files);
        if (!error)
            error = files->ops->settle(file->file);
        if (error)
            return error;
        end_current(files);
    }
    if (!files->current)
        error = begin_file(files);
    if (error)
        return error;
    file = files->current;
    blocks = (size_t)((file->end + ALIGNMENT + size) >> BLOCK_SHIFT) + 1;
    if (blocks > file->block_room) {
        size_t room = blocks + blocks / 2 + 16;
        uint32_t *more = realloc(file->blocks, room * sizeof(*more));

        if (!more)
            return ENOMEM;
        memset(more + file->block_room, 0, (room - file->block_room) * sizeof(*more));
        pthread_mutex_lock(&files->lock);
        file->blocks = more;
        file->block_room = room;
        pthread_mutex_unlock(&files->lock);
    }
    return 0;
}

static int take_room(crti_spill_files_t *files, uint64_t size)
{
    uint64_t room;
    int error;

    if (files->room < size) {
        error = files->ops->room(files->places[files->place].where, &room);
        if (error)
            return error;
        if (room < size)
            return ENOSPC;
        files->room = room < size + LOOK_BYTES ? room : size + LOOK_BYTES;
    }
    files->room -= size;
    return 0;
}

static record_t *new_record(crti_object_id_t id, uint16_t group, uint64_t size)
{
    record_t *record = calloc(1, sizeof(*record));

    if (!record)
        return NULL;
    record->id = id;
    record->group = group;
    record->size = size;
    if (parts_of(size) > 1 && !(record->tags = malloc(parts_of(size) * TAG_BYTES))) {
        free(record);
        return NULL;
    }
    return record;
}

/* Lock held. */
static void mark_dropped(crti_spill_files_t *files, record_t *record)
{
    record->is_dropped = true;
    files->bytes -= record->size;
    crti_spill_give(&files->shares, record->group, record->size);
}

/* Its id may have been another object's whose drop has not been heard of yet. Lock held. */
static int enter(crti_spill_files_t *files, record_t *record)
{
    record_t *before = crti_map_get(&files->records, &record->id);
    file_t *file = files->current;
    uint64_t first, last;

    if (crti_map_put(&files->records, &record->id, record) != CRT_OK)
        return ENOMEM;
    record->file = file;
    record->offset = (file->end + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    file->end = record->offset + record->size;
    first = record->offset >> BLOCK_SHIFT;
    last = (file->end - (record->size > 0)) >> BLOCK_SHIFT;
    for (uint64_t i = first; i <= last; i++)
        files->blocks += file->blocks[i]++ == 0;
    file->records++;
    files->bytes += record->size;
    crti_spill_take(&files->shares, record->group, record->size);
    if (before) {
        record->drops = before->drops + 1;
        mark_dropped(files, before);
        if (before->readers == 0)
            end_record(files, before);
    }
    return 0;
}

static crti_spill_result_t failed(crti_spill_files_t *files, int error, int *error_out)
{
    files->places[files->place].rests_until_ns = crti_now_ns() + CRTI_LIMIT(spill_retry);
    end_current(files);
    *error_out = error;
    return CRTI_SPILL_FAILED;
}

static bool is_limited(crti_spill_files_t *files, uint64_t size)
{
    uint64_t used;

    pthread_mutex_lock(&files->lock);
    used = files->blocks << BLOCK_SHIFT;
    pthread_mutex_unlock(&files->lock);
    return files->limit && (size > files->limit || used > files->limit - size);
}

void crti_spill_files_look(crti_spill_files_t *files)
{
    uint64_t room, most = 0;

    for (size_t i = 0; i < files->place_count && files->limit == 0; i++)
        if (files->ops->room(files->places[i].where, &room) == 0 && room > most)
            most = room;
    files->most = most;
}

/* Of the limit, or where there is none, of the emptiest place. Lock held. */
static uint64_t left(const crti_spill_files_t *files)
{
    uint64_t used = files->blocks << BLOCK_SHIFT;

    if (files->limit == 0)
        return files->most;
    return used < files->limit ? files->limit - used : 0;
}

bool crti_spill_files_may_take(crti_spill_files_t *files, uint16_t group, uint64_t size)
{
    uint64_t bytes;
    bool may;

    pthread_mutex_lock(&files->lock);
    bytes = left(files); /* too few for anybody: that is no matter of shares */
    may = size > bytes || crti_spill_may_take(&files->shares, group, size, bytes);
    pthread_mutex_unlock(&files->lock);
    return may;
}

uint64_t crti_spill_files_taken(crti_spill_files_t *files, uint16_t group)
{
    uint64_t taken;

    pthread_mutex_lock(&files->lock);
    taken = files->shares.taken[group];
    pthread_mutex_unlock(&files->lock);
    return taken;
}

crti_spill_result_t crti_spill_files_append(crti_spill_files_t *files,
                                            crti_object_id_t id, uint16_t group,
                                            const void *bytes, size_t size,
                                            int *error_out)
{
    record_t *record;
    int error;

    if (is_limited(files, size))
        return CRTI_SPILL_LIMITED;
    if (!crti_spill_files_may_take(files, group, size))
        return CRTI_SPILL_SHARED;
    error = find_file(files, size);
    if (!error)
        error = take_room(files, size);
    if (error)
        return failed(files, error, error_out);
    record = new_record(id, group, size);
    pthread_mutex_lock(&files->lock);
    error = record ? enter(files, record) : ENOMEM;
    pthread_mutex_unlock(&files->lock);
    if (error) {
        if (record)
            free_record(record);
        return failed(files, error, error_out);
    }
    error = size < SMALL_BYTES ? write_small(files, record, bytes)
                               : write_parts(files, record, bytes);
    if (error)
        return failed(files, error, error_out);
    pthread_mutex_lock(&files->lock);
    files->written += size;
    pthread_mutex_unlock(&files->lock);
    files->most -= files->most > size ? size : files->most;
    return CRTI_SPILL_DONE;
}

crti_spill_result_t crti_spill_files_settle(crti_spill_files_t *files, int *error_out)
{
    int error = 0;

    if (!files->current)
        return CRTI_SPILL_DONE;
    error = flush(files);
    if (!error)
        error = files->ops->settle(files->current->file);
    return error && !CRTI_FAULT(11) ? failed(files, error, error_out) : CRTI_SPILL_DONE;
}

uint64_t crti_spill_files_limit(const crti_spill_files_t *files)
{
    return files->limit;
}

const char *crti_spill_files_failed(const crti_spill_files_t *files)
{
    return files->places[files->place].where;
}

void crti_spill_files_drop(crti_spill_files_t *files, crti_object_id_t id)
{
    record_t *record;
    bool is_idle;

    pthread_mutex_lock(&files->lock);
    record = crti_map_get(&files->records, &id);
    if (record && record->drops > 0) {
        record->drops--;
    } else if (record) {
        crti_map_remove(&files->records, &id);
        mark_dropped(files, record);
        if (record->readers == 0)
            end_record(files, record);
    }
    is_idle = files->current && files->current->records == 0;
    pthread_mutex_unlock(&files->lock);
    if (is_idle)
        end_current(files);
}

/* ---------------------------------------------------------------- read */

bool crti_spill_files_holds(crti_spill_files_t *files, crti_object_id_t id,
                            uint64_t *size_out)
{
    const record_t *record;

    pthread_mutex_lock(&files->lock);
    record = crti_map_get(&files->records, &id);
    if (record)
        *size_out = record->size;
    pthread_mutex_unlock(&files->lock);
    return record != NULL;
}

static record_t *hold(crti_spill_files_t *files, crti_object_id_t id)
{
    record_t *record;

    pthread_mutex_lock(&files->lock);
    record = crti_map_get(&files->records, &id);
    if (record)
        record->readers++;
    pthread_mutex_unlock(&files->lock);
    return record;
}

static void let_go(crti_spill_files_t *files, record_t *record, uint64_t bytes)
{
    pthread_mutex_lock(&files->lock);
    files->read += bytes;
    if (--record->readers == 0 && record->is_dropped)
        end_record(files, record);
    pthread_mutex_unlock(&files->lock);
}

static crt_status_t read_part(const crti_spill_files_t *files, record_t *record,
                              uint64_t part, unsigned char *bytes, uint64_t size)
{
    unsigned char tag[TAG_BYTES];
    int error = files->ops->read(record->file->file,
                                 record->offset + part * CRTI_SPILL_PART, bytes, size);

    if (error)
        return crt_raise(
            CRT_ERR_OBJECT_LOST, "it was spilled to disk, and its file can't be read: %s",
            error == ENODATA ? "the file is shorter than it was" : strerror(error));
    crti_spill_tag(files->key, bytes, size, tag);
    if (sodium_memcmp(tag, tag_of(record, part), TAG_BYTES) != 0 && !CRTI_FAULT(9))
        return crt_raise(
            CRT_ERR_OBJECT_LOST,
            "it was spilled to disk, and the file holds other bytes than were "
            "written: somebody changed it, or the disk is faulty");
    return CRT_OK;
}

/* While one part is checked the storage reads the next ones: each by itself, so that it gives the
 * first one before it has them all. Returns up to where it was told. */
static uint64_t want_ahead(const crti_spill_files_t *files, const record_t *record,
                           uint64_t offset, uint64_t wanted, uint64_t end)
{
    uint64_t until = end - offset > WANT_BYTES ? offset + WANT_BYTES : end;

    if (end - offset <= CRTI_SPILL_PART)
        return until;
    while (wanted < until) {
        uint64_t n = until - wanted < CRTI_SPILL_PART ? until - wanted : CRTI_SPILL_PART;

        files->ops->want(record->file->file, record->offset + wanted, n);
        wanted += n;
    }
    return until;
}

static crt_status_t read_parts(const crti_spill_files_t *files, record_t *record,
                               uint64_t offset, unsigned char *bytes, uint64_t size)
{
    crt_status_t status = CRT_OK;
    uint64_t end = offset + size, wanted = offset;

    if (offset > record->size || size > record->size - offset ||
        offset % CRTI_SPILL_PART != 0 ||
        (end % CRTI_SPILL_PART != 0 && end != record->size))
        return crt_raise(CRT_ERR_INVALID, "the object has %llu bytes, in parts of %llu",
                         (unsigned long long)record->size,
                         (unsigned long long)CRTI_SPILL_PART);
    while (status == CRT_OK && offset < end) {
        uint64_t left = end - offset;
        uint64_t n = left < CRTI_SPILL_PART ? left : CRTI_SPILL_PART;

        wanted = want_ahead(files, record, offset, wanted, end);
        status = read_part(files, record, offset / CRTI_SPILL_PART, bytes, n);
        offset += n;
        bytes += n;
    }
    return status;
}

crt_status_t crti_spill_files_read(crti_spill_files_t *files, crti_object_id_t id,
                                   uint64_t offset, void *bytes, uint64_t size)
{
    record_t *record = hold(files, id);
    crt_status_t status;

    if (!record)
        return crt_raise(CRT_ERR_NOT_FOUND, "the object is not on disk");
    status = read_parts(files, record, offset, bytes, size);
    let_go(files, record, size);
    return status;
}

crti_spill_figures_t crti_spill_files_figures(crti_spill_files_t *files)
{
    crti_spill_figures_t figures;

    pthread_mutex_lock(&files->lock);
    figures = (crti_spill_figures_t){.objects = files->records.count,
                                     .bytes = files->bytes,
                                     .disk_bytes = files->blocks << BLOCK_SHIFT,
                                     .files = files->file_count,
                                     .written = files->written,
                                     .read = files->read};
    pthread_mutex_unlock(&files->lock);
    return figures;
}
