/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses in their canonical form. See address.h. */
#include "runtime/base/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"

#define ANSWER_MS 1000 /* of each address that a name has */

static void freeaddrinfo_auto(struct addrinfo **list)
{
    if (*list)
        freeaddrinfo(*list);
}

/* ---------------------------------------------------------------- numeric */

/* IPv4 in an IPv6 address is IPv4: sockets of either kind reach it as that. */
static void unmap(struct sockaddr_storage *at)
{
    struct sockaddr_in6 v6;
    struct sockaddr_in v4 = {.sin_family = AF_INET};

    if (at->ss_family != AF_INET6)
        return;
    memcpy(&v6, at, sizeof(v6));
    if (!IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr))
        return;
    memcpy(&v4.sin_addr, v6.sin6_addr.s6_addr + 12, sizeof(v4.sin_addr));
    v4.sin_port = v6.sin6_port;
    memset(at, 0, sizeof(*at));
    memcpy(at, &v4, sizeof(v4));
}

static socklen_t size_of(const struct sockaddr_storage *at)
{
    return at->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                     : sizeof(struct sockaddr_in);
}

/* Without the port. */
static void format_host(const struct sockaddr_storage *from, char *host, size_t size)
{
    const struct sockaddr_in6 *v6 = (const void *)from;
    const struct sockaddr_in *v4 = (const void *)from;

    if (from->ss_family == AF_INET6)
        inet_ntop(AF_INET6, &v6->sin6_addr, host, (socklen_t)size);
    else
        inet_ntop(AF_INET, &v4->sin_addr, host, (socklen_t)size);
}

static unsigned port_of(const struct sockaddr_storage *from)
{
    const struct sockaddr_in6 *v6 = (const void *)from;
    const struct sockaddr_in *v4 = (const void *)from;

    return ntohs(from->ss_family == AF_INET6 ? v6->sin6_port : v4->sin_port);
}

void crti_address_format(const struct sockaddr_storage *from, char text[CRTI_ADDRESS])
{
    struct sockaddr_storage at = *from;
    char host[INET6_ADDRSTRLEN] = "?";

    unmap(&at);
    format_host(&at, host, sizeof(host));
    snprintf(text, CRTI_ADDRESS, at.ss_family == AF_INET6 ? "[%s]:%u" : "%s:%u", host,
             port_of(&at));
}

/* Any, a group's, everybody's: where no single host is. */
static bool is_of_no_host(const struct sockaddr_storage *at)
{
    const struct sockaddr_in6 *v6 = (const void *)at;
    const struct sockaddr_in *v4 = (const void *)at;
    in_addr_t ip;

    if (at->ss_family == AF_INET6)
        return IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr) ||
               IN6_IS_ADDR_MULTICAST(&v6->sin6_addr);
    ip = ntohl(v4->sin_addr.s_addr);
    return ip == INADDR_ANY || ip == INADDR_BROADCAST || IN_MULTICAST(ip);
}

/* ---------------------------------------------------------------- words */

/* Splits "host:port" and "[host]:port". */
static crt_status_t split(const char *text, char *host, size_t host_size, char port[6])
{
    const char *colon = strrchr(text, ':'), *from = text;
    size_t length = colon ? (size_t)(colon - text) : 0;

    if (length >= 2 && text[0] == '[' && colon[-1] == ']') {
        from++;
        length -= 2;
    } else if (length && memchr(text, ':', length)) {
        length = 0; /* an IPv6 address needs its brackets */
    }
    if (length == 0 || length >= host_size || strlen(colon + 1) > 5 || !colon[1] ||
        strspn(colon + 1, "0123456789") != strlen(colon + 1) || atoi(colon + 1) > 65535)
        return crt_raise(CRT_ERR_INVALID, "\"%.80s\" is not host:port", text);
    memcpy(host, from, length);
    host[length] = '\0';
    snprintf(port, 6, "%s", colon + 1);
    return CRT_OK;
}

static crt_status_t look_up(const char *text, int flags, struct addrinfo **found_out)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = flags | AI_NUMERICSERV};
    char host[256], port[6];
    crt_status_t status = split(text, host, sizeof(host), port);
    int error;

    if (status != CRT_OK)
        return status;
    error = getaddrinfo(host, port, &hints, found_out);
    return error == 0
               ? CRT_OK
               : crt_raise(flags & AI_NUMERICHOST ? CRT_ERR_INVALID : CRT_ERR_UNREACHABLE,
                           "host \"%s\": %s", host, gai_strerror(error));
}

static void take(const struct addrinfo *found, struct sockaddr_storage *to)
{
    memset(to, 0, sizeof(*to));
    memcpy(to, found->ai_addr, found->ai_addrlen);
    unmap(to);
}

crt_status_t crti_address_parse(const char *text, struct sockaddr_storage *to_out,
                                socklen_t *size_out)
{
    CRTI_AUTO(freeaddrinfo) struct addrinfo *found = NULL;
    crt_status_t status = look_up(text, AI_NUMERICHOST, &found);

    if (status != CRT_OK)
        return status;
    take(found, to_out);
    *size_out = size_of(to_out);
    return CRT_OK;
}

static bool answers(const struct sockaddr_storage *at)
{
    CRTI_AUTO(crti_close)
    int fd = socket(at->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct pollfd waiting = {.fd = fd, .events = POLLOUT};
    int error = 0;
    socklen_t size = sizeof(error);

    if (fd < 0)
        return false;
    if (connect(fd, (const struct sockaddr *)at, size_of(at)) == 0)
        return true;
    return errno == EINPROGRESS && poll(&waiting, 1, ANSWER_MS) == 1 &&
           getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
}

crt_status_t crti_address_resolve(const char *text, char canonical[CRTI_ADDRESS])
{
    CRTI_AUTO(freeaddrinfo) struct addrinfo *found = NULL;
    crt_status_t status = look_up(text, 0, &found);
    struct sockaddr_storage at, chosen;

    if (status != CRT_OK)
        return status;
    take(found, &chosen);
    if (is_of_no_host(&chosen))
        return crt_raise(CRT_ERR_INVALID,
                         "\"%.80s\" is no address of a host: it stands for any, or for "
                         "a group",
                         text);
    /* localhost is ::1 and 127.0.0.1 on many hosts, and whoever is meant listens at one of them. */
    for (struct addrinfo *i = found->ai_next ? found : NULL; i; i = i->ai_next) {
        take(i, &at);
        if (answers(&at)) {
            chosen = at;
            break;
        }
    }
    crti_address_format(&chosen, canonical);
    return CRT_OK;
}

static bool have_common(const struct addrinfo *a, const struct addrinfo *b)
{
    char first[CRTI_ADDRESS], second[CRTI_ADDRESS];
    struct sockaddr_storage at;

    for (; a; a = a->ai_next) {
        take(a, &at);
        crti_address_format(&at, first);
        for (const struct addrinfo *i = b; i; i = i->ai_next) {
            take(i, &at);
            crti_address_format(&at, second);
            if (strcmp(first, second) == 0)
                return true;
        }
    }
    return false;
}

bool crti_address_equal(const char *a, const char *b)
{
    CRTI_AUTO(freeaddrinfo) struct addrinfo *first = NULL;
    CRTI_AUTO(freeaddrinfo) struct addrinfo *second = NULL;
    const char *port_a = strrchr(a, ':'), *port_b = strrchr(b, ':');

    if (strcmp(a, b) == 0)
        return true;
    /* Nobody is asked about names with different ports. */
    if (!port_a || !port_b || atoi(port_a + 1) != atoi(port_b + 1))
        return false;
    return look_up(a, 0, &first) == CRT_OK && look_up(b, 0, &second) == CRT_OK &&
           have_common(first, second);
}

/* ---------------------------------------------------------------- hosts */

/* A numeric address without brackets. */
static bool parse_ip(const char *text, struct sockaddr_storage *to)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
    CRTI_AUTO(freeaddrinfo) struct addrinfo *found = NULL;

    if (getaddrinfo(text, NULL, &hints, &found) != 0)
        return false;
    take(found, to);
    return true;
}

crt_status_t crti_ip_check(const char *text, char canonical[CRTI_ADDRESS])
{
    struct sockaddr_storage at;

    if (!parse_ip(text, &at))
        return crt_raise(CRT_ERR_INVALID,
                         "\"%.80s\" is no IP address, for example 10.0.0.1", text);
    if (is_of_no_host(&at))
        return crt_raise(CRT_ERR_INVALID,
                         "%s is no address by which others reach this host: give one of "
                         "its own (ip address shows them)",
                         text);
    format_host(&at, canonical, CRTI_ADDRESS);
    return CRT_OK;
}

void crti_ip_canonical(const char *text, char *canonical, size_t size)
{
    struct sockaddr_storage at;
    char host[INET6_ADDRSTRLEN] = "";

    if (parse_ip(text, &at))
        format_host(&at, host, sizeof(host));
    snprintf(canonical, size, "%s", *host ? host : text);
}
