/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the node daemon share: a scene for each, and what they ask for most. */
#include "node_test.h"

#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/rundir.h"

int node_test_begin(void **state)
{
    scene_t *s = calloc(1, sizeof(*s));

    scene_begin(s);
    *state = s;
    return 0;
}

int node_test_end(void **state)
{
    scene_end(*state);
    free(*state);
    return 0;
}

static bool unshares_mounts(void)
{
    return unshare(geteuid() ? CLONE_NEWUSER | CLONE_NEWNS : CLONE_NEWNS) == 0;
}

/* In a chroot a process with mounts of its own does not find its program by /proc/self/exe. */
static bool finds_itself_with_mounts_of_its_own(void)
{
    int status = 1;
    pid_t child = fork();

    if (child == 0) {
        char path[PATH_MAX];

        _exit(unshares_mounts() && realpath("/proc/self/exe", path) ? 0 : 1);
    }
    return waitpid(child, &status, 0) == child && status == 0;
}

int node_test_mount_dead(const char *path)
{
    int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    char options[100];

    if (fd < 0)
        return -1;
    if (!finds_itself_with_mounts_of_its_own()) {
        close(fd);
        return -1;
    }
    snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=%u,group_id=%u", fd,
             (unsigned)geteuid(), (unsigned)getegid());
    if (unshares_mounts() && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
        crti_dir_make(path) == CRT_OK &&
        mount("none", path, "fuse", MS_NOSUID | MS_NODEV, options) == 0)
        return fd;
    close(fd);
    return -1;
}

bool node_test_contains(crti_span_t text, const char *part)
{
    return memmem(text.data, text.size, part, strlen(part)) != NULL;
}

void node_test_return_lease(scene_t *s, int d, crti_id_t lease, crti_id_t node)
{
    crti_msg_lease_return_t back = {.lease = lease, .node = node};

    assert_int_equal(
        crti_channel_send(s->drivers[d].channel, CRTI_MSG_LEASE_RETURN, 0, &back),
        CRT_OK);
}

crti_msg_actor_start_t node_test_actor_start(scene_t *s, uint64_t number)
{
    crti_msg_actor_start_t start = {.actor = {6, number},
                                    .actor_incarnation = 1,
                                    .job = s->drivers[0].job,
                                    .class_name = crti_str("Counter"),
                                    .name = crti_str(""),
                                    .creation = crti_str("args")};

    return start;
}

double node_test_cpu_seconds(pid_t pid)
{
    char path[64], line[1024], *at;
    unsigned long user = 0, system = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    file = fopen(path, "re");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof(line), file));
    fclose(file);
    at = strrchr(line, ')');
    assert_int_equal(sscanf(at + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
                            &user, &system),
                     2);
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

int node_test_main(int argc, char **argv, const struct CMUnitTest *tests, size_t count)
{
    if (program_is_meant())
        return program_main(argc, argv);
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return _cmocka_run_group_tests("node", tests, count, NULL, NULL);
}
