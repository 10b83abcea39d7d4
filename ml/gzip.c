/* SPDX-License-Identifier: Apache-2.0 */
#include "ml/gzip.h"

#include <limits.h>
#include <stdlib.h>

#include <zlib.h>

#define PIECE ((size_t)1 << 20) /* what the result grows by at least */

struct crti_gzip {
    const char *name;
    z_stream z;
    bool ended; /* the last member was read to its end */
};

bool crti_gzip_is_packed(const unsigned char *bytes, size_t size)
{
    return size >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
}

crt_status_t crti_gzip_open(const char *name, const unsigned char *bytes, size_t size,
                            crti_gzip_t **gzip_out)
{
    crti_gzip_t *g;

    if (size > UINT_MAX)
        return crt_raise(CRT_ERR_TOO_LARGE, "%s: %zu bytes", name, size);
    g = calloc(1, sizeof(*g));
    if (!g)
        return crt_raise(CRT_ERR_NO_MEMORY, "%s: zlib", name);
    g->name = name;
    /* zlib does not change its input, but its interface has no const. */
    g->z.next_in = (unsigned char *)(uintptr_t)bytes;
    g->z.avail_in = (uInt)size;
    if (inflateInit2(&g->z, 16 + MAX_WBITS) != Z_OK) {
        free(g);
        return crt_raise(CRT_ERR_NO_MEMORY, "%s: zlib", name);
    }
    *gzip_out = g;
    return CRT_OK;
}

void crti_gzip_close(crti_gzip_t *g)
{
    if (g)
        inflateEnd(&g->z);
    free(g);
}

/* Behind a member: the next one, or zeros up to the end. */
static crt_status_t next_member(crti_gzip_t *g)
{
    z_stream *z = &g->z;

    if (crti_gzip_is_packed(z->next_in, z->avail_in)) {
        inflateReset(z);
        return CRT_OK;
    }
    while (z->avail_in > 0 && *z->next_in == 0) {
        z->next_in++;
        z->avail_in--;
    }
    if (z->avail_in > 0)
        return crt_raise(CRT_ERR_CORRUPT,
                         "%s: %u bytes behind the packed ones that are neither packed "
                         "nor zeros",
                         g->name, z->avail_in);
    g->ended = true;
    return CRT_OK;
}

crt_status_t crti_gzip_read(crti_gzip_t *g, unsigned char *out, size_t room,
                            size_t *size_out)
{
    z_stream *z = &g->z;
    crt_status_t status = CRT_OK;
    size_t done = 0;

    while (done < room && !g->ended && status == CRT_OK) {
        int result;

        z->next_out = out + done;
        z->avail_out = (uInt)(room - done > INT_MAX ? INT_MAX : room - done);
        result = inflate(z, Z_NO_FLUSH);
        done = (size_t)(z->next_out - out);
        if (result == Z_STREAM_END)
            status = next_member(g);
        else if (result == Z_MEM_ERROR)
            status = crt_raise(CRT_ERR_NO_MEMORY, "%s: zlib", g->name);
        else if (result == Z_BUF_ERROR)
            status = crt_raise(CRT_ERR_CORRUPT,
                               "%s: cut short: the packed bytes end in "
                               "the middle of a member",
                               g->name);
        else if (result != Z_OK)
            status = crt_raise(CRT_ERR_CORRUPT, "%s: gzip: %s", g->name,
                               z->msg ? z->msg : "damaged");
    }
    *size_out = done;
    return status;
}

static crt_status_t grow(const char *name, unsigned char **data, size_t *room,
                         size_t limit)
{
    size_t more = *room * 2 + PIECE;
    unsigned char *grown;

    if (*room >= limit)
        return crt_raise(CRT_ERR_TOO_LARGE, "%s: more than %zu bytes unpacked", name,
                         limit);
    more = more > limit ? limit : more;
    grown = realloc(*data, more);
    if (!grown)
        return crt_raise(CRT_ERR_NO_MEMORY, "%s: %zu bytes", name, more);
    *data = grown;
    *room = more;
    return CRT_OK;
}

crt_status_t crti_gzip_unpack(const char *name, const unsigned char *bytes, size_t size,
                              size_t limit, unsigned char **data_out, size_t *size_out)
{
    crti_gzip_t *g;
    unsigned char *data = NULL;
    size_t room = 0, done = 0, more;
    crt_status_t status = crti_gzip_open(name, bytes, size, &g);

    if (status != CRT_OK)
        return status;
    while (status == CRT_OK && !g->ended) {
        status = grow(name, &data, &room, limit);
        if (status == CRT_OK) {
            status = crti_gzip_read(g, data + done, room - done, &more);
            done += more;
        }
    }
    crti_gzip_close(g);
    if (status != CRT_OK) {
        free(data);
        return status;
    }
    *data_out = data;
    *size_out = done;
    return CRT_OK;
}
