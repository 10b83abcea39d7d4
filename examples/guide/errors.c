/* SPDX-License-Identifier: Apache-2.0 */
/* What a caller learns of a call that fails, and of a worker that dies. */
#include <math.h>
#include <signal.h>
#include <stdio.h>

#include <crt.h>

static crt_status_t root_run(crt_call_t *call)
{
    double x;

    CRT_TRY(crt_args(call, &x));
    if (x < 0)
        return crt_fail(call, CRT_ERR_USER, "%g has no root", x);
    return crt_return(call, sqrt(x));
}
static const crt_task_t root =
    CRT_TASK(.name = "root", .run = root_run, .signature = "float");

static crt_status_t die_run(crt_call_t *call)
{
    raise(SIGKILL);
    return CRT_OK;
}
static const crt_task_t die = CRT_TASK(.name = "die", .run = die_run, .signature = "");

static int driver(int argc, char **argv)
{
    crt_ref_t *refs[3];
    double x;

    refs[0] = crt_submit(&root, NULL, -4);
    refs[1] = crt_submit(&root, NULL, refs[0]); /* of a value that never comes */
    refs[2] = crt_submit(&die, CRT_TASK_OPTIONS(.max_attempts = 2)); /* it runs twice */
    for (int i = 0; i < 2; i++)
        if (crt_get(refs[i], &x) != CRT_OK)
            printf("%s: %s\n", crt_ref_error(refs[i])->method,
                   crt_ref_error(refs[i])->text);
    printf("%s: %s\n", "die", crt_status_name(crt_get(refs[2], NULL)));
    crt_refs_drop(refs, 3);
    return 0;
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv, CRT_OPTIONS(.tasks = CRT_TASKS(&root, &die)), driver);
}
