/* SPDX-License-Identifier: Apache-2.0 */
/* Characters of UTF-8 (RFC 3629). See utf8.h. */
#include "runtime/base/utf8.h"

int crti_utf8_length(const unsigned char *at, size_t size)
{
    static const struct {
        unsigned char mask, lead, low, high; /* range of the second byte */
        int length;
    } forms[] = {{0xe0, 0xc0, 0x80, 0xbf, 2}, {0xff, 0xe0, 0xa0, 0xbf, 3},
                 {0xff, 0xed, 0x80, 0x9f, 3}, {0xf0, 0xe0, 0x80, 0xbf, 3},
                 {0xff, 0xf0, 0x90, 0xbf, 4}, {0xff, 0xf4, 0x80, 0x8f, 4},
                 {0xfc, 0xf0, 0x80, 0xbf, 4}};

    if (at[0] < 0x80)
        return 1;
    if (at[0] == 0xc0 || at[0] == 0xc1)
        return 0;
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        if ((at[0] & forms[i].mask) != forms[i].lead)
            continue;
        if (size > 1 && (at[1] < forms[i].low || at[1] > forms[i].high))
            return 0;
        for (int k = 2; k < forms[i].length && (size_t)k < size; k++)
            if ((at[k] & 0xc0) != 0x80)
                return 0;
        return size < (size_t)forms[i].length ? -1 : forms[i].length;
    }
    return 0;
}
