/* SPDX-License-Identifier: Apache-2.0 */
/* Regions: how one is laid out, our own, and those of the other members mapped. See shm.h. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "collective/shm_int.h"
#include "runtime/base/cleanup.h"
#include "runtime/store/file.h"

#define MAGIC      UINT64_C(0x314e47524c4f4343)
#define VERSION    2
#define PAGE_BYTES ((size_t)4096)
#define HUGE_BYTES ((size_t)2 << 20) /* one page, where the kernel can */

static size_t channels_offset(void)
{
    return (sizeof(crti_shm_head_t) + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

static size_t stages_offset(int size)
{
    size_t bytes = channels_offset() + (size_t)size * sizeof(crti_shm_channel_t);

    return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

static size_t region_bytes(int size)
{
    size_t bytes = stages_offset(size) + CRTI_SHM_COMMON + sizeof(crti_shm_common_t);

    return (bytes + HUGE_BYTES - 1) / HUGE_BYTES * HUGE_BYTES;
}

crt_status_t crti_region_new(int size, uint64_t nonce, crti_region_t **region_out)
{
    CRTI_AUTO(free) crti_region_t *region = calloc(1, sizeof(*region));
    bool huge = false;
    char *base;
    crt_status_t status;

    if (!region)
        return crt_raise(CRT_ERR_NO_MEMORY, "a region of shared memory");
    region->bytes = region_bytes(size);
    status = crti_arena_file(region->bytes, &region->fd, &huge);
    if (status != CRT_OK)
        return status;
    base = crti_memory_map(region->fd, region->bytes, PROT_READ | PROT_WRITE);
    if (!base) {
        status = crt_raise(CRT_ERR_NO_MEMORY, "mapping a region of %zu bytes: %s",
                           region->bytes, strerror(errno));
        close(region->fd);
        return status;
    }
    region->head = (crti_shm_head_t *)(void *)base;
    region->channels = (crti_shm_channel_t *)(void *)(base + channels_offset());
    region->stages = (unsigned char *)base + stages_offset(size);
    region->head->nonce = nonce;
    region->head->bytes = region->bytes;
    region->head->size = size;
    region->head->version = VERSION;
    if (sched_getaffinity(0, sizeof(cpu_set_t), &region->head->cores) != 0)
        CPU_ZERO(&region->head->cores);
    region->head->magic = MAGIC;
    *region_out = CRTI_TAKE(region);
    return CRT_OK;
}

void crti_region_free(crti_region_t *region)
{
    if (!region)
        return;
    munmap(region->head, region->bytes);
    close(region->fd);
    free(region);
}

int crti_region_fd(const crti_region_t *region)
{
    return region->fd;
}

/* ---------------------------------------------------------------- of the others */

static crt_status_t not_there(const crti_shm_t *team, int rank, const char *why)
{
    char who[160];

    return crt_raise(CRT_ERR_PROTOCOL, "shared memory of %s: %s",
                     crti_group_describe(team->group, rank, who, sizeof(who)), why);
}

crt_status_t crti_shm_map(crti_shm_t *team, crti_shm_peer_t *peer)
{
    const crti_member_t *member = &team->group->members[peer->rank];
    struct stat info;
    char *base;
    int fd, size;

    peer->pid = member->pid;
    peer->pidfd = (int)syscall(SYS_pidfd_open, (pid_t)member->pid, 0);
    fd = crti_memory_open(member->pid, member->memory_fd, region_bytes(1), O_RDWR);
    if (peer->pidfd < 0 || fd < 0 || fstat(fd, &info) != 0 ||
        (size_t)info.st_size > region_bytes(CRTI_GROUP_SIZE)) {
        char why[120];

        snprintf(why, sizeof(why), "%s", strerror(errno));
        if (fd >= 0)
            close(fd);
        if (errno == ESRCH || errno == ENOENT)
            return crti_group_lost(team->group, peer->rank, crti_now_ns() + CRTI_S,
                                   "its process has ended");
        return not_there(team, peer->rank, why);
    }
    peer->bytes = (size_t)info.st_size;
    base = crti_memory_map(fd, peer->bytes, PROT_READ);
    close(fd);
    if (!base)
        return not_there(team, peer->rank, strerror(errno));
    peer->head = (const crti_shm_head_t *)(const void *)base;
    if (peer->head->magic != MAGIC || peer->head->version != VERSION ||
        peer->head->nonce != member->nonce)
        return not_there(team, peer->rank, "it is another's");
    size = peer->head->size; /* a rebuilt group may be smaller than its regions */
    if (size < team->group->size || size > CRTI_GROUP_SIZE ||
        region_bytes(size) != peer->bytes)
        return not_there(team, peer->rank, "it has another size");
    peer->channels = (const crti_shm_channel_t *)(const void *)(base + channels_offset());
    peer->stages = (unsigned char *)base + stages_offset(size);
    if (mprotect(peer->stages, peer->bytes - stages_offset(size),
                 PROT_READ | PROT_WRITE) != 0)
        return not_there(team, peer->rank, strerror(errno));
    peer->common = (crti_shm_common_t *)(void *)(peer->stages + CRTI_SHM_COMMON);
    return CRT_OK;
}
