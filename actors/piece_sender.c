/* SPDX-License-Identifier: Apache-2.0 */
/* See actors/piece_sender.h. */
#include "actors/piece_sender.h"

#include <stdlib.h>

typedef struct piece {
    size_t first, count;
    crt_compressor_t *compressor;
    crt_ref_t *done; /* NULL: not sent */
} piece_t;

struct crti_piece_sender {
    crt_model_t *model;
    size_t count, sent; /* pieces; they lie in the order in which they go */
    piece_t *pieces;
    unsigned char *bytes; /* room for any of them, encoded */
    size_t total;         /* bytes sent in this step */
    crt_actor_t *server;
    uint64_t step;
    int number;
};

static void add_piece(crti_piece_sender_t *s, size_t first, size_t end)
{
    s->pieces[s->count++] = (piece_t){.first = first, .count = end - first};
}

/* From the end of the buffer to its beginning, cut where layers begin. */
static crt_status_t cut(crti_piece_sender_t *s, size_t floats)
{
    size_t end = crt_model_parameters(s->model), arrays = crt_model_arrays(s->model);
    size_t statistics = crt_tensor_count(crt_model_statistics(s->model));

    if (statistics > 0)
        add_piece(s, end, end + statistics);
    for (size_t i = 0; i < arrays; i++) {
        crt_model_array_t a, next = {.layer = SIZE_MAX};
        crt_status_t status = crt_model_array(s->model, arrays - 1 - i, sizeof(a), &a);

        if (status == CRT_OK && i + 1 < arrays)
            status = crt_model_array(s->model, arrays - 2 - i, sizeof(next), &next);
        if (status != CRT_OK)
            return status;
        if (next.layer != a.layer && /* a layer is final as a whole */
            (end - a.first >= floats || a.first == 0)) {
            add_piece(s, a.first, end);
            end = a.first;
        }
    }
    return CRT_OK;
}

static crt_status_t make_compressors(crti_piece_sender_t *s, crt_compression_t method,
                                     double keep)
{
    size_t parameters = crt_model_parameters(s->model), most = 0;
    crt_status_t status = CRT_OK;

    for (size_t i = 0; i < s->count && status == CRT_OK; i++) {
        piece_t *p = &s->pieces[i];
        size_t bound;

        status = crt_compressor_new(p->first < parameters ? method : CRT_COMPRESSION_NONE,
                                    p->count, keep, &p->compressor);
        bound = status == CRT_OK ? crt_compressor_bound(p->compressor) : 0;
        most = bound > most ? bound : most;
    }
    if (status != CRT_OK)
        return status;
    s->bytes = malloc(most);
    return s->bytes ? CRT_OK : crt_raise(CRT_ERR_NO_MEMORY, "encoded pieces");
}

crt_status_t crti_piece_sender_new(crt_model_t *model, crt_compression_t method,
                                   double keep, size_t floats,
                                   crti_piece_sender_t **sender_out)
{
    crti_piece_sender_t *s = calloc(1, sizeof(*s));
    crt_status_t status;

    if (!s)
        return crt_raise(CRT_ERR_NO_MEMORY, "pieces of a gradient");
    s->model = model;
    s->pieces = calloc(crt_model_arrays(model) + 1, sizeof(*s->pieces));
    status =
        s->pieces ? cut(s, floats) : crt_raise(CRT_ERR_NO_MEMORY, "pieces of a gradient");
    if (status == CRT_OK)
        status = make_compressors(s, method, keep);
    if (status != CRT_OK) {
        crti_piece_sender_free(s);
        return status;
    }
    *sender_out = s;
    return CRT_OK;
}

void crti_piece_sender_begin(crti_piece_sender_t *s, crt_actor_t *server, uint64_t step,
                             int number)
{
    s->server = server;
    s->step = step;
    s->number = number;
    s->sent = s->total = 0;
}

static void send_piece(crti_piece_sender_t *s, piece_t *p)
{
    size_t parameters = crt_model_parameters(s->model);
    const float *from =
        p->first < parameters
            ? (const float *)crt_model_gradients(s->model)->data + p->first
            : crt_model_statistics(s->model)->data;
    int64_t size = (int64_t)crt_compressor_encode(p->compressor, from, s->bytes);
    crt_tensor_t bytes = crt_tensor_view(CRT_DTYPE_UINT8, 1, &size, s->bytes);

    s->total += (size_t)size;
    p->done = crt_call(s->server, crt_parameter_server_deposit(), s->step, s->number,
                       (uint64_t)p->first, (uint64_t)p->count, &bytes);
}

void crti_piece_sender_seen(void *sender, size_t first)
{
    crti_piece_sender_t *s = sender;

    while (s->sent < s->count && s->pieces[s->sent].first >= first)
        send_piece(s, &s->pieces[s->sent++]);
}

crt_status_t crti_piece_sender_finish(crti_piece_sender_t *s, size_t *bytes_out)
{
    crt_status_t status = CRT_OK;

    for (size_t i = 0; i < s->sent; i++) {
        crt_status_t one = status == CRT_OK ? crt_get(s->pieces[i].done, NULL) : CRT_OK;

        if (one <= CRT_ERR_ACTOR_DIED)
            status =
                crt_raise(CRT_ERR_OBJECT_LOST,
                          "the server of step %llu was lost before it had all of the "
                          "gradient",
                          (unsigned long long)s->step);
        else if (one != CRT_OK)
            status = one;
    }
    for (size_t i = 0; i < s->sent; i++)
        crt_ref_drop(&s->pieces[i].done);
    *bytes_out = s->total;
    s->sent = 0;
    return status;
}

void crti_piece_sender_free(crti_piece_sender_t *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->count; i++) {
        crt_ref_drop(&s->pieces[i].done);
        crt_compressor_drop(&s->pieces[i].compressor);
    }
    free(s->pieces);
    free(s->bytes);
    free(s);
}
