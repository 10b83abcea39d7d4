/* SPDX-License-Identifier: Apache-2.0 */
/* The API server of Kubernetes. See kubernetes_server.h. */
#include "cli/kubernetes_server.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/curl_library.h"
#include "cli/http_client.h"

#define ACCOUNT         "/var/run/secrets/kubernetes.io/serviceaccount"
#define CONNECT_SECONDS 5L
#define REQUEST_SECONDS 10L
#define TOKEN_MOST      ((size_t)16 << 10)

struct kubernetes_server {
    CURL *curl;
    struct curl_slist *headers;
    char url[4200], account[PATH_MAX], authority[PATH_MAX + 8], space[KUBERNETES_NAME];
    char error[CURL_ERROR_SIZE];
};

/* ---------------------------------------------------------------- who asks whom */

static const char *text_of(const json_t *object, const char *key, const char *other)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : other;
}

/* The first line of FOLDER/NAME; CRT_ERR_IO: there is none. */
static crt_status_t read_account(const kubernetes_server_t *s, const char *name,
                                 char *text, size_t size)
{
    char path[PATH_MAX + 16];
    ssize_t n = -1;
    int fd, error;

    snprintf(path, sizeof(path), "%s/%s", s->account, name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        n = read(fd, text, size - 1);
    error = errno;
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    text[strcspn(text, " \t\r\n")] = '\0';
    if (*text && (size_t)n < size - 1)
        return CRT_OK;
    return crt_raise(CRT_ERR_IO,
                     "can't read %s: %s. The head needs a service account: in a pod with "
                     "automountServiceAccountToken, elsewhere by service-account",
                     path, n < 0 ? strerror(error) : "it has no such line");
}

static crt_status_t find_url(kubernetes_server_t *s, const json_t *where)
{
    const char *host = getenv("KUBERNETES_SERVICE_HOST");
    const char *port = getenv("KUBERNETES_SERVICE_PORT");
    const char *given = text_of(where, "server", NULL);

    if (given)
        snprintf(s->url, sizeof(s->url), "%s", given);
    else if (host && *host)
        snprintf(s->url, sizeof(s->url),
                 strchr(host, ':') ? "https://[%s]:%s" : "https://%s:%s", host,
                 port && *port ? port : "443");
    else
        return crt_raise(CRT_ERR_INVALID,
                         "there is no API server: the head runs in no pod "
                         "(KUBERNETES_SERVICE_HOST is not set); name one by server");
    while (*s->url && s->url[strlen(s->url) - 1] == '/')
        s->url[strlen(s->url) - 1] = '\0';
    return CRT_OK;
}

static crt_status_t find_space(kubernetes_server_t *s, const json_t *where)
{
    const char *given = text_of(where, "namespace", NULL);

    if (!given)
        return read_account(s, "namespace", s->space, sizeof(s->space));
    snprintf(s->space, sizeof(s->space), "%s", given);
    return CRT_OK;
}

/* The token is read each time: kubelet replaces it. */
static crt_status_t set_headers(kubernetes_server_t *s)
{
    static const char before[] = "Authorization: Bearer ";
    char header[sizeof(before) + TOKEN_MOST];
    crt_status_t status =
        read_account(s, "token", header + sizeof(before) - 1, TOKEN_MOST);

    memcpy(header, before, sizeof(before) - 1);
    if (status == CRT_OK) {
        s->headers = curl_slist_append(NULL, header);
        s->headers =
            curl_slist_append(s->headers, "Content-Type: application/merge-patch+json");
        s->headers = curl_slist_append(s->headers, "Accept: application/json");
    }
    explicit_bzero(header, sizeof(header));
    return status;
}

crt_status_t crti_kubernetes_open(const json_t *where, kubernetes_server_t **server_out)
{
    kubernetes_server_t *s;
    crt_status_t status;

    CRT_TRY(crti_curl_library());
    curl_global_init(CURL_GLOBAL_DEFAULT);
    s = calloc(1, sizeof(*s));
    if (!s || !(s->curl = curl_easy_init())) {
        crti_kubernetes_close(s);
        return crt_raise(CRT_ERR_NO_MEMORY, "out of memory");
    }
    snprintf(s->account, sizeof(s->account), "%s",
             text_of(where, "service_account", ACCOUNT));
    snprintf(s->authority, sizeof(s->authority), "%s/ca.crt", s->account);
    status = find_url(s, where);
    if (status == CRT_OK)
        status = find_space(s, where);
    if (status == CRT_OK)
        status = set_headers(s);
    if (status != CRT_OK) {
        crti_kubernetes_close(s);
        return status;
    }
    *server_out = s;
    return CRT_OK;
}

void crti_kubernetes_close(kubernetes_server_t *s)
{
    if (!s)
        return;
    for (struct curl_slist *header = s->headers; header; header = header->next)
        explicit_bzero(header->data, strlen(header->data));
    curl_slist_free_all(s->headers);
    if (s->curl)
        curl_easy_cleanup(s->curl);
    free(s);
}

const char *crti_kubernetes_namespace(const kubernetes_server_t *s)
{
    return s->space;
}

/* ---------------------------------------------------------------- a request */

static void set_options(kubernetes_server_t *s, const char *url, const char *body,
                        http_reply_t *reply)
{
    CURL *curl = s->curl;

    curl_easy_reset(curl);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, s->headers);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, crti_reply_take);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, reply);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, s->error);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, CONNECT_SECONDS);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, REQUEST_SECONDS);
    curl_easy_setopt(curl, CURLOPT_PROXY, ""); /* the token goes to nobody else */
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "https");
    curl_easy_setopt(curl, CURLOPT_CAINFO, s->authority);
    curl_easy_setopt(curl, CURLOPT_CAPATH, NULL); /* this authority alone */
    if (body) {
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
        curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, "PATCH");
    }
}

static crt_status_t no_answer(const kubernetes_server_t *s, CURLcode code)
{
    const char *why = s->error[0] ? s->error : curl_easy_strerror(code);

    if (code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE)
        return crt_raise(CRT_ERR_PERMISSION,
                         "%s does not prove by %s who it is, and got no token: %s",
                         s->url, s->authority, why);
    return crt_raise(CRT_ERR_IO, "no answer from %s: %s", s->url, why);
}

/* The server's words are those of kubectl. */
static crt_status_t refused(const kubernetes_server_t *s, const http_reply_t *reply)
{
    json_t *json = json_loadb(reply->text ? reply->text : "", reply->size, 0, NULL);
    const char *said = text_of(json, "message", "it gave no reason");

    if (reply->code == 401)
        crt_raise(CRT_ERR_PERMISSION,
                  "%s does not take the token of %s (401): is its service account still "
                  "there?",
                  s->url, s->account);
    else if (reply->code == 403)
        crt_raise(CRT_ERR_PERMISSION,
                  "%s: %.150s (403); the service account needs the Role of "
                  "docs/autoscaler.md",
                  s->url, said);
    else
        crt_raise(CRT_ERR_IO, "%s: %.200s (%ld)", s->url, said, reply->code);
    json_decref(json);
    return reply->code == 401 || reply->code == 403 ? CRT_ERR_PERMISSION
           : reply->code == 404                     ? CRT_ERR_NOT_FOUND
           : reply->code == 409                     ? CRT_ERR_EXISTS
                                                    : CRT_ERR_IO;
}

static crt_status_t perform(kubernetes_server_t *s, const char *url, const char *body,
                            json_t **object_out)
{
    http_reply_t reply = {0};
    crt_status_t status = CRT_OK;
    CURLcode code;

    set_options(s, url, body, &reply);
    s->error[0] = '\0';
    code = curl_easy_perform(s->curl);
    curl_easy_getinfo(s->curl, CURLINFO_RESPONSE_CODE, &reply.code);
    *object_out = NULL;
    if (code != CURLE_OK)
        status = no_answer(s, code);
    else if (reply.code / 100 != 2)
        status = refused(s, &reply);
    else if (!(*object_out =
                   json_loadb(reply.text ? reply.text : "", reply.size, 0, NULL)))
        status = crt_raise(CRT_ERR_IO,
                           "%s did not answer with JSON: is it an API server?", s->url);
    crti_reply_fini(&reply);
    return status;
}

crt_status_t crti_kubernetes_get(kubernetes_server_t *s, const char *path,
                                 const char *selector, json_t **object_out)
{
    char *escaped = selector ? curl_easy_escape(s->curl, selector, 0) : NULL;
    crt_status_t status;
    char *url;

    if (asprintf(&url, "%s%s%s%s", s->url, path, escaped ? "?labelSelector=" : "",
                 escaped ? escaped : "") < 0)
        url = NULL;
    if (escaped)
        curl_free(escaped);
    if (!url || (selector && !escaped))
        status = crt_raise(CRT_ERR_NO_MEMORY, "out of memory");
    else
        status = perform(s, url, NULL, object_out);
    free(url);
    return status;
}

crt_status_t crti_kubernetes_patch(kubernetes_server_t *s, const char *path,
                                   json_t *change_take)
{
    char *body = json_dumps(change_take, JSON_COMPACT), *url = NULL;
    json_t *object = NULL;
    crt_status_t status;

    json_decref(change_take);
    if (!body || asprintf(&url, "%s%s", s->url, path) < 0)
        status = crt_raise(CRT_ERR_NO_MEMORY, "out of memory");
    else
        status = perform(s, url, body, &object);
    json_decref(object);
    free(body);
    free(url);
    return status;
}
