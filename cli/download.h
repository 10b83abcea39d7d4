/* SPDX-License-Identifier: Apache-2.0 */
/* Files from elsewhere, which are known by their SHA-256.
 *
 * Where it sits
 *     cli/job_upload.c (folders by https), cli/data.c -> [ cli/download.c ] -> libcurl
 * Rules
 *     Bytes come into PATH.part, where a later try goes on, and get their name when all are there
 *     and have that SHA-256. What has another one is removed. Redirects lead from https to https
 *     only. How far it is is told on stderr.
 * Failure: one sentence. One that ends in the middle leaves PATH.part.
 */
#ifndef CRTI_CLI_DOWNLOAD_H
#define CRTI_CLI_DOWNLOAD_H

#include <stdint.h>
#include <stdio.h>

#include <crt.h>

#define SHA256_TEXT 65 /* bytes of one in hex, with the final zero */

typedef struct download {
    const char *from;   /* https://..., http://..., or the path of a file */
    const char *path;   /* where it goes */
    const char *sha256; /* lower-case hex */
    uint64_t most;      /* bytes that it may have */
} download_t;

/* CRT_ERR_NOT_FOUND; CRT_ERR_CORRUPT: it has another SHA-256; CRT_ERR_TOO_LARGE;
 * CRT_ERR_BACKPRESSURE: another process brings the same; CRT_ERR_IO. */
crt_status_t crti_download(const download_t *download);

/* Of the whole file, which is read from its beginning. False: it can't be read. */
bool crti_file_sha256(FILE *file, char sha[SHA256_TEXT], uint64_t *size_out);

/* True when the file is there and has that SHA-256. */
bool crti_file_has_sha256(const char *path, const char *sha);

/* 64 lower-case hex digits. */
bool crti_is_sha256(const char *text);

#endif
