/* SPDX-License-Identifier: Apache-2.0 */
/* A program that tests submit as a job: job_program
 * hello|fail|crash|quit|forget|stay|leave.
 *
 * "stay" makes an actor whose process leaves a grandchild in a session of its own, as user code
 * may, says so, and stays. "crash", "quit" and "forget" end without crt_shutdown. "leave" leaves the cluster while its actor lives, and looks at it then. */
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

static const crt_method_t hold = {"hold", hold_run, ""};
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
    return crt_main(argc, argv, CRT_OPTIONS(.classes = CRT_CLASSES(&holder)), driver);
}
