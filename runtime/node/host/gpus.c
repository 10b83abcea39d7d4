/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs. See gpus.h. */
#include "runtime/node/host/gpus.h"

#include <ctype.h>
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define PREFIX "nvidia"

/* CUDA takes numbers and UUIDs; "-1" and "NoDevFiles" hide all that follow. */
static bool is_device(const char *name, size_t length)
{
    if (length == 0 || length >= CRTI_GPU_NAME)
        return false;
    if (length > 4 && (strncmp(name, "GPU-", 4) == 0 || strncmp(name, "MIG-", 4) == 0)) {
        for (size_t i = 4; i < length; i++)
            if (!isalnum((unsigned char)name[i]) && strchr("-/", name[i]) == NULL)
                return false;
        return true;
    }
    for (size_t i = 0; i < length; i++)
        if (!isdigit((unsigned char)name[i]))
            return false;
    return true;
}

static bool has(const crti_gpus_t *gpus, const char *name, size_t length)
{
    for (unsigned i = 0; i < gpus->count; i++)
        if (strlen(gpus->name[i]) == length && memcmp(gpus->name[i], name, length) == 0)
            return true;
    return false;
}

static void take_visible(const char *visible, crti_gpus_t *gpus)
{
    while (*visible && gpus->count < CRTI_GPU_NAMES) {
        size_t length = strcspn(visible, ","), skip = strspn(visible, " ");

        skip = skip < length ? skip : 0;
        if (!is_device(visible + skip, length - skip) ||
            has(gpus, visible + skip, length - skip))
            return;
        memcpy(gpus->name[gpus->count++], visible + skip, length - skip);
        visible += length + (visible[length] == ',');
    }
}

/* In a container the files may be any; CUDA counts from 0. */
static unsigned count_files(const char *root)
{
    char path[300];
    const struct dirent *entry;
    unsigned count = 0;
    DIR *directory;

    snprintf(path, sizeof(path), "%s/dev", root);
    directory = opendir(path);
    if (directory == NULL)
        return 0;
    while ((entry = readdir(directory))) {
        const char *number = entry->d_name + strlen(PREFIX);

        if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) == 0 && *number &&
            strspn(number, "0123456789") == strlen(number))
            count++;
    }
    closedir(directory);
    return count;
}

static bool is_whole(const crti_nvml_gpu_t *gpu)
{
    return *gpu->uuid && !gpu->is_divided;
}

static void take_whole(const crti_nvml_t *nvml, crti_gpus_t *gpus)
{
    unsigned whole = 0;

    for (unsigned i = 0; i < nvml->count; i++)
        whole += is_whole(&nvml->gpu[i]);
    if (whole == nvml->count) {
        crti_gpus_set_count(gpus, whole);
        return;
    }
    for (unsigned i = 0; i < nvml->count; i++)
        if (is_whole(&nvml->gpu[i]))
            memcpy(gpus->name[gpus->count++], nvml->gpu[i].uuid, CRTI_GPU_NAME);
}

void crti_gpus_find(const char *visible, const char *root, const crti_nvml_t *nvml,
                    crti_gpus_t *gpus_out)
{
    *gpus_out = (crti_gpus_t){.count = 0};
    if (visible)
        take_visible(visible, gpus_out);
    else if (nvml)
        take_whole(nvml, gpus_out);
    else
        crti_gpus_set_count(gpus_out, count_files(root));
}

/* By number, or by UUID, which CUDA lets shorten. */
static bool is_called(const crti_nvml_gpu_t *gpu, unsigned number, const char *name)
{
    char digits[16];

    snprintf(digits, sizeof(digits), "%u", number);
    return strcmp(name, digits) == 0 ||
           (strncmp(name, "GPU-", 4) == 0 && strncmp(gpu->uuid, name, strlen(name)) == 0);
}

/* "NVIDIA H100 80GB HBM3", "Tesla V100-SXM2-16GB", "NVIDIA GeForce RTX 3090": behind the makers'
 * names the first word is the kind where it has a digit, otherwise all of them are. */
static void make_type(const char *name, char *type)
{
    static const char *const makers[] = {"NVIDIA ", "Tesla ", "GRID "};
    size_t word, length = 0;

    for (size_t i = 0; i < sizeof(makers) / sizeof(makers[0]); i++)
        if (strncmp(name, makers[i], strlen(makers[i])) == 0)
            name += strlen(makers[i]);
    word = strcspn(name, " -");
    if (strcspn(name, "0123456789") > word)
        word = strlen(name);
    for (size_t i = 0; i < word && length + 1 < CRTI_GPU_TYPE; i++)
        type[length++] =
            (char)(isalnum((unsigned char)name[i]) || strchr("._-/", name[i]) ? name[i]
                                                                              : '-');
    type[length] = '\0';
}

const char *crti_gpus_type(const crti_gpus_t *gpus, const crti_nvml_t *nvml, char *type)
{
    const crti_nvml_gpu_t *found = NULL;

    for (unsigned i = 0; i < nvml->count; i++) {
        bool is_first = gpus->count && is_called(&nvml->gpu[i], i, gpus->name[0]);

        if (*nvml->gpu[i].name && (is_first || !found))
            found = &nvml->gpu[i];
        if (is_first)
            break;
    }
    make_type(found ? found->name : "", type);
    return type;
}

void crti_gpus_set_count(crti_gpus_t *gpus, unsigned count)
{
    unsigned number = 0;

    if (count < gpus->count) {
        memset(gpus->name[count], 0, sizeof(gpus->name[0]) * (gpus->count - count));
        gpus->count = count;
    }
    while (gpus->count < count && gpus->count < CRTI_GPU_NAMES) {
        char name[16];

        snprintf(name, sizeof(name), "%u", number++);
        if (!has(gpus, name, strlen(name)))
            memcpy(gpus->name[gpus->count++], name, sizeof(name));
    }
}

const char *crti_gpus_format(const crti_gpus_t *gpus, uint64_t set, char *text)
{
    size_t used = 0;

    *text = '\0';
    for (unsigned i = 0; i < gpus->count; i++)
        if (set >> i & 1)
            used += (size_t)snprintf(text + used, CRTI_GPU_TEXT - used, "%s%s",
                                     used ? "," : "", gpus->name[i]);
    return text;
}
