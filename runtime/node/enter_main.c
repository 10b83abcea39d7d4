/* SPDX-License-Identifier: Apache-2.0 */
/* crt-enter ROOT USER FD MUST PROGRAM ARGUMENT0 [ARGUMENTS]: becomes the program inside of the
 * files of an image. USER is a descriptor of the user namespace of the node's images; 0: root has
 * none. FD is a descriptor of the program; -1: PROGRAM is searched there as a shell does. MUST is 1
 * when the working directory has to be there, too; else it is / where that is not seen.
 *
 * Where it sits
 *     node/jobs/image.c, by host/exec.c -> [ crt-enter ] -> the driver, zygote or worker
 * Idea
 *     Of a container there is only what the image is for, other files: a mount namespace, and for
 *     users other than root a user namespace in which they stay who they are. Processes, network
 *     and shared memory are those of the node, so that lanes, objects and signals are as for any
 *     other worker; it is a child of the node, ends like one, and leaves nothing that somebody
 *     would have to remove.
 * What is seen of the host, under the same names: /proc, /sys, /dev, /tmp, names of hosts, and the
 *     directories of crt with sockets, folders of jobs and the key. All else is the image's, which
 *     can't be written to: other jobs have the same one.
 * Failure: a sentence on standard error, and status 127.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/base/rundir.h"

#define CANNOT     127
#define ROOT_BELOW 3 /* STATE/packages/KEY/root */
#define OLD        ".crt-old"
#define OLD_ROOT   "/" OLD

extern char **environ;

/* What is seen of the host. */
typedef struct place {
    char at[PATH_MAX];   /* as processes call it */
    char from[PATH_MAX]; /* without symbolic links; "": there is none */
} place_t;

static void fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
static void fail(const char *format, ...)
{
    int error = errno;
    va_list args;

    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "%s%s\n", error ? ": " : "", error ? strerror(error) : "");
    _exit(CANNOT);
}

/* ---------------------------------------------------------------- which places */

static void set_place(place_t *place, const char *at)
{
    snprintf(place->at, sizeof(place->at), "%s", at);
    if (!realpath(at, place->from))
        place->from[0] = '\0';
}

/* `path` without its last `count` parts. */
static void cut(char *path, int count)
{
    for (char *slash; count > 0 && (slash = strrchr(path, '/')) != NULL; count--)
        *slash = '\0';
}

/* The key may lie anywhere. */
static void find_key_file(const char *node_dir, char *path, size_t size)
{
    char info[PATH_MAX + 16], *text = NULL;

    path[0] = '\0';
    snprintf(info, sizeof(info), "%s/node.info", node_dir);
    if (crti_info_read(info, &text) == CRT_OK)
        crti_info_get(text, "key_file", path, size);
    free(text);
}

#define PLACES 9

static void find_places(const char *root, place_t places[PLACES])
{
    static const char *const fixed[] = {
        "/proc", "/sys", "/dev", "/tmp", "/etc/resolv.conf", "/etc/hosts"};
    const char *node_dir = getenv("CRT_NODE_DIR");
    size_t count = sizeof(fixed) / sizeof(fixed[0]);
    char path[PATH_MAX];

    for (size_t i = 0; i < count; i++)
        set_place(&places[i], fixed[i]);
    snprintf(path, sizeof(path), "%s", root);
    cut(path, ROOT_BELOW);
    set_place(&places[count++], path);
    snprintf(path, sizeof(path), "%s", node_dir ? node_dir : "");
    cut(path, 1);
    set_place(&places[count++], path);
    find_key_file(node_dir ? node_dir : "", path, sizeof(path));
    set_place(&places[count], path);
}

/* ---------------------------------------------------------------- namespaces */

/* Its user stays the same; what a user may not do outside it may not do inside. */
static void leave_namespaces(int user_namespace)
{
    if (user_namespace && setns(user_namespace, CLONE_NEWUSER) != 0)
        fail("the image can't be entered: the user namespace of the node");
    if (unshare(CLONE_NEWNS) != 0)
        fail("the image can't be entered, as this host gives the node no mounts of its "
             "own");
    if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) != 0)
        fail("the image can't be entered, as this host lets nobody mount in a user "
             "namespace");
    if (user_namespace)
        close(user_namespace);
}

/* ---------------------------------------------------------------- files */

/* Where something is to be mounted: as much of the path as the image lacks. */
static void make_target(const char *path, bool is_directory)
{
    char part[PATH_MAX];
    int fd;

    snprintf(part, sizeof(part), "%s", path);
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(part, 0755);
        *slash = '/';
    }
    if (is_directory) {
        mkdir(part, 0755);
        return;
    }
    fd = open(part, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0644);
    if (fd >= 0)
        close(fd);
}

static void show(const place_t *place)
{
    char from[PATH_MAX + sizeof(OLD_ROOT)];
    struct stat st;

    snprintf(from, sizeof(from), OLD_ROOT "%s", place->from);
    if (!place->from[0] || stat(from, &st) != 0)
        return;
    make_target(place->at, S_ISDIR(st.st_mode));
    if (mount(from, place->at, NULL, MS_BIND | MS_REC, NULL) != 0)
        fail("%s of this host can't be shown in the image", place->at);
}

/* With the flags that it has, which who made the namespace may not take away. */
static void forbid_writing(void)
{
    static const struct {
        unsigned long has, flag;
    } flags[] = {{ST_NOSUID, MS_NOSUID},         {ST_NODEV, MS_NODEV},
                 {ST_NOEXEC, MS_NOEXEC},         {ST_NOATIME, MS_NOATIME},
                 {ST_NODIRATIME, MS_NODIRATIME}, {ST_RELATIME, MS_RELATIME}};
    unsigned long wanted = MS_REMOUNT | MS_BIND | MS_RDONLY;
    struct statvfs vfs;

    if (statvfs("/", &vfs) != 0)
        fail("the files of the image");
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
        if (vfs.f_flag & flags[i].has)
            wanted |= flags[i].flag;
    if (mount(NULL, "/", NULL, wanted, NULL) != 0)
        fail("the files of the image can't be made read-only");
}

static void change_root(const char *root, const place_t places[PLACES])
{
    if (mount(root, root, NULL, MS_BIND | MS_REC, NULL) != 0 || chdir(root) != 0)
        fail("the image can't be entered: %s", root);
    mkdir(OLD, 0700);
    if (syscall(SYS_pivot_root, ".", OLD) != 0 || chdir("/") != 0)
        fail("the image can't become the root directory");
    for (size_t i = 0; i < PLACES; i++)
        show(&places[i]);
    if (umount2(OLD_ROOT, MNT_DETACH) != 0)
        fail("the files of this host can't be left");
    forbid_writing();
}

/* ---------------------------------------------------------------- the program */

static bool is_at(const char *path, int fd)
{
    struct stat by_path, by_fd;

    return stat(path, &by_path) == 0 && fstat(fd, &by_fd) == 0 &&
           by_path.st_dev == by_fd.st_dev && by_path.st_ino == by_fd.st_ino;
}

/* By its path where that is the same file in the image: then ps shows its name. */
static void execute(int fd, const char *program, char **argv) __attribute__((noreturn));
static void execute(int fd, const char *program, char **argv)
{
    if (fd >= 0)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    if (fd >= 0 && !is_at(program, fd))
        syscall(SYS_execveat, fd, "", argv, environ, AT_EMPTY_PATH);
    else
        execvp(program, argv);
    if (errno == ENOENT)
        fail(
            "%s can't be executed in the image: it, or the loader and the C library that "
            "it needs, is not there",
            program);
    fail("%s can't be executed in the image", program);
}

int main(int argc, char **argv)
{
    char directory[PATH_MAX];
    place_t *places = calloc(PLACES, sizeof(*places));
    pid_t parent = getppid();
    int death_signal = 0;

    if (argc < 7 || !places) {
        fprintf(stderr,
                "usage: crt-enter ROOT USER FD MUST PROGRAM ARGUMENT0 [ARGUMENTS]\n");
        return 2;
    }
    prctl(PR_GET_PDEATHSIG, &death_signal);
    if (!getcwd(directory, sizeof(directory)))
        fail("the working directory");
    find_places(argv[1], places);
    leave_namespaces(atoi(argv[2]));
    change_root(argv[1], places);
    if (chdir(directory) != 0 && atoi(argv[4]) == 1)
        fail("%s is not in the image, nor in a directory of this host that is seen there",
             directory);
    /* A user namespace took it away. */
    prctl(PR_SET_PDEATHSIG, death_signal);
    if (getppid() != parent)
        raise(SIGKILL);
    execute(atoi(argv[3]), argv[5], argv + 6);
}
