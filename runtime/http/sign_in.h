/* SPDX-License-Identifier: Apache-2.0 */
/* Sign-in: the codes by which a browser becomes a client of crt-http. A link bears one instead of a
 * token: links stay in histories and on screens.
 *
 * Where it sits
 *     http/endpoints.c (an owner asks for a code, a page shows it) -> [ http/sign_in.c ]
 * Rules
 *     A code is good once, for http_link_time, and never longer than the token that it was
 *     asked for with. The newest CRTI_SIGN_IN_CODES are kept, in memory only: with crt-http they
 *     go.
 * Threads: the loop's.
 */
#ifndef CRTI_HTTP_SIGN_IN_H
#define CRTI_HTTP_SIGN_IN_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/net/token.h"

#define CRTI_SIGN_IN_CODES 16
#define CRTI_SIGN_IN_TEXT  33 /* bytes of a code as text, with the final zero */

typedef struct crti_sign_in_code {
    char text[CRTI_SIGN_IN_TEXT]; /* "": none */
    uint64_t end_ns;
    crti_token_t token; /* of who asked for it */
} crti_sign_in_code_t;

typedef struct crti_sign_in {
    crti_sign_in_code_t codes[CRTI_SIGN_IN_CODES];
    unsigned next; /* that is written */
} crti_sign_in_t;

/* A new code for who has `token`. */
void crti_sign_in_make(crti_sign_in_t *self, uint64_t now_ns, const crti_token_t *token,
                       char text[CRTI_SIGN_IN_TEXT]);

/* False: `text` is no code, or is one no more. It is none from now on; whether the token is good
 * still is the caller's to judge. */
bool crti_sign_in_take(crti_sign_in_t *self, uint64_t now_ns, const char *text,
                       crti_token_t *token_out);

#endif
