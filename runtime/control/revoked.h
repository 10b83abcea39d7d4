/* SPDX-License-Identifier: Apache-2.0 */
/* A file that remembers ids when the disk is full: its blocks are taken at the start, and only
 * overwritten afterwards.
 *
 * Where it sits
 *     control/control_revoke.c -> head.c -> [ control/revoked.c ] -> STATE/head-PORT/revoked
 * The file is an array of ids, zero where there is none, written for this machine. What is written
 * outlives the process at once; it begins its way to the disk when it is written, and no caller
 * waits for that: a host that loses power within the moment may forget it. Threads: one at a time.
 * Failure: a file that can't be made, or is full, refuses what should be added.
 */
#ifndef CRTI_CONTROL_REVOKED_H
#define CRTI_CONTROL_REVOKED_H

#include "runtime/base/cleanup.h"
#include "runtime/base/crt_base.h"
#include "runtime/base/id.h"
#include "runtime/control/control.h"

#define CRTI_REVOKED_MAX 16384 /* ids: 256 KiB */

typedef struct crti_revoked crti_revoked_t;

/* Opens the file and reads what is in it, or makes it. Caller owns the result. */
crt_status_t crti_revoked_open(const char *path, crti_revoked_t **revoked_out);
void crti_revoked_free(crti_revoked_t *revoked);
CRTI_DEFINE_AUTO(crti_revoked_t *, crti_revoked_free)

/* Adds or removes an id. False: it is not as it should be. Nothing is done for one that is as it
 * should be; `revoked` may be NULL, then nothing can be added. */
bool crti_revoked_set(crti_revoked_t *revoked, crti_id_t id, bool is_revoked);

/* All ids: `*cursor` begins with 0; false at the end. */
bool crti_revoked_next(const crti_revoked_t *revoked, size_t *cursor, crti_id_t *id_out);

/* Opens it and tells the control of all: creations that the head before told to have failed.
 * Without the file such a thing can't be promised, and is not: then `*revoked_out` stays as it
 * is. */
void crti_revoked_load(const char *path, crti_control_t *control,
                       crti_revoked_t **revoked_out);

#endif
