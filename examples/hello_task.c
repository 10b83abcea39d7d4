/* SPDX-License-Identifier: Apache-2.0 */
/* A task: a function that runs somewhere in the cluster.
 *
 *     ./hello_task
 */
#include <stdio.h>

#include <crt_define.h>

/* Runs in a worker process. */
CRT_DEFINE_TASK(hello, (const char *, name), (int64_t, number))
{
    char text[128];

    snprintf(text, sizeof(text), "hello %s, %lld squared is %lld", name,
             (long long)number, (long long)(number * number));
    return crt_return(call, text);
}

/* Runs in the process you started. */
static int driver(int argc, char **argv)
{
    crt_ref_t *refs[4];

    for (int i = 0; i < 4; i++) /* all four are under way at once */
        refs[i] = hello_submit(NULL, "cluster", i);
    for (int i = 0; i < 4; i++) {
        const char *text;

        CRT_CHECK(crt_get(refs[i], &text));
        printf("%s\n", text);
    }
    crt_refs_drop(refs, 4);
    return 0;
}

CRT_MAIN(driver)
