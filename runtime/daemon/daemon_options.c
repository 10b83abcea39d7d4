/* SPDX-License-Identifier: Apache-2.0 */
/* Options of a daemon. See daemon_options.h. */
#include "runtime/daemon/daemon_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define READY_FD "ready-fd"

/* The last one, as far as it can be read. */
static void take_ready_fd(const option_scan_t *scan, int argc, char **argv)
{
    const char *expected;

    for (size_t i = 0; i < scan->count; i++)
        for (int at = 1; at + 1 < argc && strcmp(scan->options[i].name, READY_FD) == 0;
             at++)
            if (strcmp(argv[at], "--" READY_FD) == 0)
                crti_option_take(&scan->options[i], argv[at + 1], &expected);
}

crt_status_t crti_daemon_options(option_scan_t *scan, int argc, char **argv)
{
    crt_status_t status;

    for (size_t i = 0; i < scan->count; i++)
        if (scan->options[i].kind == OPTION_DESCRIPTOR)
            *(int *)scan->options[i].to = -1;
    take_ready_fd(scan, argc, argv);
    status = crti_options_scan(scan, argc, argv);
    if (status == CRT_OK && scan->wants_help) {
        printf("Usage: %s [OPTIONS]\n\nIs started by crt, which gives it its options.\n",
               argv[0]);
        crti_options_print(scan->options, scan->count);
        exit(0);
    }
    if (status == CRT_OK && scan->first_operand < argc)
        return crt_raise(CRT_ERR_INVALID, "unexpected argument %s",
                         argv[scan->first_operand]);
    return status;
}
