/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP requests of the command. See http_client.h. */
#include "cli/http_client.h"
#include "crt_tools.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/curl_library.h"
#include "cli/http_target.h"

CRTI_LATE_LIBRARY(crti_curl, CRTI_CURL_SYMBOLS, "libcurl.so.4",
                  "no request can be sent by HTTP")

#define REPLY_MAX       ((size_t)64 << 20)
#define CONNECT_SECONDS 5L
#define REQUEST_SECONDS 60L
#define UPLOAD_SLOW     10L /* bytes a second for 60 s count as broken */

struct http_client {
    CURL *curl;
    struct curl_slist *headers;
    http_target_t target;
    curl_socket_t local_fd; /* of the last connection to a unix socket; owned by curl */
    char error[CURL_ERROR_SIZE];
    bool is_refused; /* by us: the detail says why */
};

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
    return crti_curl_library() == CRT_OK ? curl_easy_escape(NULL, id, 0) : NULL;
}

void crti_client_escape_free(char *escaped)
{
    if (escaped)
        curl_free(escaped);
}

static void set_headers(http_client_t *client)
{
    char header[128];

    curl_slist_free_all(client->headers);
    snprintf(header, sizeof(header), "Authorization: Bearer %s", client->target.token);
    client->headers = client->target.token[0] ? curl_slist_append(NULL, header) : NULL;
    /* No "100 Continue": a refusal comes before the body anyway. */
    client->headers = curl_slist_append(client->headers, "Expect:");
    client->headers =
        curl_slist_append(client->headers, "Content-Type: application/json");
}

crt_status_t crti_client_new(const char *address, http_client_t **client_out)
{
    http_client_t *self;
    crt_status_t status;

    CRT_TRY(crti_curl_library());
    curl_global_init(CURL_GLOBAL_DEFAULT);
    self = calloc(1, sizeof(*self));
    if (!self || !(self->curl = curl_easy_init())) {
        crti_client_free(self);
        return crt_raise(CRT_ERR_NO_MEMORY, "out of memory");
    }
    status = crti_target_find(address, &self->target);
    if (status != CRT_OK) {
        crti_client_free(self);
        return status;
    }
    set_headers(self);
    *client_out = self;
    return CRT_OK;
}

const char *crti_client_url(const http_client_t *client)
{
    return client->target.socket[0] ? NULL : client->target.url;
}

bool crti_client_is_ended(const http_client_t *client)
{
    return client->target.socket[0] && access(client->target.socket, F_OK) != 0;
}

size_t crti_reply_take(char *data, size_t one, size_t count, void *user)
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

static curl_socket_t open_local(void *user, curlsocktype purpose,
                                struct curl_sockaddr *address)
{
    http_client_t *client = user;

    client->local_fd =
        socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
    return client->local_fd;
}

/* It is connected, and nothing has been sent. */
static int check_peer(void *user, char *to, char *from, int to_port, int from_port)
{
    http_client_t *client = user;

    client->is_refused =
        crti_target_check_peer(&client->target, client->local_fd) != CRT_OK;
    return client->is_refused ? CURL_PREREQFUNC_ABORT : CURL_PREREQFUNC_OK;
}

/* Whom the certificate has to prove. Names and authorities are passed over only for the pin. */
static crt_status_t choose_proof(http_client_t *client)
{
    const char *authorities = getenv("SSL_CERT_FILE");

    if (!client->target.token[0]) { /* nothing that anybody could take */
        curl_easy_setopt(client->curl, CURLOPT_PROTOCOLS_STR, "http");
        return CRT_OK;
    }
    curl_easy_setopt(client->curl, CURLOPT_PROTOCOLS_STR, "https");
    if (!client->target.pin[0]) {
        if (authorities && *authorities)
            curl_easy_setopt(client->curl, CURLOPT_CAINFO, authorities);
        return CRT_OK;
    }
    if (curl_easy_setopt(client->curl, CURLOPT_PINNEDPUBLICKEY, client->target.pin) !=
        CURLE_OK)
        return crt_raise(CRT_ERR_UNSUPPORTED,
                         "this libcurl can't compare the server's key; nothing was sent");
    curl_easy_setopt(client->curl, CURLOPT_SSL_VERIFYPEER, 0L);
    curl_easy_setopt(client->curl, CURLOPT_SSL_VERIFYHOST, 0L);
    return CRT_OK;
}

static crt_status_t choose_way(http_client_t *client)
{
    curl_easy_setopt(client->curl, CURLOPT_PROXY, ""); /* the token goes to nobody else */
    if (!client->target.socket[0])
        return choose_proof(client);
    curl_easy_setopt(client->curl, CURLOPT_PROTOCOLS_STR, "http");
    curl_easy_setopt(client->curl, CURLOPT_UNIX_SOCKET_PATH, client->target.socket);
    curl_easy_setopt(client->curl, CURLOPT_OPENSOCKETFUNCTION, open_local);
    curl_easy_setopt(client->curl, CURLOPT_OPENSOCKETDATA, client);
    curl_easy_setopt(client->curl, CURLOPT_PREREQFUNCTION, check_peer);
    curl_easy_setopt(client->curl, CURLOPT_PREREQDATA, client);
    return CRT_OK;
}

/* Why there is no answer. */
static crt_status_t fail(const http_client_t *client, CURLcode code)
{
    const http_target_t *target = &client->target;
    const char *why = client->error[0] ? client->error : curl_easy_strerror(code);

    if (client->is_refused)
        return CRT_ERR_PERMISSION; /* raised by crti_target_check_peer */
    if (code == CURLE_COULDNT_CONNECT && target->socket[0])
        return crt_raise(CRT_ERR_IO,
                         "nobody listens at %s: the head is gone; nothing was sent",
                         target->socket);
    if (code == CURLE_SSL_PINNEDPUBKEYNOTMATCH)
        return crt_raise(
            CRT_ERR_PERMISSION,
            "%s does not show the certificate of this cluster's key; nothing was sent. "
            "Where the server has one of its own (--dashboard-cert) give CRT_TOKEN and "
            "not CRT_KEY_FILE",
            target->url);
    /* The other one: there are no authorities, as on a system without ca-certificates. */
    if (code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE)
        return crt_raise(CRT_ERR_PERMISSION,
                         "%s: %s; nothing was sent. Give the cluster's key in "
                         "CRT_KEY_FILE, or the certificate's authority in SSL_CERT_FILE",
                         target->url, why);
    return crt_raise(CRT_ERR_IO, "no answer from %s: %s",
                     target->socket[0] ? target->socket : target->url, why);
}

static crt_status_t perform(http_client_t *client, const char *path, http_reply_t *reply)
{
    char url[1024];
    CURLcode code;

    *reply = (http_reply_t){.text = calloc(1, 1)};
    snprintf(url, sizeof(url), "%s%s", client->target.url, path);
    curl_easy_setopt(client->curl, CURLOPT_URL, url);
    curl_easy_setopt(client->curl, CURLOPT_HTTPHEADER, client->headers);
    curl_easy_setopt(client->curl, CURLOPT_WRITEFUNCTION, crti_reply_take);
    curl_easy_setopt(client->curl, CURLOPT_WRITEDATA, reply);
    curl_easy_setopt(client->curl, CURLOPT_ERRORBUFFER, client->error);
    curl_easy_setopt(client->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(client->curl, CURLOPT_CONNECTTIMEOUT, CONNECT_SECONDS);
    if (choose_way(client) != CRT_OK)
        return CRT_ERR_UNSUPPORTED;
    client->error[0] = '\0';
    client->is_refused = false;
    code = curl_easy_perform(client->curl);
    curl_easy_getinfo(client->curl, CURLINFO_RESPONSE_CODE, &reply->code);
    if (code == CURLE_OK)
        return CRT_OK;
    /* A refusal may come while the body is still being sent. */
    if (reply->code >= 400)
        return CRT_OK;
    return fail(client, code);
}

typedef struct request {
    const char *method, *path, *body; /* body: NULL without one */
    FILE *file;                       /* uploaded instead of a body */
    uint64_t size;                    /* of the file */
} request_t;

static crt_status_t send_once(http_client_t *client, const request_t *r,
                              http_reply_t *reply)
{
    CURL *curl = client->curl;

    curl_easy_reset(curl);
    if (r->file) {
        rewind(r->file);
        curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(curl, CURLOPT_READDATA, r->file);
        curl_easy_setopt(curl, CURLOPT_INFILESIZE_LARGE, (curl_off_t)r->size);
        curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, UPLOAD_SLOW);
        curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, 60L);
        return perform(client, r->path, reply);
    }
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, REQUEST_SECONDS);
    if (r->body || strcmp(r->method, "POST") == 0)
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, r->body ? r->body : "");
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, r->method);
    return perform(client, r->path, reply);
}

/* Of tokens that the server takes. Everybody may ask that: it is asked without one. */
static bool ask_generation(http_client_t *client, uint32_t *generation_out)
{
    static const request_t question = {.method = "GET",
                                       .path = "/api/authentication_mode"};
    struct curl_slist *headers = client->headers;
    http_reply_t reply = {0};
    json_t *json = NULL, *number;
    bool is_known;

    client->headers = NULL;
    if (send_once(client, &question, &reply) == CRT_OK && reply.code == 200)
        json = json_loadb(reply.text, reply.size, 0, NULL);
    client->headers = headers;
    number = json_object_get(json, "token_generation");
    is_known = json_is_integer(number) && json_integer_value(number) >= 0 &&
               json_integer_value(number) <= UINT32_MAX;
    if (is_known)
        *generation_out = (uint32_t)json_integer_value(number);
    json_decref(json);
    crti_reply_fini(&reply);
    return is_known;
}

/* Tokens were rotated: who has the key makes the next one. False: that is not why. */
static bool renew_token(http_client_t *client)
{
    http_target_t *target = &client->target;
    char before[sizeof(target->token)];
    uint32_t generation;

    if (!target->key_file[0] || !ask_generation(client, &generation))
        return false;
    strcpy(before, target->token);
    if (crti_cluster_token_until(target->key_file, generation, 0, target->token) !=
        CRT_OK)
        return false;
    set_headers(client);
    return strcmp(before, target->token) != 0;
}

static crt_status_t send_it(http_client_t *client, const request_t *r,
                            http_reply_t *reply_out)
{
    crt_status_t status = send_once(client, r, reply_out);

    if (status != CRT_OK || reply_out->code != 403 || !renew_token(client))
        return status;
    crti_reply_fini(reply_out);
    return send_once(client, r, reply_out);
}

crt_status_t crti_client_send(http_client_t *client, const char *method, const char *path,
                              const char *body, http_reply_t *reply_out)
{
    const request_t request = {.method = method, .path = path, .body = body};

    return send_it(client, &request, reply_out);
}

crt_status_t crti_client_upload(http_client_t *client, const char *path, FILE *file,
                                uint64_t size, http_reply_t *reply_out)
{
    const request_t request = {.method = "PUT", .path = path, .file = file, .size = size};

    return send_it(client, &request, reply_out);
}

crt_status_t crti_client_refused(const http_client_t *client, const http_reply_t *reply)
{
    json_t *json = json_loadb(reply->text, reply->size, 0, NULL);
    const char *text = json_string_value(json_object_get(json, "msg"));

    if (!text)
        text =
            json_string_value(json_object_get(json_object_get(json, "error"), "message"));
    if (!text)
        text = reply->size ? reply->text : "the server gave no reason";
    if (reply->code == 401 && !client->target.token[0])
        crt_raise(
            CRT_ERR_PERMISSION,
            "%s wants a token, which goes over https only: give the head's HOST:PORT, "
            "or https://HOST:PORT with CRT_TOKEN or CRT_KEY_FILE",
            client->target.url);
    else
        crt_raise(CRT_ERR_IO, "%s", text);
    json_decref(json);
    return CRT_ERR_IO;
}

json_t *crti_client_json(http_client_t *client, const char *method, const char *path,
                         const char *body, long *code_out)
{
    http_reply_t reply = {0};
    crt_status_t status = crti_client_send(client, method, path, body, &reply);
    json_t *json = NULL;

    if (code_out)
        *code_out = status == CRT_OK ? reply.code : status == CRT_ERR_IO ? 0 : -1;
    if (status == CRT_OK && reply.code == 200)
        json = json_loadb(reply.text, reply.size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    if (status == CRT_OK && reply.code != 200)
        crti_client_refused(client, &reply);
    else if (status == CRT_OK && !json)
        crt_raise(CRT_ERR_PROTOCOL, "%s%s did not answer with JSON", client->target.url,
                  path);
    crti_reply_fini(&reply);
    return json;
}
