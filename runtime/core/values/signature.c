/* SPDX-License-Identifier: Apache-2.0 */
/* Signatures of methods and tasks. See signature.h. */
#include "runtime/core/values/signature.h"

#include <string.h>

#define ANY CRT_KIND_NONE

static crt_status_t parse_word(const char *word, size_t size, uint8_t *kind_out)
{
    static const crt_kind_t kinds[] = {
        CRT_KIND_BOOL,   CRT_KIND_INT, CRT_KIND_FLOAT, CRT_KIND_STRING, CRT_KIND_BYTES,
        CRT_KIND_TENSOR, CRT_KIND_REF, CRT_KIND_ACTOR, CRT_KIND_LIST,   CRT_KIND_MAP};

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        const char *name = crt_kind_name(kinds[i]);

        if (strlen(name) == size && memcmp(name, word, size) == 0) {
            *kind_out = (uint8_t)kinds[i];
            return CRT_OK;
        }
    }
    *kind_out = ANY;
    if (size == 3 && memcmp(word, "any", 3) == 0)
        return CRT_OK;
    return crt_raise(CRT_ERR_INVALID, "signature: \"%.*s\" is no kind of value",
                     (int)size, word);
}

crt_status_t crti_signature_parse(const char *text, crti_signature_t *s)
{
    *s = (crti_signature_t){.is_unchecked = text == NULL};
    if (!text)
        return CRT_OK;
    text += strspn(text, " ");
    while (*text) {
        size_t size = strcspn(text, " ,.");
        crt_status_t status;

        if (s->is_open || s->count == CRTI_SIGNATURE_MAX)
            return crt_raise(CRT_ERR_INVALID, s->is_open
                                                  ? "signature: \"...\" is not at the end"
                                                  : "signature: more than 32 kinds");
        status = parse_word(text, size, &s->kind[s->count++]);
        if (status != CRT_OK)
            return status;
        text += size;
        if (strncmp(text, "...", 3) == 0) {
            s->is_open = true;
            text += 3;
        }
        text += strspn(text, " ");
        if (*text == ',') {
            text += 1 + strspn(text + 1, " ");
            if (!*text)
                return crt_raise(CRT_ERR_INVALID,
                                 "signature: nothing behind the last comma");
        } else if (*text) {
            return crt_raise(CRT_ERR_INVALID,
                             "signature: a comma is missing before \"%s\"", text);
        }
    }
    return CRT_OK;
}

static bool converts(crt_kind_t from, crt_kind_t to)
{
    if (from == to || to == ANY || from == CRT_KIND_REF || from == CRT_KIND_SPREAD)
        return true; /* what a ref holds is checked where it is read */
    switch (to) {
    case CRT_KIND_BOOL:
    case CRT_KIND_FLOAT: return from == CRT_KIND_INT;
    case CRT_KIND_INT:
        return from == CRT_KIND_FLOAT; /* when nothing is lost: seen there */
    default: return false;
    }
}

crt_status_t crti_signature_check(const crti_signature_t *s, size_t index,
                                  crt_kind_t kind, const crti_place_t *place,
                                  bool *is_ref_out)
{
    crt_kind_t wanted;

    *is_ref_out = false;
    if (s->is_unchecked)
        return CRT_OK;
    wanted = s->kind[index < s->count ? index : s->count - 1];
    *is_ref_out = wanted == CRT_KIND_REF;
    if (wanted == CRT_KIND_REF ? kind == CRT_KIND_REF : converts(kind, wanted))
        return CRT_OK;
    return crt_raise(CRT_ERR_INVALID, "%s%s%s: argument %zu is of kind %s, %s is wanted",
                     place->class_name ? place->class_name : "",
                     place->class_name && *place->class_name ? "." : "", place->method,
                     index + 1, crt_kind_name(kind),
                     wanted == ANY ? "any" : crt_kind_name(wanted));
}

crt_status_t crti_signature_count(const crti_signature_t *s, size_t count,
                                  const crti_place_t *place)
{
    unsigned least = s->is_open ? s->count - 1 : s->count;

    if (s->is_unchecked || count == least || (s->is_open && count > least))
        return CRT_OK;
    return crt_raise(CRT_ERR_INVALID, "%s%s%s takes %s%u argument%s, %zu given",
                     place->class_name ? place->class_name : "",
                     place->class_name && *place->class_name ? "." : "", place->method,
                     s->is_open ? "at least " : "", least, least == 1 ? "" : "s", count);
}
