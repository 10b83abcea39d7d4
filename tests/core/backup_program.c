/* SPDX-License-Identifier: Apache-2.0 */
/* A driver of tasks of which some are slow, and which does what it is told, a line each
 * (test_backups.py). The answer begins with the name of the status.
 *     quick N        N tasks, one after the other
 *     slow FILE      a task that notes its node and pid in a line of FILE, and stalls when that
 *                    line is the first one, or while FILE.stall is there; when it is cancelled it
 *                    notes a line in FILE.cancelled
 *     done           waits until the slow one is done, and leaves its value where it is
 *     value          the node and pid that returned it
 *     cancel         the slow one */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <crt.h>

#define BYTES    (100 << 10) /* lies in the store */
#define STALL_MS 60000

static void sleep_ms(int ms)
{
    nanosleep(&(struct timespec){0, ms * 1000000L}, NULL);
}

/* Appends the line; how many bytes were there before. */
static off_t note_line(const char *path, const char *suffix, const char *line)
{
    char name[300];
    struct stat info;
    int fd;

    snprintf(name, sizeof(name), "%s%s", path, suffix);
    fd = open(name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, line, strlen(line)) != (ssize_t)strlen(line) ||
        fstat(fd, &info) != 0)
        abort();
    close(fd);
    return info.st_size - (off_t)strlen(line);
}

static bool shall_stall(const char *path, bool is_first)
{
    char name[300];

    snprintf(name, sizeof(name), "%s.stall", path);
    return is_first || access(name, F_OK) == 0;
}

static crt_status_t work_run(crt_call_t *call)
{
    char *bytes = calloc(1, BYTES);
    crt_status_t status;
    const char *path;
    char line[100];
    bool is_first;

    CRT_TRY(crt_args(call, &path));
    if (!bytes)
        return crt_fail(call, CRT_ERR_NO_MEMORY, "no memory");
    snprintf(line, sizeof(line), "%s %d\n", crt_node_id(), (int)getpid());
    if (!*path) {
        sleep_ms(20);
    } else {
        is_first = note_line(path, "", line) == 0;
        for (int i = 0; i < STALL_MS && shall_stall(path, is_first); i++) {
            if (crt_cancelled(call)) {
                note_line(path, ".cancelled", line);
                break;
            }
            sleep_ms(1);
        }
    }
    snprintf(bytes, BYTES, "%.*s", (int)strlen(line) - 1, line);
    status = crt_return(call, ((crt_bytes_t){bytes, BYTES}));
    free(bytes);
    return status;
}
static const crt_task_t work =
    CRT_TASK(.name = "work", .run = work_run, .signature = "string");

/* ---------------------------------------------------------------- in the driver */

static crt_ref_t *slow;

static void say(crt_status_t status, const char *text)
{
    printf("%s %s\n", crt_status_name(status),
           status == CRT_OK ? text : crt_error_detail());
    fflush(stdout);
}

static crt_ref_t *submit(const char *path)
{
    return crt_submit(&work, CRT_TASK_OPTIONS(.backup_after = 3.0), path);
}

static void run_quick(int count)
{
    crt_status_t status = CRT_OK;

    for (int i = 0; i < count && status == CRT_OK; i++) {
        crt_ref_t *ref = submit("");

        status = crt_get(ref, NULL);
        crt_ref_drop(&ref);
    }
    say(status, "");
}

static void say_value(void)
{
    crt_bytes_t bytes = {0};
    crt_status_t status = crt_get(slow, &bytes);

    say(status, status == CRT_OK ? bytes.data : "");
}

static void obey(const char *line)
{
    char verb[20] = "", word[200] = "";

    (void)sscanf(line, "%19s %199s", verb, word);
    if (strcmp(verb, "quick") == 0) {
        run_quick(atoi(word));
    } else if (strcmp(verb, "slow") == 0) {
        crt_ref_drop(&slow);
        slow = submit(word);
        say(CRT_OK, "");
    } else if (strcmp(verb, "done") == 0) {
        say(crt_refs_wait(&slow, 1, CRT_REFS_WAIT_OPTIONS(.no_fetch = true), -1, NULL),
            "");
    } else if (strcmp(verb, "value") == 0) {
        say_value();
    } else if (strcmp(verb, "cancel") == 0) {
        say(crt_cancel(slow, NULL), "");
    } else {
        say(CRT_ERR_INVALID, "");
    }
}

static int driver(int argc, char **argv)
{
    char line[300];

    while (fgets(line, sizeof(line), stdin))
        obey(line);
    crt_ref_drop(&slow);
    return 0;
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv, CRT_OPTIONS(.tasks = CRT_TASKS(&work)), driver);
}
