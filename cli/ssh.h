/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of crt on other hosts, by the system's ssh with its own configuration: a request goes to
 * standard input of `crt host` there, its output comes back (docs/cluster-file.md).
 *
 * Where it sits
 *     cli/up.c -> [ cli/ssh.c ] -> ssh HOST crt host (cli/host.c)
 * Ownership
 *     A call has its process, its pipes and its texts until crti_ssh_release, which wipes the
 *     request: it may hold the key of a cluster.
 * Failure
 *     Standard input stays open until the process has ended. Where this process or its connection
 *     ends, crt over there reads the end and undoes what it has begun.
 */
#ifndef CRTI_CLI_SSH_H
#define CRTI_CLI_SSH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <crt.h>
#include <jansson.h>

#include "cli/hand_over.h"

#define SSH_FAILED    255 /* its exit status for failures of its own */
#define SSH_TAIL      4096
#define SSH_OUTPUT    (1 << 16)
#define SSH_ANSWER    "crt-host " /* before the answer: a shell may print a greeting */
#define SSH_NOT_FOUND 127

#define SSH_FILL  65536 /* bytes that are sent at a time behind a request */
#define SSH_WORDS 256   /* bytes of a line of hand_over.h */

typedef enum ssh_state { SSH_WAITS, SSH_RUNS, SSH_ENDED } ssh_state_t;

/* Who speaks, where crt may have to be handed over: the other end, this one with the archive, this
 * one with the request. */
typedef enum ssh_turn { SSH_LISTENS, SSH_HANDS_OVER, SSH_ASKS } ssh_turn_t;

typedef struct ssh_call {
    const json_t *host; /* of the cluster file, borrowed */
    char *request;      /* one line */
    size_t request_size, sent;
    ssh_state_t state;
    ssh_turn_t turn;
    size_t handed;         /* bytes of the archive */
    char words[SSH_WORDS]; /* the line that comes, then why crt is not handed over */
    size_t words_size;
    bool is_refused; /* `words` says why */
    bool has_more;   /* `fill` of the run has bytes that go behind the request */
    char *
        wanted; /* files of a folder that go there (folder_sync.h), and how far they are */
    const char *next_wanted;
    size_t at_file, last_file, of_file;
    bool is_within;
    pid_t pid;
    int pidfd, input, output, errors;
    int64_t deadline, kill_at; /* kill_at 0: was not told to end */
    char *answer;              /* what came by standard output */
    size_t answer_size;
    char tail[SSH_TAIL + 1]; /* the last that came by standard error */
    size_t tail_size;
    int status; /* exit status, 128 and the signal's number */
    bool timed_out, interrupted;
} ssh_call_t;

typedef struct ssh_run {
    const json_t *file;           /* the cluster file */
    const crt_archive_t *archive; /* crt, where a host lacks it; NULL: it has it */
    hand_over_mode_t mode;
    const char *const *more; /* arguments of ssh, before those of the file; NULL: none */
    int input_fd; /* can be read: the first call has more. -1, and 0 without `fill`: none */
    int signal_fd; /* can be read: all calls are to end */
    bool interrupted;
    int64_t timeout_ms; /* of each call; 0: none */
    /* Output as it comes, in place of keeping it. NULL: it is kept. */
    void (*on_output)(ssh_call_t *call, bool is_error, const char *bytes, size_t size);
    void (*on_end)(ssh_call_t *call);    /* NULL: nothing */
    void (*on_answer)(ssh_call_t *call); /* more of it has come. NULL: nothing */
    /* Gives what is sent next, where a call has more; 0: nothing at present. NULL: there is
     * none. */
    size_t (*fill)(ssh_call_t *call, char *bytes, size_t room);
    void (*on_hand_over)(const ssh_call_t *call); /* the archive begins to be sent */
} ssh_run_t;

/* `request` is encoded and no longer needed. */
crt_status_t crti_ssh_prepare(ssh_call_t *call, const json_t *host,
                              const json_t *request);
void crti_ssh_release(ssh_call_t *call);

/* Runs all of them, as many at a time as the file says, and returns when they have ended. */
void crti_ssh_run(ssh_run_t *run, ssh_call_t *calls, size_t count);

/* Becomes ssh, with a terminal on that host. Returns only when that fails. */
crt_status_t crti_ssh_become(const json_t *file, const char *host);

/* The answer of `crt host`, NULL without one; released by json_decref. */
json_t *crti_ssh_answer(const ssh_call_t *call);

/* Why a call has no answer, in a sentence. */
void crti_ssh_reason(const ssh_run_t *run, const ssh_call_t *call, char *text,
                     size_t size);

/* The last line of standard error, "" without one. */
void crti_ssh_last_line(const ssh_call_t *call, char *text, size_t size);

#endif
