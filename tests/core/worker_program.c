/* SPDX-License-Identifier: Apache-2.0 */
/* The program of test_workers.py.
 *
 *     worker_program write N      N tasks write a line each by write(2); the driver ends as soon as
 *     it has the results worker_program files        the descriptors of a worker, while the driver
 *     has many that are not close-on-exec worker_program session S    a task starts `sleep S` in a
 *     session of its own, with nothing in its environment worker_program debug        an actor that
 *     counts is called three times worker_program wait         a call, then waits for the end of
 *     its node, and says what a call is told worker_program rejoin       the same, and joins again
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <crt.h>

static crt_status_t write_run(crt_call_t *call)
{
    char line[40];
    int number;

    CRT_TRY(crt_args(call, &number));
    snprintf(line, sizeof(line), "line %d\n", number);
    return write(STDOUT_FILENO, line, strlen(line)) == (ssize_t)strlen(line) ? CRT_OK
                                                                             : CRT_ERR_IO;
}

static crt_status_t files_run(crt_call_t *call)
{
    DIR *files = opendir("/proc/self/fd");
    int count = 0;

    for (const struct dirent *entry; (entry = readdir(files)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(files);
    return crt_return(call, count);
}

/* Its parent ends at once. */
static crt_status_t session_run(crt_call_t *call)
{
    char *const nothing[] = {NULL};
    const char *seconds;
    pid_t pid;

    CRT_TRY(crt_args(call, &seconds));
    pid = fork();
    if (pid == 0) {
        setsid();
        if (fork() == 0) {
            for (int fd = 0; fd < 256; fd++)
                close(fd);
            execle("/bin/sleep", "sleep", seconds, (char *)NULL, nothing);
        }
        _exit(0);
    }
    return pid < 0 ? CRT_ERR_IO : CRT_OK;
}

typedef struct counter {
    int count;
} counter_t;

__attribute__((noinline)) crt_status_t counter_add(void *self, crt_call_t *call);
crt_status_t counter_add(void *self, crt_call_t *call)
{
    counter_t *counter = self;

    return crt_return(call, ++counter->count);
}

static const crt_task_t write_it =
    CRT_TASK(.name = "write_it", .run = write_run, .signature = "int");
static const crt_task_t files =
    CRT_TASK(.name = "files", .run = files_run, .signature = "");
static const crt_task_t session =
    CRT_TASK(.name = "session", .run = session_run, .signature = "string");
static const crt_method_t add =
    CRT_METHOD(.name = "add", .run = counter_add, .signature = "");
static const crt_actor_class_t counter =
    CRT_ACTOR_CLASS(.name = "Counter", .size = sizeof(counter_t),
                    .methods = CRT_METHODS(&add));

static int write_lines(int count)
{
    crt_ref_t **refs = calloc((size_t)count, sizeof(crt_ref_t *));

    for (int i = 0; i < count; i++)
        refs[i] = crt_submit(&write_it, NULL, i);
    for (int i = 0; i < count; i++) {
        CRT_CHECK(crt_get(refs[i], NULL));
        crt_ref_drop(&refs[i]);
    }
    free(refs);
    return 0;
}

static int count_files(void)
{
    crt_ref_t *ref = crt_submit(&files, NULL);
    int count;

    CRT_CHECK(crt_get(ref, &count));
    crt_ref_drop(&ref);
    printf("%d descriptors\n", count);
    return 0;
}

static int start_session(const char *seconds)
{
    crt_ref_t *ref = crt_submit(&session, NULL, seconds);

    CRT_CHECK(crt_get(ref, NULL));
    crt_ref_drop(&ref);
    printf("started\n");
    fflush(stdout);
    (void)getchar();
    return 0;
}

static int count_calls(bool waits)
{
    crt_actor_t *actor = crt_actor_new(&counter, NULL);
    crt_ref_t *ref;
    int count = 0;

    for (int i = 0; i < 3; i++) {
        ref = crt_call(actor, &add);
        CRT_CHECK(crt_get(ref, &count));
        crt_ref_drop(&ref);
    }
    printf("counted to %d\n", count);
    fflush(stdout);
    if (waits) {
        (void)getchar();
        ref = crt_call(actor, &add);
        crt_get(ref, &count);
        printf("%s\n", crt_ref_error(ref) ? crt_ref_error(ref)->text : "fine");
        crt_ref_drop(&ref);
    }
    crt_actor_drop(&actor);
    return 0;
}

#define OPTIONS                                                                          \
    CRT_OPTIONS(.classes = CRT_CLASSES(&counter),                                        \
                .tasks = CRT_TASKS(&write_it, &files, &session))

static int join_again(int argc, char **argv)
{
    printf("node %s\n", crt_node_id());
    count_calls(true);
    CRT_CHECK(crt_shutdown());
    CRT_CHECK(crt_init(argc, argv, OPTIONS));
    printf("node %s\n", crt_node_id());
    return count_calls(false);
}

static int driver(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    if (strcmp(what, "write") == 0 && argc > 2)
        return write_lines(atoi(argv[2]));
    if (strcmp(what, "files") == 0)
        return count_files();
    if (strcmp(what, "session") == 0 && argc > 2)
        return start_session(argv[2]);
    if (strcmp(what, "rejoin") == 0)
        return join_again(argc, argv);
    return count_calls(strcmp(what, "wait") == 0);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "files") == 0 && !getenv("CRT_WORKER"))
        for (int i = 0; i < 100; i++)
            (void)!dup(STDIN_FILENO);
    return crt_main(argc, argv, OPTIONS, driver);
}
