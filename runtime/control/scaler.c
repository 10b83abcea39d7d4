/* SPDX-License-Identifier: Apache-2.0 */
/* crt-scaler: carries out what the autoscaler orders, by a provider of nodes.
 *
 * Where it sits
 *     head_scaler.c == JSON lines on descriptor 3 ==> [ control/scaler.c ] -> a provider's commands
 *     (scaler_provider.c: which those are)
 * Rules
 *     A command has a process group of its own and a deadline. It gets SIGTERM at the deadline and
 *     SIGKILL after END_NS more; then it has failed. So has one that exits with another status than
 *     0: its last line says why. What it leaves running does not hold up anybody.
 *     Commands get paths and names, never a key: the key is in a file that its owner alone reads.
 *     This process ends with the head, and its commands then get SIGTERM.
 * Threads
 *     One.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jansson.h>

#include "runtime/base/buffer.h"
#include "runtime/base/clock.h"
#include "runtime/base/list.h"
#include "runtime/base/log.h"
#include "runtime/control/scaler_provider.h"
#include "runtime/net/loop.h"

#define HEAD_FD      3
#define OUTPUT_MAX   (1u << 20) /* of a command; more is not read */
#define END_NS       (5 * CRTI_S)
#define COMMANDS_MAX 16 /* at a time; others wait for their turn */

typedef struct scaler scaler_t;

/* An order, and the command that carries it out. */
typedef struct command {
    scaler_t *scaler;
    crti_list_t link;
    json_t *order; /* as it came */
    crti_provider_call_t call;
    pid_t pid; /* 0: it waits for its turn */
    int pidfd, out_fd, error_fd;
    crti_watch_t ended, out_watch, error_watch;
    crti_buffer_t out, error;
    crti_timer_t deadline;
    bool is_late;
} command_t;

struct scaler {
    crti_loop_t *loop;
    crti_watch_t watch;
    crti_buffer_t in;
    json_t *setup; /* {"address", "key_file", "file"} */
    const json_t *file;
    const crti_provider_t *provider;
    uint64_t patience_ns;
    crti_list_t waiting, running;
    size_t running_count;
};

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

/* ---------------------------------------------------------------- answers */

static void start_waiting(scaler_t *s);

/* The head reads all the time; without it there is nothing to do. */
static void send_all(const char *data, size_t size)
{
    while (size) {
        ssize_t n = send(HEAD_FD, data, size, MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            exit(1);
        data += n;
        size -= (size_t)n;
    }
}

/* Words of what it wrote: names of instances. */
static json_t *names_of(const crti_buffer_t *out)
{
    CRTI_AUTO(free)
    char *text = strndup(out->data ? (const char *)out->data : "", out->size);
    char *save = NULL;
    json_t *names = json_array();

    for (char *word = text ? strtok_r(text, " \t\r\n", &save) : NULL; word;
         word = strtok_r(NULL, " \t\r\n", &save))
        json_array_append_new(names, json_string(word));
    return names;
}

static void free_command(command_t *c)
{
    crti_provider_call_release(&c->call);
    crti_buffer_fini(&c->out);
    crti_buffer_fini(&c->error);
    json_decref(c->order);
    free(c);
}

static void answer(command_t *c, bool is_done, const char *text)
{
    json_t *line =
        json_pack("{s:s, s:s, s:b}", "verb", crti_provider_verb_name(c->call.verb),
                  "instance", c->call.instance, "done", is_done);
    json_t *said = json_string(text);
    char *written;

    json_object_set_new(line, "text", said ? said : json_string("it failed"));
    if ((c->call.verb == CRTI_PROVIDER_LIST && is_done) || c->call.tells_machines)
        json_object_set_new(line, "names", names_of(&c->out));
    written = json_dumps(line, JSON_COMPACT);
    if (!written)
        exit(1);
    send_all(written, strlen(written));
    send_all("\n", 1);
    free(written);
    json_decref(line);
    free_command(c);
}

/* ---------------------------------------------------------------- a command that runs */

static void read_some(crti_buffer_t *to, int fd)
{
    char scrap[4096];
    ssize_t n;

    while ((n = read(fd, scrap, sizeof(scrap))) > 0)
        if (to->size < OUTPUT_MAX)
            crti_buffer_append(to, scrap, (size_t)n);
}

static void on_output(void *user, uint32_t events)
{
    command_t *c = user;

    read_some(&c->out, c->out_fd);
    if (events & EPOLLHUP)
        crti_loop_remove(c->scaler->loop, &c->out_watch);
}

static void on_error(void *user, uint32_t events)
{
    command_t *c = user;

    read_some(&c->error, c->error_fd);
    if (events & EPOLLHUP)
        crti_loop_remove(c->scaler->loop, &c->error_watch);
}

/* The last line that is not empty. */
static void last_line(const crti_buffer_t *from, char *text, size_t size)
{
    size_t end = from->size, begin;

    while (end && strchr(" \t\r\n", from->data[end - 1]))
        end--;
    for (begin = end; begin && from->data[begin - 1] != '\n'; begin--)
        continue;
    snprintf(text, size, "%.*s", (int)(end - begin),
             from->data ? (const char *)from->data + begin : "");
    for (char *at = text; *at; at++)
        if ((unsigned char)*at < ' ')
            *at = ' ';
}

static void close_command(command_t *c)
{
    crti_loop_cancel(c->scaler->loop, &c->deadline);
    crti_loop_remove(c->scaler->loop, &c->ended);
    crti_loop_remove(c->scaler->loop, &c->out_watch);
    crti_loop_remove(c->scaler->loop, &c->error_watch);
    close(c->pidfd);
    close(c->out_fd);
    close(c->error_fd);
    crti_list_remove(&c->link);
    c->scaler->running_count--;
}

static void on_ended(void *user, uint32_t events)
{
    command_t *c = user;
    scaler_t *s = c->scaler;
    char line[240], text[400];
    int how = 0;

    if (waitpid(c->pid, &how, WNOHANG) != c->pid)
        return;
    read_some(&c->out, c->out_fd);
    read_some(&c->error, c->error_fd);
    last_line(c->error.size ? &c->error : &c->out, line, sizeof(line));
    close_command(c);
    if (c->is_late)
        snprintf(text, sizeof(text), "it did not end within %.0f s and was killed%s%s",
                 (double)s->patience_ns / (double)CRTI_S, *line ? ": " : "", line);
    else if (WIFSIGNALED(how))
        snprintf(text, sizeof(text), "it was killed by signal %d%s%s", WTERMSIG(how),
                 *line ? ": " : "", line);
    else
        snprintf(text, sizeof(text), "%s%sstatus %d", line, *line ? ", " : "",
                 WEXITSTATUS(how));
    answer(c, !c->is_late && WIFEXITED(how) && WEXITSTATUS(how) == 0, text);
    start_waiting(s);
}

static void on_deadline(void *user)
{
    command_t *c = user;

    kill(-c->pid, c->is_late ? SIGKILL : SIGTERM);
    c->is_late = true;
    crti_loop_start(c->scaler->loop, &c->deadline, crti_now_ns() + END_NS);
}

/* ---------------------------------------------------------------- a command begins */

/* In the child. */
static void execute(const command_t *c, char **environment, int out, int error,
                    pid_t parent)
{
    int null_fd = open("/dev/null", O_RDONLY);
    sigset_t none;

    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGHUP, SIG_DFL);
    if (getppid() != parent || dup2(null_fd, STDIN_FILENO) < 0 ||
        dup2(out, STDOUT_FILENO) < 0 || dup2(error, STDERR_FILENO) < 0)
        _exit(126);
    syscall(SYS_close_range, STDERR_FILENO + 1, ~0u, 0); /* an old kernel: CLOEXEC does */
    execvpe(c->call.argv[0], c->call.argv, environment);
    (void)!write(STDERR_FILENO, c->call.argv[0], strlen(c->call.argv[0]));
    (void)!write(STDERR_FILENO, " can't be executed", 18);
    _exit(127);
}

/* Ours and what is added; borrowed but for the list. */
static char **make_environment(const command_t *c)
{
    extern char **environ;
    size_t count = 0, used = 0;
    char **list;

    while (environ[count])
        count++;
    list = calloc(count + c->call.envs + 1, sizeof(*list));
    for (size_t i = 0; list && i < count; i++) {
        size_t name = strcspn(environ[i], "=") + 1;
        bool is_replaced = strncmp(environ[i], "CRT_HEAD_DIR=", name) == 0;

        for (size_t k = 0; k < c->call.envs; k++)
            is_replaced |= strncmp(environ[i], c->call.env[k], name) == 0;
        if (!is_replaced)
            list[used++] = environ[i];
    }
    for (size_t i = 0; list && i < c->call.envs; i++)
        list[used++] = c->call.env[i];
    return list;
}

/* False: errno says why. */
static bool fork_command(command_t *c)
{
    CRTI_AUTO(free) char **environment = make_environment(c);
    int out[2] = {-1, -1}, error[2] = {-1, -1};
    pid_t parent = getpid();

    if (!environment || pipe2(out, O_CLOEXEC) != 0 || pipe2(error, O_CLOEXEC) != 0) {
        crti_close_auto(&out[0]);
        crti_close_auto(&out[1]);
        return false;
    }
    c->pid = fork();
    if (c->pid == 0)
        execute(c, environment, out[1], error[1], parent);
    close(out[1]);
    close(error[1]);
    c->out_fd = out[0];
    c->error_fd = error[0];
    c->pidfd = c->pid > 0 ? (int)syscall(SYS_pidfd_open, c->pid, 0) : -1;
    if (c->pidfd >= 0) {
        setpgid(c->pid, c->pid); /* in both: whichever comes first */
        fcntl(c->pidfd, F_SETFD, FD_CLOEXEC);
        fcntl(c->out_fd, F_SETFL, O_NONBLOCK);
        fcntl(c->error_fd, F_SETFL, O_NONBLOCK);
        return true;
    }
    if (c->pid > 0) {
        kill(c->pid, SIGKILL);
        waitpid(c->pid, NULL, 0);
    }
    close(c->out_fd);
    close(c->error_fd);
    return false;
}

static void begin(command_t *c)
{
    scaler_t *s = c->scaler;

    crti_list_remove(&c->link);
    if (!fork_command(c)) {
        answer(c, false, strerror(errno));
        return;
    }
    crti_list_append(&s->running, &c->link);
    s->running_count++;
    c->ended = (crti_watch_t){.on_ready = on_ended, .user = c};
    c->out_watch = (crti_watch_t){.on_ready = on_output, .user = c};
    c->error_watch = (crti_watch_t){.on_ready = on_error, .user = c};
    c->deadline = (crti_timer_t){.on_expired = on_deadline, .user = c};
    if (crti_loop_add(s->loop, &c->ended, c->pidfd, EPOLLIN) != CRT_OK ||
        crti_loop_add(s->loop, &c->out_watch, c->out_fd, EPOLLIN) != CRT_OK ||
        crti_loop_add(s->loop, &c->error_watch, c->error_fd, EPOLLIN) != CRT_OK ||
        crti_loop_start(s->loop, &c->deadline, crti_now_ns() + s->patience_ns) != CRT_OK)
        exit(
            1); /* out of memory or descriptors: begun anew, and all that is open has failed */
}

static void start_waiting(scaler_t *s)
{
    while (s->running_count < COMMANDS_MAX && !crti_list_is_empty(&s->waiting))
        begin(CRTI_CONTAINER(s->waiting.next, command_t, link));
}

/* ---------------------------------------------------------------- orders */

static void take_order(scaler_t *s, json_t *order_take)
{
    command_t *c = calloc(1, sizeof(*c));
    const char *verb = text_of(order_take, "verb");

    if (!c)
        exit(1);
    c->scaler = s;
    c->order = order_take;
    c->call = (crti_provider_call_t){.instance = text_of(order_take, "instance"),
                                     .type = text_of(order_take, "type"),
                                     .node = text_of(order_take, "node"),
                                     .machine = text_of(order_take, "machine"),
                                     .cluster = text_of(order_take, "cluster"),
                                     .setup = s->setup,
                                     .file = s->file};
    while (c->call.verb < CRTI_PROVIDER_LIST &&
           strcmp(crti_provider_verb_name(c->call.verb), verb) != 0)
        c->call.verb++;
    crti_provider_make_call(s->provider, &c->call);
    if (c->call.args == 0) {
        answer(c, true, "");
        return;
    }
    crti_list_append(&s->waiting, &c->link);
    start_waiting(s);
}

/* The first line says for whom, the others are orders. */
static void take_line(scaler_t *s, const char *line, size_t size)
{
    json_t *json = json_loadb(line, size, 0, NULL);

    if (!json)
        exit(1);
    if (s->setup) {
        take_order(s, json);
        return;
    }
    s->setup = json;
    s->file = json_object_get(json, "file");
    s->provider = crti_provider_find(text_of(s->file, "provider"));
    s->patience_ns =
        (uint64_t)(json_number_value(json_object_get(s->file, "command_timeout")) *
                   (double)CRTI_S);
    if (!s->provider || !s->patience_ns)
        exit(1);
}

static void on_head(void *user, uint32_t events)
{
    scaler_t *s = user;
    char *end;
    ssize_t n;

    if (crti_buffer_reserve(&s->in, 4096) != CRT_OK)
        exit(1);
    n = recv(HEAD_FD, s->in.data + s->in.size, 4096, 0);
    if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
        exit(0); /* the head is gone */
    if (n < 0)
        return;
    s->in.size += (size_t)n;
    while (s->in.size && (end = memchr(s->in.data, '\n', s->in.size))) {
        size_t length = (size_t)(end - (char *)s->in.data);

        take_line(s, (const char *)s->in.data, length);
        crti_buffer_consume(&s->in, length + 1);
    }
}

int main(void)
{
    static scaler_t s;

    umask(077);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    crti_list_init(&s.waiting);
    crti_list_init(&s.running);
    s.watch = (crti_watch_t){.on_ready = on_head, .user = &s};
    if (fcntl(HEAD_FD, F_SETFD, FD_CLOEXEC) != 0) {
        fprintf(stderr, "crt-scaler is started by crt-head\n");
        return 2;
    }
    if (crti_loop_new(&s.loop) != CRT_OK ||
        crti_loop_add(s.loop, &s.watch, HEAD_FD, EPOLLIN) != CRT_OK ||
        crti_loop_run(s.loop) != CRT_OK) {
        crti_log(CRTI_LOG_ERROR, "scaler", "%s", crt_error_detail());
        return 1;
    }
    return 0;
}
