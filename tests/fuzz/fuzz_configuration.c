/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: configurations (ml/configuration_*.c). An input is a text, and behind a byte of zero
 * an override. What could be resolved is printed, and what was printed can be read and is the
 * same. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "crt_configuration.h"

static char *printed(const char *text, size_t size, const char *override)
{
    crt_configuration_t *c;
    char *again = NULL;

    if (crt_configuration_parse("fuzz.cfg", text, size, &c) != CRT_OK)
        return NULL;
    if (override)
        crt_configuration_override(c, override);
    if (crt_configuration_resolve(c) == CRT_OK &&
        crt_configuration_text(c, &again) != CRT_OK)
        abort();
    crt_configuration_drop(&c);
    return again;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *zero = memchr(data, '\0', size);
    size_t length = zero ? (size_t)(zero - data) : size;
    char *override = zero ? strndup((const char *)zero + 1, size - length - 1) : NULL;
    char *first = printed((const char *)data, length, override);

    if (first) {
        char *second = printed(first, strlen(first), NULL);

        if (!second || strcmp(first, second) != 0)
            abort();
        free(second);
    }
    free(first);
    free(override);
    return 0;
}

size_t fuzz_seed(unsigned index, uint8_t *out, size_t room)
{
    static const char *const seeds[] = {
        ("[a]\nx = 1\ny = \"${a.x}/z\"\nlist = [${a.x},\n  2]\n[a.b]\nc = ${a:x}\n"
         "[d]\ne = ${a}\nf = null\nmoney = \"$$\"\n\0--a.x=5"),
        "[model]\n@layers = \"relu.v1\"\nrate = 0.25\n[ref]\nmodel = ${model}\n",
        "[a]\nx = ${b}\n[b]\ny = ${c}\n[c]\nz = \"${a.w}\"\nv = {\"k\": [true]}\n",
    };
    size_t size;

    if (index >= sizeof(seeds) / sizeof(seeds[0]))
        return 0;
    size = index == 0 ? strlen(seeds[0]) + 1 + strlen(seeds[0] + strlen(seeds[0]) + 1)
                      : strlen(seeds[index]);
    if (size > room)
        abort();
    memcpy(out, seeds[index], size);
    return size;
}
