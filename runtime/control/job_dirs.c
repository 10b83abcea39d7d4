/* SPDX-License-Identifier: Apache-2.0 */
/* Directories of jobs. See job_dirs.h. */
#include "runtime/control/job_dirs.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/log.h"
#include "runtime/base/thread.h"
#include "runtime/control/head_options.h"

#define GONE ".gone-"

/* Whether a thread runs, and whether there is more for it. */
static struct {
    pthread_mutex_t lock;
    bool runs, has_more;
} remover = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void remove_gone(const char *jobs)
{
    char path[PATH_MAX + NAME_MAX + 2];
    const struct dirent *entry;
    DIR *dir = opendir(jobs);

    while (dir && (entry = readdir(dir)) != NULL)
        if (strncmp(entry->d_name, GONE, strlen(GONE)) == 0) {
            snprintf(path, sizeof(path), "%s/%s", jobs, entry->d_name);
            crti_head_remove_tree(path);
        }
    if (dir)
        closedir(dir);
}

static bool has_more(void)
{
    bool more;

    pthread_mutex_lock(&remover.lock);
    more = remover.runs = remover.has_more;
    remover.has_more = false;
    pthread_mutex_unlock(&remover.lock);
    return more;
}

static void *run(void *user)
{
    char *jobs = user;

    while (has_more())
        remove_gone(jobs);
    free(jobs);
    return NULL;
}

static int begin_thread(char *jobs)
{
    pthread_t thread;
    int failed = crti_thread_start(&thread, NULL, run, jobs);

    if (!failed)
        pthread_detach(thread);
    return failed;
}

static void remove_later(const char *jobs)
{
    char *copy = strdup(jobs);
    int failed;

    pthread_mutex_lock(&remover.lock);
    remover.has_more = true;
    failed = remover.runs || !copy ? -1 : begin_thread(copy);
    if (failed > 0)
        crti_log(CRTI_LOG_WARN, "jobs", "%s: what ended jobs left is not removed: %s",
                 jobs, strerror(failed));
    remover.runs = remover.runs || failed == 0;
    pthread_mutex_unlock(&remover.lock);
    if (failed)
        free(copy);
}

/* False: it has none. */
static bool rename_gone(const char *jobs, const char *name)
{
    char from[PATH_MAX + CRTI_ID_HEX + 2], to[PATH_MAX + CRTI_ID_HEX + 16];

    snprintf(from, sizeof(from), "%s/%s", jobs, name);
    snprintf(to, sizeof(to), "%s/" GONE "%s", jobs, name);
    if (rename(from, to) == 0)
        return true;
    if (errno != ENOENT)
        crti_log(CRTI_LOG_WARN, "jobs", "%s: %s", from, strerror(errno));
    return false;
}

void crti_job_dirs_remove(const char *state_dir, crti_id_t job)
{
    char jobs[PATH_MAX], hex[CRTI_ID_HEX];

    snprintf(jobs, sizeof(jobs), "%s/jobs", state_dir);
    if (rename_gone(jobs, crti_id_hex(job, hex)))
        remove_later(jobs);
}

void crti_job_dirs_sweep(const char *state_dir, const crti_control_t *control)
{
    const struct dirent *entry;
    char jobs[PATH_MAX];
    crti_id_t job;
    DIR *dir;

    snprintf(jobs, sizeof(jobs), "%s/jobs", state_dir);
    dir = opendir(jobs);
    if (dir == NULL)
        return; /* no job was ever submitted here */
    while ((entry = readdir(dir)) != NULL)
        if (strlen(entry->d_name) == CRTI_ID_HEX - 1 &&
            crti_id_parse(entry->d_name, &job) && !crti_control_has_job(control, job))
            rename_gone(jobs, entry->d_name);
    closedir(dir);
    remove_later(jobs); /* also what a head before did not */
}
