/* SPDX-License-Identifier: Apache-2.0 */
/* Rendezvous: how the members of a group find each other, and how it ends. See roster.h.
 *
 * Where it sits
 *     group.c -> [ rendezvous.c ] -> stored.c -> the control store; liveness.c (deaths)
 * How
 *     Whoever comes first puts the roster there and gathers the others: it reads one key for each
 *     until all have come, and exchanges the roster for one with all members. The others leave
 *     their arrival and look at the roster until it is decided. Everybody may decide it with a
 *     failure: the exchange has one winner, and all give the same error.
 * Failure
 *     A member that ends while others wait decides it (the gatherer sees it, also of those who were
 *     declared and have not come; the gatherer's own end is seen by all). Nothing is waited for
 *     beyond the deadline. A roster of the dead is replaced by whoever wants its name next.
 */
#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collective/rendezvous_int.h"
#include "collective/unjoined.h"
#include "runtime/base/number_text.h"
#include "runtime/core/client/ranks.h"
#include "runtime/core/process/context.h"
#include "runtime/core/process/entry.h"

#define GRACE_NS       (1 * CRTI_S)    /* for news of deaths on other nodes */
#define UNJOINED_NS    (100 * CRTI_MS) /* until those are looked after who do not come */
#define LOOKS_PER_TURN 16 /* arrivals that are looked for between two waits */

/* ---------------------------------------------------------------- who we are */

crt_status_t crti_group_key(const char *name, char key[CRTI_GROUP_KEY])
{
    size_t length = name ? strlen(name) : 0;

    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)name[i]) && !strchr("_.-", name[i]))
            length = 0;
    if (length == 0 || length >= CRTI_GROUP_NAME)
        return crt_raise(CRT_ERR_INVALID,
                         "a group's name is 1 to %d of [A-Za-z0-9_.-], not \"%.80s\"",
                         CRTI_GROUP_NAME - 1, name ? name : "");
    if (!crt_job_id()[0])
        return crt_raise(CRT_ERR_NOT_INITIALIZED, "crt_init was not called");
    snprintf(key, CRTI_GROUP_KEY, "collective/%s/%s", crt_job_id(), name);
    return CRT_OK;
}

crt_status_t crti_rendezvous_init(crt_group_t *group)
{
    struct crti_group_private *p = group->private;
    crt_status_t status = crti_group_key(group->name, p->key);
    crti_core_t *core = status == CRT_OK ? crti_enter() : NULL;

    if (status != CRT_OK)
        return status;
    if (!core)
        return crti_entry_status();
    p->me.actor = core->actor_id;
    p->me.actor_incarnation = core->actor_incarnation;
    p->me.node = core->node;
    p->me.process = core->process;
    p->me.process_incarnation = core->incarnation;
    p->me.pid = getpid();
    crti_leave(core);
    if (crti_id_is_zero(p->me.actor))
        return crt_raise(CRT_ERR_INVALID,
                         "group \"%s\": only an actor can be a member, and this process "
                         "hosts none",
                         group->name);
    return CRT_OK;
}

/* ---------------------------------------------------------------- the end of an attempt */

static crt_status_t raise_failure(const crt_group_t *group, const crti_group_failure_t *f)
{
    return crt_raise(f->status < 0 ? f->status : CRT_ERR_CANCELLED, "group \"%s\": %s",
                     group->name, f->text);
}

static void set_failure(crti_group_failure_t *f, crt_status_t status, int rank,
                        const char *format, ...) CRT_PRINTF(4, 5);

static void set_failure(crti_group_failure_t *f, crt_status_t status, int rank,
                        const char *format, ...)
{
    va_list args;

    f->status = status;
    f->rank = rank;
    va_start(args, format);
    crti_vformat(f->text, sizeof(f->text), format, args);
    va_end(args);
}

static int rank_of(const crti_roster_t *roster, const crti_member_t *me)
{
    for (int i = 0; roster->members && i < roster->size; i++)
        if (crti_id_equal(roster->members[i].process, me->process))
            return i;
    return -1;
}

crt_status_t crti_rendezvous_adopt(crt_group_t *group, const crti_roster_t *roster,
                                   int rank)
{
    struct crti_group_private *p = group->private;
    size_t size = (size_t)roster->size;
    crti_member_t *members = calloc(size, sizeof(*members));

    if (!members)
        return crt_raise(CRT_ERR_NO_MEMORY, "group \"%s\" of %zu", group->name, size);
    memcpy(members, roster->members, size * sizeof(*members));
    free(group->members);
    group->members = members;
    group->size = roster->size;
    group->rank = rank;
    group->incarnation = roster->incarnation;
    p->token = roster->token;
    p->attempt = roster->attempt;
    p->settled = roster->settled;
    return CRT_OK;
}

/* Everybody has the decision in the roster: our own arrival is not needed any more. */
static void forget_arrival(const crt_group_t *group, uint64_t token, uint64_t attempt,
                           int rank)
{
    char key[256];

    crti_arrival_key(group, token, attempt, rank, key, sizeof(key));
    (void)crt_kv_delete(key);
}

/* ---------------------------------------------------------------- gathering */

typedef struct gathering {
    crt_group_t *group;
    crti_stored_t *stored; /* FORMING, by us */
    crti_roster_t next;    /* members as they come */
    bool *has_come;
    int missing;
    crti_unjoined_t *unjoined; /* of a declared group */
    uint64_t unjoined_ns;      /* they are looked after from then on */
} gathering_t;

static void list_missing(const crt_group_t *group, const crti_roster_t *roster,
                         const bool *has_come, char *text, size_t size)
{
    size_t used = 0;
    int count = 0;

    text[0] = '\0';
    for (int i = 0; i < roster->size && used + 40 < size; i++) {
        char key[256];
        crti_arrival_t arrival;

        crti_arrival_key(group, roster->token, 1, i, key, sizeof(key));
        if (has_come ? has_come[i] : crti_arrival_read(key, &arrival) == CRT_OK)
            continue;
        used +=
            (size_t)snprintf(text + used, size - used, "%s%d", count++ ? ", " : "", i);
    }
}

/* One pass over those that have not come; few at a time. */
static crt_status_t look_for_arrivals(gathering_t *g)
{
    struct crti_group_private *p = g->group->private;
    int looks = 0;

    for (int i = 0; i < g->next.size && looks < LOOKS_PER_TURN; i++) {
        char key[256];
        crti_arrival_t arrival;
        crt_status_t status;

        if (g->has_come[i])
            continue;
        looks++;
        crti_arrival_key(g->group, g->next.token, 1, i, key, sizeof(key));
        status = crti_arrival_read(key, &arrival);
        if (status == CRT_ERR_NOT_FOUND)
            continue;
        if (status == CRT_OK && arrival.rank != i)
            status =
                crt_raise(CRT_ERR_CORRUPT, "arrival %s says rank %d", key, arrival.rank);
        if (status == CRT_OK)
            status = crti_liveness_watch(p->liveness, i, &arrival.member);
        if (status != CRT_OK)
            return status;
        g->next.members[i] = arrival.member;
        g->has_come[i] = true;
        g->missing--;
    }
    return CRT_OK;
}

/* CRT_OK: nobody who has come has died. */
static crt_status_t look_for_deaths(const gathering_t *g, crti_group_failure_t *failure)
{
    struct crti_group_private *p = g->group->private;
    char text[600], who[128];
    crt_status_t status;

    for (int i = 0; i < g->next.size; i++) {
        if (!g->has_come[i] ||
            !crti_liveness_has_ended(p->liveness, i, &status, text, sizeof(text)))
            continue;
        set_failure(failure, status, i, "rank %d (%s) died while the group formed: %s", i,
                    crti_member_describe(&g->next.members[i], who, sizeof(who)), text);
        return status;
    }
    return CRT_OK;
}

/* CRT_OK: all who were declared may still come. */
static crt_status_t look_for_absent(gathering_t *g, crti_group_failure_t *failure)
{
    char text[600], id[CRTI_ID_HEX];
    crt_status_t status;

    if (crti_now_ns() < g->unjoined_ns)
        return CRT_OK;
    for (int i = 0; i < g->next.size && g->group->private->is_of_ranks; i++) {
        if (g->has_come[i] || !crti_ranks_has_ended(i))
            continue;
        set_failure(failure, CRT_ERR_CLOSED, i,
                    "rank %d will not come: its driver has ended", i);
        return failure->status;
    }
    for (int i = 0; i < g->next.size; i++) {
        if (!g->unjoined || g->has_come[i] ||
            !crti_unjoined_has_died(g->unjoined, i, &status, text, sizeof(text)))
            continue;
        set_failure(failure, status, i, "rank %d (actor %s) will not come: %s", i,
                    crti_id_hex(g->next.declared[i], id), text);
        return status;
    }
    return CRT_OK;
}

/* CRT_OK: the group that this one is split from has not failed; members that it failed on do not
 * come. */
static crt_status_t look_at_parent(const crt_group_t *group,
                                   crti_group_failure_t *failure)
{
    crt_group_t *parent = group->private->parent;
    crt_status_t status = parent ? crti_group_failed(parent) : CRT_OK;

    if (status != CRT_OK)
        set_failure(failure, status, -1, "split from a group that failed: %s",
                    crt_error_detail());
    return status;
}

static crt_status_t decide(gathering_t *g, crti_group_failure_t *failure, bool *won)
{
    if (failure->status != CRT_OK)
        return crti_stored_fail(g->group->private->key, g->stored, 1, failure, won);
    g->next.state = CRTI_ROSTER_FORMED;
    g->next.attempt = g->next.incarnation = 1;
    return crti_stored_swap(g->group->private->key, g->stored, &g->next, won);
}

/* CRT_OK: all have come, or `failure` says what is wrong; or somebody else has decided. */
static crt_status_t gather_all(gathering_t *g, uint64_t deadline_ns,
                               crti_group_failure_t *failure)
{
    struct crti_group_private *p = g->group->private;
    crti_backoff_t backoff = {p->liveness, deadline_ns, 0};
    crt_status_t status = CRT_OK;
    char missing[400];

    while (status == CRT_OK && g->missing) {
        CRTI_AUTO(crti_stored_fini) crti_stored_t now = {0};

        status = look_for_arrivals(g);
        if (status != CRT_OK || !g->missing || look_for_deaths(g, failure) != CRT_OK ||
            look_for_absent(g, failure) != CRT_OK ||
            look_at_parent(g->group, failure) != CRT_OK)
            break;
        status = crti_stored_read(p->key, &now);
        if (status == CRT_ERR_NOT_FOUND || now.roster.token != g->next.token ||
            now.roster.state != CRTI_ROSTER_FORMING)
            return CRT_OK;
        if (crti_backoff_wait(&backoff))
            continue;
        list_missing(g->group, &g->next, g->has_come, missing, sizeof(missing));
        set_failure(failure, CRT_ERR_TIMED_OUT, -1,
                    "timed out after %lld ms: rank %s of %d did not come",
                    (long long)p->timeout_ms, missing, g->next.size);
        break;
    }
    if (status == CRT_OK && failure->status == CRT_OK)
        (void)look_for_deaths(g, failure);
    return status;
}

/* The one who gathers: ends with a decision, its own or another's. */
static crt_status_t gather(crt_group_t *group, crti_stored_t *stored,
                           uint64_t deadline_ns)
{
    gathering_t g = {.group = group, .stored = stored, .next = stored->roster};
    size_t size = (size_t)stored->roster.size;
    CRTI_AUTO(free) crti_member_t *members = calloc(size, sizeof(*members));
    CRTI_AUTO(free) unsigned char *left = calloc(size, 1);
    CRTI_AUTO(free) bool *has_come = calloc(size, sizeof(*has_come));
    CRTI_AUTO(crti_unjoined_free) crti_unjoined_t *unjoined = NULL;
    crti_group_failure_t failure = {.rank = -1};
    bool won;
    crt_status_t status = CRT_OK;

    if (!members || !left || !has_come)
        return crt_raise(CRT_ERR_NO_MEMORY, "a group of %zu", size);
    if (stored->roster.declared)
        status = crti_unjoined_new(&stored->roster, &unjoined);
    if (status != CRT_OK)
        return status;
    g.unjoined = unjoined;
    g.unjoined_ns = crti_now_ns() + UNJOINED_NS;
    g.next.members = members;
    g.next.left = left;
    g.has_come = has_come;
    g.missing = stored->roster.size;
    status = gather_all(&g, deadline_ns, &failure);
    return status == CRT_OK ? decide(&g, &failure, &won) : status;
}

/* ---------------------------------------------------------------- waiting for the decision */

static crt_status_t time_out(crt_group_t *group, const crti_stored_t *stored, bool *won)
{
    crti_group_failure_t failure;
    char missing[400];

    list_missing(group, &stored->roster, NULL, missing, sizeof(missing));
    set_failure(&failure, CRT_ERR_TIMED_OUT, -1,
                "timed out after %lld ms: rank %s of %d did not come",
                (long long)group->private->timeout_ms, missing[0] ? missing : "(none)",
                stored->roster.size);
    return crti_stored_fail(group->private->key, stored, 1, &failure, won);
}

/* The gatherer's end decides, too: whoever sees it says so. */
static crt_status_t leader_died(crt_group_t *group, const crti_stored_t *stored,
                                crt_status_t died, const char *text)
{
    crti_group_failure_t failure;
    char who[128];
    bool won;

    set_failure(&failure, died, -1, "%s died while it gathered the group: %s",
                crti_member_describe(&stored->roster.leader, who, sizeof(who)), text);
    return crti_stored_fail(group->private->key, stored, 1, &failure, &won);
}

/* Reads until the group `token` is decided; joins, or raises why not. */
static crt_status_t await_decision(crt_group_t *group, uint64_t token,
                                   uint64_t deadline_ns)
{
    struct crti_group_private *p = group->private;
    CRTI_AUTO(crti_liveness_free) crti_liveness_t *leader = NULL;
    crt_status_t status = crti_liveness_new(1, NULL, NULL, &leader), died;
    crti_backoff_t backoff = {leader, deadline_ns, 0};
    char text[600];

    while (status == CRT_OK) {
        CRTI_AUTO(crti_stored_fini) crti_stored_t now = {0};
        const crti_roster_t *r = &now.roster;
        crti_group_failure_t failure;
        bool won;

        status = crti_stored_read(p->key, &now);
        if (status == CRT_OK && r->token != token && r->previous == token)
            return raise_failure(group, &r->previous_failure);
        if (status == CRT_ERR_NOT_FOUND || (status == CRT_OK && r->token != token))
            return crt_raise(CRT_ERR_CANCELLED, "group \"%s\" was given up by the others",
                             group->name);
        if (status != CRT_OK)
            break;
        if (r->state == CRTI_ROSTER_FAILED)
            return raise_failure(group, &r->failure);
        if (r->state == CRTI_ROSTER_FORMED) {
            int rank = rank_of(r, &p->me);

            return rank >= 0 ? crti_rendezvous_adopt(group, r, rank)
                             : crt_raise(CRT_ERR_EXISTS, "group \"%s\" formed without us",
                                         group->name);
        }
        status = crti_liveness_watch(leader, 0, &r->leader);
        if (status == CRT_OK &&
            crti_liveness_has_ended(leader, 0, &died, text, sizeof(text)))
            status = leader_died(group, &now, died, text);
        else if (status == CRT_OK && look_at_parent(group, &failure) != CRT_OK)
            status = crti_stored_fail(p->key, &now, 1, &failure, &won);
        else if (status == CRT_OK && !crti_backoff_wait(&backoff))
            status = time_out(group, &now, &won);
    }
    return status;
}

/* ---------------------------------------------------------------- what is there already */

/* Who ended of a roster's members: counts those that left or died. */
static int count_gone(const crti_roster_t *roster, crti_liveness_t *liveness)
{
    int gone = 0;

    for (int i = 0; i < roster->size; i++)
        gone += roster->left[i] || crti_liveness_has_ended(liveness, i, NULL, NULL, 0);
    return gone;
}

/* A formed group has the name. CRT_OK: it has ended meanwhile, or has changed: look again. */
static crt_status_t outlive(crt_group_t *group, uint64_t deadline_ns)
{
    struct crti_group_private *p = group->private;
    CRTI_AUTO(crti_liveness_free) crti_liveness_t *liveness = NULL;
    uint64_t token = 0, grace = 0;
    crti_backoff_t backoff = {.deadline_ns = deadline_ns};
    crt_status_t status = CRT_OK;

    for (;;) {
        CRTI_AUTO(crti_stored_fini) crti_stored_t now = {0};
        const crti_roster_t *r = &now.roster;
        bool is_far = false, won;
        int gone;

        status = crti_stored_read(p->key, &now);
        if (status == CRT_ERR_NOT_FOUND)
            return CRT_OK;
        if (status != CRT_OK || r->state != CRTI_ROSTER_FORMED ||
            (token && r->token != token))
            return status;
        if (!liveness) {
            token = r->token;
            status = crti_liveness_new(r->size, NULL, NULL, &liveness);
            backoff.liveness = liveness;
        }
        for (int i = 0; status == CRT_OK && i < r->size; i++) {
            is_far = is_far || !crti_id_equal(r->members[i].node, p->me.node);
            status = crti_liveness_watch(liveness, i, &r->members[i]);
        }
        if (status != CRT_OK)
            return status;
        gone = count_gone(r, liveness);
        if (gone == r->size)
            return crti_stored_swap(p->key, &now, NULL, &won);
        /* News of the dead of this node came before the second read's answer. */
        if (!grace)
            grace = crti_now_ns() + (is_far ? GRACE_NS : 50 * CRTI_MS);
        if ((gone == 0 && crti_now_ns() >= grace) || !crti_backoff_wait(&backoff))
            return crt_raise(
                CRT_ERR_EXISTS,
                "a group of %d is called \"%s\" already, and %d of its members "
                "live",
                r->size, group->name, r->size - gone);
    }
}

/* Replaces a group that failed, or begins the first one of that name. */
static crt_status_t begin(crt_group_t *group, const crti_stored_t *old, bool *won)
{
    struct crti_group_private *p = group->private;
    crti_roster_t next = {.state = CRTI_ROSTER_FORMING,
                          .size = p->wanted_size,
                          .timeout_ms = p->timeout_ms,
                          .leader = p->me};
    crt_status_t status;

    next.token = crti_id_random().low;
    snprintf(next.backend, sizeof(next.backend), "%s", p->wanted_backend);
    if (old) {
        next.previous = old->roster.token;
        next.previous_failure = old->roster.failure;
    }
    status = crti_stored_swap(p->key, old, &next, won);
    for (int i = 0; status == CRT_OK && *won && old && i < old->roster.size; i++)
        forget_arrival(group, old->roster.token, 1, i);
    return status;
}

/* A declared group begins when its first member comes. */
static crt_status_t begin_declared(crt_group_t *group, const crti_stored_t *old,
                                   bool *won)
{
    crti_roster_t next = old->roster;

    next.state = CRTI_ROSTER_FORMING;
    next.leader = group->private->me;
    return crti_stored_swap(group->private->key, old, &next, won);
}

/* ---------------------------------------------------------------- joining */

/* What we say and what the roster says; CRT_OK: the same. */
static crt_status_t compare(const crt_group_t *group, const crti_roster_t *r,
                            crti_group_failure_t *failure)
{
    const struct crti_group_private *p = group->private;
    char me[128], they[128];

    crti_member_describe(&p->me, me, sizeof(me));
    crti_member_describe(&r->leader, they, sizeof(they));
    if (r->size != p->wanted_size)
        set_failure(failure, CRT_ERR_INVALID, p->wanted_rank,
                    "rank %d (%s) says %d members, but %s said %d", p->wanted_rank, me,
                    p->wanted_size, they, r->size);
    else if (strcmp(r->backend, p->wanted_backend) != 0)
        set_failure(failure, CRT_ERR_INVALID, p->wanted_rank,
                    "rank %d (%s) says backend \"%s\", but %s said \"%s\"",
                    p->wanted_rank, me, p->wanted_backend, they, r->backend);
    else if (r->declared && !crti_id_equal(r->declared[p->wanted_rank], p->me.actor))
        set_failure(failure, CRT_ERR_INVALID, p->wanted_rank,
                    "rank %d was declared for another actor than %s", p->wanted_rank, me);
    return failure->status;
}

/* Leaves our arrival; CRT_ERR_EXISTS: the rank is taken, `failure` says by whom. */
static crt_status_t arrive(crt_group_t *group, const crti_roster_t *r,
                           crti_group_failure_t *failure)
{
    struct crti_group_private *p = group->private;
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t bytes = {0};
    crti_arrival_t arrival = {p->me, p->wanted_size, p->wanted_rank, 0}, other;
    char key[256], me[128], they[128];
    crt_status_t status = crti_arrival_encode(&arrival, &bytes);

    crti_arrival_key(group, r->token, 1, p->wanted_rank, key, sizeof(key));
    if (status == CRT_OK)
        status = crt_kv_put(key, bytes.data, bytes.size, false);
    if (status != CRT_ERR_EXISTS)
        return status;
    status = crti_arrival_read(key, &other);
    if (status != CRT_OK)
        return status == CRT_ERR_NOT_FOUND ? CRT_OK : status; /* decided: read again */
    if (other.member.nonce == p->me.nonce)
        return CRT_OK;
    set_failure(failure, CRT_ERR_EXISTS, p->wanted_rank,
                "rank %d was taken twice, by %s and by %s", p->wanted_rank,
                crti_member_describe(&other.member, they, sizeof(they)),
                crti_member_describe(&p->me, me, sizeof(me)));
    return CRT_ERR_EXISTS;
}

static crt_status_t join_forming(crt_group_t *group, crti_stored_t *now,
                                 uint64_t deadline_ns)
{
    struct crti_group_private *p = group->private;
    crti_group_failure_t failure = {.rank = -1};
    uint64_t token = now->roster.token;
    bool won, has_arrived = false;
    crt_status_t status = compare(group, &now->roster, &failure);

    if (status == CRT_OK) {
        status = arrive(group, &now->roster, &failure);
        has_arrived = status == CRT_OK;
    }
    if (failure.status != CRT_OK) {
        status = crti_stored_fail(p->key, now, 1, &failure, &won);
        return status == CRT_OK ? raise_failure(group, &failure) : status;
    }
    if (status == CRT_OK && now->roster.leader.nonce == p->me.nonce)
        status = gather(group, now, deadline_ns);
    if (status == CRT_OK)
        status = await_decision(group, token, deadline_ns);
    if (has_arrived) {
        crti_group_failure_t kept = {.status = status};

        snprintf(kept.text, sizeof(kept.text), "%s", crt_error_detail());
        forget_arrival(group, token, 1, p->wanted_rank);
        if (status != CRT_OK)
            status = crt_raise(status, "%s", kept.text);
    }
    return status;
}

crt_status_t crti_rendezvous_join(crt_group_t *group, uint64_t deadline_ns)
{
    struct crti_group_private *p = group->private;
    crt_status_t status = CRT_OK;

    if (p->wanted_rank == CRT_RANK_ANY)
        return crti_rendezvous_join_spare(group, deadline_ns);

    while (status == CRT_OK) {
        CRTI_AUTO(crti_stored_fini) crti_stored_t now = {0};
        bool won;

        status = crti_stored_read(p->key, &now);
        if (status == CRT_ERR_NOT_FOUND) {
            status = begin(group, NULL, &won);
            continue;
        }
        if (status != CRT_OK)
            break;
        if (crti_now_ns() > deadline_ns)
            return crt_raise(CRT_ERR_TIMED_OUT, "group \"%s\": timed out after %lld ms",
                             group->name, (long long)p->timeout_ms);
        switch (now.roster.state) {
        case CRTI_ROSTER_DECLARED: status = begin_declared(group, &now, &won); break;
        case CRTI_ROSTER_FORMING: return join_forming(group, &now, deadline_ns);
        case CRTI_ROSTER_FORMED: status = outlive(group, deadline_ns); break;
        case CRTI_ROSTER_FAILED:
            /* Ours failed before we looked at it again: whoever failed it waits no longer. */
            if (now.roster.leader.nonce == p->me.nonce)
                return raise_failure(group, &now.roster.failure);
            status = begin(group, &now, &won);
            break;
        }
    }
    return status;
}

/* ---------------------------------------------------------------- declared groups */

crt_status_t crti_rendezvous_join_declared(crt_group_t *group)
{
    struct crti_group_private *p = group->private;
    CRTI_AUTO(crti_stored_fini) crti_stored_t now = {0};
    crt_status_t status = crti_stored_read(p->key, &now);

    if (status == CRT_ERR_NOT_FOUND)
        return crt_raise(CRT_ERR_NOT_FOUND, "no group \"%s\" was declared", group->name);
    for (int i = 0; status == CRT_OK && now.roster.declared && i < now.roster.size; i++) {
        if (!crti_id_equal(now.roster.declared[i], p->me.actor))
            continue;
        p->wanted_rank = i;
        p->wanted_size = now.roster.size;
        p->timeout_ms = now.roster.timeout_ms;
        snprintf(p->wanted_backend, sizeof(p->wanted_backend), "%s", now.roster.backend);
        return CRT_OK;
    }
    return status == CRT_OK ? crt_raise(CRT_ERR_NOT_FOUND,
                                        "this actor is not in the group \"%s\" that was "
                                        "declared",
                                        group->name)
                            : status;
}

crt_status_t crti_rendezvous_declare(crt_group_t *group, const crti_roster_t *roster)
{
    struct crti_group_private *p = group->private;
    uint64_t deadline = crti_now_ns() + (uint64_t)p->timeout_ms * CRTI_MS;
    crt_status_t status = CRT_OK;

    while (status == CRT_OK) {
        CRTI_AUTO(crti_stored_fini) crti_stored_t now = {0};
        bool won = false;

        status = crti_stored_read(p->key, &now);
        if (status == CRT_OK && now.roster.state == CRTI_ROSTER_FORMED)
            status = outlive(group, deadline);
        else if (status == CRT_OK && now.roster.state != CRTI_ROSTER_FAILED)
            status = crt_raise(CRT_ERR_EXISTS, "a group is called \"%s\" already",
                               group->name);
        else if (status == CRT_OK || status == CRT_ERR_NOT_FOUND)
            status =
                crti_stored_swap(p->key, status == CRT_OK ? &now : NULL, roster, &won);
        if (won)
            break;
    }
    return status;
}

/* ---------------------------------------------------------------- leaving */

void crti_rendezvous_leave(crt_group_t *group)
{
    struct crti_group_private *p = group->private;

    for (bool won = false; !won;) {
        CRTI_AUTO(crti_stored_fini) crti_stored_t now = {0};
        int rank;

        if (crti_stored_read(p->key, &now) != CRT_OK || now.roster.token != p->token)
            return;
        rank = rank_of(&now.roster, &p->me);
        if (now.roster.state != CRTI_ROSTER_FORMED || rank < 0)
            return;
        now.roster.left[rank] = 1;
        if (crti_stored_swap(
                p->key, &now,
                rank_of(&now.roster, &p->me) >= 0 && now.roster.size == group->size &&
                        count_gone(&now.roster, p->liveness) == now.roster.size
                    ? NULL
                    : &now.roster,
                &won) != CRT_OK)
            return;
    }
}
