/* SPDX-License-Identifier: Apache-2.0 */
/* What was uploaded for a submitted job, on a node that has not the head's cache; and what it
 * leaves there.
 *
 * Where it sits
 *     submission.c -> [ node/jobs/submission_fetch.c ] -> program.c (the cache, or PROGRAM_GET of
 *     the source)
 * Threads: the loop's; what a job left is removed by a thread of its own.
 */
#include <ftw.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/thread.h"
#include "runtime/node/jobs/submission_int.h"

#define OPEN_FDS 16

static crti_submission_t *find(crti_node_t *node, crti_id_t job)
{
    return crti_map_get(&node->submissions->by_job, &job);
}

static bool is_sha(const char *text)
{
    return strspn(text, "0123456789abcdef") == CRTI_SHA_TEXT - 1 &&
           text[CRTI_SHA_TEXT - 1] == '\0';
}

static void fetch_next(crti_submission_t *s);

static void end(crti_submission_t *s, crt_status_t status)
{
    crti_job_t *job = crti_job_find(s->node, s->job);

    s->is_fetching = false;
    if (job)
        crti_job_release(job);
    s->on_fetched(s, status);
}

static void on_upload(crti_job_t *job, crt_status_t status, const char *text)
{
    crti_submission_t *s = find(job->node, job->id);

    if (s == NULL)
        return;
    if (status == CRT_OK)
        fetch_next(s);
    else
        end(s, crt_raise(status, "what was uploaded for the job: %s", text));
}

/* They stay open, and with that in the cache, until the job has ended. */
static void fetch_next(crti_submission_t *s)
{
    char package[CRTI_SHA_TEXT + 1];
    const char *shas[2] = {s->sha, package};

    crti_job_variable(crti_span(s->environment.data, s->environment.size),
                      CRTI_JOB_PACKAGE, package, sizeof(package));
    for (int i = 0; i < 2; i++) {
        crti_program_spec_t spec = {.sha = shas[i], .fd_out = &s->uploads[i]};
        crti_job_t *job;

        if (s->uploads[i] >= 0 || !is_sha(shas[i]))
            continue;
        job = crti_job_get(s->node, s->job);
        if (job == NULL) {
            end(s, crt_raise(CRT_ERR_NO_MEMORY, "job"));
            return;
        }
        job->driver_node = s->source;
        s->is_fetching = true;
        crti_program_find(job, &spec, on_upload);
        return;
    }
    end(s, CRT_OK);
}

void crti_submission_fetch(crti_submission_t *s,
                           void (*on_ready)(crti_submission_t *s, crt_status_t status))
{
    s->on_fetched = on_ready;
    if (crti_id_equal(s->source, s->node->id) || s->node->has_head_cache)
        on_ready(s, CRT_OK);
    else
        fetch_next(s);
}

void crti_submission_fetch_cancel(crti_submission_t *s)
{
    crti_job_t *job = crti_job_find(s->node, s->job);

    s->is_fetching = false;
    if (job == NULL)
        return;
    crti_program_cancel(job);
    crti_job_release(job);
}

/* ---------------------------------------------------------------- what it leaves */

static int remove_entry(const char *path, const struct stat *st, int type,
                        struct FTW *walk)
{
    remove(path); /* what stays can be seen there */
    return 0;
}

static void *remove_tree(void *user)
{
    nftw(user, remove_entry, OPEN_FDS, FTW_DEPTH | FTW_PHYS);
    free(user);
    return NULL;
}

void crti_submission_forget(crti_node_t *node, crti_id_t job)
{
    const crti_submission_t *s = find(node, job);
    char path[CRTI_NODE_PATH + CRTI_ID_HEX + 8], *copy;
    pthread_t thread;

    if (node->options.given.head_dir[0] || (s && s->state != CRTI_SUBMISSION_ENDED) ||
        crti_submission_directory(node, job, path, sizeof(path)) != CRT_OK)
        return; /* on the head's host the head does it */
    copy = strdup(path);
    if (copy && crti_thread_start(&thread, NULL, remove_tree, copy) == 0)
        pthread_detach(thread);
    else
        free(copy);
}
