/* SPDX-License-Identifier: Apache-2.0 */
/* Blackboard: a page of shared memory in which a worker writes what it is doing, so that the
 * report of its death can name the method; and in which the node writes since when the head has not
 * been heard of, for the worker of a fenced actor (fence.h), and what a driver has to show.
 *
 * Where it sits
 *     worker's main thread (core) -> [ page ] -> node daemon, after the worker's death
 *     node daemon -> [ head_ns ] -> worker's main thread, before each call
 *     node daemon -> [ logs ] -> driver, before it has a value (core/process/printed.c)
 *     worker of an actor (core/execution/execute.c) -> [ created ] -> node daemon, after its death
 *     worker (core/execution/execute.c) -> [ caller, begun ] -> node daemon, after its death, ->
 *     that caller: the tasks that it sent later did not begin
 *     any process (core/calls/lineage.c) -> [ lineage_... ] -> node daemon, for its heartbeats
 *     worker of an actor (core/execution/queue_figures.c) -> [ queued, waits_since_ns, waited_ns ]
 *     -> node daemon, when it is asked
 * Threads
 *     One writer of each word, plain atomic stores, no fence: the reader looks after the writer
 *     died. A reader of a living worker (state queries) may see a mixed name and must only print
 *     it.
 * Cost
 *     A repeated method costs two stores (enter, leave); its name is written when it changes.
 * Trust
 *     The page belongs to the worker: the reader takes any bytes and prints only what is
 *     printable.
 */
#ifndef CRTI_BASE_BLACKBOARD_H
#define CRTI_BASE_BLACKBOARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define CRTI_BLACKBOARD_BYTES 4096
#define CRTI_BLACKBOARD_TEXT  120 /* bytes of a name without its final zero */
#define CRTI_BLACKBOARD_WORDS (CRTI_BLACKBOARD_TEXT / 8)
#define CRTI_BLACKBOARD_ANY   UINT64_MAX

typedef struct crti_blackboard {
    _Atomic uint64_t sequence; /* counts names; odd while one is being written */
    _Atomic uint64_t running;  /* 1 between enter and leave */
    _Atomic uint64_t calls;    /* enters since the start */
    _Atomic uint64_t text[CRTI_BLACKBOARD_WORDS];
    /* Of an actor: calls that may begin and have not; since when one of them waits, which is
     * watched (monotonic; 0: none is); and how long the last one that was watched has waited. */
    _Atomic uint64_t queued, waits_since_ns, waited_ns;
    _Atomic uint64_t created; /* of an actor: 1 from when its calls may run */
    /* Of tasks: the caller of the last one that has begun; and of those of that caller that have
     * begun the last record (its number in their session). CRTI_BLACKBOARD_ANY: any may have. */
    _Atomic uint64_t caller[2], begun;
    /* What is kept to make lost objects again: bytes, at most so many, and how many calls and
     * spare objects were forgotten since no more may be kept. */
    _Atomic uint64_t lineage_bytes, lineage_limit, lineage_forgotten;
    /* The node's words, in a cache line of their own: what crti_fence_is_shut takes, */
    _Alignas(64) _Atomic uint64_t head_ns;
    _Atomic uint64_t logs; /* and how many LOG messages went to this process */
} crti_blackboard_t;

_Static_assert(sizeof(crti_blackboard_t) <= CRTI_BLACKBOARD_BYTES, "one page");

/* The name of what runs next, for example "Counter.add"; longer names are cut. */
static inline void crti_blackboard_name(crti_blackboard_t *board, const char *text)
{
    char words[CRTI_BLACKBOARD_TEXT] = {0};
    uint64_t word,
        sequence = atomic_load_explicit(&board->sequence, memory_order_relaxed);

    for (size_t i = 0; i < sizeof(words) - 1 && text[i]; i++)
        words[i] = text[i];
    atomic_store_explicit(&board->sequence, sequence + 1, memory_order_relaxed);
    for (unsigned i = 0; i < CRTI_BLACKBOARD_WORDS; i++) {
        memcpy(&word, words + 8 * i, 8);
        atomic_store_explicit(&board->text[i], word, memory_order_relaxed);
    }
    atomic_store_explicit(&board->sequence, sequence + 2, memory_order_relaxed);
}

/* User code begins; the name was set before. */
static inline void crti_blackboard_enter(crti_blackboard_t *board)
{
    uint64_t calls = atomic_load_explicit(&board->calls, memory_order_relaxed);

    atomic_store_explicit(&board->calls, calls + 1, memory_order_relaxed);
    atomic_store_explicit(&board->running, 1, memory_order_relaxed);
}

/* A task begins that the caller (two words of its id) has sent in that record. A worker that is
 * killed amid this has said that any may have begun, or what was so before. */
static inline void crti_blackboard_begin(crti_blackboard_t *board, uint64_t high,
                                         uint64_t low, uint64_t record)
{
    bool is_same =
        atomic_load_explicit(&board->caller[0], memory_order_relaxed) == high &&
        atomic_load_explicit(&board->caller[1], memory_order_relaxed) == low;

    if (is_same && atomic_load_explicit(&board->begun, memory_order_relaxed) >= record)
        return;
    if (!is_same) {
        atomic_store_explicit(&board->begun, CRTI_BLACKBOARD_ANY, memory_order_release);
        atomic_store_explicit(&board->caller[0], high, memory_order_release);
        atomic_store_explicit(&board->caller[1], low, memory_order_release);
    }
    atomic_store_explicit(&board->begun, record, memory_order_release);
}

static inline void crti_blackboard_leave(crti_blackboard_t *board)
{
    atomic_store_explicit(&board->running, 0, memory_order_relaxed);
}

/* Reads the name of what runs into `text` (CRTI_BLACKBOARD_TEXT + 1 bytes). False, with text "",
 * when nothing runs. */
static inline bool crti_blackboard_read(const crti_blackboard_t *board, char *text)
{
    char words[CRTI_BLACKBOARD_TEXT];
    uint64_t word;

    text[0] = '\0';
    if (atomic_load_explicit(&board->running, memory_order_relaxed) != 1)
        return false;
    for (unsigned i = 0; i < CRTI_BLACKBOARD_WORDS; i++) {
        word = atomic_load_explicit(&board->text[i], memory_order_relaxed);
        memcpy(words + 8 * i, &word, 8);
    }
    for (unsigned i = 0; i < sizeof(words); i++) {
        text[i] = words[i];
        text[i + 1] = '\0';
        if (words[i] == '\0')
            break;
        if (words[i] < ' ' || words[i] > '~')
            text[i] = '?';
    }
    return true;
}

#endif
