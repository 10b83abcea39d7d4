/* SPDX-License-Identifier: Apache-2.0 */
/* What the workers of a job need on this node: its folder, if it was submitted with one, then its
 * executable.
 *
 * Where it sits
 *     spawn.c -> [ node/jobs/job_package.c ] -> package.c (the folder), program.c (zip and
 *     executable)
 * Rules
 *     The driver's environment names the zip, the setup command, and where the folder lies on its
 *     own node: what its program and its directory are below that, they are here below this node's
 *     folder.
 */
#include <string.h>

#include "runtime/node/jobs/job_int.h"

static crti_span_t environment_of(const crti_job_t *job)
{
    return crti_span(job->environment.data, job->environment.size);
}

static void find_executable(crti_job_t *job)
{
    crti_program_wish_t wish = {
        .sha = job->sha, .path = job->program, .fd_out = &job->exec_fd};

    if (job->exec_fd >= 0)
        job->on_found(job, CRT_OK, "");
    else
        crti_program_find(job, &wish, job->on_found);
}

/* A path of the driver's node below its folder becomes one below this node's. */
static crt_status_t move_path(char **path, const char *from, const char *to)
{
    size_t length = strlen(from);
    char *moved;

    if (length == 0 || strncmp(*path, from, length) != 0 ||
        ((*path)[length] != '/' && (*path)[length] != '\0'))
        return CRT_OK;
    if (asprintf(&moved, "%s%s", to, *path + length) < 0)
        return crt_raise(CRT_ERR_NO_MEMORY, "job");
    free(*path);
    *path = moved;
    return CRT_OK;
}

static void use_folder(crti_job_t *job)
{
    const char *here = crti_package_directory(job->package);
    char there[CRTI_NODE_PATH + 128];
    crt_status_t status;

    crti_job_variable(environment_of(job), CRTI_JOB_DIRECTORY, there, sizeof(there));
    status = move_path(&job->directory, there, here);
    if (status == CRT_OK)
        status = move_path(&job->program, there, here);
    if (status == CRT_OK)
        find_executable(job);
    else
        job->on_found(job, status, crt_error_detail());
}

static void on_package(void *user, crt_status_t status, const char *text)
{
    crti_job_t *job = user;

    crti_close_auto(&job->zip_fd);
    job->zip_fd = -1;
    if (status == CRT_OK) {
        use_folder(job);
        return;
    }
    crti_package_close(CRTI_TAKE(job->package));
    job->on_found(job, status, text);
}

static const char *setup_of(const crti_job_t *job, char *text, size_t size)
{
    return crti_job_variable(environment_of(job), CRTI_JOB_SETUP, text, size);
}

/* The zip is in the cache, and stays there while the job has it open. */
static void on_zip(crti_job_t *job, crt_status_t status, const char *text)
{
    CRTI_AUTO(crti_arguments_fini) crti_arguments_t environment = {0};
    char setup[CRTI_JOB_SETUP_MAX], sha[CRTI_SHA_TEXT], log[CRTI_NODE_PATH + 64];
    crti_package_wish_t wish = {.sha = sha,
                                .setup = setup_of(job, setup, sizeof(setup)),
                                .log_path = log,
                                .on_ready = on_package,
                                .user = job};

    if (status != CRT_OK) {
        job->on_found(job, status, text);
        return;
    }
    crti_job_variable(environment_of(job), CRTI_JOB_PACKAGE, sha, sizeof(sha));
    crti_arguments_add_list(&environment, environment_of(job));
    status = environment.status;
    wish.environment = environment.list;
    snprintf(log, sizeof(log), "%s/logs/package-%.8s.log", job->node->own_state,
             crti_id_hex(job->id, (char[CRTI_ID_HEX]){0}));
    if (status == CRT_OK)
        status = crti_package_make(job->node, &wish, &job->package);
    if (status != CRT_OK)
        job->on_found(job, status, crt_error_detail());
}

void crti_job_find_program(crti_job_t *job, crti_program_found_t *on_found)
{
    char setup[CRTI_JOB_SETUP_MAX], sha[CRTI_SHA_TEXT + 1];
    crti_program_wish_t wish = {.sha = sha, .fd_out = &job->zip_fd};

    job->on_found = on_found;
    crti_job_variable(environment_of(job), CRTI_JOB_PACKAGE, sha, sizeof(sha));
    if (job->package || strspn(sha, "0123456789abcdef") != CRTI_SHA_TEXT - 1 ||
        sha[CRTI_SHA_TEXT - 1]) {
        find_executable(job);
        return;
    }
    job->package = crti_package_find(job->node, sha, setup_of(job, setup, sizeof(setup)));
    if (job->package)
        use_folder(job);
    else
        crti_program_find(job, &wish, on_zip);
}
