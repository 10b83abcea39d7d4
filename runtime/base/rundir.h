/* SPDX-License-Identifier: Apache-2.0 */
/* Run and state directories of this user, and the info files in them
 * (docs/design/processes.md).
 *
 * Where it sits
 *     crt-head, crt-node write DIR/head.info, DIR/node.info -> [ base/rundir.c ] -> libcrt
 * An info file is text, one "key value" per line, written in one go by rename, so that a reader
 * sees all of it or none. A directory lives as long as its file `lock` is flock'ed by its daemon.
 * Threads: any; no state.
 * Failure: a path that is too long for a socket below it, a directory of another user, or one
 * that others can enter, is refused with a sentence that names the cure.
 */
#ifndef CRTI_BASE_RUNDIR_H
#define CRTI_BASE_RUNDIR_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/crt_base.h"

/* ${CRT_RUN_DIR:-${XDG_RUNTIME_DIR:-/tmp}/crt-UID}; only the name, nothing is made.
 * CRT_ERR_PERMISSION: it is there, and is another user's, a link, or writable by others: its files
 * are not trusted. */
crt_status_t crti_run_dir(char *path, size_t size);

/* ${CRT_STATE_DIR:-${XDG_STATE_HOME:-$HOME/.local/state}/crt}; only the name. CRT_ERR_PERMISSION:
 * it is there, and others may rename what is in it: everybody, a group that is not the user's own,
 * or the user, other than root, to whom it belongs. */
crt_status_t crti_state_dir(char *path, size_t size);

/* CRT_OK: a directory of this user's that nobody else can use. CRT_ERR_NOT_FOUND: there is none. */
crt_status_t crti_dir_check(const char *path);

/* Opens a file below the state directory for reading: what others may have put or changed there is
 * refused. CRT_ERR_PERMISSION: its folder is none that crti_dir_check takes; or it is a link, no
 * regular file, another user's, or others can write to it. CRT_ERR_NOT_FOUND: it is not there. */
crt_status_t crti_own_open(const char *path, int *fd_out);

/* True when both paths name one directory. */
bool crti_dir_is_same(const char *a, const char *b);

/* Makes `path` and its missing parents, mode 0700. CRT_ERR_PERMISSION: the directory is another
 * user's, a link, or open to others (any user may own the parents). */
crt_status_t crti_dir_make(const char *path);

/* The first directory of the path that is missing, "" when all are there: what crti_dir_make would
 * make. */
void crti_dir_first_missing(const char *path, char *first, size_t size);

/* For a start that failed: removes `path` and its parents as far as `first`, which was missing
 * before it, where they are empty. Nothing when `first` is "". */
void crti_dir_unmake(const char *path, const char *first);

/* Opens and flocks DIR/lock, and writes this process's number into it. CRT_ERR_EXISTS: a living
 * process holds it. The lock ends when the descriptor is closed. Where the number can't be written
 * (a full disk) neither the file stays, nor the directory if it is empty. */
crt_status_t crti_dir_lock(const char *dir, int *fd_out);

/* True while a process holds DIR/lock. Of a lock that is another user's nothing is believed. */
bool crti_dir_is_locked(const char *dir);

/* Removes the directory and everything in it, as far as that can be done. */
void crti_dir_remove(const char *dir);

/* True when a process held DIR/lock once and none does now. */
bool crti_dir_is_left(const char *dir);

/* Makes RUN/private-XXXXXX for a private cluster, and RUN if it is missing; "" after an error.
 * CRT_ERR_TOO_LARGE: sockets would not fit below it. CRT_ERR_PERMISSION: others can use RUN. */
crt_status_t crti_dir_make_private(char *path, size_t size);

/* Removes the directory of a private cluster, unless a head or node below it still holds its lock:
 * then that one does it, when it ends. Whoever ends removes its own directory first. */
void crti_dir_remove_private(const char *dir);

/* Removes the directories RUN/private-* of clusters all of whose processes were killed at once.
 * They are a minute old at least: a younger one may be about to take its locks. */
void crti_dir_sweep_private(const char *run);

typedef struct crti_info_entry {
    const char *key; /* no blanks */
    const char *value;
} crti_info_entry_t;

/* Writes `count` entries to `path` (mode 0600) by a temporary file and rename. A value must not
 * hold a newline: CRT_ERR_INVALID. */
crt_status_t crti_info_write(const char *path, const crti_info_entry_t *entries,
                             size_t count);

/* Reads the file as one text. CRT_ERR_NOT_FOUND; CRT_ERR_CORRUPT: larger than 16 KiB.
 * Caller frees it with free(). */
crt_status_t crti_info_read(const char *path, char **text_out);

/* Copies the value of `key` to `value` and returns it; "" when it is not there or does not
 * fit. */
const char *crti_info_get(const char *text, const char *key, char *value, size_t size);
int64_t crti_info_int(const char *text, const char *key);

/* Field `number` of /proc/PID/stat and what follows; NULL: no such process, or an unknown form. The
 * name, field 2, is in parentheses and may hold any of them. */
const char *crti_process_stat(pid_t pid, int number, char *text, size_t size);

/* Start of a living process in clock ticks since boot (/proc/PID/stat): pid and start name one
 * process for ever. CRT_ERR_NOT_FOUND when there is none. */
crt_status_t crti_process_start(pid_t pid, uint64_t *start_out);

/* True when the process is gone, or on its way: what it closes now the kernel closes. */
bool crti_process_is_ending(pid_t pid);

/* How an ended process of this user that is no child of this one ended, as of waitpid. False: the
 * kernel doesn't tell any more (before Linux 6.15 only until its parent has waited for it). */
bool crti_process_wait_status(pid_t pid, int pidfd, int *wait_status_out);

/* Closes descriptors that a daemon inherits by accident: all but the standard streams and
 * these two (-1: none), which what it executes does not inherit. Another process may wait for the
 * end of a pipe, or for a lock. */
void crti_close_inherited(int keep, int keep_too);

/* Closes all but the standard streams and `keep`. May be called between fork and exec. */
void crti_close_others(const int *keep, size_t count);

/* When the thread that started this process ends, this process is continued, should it be stopped:
 * then it can see that its parent is gone. One that runs notices nothing, so that it does no harm
 * when it is only that thread which ended. `wanted` is false when this process begins to end: a
 * debugger or a leak check that stops it then would wait without end for a stop that was taken
 * back. */
void crti_wake_with_parent(bool wanted);

#endif
