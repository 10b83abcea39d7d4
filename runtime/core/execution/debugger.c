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

#include "runtime/core/core.h"

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

static void wait_for_it(void)
{
    const struct timespec look = {.tv_nsec = LOOK_NS};
    sigset_t go_on, before;

    sigemptyset(&go_on);
    sigaddset(&go_on, SIGCONT);
    pthread_sigmask(SIG_BLOCK, &go_on, &before);
    while (!is_traced() && sigtimedwait(&go_on, NULL, &look) != SIGCONT)
        continue;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
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
    fprintf(stderr,
            "%s waits for a debugger: gdb -p %d (without one it goes on by: kill -CONT "
            "%d)\n",
            name, (int)getpid(), (int)getpid());
    wait_for_it();
    crti_net_lock(core->net);
    crti_net_busy(core->net, false);
    return true;
}
