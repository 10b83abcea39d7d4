/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/core/values/record.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const crti_naming_t naming;

static crti_ref_name_t some_ref(void)
{
    return (crti_ref_name_t){{{1, 2}, 3}, 4, {5, 6}, {"tcp://x:1", 9}};
}

static void a_call_with_every_form_of_argument_comes_back(void **state)
{
    crti_encoder_t e = {0};
    crti_buffer_t out = {0};
    float numbers[3] = {1, 2, 3};
    crt_tensor_t tensor = crt_tensor_floats(numbers, 3);
    crt_arg_t number = crt_arg_int(41), array = crt_arg_tensor(&tensor);
    unsigned char nodes[32] = {1, 2, 3};
    crti_location_t location = {{{9, 9}, 77}, 1000, nodes, 2};
    crti_ref_name_t ref = some_ref();
    crti_call_head_t head = {.flags =
                                 CRTI_CALL_TASK | CRTI_CALL_RETURNS | CRTI_CALL_NAMED,
                             .index = 7,
                             .arg_count = 4,
                             .returns = 3,
                             .call = 99,
                             .name = {"add", 3},
                             .given_name = {"epoch 7", 7}};
    crti_call_arg_t arg;
    crti_reader_t args;
    unsigned char *record;

    assert_int_equal(crti_put_call(&out, &head), CRT_OK);
    assert_int_equal(crti_encode(&e, &naming, &number), CRT_OK);
    assert_int_equal(crti_put_arg_value(&out, 0, &e), CRT_OK);
    assert_int_equal(crti_encode(&e, &naming, &array), CRT_OK);
    assert_int_equal(crti_put_arg_value(&out, 0, &e), CRT_OK);
    assert_int_equal(crti_put_arg_object(&out, &ref, &location), CRT_OK);
    assert_int_equal(crti_put_arg_ref(&out, &ref), CRT_OK);

    record = aligned_alloc(64, (out.size + 63) & ~(size_t)63);
    memcpy(record, out.data, out.size);
    memset(&head, 0, sizeof(head));
    assert_int_equal(crti_record_kind(record, out.size), CRTI_RECORD_CALL);
    assert_int_equal(crti_get_call(record, out.size, &head, &args), CRT_OK);
    assert_int_equal(head.index, 7);
    assert_int_equal(head.call, 99);
    assert_int_equal(head.returns, 3);
    assert_memory_equal(head.name.data, "add", 3);
    assert_int_equal(head.given_name.size, 7);
    assert_memory_equal(head.given_name.data, "epoch 7", 7);
    assert_int_equal(crti_get_arg(&args, record, &arg), CRT_OK);
    assert_int_equal(arg.form, CRTI_ARG_VALUE);
    assert_int_equal(crti_get_arg(&args, record, &arg), CRT_OK);
    assert_int_equal(arg.form, CRTI_ARG_DATA);
    assert_int_equal((uintptr_t)arg.value.data % 64, 0);
    assert_int_equal(crti_get_arg(&args, record, &arg), CRT_OK);
    assert_int_equal(arg.location.object.number, 77);
    assert_int_equal(arg.location.node_count, 2);
    assert_int_equal(crti_get_arg(&args, record, &arg), CRT_OK);
    assert_int_equal(arg.ref.id.number, 3);
    assert_int_equal(crti_get_arg(&args, record, &arg), CRT_ERR_PROTOCOL);
    free(record);
    crti_buffer_fini(&out);
    crti_encoder_fini(&e);
}

static void a_call_with_a_seed_keeps_it_under_another_number(void **state)
{
    crti_buffer_t out = {0};
    crti_call_head_t head = {.flags = CRTI_CALL_IN_GROUP(15) | CRTI_CALL_NAMED,
                             .arg_count = 1,
                             .call = 99,
                             .name = {"add", 3},
                             .given_name = {"epoch 7", 7},
                             .seed = 4711},
                     got;
    crti_reader_t args;
    crti_call_arg_t arg;
    crti_call_again_t again;
    size_t head_size;

    assert_int_equal(crti_put_call(&out, &head), CRT_OK);
    head_size = out.size;
    assert_int_equal(crti_put_arg_bytes(&out, 0, crti_span("\0\1", 2)), CRT_OK);
    assert_true(crti_record_is_call(out.data, out.size));
    assert_int_equal(crti_put_again(&out, 100, &(crti_call_again_t){99, 1}), CRT_OK);
    assert_int_equal(crti_put_again(&out, 101, &(crti_call_again_t){99, 2}), CRT_OK);
    assert_int_equal(crti_get_call(out.data, out.size, &got, &args), CRT_OK);
    assert_int_equal(got.call, 101);
    assert_int_equal(got.seed, 4711);
    assert_int_equal(CRTI_CALL_GROUP(got.flags), 15);
    assert_int_equal(got.given_name.size, 7);
    assert_int_equal(crti_get_arg(&args, out.data, &arg), CRT_OK);
    assert_int_equal(crti_get_again(&args, &again), CRT_OK);
    assert_int_equal(again.first, 99);
    assert_int_equal(again.tries, 2);
    for (size_t size = 0; size <= head_size; size++)
        assert_int_equal(crti_get_call(out.data, size, &got, &args), CRT_ERR_PROTOCOL);
    crti_buffer_fini(&out);
}

static void what_is_behind_the_arguments_is_checked(void **state)
{
    static const struct {
        const char *bytes;
        size_t size;
        crt_status_t status;
    } trials[] = {{"", 0, CRT_OK},
                  {"\7\0\0\0\0\0\0\0\1\0\0\0", 12, CRT_OK},
                  {"\7\0\0\0\0\0\0\0\1\0\0", 11, CRT_ERR_PROTOCOL},
                  {"\7\0\0\0\0\0\0\0\1\0\0\0\0", 13, CRT_ERR_PROTOCOL},
                  {"\0\0\0\0\0\0\0\0\1\0\0\0", 12, CRT_ERR_PROTOCOL},
                  {"\7\0\0\0\0\0\0\0\0\0\0\0", 12, CRT_ERR_PROTOCOL},
                  {"\7\0\0\0\0\0\1\0\1\0\0\0", 12, CRT_ERR_PROTOCOL}};

    for (size_t i = 0; i < sizeof(trials) / sizeof(trials[0]); i++) {
        crti_reader_t args = crti_reader(trials[i].bytes, trials[i].size);
        crti_call_again_t again;

        assert_int_equal(crti_get_again(&args, &again), trials[i].status);
    }
}

static void a_stream_starts_again_where_it_was(void **state)
{
    crti_buffer_t out = {0};
    crti_call_head_t head = {.flags = CRTI_CALL_RETURNS | CRTI_CALL_NAMED,
                             .call = 99,
                             .is_stream = true,
                             .name = {"items", 5},
                             .given_name = {"epoch 7", 7},
                             .stream = {0, 1000, 17}},
                     got;
    crti_stream_start_t later = {70, 1050, 5000},
                        bad[] = {{2, 1, 5}, {0, 1, 0}, {0, 1u << 30, 5}};
    crti_reader_t args;

    assert_int_equal(crti_put_call(&out, &head), CRT_OK);
    assert_int_equal(crti_get_call(out.data, out.size, &got, &args), CRT_OK);
    assert_true(got.is_stream);
    assert_int_equal(got.returns, 1);
    assert_memory_equal(&got.stream, &head.stream, sizeof(later));
    crti_restart_stream(&out, &later);
    assert_int_equal(crti_get_call(out.data, out.size, &got, &args), CRT_OK);
    assert_memory_equal(&got.stream, &later, sizeof(later));
    assert_int_equal(got.given_name.size, 7);
    for (int i = 0; i < 3; i++) {
        crti_restart_stream(&out, &bad[i]);
        assert_int_equal(crti_get_call(out.data, out.size, &got, &args),
                         CRT_ERR_PROTOCOL);
    }
    crti_buffer_fini(&out);
}

static void items_and_what_was_consumed_come_back(void **state)
{
    crti_buffer_t out = {0};
    crti_result_t value = {.form = CRTI_RESULT_VALUE, .value = {"\0\1", 2}}, got,
                  none = {.form = CRTI_RESULT_NOT_STARTED};
    crti_consumed_t more = {5, 2000, 77}, read;
    uint64_t call, index;

    assert_int_equal(crti_put_item(&out, 5, 1234, &value), CRT_OK);
    assert_int_equal(crti_record_kind(out.data, out.size), CRTI_RECORD_ITEM);
    assert_int_equal(crti_get_item(out.data, out.size, &call, &index, &got), CRT_OK);
    assert_int_equal(call, 5);
    assert_int_equal(index, 1234);
    assert_int_equal(got.value.size, 2);
    for (size_t size = 0; size < out.size; size++)
        assert_int_equal(crti_get_item(out.data, size, &call, &index, &got),
                         CRT_ERR_PROTOCOL);
    out.size = 0;
    assert_int_equal(crti_put_item(&out, 5, 1, &none), CRT_OK);
    assert_int_equal(crti_get_item(out.data, out.size, &call, &index, &got),
                     CRT_ERR_PROTOCOL);
    out.size = 0;
    assert_int_equal(crti_put_consumed(&out, &more), CRT_OK);
    assert_int_equal(crti_get_consumed(out.data, out.size, &read), CRT_OK);
    assert_memory_equal(&read, &more, sizeof(more));
    assert_int_equal(crti_get_consumed(out.data, out.size - 1, &read), CRT_ERR_PROTOCOL);
    crti_buffer_fini(&out);
}

static void an_error_keeps_everything_that_is_known(void **state)
{
    crti_buffer_t out = {0};
    crti_result_t result = {.form = CRTI_RESULT_ERROR,
                            .failure = {CRT_ERR_USER,
                                        true,
                                        {"it broke", 8},
                                        {"Counter", 7},
                                        {"add", 3},
                                        {1, 2},
                                        {3, 4},
                                        4711}};
    uint64_t number;

    assert_int_equal(crti_put_result(&out, CRTI_RECORD_REPLY, 5, &result, NULL), CRT_OK);
    memset(&result, 0, sizeof(result));
    assert_int_equal(crti_get_result(out.data, out.size, &number, &result), CRT_OK);
    assert_int_equal(number, 5);
    assert_int_equal(result.failure.status, CRT_ERR_USER);
    assert_true(result.failure.may_have_run);
    assert_memory_equal(result.failure.text.data, "it broke", 8);
    assert_int_equal(result.failure.pid, 4711);
    assert_int_equal(result.failure.node.low, 4);
    /* every shorter record is refused */
    for (size_t size = 0; size < out.size; size++)
        assert_int_equal(crti_get_result(out.data, size, &number, &result),
                         CRT_ERR_PROTOCOL);
    crti_buffer_fini(&out);
}

static void a_stored_result_names_what_it_refers_to(void **state)
{
    crti_buffer_t out = {0};
    unsigned char nodes[16] = {1};
    crti_result_t result = {.form = CRTI_RESULT_STORED,
                            .location = {{{1, 2}, 3}, 1 << 20, nodes, 1},
                            .table = {"table", 5}};
    uint64_t number;

    assert_int_equal(crti_put_result(&out, CRTI_RECORD_LOCATED, 8, &result, NULL),
                     CRT_OK);
    memset(&result, 0, sizeof(result));
    assert_int_equal(crti_get_result(out.data, out.size, &number, &result), CRT_OK);
    assert_int_equal(result.location.size, 1 << 20);
    assert_int_equal(crti_location_node(&result.location, 0).high, 1);
    assert_memory_equal(result.table.data, "table", 5);
    crti_buffer_fini(&out);
}

static void a_peek_and_its_answers_come_back_and_parts_of_them_do_not(void **state)
{
    crti_buffer_t out = {0};
    crti_result_t value = {.form = CRTI_RESULT_VALUE, .value = {"\0\5", 2}};
    uint64_t numbers[] = {7, 1234567890123}, number;
    const void *read;
    uint32_t count;
    crti_reader_t peeked;
    bool is_there;

    assert_int_equal(crti_put_peek(&out, numbers, 2), CRT_OK);
    assert_int_equal(crti_get_peek(out.data, out.size, &read, &count), CRT_OK);
    assert_int_equal(count, 2);
    assert_true(crti_number_at(read, 1) == 1234567890123);
    assert_int_equal(crti_get_peek(out.data, out.size - 1, &read, &count),
                     CRT_ERR_PROTOCOL);
    out.size = 0;
    assert_int_equal(crti_begin_peeked(&out), CRT_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(crti_put_peeked(&out, numbers[i], &value), CRT_OK);
    peeked = crti_read_peeked(out.data, out.size - 1);
    assert_int_equal(crti_next_peeked(&peeked, &is_there, &number, &value), CRT_OK);
    assert_true(is_there && number == 7 && value.form == CRTI_RESULT_VALUE);
    assert_int_equal(crti_next_peeked(&peeked, &is_there, &number, &value),
                     CRT_ERR_PROTOCOL);
    crti_buffer_fini(&out);
}

static void a_cancellation_comes_back_and_no_flags_that_nobody_knows(void **state)
{
    crti_buffer_t out = {0};
    uint64_t call;
    unsigned flags;

    assert_int_equal(crti_put_cancel(&out, 1234567890123, CRTI_CANCEL_FORCE), CRT_OK);
    assert_int_equal(crti_record_kind(out.data, out.size), CRTI_RECORD_CANCEL);
    assert_int_equal(crti_get_cancel(out.data, out.size, &call, &flags), CRT_OK);
    assert_true(call == 1234567890123 && flags == CRTI_CANCEL_FORCE);
    assert_int_equal(crti_get_cancel(out.data, out.size - 1, &call, &flags),
                     CRT_ERR_PROTOCOL);
    out.data[1] = 4;
    assert_int_equal(crti_get_cancel(out.data, out.size, &call, &flags),
                     CRT_ERR_PROTOCOL);
    crti_buffer_fini(&out);
}

static void a_request_that_was_filled_one_by_one_comes_back(void **state)
{
    crti_buffer_t out = {0};
    crti_borrow_record_t borrow = {.process = {1, 2}, .incarnation = 3};
    crti_release_record_t release;

    assert_int_equal(crti_put_borrow(&out, CRTI_RECORD_TAKE_BACK, &borrow), CRT_OK);
    for (uint64_t number = 1; number <= 1000; number++)
        assert_int_equal(crti_add_borrow(&out, number * 3), CRT_OK);
    assert_int_equal(crti_owner_request_refs(&out), 1000);
    crti_seal_owner_request(&out, 77);
    assert_int_equal(crti_get_borrow(out.data, out.size, &borrow), CRT_OK);
    assert_true(borrow.request == 77 && borrow.count == 1000 && borrow.incarnation == 3);
    assert_int_equal(crti_number_at(borrow.numbers, 999), 3000);
    out.size = 0;
    assert_int_equal(crti_put_release(&out, 0, NULL, 0), CRT_OK);
    for (uint64_t number = 1; number <= 1000; number++)
        assert_int_equal(crti_add_release(&out, number, number * 2), CRT_OK);
    crti_seal_owner_request(&out, 78);
    assert_int_equal(crti_get_release(out.data, out.size, &release), CRT_OK);
    assert_true(release.request == 78 && release.count == 1000);
    assert_int_equal(crti_release_at(&release, 999).tokens, 2000);
    crti_buffer_fini(&out);
}

/* Its receiver would be busy with it for as long as its sender likes; a count that is not what
 * follows is refused, too. Questions for copies may name more. */
static void a_request_of_more_refs_than_it_may_name_is_refused(void **state)
{
    static const crti_record_kind_t kinds[] = {CRTI_RECORD_BORROW, CRTI_RECORD_BORROWED,
                                               CRTI_RECORD_TAKE_BACK};
    uint64_t *numbers = calloc(CRTI_REFS_OF_RECORD + 1, sizeof(*numbers));
    crti_release_t *releases = calloc(CRTI_REFS_OF_RECORD + 1, sizeof(*releases));
    crti_borrow_record_t borrow = {.numbers = numbers, .count = CRTI_REFS_OF_RECORD + 1},
                         read;
    crti_release_record_t release;
    crti_buffer_t out = {0};

    assert_non_null(numbers);
    assert_non_null(releases);
    for (int i = 0; i < 3; i++) {
        out.size = 0;
        assert_int_equal(crti_put_borrow(&out, kinds[i], &borrow), CRT_OK);
        assert_int_equal(crti_get_borrow(out.data, out.size, &read), CRT_ERR_PROTOCOL);
        assert_int_equal(crti_get_borrow(out.data, out.size - 8, &read),
                         CRT_ERR_PROTOCOL);
    }
    out.size = 0;
    assert_int_equal(crti_put_borrow(&out, CRTI_RECORD_COPY_QUERY, &borrow), CRT_OK);
    assert_int_equal(crti_get_borrow(out.data, out.size, &read), CRT_OK);
    for (unsigned more = 0; more < 2; more++) {
        out.size = 0;
        assert_int_equal(crti_put_release(&out, 1, releases, CRTI_REFS_OF_RECORD + more),
                         CRT_OK);
        assert_int_equal(crti_get_release(out.data, out.size, &release),
                         more ? CRT_ERR_PROTOCOL : CRT_OK);
        assert_int_equal(crti_get_release(out.data, out.size - 16, &release),
                         CRT_ERR_PROTOCOL);
    }
    crti_buffer_fini(&out);
    free(numbers);
    free(releases);
}

static void references_and_chains_come_back(void **state)
{
    crti_buffer_t out = {0};
    uint64_t numbers[3] = {1, 2, 300}, a, b;
    crti_release_t releases[] = {{4, 2}, {500, 1}};
    crti_release_record_t release;
    crti_borrow_record_t borrow = {11, {1, 1}, 2, {3, 3}, numbers, 3};
    crti_chain_t chain = {true, 6, 2, {{{1, 2}, 3, {"A.b", 3}}, {{4, 5}, 6, {"", 0}}}};
    crti_id_t node;

    assert_int_equal(crti_put_borrow(&out, CRTI_RECORD_BORROW, &borrow), CRT_OK);
    assert_int_equal(crti_get_borrow(out.data, out.size, &borrow), CRT_OK);
    assert_int_equal(crti_number_at(borrow.numbers, 2), 300);
    out.size = 0;
    assert_int_equal(crti_put_release(&out, 3, releases, 2), CRT_OK);
    assert_int_equal(crti_get_release(out.data, out.size, &release), CRT_OK);
    assert_true(release.request == 3 && release.count == 2);
    assert_int_equal(crti_release_at(&release, 1).number, releases[1].number);
    assert_int_equal(crti_release_at(&release, 1).tokens, releases[1].tokens);
    out.size = 0;
    assert_int_equal(crti_put_copy(&out, 4, 5, (crti_id_t){7, 8}), CRT_OK);
    assert_int_equal(crti_get_copy(out.data, out.size, &a, &b, &node), CRT_OK);
    assert_int_equal(node.low, 8);
    out.size = 0;
    assert_int_equal(crti_put_chain(&out, &chain), CRT_OK);
    memset(&chain, 0, sizeof(chain));
    assert_int_equal(crti_get_chain(out.data, out.size, &chain), CRT_OK);
    assert_int_equal(chain.count, 2);
    assert_int_equal(chain.waiter[1].wait, 6);
    crti_buffer_fini(&out);
}

static void a_probe_comes_back_and_none_that_makes_no_sense(void **state)
{
    static char name[2 * CRTI_PROBE_NAME];
    crti_probe_t probe = {
        true, 5, 1, 2, {{{1, 2}, true, 3, {"A.b", 3}}, {{4, 5}, false, 6, {name, 0}}}};
    crti_buffer_t out = {0};

    memset(name, 'n', sizeof(name));
    probe.step[1].name.size = sizeof(name);
    assert_int_equal(crti_put_probe(&out, &probe), CRT_OK);
    memset(&probe, 0, sizeof(probe));
    assert_int_equal(crti_get_probe(out.data, out.size, &probe), CRT_OK);
    assert_true(probe.is_confirming && probe.nonce == 5 && probe.at == 1 &&
                probe.count == 2);
    assert_true(!probe.step[1].is_object && probe.step[1].number == 6 &&
                probe.step[1].process.low == 5);
    assert_int_equal(probe.step[1].name.size, CRTI_PROBE_NAME);
    assert_memory_equal(probe.step[0].name.data, "A.b", 3);
    for (size_t size = 0; size < out.size; size++)
        assert_int_equal(crti_get_probe(out.data, size, &probe), CRT_ERR_PROTOCOL);
    for (unsigned at = 0; at < 256; at++) { /* whose turn it is; of how many */
        out.data[10] = (unsigned char)at;
        assert_int_equal(crti_get_probe(out.data, out.size, &probe),
                         at == 1 ? CRT_OK : CRT_ERR_PROTOCOL);
    }
    out.data[10] = 1;
    for (unsigned count = 0; count < 256; count++) {
        out.data[11] = (unsigned char)count;
        assert_int_equal(crti_get_probe(out.data, out.size, &probe),
                         count == 2 ? CRT_OK : CRT_ERR_PROTOCOL);
    }
    crti_buffer_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_with_every_form_of_argument_comes_back),
        cmocka_unit_test(a_call_with_a_seed_keeps_it_under_another_number),
        cmocka_unit_test(what_is_behind_the_arguments_is_checked),
        cmocka_unit_test(a_stream_starts_again_where_it_was),
        cmocka_unit_test(items_and_what_was_consumed_come_back),
        cmocka_unit_test(an_error_keeps_everything_that_is_known),
        cmocka_unit_test(a_stored_result_names_what_it_refers_to),
        cmocka_unit_test(a_peek_and_its_answers_come_back_and_parts_of_them_do_not),
        cmocka_unit_test(a_cancellation_comes_back_and_no_flags_that_nobody_knows),
        cmocka_unit_test(a_request_that_was_filled_one_by_one_comes_back),
        cmocka_unit_test(a_request_of_more_refs_than_it_may_name_is_refused),
        cmocka_unit_test(references_and_chains_come_back),
        cmocka_unit_test(a_probe_comes_back_and_none_that_makes_no_sense),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
