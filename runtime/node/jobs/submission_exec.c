/* SPDX-License-Identifier: Apache-2.0 */
/* What a submitted job executes. See submission_int.h.
 *
 * Where it sits
 *     submission.c -> [ node/jobs/submission_exec.c ] -> exec.c
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "runtime/base/path_search.h"
#include "runtime/base/programs.h"
#include "runtime/base/rundir.h"
#include "runtime/node/host/exec.h"
#include "runtime/node/jobs/submission_int.h"
#include "runtime/node/leases/lease_table.h"

crt_status_t crti_submission_directory(crti_node_t *node, crti_id_t job, char *path,
                                       size_t size)
{
    char file[CRTI_NODE_PATH + 16], state[CRTI_NODE_PATH], hex[CRTI_ID_HEX];
    CRTI_AUTO(free) char *text = NULL;
    crt_status_t status;

    if (node->options.given.head_dir[0] == '\0') { /* the head is on another host */
        snprintf(path, size, "%s/jobs/%s", node->own_state, crti_id_hex(job, hex));
        return CRT_OK;
    }
    snprintf(file, sizeof(file), "%s/head.info", node->options.given.head_dir);
    status = crti_info_read(file, &text);
    if (status != CRT_OK)
        return status;
    crti_info_get(text, "state_dir", state, sizeof(state));
    if (state[0] == '\0')
        return crt_raise(CRT_ERR_CORRUPT, "%s names no state_dir", file);
    snprintf(path, size, "%s/jobs/%s", state, crti_id_hex(job, hex));
    return CRT_OK;
}

/* Those that it holds, by the names that CUDA knows. */
static void add_gpus(const crti_submission_t *s, crti_arguments_t *v)
{
    char text[CRTI_GPU_TEXT];
    uint64_t gpus;

    if (crti_lease_table_gpus(s->node->lease_table, s->job, &gpus))
        crti_arguments_format(v, CRTI_VISIBLE_GPUS "=%s",
                              crti_gpus_format(&s->node->options.gpus, gpus, text));
}

/* Where "${NAME}" begins and how long it is; NULL: there is none. */
static const char *find_reference(const char *text, size_t *size_out)
{
    for (; (text = strstr(text, "${")) != NULL; text += 2) {
        size_t name = strspn(text + 2, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvw"
                                       "xyz0123456789_");

        *size_out = name + 3;
        if (name && text[name + 2] == '}')
            return text;
    }
    return NULL;
}

/* "${NAME}" in a value stands for what the node has, or for nothing where it has none, as in
 * Ray. */
static void add_expanded(crti_arguments_t *v, const char *entry)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t made = {0};
    crt_status_t status = CRT_OK;
    const char *at;
    size_t size;

    while (status == CRT_OK && (at = find_reference(entry, &size)) != NULL) {
        char name[256];
        const char *value;

        snprintf(name, sizeof(name), "%.*s", (int)size - 3, at + 2);
        value = getenv(name);
        status = crti_buffer_append(&made, entry, (size_t)(at - entry));
        if (status == CRT_OK && value)
            status = crti_buffer_append(&made, value, strlen(value));
        entry = at + size;
    }
    if (status == CRT_OK)
        status = crti_buffer_append(&made, entry, strlen(entry));
    if (status == CRT_OK)
        crti_arguments_add(v, crti_span(made.data, made.size));
    else
        v->status = status;
}

/* Those that the job was given. */
static void add_own(const crti_submission_t *s, crti_arguments_t *v)
{
    CRTI_AUTO(crti_arguments_fini) crti_arguments_t given = {0};

    crti_arguments_add_list(&given, crti_span(s->environment.data, s->environment.size));
    if (v->status == CRT_OK)
        v->status = given.status;
    for (size_t i = 0; i < given.count && v->status == CRT_OK; i++)
        if (strncmp(given.list[i], "CRT_JOB_", 8) == 0) /* the setup command among them */
            crti_arguments_add(v, crti_str(given.list[i]));
        else
            add_expanded(v, given.list[i]);
}

void crti_submission_environment(const crti_submission_t *s, crti_arguments_t *v)
{
    const crti_node_t *node = s->node;
    char hex[CRTI_ID_HEX];

    crti_arguments_format(v, "CRT_ADDRESS=%s", node->head_address);
    crti_arguments_format(v, "CRT_JOB=%s", crti_id_hex(s->job, hex));
    crti_arguments_format(v, "CRT_SUBMISSION=%s", s->name);
    crti_arguments_format(v, "CRT_NODE_DIR=%s", node->run_dir);
    if (s->package)
        crti_arguments_format(v, CRTI_JOB_DIRECTORY "=%s",
                              crti_package_directory(s->package));
    add_own(s, v);
    if (crti_resources_get(&s->resources, "GPU") > 0)
        add_gpus(s, v);
    if (s->image)
        crti_image_variables(s->image, v);
    for (char **e = environ; *e && v->status == CRT_OK; e++) {
        size_t length = strcspn(*e, "=");

        if (!crti_arguments_have(v, *e, length) && strncmp(*e, "CRT_HEAD_DIR=", 13) != 0)
            crti_arguments_add(v, crti_str(*e));
    }
    if (s->python)
        crti_python_enter(s->python, v);
}

crt_status_t crti_submission_places(crti_submission_t *s, char *dir, size_t size)
{
    crt_status_t status = crti_submission_directory(s->node, s->job, dir, size);

    if (status != CRT_OK)
        return status;
    snprintf(s->log.path, sizeof(s->log.path), "%s/driver.log", dir);
    return crti_dir_make(dir);
}

static crt_status_t hold_program(crti_submission_t *s, const char *path)
{
    crt_status_t status = crti_own_open(path, &s->program_fd);

    if (status == CRT_ERR_PERMISSION)
        return status;
    if (status != CRT_OK || !crti_programs_hold(s->program_fd))
        return crt_raise(CRT_ERR_NOT_FOUND,
                         "%s: the uploaded program is gone (%s); submit the job again",
                         path, strerror(errno));
    return CRT_OK;
}

/* An uploaded program lies in the cache by its hash: it is executed under the name that the user
 * knows, so that a script's $0 and ps show that. */
static crt_status_t link_program(crti_submission_t *s, const char *dir, char *path,
                                 size_t size)
{
    char cached[CRTI_NODE_PATH + 80];
    const char *slash = strrchr(s->program, '/'), *name = slash ? slash + 1 : s->program;
    crt_status_t status;
    int length;

    snprintf(cached, sizeof(cached), "%s/programs/%s", s->node->state_dir, s->sha);
    status = hold_program(s, cached);
    if (*name == '\0' || *name == '.' || strlen(name) > 200)
        name = "program";
    length = snprintf(path, size, "%s/program", dir);
    if (length < 0 || (size_t)length + strlen(name) + 2 > size)
        return crt_raise(CRT_ERR_TOO_LARGE, "the path of the program is too long");
    if (status == CRT_OK)
        status = crti_dir_make(path);
    snprintf(path + length, size - (size_t)length, "/%s", name);
    if (status == CRT_OK && symlink(cached, path) != 0 && errno != EEXIST)
        status = crt_raise(CRT_ERR_IO, "%s: %s", path, strerror(errno));
    return status;
}

/* A program without a slash in its name, as a shell would find it that has the job's variables. */
static crt_status_t search_path(const crti_arguments_t *environment, const char *name,
                                char *path, size_t size)
{
    const char *search = NULL;

    for (size_t i = 0; i < environment->count; i++)
        if (strncmp(environment->list[i], "PATH=", 5) == 0)
            search = environment->list[i] + 5;
    if (crti_path_search(search, name, path, size))
        return CRT_OK;
    return crt_raise(CRT_ERR_NOT_FOUND, "%s is not found in the PATH of the node", name);
}

static crt_status_t whole_path(const char *program, char *path, size_t size)
{
    return snprintf(path, size, "%s", program) < (int)size
               ? CRT_OK
               : crt_raise(CRT_ERR_TOO_LARGE, "the path of the program is too long");
}

/* What is executed: the uploaded program, one of the job's folder, or, where there is neither (a
 * shell command), one of this host by its whole path. */
static crt_status_t path_of(crti_submission_t *s, const char *dir,
                            const crti_arguments_t *environment, char *path, size_t size)
{
    bool is_named = s->package || crti_python_is_named(crti_span(s->environment.data,
                                                                 s->environment.size));

    if (*s->sha && (strspn(s->sha, "0123456789abcdef") != 64 || s->sha[64]))
        return crt_raise(CRT_ERR_PROTOCOL, "the program's SHA-256 is not one");
    if (*s->sha)
        return link_program(s, dir, path, size);
    if (s->image) /* crt-enter searches it there */
        return whole_path(s->program, path, size);
    if (is_named && !strchr(s->program, '/'))
        return search_path(environment, s->program, path, size);
    if (!s->package && s->program[0] != '/')
        return crt_raise(CRT_ERR_INVALID, "the program \"%s\" is not a whole path",
                         s->program);
    return whole_path(s->program, path, size);
}

/* `conda run` before the program, which is one of the environment where its name has no slash. */
static crt_status_t enter_conda(const char *name, const crti_arguments_t *environment,
                                const crti_arguments_t *given, crti_arguments_t *argv,
                                char *path, size_t size)
{
    static const char *const words[] = {"conda", "run", "--no-capture-output", "-n"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        crti_arguments_add(argv, crti_str(words[i]));
    crti_arguments_add(argv, crti_str(name));
    crti_arguments_add(argv, crti_str(path));
    for (size_t i = 1; i < given->count; i++)
        crti_arguments_add(argv, crti_str(given->list[i]));
    if (search_path(environment, "conda", path, size) == CRT_OK)
        return argv->status;
    return crt_raise(
        CRT_ERR_NOT_FOUND,
        CRTI_JOB_SETUP_FAILED
        "the job wants the environment \"%s\" of conda, and there is no conda "
        "in the PATH of this node: install it there, or let \"setup\" make "
        "what the job needs",
        name);
}

/* What is executed, with which arguments. */
static crt_status_t choose(crti_submission_t *s, const char *dir,
                           const crti_arguments_t *environment,
                           const crti_arguments_t *given, crti_arguments_t *argv,
                           char *path, size_t size)
{
    char conda[256];

    crti_job_variable(crti_span(s->environment.data, s->environment.size), CRTI_JOB_CONDA,
                      conda, sizeof(conda));
    if (conda[0] && !*s->sha && !strchr(s->program, '/'))
        snprintf(path, size, "%s", s->program);
    else
        CRT_TRY(path_of(s, dir, environment, path, size));
    if (conda[0])
        return enter_conda(conda, environment, given, argv, path, size);
    for (size_t i = 0; i < given->count; i++)
        crti_arguments_add(argv, crti_str(given->list[i]));
    return argv->status;
}

crt_status_t crti_submission_execute(crti_submission_t *s, const crti_arguments_t *given,
                                     const int fds[2])
{
    CRTI_AUTO(crti_arguments_fini)
    crti_arguments_t environment = {.most = CRTI_SUBMISSION_STRINGS};
    CRTI_AUTO(crti_arguments_fini)
    crti_arguments_t argv = {.most = CRTI_SUBMISSION_STRINGS + 8};
    CRTI_AUTO(crti_entered_fini) crti_entered_t entered = {0};
    char dir[CRTI_NODE_PATH + CRTI_ID_HEX + 8], path[2 * CRTI_NODE_PATH];
    char cwd[sizeof(dir) + 128];
    crti_exec_t exec = {.exec_fd = -1,
                        .path = path,
                        .directory = cwd,
                        .stdout_fd = fds[0],
                        .stderr_fd = fds[1],
                        .keep_fd = -1,
                        .is_supervised = true};
    crt_status_t status = crti_submission_places(s, dir, sizeof(dir));

    if (s->package)
        snprintf(cwd, sizeof(cwd), "%s", crti_package_directory(s->package));
    else
        snprintf(cwd, sizeof(cwd), "%s/cwd", dir);
    if (status == CRT_OK && !s->package)
        status = crti_dir_make(cwd);
    if (status == CRT_OK) {
        crti_submission_environment(s, &environment);
        status = environment.status;
    }
    if (status == CRT_OK)
        status = choose(s, dir, &environment, given, &argv, path, sizeof(path));
    exec.argv = argv.list;
    exec.environment = environment.list;
    if (status == CRT_OK && s->image)
        status = crti_image_enter(s->node, s->image, &exec, &entered);
    return status == CRT_OK ? crti_exec_start(&exec, &s->pid, &s->report) : status;
}
