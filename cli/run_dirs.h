/* SPDX-License-Identifier: Apache-2.0 */
/* Run directories: those of this user's heads and nodes, living or left behind, and the
 * processes that belong to them (docs/design/processes.md).
 *
 * Where it sits
 *     RUN/head-PORT, RUN/node-HEX8, /proc -> [ cli/run_dirs.c, cli/members.c ] -> cli/stop.c
 * Private clusters are not looked at: they end with their driver, or with crt run.
 */
#ifndef CRTI_CLI_RUN_DIRS_H
#define CRTI_CLI_RUN_DIRS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cli/cli.h"

#define RUN_DIRS_MAX 128

typedef struct run_dir {
    char dir[108];
    bool is_head;
    bool is_living;     /* its daemon holds the lock */
    char address[72];   /* of the head; "" when it left no info file */
    char node[33];      /* its id; "" of a head */
    char name[64];      /* of a node; "" when it left no info file */
    char state[256];    /* the state directory that it was started with; "" unknown */
    char key_file[256]; /* of a head */
    pid_t pid;          /* of the daemon, 0 unknown */
    uint64_t start;     /* of that process, 0 unknown */
    pid_t children[2];  /* of a head: crt-http, redis-server */
} run_dir_t;

/* Fills up to RUN_DIRS_MAX directories of `address` (NULL: all) and returns how many there are. */
size_t crti_run_dirs_find(const char *address, run_dir_t dirs[RUN_DIRS_MAX]);

/* Keeps those that a search may mean, and returns how many: where CRT_STATE_DIR is set, the
 * clusters that have a head or a node of that directory, and what is left of daemons whose
 * directory is not known. */
size_t crti_run_dirs_keep_own(run_dir_t *dirs, size_t count);

/* Waits until no process holds the lock of that directory, or the time is over. Uses SIGALRM. */
void crti_run_dir_await_end(const char *dir, int64_t timeout_ms);

/* Removes the directory and everything in it. False: something stays, errno says why. */
bool crti_run_dir_remove(const char *dir);

/* Removes the run directory itself when it is empty and of our own making. */
void crti_run_dirs_remove_root(void);

typedef struct member {
    pid_t pid;
    uint64_t start;
    bool is_daemon; /* crt-head or crt-node itself */
    bool of_head;   /* belongs to a head, not to a node */
} member_t;

/* The living processes of the directories: the daemons, and processes with one of the directories
 * in their environment. Never this process. Returns how many there are; fills up to `room`. */
size_t crti_members_find(const run_dir_t *dirs, size_t count, member_t *members,
                         size_t room);

/* The value of a variable in the environment of a process of ours; false: it has none. */
bool crti_member_variable(pid_t pid, const char *name, char *value, size_t size);

/* Opens a pidfd if that process still lives; -1: it is gone or, with errno EMFILE or ENFILE, no
 * more files can be opened. */
int crti_member_open(const member_t *member);

#endif
