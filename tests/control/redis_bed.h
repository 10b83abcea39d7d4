/* SPDX-License-Identifier: Apache-2.0 */
/* An external redis-server, for tests: it runs at a free port of this host, with TLS where a
 * certificate is given. */
#ifndef TESTS_CONTROL_REDIS_BED_H
#define TESTS_CONTROL_REDIS_BED_H

#include <stdbool.h>
#include <sys/types.h>

#define REDIS_BED_PASSWORD "not-to-be-seen-anywhere"

typedef struct redis_bed {
    char folder[32], address[32], password_file[64];
    char tls_address[32], certificate[64], key[64]; /* "": none */
    int port, tls_port;
    pid_t pid; /* 0: does not run */
} redis_bed_t;

/* Makes its folder, with the password in a file. */
void redis_bed_begin(redis_bed_t *server);
/* Kills it, and removes the folder. */
void redis_bed_end(redis_bed_t *server);

/* `durable`: appendonly, "yes" or "no". */
void redis_bed_start(redis_bed_t *server, const char *durable);
/* At the same port as before. */
void redis_bed_restart(redis_bed_t *server);
void redis_bed_kill(redis_bed_t *server);

/* One command, its words in one text, on the plain port; the answer must be no error. An integer is
 * returned. */
long long redis_bed_command(const redis_bed_t *server, const char *text);
long long redis_bed_keys(const redis_bed_t *server);

int redis_bed_free_port(void);
/* A file that its owner alone may read. */
void redis_bed_write(const char *path, const char *text);
/* A certificate that signs itself, made out to `name` ("IP:127.0.0.1", "DNS:a.b"), and its key. */
void redis_bed_certificate(const char *certificate, const char *key, const char *name);

#endif
