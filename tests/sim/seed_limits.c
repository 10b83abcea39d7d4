/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of a seed. See seed_limits.h. */
#include "tests/sim/seed_limits.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/limit.h"

#define SMALLEST 8.0 /* a limit is at least this part of its default, */
#define LARGEST  4.0 /* and at most so many times as large */
#define TRIES    1000

/* SplitMix64. */
static uint64_t next(uint64_t *chance)
{
    uint64_t z = *chance += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static double part(uint64_t *chance)
{
    return (double)(next(chance) >> 11) / (double)(UINT64_C(1) << 53);
}

/* As likely to be half as large as twice as large. */
static uint64_t draw_one(const crti_limit_t *limit, uint64_t *chance)
{
    double low = (double)limit->standard / SMALLEST,
           high = (double)limit->standard * LARGEST;

    low = low < (double)limit->least ? (double)limit->least : low;
    high = high > (double)limit->most ? (double)limit->most : high;
    return low < 1 ? limit->standard
                   : (uint64_t)(low * pow(high / low, part(chance)) + 0.5);
}

static void draw(crti_limits_t *limits, uint64_t *chance)
{
    const crti_limit_t *limit;

    crti_limits_defaults(limits);
    for (size_t i = 0; (limit = crti_limit_at(i)) != NULL; i++) {
        bool is_drawn = next(chance) % 4 == 0;
        uint64_t value = draw_one(limit, chance);

        if (is_drawn)
            *crti_limit_in(limits, limit) = value;
    }
}

/* One seed of four has the defaults. */
static void choose(uint64_t seed, crti_limits_t *limits)
{
    const char *is_wanted = getenv("CRT_DRAW_LIMITS");
    uint64_t chance = seed * UINT64_C(0xd1342543de82ef95) + 1;

    crti_limits_defaults(limits);
    if ((is_wanted && strcmp(is_wanted, "0") == 0) || next(&chance) % 4 == 0)
        return;
    for (int i = 0; i < TRIES; i++) {
        draw(limits, &chance);
        if (crti_limits_check(limits) == CRT_OK)
            return;
    }
    crti_limits_defaults(limits);
}

void sim_limits_draw(uint64_t seed)
{
    crti_limits_t limits;

    choose(seed, &limits);
    crti_limits_set(&limits);
}

void sim_limits_text(uint64_t seed, char *text, size_t size)
{
    const crti_limit_t *limit;
    crti_limits_t limits;
    size_t used = 0;

    choose(seed, &limits);
    text[0] = '\0';
    for (size_t i = 0; (limit = crti_limit_at(i)) != NULL && used < size; i++) {
        uint64_t value = *crti_limit_in(&limits, limit);
        char said[CRTI_LIMIT_TEXT];

        crti_limit_write(limit->unit, value, said);
        if (value != limit->standard)
            used += (size_t)snprintf(text + used, size - used, "%s%s=%s", used ? " " : "",
                                     limit->name, said);
    }
}

uint64_t sim_limits_slack(void)
{
    crti_limits_t standard;

    crti_limits_defaults(&standard);
    return memcmp(&standard, &crti_limits_here, sizeof(standard)) == 0
               ? 1
               : (uint64_t)LARGEST;
}
