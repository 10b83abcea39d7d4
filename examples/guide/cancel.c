/* SPDX-License-Identifier: Apache-2.0 */
/* A call that is cancelled while it runs. */
#include <sched.h>
#include <stdio.h>

#include <crt.h>

static crt_status_t search_run(crt_call_t *call)
{
    while (!crt_cancelled(call))
        sched_yield(); /* a piece of the work */
    return CRT_OK;
}
static const crt_task_t search =
    CRT_TASK(.name = "search", .run = search_run, .signature = "");

static int driver(int argc, char **argv)
{
    crt_ref_t *ref = crt_submit(&search, NULL);

    CRT_CHECK(crt_cancel(ref, NULL));
    printf("the search: %s\n", crt_status_name(crt_get(ref, NULL)));
    printf("once more: %s\n", crt_status_name(crt_cancel(ref, NULL)));
    crt_ref_drop(&ref);
    return 0;
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv, CRT_OPTIONS(.tasks = CRT_TASKS(&search)), driver);
}
