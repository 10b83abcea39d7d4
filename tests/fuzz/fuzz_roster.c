/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: what members of a group read from the control store (collective/roster.c): rosters,
 * and arrivals. What is accepted is encoded again, and must then be accepted once more. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "collective/roster.h"
#include "runtime/base/cleanup.h"

static void read_roster(const uint8_t *data, size_t size)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t bytes = {0};
    crti_roster_t roster = {0}, again = {0};

    if (crti_roster_decode(data, size, &roster) == CRT_OK) {
        if (crti_roster_encode(&roster, &bytes) != CRT_OK ||
            crti_roster_decode(bytes.data, bytes.size, &again) != CRT_OK ||
            again.size != roster.size || again.token != roster.token)
            abort();
        crti_roster_fini(&again);
    }
    crti_roster_fini(&roster);
}

static void read_arrival(const uint8_t *data, size_t size)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t bytes = {0};
    crti_arrival_t arrival, again;

    if (crti_arrival_decode(data, size, &arrival) == CRT_OK &&
        (crti_arrival_encode(&arrival, &bytes) != CRT_OK ||
         crti_arrival_decode(bytes.data, bytes.size, &again) != CRT_OK ||
         again.rank != arrival.rank))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_roster(data, size);
    read_arrival(data, size);
    return 0;
}

/* In each state, with and without members; the last is an arrival. */
size_t fuzz_seed(unsigned index, uint8_t *out, size_t room)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t bytes = {0};
    static crti_member_t members[3];
    static crti_id_t declared[3];
    static unsigned char left[3];
    crti_roster_t roster = {.token = 7,
                            .state = (crti_roster_state_t)(index + 1),
                            .size = 3,
                            .incarnation = 2,
                            .timeout_ms = 30000,
                            .backend = "shm"};
    crti_arrival_t arrival = {.size = 3, .rank = 1};

    if (roster.state == CRTI_ROSTER_DECLARED)
        roster.declared = declared;
    if (roster.state == CRTI_ROSTER_FORMED) {
        roster.members = members;
        roster.left = left;
    }
    if (index > 4 || (index < 4 ? crti_roster_encode(&roster, &bytes)
                                : crti_arrival_encode(&arrival, &bytes)) != CRT_OK)
        return 0;
    if (bytes.size > room)
        abort();
    memcpy(out, bytes.data, bytes.size);
    return bytes.size;
}
