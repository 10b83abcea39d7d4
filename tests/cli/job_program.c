/* SPDX-License-Identifier: Apache-2.0 */
/* A program that tests submit as a job: job_program
 * hello|fail|crash|quit|forget|stay|leave|look.
 *
 * "stay" makes an actor whose process leaves a grandchild in a session of its own, as user code
 * may, says so, and stays. "crash", "quit" and "forget" end without crt_shutdown. "leave" leaves
 * the cluster while its actor lives, and looks at it then. "look" tells what a task sees on the
 * node that has the resource "far". */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include <crt.h>

struct holder {
    int unused;
};

static crt_status_t hold_run(void *self, crt_call_t *call)
{
    pid_t pid = fork();

    if (pid == 0) {
        setsid();
        execl("/bin/sh", "sh", "-c", "trap '' TERM; while :; do sleep 1000; done",
              (char *)NULL);
        _exit(127);
    }
    printf("the actor holds\n");
    fflush(stdout);
    return crt_return(call, (int64_t)getpid());
}

static const crt_method_t hold =
    CRT_METHOD(.name = "hold", .run = hold_run, .signature = "");
static const crt_actor_class_t holder =
    CRT_ACTOR_CLASS(.name = "Holder", .size = sizeof(struct holder),
                    .methods = CRT_METHODS(&hold));

static _Noreturn void stay(void)
{
    crt_actor_t *actor = crt_actor_new(&holder, CRT_ACTOR_OPTIONS(.name = "held"));
    crt_ref_t *ref = crt_call(actor, &hold);
    int64_t pid;

    CRT_CHECK(crt_get(ref, &pid));
    printf("worker %lld stays\n", (long long)pid);
    fflush(stdout);
    for (;;)
        pause();
}

/* The actor's process in a moment when crt_shutdown has returned. */
static int leave(void)
{
    crt_actor_t *actor = crt_actor_new(&holder, CRT_ACTOR_OPTIONS(.num_cpus = 1));
    crt_ref_t *ref = crt_call(actor, &hold);
    int64_t pid;

    CRT_CHECK(crt_get(ref, &pid));
    crt_ref_drop(&ref);
    CRT_CHECK(crt_shutdown());
    printf("its actor %s\n", kill((pid_t)pid, 0) == 0 ? "still runs" : "is gone");
    crt_actor_drop(&actor);
    return 0;
}

/* The program, its directory, and the file "data" in it. */
static crt_status_t look_run(crt_call_t *call)
{
    char exe[512] = "", data[64] = "", text[1200], cwd[512];
    FILE *file = fopen("data", "r");

    if (file) {
        data[fread(data, 1, sizeof(data) - 1, file)] = '\0';
        fclose(file);
    }
    if (readlink("/proc/self/exe", exe, sizeof(exe) - 1) < 0 || !getcwd(cwd, sizeof(cwd)))
        return crt_raise(CRT_ERR_IO, "no directory");
    snprintf(text, sizeof(text), "runs %s in %s and reads %s", exe, cwd, data);
    return crt_return(call, (const char *)text);
}
static const crt_task_t look_task =
    CRT_TASK(.name = "look", .run = look_run, .signature = "");

static int look(void)
{
    crt_ref_t *ref =
        crt_submit(&look_task, CRT_TASK_OPTIONS(.num_cpus = 1, .resources = "far=1"));
    const char *text;

    CRT_CHECK(crt_get(ref, &text));
    printf("a worker %s\n", text);
    crt_ref_drop(&ref);
    return 0;
}

static int driver(int argc, char **argv)
{
    printf("hello");
    for (int i = 1; i < argc; i++)
        printf(" [%s]", argv[i]);
    printf("\n");
    if (argc > 1 && strcmp(argv[1], "stay") == 0)
        stay();
    if (argc > 1 && strcmp(argv[1], "leave") == 0)
        return leave();
    if (argc > 1 && strcmp(argv[1], "look") == 0)
        return look();
    if (argc > 1 && strcmp(argv[1], "crash") == 0) {
        signal(SIGSEGV, SIG_DFL); /* a sanitizer makes an exit status of it */
        raise(SIGSEGV);
    }
    if (argc > 1 && strcmp(argv[1], "quit") == 0)
        exit(5);
    if (argc > 1 && strcmp(argv[1], "forget") == 0)
        exit(0);
    return argc > 1 && strcmp(argv[1], "fail") == 0 ? 3 : 0;
}

int main(int argc, char **argv)
{
    return crt_main(
        argc, argv,
        CRT_OPTIONS(.classes = CRT_CLASSES(&holder), .tasks = CRT_TASKS(&look_task)),
        driver);
}
