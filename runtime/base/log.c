/* SPDX-License-Identifier: Apache-2.0 */
/* Logging: selection by module, one write per line, so many a second. See log.h. */
#include "runtime/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/crt_printable.h"
#include "runtime/base/limit.h"
#include "runtime/base/number_text.h"

#define MODULES_MAX 16
#define LINE_NS     (CRTI_S / CRTI_LOG_RATE)

static const char *const level_names[] = {"error", "warn",  "notice",
                                          "info",  "debug", "trace"};

/* The log level is the runtime's one global setting: it must work before there is a runtime,
 * and in every thread. Written by crti_log_select before other threads run. */
static struct {
    /* -1: not selected yet, CRT_LOG is read at the first line. Stored last (release), read
     * first (acquire by crti_log_is_on): who sees a level sees its modules. */
    _Atomic int level;
    int modules;
    struct {
        char name[24];
        int level;
    } module[MODULES_MAX];
    void (*sink)(void *user, int level, const char *line);
    void *sink_user;
} selected = {.level = -1};

_Atomic int crti_log_most = CRTI_LOG_TRACE;

static int level_of(const char *name, size_t length)
{
    for (int i = 0; i <= CRTI_LOG_TRACE; i++)
        if (strlen(level_names[i]) == length && memcmp(level_names[i], name, length) == 0)
            return i;
    return -1;
}

/* `level_out` is set by a word without module. */
static void select_one(const char *word, size_t length, int *level_out)
{
    const char *equal = memchr(word, '=', length);
    size_t name_length = equal ? (size_t)(equal - word) : 0;
    int level =
        equal ? level_of(equal + 1, length - name_length - 1) : level_of(word, length);

    if (level < 0 || name_length >= sizeof(selected.module[0].name) ||
        (equal && selected.modules == MODULES_MAX)) {
        fprintf(stderr, "crt: CRT_LOG: \"%.*s\" is not a level or module=level\n",
                (int)length, word);
        return;
    }
    if (!equal) {
        *level_out = level;
        return;
    }
    memcpy(selected.module[selected.modules].name, word, name_length);
    selected.module[selected.modules].name[name_length] = '\0';
    selected.module[selected.modules++].level = level;
}

void crti_log_select(const char *selection)
{
    int level = CRTI_LOG_NOTICE, most;

    selected.modules = 0;
    while (selection && *selection) {
        size_t length = strcspn(selection, ",");

        if (length)
            select_one(selection, length, &level);
        selection += length + (selection[length] == ',');
    }
    most = level;
    for (int i = 0; i < selected.modules; i++)
        if (selected.module[i].level > most)
            most = selected.module[i].level;
    atomic_store_explicit(&selected.level, level, memory_order_release);
    atomic_store_explicit(&crti_log_most, most, memory_order_relaxed);
}

static void select_from_environment(void)
{
    crti_log_select(getenv("CRT_LOG"));
}

void crti_log_set_sink(void (*sink)(void *user, int level, const char *line), void *user)
{
    selected.sink = sink;
    selected.sink_user = user;
}

bool crti_log_is_chosen(crti_log_level_t level, const char *module)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int limit = atomic_load_explicit(&selected.level, memory_order_acquire);

    if (limit < 0) {
        pthread_once(&once, select_from_environment);
        limit = atomic_load_explicit(&selected.level, memory_order_relaxed);
    }
    for (int i = 0; i < selected.modules; i++)
        if (strcmp(selected.module[i].name, module) == 0)
            limit = selected.module[i].level;
    return (int)level <= limit;
}

static bool wants_json;

static void format_from_environment(void)
{
    const char *format = getenv("CRT_LOG_FORMAT");

    wants_json = format && strcmp(format, "json") == 0;
}

static bool is_json(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, format_from_environment);
    return wants_json;
}

/* The text as the inside of a JSON string; what does not fit is cut off. */
static size_t escape(char *to, size_t size, const char *text)
{
    size_t used = 0;

    for (; *text && used + 7 < size; text++) {
        unsigned char c = (unsigned char)*text;

        if (c == '"' || c == '\\')
            to[used++] = '\\';
        if (c < ' ')
            used += (size_t)snprintf(to + used, size - used, "\\u%04x", c);
        else
            to[used++] = (char)c;
    }
    return used;
}

/* "2026-01-31 12:00:00.000 warn node 4711 TEXT", or as JSON; its length. There is room for one byte
 * more. */
static size_t make_line(char *line, size_t size, crti_log_level_t level,
                        const char *module, const char *text)
{
    struct timespec now;
    struct tm local;
    char when[40];
    size_t used;

    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &local);
    used = strftime(when, sizeof(when), "%F %T", &local);
    snprintf(when + used, sizeof(when) - used, ".%03ld", now.tv_nsec / 1000000);
    if (!is_json()) {
        snprintf(line, size - 1, "%s %s %s %d %s", when, level_names[level], module,
                 (int)getpid(), text);
        return strlen(line);
    }
    used = (size_t)snprintf(line, size,
                            "{\"time\":\"%s\",\"level\":\"%s\",\"module\":\"%s\",\"pid\":"
                            "%d,\"text\":\"",
                            when, level_names[level], module, (int)getpid());
    used += escape(line + used, size - used - 4, text);
    line[used++] = '"';
    line[used++] = '}';
    line[used] = '\0';
    return used;
}

/* Lines that were not written: too many at once, or a full disk. */
static _Atomic uint64_t dropped;

/* One write, so that lines of several processes do not mix. */
static void end_line(char *line, size_t used)
{
    line[used++] = '\n';
    if (write(STDERR_FILENO, line, used) < 0)
        atomic_fetch_add(&dropped, 1);
}

static void tell_dropped(void)
{
    uint64_t missing = atomic_exchange(&dropped, 0);
    char line[320], text[128];
    size_t used;

    if (!missing)
        return;
    snprintf(text, sizeof(text),
             "%llu lines are missing here: too many came at once, or the disk was full",
             (unsigned long long)missing);
    used = make_line(line, sizeof(line), CRTI_LOG_WARN, "log", text);
    line[used++] = '\n';
    if (write(STDERR_FILENO, line, used) < 0)
        atomic_fetch_add(&dropped, missing);
}

/* ---------------------------------------------------------------- file */

/* The file behind stderr; its path is "" while there is none. */
static struct {
    pthread_mutex_t lock;
    char path[PATH_MAX];
} file = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* stdout and stderr become the file at `path`; one that is full makes room first. */
static crt_status_t open_file(const char *path)
{
    char old[PATH_MAX + 2];
    struct stat st;
    int fd;

    if (stat(path, &st) == 0 && st.st_size >= (off_t)CRTI_LIMIT(log_file)) {
        snprintf(old, sizeof(old), "%s.1", path);
        if (rename(path, old) != 0)
            return crt_raise(CRT_ERR_IO, "%s: %s", old, strerror(errno));
    }
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return crt_raise(CRT_ERR_IO, "%s: %s", path, strerror(errno));
    dup2(fd, STDOUT_FILENO);
    dup2(fd, STDERR_FILENO);
    close(fd);
    return CRT_OK;
}

crt_status_t crti_log_to_file(const char *path)
{
    crt_status_t status;

    if (strlen(path) >= sizeof(file.path))
        return crt_raise(CRT_ERR_TOO_LARGE, "the path of the log is too long: %s", path);
    status = open_file(path);
    if (status == CRT_OK)
        strcpy(file.path, path);
    return status;
}

/* A file that can't be rotated grows on: its lines are worth more than its bound. */
static void rotate(void)
{
    struct stat st;

    if (!file.path[0] || pthread_mutex_trylock(&file.lock) != 0)
        return;
    if (fstat(STDERR_FILENO, &st) == 0 && st.st_size >= (off_t)CRTI_LIMIT(log_file))
        (void)open_file(file.path);
    pthread_mutex_unlock(&file.lock);
}

/* Each line moves `due` on by LINE_NS, never behind now; it is too many when `due` is further ahead
 * than a burst takes (the generic cell rate algorithm, ITU-T I.371). */
static bool is_too_many(void)
{
    static _Atomic uint64_t due;
    uint64_t now = crti_now_ns(), before = atomic_load(&due), from;

    do {
        from = before > now ? before : now;
        if (from - now > (CRTI_LOG_BURST - 1) * LINE_NS)
            return true;
    } while (!atomic_compare_exchange_weak(&due, &before, from + LINE_NS));
    return false;
}

void crti_log_write(crti_log_level_t level, const char *module, const char *format, ...)
{
    char line[2200], text[1900];
    va_list args;
    size_t used;

    if (!selected.sink && level <= CRTI_LOG_INFO && is_too_many()) {
        atomic_fetch_add(&dropped, 1);
        return;
    }
    if (!selected.sink) {
        rotate();
        tell_dropped();
    }
    va_start(args, format);
    crti_vformat(text, sizeof(text), format, args);
    va_end(args);
    for (char *at = crt_make_printable(text); *at; at++)
        if (*at == '\n') /* nothing of others begins a line of its own */
            *at = ' ';
    used = make_line(line, sizeof(line), level, module, text);
    if (selected.sink)
        selected.sink(selected.sink_user, (int)level, line);
    else
        end_line(line, used);
}
