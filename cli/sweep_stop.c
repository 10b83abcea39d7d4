/* SPDX-License-Identifier: Apache-2.0 */
/* crt job stop SWEEP: all runs of a sweep. See sweep.h. The jobs say in their metadata which sweep
 * they are of. */
#include <string.h>

#include "cli/job_view.h"
#include "cli/sweep.h"
#include "runtime/base/clock.h"

#define PATIENCE_MS 30000 /* the kill comes 3 s after the request */
#define LOOK_MS     100

/* Of metadata that are too long for a list "..." is left: then the name says it, NAME-0, NAME-1. */
static bool is_run_of(const json_t *job, const char *id)
{
    const json_t *metadata = json_object_get(job, "metadata");
    const char *name = crti_cli_job_text(job, "submission_id");
    size_t size = strlen(id);

    if (json_object_get(metadata, "..."))
        return strncmp(name, id, size) == 0 && name[size] == '-' && name[size + 1] &&
               strspn(name + size + 1, "0123456789") == strlen(name + size + 1);
    return strcmp(crti_cli_job_text(metadata, "sweep"), id) == 0;
}

/* One that ended meanwhile is as good. */
static crt_status_t stop_run(http_client_t *client, const json_t *job)
{
    char path[512];
    json_t *reply;

    crti_cli_job_path(path, sizeof(path), crti_cli_job_text(job, "submission_id"),
                      "/stop");
    reply = crti_client_json(client, "POST", path, NULL, NULL);
    json_decref(reply);
    return reply ? CRT_OK : CRT_ERR_IO;
}

/* Counts the runs of the sweep, and those that have not ended, which `stops` them. */
static crt_status_t look(http_client_t *client, const char *id, bool stops, size_t *runs,
                         size_t *open)
{
    json_t *jobs = crti_client_json(client, "GET", "/api/jobs/", NULL, NULL), *job;
    crt_status_t status = jobs ? CRT_OK : CRT_ERR_IO;
    size_t i;

    *runs = *open = 0;
    json_array_foreach(jobs, i, job)
    {
        if (!is_run_of(job, id))
            continue;
        ++*runs;
        if (crti_cli_job_has_ended(job))
            continue;
        ++*open;
        if (stops && status == CRT_OK)
            status = stop_run(client, job);
    }
    json_decref(jobs);
    return status;
}

bool crti_sweep_stop(http_client_t *client, const char *command, const char *id,
                     bool no_wait, int *result_out)
{
    size_t runs, open, left;
    crt_status_t status = look(client, id, true, &runs, &open);
    int64_t until = crti_now_ms() + PATIENCE_MS;

    *result_out = 0;
    if (status == CRT_OK && runs == 0)
        return false;
    if (status == CRT_OK)
        printf("Stopping %zu of the %zu runs of sweep '%s' that were begun%s\n", open,
               runs, id, no_wait || !open ? "" : " (--no-wait does not wait)");
    fflush(stdout);
    left = open;
    while (status == CRT_OK && left && !no_wait && crti_now_ms() < until) {
        crti_cli_job_sleep_ms(LOOK_MS);
        status = look(client, id, false, &runs, &left);
    }
    if (status != CRT_OK)
        *result_out = crti_cli_fail_detail(command);
    else if (left && !no_wait)
        *result_out = crti_cli_fail(command, "%zu runs of sweep %s still run after %d s",
                                    left, id, PATIENCE_MS / 1000);
    else if (open && !no_wait)
        printf("Sweep '%s' was stopped\n", id);
    return true;
}
