/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts on other hosts. See context_command.h. */
#include "runtime/core/client/context_command.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/path_search.h"
#include "runtime/core/process/command_path.h"

#define WORDS_MAX 8 /* before those of the program */

extern char **environ;

/* ---------------------------------------------------------------- becoming a command */

static crt_status_t check_program(int argc, char **argv)
{
    return argc > 0 && argv && argv[0]
               ? CRT_OK
               : crt_raise(CRT_ERR_INVALID,
                           "a context on other hosts runs the program there: give argc "
                           "and argv of main");
}

/* `words` are those of the command, NULL at their end. */
static crt_status_t become(const char *const *words, int argc, char **argv)
{
    CRTI_AUTO(free)
    const char **all = calloc((size_t)argc + WORDS_MAX + 1, sizeof(*all));
    size_t used = 0;

    if (!all)
        return crt_raise(CRT_ERR_NO_MEMORY, "the arguments of %s", words[0]);
    for (; words[used]; used++)
        all[used] = words[used];
    for (int i = 0; i < argc; i++)
        all[used++] = argv[i];
    fflush(NULL); /* what was printed would be lost */
    execvp(all[0], (char *const *)(uintptr_t)all);
    return crt_raise(CRT_ERR_IO, "can't execute %s: %s", words[0], strerror(errno));
}

/* ---------------------------------------------------------------- a cluster file */

/* Its lines are no output of the program. */
static int spawn_up(const char *command, const char *file, pid_t *pid_out)
{
    const char *const argv[] = {command, "up", file, NULL};
    posix_spawn_file_actions_t actions;
    int failed;

    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
    failed = posix_spawnp(pid_out, command, &actions, NULL,
                          (char *const *)(uintptr_t)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    return failed;
}

static crt_status_t bring_up(const char *command, const char *file)
{
    int how = 0, failed;
    pid_t pid;

    fflush(NULL);
    failed = spawn_up(command, file, &pid);
    if (failed)
        return crt_raise(CRT_ERR_IO, "can't execute %s: %s", command, strerror(failed));
    while (waitpid(pid, &how, 0) < 0)
        if (errno != EINTR)
            return crt_raise(CRT_ERR_IO, "crt up %s: waitpid: %s", file, strerror(errno));
    if (WIFEXITED(how) && WEXITSTATUS(how) == 0)
        return CRT_OK;
    return crt_raise(CRT_ERR_IO,
                     "the cluster of %s does not run: crt up has failed, and says why on "
                     "standard error",
                     file);
}

crt_status_t crti_context_become_file(const char *file, int argc, char **argv)
{
    char command[PATH_MAX];
    const char *const words[] = {
        command, "exec", file, "--", "env", (CRTI_CONTEXT_VARIABLE "=file"), NULL};
    crt_status_t status = check_program(argc, argv);

    if (status == CRT_OK && access(file, R_OK) != 0)
        status = crt_raise(errno == ENOENT ? CRT_ERR_NOT_FOUND : CRT_ERR_IO,
                           "can't read the cluster file %s: %s", file, strerror(errno));
    if (status == CRT_OK)
        status = crti_command_path(command, sizeof(command));
    if (status == CRT_OK)
        status = bring_up(command, file);
    return status == CRT_OK ? become(words, argc, argv) : status;
}

/* ---------------------------------------------------------------- Slurm */

crt_status_t crti_context_become_slurm(unsigned nodes, int argc, char **argv)
{
    char command[PATH_MAX], srun[PATH_MAX], number[16];
    const char *const all[] = {command, "slurm", "--", NULL};
    const char *const some[] = {command, "slurm", "-N", number, "--", NULL};
    crt_status_t status = check_program(argc, argv);

    snprintf(number, sizeof(number), "%u", nodes);
    if (status == CRT_OK && !crti_path_search(getenv("PATH"), "srun", srun, sizeof(srun)))
        status =
            crt_raise(CRT_ERR_NOT_FOUND, "srun is not in PATH: this is no host of Slurm");
    if (status == CRT_OK)
        status = crti_command_path(command, sizeof(command));
    return status == CRT_OK ? become(nodes ? some : all, argc, argv) : status;
}
