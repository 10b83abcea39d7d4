/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the reader of NER corpora (ml/ner_read.c). What was read can be written and read
 * again, and has then the same words and tags. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "ml/gzip.h"
#include "ml/ner_corpus.h"

static void compare(const crt_ner_corpus_t *a, const crt_ner_corpus_t *b)
{
    if (a->words != b->words || a->documents != b->documents ||
        a->text_size != b->text_size || memcmp(a->text, b->text, a->text_size) != 0 ||
        a->entities != b->entities)
        abort();
    for (size_t i = 0; i < a->words; i++)
        if (a->tags[i].action != b->tags[i].action ||
            a->tags[i].label != b->tags[i].label)
            abort();
}

/* White space at the end of a line is nobody's, and a document's mark is no word. */
static bool can_be_written(const crt_ner_corpus_t *c)
{
    for (size_t i = 0; i < c->words; i++)
        if (strcmp(c->text + c->word_at[i], "-DOCSTART-") == 0)
            return false;
    for (size_t i = 0; i < c->label_count; i++)
        if (strchr(c->labels[i].name, '\r'))
            return false;
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    crt_ner_corpus_t *corpus, *again;
    uint8_t *unpacked;
    char *text;
    size_t count;

    if (crti_gzip_is_packed(data, size) &&
        crti_gzip_unpack("input", data, size, 1 << 20, &unpacked, &count) == CRT_OK)
        free(unpacked);
    if (crt_ner_corpus_parse("input", (const char *)data, size, 1, &corpus) != CRT_OK)
        return 0;
    if (can_be_written(corpus)) {
        if (crti_ner_text(corpus, &text, &count) != CRT_OK ||
            crt_ner_corpus_parse("text", text, count, 1, &again) != CRT_OK)
            abort();
        compare(corpus, again);
        crt_ner_corpus_drop(&again);
        free(text);
    }
    crt_ner_corpus_drop(&corpus);
    return 0;
}

size_t fuzz_seed(unsigned index, uint8_t *out, size_t room)
{
    static const char *const seeds[] = {
        "-DOCSTART-\tO\n\nAnna\tB-PER\nvon\tI-PER\nOsten\tI-"
        "PER\nrests\tO\n\n\tO\nin\tO\n",
        "U.N. NNP I-ORG\nofficial NN O\nEkeus NNP I-PER\nheads VBZ O\n\nfor IN "
        "O\nBaghdad NNP I-LOC\n",
        "Anna|NNP|B-PER von|X|I-PER Ahn|NNP|L-PER in|IN|O Paris|NNP|U-LOC\n\nYes|UH|-\n",
        "\xe2\x99\xa5\tO\n\xf0\x9f\x87\xab\tU-MISC\n",
    };
    size_t size;

    if (index >= sizeof(seeds) / sizeof(seeds[0]))
        return 0;
    size = strlen(seeds[index]);
    if (size > room)
        abort();
    memcpy(out, seeds[index], size);
    return size;
}
