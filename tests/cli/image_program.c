/* SPDX-License-Identifier: Apache-2.0 */
/* What test_environments.py runs in an image: image_program look|stay [NODE].
 *
 * "look" tells what its driver and a task see of the image, the task on the node that has the
 * resource NODE, which gets a value by shared memory and gives one back. "stay" makes an actor, and
 * tells its pid again and again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <crt_define.h>

#define LARGE ((int64_t)1 << 20)

/* The file by which the image is known, and a variable of it. */
static const char *seen(char *text, size_t size)
{
    const char *word = getenv("IMAGE_WORD");
    FILE *file = fopen("/image-name", "re");
    char name[64] = "no image";

    if (file && !fgets(name, sizeof(name), file))
        strcpy(name, "nothing");
    if (file)
        fclose(file);
    name[strcspn(name, "\n")] = '\0';
    snprintf(text, size, "%s, %s, root %s", name, word ? word : "no word",
             access("/", W_OK) == 0 ? "can be written" : "is read-only");
    return text;
}

CRT_DEFINE_TASK(look, (const crt_tensor_t *, large))
{
    char text[256];
    double sum = 0;

    for (int64_t i = 0; i < LARGE; i++)
        sum += ((const double *)large->data)[i];
    printf("task: %s, %.0f\n", seen(text, sizeof(text)), sum);
    return crt_return(call, large);
}

struct sitter {
    int calls;
};

CRT_DEFINE_ACTOR(sitter, struct sitter)
{
    return CRT_OK;
}

CRT_DEFINE_METHOD(sitter, sit)
{
    self->calls++;
    return crt_return(call, (int64_t)getpid());
}

static int look_there(const char *node)
{
    double *values = malloc((size_t)LARGE * sizeof(*values));
    int64_t count = LARGE;
    crt_tensor_t large = crt_tensor_view(CRT_DTYPE_FLOAT64, 1, &count, values);
    const crt_tensor_t *back;
    char resources[64] = "", text[256];
    crt_ref_t *ref;

    for (int64_t i = 0; i < LARGE; i++)
        values[i] = 1;
    if (*node)
        snprintf(resources, sizeof(resources), "%s=1", node);
    ref = look_submit(CRT_TASK_OPTIONS(.resources = resources), &large);
    CRT_CHECK(crt_get(ref, &back));
    printf("driver: %s, %.0f\n", seen(text, sizeof(text)),
           ((const double *)back->data)[LARGE - 1]);
    crt_ref_drop(&ref);
    free(values);
    return 0;
}

static _Noreturn void stay(void)
{
    crt_actor_t *actor =
        sitter_new(CRT_ACTOR_OPTIONS(.num_cpus = 1, .max_restarts = CRT_UNLIMITED,
                                     .max_task_retries = CRT_UNLIMITED));

    for (;;) {
        crt_ref_t *ref = sitter_sit_call(actor, NULL);
        int64_t pid;

        CRT_CHECK(crt_get(ref, &pid));
        printf("worker %lld\n", (long long)pid);
        fflush(stdout);
        crt_ref_drop(&ref);
        usleep(100000);
    }
}

static int driver(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "stay") == 0)
        stay();
    return look_there(argc > 2 ? argv[2] : "");
}

CRT_MAIN(driver)
