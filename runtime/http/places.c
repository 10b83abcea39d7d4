/* SPDX-License-Identifier: Apache-2.0 */
/* Who has a connection, and for how long. See places.h. */
#include "runtime/http/places.h"

#include <openssl/ssl.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "runtime/base/log.h"
#include "runtime/http/received.h"

static const unsigned most[CRTI_PLACE_KINDS] = {[CRTI_PLACE_STRANGER] =
                                                    CRTI_PLACES_STRANGERS,
                                                [CRTI_PLACE_READER] = CRTI_PLACES_READERS,
                                                [CRTI_PLACE_OWNER] = CRTI_PLACES_OWNERS,
                                                [CRTI_PLACE_LOCAL] = CRTI_PLACES_LOCAL};

/* NULL: a descriptor of our own, or one that was closed for another. */
static crti_http_place_t *find(crti_places_t *places, const struct lws *wsi)
{
    for (unsigned i = 0; i < places->count; i++)
        if (places->all[i].wsi == wsi)
            return &places->all[i];
    return NULL;
}

void crti_places_forget(crti_places_t *places, const struct lws *wsi)
{
    crti_http_place_t *place = find(places, wsi);

    if (!place)
        return;
    places->of[place->kind]--;
    places->count--;
    memmove(place, place + 1,
            (size_t)(places->all + places->count - place) * sizeof(*place));
}

/* Now, also when bytes to it are left: it may never read them. */
static void close_for_another(crti_places_t *places, struct lws *wsi)
{
    crti_places_forget(places, wsi);
    shutdown(lws_get_socket_fd(wsi), SHUT_RDWR);
    lws_set_timeout(wsi, PENDING_TIMEOUT_USER_OK, LWS_TO_KILL_SYNC);
}

/* The oldest of that kind and of `source` (NULL: of all): a stranger whatever it does, others only
 * while they ask nothing. */
static bool close_oldest(crti_places_t *places, crti_http_place_kind_t kind,
                         const struct in6_addr *source)
{
    for (unsigned i = 0; i < places->count; i++) {
        const crti_http_place_t *place = &places->all[i];

        if (place->kind != kind ||
            (kind != CRTI_PLACE_STRANGER && places->is_asking(place->wsi)) ||
            (source && memcmp(&place->source, source, sizeof(*source)) != 0))
            continue;
        close_for_another(places, place->wsi);
        return true;
    }
    return false;
}

static void make_room_for_stranger(crti_places_t *places, const struct in6_addr *source)
{
    unsigned own = 0;

    if (places->of[CRTI_PLACE_STRANGER] < CRTI_PLACES_STRANGERS)
        return;
    for (unsigned i = 0; i < places->count; i++)
        own += places->all[i].kind == CRTI_PLACE_STRANGER &&
               memcmp(&places->all[i].source, source, sizeof(*source)) == 0;
    close_oldest(places, CRTI_PLACE_STRANGER,
                 own >= CRTI_PLACES_STRANGERS / 2 ? source : NULL);
}

bool crti_places_make_room(crti_places_t *places, const struct in6_addr *source,
                           bool is_local)
{
    if (!is_local)
        make_room_for_stranger(places, source);
    else if (places->of[CRTI_PLACE_LOCAL] >= CRTI_PLACES_LOCAL)
        close_oldest(places, CRTI_PLACE_LOCAL, NULL);
    return places->count < CRTI_PLACES_MAX;
}

void crti_places_add(crti_places_t *places, struct lws *wsi,
                     const struct in6_addr *source, bool is_local)
{
    crti_http_place_kind_t kind = is_local ? CRTI_PLACE_LOCAL : CRTI_PLACE_STRANGER;

    places->all[places->count++] =
        (crti_http_place_t){.wsi = wsi, .source = *source, .kind = kind};
    places->of[kind]++;
}

static crti_http_place_kind_t kind_of(const crti_http_place_t *place,
                                      crti_http_access_t access)
{
    if (place->kind == CRTI_PLACE_LOCAL)
        return CRTI_PLACE_LOCAL;
    return access == CRTI_HTTP_OWNER    ? CRTI_PLACE_OWNER
           : access == CRTI_HTTP_READER ? CRTI_PLACE_READER
                                        : CRTI_PLACE_STRANGER;
}

bool crti_places_take(crti_places_t *places, const struct lws *wsi,
                      crti_http_access_t access, const crti_token_t *token)
{
    crti_http_place_t *place = find(places, wsi);
    crti_http_place_kind_t kind;

    if (!place)
        return false;
    kind = kind_of(place, access);
    if (kind == CRTI_PLACE_STRANGER && place->kind != kind)
        make_room_for_stranger(places, &place->source);
    else if (kind != place->kind && places->of[kind] >= most[kind] &&
             !close_oldest(places, kind, NULL))
        return false;
    place = find(places, wsi); /* the others moved up */
    places->of[place->kind]--;
    places->of[kind]++;
    place->kind = kind;
    place->has_token = access != CRTI_HTTP_STRANGER;
    place->token = place->has_token ? *token : (crti_token_t){0};
    return places->of[kind] <= most[kind];
}

uint64_t crti_places_received(crti_places_t *places, const struct lws *wsi)
{
    const crti_http_place_t *place = find(places, wsi);

    return place ? place->received : 0;
}

void crti_places_answered(crti_places_t *places, const struct lws *wsi, uint64_t received)
{
    crti_http_place_t *place = find(places, wsi);

    /* Not known: nothing that comes now is taken for new. */
    if (place)
        place->received = received ? received : UINT64_MAX - CRTI_RECEIVED_LEAST;
}

/* libwebsockets finds that again and again while a request is being served, and does nothing. */
static bool is_gone(const crti_http_place_t *place)
{
    struct pollfd fd = {.fd = lws_get_socket_fd(place->wsi), .events = POLLRDHUP};

    return poll(&fd, 1, 0) > 0 && (fd.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

/* libwebsockets waits for no event while it keeps bytes that it has read and may pass on. */
static bool is_turning(const struct lws *wsi)
{
    return lws_service_adjust_timeout(lws_get_context(wsi), 1000, 0) == 0;
}

static bool has_unread(const crti_http_place_t *place)
{
    SSL *ssl = lws_get_ssl(place->wsi);
    int unread = 0;

    return (ioctl(lws_get_socket_fd(place->wsi), FIONREAD, &unread) == 0 && unread > 0) ||
           (ssl && SSL_pending(ssl) > 0);
}

/* Marks each that is served and of which libwebsockets keeps bytes of the next request. The library
 * tells of none by itself, but it does not turn for those that may not be read: the one whose
 * permission makes it turn again keeps some. */
static void find_kept(crti_places_t *places)
{
    if (!places->count || !is_turning(places->all[0].wsi))
        return;
    for (unsigned i = 0; i < places->count; i++)
        if (places->is_served(places->all[i].wsi))
            lws_rx_flow_control(places->all[i].wsi, 0);
    if (!is_turning(places->all[0].wsi))
        for (unsigned i = 0; i < places->count; i++) {
            crti_http_place_t *place = &places->all[i];

            if (!places->is_served(place->wsi))
                continue;
            lws_rx_flow_control(place->wsi, 1);
            place->is_kept = is_turning(place->wsi);
            lws_rx_flow_control(place->wsi, 0);
        }
    for (unsigned i = 0; i < places->count; i++)
        if (places->is_served(places->all[i].wsi))
            lws_rx_flow_control(places->all[i].wsi, 1);
}

/* libwebsockets finds that again and again, and reads it when the reply is complete. */
static bool sends_early(const crti_places_t *places, crti_http_place_t *place)
{
    bool did = place->sends_early;

    place->sends_early =
        places->is_served(place->wsi) && (place->is_kept || has_unread(place));
    place->is_kept = false;
    return did && place->sends_early;
}

static bool is_good(const crti_http_place_t *place, const crti_http_policy_t *policy)
{
    return !place->has_token || policy->is_open ||
           crti_http_token_is_good(policy, &place->token);
}

bool crti_places_judge(crti_places_t *places, const crti_http_policy_t *policy)
{
    bool is_any_served = false;

    find_kept(places);
    for (unsigned i = 0; i < places->count; i++) {
        crti_http_place_t *place = &places->all[i];

        if (!places->is_asking(place->wsi))
            continue;
        is_any_served = true;
        if (!is_good(place, policy))
            crti_log(CRTI_LOG_INFO, "http", "a request ends: its token is good no more");
        else if (!is_gone(place) && !sends_early(places, place))
            continue;
        /* Nothing more goes out; the connection is closed from the loop, which may be in it. */
        shutdown(lws_get_socket_fd(place->wsi), SHUT_RDWR);
        lws_set_timeout(place->wsi, PENDING_TIMEOUT_USER_OK, LWS_TO_KILL_ASYNC);
    }
    return is_any_served;
}
