/* SPDX-License-Identifier: Apache-2.0 */
/* log_program LINES: an actor called "printer" prints so many lines when the program is told to go
 * on, by a line of its input, and ends. */
#include <stdio.h>
#include <stdlib.h>

#include <crt.h>

static crt_status_t print_run(void *self, crt_call_t *call)
{
    int64_t lines;

    CRT_TRY(crt_args(call, &lines));
    for (int64_t i = 1; i <= lines; i++)
        printf("line %lld of a log\n", (long long)i);
    fflush(stdout);
    return CRT_OK;
}
static const crt_method_t print =
    CRT_METHOD(.name = "print", .run = print_run, .signature = "int");
static const crt_actor_class_t printer =
    CRT_ACTOR_CLASS(.name = "Printer", .size = 8, .methods = CRT_METHODS(&print));

static void call(crt_actor_t *actor, int64_t lines)
{
    crt_ref_t *ref = crt_call(actor, &print, lines);

    CRT_CHECK(crt_get(ref, NULL));
    crt_ref_drop(&ref);
}

static int driver(int argc, char **argv)
{
    crt_actor_t *actor = crt_actor_new(&printer, CRT_ACTOR_OPTIONS(.name = "printer"));

    call(actor, 0);
    puts("ready");
    fflush(stdout);
    getchar();
    call(actor, argc > 1 ? atoll(argv[1]) : 1);
    crt_actor_drop(&actor);
    return 0;
}

int main(int argc, char **argv)
{
    return crt_main(
        argc, argv,
        CRT_OPTIONS(.classes = CRT_CLASSES(&printer), .no_log_to_driver = true), driver);
}
