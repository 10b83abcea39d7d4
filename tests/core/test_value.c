/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/core/values/value.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* Refs and actors are opaque here: numbers in disguise. */
static crt_status_t name_ref(void *user, crt_ref_t *ref, crti_ref_name_t *name)
{
    uint64_t number = (uint64_t)(uintptr_t)ref;

    *name = (crti_ref_name_t){.id = {{7, number % 3}, number},
                              .incarnation = 5,
                              .node = {8, 9},
                              .tcp = {"tcp://a:1", 9}};
    return CRT_OK;
}

static crt_status_t name_actor(void *user, crt_actor_t *actor, crti_actor_name_t *name)
{
    *name = (crti_actor_name_t){{1, (uint64_t)(uintptr_t)actor}, {"Counter", 7}};
    return CRT_OK;
}

static const crti_naming_t naming = {name_ref, name_actor};

typedef struct round_trip {
    void *bytes;
    size_t size;
    void *memory;
    crt_value_t value;
} round_trip_t;

static const crti_handles_t nothing;

static void make(round_trip_t *t, crt_arg_t arg, const crti_handles_t *handles)
{
    crti_encoder_t e = {0};

    assert_int_equal(crti_encode(&e, &naming, &arg), CRT_OK);
    t->size = crti_encoder_size(&e);
    t->bytes = aligned_alloc(64, (t->size + 63) & ~(size_t)63);
    memset(t->bytes, 0xee, t->size);
    crti_encoder_write(&e, t->bytes);
    assert_int_equal(crti_value_has_data(t->bytes, t->size), crti_encoder_has_data(&e));
    crti_encoder_fini(&e);
    if (crti_decode(t->bytes, t->size, handles, &t->value, &t->memory) != CRT_OK)
        fail_msg("%s", crt_error_detail());
}

static void end(round_trip_t *t)
{
    free(t->memory);
    free(t->bytes);
}

static void integers_of_every_width_come_back(void **state)
{
    static const int64_t numbers[] = {
        0,    1,         -1,        -32,   -33,       127,       128,       -128,
        -129, INT16_MAX, INT16_MIN, 70000, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN};

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        round_trip_t t;
        int64_t number = 0;

        make(&t, crt_arg_int(numbers[i]), &nothing);
        assert_null(t.memory);
        assert_int_equal(crt_value_read(&t.value, &number), CRT_OK);
        assert_true(number == numbers[i]);
        end(&t);
    }
}

/* A call that takes a number and gives one back needs no encoder. */
static void a_scalar_is_written_as_an_encoder_writes_it_and_nothing_else_is(void **state)
{
    const crt_arg_t scalars[] = {crt_arg_none(NULL),   crt_arg_bool(true),
                                 crt_arg_bool(false),  crt_arg_int(-1),
                                 crt_arg_int(999),     crt_arg_int(INT64_MIN),
                                 crt_arg_int(1 << 20), crt_arg_float(-0.5)};
    const crt_arg_t others[] = {crt_arg_string("1"), crt_arg_bytes((crt_bytes_t){"1", 1}),
                                crt_arg_ref(NULL)};
    unsigned char bytes[CRTI_SCALAR_MAX];

    for (size_t i = 0; i < sizeof(scalars) / sizeof(scalars[0]); i++) {
        round_trip_t t;

        make(&t, scalars[i], &nothing);
        assert_int_equal(crti_encode_scalar(&scalars[i], bytes), t.size);
        assert_memory_equal(bytes, t.bytes, t.size);
        end(&t);
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_int_equal(crti_encode_scalar(&others[i], bytes), 0);
}

static void texts_and_bytes_of_every_length_come_back_in_place(void **state)
{
    static const size_t sizes[] = {0,   1,   30,   31,   32,   254,
                                   255, 256, 4094, 4095, 4096, 70000};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        char *text = malloc(sizes[i] + 1);
        const char *got = NULL;
        crt_bytes_t bytes = {0};
        round_trip_t t;

        memset(text, 'x', sizes[i]);
        text[sizes[i]] = '\0';
        make(&t, crt_arg_string(text), &nothing);
        assert_int_equal(crt_value_read(&t.value, &got), CRT_OK);
        assert_string_equal(got, text);
        assert_true(got >= (char *)t.bytes && got < (char *)t.bytes + t.size);
        end(&t);
        make(&t, crt_arg_bytes((crt_bytes_t){text, sizes[i]}), &nothing);
        assert_int_equal(crt_value_read(&t.value, &bytes), CRT_OK);
        assert_int_equal(bytes.size, sizes[i]);
        assert_memory_equal(bytes.data, text, sizes[i]);
        end(&t);
        free(text);
    }
}

static void a_tensor_is_aligned_and_a_strided_one_becomes_dense(void **state)
{
    float numbers[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    int64_t shape[2] = {3, 4};
    crt_tensor_t tensor = crt_tensor_view(CRT_DTYPE_FLOAT32, 2, shape, numbers),
                 turned = tensor;
    const crt_tensor_t *got;
    round_trip_t t;

    make(&t, crt_arg_tensor(&tensor), &nothing);
    assert_int_equal(crt_value_read(&t.value, &got), CRT_OK);
    assert_int_equal((uintptr_t)got->data % 64, 0);
    assert_memory_equal(got->data, numbers, sizeof(numbers));
    end(&t);
    turned.shape[0] = 4, turned.shape[1] = 3;
    turned.strides[0] = 1, turned.strides[1] = 4;
    make(&t, crt_arg_tensor(&turned), &nothing);
    assert_int_equal(crt_value_read(&t.value, &got), CRT_OK);
    assert_true(crt_tensor_is_dense(got));
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 3; j++)
            assert_true(((float *)got->data)[i * 3 + j] == numbers[j * 4 + i]);
    end(&t);
}

/* As a struct looks that somebody filled in by hand: -1 says that it lies in the host's memory. */
static void a_tensor_made_without_strides_is_passed_whole(void **state)
{
    float numbers[6] = {0, 1, 2, 3, 4, 5};
    crt_tensor_t tensor = {
        .dtype = CRT_DTYPE_FLOAT32, .rank = 2, .shape = {2, 3}, .data = numbers};
    const crt_tensor_t *got;
    round_trip_t t;

    make(&t, crt_arg_tensor(&tensor), &nothing);
    assert_int_equal(crt_value_read(&t.value, &got), CRT_OK);
    assert_memory_equal(got->data, numbers, sizeof(numbers));
    assert_int_equal(got->strides[0], 3);
    end(&t);
}

static void an_object_written_in_place_reads_like_an_encoded_tensor(void **state)
{
    int64_t shape[3] = {2, 3, 5};
    size_t offset,
        size = crti_value_tensor_header(CRT_DTYPE_INT32, 3, shape, NULL, &offset);
    char *object = aligned_alloc(64, (size + 63) & ~(size_t)63);
    crt_value_t value;
    void *memory;

    assert_int_equal(crti_value_tensor_header(CRT_DTYPE_INT32, 3, shape, object, &offset),
                     size);
    memset(object + offset, 1, size - offset);
    if (crti_decode(object, size, &nothing, &value, &memory) != CRT_OK)
        fail_msg("%s", crt_error_detail());
    assert_int_equal(value.kind, CRT_KIND_TENSOR);
    assert_ptr_equal(value.as.tensor->data, object + offset);
    assert_int_equal(crt_tensor_count(value.as.tensor), 30);
    free(memory);
    free(object);
}

static void lists_and_maps_nest_and_are_looked_into(void **state)
{
    float number = 2.5f;
    crt_tensor_t tensor = crt_tensor_floats(&number, 1);
    crt_arg_t inner[] = {crt_arg_int(1), crt_arg_string("two"), crt_arg_tensor(&tensor)};
    crt_arg_t entries[] = {crt_arg_string("list"), crt_list(inner, 3),
                           crt_arg_string("none"), crt_arg_none(NULL)};
    const char *text;
    round_trip_t t;

    make(&t, crt_map(entries, 4), &nothing);
    assert_int_equal(crt_value_kind(&t.value), CRT_KIND_MAP);
    assert_int_equal(crt_value_count(&t.value), 2);
    assert_string_equal(crt_value_key(&t.value, 1), "none");
    assert_int_equal(crt_value_count(crt_value_find(&t.value, "list")), 3);
    assert_int_equal(
        crt_value_read(crt_value_at(crt_value_find(&t.value, "list"), 1), &text), CRT_OK);
    assert_string_equal(text, "two");
    assert_int_equal(crt_value_kind(crt_value_at(crt_value_find(&t.value, "list"), 2)),
                     CRT_KIND_TENSOR);
    assert_null(crt_value_find(&t.value, "absent"));
    assert_null(crt_value_at(&t.value, 2));
    end(&t);
}

static crt_status_t see_ref(void *user, uint32_t index, const crti_ref_name_t *name)
{
    unsigned *seen = user;

    assert_int_equal(name->id.number, 100 + index);
    assert_int_equal(name->id.owner.low, (100 + index) % 3);
    assert_int_equal(name->incarnation, 5);
    assert_int_equal(name->tcp.size, 9);
    (*seen)++;
    return CRT_OK;
}

static crt_status_t see_actor(void *user, uint32_t index, const crti_actor_name_t *name)
{
    unsigned *seen = user;

    assert_int_equal(name->id.low, 9);
    assert_int_equal(name->class_name.size, 7);
    *seen += 1000;
    return CRT_OK;
}

static void refs_and_actors_go_through_the_table(void **state)
{
    enum { COUNT = 200 };
    crt_arg_t items[COUNT + 1];
    crt_ref_t *refs[COUNT];
    crt_actor_t *actor = (crt_actor_t *)(uintptr_t)9;
    crti_handles_t handles = {refs, &actor, COUNT, 1};
    crti_table_t table;
    crti_span_t bytes;
    unsigned seen = 0;
    round_trip_t t;

    for (size_t i = 0; i < COUNT; i++) {
        refs[i] = (crt_ref_t *)(uintptr_t)(100 + i);
        items[i] = crt_arg_ref(refs[i]);
    }
    items[COUNT] = crt_arg_actor(actor);
    make(&t, crt_list(items, COUNT + 1), &handles);
    for (size_t i = 0; i < COUNT; i++)
        assert_ptr_equal(crt_value_at(&t.value, i)->as.ref, refs[i]);
    assert_ptr_equal(crt_value_at(&t.value, COUNT)->as.actor, actor);
    assert_int_equal(crti_value_table(t.bytes, t.size, &bytes), CRT_OK);
    assert_int_equal(crti_table_open(bytes, &table), CRT_OK);
    assert_int_equal(table.owner_count, 3);
    assert_int_equal(
        crti_table_visit(&table, &(crti_table_visitor_t){&seen, see_ref, see_actor}),
        CRT_OK);
    assert_int_equal(seen, COUNT + 1000);
    end(&t);
}

static crt_status_t name_held_actor(void *user, crt_actor_t *actor,
                                    crti_actor_name_t *name)
{
    name_actor(user, actor, name);
    name->lifetime = (crt_ref_t *)(uintptr_t)101;
    return CRT_OK;
}

static crt_status_t see_lifetime(void *user, uint32_t index,
                                 const crti_actor_name_t *name)
{
    *(unsigned *)user += 1000 * name->lifetime_index;
    return CRT_OK;
}

/* The value says nothing of that ref, its table does. */
static void an_actor_brings_along_what_keeps_it_alive(void **state)
{
    crti_naming_t held = {name_ref, name_held_actor, NULL};
    crt_arg_t items[] = {crt_arg_ref((crt_ref_t *)(uintptr_t)100),
                         crt_arg_actor((crt_actor_t *)(uintptr_t)9)},
              list = crt_list(items, 2);
    unsigned seen = 0;
    crti_table_visitor_t visitor = {&seen, see_ref, see_lifetime};
    crti_encoder_t e = {0};
    unsigned char *bytes;
    crti_span_t table_bytes;
    crti_table_t table;
    size_t count;

    assert_int_equal(crti_encode(&e, &held, &list), CRT_OK);
    assert_ptr_equal(crti_encoder_refs(&e, &count)[1], (crt_ref_t *)(uintptr_t)101);
    assert_int_equal(count, 2);
    bytes = malloc(crti_encoder_size(&e));
    crti_encoder_write(&e, bytes);
    assert_int_equal(crti_value_table(bytes, crti_encoder_size(&e), &table_bytes),
                     CRT_OK);
    assert_int_equal(crti_table_open(table_bytes, &table), CRT_OK);
    assert_int_equal(crti_table_visit(&table, &visitor), CRT_OK);
    assert_int_equal(seen, 2 + 1000 * 2);
    table.ref_count = 1; /* a table that has no such ref */
    assert_int_equal(crti_table_visit(&table, &visitor), CRT_ERR_PROTOCOL);
    crti_encoder_fini(&e);
    free(bytes);
}

static crt_status_t encode(crt_arg_t arg)
{
    crti_encoder_t e = {0};
    crt_status_t status = crti_encode(&e, &naming, &arg);

    crti_encoder_fini(&e);
    return status;
}

static void what_can_not_be_passed_is_refused_with_the_reason(void **state)
{
    crt_tensor_t gpu = crt_tensor_floats(NULL, 0), hollow = crt_tensor_floats(NULL, 3);
    crt_arg_t odd[] = {crt_arg_string("a")}, key[] = {crt_arg_int(1), crt_arg_int(1)},
              deep[70];

    gpu.device = crt_device_gpu(0);
    assert_int_equal(encode(crt_arg_tensor(&gpu)), CRT_ERR_UNSUPPORTED);
    assert_int_equal(encode(crt_arg_tensor(&hollow)), CRT_ERR_INVALID);
    assert_int_equal(encode(crt_arg_tensor(NULL)), CRT_ERR_INVALID);
    assert_int_equal(encode(crt_arg_string(NULL)), CRT_ERR_INVALID);
    assert_int_equal(encode(crt_arg_unsigned(UINT64_MAX)), CRT_ERR_INVALID);
    assert_non_null(strstr(crt_error_detail(), "18446744073709551615"));
    assert_int_equal(encode(crt_map(odd, 1)), CRT_ERR_INVALID);
    assert_int_equal(encode(crt_map(key, 2)), CRT_ERR_INVALID);
    deep[0] = crt_arg_int(1);
    for (int i = 1; i < 70; i++)
        deep[i] = crt_list(&deep[i - 1], 1);
    assert_int_equal(encode(deep[64]), CRT_OK);
    assert_int_equal(encode(deep[65]), CRT_ERR_INVALID);
}

#define READ(arg, type, expected_status, expected)                                       \
    do {                                                                                 \
        round_trip_t t_;                                                                 \
        type got_ = 0;                                                                   \
        make(&t_, arg, &nothing);                                                        \
        assert_int_equal(crt_value_read(&t_.value, &got_), expected_status);             \
        assert_true(got_ == (expected));                                                 \
        end(&t_);                                                                        \
    } while (0)

static void numbers_convert_only_when_nothing_is_lost(void **state)
{
    READ(crt_arg_int(1), bool, CRT_OK, true);
    READ(crt_arg_int(2), bool, CRT_ERR_INVALID, false);
    READ(crt_arg_int(3), double, CRT_OK, 3.0);
    READ(crt_arg_int((INT64_C(1) << 53) + 1), double, CRT_ERR_INVALID, 0);
    READ(crt_arg_int(INT64_MAX), double, CRT_ERR_INVALID, 0);
    READ(crt_arg_int(3), float, CRT_OK, 3.0f);
    READ(crt_arg_int((1 << 24) + 1), float, CRT_ERR_INVALID, 0);
    READ(crt_arg_float(0.1), float, CRT_OK, 0.1f);
    READ(crt_arg_float(1e300), float, CRT_ERR_INVALID, 0);
    READ(crt_arg_float(7.0), int, CRT_OK, 7);
    READ(crt_arg_float(7.5), int, CRT_ERR_INVALID, 0);
    READ(crt_arg_float(1e19), int64_t, CRT_ERR_INVALID, 0);
    READ(crt_arg_int(300), uint8_t, CRT_ERR_INVALID, 0);
    READ(crt_arg_int(-1), unsigned, CRT_ERR_INVALID, 0);
    READ(crt_arg_int(255), uint8_t, CRT_OK, 255);
    READ(crt_arg_bool(true), int, CRT_ERR_INVALID, 0);
    READ(crt_arg_string("1"), int, CRT_ERR_INVALID, 0);
}

static void an_error_names_method_argument_and_both_kinds(void **state)
{
    crti_place_t place = {"Counter", "add", 1};
    crt_value_t value = {.kind = CRT_KIND_TENSOR};
    double x;

    assert_int_equal(crti_value_to(&value, CRT_OUT(&x), &place), CRT_ERR_INVALID);
    assert_string_equal(crt_error_detail(),
                        "Counter.add: argument 2 is of kind tensor, float is wanted");
}

static void damaged_values_are_refused(void **state)
{
    static const unsigned char cases[][8] = {
        {0},                                     /* nothing behind the format */
        {2, 0xc0},                               /* unknown format */
        {0, 0xc1},                               /* unknown tag */
        {0, 0xdd, 0xff, 0xff, 0xff, 0xff, 0xc0}, /* more entries than bytes */
        {0, 0xa2, 'a', 'b'},                     /* a text without its zero */
        {0, 0xc7, 4, 2, 0, 0, 0, 0},             /* a ref without a table */
        {0, 0xcb, 0, 0},                         /* a number that is cut off */
        {0, 0xc0, 0xc0},                         /* bytes behind the end */
    };
    static const size_t sizes[] = {1, 2, 2, 7, 4, 8, 4, 3};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        crt_value_t value;
        void *memory = NULL;

        assert_int_equal(crti_decode(cases[i], sizes[i], &nothing, &value, &memory),
                         CRT_ERR_PROTOCOL);
    }
}

static void places_and_shapes_beyond_all_numbers_are_refused(void **state)
{
    static const unsigned char far[] = {0,    0xc7, 16,   4,    0xc0, 0xff, 0xff,
                                        0xff, 0xff, 0xff, 0xff, 0x7f, 1,    0,
                                        0,    0,    0,    0,    0,    0},
                               vast[] = {0, 0xc7, 34, 1, CRT_DTYPE_FLOAT32, 3,
                                         /* nothing, of 2^62 by 2^62 */
                                         0, 0, 0, 0, 0, 0, 0, 0,    /* */
                                         0, 0, 0, 0, 0, 0, 0, 0x40, /* */
                                         0, 0, 0, 0, 0, 0, 0, 0x40, /* */
                                         0, 0, 0, 0, 0, 0, 0, 0};
    crt_value_t value;
    void *memory = NULL;

    assert_int_equal(crti_decode(far, sizeof(far), &nothing, &value, &memory),
                     CRT_ERR_PROTOCOL);
    assert_int_equal(crti_decode(vast, sizeof(vast), &nothing, &value, &memory),
                     CRT_ERR_PROTOCOL);
}

/* As when the bytes and what was told of them come from a process gone mad. */
static void a_ref_that_has_no_handle_is_refused_whatever_the_table_says(void **state)
{
    crt_ref_t *refs[2] = {(crt_ref_t *)(uintptr_t)100, (crt_ref_t *)(uintptr_t)101};
    crt_arg_t items[] = {crt_arg_ref(refs[0]), crt_arg_ref(refs[1])};
    crti_handles_t both = {.refs = refs, .ref_count = 2},
                   one = {.refs = refs, .ref_count = 1};
    crt_value_t value;
    void *memory;
    round_trip_t t;

    make(&t, crt_list(items, 2), &both);
    assert_int_equal(crti_decode(t.bytes, t.size, &one, &value, &memory),
                     CRT_ERR_PROTOCOL);
    assert_int_equal(crti_decode(t.bytes, t.size, &nothing, &value, &memory),
                     CRT_ERR_PROTOCOL);
    end(&t);
}

/* A list of one text, by turns, or of fifteen numbers. */
static void change_for_ever(volatile unsigned char *byte)
{
    for (;;)
        *byte = *byte == 0x91 ? 0x9f : 0x91;
}

/* Objects lie in memory that every process of a node may write. */
static void a_value_that_changes_while_it_is_read_is_read_or_refused(void **state)
{
    static const unsigned char text[] = {0, 0x91, 0xae, 1, 1, 1, 1, 1, 1,
                                         1, 1,    1,    1, 1, 1, 1, 0};
    unsigned char *shared = mmap(NULL, sizeof(text), PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    unsigned read = 0, refused = 0;
    pid_t writer;

    assert_true(shared != MAP_FAILED);
    memcpy(shared, text, sizeof(text));
    writer = fork();
    if (writer == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        change_for_ever(shared + 1);
    }
    assert_true(writer > 0);
    /* Both come, however seldom the other one has the processor; the test has a time limit. */
    for (unsigned i = 0; i < 200000 || !read || !refused; i++) {
        crt_value_t value;
        void *memory = NULL;

        if (crti_decode(shared, sizeof(text), &nothing, &value, &memory) != CRT_OK) {
            refused++;
            continue;
        }
        read++;
        free(memory);
    }
    kill(writer, SIGKILL);
    assert_int_equal(waitpid(writer, NULL, 0), writer);
    munmap(shared, sizeof(text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_of_every_width_come_back),
        cmocka_unit_test(a_scalar_is_written_as_an_encoder_writes_it_and_nothing_else_is),
        cmocka_unit_test(texts_and_bytes_of_every_length_come_back_in_place),
        cmocka_unit_test(a_tensor_is_aligned_and_a_strided_one_becomes_dense),
        cmocka_unit_test(a_tensor_made_without_strides_is_passed_whole),
        cmocka_unit_test(an_object_written_in_place_reads_like_an_encoded_tensor),
        cmocka_unit_test(lists_and_maps_nest_and_are_looked_into),
        cmocka_unit_test(refs_and_actors_go_through_the_table),
        cmocka_unit_test(an_actor_brings_along_what_keeps_it_alive),
        cmocka_unit_test(what_can_not_be_passed_is_refused_with_the_reason),
        cmocka_unit_test(numbers_convert_only_when_nothing_is_lost),
        cmocka_unit_test(an_error_names_method_argument_and_both_kinds),
        cmocka_unit_test(damaged_values_are_refused),
        cmocka_unit_test(places_and_shapes_beyond_all_numbers_are_refused),
        cmocka_unit_test(a_ref_that_has_no_handle_is_refused_whatever_the_table_says),
        cmocka_unit_test(a_value_that_changes_while_it_is_read_is_read_or_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
