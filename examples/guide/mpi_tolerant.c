/* SPDX-License-Identifier: Apache-2.0 */
/* A group that goes on when a rank dies. MPI ends here; so would a program of ranks, therefore
 * these are actors. */
#include <stdio.h>
#include <unistd.h>

#include <crt_collective.h>

struct member {
    crt_group_t *group;
};

static void destroy(void *self)
{
    struct member *m = self;

    crt_group_drop(&m->group);
}

static crt_status_t join_run(void *self, crt_call_t *call)
{
    struct member *m = self;
    int size, rank;

    CRT_TRY(crt_args(call, &size, &rank));
    return crt_group_join(size, rank, NULL, &m->group);
}
static const crt_method_t join =
    CRT_METHOD(.name = "join", .run = join_run, .signature = "int, int");

static crt_status_t sum_run(void *self, crt_call_t *call)
{
    struct member *m = self;
    float sum = 1;
    crt_tensor_t view = crt_tensor_floats(&sum, 1);
    crt_status_t status = crt_group_allreduce(m->group, &view, &view, CRT_REDUCE_SUM);

    if (status == CRT_ERR_ACTOR_DIED) { /* the survivors go on alone, and try again */
        CRT_TRY(crt_group_rebuild(m->group, 0));
        sum = 1;
        status = crt_group_allreduce(m->group, &view, &view, CRT_REDUCE_SUM);
    }
    return status == CRT_OK ? crt_return(call, (double)sum) : status;
}
static const crt_method_t sum =
    CRT_METHOD(.name = "sum", .run = sum_run, .signature = "");

static crt_status_t die_run(void *self, crt_call_t *call)
{
    _exit(1);
}
static const crt_method_t die =
    CRT_METHOD(.name = "die", .run = die_run, .signature = "");

static const crt_actor_class_t member =
    CRT_ACTOR_CLASS(.name = "Member", .size = sizeof(struct member), .destroy = destroy,
                    .methods = CRT_METHODS(&join, &sum, &die));

static int driver(int argc, char **argv)
{
    crt_actor_t *members[3];
    crt_ref_t *refs[3];
    double total;

    for (int i = 0; i < 3; i++) {
        members[i] = crt_actor_new(&member, NULL);
        refs[i] = crt_call(members[i], &join, 3, i);
    }
    for (int i = 0; i < 3; i++)
        CRT_CHECK(crt_get(refs[i], NULL));
    crt_refs_drop(refs, 3);
    refs[2] = crt_call(members[2], &die);
    for (int i = 0; i < 2; i++)
        refs[i] = crt_call(members[i], &sum);
    for (int i = 0; i < 2; i++) {
        CRT_CHECK(crt_get(refs[i], &total));
        printf("member %d: the sum of the living is %g\n", i, total);
    }
    crt_refs_drop(refs, 3);
    for (int i = 0; i < 3; i++)
        crt_actor_drop(&members[i]);
    return 0;
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv, CRT_OPTIONS(.classes = CRT_CLASSES(&member)), driver);
}
