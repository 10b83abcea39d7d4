/* SPDX-License-Identifier: Apache-2.0 */
/* Printing texts from other people or processes, such as names, messages and answers, safely to a
 * terminal or a log. Include this header in addition to <crt.h>.
 *
 * Threads: the function may be called from any thread.
 */
#ifndef CRT_PRINTABLE_H
#define CRT_PRINTABLE_H

#include "crt_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Makes a text safe for a terminal, in place: replaces each control character by '?', except
 * newline and tab. Control characters are those below U+0020, U+007F, and U+0080 to U+009F (two
 * '?'). The library does this for all details of failures.
 *
 * `text` is UTF-8, ends with a zero byte, and must not be NULL. Returns `text`. */
CRT_API char *crt_make_printable(char *text);

#ifdef __cplusplus
}
#endif

#endif
