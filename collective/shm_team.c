/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for each other: barriers, sleeping, and the look at who lives. See shm.h. */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "collective/shm_int.h"
#include "runtime/store/futex.h"

#define SPINS_LEAST     64
#define COPIED_PER_SPIN 128 /* bytes */
#define YIELD_NS        (100 * 1000)
#define MISSES          3 /* in a row, before that */
#define REST_LEAST      4
#define REST_MOST       256

static inline void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static inline bool has_reached(uint32_t now, uint32_t wanted)
{
    return (int32_t)(now - wanted) >= 0;
}

/* ---------------------------------------------------------------- waking */

void crti_shm_wake(crti_shm_t *team, const _Atomic uint32_t *word)
{
    /* The word was stored sequentially consistent; a sleeper says so before it looks again. */
    for (int i = 0; i < team->size; i++)
        if (i != team->rank &&
            atomic_load_explicit(&team->peers[i].head->sleepers, memory_order_seq_cst)) {
            crti_futex_wake((_Atomic uint32_t *)(uintptr_t)word, INT32_MAX);
            return;
        }
}

void crti_shm_arrive(crti_shm_t *team)
{
    _Atomic uint32_t *flag = &team->region->head->flag;

    atomic_store_explicit(flag, ++team->phase, memory_order_seq_cst);
    crti_shm_wake(team, flag);
}

/* ---------------------------------------------------------------- looking */

/* Who came out of the barrier that we wait in, or has nothing to do with the messages that we wait
 * for, may fail or leave: what we are in ends well. */
static bool has_done_its_part(const crti_shm_t *team, int i)
{
    const crti_shm_head_t *head = team->peers[i].head;

    return team->awaits ? !crti_group_needs(team->group, team->peers[i].rank, head->done)
                        : has_reached(head->failure.passed, team->phase);
}

static bool has_come(crti_shm_t *team);

static crt_status_t look_at_states(crti_shm_t *team)
{
    char who[160];

    for (int i = 0; i < team->size; i++) {
        const crti_shm_peer_t *peer = &team->peers[i];
        uint32_t state = atomic_load_explicit(&peer->head->state, memory_order_acquire);

        if (state == CRTI_SHM_ALIVE || i == team->rank || has_done_its_part(team, i))
            continue;
        if (team->awaits && has_come(team)) /* its last message was there before that */
            return CRT_OK;
        if (state != CRTI_SHM_LEFT)
            return crti_shm_take_failure(team, i);
        return crti_group_fail(
            team->group, CRT_ERR_CLOSED, peer->rank, "%s has left the group",
            crti_group_describe(team->group, peer->rank, who, sizeof(who)));
    }
    return CRT_OK;
}

/* Whether a peer that waits for message `number` of `kind` with us can't go on before we have
 * called what it waits for. */
static bool needs_us(const crti_shm_t *team, int who, int kind, uint32_t number)
{
    const crti_shm_peer_t *peer = &team->peers[who];
    uint32_t received = atomic_load_explicit(&team->region->channels[peer->rank].received,
                                             memory_order_relaxed);

    if (kind == CRT_COLLECTIVE_RECV)
        return !has_reached(peer->sends_posted, number);
    return !has_reached(received, number) && !has_reached(peer->receives_posted, number);
}

/* What we wait in. */
static crti_operation_signature_t own_signature(const crti_shm_t *team)
{
    return team->awaits ? crti_shm_pair_signature(team->awaits[0])
                        : crti_operation_signature_of(team->step);
}

/* One who waits for us between two members, while we wait for it in something else, would wait
 * for ever. While we wait for one of several messages nobody knows that. */
static crt_status_t look_for_cross(crti_shm_t *team, int waits_for)
{
    const crti_shm_head_t *head = team->peers[waits_for].head;
    uint64_t what = atomic_load_explicit(&head->in_pair, memory_order_acquire);
    crti_operation_signature_t own,
        other = {.kind = (int)(what >> 48), .peer = team->rank};

    if ((what >> 32 & 0xffff) != (uint64_t)team->peers[team->rank].rank + 1 ||
        (!team->awaits && !team->step) || team->await_count > 1)
        return CRT_OK;
    own = own_signature(team);
    /* Sends to each other end: see crti_shm_pair_absorb. */
    if (own.kind == CRT_COLLECTIVE_SEND ||
        (own.kind == CRT_COLLECTIVE_RECV && other.kind == CRT_COLLECTIVE_SEND) ||
        !needs_us(team, waits_for, other.kind, (uint32_t)what) ||
        atomic_load_explicit(&head->in_pair, memory_order_acquire) != what)
        return CRT_OK;
    /* It may have done its part of what we are in and gone on since we looked last. */
    return has_come(team) ? CRT_OK : crti_shm_mismatch(team, waits_for, &own, &other);
}

static crt_status_t time_out(crti_shm_t *team, int waits_for)
{
    const crti_shm_peer_t *peer = &team->peers[waits_for];
    crti_operation_signature_t own = own_signature(team);
    char who[160], what[160];

    crti_group_describe(team->group, peer->rank, who, sizeof(who));
    return crti_group_fail(team->group, CRT_ERR_TIMED_OUT, peer->rank,
                           "timed out: %s did not come to %s", who,
                           crti_operation_describe(&own, what, sizeof(what)));
}

/* The first that has not arrived as often as we have; any, when all have. */
static int laggard(const crti_shm_t *team)
{
    int who = team->rank ? 0 : 1;

    for (int i = 0; i < team->size; i++)
        if (i != team->rank &&
            !has_reached(
                atomic_load_explicit(&team->peers[i].head->flag, memory_order_acquire),
                team->phase))
            return i;
    return who;
}

/* Of messages nothing is told: who serves others may wait for one for days. */
static void tell_if_slow(crti_shm_t *team, int waits_for, uint64_t now)
{
    uint64_t waited = now - team->waits_since_ns;
    crti_operation_signature_t own;
    char who[160], what[160];

    if (team->awaits || !team->step || team->is_told || team->group->tell_ns == 0 ||
        waited < team->group->tell_ns)
        return;
    team->is_told = true;
    own = own_signature(team);
    crti_group_describe(team->group, team->peers[waits_for].rank, who, sizeof(who));
    crti_group_tell_wait(team->group, waited,
                         crti_operation_describe(&own, what, sizeof(what)), who);
}

/* CRT_OK: all others live and have not failed. */
static crt_status_t check_others(crti_shm_t *team, int waits_for)
{
    uint64_t now = crti_now_ns();
    crt_status_t status = crti_group_failed(team->group);

    if (waits_for < 0)
        waits_for = laggard(team);

    if (status == CRT_OK)
        status = look_at_states(team);
    if (status == CRT_OK)
        status = crti_shm_look_at_processes(team);
    if (status == CRT_OK && now - team->last_look_ns > CRTI_GROUP_LOOK_NS / 2) {
        team->last_look_ns = now;
        status = look_for_cross(team, waits_for);
    }
    if (status == CRT_OK && (team->awaits || team->step) &&
        now > (team->awaits ? team->await_deadline_ns : team->step->deadline_ns))
        status = time_out(team, waits_for);
    if (status == CRT_OK)
        tell_if_slow(team, waits_for, now);
    return status;
}

/* ---------------------------------------------------------------- sleeping */

static bool is_word_reached(const crti_shm_t *team)
{
    return has_reached(atomic_load_explicit(team->word, memory_order_acquire),
                       team->value);
}

/* What we wait for is there, or the group has failed (team->status). Messages go on meanwhile. */
static bool has_come(crti_shm_t *team)
{
    const crti_way_t *linked = &team->group->linked;

    if (!team->awaits && is_word_reached(team))
        return true;
    if (!crti_list_is_empty(&team->active))
        team->status = crti_shm_pair_progress(team);
    if (linked->pending && team->status == CRT_OK)
        team->status = linked->go_on(linked->state);
    return team->status != CRT_OK || crti_shm_pair_has_come(team);
}

/* The other end of a large message is most often copying it: that takes about so long, and to be
 * woken longer. */
static uint32_t spins_now(const crti_shm_t *team)
{
    size_t copying = team->awaits ? team->awaits[0]->bytes / COPIED_PER_SPIN : 0;

    if (copying <= team->spins)
        return team->spins;
    return copying < team->most_spins ? (uint32_t)copying : team->most_spins;
}

/* Nothing but the word can end the wait, and nothing goes on beside it. */
static bool waits_for_word_only(const crti_shm_t *team)
{
    return !team->awaits && crti_list_is_empty(&team->active) &&
           !team->group->linked.pending;
}

static bool spin(crti_shm_t *team)
{
    bool word_only = waits_for_word_only(team);
    uint32_t spins = spins_now(team);

    for (uint32_t i = 0; i < spins; i++) {
        if (word_only ? is_word_reached(team) : has_come(team)) {
            if (team->spins < team->most_spins)
                team->spins += team->spins / 4;
            return true;
        }
        relax();
    }
    if (team->spins > SPINS_LEAST)
        team->spins /= 2;
    return false;
}

/* With fewer cores than members the one that we wait for may be waiting for ours: it gets it. A
 * core that time and again does not come back soon is shared with somebody else, to whom sleeping
 * loses less. */
static bool yield(crti_shm_t *team)
{
    uint64_t start, now;

    if (team->no_yields) {
        team->no_yields--;
        return false;
    }
    team->group->has_waited = true;
    start = now = crti_now_ns();
    while (now - start < YIELD_NS) {
        sched_yield();
        if (has_come(team)) {
            team->rest = team->misses = 0;
            return true;
        }
        now = crti_now_ns();
    }
    if (++team->misses < MISSES)
        return false;
    team->rest = team->rest ? team->rest * 2 : REST_LEAST;
    if (team->rest > REST_MOST)
        team->rest = REST_MOST;
    team->no_yields = team->rest;
    return false;
}

static void sleep_on_word(crti_shm_t *team)
{
    _Atomic uint32_t *sleepers = &team->region->head->sleepers;
    bool has_messages = team->group->shared.pending || team->group->linked.pending;
    uint32_t now;

    /* Pairs with crti_shm_wake: either it sees us, or we see the word. */
    atomic_store_explicit(sleepers, 1, memory_order_seq_cst);
    now = atomic_load_explicit(team->word, memory_order_seq_cst);
    if (!has_reached(now, team->value))
        crti_futex_wait((_Atomic uint32_t *)(uintptr_t)team->word, now,
                        has_messages ? CRTI_GROUP_OTHER_WAY_NS : CRTI_GROUP_LOOK_NS);
    atomic_store_explicit(sleepers, 0, memory_order_relaxed);
}

static void sleep_on_bell(crti_shm_t *team)
{
    _Atomic uint32_t *bell = &team->peers[team->rank].common->bell,
                     *listens = &team->region->head->listens;
    const crti_way_t *linked = &team->group->linked;
    bool has_links =
        linked->pending || (linked->go_on && crti_group_absorbs(team->group));
    uint32_t now;

    /* Pairs with store of shm_pair.c. */
    atomic_store_explicit(listens, 1, memory_order_seq_cst);
    now = atomic_load_explicit(bell, memory_order_seq_cst);
    if (!has_come(team))
        crti_futex_wait(bell, now,
                        has_links ? CRTI_GROUP_OTHER_WAY_NS : CRTI_GROUP_LOOK_NS);
    atomic_store_explicit(listens, 0, memory_order_relaxed);
}

/* Before the first sleep, and after each: our send waits. */
static void absorb(crti_shm_t *team)
{
    const crti_way_t *linked = &team->group->linked;

    if (!team->awaits || !crti_group_absorbs(team->group))
        return;
    crti_shm_pair_absorb(team);
    if (linked->go_on && team->status == CRT_OK)
        team->status = linked->go_on(linked->state);
}

static crt_status_t wait_until_come(crti_shm_t *team, int who)
{
    crt_status_t status = CRT_OK;

    team->status = CRT_OK;
    if (has_come(team) || (team->most_spins ? spin(team) : yield(team)))
        return team->status;
    team->group->has_waited = true;
    team->waits_since_ns = crti_now_ns();
    team->is_told = false;
    for (;;) {
        uint64_t start = crti_now_ns();

        absorb(team);
        if (team->awaits)
            sleep_on_bell(team);
        else
            sleep_on_word(team);
        if (has_come(team))
            return team->status;
        /* Woken by somebody else's step: no need to look at once. */
        if (crti_now_ns() - start >= CRTI_GROUP_LOOK_NS ||
            crti_now_ns() - team->last_look_ns >= CRTI_GROUP_LOOK_NS)
            status = check_others(team, who);
        if (status != CRT_OK)
            return status;
    }
}

crt_status_t crti_shm_wait_word(crti_shm_t *team, int who, const _Atomic uint32_t *word,
                                uint32_t value)
{
    team->word = word;
    team->value = value;
    return wait_until_come(team, who);
}

/* For those who wait for us in something else: see look_for_cross. */
static void announce(crti_shm_t *team, const crti_pair_t *pair)
{
    uint64_t kind = pair->is_send ? CRT_COLLECTIVE_SEND : CRT_COLLECTIVE_RECV;
    uint64_t rank = (uint64_t)pair->rank + 1;

    atomic_store_explicit(&team->region->head->in_pair,
                          kind << 48 | rank << 32 | (uint32_t)pair->number,
                          memory_order_release);
}

/* The first of those that we wait for who is in this team: there is one. */
static int first_here(const crti_shm_t *team)
{
    for (int k = 0; k < team->await_count; k++)
        for (int i = 0; i < team->size; i++)
            if (team->peers[i].rank == team->awaits[k]->rank)
                return i;
    return team->rank ? 0 : 1;
}

crt_status_t crti_shm_pair_await(crti_shm_t *team, crti_pair_t *const *pairs, int count,
                                 uint64_t deadline_ns)
{
    crt_status_t status;

    team->awaits = pairs;
    team->await_count = count;
    team->await_deadline_ns = deadline_ns;
    if (count == 1)
        announce(team, pairs[0]);
    status = wait_until_come(team, first_here(team));
    atomic_store_explicit(&team->region->head->in_pair, 0, memory_order_release);
    team->awaits = NULL;
    team->await_count = 0;
    return status;
}

/* Who has come and given up since: for it the operation has failed, so for us, too. After our own
 * arrival: it fails then, or sees us. Those words change once in the life of a team. */
static crt_status_t look_for_failed(crti_shm_t *team)
{
    for (int i = 0; i < team->size; i++) {
        const crti_shm_head_t *head = team->peers[i].head;

        if (atomic_load_explicit(&head->state, memory_order_seq_cst) == CRTI_SHM_FAILED &&
            i != team->rank && !has_reached(head->failure.passed, team->phase))
            return crti_shm_take_failure(team, i);
    }
    return CRT_OK;
}

crt_status_t crti_shm_await(crti_shm_t *team)
{
    for (int i = 0; i < team->size; i++) {
        crt_status_t status;

        if (i == team->rank)
            continue;
        status = crti_shm_wait_word(team, i, &team->peers[i].head->flag, team->phase);
        if (status != CRT_OK)
            return status;
    }
    CRT_TRY(look_for_failed(team));
    team->passed = team->phase;
    return CRT_OK;
}

/* ---------------------------------------------------------------- reporting a failure */

void crti_shm_say_left(crti_shm_t *team)
{
    crti_shm_head_t *head = team->region->head;

    if (atomic_load_explicit(&head->state, memory_order_relaxed))
        return;
    head->failure.passed = team->passed;
    atomic_store_explicit(&head->state, CRTI_SHM_LEFT, memory_order_release);
    crti_futex_wake(&head->flag, INT32_MAX);
}

void crti_shm_report(crti_shm_t *team)
{
    crti_shm_head_t *head = team->region->head;
    const crt_group_error_t *error = crt_group_last_error(team->group);

    if (!error || atomic_load_explicit(&head->state, memory_order_relaxed))
        return;
    head->failure = (crti_shm_failure_t){
        .status = error->status, .rank = error->rank, .passed = team->passed};
    head->done = team->group->done;
    snprintf(head->failure.text, sizeof(head->failure.text), "%s", error->text);
    atomic_store_explicit(&head->state, CRTI_SHM_FAILED, memory_order_seq_cst);
    crti_futex_wake(&head->flag, INT32_MAX);
}
