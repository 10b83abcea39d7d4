/* SPDX-License-Identifier: Apache-2.0 */
/* The line of a daemon to its starter. See ready.h. */
#include "runtime/daemon/ready.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void crti_ready_add(char *line, size_t size, const char *key, const char *value)
{
    size_t used = strlen(line), before = used;

    used += (size_t)snprintf(line + used, size - used, " %s ", key);
    for (; *value && used + 4 < size; value++)
        used += (size_t)snprintf(line + used, size - used,
                                 (unsigned char)*value <= ' ' || *value == '%' ? "%%%02x"
                                                                               : "%c",
                                 (unsigned char)*value);
    if (*value || used + 1 >= size)
        line[before] = '\0';
}

/* The byte at `*text`, which it leaves behind; a zero at the end of the value. */
static char next_byte(const char **text)
{
    char hex[3] = {0};

    if (**text == ' ' || **text == '\n' || !**text)
        return 0;
    if (**text != '%' || !isxdigit((unsigned char)(*text)[1]) ||
        !isxdigit((unsigned char)(*text)[2]))
        return *(*text)++;
    memcpy(hex, *text + 1, 2);
    *text += 3;
    return (char)strtol(hex, NULL, 16);
}

const char *crti_ready_get(const char *line, const char *key, char *value, size_t size)
{
    size_t length = strlen(key), used = 0;

    for (const char *at = strchr(line, ' '); at; at = strchr(at + 1, ' ')) {
        const char *text = at + 2 + length;

        if (strncmp(at + 1, key, length) != 0 || at[1 + length] != ' ')
            continue;
        while (used < size - 1 && (value[used] = next_byte(&text)))
            used++;
        if (used == size - 1 && next_byte(&text))
            used = 0; /* a part of a path is another path */
        break;
    }
    value[used] = '\0';
    return value;
}

void crti_ready_tell(int *fd, const char *line)
{
    if (*fd < 0)
        return;
    (void)!write(*fd, line, strlen(line)); /* a starter that is gone is told nothing */
    close(*fd);
    *fd = -1;
}

void crti_ready_fail(int *fd, const char *text)
{
    char line[1300];

    snprintf(line, sizeof(line), "error %.1280s\n", text);
    crti_ready_tell(fd, line);
}
