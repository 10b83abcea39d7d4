/* SPDX-License-Identifier: Apache-2.0 */
/* crt-decompress: standard input, compressed by Zstandard, to standard output.
 *
 * Where it sits
 *     the shell of cli/hand_over.c, on another host -> [ crt-decompress ] -> tar
 * Why
 *     A host that has nothing has gzip, which takes five times as long and gets a third more.
 * Failure: the reason is its last line of errors, and it exits with 1.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <zstd.h>

static int failed(const char *what, const char *why)
{
    fprintf(stderr, "crt-decompress: %s: %s\n", what, why);
    return 1;
}

static bool write_all(const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t n = write(STDOUT_FILENO, bytes, size);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        bytes += n;
        size -= (size_t)n;
    }
    return true;
}

/* 0: all that was read is written, and a frame may have ended there. */
static int decompress(ZSTD_DStream *stream, ZSTD_inBuffer *input, size_t *wanted)
{
    static char out[1 << 17];

    while (input->pos < input->size) {
        ZSTD_outBuffer output = {out, sizeof(out), 0};

        *wanted = ZSTD_decompressStream(stream, &output, input);
        if (ZSTD_isError(*wanted))
            return failed("the input", ZSTD_getErrorName(*wanted));
        if (!write_all(out, output.pos))
            return failed("write", strerror(errno));
    }
    return 0;
}

int main(void)
{
    static char in[1 << 17];
    ZSTD_DStream *stream = ZSTD_createDStream();
    size_t wanted = 1; /* 0: no frame has begun that has not ended */
    ssize_t n;

    if (!stream)
        return failed("memory", strerror(errno));
    while ((n = read(STDIN_FILENO, in, sizeof(in))) != 0) {
        ZSTD_inBuffer input = {in, n > 0 ? (size_t)n : 0, 0};

        if (n < 0 && errno != EINTR)
            return failed("read", strerror(errno));
        if (decompress(stream, &input, &wanted) != 0)
            return 1;
    }
    ZSTD_freeDStream(stream);
    return wanted == 0 ? 0 : failed("the input", "it ends too early");
}
