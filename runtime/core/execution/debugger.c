/* SPDX-License-Identifier: Apache-2.0 */
/* A worker that waits for a debugger. See debugger.h. */
#include "runtime/core/execution/debugger.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "runtime/core/process/context.h"

#define LOOK_NS 100000000 /* the kernel tells nobody that he is traced */

static const char *wanted(void)
{
    const char *name = getenv("CRT_DEBUG_WORKER");

    return name && *name ? name : NULL;
}

bool crti_debugger_is_wanted(void)
{
    return wanted() != NULL;
}

static bool is_traced(void)
{
    CRTI_AUTO(fclose) FILE *file = fopen("/proc/self/status", "re");
    char line[128];
    int pid = 0;

    while (file && fgets(line, sizeof(line), file))
        if (sscanf(line, "TracerPid: %d", &pid) == 1)
            break;
    return pid != 0;
}

static volatile sig_atomic_t is_continued;

static void on_continue(int number)
{
    is_continued = 1;
}

/* By a handler: a signal that is only blocked is lost when another thread of the process does not
 * block it. */
static void wait_for_it(const char *name)
{
    const struct timespec look = {.tv_nsec = LOOK_NS};
    const struct sigaction go_on = {.sa_handler = on_continue, .sa_flags = SA_RESTART};
    struct sigaction before;

    is_continued = 0;
    sigaction(SIGCONT, &go_on, &before);
    fprintf(stderr,
            "%s waits for a debugger: gdb -p %d (without one it goes on by: kill -CONT "
            "%d)\n",
            name, (int)getpid(), (int)getpid());
    while (!is_traced() && !is_continued)
        nanosleep(&look, NULL);
    sigaction(SIGCONT, &before, NULL);
}

bool crti_debugger_await(crti_core_t *core, const char *name)
{
    const char *meant = wanted();

    if (!meant || (strcmp(meant, "*") != 0 && strcmp(meant, name) != 0))
        return !meant;
    crti_net_busy(core->net, true);
    crti_net_unlock(core->net);
    /* A parent alone may trace where Yama guards processes. */
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    wait_for_it(name);
    crti_net_lock(core->net);
    crti_net_busy(core->net, false);
    return true;
}
