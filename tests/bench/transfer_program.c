/* SPDX-License-Identifier: Apache-2.0 */
/* The program that transfer.py runs on its hosts: objects that one host made are read on others.
 *
 *     transfer_program --bytes N [--objects K] [--readers R] [--in-turns] [--tell] [--may-fail F]
 *
 * The cluster's nodes have resources host0 (where the objects are made), host1, ... (readers). All
 * readers are called with all objects at once; the time is from the first call to the last object
 * readable. Each reader then checks every word. Prints one line of JSON. For tests: the readers
 * read in turns, each when the one before it has the object, or it is told which one has it; and so
 * many of them may fail.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <crt.h>

#include "options.h"

#define READERS_MAX 64
#define OBJECTS_MAX 4096

static long bytes = 1 << 20, objects = 1, readers = 1, may_fail = 0, failed = 0;
static bool in_turns, tell;

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t); /* one machine, one clock */
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* What word `at` of object `number` is. */
static uint64_t word(uint64_t number, uint64_t at)
{
    return (at + 1) * 0x9e3779b97f4a7c15u ^ number << 48;
}

/* ---------------------------------------------------------------- actors */

/* (number, bytes) -> object */
static crt_status_t make_run(void *self, crt_call_t *call)
{
    uint64_t number, size;
    crt_object_t *object;
    crt_tensor_t view;
    int64_t shape;

    CRT_TRY(crt_args(call, &number, &size));
    shape = (int64_t)(size / 8);
    CRT_TRY(crt_object_create(CRT_DTYPE_INT64, 1, &shape, &object, &view));
    for (uint64_t i = 0; i < size / 8; i++)
        ((uint64_t *)view.data)[i] = word(number, i);
    return crt_return(call, object);
}

/* (tensor, ...) -> when all were readable. Arguments come before the method runs, all at once. */
static crt_status_t read_run(void *self, crt_call_t *call)
{
    double readable = now_s();
    uint64_t wrong = 0;

    for (size_t number = 0; number < crt_arg_count(call); number++) {
        const crt_tensor_t *values;

        CRT_TRY(crt_arg_at(call, number, &values));
        for (uint64_t i = 0; i < crt_tensor_count(values); i++)
            wrong += ((const uint64_t *)values->data)[i] != word(number, i);
        if (wrong)
            return crt_fail(call, CRT_ERR_CORRUPT, "%llu words of object %zu are wrong",
                            (unsigned long long)wrong, number);
    }
    return crt_return(call, readable);
}

/* (tensor): it came here. */
static crt_status_t touch_run(void *self, crt_call_t *call)
{
    return CRT_OK;
}

static const crt_method_t touch =
    CRT_METHOD(.name = "touch", .run = touch_run, .signature = "tensor");
static const crt_method_t make =
    CRT_METHOD(.name = "make", .run = make_run, .signature = "int, int");
static const crt_method_t read_all =
    CRT_METHOD(.name = "read", .run = read_run, .signature = "tensor...");
static const crt_actor_class_t holder =
    CRT_ACTOR_CLASS(.name = "Holder", .methods = CRT_METHODS(&make, &read_all, &touch));

/* ---------------------------------------------------------------- the driver */

static void must(crt_ref_t *ref, const char *what)
{
    const crt_error_t *error = crt_ref_error(ref);

    if (error == NULL)
        return;
    fprintf(stderr, "transfer: %s on node %s: %s: %s\n", what, error->node,
            crt_status_text(error->status), error->text);
    exit(1);
}

static crt_actor_t *new_holder(long host)
{
    char resources[32];
    crt_actor_t *actor;

    snprintf(resources, sizeof(resources), "host%ld=1", host);
    actor = crt_actor_new(&holder, CRT_ACTOR_OPTIONS(.resources = resources));
    CRT_CHECK(crt_actor_ready(actor, -1));
    return actor;
}

/* The owner of an object, which is this process, knows of the reader's copy for sure when it was
 * asked for something else after that, by the same session. */
static void settle(crt_actor_t *reader)
{
    static char bytes_of[256 << 10];
    int64_t shape = sizeof(bytes_of);
    crt_tensor_t tensor = crt_tensor_view(CRT_DTYPE_UINT8, 1, &shape, bytes_of);
    crt_ref_t *put = crt_put(&tensor), *done = crt_call(reader, &touch, put);

    crt_get(done, NULL);
    must(done, "touch");
    crt_ref_drop(&done);
    crt_ref_drop(&put);
}

/* When this reader could read everything. */
static double await(long reader, crt_actor_t *actor, crt_ref_t **read)
{
    double readable = 0;

    if (crt_get(*read, &readable) != CRT_OK && failed < may_fail)
        failed++;
    else
        must(*read, "read");
    crt_ref_drop(read);
    if (in_turns || tell) {
        settle(actor);
        printf("reader %ld has it\n", reader + 1);
        fflush(stdout);
    }
    return readable;
}

/* Seconds until everybody can read everything. */
static double measure(crt_actor_t **reader, crt_ref_t **made)
{
    crt_arg_t all = crt_arg_each(made, (size_t)objects);
    crt_ref_t *read[READERS_MAX];
    double begin = now_s(), end = 0;

    for (long i = 0; i < readers; i++) {
        read[i] = crt_call_v(reader[i], &read_all, NULL, &all, 1);
        if (in_turns)
            end = await(i, reader[i], &read[i]);
    }
    for (long i = 0; i < readers && !in_turns; i++) {
        double readable = await(i, reader[i], &read[i]);

        end = readable > end ? readable : end;
    }
    return end - begin;
}

static int driver(int argc, char **argv)
{
    static crt_ref_t *made[OBJECTS_MAX];
    crt_actor_t *maker = new_holder(0), *reader[READERS_MAX];
    double seconds;

    for (long i = 0; i < readers; i++)
        reader[i] = new_holder(i + 1);
    for (long i = 0; i < objects; i++)
        made[i] = crt_call(maker, &make, i, bytes);
    for (long i = 0; i < objects; i++) {
        size_t index, count;

        CRT_CHECK(crt_wait(&made[i], 1, 1, -1, &index, &count));
        must(made[i], "make");
    }
    seconds = measure(reader, made);
    printf("{\"bytes\": %ld, \"objects\": %ld, \"readers\": %ld, \"failed\": %ld, "
           "\"seconds\": %.5f}\n",
           bytes, objects, readers, failed, seconds);
    crt_refs_drop(made, (size_t)objects);
    for (long i = 0; i < readers; i++)
        crt_actor_drop(&reader[i]);
    crt_actor_drop(&maker);
    return 0;
}

int main(int argc, char **argv)
{
    TAKE_OPTIONS(argc, argv, OPTION("bytes", bytes, 8, 1e15),
                 OPTION("objects", objects, 1, OBJECTS_MAX),
                 OPTION("readers", readers, 1, READERS_MAX),
                 OPTION("in-turns", in_turns, 0, 0), OPTION("tell", tell, 0, 0),
                 OPTION("may-fail", may_fail, 0, 1e9));
    return crt_main(argc, argv, CRT_OPTIONS(.classes = CRT_CLASSES(&holder)), driver);
}
