/* SPDX-License-Identifier: Apache-2.0 */
/* Main: a program's life between crt_init and crt_shutdown. */
#include <stdio.h>

#include "crt_config.h"
#include "runtime/base/copy_struct.h"
#include "runtime/core/client/client.h"
#include "runtime/core/client/context_start.h"
#include "runtime/core/client/ranks.h"
#include "runtime/crt.h"

/* Before the ranks are prepared: a program may go on elsewhere, as itself. */
static crt_status_t prepare(int argc, char **argv, const crt_options_t *options,
                            int (*driver)(int argc, char **argv), crt_options_t *given,
                            int *count_out)
{
    CRT_TRY(CRTI_COPY_STRUCT(given, options, "CRT_OPTIONS"));
    if (given->cluster)
        CRT_TRY(crti_context_of_options(argc, argv, given));
    CRT_TRY(crti_ranks_prepare(argc, argv, given, driver, count_out));
    return crt_init(argc, argv, given);
}

int crt_main(int argc, char **argv, const crt_options_t *options,
             int (*driver)(int argc, char **argv))
{
    bool has_context = crti_context_runs();
    crt_options_t given;
    int count = 0, result;

    if (prepare(argc, argv, options, driver, &given, &count) != CRT_OK) {
        fprintf(stderr, "crt: %s\n", crt_error_detail());
        result = 1;
    } else {
        result = count ? crti_ranks_run(count) : driver(argc, argv);
        crti_shutdown(&result);
    }
    if (!has_context && crti_context_runs())
        (void)crti_context_end();
    return result;
}

crt_status_t crt_context_stop(void)
{
    crt_status_t status = crt_shutdown();

    if (status != CRT_OK && status != CRT_ERR_NOT_INITIALIZED)
        return status;
    return crti_context_end();
}
