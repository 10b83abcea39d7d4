/* SPDX-License-Identifier: Apache-2.0 */
/* Who submits jobs, and the head's own host that runs them. See cluster.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/cluster.h"

static int find_submission(const scene_t *s, crti_span_t name)
{
    for (unsigned i = 0; i < s->jobs; i++)
        if (s->job[i].submission[0] && crti_str_equal(name, s->job[i].submission))
            return (int)i;
    return -1;
}

/* ---------------------------------------------------------------- the client */

void admin_connected(scene_t *s)
{
    sim_place_t *p = &s->place[ADMIN_PLACE];

    p->registered = true;
    CRTI_LIST_FOREACH (item, &p->questions) {
        question_t *q = CRTI_CONTAINER(item, question_t, in_list);

        q->again = true; /* it may have been done already */
        links_send(s, (unsigned)p->link, TO_HEAD, q->bytes.data, q->bytes.size);
    }
}

static void stop(scene_t *s, truth_job_t *job)
{
    crti_msg_job_stop_t m = {.submission = crti_str(job->submission)};

    if (node_ask(s, ADMIN_PLACE, CRTI_MSG_JOB_STOP, &m, (unsigned)(job - s->job), 0))
        job->stop_asked = true;
}

static void admin_answered(scene_t *s, const question_t *q, const crti_message_t *m)
{
    truth_job_t *job = &s->job[q->subject];
    bool exists = m->kind == CRTI_MSG_ERROR && m->error.status == CRT_ERR_EXISTS;

    if (q->kind == CRTI_MSG_JOB_SUBMIT) {
        job->acked = m->kind == CRTI_MSG_DONE || exists;
        job->refused = !job->acked;
        if (exists && !q->again)
            sim_fail(s->world, "submission %s exists before it was made",
                     job->submission);
        if (job->acked && sim_below(s->world, 16) == 0)
            stop(s, job); /* before it runs, mostly */
    }
}

void admin_receive(scene_t *s, const crti_message_t *m)
{
    sim_place_t *p = &s->place[ADMIN_PLACE];

    CRTI_LIST_FOREACH (item, &p->questions) {
        question_t *q = CRTI_CONTAINER(item, question_t, in_list);

        if (q->number != m->request)
            continue;
        admin_answered(s, q, m);
        crti_list_remove(&q->in_list);
        crti_buffer_fini(&q->bytes);
        free(q);
        return;
    }
}

void admin_submit(scene_t *s)
{
    truth_job_t *job = &s->job[s->jobs];
    crti_msg_job_submit_t m;

    if (s->jobs == JOBS)
        return;
    *job = (truth_job_t){.place = 0};
    snprintf(job->submission, sizeof(job->submission), "s%u", s->jobs);
    m = (crti_msg_job_submit_t){.submission = crti_str(job->submission),
                                .entrypoint = crti_str("run")};
    if (node_ask(s, ADMIN_PLACE, CRTI_MSG_JOB_SUBMIT, &m, s->jobs, 0))
        s->jobs++;
}

void admin_stop_some(scene_t *s)
{
    truth_job_t *job;

    if (s->jobs == 0)
        return;
    job = &s->job[sim_below(s->world, s->jobs)];
    if (job->acked)
        stop(s, job);
}

/* ---------------------------------------------------------------- the host */

/* `added` says that it runs now, `over` that its end was told. */
static void exited(void *user, uint64_t number)
{
    scene_t *s = user;
    truth_job_t *job = &s->job[number % JOBS];
    crti_msg_job_exited_t m = {.job = job->run,
                               .wait_status = number / JOBS & 1 ? 256 : 0,
                               .text = crti_str("output")};

    if (!job->added || s->place[0].life != number / JOBS / 2)
        return;
    job->added = false;
    node_ask(s, 0, CRTI_MSG_JOB_EXITED, &m, (unsigned)(number % JOBS), 0);
}

static int find_run(const scene_t *s, crti_id_t run)
{
    for (unsigned i = 0; i < s->jobs; i++)
        if (s->job[i].executions && crti_id_equal(s->job[i].run, run))
            return (int)i;
    return -1;
}

void admin_start(scene_t *s, unsigned place, const crti_message_t *m)
{
    int index = find_submission(s, m->job_start.submission);
    truth_job_t *job = &s->job[index < 0 ? 0 : index];
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t bytes = {0};
    bool known = job->executions && job->incarnation == s->place[0].incarnation;
    uint64_t failing = sim_below(s->world, 2);

    if (index < 0 || place != 0) {
        sim_fail(s->world, "JOB_START of an unknown submission, or at place %u", place);
        return;
    }
    if (!known && sim_below(s->world, 40) == 0) { /* its program does not run here */
        crti_msg_error_t error = {.status = CRT_ERR_NOT_FOUND, .text = crti_str("no")};

        crti_message_encode(CRTI_MSG_ERROR, m->request, &error, &bytes);
        links_send(s, (unsigned)s->place[0].link, TO_HEAD, bytes.data, bytes.size);
        return;
    }
    if (!known) {
        if (job->executions++)
            sim_fail(s->world, "submission %s runs twice", job->submission);
        if (job->refused)
            sim_fail(s->world, "submission %s runs although it was told to have failed",
                     job->submission);
        job->incarnation = s->place[0].incarnation;
        job->run = m->job_start.job;
        job->added = true;
        sim_after(s->world, sim_between(s->world, CRTI_MS, 3 * CRTI_S), exited, s,
                  (s->place[0].life * 2 + failing) * JOBS + (unsigned)index);
    }
    crti_message_encode(CRTI_MSG_DONE, m->request, NULL, &bytes);
    links_send(s, (unsigned)s->place[0].link, TO_HEAD, bytes.data, bytes.size);
}

void admin_stop(scene_t *s, unsigned place, const crti_message_t *m)
{
    int index = find_run(s, m->job_stop.job);
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t bytes = {0};

    if (index >= 0 && s->job[index].added)
        sim_after(s->world, sim_below(s->world, 10 * CRTI_MS), exited, s,
                  s->place[0].life * 2 * JOBS + (unsigned)index);
    crti_message_encode(CRTI_MSG_DONE, m->request, NULL, &bytes);
    links_send(s, (unsigned)s->place[place].link, TO_HEAD, bytes.data, bytes.size);
}

void admin_place_died(scene_t *s, unsigned place)
{
    if (place != 0)
        return;
    for (unsigned i = 0; i < s->jobs; i++)
        if (s->job[i].submission[0])
            s->job[i].added = false;
}
