/* SPDX-License-Identifier: Apache-2.0 */
/* Submitted jobs of this node, by their job ids. See submission_int.h. */
#include <string.h>
#include <unistd.h>

#include "runtime/node/submission_int.h"

#define ENDED_MAX 100 /* ends that are remembered */

crti_submission_t *crti_submission_find(crti_node_t *node, crti_id_t job)
{
    return crti_map_get(&node->submissions.by_job, &job);
}

void crti_submission_free(crti_submission_t *s)
{
    free(s->program);
    free(s);
}

/* The directory of a job, below the head's state directory. */
crt_status_t crti_submission_directory(crti_node_t *node, crti_id_t job, char *path,
                                       size_t size)
{
    char file[CRTI_NODE_PATH + 16], state[CRTI_NODE_PATH], hex[CRTI_ID_HEX];
    CRTI_AUTO(free) char *text = NULL;
    crt_status_t status;

    if (node->options.head_dir[0] == '\0')
        return crt_raise(CRT_ERR_UNSUPPORTED, "jobs run on the node of the head's host");
    snprintf(file, sizeof(file), "%s/head.info", node->options.head_dir);
    status = crti_info_read(file, &text);
    if (status != CRT_OK)
        return status;
    crti_info_get(text, "state_dir", state, sizeof(state));
    if (state[0] == '\0')
        return crt_raise(CRT_ERR_CORRUPT, "%s names no state_dir", file);
    snprintf(path, size, "%s/jobs/%s", state, crti_id_hex(job, hex));
    return CRT_OK;
}

crt_status_t crti_submission_log(crti_node_t *node, const char *name, char *path,
                                 size_t size, bool *ended_out)
{
    char dir[CRTI_NODE_PATH + CRTI_ID_HEX + 8];
    const crti_submission_t *s;
    crt_status_t status;
    crti_id_t job;

    if (!crti_id_parse(name, &job))
        return crt_raise(CRT_ERR_NOT_FOUND, "\"%s\" is not the id of a job", name);
    s = crti_submission_find(node, job);
    status = crti_submission_directory(node, job, dir, sizeof(dir));
    if (status != CRT_OK)
        return status;
    snprintf(path, size, "%s/driver.log", dir);
    *ended_out = s == NULL || s->state == CRTI_SUBMISSION_ENDED;
    if (s == NULL && access(path, F_OK) < 0)
        return crt_raise(CRT_ERR_NOT_FOUND, "job %s has no log", name);
    return CRT_OK;
}

/* Only so many ends that the head knows are remembered: the oldest goes. */
void crti_submission_trim(crti_node_t *node)
{
    crti_submission_t *oldest = NULL;
    size_t ended = 0;

    CRTI_MAP_FOREACH (crti_submission_t, s, &node->submissions.by_job) {
        if (s->state != CRTI_SUBMISSION_ENDED || !s->heard)
            continue;
        ended++;
        if (oldest == NULL || s->ended_order < oldest->ended_order)
            oldest = s;
    }
    if (ended <= ENDED_MAX)
        return;
    crti_map_remove(&node->submissions.by_job, &oldest->job);
    crti_submission_free(oldest);
}

bool crti_submission_has(crti_node_t *node, pid_t pid)
{
    CRTI_MAP_FOREACH (crti_submission_t, s, &node->submissions.by_job)
        if (s->state != CRTI_SUBMISSION_ENDED && s->pid == pid)
            return true;
    return false;
}

bool crti_submission_any(crti_node_t *node)
{
    CRTI_MAP_FOREACH (crti_submission_t, s, &node->submissions.by_job)
        if (s->state != CRTI_SUBMISSION_ENDED)
            return true;
    return false;
}
