/* SPDX-License-Identifier: Apache-2.0 */
/* Identities: made, written, read. */
#include "runtime/base/id.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

crti_id_t crti_id_random(void)
{
    crti_id_t id = {0, 0};

    while (crti_id_is_zero(id)) {
        ssize_t n = getrandom(&id, sizeof(id), 0);

        if (n == (ssize_t)sizeof(id))
            continue;
        if (n < 0 && errno != EINTR)
            abort(); /* a kernel without getrandom: nothing of ours would be safe */
        id = (crti_id_t){0, 0};
    }
    return id;
}

crti_id_t crti_id_of_node(crti_id_t node)
{
    crti_id_t id = crti_id_random();

    id.low = (id.low & ~UINT64_C(0xffffffffffff)) | node.high >> 16;
    return id;
}

const char *crti_id_hex(crti_id_t id, char text[CRTI_ID_HEX])
{
    static const char digits[] = "0123456789abcdef";

    for (int i = 0; i < 16; i++) {
        text[i] = digits[id.high >> (60 - 4 * i) & 15];
        text[16 + i] = digits[id.low >> (60 - 4 * i) & 15];
    }
    text[32] = '\0';
    return text;
}

bool crti_id_parse(const char *text, crti_id_t *id_out)
{
    uint64_t half[2] = {0, 0};

    for (int i = 0; i < 32; i++) {
        unsigned char c = (unsigned char)text[i];

        if (!isxdigit(c))
            return false;
        half[i / 16] =
            half[i / 16] << 4 | (uint64_t)(isdigit(c) ? c - '0' : tolower(c) - 'a' + 10);
    }
    if (text[32] != '\0')
        return false;
    *id_out = (crti_id_t){half[0], half[1]};
    return true;
}

void crti_id_pack(crti_id_t id, unsigned char bytes[16])
{
    for (int i = 0; i < 8; i++) {
        bytes[i] = (unsigned char)(id.high >> (56 - 8 * i));
        bytes[8 + i] = (unsigned char)(id.low >> (56 - 8 * i));
    }
}

crti_id_t crti_id_unpack(const unsigned char bytes[16])
{
    crti_id_t id = {0};

    for (int i = 0; i < 8; i++) {
        id.high = id.high << 8 | bytes[i];
        id.low = id.low << 8 | bytes[8 + i];
    }
    return id;
}
