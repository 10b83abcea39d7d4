/* SPDX-License-Identifier: Apache-2.0 */
/* Asking again. See patience.h. */
#include "cli/patience.h"

#include <stdio.h>

#include "cli/failure.h"
#include "runtime/base/clock.h"
#include "runtime/base/limit.h"

#define FIRST_PAUSE_MS 50
#define MOST_PAUSE_MS  1000
#define SAY_AFTER_MS   500
#define ENDED          (30 * CRTI_S)

/* What the failure was becomes what was waited for. */
static bool give_up(const char *waited)
{
    char why[512];

    snprintf(why, sizeof(why), "%s", crt_error_detail());
    crt_raise(CRT_ERR_TIMED_OUT, "%s; given up after %s", why, waited);
    return false;
}

static void pause_longer(patience_t *patience)
{
    patience->pause_ms = patience->pause_ms ? 2 * patience->pause_ms : FIRST_PAUSE_MS;
    if (patience->pause_ms > MOST_PAUSE_MS)
        patience->pause_ms = MOST_PAUSE_MS;
    nanosleep(&(struct timespec){patience->pause_ms / 1000,
                                 patience->pause_ms % 1000 * 1000000},
              NULL);
}

bool crti_patience_wait(patience_t *patience, const char *command, bool is_ended)
{
    int64_t now_ms = crti_now_ms();
    char said[CRTI_LIMIT_TEXT];
    crti_limits_t limits;
    uint64_t most;

    if (crti_limits_environment(&limits) != CRT_OK)
        return false;
    if (!patience->pause_ms)
        patience->since_ms = now_ms;
    if (!is_ended || !patience->ended_ms)
        patience->ended_ms = is_ended ? now_ms : 0;
    most = is_ended && limits.follow_timeout > ENDED ? ENDED : limits.follow_timeout;
    crti_limit_write(CRTI_LIMIT_TIME, most, said);
    if (now_ms - (is_ended ? patience->ended_ms : patience->since_ms) >=
        (int64_t)(most / CRTI_MS))
        return give_up(said);
    if (now_ms - patience->since_ms >= SAY_AFTER_MS && !patience->is_said) {
        crti_cli_fail(command, "%s; trying again for %s", crt_error_detail(), said);
        patience->is_said = true;
    }
    pause_longer(patience);
    return true;
}

void crti_patience_over(const patience_t *patience, const char *command)
{
    if (patience->is_said)
        fprintf(stderr, "%s: is answered again, and goes on\n", command);
}
