/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a zygote (zygote.c): it is told, killed, and what is left of it is closed.
 *
 * Where it sits
 *     job_end.c, zygote.c -> [ node/jobs/zygote_end.c ] -> the process
 */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/node/host/log_quota.h"
#include "runtime/node/jobs/job_int.h"

#define END_NS (1 * CRTI_S) /* to end what its workers left */

void crti_zygote_close(crti_job_t *job)
{
    crti_zygote_t *z = &job->zygote;

    for (int i = 0; i < 2; i++)
        crti_output_close(&z->output[i]);
    crti_log_quota_ended(job->node->log_quota, &z->log);
    crti_channel_free(z->channel);
    z->channel = NULL;
    crti_loop_cancel(job->node->loop, &z->start_timer);
    if (z->pidfd >= 0) {
        crti_loop_remove(job->node->loop, &z->pidfd_watch);
        close(z->pidfd);
    }
    z->pidfd = -1;
    z->pid = 0;
    crti_close_auto(&z->report);
    z->report = -1;
}

static void on_still_there(void *user)
{
    const crti_job_t *job = user;

    kill(-job->zygote.pid, SIGKILL);
}

/* One that serves ends what its workers left anywhere before it goes (core/client/zygote.c). */
void crti_zygote_kill(crti_job_t *job)
{
    crti_zygote_t *z = &job->zygote;
    bool serves = z->channel && job->state == CRTI_JOB_SERVING;

    if (z->pid == 0 || (!z->channel && crti_timer_is_started(&z->start_timer)))
        return;
    crti_channel_free(z->channel);
    z->channel = NULL;
    crti_loop_cancel(job->node->loop, &z->start_timer);
    z->start_timer = (crti_timer_t){.on_expired = on_still_there, .user = job};
    if (!serves || crti_loop_start(job->node->loop, &z->start_timer,
                                   crti_node_now(job->node) + END_NS) != CRT_OK)
        kill(-z->pid, SIGKILL);
}

void crti_zygote_fini(crti_job_t *job)
{
    if (job->zygote.pid) {
        kill(-job->zygote.pid, SIGKILL);
        waitpid(job->zygote.pid, NULL, 0);
    }
    crti_zygote_close(job);
}
