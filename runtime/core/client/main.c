/* SPDX-License-Identifier: Apache-2.0 */
/* Main: a program's life between crt_init and crt_shutdown. */
#include <stdio.h>

#include "crt_config.h"
#include "runtime/core/client/client.h"
#include "runtime/core/core.h"
#include "runtime/crt.h"

int crt_main(int argc, char **argv, const crt_options_t *options,
             int (*driver)(int argc, char **argv))
{
    int result;

    if (crt_init(argc, argv, options) != CRT_OK) {
        fprintf(stderr, "crt: %s\n", crt_error_detail());
        return 1;
    }
    result = driver(argc, argv);
    crti_shutdown(&result);
    return result;
}
