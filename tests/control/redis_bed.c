/* SPDX-License-Identifier: Apache-2.0 */
/* A redis-server for tests. See redis_bed.h. */
#include "tests/control/redis_bed.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <hiredis/hiredis.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

/* ---------------------------------------------------------------- files */

void redis_bed_write(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");

    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    assert_int_equal(chmod(path, 0600), 0);
}

static void add_extension(X509 *x, int kind, const char *value)
{
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, kind, value);

    assert_non_null(extension);
    assert_int_equal(X509_add_ext(x, extension, -1), 1);
    X509_EXTENSION_free(extension);
}

void redis_bed_certificate(const char *certificate, const char *key, const char *name)
{
    EVP_PKEY *pair = EVP_EC_gen("P-256");
    X509 *x = X509_new();
    X509_NAME *subject = X509_get_subject_name(x);
    FILE *file;

    X509_set_version(x, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
    X509_gmtime_adj(X509_getm_notBefore(x), -3600);
    X509_gmtime_adj(X509_getm_notAfter(x), 24 * 3600);
    X509_set_pubkey(x, pair);
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                               (const unsigned char *)"redis", -1, -1, 0);
    X509_set_issuer_name(x, subject);
    add_extension(x, NID_basic_constraints, "critical,CA:TRUE");
    add_extension(x, NID_subject_alt_name, name);
    assert_true(X509_sign(x, pair, EVP_sha256()) > 0);
    file = fopen(certificate, "we");
    assert_int_equal(PEM_write_X509(file, x), 1);
    fclose(file);
    file = fopen(key, "we");
    assert_int_equal(PEM_write_PrivateKey(file, pair, NULL, NULL, 0, NULL, NULL), 1);
    fclose(file);
    X509_free(x);
    EVP_PKEY_free(pair);
}

/* ---------------------------------------------------------------- the server */

/* Below the ports that the kernel gives to connections: a server that was killed must get its port
 * again, which a connection of another test would have taken meanwhile. */
int redis_bed_free_port(void)
{
    enum { LOWEST = 10000, HIGHEST = 32000 };
    static unsigned tries;
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr = {htonl(INADDR_LOOPBACK)}};

    for (;;) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), failed;
        int port =
            LOWEST + (int)(((unsigned)getpid() * 37 + tries++) % (HIGHEST - LOWEST));

        assert_true(fd >= 0);
        address.sin_port = htons((uint16_t)port);
        failed = bind(fd, (struct sockaddr *)&address, sizeof(address));
        close(fd);
        if (!failed)
            return port;
        assert_true(tries < HIGHEST - LOWEST);
    }
}

static bool await_ready(int fd)
{
    char text[16384];
    size_t used = 0;

    for (;;) {
        struct pollfd waiting = {.fd = fd, .events = POLLIN};
        ssize_t n = 0;

        if (used < sizeof(text) - 1 && poll(&waiting, 1, 20000) == 1)
            n = read(fd, text + used, sizeof(text) - 1 - used);
        if (n <= 0)
            return false;
        used += (size_t)n;
        text[used] = '\0';
        if (strstr(text, "eady to accept connections"))
            return true;
    }
}

static void execute(const redis_bed_t *server, const char *durable)
{
    char port[8], tls_port[8];
    const char *argv[40] = {
        "redis-server",  "--port",           port,     "--bind",       "127.0.0.1",
        "--requirepass", REDIS_BED_PASSWORD, "--dir",  server->folder, "--appendonly",
        durable,         "--appendfsync",    "always", "--save",       ""};
    const char *const tls[] = {
        "--tls-port",         tls_port,    "--tls-cert-file",    server->certificate,
        "--tls-key-file",     server->key, "--tls-ca-cert-file", server->certificate,
        "--tls-auth-clients", "no"};

    snprintf(port, sizeof(port), "%d", server->port);
    snprintf(tls_port, sizeof(tls_port), "%d", server->tls_port);
    if (server->certificate[0])
        memcpy(argv + 15, tls, sizeof(tls));
    execvp(argv[0], (char *const *)(uintptr_t)argv);
    argv[0] = "valkey-server";
    execvp(argv[0], (char *const *)(uintptr_t)argv);
    _exit(97);
}

/* At its ports; false: it ended, somebody else has one of them. */
static bool try_to_start(redis_bed_t *server, const char *durable)
{
    int ends[2];
    bool serves;

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    server->pid = fork();
    if (server->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(ends[1], STDOUT_FILENO);
        execute(server, durable);
    }
    close(ends[1]);
    serves = await_ready(ends[0]);
    /* Its log may go on: nobody reads it, and it is short. */
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    if (!serves) {
        close(ends[0]);
        waitpid(server->pid, NULL, 0);
        server->pid = 0;
    }
    return serves;
}

void redis_bed_start(redis_bed_t *server, const char *durable)
{
    for (int i = 0; i < 20; i++) {
        if (server->port == 0) {
            server->port = redis_bed_free_port();
            server->tls_port = redis_bed_free_port();
        }
        snprintf(server->address, sizeof(server->address), "127.0.0.1:%d", server->port);
        snprintf(server->tls_address, sizeof(server->tls_address), "127.0.0.1:%d",
                 server->tls_port);
        if (try_to_start(server, durable))
            return;
        server->port = 0;
    }
    fail_msg("redis-server does not start");
}

void redis_bed_restart(redis_bed_t *server)
{
    assert_true(try_to_start(server, "yes"));
}

void redis_bed_kill(redis_bed_t *server)
{
    if (server->pid == 0)
        return;
    kill(server->pid, SIGKILL);
    waitpid(server->pid, NULL, 0);
    server->pid = 0;
}

long long redis_bed_command(const redis_bed_t *server, const char *text)
{
    redisContext *c = redisConnect("127.0.0.1", server->port);
    redisReply *reply;
    long long number;

    freeReplyObject(redisCommand(c, "AUTH %s", REDIS_BED_PASSWORD));
    reply = redisCommand(c, text);
    assert_non_null(reply);
    if (reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s: %s", text, reply->str);
    number = reply->integer;
    freeReplyObject(reply);
    redisFree(c);
    return number;
}

long long redis_bed_keys(const redis_bed_t *server)
{
    return redis_bed_command(server, "DBSIZE");
}

/* ---------------------------------------------------------------- life */

void redis_bed_begin(redis_bed_t *server)
{
    *server = (redis_bed_t){.folder = "/tmp/crt-redis-XXXXXX"};
    assert_non_null(mkdtemp(server->folder));
    snprintf(server->password_file, sizeof(server->password_file), "%s/password",
             server->folder);
    redis_bed_write(server->password_file, REDIS_BED_PASSWORD "\n");
}

void redis_bed_end(redis_bed_t *server)
{
    char command[64];

    redis_bed_kill(server);
    snprintf(command, sizeof(command), "rm -rf %s", server->folder);
    assert_int_equal(system(command), 0);
}
