/* SPDX-License-Identifier: Apache-2.0 */
/* Members: waits for actors that need CPUs or GPUs, and says what they wait for.
 *
 * Where it sits
 *     fit.c, fit_server.c, programs -> [ actors/members.c ] -> crt_actor_ready, the head's state
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "actors/members.h"
#include "runtime/base/clock.h"
#include "runtime/base/json_find.h"

#define HOLDERS_TEXT 400
#define PARTS        10000 /* of one GPU */

/* ---------------------------------------------------------------- who holds GPUs */

/* An amount of a resource, in its smallest parts. */
static int64_t parts_of(const char *text)
{
    int64_t parts = strtoll(text, NULL, 10) * PARTS, unit = PARTS / 10;

    text += strspn(text, "0123456789");
    if (*text == '.')
        for (text++; *text >= '0' && *text <= '9'; text++, unit /= 10)
            parts += (*text - '0') * unit;
    return parts;
}

/* The parts of GPUs that an actor has, whose row of the state ends at `end`; 0: none, or no
 * process. */
static int64_t read_holder(const char *row, const char *end, char *text, size_t size)
{
    char state[32], name[100], pid[24], gpu[32];

    crti_json_find(row, end, "state", state, sizeof(state));
    crti_json_find(row, end, "class_name", name, sizeof(name));
    crti_json_find(row, end, "pid", pid, sizeof(pid));
    crti_json_find(row, end, "GPU", gpu, sizeof(gpu));
    if (!*gpu || !*pid || !*name || !*state || strncmp(state, "PENDING", 7) == 0 ||
        strcmp(state, "DEAD") == 0 || strcmp(state, "RESTARTING") == 0)
        return 0;
    snprintf(text, size, "%s (pid %s) has %s", name, pid, gpu);
    return parts_of(gpu);
}

static void add(char *text, const char *more)
{
    size_t used = strlen(text);

    snprintf(text + used, HOLDERS_TEXT - used, "%s%s", used ? ", " : ": ", more);
}

/* Actors that have GPUs, by name; returns how many parts of them. */
static int64_t list_holders(const char *json, char text[HOLDERS_TEXT])
{
    const char *row = strstr(json, "\"actor_id\""), *next;
    int64_t all = 0, others = 0;
    char one[160];

    for (; row; row = next) {
        int64_t held;

        next = strstr(row + 1, "\"actor_id\"");
        held = read_holder(row, next, one, sizeof(one));
        all += held;
        if (held > 0 && strlen(text) + strlen(one) + 40 < HOLDERS_TEXT)
            add(text, one);
        else
            others += held > 0;
    }
    snprintf(one, sizeof(one), "and %lld others", (long long)others);
    if (others > 0)
        add(text, one);
    return all;
}

/* Of the parts of GPUs that are not free. */
static void tell_holders(int64_t taken, char text[HOLDERS_TEXT])
{
    char *json;

    *text = '\0';
    if (taken <= 0 || crt_cluster_state("actors", &json) != CRT_OK)
        return;
    if (list_holders(json, text) < taken)
        add(text, "the rest is for tasks or placement groups");
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
    tell_holders((int64_t)((all_gpus - free_gpus) * PARTS + 0.5), holders);
    return crt_raise(CRT_ERR_TIMED_OUT,
                     "%s within %g s: each needs %g CPU and %g GPU, and %g of %g CPU and "
                     "%g of %g GPU are free%s",
                     what, seconds, cpus, gpus, free_cpus, all_cpus, free_gpus, all_gpus,
                     holders);
}

/* ---------------------------------------------------------------- waiting */

crt_status_t crt_members_ready(crt_actor_t *const *members, int count, double cpus,
                               double gpus, int64_t limit_ms)
{
    int64_t end = crti_now_ms() + limit_ms;

    for (int i = 0; i < count; i++) {
        int64_t left = end - crti_now_ms();
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
