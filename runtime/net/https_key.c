/* SPDX-License-Identifier: Apache-2.0 */
/* A P-256 key from the cluster key. See https_key.h. */
#include "runtime/net/https_key.h"

#include <string.h>

#include <sodium.h>

#include "runtime/base/cleanup.h"
#include "runtime/net/openssl_library.h"

CRTI_DEFINE_AUTO(BN_CTX *, BN_CTX_free)
CRTI_DEFINE_AUTO(BIGNUM *, BN_clear_free)
CRTI_DEFINE_AUTO(EC_GROUP *, EC_GROUP_free)
CRTI_DEFINE_AUTO(EC_POINT *, EC_POINT_free)

/* The bytes before the point in a SubjectPublicKeyInfo of P-256. */
static const unsigned char public_prefix[] = {
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01,
    0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00};
/* Those before the scalar, and between it and the point, in an ECPrivateKey. */
static const unsigned char private_prefix[] = {0x30, 0x77, 0x02, 0x01, 0x01, 0x04, 0x20};
static const unsigned char private_middle[] = {0xa0, 0x0a, 0x06, 0x08, 0x2a, 0x86,
                                               0x48, 0xce, 0x3d, 0x03, 0x01, 0x07,
                                               0xa1, 0x44, 0x03, 0x42, 0x00};

_Static_assert(sizeof(private_prefix) + 32 + sizeof(private_middle) + 65 ==
                   CRTI_HTTPS_KEY_BYTES,
               "an ECPrivateKey");

/* secret = seed mod (order - 1) + 1 */
static bool choose_secret(const unsigned char seed[CRTI_KEY_HTTPS_SEED],
                          const EC_GROUP *group, BN_CTX *context, BIGNUM *secret)
{
    CRTI_AUTO(BN_clear_free) BIGNUM *wide = BN_bin2bn(seed, CRTI_KEY_HTTPS_SEED, NULL);
    CRTI_AUTO(BN_clear_free) BIGNUM *most = BN_dup(EC_GROUP_get0_order(group));

    return wide && most && BN_sub_word(most, 1) &&
           BN_nnmod(secret, wide, most, context) && BN_add_word(secret, 1);
}

static bool derive(const unsigned char seed[CRTI_KEY_HTTPS_SEED], crti_https_key_t *key)
{
    CRTI_AUTO(BN_CTX_free) BN_CTX *context = BN_CTX_new();
    CRTI_AUTO(EC_GROUP_free)
    EC_GROUP *group = EC_GROUP_new_by_curve_name(NID_X9_62_prime256v1);
    CRTI_AUTO(EC_POINT_free) EC_POINT *point = group ? EC_POINT_new(group) : NULL;
    CRTI_AUTO(BN_clear_free) BIGNUM *secret = BN_new();

    return context && point && secret && choose_secret(seed, group, context, secret) &&
           EC_POINT_mul(group, point, secret, NULL, NULL, context) &&
           BN_bn2binpad(secret, key->secret, sizeof(key->secret)) ==
               (int)sizeof(key->secret) &&
           EC_POINT_point2oct(group, point, POINT_CONVERSION_UNCOMPRESSED,
                              key->public_key, sizeof(key->public_key),
                              context) == sizeof(key->public_key);
}

crt_status_t crti_https_key_derive(const crti_key_t *key, crti_https_key_t *key_out)
{
    unsigned char seed[CRTI_KEY_HTTPS_SEED];
    crt_status_t status = crti_openssl_library();

    if (status != CRT_OK)
        return status;
    crti_key_https(key, seed);
    if (!derive(seed, key_out))
        status = crt_raise(CRT_ERR_NO_MEMORY, "the key of the dashboard's certificate");
    crti_key_wipe(seed, sizeof(seed));
    return status;
}

void crti_https_pin(const void *public_key, size_t size, char pin[CRTI_PIN_TEXT])
{
    unsigned char hash[crypto_hash_sha256_BYTES];

    crypto_hash_sha256(hash, public_key, size);
    sodium_bin2base64(stpcpy(pin, "sha256//"), CRTI_PIN_TEXT - 8, hash, sizeof(hash),
                      sodium_base64_VARIANT_ORIGINAL);
}

void crti_https_key_pin(const crti_https_key_t *key, char pin[CRTI_PIN_TEXT])
{
    unsigned char public_key[sizeof(public_prefix) + sizeof(key->public_key)];

    memcpy(public_key, public_prefix, sizeof(public_prefix));
    memcpy(public_key + sizeof(public_prefix), key->public_key, sizeof(key->public_key));
    crti_https_pin(public_key, sizeof(public_key), pin);
}

void crti_https_key_encode(const crti_https_key_t *key,
                           unsigned char der[CRTI_HTTPS_KEY_BYTES])
{
    memcpy(der, private_prefix, sizeof(private_prefix));
    der += sizeof(private_prefix);
    memcpy(der, key->secret, sizeof(key->secret));
    der += sizeof(key->secret);
    memcpy(der, private_middle, sizeof(private_middle));
    memcpy(der + sizeof(private_middle), key->public_key, sizeof(key->public_key));
}
