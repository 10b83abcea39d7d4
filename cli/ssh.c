/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of crt on other hosts. See ssh.h. */
#include "cli/ssh.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <crt_printable.h>

#include "cli/shell_word.h"
#include "runtime/base/clock.h"
#include "runtime/base/spawn_attributes.h"

#define GRACE_MS    5000
#define ARGS_MAX    128
#define COMMAND_MAX HAND_OVER_COMMAND
#define CHUNK       16384
#define PIPE_SIZE   (1 << 20)

extern char **environ;

static void close_end(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

crt_status_t crti_ssh_prepare(ssh_call_t *call, const json_t *host, const json_t *request)
{
    char *line = json_dumps(request, JSON_COMPACT);
    size_t size = line ? strlen(line) : 0;

    *call =
        (ssh_call_t){.host = host, .pidfd = -1, .input = -1, .output = -1, .errors = -1};
    call->request = malloc(size + 1 > SSH_FILL ? size + 1 : SSH_FILL);
    call->answer = malloc(SSH_OUTPUT + 1);
    if (!line || !call->request || !call->answer) {
        free(line);
        crti_ssh_release(call);
        return crt_raise(CRT_ERR_NO_MEMORY, "out of memory");
    }
    memcpy(call->request, line, size);
    call->request[size] = '\n';
    call->request_size = size + 1;
    explicit_bzero(line, size);
    free(line);
    return CRT_OK;
}

void crti_ssh_release(ssh_call_t *call)
{
    if (call->request)
        explicit_bzero(call->request, call->request_size);
    if (call->answer)
        explicit_bzero(call->answer, call->answer_size);
    free(call->request);
    free(call->answer);
    free(call->wanted);
    call->request = call->answer = call->wanted = NULL;
}

/* ---------------------------------------------------------------- the process */

/* The one place where a command is written for the shell of another host. A path that begins with
 * "~/" is one of the home there. */
static void write_command(const ssh_run_t *run, char command[COMMAND_MAX])
{
    const char *crt = json_string_value(json_object_get(run->file, "crt"));
    bool is_home = crt && strncmp(crt, "~/", 2) == 0;
    char word[COMMAND_MAX - 32];

    if (run->archive) {
        crti_hand_over_command(run->archive, run->mode, command);
        return;
    }
    crti_shell_word(crt + (is_home ? 2 : 0), word, sizeof(word));
    snprintf(command, COMMAND_MAX, "exec %s%s host", is_home ? "~/" : "", word);
}

/* Of options that are there twice, ssh takes the first: those of the file stand before these, but
 * for the first one: nobody is there to be asked. */
static crt_status_t write_arguments(const json_t *file, const char *const *more,
                                    const char *host, const char *command,
                                    const char *argv[ARGS_MAX])
{
    static const char *const behind[] = {"-T",
                                         "-o",
                                         "ConnectTimeout=10",
                                         "-o",
                                         "ServerAliveInterval=15",
                                         "-o",
                                         "ServerAliveCountMax=4",
                                         "--"};
    const json_t *options = json_object_get(file, "ssh");
    const json_t *option;
    size_t i, used = 0;

    if (json_array_size(options) + 32 > ARGS_MAX)
        return crt_raise(CRT_ERR_INVALID, "too many options for ssh");
    argv[used++] = "ssh";
    argv[used++] = "-o";
    argv[used++] = "BatchMode=yes";
    for (; more && *more; more++)
        argv[used++] = *more;
    json_array_foreach((json_t *)options, i, option) argv[used++] =
        json_string_value(option);
    for (i = 0; i < sizeof(behind) / sizeof(behind[0]); i++)
        argv[used++] = behind[i];
    argv[used++] = host;
    argv[used++] = command;
    argv[used] = NULL;
    return CRT_OK;
}

static int spawn_it(ssh_call_t *call, const char *const *argv, const int ends[3])
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int failed;

    posix_spawn_file_actions_init(&actions);
    crti_spawn_attributes(&attributes, 0);
    for (int fd = 0; fd < 3; fd++)
        posix_spawn_file_actions_adddup2(&actions, ends[fd], fd);
    failed = posix_spawnp(&call->pid, argv[0], &actions, &attributes,
                          (char *const *)(uintptr_t)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return failed;
}

/* Three pipes; ends of this process in `call`, those of ssh in `ends`. */
static bool make_pipes(ssh_call_t *call, int ends[3])
{
    int *const mine[3] = {&call->input, &call->output, &call->errors};

    for (int fd = 0; fd < 3; fd++) {
        int both[2];

        if (pipe2(both, O_CLOEXEC) != 0)
            return false;
        ends[fd] = both[fd == 0 ? 0 : 1];
        *mine[fd] = both[fd == 0 ? 1 : 0];
        fcntl(*mine[fd], F_SETFL, O_NONBLOCK);
    }
    fcntl(call->input, F_SETPIPE_SZ, PIPE_SIZE); /* fewer turns, where others run, too */
    return true;
}

static void say_failed(ssh_call_t *call, const char *what, int error)
{
    call->status = SSH_FAILED;
    call->state = SSH_ENDED;
    call->tail_size =
        (size_t)snprintf(call->tail, sizeof(call->tail), "%s: %s", what, strerror(error));
}

static void close_all(ssh_call_t *call)
{
    close_end(&call->input);
    close_end(&call->output);
    close_end(&call->errors);
    close_end(&call->pidfd);
}

static void start(const ssh_run_t *run, ssh_call_t *call)
{
    const char *host = json_string_value(json_object_get(call->host, "host"));
    const char *argv[ARGS_MAX];
    char command[COMMAND_MAX];
    int ends[3] = {-1, -1, -1}, failed = 0;

    write_command(run, command);
    if (write_arguments(run->file, run->more, host, command, argv) != CRT_OK)
        failed = E2BIG;
    else if (!make_pipes(call, ends))
        failed = errno;
    else
        failed = spawn_it(call, argv, ends);
    for (int fd = 0; fd < 3; fd++)
        close_end(&ends[fd]);
    if (!failed) {
        call->pidfd = (int)syscall(SYS_pidfd_open, call->pid, 0);
        if (call->pidfd < 0) {
            failed = errno;
            kill(call->pid, SIGKILL);
            waitpid(call->pid, NULL, 0);
        }
    }
    if (failed) {
        close_all(call);
        say_failed(call, "can't execute ssh", failed);
        return;
    }
    call->state = SSH_RUNS;
    call->turn = run->archive ? SSH_LISTENS : SSH_ASKS;
    call->deadline = run->timeout_ms ? crti_now_ms() + run->timeout_ms : INT64_MAX;
}

crt_status_t crti_ssh_become(const json_t *file, const char *host)
{
    const json_t *options = json_object_get(file, "ssh");
    const json_t *option;
    const char *argv[ARGS_MAX] = {"ssh"};
    size_t i, used = 1;

    if (json_array_size(options) + 8 > ARGS_MAX)
        return crt_raise(CRT_ERR_INVALID, "too many options for ssh");
    json_array_foreach((json_t *)options, i, option) argv[used++] =
        json_string_value(option);
    argv[used++] = "-t";
    argv[used++] = "--";
    argv[used++] = host;
    execvp(argv[0], (char *const *)(uintptr_t)argv);
    return crt_raise(CRT_ERR_IO, "can't execute ssh: %s", strerror(errno));
}

/* ---------------------------------------------------------------- while they run */

static void keep(ssh_call_t *call, bool is_error, const char *bytes, size_t size)
{
    size_t room;

    if (!is_error) {
        room = SSH_OUTPUT - call->answer_size;
        size = size < room ? size : room;
        memcpy(call->answer + call->answer_size, bytes, size);
        call->answer_size += size;
        call->answer[call->answer_size] = '\0';
        return;
    }
    if (size > SSH_TAIL) {
        bytes += size - SSH_TAIL;
        size = SSH_TAIL;
    }
    if (call->tail_size + size > SSH_TAIL) {
        size_t gone = call->tail_size + size - SSH_TAIL;

        memmove(call->tail, call->tail + gone, call->tail_size - gone);
        call->tail_size -= gone;
    }
    memcpy(call->tail + call->tail_size, bytes, size);
    call->tail_size += size;
}

/* A line that is complete, of what runs before crt does. Greetings of shells are no such one. */
static void take_words(const ssh_run_t *run, ssh_call_t *call)
{
    size_t prefix = strlen(HAND_OVER_SAYS);

    call->words[call->words_size] = '\0';
    call->words_size = 0;
    if (strncmp(call->words, HAND_OVER_SAYS, prefix) != 0)
        return;
    memmove(call->words, call->words + prefix, strlen(call->words + prefix) + 1);
    crt_make_printable(call->words);
    if (strcmp(call->words, "ready") == 0) {
        call->turn = SSH_ASKS;
    } else if (strcmp(call->words, "send") == 0) {
        call->turn = SSH_HANDS_OVER;
        if (run->on_hand_over)
            run->on_hand_over(call);
    } else {
        call->is_refused = true;
    }
}

/* Returns how many bytes came before crt did. */
static size_t listen_to(const ssh_run_t *run, ssh_call_t *call, const char *bytes,
                        size_t size)
{
    size_t used = 0;

    while (used < size && call->turn != SSH_ASKS && !call->is_refused) {
        char byte = bytes[used++];

        if (byte == '\n')
            take_words(run, call);
        else if (call->words_size < SSH_WORDS - 1)
            call->words[call->words_size++] = byte;
    }
    return used;
}

static void take_some(const ssh_run_t *run, ssh_call_t *call, bool is_error,
                      const char *bytes, size_t size)
{
    size_t before = is_error ? 0 : listen_to(run, call, bytes, size);

    if (before == size)
        return;
    if (is_error || !run->on_output)
        keep(call, is_error, bytes + before, size - before);
    if (!is_error && run->on_answer)
        run->on_answer(call);
    if (run->on_output)
        run->on_output(call, is_error, bytes + before, size - before);
}

/* All that is there; the end of the stream closes it. */
static void take(const ssh_run_t *run, ssh_call_t *call, int *fd, bool is_error)
{
    char bytes[CHUNK];
    ssize_t n;

    while (*fd >= 0) {
        n = read(*fd, bytes, sizeof(bytes));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) {
            close_end(fd);
            return;
        }
        take_some(run, call, is_error, bytes, (size_t)n);
    }
}

static bool has_more(const ssh_run_t *run, const ssh_call_t *call)
{
    return (call->turn == SSH_ASKS &&
            (call->sent < call->request_size || (call->has_more && run->fill))) ||
           (call->turn == SSH_HANDS_OVER && call->handed < run->archive->size);
}

/* What is next, archive or request. The pipe stays open behind it. */
static void send_more(const ssh_run_t *run, ssh_call_t *call)
{
    bool is_archive = call->turn == SSH_HANDS_OVER;
    const void *bytes = is_archive ? (const void *)run->archive->bytes : call->request;
    size_t size = is_archive ? run->archive->size : call->request_size;
    size_t *sent = is_archive ? &call->handed : &call->sent;
    ssize_t n;

    if (!is_archive && call->sent == call->request_size) {
        call->request_size = size = run->fill(call, call->request, SSH_FILL);
        call->sent = 0;
        call->has_more = call->has_more && size > 0;
    }
    n = size > *sent ? write(call->input, (const char *)bytes + *sent, size - *sent) : 0;
    if (n > 0)
        *sent += (size_t)n;
    else if (n < 0 && errno != EAGAIN && errno != EINTR)
        *sent = size; /* ssh ends, and says why */
}

/* A master of shared connections (ControlPersist) outlives the call with its standard error: what
 * is there is taken, an end of it is not waited for. */
static void end(const ssh_run_t *run, ssh_call_t *call)
{
    int how = 0;

    while (waitpid(call->pid, &how, 0) < 0 && errno == EINTR)
        continue;
    call->status = WIFSIGNALED(how) ? 128 + WTERMSIG(how) : WEXITSTATUS(how);
    take(run, call, &call->output, false);
    take(run, call, &call->errors, true);
    close_all(call);
    call->state = SSH_ENDED;
    if (run->on_end)
        run->on_end(call);
}

/* First by SIGTERM, at which ssh ends its connection. */
static void tell_to_end(ssh_call_t *call)
{
    if (!call->kill_at) {
        call->kill_at = crti_now_ms() + GRACE_MS;
        syscall(SYS_pidfd_send_signal, call->pidfd, SIGTERM, NULL, 0);
    } else if (crti_now_ms() >= call->kill_at) {
        call->kill_at += GRACE_MS;
        syscall(SYS_pidfd_send_signal, call->pidfd, SIGKILL, NULL, 0);
    }
}

static void check_time(ssh_call_t *call)
{
    int64_t now = crti_now_ms();

    if (now >= call->deadline && !call->kill_at)
        call->timed_out = true;
    if (now >= call->deadline || (call->kill_at && now >= call->kill_at))
        tell_to_end(call);
}

static void interrupt(ssh_run_t *run, ssh_call_t *calls, size_t count)
{
    run->interrupted = true;
    for (size_t i = 0; i < count; i++) {
        if (calls[i].state == SSH_ENDED)
            continue;
        calls[i].interrupted = true;
        if (calls[i].state == SSH_RUNS && !calls[i].kill_at)
            tell_to_end(&calls[i]);
        else if (calls[i].state == SSH_WAITS)
            calls[i].state = SSH_ENDED;
    }
}

static int milliseconds_left(const ssh_call_t *calls, size_t count)
{
    int64_t first = INT64_MAX, left;

    for (size_t i = 0; i < count; i++) {
        int64_t at = calls[i].kill_at ? calls[i].kill_at : calls[i].deadline;

        if (calls[i].state == SSH_RUNS && at < first)
            first = at;
    }
    if (first == INT64_MAX)
        return -1;
    left = first - crti_now_ms();
    return left < 0 ? 0 : left > 1000000 ? 1000000 : (int)left;
}

static void look_at(const ssh_run_t *run, ssh_call_t *call, const struct pollfd fds[4])
{
    if (fds[0].revents)
        send_more(run, call);
    if (fds[1].revents)
        take(run, call, &call->output, false);
    if (fds[2].revents)
        take(run, call, &call->errors, true);
    if (fds[3].revents)
        end(run, call);
    else
        check_time(call);
}

static bool wants_input(const ssh_run_t *run, const ssh_call_t *first)
{
    return run->input_fd >= 0 && run->fill && first->state == SSH_RUNS &&
           first->turn == SSH_ASKS && first->sent == first->request_size &&
           !first->has_more;
}

/* Waits for anything of the running calls, and looks at it. */
static void wait_for_some(ssh_run_t *run, ssh_call_t *calls, size_t count,
                          struct pollfd *fds)
{
    nfds_t used = 1;
    int n;

    fds[0] =
        (struct pollfd){.fd = run->interrupted ? -1 : run->signal_fd, .events = POLLIN};
    for (size_t i = 0; i < count; i++) {
        ssh_call_t *call = &calls[i];

        if (call->state != SSH_RUNS)
            continue;
        fds[used++] = (struct pollfd){.fd = has_more(run, call) ? call->input : -1,
                                      .events = POLLOUT};
        fds[used++] = (struct pollfd){.fd = call->output, .events = POLLIN};
        fds[used++] = (struct pollfd){.fd = call->errors, .events = POLLIN};
        fds[used++] = (struct pollfd){.fd = call->pidfd, .events = POLLIN};
    }
    fds[used] = (struct pollfd){.fd = wants_input(run, calls) ? run->input_fd : -1,
                                .events = POLLIN};
    n = poll(fds, used + 1, milliseconds_left(calls, count));
    if (n < 0)
        return; /* EINTR */
    if (fds[used].revents)
        calls[0].has_more = true;
    used = 1;
    for (size_t i = 0; i < count; i++)
        if (calls[i].state == SSH_RUNS) {
            look_at(run, &calls[i], &fds[used]);
            used += 4;
        }
    if (fds[0].revents)
        interrupt(run, calls, count);
}

void crti_ssh_run(ssh_run_t *run, ssh_call_t *calls, size_t count)
{
    size_t parallel = (size_t)json_integer_value(json_object_get(run->file, "parallel"));
    struct pollfd *fds = calloc(2 + 4 * parallel, sizeof(*fds));
    size_t running = fds ? 1 : 0;

    while (running > 0) {
        running = 0;
        for (size_t i = 0; i < count; i++)
            running += calls[i].state == SSH_RUNS;
        for (size_t i = 0; i < count && running < parallel && !run->interrupted; i++)
            if (calls[i].state == SSH_WAITS) {
                start(run, &calls[i]);
                if (calls[i].state == SSH_RUNS)
                    running++;
                else if (run->on_end)
                    run->on_end(&calls[i]);
            }
        if (running > 0)
            wait_for_some(run, calls, count, fds);
    }
    free(fds);
}

/* ---------------------------------------------------------------- what came of it */

json_t *crti_ssh_answer(const ssh_call_t *call)
{
    const char *line = call->answer_size ? call->answer : "";

    while (strncmp(line, SSH_ANSWER, strlen(SSH_ANSWER)) != 0) {
        line = strchr(line, '\n');
        if (!line)
            return NULL;
        line++;
    }
    line += strlen(SSH_ANSWER);
    return json_loadb(line, strcspn(line, "\n"), 0, NULL);
}

void crti_ssh_last_line(const ssh_call_t *call, char *text, size_t size)
{
    size_t end = call->tail_size, begin;

    while (end > 0 && strchr("\r\n ", call->tail[end - 1]))
        end--;
    for (begin = end; begin > 0 && call->tail[begin - 1] != '\n'; begin--)
        continue;
    snprintf(text, size, "%.*s", (int)(end - begin), call->tail + begin);
    crt_make_printable(text); /* nothing that moves the cursor */
}

static bool has_said(const ssh_call_t *call, const char *words)
{
    return memmem(call->tail, call->tail_size, words, strlen(words)) != NULL;
}

void crti_ssh_reason(const ssh_run_t *run, const ssh_call_t *call, char *text,
                     size_t size)
{
    const char *host = json_string_value(json_object_get(call->host, "host"));
    const char *crt = json_string_value(json_object_get(run->file, "crt"));
    char line[512];

    crti_ssh_last_line(call, line, sizeof(line));
    if (call->interrupted)
        snprintf(text, size, "interrupted");
    else if (call->timed_out)
        snprintf(text, size, "no answer within %lld s (timeout)%s%s",
                 (long long)(run->timeout_ms / 1000), *line ? ": " : "", line);
    else if (call->is_refused && run->archive)
        crti_hand_over_reason(run->archive, call->words, line, text, size);
    else if (call->status == SSH_FAILED &&
             has_said(call, "REMOTE HOST IDENTIFICATION HAS CHANGED"))
        snprintf(text, size,
                 "its host key is not the one that was accepted before: somebody may be "
                 "between, or it was set up anew. If you know why, remove the old key "
                 "with ssh-keygen -R, and accept the new one by ssh %s",
                 host);
    else if (call->status == SSH_FAILED && has_said(call, "Host key verification failed"))
        snprintf(text, size,
                 "its host key is unknown here: compare its fingerprint and accept it "
                 "once by ssh %s",
                 host);
    else if (call->status == SSH_NOT_FOUND && crt)
        snprintf(text, size,
                 "there is no %s: install crt there, or say by crt: PATH where it is%s%s",
                 crt, *line ? " - " : "", line);
    else if (*line)
        snprintf(text, size, "%s", line);
    else
        snprintf(text, size, "ended with status %d and no answer", call->status);
}
