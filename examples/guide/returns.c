/* SPDX-License-Identifier: Apache-2.0 */
/* A task with several results. */
#include <stdio.h>

#include <crt.h>

static crt_status_t divide_run(crt_call_t *call)
{
    int a, b;

    CRT_TRY(crt_args(call, &a, &b));
    CRT_TRY(crt_return_at(call, 0, a / b));
    return crt_return_at(call, 1, a % b);
}
static const crt_task_t divide =
    CRT_TASK(.name = "divide", .run = divide_run, .signature = "int, int");

static int driver(int argc, char **argv)
{
    crt_ref_t *refs[2];
    int quotient, rest;

    crt_submit_returns(refs, 2, &divide, NULL, 17, 5);
    CRT_CHECK(crt_get(refs[0], &quotient));
    CRT_CHECK(crt_get(refs[1], &rest));
    printf("17 / 5 is %d, %d is left\n", quotient, rest);
    crt_refs_drop(refs, 2);
    return 0;
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv, CRT_OPTIONS(.tasks = CRT_TASKS(&divide)), driver);
}
