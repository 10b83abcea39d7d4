/* SPDX-License-Identifier: Apache-2.0 */
/* Help: a second thread for copies and for mapping many pages.
 *
 * Where it sits
 *     copy.c, prefault.c -> [ store/help.c ]
 * When
 *     This process may use two processors, and one of the host's has nothing to do. Finding out
 *     costs some 10 us, making and joining the thread 40: callers ask from several MiB on.
 * Threads
 *     The helper lives as long as the work, with all signals blocked, so that a process keeps the
 *     threads it has. Both take pieces in order until none is left: who loses its processor holds
 *     the other up by one piece at most.
 */
#include "runtime/store/help.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "runtime/base/thread.h"

static bool is_core_free(void)
{
    FILE *file;
    unsigned running = 0;
    cpu_set_t mine;
    bool known;

    if (sched_getaffinity(0, sizeof(mine), &mine) != 0 || CPU_COUNT(&mine) < 2)
        return false;
    file = fopen("/proc/loadavg", "re");
    known = file && fscanf(file, "%*s %*s %*s %u/", &running) == 1;
    if (file)
        fclose(file);
    return known && (long)running < sysconf(_SC_NPROCESSORS_ONLN);
}

static void *take_pieces(void *arg)
{
    crti_help_t *h = arg;
    size_t at;

    while ((at = atomic_fetch_add(&h->next, h->piece)) < h->size)
        h->work(h->user, at, h->size - at < h->piece ? h->size : at + h->piece);
    return NULL;
}

void crti_help_run(crti_help_t *help)
{
    pthread_t helper;
    bool has_helper = false;

    atomic_store(&help->next, 0);
    if (is_core_free())
        has_helper = crti_thread_start(&helper, NULL, take_pieces, help) == 0;
    take_pieces(help);
    if (has_helper)
        pthread_join(helper, NULL);
}
