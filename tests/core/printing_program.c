/* SPDX-License-Identifier: Apache-2.0 */
/* The program of test_printed.py: actors on several nodes print, and the driver prints behind each
 * result.
 *
 *     printing_program ROUNDS ACTORS [hold|same]
 *
 * hold: before the last round of each actor it waits for a line of its standard input; same: all
 * rounds print what the first does.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <crt.h>

/* Every third time on stdout alone, and flushed by the program itself. */
static crt_status_t print_run(void *self, crt_call_t *call)
{
    int64_t round;

    CRT_TRY(crt_args(call, &round));
    printf("first of %lld\n", (long long)round);
    fprintf(round % 3 ? stderr : stdout, "second of %lld\n", (long long)round);
    printf("third of %lld, unfinished", (long long)round);
    if (round % 3 == 0)
        fflush(stdout);
    return crt_return(call, round);
}

static const crt_method_t print =
    CRT_METHOD(.name = "print", .run = print_run, .signature = "int");
static const crt_actor_class_t printer =
    CRT_ACTOR_CLASS(.name = "Printer", .methods = CRT_METHODS(&print));

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int driver(int argc, char **argv)
{
    long rounds = argc > 1 ? atol(argv[1]) : 1, count = argc > 2 ? atol(argv[2]) : 1;
    crt_actor_t **actors = calloc((size_t)count, sizeof(*actors));
    bool holds = argc > 3 && strcmp(argv[3], "hold") == 0;
    bool is_same = argc > 3 && strcmp(argv[3], "same") == 0;
    crt_ref_t *ref;

    for (long i = 0; i < count; i++)
        actors[i] = crt_actor_new(&printer, CRT_ACTOR_OPTIONS(.num_cpus = 1));
    for (long round = 0; round < rounds; round++) {
        double began;
        int64_t got;

        if (holds && round == rounds - count) {
            printf("driver waits\n");
            fflush(stdout);
            (void)getchar();
        }
        began = now_s();
        ref = crt_call(actors[round % count], &print, is_same ? 0 : round);
        if (round % 2) {
            CRT_CHECK(crt_get(ref, &got));
        } else {
            CRT_CHECK(crt_wait(&ref, 1, 1, -1, NULL, NULL));
        }
        printf("driver has %ld after %.3f s\n", round, now_s() - began);
        fflush(stdout);
        crt_ref_drop(&ref);
    }
    for (long i = 0; i < count; i++)
        crt_actor_drop(&actors[i]);
    free(actors);
    return 0;
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv, CRT_OPTIONS(.classes = CRT_CLASSES(&printer)), driver);
}
