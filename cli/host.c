/* SPDX-License-Identifier: Apache-2.0 */
/* crt host: the end of crt up, down and exec on each host. It reads one line of JSON, does what
 * that says, and answers by one line (docs/cluster-file.md).
 *
 * Where it sits
 *     cli/ssh.c -> ssh -> [ cli/host.c ] -> crt start, crt stop's functions, programs
 * Why
 *     What is secret, the key and the environment, comes by standard input and is in no argument
 *     of a process. What runs already is known here, from run directories and processes.
 * Which daemons belong to the cluster
 *     Those that have CRT_UP=NAME in their environment, and those of the address in
 *     STATE/up/NAME/address, which also names what killed daemons left. STATE/up/NAME/cluster.key
 *     (0600) is the key of a cluster whose head is elsewhere.
 * Failure
 *     The other end is gone when standard input ends: what is under way is ended by SIGINT, at
 *     which crt start undoes what it has begun. A lock on STATE/up keeps a second one apart.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sodium.h>

#include "cli/cluster_file.h"
#include "cli/dashboard.h"
#include "cli/host_sync.h"
#include "cli/options.h"
#include "cli/run_dirs.h"
#include "cli/ssh.h"
#include "cli/start_options.h"
#include "cli/stop.h"
#include "runtime/base/clock.h"
#include "runtime/base/rundir.h"
#include "runtime/base/spawn_attributes.h"

#define NAME         "crt host"
#define REQUEST_MOST (4 << 20)
#define READ_MOST    32768 /* what comes behind a request fits into feed.bytes */
#define ARGS_MAX     256
#define GRACE_MS     20000
#define LOCK_SECONDS 60
#define KEY_DIGITS   64
#define OWNER        "CRT_UP"
#define AUTOSCALER   "autoscaler.yaml" /* the section of the cluster file */
#define INTERRUPTED  130
#define CANNOT_RUN   126
#define NOT_FOUND    127
#define KILLED_BY    128
#define LINE_MOST    2048

extern char **environ;

static struct {
    json_t *request, *answer;
    const char *name;   /* of the cluster */
    char dir[PATH_MAX]; /* STATE/up/NAME */
    run_dir_t *dirs;    /* own ones, RUN_DIRS_MAX */
    size_t count;
    bool is_cancelled;
    char *rest; /* what came with the request, behind its line */
    size_t rest_size;
} here;

/* Input of the command of crt exec: it comes in parts, four hexadecimal digits with the size of the
 * bytes behind them; 0000 is its end. The end of standard input itself is that of the other
 * side. */
static struct {
    bool is_wanted, has_ended;
    int to; /* standard input of the command, -1: it reads no more */
    char bytes[65536];
    size_t size, given;
    char head[4];
    size_t head_size, left; /* of the part that comes */
} feed = {.to = -1};

static const char *asked(const char *key)
{
    return json_string_value(json_object_get(here.request, key));
}

static int fail(const char *format, ...) CRT_PRINTF(1, 2);
static int fail(const char *format, ...)
{
    char text[LINE_MOST];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    json_object_set_new(here.answer, "error", json_string(text));
    return CLI_FAILED;
}

static void answer(const char *key, const char *text)
{
    json_object_set_new(here.answer, key, json_string(text));
}

/* ---------------------------------------------------------------- the request */

static char *keep_rest(char *line, size_t used)
{
    char *rest = memchr(line, '\n', used);

    *rest++ = '\0';
    here.rest_size = used - (size_t)(rest - line);
    here.rest = malloc(here.rest_size + 1);
    if (here.rest)
        memcpy(here.rest, rest, here.rest_size);
    else
        here.rest_size = 0;
    return line;
}

/* One line; NULL: there is none. */
static char *read_line(void)
{
    size_t used = 0, room = 65536;
    char *line = malloc(room + 1);

    while (line) {
        size_t most = room - used < READ_MOST ? room - used : READ_MOST;
        ssize_t n = read(STDIN_FILENO, line + used, most);

        if (n < 0 && errno == EINTR)
            continue;
        used += n > 0 ? (size_t)n : 0;
        line[used] = '\0';
        if (memchr(line, '\n', used))
            return keep_rest(line, used);
        if (n <= 0 || room >= REQUEST_MOST)
            break;
        if (used == room) {
            char *larger = malloc(2 * room + 1); /* no copy of the key is left */

            if (larger)
                memcpy(larger, line, used + 1);
            explicit_bzero(line, used);
            free(line);
            line = larger;
            room *= 2;
        }
    }
    free(line);
    return NULL;
}

static bool is_key(const char *text)
{
    return text && strlen(text) == KEY_DIGITS &&
           strspn(text, "0123456789abcdef") == KEY_DIGITS;
}

/* What comes is checked in full before anything is done. */
static int check_request(void)
{
    static const char *const lists[] = {"options", "setup", "argv"};
    const char *version = asked("version"), *address = asked("address");
    const json_t *item, *list;
    const char *key;
    size_t i;

    if (!version || strcmp(version, crt_version()) != 0)
        return fail("crt there is %s, here is %s: all hosts need the same version",
                    crt_version(), version ? version : "another version");
    here.name = asked("name");
    if (!here.name || !crti_cluster_is_name(here.name) || !asked("do"))
        return fail("no request of crt up, down or exec");
    for (size_t k = 0; k < sizeof(lists) / sizeof(lists[0]); k++) {
        list = json_object_get(here.request, lists[k]);
        if (json_array_size(list) > ARGS_MAX - 16)
            return fail("more than %d %s", ARGS_MAX - 16, lists[k]);
        json_array_foreach((json_t *)list, i, item)
        {
            if (!json_is_string(item))
                return fail("%s are texts", lists[k]);
        }
    }
    json_object_foreach(json_object_get(here.request, "environment"), key, item)
    {
        if (!*key || strchr(key, '=') || !json_is_string(item))
            return fail("no environment");
    }
    if (address && !crti_option_is_address(address))
        return fail("%s is no HOST:PORT", address);
    if (asked("key") && !is_key(asked("key")))
        return fail("a key has 64 hexadecimal digits");
    return 0;
}

/* ---------------------------------------------------------------- directories */

static crt_status_t make_dir(const char *path)
{
    char part[PATH_MAX];
    struct stat st;

    for (const char *end = strchr(path + 1, '/');; end = strchr(end + 1, '/')) {
        snprintf(part, sizeof(part), "%.*s", end ? (int)(end - path) : (int)strlen(path),
                 path);
        if (mkdir(part, 0700) != 0 && errno != EEXIST)
            return crt_raise(CRT_ERR_IO, "can't make %s: %s", part, strerror(errno));
        if (!end)
            break;
    }
    if (lstat(path, &st) != 0 || !S_ISDIR(st.st_mode) || st.st_uid != geteuid() ||
        (st.st_mode & 022))
        return crt_raise(CRT_ERR_PERMISSION, "%s is not a directory of yours alone",
                         path);
    return CRT_OK;
}

/* STATE/up, and in it the directory of this cluster. */
static crt_status_t find_dir(char *up, size_t size)
{
    char state[PATH_MAX];

    CRT_TRY(crti_state_dir(state, sizeof(state)));
    if (snprintf(up, size, "%s/up", state) >= (int)size ||
        snprintf(here.dir, sizeof(here.dir), "%s/%s", up, here.name) >=
            (int)sizeof(here.dir))
        return crt_raise(CRT_ERR_TOO_LARGE,
                         "the path of the state directory is too long");
    return CRT_OK;
}

static void on_alarm(int signal_number)
{
}

/* Held until this process ends. */
static crt_status_t lock(const char *up)
{
    struct sigaction action = {.sa_handler = on_alarm}; /* it ends flock */
    int fd = open(up, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int failed;

    sigaction(SIGALRM, &action, NULL);
    alarm(LOCK_SECONDS);
    failed = fd < 0 || flock(fd, LOCK_EX) != 0 ? errno : 0;
    alarm(0);
    if (failed == EINTR)
        return crt_raise(CRT_ERR_TIMED_OUT,
                         "another crt up or down is at work there for %d s",
                         LOCK_SECONDS);
    if (failed)
        return crt_raise(CRT_ERR_IO, "can't lock %s: %s", up, strerror(failed));
    return CRT_OK;
}

static void path_of(const char *file, char path[PATH_MAX + 16])
{
    snprintf(path, PATH_MAX + 16, "%s/%s", here.dir, file);
}

/* A text of one line, by a file that nobody else can read and that is whole or not there. */
static crt_status_t write_file(const char *file, const char *text)
{
    char path[PATH_MAX + 16], fresh[PATH_MAX + 32];
    size_t size = strlen(text);
    int fd, failed;

    CRT_TRY(make_dir(here.dir));
    path_of(file, path);
    snprintf(fresh, sizeof(fresh), "%s.new", path);
    unlink(fresh);
    fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    failed = fd < 0 || write(fd, text, size) != (ssize_t)size ||
                     write(fd, "\n", 1) != 1 || fsync(fd) != 0
                 ? errno
                 : 0;
    if (fd >= 0)
        close(fd);
    if (!failed && rename(fresh, path) != 0)
        failed = errno;
    if (failed)
        unlink(fresh);
    return failed ? crt_raise(CRT_ERR_IO, "can't write %s: %s", path, strerror(failed))
                  : CRT_OK;
}

/* Its first line, "" without one. */
static void read_file(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, size - 1) : 0;

    text[n > 0 ? n : 0] = '\0';
    text[strcspn(text, "\r\n")] = '\0';
    if (fd >= 0)
        close(fd);
}

/* STATE/head-PORT or STATE/node-HEX8: keys, tables, logs. */
static void remove_state(const char *state, const char *name)
{
    char path[PATH_MAX + 64];

    if (*state != '/' || strchr(name, '/') ||
        (strncmp(name, "head-", 5) != 0 && strncmp(name, "node-", 5) != 0) ||
        snprintf(path, sizeof(path), "%s/%s", state, name) >= (int)sizeof(path))
        return;
    crti_run_dir_remove(path);
}

/* Names of daemons that were killed, whose logs stay until crt down: a line each in "ended", where
 * crt stop writes those that the autoscaler has ended. */
static void note_ended(void)
{
    char path[PATH_MAX + 16];
    FILE *file = NULL;

    path_of("ended", path);
    for (size_t i = 0; i < here.count; i++) {
        const char *name = strrchr(here.dirs[i].dir, '/');

        if (here.dirs[i].is_living || !name)
            continue;
        if (!file && make_dir(here.dir) == CRT_OK)
            file = fopen(path, "ae");
        if (file)
            fprintf(file, "%s\n", name + 1);
    }
    if (file)
        fclose(file);
}

static void remove_ended(void)
{
    char path[PATH_MAX + 16], line[128], state[PATH_MAX];
    FILE *file;

    snprintf(state, sizeof(state), "%s", here.dir); /* STATE/up/NAME */
    *strrchr(state, '/') = '\0';
    *strrchr(state, '/') = '\0';
    path_of("ended", path);
    file = fopen(path, "re");
    while (file && fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\n")] = '\0';
        remove_state(state, line);
    }
    if (file)
        fclose(file);
    unlink(path);
}

static void remove_files(void)
{
    static const char *const files[] = {"cluster.key", "cluster.key.new",  "address",
                                        "address.new", "started",          "started.new",
                                        AUTOSCALER,    (AUTOSCALER ".new")};
    char path[PATH_MAX + 16];

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        path_of(files[i], path);
        unlink(path);
    }
    rmdir(here.dir);
}

/* ---------------------------------------------------------------- what runs here */

static void look(void)
{
    char path[PATH_MAX + 16], address[72], owner[80];
    size_t all = crti_run_dirs_find(NULL, here.dirs);

    path_of("address", path);
    read_file(path, address, sizeof(address));
    here.count = 0;
    for (size_t i = 0; i < all && i < RUN_DIRS_MAX; i++) {
        const run_dir_t *dir = &here.dirs[i];
        bool is_own = dir->is_living &&
                      crti_member_variable(dir->pid, OWNER, owner, sizeof(owner)) &&
                      strcmp(owner, here.name) == 0;

        if (is_own || (*address && dir->address[0] &&
                       crt_cluster_same_address(dir->address, address)))
            here.dirs[here.count++] = *dir;
    }
}

static const run_dir_t *living(bool is_head)
{
    for (size_t i = 0; i < here.count; i++)
        if (here.dirs[i].is_living && here.dirs[i].is_head == is_head &&
            here.dirs[i].address[0])
            return &here.dirs[i];
    return NULL;
}

/* ---------------------------------------------------------------- children */

/* The bytes of parts, without their sizes. False: what comes is no such part. */
static bool take_parts(const char *bytes, size_t size)
{
    for (size_t i = 0; i < size;) {
        size_t part = feed.left < size - i ? feed.left : size - i;

        memcpy(feed.bytes + feed.size, bytes + i, part);
        feed.size += part;
        feed.left -= part;
        i += part;
        if (i == size || feed.left > 0)
            continue;
        feed.head[feed.head_size++] = bytes[i++];
        if (feed.head_size < sizeof(feed.head))
            continue;
        feed.head_size = 0;
        for (size_t k = 0; k < sizeof(feed.head); k++) {
            const char *digit = strchr("0123456789abcdef", feed.head[k]);

            if (!digit || !*digit)
                return false;
            feed.left = 16 * feed.left +
                        (size_t)(*digit <= '9' ? *digit - '0' : *digit - 'a' + 10);
        }
        feed.has_ended = feed.has_ended || feed.left == 0;
    }
    return true;
}

static void close_feed(void)
{
    if (feed.to >= 0)
        close(feed.to);
    feed.to = -1;
}

static bool is_feeding(void)
{
    return feed.to >= 0 && feed.given < feed.size;
}

/* To the command, as much as there is room for. What it no longer reads is left out. */
static void give(void)
{
    while (is_feeding()) {
        ssize_t n = write(feed.to, feed.bytes + feed.given, feed.size - feed.given);

        if (n < 0 && errno == EAGAIN)
            return;
        if (n >= 0)
            feed.given += (size_t)n;
        else if (errno != EINTR)
            close_feed();
    }
    feed.size = feed.given = 0;
    if (feed.has_ended)
        close_feed();
}

/* Standard input has nothing but its end, the other side is gone, or what the command reads. */
static void read_end(struct pollfd *input)
{
    char bytes[sizeof(feed.bytes)];
    ssize_t n = 0;

    if (!(input->revents & POLLIN) && is_feeding())
        n = 0; /* it has ended, behind what the command has not read */
    else
        n = read(STDIN_FILENO, bytes, sizeof(bytes));
    if (n > 0 && feed.is_wanted) {
        if (!take_parts(bytes, (size_t)n))
            n = 0;
        give();
    }
    if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) {
        here.is_cancelled = true;
        input->fd = -1;
        close_feed();
    }
}

/* The exit status; a process group of its own, which is told to end with the other side. */
static int attend(pid_t pid, int ask)
{
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0), how = 0;
    struct pollfd fds[3] = {
        {.fd = pidfd, .events = POLLIN}, {.fd = STDIN_FILENO}, {.events = POLLOUT}};
    int64_t kill_at = 0;

    while (pidfd >= 0) {
        int64_t left = kill_at ? kill_at - crti_now_ms() : -1;
        int n;

        fds[1].events = is_feeding() ? 0 : POLLIN;
        fds[2].fd = is_feeding() ? feed.to : -1;
        n = poll(fds, 3, kill_at && left < 0 ? 0 : (int)left);
        if (n > 0 && fds[0].revents)
            break;
        if (n > 0 && fds[2].revents)
            give();
        if (n > 0 && fds[1].revents)
            read_end(&fds[1]);
        if (here.is_cancelled && !kill_at) {
            kill_at = crti_now_ms() + GRACE_MS;
            kill(-pid, ask);
        } else if (n == 0) {
            kill_at += GRACE_MS; /* it may be in the kernel's hands */
            kill(-pid, SIGKILL);
        }
    }
    while (waitpid(pid, &how, 0) < 0 && errno == EINTR)
        continue;
    if (pidfd >= 0)
        close(pidfd);
    close_feed();
    return WIFSIGNALED(how) ? KILLED_BY + WTERMSIG(how) : WEXITSTATUS(how);
}

/* Standard input of the command: a pipe, whose other end is ours, or nothing. */
static int open_feed(posix_spawn_file_actions_t *actions)
{
    int ends[2];

    if (!feed.is_wanted || pipe2(ends, O_CLOEXEC) != 0) {
        posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        return -1;
    }
    posix_spawn_file_actions_adddup2(actions, ends[0], STDIN_FILENO);
    feed.to = ends[1];
    fcntl(feed.to, F_SETFL, O_NONBLOCK);
    return ends[0];
}

/* Its output is this process's standard error, unless it is what was asked for. */
static int run_child(const char *const *argv, bool passes_output, int ask)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    pid_t pid;
    int failed, input;

    posix_spawn_file_actions_init(&actions);
    crti_spawn_attributes(&attributes, POSIX_SPAWN_SETPGROUP);
    input = open_feed(&actions);
    if (!passes_output)
        posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
    posix_spawnattr_setpgroup(&attributes, 0);
    failed = posix_spawnp(&pid, argv[0], &actions, &attributes,
                          (char *const *)(uintptr_t)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (input >= 0)
        close(input);
    if (failed) {
        close_feed();
        crti_cli_fail(NAME, "can't execute %s: %s", argv[0], strerror(failed));
        return failed == ENOENT ? NOT_FOUND : CANNOT_RUN;
    }
    return attend(pid, ask);
}

static int run_setup(void)
{
    const json_t *command;
    size_t i;

    json_array_foreach(json_object_get(here.request, "setup"), i, command)
    {
        const char *text = json_string_value(command);
        const char *const argv[] = {"/bin/sh", "-c", text, NULL};
        int status = run_child(argv, false, SIGTERM);

        if (here.is_cancelled)
            return fail("interrupted");
        if (status != 0) {
            json_object_set_new(here.answer, "see_errors", json_true());
            return fail("setup \"%.200s\" ended with status %d", text, status);
        }
    }
    return 0;
}

/* ---------------------------------------------------------------- how it was started */

/* Options, and what stands for the environment, which may be secret. Released by free. */
static char *describe_start(void)
{
    const json_t *section = json_object_get(here.request, "autoscaler");
    char *autoscaler = section ? json_dumps(section, JSON_COMPACT) : strdup("");
    char *options = json_dumps(json_object_get(here.request, "options"), JSON_COMPACT);
    char *environment = json_dumps(json_object_get(here.request, "environment"),
                                   JSON_COMPACT | JSON_SORT_KEYS);
    unsigned char hash[crypto_hash_sha256_BYTES];
    char digits[2 * sizeof(hash) + 1], *text = NULL;

    if (options && environment && autoscaler) {
        crypto_hash_sha256(hash, (const unsigned char *)environment, strlen(environment));
        sodium_bin2hex(digits, sizeof(digits), hash, sizeof(hash));
        if (asprintf(&text, "%s %s%s", digits, options, autoscaler) < 0)
            text = NULL;
        explicit_bzero(environment, strlen(environment));
    }
    free(options);
    free(autoscaler);
    free(environment);
    return text;
}

static void note_start(void)
{
    char *text = describe_start();

    if (text)
        (void)write_file("started", text); /* what runs, runs: only the notice is lost */
    free(text);
}

/* What to say of one that runs: the file may have changed since. */
static const char *describe_running(void)
{
    static char started[65536];
    char path[PATH_MAX + 16], *text = describe_start();
    size_t digits = 2 * crypto_hash_sha256_BYTES;
    const char *did = "runs already";

    path_of("started", path);
    read_file(path, started, sizeof(started));
    if (*started && text && strcmp(started, text) != 0)
        did = strncmp(started, text, digits) == 0
                  ? "runs already, with other options than the file has now: crt down "
                    "and crt up change them"
                  : "runs already, with another environment than the file has now: crt "
                    "down and crt up change it";
    free(text);
    return did;
}

/* ---------------------------------------------------------------- up */

static bool has_option(const char *dashed)
{
    const json_t *option;
    size_t i;

    json_array_foreach(json_object_get(here.request, "options"), i, option)
    {
        if (strcmp(json_string_value(option), dashed) == 0)
            return true;
    }
    return false;
}

/* Those of the file; for a node beside its head only those that nodes have, too. */
static void add_options(const char *argv[ARGS_MAX], size_t *used, bool for_head)
{
    const json_t *options = json_object_get(here.request, "options");

    for (size_t i = 0; i < json_array_size(options); i++) {
        const char *name = json_string_value(json_array_get(options, i));
        const option_spec_t *option = crti_start_option(name + strspn(name, "-"));
        bool is_wanted = for_head || !option || !crti_start_is_head_only(option);

        if (is_wanted)
            argv[(*used)++] = name;
        if (option && !option->argument)
            continue;
        i++;
        if (is_wanted)
            argv[(*used)++] = json_string_value(json_array_get(options, i));
    }
    argv[*used] = NULL;
}

/* crt start, by this very program. */
static int start(const char *const *argv)
{
    int status, result = run_setup();

    if (result != 0)
        return result;
    setenv(OWNER, here.name, 1);
    status = run_child(argv, false, SIGINT);
    unsetenv(OWNER);
    if (status == 0)
        return 0;
    json_object_set_new(here.answer, "see_errors", json_true());
    return fail("%s", here.is_cancelled ? "interrupted" : "");
}

/* The address by which ssh reached this host is one by which others reach it: the third word of
 * SSH_CONNECTION. */
static bool own_address(char address[64])
{
    const char *words = getenv("SSH_CONNECTION");

    return words && sscanf(words, "%*s %*s %63s %*s", address) == 1;
}

/* The section of the cluster file, as a file that crt start reads: JSON is YAML. */
static crt_status_t write_autoscaler(char path[PATH_MAX + 16])
{
    char *text = json_dumps(json_object_get(here.request, "autoscaler"), JSON_COMPACT);
    crt_status_t status = text ? write_file(AUTOSCALER, text)
                               : crt_raise(CRT_ERR_NO_MEMORY, "the autoscaler's file");

    free(text);
    path_of(AUTOSCALER, path);
    return status;
}

static int start_head(const char *self)
{
    const char *argv[ARGS_MAX] = {self, "start", "--head"};
    char address[64], autoscaler[PATH_MAX + 16];
    size_t used = 3;
    int result;

    add_options(argv, &used, true);
    if (json_object_get(here.request, "autoscaler")) {
        if (write_autoscaler(autoscaler) != CRT_OK)
            return fail("%s", crt_error_detail());
        argv[used++] = "--autoscaler";
        argv[used++] = autoscaler;
        argv[used] = NULL;
    }
    if (json_is_true(json_object_get(here.request, "others")) &&
        !has_option("--node-ip-address") && own_address(address)) {
        argv[used++] = "--node-ip-address";
        argv[used++] = address;
        argv[used] = NULL;
    }
    result = start(argv);
    if (result != 0)
        remove_files();
    return result;
}

static int start_node(const char *self, const char *address, const char *key_file)
{
    const char *argv[ARGS_MAX] = {self,    "start",      "--address",
                                  address, "--key-file", key_file};
    size_t used = 6;

    add_options(argv, &used, false);
    return start(argv);
}

/* crt up --check: what would be done, of which nothing is. */
static bool only_checks(void)
{
    return json_is_true(json_object_get(here.request, "check"));
}

/* The answer of a head: its address and its key, which goes to the nodes. */
static int tell_head(const run_dir_t *head)
{
    char key[KEY_DIGITS + 8];
    int result = 0;

    read_file(head->key_file, key, sizeof(key));
    if (!is_key(key))
        result = fail("its key file %s holds no key", head->key_file);
    else if (!only_checks() && write_file("address", head->address) != CRT_OK)
        result = fail("%s", crt_error_detail());
    else {
        answer("address", head->address);
        answer("key", key);
    }
    explicit_bzero(key, sizeof(key));
    return result;
}

static int up_head(const char *self)
{
    const run_dir_t *head = living(true);
    bool is_new = !head;
    int result = 0;

    if (only_checks()) {
        answer("did", is_new          ? "would start"
                      : living(false) ? describe_running()
                                      : "would start its node");
        return head ? tell_head(head) : 0;
    }

    if (is_new)
        result = start_head(self);
    else if (!living(false))
        result = start_node(self, head->address, head->key_file);
    if (result != 0)
        return result;
    answer("did", is_new          ? "started"
                  : living(false) ? describe_running()
                                  : "started its node");
    if (is_new)
        note_start();
    look();
    head = living(true);
    return head ? tell_head(head) : fail("its head ended as soon as it served");
}

/* One that runs has the key of this cluster, or of another one that had its place. */
static int check_node(const run_dir_t *node, const char *address, const char *key)
{
    char old[KEY_DIGITS + 8];
    bool is_same;

    if (!crt_cluster_same_address(node->address, address))
        return fail("a node of %s runs there, the head of this cluster is %s: crt down "
                    "ends it",
                    node->address, address);
    read_file(node->key_file, old, sizeof(old));
    is_same = strcmp(old, key) == 0;
    explicit_bzero(old, sizeof(old));
    if (!is_same)
        return fail("its node has the key of an earlier head of %s: crt down ends it",
                    address);
    answer("did", describe_running());
    return 0;
}

static int up_node(const char *self)
{
    const char *address = asked("address"), *key = asked("key");
    const run_dir_t *node = living(false);
    char key_file[PATH_MAX + 16];
    int result;

    if (only_checks() && !node) {
        answer("did", "would start");
        return 0;
    }
    if (only_checks() && !key) /* no head runs */
        return fail("a node of %s runs there, without its head: crt down ends it",
                    node->address);
    if (!address || !key)
        return fail("a node needs address and key");
    if (node)
        return check_node(node, address, key);
    if (write_file("cluster.key", key) != CRT_OK ||
        write_file("address", address) != CRT_OK)
        return fail("%s", crt_error_detail());
    path_of("cluster.key", key_file);
    result = start_node(self, address, key_file);
    if (result != 0) {
        remove_files();
    } else {
        answer("did", "started");
        note_start();
    }
    return result;
}

/* ---------------------------------------------------------------- down, exec */

/* What all nodes of this user share goes with the last one. */
static void remove_programs(const char *state)
{
    char path[PATH_MAX];
    size_t all = crti_run_dirs_find(NULL, here.dirs);

    for (size_t i = 0; i < all && i < RUN_DIRS_MAX; i++)
        if (here.dirs[i].is_living)
            return;
    snprintf(path, sizeof(path), "%s/programs", state);
    crti_run_dir_remove(path);
    snprintf(path, sizeof(path), "%s/up", state);
    rmdir(path);
    rmdir(state);
}

static int down(void)
{
    char state[sizeof(here.dirs[0].state)] = "";
    bool is_any = false, is_left;

    for (size_t i = 0; i < here.count; i++) {
        is_any = is_any || here.dirs[i].is_living;
        if (here.dirs[i].state[0])
            snprintf(state, sizeof(state), "%s", here.dirs[i].state);
    }
    if (here.count > 0 && crti_cli_end_run_dirs(here.dirs, here.count, false) != 0) {
        json_object_set_new(here.answer, "see_errors", json_true());
        return fail("%s", "");
    }
    for (size_t i = 0; i < here.count; i++)
        if (strrchr(here.dirs[i].dir, '/'))
            remove_state(here.dirs[i].state, strrchr(here.dirs[i].dir, '/') + 1);
    remove_ended();
    remove_files();
    is_left = here.count > 0;
    if (*state)
        remove_programs(state);
    answer("did", is_any ? "stopped" : is_left ? "removed what was left" : "had nothing");
    return 0;
}

static int execute(const char *self)
{
    const char *argv[ARGS_MAX];
    const json_t *list = json_object_get(here.request, "argv");
    const run_dir_t *of = living(false) ? living(false) : living(true);
    size_t count = json_array_size(list), used = 0;

    if (json_is_true(json_object_get(here.request, "of_crt")))
        argv[used++] = self;
    for (size_t i = 0; i < count; i++)
        argv[used++] = json_string_value(json_array_get(list, i));
    argv[used] = NULL;
    if (count == 0)
        return fail("no command");
    if (of) {
        setenv("CRT_ADDRESS", of->address, 1);
        setenv("CRT_KEY_FILE", of->key_file, 1);
    }
    feed.is_wanted = json_is_true(json_object_get(here.request, "input"));
    if (here.rest_size && feed.is_wanted && !take_parts(here.rest, here.rest_size))
        return fail("no input of crt exec");
    return run_child(argv, true, SIGTERM);
}

/* ---------------------------------------------------------------- dashboard */

static int tell_dashboard(void)
{
    const run_dir_t *head = living(true);
    bool with_code = json_is_true(json_object_get(here.request, "with_code"));
    char link[DASHBOARD_LINK];

    if (!head)
        return fail("no head of this cluster runs there");
    if (crti_dashboard_link(head->address, with_code, link) != CRT_OK)
        return fail("%s", crt_error_detail());
    answer("link", link);
    return 0;
}

static void print_answer(void)
{
    char *text = json_dumps(here.answer, JSON_COMPACT);

    printf(SSH_ANSWER "%s\n", text ? text : "{}");
    fflush(stdout);
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
}

/* Answers, and stays until the other side has ended: ports are forwarded that long. */
static int hold(void)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};

    answer("did", "holds");
    print_answer();
    while (!here.is_cancelled)
        if (poll(&input, 1, -1) > 0)
            read_end(&input);
    return 0;
}

/* ---------------------------------------------------------------- the program's folder */

/* The current directory of setup and exec; without one in the file the home, as ssh has it. */
static int enter_folder(void)
{
    const json_t *files = json_object_get(here.request, "files");
    const char *folder = asked("folder");
    char did[64];
    size_t count;
    uint64_t bytes;

    if (!folder || only_checks())
        return 0;
    if (crti_host_enter(folder) != CRT_OK)
        return fail("%s", crt_error_detail());
    if (!files)
        return 0;
    if (crti_host_sync(files, &count, &bytes) != CRT_OK)
        return fail("%s", crt_error_detail());
    snprintf(did, sizeof(did), count ? "%zu files, %.1f MB" : "had all files", count,
             (double)bytes / 1e6);
    answer("did", did);
    return 0;
}

/* ---------------------------------------------------------------- the command */

static void set_environment(void)
{
    const json_t *value;
    const char *name;

    json_object_foreach(json_object_get(here.request, "environment"), name, value)
        setenv(name, json_string_value(value), 1);
}

static int find_self(char self[PATH_MAX])
{
    ssize_t n = readlink("/proc/self/exe", self, PATH_MAX - 1);

    if (n <= 0)
        return fail("can't read /proc/self/exe: %s", strerror(errno));
    self[n] = '\0';
    return 0;
}

static int obey(void)
{
    char self[PATH_MAX], up[PATH_MAX];
    const char *what = asked("do");
    bool is_exec = strcmp(what, "exec") == 0, is_look = strcmp(what, "dashboard") == 0;

    if (strcmp(what, "hold") == 0)
        return hold();

    set_environment();
    here.dirs = calloc(RUN_DIRS_MAX, sizeof(*here.dirs));
    if (!here.dirs || find_self(self) != 0)
        return here.dirs ? CLI_FAILED : fail("out of memory");
    if (find_dir(up, sizeof(up)) != CRT_OK ||
        (!is_exec && !is_look && (make_dir(up) != CRT_OK || lock(up) != CRT_OK)))
        return fail("%s", crt_error_detail());
    if (!is_look && strcmp(what, "down") != 0 && enter_folder() != 0)
        return CLI_FAILED;
    if (strcmp(what, "rsync") == 0)
        return 0;
    look();
    if (is_exec)
        return execute(self);
    if (is_look)
        return tell_dashboard();
    if (strcmp(what, "down") == 0)
        return down();
    if (strcmp(what, "up") != 0)
        return fail("no request of crt up, down or exec");
    if (!only_checks())
        note_ended();
    return json_is_true(json_object_get(here.request, "head")) ? up_head(self)
                                                               : up_node(self);
}

static void say_failed(void)
{
    const char *error = json_string_value(json_object_get(here.answer, "error"));

    if (error)
        crti_cli_fail(NAME, "%s", error);
}

/* The key, which json_decref leaves in memory. */
static void wipe(const json_t *object)
{
    const char *key = json_string_value(json_object_get(object, "key"));

    if (key)
        explicit_bzero((char *)(uintptr_t)key, strlen(key));
}

int crti_cli_host(int argc, char **argv)
{
    static const command_spec_t spec = {
        .name = NAME,
        .summary = "What crt up, down and exec call on each host by ssh: reads a request "
                   "from standard input."};
    int first = crti_cli_parse(argc, argv, &spec);
    int result;
    char *line;

    if (first <= 0)
        return -first;
    signal(SIGPIPE, SIG_IGN); /* the other side is gone: told by standard input */
    line = read_line();
    here.answer = json_object();
    here.request = line ? json_loads(line, 0, NULL) : NULL;
    if (line)
        explicit_bzero(line, strlen(line));
    free(line);
    result = here.request ? check_request() : fail("no request of crt up, down or exec");
    if (result == 0)
        result = obey();
    if (asked("do") && strcmp(asked("do"), "exec") == 0) /* standard output is its own */
        say_failed();
    else
        print_answer();
    wipe(here.request);
    wipe(here.answer);
    json_decref(here.request);
    json_decref(here.answer);
    free(here.dirs);
    free(here.rest);
    return result;
}
