/* SPDX-License-Identifier: Apache-2.0 */
/* Records between processes: every decoder on every input. */
#include <stdlib.h>
#include <string.h>

#include "runtime/core/values/record.h"

#include "fuzz.h"

static uint64_t call(const void *data, size_t size)
{
    crti_call_head_t head;
    crti_call_arg_t arg;
    crti_reader_t args;
    uint64_t sum = 0;

    if (crti_get_call(data, size, &head, &args) != CRT_OK)
        return 0;
    for (unsigned i = 0; i < head.arg_count; i++) {
        if (crti_get_arg(&args, data, &arg) != CRT_OK)
            break;
        for (uint32_t j = 0; j < arg.location.node_count; j++)
            sum += crti_location_node(&arg.location, j).low;
        if (arg.value.size)
            sum += ((const unsigned char *)arg.value.data)[arg.value.size - 1];
    }
    return sum;
}

static uint64_t result(const void *data, size_t size)
{
    crti_result_t r;
    uint64_t number, sum = 0;

    if (crti_get_result(data, size, &number, &r) != CRT_OK)
        return 0;
    for (uint32_t j = 0; j < r.location.node_count; j++)
        sum += crti_location_node(&r.location, j).low;
    for (size_t i = 0; i < r.failure.text.size; i++)
        sum += ((const unsigned char *)r.failure.text.data)[i];
    return sum + r.table.size + r.ref.tcp.size;
}

static uint64_t peeked(const uint8_t *data, size_t size)
{
    crti_reader_t reader = crti_read_peeked(data, size);
    crti_result_t one;
    bool is_there = true;
    uint64_t number, sum = 0;

    while (crti_next_peeked(&reader, &is_there, &number, &one) == CRT_OK && is_there)
        sum += number + one.value.size;
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    crti_borrow_record_t borrow;
    crti_release_record_t release;
    crti_chain_t chain;
    crti_consumed_t more;
    crti_result_t item;
    crti_id_t node;
    unsigned flags;
    const void *numbers;
    uint32_t count;
    uint64_t a, b, sum = call(data, size) + result(data, size) + peeked(data, size);

    if (crti_get_peek(data, size, &numbers, &count) == CRT_OK && count)
        sum += crti_number_at(numbers, count - 1);

    if (crti_get_borrow(data, size, &borrow) == CRT_OK)
        for (uint32_t i = 0; i < borrow.count; i++)
            sum += crti_number_at(borrow.numbers, i);
    if (crti_get_chain(data, size, &chain) == CRT_OK)
        for (unsigned i = 0; i < chain.count; i++)
            sum += chain.waiter[i].name.size;
    crti_get_copy(data, size, &a, &b, &node);
    crti_get_locate(data, size, &a, &b);
    crti_get_cancel(data, size, &a, &flags);
    crti_get_consumed(data, size, &more);
    if (crti_get_item(data, size, &a, &b, &item) == CRT_OK)
        sum += item.table.size + item.value.size;
    if (crti_get_release(data, size, &release) == CRT_OK)
        for (uint32_t i = 0; i < release.count; i++)
            sum += crti_release_at(&release, i).number;
    return sum == UINT64_MAX;
}

static void seed_call(crti_buffer_t *out)
{
    crti_call_head_t head = {.flags = CRTI_CALL_NAMED | CRTI_CALL_RETURNS,
                             .is_stream = true,
                             .stream = {5, 1005, 77},
                             .index = 1,
                             .arg_count = 4,
                             .call = 9,
                             .name = {"add", 3},
                             .given_name = {"epoch", 5}};
    crti_location_t location = {{{1, 2}, 3}, 4, "0123456789abcdef", 1};
    crti_ref_name_t ref = {{{1, 2}, 3}, 4, {5, 6}, {"tcp://x:1", 9}};
    float numbers[4] = {0};
    crt_tensor_t tensor = crt_tensor_floats(numbers, 4);
    crt_arg_t arg[] = {crt_arg_int(5), crt_arg_tensor(&tensor)};
    crti_encoder_t e = {0};

    crti_put_call(out, &head);
    for (int i = 0; i < 2; i++)
        if (crti_encode(&e, NULL, &arg[i]) == CRT_OK)
            crti_put_arg_value(out, 0, &e);
    crti_put_arg_object(out, &ref, &location);
    crti_put_arg_ref(out, &ref);
    crti_encoder_fini(&e);
}

size_t fuzz_seed(unsigned index, uint8_t *out, size_t room)
{
    crti_location_t location = {{{1, 2}, 3}, 4, "0123456789abcdef", 1};
    crti_result_t results[] = {
        {.form = CRTI_RESULT_VALUE, .value = {"\0\1", 2}},
        {.form = CRTI_RESULT_STORED, .location = location, .table = {"abc", 3}},
        {.form = CRTI_RESULT_ERROR,
         .failure = {
             CRT_ERR_USER, true, {"text", 4}, {"A", 1}, {"b", 1}, {1, 2}, {3, 4}, 5}}};
    uint64_t numbers[3] = {1, 2, 3};
    crti_release_t releases[] = {{1, 1}, {2, UINT64_MAX}};
    crti_borrow_record_t borrow = {1, {2, 3}, 4, {5, 6}, numbers, 3};
    crti_chain_t chain = {false, 1, 1, {{{1, 2}, 3, {"A.b", 3}}}};
    crti_buffer_t record = {0};
    size_t size;

    if (index == 0)
        seed_call(&record);
    else if (index <= 3)
        crti_put_result(&record, CRTI_RECORD_REPLY, 7, &results[index - 1], NULL);
    else if (index == 4)
        crti_put_borrow(&record, CRTI_RECORD_BORROW, &borrow);
    else if (index == 5)
        crti_put_chain(&record, &chain);
    else if (index == 6)
        crti_put_peek(&record, numbers, 3);
    else if (index == 7 && crti_begin_peeked(&record) == CRT_OK)
        for (int i = 0; i < 3; i++)
            crti_put_peeked(&record, numbers[i], &results[i]);
    else if (index <= 9)
        crti_put_item(&record, 7, 5, &results[index - 8]);
    else if (index == 10)
        crti_put_consumed(&record, &(crti_consumed_t){7, 1500, 99});
    else if (index == 11)
        crti_put_release(&record, 8, releases, 2);
    size = record.size <= room ? record.size : 0;
    if (size)
        memcpy(out, record.data, size);
    crti_buffer_fini(&record);
    return size;
}
