/* SPDX-License-Identifier: Apache-2.0 */
/* crt-unpack ZIP PACKAGES KEY [SETUP]: makes the folder PACKAGES/KEY from a zip, once per host, and
 * runs the setup command in it. A process of its own: a parser's bug ends a job, not its node.
 *
 * crt-unpack --tool TOOL PACKAGES KEY: makes there what a tool gives. pip or uv: a Python
 * environment, with the requirements that CRT_JOB_PIP or CRT_JOB_UV has, lines of a requirements
 * file: as no argument, since they may hold passwords of an index. podman: the files and variables
 * of the image that CRT_JOB_IMAGE names.
 *
 * Where it sits
 *     node/jobs/package.c -> [ crt-unpack ] -> host/unpack.c; host/package_dir.c
 * Output: what the commands print, and lines "(crt) ..." that say how far it is.
 * Failure: the reason is its last line of output, and it exits with 1; the folder is removed.
 */
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"
#include "runtime/base/job_variables.h"
#include "runtime/base/limit.h"
#include "runtime/base/path_search.h"
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

/* How far it is, as a line of the log. `text` is cut at its first line. */
static void tell(const char *what, const char *text)
{
    size_t line = strcspn(text, "\n"), shown = line < 200 ? line : 200;

    printf("(crt) %s%.*s%s\n", what, (int)shown, text, text[shown] ? " ..." : "");
    fflush(stdout);
}

static void tell_wait(void)
{
    tell("another job makes the same here: waiting for it", "");
}

/* ---------------------------------------------------------------- commands */

/* Runs it to its end; `what` names it in errors. */
static crt_status_t run(const char *what, const char *const argv[])
{
    pid_t pid = fork();
    int ended;

    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execvp(argv[0], (char *const *)argv);
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
        return crt_raise(CRT_ERR_WORKER_DIED, "%s was killed by signal %d", what,
                         WTERMSIG(ended));
    return crt_raise(CRT_ERR_WORKER_DIED, "%s exited with status %d", what,
                     WEXITSTATUS(ended));
}

static crt_status_t need(const char *program, const char *whose)
{
    char path[4096];

    return crti_path_search(getenv("PATH"), program, path, sizeof(path))
               ? CRT_OK
               : crt_raise(CRT_ERR_NOT_FOUND,
                           "the job wants %s, and there is no %s in the PATH of this "
                           "node: install it there, or let \"setup\" make what the job "
                           "needs",
                           whose, program);
}

/* In the environment of conda, where the job has one. */
static crt_status_t run_setup(const char *command)
{
    const char *conda = getenv(CRTI_JOB_CONDA);
    const char *const plain[] = {"/bin/sh", "-c", command, NULL};
    const char *const inside[] = {"conda", "run",   "--no-capture-output",
                                  "-n",    conda,   "/bin/sh",
                                  "-c",    command, NULL};
    char what[256];

    tell("setting up the folder: ", command);
    snprintf(what, sizeof(what), "the setup command \"%.200s\"", command);
    if (!conda || !*conda)
        return run(what, plain);
    CRT_TRY(need("conda", "an environment of conda"));
    return run(what, inside);
}

/* ---------------------------------------------------------------- a Python environment */

static crt_status_t write_requirements(const char *text)
{
    FILE *file = fopen("requirements.txt", "we");
    bool is_written;

    if (!file)
        return crt_raise(CRT_ERR_IO, "requirements.txt: %s", strerror(errno));
    is_written = fchmod(fileno(file), 0600) == 0 && fputs(text, file) >= 0;
    is_written = fputc('\n', file) != EOF && is_written;
    is_written = fclose(file) == 0 && is_written;
    return is_written ? CRT_OK
                      : crt_raise(CRT_ERR_IO, "requirements.txt: %s", strerror(errno));
}

/* In the directory that it is for. What the node's own Python has is seen in it, as in Ray. */
static crt_status_t install(const char *tool, const char *directory, const char *text)
{
    static const char *const with_pip[] = {
        "bin/python", "-m",      "pip", "--disable-pip-version-check",
        "--no-input", "install", "-r",  "requirements.txt",
        NULL};
    static const char *const with_uv[] = {
        "uv", "pip", "install", "--python", "bin/python", "-r", "requirements.txt", NULL};
    static const char *const has_pip[] = {"bin/python", "-c", "import pip", NULL};
    /* The node's own pip installs into it: one more would take seconds to be copied there. */
    const char *const venv[] = {
        "python3",       "-m",      "venv", "--system-site-packages",
        "--without-pip", directory, NULL};
    const char *const uv_venv[] = {"uv", "venv", "--system-site-packages", directory,
                                   NULL};

    if (strcmp(tool, "uv") == 0) {
        CRT_TRY(need("uv", "packages of uv"));
        CRT_TRY(run("uv venv", uv_venv)); /* it wants an empty one */
        CRT_TRY(write_requirements(text));
        return run("uv pip install", with_uv);
    }
    CRT_TRY(need("python3", "packages of pip"));
    CRT_TRY(run("python3 -m venv", venv));
    if (run("python3", has_pip) != CRT_OK)
        return crt_raise(
            CRT_ERR_NOT_FOUND,
            "the job wants packages of pip, and the python3 of this node has "
            "no pip: install it there, or let \"setup\" make what the job "
            "needs");
    CRT_TRY(write_requirements(text));
    return run("pip install", with_pip);
}

/* ---------------------------------------------------------------- an image */

/* $1 is the image, $2 a container of it that never runs. Devices, which a user other than root
 * can't make, are those of the host; what nobody can write, nobody could remove. */
static const char image_script[] =
    "set -e; end() { podman rm --force --ignore \"$2\" >/dev/null; }; "
    "podman image exists \"$1\" || podman pull --quiet \"$1\" >/dev/null; "
    "podman image inspect --format '{{range .Config.Env}}{{println .}}{{end}}' \"$1\" "
    ">" CRTI_IMAGE_VARIABLES "; "
    "end \"$@\"; trap 'end \"$@\"' EXIT; "
    "podman create --name \"$2\" \"$1\" none >/dev/null; "
    "podman export --output files.tar \"$2\"; mkdir " CRTI_IMAGE_FILES "; "
    "tar -xf files.tar -C " CRTI_IMAGE_FILES " --no-same-owner --anchored "
    "--exclude='dev/*' --exclude='./dev/*'; "
    "rm files.tar; chmod -R u+rwX " CRTI_IMAGE_FILES;

/* In the directory that it is for. */
static crt_status_t take_image(const char *image, const char *key)
{
    char container[160], path[4096];
    struct stat packages;
    const char *const argv[] = {"/bin/sh", "-c",      image_script, "sh",
                                image,     container, NULL};

    /* Nodes of a host with other state directories may have the same podman. */
    if (stat("..", &packages) != 0)
        return crt_raise(CRT_ERR_IO, "the packages: %s", strerror(errno));
    snprintf(container, sizeof(container), "crt-%.64s-%llu", key,
             (unsigned long long)packages.st_ino);
    if (!crti_path_search(getenv("PATH"), "podman", path, sizeof(path)))
        return crt_raise(CRT_ERR_NOT_FOUND,
                         "the job wants the image %s, and there is no podman in the PATH "
                         "of this node: install it there",
                         image);
    if (run("podman", argv) != CRT_OK)
        return crt_raise(CRT_ERR_NOT_FOUND,
                         "the image %s can't be had here; podman says why", image);
    return CRT_OK;
}

static uint64_t bytes_of(const char *directory)
{
    char *const roots[] = {(char *)directory, NULL};
    FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    uint64_t bytes = 0;
    const FTSENT *at;

    while (tree && (at = fts_read(tree)) != NULL)
        if (at->fts_info == FTS_F)
            bytes += (uint64_t)at->fts_statp->st_size;
    if (tree)
        fts_close(tree);
    return bytes;
}

static crt_status_t make_python(const char *tool, const char *directory, int lock)
{
    const char *text = getenv(strcmp(tool, "uv") == 0 ? CRTI_JOB_UV : CRTI_JOB_PIP);
    crt_status_t status = enter_new(directory);

    tell(tool, " makes the job's Python environment");
    if (status == CRT_OK)
        status = install(tool, directory, text ? text : "");
    if (status == CRT_OK)
        status = crti_package_complete(lock, bytes_of(directory));
    return status;
}

static crt_status_t make_image(const char *directory, const char *key, int lock)
{
    const char *image = getenv(CRTI_JOB_IMAGE);
    crt_status_t status = enter_new(directory);

    image = image ? image : "";
    tell("podman gives the files of the image ", image);
    if (status == CRT_OK)
        status = take_image(image, key);
    if (status == CRT_OK)
        status = crti_package_complete(lock, bytes_of(directory));
    return status;
}

/* ---------------------------------------------------------------- a folder */

static crt_status_t unpack(const char *zip, uint64_t *bytes_out)
{
    const crti_unpack_limits_t limits = {CRTI_LIMIT(job_folder_max), CRTI_UNPACK_ENTRIES};
    CRTI_AUTO(crti_close) int fd = -1;
    crt_status_t status = crti_own_open(zip, &fd);

    if (status == CRT_ERR_NOT_FOUND)
        return crt_raise(CRT_ERR_NOT_FOUND, "the package is gone (%s)",
                         crt_error_detail());
    CRT_TRY(status);
    return crti_unpack(fd, &limits, bytes_out);
}

static crt_status_t make_folder(const char *zip, const char *setup, const char *directory,
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
    return status;
}

/* ---------------------------------------------------------------- the command */

/* What it is asked for. */
typedef struct task {
    const char *tool; /* NULL: a folder */
    const char *zip, *setup, *packages, *key;
} task_t;

static bool read_arguments(int argc, char **argv, task_t *t)
{
    if (argc == 5 && strcmp(argv[1], "--tool") == 0) {
        *t = (task_t){.tool = argv[2], .packages = argv[3], .key = argv[4]};
        return strcmp(t->tool, "pip") == 0 || strcmp(t->tool, "uv") == 0 ||
               strcmp(t->tool, "podman") == 0;
    }
    *t = (task_t){.zip = argv[1], .packages = argv[2], .key = argv[3], .setup = ""};
    if (argc > 4)
        t->setup = argv[4];
    return argc == 4 || argc == 5;
}

static crt_status_t make_by_tool(const task_t *t, const char *directory, int lock)
{
    return strcmp(t->tool, "podman") == 0 ? make_image(directory, t->key, lock)
                                          : make_python(t->tool, directory, lock);
}

/* Unless another one did, meanwhile. */
static crt_status_t make(const task_t *t, int lock)
{
    uint64_t begun = crti_now_ns();
    char directory[4400], text[32];
    crt_status_t status;

    if (crti_package_is_complete(lock))
        return CRT_OK;
    snprintf(directory, sizeof(directory), "%s/%s", t->packages, t->key);
    status = t->tool ? make_by_tool(t, directory, lock)
                     : make_folder(t->zip, t->setup, directory, lock);
    if (status != CRT_OK) {
        crti_dir_remove(directory);
    } else if (t->tool || *t->setup) {
        snprintf(text, sizeof(text), "%.1f s", (double)(crti_now_ns() - begun) / 1e9);
        tell("that took ", text);
    }
    return status;
}

int main(int argc, char **argv)
{
    CRTI_AUTO(crti_close) int lock = -1;
    crt_status_t status;
    task_t task;

    if (argc < 4 || !read_arguments(argc, argv, &task)) {
        fprintf(stderr, "usage: crt-unpack ZIP PACKAGES KEY [SETUP]\n"
                        "       crt-unpack --tool pip|uv|podman PACKAGES KEY\n");
        return 2;
    }
    umask(022);
    status = crti_limits_load();
    if (status == CRT_OK)
        status = crti_package_lock(task.packages, task.key, tell_wait, &lock);
    if (status == CRT_OK)
        status = make(&task, lock);
    if (status == CRT_OK)
        crti_package_trim(task.packages, CRTI_LIMIT(job_folders),
                          (CRTI_LIMIT(job_folders_time) / CRTI_S));
    if (status != CRT_OK)
        fprintf(stderr, "%s\n", crt_error_detail());
    return status == CRT_OK ? 0 : 1;
}
