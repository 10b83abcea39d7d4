/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: what processes and nodes tell of refs and objects (base/object_records.c,
 * control/rows/object_rows.c, ref_rows.c). */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "runtime/base/object_records.h"
#include "runtime/control/rows/state_rows.h"
#include "runtime/net/message.h"

/* What is decoded comes back as it was. */
static void read_refs(crti_span_t bytes)
{
    crti_ref_records_t records, writer;
    crti_ref_record_t ref, again;

    if (crti_ref_records_open(bytes, &records) != CRT_OK)
        return;
    while (crti_ref_records_next(&records, &ref) == CRT_OK) {
        CRTI_AUTO(crti_buffer_fini) crti_buffer_t once = {0};

        writer = (crti_ref_records_t){.round = records.round};
        if (crti_ref_records_begin(&writer, &once) != CRT_OK ||
            crti_ref_records_add(&writer, &ref, &once) != CRT_OK ||
            crti_ref_records_open(crti_span(once.data, once.size), &writer) != CRT_OK ||
            crti_ref_records_next(&writer, &again) != CRT_OK || writer.rest.size ||
            strcmp(again.place, ref.place) != 0 || again.size != ref.size ||
            !*crti_ref_value_name(again.value))
            abort();
    }
}

static void check(char *text_take)
{
    json_t *json = text_take ? json_loads(text_take, 0, NULL) : NULL;

    if (!json)
        abort();
    json_decref(json);
    free(text_take);
}

/* The bytes are the answers of two nodes. */
static void join(const uint8_t *data, size_t size)
{
    static const char *const queries[] = {
        "", "{\"limit\":2,\"filters\":[[\"call_site\",true,[\"a.c:7\"]]]}"};
    static const char counts[] = "{\"count_by\":[\"call_site\",\"is_sealed\","
                                 "\"reference_type\",\"calls\"],\"sum\":\"size\"}";
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t list = {0};
    size_t half = size / 2;
    crti_span_t answers;

    if (crti_list_pack(&list, data, half) != CRT_OK ||
        crti_list_pack(&list, data + half, size - half) != CRT_OK)
        abort();
    answers = crti_span(list.data, list.size);
    for (size_t i = 0; i < 2; i++) {
        check(crti_object_rows_join(answers, crti_str(queries[i])));
        check(crti_ref_rows_join(answers, crti_str(queries[i]), 0));
    }
    check(crti_object_rows_join(answers, crti_str(counts)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_refs(crti_span(data, size));
    join(data, size);
    return 0;
}

static void put_told(crti_id_t owner, crti_buffer_t *told)
{
    crti_ref_records_t records = {.round = 1, .count = 1, .bytes = 5000};
    crti_ref_record_t ref = {.id = {owner, 1},
                             .size = 5000,
                             .handles = 1,
                             .kind = CRTI_REF_LOCAL,
                             .value = CRTI_REF_STORED,
                             .is_owned = true,
                             .place = "a.c:7"};

    if (crti_ref_records_begin(&records, told) != CRT_OK ||
        crti_ref_records_add(&records, &ref, told) != CRT_OK)
        abort();
}

static void put_node(crti_buffer_t *node)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t told = {0};
    const crti_id_t owner = {1, 2};
    const crti_object_records_t records = {
        .node = {3, 4}, .ip = "10.0.0.1", .holders = 1};
    const crti_object_record_t object = {
        .id = {owner, 1}, .size = 5000, .pins = 1, .is_sealed = true};
    crti_holder_record_t holder = {.worker = owner, .pid = 17};

    put_told(owner, &told);
    holder.told = crti_span(told.data, told.size);
    if (crti_object_records_begin(&records, node) != CRT_OK ||
        crti_object_records_add_holder(&holder, node) != CRT_OK ||
        crti_object_records_add(&object, node) != CRT_OK)
        abort();
}

/* What a process tells, and what two nodes do. */
size_t fuzz_seed(unsigned index, uint8_t *out, size_t room)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t bytes = {0};

    if (index == 0)
        put_told((crti_id_t){1, 2}, &bytes);
    for (unsigned i = 0; index == 1 && i < 2; i++)
        put_node(&bytes);
    if (bytes.size > room)
        abort();
    if (bytes.size)
        memcpy(out, bytes.data, bytes.size);
    return bytes.size;
}
