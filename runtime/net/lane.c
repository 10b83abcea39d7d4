/* SPDX-License-Identifier: Apache-2.0 */
/* Lane: see lane.h. */
#include "runtime/net/lane.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <sodium.h>

#include "runtime/base/clock.h"
#include "runtime/base/id.h"
#include "runtime/net/channel.h"
#include "runtime/net/lane_ring.h"

#define SEALS       (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define DESCRIPTORS 2 /* of a first message at most */
#define PAGE        4096
#define FIRST       1856 /* bytes of a page: as many are left for the other ring */

/* The dialer's message, with memory and its doorbell, and the answer, with the other doorbell. Both
 * have the dialer's random number and the MAC of the side that sends. */
typedef struct setup {
    uint64_t magic, size;
    unsigned char random[CRTI_LANE_PROOF], proof[CRTI_LANE_PROOF];
} setup_t;

typedef enum lane_side { DIALER = 'd', ACCEPTOR = 'a' } lane_side_t;

/* What is in the memory: two rings, from dialer to acceptor and back. The first one's stream begins
 * FIRST bytes before the end of its bytes. So the first words of both sides are in one page with
 * the control blocks, and a lane on which little is said needs no other. */
typedef struct shared {
    unsigned char before[FIRST];
    unsigned char there[CRTI_RING_BYTES];
    crti_ring_control_t control[2];
    unsigned char back[CRTI_RING_BYTES];
    unsigned char behind[PAGE - FIRST - 2 * sizeof(crti_ring_control_t)];
} shared_t;

_Static_assert(offsetof(shared_t, control) % PAGE == FIRST, "all first words in a page");
_Static_assert(sizeof(shared_t) % PAGE == 0, "whole pages");

struct crti_lane_message {
    int refs;
    size_t size;
    unsigned char data[];
};

/* A message in the outbox. */
typedef struct queued {
    struct queued *next;
    crti_lane_message_t *message;
    size_t done; /* bytes in the ring, with the length */
} queued_t;

struct crti_lane {
    int fd;            /* -1: the lane is open */
    int doorbell;      /* ours, borrowed */
    int peer_doorbell; /* -1: the lane is not open, the peer has proved nothing */
    pid_t dialer;      /* of an accepted lane; 0: not known */
    const crti_lane_end_t *end; /* of an accepted lane, borrowed */
    setup_t expected;           /* of a dialed lane: the answer */
    shared_t *shared;           /* NULL: accepted, the memory did not come yet */
    size_t frame_max;
    crti_ring_writer_t writer;
    crti_ring_reader_t reader;
    queued_t *outbox, **outbox_end;
    bool is_broken; /* the peer broke the format of what we receive */
};

/* ---------------------------------------------------------------- start and end */

static crt_status_t new_lane(int *fd_take, size_t frame_max, int doorbell,
                             crti_lane_t **lane_out)
{
    crti_lane_t *lane = calloc(1, sizeof(*lane));

    if (!lane)
        return crt_raise(CRT_ERR_NO_MEMORY, "a lane");
    lane->fd = crti_take_fd(fd_take);
    lane->doorbell = doorbell;
    lane->peer_doorbell = -1;
    lane->frame_max = frame_max;
    lane->outbox_end = &lane->outbox;
    *lane_out = lane;
    return CRT_OK;
}

/* A child that is forked by user code must not keep a dead process's lane alive. */
static crt_status_t map(crti_lane_t *lane, int memory, bool is_dialer)
{
    shared_t *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    crti_ring_control_t *there, *back;

    if (shared == MAP_FAILED)
        return crt_raise(CRT_ERR_NO_MEMORY, "a lane's memory: %s", strerror(errno));
    madvise(shared, sizeof(*shared), MADV_DONTFORK);
    lane->shared = shared;
    there = &shared->control[0];
    back = &shared->control[1];
    if (is_dialer) {
        there->written = there->read = CRTI_RING_BYTES - FIRST;
        crti_ring_writer_init(&lane->writer, there, shared->there,
                              CRTI_RING_BYTES - FIRST);
        crti_ring_reader_init(&lane->reader, back, shared->back, 0, lane->frame_max);
    } else {
        crti_ring_writer_init(&lane->writer, back, shared->back, 0);
        crti_ring_reader_init(&lane->reader, there, shared->there,
                              CRTI_RING_BYTES - FIRST, lane->frame_max);
    }
    return CRT_OK;
}

static crt_status_t make_memory(int *memory_out)
{
    CRTI_AUTO(crti_close)
    int memory = memfd_create("crt-lane", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (memory < 0 || ftruncate(memory, sizeof(shared_t)) != 0 ||
        fcntl(memory, F_ADD_SEALS, SEALS) != 0)
        return crt_raise(CRT_ERR_IO, "cannot make a lane's memory: %s", strerror(errno));
    *memory_out = crti_take_fd(&memory);
    return CRT_OK;
}

static crt_status_t connect_to(const char *path, int *fd_out)
{
    CRTI_AUTO(crti_close)
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_un address;
    struct ucred peer;
    socklen_t length, size = sizeof(peer);
    crt_status_t status = crti_channel_address(path, &address, &length);

    if (status != CRT_OK)
        return status;
    if (fd < 0)
        return crt_raise(CRT_ERR_IO, "socket: %s", strerror(errno));
    if (connect(fd, (const struct sockaddr *)&address, length) != 0)
        return crt_raise(CRT_ERR_UNREACHABLE, "%s: %s", path, strerror(errno));
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 ||
        peer.uid != geteuid())
        return crt_raise(CRT_ERR_PERMISSION, "%s belongs to another user", path);
    *fd_out = crti_take_fd(&fd);
    return CRT_OK;
}

/* A first message with room for descriptors. Its parts point at each other: it is not copied. */
typedef struct envelope {
    setup_t setup;
    struct iovec part;
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(DESCRIPTORS * sizeof(int))];
    struct msghdr message;
} envelope_t;

static void prepare(envelope_t *e, size_t descriptors)
{
    *e = (envelope_t){.setup = {0}};
    e->part = (struct iovec){&e->setup, sizeof(e->setup)};
    e->message = (struct msghdr){.msg_iov = &e->part,
                                 .msg_iovlen = 1,
                                 .msg_control = e->control,
                                 .msg_controllen = CMSG_SPACE(descriptors * sizeof(int))};
}

/* What `side` says to the other one. */
static setup_t make_setup(const crti_lane_end_t *end, lane_side_t side,
                          const unsigned char random[CRTI_LANE_PROOF])
{
    setup_t setup = {.magic = CRTI_LANE_MAGIC, .size = sizeof(shared_t)};
    unsigned char name = (unsigned char)side;
    crypto_generichash_state state;

    memcpy(setup.random, random, sizeof(setup.random));
    crypto_generichash_init(&state, end->key, sizeof(end->key), sizeof(setup.proof));
    crypto_generichash_update(&state, &name, 1);
    crypto_generichash_update(&state, setup.random, sizeof(setup.random));
    crypto_generichash_update(&state, (const unsigned char *)end->path,
                              strlen(end->path));
    crypto_generichash_final(&state, setup.proof, sizeof(setup.proof));
    return setup;
}

static bool is_setup(const setup_t *got, const setup_t *expected)
{
    return sodium_memcmp(got, expected, sizeof(*expected)) == 0;
}

static crt_status_t send_setup(int fd, const setup_t *setup, const int *descriptors,
                               size_t count)
{
    envelope_t e;
    struct cmsghdr *c;

    prepare(&e, count);
    e.setup = *setup;
    c = CMSG_FIRSTHDR(&e.message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(c), descriptors, count * sizeof(int));
    if (sendmsg(fd, &e.message, MSG_NOSIGNAL) != sizeof(e.setup))
        return crt_raise(CRT_ERR_UNREACHABLE, "a lane's first message: %s",
                         strerror(errno));
    return CRT_OK;
}

/* Sends the first message and remembers what answers it. */
static crt_status_t begin(crti_lane_t *lane, const crti_lane_end_t *end, int memory)
{
    crti_id_t random = crti_id_random();
    unsigned char bytes[CRTI_LANE_PROOF];
    setup_t setup;

    crti_id_pack(random, bytes);
    setup = make_setup(end, DIALER, bytes);
    lane->expected = make_setup(end, ACCEPTOR, bytes);
    return send_setup(lane->fd, &setup, (int[]){memory, lane->doorbell}, 2);
}

crt_status_t crti_lane_dial(const crti_lane_end_t *end, size_t frame_max, int doorbell,
                            crti_lane_t **lane_out)
{
    CRTI_AUTO(crti_close) int fd = -1, memory = -1;
    CRTI_AUTO(crti_lane_drop) crti_lane_t *lane = NULL;
    crt_status_t status = connect_to(end->path, &fd);

    if (status == CRT_OK)
        status = make_memory(&memory);
    if (status == CRT_OK)
        status = new_lane(&fd, frame_max, doorbell, &lane);
    if (status == CRT_OK)
        status = map(lane, memory, true);
    if (status == CRT_OK) /* now the rings begin where they shall */
        status = begin(lane, end, memory);
    if (status == CRT_OK)
        *lane_out = CRTI_TAKE(lane);
    return status;
}

crt_status_t crti_lane_accept(int listen_fd, const crti_lane_end_t *end, size_t frame_max,
                              int doorbell, crti_lane_t **lane_out)
{
    CRTI_AUTO(crti_close) int fd = -1;
    struct ucred peer = {0};
    socklen_t size = sizeof(peer);
    crt_status_t status = crti_channel_accept(listen_fd, &fd);

    if (status != CRT_OK)
        return status;
    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size);
    status = new_lane(&fd, frame_max, doorbell, lane_out);
    if (status != CRT_OK)
        return status;
    (*lane_out)->dialer = peer.pid;
    (*lane_out)->end = end;
    return CRT_OK;
}

bool crti_lane_is_orphan(const crti_lane_t *lane)
{
    return lane->dialer > 0 && kill(lane->dialer, 0) != 0 && errno == ESRCH;
}

static bool is_open(const crti_lane_t *lane)
{
    return lane->peer_doorbell >= 0;
}

/* A process that ends gives its last words a moment: a stopped peer does not get more. */
static void linger(crti_lane_t *lane, uint64_t deadline_ns)
{
    uint64_t now;

    while (lane->outbox && (now = crti_now_ns()) < deadline_ns) {
        struct pollfd doorbell = {.fd = lane->doorbell, .events = POLLIN};
        uint64_t rung;

        crti_lane_push(lane);
        if (!lane->outbox)
            return;
        poll(&doorbell, 1, (int)((deadline_ns - now) / CRTI_MS) + 1);
        if (read(lane->doorbell, &rung, sizeof(rung)) < 0)
            return;
    }
}

static queued_t *pop(crti_lane_t *lane)
{
    queued_t *queued = lane->outbox;

    lane->outbox = queued->next;
    if (!lane->outbox)
        lane->outbox_end = &lane->outbox;
    crti_lane_message_unref(queued->message);
    free(queued);
    return lane->outbox;
}

void crti_lane_free(crti_lane_t *lane, uint64_t deadline_ns)
{
    if (!lane)
        return;
    if (is_open(lane) && deadline_ns > 0)
        linger(lane, deadline_ns);
    while (lane->outbox)
        pop(lane);
    crti_ring_reader_fini(&lane->reader);
    if (lane->shared)
        munmap(lane->shared, sizeof(*lane->shared));
    crti_lane_close_socket(lane);
    if (lane->peer_doorbell >= 0)
        close(lane->peer_doorbell);
    free(lane);
}

int crti_lane_fd(const crti_lane_t *lane)
{
    return lane->fd;
}

void crti_lane_close_socket(crti_lane_t *lane)
{
    if (lane->fd >= 0)
        close(lane->fd);
    lane->fd = -1;
}

/* ---------------------------------------------------------------- the socket */

static crt_status_t broken(crti_lane_t *lane, const char *why)
{
    lane->is_broken = true;
    return crt_raise(CRT_ERR_PROTOCOL, "malformed lane: %s", why);
}

static void ring_doorbell(crti_lane_t *lane)
{
    uint64_t one = 1, count;

    if (write(lane->peer_doorbell, &one, sizeof(one)) > 0)
        return;
    /* Its owner hears each ring and never counts them: a faulty process has filled it. */
    (void)!read(lane->peer_doorbell, &count, sizeof(count));
    (void)!write(lane->peer_doorbell, &one, sizeof(one));
}

/* The memory may be touched without fear only when its size is sealed. */
static bool is_acceptable(int memory)
{
    struct stat st;
    int seals = fcntl(memory, F_GET_SEALS);

    return seals >= 0 && (seals & SEALS) == SEALS && fstat(memory, &st) == 0 &&
           (size_t)st.st_size == sizeof(shared_t);
}

/* The descriptors of a message, -1 for those that are missing. There is room for one header with
 * DESCRIPTORS of them; the kernel closes what is above that. */
static void take_descriptors(struct msghdr *message, int out[DESCRIPTORS])
{
    struct cmsghdr *c = CMSG_FIRSTHDR(message);
    size_t count;

    for (int i = 0; i < DESCRIPTORS; i++)
        out[i] = -1;
    if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
        return;
    count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    memcpy(out, CMSG_DATA(c), (count < DESCRIPTORS ? count : DESCRIPTORS) * sizeof(int));
}

/* A pipe or socket could block us or end us by a signal, a file would grow: only an eventfd
 * rings. Those of the kernel's own kinds that share our doorbell's inode, as eventfds do, refuse
 * what they don't understand; kernels that give each an inode have to be asked for its name. */
static bool is_doorbell(int fd, int own)
{
    static const char eventfd_name[] = "anon_inode:[eventfd]";
    char path[32], name[sizeof(eventfd_name)];
    struct stat theirs, ours;

    if (fstat(fd, &theirs) == 0 && fstat(own, &ours) == 0 &&
        theirs.st_dev == ours.st_dev && theirs.st_ino == ours.st_ino)
        return true;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return readlink(path, name, sizeof(name)) == sizeof(eventfd_name) - 1 &&
           memcmp(name, eventfd_name, sizeof(eventfd_name) - 1) == 0;
}

/* Its flags are those of the peer's own descriptor: it never waits on its doorbell either. */
static crt_status_t take_doorbell(crti_lane_t *lane, int *doorbell_take)
{
    if (*doorbell_take < 0)
        return broken(lane, "no doorbell came");
    if (!is_doorbell(*doorbell_take, lane->doorbell) ||
        fcntl(*doorbell_take, F_SETFL, O_NONBLOCK) != 0)
        return broken(lane, "what came as a doorbell is no eventfd");
    lane->peer_doorbell = crti_take_fd(doorbell_take);
    return CRT_OK;
}

static crt_status_t stranger(crti_lane_t *lane)
{
    lane->is_broken = true;
    return crt_raise(CRT_ERR_PERMISSION, "a process without the cluster's key");
}

static crt_status_t open_dialed(crti_lane_t *lane, const setup_t *got, int *doorbell_take)
{
    return is_setup(got, &lane->expected) ? take_doorbell(lane, doorbell_take)
                                          : stranger(lane);
}

static crt_status_t open_accepted(crti_lane_t *lane, const setup_t *got, int memory,
                                  int *doorbell_take)
{
    setup_t expected = make_setup(lane->end, DIALER, got->random), answer;
    crt_status_t status;

    if (!is_setup(got, &expected))
        return stranger(lane);
    if (memory < 0 || !is_acceptable(memory))
        return broken(lane, "no memory of a sealed size came with the first message");
    if (map(lane, memory, false) != CRT_OK)
        return broken(lane, "its memory can't be mapped");
    status = take_doorbell(lane, doorbell_take);
    if (status != CRT_OK)
        return status;
    answer = make_setup(lane->end, ACCEPTOR, got->random);
    if (send_setup(lane->fd, &answer, &lane->doorbell, 1) != CRT_OK)
        return crt_raise(CRT_ERR_CLOSED, "the dialing process went away");
    return CRT_OK;
}

crt_status_t crti_lane_take_socket(crti_lane_t *lane)
{
    CRTI_AUTO(crti_close) int first = -1, second = -1;
    int descriptors[DESCRIPTORS];
    envelope_t e;
    ssize_t n;

    prepare(&e, DESCRIPTORS);
    n = recvmsg(lane->fd, &e.message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return CRT_IN_PROGRESS;
    if (n <= 0)
        return crt_raise(CRT_ERR_CLOSED, "the other process went away");
    take_descriptors(&e.message, descriptors);
    first = descriptors[0];
    second = descriptors[1];
    if (n != sizeof(e.setup) || e.setup.magic != CRTI_LANE_MAGIC ||
        e.setup.size != sizeof(shared_t))
        return lane->end ? stranger(lane) : broken(lane, "a first message that is none");
    return lane->end ? open_accepted(lane, &e.setup, first, &second)
                     : open_dialed(lane, &e.setup, &first);
}

/* ---------------------------------------------------------------- receiving */

crt_status_t crti_lane_receive(crti_lane_t *lane, crti_span_t *frame_out)
{
    crt_status_t status;

    if (!is_open(lane) || lane->is_broken)
        return CRT_IN_PROGRESS;
    status = crti_ring_take(&lane->reader);
    if (status == CRT_OK)
        *frame_out = crti_span(lane->reader.frame.data, lane->reader.frame.size);
    else if (status != CRT_IN_PROGRESS)
        lane->is_broken = true;
    return status;
}

void crti_lane_received(crti_lane_t *lane)
{
    if (is_open(lane) && crti_ring_is_awaited(&lane->reader))
        ring_doorbell(lane);
}

bool crti_lane_has_outbox(const crti_lane_t *lane)
{
    return lane->outbox != NULL;
}

bool crti_lane_sleep(crti_lane_t *lane)
{
    return !is_open(lane) || lane->is_broken || crti_ring_sleep(&lane->reader);
}

void crti_lane_awake(crti_lane_t *lane)
{
    if (is_open(lane))
        crti_ring_awake(&lane->reader);
}

bool crti_lane_input_word(const crti_lane_t *lane, crti_progress_word_t *word_out)
{
    if (!is_open(lane) || lane->is_broken)
        return false;
    *word_out = crti_ring_input_word(&lane->reader);
    return true;
}

/* ---------------------------------------------------------------- sending */

crti_lane_message_t *crti_lane_message_new(const struct iovec *parts, int count,
                                           size_t size)
{
    crti_lane_message_t *message = malloc(sizeof(*message) + size);
    unsigned char *to;

    if (!message)
        return NULL;
    message->refs = 1;
    message->size = size;
    to = message->data;
    for (int i = 0; i < count; i++) {
        if (parts[i].iov_len > 0)
            memcpy(to, parts[i].iov_base, parts[i].iov_len);
        to += parts[i].iov_len;
    }
    return message;
}

void crti_lane_message_unref(crti_lane_message_t *message)
{
    if (--message->refs == 0)
        free(message);
}

static bool is_whole(const crti_lane_message_t *message, size_t done)
{
    return done == CRTI_RING_LENGTH + message->size;
}

static void publish(crti_lane_t *lane)
{
    if (crti_ring_publish(&lane->writer))
        ring_doorbell(lane);
}

/* Puts what there is room for; when all room is used, asks for more. True: something left. */
bool crti_lane_push(crti_lane_t *lane)
{
    queued_t *queued = is_open(lane) ? lane->outbox : NULL;
    bool any = false;

    while (queued) {
        size_t done = queued->done;

        queued->done = crti_ring_put(&lane->writer, queued->message->data,
                                     queued->message->size, done);
        any |= queued->done > done;
        if (is_whole(queued->message, queued->done)) {
            queued = pop(lane);
            continue;
        }
        publish(lane); /* the reader makes room only for what it sees */
        if (crti_ring_await_room(&lane->writer))
            break;
    }
    if (any)
        publish(lane);
    return any;
}

bool crti_lane_is_idle(crti_lane_t *lane)
{
    return is_open(lane) && !lane->outbox && crti_ring_is_empty(&lane->writer);
}

static bool append(crti_lane_t *lane, crti_lane_message_t *message, size_t done)
{
    queued_t *queued = malloc(sizeof(*queued));

    if (!queued)
        return false;
    message->refs++;
    *queued = (queued_t){.message = message, .done = done};
    *lane->outbox_end = queued;
    lane->outbox_end = &queued->next;
    return true;
}

bool crti_lane_send(crti_lane_t *lane, crti_lane_message_t *message)
{
    if (!lane->shared)
        return false;
    if (is_open(lane) && !lane->outbox &&
        crti_ring_has_room(&lane->writer, CRTI_RING_LENGTH + message->size)) {
        crti_ring_put(&lane->writer, message->data, message->size, 0);
        publish(lane);
        return true;
    }
    if (!append(lane, message, 0))
        return false;
    crti_lane_push(lane);
    return true;
}
