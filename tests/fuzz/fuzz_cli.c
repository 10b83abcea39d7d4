/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: what the command makes of the answers of a cluster (cli/status.c, cli/logs.c,
 * cli/job.c, cli/job_view.c). This file stands in for the library's questions and for the HTTP
 * client: whatever they ask, the answer is the next part of the input. Parts end with a zero byte;
 * the first byte chooses what the user typed.
 */
#include "fuzz.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/cli.h"
#include "cli/cluster.h"
#include "cli/http_client.h"

struct http_client {
    int unused;
};

static const char *rest, *end; /* of the input */

/* NULL: there is no more. */
static const char *next_part(void)
{
    const char *part = rest;

    if (rest >= end)
        return NULL;
    rest += strlen(rest) + 1;
    return part;
}

/* The command waits for a job to end: here it is over at once. */
int nanosleep(const struct timespec *time, struct timespec *left)
{
    return 0;
}

/* ---------------------------------------------------------------- in place of libcrt */

crt_status_t crt_cluster_find(const char *address, size_t info_size,
                              crt_cluster_info_t *info_out)
{
    *info_out = (crt_cluster_info_t){.address = "127.0.0.1:1"};
    return CRT_OK;
}

crt_status_t crt_cluster_query(const crt_cluster_info_t *cluster, const char *what,
                               const char *filter, char **json_out)
{
    const char *part = next_part();

    if (!part)
        return CRT_ERR_CLOSED;
    *json_out = strdup(part);
    return CRT_OK;
}

crt_status_t crt_cluster_log(const crt_cluster_info_t *cluster, const char *name,
                             uint64_t offset, int64_t wait_ms, size_t log_size,
                             crt_cluster_log_t *log_out)
{
    return CRT_ERR_CLOSED;
}

/* ---------------------------------------------------------------- in place of cli/http_client.c */

crt_status_t crti_client_new(const char *address, http_client_t **client_out)
{
    *client_out = calloc(1, sizeof(**client_out));
    return *client_out ? CRT_OK : CRT_ERR_NO_MEMORY;
}

void crti_client_free(http_client_t *client)
{
    free(client);
}

bool crti_client_is_ended(const http_client_t *client)
{
    return false;
}

char *crti_client_escape(const char *id)
{
    return strdup(id);
}

void crti_client_escape_free(char *escaped)
{
    free(escaped);
}

json_t *crti_client_json(http_client_t *client, const char *method, const char *path,
                         const char *body, long *code_out)
{
    const char *part = next_part();

    if (code_out)
        *code_out = part ? 200 : 400; /* no second try */
    return part ? json_loads(part, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL) : NULL;
}

crt_status_t crti_client_refused(const http_client_t *client, const http_reply_t *reply)
{
    return crt_raise(CRT_ERR_IO, "%s", reply->text);
}

crt_status_t crti_client_send(http_client_t *client, const char *method, const char *path,
                              const char *body, http_reply_t *reply_out)
{
    const char *part = next_part();

    *reply_out =
        (http_reply_t){.code = part ? 200 : 400, .text = strdup(part ? part : "")};
    reply_out->size = strlen(reply_out->text);
    return CRT_OK;
}

void crti_reply_fini(http_reply_t *reply)
{
    free(reply->text);
}

int crti_cli_job_submit(int argc, char **argv)
{
    return 0;
}

/* ---------------------------------------------------------------- in place of cli/failure.c */

int crti_cluster_run_crt(const char *command, const char *path, char **argv, int argc)
{
    return CLI_FAILED;
}

const char *crti_cluster_only_file(int argc, char **argv, int first, const char *command)
{
    return NULL;
}

int crti_cli_fail(const char *command, const char *format, ...)
{
    char line[512];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    return CLI_FAILED;
}

int crti_cli_fail_detail(const char *command)
{
    return CLI_FAILED;
}

/* ---------------------------------------------------------------- an input */

static const struct {
    int (*run)(int argc, char **argv);
    const char *argv[5];
} typed[] = {
    {crti_cli_status, {"crt status"}},
    {crti_cli_status, {"crt status", "--json"}},
    {crti_cli_logs, {"crt logs"}},
    {crti_cli_job, {"crt job", "list"}},
    {crti_cli_job, {"crt job", "status", "raysubmit_1"}},
    {crti_cli_job, {"crt job", "logs", "raysubmit_1"}},
    {crti_cli_job, {"crt job", "stop", "raysubmit_1"}},
};
#define TYPED (sizeof(typed) / sizeof(typed[0]))

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool is_quiet;
    char *argv[6] = {NULL}, *text;
    size_t which;
    int argc = 0;

    if (size == 0)
        return 0;
    if (!is_quiet && (!freopen("/dev/null", "w", stdout)))
        abort();
    is_quiet = true;
    text = malloc(size);
    if (!text)
        abort();
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    rest = text;
    end = text + size;
    which = data[0] % TYPED;
    for (; typed[which].argv[argc]; argc++)
        argv[argc] = (char *)(uintptr_t)typed[which].argv[argc];
    optind = 0;
    typed[which].run(argc, argv);
    free(text);
    return 0;
}

/* ---------------------------------------------------------------- what a cluster says */

#define NODES                                                                            \
    "[{\"node_id\":\"0123456789abcdef\",\"state\":\"ALIVE\",\"ip\":\"10.0.0.1\","        \
    "\"hostname\":\"h\",\"is_head_node\":true,\"resources_total\":{\"CPU\":4,"           \
    "\"memory\":"                                                                        \
    "1e10},\"resources_available\":{\"CPU\":1.5},\"memory_used\":5,\"memory_bytes\":"    \
    "1e9,"                                                                               \
    "\"store_used\":1,\"store_bytes\":2,\"workers\":3,\"pid\":7,\"memory_ended\":2},"    \
    "{\"node_id\":\"1\",\"state\":\"DEAD\",\"state_message\":\"why\"}]"
#define CLUSTER                                                                          \
    "{\"address\":\"a:1\",\"version\":\"0.1\",\"nodes\":" NODES                          \
    ",\"demand\":[{\"count\":2,"                                                         \
    "\"kind\":\"task\",\"name\":\"f\",\"resources\":{\"CPU\":9},\"reason\":\"r\"}],"     \
    "\"actors\":{\"ALIVE\":1},\"jobs\":{\"RUNNING\":1}}"
#define ACTORS                                                                           \
    "[{\"actor_id\":\"x\",\"class_name\":\"C\",\"name\":\"n\",\"state\":\"DEAD\","       \
    "\"node_id\":\"0123456789\",\"pid\":3,\"message\":\"m\"}]"
#define LIVING "{\"actors\":" ACTORS ",\"all\":90,\"matched\":70}"
#define FAILED "{\"actors\":[],\"all\":90,\"matched\":0}"
#define JOBS                                                                             \
    "[{\"submission_id\":\"a\",\"job_id\":\"b\",\"type\":\"SUBMISSION\",\"status\":"     \
    "\"STOPPED\",\"entrypoint\":\"e\",\"start_time\":1700000000000,\"end_time\":1}]"
#define WORKERS                                                                          \
    "[{\"worker_id\":\"w\",\"worker_type\":\"DRIVER\",\"is_alive\":true,\"pid\":9}]"

size_t fuzz_seed(unsigned index, uint8_t *out, size_t room)
{
    static const char seeds[TYPED][4][1024] = {
        {CLUSTER, LIVING, FAILED, JOBS},
        {CLUSTER, ACTORS, JOBS},
        {ACTORS, WORKERS},
        {JOBS},
        {"{\"status\":\"FAILED\",\"message\":\"m\"}"},
        {"{\"logs\":\"some lines\",\"next\":5,\"ended\":true}"},
        {"{\"stopped\":true}", "{\"status\":\"STOPPED\"}"},
    };
    size_t size = 1;

    if (index >= TYPED || room < sizeof(seeds[0]))
        return 0;
    out[0] = (uint8_t)index;
    for (int i = 0; i < 4 && seeds[index][i][0]; i++) {
        size_t length = strlen(seeds[index][i]) + 1;

        memcpy(out + size, seeds[index][i], length);
        size += length;
    }
    return size - 1;
}
