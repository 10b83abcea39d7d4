/* SPDX-License-Identifier: Apache-2.0 */
/* What a submitted job is executed with: its directory, arguments, environment and program.
 *
 * Where it sits
 *     submission.c -> [ node/jobs/submission_start.c ] -> exec.c
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/programs.h"
#include "runtime/node/host/exec.h"
#include "runtime/node/jobs/submission_int.h"

typedef struct vector {
    char *list[CRTI_EXEC_STRINGS];
    size_t count;
} vector_t;

static void vector_fini_auto(vector_t *v)
{
    for (size_t i = 0; i < v->count; i++)
        free(v->list[i]);
}

static crt_status_t add(vector_t *v, crti_span_t text)
{
    if (v->count + 1 >= CRTI_EXEC_STRINGS)
        return crt_raise(CRT_ERR_TOO_LARGE, "more than %d arguments or variables",
                         CRTI_EXEC_STRINGS - 1);
    v->list[v->count] = crti_str_dup(text);
    return v->list[v->count++] ? CRT_OK
                               : crt_raise(CRT_ERR_NO_MEMORY, "arguments of a job");
}

static crt_status_t add_list(vector_t *v, crti_span_t list)
{
    crti_span_t entry;
    crt_status_t status = CRT_OK, next;

    while (status == CRT_OK && (next = crti_list_unpack(&list, &entry)) == CRT_OK)
        status = memchr(entry.data, 0, entry.size)
                     ? crt_raise(CRT_ERR_PROTOCOL, "a zero byte in a job's arguments")
                     : add(v, entry);
    return status;
}

static bool has_variable(const vector_t *v, const char *name, size_t length)
{
    for (size_t i = 0; i < v->count; i++)
        if (strncmp(v->list[i], name, length) == 0 && v->list[i][length] == '=')
            return true;
    return false;
}

/* Ours, then the job's, then what this daemon has and neither names. */
static crt_status_t make_environment(crti_node_t *node, const crti_msg_job_start_t *start,
                                     vector_t *v)
{
    char line[CRTI_NODE_PATH + 64], hex[CRTI_ID_HEX];
    crt_status_t status;

    snprintf(line, sizeof(line), "CRT_ADDRESS=%s", node->head_address);
    status = add(v, crti_str(line));
    snprintf(line, sizeof(line), "CRT_JOB=%s", crti_id_hex(start->job, hex));
    if (status == CRT_OK)
        status = add(v, crti_str(line));
    snprintf(line, sizeof(line), "CRT_SUBMISSION=%.*s", (int)start->submission.size,
             (const char *)start->submission.data);
    if (status == CRT_OK)
        status = add(v, crti_str(line));
    snprintf(line, sizeof(line), "CRT_NODE_DIR=%s", node->run_dir);
    if (status == CRT_OK)
        status = add(v, crti_str(line));
    if (status == CRT_OK)
        status = add_list(v, start->environment);
    for (char **e = environ; *e && status == CRT_OK; e++) {
        size_t length = strcspn(*e, "=");

        if (!has_variable(v, *e, length) && strncmp(*e, "CRT_HEAD_DIR=", 13) != 0)
            status = add(v, crti_str(*e));
    }
    return status;
}

static crt_status_t make_places(crti_submission_t *s, char *cwd, size_t size)
{
    char dir[CRTI_NODE_PATH + CRTI_ID_HEX + 8];
    crt_status_t status = crti_submission_directory(s->node, s->job, dir, sizeof(dir));

    if (status != CRT_OK)
        return status;
    snprintf(cwd, size, "%s/cwd", dir);
    snprintf(s->log.path, sizeof(s->log.path), "%s/driver.log", dir);
    return crti_dir_make(cwd);
}

/* What is executed: the uploaded program, or, where none was (a shell command), a program of this
 * host by its whole path. */
static crt_status_t path_of(const crti_node_t *node, const char *sha, const char *program,
                            char *path, size_t size)
{
    int length;

    if (!*sha && program[0] != '/')
        return crt_raise(CRT_ERR_INVALID, "the program \"%s\" is not a whole path",
                         program);
    if (*sha && (strspn(sha, "0123456789abcdef") != 64 || sha[64]))
        return crt_raise(CRT_ERR_PROTOCOL, "the program's SHA-256 is not one");
    length = *sha ? snprintf(path, size, "%s/programs/%s", node->state_dir, sha)
                  : snprintf(path, size, "%s", program);
    if (length < 0 || (size_t)length >= size)
        return crt_raise(CRT_ERR_TOO_LARGE, "the path of the program is too long");
    return CRT_OK;
}

static crt_status_t hold_program(crti_submission_t *s, const char *path)
{
    s->program_fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (s->program_fd < 0 || !crti_programs_hold(s->program_fd))
        return crt_raise(CRT_ERR_NOT_FOUND,
                         "%s: the uploaded program is gone (%s); submit the job again",
                         path, strerror(errno));
    return CRT_OK;
}

crt_status_t crti_submission_execute(crti_submission_t *s,
                                     const crti_msg_job_start_t *start, const int fds[2])
{
    __attribute__((cleanup(vector_fini_auto))) vector_t argv = {0};
    __attribute__((cleanup(vector_fini_auto))) vector_t environment = {0};
    char path[2 * CRTI_NODE_PATH], sha[65], cwd[CRTI_NODE_PATH + CRTI_ID_HEX + 16];
    crti_exec_t exec = {.exec_fd = -1,
                        .path = path,
                        .argv = argv.list,
                        .environment = environment.list,
                        .directory = cwd,
                        .stdout_fd = fds[0],
                        .stderr_fd = fds[1],
                        .keep_fd = -1};
    char line[700];
    crt_status_t status = make_places(s, cwd, sizeof(cwd));

    if (status == CRT_OK)
        status = add_list(&argv, start->argv);
    if (status == CRT_OK && argv.count == 0)
        status = crt_raise(CRT_ERR_PROTOCOL, "a job without a program");
    if (status == CRT_OK)
        status = path_of(s->node, crti_text(start->sha, sha, sizeof(sha)), argv.list[0],
                         path, sizeof(path));
    if (status == CRT_OK && *sha)
        status = hold_program(s, path);
    if (status == CRT_OK)
        status = make_environment(s->node, start, &environment);
    if (status != CRT_OK)
        return status;
    snprintf(line, sizeof(line), "Running entrypoint for job %s: %.*s\n", s->name,
             (int)(start->entrypoint.size > 400 ? 400 : start->entrypoint.size),
             start->entrypoint.size ? (const char *)start->entrypoint.data : "");
    crti_log_file_write(&s->log, line, strlen(line));
    /* By the name that the user knows, not by that of the cache. */
    s->program = strdup(argv.list[0]);
    if (s->program == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "job");
    return crti_exec_start(&exec, &s->pid, &s->report);
}
