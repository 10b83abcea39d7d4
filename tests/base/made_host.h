/* SPDX-License-Identifier: Apache-2.0 */
/* A host whose files of /proc and /sys the test writes, below a directory of its own. */
#ifndef CRTI_TESTS_BASE_MADE_HOST_H
#define CRTI_TESTS_BASE_MADE_HOST_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char root[64];

/* Makes the directories of the file, too. */
static void put(const char *path, const char *text)
{
    char whole[256];
    FILE *file;

    snprintf(whole, sizeof(whole), "%s%s", root, path);
    for (char *at = whole + strlen(root) + 1; (at = strchr(at, '/')); *at++ = '/') {
        *at = '\0';
        mkdir(whole, 0700);
    }
    file = fopen(whole, "we");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void made_host_begin(void)
{
    snprintf(root, sizeof(root), "/tmp/crt-host-XXXXXX");
    assert_non_null(mkdtemp(root));
}

static int made_host_end(void)
{
    char command[128];

    snprintf(command, sizeof(command), "rm -r %s", root);
    return system(command);
}

#endif
