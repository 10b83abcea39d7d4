/* SPDX-License-Identifier: Apache-2.0 */
/* Main: a program's life between crt_init and crt_shutdown. */
#include <stdio.h>

#include "crt_config.h"
#include "runtime/base/copy_struct.h"
#include "runtime/core/client/client.h"
#include "runtime/core/client/ranks.h"
#include "runtime/crt.h"

int crt_main(int argc, char **argv, const crt_options_t *options,
             int (*driver)(int argc, char **argv))
{
    crt_options_t given;
    int count, result;

    if (CRTI_COPY_STRUCT(&given, options, "CRT_OPTIONS") != CRT_OK ||
        crti_ranks_prepare(argc, argv, &given, driver, &count) != CRT_OK ||
        crt_init(argc, argv, &given) != CRT_OK) {
        fprintf(stderr, "crt: %s\n", crt_error_detail());
        return 1;
    }
    result = count ? crti_ranks_run(count) : driver(argc, argv);
    crti_shutdown(&result);
    return result;
}
