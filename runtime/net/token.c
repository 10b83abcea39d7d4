/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens, sessions and their generation. See token.h. */
#include "runtime/net/token.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sodium.h>

#include "runtime/base/cleanup.h"

#define HEAD_BYTES 8
#define MAC_BYTES  (CRTI_KEY_SIZE - HEAD_BYTES)

_Static_assert(2 * CRTI_KEY_SIZE + 1 == CRTI_TOKEN_TEXT, "hex digits and a zero");
_Static_assert(MAC_BYTES >= crypto_generichash_BYTES_MIN, "a MAC of libsodium");

/* ---------------------------------------------------------------- format */

static void put_u32(unsigned char *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (unsigned char)(value >> (24 - 8 * i));
}

static uint32_t get_u32(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void seal(const unsigned char subkey[CRTI_KEY_SIZE], const crti_token_t *token,
                 unsigned char bytes[CRTI_KEY_SIZE])
{
    put_u32(bytes, token->generation);
    put_u32(bytes + 4, token->end);
    crypto_generichash(bytes + HEAD_BYTES, MAC_BYTES, bytes, HEAD_BYTES, subkey,
                       CRTI_KEY_SIZE);
}

void crti_token_make(const unsigned char subkey[CRTI_KEY_SIZE], const crti_token_t *token,
                     char text[CRTI_TOKEN_TEXT])
{
    unsigned char bytes[CRTI_KEY_SIZE];

    seal(subkey, token, bytes);
    sodium_bin2hex(text, CRTI_TOKEN_TEXT, bytes, sizeof(bytes));
}

bool crti_token_read(const unsigned char subkey[CRTI_KEY_SIZE], const char *text,
                     crti_token_t *token_out)
{
    unsigned char bytes[CRTI_KEY_SIZE], right[CRTI_KEY_SIZE];
    size_t length = strlen(text), decoded = 0;

    if (length != CRTI_TOKEN_TEXT - 1 ||
        sodium_hex2bin(bytes, sizeof(bytes), text, length, NULL, &decoded, NULL) != 0 ||
        decoded != sizeof(bytes))
        return false;
    token_out->generation = get_u32(bytes);
    token_out->end = get_u32(bytes + 4);
    seal(subkey, token_out, right);
    return sodium_memcmp(bytes, right, sizeof(bytes)) == 0;
}

/* ---------------------------------------------------------------- files */

static crt_status_t name_file(const char *key_file, char path[PATH_MAX])
{
    if (snprintf(path, PATH_MAX, "%s.generation", key_file) >= PATH_MAX)
        return crt_raise(CRT_ERR_TOO_LARGE, "the path %s is too long", key_file);
    return CRT_OK;
}

crt_status_t crti_token_generation(const char *key_file, uint32_t *generation_out)
{
    char path[PATH_MAX], text[16];
    CRTI_AUTO(crti_close) int fd = -1;
    unsigned long long number = 0;
    ssize_t n;
    crt_status_t status = name_file(key_file, path);

    if (status != CRT_OK)
        return status;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    *generation_out = 0;
    if (fd < 0 && errno == ENOENT)
        return crt_raise(CRT_ERR_NOT_FOUND,
                         "%s is lost; crt token --rotate, on the head's host, makes it "
                         "again",
                         path);
    n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (n < 0)
        return crt_raise(CRT_ERR_IO, "%s: %s", path, strerror(errno));
    text[n] = '\0';
    if (n < 2 || text[n - 1] != '\n' || strspn(text, "0123456789") != (size_t)n - 1 ||
        (number = strtoull(text, NULL, 10)) > UINT32_MAX)
        return crt_raise(
            CRT_ERR_CORRUPT,
            "%s holds no number: write one into it that is larger than it was", path);
    *generation_out = (uint32_t)number;
    return CRT_OK;
}

static crt_status_t sync_directory(const char *path)
{
    char directory[PATH_MAX], *slash;
    CRTI_AUTO(crti_close) int fd = -1;

    snprintf(directory, sizeof(directory), "%s", path);
    slash = strrchr(directory, '/');
    if (slash)
        slash[1] = '\0';
    fd = open(slash ? directory : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) != 0)
        return crt_raise(CRT_ERR_IO, "%s: %s", directory, strerror(errno));
    return CRT_OK;
}

/* By another file that is renamed: who reads it sees the former or the new text. */
static crt_status_t replace(const char *path, const char *text)
{
    char temporary[PATH_MAX + 24];
    CRTI_AUTO(crti_close) int fd = -1;
    size_t length = strlen(text);

    snprintf(temporary, sizeof(temporary), "%s.%d", path, (int)getpid());
    unlink(temporary);
    fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return crt_raise(CRT_ERR_IO, "%s: %s", temporary, strerror(errno));
    if (write(fd, text, length) != (ssize_t)length || fsync(fd) != 0 ||
        rename(temporary, path) != 0) {
        crt_status_t status = crt_raise(CRT_ERR_IO, "%s: %s", path, strerror(errno));

        unlink(temporary);
        return status;
    }
    return sync_directory(path);
}

static crt_status_t write_generation(const char *key_file, uint32_t generation)
{
    char path[PATH_MAX], text[16];
    crt_status_t status = name_file(key_file, path);

    snprintf(text, sizeof(text), "%u\n", generation);
    return status == CRT_OK ? replace(path, text) : status;
}

crt_status_t crti_token_rotate(const char *key_file, uint32_t *generation_out)
{
    uint32_t generation = 0, now = (uint32_t)time(NULL);
    crt_status_t status = crti_token_generation(key_file, &generation);

    if (status != CRT_OK && status != CRT_ERR_NOT_FOUND)
        return status;
    if (generation == UINT32_MAX)
        return crt_raise(CRT_ERR_TOO_LARGE, "tokens of this key have been rotated too "
                                            "often: make another key");
    *generation_out = generation < now ? now : generation + 1;
    return write_generation(key_file, *generation_out);
}

crt_status_t crti_token_save(const char *path, const char *text)
{
    char line[CRTI_TOKEN_TEXT + 1];
    crt_status_t status;

    snprintf(line, sizeof(line), "%s\n", text);
    status = replace(path, line);
    crti_key_wipe(line, sizeof(line));
    return status;
}

crt_status_t crti_token_begin(const crti_key_t *key, const char *key_file,
                              const char *token_file)
{
    unsigned char subkey[CRTI_KEY_SIZE];
    char text[CRTI_TOKEN_TEXT];
    crti_token_t token = {0};
    crt_status_t status = crti_token_generation(key_file, &token.generation);

    if (status == CRT_ERR_NOT_FOUND)
        status = access(token_file, F_OK) == 0
                     ? crti_token_rotate(key_file, &token.generation)
                     : write_generation(key_file, 0);
    if (status != CRT_OK)
        return status;
    crti_key_token(key, subkey);
    crti_token_make(subkey, &token, text);
    status = crti_token_save(token_file, text);
    crti_key_wipe(subkey, sizeof(subkey));
    crti_key_wipe(text, sizeof(text));
    return status;
}
