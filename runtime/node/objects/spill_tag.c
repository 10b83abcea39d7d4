/* SPDX-License-Identifier: Apache-2.0 */
/* Tags of spilled bytes. See spill_tag.h. */
#include "runtime/node/objects/spill_tag.h"

#include <pthread.h>
#include <stdbool.h>

#include <sodium.h>

#include "runtime/base/log.h"
#include "runtime/net/openssl_library.h"

#define LARGE_BYTES 1024 /* from here on OpenSSL is faster */

_Static_assert(CRTI_SPILL_TAG_BYTES == crypto_onetimeauth_poly1305_BYTES &&
                   CRTI_SPILL_TAG_KEY_BYTES == crypto_onetimeauth_poly1305_KEYBYTES,
               "the tag is Poly1305");

static EVP_MAC *poly1305; /* for ever; NULL: OpenSSL is missing, or made without it */

static void find_poly1305(void)
{
    if (crti_openssl_library() == CRT_OK)
        poly1305 = EVP_MAC_fetch(NULL, "POLY1305", NULL);
    if (!poly1305)
        crti_log(CRTI_LOG_INFO, "spill", "OpenSSL has no Poly1305: spilling is slower");
}

static bool tag_by_openssl(const unsigned char *key, const void *bytes, size_t size,
                           unsigned char *tag)
{
    EVP_MAC_CTX *context = EVP_MAC_CTX_new(poly1305);
    size_t done;
    bool ok = context && EVP_MAC_init(context, key, CRTI_SPILL_TAG_KEY_BYTES, NULL) &&
              EVP_MAC_update(context, bytes, size) &&
              EVP_MAC_final(context, tag, &done, CRTI_SPILL_TAG_BYTES);

    EVP_MAC_CTX_free(context);
    return ok;
}

void crti_spill_tag(const unsigned char *key, const void *bytes, size_t size,
                    unsigned char *tag)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    if (size >= LARGE_BYTES) {
        pthread_once(&once, find_poly1305);
        if (poly1305 && tag_by_openssl(key, bytes, size, tag))
            return;
    }
    crypto_onetimeauth_poly1305(tag, bytes, size, key);
}
