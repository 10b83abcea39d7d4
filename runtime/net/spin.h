/* SPDX-License-Identifier: Apache-2.0 */
/* Spin: watching words of other processes for a moment before a sleep, and whether that pays.
 *
 * Where it sits
 *     progress (a waiter that found nothing) -> [ spin ] -> words in the memory of lanes
 * Threads
 *     Everything under progress's lock, but crti_spin_watch, which reads the words and `stop`. See
 *     progress.h for how long and how often.
 */
#ifndef CRTI_NET_SPIN_H
#define CRTI_NET_SPIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CRTI_SPIN_WORDS     8  /* are watched at most */
#define CRTI_SPIN_PAUSE_MIN 16 /* waits without a spin after some in vain */

/* A word in memory that another process changes; read without the lock. It stays mapped until the
 * holder of the token buries removed sources. */
typedef struct crti_progress_word {
    const uint64_t *word;
    uint64_t seen;
    const void *input; /* where that will lie which the word tells of */
} crti_progress_word_t;

/* Whether to spin before a sleep, learned from how that went lately. */
typedef struct crti_spin {
    int cores; /* of the machine, not those that we are bound to; 0 before the first spin */
    uint64_t count;  /* how often a waiter spun */
    bool is_on;      /* a waiter spins now, without the lock */
    uint32_t stop;   /* 1: it shall look again */
    bool is_long;    /* spin longer: what came lately came soon after the shorter spin */
    bool has_missed; /* the last spin, which `began` then, was in vain */
    uint64_t began;
    uint64_t now; /* the last time that the last spin read */
    int misses;   /* on end */
    int skip;     /* so many sleeps more without spinning */
    int pause;    /* next value of skip */
} crti_spin_t;

/* Without the lock. True when a word changed or another thread asks for a check. */
bool crti_spin_watch(crti_spin_t *spin, const crti_progress_word_t *words, size_t count);

void crti_spin_learn(crti_spin_t *spin, bool hit);

/* After the sleep that followed a miss: would a longer spin have met what came? */
void crti_spin_look_back(crti_spin_t *spin);

#endif
