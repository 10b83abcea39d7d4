/* SPDX-License-Identifier: Apache-2.0 */
/* Links: who dials whom, greetings, and the end. See links.h.
 *
 * Invariants
 *     A member has at most one stream per other member, and at most one dial in the making.
 *     Nothing is looked at on a connection before its greeting was checked against the roster.
 */
#include "collective/links.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/limit.h"
#include "runtime/base/log.h"
#include "runtime/core/process/context.h"
#include "runtime/core/process/entry.h"

#define HANDSHAKES 64     /* connections without a greeting; one more ends the oldest */
#define DIAL_MS    600000 /* the peer's handshake waits until it looks at its links */
#define RETRY_NS   (30 * CRTI_MS)
#define REFUSED_NS (500 * CRTI_MS) /* refusing so long, a member is gone */
#define PORT_STEP  7919u

/*            dial                  greeting answered            broken
 *  NONE -----------> DIALING ----------------------------> UP ---------> LOST
 *    ^    retry         |            greeted by it         ^
 *    +------------------+   NONE, DIALING -----------------+
 */
typedef enum link_state { NONE, DIALING, UP, LOST } link_state_t;

typedef struct link {
    crti_links_t *links;
    int rank;
    link_state_t state;
    crti_stream_t *dial;   /* DIALING, but for the pause before the next try */
    crti_stream_t *stream; /* UP */
    crti_timer_t retry;
    bool has_left;       /* it said so */
    uint64_t refused_ns; /* since when nobody listens there; 0: somebody does */
    char text[256];      /* LOST: what was seen; before: why there is no link yet */
} link_t;

/* A connection that has not said who it is, or that was refused and is closing. */
typedef struct handshake {
    crti_list_t link;
    crti_links_t *links;
    crti_stream_t *stream;
    crti_timer_t deadline;
    bool is_refused;
} handshake_t;

struct crti_links {
    crti_loop_t *loop;
    crti_stream_context_t *context;
    crti_stream_listener_t *listener;
    crt_group_t *group; /* NULL: nobody is attached */
    unsigned attached;
    crti_links_handlers_t handlers;
    crti_watch_t wake;
    link_t *link; /* by rank */
    int size;
    bool is_aborting;
    bool is_aborted;        /* by a member, in what runs here */
    crti_list_t handshakes; /* oldest first */
    unsigned handshake_count;
    uint64_t refused;
};

/* ---------------------------------------------------------------- handshakes */

static void handshake_free(handshake_t *handshake)
{
    crti_list_remove(&handshake->link);
    handshake->links->handshake_count--;
    crti_loop_cancel(handshake->links->loop, &handshake->deadline);
    crti_stream_free(handshake->stream);
    free(handshake);
}

/* `is_stranger`: not one of two connections that crossed. */
static void refuse(handshake_t *handshake, bool is_stranger)
{
    crti_log(CRTI_LOG_DEBUG, "links", "refused %s: %s",
             crti_stream_peer_address(handshake->stream), crt_error_detail());
    handshake->is_refused = true;
    if (is_stranger)
        handshake->links->refused++;
    crti_stream_send_error(handshake->stream, 0, CRT_ERR_PERMISSION);
    crti_stream_close(handshake->stream);
}

static void handshake_closed(void *user, crti_stream_t *stream, crt_status_t status,
                             const char *text)
{
    handshake_t *handshake = user;

    if (!handshake->is_refused)
        handshake->links->refused++;
    handshake_free(handshake);
}

static void handshake_timed_out(void *user)
{
    handshake_t *handshake = user;

    if (!handshake->is_refused)
        handshake->links->refused++;
    handshake_free(handshake);
}

/* Compares a greeting with the roster. */
static crt_status_t check_hello(const crti_links_t *links, const crti_message_t *message)
{
    const crti_msg_group_hello_t *hello = &message->group_hello;
    const crt_group_t *group = links->group;

    if (message->kind != CRTI_MSG_GROUP_HELLO)
        return crt_raise(CRT_ERR_PROTOCOL, "%s instead of a greeting",
                         crti_message_name(message->kind));
    if (hello->protocol != CRTI_PROTOCOL_VERSION)
        return crt_raise(CRT_ERR_PROTOCOL, "protocol %llu, here %d",
                         (unsigned long long)hello->protocol, CRTI_PROTOCOL_VERSION);
    if (!crti_str_equal(hello->name, group->name))
        return crt_raise(CRT_ERR_PERMISSION, "this is group \"%s\"", group->name);
    if (hello->incarnation != group->incarnation)
        return crt_raise(CRT_ERR_PERMISSION,
                         "group \"%s\" is in incarnation %llu, not %llu", group->name,
                         (unsigned long long)group->incarnation,
                         (unsigned long long)hello->incarnation);
    if (hello->rank >= (uint64_t)group->size || hello->rank == (uint64_t)group->rank ||
        hello->nonce != group->members[hello->rank].nonce ||
        hello->to_rank != (uint64_t)group->rank ||
        hello->to_nonce != group->members[group->rank].nonce)
        return crt_raise(CRT_ERR_PERMISSION,
                         "rank %llu or its nonce is not of group \"%s\"",
                         (unsigned long long)hello->rank, group->name);
    return CRT_OK;
}

static void link_up(link_t *link, crti_stream_t *stream);
static void drop_dial(link_t *link);

static void on_hello(void *user, crti_stream_t *stream, const crti_message_t *message)
{
    handshake_t *handshake = user;
    crti_links_t *links = handshake->links;
    crti_msg_group_welcome_t welcome;
    link_t *link;

    if (handshake->is_refused)
        return;
    if (check_hello(links, message) != CRT_OK) {
        refuse(handshake, true);
        return;
    }
    link = &links->link[message->group_hello.rank];
    if (link->state == UP || link->state == LOST) {
        crt_raise(CRT_ERR_EXISTS, "rank %d is linked already", link->rank);
        refuse(handshake, false);
        return;
    }
    if (link->dial && links->group->rank < link->rank) {
        crt_raise(CRT_ERR_EXISTS, "rank %d dials itself", links->group->rank);
        refuse(handshake, false);
        return;
    }
    drop_dial(link);
    welcome = (crti_msg_group_welcome_t){
        .rank = (uint64_t)links->group->rank,
        .nonce = links->group->members[links->group->rank].nonce};
    crti_stream_send(stream, CRTI_MSG_GROUP_WELCOME, 0, &welcome);
    handshake->stream = NULL;
    handshake_free(handshake);
    link_up(link, stream);
}

static void on_accept(void *user, crti_stream_t *stream)
{
    crti_links_t *links = user;
    handshake_t *handshake =
        links->group && !links->is_aborting ? calloc(1, sizeof(*handshake)) : NULL;

    if (handshake == NULL) {
        crti_stream_free(stream);
        return;
    }
    if (links->handshake_count == HANDSHAKES) {
        links->refused++;
        handshake_free(CRTI_CONTAINER(links->handshakes.next, handshake_t, link));
    }
    handshake->links = links;
    handshake->stream = stream;
    handshake->deadline =
        (crti_timer_t){.on_expired = handshake_timed_out, .user = handshake};
    crti_list_append(&links->handshakes, &handshake->link);
    links->handshake_count++;
    crti_stream_set_handlers(stream,
                             &(crti_stream_handlers_t){.user = handshake,
                                                       .on_message = on_hello,
                                                       .on_closed = handshake_closed});
    crti_loop_start(links->loop, &handshake->deadline,
                    crti_now_ns() + CRTI_LIMIT(handshake_timeout));
}

/* ---------------------------------------------------------------- links */

static void aborted_by(link_t *link, const crti_msg_group_abort_t *m)
{
    crt_group_t *group = link->links->group;
    crt_status_t status = (crt_status_t)m->status;
    bool is_known = m->status < 0 && m->status > -100 &&
                    strcmp(crt_status_text(status), "unknown status") != 0;
    char text[1024];

    if (!is_known || m->rank < -1 || m->rank >= group->size) {
        crti_group_fail(group, CRT_ERR_PROTOCOL, link->rank,
                        "rank %d sent an abort with status %lld about rank %lld",
                        link->rank, (long long)m->status, (long long)m->rank);
        return;
    }
    crti_text(m->text, text, sizeof(text));
    if (crti_group_needs(group, link->rank, m->done)) {
        link->links->is_aborted = true;
        crti_group_fail(group, status, (int)m->rank, "%s", text);
    } else
        crti_group_fail_later(group, status, (int)m->rank, text);
}

static void link_message(void *user, crti_stream_t *stream, const crti_message_t *message)
{
    link_t *link = user;
    crti_links_t *links = link->links;

    if (links->is_aborting)
        return;
    switch (message->kind) {
    case CRTI_MSG_GROUP_DATA:
    case CRTI_MSG_GROUP_OFFER:
    case CRTI_MSG_GROUP_TAKEN:
    case CRTI_MSG_GROUP_WAITS:
        links->handlers.on_message(links->handlers.user, link->rank, stream, message);
        break;
    case CRTI_MSG_GROUP_ABORT: aborted_by(link, &message->group_abort); break;
    case CRTI_MSG_GROUP_LEAVE: link->has_left = true; break;
    default:
        crti_group_fail(links->group, CRT_ERR_PROTOCOL, link->rank,
                        "rank %d sent %s in the middle of an operation", link->rank,
                        crti_message_name(message->kind));
    }
}

static void link_payload(void *user, crti_stream_t *stream, void *buffer, size_t size)
{
    link_t *link = user;

    if (!link->links->is_aborting)
        link->links->handlers.on_payload(link->links->handlers.user, link->rank, buffer,
                                         size);
}

static void link_closed(void *user, crti_stream_t *stream, crt_status_t status,
                        const char *text)
{
    link_t *link = user;
    crti_links_t *links = link->links;

    link->state = LOST;
    link->stream = NULL;
    snprintf(link->text, sizeof(link->text), "%s",
             status == CRT_ERR_CLOSED ? "it closed its connection" : text);
    crti_stream_free(stream);
    if (links->is_aborting)
        return;
    if (status == CRT_ERR_PROTOCOL)
        crti_group_fail(links->group, status, link->rank, "rank %d: %s", link->rank,
                        text);
    else
        links->handlers.on_lost(links->handlers.user, link->rank, link->text);
}

static void link_up(link_t *link, crti_stream_t *stream)
{
    crti_stream_set_handlers(stream, &(crti_stream_handlers_t){.user = link,
                                                               .on_message = link_message,
                                                               .on_payload = link_payload,
                                                               .on_closed = link_closed});
    crti_stream_allow_stall(stream);
    crti_loop_cancel(link->links->loop, &link->retry);
    link->stream = stream;
    link->state = UP;
    link->text[0] = '\0';
    link->links->handlers.on_up(link->links->handlers.user, link->rank);
}

/* ---------------------------------------------------------------- dialing */

static void drop_dial(link_t *link)
{
    crti_stream_free(CRTI_TAKE(link->dial));
    crti_loop_cancel(link->links->loop, &link->retry);
}

static void dial_again(link_t *link)
{
    drop_dial(link);
    crti_loop_start(link->links->loop, &link->retry, crti_now_ns() + RETRY_NS);
}

static void dial_open(void *user, crti_stream_t *stream)
{
    link_t *link = user;
    const crt_group_t *group = link->links->group;
    crti_msg_group_hello_t hello = {.protocol = CRTI_PROTOCOL_VERSION,
                                    .name = crti_str(group->name),
                                    .incarnation = group->incarnation,
                                    .rank = (uint64_t)group->rank,
                                    .nonce = group->members[group->rank].nonce,
                                    .to_rank = (uint64_t)link->rank,
                                    .to_nonce = group->members[link->rank].nonce};

    link->refused_ns = 0;
    crti_stream_send(stream, CRTI_MSG_GROUP_HELLO, 0, &hello);
}

static void dial_answered(void *user, crti_stream_t *stream,
                          const crti_message_t *message)
{
    link_t *link = user;
    crti_links_t *links = link->links;

    if (message->kind == CRTI_MSG_GROUP_WELCOME &&
        message->group_welcome.rank == (uint64_t)link->rank &&
        message->group_welcome.nonce == links->group->members[link->rank].nonce) {
        link->dial = NULL;
        link_up(link, stream);
        return;
    }
    if (message->kind == CRTI_MSG_ERROR) {
        crti_text(message->error.text, link->text, sizeof(link->text));
    } else {
        links->refused++;
        snprintf(link->text, sizeof(link->text), "it answered a greeting with %s",
                 crti_message_name(message->kind));
    }
    dial_again(link);
}

/* Nobody listens there: its process is gone, unless that passes. */
static void dial_refused(link_t *link)
{
    uint64_t now = crti_now_ns();

    if (link->refused_ns == 0)
        link->refused_ns = now;
    if (now - link->refused_ns < REFUSED_NS) {
        dial_again(link);
        return;
    }
    drop_dial(link);
    link->state = LOST;
    link->links->handlers.on_lost(link->links->handlers.user, link->rank, link->text);
}

static void dial_closed(void *user, crti_stream_t *stream, crt_status_t status,
                        const char *text)
{
    link_t *link = user;

    if (status != CRT_ERR_CLOSED || !link->text[0])
        snprintf(link->text, sizeof(link->text), "%s", text);
    if (status == CRT_ERR_UNREACHABLE)
        dial_refused(link);
    else
        dial_again(link);
}

static void dial(void *user)
{
    link_t *link = user;
    crti_links_t *links = link->links;
    const char *address = links->group->members[link->rank].address;
    crti_stream_handlers_t handlers = {.user = link,
                                       .on_open = dial_open,
                                       .on_message = dial_answered,
                                       .on_closed = dial_closed};

    if (links->is_aborting)
        return;
    if (crti_stream_connect(links->loop, links->context, address, DIAL_MS, &handlers,
                            &link->dial) == CRT_OK)
        return;
    snprintf(link->text, sizeof(link->text), "%s", crt_error_detail());
    dial_refused(link);
}

void crti_links_want(crti_links_t *links, int rank)
{
    link_t *link = &links->link[rank];

    if (link->state != NONE)
        return;
    link->state = DIALING;
    dial(link);
}

/* ---------------------------------------------------------------- life */

static crt_status_t listen_somewhere(crti_links_t *links,
                                     const crti_stream_place_t *place)
{
    unsigned count = place->port_low ? place->port_high - place->port_low + 1u : 1;
    unsigned offset = (unsigned)getpid() * PORT_STEP;
    crt_status_t status = CRT_OK;

    for (unsigned i = 0; i < count; i++) {
        unsigned port = place->port_low ? place->port_low + (offset + i) % count : 0;

        status = crti_stream_listen(links->loop, links->context, place->ip,
                                    (uint16_t)port, on_accept, links, &links->listener);
        if (status != CRT_ERR_EXISTS)
            return status;
    }
    return crt_raise(status, "links: no free port of %u-%u on %s", place->port_low,
                     place->port_high, place->ip);
}

crt_status_t crti_links_new_at(const crti_stream_place_t *place, crti_links_t **links_out,
                               char address[CRTI_STREAM_ADDRESS])
{
    crti_links_t *links = calloc(1, sizeof(*links));
    crt_status_t status;

    if (links == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "links");
    crti_list_init(&links->handshakes);
    address[0] = '\0';
    status = crti_loop_new(&links->loop);
    if (status == CRT_OK)
        status = crti_stream_context_new(&place->key, place->encrypt, &links->context);
    if (status == CRT_OK)
        crti_stream_context_avoid_bbr(links->context);
    if (status == CRT_OK && place->ip[0])
        status = listen_somewhere(links, place);
    if (status != CRT_OK) {
        crti_links_free(links);
        return status;
    }
    if (links->listener)
        snprintf(address, CRTI_STREAM_ADDRESS,
                 strchr(place->ip, ':') ? "[%s]:%u" : "%s:%u", place->ip,
                 (unsigned)crti_stream_listener_port(links->listener));
    *links_out = links;
    return CRT_OK;
}

crt_status_t crti_links_new(crti_links_t **links_out, char address[CRTI_STREAM_ADDRESS])
{
    crti_stream_place_t place;
    crt_status_t status = crti_core_stream_place(&place);

    if (status == CRT_OK)
        status = crti_links_new_at(&place, links_out, address);
    crti_key_wipe(&place.key, sizeof(place.key));
    return status;
}

/* Tells the others, as far as that goes without waiting. */
static void say_leave(crti_links_t *links)
{
    if (links->is_aborting || atomic_load(&links->group->has_failed))
        return;
    for (int i = 0; i < links->size; i++)
        if (links->link[i].stream)
            crti_stream_send(links->link[i].stream, CRTI_MSG_GROUP_LEAVE, 0, NULL);
    links->is_aborting = true; /* nobody is called any more */
    crti_loop_turn(links->loop, 0);
}

static void forget(crti_links_t *links)
{
    for (int i = 0; i < links->size; i++) {
        drop_dial(&links->link[i]);
        crti_stream_free(links->link[i].stream);
    }
    free(links->link);
    links->link = NULL;
    links->size = 0;
    while (!crti_list_is_empty(&links->handshakes))
        handshake_free(CRTI_CONTAINER(links->handshakes.next, handshake_t, link));
    crti_loop_remove(links->loop, &links->wake);
    links->group = NULL;
    links->attached = 0;
    links->is_aborting = links->is_aborted = false;
}

void crti_links_free(crti_links_t *links)
{
    if (links == NULL)
        return;
    if (links->loop)
        forget(links);
    crti_stream_listener_free(links->listener);
    crti_stream_context_free(links->context);
    crti_loop_free(links->loop);
    free(links);
}

/* The group has failed; who waits sees it after the turn. */
static void on_wake(void *user, uint32_t events)
{
}

crt_status_t crti_links_attach(crti_links_t *links, crt_group_t *group,
                               const crti_links_handlers_t *handlers)
{
    crt_status_t status;

    if (links->attached) {
        links->attached++;
        return CRT_OK;
    }
    links->link = calloc((size_t)group->size, sizeof(link_t));
    if (links->link == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "links of %d members", group->size);
    links->size = group->size;
    for (int i = 0; i < group->size; i++)
        links->link[i] = (link_t){.links = links,
                                  .rank = i,
                                  .retry = {.on_expired = dial, .user = &links->link[i]}};
    links->wake = (crti_watch_t){.on_ready = on_wake, .user = links};
    status = crti_loop_add(links->loop, &links->wake, group->wake_fd, EPOLLIN);
    if (status != CRT_OK) {
        forget(links);
        return status;
    }
    links->group = group;
    links->handlers = *handlers;
    links->attached = 1;
    return CRT_OK;
}

void crti_links_detach(crti_links_t *links)
{
    if (links->attached == 0 || --links->attached)
        return;
    say_leave(links);
    forget(links);
}

void *crti_links_user(const crti_links_t *links)
{
    return links->attached ? links->handlers.user : NULL;
}

crti_stream_t *crti_links_stream(crti_links_t *links, int rank)
{
    return links->link[rank].stream;
}

const char *crti_links_lost(crti_links_t *links, int rank)
{
    return links->link[rank].state == LOST ? links->link[rank].text : NULL;
}

bool crti_links_has_left(const crti_links_t *links, int rank)
{
    return links->link[rank].has_left;
}

const char *crti_links_doubt(crti_links_t *links, int rank)
{
    return links->link[rank].state == DIALING ? links->link[rank].text : "";
}

crt_status_t crti_links_turn(crti_links_t *links, uint64_t deadline_ns)
{
    crt_status_t status = crti_loop_turn(links->loop, deadline_ns);

    return status == CRT_OK ? crti_group_failed(links->group) : status;
}

bool crti_links_is_aborted(const crti_links_t *links)
{
    return links->is_aborted;
}

bool crti_links_is_flushed(crti_links_t *links)
{
    for (int i = 0; i < links->size; i++)
        if (links->link[i].stream && crti_stream_queued(links->link[i].stream))
            return false;
    return true;
}

uint64_t crti_links_refused(const crti_links_t *links)
{
    return links->refused;
}

/* ---------------------------------------------------------------- the end of a failed group */

void crti_links_abort(crti_links_t *links)
{
    uint64_t deadline = crti_now_ns() + CRTI_LINKS_ABORT_NS;
    const crt_group_error_t *why =
        links->group ? crt_group_last_error(links->group) : NULL;
    crti_msg_group_abort_t m;

    if (links->is_aborting || why == NULL)
        return;
    m = (crti_msg_group_abort_t){.status = why->status,
                                 .rank = why->rank,
                                 .done = links->group->done,
                                 .text = crti_str(why->text)};
    links->is_aborting = true;
    crti_loop_remove(links->loop, &links->wake); /* it stays readable */
    for (int i = 0; i < links->size; i++) {
        crti_stream_t *stream = links->link[i].stream;

        drop_dial(&links->link[i]);
        if (stream == NULL)
            continue;
        crti_stream_discard(stream); /* what comes is read, so that the peer can send */
        crti_stream_resume(stream);
        crti_stream_send(stream, CRTI_MSG_GROUP_ABORT, 0, &m);
    }
    while (!crti_links_is_flushed(links) && crti_now_ns() < deadline)
        if (crti_loop_turn(links->loop, deadline) != CRT_OK)
            break;
    for (int i = 0; i < links->size; i++) {
        crti_stream_t *stream = links->link[i].stream;

        if (stream && crti_stream_queued(stream)) {
            links->link[i].stream = NULL;
            crti_stream_free(stream); /* it holds the caller's memory */
        }
    }
}
