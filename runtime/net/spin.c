/* SPDX-License-Identifier: Apache-2.0 */
/* Spin: see spin.h. Hot path. */
#include "runtime/net/spin.h"

#include "runtime/base/clock.h"
#include "runtime/base/limit.h"

#define SPIN_LOOKS     16 /* between two looks at the clock */
#define SPIN_MISSES    3
#define SPIN_PAUSE_MAX 1024
#define CACHE_LINE     64

/* The cache line of the word and those of what it tells of are on their way at the same time: when
 * the word is seen the rest has nearly come, too. */
static bool has_changed(const crti_progress_word_t *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t word = __atomic_load_n(words[i].word, __ATOMIC_RELAXED);

        __builtin_prefetch(words[i].input);
        __builtin_prefetch((const void *)((uintptr_t)words[i].input + CACHE_LINE));
        if (word != words[i].seen)
            return true;
    }
    return false;
}

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

bool crti_spin_watch(crti_spin_t *spin, const crti_progress_word_t *words, size_t count)
{
    uint64_t span = spin->is_long ? CRTI_LIMIT(wait_spin_long) : CRTI_LIMIT(wait_spin);
    uint64_t until;

    spin->began = spin->now = crti_now_ns();
    until = spin->began + span;
    do {
        for (int i = 0; i < SPIN_LOOKS; i++) {
            if (has_changed(words, count) ||
                __atomic_load_n(&spin->stop, __ATOMIC_RELAXED))
                return true;
            relax();
        }
        spin->now = crti_now_ns();
    } while (spin->now < until);
    return false;
}

void crti_spin_learn(crti_spin_t *spin, bool hit)
{
    if (hit) {
        spin->misses = 0;
        spin->pause = CRTI_SPIN_PAUSE_MIN;
        return;
    }
    spin->is_long = false;
    spin->has_missed = true;
    if (++spin->misses >= SPIN_MISSES) {
        spin->misses = SPIN_MISSES - 1; /* one more is enough next time */
        spin->skip = spin->pause;
        spin->pause = spin->pause * 2 < SPIN_PAUSE_MAX ? spin->pause * 2 : SPIN_PAUSE_MAX;
    }
}

void crti_spin_look_back(crti_spin_t *spin)
{
    if (spin->has_missed)
        spin->is_long = crti_now_ns() - spin->began < CRTI_LIMIT(wait_spin_long);
    spin->has_missed = false;
}
