/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the beginning of a lane (net/lane.c), with a process of this node gone mad at the
 * other end of the socket.
 *
 * It has the cluster's key, as any process of the cluster: its damage comes after the proof.
 *
 * First byte: which end is ours (see `dials`); then messages of that process, one after the other:
 * how many bytes of setup_t it sends and which of them are wrong, how many descriptors come with
 * them, and of which kinds. A lane opens for memory of a sealed size and a doorbell that never
 * makes us wait, for nothing else; whatever happens, every descriptor that came is closed at the
 * end. */
#include "fuzz.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"
#include "runtime/net/channel.h"
#include "runtime/net/lane.h"
#include "runtime/net/lane_ring.h"
#include "tests/net/lane_setup.h"

#define FRAME_MAX  100000
#define FDS_MAX    6  /* of one message */
#define HEAD       4  /* bytes of a message in the input: size, damage, place, count */
#define BYTES      97 /* of a first message that are sent: 0 to one less, 48 are whole */
#define OPEN_FILES 96
#define CONTROLS   4096
#define SHARED     (CONTROLS + 2 * CRTI_RING_BYTES)
#define SIZE_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define FULL       0xfffffffffffffffeull /* of an eventfd: to write 1 more waits */

enum { OURS_DIALS = 1 };

typedef enum kind {
    MEMORY,
    UNSEALED,
    SHRINKABLE,
    SMALL,
    LARGE,
    READ_ONLY,
    WRITE_SEALED,
    DOORBELL,
    FULL_DOORBELL,
    PIPE,
    SOCKET,
    TIMER,
    EPOLL,
    INOTIFY,
    DIRECTORY,
    NAME_ONLY,
    ZEROES,
    KINDS
} kind_t;

typedef struct bed {
    int listener, mad; /* mad: the other process's end of the socket */
    int doorbell;
    char path[64];
    crti_lane_end_t end;
    unsigned char random[CRTI_LANE_PROOF]; /* the dialer's */
    crti_lane_t *lane;
    bool is_dialed;                  /* our end has dialed */
    bool good_memory, good_doorbell; /* in the last message */
} bed_t;

/* No fault of the input. */
static void give_up(void)
{
    perror(crt_error_detail());
    abort();
}

static int check(int fd)
{
    if (fd < 0)
        give_up();
    return fd;
}

static int memory_of(size_t size, unsigned seals)
{
    int fd = check(memfd_create("mad", MFD_CLOEXEC | MFD_ALLOW_SEALING));

    if (ftruncate(fd, (off_t)size) != 0 || fcntl(fd, F_ADD_SEALS, seals) != 0)
        abort();
    return fd;
}

static int read_only(void)
{
    CRTI_AUTO(crti_close) int fd = memory_of(SHARED, SIZE_SEALS);
    char path[64];

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return check(open(path, O_RDONLY | O_CLOEXEC));
}

static int pipe_end(void)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) != 0)
        abort();
    close(ends[0]); /* who writes there is ended by a signal */
    return ends[1];
}

static int descriptor(kind_t kind)
{
    uint64_t full = FULL;
    int fd;

    switch (kind) {
    case MEMORY: return memory_of(SHARED, SIZE_SEALS);
    case UNSEALED: return memory_of(SHARED, 0);
    case SHRINKABLE: return memory_of(SHARED, F_SEAL_GROW | F_SEAL_SEAL);
    case SMALL: return memory_of(CONTROLS, SIZE_SEALS);
    case LARGE: return memory_of(2 * SHARED, SIZE_SEALS);
    case READ_ONLY: return read_only();
    case WRITE_SEALED: return memory_of(SHARED, SIZE_SEALS | F_SEAL_WRITE);
    case DOORBELL: return check(eventfd(0, EFD_CLOEXEC));
    case FULL_DOORBELL:
        fd = check(eventfd(0, EFD_CLOEXEC));
        if (write(fd, &full, sizeof(full)) != sizeof(full))
            abort();
        return fd;
    case PIPE: return pipe_end();
    case SOCKET: return check(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    case TIMER: return check(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
    case EPOLL: return check(epoll_create1(EPOLL_CLOEXEC));
    case INOTIFY: return check(inotify_init1(IN_CLOEXEC));
    case DIRECTORY: return check(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    case NAME_ONLY: return check(open("/dev/null", O_PATH | O_CLOEXEC));
    default: return check(open("/dev/zero", O_RDWR | O_CLOEXEC));
    }
}

/* ---------------------------------------------------------------- the mad process */

typedef struct letter {
    lane_setup_t setup;
    struct iovec part;
    char control[CMSG_SPACE(FDS_MAX * sizeof(int))];
    struct msghdr message;
} letter_t;

static void enclose(letter_t *l, const int *fds, size_t count)
{
    struct cmsghdr *c;

    l->message = (struct msghdr){.msg_iov = &l->part, .msg_iovlen = 1};
    if (count == 0)
        return;
    memset(l->control, 0, sizeof(l->control));
    l->message.msg_control = l->control;
    l->message.msg_controllen = CMSG_SPACE(count * sizeof(int));
    c = CMSG_FIRSTHDR(&l->message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(c), fds, count * sizeof(int));
}

/* On kernels that give all their own kinds of files one inode these pass for a doorbell; they
 * refuse to be written to, so whoever sent one is not rung. */
static bool is_harmless(kind_t kind)
{
    return kind == TIMER || kind == EPOLL || kind == INOTIFY;
}

/* What may open the lane, if the message is whole and is the first. */
static void remember(bed_t *bed, const uint8_t *kinds, size_t count, bool is_accepted)
{
    kind_t first = count > 0 ? kinds[0] % KINDS : KINDS,
           second = count > 1 ? kinds[1] % KINDS : KINDS,
           doorbell = is_accepted ? second : first;

    bed->good_memory = is_accepted && first == MEMORY;
    bed->good_doorbell =
        doorbell == DOORBELL || doorbell == FULL_DOORBELL || is_harmless(doorbell);
}

/* Returns what it took of the input. */
static size_t send_letter(bed_t *bed, const uint8_t *data, size_t size)
{
    size_t bytes = data[0] % BYTES, count = data[3] % (FDS_MAX + 1), at = HEAD;
    int fds[FDS_MAX];
    letter_t l = {.setup =
                      lane_setup(&bed->end, bed->is_dialed ? 'a' : 'd', bed->random)};

    if (count > size - HEAD)
        count = size - HEAD;
    for (size_t i = 0; i < count; i++)
        fds[i] = descriptor(data[at + i] % KINDS);
    l.part = (struct iovec){&l.setup, bytes < sizeof(l.setup) ? bytes : sizeof(l.setup)};
    ((uint8_t *)&l.setup)[data[2] % sizeof(l.setup)] ^= data[1];
    enclose(&l, fds, count);
    if (bytes)
        (void)!sendmsg(bed->mad, &l.message, MSG_NOSIGNAL | MSG_DONTWAIT);
    for (size_t i = 0; i < count; i++)
        close(fds[i]);
    return at + count;
}

/* ---------------------------------------------------------------- ours */

static void make(bed_t *bed, bool dials)
{
    struct sockaddr_un address;
    lane_setup_t first;
    socklen_t length;

    *bed = (bed_t){.doorbell = check(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
                   .is_dialed = dials};
    snprintf(bed->path, sizeof(bed->path), "@crt-fuzz-%d", (int)getpid());
    bed->end.path = bed->path;
    if (crti_channel_listen(bed->path, &bed->listener) != CRT_OK ||
        crti_channel_address(bed->path, &address, &length) != CRT_OK)
        give_up();
    if (dials) {
        if (crti_lane_dial(&bed->end, FRAME_MAX, bed->doorbell, &bed->lane) != CRT_OK ||
            crti_channel_accept(bed->listener, &bed->mad) != CRT_OK ||
            recv(bed->mad, &first, sizeof(first), 0) != sizeof(first))
            give_up();
        memcpy(bed->random, first.random, sizeof(bed->random));
        return;
    }
    bed->mad = check(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (connect(bed->mad, (struct sockaddr *)&address, length) != 0 ||
        crti_lane_accept(bed->listener, &bed->end, FRAME_MAX, bed->doorbell,
                         &bed->lane) != CRT_OK)
        give_up();
}

/* An open lane is used, and must not wait for its doorbell, nor end by it. A ring in memory that
 * the other process made is empty bytes, which no dialer leaves: it is refused. */
static void use(crti_lane_t *lane, bool dials)
{
    static unsigned char bytes[5000];
    struct iovec part = {bytes, sizeof(bytes)};
    crti_span_t frame;

    crti_lane_close_socket(lane);
    for (int i = 0; i < 4; i++) {
        crti_lane_message_t *message = crti_lane_message_new(&part, 1, sizeof(bytes));

        if (message == NULL)
            abort();
        crti_lane_send(lane, message);
        crti_lane_message_unref(message);
    }
    if (crti_lane_receive(lane, &frame) != (dials ? CRT_IN_PROGRESS : CRT_ERR_PROTOCOL))
        abort(); /* nobody wrote one */
    crti_lane_received(lane);
    crti_lane_sleep(lane);
}

/* False: it is over, as it is for the net. */
static bool take(bed_t *bed, bool dials, bool is_first, bool is_whole)
{
    crt_status_t status = crti_lane_take_socket(bed->lane);

    if (status == CRT_OK &&
        (!is_first || !is_whole || !bed->good_doorbell || (!dials && !bed->good_memory)))
        abort(); /* a lane that must not be */
    if (status == CRT_OK)
        use(bed->lane, dials);
    return status == CRT_IN_PROGRESS;
}

static unsigned open_files(void)
{
    unsigned count = 0;

    for (int fd = 0; fd < OPEN_FILES; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned files = open_files();
    bool dials = size > 0 && data[0] & OURS_DIALS, is_first = true, goes_on = true;
    bed_t bed;

    make(&bed, dials);
    data++;
    size -= size > 0;
    while (goes_on && size >= HEAD) {
        size_t taken = send_letter(&bed, data, size);
        bool is_whole = data[0] % BYTES >= sizeof(lane_setup_t) && data[1] == 0;

        remember(&bed, data + HEAD, taken - HEAD, !dials);
        goes_on = take(&bed, dials, is_first, is_whole);
        is_first &= data[0] % BYTES == 0; /* nothing left */
        data += taken;
        size -= taken;
    }
    close(bed.mad);
    crti_lane_free(bed.lane, 0);
    close(bed.listener);
    close(bed.doorbell);
    if (open_files() != files)
        abort(); /* a descriptor that came was kept */
    return 0;
}

/* Messages with memory and a doorbell, one of which is of each kind in turn; the answer is a
 * doorbell alone. */
size_t fuzz_seed(unsigned index, uint8_t *out, size_t room)
{
    uint8_t kind = (uint8_t)(index / 2);
    uint8_t dialed[] = {OURS_DIALS, 16, 0, 0, 1, kind, 16, 0, 0, 1, DOORBELL};
    uint8_t accepted[] = {0, 16, 0, 0, 2, kind, DOORBELL, 16, 0, 0, 1, DOORBELL};
    bool is_answer = index & OURS_DIALS;
    size_t size = is_answer ? sizeof(dialed) : sizeof(accepted);

    if (kind >= KINDS || room < size)
        return 0;
    if (kind == DOORBELL || kind == FULL_DOORBELL || is_harmless(kind)) {
        accepted[5] = MEMORY;
        accepted[6] = kind;
    }
    memcpy(out, is_answer ? dialed : accepted, size);
    return size;
}
