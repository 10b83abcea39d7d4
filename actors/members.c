/* SPDX-License-Identifier: Apache-2.0 */
/* Members: waits for actors that need CPUs or GPUs, and says what they wait for.
 *
 * Where it sits
 *     fit.c, fit_server.c, programs -> [ actors/members.c ] -> crt_actor_ready, the head's state
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "actors/members.h"

#define HOLDERS_TEXT 400

/* ---------------------------------------------------------------- who holds GPUs */

/* What follows a key in a row of the state, which ends at `end`; NULL: it has none. Quotes within
 * texts are escaped there, so no text looks like a key. */
static const char *value_of(const char *row, const char *end, const char *key)
{
    const char *at = strstr(row, key);

    if (!at || at >= end)
        return NULL;
    at += strlen(key);
    return at + strspn(at, " :\"");
}

/* One of the actors that have a process; what it has of a GPU. */
static double read_holder(const char *row, const char *end, char *text, size_t size)
{
    const char *state = value_of(row, end, "\"state\"");
    const char *name = value_of(row, end, "\"class_name\"");
    const char *pid = value_of(row, end, "\"pid\"");
    const char *needs = value_of(row, end, "\"required_resources\"");
    const char *gpu = needs ? value_of(needs, end, "\"GPU\"") : NULL;
    double held = gpu ? strtod(gpu, NULL) : 0;

    if (!state || !name || !pid || !(held > 0) || strncmp(state, "PENDING", 7) == 0 ||
        strncmp(state, "DEAD", 4) == 0 || strncmp(state, "RESTARTING", 10) == 0)
        return 0;
    snprintf(text, size, "%.*s (pid %.*s) has %g", (int)strcspn(name, "\""), name,
             (int)strcspn(pid, " ,}"), pid, held);
    return held;
}

static void add(char *text, const char *separator, const char *more)
{
    size_t used = strlen(text);

    snprintf(text + used, HOLDERS_TEXT - used, "%s%s", used ? separator : "", more);
}

/* Of all that is held, `taken`: actors by name, and what is left for tasks and groups. */
static void list_holders(const char *json, double taken, char text[HOLDERS_TEXT])
{
    const char *row = strstr(json, "\"actor_id\""), *next;
    char one[160];

    *text = '\0';
    for (; row; row = next) {
        double held;

        next = strstr(row + 1, "\"actor_id\"");
        held = read_holder(row, next ? next : row + strlen(row), one, sizeof(one));
        if (!(held > 0))
            continue;
        taken -= held;
        if (strlen(text) + strlen(one) + 40 < HOLDERS_TEXT)
            add(text, ", ", one);
        else if (strcmp(text + strlen(text) - 3, "...") != 0)
            add(text, ", ", "...");
    }
    if (taken > 1e-6) {
        snprintf(one, sizeof(one), "tasks or placement groups have %g", taken);
        add(text, ", ", one);
    }
}

static void read_holders(double taken, char text[HOLDERS_TEXT])
{
    char *json;

    *text = '\0';
    if (!(taken > 1e-6) || crt_cluster_state("actors", &json) != CRT_OK)
        return;
    list_holders(json, taken, text);
    crt_free(json);
}

crt_status_t crti_members_missing(const char *what, double cpus, double gpus,
                                  int64_t limit_ms)
{
    double all_cpus = 0, free_cpus = 0, all_gpus = 0, free_gpus = 0;
    double seconds = (double)limit_ms / 1000;
    char holders[HOLDERS_TEXT];

    if (crt_resource_total("CPU", &all_cpus, &free_cpus) != CRT_OK ||
        crt_resource_total("GPU", &all_gpus, &free_gpus) != CRT_OK)
        return crt_raise(CRT_ERR_TIMED_OUT, "%s within %g s", what, seconds);
    if (!(gpus > 0))
        return crt_raise(CRT_ERR_TIMED_OUT,
                         "%s within %g s: each needs %g CPU, and %g of %g are free", what,
                         seconds, cpus, free_cpus, all_cpus);
    read_holders(all_gpus - free_gpus, holders);
    return crt_raise(CRT_ERR_TIMED_OUT,
                     "%s within %g s: each needs %g CPU and %g GPU, and %g of %g CPU and "
                     "%g of %g GPU are free%s%s",
                     what, seconds, cpus, gpus, free_cpus, all_cpus, free_gpus, all_gpus,
                     *holders ? ": " : "", holders);
}

/* ---------------------------------------------------------------- waiting */

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

crt_status_t crt_members_ready(crt_actor_t *const *members, int count, double cpus,
                               double gpus, int64_t limit_ms)
{
    int64_t end = now_ms() + limit_ms;

    for (int i = 0; i < count; i++) {
        int64_t left = end - now_ms();
        crt_status_t status = crt_actor_ready(members[i], left > 0 ? left : 0);
        char what[80];

        if (status == CRT_ERR_TIMED_OUT) {
            snprintf(what, sizeof(what), "member %d of %d did not come", i + 1, count);
            return crti_members_missing(what, cpus, gpus, limit_ms);
        }
        if (status != CRT_OK)
            return status;
    }
    return CRT_OK;
}
