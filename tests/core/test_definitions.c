/* SPDX-License-Identifier: Apache-2.0 */
/* Definitions: a program of CRT_DEFINE_TASK, CRT_DEFINE_ACTOR and CRT_DEFINE_METHOD, with structs
 * as arguments, on a private cluster. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/crt_define.h"

#define EXPECT(condition)                                                                \
    do {                                                                                 \
        if (!(condition)) {                                                              \
            printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #condition,                    \
                   crt_error_detail());                                                  \
            exit(1);                                                                     \
        }                                                                                \
    } while (0)

typedef struct point {
    double x, y;
} point_t;
CRT_DEFINE_PLAIN_TYPE(point_t)

typedef struct entry {
    int64_t number;
    const char *text;
} entry_t;

static size_t entry_pack(const void *value, crt_arg_t *items)
{
    const entry_t *entry = value;

    items[0] = CRT_ARG(entry->number);
    items[1] = CRT_ARG(entry->text);
    return 2;
}

static crt_status_t entry_unpack(const crt_value_t *items, void *value)
{
    entry_t *entry = value;

    CRT_TRY(crt_value_read(crt_value_at(items, 0), &entry->number));
    return crt_value_read(crt_value_at(items, 1), &entry->text);
}
static const crt_type_t entry_type = CRT_TYPE(.name = "entry_t", .size = sizeof(entry_t),
                                              .pack = entry_pack, .unpack = entry_unpack);

CRT_DEFINE_TASK(move, (point_t, place, point_t_type), (double, by))
{
    place.x += by;
    return crt_return_typed(call, &point_t_type, &place);
}

CRT_DEFINE_TASK(tell, (entry_t, entry, entry_type), (int, times))
{
    char text[64];

    snprintf(text, sizeof(text), "%s %lld", entry.text, (long long)entry.number * times);
    return crt_return(call, text);
}

/* An entry of a list that was received is passed on. */
CRT_DEFINE_TASK(second, (const crt_value_t *, list))
{
    return crt_return(call, crt_value_at(list, 1));
}

CRT_DEFINE_TASK(nothing)
{
    return crt_return(call, 7);
}

CRT_DEFINE_TASK(count, (int64_t, most))
{
    for (int64_t i = 0; i < most; i++)
        CRT_TRY(crt_yield(call, i));
    return CRT_OK;
}

struct counter {
    int64_t value;
};

CRT_DEFINE_ACTOR(counter, struct counter, (int64_t, start))
{
    self->value = start;
    return CRT_OK;
}

CRT_DEFINE_METHOD(counter, add, (int64_t, amount))
{
    CRT_TRY(crt_actor_save(call, &amount, sizeof(amount)));
    return crt_return(call, self->value += amount);
}

CRT_DEFINE_METHOD(counter, die)
{
    _Exit(1);
}

CRT_DEFINE_RESTORE(counter)
{
    EXPECT(size == sizeof(self->value));
    memcpy(&self->value, state, size);
    return CRT_OK;
}

CRT_DEFINE_DESTROY(counter)
{
    self->value = 0;
}

static void structs_travel(void)
{
    point_t place = {1, 2};
    entry_t entry = {21, "twice"};
    const char *text;
    crt_ref_t *ref = move_submit(NULL, place, 0.5);

    EXPECT(crt_get_typed(ref, -1, &point_t_type, &place) == CRT_OK);
    EXPECT(place.x == 1.5 && place.y == 2);
    EXPECT(crt_get_typed(ref, -1, &entry_type, &entry) == CRT_ERR_INVALID);
    crt_ref_drop(&ref);
    ref = tell_submit(NULL, entry, 2);
    EXPECT(crt_get(ref, &text) == CRT_OK && strcmp(text, "twice 42") == 0);
    crt_ref_drop(&ref);
    ref = crt_submit(&move, NULL, crt_bytes("short", 5), 1.0);
    EXPECT(crt_get(ref, NULL) == CRT_ERR_INVALID);
    EXPECT(strstr(crt_error_detail(), "5 bytes") != NULL);
    crt_ref_drop(&ref);
}

static void received_values_are_passed_on(void)
{
    const crt_arg_t inner[] = {CRT_ARG(1), CRT_ARG("deep")};
    const crt_arg_t items[] = {CRT_ARG(3), crt_list(inner, 2)};
    const crt_value_t *value;
    const char *text;
    crt_ref_t *ref = crt_submit(&second, NULL, crt_list(items, 2)), *again;

    EXPECT(crt_get(ref, &value) == CRT_OK && crt_value_count(value) == 2);
    again = second_submit(NULL, value);
    EXPECT(crt_get(again, &text) == CRT_OK && strcmp(text, "deep") == 0);
    crt_ref_drop(&again);
    crt_ref_drop(&ref);
}

static void tasks_run_by_their_stubs(void)
{
    int64_t number, sum = 0;
    crt_ref_t *refs[1], *ref = nothing_submit(CRT_TASK_OPTIONS(.num_cpus = 1));
    crt_stream_t *stream = count_submit_stream(NULL, 4);

    EXPECT(crt_get(ref, &number) == CRT_OK && number == 7);
    crt_ref_drop(&ref);
    while (crt_stream_next(stream, -1, &ref) == CRT_OK) {
        EXPECT(crt_get(ref, &number) == CRT_OK);
        sum += number;
        crt_ref_drop(&ref);
    }
    EXPECT(sum == 6);
    crt_stream_drop(&stream);
    nothing_submit_returns(refs, 1, NULL);
    EXPECT(crt_get(refs[0], &number) == CRT_OK && number == 7);
    crt_refs_drop(refs, 1);
}

static void actors_are_made_called_and_restored(void)
{
    crt_actor_t *actor = counter_new(CRT_ACTOR_OPTIONS(.max_restarts = 1), 100);
    crt_ref_t *ref = counter_add_call(actor, NULL, 5);
    int64_t number;

    EXPECT(strcmp(counter_add.signature, "int   ") == 0);
    EXPECT(crt_get(ref, &number) == CRT_OK && number == 105);
    crt_ref_drop(&ref);
    ref = counter_die_call(actor, NULL);
    EXPECT(crt_get(ref, NULL) < 0);
    crt_ref_drop(&ref);
    EXPECT(counter_add_tell(actor, 1) == CRT_OK);
    ref = counter_add_call(actor, CRT_CALL_OPTIONS(.name = "last"), 3);
    EXPECT(crt_get(ref, &number) == CRT_OK && number == 5 + 1 + 3);
    crt_ref_drop(&ref);
    crt_actor_drop(&actor);
}

static int driver(int argc, char **argv)
{
    structs_travel();
    received_values_are_passed_on();
    tasks_run_by_their_stubs();
    actors_are_made_called_and_restored();
    return 0;
}

CRT_MAIN(driver, .num_cpus = 2)
