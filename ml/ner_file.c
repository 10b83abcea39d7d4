/* SPDX-License-Identifier: Apache-2.0 */
/* NER models on disk.
 *
 *     "crt-ner" and a zero byte; version, 3 (4 bytes)
 *     the options, each 4 bytes (dropout 8), in the order of put_options
 *     labels: their number (4), then length (4) and bytes of each
 *     parameters (8), optimizer's states (4), its steps (8), bytes of the note (4)
 *     the note; the weights; the states; CRC-32 of everything before (4)
 *
 * All numbers little endian. Bytes are untrusted: every length is checked before it is used, and
 * that before the checksum, which says only that nothing was damaged by accident.
 */
#include <stdlib.h>
#include <string.h>

#include "ml/file.h"
#include "ml/ner_file.h"

#include <zlib.h>

#define MAGIC    "crt-ner"
#define VERSION  3u /* 2 had tables of NORM and, if so told, PREFIX, SUFFIX and SHAPE */
#define FILE_MAX ((size_t)1 << 33)
#define NOTE_MAX ((uint32_t)1 << 20)
#define STATES   8u

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "models are little endian");

typedef struct out {
    unsigned char *at; /* NULL: only the size is wanted */
    size_t size;
} out_t;

static void put(out_t *out, const void *data, size_t size)
{
    if (out->at && size > 0)
        memcpy(out->at + out->size, data, size);
    out->size += size;
}

static void put32(out_t *out, uint32_t value)
{
    put(out, &value, sizeof(value));
}

static void put64(out_t *out, uint64_t value)
{
    put(out, &value, sizeof(value));
}

static void put_options(out_t *out, const crt_ner_options_t *o)
{
    put32(out, (uint32_t)o->width);
    put32(out, (uint32_t)o->depth);
    put32(out, (uint32_t)o->window);
    put32(out, (uint32_t)o->pieces);
    put32(out, (uint32_t)o->table_count);
    for (int k = 0; k < o->table_count; k++) {
        put32(out, (uint32_t)o->tables[k].feature);
        put32(out, (uint32_t)o->tables[k].rows);
    }
    put(out, &o->dropout, sizeof(o->dropout));
    put32(out, (uint32_t)o->features);
    put32(out, (uint32_t)o->hidden);
    put32(out, (uint32_t)o->state_pieces);
    put32(out, o->upper);
    put32(out, (uint32_t)o->oracle_cut);
}

/* Numbers of a model, wherever it is. */
static crt_status_t put_numbers(out_t *out, const crt_model_t *model,
                                const float *numbers)
{
    size_t bytes = model->parameter_count * sizeof(float);
    crt_status_t status =
        out->at ? crti_model_copy(model, out->at + out->size, numbers, bytes) : CRT_OK;

    out->size += bytes;
    return status;
}

static crt_status_t encode(crt_ner_model_t *m, crt_optimizer_t *optimizer,
                           const void *note, size_t note_size, out_t *out)
{
    int states = optimizer ? crt_optimizer_states(optimizer) : 0;
    crt_status_t status;

    put(out, MAGIC, 8);
    put32(out, VERSION);
    put_options(out, &m->options);
    put32(out, (uint32_t)m->label_count);
    for (size_t i = 0; i < m->label_count; i++) {
        put32(out, (uint32_t)strlen(m->labels[i]));
        put(out, m->labels[i], strlen(m->labels[i]));
    }
    put64(out, m->network->parameter_count);
    put32(out, (uint32_t)states);
    put64(out, optimizer ? crt_optimizer_steps(optimizer) : 0);
    put32(out, (uint32_t)note_size);
    put(out, note, note_size);
    status = put_numbers(out, m->network, m->network->weights);
    for (int i = 0; i < states && status == CRT_OK; i++)
        status = put_numbers(out, m->network, crt_optimizer_state(optimizer, i)->data);
    put32(out, out->at ? (uint32_t)crc32_z(crc32_z(0, NULL, 0), out->at, out->size) : 0);
    return status;
}

crt_status_t crti_ner_file_encode(crt_ner_model_t *model, crt_optimizer_t *optimizer,
                                  const void *note, size_t note_size,
                                  unsigned char **data_out, size_t *size_out)
{
    out_t out = {0};
    crt_status_t status;

    if (note_size > NOTE_MAX)
        return crt_raise(CRT_ERR_TOO_LARGE, "a note of %zu bytes", note_size);
    (void)encode(model, optimizer, note, note_size, &out); /* its size */
    *size_out = out.size;
    out = (out_t){malloc(*size_out), 0};
    if (!out.at)
        return crt_raise(CRT_ERR_NO_MEMORY, "a NER model of %zu bytes", *size_out);
    crti_model_enter(model->network);
    status = encode(model, optimizer, note, note_size, &out);
    if (status != CRT_OK) {
        free(out.at);
        return status;
    }
    *data_out = out.at;
    return CRT_OK;
}

crt_status_t crt_ner_model_save(crt_ner_model_t *model, crt_optimizer_t *optimizer,
                                const void *note, size_t note_size, const char *path)
{
    unsigned char *data;
    size_t size;
    crt_status_t status =
        crti_ner_file_encode(model, optimizer, note, note_size, &data, &size);

    if (status != CRT_OK)
        return status;
    status = crti_file_write(path, data, size);
    free(data);
    return status;
}

/* ---------------------------------------------------------------- reading */

typedef struct in {
    const unsigned char *at;
    size_t left;
    bool is_short; /* more was asked for than there is */
} in_t;

static const unsigned char *get(in_t *in, size_t size)
{
    const unsigned char *at = in->at;

    if (size > in->left) {
        in->is_short = true;
        return NULL;
    }
    in->at += size;
    in->left -= size;
    return at;
}

static uint32_t get32(in_t *in)
{
    const unsigned char *at = get(in, sizeof(uint32_t));
    uint32_t value = 0;

    if (at)
        memcpy(&value, at, sizeof(value));
    return value;
}

static uint64_t get64(in_t *in)
{
    const unsigned char *at = get(in, sizeof(uint64_t));
    uint64_t value = 0;

    if (at)
        memcpy(&value, at, sizeof(value));
    return value;
}

static int get_int(in_t *in)
{
    uint32_t value = get32(in);

    return value > 1u << 24 ? -1 : (int)value; /* no option is that large */
}

static void get_tables(in_t *in, crt_ner_options_t *o)
{
    uint32_t count = get32(in);

    if (count > CRT_NER_TABLES_MAX)
        in->is_short = true;
    for (uint32_t k = 0; k < count && !in->is_short; k++) {
        o->tables[k].feature = (crt_ner_feature_t)get_int(in);
        o->tables[k].rows = get_int(in);
    }
    o->table_count = (int)count;
}

/* Of version 2: rows of NORM, of the three others (0: half as many), whether there are those. */
static void get_old_tables(in_t *in, crt_ner_options_t *o)
{
    int rows = get_int(in);

    o->tables[0] = (crt_ner_table_t){CRT_NER_NORM, rows};
    for (int k = 1; k < 4; k++) {
        int own = get_int(in);

        o->tables[k] = (crt_ner_table_t){(crt_ner_feature_t)k, own ? own : rows / 2};
    }
    o->table_count = get32(in) != 0 ? 4 : 1;
}

static void get_options(in_t *in, uint32_t version, crt_ner_options_t *o)
{
    uint64_t bits;

    *o = (crt_ner_options_t){.struct_size = sizeof(*o)};
    o->width = get_int(in);
    o->depth = get_int(in);
    o->window = get_int(in);
    o->pieces = get_int(in);
    if (version == 2)
        get_old_tables(in, o);
    else
        get_tables(in, o);
    bits = get64(in);
    memcpy(&o->dropout, &bits, sizeof(bits));
    o->features = get_int(in);
    o->hidden = get_int(in);
    o->state_pieces = get_int(in);
    o->upper = get32(in) != 0;
    o->oracle_cut = get_int(in);
}

static void get_labels(in_t *in, crti_ner_file_t *file)
{
    uint32_t count = get32(in);

    if (count > CRTI_NER_LABELS_MAX)
        in->is_short = true;
    for (uint32_t i = 0; i < count && !in->is_short; i++) {
        file->labels[i].size = get32(in);
        file->labels[i].text = (const char *)get(in, file->labels[i].size);
    }
    file->label_count = count;
}

crt_status_t crti_ner_file_decode(const char *name, const unsigned char *data,
                                  size_t size, crti_ner_file_t *file)
{
    in_t in = {data, size, false};
    const unsigned char *magic = get(&in, 8);
    uint32_t version = get32(&in);
    size_t floats;

    if (!magic || memcmp(magic, MAGIC, 8) != 0)
        return crt_raise(CRT_ERR_CORRUPT, "%s: not a NER model (%zu bytes)", name, size);
    if (version != VERSION && version != 2)
        return crt_raise(CRT_ERR_CORRUPT,
                         "%s: a NER model of version %u, this build reads %u", name,
                         version, VERSION);
    get_options(&in, version, &file->options);
    get_labels(&in, file);
    file->parameters = get64(&in);
    file->states = get32(&in);
    file->steps = get64(&in);
    file->note_size = get32(&in);
    file->note = get(&in, file->note_size);
    if (!in.is_short &&
        (file->parameters > CRTI_MODEL_PARAMETERS_MAX || file->states > STATES))
        return crt_raise(CRT_ERR_CORRUPT, "%s: damaged: %llu parameters, %u states", name,
                         (unsigned long long)file->parameters, file->states);
    floats = in.is_short ? 0 : (1 + file->states) * file->parameters * sizeof(float);
    file->floats = get(&in, floats);
    if (in.is_short || in.left != sizeof(uint32_t))
        return crt_raise(
            CRT_ERR_CORRUPT, "%s: %s (%zu bytes)", name,
            in.is_short || in.left < sizeof(uint32_t) ? "cut short" : "too long", size);
    if (get32(&in) !=
        (uint32_t)crc32_z(crc32_z(0, NULL, 0), data, size - sizeof(uint32_t)))
        return crt_raise(CRT_ERR_CORRUPT, "%s: damaged: the checksum is wrong", name);
    return CRT_OK;
}

crt_status_t crti_ner_file_make(const char *name, const crti_ner_file_t *file,
                                crt_ner_model_t **model_out)
{
    char *labels[CRTI_NER_LABELS_MAX];
    crt_ner_model_t *m = NULL;
    crt_status_t status = CRT_OK;
    uint32_t count = 0;

    /* Before memory is asked for. */
    if ((double)file->parameters !=
        crti_ner_parameters(&file->options, file->label_count))
        return crt_raise(CRT_ERR_CORRUPT, "%s: %llu parameters, its options mean %.0f",
                         name, (unsigned long long)file->parameters,
                         crti_ner_parameters(&file->options, file->label_count));
    for (; count < file->label_count && status == CRT_OK; count++) {
        labels[count] = strndup(file->labels[count].text, file->labels[count].size);
        if (!labels[count])
            status = crt_raise(CRT_ERR_NO_MEMORY, "%s: labels", name);
    }
    if (status == CRT_OK)
        status = crti_ner_model_of(&file->options, (const char *const *)labels, count, 0,
                                   file->floats, &m);
    while (count > 0)
        free(labels[--count]);
    if (status == CRT_ERR_INVALID || status == CRT_ERR_TOO_LARGE)
        return crt_raise(CRT_ERR_CORRUPT, "%s: options of no model", name);
    if (status != CRT_OK)
        return status;
    *model_out = m;
    return CRT_OK;
}

crt_status_t crt_ner_model_load(const char *path, crt_ner_model_t **model_out)
{
    unsigned char *data;
    crti_ner_file_t file;
    size_t size;
    crt_status_t status = crti_file_read(path, FILE_MAX, &data, &size);

    if (status != CRT_OK)
        return status;
    status = crti_ner_file_decode(path, data, size, &file);
    if (status == CRT_OK)
        status = crti_ner_file_make(path, &file, model_out);
    free(data);
    return status;
}

static bool same_labels(const crt_ner_model_t *m, const crti_ner_file_t *file)
{
    if (m->label_count != file->label_count)
        return false;
    for (size_t i = 0; i < m->label_count; i++)
        if (strlen(m->labels[i]) != file->labels[i].size ||
            memcmp(m->labels[i], file->labels[i].text, file->labels[i].size) != 0)
            return false;
    return true;
}

static bool same_options(const crt_ner_model_t *m, const crti_ner_file_t *file)
{
    unsigned char bytes[2][128];
    out_t a = {bytes[0], 0}, b = {bytes[1], 0};

    put_options(&a, &m->options);
    put_options(&b, &file->options);
    return memcmp(bytes[0], bytes[1], a.size) == 0;
}

static crt_status_t restore(crt_ner_model_t *m, crt_optimizer_t *optimizer, void *note,
                            size_t note_size, const char *name,
                            const crti_ner_file_t *file)
{
    size_t bytes = file->parameters * sizeof(float);
    crt_status_t status;

    if (!same_options(m, file) || !same_labels(m, file) ||
        m->network->parameter_count != file->parameters)
        return crt_raise(CRT_ERR_INVALID, "%s: a model of other options or labels", name);
    if (file->states != (uint32_t)crt_optimizer_states(optimizer))
        return crt_raise(CRT_ERR_INVALID, "%s: of an optimizer with %u states, not %d",
                         name, file->states, crt_optimizer_states(optimizer));
    if (file->note_size != note_size)
        return crt_raise(CRT_ERR_INVALID, "%s: a note of %u bytes, not %zu", name,
                         file->note_size, note_size);
    crti_model_enter(m->network);
    status = crti_model_copy(m->network, m->network->weights, file->floats, bytes);
    for (uint32_t i = 0; i < file->states && status == CRT_OK; i++)
        status = crti_model_copy(m->network, crt_optimizer_state(optimizer, (int)i)->data,
                                 file->floats + (i + 1) * bytes, bytes);
    if (status != CRT_OK)
        return status;
    crt_optimizer_set_steps(optimizer, file->steps);
    if (note_size > 0)
        memcpy(note, file->note, note_size);
    return CRT_OK;
}

crt_status_t crt_ner_model_restore(crt_ner_model_t *model, crt_optimizer_t *optimizer,
                                   void *note, size_t note_size, const char *path)
{
    unsigned char *data;
    crti_ner_file_t file;
    size_t size;
    crt_status_t status = crti_file_read(path, FILE_MAX, &data, &size);

    if (status != CRT_OK)
        return status;
    status = crti_ner_file_decode(path, data, size, &file);
    if (status == CRT_OK)
        status = restore(model, optimizer, note, note_size, path, &file);
    free(data);
    return status;
}
