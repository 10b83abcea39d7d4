/* SPDX-License-Identifier: Apache-2.0 */
/* Arena: the shared file, its geometry and its two mappings.
 *
 * Where it sits
 *     attach.c -> [ store/arena.c ] -> kernel
 * The file
 *     Best: a tmpfs mounted huge=always, whose pages come 2 MiB at a time (first writes at 20
 *     instead of 3 GB/s). Mounting needs no root: a child enters a user and a mount namespace,
 *     mounts it there, opens an unnamed file (O_TMPFILE) and passes the descriptor back; with
 *     the child its namespace goes, the file stays. Where that is forbidden: a memfd.
 * Failure
 *     Every reason to fall back is logged at debug; running out of memory is an error.
 */
#include "runtime/store/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/log.h"

#define CHILD_SECONDS 5
#define RESERVE_SHARE 128 /* of the pages, kept for pins */
#define RESERVE_LEAST 16
#define RESERVE_MOST  4096
#define BUCKET_BYTES  2048 /* of objects; a store full of entries has 32 in each bucket */
#define EXTRA_PAGES   16 /* so that an object as large as the store fits with its entry */
#define HUGE_PAGES    (CRTI_HUGE_BYTES / CRTI_PAGE_BYTES)
#define MOST_PAGES    (UINT32_MAX / 2 - 8192) /* with as many records, and reserves */

/* ---------------------------------------------------------------- the file */

static bool put_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

    if (fd >= 0)
        close(fd);
    return done;
}

static void send_fd(int socket_fd, int fd)
{
    char byte = 0;
    struct iovec part = {&byte, 1};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    struct cmsghdr *header;

    if (fd >= 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof(control.bytes);
        header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &fd, sizeof(int));
    }
    (void)!sendmsg(socket_fd, &message, MSG_NOSIGNAL);
}

static int receive_fd(int socket_fd)
{
    char byte;
    struct iovec part = {&byte, 1};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    struct cmsghdr *header;
    int fd = -1;

    while (recvmsg(socket_fd, &message, MSG_CMSG_CLOEXEC) < 0)
        if (errno != EINTR)
            return -1;
    header = CMSG_FIRSTHDR(&message);
    if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
        header->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(&fd, CMSG_DATA(header), sizeof(int));
    return fd;
}

/* In the child, which has one thread and may use system calls only. Names where it failed. */
static const char *mount_and_send(int socket_fd, const char *options, const char *uid_map,
                                  const char *gid_map)
{
    int fd;

    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0) {
        (void)put_text("/proc/self/setgroups", "deny");
        if (!put_text("/proc/self/uid_map", uid_map) ||
            !put_text("/proc/self/gid_map", gid_map))
            return "uid_map";
    } else if (unshare(CLONE_NEWNS) != 0) {
        return "unshare";
    }
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        return "mount private";
    if (mount("crt", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, options) != 0)
        return "mount tmpfs";
    fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0)
        return "O_TMPFILE";
    send_fd(socket_fd, fd);
    return NULL;
}

/* A descriptor of a file on huge pages, -1 when this host does not let us. */
static int huge_file(size_t bytes)
{
    const struct timeval patience = {.tv_sec = CHILD_SECONDS};
    char options[128], uid_map[64], gid_map[64];
    int pair[2], fd, status = 0;
    pid_t child;

    snprintf(options, sizeof(options), "huge=always,mode=0700,size=%zu",
             (bytes + 2 * CRTI_HUGE_BYTES) & ~(size_t)(CRTI_HUGE_BYTES - 1));
    snprintf(uid_map, sizeof(uid_map), "%u %u 1", geteuid(), geteuid());
    snprintf(gid_map, sizeof(gid_map), "%u %u 1", getegid(), getegid());
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return -1;
    setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    child = fork();
    if (child == 0) {
        const char *failed = mount_and_send(pair[1], options, uid_map, gid_map);

        _exit(failed ? errno & 0x7f : 0);
    }
    close(pair[1]);
    fd = child < 0 ? -1 : receive_fd(pair[0]);
    close(pair[0]);
    if (child > 0) {
        kill(child, SIGKILL); /* it has sent all it will, or hangs */
        while (waitpid(child, &status, 0) < 0 && errno == EINTR)
            ;
    }
    if (fd < 0)
        crti_log(CRTI_LOG_DEBUG, "store", "no tmpfs with huge pages: %s",
                 WIFEXITED(status) ? strerror(WEXITSTATUS(status)) : "the child hung");
    return fd;
}

crt_status_t crti_arena_file(size_t bytes, int *fd_out, bool *huge)
{
    int fd = *huge ? huge_file(bytes) : -1;

    *huge = fd >= 0;
    if (!*huge)
        fd = memfd_create("crt-store", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return crt_raise(CRT_ERR_IO, "object store: memfd_create: %s", strerror(errno));
    if (ftruncate(fd, (off_t)bytes) != 0) {
        int error = errno;

        close(fd);
        return crt_raise(CRT_ERR_NO_MEMORY,
                         "object store: a shared file of %zu bytes: %s", bytes,
                         strerror(error));
    }
    if (!*huge)
        (void)fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    *fd_out = fd;
    return CRT_OK;
}

/* ---------------------------------------------------------------- geometry */

static uint64_t align_up(uint64_t value, uint64_t to)
{
    return (value + to - 1) & ~(to - 1);
}

crt_status_t crti_arena_plan(size_t bytes, unsigned slots, crti_geometry_t *geometry_out)
{
    crti_geometry_t g = {.slot_count = slots, .bucket_count = 1024};
    uint64_t pages = crti_pages_for(bytes);

    if (bytes < CRTI_STORE_MIN_BYTES || pages > MOST_PAGES)
        return crt_raise(CRT_ERR_INVALID,
                         "an object store can't have %zu bytes: at least %u, at most "
                         "%llu",
                         bytes, CRTI_STORE_MIN_BYTES,
                         (unsigned long long)MOST_PAGES << CRTI_PAGE_SHIFT);
    if (slots < 1 || slots > CRTI_STORE_MAX_SLOTS)
        return crt_raise(CRT_ERR_INVALID, "an object store for %u processes; at most %u",
                         slots, CRTI_STORE_MAX_SLOTS);
    g.reserve = (uint32_t)(pages / RESERVE_SHARE);
    g.reserve = g.reserve < RESERVE_LEAST  ? RESERVE_LEAST
                : g.reserve > RESERVE_MOST ? RESERVE_MOST
                                           : g.reserve;
    g.capacity = pages << CRTI_PAGE_SHIFT;
    g.page_count = (uint32_t)(pages + g.reserve + EXTRA_PAGES);
    g.first_record = (uint32_t)align_up(g.page_count + 1ull, HUGE_PAGES) + 1;
    g.last_record = g.first_record + g.page_count - 1;
    while (g.bucket_count * BUCKET_BYTES < g.capacity)
        g.bucket_count *= 2;
    g.slots_offset = align_up(sizeof(crti_header_t), CRTI_PAGE_BYTES);
    g.buckets_offset =
        align_up(g.slots_offset + slots * sizeof(crti_arena_slot_t), CRTI_PAGE_BYTES);
    g.pages_offset = align_up(g.buckets_offset + g.bucket_count * sizeof(crti_bucket_t),
                              CRTI_PAGE_BYTES);
    g.marks_offset = g.pages_offset + (g.last_record + 2ull) * sizeof(crti_page_t);
    g.data_offset = align_up(g.marks_offset + g.last_record + 2ull, CRTI_HUGE_BYTES);
    g.file_bytes = align_up(g.data_offset + ((uint64_t)g.last_record << CRTI_PAGE_SHIFT),
                            CRTI_HUGE_BYTES);
    *geometry_out = g;
    return CRT_OK;
}

bool crti_arena_plausible(const crti_geometry_t *g, uint64_t file_bytes)
{
    crti_geometry_t plan;

    if (crti_arena_plan(g->capacity, g->slot_count, &plan) != CRT_OK)
        return false;
    plan.huge_pages = g->huge_pages;
    return plan.file_bytes == file_bytes && memcmp(&plan, g, sizeof(plan)) == 0;
}

/* ---------------------------------------------------------------- mappings */

/* Addresses with the file's phase within 2 MiB, so that huge pages can be mapped as such. */
static void *map_aligned(int fd, size_t bytes, int protection)
{
    size_t span = bytes + CRTI_HUGE_BYTES;
    uint8_t *hole =
        mmap(NULL, span, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    uint8_t *start, *map;

    if (hole == MAP_FAILED)
        return NULL;
    start = (uint8_t *)align_up((uintptr_t)hole, CRTI_HUGE_BYTES);
    map = mmap(start, bytes, protection, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd, 0);
    if (map == MAP_FAILED) {
        munmap(hole, span);
        return NULL;
    }
    if (start > hole)
        munmap(hole, (size_t)(start - hole));
    munmap(start + bytes, (size_t)(hole + span - start) - bytes);
    (void)madvise(map, bytes, MADV_HUGEPAGE); /* the memfd's chance; no on many hosts */
    (void)madvise(map, bytes, MADV_DONTDUMP);
    return map;
}

crt_status_t crti_arena_map(crti_store_t *store, int fd)
{
    size_t bytes = store->geometry.file_bytes;

    store->base = map_aligned(fd, bytes, PROT_READ | PROT_WRITE);
    if (store->base)
        store->view = map_aligned(fd, bytes, PROT_READ);
    if (!store->view) {
        int error = errno;

        crti_arena_unmap(store);
        return crt_raise(CRT_ERR_NO_MEMORY, "object store: mapping %zu bytes: %s", bytes,
                         strerror(error));
    }
    /* A child of a user's fork may read what its parent got, nothing more. */
    (void)madvise(store->base, bytes, MADV_DONTFORK);
    store->header = (crti_header_t *)store->base;
    return CRT_OK;
}

void crti_arena_unmap(crti_store_t *store)
{
    if (store->base)
        crti_store_unmap_rest(store->kept, store->base, store->geometry.file_bytes);
    if (store->view)
        crti_store_unmap_rest(store->kept, store->view, store->geometry.file_bytes);
    store->base = NULL;
    store->view = NULL;
}
