/* SPDX-License-Identifier: Apache-2.0 */
/* A fenced actor, and callers of it, for test_fenced.py.
 *
 *     fenced_member make FENCED    makes the detached actor "ledger" on a host with a CPU
 *     fenced_member call           calls it until it is killed, and says what came of each call
 *
 * Each run is a line in $HOME/ledger of the host it ran on, with the time at which it began: all
 * hosts of the test have one clock. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <crt.h>

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_BOOTTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static crt_status_t ledger_add_run(void *self, crt_call_t *call)
{
    char path[256], line[64];
    double now = now_s();
    int fd, size;

    snprintf(path, sizeof(path), "%s/ledger", getenv("HOME"));
    size = snprintf(line, sizeof(line), "%d %.6f\n", (int)getpid(), now);
    fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, line, (size_t)size) != size)
        abort();
    close(fd);
    return crt_return(call, now);
}
static const crt_method_t ledger_add =
    CRT_METHOD(.name = "add", .run = ledger_add_run, .signature = "");

static const crt_actor_class_t ledger_class =
    CRT_ACTOR_CLASS(.name = "Ledger", .methods = CRT_METHODS(&ledger_add));

static int make(bool fenced)
{
    crt_actor_t *ledger =
        crt_actor_new(&ledger_class,
                      CRT_ACTOR_OPTIONS(.num_cpus = 1, .name = "ledger", .detached = true,
                                        .max_restarts = -1, .fenced = fenced));

    CRT_CHECK(crt_actor_ready(ledger, 60000));
    crt_actor_drop(&ledger);
    printf("made\n");
    return 0;
}

static void call_for_ever(void)
{
    const struct timespec pause = {.tv_nsec = 5000000};
    crt_actor_t *ledger;

    CRT_CHECK(crt_actor_find("ledger", NULL, &ledger_class, &ledger));
    for (;;) {
        crt_ref_t *ref = crt_call(ledger, &ledger_add);
        double at;
        crt_status_t status = crt_get_for(ref, 60000, &at);

        if (status == CRT_OK)
            printf("ran %.6f\n", at);
        else
            printf("failed %.6f %s %s %s\n", now_s(), crt_status_name(status),
                   crt_ref_error(ref) && crt_ref_error(ref)->may_have_run ? "may have run"
                                                                          : "did not run",
                   crt_error_detail());
        fflush(stdout);
        crt_ref_drop(&ref);
        nanosleep(&pause, NULL);
    }
}

static int driver(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "make") == 0)
        return make(strcmp(argv[2], "fenced") == 0);
    if (argc == 2 && strcmp(argv[1], "call") == 0)
        call_for_ever();
    return 2;
}

int main(int argc, char **argv)
{
    return crt_main(
        argc, argv,
        CRT_OPTIONS(.name_space = "ledgers", .classes = CRT_CLASSES(&ledger_class)),
        driver);
}
