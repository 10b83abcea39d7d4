/* SPDX-License-Identifier: Apache-2.0 */
/* Segments and what is allocated in them. See memory.h.
 *
 * A segment begins with a page that names it; the rest is given out in spans, first fit. Spans
 * that were never given out are zero as the kernel made them; others are zeroed when they are
 * given out again. What is freed stays warm up to collective_memory of a segment, more goes back
 * to the kernel when the segment is empty.
 */
#include "collective/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "collective/crt_collective.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/id.h"
#include "runtime/base/limit.h"
#include "runtime/base/list.h"
#include "runtime/store/file.h"

#define MAGIC      UINT64_C(0x314d454d4c4f4343)
#define HEAD_BYTES 4096
#define HUGE_BYTES ((size_t)2 << 20)
#define SEGMENT_BYTES                                                                    \
    ((size_t)64 << 20) /* the least; only what is touched costs memory */
#define SEGMENTS 512
#define ALIGN    64

typedef struct segment_head {
    uint64_t magic, nonce, bytes;
} segment_head_t;

/* Free spans lie between the used ones; both are in one list in the order of addresses. */
typedef struct span {
    crti_list_t link;
    size_t offset, bytes;
    bool is_free;
} span_t;

typedef struct segment {
    char *base; /* this line is constant once `segment_count` covers it */
    size_t bytes;
    uint64_t nonce;
    int fd;
    crti_list_t spans; /* under `lock` */
    size_t touched;    /* bytes from the start that may have been written to */
    size_t used;
} segment_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static segment_t segments[SEGMENTS];
static atomic_int segment_count; /* released after a segment was filled in */

static size_t round_up(size_t bytes, size_t to)
{
    return (bytes + to - 1) / to * to;
}

/* ---------------------------------------------------------------- mapping */

void *crti_memory_map(int fd, size_t bytes, int protection)
{
    size_t room = bytes + HUGE_BYTES;
    char *hole =
        mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    char *start, *end;

    if (hole == MAP_FAILED)
        return NULL;
    start = (char *)round_up((uintptr_t)hole, HUGE_BYTES);
    end = start + round_up(bytes, HEAD_BYTES);
    if (mmap(start, bytes, protection, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd, 0) ==
        MAP_FAILED) {
        munmap(hole, room);
        return NULL;
    }
    if (start > hole)
        munmap(hole, (size_t)(start - hole));
    if (end < hole + room)
        munmap(end, (size_t)(hole + room - end));
    (void)madvise(start, bytes, MADV_HUGEPAGE);
    (void)madvise(start, bytes, MADV_DONTDUMP);
    return start;
}

int crti_memory_open(int64_t pid, int fd, uint64_t bytes, int flags)
{
    char path[64];
    struct stat info;
    int opened, seals;

    snprintf(path, sizeof(path), "/proc/%lld/fd/%d", (long long)pid, fd);
    opened = open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (opened < 0)
        return -1;
    seals = fcntl(opened, F_GET_SEALS);
    if (fstat(opened, &info) == 0 && S_ISREG(info.st_mode) &&
        (uint64_t)info.st_size >= bytes &&
        (info.st_nlink == 0 && seals >= 0 &&
         (seals & F_SEAL_SHRINK || seals == F_SEAL_SEAL)))
        return opened;
    close(opened);
    errno = EINVAL;
    return -1;
}

/* ---------------------------------------------------------------- segments */

/* Where the kernel gives a memfd huge pages on advice, that is all that is needed. */
static bool has_huge_memfd(void)
{
    char text[128] = "";
    FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/shmem_enabled", "re");

    if (!file)
        return false;
    if (!fgets(text, sizeof(text), file))
        text[0] = '\0';
    fclose(file);
    return strstr(text, "[advise]") || strstr(text, "[always]") ||
           strstr(text, "[within_size]") || strstr(text, "[force]");
}

/* Under `lock`. */
static crt_status_t add_segment(size_t bytes, segment_t **segment_out)
{
    int count = atomic_load_explicit(&segment_count, memory_order_relaxed);
    segment_t *s = &segments[count];
    span_t *span = calloc(1, sizeof(*span));
    bool huge = !has_huge_memfd();
    segment_head_t *head;
    crt_status_t status;

    if (count == SEGMENTS || !span) {
        free(span);
        return crt_raise(CRT_ERR_NO_MEMORY, "collective memory: %d segments are in use",
                         count);
    }
    bytes = round_up(bytes + HEAD_BYTES, HUGE_BYTES);
    if (bytes < SEGMENT_BYTES)
        bytes = SEGMENT_BYTES;
    status = crti_arena_file(bytes, &s->fd, &huge);
    if (status != CRT_OK) {
        free(span);
        return status;
    }
    s->base = crti_memory_map(s->fd, bytes, PROT_READ | PROT_WRITE);
    if (!s->base) {
        status = crt_raise(CRT_ERR_NO_MEMORY, "collective memory: mapping %zu bytes: %s",
                           bytes, strerror(errno));
        close(s->fd);
        free(span);
        return status;
    }
    s->bytes = bytes;
    s->nonce = crti_id_random().low | 1;
    s->touched = HEAD_BYTES;
    s->used = 0;
    head = (segment_head_t *)(void *)s->base;
    *head = (segment_head_t){MAGIC, s->nonce, bytes};
    crti_list_init(&s->spans);
    *span = (span_t){.offset = HEAD_BYTES, .bytes = bytes - HEAD_BYTES, .is_free = true};
    crti_list_append(&s->spans, &span->link);
    atomic_store_explicit(&segment_count, count + 1, memory_order_release);
    *segment_out = s;
    return CRT_OK;
}

static segment_t *segment_of(const void *memory)
{
    int count = atomic_load_explicit(&segment_count, memory_order_acquire);
    const char *at = memory;

    for (int i = 0; i < count; i++)
        if (at >= segments[i].base && at < segments[i].base + segments[i].bytes)
            return &segments[i];
    return NULL;
}

bool crti_memory_find(const void *memory, size_t bytes, crti_memory_handle_t *handle)
{
    const segment_t *s = segment_of(memory);
    size_t offset;

    if (!s)
        return false;
    offset = (size_t)((const char *)memory - s->base);
    if (bytes > s->bytes - offset)
        return false;
    *handle = (crti_memory_handle_t){.nonce = s->nonce,
                                     .segment_bytes = s->bytes,
                                     .offset = offset,
                                     .bytes = bytes,
                                     .fd = s->fd};
    return true;
}

/* ---------------------------------------------------------------- spans, under `lock` */

static span_t *span_of(crti_list_t *item)
{
    return CRTI_CONTAINER(item, span_t, link);
}

/* Takes the first `bytes` of a free span. CRT_ERR_NO_MEMORY leaves it. */
static crt_status_t cut(segment_t *s, span_t *span, size_t bytes)
{
    span_t *rest;

    if (span->bytes > bytes) {
        rest = calloc(1, sizeof(*rest));
        if (!rest)
            return crt_raise(CRT_ERR_NO_MEMORY, "collective memory");
        rest->offset = span->offset + bytes;
        rest->bytes = span->bytes - bytes;
        rest->is_free = true;
        crti_list_append(span->link.next, &rest->link); /* behind it */
        span->bytes = bytes;
    }
    span->is_free = false;
    s->used += bytes;
    return CRT_OK;
}

static span_t *find_room(segment_t *s, size_t bytes)
{
    CRTI_LIST_FOREACH (item, &s->spans)
        if (span_of(item)->is_free && span_of(item)->bytes >= bytes)
            return span_of(item);
    return NULL;
}

static crt_status_t allocate(size_t bytes, segment_t **segment_out, span_t **span_out)
{
    int count = atomic_load_explicit(&segment_count, memory_order_relaxed);
    segment_t *s = NULL;
    span_t *span = NULL;
    crt_status_t status = CRT_OK;

    for (int i = 0; i < count && !span; i++) {
        s = &segments[i];
        span = find_room(s, bytes);
    }
    if (!span) {
        status = add_segment(bytes, &s);
        if (status != CRT_OK)
            return status;
        span = find_room(s, bytes);
    }
    *segment_out = s;
    *span_out = span;
    return cut(s, span, bytes);
}

static void join_with_next(segment_t *s, span_t *span)
{
    span_t *next;

    if (span->link.next == &s->spans)
        return;
    next = span_of(span->link.next);
    if (!span->is_free || !next->is_free)
        return;
    span->bytes += next->bytes;
    crti_list_remove(&next->link);
    free(next);
}

static void give_back(segment_t *s, span_t *span)
{
    span->is_free = true;
    s->used -= span->bytes;
    join_with_next(s, span);
    if (span->link.prev != &s->spans)
        join_with_next(s, span_of(span->link.prev));
    if (s->used == 0 && s->touched > CRTI_LIMIT(collective_memory) &&
        fallocate(s->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, HEAD_BYTES,
                  (off_t)(s->bytes - HEAD_BYTES)) == 0)
        s->touched = HEAD_BYTES;
}

crt_status_t crt_group_alloc(size_t bytes, void **memory_out)
{
    segment_t *s;
    span_t *span;
    size_t old = 0;
    crt_status_t status;

    if (!memory_out)
        return crt_raise(CRT_ERR_INVALID, "there is no place for the memory");
    if (bytes > SIZE_MAX / 4)
        return crt_raise(CRT_ERR_NO_MEMORY, "collective memory: %zu bytes", bytes);
    bytes = round_up(bytes ? bytes : 1, ALIGN);
    pthread_mutex_lock(&lock);
    status = allocate(bytes, &s, &span);
    if (status == CRT_OK) {
        if (span->offset < s->touched)
            old = s->touched - span->offset < bytes ? s->touched - span->offset : bytes;
        if (s->touched < span->offset + bytes)
            s->touched = span->offset + bytes;
        *memory_out = s->base + span->offset;
    }
    pthread_mutex_unlock(&lock);
    if (status == CRT_OK)
        memset(*memory_out, 0, old);
    return status;
}

void crt_group_free(void *memory)
{
    segment_t *s = memory ? segment_of(memory) : NULL;

    if (!s)
        return;
    pthread_mutex_lock(&lock);
    CRTI_LIST_FOREACH (item, &s->spans) {
        span_t *span = span_of(item);

        if (span->is_free || s->base + span->offset != (char *)memory)
            continue;
        give_back(s, span);
        break;
    }
    pthread_mutex_unlock(&lock);
}

/* ---------------------------------------------------------------- views of peers' segments */

struct crti_view {
    crti_list_t link;
    int64_t pid;
    uint64_t nonce, bytes;
    char *base;
    unsigned uses;
};

static pthread_mutex_t views_lock = PTHREAD_MUTEX_INITIALIZER;
static crti_list_t views = {&views, &views};

static crt_status_t map_view(int64_t pid, const crti_memory_handle_t *handle,
                             crti_view_t *view)
{
    const segment_head_t *head;
    int fd;

    if (handle->segment_bytes < HEAD_BYTES || handle->segment_bytes > SIZE_MAX / 4)
        return crt_raise(CRT_ERR_PROTOCOL,
                         "process %lld tells of a segment of %llu bytes", (long long)pid,
                         (unsigned long long)handle->segment_bytes);
    fd = crti_memory_open(pid, handle->fd, handle->segment_bytes, O_RDWR);
    if (fd < 0)
        return crt_raise(
            errno == ENOENT || errno == ESRCH ? CRT_ERR_CLOSED : CRT_ERR_PROTOCOL,
            "shared memory of process %lld: %s", (long long)pid, strerror(errno));
    view->base = crti_memory_map(fd, handle->segment_bytes, PROT_READ | PROT_WRITE);
    close(fd);
    if (!view->base)
        return crt_raise(CRT_ERR_NO_MEMORY, "mapping %llu bytes of process %lld: %s",
                         (unsigned long long)handle->segment_bytes, (long long)pid,
                         strerror(errno));
    view->bytes = handle->segment_bytes;
    head = (const segment_head_t *)(const void *)view->base;
    if (head->magic == MAGIC && head->nonce == handle->nonce &&
        head->bytes == view->bytes)
        return CRT_OK;
    munmap(view->base, view->bytes);
    return crt_raise(CRT_ERR_PROTOCOL, "shared memory of process %lld is another's",
                     (long long)pid);
}

crt_status_t crti_view_open(int64_t pid, const crti_memory_handle_t *handle,
                            crti_view_t **view_out)
{
    crti_view_t *view = NULL;
    crt_status_t status = CRT_OK;

    pthread_mutex_lock(&views_lock);
    CRTI_LIST_FOREACH (item, &views) {
        crti_view_t *v = CRTI_CONTAINER(item, crti_view_t, link);

        if (v->pid == pid && v->nonce == handle->nonce)
            view = v;
    }
    if (!view) {
        view = calloc(1, sizeof(*view));
        status = view ? map_view(pid, handle, view)
                      : crt_raise(CRT_ERR_NO_MEMORY, "a view of shared memory");
        if (status == CRT_OK) {
            view->pid = pid;
            view->nonce = handle->nonce;
            crti_list_append(&views, &view->link);
        } else {
            free(view);
        }
    }
    if (status == CRT_OK) {
        view->uses++;
        *view_out = view;
    }
    pthread_mutex_unlock(&views_lock);
    return status;
}

void crti_view_release(crti_view_t *view)
{
    if (!view)
        return;
    pthread_mutex_lock(&views_lock);
    if (--view->uses == 0) {
        crti_list_remove(&view->link);
        munmap(view->base, view->bytes);
        free(view);
    }
    pthread_mutex_unlock(&views_lock);
}

uint64_t crti_view_nonce(const crti_view_t *view)
{
    return view->nonce;
}

void *crti_view_at(const crti_view_t *view, const crti_memory_handle_t *handle)
{
    if (handle->offset < HEAD_BYTES || handle->offset > view->bytes ||
        handle->bytes > view->bytes - handle->offset)
        return NULL;
    return view->base + handle->offset;
}
