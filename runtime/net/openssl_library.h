/* SPDX-License-Identifier: Apache-2.0 */
/* OpenSSL library: the functions of libssl and libcrypto that are called here, found when the first
 * stream, or key of a certificate, is made, or the first large object is spilled.
 *
 * Where it sits
 *     tls, seal, https key, spill tag -> [ openssl library ] -> libssl (dlopen)
 * Why
 *     Most workers never make a stream. The two libraries have eleven mappings and a hundred pages
 *     of relocated pointers, which a fork of the zygote would copy for each worker, and take apart
 *     at its end (docs/design/node.md).
 * How
 *     Who includes this file writes OpenSSL's own names. They lead through a table, also where its
 *     macros use them; the linker finds those that the table lacks.
 * Invariants
 *     Never closed: it registers what it does at exit.
 */
#ifndef CRTI_NET_OPENSSL_LIBRARY_H
#define CRTI_NET_OPENSSL_LIBRARY_H

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>

#include "runtime/base/late_library.h"

#define CRTI_OPENSSL_SYMBOLS(X)                                                          \
    X(BIO_clear_flags)                                                                   \
    X(BIO_get_data)                                                                      \
    X(BIO_meth_free)                                                                     \
    X(BIO_meth_new)                                                                      \
    X(BIO_meth_set_ctrl)                                                                 \
    X(BIO_meth_set_read)                                                                 \
    X(BIO_meth_set_write)                                                                \
    X(BIO_new)                                                                           \
    X(BIO_set_data)                                                                      \
    X(BIO_set_flags)                                                                     \
    X(BIO_set_init)                                                                      \
    X(BIO_test_flags)                                                                    \
    X(BN_CTX_free)                                                                       \
    X(BN_CTX_new)                                                                        \
    X(BN_add_word)                                                                       \
    X(BN_bin2bn)                                                                         \
    X(BN_bn2binpad)                                                                      \
    X(BN_clear_free)                                                                     \
    X(BN_dup)                                                                            \
    X(BN_new)                                                                            \
    X(BN_nnmod)                                                                          \
    X(BN_sub_word)                                                                       \
    X(EC_GROUP_free)                                                                     \
    X(EC_GROUP_get0_order)                                                               \
    X(EC_GROUP_new_by_curve_name)                                                        \
    X(EC_POINT_free)                                                                     \
    X(EC_POINT_mul)                                                                      \
    X(EC_POINT_new)                                                                      \
    X(EC_POINT_point2oct)                                                                \
    X(ERR_clear_error)                                                                   \
    X(ERR_error_string_n)                                                                \
    X(ERR_get_error)                                                                     \
    X(ERR_peek_error)                                                                    \
    X(EVP_CIPHER_CTX_ctrl)                                                               \
    X(EVP_CIPHER_CTX_free)                                                               \
    X(EVP_CIPHER_CTX_new)                                                                \
    X(EVP_CipherInit_ex)                                                                 \
    X(EVP_CipherUpdate)                                                                  \
    X(EVP_DecryptFinal_ex)                                                               \
    X(EVP_DecryptUpdate)                                                                 \
    X(EVP_EncryptFinal_ex)                                                               \
    X(EVP_EncryptUpdate)                                                                 \
    X(EVP_MAC_CTX_free)                                                                  \
    X(EVP_MAC_CTX_new)                                                                   \
    X(EVP_MAC_fetch)                                                                     \
    X(EVP_MAC_final)                                                                     \
    X(EVP_MAC_init)                                                                      \
    X(EVP_MAC_update)                                                                    \
    X(EVP_aes_256_gcm)                                                                   \
    X(SSL_CIPHER_find)                                                                   \
    X(SSL_CTX_ctrl)                                                                      \
    X(SSL_CTX_free)                                                                      \
    X(SSL_CTX_new)                                                                       \
    X(SSL_CTX_set_cert_verify_callback)                                                  \
    X(SSL_CTX_set_ciphersuites)                                                          \
    X(SSL_CTX_set_num_tickets)                                                           \
    X(SSL_CTX_set_options)                                                               \
    X(SSL_CTX_set_psk_find_session_callback)                                             \
    X(SSL_CTX_set_psk_use_session_callback)                                              \
    X(SSL_SESSION_free)                                                                  \
    X(SSL_SESSION_new)                                                                   \
    X(SSL_SESSION_set1_master_key)                                                       \
    X(SSL_SESSION_set_cipher)                                                            \
    X(SSL_SESSION_set_protocol_version)                                                  \
    X(SSL_do_handshake)                                                                  \
    X(SSL_export_keying_material)                                                        \
    X(SSL_free)                                                                          \
    X(SSL_get_error)                                                                     \
    X(SSL_get_ex_data)                                                                   \
    X(SSL_new)                                                                           \
    X(SSL_read_ex)                                                                       \
    X(SSL_session_reused)                                                                \
    X(SSL_set_accept_state)                                                              \
    X(SSL_set_bio)                                                                       \
    X(SSL_set_connect_state)                                                             \
    X(SSL_set_ex_data)                                                                   \
    X(SSL_set_verify)                                                                    \
    X(SSL_write_ex)                                                                      \
    X(TLS_method)

CRTI_LATE_TABLE(crti_openssl, CRTI_OPENSSL_SYMBOLS);

#define BIO_clear_flags            crti_openssl_api.BIO_clear_flags_
#define BIO_get_data               crti_openssl_api.BIO_get_data_
#define BIO_meth_free              crti_openssl_api.BIO_meth_free_
#define BIO_meth_new               crti_openssl_api.BIO_meth_new_
#define BIO_meth_set_ctrl          crti_openssl_api.BIO_meth_set_ctrl_
#define BIO_meth_set_read          crti_openssl_api.BIO_meth_set_read_
#define BIO_meth_set_write         crti_openssl_api.BIO_meth_set_write_
#define BIO_new                    crti_openssl_api.BIO_new_
#define BIO_set_data               crti_openssl_api.BIO_set_data_
#define BIO_set_flags              crti_openssl_api.BIO_set_flags_
#define BIO_set_init               crti_openssl_api.BIO_set_init_
#define BIO_test_flags             crti_openssl_api.BIO_test_flags_
#define BN_CTX_free                crti_openssl_api.BN_CTX_free_
#define BN_CTX_new                 crti_openssl_api.BN_CTX_new_
#define BN_add_word                crti_openssl_api.BN_add_word_
#define BN_bin2bn                  crti_openssl_api.BN_bin2bn_
#define BN_bn2binpad               crti_openssl_api.BN_bn2binpad_
#define BN_clear_free              crti_openssl_api.BN_clear_free_
#define BN_dup                     crti_openssl_api.BN_dup_
#define BN_new                     crti_openssl_api.BN_new_
#define BN_nnmod                   crti_openssl_api.BN_nnmod_
#define BN_sub_word                crti_openssl_api.BN_sub_word_
#define EC_GROUP_free              crti_openssl_api.EC_GROUP_free_
#define EC_GROUP_get0_order        crti_openssl_api.EC_GROUP_get0_order_
#define EC_GROUP_new_by_curve_name crti_openssl_api.EC_GROUP_new_by_curve_name_
#define EC_POINT_free              crti_openssl_api.EC_POINT_free_
#define EC_POINT_mul               crti_openssl_api.EC_POINT_mul_
#define EC_POINT_new               crti_openssl_api.EC_POINT_new_
#define EC_POINT_point2oct         crti_openssl_api.EC_POINT_point2oct_
#define ERR_clear_error            crti_openssl_api.ERR_clear_error_
#define ERR_error_string_n         crti_openssl_api.ERR_error_string_n_
#define ERR_get_error              crti_openssl_api.ERR_get_error_
#define ERR_peek_error             crti_openssl_api.ERR_peek_error_
#define EVP_CIPHER_CTX_ctrl        crti_openssl_api.EVP_CIPHER_CTX_ctrl_
#define EVP_CIPHER_CTX_free        crti_openssl_api.EVP_CIPHER_CTX_free_
#define EVP_CIPHER_CTX_new         crti_openssl_api.EVP_CIPHER_CTX_new_
#define EVP_CipherInit_ex          crti_openssl_api.EVP_CipherInit_ex_
#define EVP_CipherUpdate           crti_openssl_api.EVP_CipherUpdate_
#define EVP_DecryptFinal_ex        crti_openssl_api.EVP_DecryptFinal_ex_
#define EVP_DecryptUpdate          crti_openssl_api.EVP_DecryptUpdate_
#define EVP_EncryptFinal_ex        crti_openssl_api.EVP_EncryptFinal_ex_
#define EVP_EncryptUpdate          crti_openssl_api.EVP_EncryptUpdate_
#define EVP_MAC_CTX_free           crti_openssl_api.EVP_MAC_CTX_free_
#define EVP_MAC_CTX_new            crti_openssl_api.EVP_MAC_CTX_new_
#define EVP_MAC_fetch              crti_openssl_api.EVP_MAC_fetch_
#define EVP_MAC_final              crti_openssl_api.EVP_MAC_final_
#define EVP_MAC_init               crti_openssl_api.EVP_MAC_init_
#define EVP_MAC_update             crti_openssl_api.EVP_MAC_update_
#define EVP_aes_256_gcm            crti_openssl_api.EVP_aes_256_gcm_
#define SSL_CIPHER_find            crti_openssl_api.SSL_CIPHER_find_
#define SSL_CTX_ctrl               crti_openssl_api.SSL_CTX_ctrl_
#define SSL_CTX_free               crti_openssl_api.SSL_CTX_free_
#define SSL_CTX_new                crti_openssl_api.SSL_CTX_new_
#define SSL_CTX_set_cert_verify_callback                                                 \
    crti_openssl_api.SSL_CTX_set_cert_verify_callback_
#define SSL_CTX_set_ciphersuites crti_openssl_api.SSL_CTX_set_ciphersuites_
#define SSL_CTX_set_num_tickets  crti_openssl_api.SSL_CTX_set_num_tickets_
#define SSL_CTX_set_options      crti_openssl_api.SSL_CTX_set_options_
#define SSL_CTX_set_psk_find_session_callback                                            \
    crti_openssl_api.SSL_CTX_set_psk_find_session_callback_
#define SSL_CTX_set_psk_use_session_callback                                             \
    crti_openssl_api.SSL_CTX_set_psk_use_session_callback_
#define SSL_SESSION_free            crti_openssl_api.SSL_SESSION_free_
#define SSL_SESSION_new             crti_openssl_api.SSL_SESSION_new_
#define SSL_SESSION_set1_master_key crti_openssl_api.SSL_SESSION_set1_master_key_
#define SSL_SESSION_set_cipher      crti_openssl_api.SSL_SESSION_set_cipher_
#define SSL_SESSION_set_protocol_version                                                 \
    crti_openssl_api.SSL_SESSION_set_protocol_version_
#define SSL_do_handshake           crti_openssl_api.SSL_do_handshake_
#define SSL_export_keying_material crti_openssl_api.SSL_export_keying_material_
#define SSL_free                   crti_openssl_api.SSL_free_
#define SSL_get_error              crti_openssl_api.SSL_get_error_
#define SSL_get_ex_data            crti_openssl_api.SSL_get_ex_data_
#define SSL_new                    crti_openssl_api.SSL_new_
#define SSL_read_ex                crti_openssl_api.SSL_read_ex_
#define SSL_session_reused         crti_openssl_api.SSL_session_reused_
#define SSL_set_accept_state       crti_openssl_api.SSL_set_accept_state_
#define SSL_set_bio                crti_openssl_api.SSL_set_bio_
#define SSL_set_connect_state      crti_openssl_api.SSL_set_connect_state_
#define SSL_set_ex_data            crti_openssl_api.SSL_set_ex_data_
#define SSL_set_verify             crti_openssl_api.SSL_set_verify_
#define SSL_write_ex               crti_openssl_api.SSL_write_ex_
#define TLS_method                 crti_openssl_api.TLS_method_

#endif
