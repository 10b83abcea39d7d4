/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints: files of weights, optimizer and position, and the folder they are in.
 *
 * Where it sits
 *     server or driver -> [ ml/checkpoint.c ] -> weights.c, file.c
 * Invariants
 *     Everything of a file is checked before anything of model or optimizer changes.
 */
#include "ml/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ml/file.h"
#include "ml/optimizer.h"
#include "ml/weights.h"
#include "runtime/base/copy_struct.h"

#include <zlib.h>

#define MAGIC          "crtcheck"
#define VERSION        3
#define CHECKSUM       sizeof(uint32_t)
#define FILE_BYTES_MAX ((size_t)1 << 36)

#define NAME_ROOM 64

typedef struct header {
    char magic[8];
    uint32_t version, is_last;
    char network[NAME_ROOM];
    uint64_t step, seed, optimizer_steps;
    uint32_t kind, states;
    uint64_t floats, weights_size;
    uint64_t batches;    /* from version 2 on */
    uint64_t batch_size; /* from version 3 on */
} header_t;

_Static_assert(sizeof(header_t) == 144, "as the file has it");

/* ---------------------------------------------------------------- bytes */

static header_t make_header(const crt_checkpoint_t *c, const crt_model_t *model,
                            crt_optimizer_t *optimizer, size_t weights_size)
{
    header_t h = {.version = VERSION,
                  .is_last = c->is_last,
                  .step = c->step,
                  .seed = c->seed,
                  .optimizer_steps = crt_optimizer_steps(optimizer),
                  .kind = (uint32_t)optimizer->options.kind,
                  .states = (uint32_t)crt_optimizer_states(optimizer),
                  .floats = crt_model_parameters(model),
                  .weights_size = weights_size,
                  .batches = c->batches,
                  .batch_size = c->batch_size};

    memcpy(h.magic, MAGIC, sizeof(h.magic));
    snprintf(h.network, sizeof(h.network), "%s", c->network);
    return h;
}

crt_status_t crti_checkpoint_encode(const crt_checkpoint_t *checkpoint,
                                    crt_model_t *model, crt_optimizer_t *optimizer,
                                    unsigned char **data_out, size_t *size_out)
{
    unsigned char *weights, *data, *at;
    size_t weights_size, size, state = crt_model_parameters(model) * sizeof(float);
    crt_status_t status = crti_weights_encode(model, &weights, &weights_size);
    header_t h;
    uint32_t sum;

    if (status != CRT_OK)
        return status;
    h = make_header(checkpoint, model, optimizer, weights_size);
    size = sizeof(h) + weights_size + h.states * state + CHECKSUM;
    data = at = malloc(size);
    if (!data) {
        free(weights);
        return crt_raise(CRT_ERR_NO_MEMORY, "a checkpoint of %zu bytes", size);
    }
    memcpy(at, &h, sizeof(h));
    memcpy(at += sizeof(h), weights, weights_size);
    at += weights_size;
    for (uint32_t i = 0; i < h.states && status == CRT_OK; i++, at += state)
        status = crti_model_copy(model, at, optimizer->state[i], state);
    if (status != CRT_OK) {
        free(weights);
        free(data);
        return status;
    }
    sum = (uint32_t)crc32_z(crc32_z(0, NULL, 0), data, size - CHECKSUM);
    memcpy(at, &sum, sizeof(sum));
    free(weights);
    *data_out = data;
    *size_out = size;
    return CRT_OK;
}

static size_t header_size(const header_t *h)
{
    return h->version == 1   ? offsetof(header_t, batches)
           : h->version == 2 ? offsetof(header_t, batch_size)
                             : sizeof(*h);
}

/* Is it a whole file of this kind? Says nothing about the model. */
static crt_status_t check_file(const char *name, const unsigned char *data, size_t size,
                               header_t *h)
{
    uint32_t sum;
    size_t room;

    if (size < sizeof(*h) + CHECKSUM || memcmp(data, MAGIC, 8) != 0)
        return crt_raise(CRT_ERR_CORRUPT,
                         "%s: not a checkpoint, or cut short (%zu bytes)", name, size);
    memcpy(h, data, sizeof(*h));
    if (h->version < 1 || h->version > VERSION)
        return crt_raise(CRT_ERR_INVALID,
                         "%s: a checkpoint of version %u, this build reads 1 to %d", name,
                         h->version, VERSION);
    if (h->version < 2)
        h->batches = 0;
    if (h->version < 3)
        h->batch_size = 0;
    room = size - header_size(h) - CHECKSUM;
    if (h->states > CRT_OPTIMIZER_STATES_MAX || h->weights_size > room ||
        h->floats > FILE_BYTES_MAX ||
        room - h->weights_size != h->states * h->floats * sizeof(float))
        return crt_raise(CRT_ERR_CORRUPT, "%s: cut short or damaged: %zu bytes", name,
                         size);
    memcpy(&sum, data + size - CHECKSUM, sizeof(sum));
    if (sum != (uint32_t)crc32_z(crc32_z(0, NULL, 0), data, size - CHECKSUM))
        return crt_raise(CRT_ERR_CORRUPT, "%s: damaged: the checksum is wrong", name);
    h->network[sizeof(h->network) - 1] = 0;
    return CRT_OK;
}

static crt_status_t check_use(const char *name, const header_t *h, const char *network,
                              const crt_model_t *model, crt_optimizer_t *optimizer)
{
    if (strcmp(h->network, network) != 0)
        return crt_raise(CRT_ERR_INVALID, "%s: a checkpoint of network '%s', not '%s'",
                         name, h->network, network);
    if (optimizer && (h->kind != (uint32_t)optimizer->options.kind ||
                      h->states != (uint32_t)crt_optimizer_states(optimizer)))
        return crt_raise(CRT_ERR_INVALID,
                         "%s: a checkpoint of another optimizer (kind %u with %u states, "
                         "not %u with %d)",
                         name, h->kind, h->states, (unsigned)optimizer->options.kind,
                         crt_optimizer_states(optimizer));
    if (optimizer && h->floats != crt_model_parameters(model))
        return crt_raise(CRT_ERR_INVALID, "%s: %llu parameters, the model has %zu", name,
                         (unsigned long long)h->floats, crt_model_parameters(model));
    return CRT_OK;
}

crt_status_t crti_checkpoint_decode(const char *name, const unsigned char *data,
                                    size_t size, const char *network, crt_model_t *model,
                                    crt_optimizer_t *optimizer,
                                    crt_checkpoint_t *checkpoint_out)
{
    header_t h;
    const unsigned char *at;
    crt_status_t status = check_file(name, data, size, &h);

    if (status != CRT_OK)
        return status;
    at = data + header_size(&h);
    status = check_use(name, &h, network, model, optimizer);
    if (status == CRT_OK && model)
        status = crti_weights_decode(model, name, at, h.weights_size);
    if (status != CRT_OK)
        return status;
    at += h.weights_size;
    for (uint32_t i = 0; optimizer && i < h.states && status == CRT_OK; i++) {
        size_t state = h.floats * sizeof(float);

        status = crti_model_copy(model, optimizer->state[i], at, state);
        at += state;
    }
    if (status != CRT_OK)
        return status;
    if (optimizer)
        crt_optimizer_set_steps(optimizer, h.optimizer_steps);
    *checkpoint_out = CRT_CHECKPOINT(.network = network, .step = h.step, .seed = h.seed,
                                     .is_last = h.is_last != 0, .batches = h.batches,
                                     .batch_size = h.batch_size);
    return CRT_OK;
}

/* ---------------------------------------------------------------- the folder */

/* Twelve digits of a step, so that names sort as steps do; more are fine. */
#define NAME_FORMAT "step-%012" PRIu64 ".checkpoint"

static bool step_of(const char *name, uint64_t *step_out)
{
    char again[NAME_MAX];

    if (sscanf(name, "step-%" SCNu64, step_out) != 1)
        return false;
    snprintf(again, sizeof(again), NAME_FORMAT, *step_out);
    return strcmp(name, again) == 0;
}

static crt_status_t path_of(const char *folder, uint64_t step, char *path, size_t room)
{
    int length = snprintf(path, room, "%s/" NAME_FORMAT, folder, step);

    return length >= 0 && (size_t)length < room
               ? CRT_OK
               : crt_raise(CRT_ERR_INVALID,
                           "the name of a checkpoint folder has %zu bytes",
                           strlen(folder));
}

static int by_step(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* The steps of all checkpoints, rising; the caller frees them. */
static crt_status_t list(const char *folder, uint64_t **steps_out, size_t *count_out)
{
    DIR *open_folder = opendir(folder);
    uint64_t *steps = NULL, *more, step;
    size_t count = 0;
    struct dirent *entry;

    if (!open_folder)
        return crt_raise(errno == ENOENT ? CRT_ERR_NOT_FOUND : CRT_ERR_IO, "%s: %s",
                         folder, strerror(errno));
    while ((entry = readdir(open_folder))) {
        if (!step_of(entry->d_name, &step))
            continue;
        more = realloc(steps, (count + 1) * sizeof(*steps));
        if (!more) {
            free(steps);
            closedir(open_folder);
            return crt_raise(CRT_ERR_NO_MEMORY, "%s: %zu checkpoints", folder, count);
        }
        steps = more;
        steps[count++] = step;
    }
    closedir(open_folder);
    if (count > 0)
        qsort(steps, count, sizeof(*steps), by_step);
    *steps_out = steps;
    *count_out = count;
    return CRT_OK;
}

static crt_status_t prune(const char *folder, size_t keep)
{
    uint64_t *steps;
    size_t count;
    char path[PATH_MAX];
    crt_status_t status = list(folder, &steps, &count);

    if (status != CRT_OK)
        return status;
    for (size_t i = 0; i + keep < count && status == CRT_OK; i++) {
        status = path_of(folder, steps[i], path, sizeof(path));
        if (status == CRT_OK && unlink(path) != 0 && errno != ENOENT)
            status = crt_raise(CRT_ERR_IO, "%s: %s", path, strerror(errno));
    }
    free(steps);
    return status;
}

crt_status_t crt_checkpoint_write(const char *folder, const crt_checkpoint_t *checkpoint,
                                  crt_model_t *model, crt_optimizer_t *optimizer,
                                  int keep)
{
    unsigned char *data;
    size_t size;
    char path[PATH_MAX];
    crt_checkpoint_t mine;
    crt_status_t status = CRTI_COPY_STRUCT(&mine, checkpoint, "CRT_CHECKPOINT");

    if (status == CRT_OK && (!mine.network || strlen(mine.network) >= NAME_ROOM))
        status = crt_raise(CRT_ERR_INVALID, "the network of a checkpoint is called '%s'",
                           mine.network ? mine.network : "");
    if (status == CRT_OK)
        status = path_of(folder, mine.step, path, sizeof(path));
    if (status == CRT_OK)
        status = crti_checkpoint_encode(&mine, model, optimizer, &data, &size);
    if (status != CRT_OK)
        return status;
    status = crti_file_write(path, data, size);
    free(data);
    return status == CRT_OK && keep > 0 ? prune(folder, (size_t)keep) : status;
}

crt_status_t crt_checkpoint_read(const char *path, const char *network,
                                 crt_model_t *model, crt_optimizer_t *optimizer,
                                 size_t checkpoint_size, crt_checkpoint_t *checkpoint_out)
{
    unsigned char *data;
    size_t size;
    crt_checkpoint_t mine;
    crt_status_t status;

    if (checkpoint_size < CRTI_SIZE_TO(crt_checkpoint_t, is_last))
        return crt_raise(CRT_ERR_INVALID,
                         "a crt_checkpoint_t of %zu bytes: give sizeof of it",
                         checkpoint_size);
    status = crti_file_read(path, FILE_BYTES_MAX, &data, &size);
    if (status != CRT_OK)
        return status;
    status = crti_checkpoint_decode(path, data, size, network, model, optimizer, &mine);
    free(data);
    if (status != CRT_OK)
        return status;
    mine.struct_size = checkpoint_size;
    crti_give_struct(checkpoint_out, checkpoint_size, &mine, sizeof(mine));
    return CRT_OK;
}

crt_status_t crt_checkpoint_before(const char *folder, uint64_t step, char *path_out,
                                   size_t room)
{
    uint64_t *steps;
    size_t count;
    crt_status_t status = list(folder, &steps, &count);

    if (status != CRT_OK)
        return status;
    while (count > 0 && steps[count - 1] >= step)
        count--;
    status = count > 0
                 ? path_of(folder, steps[count - 1], path_out, room)
                 : crt_raise(CRT_ERR_NOT_FOUND,
                             "no checkpoint before step %" PRIu64 " in %s", step, folder);
    free(steps);
    return status;
}

crt_status_t crt_checkpoint_latest(const char *folder, char *path_out, size_t room)
{
    uint64_t *steps;
    size_t count;
    crt_status_t status = list(folder, &steps, &count);

    if (status != CRT_OK)
        return status;
    status = count > 0 ? path_of(folder, steps[count - 1], path_out, room)
                       : crt_raise(CRT_ERR_NOT_FOUND, "no checkpoint in %s", folder);
    free(steps);
    return status;
}

crt_status_t crt_checkpoint_after(const char *folder, uint64_t step, char *path_out,
                                  size_t room)
{
    uint64_t *steps;
    size_t count, i = 0;
    crt_status_t status = list(folder, &steps, &count);

    if (status != CRT_OK)
        return status;
    while (i < count && steps[i] <= step)
        i++;
    status = i < count
                 ? path_of(folder, steps[i], path_out, room)
                 : crt_raise(CRT_ERR_NOT_FOUND,
                             "no checkpoint after step %" PRIu64 " in %s", step, folder);
    free(steps);
    return status;
}
