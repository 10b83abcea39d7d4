/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of http/chunks.c: bodies in chunks, cut anywhere. */
#include "runtime/http/chunks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* What comes out of `text` when it arrives in pieces of `piece` bytes; CRT_IN_PROGRESS: it has no
 * end. */
static crt_status_t decode(const char *text, size_t length, size_t piece, char *out)
{
    crti_chunks_t chunks = {0};
    size_t used = 0;

    out[0] = '\0';
    for (size_t at = 0; at < length;) {
        size_t end = at + piece < length ? at + piece : length;

        while (at < end && chunks.state != CRTI_CHUNKS_DONE) {
            const void *data;
            size_t size, taken;
            crt_status_t status =
                crti_chunks_next(&chunks, text + at, end - at, &data, &size, &taken);

            if (status != CRT_OK)
                return status;
            memcpy(out + used, data, size);
            out[used += size] = '\0';
            at += taken;
        }
        if (chunks.state == CRTI_CHUNKS_DONE)
            return CRT_OK;
    }
    return CRT_IN_PROGRESS;
}

static void a_body_is_whole_wherever_it_is_cut(void **state)
{
    static const char *const bodies[] = {
        "5\r\nhello\r\n1\r\n,\r\n00006\r\n world\r\n0\r\n\r\n",
        "C;name=\"value\"\r\nhello, world\r\n0;last\r\nTrailer: x\r\nAnother: y\r\n\r\n",
        "c \r\nhello, world\r\n0\r\n\r\n"};
    char out[64];

    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++)
        for (size_t piece = 1; piece <= strlen(bodies[i]); piece++) {
            assert_int_equal(decode(bodies[i], strlen(bodies[i]), piece, out), CRT_OK);
            assert_string_equal(out, "hello, world");
        }
}

static void a_body_that_is_cut_has_no_end(void **state)
{
    static const char body[] = "5\r\nhello\r\n0\r\n\r\n";
    char out[64];

    for (size_t length = 1; length < strlen(body); length++)
        assert_int_equal(decode(body, length, 3, out), CRT_IN_PROGRESS);
}

static void what_is_no_chunk_is_refused(void **state)
{
    static const char *const bodies[] = {
        "\r\n",          "x\r\n",      "-1\r\na\r\n",    "5\nhello\r\n",
        "5\r5\r\nhello", "5\r\rhello", "4\r\nhello\r\n", "00000000000000001\r\na\r\n",
        ";\r\na"};
    char out[64];

    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++)
        assert_int_equal(decode(bodies[i], strlen(bodies[i]), 2, out), CRT_ERR_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_body_is_whole_wherever_it_is_cut),
        cmocka_unit_test(a_body_that_is_cut_has_no_end),
        cmocka_unit_test(what_is_no_chunk_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
