/* SPDX-License-Identifier: Apache-2.0 */
/* A driver that says what it finds by name (test_name_spaces.py).
 *     name_space_program NAMESPACE VERB WORDS...     NAMESPACE of the options, "-": none
 *     make NAME [NAMESPACE]     a detached actor     find NAME [NAMESPACE]   by the driver and by a
 *     task kill NAME [NAMESPACE]     which                                      the line begins
 *     with the name of the status */
#include <stdio.h>
#include <string.h>

#include <crt.h>

static crt_status_t hold_job_run(void *self, crt_call_t *call)
{
    return crt_return(call, crt_namespace());
}
static const crt_method_t hold_job =
    CRT_METHOD(.name = "namespace", .run = hold_job_run, .signature = "");
static const crt_actor_class_t holder =
    CRT_ACTOR_CLASS(.name = "Holder", .methods = CRT_METHODS(&hold_job));

static crt_status_t find_run(crt_call_t *call)
{
    const char *name, *name_space;
    crt_actor_t *found;

    CRT_TRY(crt_args(call, &name, &name_space));
    CRT_TRY(crt_actor_find(
        name, CRT_FIND_OPTIONS(.name_space = *name_space ? name_space : NULL), &holder,
        &found));
    crt_actor_drop(&found);
    return CRT_OK;
}
static const crt_task_t find =
    CRT_TASK(.name = "find", .run = find_run, .signature = "string, string");

static int say(const char *what, crt_status_t status)
{
    printf("%s %s %s\n", what, crt_status_name(status),
           status == CRT_OK ? "" : crt_error_detail());
    return 0;
}

static int make(const char *name, const char *name_space)
{
    crt_actor_t *actor =
        crt_actor_new(&holder, CRT_ACTOR_OPTIONS(.name = name, .name_space = name_space,
                                                 .detached = true));
    crt_ref_t *ref = crt_call(actor, &hold_job);
    const char *job_name_space;
    crt_status_t status = crt_get_for(ref, 60000, &job_name_space);

    if (status == CRT_OK)
        printf("namespace %s\n", job_name_space);
    crt_ref_drop(&ref);
    crt_actor_drop(&actor);
    return say("make", status);
}

static int find_both(const char *name, const char *name_space)
{
    crt_actor_t *found = NULL;
    crt_ref_t *ref = crt_submit(&find, NULL, name, name_space ? name_space : "");

    say("find", crt_actor_find(name, CRT_FIND_OPTIONS(.name_space = name_space), &holder,
                               &found));
    crt_actor_drop(&found);
    say("task", crt_get_for(ref, 60000, NULL));
    crt_ref_drop(&ref);
    return 0;
}

static int end(const char *name, const char *name_space)
{
    crt_actor_t *found = NULL;
    crt_status_t status =
        crt_actor_find(name, CRT_FIND_OPTIONS(.name_space = name_space), NULL, &found);

    if (status == CRT_OK)
        status = crt_actor_kill(found, NULL);
    crt_actor_drop(&found);
    return say("kill", status);
}

static int driver(int argc, char **argv)
{
    const char *name_space = argc > 4 ? argv[4] : NULL;

    if (strcmp(argv[2], "make") == 0)
        return make(argv[3], name_space);
    if (strcmp(argv[2], "find") == 0)
        return find_both(argv[3], name_space);
    return end(argv[3], name_space);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    return crt_main(argc, argv,
                    CRT_OPTIONS(.tasks = CRT_TASKS(&find),
                                .classes = CRT_CLASSES(&holder),
                                .name_space = strcmp(argv[1], "-") ? argv[1] : NULL),
                    driver);
}
