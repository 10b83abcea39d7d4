/* SPDX-License-Identifier: Apache-2.0 */
/* crt-unpack ZIP PACKAGES KEY [SETUP]: makes the folder PACKAGES/KEY from a zip, once per host, and
 * runs the setup command in it. A process of its own: a parser's bug ends a job, not its node.
 *
 * Where it sits
 *     node/jobs/package.c -> [ crt-unpack ] -> host/unpack.c; host/package_dir.c
 * Failure: the reason is its last line of output, and it exits with 1; the folder is removed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/limit.h"
#include "runtime/base/rundir.h"
#include "runtime/node/host/package_dir.h"
#include "runtime/node/host/unpack.h"

static crt_status_t enter_new(const char *directory)
{
    crti_dir_remove(directory); /* what one that was killed left */
    if (mkdir(directory, 0700) != 0 || chdir(directory) != 0)
        return crt_raise(CRT_ERR_IO, "%s: %s", directory, strerror(errno));
    return CRT_OK;
}

static crt_status_t unpack(const char *zip, uint64_t *bytes_out)
{
    const crti_unpack_limits_t limits = {CRTI_LIMIT(job_folder_max), CRTI_UNPACK_ENTRIES};
    CRTI_AUTO(crti_close) int fd = open(zip, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

    if (fd < 0)
        return crt_raise(CRT_ERR_NOT_FOUND, "the package is gone (%s: %s)", zip,
                         strerror(errno));
    return crti_unpack(fd, &limits, bytes_out);
}

static crt_status_t run_setup(const char *command)
{
    pid_t pid = fork();
    int ended;

    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    if (pid < 0)
        return crt_raise(CRT_ERR_BACKPRESSURE, "fork: %s", strerror(errno));
    while (waitpid(pid, &ended, 0) < 0)
        if (errno != EINTR)
            return crt_raise(CRT_ERR_IO, "waitpid: %s", strerror(errno));
    if (WIFEXITED(ended) && WEXITSTATUS(ended) == 0)
        return CRT_OK;
    if (WIFSIGNALED(ended))
        return crt_raise(CRT_ERR_WORKER_DIED,
                         "the setup command \"%.200s\" was killed by "
                         "signal %d",
                         command, WTERMSIG(ended));
    return crt_raise(CRT_ERR_WORKER_DIED,
                     "the setup command \"%.200s\" exited with status %d", command,
                     WEXITSTATUS(ended));
}

static crt_status_t make(const char *zip, const char *directory, const char *setup,
                         int lock)
{
    uint64_t bytes = 0;
    crt_status_t status = enter_new(directory);

    if (status == CRT_OK)
        status = unpack(zip, &bytes);
    if (status == CRT_OK && *setup)
        status = run_setup(setup);
    if (status == CRT_OK)
        status = crti_package_complete(lock, bytes);
    if (status != CRT_OK)
        crti_dir_remove(directory);
    return status;
}

int main(int argc, char **argv)
{
    CRTI_AUTO(crti_close) int lock = -1;
    char directory[4400];
    crt_status_t status;

    if (argc < 4) {
        fprintf(stderr, "usage: crt-unpack ZIP PACKAGES KEY [SETUP]\n");
        return 2;
    }
    umask(022);
    snprintf(directory, sizeof(directory), "%s/%s", argv[2], argv[3]);
    status = crti_limits_load();
    if (status == CRT_OK)
        status = crti_package_lock(argv[2], argv[3], &lock);
    if (status == CRT_OK &&
        !crti_package_is_complete(lock)) /* by another one, meanwhile */
        status = make(argv[1], directory, argc > 4 ? argv[4] : "", lock);
    if (status == CRT_OK)
        crti_package_trim(argv[2], CRTI_LIMIT(job_folders),
                          (CRTI_LIMIT(job_folders_time) / CRTI_S));
    if (status != CRT_OK)
        fprintf(stderr, "%s\n", crt_error_detail());
    return status == CRT_OK ? 0 : 1;
}
