/* SPDX-License-Identifier: Apache-2.0 */
/* Memory watch: who is ended when the node runs out of memory. See memory_watch.h.
 *
 * Why growth and not age or size: the newest worker is often the one that just began to wait, and
 * the largest may hold a model for days. Who fills the memory is who grows.
 */
#include "runtime/node/process/memory_watch.h"

#include <assert.h>

#include "runtime/base/clock.h"

#define WATCHED     70 /* percent: from here on workers are read */
#define CALM        65 /* ... and below this no more */
#define CALL_SHARE  32 /* of the memory: growth in one call that tells who it is */
#define LEAST_SHARE 64 /* of the memory: who grew less is not ended */
#define FILL_RATE   4  /* bytes per ns that a few cores could write at most */
#define OFTEN_NS    (100 * CRTI_MS)
#define SELDOM_NS   (1 * CRTI_S)
#define ENDING_NS   (5 * CRTI_S) /* for a killed worker to be gone */

#define ARROW(state) (1u << CRTI_MEMORY_##state)

static const unsigned next[CRTI_MEMORY_STATES] = {
    [CRTI_MEMORY_CALM] = ARROW(WATCHING),
    [CRTI_MEMORY_WATCHING] = ARROW(CALM) | ARROW(ENDING) | ARROW(HELPLESS),
    [CRTI_MEMORY_ENDING] = ARROW(WATCHING),
    [CRTI_MEMORY_HELPLESS] = ARROW(WATCHING) | ARROW(ENDING),
};

static void set_state(crti_memory_watch_t *watch, crti_memory_state_t state)
{
    const bool is_arrow = next[watch->state] >> state & 1;

    assert(is_arrow);
    (void)is_arrow;
    if (watch->state == CRTI_MEMORY_CALM)
        watch->round++;
    watch->state = state;
}

static bool is_beyond(uint64_t used, uint64_t total, unsigned percent)
{
    return (double)used * 100 >= (double)total * percent;
}

void crti_memory_watch_init(crti_memory_watch_t *watch, unsigned limit)
{
    *watch = (crti_memory_watch_t){.limit = limit};
}

void crti_memory_watch_began(const crti_memory_watch_t *watch,
                             const crti_memory_worker_t *worker)
{
    *worker->record = (crti_memory_record_t){
        .began = worker->bytes,
        .before = worker->bytes,
        .last = worker->bytes,
        .call = worker->call,
        .round = watch->state == CRTI_MEMORY_CALM ? 0 : watch->round};
}

bool crti_memory_watch_wants(const crti_memory_watch_t *watch, uint64_t used,
                             uint64_t total)
{
    return watch->limit && total &&
           is_beyond(used, total, watch->state == CRTI_MEMORY_CALM ? WATCHED : CALM);
}

/* A call that began since the last reading began with what the worker had then. At the first
 * reading of a round nobody knows what the call began with. */
static void note(const crti_memory_watch_t *watch, const crti_memory_worker_t *w)
{
    crti_memory_record_t *r = w->record;

    if (r->round != watch->round || !w->running)
        r->before = w->bytes;
    else if (r->call != w->call)
        r->before = r->last;
    r->round = watch->round;
    r->call = w->call;
    r->last = w->bytes;
}

static uint64_t growth(const crti_memory_worker_t *w, bool in_call)
{
    uint64_t from = in_call ? w->record->before : w->record->began;

    return w->bytes > from ? w->bytes - from : 0;
}

/* Who grew most; of equals the larger one. */
static size_t find(const crti_memory_worker_t *workers, size_t count, bool in_call)
{
    size_t most = 0;

    for (size_t i = 1; i < count; i++) {
        uint64_t here = growth(&workers[i], in_call);
        uint64_t best = growth(&workers[most], in_call);

        if (here > best || (here == best && workers[i].bytes > workers[most].bytes))
            most = i;
    }
    return most;
}

/* False: nobody grew so much that their end would help. */
static bool choose(const crti_memory_worker_t *workers, size_t count, uint64_t total,
                   crti_memory_verdict_t *verdict)
{
    static const uint64_t share[] = {LEAST_SHARE, CALL_SHARE};

    for (int in_call = 1; count > 0 && in_call >= 0; in_call--) {
        verdict->worker = find(workers, count, in_call);
        verdict->grown = growth(&workers[verdict->worker], in_call);
        verdict->in_call = in_call;
        if (verdict->grown > 0 && verdict->grown >= total / share[in_call])
            return true;
    }
    return false;
}

/* Who had memory at the last reading and has none. Count: nobody. To be asked before note(). */
static size_t find_dying(const crti_memory_worker_t *workers, size_t count)
{
    size_t i = 0;

    while (i < count && !(workers[i].bytes == 0 && workers[i].record->last > 0))
        i++;
    return i;
}

static uint64_t pause_for(uint64_t used, uint64_t total, unsigned limit)
{
    double room = (double)total * limit / 100 - (double)used;
    double ns = room / FILL_RATE;

    return ns < OFTEN_NS ? OFTEN_NS : ns > SELDOM_NS ? SELDOM_NS : (uint64_t)ns;
}

/* Where the state goes by the reading alone. */
static void follow(crti_memory_watch_t *watch, uint64_t now_ns, bool wants, bool beyond)
{
    if (watch->state == CRTI_MEMORY_ENDING && now_ns - watch->ending_ns >= ENDING_NS)
        set_state(watch, CRTI_MEMORY_WATCHING); /* the kernel may hang: another one */
    if (watch->state == CRTI_MEMORY_HELPLESS && !beyond)
        set_state(watch, CRTI_MEMORY_WATCHING);
    if (watch->state == CRTI_MEMORY_WATCHING && !wants)
        set_state(watch, CRTI_MEMORY_CALM);
    if (watch->state == CRTI_MEMORY_CALM && wants)
        set_state(watch, CRTI_MEMORY_WATCHING);
}

/* One of the workers goes, by our hand or already: the others are safe until then. */
static void let_end(crti_memory_watch_t *watch, uint64_t now_ns,
                    crti_memory_verdict_t *verdict, crti_memory_verb_t verb)
{
    verdict->verb = verb;
    watch->ending_ns = now_ns;
    set_state(watch, CRTI_MEMORY_ENDING);
}

crti_memory_verdict_t crti_memory_watch_read(crti_memory_watch_t *watch, uint64_t now_ns,
                                             uint64_t used, uint64_t total,
                                             const crti_memory_worker_t *workers,
                                             size_t count)
{
    crti_memory_verdict_t verdict = {.next_ns = now_ns + SELDOM_NS};
    bool wants = crti_memory_watch_wants(watch, used, total);
    bool beyond = wants && is_beyond(used, total, watch->limit);
    size_t dying = wants ? find_dying(workers, count) : count;

    follow(watch, now_ns, wants, beyond);
    if (!watch->limit || !total)
        return verdict;
    verdict.next_ns = now_ns + pause_for(used, total, watch->limit);
    for (size_t i = 0; wants && i < count; i++)
        note(watch, &workers[i]);
    if (!beyond || watch->state == CRTI_MEMORY_ENDING)
        return verdict;
    if (dying < count) {
        verdict.worker = dying;
        let_end(watch, now_ns, &verdict, CRTI_MEMORY_AWAIT);
    } else if (choose(workers, count, total, &verdict)) {
        let_end(watch, now_ns, &verdict, CRTI_MEMORY_END);
    } else if (watch->state != CRTI_MEMORY_HELPLESS) {
        verdict.verb = CRTI_MEMORY_WARN;
        set_state(watch, CRTI_MEMORY_HELPLESS);
    }
    return verdict;
}

void crti_memory_watch_gone(crti_memory_watch_t *watch)
{
    if (watch->state == CRTI_MEMORY_ENDING)
        set_state(watch, CRTI_MEMORY_WATCHING);
}
