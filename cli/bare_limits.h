/* SPDX-License-Identifier: Apache-2.0 */
/* Bare limits: the same work without a runtime, measured in the same run as each row of
 * `crt microbenchmark`, so that a figure counts as a ratio.
 *
 * The echo partner is this executable started again as `crt microbenchmark --bare-echo
 * ENDPOINT`: a ROUTER that sends every message back until its standard input ends.
 */
#ifndef CRT_CLI_BARE_LIMITS_H
#define CRT_CLI_BARE_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct bare_echo {
    void *context;
    void *socket; /* DEALER */
    int lifeline; /* write end of the partner's standard input */
    pid_t partner;
    char directory[64];
} bare_echo_t;

/* Starts the partner and connects. False after printing why not. */
bool bare_echo_start(bare_echo_t *echo);

/* Ends the partner, waits for it, removes the socket's directory. */
void bare_echo_stop(bare_echo_t *echo);

/* One message of 8 bytes there and back. */
void bare_echo_sync(bare_echo_t *echo);

/* `count` messages of 8 bytes, all sent before the answers are read. */
void bare_echo_pipelined(bare_echo_t *echo, int count);

/* The partner's main. */
int bare_echo_serve(const char *endpoint);

/* Copies `size` bytes of zeros into shared pages that are mapped and warm. */
void bare_copy(size_t size);

/* Binds all threads of process `pid` to one core, or frees them when core < 0. */
void pin_process(pid_t pid, int core);

#endif
