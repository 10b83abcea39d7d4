/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of others on their way to a terminal or a log: names that users chose, messages, answers. Include it
 * beside <crt.h>.
 *
 * Threads: the function may be called from any thread.
 */
#ifndef CRT_PRINTABLE_H
#define CRT_PRINTABLE_H

#include "crt_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Makes a text fit for a terminal, in place: what that would obey instead of showing it (control characters
 * but newlines and tabs, U+0080 to U+009F among them) becomes '?'. Details of failures are made so.
 * Returns `text`. */
CRT_API char *crt_make_printable(char *text);

#ifdef __cplusplus
}
#endif

#endif
