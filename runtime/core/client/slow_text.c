/* SPDX-License-Identifier: Apache-2.0 */
/* Slow text. See slow_text.h.
 *
 * Where it sits
 *     slow_waits.c -> [ slow_text.c ]
 */
#include "runtime/core/client/slow_text.h"

#include <stdio.h>
#include <string.h>

#include "runtime/base/json_find.h"
#include "runtime/base/number_text.h"

void crti_slow_text_call(const char *json, int64_t wall_ms, char *text, size_t size)
{
    char state[32], node[40], pid[24], began[40], since[32];
    double ms;

    crti_json_find(json, NULL, "state", state, sizeof(state));
    crti_json_find(json, NULL, "node_id", node, sizeof(node));
    crti_json_find(json, NULL, "worker_pid", pid, sizeof(pid));
    crti_json_find(json, NULL, "RUNNING", began, sizeof(began));
    if (strcmp(state, "RUNNING") == 0 && crti_read_whole_number(began, &ms)) {
        crti_format(since, sizeof(since), "%.1f", ((double)wall_ms - ms) / 1000);
        snprintf(text, size, "it has run for %s s in process %s of node %.8s", since, pid,
                 node);
    } else if (*pid && strcmp(pid, "0") != 0) {
        snprintf(text, size, "it waits for its turn in process %s of node %.8s", pid,
                 node);
    } else {
        snprintf(text, size, "it was sent to a worker, which has not told of it");
    }
}

void crti_slow_text_transfer(const char *json, size_t bytes, char *text, size_t size)
{
    const double mib = 1 << 20;
    char how[16] = "", value[40] = "", node[40] = "";
    double came = 0, ms = 0;

    if (json) {
        crti_json_find(json, NULL, "how", how, sizeof(how));
        crti_json_find(json, NULL, "from", node, sizeof(node));
        (void)crti_read_whole_number(
            crti_json_find(json, NULL, "came", value, sizeof(value)), &came);
        (void)crti_read_whole_number(
            crti_json_find(json, NULL, "for_ms", value, sizeof(value)), &ms);
    }
    if (strcmp(how, "disk") == 0)
        snprintf(text, size, "its %zu bytes are read from disk", bytes);
    else if (strcmp(how, "room") == 0)
        snprintf(text, size, "its %zu bytes are to be fetched, and the store has no room",
                 bytes);
    else if (strcmp(how, "node") == 0 && ms > 0)
        crti_format(text, size,
                    "%.1f of its %.1f MiB have come from node %.8s in %.1f s, %.2f MiB/s",
                    came / mib, (double)bytes / mib, node, ms / 1e3,
                    came / mib / (ms / 1e3));
    else
        snprintf(text, size, "its %zu bytes are fetched from another node", bytes);
}

void crti_slow_text_actor(const char *json, char *text, size_t size)
{
    char state[32], name[64], message[400];

    crti_json_find(json, NULL, "state", state, sizeof(state));
    crti_json_find(json, NULL, "class_name", name, sizeof(name));
    crti_json_find(json, NULL, "message", message, sizeof(message));
    if (*state)
        snprintf(text, size, "actor %s is %s%s%s", name, state, *message ? ": " : "",
                 message);
    else
        snprintf(text, size, "the head does not know its actor");
}
