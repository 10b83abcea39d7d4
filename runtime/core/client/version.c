/* SPDX-License-Identifier: Apache-2.0 */
/* The version of the library that is loaded, which need not be that of the headers. */
#include "runtime/crt.h"

const char *crt_version(void)
{
    return CRT_VERSION_TEXT;
}

int crt_version_number(void)
{
    return CRT_VERSION;
}
