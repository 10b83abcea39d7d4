/* SPDX-License-Identifier: Apache-2.0 */
/* Places: which connections there are, what each may, and who has to go when one more comes.
 *
 * Where it sits
 *     http/server.c (accepts, begins requests, ticks) -> [ http/places.c ] -> libwebsockets
 * Rules
 *     Whoever can reach the port can take a place, so each kind of client has places of its own:
 *     strangers, holders of a read-only token, owners, and what comes by the head's socket file,
 *     which only the cluster's user can open. None of them waits for another kind.
 *     One stranger more than there are places takes that of the oldest: of its own address where
 *     that has half of them. One request with a token more is refused; connections that ask
 *     nothing give way.
 *     What a request may is judged as long as it lasts: crti_places_judge ends those whose token
 *     has ended, or was rotated, and those whose client is gone.
 * Threads: the loop's.
 */
#ifndef CRTI_HTTP_PLACES_H
#define CRTI_HTTP_PLACES_H

#include <netinet/in.h>

#include "runtime/http/request.h"

#include <libwebsockets.h>

typedef enum crti_http_place_kind {
    CRTI_PLACE_STRANGER,
    CRTI_PLACE_READER,
    CRTI_PLACE_OWNER,
    CRTI_PLACE_LOCAL, /* by the socket file, whatever its requests have */
    CRTI_PLACE_KINDS
} crti_http_place_kind_t;

#define CRTI_PLACES_STRANGERS 128
#define CRTI_PLACES_READERS   200
#define CRTI_PLACES_OWNERS    200
#define CRTI_PLACES_LOCAL     200
#define CRTI_PLACES_REFUSED   8 /* those that are told that there is no place */
#define CRTI_PLACES_MAX                                                                  \
    (CRTI_PLACES_STRANGERS + CRTI_PLACES_READERS + CRTI_PLACES_OWNERS +                  \
     CRTI_PLACES_LOCAL + CRTI_PLACES_REFUSED)

typedef struct crti_http_place {
    struct lws *wsi;
    struct in6_addr source;      /* zero: this host's socket file */
    crti_http_place_kind_t kind; /* of the request that is served, or the last one */
    bool has_token;
    crti_token_t token; /* by which that request was let in */
    uint64_t received;  /* when the last one had been answered */
    bool sends_early;   /* it has sent something before it was answered */
    bool is_kept;       /* libwebsockets has read that already */
} crti_http_place_t;

typedef struct crti_places {
    bool (*is_asking)(const struct lws *wsi); /* a request of it is being served */
    bool (*is_served)(const struct lws *wsi); /* all of that request has come */
    crti_http_place_t all[CRTI_PLACES_MAX];   /* the oldest first */
    unsigned count, of[CRTI_PLACE_KINDS];
} crti_places_t;

/* Before a connection is accepted. False: there is no place, and none can be made. */
bool crti_places_make_room(crti_places_t *places, const struct in6_addr *source,
                           bool is_local);
/* After that. */
void crti_places_add(crti_places_t *places, struct lws *wsi,
                     const struct in6_addr *source, bool is_local);
/* Fine for one that has none. */
void crti_places_forget(crti_places_t *places, const struct lws *wsi);

/* A request of `wsi` begins: it counts as what it may, and no more as what the one before it
 * might. False: all places of its kind are taken by requests. */
bool crti_places_take(crti_places_t *places, const struct lws *wsi,
                      crti_http_access_t access, const crti_token_t *token);

/* Bytes that had been read of `wsi` (received.h) when its last request had been answered. 0: it had
 * none. */
uint64_t crti_places_received(crti_places_t *places, const struct lws *wsi);
void crti_places_answered(crti_places_t *places, const struct lws *wsi,
                          uint64_t received);

/* Ends what is being served to clients whose token is good no more, that have closed their side, or
 * that were found twice to have sent more before they were answered. False: nobody is being
 * served, so that there is nothing to judge. */
bool crti_places_judge(crti_places_t *places, const crti_http_policy_t *policy);

#endif
