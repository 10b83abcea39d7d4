/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens and pins of a cluster whose key is at hand, for crt's own command.
 *
 * Where it sits
 *     cli/ -> [ core/client/cluster_keys.c ] -> net/token.h, net/https_key.h
 * Threads: any; no state.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/net/https_key.h"
#include "runtime/net/key.h"
#include "runtime/net/token.h"

#include "crt_tools.h"

crt_status_t crti_cluster_token(const char *key_file, char *token)
{
    uint32_t generation;
    crt_status_t status = crti_cluster_token_generation(key_file, &generation);

    return status == CRT_OK ? crti_cluster_token_until(key_file, generation, 0, token)
                            : status;
}

static crt_status_t make_token(const char *key_file, const crti_token_t *made,
                               void (*derive)(const crti_key_t *key,
                                              unsigned char subkey[CRTI_KEY_SIZE]),
                               char *token)
{
    unsigned char subkey[CRTI_KEY_SIZE];
    crti_key_t key;
    crt_status_t status = crti_key_load(key_file, &key);

    if (status != CRT_OK)
        return status;
    derive(&key, subkey);
    crti_token_make(subkey, made, token);
    crti_key_wipe(subkey, sizeof(subkey));
    crti_key_wipe(&key, sizeof(key));
    return status;
}

crt_status_t crti_cluster_token_until(const char *key_file, uint32_t generation,
                                      uint32_t end, char *token)
{
    const crti_token_t made = {.generation = generation, .end = end};

    return make_token(key_file, &made, crti_key_token, token);
}

crt_status_t crti_cluster_reader_token(const char *key_file, uint32_t generation,
                                       uint32_t end, char *token)
{
    const crti_token_t made = {.generation = generation, .end = end};

    return make_token(key_file, &made, crti_key_reader_token, token);
}

crt_status_t crti_cluster_token_generation(const char *key_file, uint32_t *generation_out)
{
    crt_status_t status = crti_token_generation(key_file, generation_out);

    return status == CRT_ERR_NOT_FOUND ? CRT_OK : status; /* a copy of the key has none */
}

/* The head's file with its token lies beside the key. */
static crt_status_t save_token(const char *key_file)
{
    char path[PATH_MAX], token[CRTI_TOKEN_TEXT], *slash;
    crt_status_t status;

    snprintf(path, sizeof(path), "%s", key_file);
    slash = strrchr(path, '/');
    if (!slash || (size_t)(slash - path) + sizeof("/token") > sizeof(path))
        return CRT_OK;
    strcpy(slash, "/token");
    if (access(path, F_OK) != 0)
        return CRT_OK;
    status = crti_cluster_token(key_file, token);
    if (status == CRT_OK)
        status = crti_token_save(path, token);
    crti_key_wipe(token, sizeof(token));
    return status;
}

crt_status_t crti_cluster_rotate_tokens(const char *key_file)
{
    uint32_t generation;
    crti_key_t key;
    crt_status_t status = crti_key_load(key_file, &key);

    if (status != CRT_OK)
        return status;
    crti_key_wipe(&key, sizeof(key));
    status = crti_token_rotate(key_file, &generation);
    return status == CRT_OK ? save_token(key_file) : status;
}

crt_status_t crti_cluster_pin(const char *key_file, char *pin)
{
    crti_https_key_t https;
    crti_key_t key;
    crt_status_t status = crti_key_load(key_file, &key);

    if (status != CRT_OK)
        return status;
    status = crti_https_key_derive(&key, &https);
    if (status == CRT_OK)
        crti_https_key_pin(&https, pin);
    crti_key_wipe(&https, sizeof(https));
    crti_key_wipe(&key, sizeof(key));
    return status;
}
