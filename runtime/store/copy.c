/* SPDX-License-Identifier: Apache-2.0 */
/* Copy: bytes into the arena.
 *
 * Where it sits
 *     core (put), node (transfers) -> [ store/copy.c ] -> a block from crti_store_create
 * Cost
 *     From STREAM_BYTES on with streaming stores, which don't read the destination's lines
 *     first: tests/bench/store.c compares it with memcpy. From HELPED_BYTES on a second thread
 *     helps while a core is free (help.c): one core does not fill the memory's bandwidth.
 */
#include <string.h>

#include "runtime/store/help.h"
#include "runtime/store/store.h"

#define STREAM_BYTES                                                                     \
    (1u << 20) /* below, the data is likely to be read from the cache soon */
#define HELPED_BYTES (8u << 20)
#define PIECE_BYTES  (1u << 20)

#if defined(__x86_64__)
#    include <immintrin.h>

/* `to` is aligned to 64; returns the bytes copied, a multiple of 256. */
__attribute__((target("avx"))) static size_t stream_avx(uint8_t *to, const uint8_t *from,
                                                        size_t size)
{
    size_t done = 0;

    for (; done + 256 <= size; done += 256) {
        __m256i v[8];

        _mm_prefetch((const char *)from + done + 1024, _MM_HINT_NTA);
        _mm_prefetch((const char *)from + done + 1088, _MM_HINT_NTA);
        _mm_prefetch((const char *)from + done + 1152, _MM_HINT_NTA);
        _mm_prefetch((const char *)from + done + 1216, _MM_HINT_NTA);
        for (int i = 0; i < 8; i++)
            v[i] = _mm256_loadu_si256((const __m256i *)(from + done + 32 * i));
        for (int i = 0; i < 8; i++)
            _mm256_stream_si256((__m256i *)(to + done + 32 * i), v[i]);
    }
    _mm_sfence(); /* streaming stores are weakly ordered: before the seal, all must be there */
    return done;
}

static size_t stream(uint8_t *to, const uint8_t *from, size_t size)
{
    return __builtin_cpu_supports("avx") ? stream_avx(to, from, size) : 0;
}
#else
static size_t stream(uint8_t *to, const uint8_t *from, size_t size)
{
    return 0;
}
#endif

static void copy(uint8_t *to, const uint8_t *from, size_t size)
{
    size_t head = -(uintptr_t)to & 63, done;

    if (size >= STREAM_BYTES) {
        memcpy(to, from, head);
        done = head + stream(to + head, from + head, size - head);
        to += done;
        from += done;
        size -= done;
    }
    if (size > 0)
        memcpy(to, from, size);
}

struct copying {
    uint8_t *to;
    const uint8_t *from;
};

static void copy_piece(void *user, size_t from, size_t to)
{
    const struct copying *c = user;

    copy(c->to + from, c->from + from, to - from);
}

void crti_store_copy(void *destination, const void *source, size_t size)
{
    struct copying copying = {destination, source};
    crti_help_t help = {
        .work = copy_piece, .user = &copying, .size = size, .piece = PIECE_BYTES};

    if (size < HELPED_BYTES)
        copy(destination, source, size);
    else
        crti_help_run(&help);
}
