/* SPDX-License-Identifier: Apache-2.0 */
/* What the runs of a sweep were seen to need, and how many of them fit at a time. See sweep.h. */
#include <string.h>

#include "cli/job_view.h"
#include "cli/sweep.h"

/* A list of the state API; NULL: it can't be read, raised. */
static json_t *list_of(http_client_t *client, const char *path)
{
    json_t *answer = crti_client_json(client, "GET", path, NULL, NULL);
    json_t *list = json_object_get(
        json_object_get(json_object_get(answer, "data"), "result"), "result");

    json_incref(list);
    json_decref(answer);
    return list;
}

static void add(json_t *sum, const json_t *resources)
{
    const char *name;
    json_t *amount;

    json_object_foreach((json_t *)(uintptr_t)resources, name, amount)
        json_object_set_new(sum, name,
                            json_real(json_number_value(json_object_get(sum, name)) +
                                      json_number_value(amount)));
}

static void raise_to(json_t *most, const json_t *now)
{
    const char *name;
    json_t *amount;

    json_object_foreach((json_t *)(uintptr_t)now, name,
                        amount) if (json_number_value(amount) >
                                    json_number_value(json_object_get(most, name)))
        json_object_set_new(most, name, json_incref(amount));
}

/* Actors of a group run on what the group holds. */
static void add_actors(json_t *sum, json_t *actors)
{
    json_t *actor;
    size_t i;

    json_array_foreach(
        actors, i, actor) if (strcmp(crti_cli_job_text(actor, "state"), "DEAD") != 0 &&
                              !*crti_cli_job_text(actor, "placement_group_id"))
        add(sum, json_object_get(actor, "required_resources"));
}

static void add_groups(json_t *sum, json_t *groups)
{
    json_t *group, *bundle;
    size_t i, k;

    json_array_foreach(
        groups, i, group) if (strcmp(crti_cli_job_text(group, "state"), "REMOVED") != 0)
        json_array_foreach(json_object_get(group, "bundles"), k, bundle)
            add(sum, json_object_get(bundle, "resources"));
}

static crt_status_t see(const sweep_t *sweep, sweep_run_t *run, http_client_t *client)
{
    char path[256];
    json_t *actors, *groups, *now;

    snprintf(
        path, sizeof(path),
        "/api/v0/actors?limit=10000&detail=1&filter_keys=job_id&filter_predicates=%%3D"
        "&filter_values=%s",
        run->job);
    actors = list_of(client, path);
    if (!actors)
        return CRT_ERR_IO;
    snprintf(path, sizeof(path),
             "/api/v0/placement_groups?limit=10000&detail=1&filter_keys=creator_job_id"
             "&filter_predicates=%%3D&filter_values=%s",
             run->job);
    groups = list_of(client, path);
    now = json_object();
    add(now, sweep->entry);
    add_actors(now, actors);
    add_groups(now, groups);
    if (!run->needs)
        run->needs = json_object();
    raise_to(run->needs, now);
    json_decref(now);
    json_decref(actors);
    json_decref(groups);
    return groups ? CRT_OK : CRT_ERR_IO;
}

crt_status_t crti_sweep_see_needs(sweep_t *sweep, http_client_t *client)
{
    crt_status_t status = CRT_OK;

    for (size_t i = 0; i < sweep->count && status == CRT_OK; i++)
        if (sweep->runs[i].state == SWEEP_RUNNING && sweep->runs[i].job[0])
            status = see(sweep, &sweep->runs[i], client);
    return status;
}

/* What one run needs at most. NULL: none has come to its end, so that it is not known. */
static json_t *need_of_one(const sweep_t *sweep)
{
    json_t *most = json_object();
    bool is_known = false;

    for (size_t i = 0; i < sweep->count; i++) {
        is_known = is_known || sweep->runs[i].state == SWEEP_SUCCEEDED ||
                   sweep->runs[i].state == SWEEP_EARLY;
        raise_to(most, sweep->runs[i].needs);
    }
    if (is_known)
        return most;
    json_decref(most);
    return NULL;
}

/* Of all nodes; on the head's host run the programs that ask for nothing. */
static crt_status_t read_nodes(http_client_t *client, json_t *total, double *cpus_of_head)
{
    json_t *nodes = list_of(client, "/api/v0/nodes?limit=10000"), *node;
    size_t i;

    if (!nodes)
        return CRT_ERR_IO;
    json_array_foreach(nodes, i, node)
    {
        const json_t *has = json_object_get(node, "resources_total");

        if (strcmp(crti_cli_job_text(node, "state"), "ALIVE") != 0)
            continue;
        add(total, has);
        if (json_is_true(json_object_get(node, "is_head_node")))
            *cpus_of_head += json_number_value(json_object_get(has, "CPU"));
    }
    json_decref(nodes);
    return CRT_OK;
}

size_t crti_sweep_fitting(const sweep_t *sweep, http_client_t *client)
{
    json_t *need = need_of_one(sweep), *total = json_object(), *amount;
    double fitting = 0, cpus_of_head = 0;
    const char *name;

    if (need && read_nodes(client, total, &cpus_of_head) == CRT_OK) {
        fitting = json_object_size(sweep->entry) ? SWEEP_RUNS_MAX : cpus_of_head;
        json_object_foreach(need, name, amount)
        {
            double has = json_number_value(json_object_get(total, name));

            if (has < fitting * json_number_value(amount))
                fitting = has / json_number_value(amount);
        }
    }
    json_decref(need);
    json_decref(total);
    return fitting >= 1 ? (size_t)(fitting + 1e-9) : 1;
}
