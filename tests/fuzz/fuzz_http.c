/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: what crt-http makes of a client's bytes (headers, paths, arguments, descriptions
 * of jobs) and of the head's JSON. The first byte chooses which. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/json_shape.h"
#include "runtime/http/chunks.h"
#include "runtime/http/filter.h"
#include "runtime/http/metrics_text.h"
#include "runtime/http/request.h"
#include "runtime/http/state_views.h"
#include "runtime/http/submission.h"
#include "runtime/net/message.h"

#define TOKEN "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const crti_http_policy_t policy = {
    .has_generation = true, .bound_to = "localhost", .host_name = "here", .port = 8265};

/* What is taken is what was made. */
static void read_token(const char *text)
{
    char again[CRTI_TOKEN_TEXT];
    crti_token_t token;

    if (!crti_token_read(policy.token_key, text, &token))
        return;
    crti_token_make(policy.token_key, &token, again);
    if (strcasecmp(again, text) != 0)
        abort();
}

/* Lines: method number, path, host, origin, site, two authorizations, session, arguments. */
static void read_request(char *text)
{
    crti_http_request_t request = {0};
    const char **fields[] = {&request.path,          &request.host,
                             &request.origin,        &request.fetch_site,
                             &request.authorization, &request.ray_authorization,
                             &request.session};
    char id[CRTI_HTTP_ID_MAX], *rest = text, *line;
    json_t *filters, *rows = json_pack("[{s:s, s:i}, {}]", "state", "ALIVE", "pid", 3);
    crti_http_route_t route;
    uint64_t number;

    line = strsep(&rest, "\n");
    request.method = (crti_http_method_t)((unsigned char)line[0] % (CRTI_HTTP_OTHER + 1));
    request.is_upgrade = line[0] & 8;
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        line = strsep(&rest, "\n");
        *fields[i] = line ? line : "";
    }
    while (request.arg_count < CRTI_HTTP_ARGS && (line = strsep(&rest, "\n")))
        request.args[request.arg_count++] = line;
    crti_http_guard(&policy, &request);
    read_token(request.session);
    if (crti_http_find_route(&request, &route, id).code == 0 &&
        (strlen(id) >= CRTI_HTTP_ID_MAX || strchr(id, '/') || strcmp(id, "..") == 0))
        abort();
    if (crti_http_check_args(&request, CRTI_ROUTE_STATE) == CRT_OK &&
        crti_http_filters(&request, &filters) == CRT_OK) {
        if (crti_view_check_filters(crti_listing_find("actors"), filters) == CRT_OK)
            json_decref(crti_view_state(crti_listing_find("actors"), rows, filters, 10,
                                        CRTI_VIEW_BASE));
        json_decref(filters);
    }
    json_decref(rows);
    if (crti_http_arg_number(&request, "limit", 100, 0, &number) && number > 100)
        abort();
}

static void read_submission(const uint8_t *data, size_t size)
{
    CRTI_AUTO(crti_submission_fini) crti_http_submission_t s = {0};

    if (crti_submission_parse(data, size, &s) != CRT_OK)
        return;
    if ((s.id[0] && !crti_http_is_job_id(s.id)) || !s.entrypoint[0] || s.argv.size == 0 ||
        (s.sha[0] && !crti_http_is_sha(s.sha)))
        abort();
    /* Lists of jobs have them. */
    if (crti_json_shape(crti_str(s.metadata)).depth > CRTI_JSON_DEPTH_MAX ||
        crti_json_shape(crti_str(s.metadata)).has_zero ||
        crti_json_shape(crti_str(s.runtime_env)).depth > CRTI_JSON_DEPTH_MAX ||
        crti_json_shape(crti_str(s.runtime_env)).has_zero)
        abort();
}

static void read_state(const uint8_t *data, size_t size)
{
    static const char *const names[] = {
        "actors",           "nodes",        "jobs",
        "workers",          "tasks",        "objects",
        "placement_groups", "runtime_envs", "cluster_events"};
    json_t *json = json_loadb((const char *)data, size, JSON_DECODE_ANY, NULL);
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t text = {0};

    json_decref(crti_view_cluster(json, false));
    json_decref(crti_view_cluster(json, true));
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const crti_listing_t *resource = crti_listing_find(names[i]);

        json_decref(crti_view_state(resource, json, NULL, 10, CRTI_VIEW_ALL));
        if (crti_summary_counting(resource))
            json_decref(crti_view_summary(resource, json));
        text.size = 0;
        if (resource->columns && crti_columns_shown(resource->columns))
            (void)crti_view_rows(resource, crti_span(data, size), 10, &text);
    }
    json_decref(crti_view_timeline(json, ""));
    text.size = 0;
    if (crti_metrics_text(json, &text) != CRT_OK)
        abort();
    json_decref(json);
}

static void read_text(const uint8_t *data, size_t size)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t text = {0};
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t escaped = {0};
    json_t *json, *again;
    size_t used;

    if (crti_utf8_clean(crti_span(data, size), size % 2, &text, &used) != CRT_OK)
        return;
    json = json_stringn(text.data ? (const char *)text.data : "", text.size);
    if (!json || used > size) /* jansson knows what is UTF-8 */
        abort();
    if (crti_buffer_append(&escaped, "\"", 1) != CRT_OK ||
        crti_json_escape(crti_span(text.data, text.size), &escaped) != CRT_OK ||
        crti_buffer_append(&escaped, "\"", 1) != CRT_OK)
        abort();
    again = json_loadb((const char *)escaped.data, escaped.size,
                       JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    if (!json_equal(json, again)) /* and what is JSON */
        abort();
    json_decref(again);
    json_decref(json);
}

/* It ends, and gives no more than came. */
static void read_chunks(const uint8_t *data, size_t size)
{
    crti_chunks_t chunks = {0};

    while (size && chunks.state != CRTI_CHUNKS_DONE) {
        const void *part;
        size_t length, used;

        if (crti_chunks_next(&chunks, data, size, &part, &length, &used) != CRT_OK)
            return;
        if (used == 0 || used > size || length > used ||
            (length && ((const uint8_t *)part < data ||
                        (const uint8_t *)part + length > data + used)))
            abort();
        data += used;
        size -= used;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text;

    if (size == 0)
        return 0;
    switch (data[0] % 4) {
    case 0:
        text = malloc(size);
        if (!text)
            return 0;
        memcpy(text, data + 1, size - 1);
        text[size - 1] = '\0';
        read_request(text);
        free(text);
        break;
    case 1: read_submission(data + 1, size - 1); break;
    case 2: read_state(data + 1, size - 1); break;
    case 3:
        read_text(data + 1, size - 1);
        read_chunks(data + 1, size - 1);
        break;
    }
    return 0;
}

size_t fuzz_seed(unsigned index, uint8_t *out, size_t room)
{
    static const char *const seeds[] = {
        "\0200\n/api/jobs/x/logs\nlocalhost:1\nhttp://localhost:1\nnone\nBearer " TOKEN
        "\n\n" TOKEN "\noffset=1\nlimit=100\n",
        "\0200\n/api/v0/actors\nlocalhost:1\n\n\nBearer " TOKEN
        "\n\n\nfilter_keys=pid\nfilter_predicates==\nfilter_values=3\ndetail=True",
        "\0202\n/api/packages/crt/" TOKEN
        "\n[::1]:80\n\nsame-origin\n\nBearer x\n\nformat=1",
        "\001{\"entrypoint\":\"a b\",\"submission_id\":\"x\",\"argv\":[\"a\",\"b\"],"
        "\"runtime_env\":{\"program\":\"" TOKEN
        "\",\"env_vars\":{\"A\":\"B\"}},\"metadata\":"
        "{\"k\":\"v\"},\"entrypoint_num_cpus\":0,\"entrypoint_resources\":{}}",
        "\001{\"entrypoint\":\"a\",\"metadata\":{\"k\":\"a\\u0000b\"},\"runtime_env\":{"
        "\"_x\":"
        "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}}",
        "\0200\n/api/jobs/\nlocalhost:1\n\n\nBearer " TOKEN "\n\n\nlimit=10\noffset=20",
        "\002{\"address\":\"a:1\",\"nodes\":[{\"node_id\":\"n\",\"state\":\"ALIVE\","
        "\"resources_total\":{\"CPU\":4,\"memory\":1e10},\"resources_available\":{"
        "\"CPU\":1}}],"
        "\"demand\":[{\"resources\":{\"CPU\":9},\"count\":2,\"reason\":\"r\"}],"
        "\"actors\":{\"A\":1}}",
        "\002[{\"type\":\"SUBMISSION\",\"submission_id\":\"a\",\"driver_pid\":1,"
        "\"metadata\":{}},"
        "{\"actor_id\":\"x\",\"state\":\"DEAD\",\"message\":\"m\",\"pid\":3}]",
        "\0035;a=b\r\nhello\r\n0\r\nT: x\r\n\r\n",
        "\003gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80 \xff\n",
    };
    size_t size;

    if (index >= sizeof(seeds) / sizeof(seeds[0]))
        return 0;
    size = strlen(seeds[index]);
    if (size > room)
        return 0;
    memcpy(out, seeds[index], size);
    return size;
}
