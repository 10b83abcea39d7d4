/* SPDX-License-Identifier: Apache-2.0 */
/* crt-head with a redis-server that is reached by TLS, as a user of its access list, and what may
 * be wrong with either, one sentence each. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/control/head_bed.h"
#include "tests/control/redis_bed.h"

typedef struct scene {
    redis_bed_t server;
    head_bed_t *bed;
} scene_t;

static int begin(void **state)
{
    scene_t *s = calloc(1, sizeof(*s));
    redis_bed_t *server = &s->server;

    redis_bed_begin(server);
    snprintf(server->certificate, sizeof(server->certificate), "%s/redis.crt",
             server->folder);
    snprintf(server->key, sizeof(server->key), "%s/redis.key", server->folder);
    redis_bed_certificate(server->certificate, server->key, "IP:127.0.0.1");
    s->bed = head_bed_new();
    *state = s;
    return 0;
}

static int end(void **state)
{
    scene_t *s = *state;

    head_bed_free(s->bed);
    redis_bed_end(&s->server);
    free(s);
    return 0;
}

/* A head that goes by TLS to `address`, trusting `authorities`, with `more` options (ended by
 * NULL). */
static bool start_head(scene_t *s, const char *address, const char *authorities,
                       const char *const *more)
{
    const char *all[20] = {"--no-dashboard",
                           "--redis-address",
                           address,
                           "--redis-password-file",
                           s->server.password_file,
                           "--redis-tls",
                           "--redis-ca-file",
                           authorities};
    size_t count = 8;

    while (more && *more)
        all[count++] = *more++;
    return head_start(s->bed, "0", all);
}

static void expect_refusal(scene_t *s, const char *address, const char *authorities,
                           const char *const *more, const char *part)
{
    assert_false(start_head(s, address, authorities, more));
    if (strncmp(s->bed->line, "error ", 6) != 0 || !strstr(s->bed->line, part))
        fail_msg("\"%s\" has no \"%s\"", s->bed->line, part);
}

static crt_status_t put(fake_node_t *node, const char *key, const void *value,
                        size_t size)
{
    crti_msg_kv_put_t m = {
        .key = crti_str(key), .value = crti_span(value, size), .overwrite = true};
    crti_message_t answer = node_ask(node, CRTI_MSG_KV_PUT, &m);

    return answer.kind == CRTI_MSG_ERROR ? (crt_status_t)answer.error.status : CRT_OK;
}

static void expect_stored(fake_node_t *node, const char *key, const void *value,
                          size_t size)
{
    crti_msg_kv_get_t m = {.key = crti_str(key)};
    crti_message_t answer = node_ask(node, CRTI_MSG_KV_GET, &m);

    assert_int_equal(answer.kind, CRTI_MSG_KV_VALUE);
    assert_int_equal(answer.kv_value.value.size, size);
    assert_memory_equal(answer.kv_value.value.data, value, size);
}

/* ---------------------------------------------------------------- TLS */

/* Values of many records of TLS, and more than the proxy holds at once. */
static void tables_are_kept_by_way_of_tls(void **state)
{
    scene_t *s = *state;
    size_t size = 700000;
    char *value = malloc(size);
    fake_node_t *node = node_new(s->bed, 1);

    for (size_t i = 0; i < size; i++)
        value[i] = (char)(i * 2654435761u >> 13);
    redis_bed_start(&s->server, "yes");
    if (!start_head(s, s->server.tls_address, s->server.certificate, NULL))
        fail_msg("%s", s->bed->line);
    assert_null(strstr(s->bed->line, " warning "));
    node_join(node);
    assert_int_equal(put(node, "big", value, size), CRT_OK);
    for (int i = 0; i < 50; i++)
        assert_int_equal(put(node, "small", &i, sizeof(i)), CRT_OK);
    expect_stored(node, "big", value, size);
    assert_true(redis_bed_keys(&s->server) > 0);
    node_free(node);
    assert_int_equal(head_stop(s->bed), 0); /* which says farewell by TLS, too */
    assert_int_equal(redis_bed_keys(&s->server), 0);
    free(value);
}

static void a_change_waits_for_a_server_that_comes_back_by_tls(void **state)
{
    scene_t *s = *state;
    crti_msg_kv_put_t m = {
        .key = crti_str("k"), .value = crti_str("2"), .overwrite = true};
    fake_node_t *node = node_new(s->bed, 1);
    uint64_t request;

    redis_bed_start(&s->server, "yes");
    assert_true(start_head(s, s->server.tls_address, s->server.certificate, NULL));
    node_join(node);
    redis_bed_kill(&s->server);
    request = node_send(node, CRTI_MSG_KV_PUT, &m);
    redis_bed_restart(&s->server);
    assert_int_equal(node_next(node, 0, request).kind, CRTI_MSG_KV_VALUE);
    expect_stored(node, "k", "2", 1);
    node_free(node);
}

/* Stopped, it stalls an open connection first, and then handshakes, again and again. */
static void changes_fail_while_the_server_is_silent_and_go_on_afterwards(void **state)
{
    scene_t *s = *state;
    fake_node_t *node = node_new(s->bed, 1);

    redis_bed_start(&s->server, "yes");
    assert_true(start_head(s, s->server.tls_address, s->server.certificate, NULL));
    node_join(node);
    node_keep_alive(node);
    assert_int_equal(put(node, "k", "1", 1), CRT_OK);
    kill(s->server.pid, SIGSTOP);
    for (int i = 0; i < 2; i++)
        assert_int_equal(put(node, "k", "2", 1), CRT_ERR_IO);
    kill(s->server.pid, SIGCONT);
    while (put(node, "k", "3", 1) != CRT_OK)
        continue; /* each waits for seconds */
    expect_stored(node, "k", "3", 1);
    node_free(node);
}

static void a_certificate_of_others_is_refused(void **state)
{
    scene_t *s = *state;
    char other[64], key[64];

    snprintf(other, sizeof(other), "%s/other.crt", s->server.folder);
    snprintf(key, sizeof(key), "%s/other.key", s->server.folder);
    redis_bed_certificate(other, key, "IP:127.0.0.1");
    redis_bed_start(&s->server, "yes");
    expect_refusal(s, s->server.tls_address, other, NULL,
                   "its certificate is refused: self-signed certificate");
}

static void a_certificate_that_names_another_host_is_refused(void **state)
{
    scene_t *s = *state;
    char named[48];

    redis_bed_certificate(s->server.certificate, s->server.key, "DNS:redis.example");
    redis_bed_start(&s->server, "yes");
    expect_refusal(s, s->server.tls_address, s->server.certificate, NULL,
                   "its certificate is refused: IP address mismatch");
    snprintf(named, sizeof(named), "localhost:%d", s->server.tls_port);
    expect_refusal(s, named, s->server.certificate, NULL,
                   "its certificate is refused: hostname mismatch");
}

static void a_name_is_looked_for_in_the_certificate(void **state)
{
    scene_t *s = *state;
    char named[48];

    redis_bed_certificate(s->server.certificate, s->server.key, "DNS:localhost");
    redis_bed_start(&s->server, "yes");
    snprintf(named, sizeof(named), "localhost:%d", s->server.tls_port);
    if (!start_head(s, named, s->server.certificate, NULL))
        fail_msg("%s", s->bed->line);
}

static void what_tls_needs_is_said_in_one_sentence(void **state)
{
    scene_t *s = *state;
    char none[64], nobody[32];

    snprintf(none, sizeof(none), "%s/none", s->server.folder);
    snprintf(nobody, sizeof(nobody), "127.0.0.1:%d", redis_bed_free_port());
    redis_bed_start(&s->server, "yes");
    expect_refusal(s, s->server.address, s->server.certificate, NULL,
                   ": it does not answer by TLS for 5 s: is it a TLS port?");
    expect_refusal(s, nobody, s->server.certificate, NULL, ": Connection refused");
    expect_refusal(s, s->server.tls_address, none, NULL,
                   "/none: no certificates can be read there");
    expect_refusal(s, s->server.tls_address, s->server.password_file, NULL,
                   "/password: no certificates can be read there");
    expect_refusal(s, s->server.tls_address, s->server.certificate,
                   (const char *[]){"--redis-plaintext-ok", NULL},
                   "--redis-tls and --redis-plaintext-ok contradict each other");
}

static void a_server_that_wants_certificates_of_clients_is_one_sentence(void **state)
{
    scene_t *s = *state;

    redis_bed_start(&s->server, "yes");
    redis_bed_command(&s->server, "CONFIG SET tls-auth-clients yes");
    expect_refusal(s, s->server.tls_address, s->server.certificate, NULL,
                   "does it want certificates of clients?");
}

/* ---------------------------------------------------------------- users */

static void a_user_with_the_rights_that_the_manual_names_is_enough(void **state)
{
    static const char *const as_worker[] = {"--redis-user", "worker", "--redis-prefix",
                                            "one", NULL};
    scene_t *s = *state;
    fake_node_t *node = node_new(s->bed, 1);

    redis_bed_start(&s->server, "yes");
    redis_bed_command(&s->server, "ACL SETUSER worker on >" REDIS_BED_PASSWORD
                                  " ~one:* -@all +@hash +@string +@scripting +@keyspace "
                                  "+@connection +info +config|get");
    if (!start_head(s, s->server.tls_address, s->server.certificate, as_worker))
        fail_msg("%s", s->bed->line);
    node_join(node);
    assert_int_equal(put(node, "k", "v", 1), CRT_OK);
    expect_stored(node, "k", "v", 1);
    node_free(node);
    assert_int_equal(head_stop(s->bed), 0);
    assert_int_equal(redis_bed_keys(&s->server), 0);
}

static void a_user_who_is_wrong_or_may_too_little_is_one_sentence(void **state)
{
    static const char *const nobody[] = {"--redis-user", "nobody", NULL};
    static const char *const guest[] = {"--redis-user", "guest", NULL};
    scene_t *s = *state;

    redis_bed_start(&s->server, "yes");
    expect_refusal(s, s->server.tls_address, s->server.certificate, nobody,
                   "user nobody with the password in ");
    redis_bed_command(&s->server,
                      "ACL SETUSER guest on >" REDIS_BED_PASSWORD " ~other:* +@all");
    expect_refusal(s, s->server.tls_address, s->server.certificate, guest, "NOPERM");
    redis_bed_write(s->server.password_file, "wrong");
    expect_refusal(s, s->server.tls_address, s->server.certificate, guest,
                   "user guest with the password in ");
    expect_refusal(s, s->server.tls_address, s->server.certificate, NULL,
                   "/password is refused: WRONGPASS");
    assert_false(head_start(s->bed, "0",
                            (const char *[]){"--redis-address", s->server.address,
                                             "--redis-user", "x", NULL}));
    assert_non_null(
        strstr(s->bed->line, "--redis-user goes with --redis-password-file FILE"));
}

int main(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(tables_are_kept_by_way_of_tls),
        TEST(a_change_waits_for_a_server_that_comes_back_by_tls),
        TEST(changes_fail_while_the_server_is_silent_and_go_on_afterwards),
        TEST(a_certificate_of_others_is_refused),
        TEST(a_certificate_that_names_another_host_is_refused),
        TEST(a_name_is_looked_for_in_the_certificate),
        TEST(what_tls_needs_is_said_in_one_sentence),
        TEST(a_server_that_wants_certificates_of_clients_is_one_sentence),
        TEST(a_user_with_the_rights_that_the_manual_names_is_enough),
        TEST(a_user_who_is_wrong_or_may_too_little_is_one_sentence),
    };

    head_program = argc > 1 ? argv[1] : "crt-head";
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
