/* SPDX-License-Identifier: Apache-2.0 */
/* What the workers of a job need on this node: its image or its Python environment, and its folder,
 * if it was submitted with them, then its executable.
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
    crti_program_spec_t spec = {
        .sha = job->sha, .path = job->program, .fd_out = &job->exec_fd};

    if (job->exec_fd >= 0)
        job->on_found(job, CRT_OK, "");
    else
        crti_program_find(job, &spec, job->on_found);
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

/* With `user` and what else is the same for the folder, the Python environment and the image. */
static crt_status_t make_package(crti_job_t *job, const crti_package_spec_t *wanted,
                                 crti_package_ready_t *on_ready,
                                 crti_package_t **package_out)
{
    CRTI_AUTO(crti_arguments_fini) crti_arguments_t environment = {0};
    crti_package_spec_t spec = *wanted;
    char log[CRTI_NODE_PATH + 64], hex[CRTI_ID_HEX];

    if (package_out == &job->image) {
        crti_image_environment(job->node, environment_of(job), &environment);
    } else {
        crti_arguments_add_list(&environment, environment_of(job));
        crti_python_move(job->python, environment_of(job), &environment);
    }
    snprintf(log, sizeof(log), "%s/logs/package-%.8s.log", job->node->own_state,
             crti_id_hex(job->id, hex));
    spec.environment = environment.list;
    spec.log_path = log;
    spec.on_ready = on_ready;
    spec.user = job;
    return environment.status == CRT_OK ? crti_package_make(job->node, &spec, package_out)
                                        : environment.status;
}

/* The zip is in the cache, and stays there while the job has it open. */
static void on_zip(crti_job_t *job, crt_status_t status, const char *text)
{
    crti_folder_names_t names;
    crti_package_spec_t spec;

    if (status != CRT_OK) {
        job->on_found(job, status, text);
        return;
    }
    status = crti_folder_wanted(environment_of(job), &names, &spec);
    if (status == CRT_OK)
        status = make_package(job, &spec, on_package, &job->package);
    if (status != CRT_OK)
        job->on_found(job, status, crt_error_detail());
}

static void find_folder(crti_job_t *job)
{
    crti_folder_names_t names;
    crti_package_spec_t folder;
    crti_program_spec_t zip = {.sha = names.sha, .fd_out = &job->zip_fd};

    if (job->package ||
        crti_folder_wanted(environment_of(job), &names, &folder) != CRT_OK ||
        !folder.key) {
        find_executable(job);
        return;
    }
    job->package = crti_package_find(job->node, &folder);
    if (job->package)
        use_folder(job);
    else
        crti_program_find(job, &zip, on_zip);
}

static void on_python(void *user, crt_status_t status, const char *text)
{
    crti_job_t *job = user;

    if (status == CRT_OK) {
        find_folder(job);
        return;
    }
    crti_package_close(CRTI_TAKE(job->python));
    job->on_found(job, status, text);
}

static void find_python(crti_job_t *job)
{
    char key[CRTI_PACKAGE_KEY];
    crti_package_spec_t spec;
    crt_status_t status;

    if (!job->python && crti_python_wanted(environment_of(job), &spec, key)) {
        job->python = crti_package_find(job->node, &spec);
        if (!job->python) {
            status = make_package(job, &spec, on_python, &job->python);
            if (status != CRT_OK)
                job->on_found(job, status, crt_error_detail());
            return;
        }
    }
    find_folder(job);
}

static void on_image(void *user, crt_status_t status, const char *text)
{
    crti_job_t *job = user;

    if (status == CRT_OK) {
        find_python(job);
        return;
    }
    crti_package_close(CRTI_TAKE(job->image));
    job->on_found(job, status, text);
}

void crti_job_find_program(crti_job_t *job, crti_program_found_t *on_found)
{
    char key[CRTI_PACKAGE_KEY];
    crti_package_spec_t spec;
    crt_status_t status;

    job->on_found = on_found;
    if (!job->image && crti_image_wanted(environment_of(job), &spec, key)) {
        job->image = crti_package_find(job->node, &spec);
        if (!job->image) {
            status = make_package(job, &spec, on_image, &job->image);
            if (status != CRT_OK)
                job->on_found(job, status, crt_error_detail());
            return;
        }
    }
    find_python(job);
}
