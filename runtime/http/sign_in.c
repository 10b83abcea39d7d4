/* SPDX-License-Identifier: Apache-2.0 */
/* One-time codes. See sign_in.h. */
#include "runtime/http/sign_in.h"

#include <string.h>

#include <sodium.h>

#include "runtime/base/limit.h"

void crti_sign_in_make(crti_sign_in_t *self, uint64_t now_ns, const crti_token_t *token,
                       char text[CRTI_SIGN_IN_TEXT])
{
    crti_sign_in_code_t *code = &self->codes[self->next++ % CRTI_SIGN_IN_CODES];
    unsigned char bytes[(CRTI_SIGN_IN_TEXT - 1) / 2];

    randombytes_buf(bytes, sizeof(bytes));
    sodium_bin2hex(code->text, sizeof(code->text), bytes, sizeof(bytes));
    code->end_ns = now_ns + CRTI_LIMIT(http_link_time);
    code->token = *token;
    memcpy(text, code->text, CRTI_SIGN_IN_TEXT);
}

bool crti_sign_in_take(crti_sign_in_t *self, uint64_t now_ns, const char *text,
                       crti_token_t *token_out)
{
    bool is_found = false;

    if (strlen(text) != CRTI_SIGN_IN_TEXT - 1)
        return false;
    /* Each is compared, in a time that does not depend on what they are. */
    for (size_t i = 0; i < CRTI_SIGN_IN_CODES; i++) {
        crti_sign_in_code_t *code = &self->codes[i];

        if (sodium_memcmp(code->text, text, CRTI_SIGN_IN_TEXT) != 0)
            continue;
        is_found = now_ns < code->end_ns;
        *token_out = code->token;
        sodium_memzero(code, sizeof(*code));
    }
    return is_found;
}
