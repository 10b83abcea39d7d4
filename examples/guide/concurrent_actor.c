/* SPDX-License-Identifier: Apache-2.0 */
/* An actor that is reached while it works. */
#include <pthread.h>
#include <stdio.h>

#include <crt.h>

struct job {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool may_end; /* covered by `lock` */
};

static crt_status_t create(void *self, crt_call_t *call)
{
    struct job *j = self;

    pthread_mutex_init(&j->lock, NULL);
    pthread_cond_init(&j->changed, NULL);
    return CRT_OK;
}

static crt_status_t work_run(void *self, crt_call_t *call)
{
    struct job *j = self;

    pthread_mutex_lock(&j->lock);
    while (!j->may_end)
        pthread_cond_wait(&j->changed, &j->lock);
    pthread_mutex_unlock(&j->lock);
    return crt_return(call, "done");
}
static const crt_method_t work =
    CRT_METHOD(.name = "work", .run = work_run, .signature = "");

static crt_status_t end_run(void *self, crt_call_t *call)
{
    struct job *j = self;

    pthread_mutex_lock(&j->lock);
    j->may_end = true;
    pthread_cond_broadcast(&j->changed);
    pthread_mutex_unlock(&j->lock);
    return crt_return(call, "told");
}
static const crt_method_t end =
    CRT_METHOD(.name = "end", .run = end_run, .signature = "");

/* `end` has a thread of its own, however many calls of `work` run. */
static const crt_concurrency_group_t control =
    CRT_CONCURRENCY_GROUP(.name = "control", .max_concurrency = 1,
                          .methods = CRT_METHODS(&end));
static const crt_actor_class_t job =
    CRT_ACTOR_CLASS(.name = "Job", .size = sizeof(struct job), .create = create,
                    .signature = "", .methods = CRT_METHODS(&work, &end),
                    .concurrency_groups = CRT_CONCURRENCY_GROUPS(&control));

static int driver(int argc, char **argv)
{
    crt_actor_t *actor = crt_actor_new(&job, CRT_ACTOR_OPTIONS(.max_concurrency = 2));
    crt_ref_t *refs[3] = {crt_call(actor, &work), crt_call(actor, &work),
                          crt_call(actor, &end)};
    const char *text;

    for (int i = 2; i >= 0; i--) {
        CRT_CHECK(crt_get(refs[i], &text));
        printf("%s\n", text);
    }
    crt_refs_drop(refs, 3);
    crt_actor_drop(&actor);
    return 0;
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv, CRT_OPTIONS(.classes = CRT_CLASSES(&job)), driver);
}
