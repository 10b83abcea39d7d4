/* SPDX-License-Identifier: Apache-2.0 */
/* The cluster key: file and derivations. See key.h. */
#include "runtime/net/key.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <sodium.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/plain_text.h"
#include "runtime/base/secret_file.h"

#define DIGITS (2 * CRTI_KEY_SIZE)

/* One subkey per context is enough; the number leaves room for key rotation. */
#define SUBKEY 1

_Static_assert(CRTI_KEY_SIZE == crypto_kdf_KEYBYTES, "crypto_kdf's key");
_Static_assert(crypto_kdf_CONTEXTBYTES == 8, "contexts below have 8 letters");

/* At most size - 1 bytes and a zero; fewer mean the end of the file. */
static crt_status_t read_text(int fd, const char *path, char *text, size_t size,
                              size_t *length_out)
{
    size_t length = 0;

    while (length < size - 1) {
        ssize_t n = read(fd, text + length, size - 1 - length);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return crt_raise(CRT_ERR_IO, "key file %s: %s", path, strerror(errno));
        if (n == 0)
            break;
        length += (size_t)n;
    }
    text[length] = '\0';
    *length_out = length;
    return CRT_OK;
}

crt_status_t crti_key_load(const char *path, crti_key_t *key_out)
{
    /* O_NONBLOCK: a fifo in the key's place must not hang us. */
    CRTI_AUTO(crti_close) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    char text[DIGITS + 6]; /* also a byte order mark, and the end of a line */
    size_t length = 0, decoded = 0;
    const char *end = NULL;
    crt_status_t status;
    crti_key_t key;

    if (fd < 0 && errno == ENOENT)
        return crt_raise(CRT_ERR_NOT_FOUND, "key file %s does not exist", path);
    if (fd < 0)
        return crt_raise(errno == EACCES ? CRT_ERR_PERMISSION : CRT_ERR_IO,
                         "key file %s: %s", path, strerror(errno));
    status = crti_check_secret_file(fd, "key file", path);
    if (status == CRT_OK)
        status = read_text(fd, path, text, sizeof(text), &length);
    if (status != CRT_OK)
        return status;
    length = crti_plain_text(text, length);
    while (length && strchr(" \n", text[length - 1]))
        length--;
    if (length != DIGITS ||
        sodium_hex2bin(key.bytes, CRTI_KEY_SIZE, text, length, NULL, &decoded, &end) ||
        decoded != CRTI_KEY_SIZE || end != text + length)
        status = crt_raise(CRT_ERR_CORRUPT, "key file %s does not hold %d hex digits",
                           path, DIGITS);
    else
        *key_out = key;
    sodium_memzero(text, sizeof(text));
    sodium_memzero(&key, sizeof(key));
    return status;
}

static crt_status_t write_file(const char *path, const char *text)
{
    CRTI_AUTO(crti_close)
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    size_t length = strlen(text), done = 0;

    if (fd < 0)
        return crt_raise(CRT_ERR_IO, "key file %s: %s", path, strerror(errno));
    while (done < length) {
        ssize_t n = write(fd, text + done, length - done);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return crt_raise(CRT_ERR_IO, "key file %s: %s", path, strerror(errno));
        done += (size_t)n;
    }
    if (fchmod(fd, 0600) != 0 || fsync(fd) != 0)
        return crt_raise(CRT_ERR_IO, "key file %s: %s", path, strerror(errno));
    return CRT_OK;
}

/* The name of a new file is on disk when its directory is. */
static crt_status_t sync_directory_of(const char *path)
{
    CRTI_AUTO(crti_close) int fd = -1;
    const char *slash = strrchr(path, '/');
    char directory[4096] = ".";

    if (slash)
        snprintf(directory, sizeof(directory), "%.*s",
                 slash == path ? 1 : (int)(slash - path), path);
    fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) != 0)
        return crt_raise(CRT_ERR_IO, "directory %s of the key file: %s", directory,
                         strerror(errno));
    return CRT_OK;
}

crt_status_t crti_key_keep(const char *path, const crti_key_t *key)
{
    char text[DIGITS + 2], temporary[4096];
    unsigned char salt[8];
    crt_status_t status;

    if (sodium_init() < 0)
        return crt_raise(CRT_ERR_IO, "libsodium has no source of random numbers");
    randombytes_buf(salt, sizeof(salt));
    sodium_bin2hex(text, sizeof(text), key->bytes, sizeof(key->bytes));
    memcpy(text + DIGITS, "\n", 2);
    if ((size_t)snprintf(temporary, sizeof(temporary), "%s.%02x%02x%02x%02x", path,
                         salt[0], salt[1], salt[2], salt[3]) >= sizeof(temporary))
        return crt_raise(CRT_ERR_INVALID, "key file: the path is too long");
    status = write_file(temporary, text);
    sodium_memzero(text, sizeof(text));
    /* link, not rename: a key that others use already is never replaced. */
    if (status == CRT_OK && link(temporary, path) != 0)
        status = crt_raise(errno == EEXIST ? CRT_ERR_EXISTS : CRT_ERR_IO,
                           "key file %s: %s", path, strerror(errno));
    unlink(temporary);
    return status == CRT_OK ? sync_directory_of(path) : status;
}

crt_status_t crti_key_create(const char *path, crti_key_t *key_out)
{
    crt_status_t status;
    crti_key_t key;

    if (sodium_init() < 0)
        return crt_raise(CRT_ERR_IO, "libsodium has no source of random numbers");
    randombytes_buf(key.bytes, sizeof(key.bytes));
    status = crti_key_keep(path, &key);
    if (status == CRT_OK)
        *key_out = key;
    sodium_memzero(&key, sizeof(key));
    return status;
}

static void derive(const crti_key_t *key, const char *context,
                   unsigned char out[CRTI_KEY_SIZE])
{
    /* Fails only for sizes that crypto_kdf does not make, and 32 is one that it makes. */
    crypto_kdf_derive_from_key(out, CRTI_KEY_SIZE, SUBKEY, context, key->bytes);
}

void crti_key_curve(const crti_key_t *key, crti_key_role_t role,
                    crti_key_pair_t *pair_out)
{
    derive(key, role == CRTI_KEY_SERVER ? "crtcurvS" : "crtcurvC", pair_out->secret_key);
    crypto_scalarmult_base(pair_out->public_key, pair_out->secret_key);
}

void crti_key_stream(const crti_key_t *key, unsigned char psk[CRTI_KEY_SIZE])
{
    derive(key, "crtstrea", psk);
}

void crti_key_lane(const crti_key_t *key, unsigned char lane[CRTI_KEY_SIZE])
{
    derive(key, "crtlanes", lane);
}

void crti_key_https(const crti_key_t *key, unsigned char seed[CRTI_KEY_HTTPS_SEED])
{
    crypto_kdf_derive_from_key(seed, CRTI_KEY_HTTPS_SEED, SUBKEY, "crthttps", key->bytes);
}

void crti_key_token(const crti_key_t *key, unsigned char subkey[CRTI_KEY_SIZE])
{
    derive(key, "crttoken", subkey);
}

void crti_key_reader_token(const crti_key_t *key, unsigned char subkey[CRTI_KEY_SIZE])
{
    derive(key, "crtrtokn", subkey);
}

static void derive_session(const crti_key_t *key, const char *context,
                           const char *instance, unsigned char subkey[CRTI_KEY_SIZE])
{
    unsigned char all[CRTI_KEY_SIZE];

    derive(key, context, all);
    crypto_generichash(subkey, CRTI_KEY_SIZE, (const unsigned char *)instance,
                       strlen(instance), all, sizeof(all));
    crti_key_wipe(all, sizeof(all));
}

void crti_key_session(const crti_key_t *key, const char *instance,
                      unsigned char subkey[CRTI_KEY_SIZE])
{
    derive_session(key, "crtsessi", instance, subkey);
}

void crti_key_reader_session(const crti_key_t *key, const char *instance,
                             unsigned char subkey[CRTI_KEY_SIZE])
{
    derive_session(key, "crtrsess", instance, subkey);
}

void crti_key_wipe(void *secret, size_t size)
{
    sodium_memzero(secret, size);
}
