/* SPDX-License-Identifier: Apache-2.0 */
/* A head for tests of crt-http and the command: takes crt-head's options, has its directories,
 * lock, info file and admin link, starts the real crt-http, and answers from memory.
 *
 * Its one node and its actors are always the same. A submitted job has ended at once, with a log
 * of a few lines; an entrypoint with "forever" in it runs until it is stopped, one with "fail"
 * fails, of one with "unheard" the links end before it is answered, and one with "lost" is not
 * taken either; one with "large" has a log of 64 MiB, and with "plain" one of ASCII. FAKE_HEAD in
 * the environment: "error TEXT" is told as a failed start, "crash" exits without a word, "hang"
 * never becomes ready, "late" does when it is asked to end, "stubborn" does neither, "mute" never
 * answers a question, "away" has a node that is not back, "nonsense" answers with what is no JSON.
 * SIGUSR1 closes its links.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <jansson.h>

#include "crt_tools.h"
#include "runtime/base/clock.h"
#include "runtime/base/rundir.h"
#include "runtime/control/head_options.h"
#include "runtime/control/links/http_sockets.h"
#include "runtime/control/rows/row_query.h"
#include "runtime/crt.h"
#include "runtime/net/channel.h"
#include "runtime/net/key.h"
#include "runtime/net/token.h"

#define JOBS_MAX 64
#define LARGE_LOG                                                                        \
    ((uint64_t)64 << 20) /* bytes of the log of a job with "large" in its entrypoint */
#define LINKS_MAX 64

typedef struct job {
    char id[128], entrypoint[256], sha[65];
    const char *status;
    long long start_ms; /* 0: one of long ago */
} job_t;

static struct {
    char port[16], http_port[16], http_host[64];
    int ready_fd;
    char run[256], state[256], key_file[300], http[256];
    pid_t http_pid;
    crti_loop_t *loop;
    crti_watch_t listen;
    job_t jobs[JOBS_MAX];
    int job_count;
    crti_channel_t *links[LINKS_MAX];
    const char *mode;
} head = {.port = "0", .http_port = "0", .http_host = "127.0.0.1", .ready_fd = -1};

static void say(const char *what, const char *text)
{
    char line[1200];
    int length = snprintf(line, sizeof(line), "%s %s\n", what, text);

    if (write(head.ready_fd, line, (size_t)length) != length)
        exit(3);
    close(head.ready_fd);
}

static void fail(const char *text)
{
    char command[600];

    snprintf(command, sizeof(command), "rm -rf '%s'", head.run);
    if (head.run[0] && system(command) != 0)
        text = "fake_head can't clean up";
    say("error", text);
    exit(1);
}

/* ---------------------------------------------------------------- what it knows */

#define CLUSTER_JSON                                                                     \
    "{\"cluster\":\"c0\",\"address\":\"127.0.0.1:%s\",\"version\":\"0.2.0\",\"time\":"   \
    "2000,"                                                                              \
    "\"start_time\":1000,\"nodes\":[%s],\"demand\":[{\"resources\":{\"CPU\":3},"         \
    "\"count\":"                                                                         \
    "2,"                                                                                 \
    "\"kind\":\"task\",\"name\":\"big\",\"reason\":\"needs 3 CPU, the cluster has "      \
    "2\"}],"                                                                             \
    "\"actors\":{\"ALIVE\":1,\"DEAD\":1,\"ENDED\":1},\"jobs\":{\"RUNNING\":1}}"
static const char nodes_json[] =
    "{\"node_id\":\"9c000000000000000000000000000001\",\"state\":\"ALIVE\",\"state_"
    "message\":\"\","
    "\"ip\":\"127.0.0.1\",\"hostname\":\"here\",\"endpoint\":\"127.0.0.1:1\",\"pid\":7,"
    "\"is_head_node\":true,\"start_time\":1000,\"end_time\":null,"
    "\"resources_total\":{\"CPU\":2,\"memory\":4294967296},"
    "\"resources_available\":{\"CPU\":0.5,\"memory\":4294967296},\"store_bytes\":1048576,"
    "\"store_used\":1024,\"workers\":2},"
    "{\"node_id\":\"9c000000000000000000000000000002\",\"state\":\"DEAD\","
    "\"state_message\":\"connection lost\",\"ip\":\"127.0.0.2\",\"hostname\":\"there\"}";
static const char actors_json[] =
    "[{\"actor_id\":\"ac000000000000000000000000000001\",\"class_name\":\"Counter\","
    "\"name\":\"tally\",\"state\":\"ALIVE\",\"job_id\":\"01\",\"node_id\":\"9c01\","
    "\"pid\":11,"
    "\"num_restarts\":0,\"is_detached\":true,\"required_resources\":{\"CPU\":1},"
    "\"message\":\"\"},"
    "{\"actor_id\":\"ac000000000000000000000000000002\",\"class_name\":\"<b>Bold</b>\","
    "\"name\":\"\",\"state\":\"DEAD\",\"job_id\":\"01\",\"node_id\":\"\",\"pid\":null,"
    "\"has_failed\":true,\"message\":\"killed\"},"
    "{\"actor_id\":\"ac000000000000000000000000000003\",\"class_name\":\"Brief\","
    "\"name\":\"\",\"state\":\"DEAD\",\"job_id\":\"02\",\"node_id\":\"\",\"pid\":null,"
    "\"has_failed\":false,\"message\":\"its job ended\"}]";
static const char log_text[] =
    "Running entrypoint for job\nhello\ngr\xc3\xbc\xc3\x9f\x65 \xff\n";

static void put_job(char *text, size_t size, const job_t *job)
{
    bool has_ended = strcmp(job->status, "RUNNING") != 0;

    snprintf(
        text, size,
        "{\"type\":\"SUBMISSION\",\"job_id\":\"0a\",\"submission_id\":\"%s\","
        "\"status\":\"%s\",\"entrypoint\":\"%s\",\"message\":\"%s\",\"error_type\":\"\","
        "\"start_time\":%lld,\"end_time\":%s,\"metadata\":{\"k\":\"v\"},"
        "\"driver_node_id\":\"9c01\",\"driver_node_ip\":\"127.0.0.1\",\"driver_pid\":12,"
        "\"driver_exit_code\":%s}",
        job->id, job->status, job->entrypoint,
        has_ended ? "Job finished." : "Job is currently running.",
        job->start_ms ? job->start_ms : 1000 + (long long)(job - head.jobs),
        has_ended ? "2000" : "null", strcmp(job->status, "FAILED") == 0 ? "3" : "null");
}

static void jobs_json(char *text, size_t size, const char *filter)
{
    size_t used = (size_t)snprintf(text, size, "[");

    for (int i = 0; i < head.job_count; i++) {
        if (*filter && strcmp(filter, head.jobs[i].id) != 0)
            continue;
        used += (size_t)snprintf(text + used, size - used, "%s", used > 1 ? "," : "");
        put_job(text + used, size - used, &head.jobs[i]);
        used += strlen(text + used);
    }
    snprintf(text + used, size - used, "]");
}

static job_t *find_job(const char *id)
{
    for (int i = 0; i < head.job_count; i++)
        if (strcmp(head.jobs[i].id, id) == 0)
            return &head.jobs[i];
    return NULL;
}

/* ---------------------------------------------------------------- the admin link */

static const char *const actor_columns[] = {
    "actor_id", "class_name",   "name",         "namespace",   "state",
    "job_id",   "node_id",      "pid",          "is_fenced",   "has_failed",
    "message",  "num_restarts", "queue_length", "is_detached", NULL};

static const char *const job_columns[] = {
    "type",           "job_id",     "submission_id", "status",
    "entrypoint",     "message",    "error_type",    "start_time",
    "end_time",       "metadata",   "runtime_env",   "has_runtime_env",
    "driver_node_id", "driver_pid", "driver_info",   "driver_exit_code",
    "attempt_number", NULL};
static const char *const event_columns[] = {"severity", "time",    "source_type",
                                            "event_id", "message", NULL};

static crti_cell_t cell_of(void *user, const void *row, size_t column)
{
    static char texts[32][256];
    const char *const *columns = user;
    const json_t *value = json_object_get(row, columns[column]);
    char *text = json_is_object(value) ? json_dumps(value, 0) : NULL;

    if (text) {
        snprintf(texts[column], sizeof(texts[column]), "%s", text);
        free(text);
        return crti_cell_json(texts[column]);
    }
    return json_is_string(value)    ? crti_cell_text(json_string_value(value))
           : json_is_number(value)  ? crti_cell_number(json_number_value(value))
           : json_is_boolean(value) ? crti_cell_bool(json_is_true(value))
                                    : (crti_cell_t){0};
}

static void write_row(void *user, crti_json_writer_t *w, const void *row)
{
    char *text = json_dumps(row, 0);

    crti_json_raw(w, text);
    free(text);
}

/* What a query wants of the rows in `list`. */
static void pick(const char *name, const char *const *columns, const char *list,
                 crti_span_t filter, char *text, size_t size)
{
    crti_row_table_t table = {
        .name = name, .columns = columns, .cell = cell_of, .user = (void *)columns};
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t answer = {0};
    crti_json_writer_t w = {.out = &answer};
    json_t *all = json_loads(list, 0, NULL), *row;
    crti_row_query_t query;
    crti_row_picker_t picker = {
        .table = &table, .query = &query, .write = write_row, .w = &w};
    size_t i;

    if (crti_row_query_parse(filter, &table, &query) != CRT_OK)
        abort();
    crti_json_open(&w, '{');
    crti_row_picker_begin(&picker);
    json_array_foreach(all, i, row) crti_row_picker_offer(&picker, row);
    crti_row_picker_end(&picker);
    crti_json_close(&w, '}');
    snprintf(text, size, "%.*s", (int)answer.size, (const char *)answer.data);
    json_decref(all);
    crti_row_query_fini(&query);
}

/* Actors, jobs and events, by a query. */
static void pick_rows(const char *what, crti_span_t filter, char *text, size_t size)
{
    static char jobs[65536];

    if (strncmp(what, "actors", 6) == 0) { /* in detail, too */
        pick("actors", actor_columns, actors_json, filter, text, size);
    } else if (strcmp(what, "events") == 0) {
        pick("events", event_columns, "[]", filter, text, size);
    } else {
        jobs_json(jobs, sizeof(jobs), "");
        pick("jobs", job_columns, jobs, filter, text, size);
    }
}

static void answer_state(crti_channel_t *channel, const crti_message_t *m)
{
    static char nodes[4096], text[65536];
    char what[32], filter[128];

    crti_text(m->state_query.what, what, sizeof(what));
    crti_text(m->state_query.filter, filter, sizeof(filter));
    snprintf(nodes, sizeof(nodes), "%s", nodes_json);
    if (strcmp(head.mode, "away") == 0)
        snprintf(nodes, sizeof(nodes),
                 "{\"node_id\":\"9c000000000000000000000000000001\",\"state\":\"AWAY\","
                 "\"state_message\":\"not back yet\",\"ip\":\"127.0.0.1\","
                 "\"resources_total\":{\"CPU\":2},\"resources_available\":{}}");
    if (strcmp(what, "cluster") == 0)
        snprintf(text, sizeof(text), CLUSTER_JSON, head.port, nodes);
    else if (strcmp(what, "nodes") == 0)
        snprintf(text, sizeof(text), "[%s]", nodes);
    else if (crti_row_query_is(m->state_query.filter))
        pick_rows(what, m->state_query.filter, text, sizeof(text));
    else if (strncmp(what, "actors", 6) == 0) /* in detail, too */
        snprintf(text, sizeof(text), "%s", actors_json);
    else
        jobs_json(text, sizeof(text), filter);
    if (strcmp(head.mode, "nonsense") == 0)
        snprintf(text, sizeof(text), "{\"nodes\": [1, {\"state\": 7}], ");
    crti_channel_send(channel, CRTI_MSG_STATE_ANSWER, m->request,
                      &(crti_msg_state_answer_t){.json = crti_str(text)});
}

static void close_links(void);

static void answer_submit(crti_channel_t *channel, const crti_message_t *m)
{
    job_t *job;
    char id[128];

    crti_text(m->job_submit.submission, id, sizeof(id));
    if (find_job(id) || head.job_count == JOBS_MAX) {
        crti_channel_send_error(channel, m->request,
                                crt_raise(CRT_ERR_EXISTS, "job %s exists", id));
        return;
    }
    job = &head.jobs[head.job_count++];
    snprintf(job->id, sizeof(job->id), "%s", id);
    crti_text(m->job_submit.entrypoint, job->entrypoint, sizeof(job->entrypoint));
    crti_text(m->job_submit.sha, job->sha, sizeof(job->sha));
    job->start_ms = 0;
    if (strstr(job->entrypoint, "lost")) {
        head.job_count--;
        close_links();
        return;
    }
    if (strstr(job->entrypoint, "unheard")) {
        job->start_ms = crti_wall_ms();
        job->status = "RUNNING";
        close_links();
        return;
    }
    job->status = strstr(job->entrypoint, "forever") ? "RUNNING"
                  : strstr(job->entrypoint, "fail")  ? "FAILED"
                                                     : "SUCCEEDED";
    crti_channel_send(channel, CRTI_MSG_DONE, m->request, NULL);
}

/* Bytes of a log: a pattern again and again, whose length is prime, so that its characters are cut
 * everywhere. */
static size_t read_log(uint64_t log_size, const char *pattern, size_t length,
                       uint64_t offset, uint64_t limit, char *out)
{
    uint64_t left = offset < log_size ? log_size - offset : 0;
    size_t size = left < limit ? (size_t)left : (size_t)limit;

    for (size_t i = 0; i < size; i++)
        out[i] = pattern[(offset + i) % length];
    return size;
}

static void answer_log(crti_channel_t *channel, const crti_message_t *m)
{
    static const char wild[] = "one line \"of\" a log \\ \x01\t gr\xc3\xbc\xc3\x9f\x65 "
                               "\xf0\x9f\x98\x80 \xff.\xe2\x82\n";
    static const char plain[] = "what can be told apart, byte by byte ({[-]})\n";
    static char bytes[1 << 20];
    const crti_msg_log_read_t *read = &m->log_read;
    uint64_t limit = read->limit < sizeof(bytes) ? read->limit : sizeof(bytes), next;
    const job_t *job;
    char name[160];
    bool large;
    size_t size;

    crti_text(read->name, name, sizeof(name));
    job = strncmp(name, "job:", 4) == 0 ? find_job(name + 4) : NULL;
    if (!job && strncmp(name, "ac0", 3) != 0) {
        crti_channel_send_error(channel, m->request,
                                crt_raise(CRT_ERR_NOT_FOUND, "no log of %s", name));
        return;
    }
    large = job && strstr(job->entrypoint, "large");
    if (large && strstr(job->entrypoint, "plain"))
        size = read_log(LARGE_LOG, plain, sizeof(plain) - 1, read->offset, limit, bytes);
    else if (large)
        size = read_log(LARGE_LOG, wild, sizeof(wild) - 1, read->offset, limit, bytes);
    else
        size = read_log(sizeof(log_text) - 1, log_text, sizeof(log_text) - 1,
                        read->offset, limit, bytes);
    next = limit == 0 ? (large ? LARGE_LOG : sizeof(log_text) - 1) : read->offset + size;
    crti_channel_send(
        channel, CRTI_MSG_LOG_DATA, m->request,
        &(crti_msg_log_data_t){.next = next,
                               .data = crti_span(bytes, size),
                               .ended = !job || strcmp(job->status, "RUNNING") != 0});
}

static void on_message(void *user, crti_channel_t *channel, const crti_message_t *m,
                       int *fds, int fd_count)
{
    char id[128];
    job_t *job;

    if (strcmp(head.mode, "mute") == 0)
        return;
    switch (m->kind) {
    case CRTI_MSG_STATE_QUERY: answer_state(channel, m); break;
    case CRTI_MSG_JOB_SUBMIT: answer_submit(channel, m); break;
    case CRTI_MSG_LOG_READ: answer_log(channel, m); break;
    case CRTI_MSG_JOB_STOP:
        job = find_job(crti_text(m->job_stop.submission, id, sizeof(id)));
        if (job)
            job->status = "STOPPED";
        crti_channel_send(channel, CRTI_MSG_DONE, m->request, NULL);
        break;
    case CRTI_MSG_JOB_DELETE:
        job = find_job(crti_text(m->job_delete.submission, id, sizeof(id)));
        if (job)
            *job = head.jobs[--head.job_count];
        crti_channel_send(channel, CRTI_MSG_DONE, m->request, NULL);
        break;
    default:
        crti_channel_send_error(channel, m->request,
                                crt_raise(CRT_ERR_PROTOCOL, "unexpected message"));
    }
}

static void on_closed(void *user, crti_channel_t *channel, crt_status_t status,
                      const char *detail)
{
    for (int i = 0; i < LINKS_MAX; i++)
        if (head.links[i] == channel)
            head.links[i] = NULL;
    crti_channel_free(channel);
}

static void keep_link(crti_channel_t *channel)
{
    for (int i = 0; i < LINKS_MAX; i++)
        if (!head.links[i]) {
            head.links[i] = channel;
            return;
        }
}

static void on_connection(void *user, uint32_t events)
{
    static const crti_channel_handlers_t handlers = {.on_message = on_message,
                                                     .on_closed = on_closed};
    crti_channel_t *channel;
    int fd;

    while (crti_channel_accept(head.listen.fd, &fd) == CRT_OK)
        if (crti_channel_new(&fd, &handlers, 0, &channel) == CRT_OK) {
            keep_link(channel);
            crti_channel_attach(channel, head.loop);
        }
}

/* ---------------------------------------------------------------- start */

static void parse(int argc, char **argv)
{
    crti_head_options_t given;

    if (crti_head_options_parse(argc, argv, &given) != CRT_OK)
        exit(2);
    snprintf(head.port, sizeof(head.port), "%u", given.port);
    snprintf(head.http_host, sizeof(head.http_host), "%s", given.dashboard_host);
    snprintf(head.http_port, sizeof(head.http_port), given.no_dashboard ? "none" : "%u",
             given.dashboard_port);
    head.ready_fd = given.ready_fd;
}

/* Holds the port, as the real one does. */
static void bind_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr = {htonl(INADDR_LOOPBACK)},
                                  .sin_port = htons((uint16_t)atoi(head.port))};
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    char text[128];

    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(fd, (struct sockaddr *)&address, size) != 0 || listen(fd, 8) != 0) {
        snprintf(text, sizeof(text), "port %s is taken; choose another with --port",
                 head.port);
        fail(text);
    }
    getsockname(fd, (struct sockaddr *)&address, &size);
    snprintf(head.port, sizeof(head.port), "%d", ntohs(address.sin_port));
}

static void start_http(void)
{
    char program[4096], fd_text[16], listen_text[16], local_text[16], line[512],
        path[300], programs[400];
    crti_http_sockets_t sockets;
    int ready[2];
    ssize_t n;

    snprintf(path, sizeof(path), "%s/http.sock", head.run);
    if (crti_state_dir(programs, sizeof(programs) - 16) != CRT_OK)
        fail(crt_error_detail());
    strcat(programs, "/programs");
    if (crti_daemon_path("crt-http", program, sizeof(program)) != CRT_OK ||
        pipe(ready) != 0 ||
        crti_http_sockets_open(head.http_host, (uint16_t)atoi(head.http_port), path,
                               &sockets) != CRT_OK)
        fail(crt_error_detail());
    snprintf(listen_text, sizeof(listen_text), "%d", sockets.tcp_fd);
    snprintf(local_text, sizeof(local_text), "%d", sockets.local_fd);
    head.http_pid = fork();
    if (head.http_pid == 0) {
        close(ready[0]);
        snprintf(fd_text, sizeof(fd_text), "%d", ready[1]);
        setenv("CRT_HEAD_DIR", head.run, 1);
        fcntl(sockets.tcp_fd, F_SETFD, 0);
        fcntl(sockets.local_fd, F_SETFD, 0);
        execl(program, "crt-http", "--head-dir", head.run, "--host", head.http_host,
              "--listen-fd", listen_text, "--local-fd", local_text, "--ready-fd", fd_text,
              "--key-file", head.key_file, "--programs", programs, NULL);
        _exit(127);
    }
    close(ready[1]);
    n = read(ready[0], line, sizeof(line) - 1);
    close(ready[0]);
    line[n > 0 ? n : 0] = '\0';
    line[strcspn(line, "\n")] = '\0';
    if (strncmp(line, "ready http ", 11) != 0)
        fail(strncmp(line, "error ", 6) == 0 ? line + 6 : "crt-http crashed");
    snprintf(head.http, sizeof(head.http), "%s", line + 11);
}

static void write_info(void)
{
    char path[300], address[32], pid[16], http_pid[16], start[32];
    uint64_t ticks = 0;

    crti_process_start(getpid(), &ticks);
    snprintf(path, sizeof(path), "%s/head.info", head.run);
    snprintf(address, sizeof(address), "127.0.0.1:%s", head.port);
    snprintf(pid, sizeof(pid), "%d", (int)getpid());
    snprintf(start, sizeof(start), "%llu", (unsigned long long)ticks);
    snprintf(http_pid, sizeof(http_pid), "%d", (int)head.http_pid);
    if (crti_info_write(path,
                        (crti_info_entry_t[]){{"pid", pid},
                                              {"start", start},
                                              {"address", address},
                                              {"http", head.http},
                                              {"http_pid", http_pid},
                                              {"key_file", head.key_file},
                                              {"state_dir", head.state},
                                              {"private", "0"}},
                        8) != CRT_OK)
        fail(crt_error_detail());
}

static void make_dirs(void)
{
    crti_key_t key;
    char run[200], state[200], socket_path[280], text[300];
    int lock, listen_fd;

    if (crti_run_dir(run, sizeof(run)) != CRT_OK ||
        crti_state_dir(state, sizeof(state)) != CRT_OK)
        fail(crt_error_detail());
    snprintf(head.run, sizeof(head.run), "%s/head-%s", run, head.port);
    snprintf(head.state, sizeof(head.state), "%s/head-%s", state, head.port);
    snprintf(head.key_file, sizeof(head.key_file), "%s/cluster.key", head.state);
    snprintf(socket_path, sizeof(socket_path), "%s/head.sock", head.run);
    if (crti_dir_make(head.run) != CRT_OK || crti_dir_make(head.state) != CRT_OK)
        fail(crt_error_detail());
    if (crti_dir_lock(head.run, &lock) != CRT_OK) {
        snprintf(text, sizeof(text), "a head runs at port %s already", head.port);
        fail(text);
    }
    if (crti_key_load(head.key_file, &key) != CRT_OK &&
        crti_key_create(head.key_file, &key) != CRT_OK)
        fail(crt_error_detail());
    snprintf(text, sizeof(text), "%s/token", head.state);
    if (crti_token_begin(&key, head.key_file, text) != CRT_OK)
        fail(crt_error_detail());
    unlink(socket_path);
    if (crti_channel_listen(socket_path, &listen_fd) != CRT_OK)
        fail(crt_error_detail());
    head.listen = (crti_watch_t){.on_ready = on_connection};
    crti_loop_add(head.loop, &head.listen, listen_fd, EPOLLIN);
}

static void close_links(void)
{
    for (int i = 0; i < LINKS_MAX; i++) {
        crti_channel_free(head.links[i]);
        head.links[i] = NULL;
    }
}

static void on_signal(void *user, int signal_number)
{
    char command[600];
    int http_status = 0;

    close_links();
    if (signal_number == SIGUSR1)
        return;
    if (head.http_pid) {
        kill(head.http_pid, SIGTERM);
        waitpid(head.http_pid, &http_status, 0);
    }
    snprintf(command, sizeof(command), "rm -rf '%s'", head.run);
    if (system(command) != 0 || http_status != 0)
        exit(1);
    crti_loop_stop(head.loop);
}

/* Between the info file and the ready line, until it is asked to end. */
static void dawdle(void)
{
    sigset_t set;
    int number;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGUSR2);
    do
        sigwait(&set, &number);
    while (strcmp(head.mode, "stubborn") == 0);
    raise(number); /* blocked: the loop reads it */
}

int main(int argc, char **argv)
{
    const char *mode = getenv("FAKE_HEAD");
    char text[160];
    crt_status_t status;

    head.mode = mode ? mode : "";
    parse(argc, argv);
    fcntl(head.ready_fd, F_SETFD, FD_CLOEXEC);
    if (strcmp(head.mode, "crash") == 0)
        return 1;
    if (strncmp(head.mode, "error ", 6) == 0)
        fail(head.mode + 6);
    if (strcmp(head.mode, "hang") == 0)
        pause();
    setsid();
    if (crti_loop_new(&head.loop) != CRT_OK)
        return 1;
    if (strcmp(head.port, "0") != 0) { /* a second start is told before the port is */
        char run[200];

        crti_run_dir(run, sizeof(run));
        snprintf(text, sizeof(text), "%.100s/head-%s", run, head.port);
        if (crti_dir_is_locked(text)) {
            snprintf(text, sizeof(text), "a head runs at port %s already", head.port);
            fail(text);
        }
    }
    crti_loop_signal(head.loop, SIGTERM, on_signal, NULL);
    crti_loop_signal(head.loop, SIGUSR1, on_signal, NULL);
    crti_loop_signal(head.loop, SIGUSR2, on_signal, NULL);
    bind_port();
    make_dirs();
    if (strcmp(head.http_port, "none") != 0)
        start_http();
    write_info();
    if (strcmp(head.mode, "late") == 0 || strcmp(head.mode, "stubborn") == 0)
        dawdle();
    if (dprintf(head.ready_fd,
                "ready address 127.0.0.1:%s http %s key_file %s head_dir %s\n", head.port,
                head.http[0] ? head.http : "none", head.key_file, head.run) < 0)
        return 1;
    close(head.ready_fd);
    status = crti_loop_run(head.loop);
    crti_loop_free(head.loop);
    return status != CRT_OK;
}
