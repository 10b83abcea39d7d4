/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: what a member of a group does with the bytes of one that has the cluster's key.
 *
 * This is rank 2 of three; the input is all that rank 1 says, greeting included, on a connection
 * that it made. First byte: what runs here (see `mode`); second byte: into which pieces the rest
 * is cut.
 */
#include "fuzz.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "collective/backends/exchange_int.h"
#include "collective/group_int.h"
#include "runtime/core/process/context.h"
#include "runtime/net/stream_int.h"
#include "tests/net/tls_write.h"

#define SIZE  3
#define US    2
#define THEY  1
#define BYTES 64    /* of each message that is expected */
#define LARGE 40000 /* of a send that is not small */

enum { EARLY = 1, PAIR = 2, SENDS = 4, IS_LARGE = 8 }; /* bits of the mode */

static const crti_stream_place_t place = {
    .key = {{1}}, .encrypt = true, .ip = "127.0.0.1"};

typedef struct bed {
    crt_group_t group;
    struct crti_group_private private;
    crti_member_t members[SIZE];
    crti_exchange_t *x;
    int fd; /* rank 1's side */
    crti_tls_t *tls;
} bed_t;

static crti_links_t *links;
static crti_stream_context_t *client;
static char address[CRTI_STREAM_ADDRESS];

static uint64_t nonce_of(int rank)
{
    return 7u + (unsigned)rank;
}

static void make(bed_t *bed)
{
    memset(bed, 0, sizeof(*bed));
    if (links == NULL && (crti_links_new_at(&place, &links, address) != CRT_OK ||
                          crti_stream_context_new(&place.key, true, &client) != CRT_OK))
        abort();
    pthread_mutex_init(&bed->private.lock, NULL);
    snprintf(bed->group.name, sizeof(bed->group.name), "g");
    bed->group.private = &bed->private;
    bed->group.incarnation = 1;
    bed->group.size = SIZE;
    bed->group.rank = US;
    bed->group.links = links;
    bed->group.members = bed->members;
    bed->group.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    for (int i = 0; i < SIZE; i++) {
        bed->members[i].nonce = nonce_of(i);
        /* Nobody is dialed: a port that refuses. */
        snprintf(bed->members[i].address, sizeof(bed->members[i].address), "127.0.0.1:1");
    }
    if (bed->group.wake_fd < 0 || crti_exchange_open(&bed->group, &bed->x) != CRT_OK)
        abort();
}

static void turn(void)
{
    (void)crti_links_turn(links, 0);
}

static bool dial(bed_t *bed)
{
    const char *port = strrchr(address, ':');
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)atoi(port + 1)),
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};
    crt_status_t status;

    bed->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bed->fd < 0 || connect(bed->fd, (struct sockaddr *)&to, sizeof(to)) != 0)
        return false;
    fcntl(bed->fd, F_SETFL, O_NONBLOCK);
    if (crti_tls_new(client->tls, bed->fd, false, &bed->tls) != CRT_OK)
        abort();
    do {
        turn();
        status = crti_tls_handshake(bed->tls);
    } while (status == CRT_IN_PROGRESS);
    return status == CRT_OK;
}

static void speak(bed_t *bed, const uint8_t *data, size_t size, size_t piece)
{
    size_t done;

    for (size_t at = 0; at < size; at += done) {
        done = 0;
        if (tls_write(bed->tls, data + at, piece < size - at ? piece : size - at,
                      &done) != CRT_OK)
            return; /* it was sent away, or does not read any more */
        turn();
    }
}

/* A receive from rank 1, a send to it, and the check. */
static void step(bed_t *bed, const uint8_t *data, size_t size, size_t piece, bool early)
{
    static const int ranks[SIZE] = {0, 1, 2};
    static const unsigned char ours[BYTES];
    crti_exchange_call_t call = {.kind = CRT_COLLECTIVE_ALLREDUCE,
                                 .dtype = CRT_DTYPE_FLOAT32,
                                 .count = BYTES / 4,
                                 .peer = -1,
                                 .deadline_ns = crti_now_ns() + 60 * CRTI_S};
    unsigned char *memory = malloc(2 * BYTES); /* its end is watched */
    crti_incoming_t in[2];
    unsigned unsent = 0;

    if (memory == NULL)
        abort();
    if (early)
        speak(bed, data, size, piece);
    crti_exchange_begin(bed->x, &call);
    crti_exchange_check(bed->x, ranks, SIZE, US);
    for (unsigned i = 0; i < 2; i++)
        crti_exchange_receive(bed->x, &in[i], THEY, i, memory + (size_t)i * BYTES, BYTES);
    crti_exchange_send(bed->x, THEY, 0, ours, BYTES, &unsent);
    if (!early)
        speak(bed, data, size, piece);
    for (int i = 0; i < 8; i++)
        turn();
    if (in[0].got > BYTES || in[1].got > BYTES || (in[1].got && in[0].got < BYTES))
        abort();
    crt_raise(CRT_ERR_CANCELLED, "the input is over");
    if (crti_exchange_give_up(bed->x, CRT_ERR_CANCELLED) == CRT_OK)
        abort();
    free(memory);
}

/* A send or receive, begun before or after what comes. */
static void pair(bed_t *bed, const uint8_t *data, size_t size, size_t piece, int mode)
{
    size_t bytes = mode & IS_LARGE ? LARGE : BYTES;
    unsigned char *memory = calloc(1, bytes);
    crti_pair_t message = {.is_send = mode & SENDS,
                           .dtype = CRT_DTYPE_FLOAT32,
                           .count = bytes / 4,
                           .bytes = bytes,
                           .input = memory,
                           .output = memory,
                           .peer = THEY,
                           .rank = THEY};
    crti_pair_t *awaits = &message;
    crt_status_t status = CRT_OK;

    if (memory == NULL)
        abort();
    crti_list_init(&message.link);
    if (mode & EARLY)
        speak(bed, data, size, piece);
    status = crti_exchange_post(bed->x, &message);
    if (status == CRT_OK && !(mode & EARLY))
        speak(bed, data, size, piece);
    bed->group.awaits = &awaits;
    bed->group.await_count = 1;
    if (status == CRT_OK && !message.is_done)
        (void)crti_exchange_await(bed->x, crti_now_ns() + CRTI_MS);
    bed->group.awaits = NULL;
    bed->group.await_count = 0;
    if (message.at > bytes)
        abort();
    crt_raise(CRT_ERR_CANCELLED, "the input is over");
    if (crti_exchange_give_up(bed->x, CRT_ERR_CANCELLED) == CRT_OK)
        abort();
    free(memory);
}

static void end(bed_t *bed)
{
    const crt_group_error_t *error = crt_group_last_error(&bed->group);

    if (error && (error->status >= 0 || !error->text[0]))
        abort(); /* every end has a reason */
    crti_exchange_close(bed->x);
    crti_tls_free(bed->tls);
    if (bed->fd >= 0)
        close(bed->fd);
    close(bed->group.wake_fd);
    pthread_mutex_destroy(&bed->private.lock);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bed_t bed;

    if (size < 2)
        return 0;
    make(&bed);
    if (dial(&bed)) {
        if (data[0] & PAIR)
            pair(&bed, data + 2, size - 2, 1 + data[1], data[0]);
        else
            step(&bed, data + 2, size - 2, 1 + data[1], data[0] & EARLY);
    }
    end(&bed);
    return 0;
}

/* ---------------------------------------------------------------- what a member says */

typedef struct talk {
    uint8_t *out;
    size_t size;
} talk_t;

static void say(talk_t *talk, crti_message_kind_t kind, const void *body, size_t payload)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t bytes = {0};
    uint8_t *to = talk->out + talk->size;

    if (crti_message_encode(kind, 0, body, &bytes) != CRT_OK)
        abort();
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(bytes.size >> (8 * i));
    memcpy(to + 4, bytes.data, bytes.size);
    memset(to + 4 + bytes.size, 'x', payload);
    talk->size += 4 + bytes.size + payload;
}

static void say_data(talk_t *talk, crt_collective_kind_t kind, uint64_t round,
                     size_t size)
{
    bool is_send = kind == CRT_COLLECTIVE_SEND;
    crti_msg_group_data_t m = {.kind = kind,
                               .dtype = CRT_DTYPE_FLOAT32,
                               .count = (is_send ? LARGE : BYTES) / 4,
                               .peer = is_send ? US : -1,
                               .sequence = is_send ? 1 : 0,
                               .round = round,
                               .length = size};

    say(talk, CRTI_MSG_GROUP_DATA, &m, size);
}

static void say_offer(talk_t *talk, uint64_t sequence, uint64_t count)
{
    crti_msg_group_offer_t m = {.sequence = sequence,
                                .dtype = CRT_DTYPE_FLOAT32,
                                .count = count,
                                .length = count * 4 < LARGE ? count * 4 : 0};

    say(talk, CRTI_MSG_GROUP_OFFER, &m, m.length);
}

static void say_rest(talk_t *talk, unsigned index)
{
    crti_msg_group_abort_t why = {
        .status = CRT_ERR_ACTOR_DIED, .rank = 2, .text = crti_str("rank 2 died")};
    crti_msg_group_taken_t taken = {.sequence = 1};
    crti_msg_group_waits_t waits = {.kind = CRT_COLLECTIVE_SEND, .sequence = 2};

    switch (index) {
    case 0: /* an operation, in two pieces, and its check */
        say_data(talk, CRT_COLLECTIVE_ALLREDUCE, 0, BYTES / 2);
        say_data(talk, CRT_COLLECTIVE_ALLREDUCE, 0, BYTES / 2);
        say_data(talk, CRT_COLLECTIVE_ALLREDUCE, 1, BYTES);
        say_data(talk, CRT_COLLECTIVE_ALLREDUCE, CHECK_ROUND, 0);
        break;
    case 1: /* sends */
        say_offer(talk, 1, BYTES / 4);
        say_offer(talk, 2, LARGE / 4);
        say(talk, CRTI_MSG_GROUP_WAITS, &waits, 0);
        break;
    case 2: /* one that was taken, behind one of an operation that has not begun */
        say_offer(talk, 1, LARGE / 4);
        say_data(talk, CRT_COLLECTIVE_ALLREDUCE, 0, BYTES);
        say_data(talk, CRT_COLLECTIVE_SEND, 0, LARGE);
        break;
    case 3: say(talk, CRTI_MSG_GROUP_TAKEN, &taken, 0); break;
    case 4: say(talk, CRTI_MSG_GROUP_ABORT, &why, 0); break;
    default: say(talk, CRTI_MSG_GROUP_LEAVE, NULL, 0); break;
    }
}

size_t fuzz_seed(unsigned index, uint8_t *out, size_t room)
{
    static const uint8_t modes[] = {
        0, EARLY, PAIR, PAIR | SENDS, PAIR | IS_LARGE, PAIR | SENDS | IS_LARGE};
    crti_msg_group_hello_t hello = {.protocol = CRTI_PROTOCOL_VERSION,
                                    .name = crti_str("g"),
                                    .incarnation = 1,
                                    .rank = THEY,
                                    .nonce = nonce_of(THEY),
                                    .to_rank = US,
                                    .to_nonce = nonce_of(US)};
    talk_t talk = {out, 2};

    if (index >= 6 * sizeof(modes) || room < (size_t)LARGE + 4096)
        return 0;
    out[0] = modes[index / 6];
    out[1] = index % 2 ? 255 : 40;
    say(&talk, CRTI_MSG_GROUP_HELLO, &hello, 0);
    say_rest(&talk, index % 6);
    return talk.size;
}
