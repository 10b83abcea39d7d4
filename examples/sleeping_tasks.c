/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks that take a while: sleeping_tasks [TASKS [SECONDS]]. As many run at a time as the cluster
 * has CPUs. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <crt_define.h>

CRT_DEFINE_TASK(sleeping, (double, seconds))
{
    struct timespec time = {.tv_sec = (time_t)seconds};

    time.tv_nsec = (long)((seconds - (double)time.tv_sec) * 1e9);
    nanosleep(&time, NULL);
    return crt_return(call, 1);
}

static int driver(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 8;
    double seconds = argc > 2 ? atof(argv[2]) : 5;
    crt_ref_t **refs = calloc((size_t)count, sizeof(crt_ref_t *));

    if (!refs)
        return 1;
    for (int i = 0; i < count; i++)
        refs[i] = sleeping_submit(NULL, seconds);
    for (int i = 0; i < count; i++) {
        int one;

        CRT_CHECK(crt_get(refs[i], &one));
        printf("%s%d", i == 0 ? "[" : ", ", one);
    }
    printf("]\n");
    crt_refs_drop(refs, (size_t)count);
    free(refs);
    return 0;
}

CRT_MAIN(driver)
