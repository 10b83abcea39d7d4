/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of libcrt for the command crt, not for programs: tokens, the pin of the dashboard's
 * certificate, the places of the daemons. Not installed: the symbols have the version
 * CRT_PRIVATE, and may change at any time.
 *
 * Place:
 *     cli/ -> [ crt_tools.h ] -> core/client/cluster_keys.c, core/process/daemon_path.c
 *
 * Threads: any. */
#ifndef CRT_TOOLS_H
#define CRT_TOOLS_H

#include "crt_base.h"

/* Writes the bearer token of the cluster whose key is in the file `key_file`. `token` has room
 * for 65 bytes. The token is valid until tokens are rotated. The token has the generation in
 * KEY_FILE.generation, or 0 without that file. */
CRT_API crt_status_t crti_cluster_token(const char *key_file, char *token);

/* Writes a token of the given generation that is valid until `end`, in seconds since 1970; 0: no
 * end. `token` has room for 65 bytes. */
CRT_API crt_status_t crti_cluster_token_until(const char *key_file, uint32_t generation,
                                              uint32_t end, char *token);

/* Writes a token that may only read: requests with this token change nothing. The token is valid
 * until `end`, in seconds since 1970; 0: no end. `token` has room for 65 bytes. */
CRT_API crt_status_t crti_cluster_reader_token(const char *key_file, uint32_t generation,
                                               uint32_t end, char *token);

/* Reads the number in KEY_FILE.generation, or 0 without that file.
 *
 * Errors: CRT_ERR_CORRUPT, when the file holds no number. */
CRT_API crt_status_t crti_cluster_token_generation(const char *key_file,
                                                   uint32_t *generation_out);

/* Ends the validity of all tokens and sign-ins that the cluster has given out so far. `key_file`
 * is the file of the head, not a copy. */
CRT_API crt_status_t crti_cluster_rotate_tokens(const char *key_file);

/* Writes the pin of the dashboard's certificate for HTTPS: the hash "sha256//BASE64" of its
 * public key, as curl --pinnedpubkey takes it. A dashboard with a certificate of the user has
 * another pin. `pin` has room for 53 bytes. */
CRT_API crt_status_t crti_cluster_pin(const char *key_file, char *pin);

/* Writes the path of a daemon ("crt-head", "crt-node", "crt-http") of this installation or build
 * tree: in CRT_LIBEXEC if that variable is set; otherwise beside libcrt or the program; otherwise
 * in the directory of the installation. */
CRT_API crt_status_t crti_daemon_path(const char *name, char *path, size_t size);

#endif
