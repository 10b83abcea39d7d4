/* SPDX-License-Identifier: Apache-2.0 */
/* A node that runs out of memory, as a driver sees it: the worker that grew is ended, its callers
 * hear why, nobody else is touched.
 *
 * The workers really grow. How much the node has is played: CRT_TEST_HOST names a directory with
 * the files that the node daemon reads, and the test writes them.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <crt.h>

#include "ok.h"

#define MIB      (1u << 20)
#define LARGE    (96 * MIB) /* of 2 GiB that the node has: more than 1/32 */
#define SMALL    (8 * MIB)  /* less than 1/64 */
#define PATIENCE 60000      /* ms */

/* ------------------------------------------------------------------ the program */

/* Takes the pages; a compiler may leave out a memset of what nobody reads. */
static void touch(char *bytes, size_t size)
{
    for (size_t at = 0; at < size; at += 4096)
        ((volatile char *)bytes)[at] = 2;
}

/* Grows, says so by opening the fifo, and waits for what never comes. */
static crt_status_t grow_and_wait(crt_call_t *call, const char *path, char **bytes_out)
{
    char *bytes = malloc(LARGE);
    int fd;

    if (!bytes)
        return crt_fail(call, CRT_ERR_NO_MEMORY, "%u bytes", LARGE);
    touch(bytes, LARGE);
    *bytes_out = bytes;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return crt_fail(call, CRT_ERR_IO, "%s", path);
    poll(NULL, 0, -1);
    close(fd);
    return CRT_OK;
}

static crt_status_t grow_run(crt_call_t *call)
{
    const char *path;
    char *bytes = NULL;
    crt_status_t status;

    CRT_TRY(crt_args(call, &path));
    status = grow_and_wait(call, path, &bytes);
    free(bytes);
    return status;
}
static const crt_task_t t_grow =
    CRT_TASK(.name = "grow", .run = grow_run, .signature = "string");

struct hoard {
    char *bytes;
};

static void hoard_destroy(void *self)
{
    free(((struct hoard *)self)->bytes);
}

static crt_status_t hoard_keep_run(void *self, crt_call_t *call)
{
    struct hoard *h = self;

    h->bytes = malloc(SMALL);
    if (!h->bytes)
        return crt_fail(call, CRT_ERR_NO_MEMORY, "%u bytes", SMALL);
    touch(h->bytes, SMALL);
    return CRT_OK;
}
static const crt_method_t hoard_keep =
    CRT_METHOD(.name = "keep", .run = hoard_keep_run, .signature = "");

static crt_status_t hoard_grow_run(void *self, crt_call_t *call)
{
    const char *path;

    CRT_TRY(crt_args(call, &path));
    return grow_and_wait(call, path, &((struct hoard *)self)->bytes);
}
static const crt_method_t hoard_grow =
    CRT_METHOD(.name = "grow", .run = hoard_grow_run, .signature = "string");

/* A child grows, and this process waits for it. */
static crt_status_t hoard_fork_run(void *self, crt_call_t *call)
{
    const char *path;
    char *bytes;
    pid_t child;

    CRT_TRY(crt_args(call, &path));
    child = fork();
    if (child < 0)
        return crt_fail(call, CRT_ERR_IO, "fork: %s", strerror(errno));
    if (child == 0)
        _exit(grow_and_wait(call, path, &bytes) != CRT_OK);
    waitpid(child, NULL, 0);
    return CRT_OK;
}
static const crt_method_t hoard_fork =
    CRT_METHOD(.name = "fork", .run = hoard_fork_run, .signature = "string");

static crt_status_t hoard_look_run(void *self, crt_call_t *call)
{
    const struct hoard *h = self;

    return crt_return(call, h->bytes ? h->bytes[0] : 0);
}
static const crt_method_t hoard_look =
    CRT_METHOD(.name = "look", .run = hoard_look_run, .signature = "");

static crt_status_t hoard_pid_run(void *self, crt_call_t *call)
{
    return crt_return(call, (int64_t)getpid());
}
static const crt_method_t hoard_pid =
    CRT_METHOD(.name = "pid", .run = hoard_pid_run, .signature = "");

static const crt_actor_class_t hoard_class =
    CRT_ACTOR_CLASS(.name = "Hoard", .size = sizeof(struct hoard),
                    .destroy = hoard_destroy,
                    .methods = CRT_METHODS(&hoard_keep, &hoard_grow, &hoard_fork,
                                           &hoard_look, &hoard_pid));

/* ------------------------------------------------------------------ the host */

static char fifo[160];

/* By rename: the daemon reads the old file or the new one. */
static void write_file(const char *name, const char *text)
{
    char path[160], next[170];
    FILE *file;

    snprintf(path, sizeof(path), "%s/proc/%s", getenv("CRT_TEST_HOST"), name);
    snprintf(next, sizeof(next), "%s.next", path);
    file = fopen(next, "we");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    assert_int_equal(rename(next, path), 0);
}

/* 2 GiB, of which so much is in use. */
static void use(unsigned percent)
{
    char text[128];

    snprintf(text, sizeof(text), "MemTotal: 2097152 kB\nMemAvailable: %u kB\n",
             2097152 / 100 * (100 - percent));
    write_file("meminfo", text);
}

static void make_host(char *dir)
{
    char path[128];

    if (!mkdtemp(dir))
        abort();
    setenv("CRT_TEST_HOST", dir, 1);
    snprintf(path, sizeof(path), "%s/proc", dir);
    mkdir(path, 0700);
    use(30);
    write_file("vmstat", "oom_kill 3\n");
}

static void remove_host(const char *dir)
{
    static const char *const names[] = {"/proc/meminfo", "/proc/vmstat", "/fifo", "/proc",
                                        ""};
    char path[160];

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(path, sizeof(path), "%s%s", dir, names[i]);
        remove(path);
    }
}

/* ------------------------------------------------------------------ tests */

static int begin(void **state)
{
    snprintf(fifo, sizeof(fifo), "%s/fifo", getenv("CRT_TEST_HOST"));
    return mkfifo(fifo, 0600);
}

static int end(void **state)
{
    use(30);
    return unlink(fifo);
}

/* The one who grows has grown: it has opened the fifo. Before its end nobody reads on, so that a
 * death meanwhile is an error of open's, not a wait without end. */
static int wait_until_grown(crt_ref_t *ref)
{
    for (int tries = 0; tries < PATIENCE / 10; tries++) {
        int fd = open(fifo, O_WRONLY | O_CLOEXEC | O_NONBLOCK);

        if (fd >= 0)
            return fd;
        assert_int_equal(errno, ENXIO);
        if (crt_get_for(ref, 10, NULL) != CRT_ERR_TIMED_OUT)
            fail_msg("it ended first: %s", crt_error_detail());
    }
    fail_msg("it does not grow");
    return -1;
}

/* The error says who, how much and what to do. */
static void assert_explained(const char *who, const char *since)
{
    static const char *const parts[] = {"out of memory: 1.9", " of 2.00 GiB",
                                        "(limit 95 %)",       "by the object store",
                                        "this worker had 0.", "run fewer at a time",
                                        "more memory",        "on node "};
    const char *text = crt_error_detail();

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (!strstr(text, parts[i]))
            fail_msg("no \"%s\" in: %s", parts[i], text);
    if (!strstr(text, who) || !strstr(text, since))
        fail_msg("no \"%s\" or \"%s\" in: %s", who, since, text);
}

static void assert_ended_for_memory(int count)
{
    char *json = NULL, wanted[64];
    bool found = false;

    snprintf(wanted, sizeof(wanted), "\"memory_ended\":%d", count);
    for (int tries = 0; tries < PATIENCE / 20 && !found; tries++) {
        char *to;

        OK(crt_cluster_state("nodes", &json));
        to = json;
        for (const char *from = json; *from; from++)
            if (*from != ' ')
                *to++ = *from;
        *to = '\0';
        found = strstr(json, wanted) != NULL;
        crt_free(json);
        if (!found)
            poll(NULL, 0, 20); /* the node says it with its next heartbeat */
    }
    assert_true(found);
}

static void the_task_that_grew_is_ended_and_nobody_else(void **state)
{
    crt_actor_t *hoard = crt_actor_new(&hoard_class, NULL);
    crt_ref_t *kept = crt_call(hoard, &hoard_keep), *ref, *look;
    int fd, value;

    OK(crt_get_for(kept, PATIENCE, NULL));
    use(80);
    ref = crt_submit(&t_grow, CRT_TASK_OPTIONS(.max_attempts = 1), fifo);
    fd = wait_until_grown(ref);
    use(97);
    assert_int_equal(crt_get_for(ref, PATIENCE, NULL), CRT_ERR_WORKER_DIED);
    use(30);
    assert_explained("in grow", "and grew most, by 0.");
    assert_true(crt_ref_error(ref)->may_have_run);
    look = crt_call(hoard, &hoard_look);
    OK(crt_get_for(look, PATIENCE, &value));
    assert_int_equal(value, 2);
    assert_ended_for_memory(1);
    close(fd);
    crt_refs_drop((crt_ref_t *[]){kept, ref, look}, 3);
    OK(crt_actor_kill(hoard, NULL));
    crt_actor_drop(&hoard);
}

static void an_actor_that_grew_is_restarted_if_that_was_asked_for(void **state)
{
    crt_actor_t *hoard =
        crt_actor_new(&hoard_class, CRT_ACTOR_OPTIONS(.max_restarts = 1));
    crt_ref_t *ref = crt_call(hoard, &hoard_grow, fifo), *look;
    int fd = wait_until_grown(ref), value = -1;

    use(98);
    assert_int_equal(crt_get_for(ref, PATIENCE, NULL), CRT_ERR_ACTOR_DIED);
    use(30);
    assert_explained("(Hoard, pid ", "in Hoard.grow");
    close(fd);
    look = crt_call(hoard, &hoard_look); /* the new one has nothing */
    OK(crt_get_for(look, PATIENCE, &value));
    assert_int_equal(value, 0);
    assert_ended_for_memory(2);
    crt_refs_drop((crt_ref_t *[]){ref, look}, 2);
    OK(crt_actor_kill(hoard, NULL));
    crt_actor_drop(&hoard);
}

static void a_worker_whose_child_grew_is_ended_with_it(void **state)
{
    crt_actor_t *innocent = crt_actor_new(&hoard_class, NULL),
                *hoard = crt_actor_new(&hoard_class, NULL);
    crt_ref_t *kept = crt_call(innocent, &hoard_keep), *ref, *look;
    int fd, value;

    OK(crt_get_for(kept, PATIENCE, NULL));
    use(80);
    ref = crt_call(hoard, &hoard_fork, fifo);
    fd = wait_until_grown(ref);
    use(97);
    assert_int_equal(crt_get_for(ref, PATIENCE, NULL), CRT_ERR_ACTOR_DIED);
    use(30);
    assert_explained("(Hoard, pid ", "in Hoard.fork");
    /* The child had the other end. */
    assert_int_equal(poll(&(struct pollfd){.fd = fd}, 1, PATIENCE), 1);
    close(fd);
    look = crt_call(innocent, &hoard_look);
    OK(crt_get_for(look, PATIENCE, &value));
    assert_int_equal(value, 2);
    crt_refs_drop((crt_ref_t *[]){kept, ref, look}, 3);
    OK(crt_actor_kill(innocent, NULL));
    crt_actor_drop(&innocent);
    crt_actor_drop(&hoard);
}

static void a_driver_that_grew_is_not_ended(void **state)
{
    crt_actor_t *hoard = crt_actor_new(&hoard_class, NULL);
    crt_ref_t *ref = crt_call(hoard, &hoard_grow, fifo);
    char *bytes = malloc(3 * LARGE);
    int fd = wait_until_grown(ref);

    assert_non_null(bytes);
    touch(bytes, 3 * LARGE);
    use(99);
    assert_int_equal(crt_get_for(ref, PATIENCE, NULL), CRT_ERR_ACTOR_DIED);
    use(30);
    assert_explained("(Hoard, pid ", "in Hoard.grow");
    close(fd);
    free(bytes);
    crt_ref_drop(&ref);
    crt_actor_drop(&hoard);
}

static void a_worker_that_the_kernel_killed_for_memory_says_so(void **state)
{
    crt_actor_t *hoard = crt_actor_new(&hoard_class, NULL);
    crt_ref_t *pid_ref = crt_call(hoard, &hoard_pid), *ref;
    int pid;

    OK(crt_get_for(pid_ref, PATIENCE, &pid));
    ref = crt_call(hoard, &hoard_grow, fifo);
    write_file("vmstat", "oom_kill 4\n"); /* as the kernel counts before it kills */
    kill(pid, SIGKILL);
    assert_int_equal(crt_get_for(ref, PATIENCE, NULL), CRT_ERR_ACTOR_DIED);
    if (!strstr(crt_error_detail(), "signal 9") ||
        !strstr(crt_error_detail(), "out of memory: the kernel killed"))
        fail_msg("%s", crt_error_detail());
    crt_refs_drop((crt_ref_t *[]){pid_ref, ref}, 2);
    crt_actor_drop(&hoard);
}

static int driver(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_task_that_grew_is_ended_and_nobody_else,
                                        begin, end),
        cmocka_unit_test_setup_teardown(
            an_actor_that_grew_is_restarted_if_that_was_asked_for, begin, end),
        cmocka_unit_test_setup_teardown(a_worker_whose_child_grew_is_ended_with_it, begin,
                                        end),
        cmocka_unit_test_setup_teardown(a_driver_that_grew_is_not_ended, begin, end),
        cmocka_unit_test_setup_teardown(
            a_worker_that_the_kernel_killed_for_memory_says_so, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    char dir[] = "/tmp/crt-host-XXXXXX";
    bool is_driver = getenv("CRT_TEST_HOST") == NULL; /* its workers inherit it */
    int status;

    if (is_driver)
        make_host(dir);
    status = crt_main(argc, argv,
                      CRT_OPTIONS(.classes = CRT_CLASSES(&hoard_class),
                                  .tasks = CRT_TASKS(&t_grow), .num_cpus = 2,
                                  .object_store_memory = 64 << 20),
                      driver);
    if (is_driver)
        remove_host(dir);
    return status;
}
