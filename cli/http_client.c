/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP requests of the command. See http_client.h. */
#include "cli/http_client.h"

#include <stdlib.h>
#include <string.h>

#include <curl/curl.h>

#define REPLY_MAX       ((size_t)64 << 20)
#define CONNECT_SECONDS 5L
#define REQUEST_SECONDS 60L
#define UPLOAD_SLOW     10L /* bytes a second for 60 s count as broken */

struct http_client {
    CURL *curl;
    struct curl_slist *headers;
    char url[300];
    char error[CURL_ERROR_SIZE];
};

const char *crti_client_url(const http_client_t *client)
{
    return client->url;
}

void crti_client_free(http_client_t *client)
{
    if (!client)
        return;
    curl_slist_free_all(client->headers);
    if (client->curl)
        curl_easy_cleanup(client->curl);
    free(client);
}

void crti_reply_fini(http_reply_t *reply)
{
    free(reply->text);
    *reply = (http_reply_t){0};
}

char *crti_client_escape(const char *id)
{
    return curl_easy_escape(NULL, id, 0);
}

void crti_client_escape_free(char *escaped)
{
    curl_free(escaped);
}

static const char *environment(const char *name)
{
    const char *value = getenv(name);

    return value && *value ? value : NULL;
}

/* Where and with which token. */
static crt_status_t find_server(const char *address, char *url, size_t size, char *token)
{
    const char *http = environment("CRT_HTTP"), *given = environment("CRT_TOKEN");
    const char *key_file = environment("CRT_KEY_FILE");
    crt_cluster_info_t cluster;
    crt_status_t status;

    if (!http || address) {
        http = NULL;
        status = crt_cluster_find(address, &cluster);
        if (status != CRT_OK)
            return status;
        key_file = cluster.key_file;
        if (!cluster.http[0] || strcmp(cluster.http, "none") == 0)
            return crt_raise(CRT_ERR_NOT_FOUND,
                             "the cluster %s has no HTTP server to submit jobs to",
                             cluster.address);
    }
    snprintf(url, size, "%s%s", http && strstr(http, "://") ? "" : "http://",
             http ? http : cluster.http);
    if (http && given && strlen(given) < 65) {
        strcpy(token, given);
        return CRT_OK;
    }
    if (!key_file)
        return crt_raise(CRT_ERR_NOT_FOUND, "CRT_HTTP needs CRT_TOKEN or CRT_KEY_FILE");
    return crt_cluster_token(key_file, token);
}

crt_status_t crti_client_new(const char *address, http_client_t **client_out)
{
    http_client_t *self;
    char header[128], token[65];
    crt_status_t status;

    curl_global_init(CURL_GLOBAL_DEFAULT);
    self = calloc(1, sizeof(*self));
    if (!self || !(self->curl = curl_easy_init())) {
        crti_client_free(self);
        return crt_raise(CRT_ERR_NO_MEMORY, "out of memory");
    }
    status = find_server(address, self->url, sizeof(self->url), token);
    if (status != CRT_OK) {
        crti_client_free(self);
        return status;
    }
    snprintf(header, sizeof(header), "Authorization: Bearer %s", token);
    self->headers = curl_slist_append(NULL, header);
    /* No "100 Continue": a refusal comes before the body anyway. */
    self->headers = curl_slist_append(self->headers, "Expect:");
    self->headers = curl_slist_append(self->headers, "Content-Type: application/json");
    *client_out = self;
    return CRT_OK;
}

static size_t on_bytes(char *data, size_t one, size_t count, void *user)
{
    http_reply_t *reply = user;
    char *larger;

    if (count > REPLY_MAX - reply->size ||
        !(larger = realloc(reply->text, reply->size + count + 1)))
        return 0;
    memcpy(larger + reply->size, data, count);
    reply->text = larger;
    reply->size += count;
    reply->text[reply->size] = '\0';
    return count;
}

static crt_status_t perform(http_client_t *client, const char *path, http_reply_t *reply)
{
    char url[1024];
    CURLcode code;

    *reply = (http_reply_t){.text = calloc(1, 1)};
    snprintf(url, sizeof(url), "%s%s", client->url, path);
    curl_easy_setopt(client->curl, CURLOPT_URL, url);
    curl_easy_setopt(client->curl, CURLOPT_HTTPHEADER, client->headers);
    curl_easy_setopt(client->curl, CURLOPT_WRITEFUNCTION, on_bytes);
    curl_easy_setopt(client->curl, CURLOPT_WRITEDATA, reply);
    curl_easy_setopt(client->curl, CURLOPT_ERRORBUFFER, client->error);
    curl_easy_setopt(client->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(client->curl, CURLOPT_CONNECTTIMEOUT, CONNECT_SECONDS);
    curl_easy_setopt(client->curl, CURLOPT_PROXY, ""); /* the token goes to nobody else */
    curl_easy_setopt(client->curl, CURLOPT_PROTOCOLS_STR, "http,https");
    client->error[0] = '\0';
    code = curl_easy_perform(client->curl);
    curl_easy_getinfo(client->curl, CURLINFO_RESPONSE_CODE, &reply->code);
    if (code == CURLE_OK)
        return CRT_OK;
    /* A refusal may come while the body is still being sent. */
    if (reply->code >= 400)
        return CRT_OK;
    return crt_raise(CRT_ERR_IO, "no answer from %s: %s", client->url,
                     client->error[0] ? client->error : curl_easy_strerror(code));
}

crt_status_t crti_client_send(http_client_t *client, const char *method, const char *path,
                              const char *body, http_reply_t *reply_out)
{
    curl_easy_reset(client->curl);
    curl_easy_setopt(client->curl, CURLOPT_TIMEOUT, REQUEST_SECONDS);
    if (body || strcmp(method, "POST") == 0)
        curl_easy_setopt(client->curl, CURLOPT_POSTFIELDS, body ? body : "");
    curl_easy_setopt(client->curl, CURLOPT_CUSTOMREQUEST, method);
    return perform(client, path, reply_out);
}

crt_status_t crti_client_upload(http_client_t *client, const char *path, FILE *file,
                                uint64_t size, http_reply_t *reply_out)
{
    rewind(file);
    curl_easy_reset(client->curl);
    curl_easy_setopt(client->curl, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(client->curl, CURLOPT_READDATA, file);
    curl_easy_setopt(client->curl, CURLOPT_INFILESIZE_LARGE, (curl_off_t)size);
    curl_easy_setopt(client->curl, CURLOPT_LOW_SPEED_LIMIT, UPLOAD_SLOW);
    curl_easy_setopt(client->curl, CURLOPT_LOW_SPEED_TIME, 60L);
    return perform(client, path, reply_out);
}

json_t *crti_client_json(http_client_t *client, const char *method, const char *path,
                         const char *body, long *code_out)
{
    http_reply_t reply = {0};
    crt_status_t status = crti_client_send(client, method, path, body, &reply);
    json_t *json = NULL;

    if (code_out)
        *code_out = status == CRT_OK ? reply.code : 0;
    if (status == CRT_OK && reply.code == 200)
        json = json_loadb(reply.text, reply.size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    if (status == CRT_OK && reply.code != 200)
        crt_raise(CRT_ERR_IO, "%s",
                  reply.size ? reply.text : "the server gave no reason");
    else if (status == CRT_OK && !json)
        crt_raise(CRT_ERR_PROTOCOL, "%s%s did not answer with JSON", client->url, path);
    crti_reply_fini(&reply);
    return json;
}
