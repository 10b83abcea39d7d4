/* SPDX-License-Identifier: Apache-2.0 */
#include "ml/text.h"

#include <string.h>

crt_status_t crti_text_begin(const char *name, const char **text, size_t *size)
{
    static const char utf8[] = "\xef\xbb\xbf";

    if (*size >= 3 && memcmp(*text, utf8, 3) == 0) {
        *text += 3;
        *size -= 3;
    }
    if (*size >= 2 &&
        (memcmp(*text, "\xff\xfe", 2) == 0 || memcmp(*text, "\xfe\xff", 2) == 0))
        return crt_raise(CRT_ERR_CORRUPT, "%s: UTF-16, not UTF-8", name);
    return CRT_OK;
}
