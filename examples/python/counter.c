/* SPDX-License-Identifier: Apache-2.0 */
/* An actor class in C for programs in other languages: a shared object that they load. Its methods
 * run without an interpreter. */
#include <crt.h>

struct counter {
    int64_t sum;
};

static crt_status_t add_run(void *self, crt_call_t *call)
{
    struct counter *counter = self;
    int64_t amount;

    CRT_TRY(crt_args(call, &amount));
    counter->sum += amount;
    return crt_return(call, counter->sum);
}

CRT_API extern const crt_method_t counter_add;
const crt_method_t counter_add =
    CRT_METHOD(.name = "add", .run = add_run, .signature = "int");

CRT_API extern const crt_actor_class_t counter_class;
const crt_actor_class_t counter_class =
    CRT_ACTOR_CLASS(.name = "Counter", .size = sizeof(struct counter),
                    .methods = CRT_METHODS(&counter_add));
