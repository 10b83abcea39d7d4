/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates of crt-http. See certificate.h. */
#include "runtime/http/certificate.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "runtime/base/cleanup.h"
#include "runtime/net/https_key.h"

#define DAY            (24L * 60 * 60)
#define VALID_DAYS     3650
#define RENEW_DAYS     365 /* before its end */
#define SERIAL_BYTES   16
#define HOST_NAME_MOST 256

CRTI_DEFINE_AUTO(EVP_PKEY *, EVP_PKEY_free)
CRTI_DEFINE_AUTO(X509 *, X509_free)
CRTI_DEFINE_AUTO(X509_EXTENSION *, X509_EXTENSION_free)
CRTI_DEFINE_AUTO(SSL_CTX *, SSL_CTX_free)
CRTI_DEFINE_AUTO(BIGNUM *, BN_free)

/* The last error of OpenSSL; its queue is empty then. */
static const char *reason(char *text, size_t size)
{
    unsigned long code = ERR_peek_last_error();
    const char *why = code ? ERR_reason_error_string(code) : NULL;

    snprintf(text, size, "%s", why ? why : "out of memory");
    ERR_clear_error();
    return text;
}

static crt_status_t failed(const char *what)
{
    char why[160];

    return crt_raise(CRT_ERR_IO, "dashboard: %s: %s", what, reason(why, sizeof(why)));
}

static bool is_address(const char *host)
{
    unsigned char bytes[16];

    return inet_pton(AF_INET, host, bytes) == 1 || inet_pton(AF_INET6, host, bytes) == 1;
}

/* ---------------------------------------------------------------- its parts */

static crt_status_t load_key(const crti_key_t *key, EVP_PKEY **pair_out)
{
    unsigned char der[CRTI_HTTPS_KEY_BYTES];
    const unsigned char *at = der;
    crti_https_key_t https;
    crt_status_t status = crti_https_key_derive(key, &https);

    if (status != CRT_OK)
        return status;
    crti_https_key_encode(&https, der);
    *pair_out = d2i_AutoPrivateKey(NULL, &at, sizeof(der));
    crti_key_wipe(&https, sizeof(https));
    crti_key_wipe(der, sizeof(der));
    return *pair_out ? CRT_OK : failed("the certificate's key");
}

static bool extend(X509 *x, int name, const char *value)
{
    X509V3_CTX context;
    CRTI_AUTO(X509_EXTENSION_free) X509_EXTENSION *extension = NULL;

    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, x, x, NULL, NULL, 0);
    extension = X509V3_EXT_conf_nid(NULL, &context, name, value);
    return extension && X509_add_ext(x, extension, -1);
}

static bool name_it(X509 *x, const char *host)
{
    char own[HOST_NAME_MOST] = "", names[2 * HOST_NAME_MOST + 64];
    X509_NAME *subject = X509_get_subject_name(x);

    if (gethostname(own, sizeof(own) - 1) != 0 || !own[0])
        strcpy(own, "localhost");
    snprintf(names, sizeof(names), "%s:%s,DNS:%s", is_address(host) ? "IP" : "DNS", host,
             own);
    return X509_NAME_add_entry_by_txt(subject, "O", MBSTRING_UTF8,
                                      (const unsigned char *)"crt", -1, -1, 0) &&
           X509_set_issuer_name(x, subject) &&
           extend(x, NID_basic_constraints, "critical,CA:FALSE") &&
           extend(x, NID_key_usage, "critical,digitalSignature") &&
           extend(x, NID_ext_key_usage, "serverAuth") &&
           extend(x, NID_subject_alt_name, names);
}

static bool number_it(X509 *x)
{
    CRTI_AUTO(BN_free) BIGNUM *number = BN_new();

    return number &&
           BN_rand(number, SERIAL_BYTES * 8 - 1, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) &&
           BN_to_ASN1_INTEGER(number, X509_get_serialNumber(x));
}

static crt_status_t sign(EVP_PKEY *pair, const char *host, X509 **x_out)
{
    CRTI_AUTO(X509_free) X509 *x = X509_new();

    if (!x || !X509_set_version(x, X509_VERSION_3) || !number_it(x) ||
        !X509_gmtime_adj(X509_getm_notBefore(x), -DAY) ||
        !X509_gmtime_adj(X509_getm_notAfter(x), VALID_DAYS * DAY) || !name_it(x, host) ||
        !X509_set_pubkey(x, pair) || !X509_sign(x, pair, EVP_sha256()))
        return failed("the certificate");
    *x_out = CRTI_TAKE(x);
    return CRT_OK;
}

/* ---------------------------------------------------------------- files */

/* True when the file has a certificate of that key and host that is good for long. */
static bool is_good(const char *path, EVP_PKEY *pair, const char *host)
{
    CRTI_AUTO(fclose) FILE *file = fopen(path, "re");
    CRTI_AUTO(X509_free) X509 *x = file ? PEM_read_X509(file, NULL, NULL, NULL) : NULL;
    time_t soon = time(NULL) + RENEW_DAYS * DAY;
    bool good = x && X509_check_private_key(x, pair) == 1 &&
                X509_cmp_time(X509_get0_notAfter(x), &soon) > 0 &&
                (is_address(host) ? X509_check_ip_asc(x, host, 0)
                                  : X509_check_host(x, host, 0, 0, NULL)) == 1;

    ERR_clear_error();
    return good;
}

/* As a whole or not at all: another file is renamed. */
static crt_status_t write_file(const char *path, X509 *x, EVP_PKEY *pair)
{
    char temporary[PATH_MAX + 8];
    CRTI_AUTO(fclose) FILE *file = NULL;
    int fd;

    snprintf(temporary, sizeof(temporary), "%s.new", path);
    fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || !(file = fdopen(fd, "w"))) {
        if (fd >= 0)
            close(fd);
        return crt_raise(CRT_ERR_IO, "dashboard: %s: %s", temporary, strerror(errno));
    }
    if (x ? !PEM_write_X509(file, x)
          : !PEM_write_PrivateKey(file, pair, NULL, NULL, 0, NULL, NULL))
        return failed(temporary);
    if (fflush(file) != 0 || fsync(fd) != 0 || rename(temporary, path) != 0)
        return crt_raise(CRT_ERR_IO, "dashboard: %s: %s", path, strerror(errno));
    return CRT_OK;
}

crt_status_t crti_certificate_make(const crti_key_t *key, const char *directory,
                                   const char *host, crti_certificate_t *certificate_out)
{
    crti_certificate_t *c = certificate_out;
    CRTI_AUTO(EVP_PKEY_free) EVP_PKEY *pair = NULL;
    CRTI_AUTO(X509_free) X509 *x = NULL;
    crt_status_t status = load_key(key, &pair);

    if (status != CRT_OK)
        return status;
    if (snprintf(c->chain, sizeof(c->chain), "%s/https.crt", directory) >=
            (int)sizeof(c->chain) ||
        snprintf(c->key, sizeof(c->key), "%s/https.key", directory) >=
            (int)sizeof(c->key))
        return crt_raise(CRT_ERR_TOO_LARGE, "the path %s is too long", directory);
    status = write_file(c->key, NULL, pair);
    if (status != CRT_OK || is_good(c->chain, pair, host))
        return status;
    status = sign(pair, host, &x);
    return status == CRT_OK ? write_file(c->chain, x, NULL) : status;
}

/* ---------------------------------------------------------------- the user's own */

static int no_password(char *text, int size, int is_writing, void *user)
{
    return -1; /* there is no terminal to ask at */
}

/* As ssh looks at its keys: what others can read is no secret. */
static crt_status_t check_mode(const char *path)
{
    struct stat st;

    if (stat(path, &st) != 0)
        return crt_raise(CRT_ERR_IO, "--dashboard-key %s: %s", path, strerror(errno));
    if ((st.st_mode & 07) || (st.st_uid == geteuid() && (st.st_mode & 077)))
        return crt_raise(
            CRT_ERR_PERMISSION,
            "--dashboard-key %s can be read by others (mode %04o): chmod 600 "
            "it",
            path, st.st_mode & 07777);
    return CRT_OK;
}

crt_status_t crti_certificate_check(const crti_certificate_t *c)
{
    CRTI_AUTO(SSL_CTX_free) SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    char why[160];

    if (!context)
        return failed("TLS");
    SSL_CTX_set_default_passwd_cb(context, no_password);
    if (SSL_CTX_use_certificate_chain_file(context, c->chain) != 1)
        return crt_raise(CRT_ERR_INVALID, "--dashboard-cert %s: %s", c->chain,
                         reason(why, sizeof(why)));
    if (check_mode(c->key) != CRT_OK)
        return CRT_ERR_PERMISSION;
    if (SSL_CTX_use_PrivateKey_file(context, c->key, SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(context) != 1)
        return crt_raise(CRT_ERR_INVALID,
                         "--dashboard-key %s: %s; it must be the certificate's, in PEM "
                         "and without a password",
                         c->key, reason(why, sizeof(why)));
    return CRT_OK;
}
