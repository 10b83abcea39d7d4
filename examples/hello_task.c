/* SPDX-License-Identifier: Apache-2.0 */
/* A task: a function that runs somewhere in the cluster.
 *
 *     ./hello_task
 */
#include <stdio.h>

#include <crt.h>

/* Runs in a worker process. */
static crt_status_t hello_run(crt_call_t *call)
{
    char text[128];
    const char *name;
    int64_t number;

    CRT_TRY(crt_args(call, &name, &number));
    snprintf(text, sizeof(text), "hello %s, %lld squared is %lld", name,
             (long long)number, (long long)(number * number));
    return crt_return(call, (const char *)text);
}
static const crt_task_t hello =
    CRT_TASK(.name = "hello", .run = hello_run, .signature = "string, int");

/* Runs in the process you started. */
static int driver(int argc, char **argv)
{
    crt_ref_t *refs[4];

    for (int i = 0; i < 4; i++) /* all four are under way at once */
        refs[i] = crt_submit(&hello, NULL, "cluster", i);
    for (int i = 0; i < 4; i++) {
        const char *text;

        CRT_CHECK(crt_get(refs[i], &text));
        printf("%s\n", text);
    }
    crt_refs_drop(refs, 4);
    return 0;
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv, CRT_OPTIONS(.tasks = CRT_TASKS(&hello)), driver);
}
