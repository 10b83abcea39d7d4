/* SPDX-License-Identifier: Apache-2.0 */
/* Rebuilding: the survivors of a failed group agree on its next incarnation. See roster.h.
 *
 * Where it sits
 *     group.c (rebuild) -> [ rebuild.c ] -> stored.c; liveness.c says who lives
 * How
 *     Every survivor leaves its arrival for the next attempt. The lowest rank that lives gathers
 *     them, and those who take any place, and exchanges the roster. When it dies the next lowest
 *     does: everybody looks at each turn whether it is the one. Two that believe so hurt nobody:
 *     the exchange has one winner.
 *     When an operation that failed here was settled by a member that saw it succeed, that member
 *     may not come. Who finds that in the roster decides the attempt with CRT_ERR_EXISTS: by
 *     exchange, too, so that either all who have come are told or all are rebuilt.
 * Failure
 *     A survivor that never comes ends the attempt at the deadline, with an error on all who came
 *     that names it; the roster of the last incarnation stays, and the next attempt begins there.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collective/rendezvous_int.h"
#include "runtime/base/log.h"
#include "runtime/base/number_text.h"
#include "runtime/core/client/kv.h"
#include "runtime/net/message.h"

#define CANDIDATES 64 /* newcomers that one turn looks at */
#define DIFFERENT                                                                        \
    "%s, and operation %" PRIu64 " has succeeded on rank %d, but not on rank %d"
#define TAKEN_NS (5 * CRTI_S) /* for the survivors to say what became of a newcomer */

typedef struct candidate {
    char key[256];
    crti_arrival_t arrival;
    void *bytes;
    size_t size;
} candidate_t;

typedef struct rebuilding {
    crt_group_t *group;
    crti_liveness_t *old; /* of the last incarnation */
    int wanted;           /* members; 0: the survivors */
    uint64_t attempt;
    crti_arrival_t *arrivals; /* by old rank; size -1: has not come */
    candidate_t candidates[CANDIDATES];
    int candidate_count;
    bool is_compared;             /* what they have done */
    crti_group_failure_t failure; /* what is wrong with what was gathered */
} rebuilding_t;

static bool is_gone(const rebuilding_t *r, const crti_roster_t *roster, int rank)
{
    return roster->left[rank] || (rank != r->group->rank &&
                                  crti_liveness_has_ended(r->old, rank, NULL, NULL, 0));
}

static bool is_leader(const rebuilding_t *r, const crti_roster_t *roster)
{
    for (int i = 0; i < r->group->rank; i++)
        if (!is_gone(r, roster, i))
            return false;
    return true;
}

static void fail(rebuilding_t *r, crt_status_t status, int rank, const char *format, ...)
    CRT_PRINTF(4, 5);

static void fail(rebuilding_t *r, crt_status_t status, int rank, const char *format, ...)
{
    va_list args;

    r->failure.status = status;
    r->failure.rank = rank;
    va_start(args, format);
    crti_vformat(r->failure.text, sizeof(r->failure.text), format, args);
    va_end(args);
}

/* ---------------------------------------------------------------- gathering */

static crt_status_t look_for(rebuilding_t *r, const crti_roster_t *roster, int rank)
{
    crti_arrival_t *arrival = &r->arrivals[rank];
    char key[256], who[160];
    crt_status_t status;

    if (arrival->size >= 0)
        return CRT_OK;
    crti_arrival_key(r->group, roster->token, r->attempt, rank, key, sizeof(key));
    status = crti_arrival_read(key, arrival);
    if (status == CRT_ERR_NOT_FOUND)
        arrival->size = -1;
    if (status != CRT_OK)
        return status == CRT_ERR_NOT_FOUND ? CRT_OK : status;
    if (arrival->size != r->wanted)
        fail(r, CRT_ERR_INVALID, rank, "%s rebuilds with %d members, rank %d with %d",
             crti_group_describe(r->group, rank, who, sizeof(who)), arrival->size,
             r->group->rank, r->wanted);
    return CRT_OK;
}

/* Survivors that have come; `*all_out`: every one that lives. */
static crt_status_t look_for_survivors(rebuilding_t *r, const crti_roster_t *roster,
                                       int *count_out, bool *all_out)
{
    crt_status_t status = CRT_OK;

    *count_out = 0;
    *all_out = true;
    for (int i = 0; i < roster->size && status == CRT_OK; i++) {
        if (is_gone(r, roster, i)) {
            r->arrivals[i].size = -1;
            continue;
        }
        status = look_for(r, roster, i);
        if (r->arrivals[i].size >= 0)
            ++*count_out;
        else
            *all_out = false;
    }
    return status;
}

static void forget_candidates(rebuilding_t *r)
{
    for (int i = 0; i < r->candidate_count; i++)
        free(r->candidates[i].bytes);
    r->candidate_count = 0;
}

static void add_candidate(rebuilding_t *r, crti_span_t key)
{
    candidate_t *c = &r->candidates[r->candidate_count];

    if (key.size >= sizeof(c->key))
        return;
    memcpy(c->key, key.data, key.size);
    c->key[key.size] = '\0';
    if (crt_kv_get(c->key, &c->bytes, &c->size) != CRT_OK)
        return;
    if (crti_arrival_decode(c->bytes, c->size, &c->arrival) == CRT_OK)
        r->candidate_count++;
    else
        free(c->bytes);
}

/* Newcomers that live; those that have died are removed. */
static crt_status_t look_for_candidates(rebuilding_t *r, const crti_roster_t *roster)
{
    CRTI_AUTO(crti_liveness_free) crti_liveness_t *liveness = NULL;
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t storage = {0};
    char prefix[256];
    crti_span_t list, key;
    int kept = 0;
    crt_status_t status = crti_liveness_new(CANDIDATES, NULL, NULL, &liveness);

    forget_candidates(r);
    snprintf(prefix, sizeof(prefix), "%s/%016" PRIx64 "/any/", r->group->private->key,
             roster->token);
    if (status == CRT_OK)
        status = crti_kv_keys(prefix, &storage, &list);
    while (status == CRT_OK && list.size && r->candidate_count < CANDIDATES) {
        status = crti_list_unpack(&list, &key);
        if (status == CRT_OK)
            add_candidate(r, key);
    }
    for (int i = 0; i < r->candidate_count && status == CRT_OK; i++)
        status = crti_liveness_watch(liveness, i, &r->candidates[i].arrival.member);
    if (status == CRT_OK &&
        r->candidate_count) /* news of the dead come before an answer */
        status = crti_kv_keys(prefix, &storage, &list);
    for (int i = 0; i < r->candidate_count; i++) {
        candidate_t c = r->candidates[i];

        if (status == CRT_OK && crti_liveness_has_ended(liveness, i, NULL, NULL, 0)) {
            (void)crt_kv_delete(c.key);
            free(c.bytes);
        } else {
            r->candidates[kept++] = c;
        }
    }
    r->candidate_count = kept;
    return status;
}

/* ---------------------------------------------------------------- deciding */

/* Survivors keep their ranks where these exist in the new size and the size is not theirs. */
static void place_survivors(const rebuilding_t *r, const crti_roster_t *roster,
                            int survivors, crti_roster_t *next, bool *is_used)
{
    bool keep = next->size > survivors;
    int place = 0;

    for (int i = 0; i < roster->size; i++)
        if (r->arrivals[i].size >= 0 && i >= next->size)
            keep = false;
    for (int i = 0; i < roster->size; i++) {
        if (r->arrivals[i].size < 0)
            continue;
        if (keep)
            place = i;
        next->members[place] = r->arrivals[i].member;
        is_used[place++] = true;
    }
}

/* Takes newcomers out of the store, so that they know. False: one has given up meanwhile. */
static bool take_candidates(rebuilding_t *r, crti_roster_t *next, const bool *is_used,
                            int *taken_out)
{
    int taken = 0;

    for (int i = 0; i < next->size; i++) {
        bool won = false;

        if (is_used[i])
            continue;
        if (crti_kv_swap(r->candidates[taken].key,
                         crti_span(r->candidates[taken].bytes, r->candidates[taken].size),
                         crti_span(NULL, 0), &won) != CRT_OK ||
            !won)
            break;
        next->members[i] = r->candidates[taken++].arrival.member;
    }
    *taken_out = taken;
    for (int i = 0, missing = 0; i < next->size; i++) {
        missing += !is_used[i];
        if (missing > taken)
            return false;
    }
    return true;
}

static crt_status_t decide(rebuilding_t *r, const crti_stored_t *now, int survivors)
{
    int size = r->wanted ? r->wanted : survivors, taken = 0;
    CRTI_AUTO(free) crti_member_t *members = calloc((size_t)size, sizeof(*members));
    CRTI_AUTO(free) unsigned char *left = calloc((size_t)size, 1);
    CRTI_AUTO(free) bool *is_used = calloc((size_t)size, sizeof(*is_used));
    crti_roster_t next = now->roster;
    bool won = false;
    crt_status_t status = CRT_OK;

    if (!members || !left || !is_used)
        return crt_raise(CRT_ERR_NO_MEMORY, "a group of %d", size);
    next.members = members;
    next.left = left;
    next.size = size;
    next.declared = NULL; /* newcomers are others */
    next.attempt = r->attempt;
    next.incarnation++;
    next.failure = (crti_group_failure_t){.rank = -1};
    place_survivors(r, &now->roster, survivors, &next, is_used);
    if (take_candidates(r, &next, is_used, &taken))
        status = crti_stored_swap(r->group->private->key, now, &next, &won);
    for (int i = 0; i < taken && !won; i++) /* they wait on */
        (void)crt_kv_put(r->candidates[i].key, r->candidates[i].bytes,
                         r->candidates[i].size, true);
    return status;
}

/* A member that repeats the operation that failed would meet those that have it in their next one.
 * Of a group in which nobody has died they are all told, once; of others there is
 * crt_group_settle. */
static void compare_done(rebuilding_t *r, const crti_roster_t *roster, int survivors)
{
    int most = -1, least = -1;

    r->is_compared = true;
    for (int i = 0; i < roster->size; i++) {
        if (r->arrivals[i].size < 0)
            continue;
        most = most < 0 || r->arrivals[i].done > r->arrivals[most].done ? i : most;
        least = least < 0 || r->arrivals[i].done < r->arrivals[least].done ? i : least;
    }
    if (most < 0 || r->arrivals[most].done == r->arrivals[least].done)
        return;
    if (survivors == roster->size && roster->failure.status != CRT_ERR_CANCELLED)
        fail(r, CRT_ERR_CANCELLED, least, DIFFERENT, "not rebuilt",
             r->arrivals[most].done, most, least);
    else
        crti_log(CRTI_LOG_WARN, "collective", "group \"%s\": " DIFFERENT, r->group->name,
                 "rebuilt", r->arrivals[most].done, most, least);
}

static crt_status_t lead(rebuilding_t *r, const crti_stored_t *now)
{
    int survivors;
    bool all, won;
    crt_status_t status = look_for_survivors(r, &now->roster, &survivors, &all);

    if (status != CRT_OK)
        return status;
    if (r->failure.status == CRT_OK && all && r->wanted && survivors > r->wanted)
        fail(r, CRT_ERR_INVALID, -1, "%d members live, more than the %d of the rebuild",
             survivors, r->wanted);
    if (r->failure.status == CRT_OK && all && !r->is_compared)
        compare_done(r, &now->roster, survivors);
    if (r->failure.status != CRT_OK)
        return crti_stored_fail(r->group->private->key, now, r->attempt, &r->failure,
                                &won);
    if (!all)
        return CRT_OK;
    if (r->wanted > survivors) {
        status = look_for_candidates(r, &now->roster);
        crti_log(CRTI_LOG_DEBUG, "collective", "%s: %d survivors, %d newcomers of %d",
                 r->group->private->key, survivors, r->candidate_count, r->wanted);
        if (status != CRT_OK || r->candidate_count < r->wanted - survivors)
            return status;
    }
    return decide(r, now, survivors);
}

static crt_status_t time_out(rebuilding_t *r, const crti_stored_t *now)
{
    int survivors, missing = -1;
    bool all, won;
    char who[160];
    crt_status_t status = look_for_survivors(r, &now->roster, &survivors, &all);

    if (status != CRT_OK)
        return status;
    for (int i = now->roster.size - 1; i >= 0; i--)
        if (r->arrivals[i].size < 0 && !is_gone(r, &now->roster, i))
            missing = i;
    if (missing >= 0)
        fail(r, CRT_ERR_TIMED_OUT, missing,
             "rebuild timed out after %lld ms: %s did not come",
             (long long)r->group->private->timeout_ms,
             crti_group_describe(r->group, missing, who, sizeof(who)));
    else
        fail(r, CRT_ERR_TIMED_OUT, -1,
             "rebuild timed out after %lld ms: %d of %d members are there",
             (long long)r->group->private->timeout_ms, survivors, r->wanted);
    return crti_stored_fail(r->group->private->key, now, r->attempt, &r->failure, &won);
}

/* ---------------------------------------------------------------- settling */

/* Somebody saw the operation succeed that failed here. */
static bool is_settled(const crt_group_t *group, const crti_roster_t *roster)
{
    return roster->incarnation == group->incarnation &&
           roster->settled > group->private->settled;
}

static crt_status_t call_off(rebuilding_t *r, const crti_stored_t *now)
{
    bool won;

    fail(r, CRT_ERR_EXISTS, -1,
         "not rebuilt: the operation that failed on rank %d has succeeded on others",
         r->group->rank);
    return crti_stored_fail(r->group->private->key, now, r->attempt, &r->failure, &won);
}

crt_status_t crti_rendezvous_settle(crt_group_t *group)
{
    struct crti_group_private *p = group->private;

    for (bool won = false; !won;) {
        CRTI_AUTO(crti_stored_fini) crti_stored_t now = {0};
        uint64_t wanted = p->settled + 1;
        crt_status_t status = crti_stored_read(p->key, &now);

        if (status == CRT_ERR_NOT_FOUND ||
            (status == CRT_OK && (now.roster.token != p->token ||
                                  now.roster.incarnation != group->incarnation)))
            return crt_raise(CRT_ERR_CLOSED,
                             "group \"%s\" has ended or was rebuilt without this member",
                             group->name);
        if (status != CRT_OK)
            return status;
        if (now.roster.settled < wanted) {
            now.roster.settled = wanted;
            status = crti_stored_swap(p->key, &now, &now.roster, &won);
            if (status != CRT_OK)
                return status;
        } else {
            won = true;
        }
        if (won)
            p->settled = wanted;
    }
    return CRT_OK;
}

/* ---------------------------------------------------------------- following */

static int place_of(const crti_roster_t *roster, const crti_member_t *me)
{
    for (int i = 0; i < roster->size; i++)
        if (roster->members[i].nonce == me->nonce &&
            crti_id_equal(roster->members[i].process, me->process))
            return i;
    return -1;
}

/* CRT_IN_PROGRESS: not decided. */
static crt_status_t take_decision(rebuilding_t *r, const crti_roster_t *roster)
{
    crt_group_t *group = r->group;
    int rank;

    if (roster->token != group->private->token || roster->state != CRTI_ROSTER_FORMED)
        return crt_raise(CRT_ERR_CLOSED, "group \"%s\" has ended", group->name);
    if (roster->attempt < r->attempt)
        return CRT_IN_PROGRESS;
    /* Of ours, or of a later one that members who came after it began: then ours failed, too. */
    if (roster->failure.status != CRT_OK) {
        if (is_settled(group, roster))
            group->private->settled = roster->settled;
        return crt_raise(roster->failure.status, "group \"%s\": %s", group->name,
                         roster->failure.text);
    }
    rank = place_of(roster, &group->private->me);
    if (rank >= 0)
        return crti_rendezvous_adopt(group, roster, rank);
    return crt_raise(CRT_ERR_CLOSED, "group \"%s\" was rebuilt without this member",
                     group->name);
}

static crt_status_t wait_for_decision(rebuilding_t *r, uint64_t deadline_ns)
{
    crti_backoff_t backoff = {r->old, deadline_ns, 0};
    crt_status_t status = CRT_IN_PROGRESS;

    while (status == CRT_IN_PROGRESS) {
        CRTI_AUTO(crti_stored_fini) crti_stored_t now = {0};
        crt_status_t did = CRT_OK;

        status = crti_stored_read(r->group->private->key, &now);
        if (status == CRT_ERR_NOT_FOUND)
            return crt_raise(CRT_ERR_CLOSED, "group \"%s\" has ended", r->group->name);
        if (status == CRT_OK)
            status = take_decision(r, &now.roster);
        if (status != CRT_IN_PROGRESS)
            break;
        if (is_settled(r->group, &now.roster))
            did = call_off(r, &now);
        else if (crti_now_ns() >= deadline_ns)
            did = time_out(r, &now);
        else if (is_leader(r, &now.roster))
            did = lead(r, &now);
        if (did != CRT_OK)
            return did;
        (void)crti_backoff_wait(&backoff);
    }
    return status;
}

static crt_status_t arrive(rebuilding_t *r, uint64_t token, char *key, size_t key_size)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t bytes = {0};
    const crt_group_t *group = r->group;
    uint64_t done =
        group->done > CRTI_GROUP_OPENING ? group->done - CRTI_GROUP_OPENING : 0;
    crti_arrival_t arrival = {group->private->me, r->wanted, group->rank, done};
    crt_status_t status = crti_arrival_encode(&arrival, &bytes);

    crti_arrival_key(group, token, r->attempt, group->rank, key, key_size);
    return status == CRT_OK ? crt_kv_put(key, bytes.data, bytes.size, true) : status;
}

static crt_status_t begin(rebuilding_t *r, char *key, size_t key_size)
{
    crt_group_t *group = r->group;
    CRTI_AUTO(crti_stored_fini) crti_stored_t now = {0};
    crt_status_t status = crti_stored_read(group->private->key, &now);

    if (status == CRT_ERR_NOT_FOUND ||
        (status == CRT_OK && now.roster.token != group->private->token))
        return crt_raise(CRT_ERR_CLOSED, "group \"%s\" has ended", group->name);
    if (status != CRT_OK)
        return status;
    if (now.roster.incarnation != group->incarnation)
        return crt_raise(CRT_ERR_CLOSED, "group \"%s\" was rebuilt without this member",
                         group->name);
    r->attempt = now.roster.attempt + 1;
    r->arrivals = calloc((size_t)group->size, sizeof(*r->arrivals));
    if (!r->arrivals)
        return crt_raise(CRT_ERR_NO_MEMORY, "a rebuild");
    for (int i = 0; i < group->size; i++)
        r->arrivals[i].size = -1;
    return arrive(r, now.roster.token, key, key_size);
}

crt_status_t crti_rendezvous_rebuild(crt_group_t *group, int size, uint64_t deadline_ns)
{
    struct crti_group_private *p = group->private;
    CRTI_AUTO(free) rebuilding_t *r = calloc(1, sizeof(*r));
    char key[256] = "", text[1024];
    crt_status_t status;

    if (!r)
        return crt_raise(CRT_ERR_NO_MEMORY, "a rebuild");
    r->group = group;
    r->wanted = size;
    r->old = CRTI_TAKE(p->liveness);
    status = crti_group_prepare(group, size > group->size ? size : group->size);
    if (status == CRT_OK)
        status = begin(r, key, sizeof(key));
    if (status == CRT_OK)
        status = wait_for_decision(r, deadline_ns);
    snprintf(text, sizeof(text), "%s", crt_error_detail());
    if (key[0])
        (void)crt_kv_delete(key);
    forget_candidates(r);
    free(r->arrivals);
    if (status == CRT_OK) {
        crti_liveness_free(r->old);
        return CRT_OK;
    }
    crti_liveness_free(p->liveness);
    p->liveness = r->old;
    return crt_raise(status, "%s", text);
}

/* ---------------------------------------------------------------- any free place */

static crt_status_t offer(crt_group_t *group, uint64_t token, char *key, size_t size,
                          crti_buffer_t *bytes)
{
    struct crti_group_private *p = group->private;
    crti_arrival_t arrival = {p->me, p->wanted_size, CRT_RANK_ANY, 0};
    crt_status_t status = crti_arrival_encode(&arrival, bytes);

    snprintf(key, size, "%s/%016" PRIx64 "/any/%016" PRIx64, p->key, token, p->me.nonce);
    return status == CRT_OK ? crt_kv_put(key, bytes->data, bytes->size, true) : status;
}

/* The deadline has passed: taken back, unless the survivors have taken us already. */
static crt_status_t take_back(crt_group_t *group, const char *key,
                              const crti_buffer_t *bytes, bool *is_taken_out)
{
    bool won = true;
    crt_status_t status = key[0] ? crti_kv_swap(key, crti_span(bytes->data, bytes->size),
                                                crti_span(NULL, 0), &won)
                                 : CRT_OK;

    *is_taken_out = !won;
    if (status != CRT_OK || !won)
        return status;
    return crt_raise(CRT_ERR_TIMED_OUT,
                     "group \"%s\": timed out after %lld ms: no place became free",
                     group->name, (long long)group->private->timeout_ms);
}

crt_status_t crti_rendezvous_join_spare(crt_group_t *group, uint64_t deadline_ns)
{
    struct crti_group_private *p = group->private;
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t bytes = {0};
    crti_backoff_t backoff = {p->liveness, deadline_ns + TAKEN_NS, 0};
    char key[256] = "";
    uint64_t token = 0;
    crt_status_t status = CRT_OK;

    while (status == CRT_OK) {
        CRTI_AUTO(crti_stored_fini) crti_stored_t now = {0};
        bool is_taken;

        status = crti_stored_read(p->key, &now);
        if (status != CRT_OK && status != CRT_ERR_NOT_FOUND)
            break;
        if (status == CRT_OK && now.roster.state == CRTI_ROSTER_FORMED) {
            int rank = place_of(&now.roster, &p->me);

            if (rank >= 0)
                return crti_rendezvous_adopt(group, &now.roster, rank);
            if (now.roster.token != token) { /* another group has the name now */
                if (key[0])
                    (void)crt_kv_delete(key);
                bytes.size = 0;
                token = now.roster.token;
                status = offer(group, token, key, sizeof(key), &bytes);
            }
        } else {
            status = CRT_OK;
        }
        if (status == CRT_OK && crti_now_ns() >= deadline_ns)
            status = take_back(group, key, &bytes, &is_taken);
        if (status == CRT_OK && !crti_backoff_wait(&backoff))
            status = crt_raise(CRT_ERR_TIMED_OUT,
                               "group \"%s\": the survivors took this actor and then "
                               "said nothing",
                               group->name);
    }
    return status;
}
