/* SPDX-License-Identifier: Apache-2.0 */
/* What crt's own command needs of libcrt, and programs do not: tokens, the pin of the dashboard's certificate, where daemons
 * are. Not installed: the symbols have the version CRT_PRIVATE, and change as they like.
 *
 * Where it sits
 *     cli/ -> [ crt_tools.h ] -> core/client/cluster_keys.c, core/process/daemon_path.c
 * Threads: any.
 */
#ifndef CRT_TOOLS_H
#define CRT_TOOLS_H

#include "crt_base.h"

/* The bearer token of the cluster whose key `key_file` holds; `token` has room for 65 bytes. It is good
 * until tokens are rotated: of the generation in KEY_FILE.generation, 0 where there is none. */
CRT_API crt_status_t crti_cluster_token(const char *key_file, char *token);

/* A token of that generation that is good until `end`, in seconds since 1970; 0: no end. */
CRT_API crt_status_t crti_cluster_token_until(const char *key_file, uint32_t generation,
                                              uint32_t end, char *token);

/* The same for those who may only read: its requests change nothing. */
CRT_API crt_status_t crti_cluster_reader_token(const char *key_file, uint32_t generation,
                                               uint32_t end, char *token);

/* The number in KEY_FILE.generation, 0 where there is none. CRT_ERR_CORRUPT: something else. */
CRT_API crt_status_t crti_cluster_token_generation(const char *key_file,
                                                   uint32_t *generation_out);

/* Every token and sign-in of that cluster from before is refused from now on. `key_file` is the
 * head's own, not a copy. */
CRT_API crt_status_t crti_cluster_rotate_tokens(const char *key_file);

/* What the dashboard's certificate must show over HTTPS, unless it has one of the user's own: the hash
 * "sha256//BASE64" of its public key, as curl --pinnedpubkey takes it. `pin` has room for 53 bytes. */
CRT_API crt_status_t crti_cluster_pin(const char *key_file, char *pin);

/* Where this installation or build tree has a daemon ("crt-head", "crt-node", "crt-http"): in
 * CRT_LIBEXEC if that is set, else beside libcrt or the program, else where it was installed. */
CRT_API crt_status_t crti_daemon_path(const char *name, char *path, size_t size);

#endif
