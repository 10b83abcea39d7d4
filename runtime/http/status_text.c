/* SPDX-License-Identifier: Apache-2.0 */
/* The text of GET /api/cluster_status?format=1, in the form of `ray status`, which scripts parse:
 * headings, separators and the lines of usage are Ray's, the rest is ours. See views.h. */
#include "runtime/http/views.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const char line[] =
    "---------------------------------------------------------------";

static void CRT_PRINTF(2, 3) say(crti_buffer_t *out, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    /* Out of memory cuts the text; the caller checks at the end. */
    if (crti_buffer_append(out, text, strlen(text)) != CRT_OK)
        return;
}

static bool is_alive(const json_t *node)
{
    return strcmp(crti_view_text(node, "state"), "ALIVE") == 0;
}

static bool is_bytes(const char *name)
{
    return strcmp(name, "memory") == 0 || strcmp(name, "object_store_memory") == 0;
}

static void say_bytes(crti_buffer_t *out, double bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    int unit = -1;

    while (bytes >= 1024 && unit < 3) {
        bytes /= 1024;
        unit++;
    }
    if (unit < 0)
        say(out, "%.0fB", bytes);
    else
        say(out, "%.2f%s", bytes, units[unit]);
}

static void say_usage(crti_buffer_t *out, const char *name, double used, double total)
{
    say(out, " ");
    if (is_bytes(name)) {
        say_bytes(out, used);
        say(out, "/");
        say_bytes(out, total);
    } else {
        say(out, "%.1f/%.1f", used, total);
    }
    say(out, " %s\n", name);
}

static void say_nodes(crti_buffer_t *out, const json_t *nodes)
{
    size_t living = 0, dead = 0;

    say(out, "Node status\n%s\nActive:\n", line);
    for (size_t i = 0; i < json_array_size(nodes); i++) {
        const json_t *node = json_array_get(nodes, i);

        if (!is_alive(node))
            continue;
        living++;
        say(out, " 1 node_%s\n", crti_view_text(node, "node_id"));
    }
    if (!living)
        say(out, " (no active nodes)\n");
    say(out, "Pending:\n (no pending nodes)\nRecent failures:\n");
    for (size_t i = 0; i < json_array_size(nodes); i++) {
        const json_t *node = json_array_get(nodes, i);

        if (strcmp(crti_view_text(node, "state"), "DEAD") != 0)
            continue;
        dead++;
        say(out, " node_%s: %s\n", crti_view_text(node, "node_id"),
            crti_view_text(node, "state_message"));
    }
    if (!dead)
        say(out, " (no failures)\n");
}

static double amount_of(const json_t *node, const char *which, const char *name)
{
    return json_number_value(json_object_get(json_object_get(node, which), name));
}

/* Sums one resource over the living nodes and prints it where it is first seen. */
static void say_resource(crti_buffer_t *out, const json_t *nodes, size_t first,
                         const char *name)
{
    double total = 0, available = 0;

    for (size_t i = 0; i < json_array_size(nodes); i++) {
        const json_t *node = json_array_get(nodes, i);

        if (!is_alive(node))
            continue;
        if (i < first && json_object_get(json_object_get(node, "resources_total"), name))
            return;
        total += amount_of(node, "resources_total", name);
        available += amount_of(node, "resources_available", name);
    }
    say_usage(out, name, total - available, total);
}

static void say_resources(crti_buffer_t *out, const json_t *nodes)
{
    double used = 0, total = 0;

    say(out, "\nResources\n%s\nTotal Usage:\n", line);
    for (size_t i = 0; i < json_array_size(nodes); i++) {
        const json_t *node = json_array_get(nodes, i);
        const char *name;
        json_t *amount;

        if (!is_alive(node))
            continue;
        used += json_number_value(json_object_get(node, "store_used"));
        total += json_number_value(json_object_get(node, "store_bytes"));
        json_object_foreach(json_object_get(node, "resources_total"), name, amount)
        {
            if (strncmp(name, "node:", 5) != 0) /* as many as there are nodes */
                say_resource(out, nodes, i, name);
        }
    }
    if (total > 0)
        say_usage(out, "object_store_memory", used, total);
}

static void say_memory(crti_buffer_t *out, const json_t *nodes)
{
    say(out, "\nMemory:\n");
    for (size_t i = 0; i < json_array_size(nodes); i++) {
        const json_t *node = json_array_get(nodes, i);
        double ended = json_number_value(json_object_get(node, "memory_ended"));

        if (!is_alive(node))
            continue;
        say(out, " ");
        say_bytes(out, json_number_value(json_object_get(node, "memory_used")));
        say(out, "/");
        say_bytes(out, json_number_value(json_object_get(node, "memory_bytes")));
        say(out, " node_%s", crti_view_text(node, "node_id"));
        if (ended > 0)
            say(out, " (%.0f workers ended for lack of it)", ended);
        say(out, "\n");
    }
}

static void say_demand(crti_buffer_t *out, const json_t *demand)
{
    say(out, "\nFrom request_resources:\n (none)\nPending Demands:\n");
    if (json_array_size(demand) == 0)
        say(out, " (no resource demands)\n");
    for (size_t i = 0; i < json_array_size(demand); i++) {
        const json_t *entry = json_array_get(demand, i);
        const char *name, *separator = "";
        json_t *amount;

        say(out, " {");
        json_object_foreach(json_object_get(entry, "resources"), name, amount)
        {
            say(out, "%s'%s': %.10g", separator, name, json_number_value(amount));
            separator = ", ";
        }
        say(out, "}: %lld+ pending tasks/actors",
            (long long)json_integer_value(json_object_get(entry, "count")));
        if (*crti_view_text(entry, "reason"))
            say(out, " (%s)", crti_view_text(entry, "reason"));
        say(out, "\n");
    }
}

static void say_counts(crti_buffer_t *out, const char *heading, const json_t *counts)
{
    const char *state;
    json_t *count;

    say(out, "\n%s:\n", heading);
    if (json_object_size(counts) == 0)
        say(out, " (none)\n");
    json_object_foreach((json_t *)counts, state, count)
        say(out, " %lld %s\n", (long long)json_integer_value(count), state);
}

crt_status_t crti_status_text(const json_t *cluster, crti_buffer_t *out)
{
    const json_t *nodes = json_object_get(cluster, "nodes");
    char when[64];
    struct timespec now;
    struct tm local;

    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &local);
    strftime(when, sizeof(when), "%F %T", &local);
    say(out, "======== Autoscaler status: %s.%06ld ========\n", when, now.tv_nsec / 1000);
    say_nodes(out, nodes);
    say_resources(out, nodes);
    say_demand(out, json_object_get(cluster, "demand"));
    say_memory(out, nodes);
    say_counts(out, "Actors", json_object_get(cluster, "actors"));
    say_counts(out, "Jobs", json_object_get(cluster, "jobs"));
    /* Room for one byte more: memory was there for all of it. */
    return crti_buffer_reserve(out, 1);
}
