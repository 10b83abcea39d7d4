/* SPDX-License-Identifier: Apache-2.0 */
/* What the cluster has: asked from inside a job, printed node by node.
 *
 *     crt job submit -- ./cluster_resources
 *     crt run --nodes 3 --resources disk=2 -- ./cluster_resources
 *
 * The state of a cluster is JSON (docs/design/state.md); any library reads it, here jansson.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <crt.h>
#include <jansson.h>

/* One line for every resource: "CPU 3.5 of 4 free". */
static void print_resources(json_t *total, json_t *available)
{
    const char *name;
    json_t *amount;

    json_object_foreach(total, name, amount)
    {
        double left = json_number_value(json_object_get(available, name));

        printf("    %-8s %g of %g free\n", name, left, json_number_value(amount));
    }
}

/* Adds the amounts of one node to those of all. */
static void add_resources(json_t *sum, json_t *node)
{
    const char *name;
    json_t *amount;

    json_object_foreach(node, name, amount)
    {
        double before = json_number_value(json_object_get(sum, name));

        json_object_set_new(sum, name, json_real(before + json_number_value(amount)));
    }
}

static void print_cluster(json_t *nodes)
{
    json_t *all = json_object(), *all_free = json_object();

    for (size_t i = 0; i < json_array_size(nodes); i++) {
        json_t *node = json_array_get(nodes, i), *total, *available;
        const char *id, *state, *host;

        if (json_unpack(node, "{s:s, s:s, s:s, s:o, s:o}", "node_id", &id, "state",
                        &state, "hostname", &host, "resources_total", &total,
                        "resources_available", &available) != 0 ||
            strcmp(state, "ALIVE") != 0)
            continue;
        printf("node %.8s on %s%s\n", id, host,
               strcmp(id, crt_node_id()) == 0 ? ", where this job's driver runs" : "");
        print_resources(total, available);
        add_resources(all, total);
        add_resources(all_free, available);
    }
    printf("the cluster\n");
    print_resources(all, all_free);
    json_decref(all);
    json_decref(all_free);
}

static int driver(int argc, char **argv)
{
    char *text;
    json_t *nodes;

    CRT_CHECK(crt_cluster_state("nodes", &text));
    nodes = json_loads(text, 0, NULL);
    print_cluster(nodes);
    json_decref(nodes);
    crt_free(text);
    return 0;
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv, CRT_OPTIONS(), driver);
}
