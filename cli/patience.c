/* SPDX-License-Identifier: Apache-2.0 */
/* Asking again. See patience.h. */
#include "cli/patience.h"

#include <stdio.h>

#include "cli/failure.h"
#include "runtime/base/clock.h"

#define FIRST_PAUSE_MS 50
#define MOST_PAUSE_MS  1000
#define SAY_AFTER_MS   500
#define GIVE_UP_S      30

bool crti_patience_wait(patience_t *patience, const char *command)
{
    int64_t now_ms = crti_now_ms(), waited_ms;
    char why[512];

    if (!patience->pause_ms)
        patience->since_ms = now_ms;
    waited_ms = now_ms - patience->since_ms;
    if (waited_ms >= GIVE_UP_S * 1000) {
        snprintf(why, sizeof(why), "%s", crt_error_detail());
        crt_raise(CRT_ERR_TIMED_OUT, "%s; given up after %d s", why, GIVE_UP_S);
        return false;
    }
    if (waited_ms >= SAY_AFTER_MS && !patience->is_said) {
        crti_cli_fail(command, "%s; trying again for %d s", crt_error_detail(),
                      GIVE_UP_S);
        patience->is_said = true;
    }
    patience->pause_ms = patience->pause_ms ? 2 * patience->pause_ms : FIRST_PAUSE_MS;
    if (patience->pause_ms > MOST_PAUSE_MS)
        patience->pause_ms = MOST_PAUSE_MS;
    nanosleep(&(struct timespec){patience->pause_ms / 1000,
                                 patience->pause_ms % 1000 * 1000000},
              NULL);
    return true;
}
