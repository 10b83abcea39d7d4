/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in for NVML. FAKE_NVML has a name for each GPU, with '|' between them: "/" before one
 * that MIG divides, "!" before one that this user may not use. Where it is not set there is no
 * driver. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS, NOT_SUPPORTED = 3, NO_PERMISSION = 4, TOO_SMALL = 7, NO_DRIVER = 9 };

/* As NVML declares them, a device being a number here. */
int nvmlInit_v2(void);
int nvmlShutdown(void);
const char *nvmlErrorString(int code);
int nvmlDeviceGetCount_v2(unsigned *count_out);
int nvmlDeviceGetHandleByIndex_v2(unsigned number, size_t *device_out);
int nvmlDeviceGetName(size_t device, char *text, unsigned size);
int nvmlDeviceGetUUID(size_t device, char *text, unsigned size);
int nvmlDeviceGetMigMode(size_t device, unsigned *now_out, unsigned *after_reset_out);

static int users; /* between init and shutdown */

/* Where the entry of a GPU begins; NULL: there is no such GPU. */
static const char *entry(unsigned number)
{
    const char *at = getenv("FAKE_NVML");

    for (; at && number > 0; number--) {
        at = strchr(at, '|');
        at += at != NULL;
    }
    return at;
}

int nvmlInit_v2(void)
{
    users += entry(0) != NULL;
    return entry(0) ? SUCCESS : NO_DRIVER;
}

int nvmlShutdown(void)
{
    users--;
    return SUCCESS;
}

const char *nvmlErrorString(int code)
{
    return code == NO_DRIVER ? "Driver Not Loaded" : "Unknown Error";
}

int nvmlDeviceGetCount_v2(unsigned *count_out)
{
    if (users != 1)
        abort();
    for (*count_out = 0; entry(*count_out);)
        (*count_out)++;
    return SUCCESS;
}

/* A device is its number, from 1. */
int nvmlDeviceGetHandleByIndex_v2(unsigned number, size_t *device_out)
{
    *device_out = number + 1;
    return *entry(number) == '!' ? NO_PERMISSION : SUCCESS;
}

int nvmlDeviceGetName(size_t device, char *text, unsigned size)
{
    const char *name = entry((unsigned)device - 1);
    size_t length;

    name += *name == '/';
    length = strcspn(name, "|");
    if (length >= size)
        return TOO_SMALL;
    memcpy(text, name, length);
    text[length] = '\0';
    return SUCCESS;
}

int nvmlDeviceGetUUID(size_t device, char *text, unsigned size)
{
    snprintf(text, size, "GPU-%08zx-aaaa-bbbb-cccc-%012zx", device - 1, device - 1);
    return SUCCESS;
}

int nvmlDeviceGetMigMode(size_t device, unsigned *now_out, unsigned *after_reset_out)
{
    *now_out = *after_reset_out = 1;
    return *entry((unsigned)device - 1) == '/' ? SUCCESS : NOT_SUPPORTED;
}
