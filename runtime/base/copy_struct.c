/* SPDX-License-Identifier: Apache-2.0 */
/* Structs of programs. See copy_struct.h. */
#include "runtime/base/copy_struct.h"

#include <string.h>

/* What a program of a newer version wants, and this one does not have. */
static crt_status_t check_tail(const unsigned char *given, size_t size, size_t given_size,
                               const char *macro)
{
    for (size_t i = size; i < given_size; i++)
        if (given[i])
            return crt_raise(CRT_ERR_UNSUPPORTED,
                             "%s: a member at byte %zu is set that crt %s does not have: "
                             "the program was made for a newer version",
                             macro, i, CRT_VERSION_TEXT);
    return CRT_OK;
}

crt_status_t crti_copy_struct(void *mine, size_t size, const void *given,
                              const char *macro)
{
    size_t given_size = size;

    memset(mine, 0, size);
    if (given)
        memcpy(&given_size, given, sizeof(given_size));
    if (given_size < sizeof(size_t) || given_size > CRTI_STRUCT_MAX)
        return crt_raise(CRT_ERR_INVALID,
                         "a struct says that its size is %zu: make it with %s",
                         given_size, macro);
    if (given)
        memcpy(mine, given, given_size < size ? given_size : size);
    memcpy(mine, &size, sizeof(size));
    return given_size > size ? check_tail(given, size, given_size, macro) : CRT_OK;
}

void crti_give_struct(void *to, size_t size, const void *mine, size_t mine_size)
{
    size_t known = size < mine_size ? size : mine_size;

    memcpy(to, mine, known);
    memset((char *)to + known, 0, size - known);
}
