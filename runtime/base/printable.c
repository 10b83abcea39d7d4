/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of others on their way to a terminal or a log: users' names and messages, peers' answers.
 *
 * Threads: any; no state.
 */
#include "runtime/base/crt_printable.h"

static bool is_control(unsigned char c)
{
    return (c < ' ' && c != '\n' && c != '\t') || c == 127;
}

char *crt_make_printable(char *text)
{
    for (unsigned char *at = (unsigned char *)text; *at; at++)
        if (is_control(*at)) {
            *at = '?';
        } else if (at[0] == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0) {
            *at++ = '?'; /* U+0080 to U+009F: controls too, U+009B begins as ESC [ does */
            *at = '?';
        }
    return text;
}
