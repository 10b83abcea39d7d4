/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses: what users and peers call a host and a port, and the one form in which they are kept
 * and compared.
 *
 * Where it sits
 *     words of users, options, environment -> [ base/address.c ] -> streams, info files, links,
 *     messages
 * Invariant
 *     What this module writes is canonical: numeric, an IPv6 address in brackets and in its
 *     shortest form, IPv4 as IPv4 however it was mapped, the port without zeros before it. Two such
 *     texts are the same address exactly when they are equal.
 * Threads: any; no state. What asks the resolver may block for as long as that takes: it is for the
 *     start of a process, and for commands.
 */
#ifndef CRTI_BASE_ADDRESS_H
#define CRTI_BASE_ADDRESS_H

#include <sys/socket.h>

#include "runtime/base/crt_base.h"

#define CRTI_ADDRESS 64 /* bytes of a canonical "host:port" with the final zero */

/* The canonical text of a socket's address. */
void crti_address_format(const struct sockaddr_storage *from, char text[CRTI_ADDRESS]);

/* "10.0.0.1:80" or "[::1]:80", numeric. CRT_ERR_INVALID: something else. */
crt_status_t crti_address_parse(const char *text, struct sockaddr_storage *to_out,
                                socklen_t *size_out);

/* "host:port" as a canonical address, to connect to: of several the first one that answers. Asks
 * the resolver. CRT_ERR_INVALID: no host:port, or an address that is nobody's (0.0.0.0);
 * CRT_ERR_UNREACHABLE: unknown host. */
crt_status_t crti_address_resolve(const char *text, char canonical[CRTI_ADDRESS]);

/* True when both mean one address and port, whatever they are called by: one of those of `a` is one
 * of those of `b`. Asks the resolver where a host is a name. */
bool crti_address_equal(const char *a, const char *b);

/* The address of a host by which others shall reach it, without a port and brackets, in canonical
 * form. CRT_ERR_INVALID: it is no numeric address, or none of one host (0.0.0.0, a group's). */
crt_status_t crti_ip_check(const char *text, char canonical[CRTI_ADDRESS]);

/* The canonical form of a numeric address without a port; other texts as they are. */
void crti_ip_canonical(const char *text, char *canonical, size_t size);

#endif
