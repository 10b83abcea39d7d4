/* SPDX-License-Identifier: Apache-2.0 */
/* TLS 1.3 with an external PSK. See tls.h. */
#include "runtime/net/tls.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "runtime/net/openssl_library.h"

#define IDENTITY    "crt"
#define CIPHER_NAME "TLS_AES_256_GCM_SHA384"
#define MODE_SIZE   5 /* "crt3" and 'E' or 'C' */

/* Of the secrets that are exported for what each side sends. */
#define CLIENT_LABEL "EXPORTER-crt-client-records"
#define SERVER_LABEL "EXPORTER-crt-server-records"

static const unsigned char cipher_id[2] = {0x13, 0x02};

struct crti_tls_context {
    atomic_uint references;
    bool encrypt;
    SSL_CTX *ssl;
    BIO_METHOD *socket_method;
    crti_records_pool_t *pool;
    unsigned char psk[CRTI_KEY_SIZE];
};

/*             TLS done          mode known
 *  HANDSHAKE ---------> MODE ------------> OPEN
 */
typedef enum tls_state { HANDSHAKE, MODE, OPEN } tls_state_t;

struct crti_tls {
    crti_tls_context_t *context;
    SSL *ssl;                /* NULL once OPEN: */
    crti_records_t *records; /* all that follows */
    int fd;
    bool is_server;
    bool wants_write;
    tls_state_t state;
    size_t mode_done;
    unsigned char mode[MODE_SIZE];
};

/* ---------------------------------------------------------------- socket BIO */

/* OpenSSL's own socket BIO writes without MSG_NOSIGNAL, and a library must not be killed by
 * (or change) SIGPIPE. */
static int socket_write(BIO *bio, const char *data, int size)
{
    crti_tls_t *tls = BIO_get_data(bio);
    ssize_t n = send(tls->fd, data, (size_t)size, MSG_NOSIGNAL);

    BIO_clear_retry_flags(bio);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_write(bio);
    return (int)n;
}

/* Never more than OpenSSL asks for, which is a record: what follows the handshake is not its. */
static int socket_read(BIO *bio, char *data, int size)
{
    crti_tls_t *tls = BIO_get_data(bio);
    ssize_t n = recv(tls->fd, data, (size_t)size, 0);

    BIO_clear_retry_flags(bio);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_read(bio);
    else if (n == 0)
        BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
    return (int)n;
}

static long socket_control(BIO *bio, int command, long number, void *pointer)
{
    if (command == BIO_CTRL_EOF)
        return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0;
    return command == BIO_CTRL_FLUSH || command == BIO_CTRL_DUP;
}

/* ---------------------------------------------------------------- context */

static SSL_SESSION *session_of(const crti_tls_context_t *context, SSL *ssl)
{
    const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, cipher_id);
    SSL_SESSION *session = SSL_SESSION_new();

    if (session && cipher &&
        SSL_SESSION_set1_master_key(session, context->psk, sizeof(context->psk)) &&
        SSL_SESSION_set_cipher(session, cipher) &&
        SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION))
        return session;
    SSL_SESSION_free(session);
    return NULL;
}

static int use_session(SSL *ssl, const EVP_MD *digest, const unsigned char **identity_out,
                       size_t *size_out, SSL_SESSION **session_out)
{
    const crti_tls_t *tls = SSL_get_app_data(ssl);
    SSL_SESSION *session = session_of(tls->context, ssl);

    if (session == NULL)
        return 0;
    *session_out = session;
    *identity_out = (const unsigned char *)IDENTITY;
    *size_out = strlen(IDENTITY);
    return 1;
}

static int find_session(SSL *ssl, const unsigned char *identity, size_t size,
                        SSL_SESSION **session_out)
{
    const crti_tls_t *tls = SSL_get_app_data(ssl);

    *session_out = NULL;
    if (size == strlen(IDENTITY) && memcmp(identity, IDENTITY, size) == 0)
        *session_out = session_of(tls->context, ssl);
    return 1;
}

/* Nobody here has a certificate: a peer that shows one does not have the key. */
static int refuse_certificate(X509_STORE_CTX *store, void *user)
{
    return 0;
}

static bool configure(SSL_CTX *ssl)
{
    SSL_CTX_set_psk_use_session_callback(ssl, use_session);
    SSL_CTX_set_psk_find_session_callback(ssl, find_session);
    SSL_CTX_set_cert_verify_callback(ssl, refuse_certificate, NULL);
    SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_mode(ssl,
                     SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_options(ssl, SSL_OP_NO_TICKET | SSL_OP_IGNORE_UNEXPECTED_EOF);
    return SSL_CTX_set_min_proto_version(ssl, TLS1_3_VERSION) &&
           SSL_CTX_set_ciphersuites(ssl, CIPHER_NAME) && SSL_CTX_set_num_tickets(ssl, 0);
}

static crt_status_t raise_openssl(crt_status_t status, const char *what)
{
    char text[256];

    ERR_error_string_n(ERR_get_error(), text, sizeof(text));
    ERR_clear_error();
    return crt_raise(status, "%s: %s", what, text);
}

crt_status_t crti_tls_context_new(const unsigned char psk[CRTI_KEY_SIZE], bool encrypt,
                                  crti_tls_context_t **context_out)
{
    crt_status_t status = crti_openssl_library();
    crti_tls_context_t *context;

    if (status != CRT_OK)
        return status;
    context = calloc(1, sizeof(*context));
    if (context == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "TLS context");
    atomic_init(&context->references, 1);
    context->encrypt = encrypt;
    memcpy(context->psk, psk, CRTI_KEY_SIZE);
    context->ssl = SSL_CTX_new(TLS_method());
    context->socket_method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "crt socket");
    if (context->ssl == NULL || context->socket_method == NULL ||
        !configure(context->ssl) ||
        !BIO_meth_set_write(context->socket_method, socket_write) ||
        !BIO_meth_set_read(context->socket_method, socket_read) ||
        !BIO_meth_set_ctrl(context->socket_method, socket_control)) {
        crti_tls_context_unref(context);
        return raise_openssl(CRT_ERR_UNSUPPORTED,
                             "OpenSSL has no TLS 1.3 with " CIPHER_NAME);
    }
    status = crti_records_pool_new(&context->pool);
    if (status != CRT_OK) {
        crti_tls_context_unref(context);
        return status;
    }
    *context_out = context;
    return CRT_OK;
}

crti_tls_context_t *crti_tls_context_ref(crti_tls_context_t *context)
{
    atomic_fetch_add_explicit(&context->references, 1, memory_order_relaxed);
    return context;
}

void crti_tls_context_unref(crti_tls_context_t *context)
{
    /* acq_rel: the last one sees what the others did with the context. */
    if (context == NULL ||
        atomic_fetch_sub_explicit(&context->references, 1, memory_order_acq_rel) != 1)
        return;
    SSL_CTX_free(context->ssl);
    BIO_meth_free(context->socket_method);
    crti_records_pool_free(context->pool);
    crti_key_wipe(context->psk, sizeof(context->psk));
    free(context);
}

/* ---------------------------------------------------------------- connection */

crt_status_t crti_tls_new(crti_tls_context_t *context, int fd, bool is_server,
                          crti_tls_t **tls_out)
{
    crti_tls_t *tls = calloc(1, sizeof(*tls));
    BIO *bio;

    if (tls == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "TLS connection");
    tls->context = crti_tls_context_ref(context);
    tls->fd = fd;
    tls->is_server = is_server;
    tls->ssl = SSL_new(context->ssl);
    bio = tls->ssl ? BIO_new(context->socket_method) : NULL;
    if (bio == NULL) {
        crti_tls_free(tls);
        return raise_openssl(CRT_ERR_NO_MEMORY, "TLS connection");
    }
    BIO_set_data(bio, tls);
    BIO_set_init(bio, 1);
    SSL_set_bio(tls->ssl, bio, bio);
    SSL_set_app_data(tls->ssl, tls);
    if (is_server) {
        SSL_set_accept_state(tls->ssl);
        memcpy(tls->mode, context->encrypt ? "crt3E" : "crt3C", MODE_SIZE);
    } else {
        SSL_set_connect_state(tls->ssl);
        SSL_set_verify(tls->ssl, SSL_VERIFY_PEER, NULL);
    }
    *tls_out = tls;
    return CRT_OK;
}

void crti_tls_free(crti_tls_t *tls)
{
    if (tls == NULL)
        return;
    SSL_free(tls->ssl);
    crti_records_free(tls->records);
    crti_tls_context_unref(tls->context);
    free(tls);
}

bool crti_tls_wants_write(const crti_tls_t *tls)
{
    return tls->wants_write;
}

/* What a failed handshake means: alerts of the peer and our own refusals. */
static crt_status_t handshake_failure(void)
{
    unsigned long error = ERR_peek_error();
    int reason = ERR_GET_REASON(error);

    switch (reason) {
    case SSL_R_BINDER_DOES_NOT_VERIFY:
    case SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER:
    case SSL_R_TLSV1_ALERT_DECRYPT_ERROR:
    case SSL_R_BAD_PSK:
        ERR_clear_error();
        return crt_raise(CRT_ERR_PERMISSION, "the cluster keys of the two sides differ");
    case SSL_R_CERTIFICATE_VERIFY_FAILED:
    case SSL_R_NO_SHARED_CIPHER:
    case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
        ERR_clear_error();
        return crt_raise(CRT_ERR_PROTOCOL, "the peer speaks TLS without a cluster key");
    default:
        return raise_openssl(CRT_ERR_PROTOCOL, "the peer does not speak TLS as crt does");
    }
}

/* Translates the result of an SSL call that did not succeed. */
static crt_status_t outcome(crti_tls_t *tls, int result)
{
    int error = errno;

    tls->wants_write = false;
    switch (SSL_get_error(tls->ssl, result)) {
    case SSL_ERROR_WANT_READ: return CRT_IN_PROGRESS;
    case SSL_ERROR_WANT_WRITE: tls->wants_write = true; return CRT_IN_PROGRESS;
    case SSL_ERROR_ZERO_RETURN: return crt_raise(CRT_ERR_CLOSED, "the peer closed");
    case SSL_ERROR_SYSCALL:
        ERR_clear_error();
        return error ? crt_raise(CRT_ERR_IO, "connection broke: %s", strerror(error))
                     : crt_raise(CRT_ERR_CLOSED, "the peer closed");
    default:
        if (tls->state == HANDSHAKE)
            return handshake_failure();
        return raise_openssl(CRT_ERR_PROTOCOL, "damaged TLS record");
    }
}

static crt_status_t export_secret(crti_tls_t *tls, const char *label,
                                  unsigned char secret[CRTI_KEY_SIZE])
{
    return SSL_export_keying_material(tls->ssl, secret, CRTI_KEY_SIZE, label,
                                      strlen(label), NULL, 0, 0)
               ? CRT_OK
               : raise_openssl(CRT_ERR_UNSUPPORTED, "keys of the connection");
}

static crt_status_t start_records(crti_tls_t *tls)
{
    unsigned char client[CRTI_KEY_SIZE], server[CRTI_KEY_SIZE];
    crt_status_t status = export_secret(tls, CLIENT_LABEL, client);

    if (status == CRT_OK)
        status = export_secret(tls, SERVER_LABEL, server);
    if (status == CRT_OK)
        status = crti_records_new(
            tls->context->pool, tls->fd, tls->is_server ? client : server,
            tls->is_server ? server : client, tls->mode[4] == 'C', &tls->records);
    crti_key_wipe(client, sizeof(client));
    crti_key_wipe(server, sizeof(server));
    return status;
}

/* Moves the mode bytes; CRT_OK when all five are there. */
static crt_status_t exchange_mode(crti_tls_t *tls)
{
    while (tls->mode_done < MODE_SIZE) {
        unsigned char *at = tls->mode + tls->mode_done;
        size_t left = MODE_SIZE - tls->mode_done, done = 0;
        int result = tls->is_server ? SSL_write_ex(tls->ssl, at, left, &done)
                                    : SSL_read_ex(tls->ssl, at, left, &done);

        if (result <= 0)
            return outcome(tls, result);
        tls->mode_done += done;
    }
    if (memcmp(tls->mode, "crt3", 4) != 0 || (tls->mode[4] != 'E' && tls->mode[4] != 'C'))
        return crt_raise(CRT_ERR_PROTOCOL,
                         "the peer speaks another version of crt's stream");
    return CRT_OK;
}

crt_status_t crti_tls_handshake(crti_tls_t *tls)
{
    crt_status_t status;
    int result;

    errno = 0;
    ERR_clear_error();
    if (tls->state == HANDSHAKE) {
        result = SSL_do_handshake(tls->ssl);
        if (result <= 0)
            return outcome(tls, result);
        if (!SSL_session_reused(tls->ssl))
            return crt_raise(CRT_ERR_PERMISSION, "the peer did not use the cluster key");
        tls->state = MODE;
    }
    if (tls->state == MODE) {
        status = exchange_mode(tls);
        if (status != CRT_OK)
            return status;
        status = start_records(tls);
        if (status != CRT_OK)
            return status;
        SSL_free(tls->ssl);
        tls->ssl = NULL;
        tls->state = OPEN;
    }
    return CRT_OK;
}

/* ---------------------------------------------------------------- bytes */

crt_status_t crti_tls_read(crti_tls_t *tls, void *data, size_t size, size_t *done_out)
{
    tls->wants_write = false;
    return crti_records_read(tls->records, data, size, done_out);
}

bool crti_tls_is_drained(const crti_tls_t *tls)
{
    return crti_records_is_drained(tls->records);
}

size_t crti_tls_pending(const crti_tls_t *tls)
{
    return tls->records ? crti_records_unsent(tls->records) : 0;
}

crt_status_t crti_tls_flush(crti_tls_t *tls)
{
    crt_status_t status = crti_records_flush(tls->records);

    tls->wants_write = status == CRT_IN_PROGRESS;
    return status;
}

crt_status_t crti_tls_writev(crti_tls_t *tls, const crti_piece_t *pieces, int count,
                             size_t *done_out)
{
    crt_status_t status;

    *done_out = 0;
    status = crti_records_write(tls->records, pieces, count, done_out);
    tls->wants_write = crti_records_unsent(tls->records) > 0;
    return status;
}

crt_status_t crti_tls_shutdown(crti_tls_t *tls)
{
    return crti_records_end(tls->records);
}
