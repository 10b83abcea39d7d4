/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: files of NER models (ml/ner_file.c). The checksum is put right, so that what is
 * behind it is reached. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "ml/ner_file.h"

#include <zlib.h>

static crt_ner_model_t *new_model(void)
{
    static const char text[] = "Anna B-PER\nAhn L-PER\nParis U-LOC\n";
    crt_ner_options_t options = crt_ner_options();
    crt_ner_corpus_t *corpus;
    crt_ner_model_t *model;

    options.width = 1;
    options.depth = 1;
    for (int k = 0; k < options.table_count; k++)
        options.tables[k].rows = 2 - (k > 0);
    options.hidden = 1;
    if (crt_ner_corpus_parse("text", text, strlen(text), 1, &corpus) != CRT_OK ||
        crt_ner_model_new(&options, corpus, 1, &model) != CRT_OK)
        abort();
    crt_ner_corpus_drop(&corpus);
    return model;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    crt_ner_model_t *model = NULL;
    crti_ner_file_t file;
    uint8_t *bytes;

    if (size < sizeof(uint32_t))
        return 0;
    bytes = malloc(size);
    if (!bytes)
        abort();
    memcpy(bytes, data, size - sizeof(uint32_t));
    memcpy(bytes + size - sizeof(uint32_t),
           &(uint32_t){
               (uint32_t)crc32_z(crc32_z(0, NULL, 0), bytes, size - sizeof(uint32_t))},
           sizeof(uint32_t));
    if (crti_ner_file_decode("input", bytes, size, &file) == CRT_OK &&
        crti_ner_file_make("input", &file, &model) == CRT_OK)
        crt_ner_model_drop(&model);
    free(bytes);
    return 0;
}

size_t fuzz_seed(unsigned index, uint8_t *out, size_t room)
{
    static const char note[] = "note";
    crt_ner_model_t *model;
    crt_optimizer_t *optimizer;
    unsigned char *bytes;
    size_t size;

    if (index > 1)
        return 0;
    model = new_model();
    if (crt_adam_new(crt_ner_model_network(model), 0.1, &optimizer) != CRT_OK ||
        crti_ner_file_encode(model, index ? optimizer : NULL, note,
                             index ? sizeof(note) : 0, &bytes, &size) != CRT_OK ||
        size > room)
        abort();
    memcpy(out, bytes, size);
    free(bytes);
    crt_optimizer_drop(&optimizer);
    crt_ner_model_drop(&model);
    return size;
}
