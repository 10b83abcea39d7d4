/* SPDX-License-Identifier: Apache-2.0 */
/* Seals by OpenSSL's AES-256-GCM. See seal.h. */
#include "runtime/net/seal.h"

#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "runtime/net/openssl_library.h"

#define NONCE 12
#define BLOCK 16 /* bytes of AES */

_Static_assert(CRTI_SEAL_LEAST == 2 * BLOCK, "header and tag are a block each");

struct crti_seal {
    EVP_CIPHER_CTX *cipher;
    bool encrypts;
    unsigned char secret[CRTI_KEY_SIZE], nonce[NONCE];
    uint64_t keys;             /* so far */
    uint64_t bytes, key_bytes; /* with this one; with each */
    uint64_t record;           /* the number of the next one, of all keys */
};

_Static_assert(CRTI_KEY_SIZE == crypto_kdf_KEYBYTES, "a secret is a key of crypto_kdf");

static crt_status_t raise_openssl(const char *what)
{
    char text[256];

    ERR_error_string_n(ERR_get_error(), text, sizeof(text));
    ERR_clear_error();
    return crt_raise(CRT_ERR_UNSUPPORTED, "%s: %s", what, text);
}

static crt_status_t next_key(crti_seal_t *seal)
{
    unsigned char key[32], nonce[16];
    int ok;

    crypto_kdf_derive_from_key(key, sizeof(key), 2 * seal->keys + 1, "crtrecrd",
                               seal->secret);
    crypto_kdf_derive_from_key(nonce, sizeof(nonce), 2 * seal->keys + 2, "crtrecrd",
                               seal->secret);
    seal->keys++;
    seal->bytes = 0;
    memcpy(seal->nonce, nonce, NONCE);
    ok = EVP_CipherInit_ex(seal->cipher, EVP_aes_256_gcm(), NULL, key, NULL,
                           seal->encrypts);
    crti_key_wipe(key, sizeof(key));
    return ok ? CRT_OK : raise_openssl("AES-256-GCM");
}

crt_status_t crti_seal_new(const unsigned char secret[CRTI_KEY_SIZE], bool encrypts,
                           uint64_t key_bytes, crti_seal_t **seal_out)
{
    crt_status_t status = crti_openssl_library();
    crti_seal_t *seal;

    if (status != CRT_OK)
        return status;
    seal = calloc(1, sizeof(*seal));
    if (seal)
        seal->cipher = EVP_CIPHER_CTX_new();
    if (seal == NULL || seal->cipher == NULL) {
        free(seal);
        return crt_raise(CRT_ERR_NO_MEMORY, "encryption of a connection");
    }
    seal->encrypts = encrypts;
    seal->key_bytes = key_bytes;
    memcpy(seal->secret, secret, CRTI_KEY_SIZE);
    status = next_key(seal);
    if (status != CRT_OK) {
        crti_seal_free(seal);
        return status;
    }
    *seal_out = seal;
    return CRT_OK;
}

void crti_seal_free(crti_seal_t *seal)
{
    if (seal == NULL)
        return;
    EVP_CIPHER_CTX_free(seal->cipher);
    crti_key_wipe(seal->secret, sizeof(seal->secret));
    free(seal);
}

/* What a record of `size` bytes is for a key: whole blocks, those of header and tag too. */
static uint64_t counted(size_t size)
{
    return (size + BLOCK - 1) / BLOCK * BLOCK + CRTI_SEAL_LEAST;
}

/* Readies the cipher for the next record. */
static crt_status_t begin(crti_seal_t *seal, const unsigned char header[CRTI_SEAL_HEADER],
                          size_t size)
{
    unsigned char nonce[NONCE];
    int done;

    if (seal->bytes >= seal->key_bytes) {
        crt_status_t status = next_key(seal);

        if (status != CRT_OK)
            return status;
    }
    memcpy(nonce, seal->nonce, NONCE);
    for (int i = 0; i < 8; i++)
        nonce[NONCE - 1 - i] ^= (unsigned char)(seal->record >> 8 * i);
    seal->record++;
    seal->bytes += counted(size);
    if (!EVP_CipherInit_ex(seal->cipher, NULL, NULL, NULL, nonce, -1) ||
        !EVP_CipherUpdate(seal->cipher, NULL, &done, header, CRTI_SEAL_HEADER))
        return raise_openssl("AES-256-GCM");
    return CRT_OK;
}

crt_status_t crti_seal_encrypt(crti_seal_t *seal,
                               const unsigned char header[CRTI_SEAL_HEADER],
                               const unsigned char *text, size_t size, unsigned char *out)
{
    crt_status_t status = begin(seal, header, size);
    int done, rest;

    if (status != CRT_OK)
        return status;
    if (!EVP_EncryptUpdate(seal->cipher, out, &done, text, (int)size) ||
        !EVP_EncryptFinal_ex(seal->cipher, out + done, &rest) ||
        !EVP_CIPHER_CTX_ctrl(seal->cipher, EVP_CTRL_AEAD_GET_TAG, CRTI_SEAL_TAG,
                             out + size))
        return raise_openssl("AES-256-GCM");
    return CRT_OK;
}

crt_status_t crti_seal_decrypt(crti_seal_t *seal,
                               const unsigned char header[CRTI_SEAL_HEADER],
                               const unsigned char *sealed, size_t size,
                               unsigned char *out)
{
    unsigned char tag[CRTI_SEAL_TAG];
    crt_status_t status = begin(seal, header, size);
    int done, rest;

    if (status != CRT_OK)
        return status;
    memcpy(tag, sealed + size, sizeof(tag));
    if (!EVP_DecryptUpdate(seal->cipher, out, &done, sealed, (int)size) ||
        !EVP_CIPHER_CTX_ctrl(seal->cipher, EVP_CTRL_AEAD_SET_TAG, sizeof(tag), tag))
        return raise_openssl("AES-256-GCM");
    if (!EVP_DecryptFinal_ex(seal->cipher, out + done, &rest)) {
        ERR_clear_error();
        return crt_raise(CRT_ERR_PROTOCOL, "a record that was changed on its way");
    }
    return CRT_OK;
}

crt_status_t crti_seal_sign(crti_seal_t *seal,
                            const unsigned char header[CRTI_SEAL_HEADER],
                            const unsigned char *text, size_t size,
                            unsigned char tag[CRTI_SEAL_TAG])
{
    crt_status_t status = begin(seal, header, size);
    int done;

    if (status != CRT_OK)
        return status;
    if (!EVP_CipherUpdate(seal->cipher, NULL, &done, text, (int)size) ||
        !EVP_EncryptFinal_ex(seal->cipher, tag, &done) ||
        !EVP_CIPHER_CTX_ctrl(seal->cipher, EVP_CTRL_AEAD_GET_TAG, CRTI_SEAL_TAG, tag))
        return raise_openssl("AES-256-GMAC");
    return CRT_OK;
}

crt_status_t crti_seal_check(crti_seal_t *seal,
                             const unsigned char header[CRTI_SEAL_HEADER],
                             const unsigned char *text, size_t size,
                             const unsigned char tag[CRTI_SEAL_TAG])
{
    crt_status_t status = begin(seal, header, size);
    unsigned char expected[CRTI_SEAL_TAG];
    int done;

    if (status != CRT_OK)
        return status;
    memcpy(expected, tag, sizeof(expected));
    if (!EVP_CipherUpdate(seal->cipher, NULL, &done, text, (int)size) ||
        !EVP_CIPHER_CTX_ctrl(seal->cipher, EVP_CTRL_AEAD_SET_TAG, sizeof(expected),
                             expected))
        return raise_openssl("AES-256-GMAC");
    if (!EVP_DecryptFinal_ex(seal->cipher, expected, &done)) {
        ERR_clear_error();
        return crt_raise(CRT_ERR_PROTOCOL, "a record that was changed on its way");
    }
    return CRT_OK;
}
