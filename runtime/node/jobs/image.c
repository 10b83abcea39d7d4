/* SPDX-License-Identifier: Apache-2.0 */
/* The image of a job on this node: what its variables ask for, its files here, and how processes of
 * the job come to be in them.
 *
 * Where it sits
 *     submission.c, submission_exec.c (the driver), job_package.c, zygote.c (workers)
 *     -> [ node/jobs/image.c ] -> package.c (crt-unpack asks podman), crt-enter
 * Rules
 *     podman is asked with the node's own environment: where its images lie and who may fetch them
 *     is the affair of the node's user, not of the job.
 */
#include <string.h>
#include <unistd.h>

#include "runtime/base/job_variables.h"
#include "runtime/base/plain_text.h"
#include "runtime/crt_tools.h"
#include "runtime/node/host/exec.h"
#include "runtime/node/host/user_namespace.h"
#include "runtime/node/jobs/job_int.h"

#define VARIABLES_MAX ((size_t)256 << 10) /* bytes of an image's own */

bool crti_image_wanted(crti_span_t environment, crti_package_spec_t *spec,
                       char key[CRTI_PACKAGE_KEY])
{
    char image[CRTI_JOB_IMAGE_MAX];

    crti_job_variable(environment, CRTI_JOB_IMAGE, image, sizeof(image));
    if (!image[0])
        return false;
    crti_tool_key(CRTI_IMAGE_TOOL, crti_str(image), key);
    *spec = (crti_package_spec_t){.key = key, .tool = CRTI_IMAGE_TOOL};
    return true;
}

void crti_image_environment(const crti_node_t *node, crti_span_t environment,
                            crti_arguments_t *v)
{
    static const char *const passed[] = {CRTI_JOB_IMAGE, CRTI_JOB_SETUP_SECONDS};
    char value[CRTI_JOB_IMAGE_MAX];

    for (size_t i = 0; i < sizeof(passed) / sizeof(passed[0]); i++) {
        crti_job_variable(environment, passed[i], value, sizeof(value));
        if (value[0])
            crti_arguments_format(v, "%s=%s", passed[i], value);
    }
    crti_arguments_format(v, "CRT_NODE_DIR=%s", node->run_dir);
    for (char **e = environ; *e; e++)
        if (!crti_arguments_have(v, *e, strcspn(*e, "=")))
            crti_arguments_add(v, crti_str(*e));
}

void crti_image_variables(const crti_package_t *image, crti_arguments_t *v)
{
    char path[CRTI_NODE_PATH + 128], *text, *line, *save = NULL;

    snprintf(path, sizeof(path), "%s/" CRTI_IMAGE_VARIABLES,
             crti_package_directory(image));
    text = crti_plain_text_read(path, VARIABLES_MAX);
    if (!text) {
        v->status = crt_raise(CRT_ERR_IO, "the variables of the image: %s", path);
        return;
    }
    line = strtok_r(text, "\n", &save);
    for (; line; line = strtok_r(NULL, "\n", &save))
        /* those of crt are of this node, and not of whoever made the image */
        if (strchr(line, '=') && strncmp(line, "CRT_", 4) != 0 &&
            !crti_arguments_have(v, line, strcspn(line, "=")))
            crti_arguments_add(v, crti_str(line));
    free(text);
}

void crti_entered_fini_auto(crti_entered_t *entered)
{
    crti_arguments_fini_auto(&entered->argv);
}

/* Root needs none. */
static crt_status_t find_user_namespace(crti_jobs_t *jobs)
{
    int fd;

    if (geteuid() == 0 || jobs->user_namespace)
        return CRT_OK;
    CRT_TRY(crti_user_namespace_new(&fd));
    jobs->user_namespace = fd;
    return CRT_OK;
}

crt_status_t crti_image_enter(crti_node_t *node, const crti_package_t *image,
                              crti_exec_t *exec, crti_entered_t *entered)
{
    crti_arguments_t *argv = &entered->argv;

    CRT_TRY(crti_daemon_path("crt-enter", entered->path, sizeof(entered->path)));
    CRT_TRY(find_user_namespace(node->jobs));
    crti_arguments_add(argv, crti_str("crt-enter"));
    crti_arguments_format(argv, "%s/" CRTI_IMAGE_FILES, crti_package_directory(image));
    crti_arguments_format(argv, "%d", node->jobs->user_namespace);
    crti_arguments_format(argv, "%d", exec->exec_fd);
    crti_arguments_add(argv, crti_str(exec->must_enter ? "1" : "0"));
    crti_arguments_add(argv, crti_str(exec->path));
    for (size_t i = 0; exec->argv[i]; i++)
        crti_arguments_add(argv, crti_str(exec->argv[i]));
    exec->argv = argv->list;
    exec->path = entered->path;
    exec->passed[0] = exec->exec_fd >= 0 ? exec->exec_fd : 0;
    exec->passed[1] = node->jobs->user_namespace;
    exec->exec_fd = -1;
    return argv->status;
}
