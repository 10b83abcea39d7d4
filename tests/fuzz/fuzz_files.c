/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: small files that others may have written: the cluster key (net/key.c), and the info
 * files of run directories (base/rundir.c). */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/rundir.h"
#include "runtime/net/key.h"

static char path[] = "/tmp/crt-fuzz-XXXXXX";

static void remove_file(void)
{
    unlink(path);
}

/* One file for all inputs, removed at the end. */
static void write_file(const uint8_t *data, size_t size)
{
    static int fd = -1;

    if (fd < 0) {
        fd = mkstemp(path);
        atexit(remove_file);
    }
    if (fd < 0 || ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const keys[] = {"pid", "address", "start", "", "no such"};
    CRTI_AUTO(free) char *text = NULL;
    char value[64], hex[2 * CRTI_KEY_SIZE + 1];
    crti_key_t key;

    write_file(data, size);
    if (crti_key_load(path, &key) == CRT_OK) {
        for (int i = 0; i < CRTI_KEY_SIZE; i++)
            snprintf(hex + 2 * i, 3, "%02x", key.bytes[i]);
        if (size < sizeof(hex) - 1)
            abort(); /* a key out of fewer digits */
    }
    if (crti_info_read(path, &text) != CRT_OK)
        return 0;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (strlen(crti_info_get(text, keys[i], value, sizeof(value))) >= sizeof(value))
            abort();
    return 0;
}

size_t fuzz_seed(unsigned index, uint8_t *out, size_t room)
{
    static const char *const files[] = {
        "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n",
        "pid 4711\nstart 123456\naddress 127.0.0.1:6379\nprivate 0\n",
    };

    if (index >= sizeof(files) / sizeof(files[0]))
        return 0;
    memcpy(out, files[index], strlen(files[index]));
    return strlen(files[index]);
}
