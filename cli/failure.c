/* SPDX-License-Identifier: Apache-2.0 */
/* Failures of a command. See failure.h. */
#include "cli/failure.h"

#include <stdarg.h>
#include <stdio.h>

int crti_cli_fail(const char *command, const char *format, ...)
{
    va_list args;

    fprintf(stderr, "%s: ", command);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    return CLI_FAILED;
}

int crti_cli_fail_detail(const char *command)
{
    return crti_cli_fail(command, "%s", crt_error_detail());
}
