/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: an operation of two members of a group over shared memory (collective/shm*.c), the
 * other of which has gone mad: its region holds what it should, but for the words that the input
 * overwrites.
 *
 * First bytes: the operation, where inputs and outputs lie (bits), two of a count; then words, each
 * two bytes of a place in the other's region and eight of a value.
 */
#include "fuzz.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "collective/group_int.h"
#include "collective/shm_int.h"
#include "runtime/base/log.h"

#define HEAD 4
#define WORD 10
#define OPENED                                                                           \
    0x40000000u        /* of the other's counts: it has done all that we may wait for */
#define MOST     40000 /* elements */
#define CHANNELS ((sizeof(crti_shm_head_t) + 4095) / 4096 * 4096) /* offset in a region */

enum {
    OUR_INPUT = 1,
    OUR_OUTPUT = 2,
    THEIR_INPUT = 4,
    THEIR_OUTPUT = 8
}; /* in a segment */

static crti_region_t *theirs;
static crti_shm_head_t our_head, their_head; /* when new */
static unsigned char *segment;
static size_t segment_bytes;

typedef struct bed {
    crt_group_t group;
    struct crti_group_private private;
    crti_member_t members[2];
    void *team;
    unsigned char *input, *output; /* where they are not in the segment */
} bed_t;

/* No fault of the input. */
static void give_up(void)
{
    fprintf(stderr, "%s\n", crt_error_detail());
    abort();
}

static crti_region_t *ours(void)
{
    static crti_region_t *region;

    if (region)
        return region;
    segment_bytes = (size_t)MOST * 2 * 8;
    if (crti_region_new(2, 11, &region) != CRT_OK ||
        crti_region_new(2, 12, &theirs) != CRT_OK ||
        crt_group_alloc(2 * segment_bytes, (void **)&segment) != CRT_OK)
        give_up();
    our_head = *region->head;
    their_head = *theirs->head;
    return region;
}

/* As the region was made. */
static void reset(crti_region_t *region, const crti_shm_head_t *as_new)
{
    memcpy(region->head, as_new, sizeof(*as_new));
    memset(region->channels, 0, 2 * sizeof(crti_shm_channel_t));
}

static void make(bed_t *bed)
{
    static const int ranks[2] = {0, 1};
    const crti_team_t team = {.size = 2, .rank = 0, .ranks = ranks};
    crti_region_t *region = ours();

    *bed = (bed_t){0};
    pthread_mutex_init(&bed->private.lock, NULL);
    snprintf(bed->group.name, sizeof(bed->group.name), "g");
    bed->private.region = region;
    bed->group.private = &bed->private;
    bed->group.incarnation = 1;
    bed->group.size = 2;
    bed->group.members = bed->members;
    bed->group.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    bed->members[1] = (crti_member_t){
        .pid = getpid(), .memory_fd = crti_region_fd(theirs), .nonce = 12};
    reset(region, &our_head);
    reset(theirs, &their_head);
    atomic_store(&theirs->head->flag, OPENED);
    atomic_store(&theirs->channels[0].sent, OPENED);
    atomic_store(&theirs->channels[0].staged, OPENED);
    atomic_store(&theirs->channels[0].received, OPENED);
    atomic_store(&theirs->channels[0].taken, OPENED);
    if (crti_backend_shm.open(&bed->group, &team, crti_now_ns() + 20 * CRTI_S,
                              &bed->team) != CRT_OK)
        give_up();
}

static void end(bed_t *bed)
{
    const crt_group_error_t *error = crt_group_last_error(&bed->group);

    if (error && (error->status >= 0 || !error->text[0]))
        abort(); /* every end has a reason */
    crti_backend_shm.close(bed->team);
    close(bed->group.wake_fd);
    pthread_mutex_destroy(&bed->private.lock);
    free(bed->input);
    free(bed->output);
}

/* What the other says when it means the same. */
static void say(crti_shm_slot_t *slot, const crti_step_t *step, int where)
{
    slot->call = crti_operation_signature_of(step);
    if (where & THEIR_INPUT)
        crti_memory_find(segment, segment_bytes, &slot->input);
    if (where & THEIR_OUTPUT)
        crti_memory_find(segment + segment_bytes, segment_bytes, &slot->output);
}

/* The end of what is not in the segment is watched. */
static void *place(bool in_segment, unsigned half, size_t bytes, unsigned char **own)
{
    if (in_segment)
        return segment + half * segment_bytes;
    *own = calloc(1, bytes ? bytes : 1);
    if (*own == NULL)
        abort();
    return *own;
}

static crti_step_t step_of(bed_t *bed, const uint8_t *data)
{
    static const crt_dtype_t types[] = {CRT_DTYPE_FLOAT32, CRT_DTYPE_INT64,
                                        CRT_DTYPE_FLOAT16};
    crti_step_t step = {
        .kind = (crt_collective_kind_t)(CRT_COLLECTIVE_ALLREDUCE + data[0] % 9),
        .dtype = types[data[1] >> 4 & 3 ? (data[1] >> 4 & 3) - 1 : 0],
        .reduction = CRT_REDUCE_SUM,
        .count = (data[2] | (size_t)data[3] << 8) % MOST,
        .peer = -1,
        .deadline_ns = crti_now_ns() + CRTI_MS};
    size_t bytes = 2 * step.count * crt_dtype_size(step.dtype);

    if (step.kind == CRT_COLLECTIVE_SEND || step.kind == CRT_COLLECTIVE_RECV)
        step.peer = 1;
    else if (step.kind == CRT_COLLECTIVE_REDUCE || step.kind == CRT_COLLECTIVE_BROADCAST)
        step.peer = data[1] >> 7;
    step.input = place(data[1] & OUR_INPUT, 0, bytes, &bed->input);
    step.output = place(data[1] & OUR_OUTPUT, 1, bytes, &bed->output);
    return step;
}

static void overwrite(const uint8_t *data, size_t size)
{
    /* The head, and the channel to us up to the first cell's bytes. */
    size_t words = (CHANNELS + offsetof(crti_shm_channel_t, cells[0].data)) / 8;

    for (; size >= WORD; data += WORD, size -= WORD) {
        size_t at = (data[0] | (size_t)data[1] << 8) % words;

        memcpy((uint8_t *)theirs->head + 8 * at, data + 2, 8);
    }
}

static void on_line(void *user, int level, const char *line)
{
}

/* What the other sends when it means the same. Its memory is this process's. */
static void fill_cell(crti_shm_cell_t *cell, const crti_step_t *step, int where)
{
    cell->call = crti_operation_signature_of(step);
    cell->call.kind = CRT_COLLECTIVE_SEND;
    cell->call.peer = 0;
    cell->address = (uint64_t)(uintptr_t)segment;
    if (where & THEIR_INPUT)
        crti_memory_find(segment, segment_bytes, &cell->memory);
}

static crt_status_t run(bed_t *bed, const crti_step_t *step)
{
    size_t bytes = step->count * crt_dtype_size(step->dtype);
    crti_pair_t pair = {.is_send = step->kind == CRT_COLLECTIVE_SEND,
                        .dtype = step->dtype,
                        .count = step->count,
                        .bytes = bytes,
                        .input = step->input,
                        .output = step->output,
                        .peer = 1,
                        .rank = 1};
    crti_pair_t *awaits = &pair;
    crt_status_t status;

    if (!pair.is_send && step->kind != CRT_COLLECTIVE_RECV)
        return crti_backend_shm.run(bed->team, step);
    crti_list_init(&pair.link);
    bed->group.awaits = &awaits;
    bed->group.await_count = 1;
    status = crti_backend_shm.post(bed->team, &pair);
    if (status == CRT_OK && !pair.is_done)
        status = crti_backend_shm.await(bed->team, &awaits, 1, step->deadline_ns);
    bed->group.awaits = NULL;
    bed->group.await_count = 0;
    crti_list_remove(&pair.link);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    crti_step_t step;
    bed_t bed;

    if (size < HEAD)
        return 0;
    crti_log_set_sink(on_line, NULL);
    make(&bed);
    step = step_of(&bed, data);
    for (int i = 0; i < 2; i++)
        say(&theirs->head->slots[i], &step, data[1]);
    for (int i = 0; i < CRTI_SHM_CELLS; i++)
        fill_cell(&theirs->channels[0].cells[i], &step, data[1]);
    overwrite(data + HEAD, size - HEAD);
    if (run(&bed, &step) == CRT_OK)
        (void)run(&bed, &step);
    end(&bed);
    return 0;
}

static size_t put_word(uint8_t *out, size_t at, const void *word)
{
    out[0] = (uint8_t)(at / 8);
    out[1] = (uint8_t)(at / 8 >> 8);
    memcpy(out + 2, word, 8);
    return WORD;
}

/* The other's first input, a byte further than its elements. */
static size_t put_misplaced(uint8_t *out)
{
    size_t at =
        offsetof(crti_shm_head_t, slots) + offsetof(crti_shm_slot_t, input.offset);
    crti_memory_handle_t place;

    ours();
    if (!crti_memory_find(segment, segment_bytes, &place))
        abort();
    place.offset++;
    return put_word(out, at, &place.offset);
}

/* The other has done nothing, and says that it has failed, and not why. */
static size_t put_failure(uint8_t *out)
{
    int32_t failed[2] = {CRTI_SHM_FAILED, CRT_ERR_CANCELLED}, nothing[2] = {0, 0};
    size_t size = put_word(out, offsetof(crti_shm_head_t, flag), nothing);

    _Static_assert(offsetof(crti_shm_head_t, failure.status) ==
                       offsetof(crti_shm_head_t, state) + 4,
                   "one word has both");
    size += put_word(out + size, CHANNELS, nothing);
    return size + put_word(out + size, offsetof(crti_shm_head_t, state), failed);
}

/* Every operation, with everything in segments, nothing, and only what is theirs; small and
 * large. */
size_t fuzz_seed(unsigned index, uint8_t *out, size_t room)
{
    static const uint8_t where[] = {0,
                                    OUR_INPUT | OUR_OUTPUT | THEIR_INPUT | THEIR_OUTPUT,
                                    THEIR_INPUT | THEIR_OUTPUT};
    const unsigned all = 2 * 3 * 9;
    size_t count = index & 1 ? 30000 : 100, size = HEAD;

    if (index >= 3 * all || room < 64)
        return 0;
    out[0] = (uint8_t)(index % all / 6);
    out[1] = where[index / 2 % 3];
    out[2] = (uint8_t)count;
    out[3] = (uint8_t)(count >> 8);
    if (index / all == 1)
        size += put_misplaced(out + HEAD);
    else if (index / all == 2)
        size += put_failure(out + HEAD);
    return size;
}
