/* SPDX-License-Identifier: Apache-2.0 */
#include "device_memory.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096

static bool map(device_block_t *b)
{
    int fd = memfd_create("device", MFD_CLOEXEC);
    bool ok = fd >= 0 && ftruncate(fd, (off_t)b->mapped) == 0;

    if (ok) {
        b->memory = mmap(NULL, b->mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        b->device = mmap(NULL, b->mapped, PROT_NONE, MAP_SHARED, fd, 0);
        ok = b->memory != MAP_FAILED && b->device != MAP_FAILED;
    }
    if (fd >= 0)
        close(fd);
    return ok;
}

device_block_t *device_block_new(device_block_t **list, size_t bytes)
{
    device_block_t *b = calloc(1, sizeof(*b));

    b->bytes = bytes;
    b->mapped = (bytes + PAGE) / PAGE * PAGE;
    if (!map(b)) {
        free(b);
        return NULL;
    }
    b->next = *list;
    *list = b;
    return b;
}

device_block_t *device_block_find(device_block_t *list, const void *at, size_t bytes)
{
    const char *p = at;
    device_block_t *b = list;

    while (b && !(p >= b->device && bytes <= b->bytes &&
                  (size_t)(p - b->device) <= b->bytes - bytes))
        b = b->next;
    return b;
}

device_block_t *device_block_take(device_block_t **list, const void *device)
{
    device_block_t **at = list, *b;

    while (*at && (*at)->device != device)
        at = &(*at)->next;
    b = *at;
    if (b)
        *at = b->next;
    return b;
}

void device_block_free(device_block_t *b)
{
    munmap(b->memory, b->mapped);
    munmap(b->device, b->mapped);
    free(b);
}

void *device_block_memory(device_block_t *list, const void *device, size_t bytes)
{
    const device_block_t *b = device_block_find(list, device, bytes);

    return b && !b->is_pinned ? b->memory + ((const char *)device - b->device) : NULL;
}
