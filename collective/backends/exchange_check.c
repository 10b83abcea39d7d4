/* SPDX-License-Identifier: Apache-2.0 */
/* The check: every member compares its call with others', in log2(n) rounds of messages without
 * bytes that run beside all else. Without I/O: exchange.c sends them. See exchange.h.
 */
#include "collective/backends/exchange_int.h"

/* Round i of the check goes to the member 2^i further on. */
static int check_peer(const crti_exchange_t *x, int round, int direction)
{
    int step = (1 << round) % x->check.size;

    return x->check
        .ranks[(x->check.rank + (direction > 0 ? step : x->check.size - step)) %
               x->check.size];
}

bool crti_exchange_check_due(crti_exchange_t *x, int *to_out, uint64_t *round_out)
{
    if (x->check.next >= x->check.rounds || !(x->check.arrived & (1u << x->check.next)) ||
        ++x->check.next == x->check.rounds)
        return false;
    *to_out = check_peer(x, x->check.next, 1);
    *round_out = CHECK_ROUND | (unsigned)x->check.next;
    return true;
}

bool crti_exchange_check_arrived(crti_exchange_t *x, int rank, uint64_t round)
{
    uint64_t i = round & ~CHECK_ROUND;

    if (i >= (uint64_t)x->check.rounds || check_peer(x, (int)i, -1) != rank ||
        (x->check.arrived & (1u << i)))
        return false;
    x->check.arrived |= 1u << i;
    x->peers[rank].came_to = x->call.sequence + 1;
    return true;
}

int crti_exchange_check_begin(crti_exchange_t *x, const int *ranks, int size, int rank)
{
    int rounds = 0;

    while (1 << rounds < size)
        rounds++;
    x->check.ranks = ranks;
    x->check.size = size;
    x->check.rank = rank;
    x->check.rounds = rounds;
    x->check.next = 0;
    x->check.arrived = 0;
    return rounds;
}

int crti_exchange_check_to(const crti_exchange_t *x, int round)
{
    return check_peer(x, round, 1);
}

int crti_exchange_check_from(const crti_exchange_t *x, int round)
{
    return check_peer(x, round, -1);
}

bool crti_exchange_check_waits_for(const crti_exchange_t *x, int rank)
{
    for (int i = 0; i < x->check.rounds; i++)
        if (!(x->check.arrived & (1u << i)) && check_peer(x, i, -1) == rank)
            return true;
    return false;
}
