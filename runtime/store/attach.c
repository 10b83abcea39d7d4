/* SPDX-License-Identifier: Apache-2.0 */
/* Attach: joining and leaving an arena, and making it.
 *
 * Where it sits
 *     node daemon (new), workers and drivers (attach) -> [ store/attach.c ] -> arena.c
 * Threads
 *     One at a time per attachment.
 * Ownership
 *     An attachment owns its mappings; the daemon's also owns the file, and the threads that make
 *     pages ready and give them back.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/memory.h"
#include "runtime/store/reclaim.h"

void crti_store_stop_threads(crti_store_t *store)
{
    crti_prefault_stop(store); /* it wakes the other one */
    crti_trim_stop(store);
}

static void attachment_free(crti_store_t *store)
{
    crti_store_stop_threads(store);
    crti_arena_unmap(store);
    if (store->fd >= 0)
        close(store->fd);
    pthread_mutex_destroy(&store->mutex);
    free(store->later);
    free((void *)store->touched);
    free(store);
}
CRTI_DEFINE_AUTO(crti_store_t *, attachment_free)

static crt_status_t attachment_new(const crti_geometry_t *geometry, unsigned slot,
                                   crti_store_t **store_out)
{
    size_t huge_count = crti_arena_huge_count(geometry);
    crti_store_t *self = calloc(1, sizeof(*self));

    if (self)
        self->touched = calloc(huge_count, 1);
    if (!self || !self->touched) {
        free(self);
        return crt_raise(CRT_ERR_NO_MEMORY, "object store: %zu bytes", huge_count);
    }
    pthread_mutex_init(&self->mutex, NULL);
    self->geometry = *geometry;
    self->slot = slot;
    self->fd = -1;
    self->cold_low = self->cold_record = UINT64_MAX;
    self->patience_ns =
        slot == 0 ? CRTI_STORE_DAEMON_PATIENCE_NS : CRTI_STORE_PATIENCE_NS;
    *store_out = self;
    return CRT_OK;
}

/* The slot is ours from here on. */
static void enter_slot(crti_store_t *store, crti_id_t process)
{
    crti_arena_slot_t *me = crti_arena_slot(store, store->slot);

    store->me = me;
    crti_write(&me->process_high, process.high);
    crti_write(&me->process_low, process.low);
    atomic_store(&me->pid, (uint32_t)getpid());
    atomic_store(&me->state, CRTI_SLOT_LIVE);
}

crt_status_t crti_store_new_on(size_t bytes, unsigned process_slots, bool huge,
                               crti_store_t **store_out)
{
    CRTI_AUTO(attachment_free) crti_store_t *self = NULL;
    crti_geometry_t geometry;
    crti_memory_t memory;
    crt_status_t status = crti_arena_plan(bytes, process_slots, &geometry);

    if (status != CRT_OK)
        return status;
    crti_memory_read("", &memory);
    if (bytes > crti_memory_left(&memory))
        return crt_raise(CRT_ERR_NO_MEMORY,
                         "an object store of %zu MiB; this host has %llu MiB left "
                         "(--object-store-memory takes less)",
                         bytes >> 20,
                         (unsigned long long)crti_memory_left(&memory) >> 20);
    status = attachment_new(&geometry, 0, &self);
    if (status == CRT_OK)
        status = crti_arena_file(geometry.file_bytes, &self->fd, &huge);
    if (status == CRT_OK)
        status = crti_arena_map(self, self->fd);
    if (status != CRT_OK)
        return status;
    self->geometry.huge_pages = huge;
    self->header->geometry = self->geometry;
    self->header->version = CRTI_ARENA_VERSION;
    self->header->header_bytes = sizeof(crti_header_t);
    atomic_store(&self->header->fault_mark, UINT32_MAX);
    atomic_store(&self->header->fault_zone_mark, UINT32_MAX);
    atomic_store(&self->header->fault_record_mark, UINT32_MAX);
    crti_heap_format(self);
    self->header->magic = CRTI_ARENA_MAGIC;
    enter_slot(self, crti_id_random());
    status = crti_prefault_start(self);
    if (status == CRT_OK)
        status = crti_trim_start(self);
    if (status != CRT_OK)
        return status;
    *store_out = CRTI_TAKE(self);
    return CRT_OK;
}

crt_status_t crti_store_new(size_t bytes, unsigned process_slots,
                            crti_store_t **store_out)
{
    return crti_store_new_on(bytes, process_slots, true, store_out);
}

int crti_store_fd(const crti_store_t *store)
{
    return store->fd;
}

crt_status_t crti_store_attach(int fd, unsigned slot, crti_id_t process,
                               crti_store_t **store_out)
{
    CRTI_AUTO(attachment_free) crti_store_t *self = NULL;
    crti_header_t header;
    struct stat file;
    crt_status_t status;
    const size_t head = offsetof(crti_header_t, space_sequence);

    if (fstat(fd, &file) != 0)
        return crt_raise(CRT_ERR_IO, "object store: file %d: %s", fd, strerror(errno));
    if (pread(fd, &header, head, 0) != (ssize_t)head ||
        header.magic != CRTI_ARENA_MAGIC || header.version != CRTI_ARENA_VERSION ||
        header.header_bytes != sizeof(crti_header_t) ||
        !crti_arena_plausible(&header.geometry, (uint64_t)file.st_size))
        return crt_raise(CRT_ERR_CORRUPT, "file %d is no object store of this version",
                         fd);
    if (slot == 0 || slot >= header.geometry.slot_count)
        return crt_raise(CRT_ERR_INVALID, "object store: slot %u of 1 ... %u", slot,
                         header.geometry.slot_count - 1);
    status = attachment_new(&header.geometry, slot, &self);
    if (status == CRT_OK)
        status = crti_arena_map(self, fd);
    if (status != CRT_OK)
        return status;
    if (atomic_load(&crti_arena_slot(self, slot)->state) != CRTI_SLOT_FREE)
        return crt_raise(CRT_ERR_EXISTS, "object store: slot %u belongs to process %u",
                         slot, atomic_load(&crti_arena_slot(self, slot)->pid));
    enter_slot(self, process);
    *store_out = CRTI_TAKE(self);
    return CRT_OK;
}

void crti_store_detach(crti_store_t *store)
{
    crti_kept_t *kept = store ? store->kept : NULL;

    if (!store)
        return;
    crti_store_copy_kept(store);
    if (store->slot != 0) /* with the daemon the arena ends */
        (void)crti_reclaim_slot(store, store->slot);
    attachment_free(store);
    crti_kept_drop(kept);
}
