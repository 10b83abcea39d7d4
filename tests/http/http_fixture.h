/* SPDX-License-Identifier: Apache-2.0 */
/* A crt-http with a head of its own (fake_head) in a private directory, and raw requests to it. */
#ifndef TESTS_HTTP_FIXTURE_H
#define TESTS_HTTP_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct http_fixture {
    char directory[64], run[80], state[80], head_dir[128], token[65];
    pid_t head;
    unsigned port;
} http_fixture_t;

/* `mode` is FAKE_HEAD. Fails the test when it does not start. */
void http_fixture_start(http_fixture_t *f, const char *mode);
/* Ends both, checks that crt-http exited, and removes the directory. */
void http_fixture_stop(http_fixture_t *f);

/* A connection to crt-http. */
int http_connect(const http_fixture_t *f);
void http_send(int fd, const void *bytes, size_t size);

typedef struct http_answer {
    int code; /* 0: the connection closed without an answer */
    char head[4096];
    char *body; /* ended by a zero */
    size_t size;
    bool closed;   /* the server closed the connection after it */
    bool is_whole; /* it came in chunks, and the last one is here */
} http_answer_t;

/* Reads one answer. Fails the test when nothing comes for 20 s. */
void http_read(int fd, http_answer_t *answer);
void http_answer_fini(http_answer_t *answer);

/* One request on a connection of its own. `headers` are lines ended by CRLF, or ""; the Host, and
 * with `with_token` the Authorization, are added. `body` may be NULL. */
void http_request(const http_fixture_t *f, const char *method, const char *path,
                  const char *headers, bool with_token, const void *body, size_t size,
                  http_answer_t *answer);

/* The code alone. */
int http_code(const http_fixture_t *f, const char *method, const char *path,
              const char *headers, bool with_token);

#endif
