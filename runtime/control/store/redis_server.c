/* SPDX-License-Identifier: Apache-2.0 */
/* The private redis-server. See redis_server.h. */
#include "runtime/control/store/redis_server.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sodium.h>

#include "runtime/base/buffer.h"
#include "runtime/base/log.h"
#include "runtime/crt_tools.h"

#define LINE_MAX_BYTES 1024
#define DISK_LEAST     ((uint64_t)2 << 20) /* with less, a full disk is the likely reason */

struct crti_redis_server {
    crti_redis_server_config_t config;
    char program[PATH_MAX], socket[128], head_dir[PATH_MAX], data_dir[PATH_MAX];
    char libraries[PATH_MAX + 8]; /* of its own; "": those of the system */
    char password[CRTI_REDIS_PASSWORD];
    crti_child_t child;
    int log_fd;
    crti_watch_t log_watch;
    crti_buffer_t log;
    char complaint[LINE_MAX_BYTES];
    /* the complaint is a line of its log, not one that stands around it */
    bool is_marked;
    bool is_ready;
};

/* ---------------------------------------------------------------- its log */

/* "123:M 21 Nov 2026 04:00:00.000 * text": the mark says how serious it is. Valkey's are the
 * same. */
static void read_line(crti_redis_server_t *s, const char *line)
{
    const char *mark = line;

    for (int blanks = 0; *mark && blanks < 5; mark++)
        blanks += *mark == ' ';
    if (*mark == '\0' || mark[1] != ' ')
        mark = NULL;
    if (strstr(line, "ready to accept connections") ||
        strstr(line, "Ready to accept connections")) {
        s->is_ready = true;
        s->complaint[0] = '\0';
        s->config.on_ready(s->config.user);
        return;
    }
    if (mark == NULL || *mark == '#') {
        /* "Exiting" says less than the complaint before it, and so do lines without a mark.
         * Warnings about the system are printed at each start, and are no reason to end. */
        if (line[0] == '\0' || (s->complaint[0] && strstr(line, "Exiting")) ||
            (!mark && s->is_marked) || (mark && strncmp(mark, "# WARNING", 9) == 0))
            return;
        s->is_marked = mark != NULL;
        snprintf(s->complaint, sizeof(s->complaint), "%s", mark ? mark + 2 : line);
        crti_log(s->is_ready ? CRTI_LOG_INFO : CRTI_LOG_DEBUG, "redis", "%s",
                 s->complaint);
    } else {
        crti_log(CRTI_LOG_DEBUG, "redis", "%s", mark + 2);
    }
}

static void take_lines(crti_redis_server_t *s)
{
    char line[LINE_MAX_BYTES];
    unsigned char *end;

    while (s->log.size && (end = memchr(s->log.data, '\n', s->log.size))) {
        size_t length = (size_t)(end - s->log.data);

        snprintf(line, sizeof(line), "%.*s", (int)length, (const char *)s->log.data);
        crti_buffer_consume(&s->log, length + 1);
        read_line(s, line);
    }
    if (s->log.size > 64 * 1024)
        s->log.size = 0; /* no line of redis is so long */
}

static void read_log(crti_redis_server_t *s)
{
    ssize_t n = 1;

    while (s->log_fd >= 0 && n > 0) {
        if (crti_buffer_reserve(&s->log, 4096) != CRT_OK)
            return;
        n = read(s->log_fd, s->log.data + s->log.size, 4096);
        if (n > 0)
            s->log.size += (size_t)n;
        take_lines(s);
    }
    if (n == 0) {
        crti_loop_remove(s->config.loop, &s->log_watch);
        close(crti_take_fd(&s->log_fd));
    }
}

static void on_log(void *user, uint32_t events)
{
    read_log(user);
}

/* It could not read what was written before: its complaint is about that. What it can't write, on a
 * full disk, damages nothing. */
static bool is_damaged(const crti_redis_server_t *s)
{
    return (strstr(s->complaint, "append only file") || strstr(s->complaint, "AOF") ||
            strstr(s->complaint, "RDB") || strstr(s->complaint, "loading DB")) &&
           !strcasestr(s->complaint, "write error") && !strstr(s->complaint, "writing") &&
           !strstr(s->complaint, strerror(ENOSPC));
}

/* What can be done about the file that the complaint is about. */
static void describe_cure(const crti_redis_server_t *s, const char *complaint, char *text,
                          size_t size)
{
    static const char *const files[] = {"appendonlydir/appendonly.aof.manifest",
                                        "appendonly.aof"};
    char file[PATH_MAX + 64];
    const char *server = strrchr(s->program, '/') + 1; /* and its tool: redis-, valkey- */

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        snprintf(file, sizeof(file), "%s/%s", s->data_dir, files[i]);
        if (access(file, F_OK) == 0)
            break;
    }
    if (strstr(complaint, "manifest"))
        snprintf(text, size,
                 "Copy that directory, then bring %s back, which lists the files beside "
                 "it: one line for each, first type b, then i: file NAME seq NUMBER type "
                 "b|i",
                 file);
    else if (strstr(complaint, "No such file"))
        snprintf(text, size, "Bring the file back that is missing beside %s", file);
    else if (strstr(complaint, "RDB") || strstr(complaint, "loading DB"))
        snprintf(
            text, size,
            "The file that ends in .base.rdb beside %s can't be mended: bring a copy "
            "back",
            file);
    else
        snprintf(text, size,
                 "Copy that directory, then cut off what follows the damage: "
                 "%.*s-check-aof --fix %s",
                 (int)strcspn(server, "-"), server, file);
}

/* Redis says what is wrong, and this the place and the ways out. */
static void describe_damage(const crti_redis_server_t *s, char *text, size_t size)
{
    char cure[PATH_MAX + 300], complaint[LINE_MAX_BYTES];
    char *advice;

    snprintf(complaint, sizeof(complaint), "%s", s->complaint);
    advice = strstr(complaint, ": make a backup");
    if (!advice)
        advice = strstr(complaint, ". You can");
    if (advice)
        *advice = '\0';
    describe_cure(s, complaint, cure, sizeof(cure));
    snprintf(text, size,
             "the tables of the head before, in %s, are damaged (%s: %s). %s. "
             "Or begin without its actors, jobs and stored values: --fresh",
             s->data_dir, strrchr(s->program, '/') + 1, complaint, cure);
}

static void on_exit_child(void *user, int wait_status)
{
    crti_redis_server_t *s = user;
    char text[LINE_MAX_BYTES + 2 * PATH_MAX + 512];
    bool was_ready = s->is_ready;
    struct statvfs disk;
    size_t used;

    read_log(s);
    s->is_ready = false;
    if (!was_ready && is_damaged(s))
        describe_damage(s, text, sizeof(text));
    else if (s->complaint[0])
        snprintf(text, sizeof(text), "redis-server ended: %s", s->complaint);
    else if (WIFSIGNALED(wait_status))
        snprintf(text, sizeof(text), "redis-server was killed by signal %d",
                 WTERMSIG(wait_status));
    else
        snprintf(text, sizeof(text), "redis-server ended with status %d",
                 WEXITSTATUS(wait_status));
    used = strlen(text);
    if (statvfs(s->data_dir, &disk) == 0 &&
        (disk.f_bavail * disk.f_frsize < DISK_LEAST || (disk.f_files && !disk.f_favail)))
        snprintf(text + used, sizeof(text) - used, "; the disk of %s is full",
                 s->data_dir);
    s->config.on_exit(s->config.user, text);
}

/* ---------------------------------------------------------------- start */

/* As the configuration's quotes want it: every byte but letters and digits as \\xHH. */
static void quote(const char *path, char *text, size_t size)
{
    size_t used = 0;

    for (const char *at = path; *at && used + 5 < size; at++)
        used += (size_t)snprintf(
            text + used, size - used,
            isalnum((unsigned char)*at) || strchr("/._-", *at) ? "%c" : "\\x%02x",
            (unsigned char)*at);
    text[used] = '\0';
}

static crt_status_t write_configuration(const crti_redis_server_t *s, int fd)
{
    char socket[4 * sizeof(s->socket) + 8], data_dir[4 * PATH_MAX + 8];
    char text[sizeof(socket) + sizeof(data_dir) + 1024];
    int length;

    quote(s->socket, socket, sizeof(socket));
    quote(s->data_dir, data_dir, sizeof(data_dir));
    length = snprintf(
        text, sizeof(text),
        "port 0\nunixsocket \"%s\"\nunixsocketperm 700\nrequirepass %s\ndaemonize no\n"
        "dir \"%s\"\nappendonly yes\nappendfsync always\nno-appendfsync-on-rewrite no\n"
        "aof-load-truncated yes\nauto-aof-rewrite-percentage 100\n"
        "auto-aof-rewrite-min-size 16mb\nsave \"\"\nstop-writes-on-bgsave-error no\n"
        "maxclients 16\ntimeout 0\nlogfile \"\"\nloglevel notice\ndatabases 1\n"
        "maxmemory-policy noeviction\nalways-show-logo no\nset-proc-title no\n",
        socket, s->password, data_dir);
    /* Fits in the pipe, so this never waits. */
    if (write(fd, text, (size_t)length) != length)
        return crt_raise(CRT_ERR_IO, "redis-server's configuration: %s", strerror(errno));
    return CRT_OK;
}

crt_status_t crti_redis_server_start(crti_redis_server_t *s)
{
    const char *const argv[] = {s->program, "-", NULL};
    crti_child_command_t command = {.path = s->program,
                                    .argv = argv,
                                    .head_dir = s->head_dir,
                                    .libraries = s->libraries[0] ? s->libraries : NULL};
    CRTI_AUTO(crti_close) int config_read = -1;
    CRTI_AUTO(crti_close) int config_write = -1;
    CRTI_AUTO(crti_close) int log_write = -1;
    int config[2], log[2];
    crt_status_t status;

    crti_child_kill(&s->child);
    if (pipe2(config, O_CLOEXEC) != 0)
        return crt_raise(CRT_ERR_IO, "pipe: %s", strerror(errno));
    config_read = config[0];
    config_write = config[1];
    if (pipe2(log, O_CLOEXEC) != 0)
        return crt_raise(CRT_ERR_IO, "pipe: %s", strerror(errno));
    log_write = log[1];
    if (s->log_fd >= 0) {
        crti_loop_remove(s->config.loop, &s->log_watch);
        close(s->log_fd);
    }
    s->log_fd = log[0];
    fcntl(s->log_fd, F_SETFL, O_NONBLOCK);
    unlink(s->socket); /* of one that was killed */
    s->is_ready = false;
    s->log.size = 0;
    s->complaint[0] = '\0';
    s->is_marked = false;
    command.stdin_fd = config_read;
    command.output_fd = log_write;
    status = write_configuration(s, config_write);
    if (status == CRT_OK)
        status = crti_loop_add(s->config.loop, &s->log_watch, s->log_fd, EPOLLIN);
    if (status == CRT_OK)
        status = crti_child_start(&s->child, s->config.loop, &command);
    return status;
}

/* That of the system; else the one that came along with crt (crt up), and its libraries. */
static crt_status_t find_program(crti_redis_server_t *s)
{
    char *slash;

    if (crti_child_find("redis-server", s->program, sizeof(s->program)) == CRT_OK ||
        crti_child_find("valkey-server", s->program, sizeof(s->program)) == CRT_OK)
        return CRT_OK;
    if (crti_daemon_path("redis-server", s->program, sizeof(s->program)) != CRT_OK)
        return crt_raise(CRT_ERR_NOT_FOUND,
                         "neither redis-server nor valkey-server is installed; run "
                         "setup.sh, or: apt-get install redis-server");
    snprintf(s->libraries, sizeof(s->libraries), "%s", s->program);
    slash = strrchr(s->libraries, '/');
    snprintf(slash, sizeof(s->libraries) - (size_t)(slash - s->libraries), "/lib");
    return CRT_OK;
}

/* ---------------------------------------------------------------- life */

crt_status_t crti_redis_server_new(const crti_redis_server_config_t *config,
                                   crti_redis_server_t **server_out)
{
    crti_redis_server_t *s = calloc(1, sizeof(*s));
    unsigned char secret[32];
    crt_status_t status;

    if (s == NULL || sodium_init() < 0) {
        free(s);
        return crt_raise(CRT_ERR_NO_MEMORY, "redis-server");
    }
    s->config = *config;
    s->log_fd = -1;
    s->child = (crti_child_t){.on_exit = on_exit_child, .user = s};
    s->log_watch = (crti_watch_t){.on_ready = on_log, .user = s};
    randombytes_buf(secret, sizeof(secret));
    sodium_bin2hex(s->password, sizeof(s->password), secret, sizeof(secret));
    snprintf(s->head_dir, sizeof(s->head_dir), "%s", config->head_dir);
    snprintf(s->data_dir, sizeof(s->data_dir), "%s", config->data_dir);
    status = find_program(s);
    if (status == CRT_OK &&
        snprintf(s->socket, sizeof(s->socket), "%s/redis.sock", config->head_dir) >=
            (int)sizeof(((struct sockaddr_un *)0)->sun_path))
        status =
            crt_raise(CRT_ERR_TOO_LARGE,
                      "the path %s/redis.sock is too long for a socket: set CRT_RUN_DIR "
                      "to a short one",
                      config->head_dir);
    if (status != CRT_OK) {
        free(s);
        return status;
    }
    *server_out = s;
    return CRT_OK;
}

void crti_redis_server_free(crti_redis_server_t *s)
{
    if (s == NULL)
        return;
    crti_child_kill(&s->child);
    if (s->log_fd >= 0) {
        crti_loop_remove(s->config.loop, &s->log_watch);
        close(s->log_fd);
    }
    unlink(s->socket);
    crti_buffer_fini(&s->log);
    sodium_memzero(s->password, sizeof(s->password));
    free(s);
}

const char *crti_redis_server_socket(const crti_redis_server_t *s)
{
    return s->socket;
}

const char *crti_redis_server_password(const crti_redis_server_t *s)
{
    return s->password;
}

pid_t crti_redis_server_pid(const crti_redis_server_t *s)
{
    return s->child.pid;
}
