/* SPDX-License-Identifier: Apache-2.0 */
/* The external redis-server. See redis_endpoint.h. */
#include "runtime/control/store/redis_endpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <hiredis/hiredis.h>
#include <sodium.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"
#include "runtime/base/id.h"
#include "runtime/base/log.h"
#include "runtime/base/plain_text.h"
#include "runtime/base/secret_file.h"
#include "runtime/control/store/redis_prefix_lock.h"
#include "runtime/control/store/redis_reply_validator.h"
#include "runtime/control/store/redis_tls_proxy.h"

#define CLOSE_NS     (2 * CRTI_S)
#define ANSWER_READS 64 /* of 16 KiB: an answer has some bytes */

/* An option that needs another one. */
static crt_status_t belongs(const char *option, const char *other)
{
    return crt_raise(CRT_ERR_INVALID, "%s goes with %s", option, other);
}

static crt_status_t check_together(const crti_redis_external_t *e)
{
    const char *alone = e->prefix          ? "--redis-prefix"
                        : e->password_file ? "--redis-password-file"
                        : e->user          ? "--redis-user"
                        : e->tls           ? "--redis-tls"
                        : e->ca_file       ? "--redis-ca-file"
                        : e->plaintext_ok  ? "--redis-plaintext-ok"
                                           : NULL;

    if (!e->address && alone)
        return belongs(alone, "--redis-address HOST:PORT");
    if (e->user && !e->password_file)
        return belongs("--redis-user", "--redis-password-file FILE");
    if (e->ca_file && !e->tls)
        return belongs("--redis-ca-file", "--redis-tls");
    if (e->tls && e->plaintext_ok)
        return crt_raise(CRT_ERR_INVALID,
                         "--redis-tls and --redis-plaintext-ok contradict each other");
    return CRT_OK;
}

crt_status_t crti_redis_external_check(const crti_redis_external_t *external)
{
    const char *prefix = external->prefix;
    crt_status_t status = check_together(external);

    if (status != CRT_OK)
        return status;
    if (prefix && (!*prefix || strlen(prefix) >= CRTI_REDIS_PREFIX ||
                   prefix[strspn(prefix, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRST"
                                         "UVWXYZ0123456789._-")]))
        return crt_raise(CRT_ERR_INVALID,
                         "--redis-prefix: \"%s\" is not 1 to %d letters, digits, dots, "
                         "dashes and underscores",
                         prefix, CRTI_REDIS_PREFIX - 1);
    return CRT_OK;
}

/* ---------------------------------------------------------------- where it is */

/* "1.2.3.4:5" or "[::1]:5"; numeric, so the last colon is the port's. */
static void split(crti_redis_endpoint_t *endpoint)
{
    const char *colon = strrchr(endpoint->address, ':');
    bool has_brackets = endpoint->address[0] == '[';

    snprintf(endpoint->ip, sizeof(endpoint->ip), "%.*s",
             (int)(colon - endpoint->address) - 2 * has_brackets,
             endpoint->address + has_brackets);
    endpoint->port = atoi(colon + 1);
}

static bool is_on_this_host(const char *ip)
{
    struct ifaddrs *list = NULL;
    bool found = strncmp(ip, "127.", 4) == 0 || strcmp(ip, "::1") == 0;

    if (!found && getifaddrs(&list) != 0)
        return false;
    for (const struct ifaddrs *at = list; at && !found; at = at->ifa_next) {
        char text[NI_MAXHOST];
        int family = at->ifa_addr ? at->ifa_addr->sa_family : AF_UNSPEC;
        socklen_t size =
            family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);

        if ((family == AF_INET || family == AF_INET6) &&
            getnameinfo(at->ifa_addr, size, text, sizeof(text), NULL, 0,
                        NI_NUMERICHOST) == 0)
            found = strcmp(text, ip) == 0;
    }
    if (list)
        freeifaddrs(list);
    return found;
}

/* ---------------------------------------------------------------- the password */

/* Its first line. */
static crt_status_t read_password(const char *path, char *password, size_t size)
{
    CRTI_AUTO(crti_close) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    crt_status_t status;
    bool has_end;
    ssize_t n;

    if (fd < 0)
        return crt_raise(CRT_ERR_IO, "password file %s: %s", path, strerror(errno));
    status = crti_check_secret_file(fd, "password file", path);
    if (status != CRT_OK)
        return status;
    n = read(fd, password, size - 1);
    if (n < 0)
        return crt_raise(CRT_ERR_IO, "password file %s: %s", path, strerror(errno));
    if (crti_is_utf16(password, (size_t)n))
        return crt_raise(CRT_ERR_INVALID, "password file %s is UTF-16: save it as UTF-8",
                         path);
    password[n] = '\0';
    crti_plain_text(password, (size_t)n);
    has_end = (size_t)n < size - 1 || strchr(password, '\n');
    password[strcspn(password, "\n")] = '\0';
    if (!*password || !has_end)
        return crt_raise(CRT_ERR_INVALID,
                         "password file %s: its first line must hold 1 to %zu bytes",
                         path, size - 2);
    return CRT_OK;
}

/* ---------------------------------------------------------------- the identity of this head */

/* Kernel, network namespace and address: only one process can have bound the address there. */
static void name_owner(crti_redis_endpoint_t *endpoint, const char *head_address)
{
    CRTI_AUTO(fclose) FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    char boot[40] = "", net[32] = "", hex[CRTI_ID_HEX];

    if (file && fgets(boot, sizeof(boot), file))
        boot[strcspn(boot, "\n")] = '\0';
    if (readlink("/proc/self/ns/net", net, sizeof(net) - 1) < 0)
        net[0] = '\0';
    snprintf(endpoint->owner, sizeof(endpoint->owner), "%s/%s %s ", boot, net,
             head_address);
    endpoint->place_size = strlen(endpoint->owner);
    snprintf(endpoint->owner + endpoint->place_size,
             sizeof(endpoint->owner) - endpoint->place_size, "%s",
             crti_id_hex(crti_id_random(), hex));
}

/* The user, and what TLS needs. */
static crt_status_t take_names(const crti_redis_external_t *external,
                               crti_redis_endpoint_t *endpoint)
{
    const char *colon = strrchr(external->address, ':');
    bool has_brackets = external->address[0] == '[';
    const struct {
        const char *from;
        char *to;
        size_t size;
    } texts[] = {{external->user, endpoint->user, sizeof(endpoint->user)},
                 {external->ca_file, endpoint->ca_file, sizeof(endpoint->ca_file)}};

    for (size_t i = 0; i < 2; i++)
        if (texts[i].from && snprintf(texts[i].to, texts[i].size, "%s", texts[i].from) >=
                                 (int)texts[i].size)
            return crt_raise(CRT_ERR_TOO_LARGE, "\"%s\" is too long", texts[i].from);
    snprintf(endpoint->host, sizeof(endpoint->host), "%.*s",
             (int)(colon - external->address) - 2 * has_brackets,
             external->address + has_brackets);
    endpoint->tls = external->tls;
    return endpoint->tls ? crti_redis_tls_proxy_check(endpoint) : CRT_OK;
}

int crti_redis_endpoint_auth(const crti_redis_endpoint_t *endpoint, const char *argv[3])
{
    int argc = 0;

    argv[argc++] = "AUTH";
    if (endpoint->user[0])
        argv[argc++] = endpoint->user;
    argv[argc++] = endpoint->password;
    return argc;
}

crt_status_t crti_redis_endpoint_open(const crti_redis_external_t *external,
                                      const char *head_address,
                                      crti_redis_endpoint_t *endpoint_out)
{
    crti_redis_endpoint_t *endpoint = endpoint_out;
    crt_status_t status;

    *endpoint = (crti_redis_endpoint_t){0};
    status = crti_stream_resolve(external->address, endpoint->address);
    if (status != CRT_OK)
        return crt_raise(status,
                         "--redis-address %s: a host and a port are needed, and "
                         "the host must be known",
                         external->address);
    split(endpoint);
    if (!external->tls && !external->plaintext_ok && !is_on_this_host(endpoint->ip))
        return crt_raise(CRT_ERR_PERMISSION,
                         "redis-server at %s is not on this host, and what goes there is "
                         "not encrypted: give --redis-tls, or --redis-plaintext-ok where "
                         "the network is trusted",
                         endpoint->address);
    status = take_names(external, endpoint);
    if (status != CRT_OK)
        return status;
    snprintf(endpoint->prefix, sizeof(endpoint->prefix), "%s",
             external->prefix ? external->prefix : "crt");
    name_owner(endpoint, head_address);
    if (!external->password_file)
        return CRT_OK;
    snprintf(endpoint->password_file, sizeof(endpoint->password_file), "%s",
             external->password_file);
    return read_password(external->password_file, endpoint->password,
                         sizeof(endpoint->password));
}

/* ---------------------------------------------------------------- the end */

/* The last commands to a server: without a loop, and done by the deadline. */
typedef struct closing {
    redisContext *connection;
    crti_redis_reply_validator_t validator;
    crti_redis_tls_proxy_t proxy; /* closed where there is no TLS */
    uint64_t deadline_ns;
} closing_t;

/* Waits until something can be done; the events of the connection, 0 when the time is over. */
static short await_events(closing_t *closing, bool is_sent)
{
    uint64_t now;

    while ((now = crti_now_ns()) < closing->deadline_ns) {
        struct pollfd waits[3] = {
            {.fd = closing->connection->fd, .events = is_sent ? POLLIN : POLLOUT}};
        nfds_t count = 1 + crti_redis_tls_proxy_waits(&closing->proxy, waits + 1);
        int left = (int)((closing->deadline_ns - now) / CRTI_MS) + 1;

        if (poll(waits, count, left) <= 0)
            continue; /* time is over, or a signal came */
        crti_redis_tls_proxy_work(&closing->proxy);
        if (waits[0].revents)
            return waits[0].revents;
    }
    return 0;
}

/* The answer to what is in the connection's buffer, by the deadline and within ANSWER_READS, or
 * NULL: a server that gives its answer drop by drop, or without end, keeps no head from ending. */
static redisReply *await_answer(closing_t *closing)
{
    redisContext *c = closing->connection;
    void *reply = NULL;
    unsigned reads = 0;
    int sent = 0;

    while (reply == NULL) {
        short events = await_events(closing, sent);

        if (events == 0)
            return NULL;
        if (!sent && redisBufferWrite(c, &sent) != REDIS_OK)
            return NULL;
        if ((events & ~POLLOUT) &&
            (++reads > ANSWER_READS || redisBufferRead(c) != REDIS_OK))
            return NULL;
        if (sent && redisGetReplyFromReader(c, &reply) != REDIS_OK)
            return NULL;
    }
    return reply;
}

/* True when the command was done. */
static bool command(closing_t *closing, int argc, const char *const *argv)
{
    redisReply *reply = NULL;
    bool done;

    if (redisAppendCommandArgv(closing->connection, argc, (const char **)(uintptr_t)argv,
                               NULL) == REDIS_OK)
        reply = await_answer(closing);
    done = reply && reply->type != REDIS_REPLY_ERROR;
    if (reply)
        freeReplyObject(reply);
    return done;
}

static bool release_lock(closing_t *closing, const crti_redis_endpoint_t *endpoint,
                         const char *const *tables, size_t count, bool forget)
{
    static const char script[] =
        "if redis.call('GET',KEYS[1])~=ARGV[1] then return 0 end "
        "redis.call('DEL',unpack(KEYS)) return 1";
    const char *argv[32] = {"EVAL", script}, *auth[3];
    char number[8], key[CRTI_REDIS_PREFIX + 8], epoch[CRTI_REDIS_PREFIX + 8];
    int argc = 3;

    snprintf(key, sizeof(key), "%s:head", endpoint->prefix);
    argv[argc++] = key;
    for (size_t i = 0; forget && i < count; i++)
        argv[argc++] = tables[i];
    crti_redis_prefix_lock_epoch_key(endpoint, epoch);
    if (forget)
        argv[argc++] = epoch;
    snprintf(number, sizeof(number), "%d", argc - 3);
    argv[2] = number;
    argv[argc++] = endpoint->owner;
    if (endpoint->password[0] &&
        !command(closing, crti_redis_endpoint_auth(endpoint, auth), auth))
        return false;
    return command(closing, argc, argv);
}

static bool reach(closing_t *closing, const crti_redis_endpoint_t *endpoint)
{
    crti_redis_tls_proxy_init(&closing->proxy, NULL);
    if (!endpoint->tls)
        closing->connection = redisConnectNonBlock(endpoint->ip, endpoint->port);
    else if (crti_redis_tls_proxy_begin(&closing->proxy, endpoint) == CRT_OK)
        closing->connection = redisConnectUnixNonBlock(endpoint->socket);
    if (closing->connection == NULL || closing->connection->err)
        return false;
    crti_redis_reply_validator_install(&closing->validator, closing->connection, NULL);
    return !endpoint->tls ||
           crti_redis_tls_proxy_accept(&closing->proxy, endpoint) == CRT_OK;
}

void crti_redis_endpoint_close(crti_redis_endpoint_t *endpoint, const char *const *tables,
                               size_t count, bool forget)
{
    closing_t closing = {.deadline_ns = crti_now_ns() + CLOSE_NS};

    if (!reach(&closing, endpoint) ||
        !release_lock(&closing, endpoint, tables, count, forget))
        crti_log(
            CRTI_LOG_WARN, "redis",
            "redis-server at %s can't be told that this head ends: its prefix \"%s\" "
            "is free in some seconds%s",
            endpoint->address, endpoint->prefix,
            forget ? ", its tables stay until a head starts with --fresh" : "");
    if (closing.connection)
        redisFree(closing.connection);
    crti_redis_tls_proxy_close(&closing.proxy);
    sodium_memzero(endpoint->password, sizeof(endpoint->password));
}
