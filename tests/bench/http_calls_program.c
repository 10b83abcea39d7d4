/* SPDX-License-Identifier: Apache-2.0 */
/* The actor of http_calls.py and strangers.py: adds two numbers, or sums a tensor. Prints "pid N"
 * of its worker; ends with its standard input. */
#include <stdio.h>
#include <unistd.h>

#include "crt.h"

static crt_status_t add_run(void *self, crt_call_t *call)
{
    int64_t a, b;

    CRT_TRY(crt_args(call, &a, &b));
    return crt_return(call, a + b);
}

static crt_status_t predict_run(void *self, crt_call_t *call)
{
    const crt_tensor_t *tensor;
    double sum = 0;

    CRT_TRY(crt_args(call, &tensor));
    for (size_t i = 0; i < crt_tensor_count(tensor); i++)
        sum += (double)((const float *)tensor->data)[i];
    return crt_return(call, sum);
}

static crt_status_t pid_run(void *self, crt_call_t *call)
{
    return crt_return(call, (int64_t)getpid());
}

static const crt_method_t add =
    CRT_METHOD(.name = "add", .run = add_run, .signature = "int, int", .http = true);
static const crt_method_t predict = CRT_METHOD(.name = "predict", .run = predict_run,
                                               .signature = "tensor", .http = true);
static const crt_method_t predict_for_all =
    CRT_METHOD(.name = "predict_for_all", .run = predict_run, .signature = "tensor",
               .http_public = true);
static const crt_method_t pid =
    CRT_METHOD(.name = "pid", .run = pid_run, .signature = "");
static const crt_actor_class_t server =
    CRT_ACTOR_CLASS(.name = "Server", .size = 1,
                    .methods = CRT_METHODS(&add, &predict, &predict_for_all, &pid));

static int driver(int argc, char **argv)
{
    crt_actor_t *actor = crt_actor_new(&server, CRT_ACTOR_OPTIONS(.name = "server"));
    crt_ref_t *ref = crt_call(actor, &pid);
    int64_t worker;

    CRT_CHECK(crt_get(ref, &worker));
    crt_ref_drop(&ref);
    printf("pid %lld\n", (long long)worker);
    fflush(stdout);
    while (getchar() != EOF)
        continue;
    crt_actor_drop(&actor);
    return 0;
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv,
                    CRT_OPTIONS(.classes = CRT_CLASSES(&server), .name_space = "bench"),
                    driver);
}
