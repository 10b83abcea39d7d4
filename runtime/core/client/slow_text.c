/* SPDX-License-Identifier: Apache-2.0 */
/* Slow text. See slow_text.h.
 *
 * Where it sits
 *     slow_waits.c -> [ slow_text.c ]
 * Trust: the JSON is the head's own; what is missing or odd makes a poorer sentence.
 */
#include "runtime/core/client/slow_text.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/number_text.h"

/* The text, or the digits, behind the first `"key":`; "" without one. An escape ends nothing. */
static const char *find(const char *json, const char *key, char *value, size_t size)
{
    char pattern[48];
    const char *at;
    size_t used = 0;
    bool is_text;

    snprintf(pattern, sizeof(pattern), "\"%s\":", key);
    at = strstr(json, pattern);
    value[0] = '\0';
    if (at == NULL)
        return value;
    at += strlen(pattern);
    is_text = *at == '"';
    at += is_text;
    while (*at && used + 1 < size && !strchr(is_text ? "\"" : ",}]", *at)) {
        at += *at == '\\' && at[1];
        value[used++] = *at++;
    }
    value[used] = '\0';
    return value;
}

void crti_slow_text_call(const char *json, int64_t wall_ms, char *text, size_t size)
{
    char state[32], node[40], pid[24], began[40], since[32];
    double ms;

    find(json, "state", state, sizeof(state));
    find(json, "node_id", node, sizeof(node));
    find(json, "worker_pid", pid, sizeof(pid));
    find(json, "RUNNING", began, sizeof(began));
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
        find(json, "how", how, sizeof(how));
        find(json, "from", node, sizeof(node));
        (void)crti_read_whole_number(find(json, "came", value, sizeof(value)), &came);
        (void)crti_read_whole_number(find(json, "for_ms", value, sizeof(value)), &ms);
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

    find(json, "state", state, sizeof(state));
    find(json, "class_name", name, sizeof(name));
    find(json, "message", message, sizeof(message));
    if (*state)
        snprintf(text, size, "actor %s is %s%s%s", name, state, *message ? ": " : "",
                 message);
    else
        snprintf(text, size, "the head does not know its actor");
}
