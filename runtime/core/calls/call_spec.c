/* SPDX-License-Identifier: Apache-2.0 */
/* Call specifications. See call_spec.h. Tier: message path. */
#include "runtime/core/calls/call_spec.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/core/calls/call_options.h"

#define FEW (sizeof(((crti_call_spec_t *)0)->few_pins) / sizeof(crt_ref_t *))

crt_status_t crti_call_spec_pin(crti_call_spec_t *s, crt_ref_t *ref)
{
    if (!s->pins) {
        s->pins = s->few_pins;
        s->pin_room = FEW;
    }
    if (s->pin_count == s->pin_room) {
        crt_ref_t **grown = malloc((size_t)s->pin_room * 4 * sizeof(*grown));

        if (!grown)
            return crt_raise(CRT_ERR_NO_MEMORY, "%u refs of a call", s->pin_count);
        memcpy(grown, s->pins, s->pin_count * sizeof(*grown));
        if (s->pins != s->few_pins)
            free(s->pins);
        s->pins = grown;
        s->pin_room *= 4;
    }
    crti_ref_pin(ref);
    s->pins[s->pin_count++] = ref;
    return CRT_OK;
}

bool crti_call_spec_take_pins(crti_call_spec_t *s, crt_ref_t *const *pins, uint32_t count)
{
    if (count == 0)
        return true;
    s->pins = s->few_pins;
    s->pin_room = FEW;
    if (count > s->pin_room) {
        s->pins = malloc(count * sizeof(*pins));
        s->pin_room = count;
    }
    if (!s->pins)
        return false;
    memcpy(s->pins, pins, count * sizeof(*pins));
    s->pin_count = count;
    return true;
}

void crti_call_spec_end(crti_call_spec_t *s)
{
    if (s->options)
        crti_call_options_free(CRTI_TAKE(s->options));
    for (uint32_t i = 0; i < s->pin_count; i++)
        crti_ref_unpin(s->pins[i]);
}
