/* SPDX-License-Identifier: Apache-2.0 */
/* Records: what is written is read, in whatever pieces; what somebody else put there is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/net/records.h"
#include "runtime/net/seal.h"

#include <cmocka.h>

#define RECORD ((size_t)32 << 10)
#define AROUND (CRTI_SEAL_HEADER + CRTI_SEAL_TAG)

static const unsigned char there[CRTI_KEY_SIZE] = {1}, back[CRTI_KEY_SIZE] = {2};

/* Two ends of a connection, and a third party's hands on the socket of the second. */
typedef struct pair {
    crti_records_pool_t *pool;
    crti_records_t *a, *b;
    int fds[2], inner[2]; /* a writes fds[0]; b reads inner[1] */
} pair_t;

static void pair_open(pair_t *p, bool is_direct, bool is_clear)
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, p->fds), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, p->inner), 0);
    assert_int_equal(crti_records_pool_new(&p->pool), CRT_OK);
    assert_int_equal(crti_records_new(p->pool, p->fds[0], back, there, is_clear, &p->a),
                     CRT_OK);
    assert_int_equal(crti_records_new(p->pool, is_direct ? p->fds[1] : p->inner[1], there,
                                      back, is_clear, &p->b),
                     CRT_OK);
}

static void pair_close(pair_t *p)
{
    crti_records_free(p->a);
    crti_records_free(p->b);
    crti_records_pool_free(p->pool);
    for (int i = 0; i < 2; i++) {
        close(p->fds[i]);
        close(p->inner[i]);
    }
}

static unsigned char *some_bytes(size_t size)
{
    unsigned char *bytes = malloc(size);

    assert_non_null(bytes);
    for (size_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)(i * 2654435761u >> 13);
    return bytes;
}

static void write_all(crti_records_t *r, const void *data, size_t size)
{
    crti_piece_t piece = {.data = data, .size = size, .is_bulk = true};
    size_t done;

    assert_int_equal(crti_records_write(r, &piece, 1, &done), CRT_OK);
    assert_int_equal(done, size);
    assert_int_equal(crti_records_unsent(r), 0);
}

/* Sizes: of a write, and of reads. */
static void cross(size_t size, size_t part, bool is_clear)
{
    unsigned char *bytes = some_bytes(size), *got = calloc(1, size);
    size_t written = 0, read = 0, done;
    pair_t p;

    pair_open(&p, true, is_clear);
    while (read < size) {
        size_t third = (size - written) / 3;
        crti_piece_t pieces[2] = {{.data = bytes + written, .size = third},
                                  {.data = bytes + written + third,
                                   .size = size - written - third,
                                   .is_bulk = true}};
        crt_status_t status = CRT_IN_PROGRESS;

        if (written < size)
            status = crti_records_write(p.a, pieces, 2, &done);
        else if (crti_records_unsent(p.a))
            status = crti_records_flush(p.a), done = 0;
        if (status == CRT_OK)
            written += done;
        else
            assert_int_equal(status, CRT_IN_PROGRESS);
        while (read < size) {
            size_t room = size - read < part ? size - read : part;

            status = crti_records_read(p.b, got + read, room, &done);
            if (status != CRT_OK)
                break;
            assert_in_range(done, 1, room);
            read += done;
        }
        assert_true(status == CRT_OK || status == CRT_IN_PROGRESS);
    }
    assert_memory_equal(got, bytes, size);
    assert_int_equal(crti_records_unread(p.b), 0);
    pair_close(&p);
    free(bytes);
    free(got);
}

static void bytes_arrive_in_their_order_whatever_the_pieces(void **state)
{
    static const size_t sizes[] = {1,          2,      15,         16,     17,     4096,
                                   RECORD - 1, RECORD, RECORD + 1, 300007, 3000017};
    static const size_t parts[] = {1000, 4096, RECORD, RECORD + 1, 1 << 20};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (size_t k = 0; k < sizeof(parts) / sizeof(parts[0]); k++)
            for (int is_clear = 0; is_clear < 2; is_clear++)
                cross(sizes[i], parts[k], is_clear);
    cross(70000, 1, false);
    cross(70000, 1, true);
}

static void the_end_comes_after_what_was_written(void **state)
{
    unsigned char got[16];
    size_t done;
    pair_t p;

    pair_open(&p, true, false);
    write_all(p.a, "last", 4);
    assert_int_equal(crti_records_end(p.a), CRT_OK);
    assert_int_equal(crti_records_read(p.b, got, sizeof(got), &done), CRT_OK);
    assert_int_equal(done, 4);
    assert_false(crti_records_is_drained(p.b));
    assert_int_equal(crti_records_read(p.b, got, sizeof(got), &done), CRT_ERR_CLOSED);
    pair_close(&p);
}

static void the_end_waits_until_the_socket_takes_it(void **state)
{
    unsigned char got[16], filling = 0;
    size_t filled = 0, done;
    pair_t p;

    pair_open(&p, true, false);
    write_all(p.a, "last", 4);
    assert_int_equal(crti_records_read(p.b, got, sizeof(got), &done), CRT_OK);
    while (send(p.fds[0], &filling, 1, 0) == 1)
        filled++;
    assert_true(filled > 0);
    for (int i = 0; i < 2; i++) /* made once, however often it is tried */
        assert_int_equal(crti_records_end(p.a), CRT_IN_PROGRESS);
    assert_int_equal(crti_records_unsent(p.a), 20);
    while (filled && recv(p.fds[1], got, 1, 0) == 1)
        filled--;
    assert_int_equal(filled, 0);
    assert_int_equal(crti_records_end(p.a), CRT_OK);
    assert_int_equal(crti_records_unsent(p.a), 0);
    assert_int_equal(crti_records_read(p.b, got, sizeof(got), &done), CRT_ERR_CLOSED);
    pair_close(&p);
}

static void a_reader_knows_when_nothing_is_left(void **state)
{
    unsigned char got[16];
    size_t done;
    pair_t p;

    pair_open(&p, true, false);
    write_all(p.a, "one", 3);
    write_all(p.a, "two", 3);
    assert_int_equal(crti_records_read(p.b, got, 3, &done), CRT_OK);
    assert_false(crti_records_is_drained(p.b));
    assert_int_equal(crti_records_read(p.b, got, 2, &done), CRT_OK);
    assert_false(crti_records_is_drained(p.b));
    assert_int_equal(crti_records_read(p.b, got, 2, &done), CRT_OK);
    assert_true(crti_records_is_drained(p.b));
    assert_int_equal(crti_records_read(p.b, got, 2, &done), CRT_IN_PROGRESS);
    pair_close(&p);
}

/* Two records of 100 bytes pass `meddle`, which says how many bytes there are then. */
static void meddled(size_t (*meddle)(unsigned char *bytes, size_t size), bool is_clear)
{
    unsigned char *bytes = some_bytes(100), wire[1000], got[200];
    size_t size, done, read = 0;
    crt_status_t status;
    pair_t p;

    pair_open(&p, false, is_clear);
    write_all(p.a, bytes, 100);
    write_all(p.a, bytes, 100);
    size = (size_t)recv(p.fds[1], wire, sizeof(wire), 0);
    assert_int_equal(size, 2 * (100 + AROUND));
    size = meddle(wire, size);
    assert_int_equal(send(p.inner[0], wire, size, 0), size);
    while ((status = crti_records_read(p.b, got + read, 100, &done)) == CRT_OK)
        assert_true((read += done) <= 100);
    assert_int_equal(status, CRT_ERR_PROTOCOL);
    pair_close(&p);
    free(bytes);
}

static size_t flip_text(unsigned char *bytes, size_t size)
{
    bytes[50] ^= 1;
    return size;
}

static size_t flip_tag(unsigned char *bytes, size_t size)
{
    bytes[size - 1] ^= 0x80;
    return size;
}

static size_t shorten(unsigned char *bytes, size_t size)
{
    bytes[0]--;
    return size;
}

static size_t lengthen(unsigned char *bytes, size_t size)
{
    bytes[3] = 1;
    return size;
}

static size_t change_the_sort(unsigned char *bytes, size_t size)
{
    bytes[3] ^= 0x80;
    return size;
}

/* A whole record of somebody who has no key. */
static size_t inject(unsigned char *bytes, size_t size)
{
    memmove(bytes + size / 2, bytes, size);
    memset(bytes + 4, 'x', size / 2 - 4);
    return size + size / 2;
}

static size_t swap(unsigned char *bytes, size_t size)
{
    unsigned char first[200];

    memcpy(first, bytes, size / 2);
    memcpy(bytes, bytes + size / 2, size / 2);
    memcpy(bytes + size / 2, first, size / 2);
    return size;
}

static size_t repeat(unsigned char *bytes, size_t size)
{
    memcpy(bytes + size / 2, bytes, size / 2);
    return size;
}

static size_t omit(unsigned char *bytes, size_t size)
{
    memcpy(bytes, bytes + size / 2, size / 2);
    return size / 2;
}

static size_t forge_the_end(unsigned char *bytes, size_t size)
{
    memset(bytes, 0, AROUND);
    return AROUND;
}

static void what_was_changed_on_its_way_is_refused(void **state)
{
    static size_t (*const ways[])(unsigned char *, size_t) = {
        flip_text, flip_tag, shorten, lengthen, change_the_sort,
        inject,    swap,     repeat,  omit,     forge_the_end};

    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
        for (int is_clear = 0; is_clear < 2; is_clear++)
            meddled(ways[i], is_clear);
}

static bool holds(const unsigned char *bytes, size_t size, const char *text)
{
    return memmem(bytes, size, text, strlen(text)) != NULL;
}

static void only_bulk_bytes_can_be_read_on_the_way_and_only_if_so_agreed(void **state)
{
    static const char message[] = "a message that is secret",
                      bulk[] = "bytes of an object";

    for (int is_clear = 0; is_clear < 2; is_clear++) {
        unsigned char wire[1000];
        crti_piece_t pieces[] = {{.data = message, .size = sizeof(message)},
                                 {.data = bulk, .size = sizeof(bulk), .is_bulk = true}};
        size_t done;
        ssize_t n;
        pair_t p;

        pair_open(&p, true, is_clear);
        assert_int_equal(crti_records_write(p.a, pieces, 2, &done), CRT_OK);
        assert_int_equal(done, sizeof(message) + sizeof(bulk));
        n = recv(p.fds[1], wire, sizeof(wire), MSG_PEEK);
        assert_int_equal(n, done + 2 * AROUND);
        assert_false(holds(wire, (size_t)n, message));
        assert_int_equal(holds(wire, (size_t)n, bulk), is_clear);
        pair_close(&p);
    }
}

/* The peer has the key, and forgot what was agreed. */
static void bytes_in_the_clear_are_refused_where_they_were_not_agreed(void **state)
{
    unsigned char wire[200], got[100];
    size_t done;
    ssize_t n;
    pair_t clear, sealed;

    pair_open(&clear, false, true);
    pair_open(&sealed, false, false);
    write_all(clear.a, "open", 4);
    n = recv(clear.fds[1], wire, sizeof(wire), 0);
    assert_int_equal(send(sealed.inner[0], wire, (size_t)n, 0), n);
    assert_int_equal(crti_records_read(sealed.b, got, sizeof(got), &done),
                     CRT_ERR_PROTOCOL);
    pair_close(&clear);
    pair_close(&sealed);
}

static void a_cut_is_told_from_an_end(void **state)
{
    unsigned char got[16];
    size_t done;
    pair_t p;

    for (int is_clear = 0; is_clear < 2; is_clear++) {
        pair_open(&p, true, is_clear);
        write_all(p.a, "last", 4);
        shutdown(p.fds[0], SHUT_WR);
        assert_int_equal(crti_records_read(p.b, got, sizeof(got), &done), CRT_OK);
        assert_int_equal(crti_records_read(p.b, got, sizeof(got), &done), CRT_ERR_IO);
        pair_close(&p);
    }
}

static void what_one_side_sent_is_nothing_for_itself(void **state)
{
    unsigned char wire[200], got[100];
    size_t done;
    ssize_t n;
    pair_t p;

    pair_open(&p, true, false);
    write_all(p.a, "mirror", 6);
    n = recv(p.fds[1], wire, sizeof(wire), 0);
    assert_int_equal(send(p.fds[1], wire, (size_t)n, 0), n);
    assert_int_equal(crti_records_read(p.a, got, sizeof(got), &done), CRT_ERR_PROTOCOL);
    pair_close(&p);
}

static void both_sides_change_their_key_at_the_same_record(void **state)
{
    static const unsigned char header[CRTI_SEAL_HEADER] = {1, 2, 3, 4};
    unsigned char *text = some_bytes(1000), sealed[1016], first[1016], out[1000];
    crti_seal_t *to, *from, *other;

    assert_int_equal(crti_seal_new(there, true, 2500, &to), CRT_OK);
    assert_int_equal(crti_seal_new(there, false, 2500, &from), CRT_OK);
    assert_int_equal(crti_seal_new(there, true, 1 << 20, &other), CRT_OK);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(crti_seal_encrypt(to, header, text, 1000, sealed), CRT_OK);
        assert_int_equal(crti_seal_encrypt(other, header, text, 1000, first), CRT_OK);
        assert_true((memcmp(sealed, first, sizeof(first)) == 0) == (i < 3));
        assert_int_equal(crti_seal_decrypt(from, header, sealed, 1000, out), CRT_OK);
        assert_memory_equal(out, text, 1000);
    }
    crti_seal_free(to);
    crti_seal_free(from);
    crti_seal_free(other);
    free(text);
}

/* However short they are: 2^32 of them would be too many for one key. */
static void short_records_use_a_key_up_too(void **state)
{
    static const unsigned char header[CRTI_SEAL_HEADER] = {1};
    unsigned char sealed[1 + CRTI_SEAL_TAG], first[1 + CRTI_SEAL_TAG], out[1];
    crti_seal_t *to, *from, *other;
    uint64_t most = UINT64_C(1) << 31;
    int same = 0;

    assert_true(CRTI_SEAL_KEY_BYTES / CRTI_SEAL_LEAST <= most);
    assert_int_equal(crti_seal_new(there, true, 100 * CRTI_SEAL_LEAST, &to), CRT_OK);
    assert_int_equal(crti_seal_new(there, false, 100 * CRTI_SEAL_LEAST, &from), CRT_OK);
    assert_int_equal(crti_seal_new(there, true, 1 << 20, &other), CRT_OK);
    for (int i = 0; i < 200; i++) {
        assert_int_equal(crti_seal_encrypt(to, header, header, 1, sealed), CRT_OK);
        assert_int_equal(crti_seal_encrypt(other, header, header, 1, first), CRT_OK);
        assert_int_equal(crti_seal_decrypt(from, header, sealed, 1, out), CRT_OK);
        same += memcmp(sealed, first, sizeof(first)) == 0;
    }
    assert_in_range(same, 1, 100);
    crti_seal_free(to);
    crti_seal_free(from);
    crti_seal_free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_arrive_in_their_order_whatever_the_pieces),
        cmocka_unit_test(the_end_comes_after_what_was_written),
        cmocka_unit_test(the_end_waits_until_the_socket_takes_it),
        cmocka_unit_test(a_reader_knows_when_nothing_is_left),
        cmocka_unit_test(what_was_changed_on_its_way_is_refused),
        cmocka_unit_test(what_one_side_sent_is_nothing_for_itself),
        cmocka_unit_test(only_bulk_bytes_can_be_read_on_the_way_and_only_if_so_agreed),
        cmocka_unit_test(bytes_in_the_clear_are_refused_where_they_were_not_agreed),
        cmocka_unit_test(a_cut_is_told_from_an_end),
        cmocka_unit_test(both_sides_change_their_key_at_the_same_record),
        cmocka_unit_test(short_records_use_a_key_up_too),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
