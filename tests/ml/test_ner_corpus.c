/* SPDX-License-Identifier: Apache-2.0 */
/* Corpora of named entities: reading, features, parts, writing; and their batches. */
#include <sys/stat.h>
#include <unistd.h>

#include <crt_ner.h>

#include "ml_test.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static crt_ner_corpus_t *parsed(const char *text, int sentences)
{
    crt_ner_corpus_t *corpus;

    assert_ok(crt_ner_corpus_parse("text", text, strlen(text), sentences, &corpus));
    return corpus;
}

/* All tags of a document as "B-PER L-PER O". */
static const char *tags_of(const crt_ner_corpus_t *corpus, size_t document)
{
    static char out[1024];
    char *at = out;

    for (size_t i = 0; i < crt_ner_corpus_length(corpus, document); i++) {
        const char *label;
        int action = (int)crt_ner_corpus_tag(corpus, document, i, &label);

        at += sprintf(at, "%s%c%s%s", i ? " " : "", "-BILUO"[action], label ? "-" : "",
                      label ? label : "");
    }
    return out;
}

static void expect_error(const char *text, const char *part)
{
    crt_ner_corpus_t *corpus = NULL;

    assert_fails(crt_ner_corpus_parse("text", text, strlen(text), 1, &corpus),
                 CRT_ERR_CORRUPT, part);
    assert_null(corpus);
}

static void words_in_lines_become_documents(void **state)
{
    crt_ner_corpus_t *c = parsed(
        "Anna NNP B-PER\nAhn NNP I-PER\nof IN O\nParis NNP B-LOC\n\n\nYes UH O\n", 1);
    size_t words;

    assert_int_equal(crt_ner_corpus_documents(c), 2);
    assert_int_equal(crt_ner_corpus_words(c), 5);
    assert_int_equal(crt_ner_corpus_entities(c), 2);
    assert_int_equal(crt_ner_corpus_labels(c), 2);
    assert_string_equal(crt_ner_corpus_label(c, 0, &words), "PER");
    assert_int_equal(words, 2);
    assert_null(crt_ner_corpus_label(c, 2, NULL));
    assert_string_equal(tags_of(c, 0), "B-PER L-PER O U-LOC");
    assert_string_equal(crt_ner_corpus_word(c, 1, 0), "Yes");
    assert_null(crt_ner_corpus_word(c, 1, 1));
    assert_int_equal(crt_ner_corpus_key(c, 0, 0, CRT_NER_ORTH),
                     crt_hash_string("Anna", 4));
    assert_int_equal(crt_ner_corpus_key(c, 0, 3, CRT_NER_LENGTH), 5);
    assert_int_equal(crt_ner_corpus_key(c, 2, 0, CRT_NER_NORM), 0);
    assert_int_equal(crt_ner_corpus_length(c, 2), 0);
    crt_ner_corpus_drop(&c);
}

static void sentences_in_lines_are_the_same_documents(void **state)
{
    crt_ner_corpus_t *c = parsed("Anna|NNP|B-PER Ahn|NNP|I-PER of|IN|O Paris|B-LOC\r\n"
                                 "\n||X|O\n",
                                 1);

    assert_int_equal(crt_ner_corpus_documents(c), 2);
    assert_string_equal(tags_of(c, 0), "B-PER L-PER O U-LOC");
    assert_string_equal(crt_ner_corpus_word(c, 0, 3), "Paris");
    assert_string_equal(crt_ner_corpus_word(c, 1, 0), "|");
    crt_ner_corpus_drop(&c);
}

static void iob_begins_an_entity_where_the_label_changes(void **state)
{
    crt_ner_corpus_t *c =
        parsed("a I-X\nb I-X\nc I-Y\nd B-Y\ne I-Y\nf I-Y\ng -\nh I-X\n", 1);

    assert_string_equal(tags_of(c, 0), "B-X L-X U-Y B-Y I-Y L-Y - U-X");
    crt_ner_corpus_drop(&c);
}

static void biluo_is_read_as_it_is(void **state)
{
    crt_ner_corpus_t *c = parsed("a B-X\nb I-X\nc L-X\nd U-Y\ne O\n", 1);

    assert_string_equal(tags_of(c, 0), "B-X I-X L-X U-Y O");
    crt_ner_corpus_drop(&c);
}

static void iobes_says_the_same_with_other_letters(void **state)
{
    crt_ner_corpus_t *c = parsed("a B-X\nb I-X\nc E-X\nd S-Y\ne O\nf B-X\ng E-X\n", 1);

    assert_string_equal(tags_of(c, 0), "B-X I-X L-X U-Y O B-X L-X");
    crt_ner_corpus_drop(&c);
    c = parsed("Anna|S-PER ran|O\n", 1);
    assert_string_equal(tags_of(c, 0), "U-PER O");
    crt_ner_corpus_drop(&c);
    expect_error("a S-X\nb B-X\nc O\n", "text:3: an entity before it has no end: \"c\"");
    expect_error("a O\nb E-X\n",
                 "text:2: goes on with an entity that has not begun: \"b\"");
}

static void lines_end_as_they_do_on_any_system(void **state)
{
    static const char *const texts[] = {
        "a B-X\nb I-X\n\nc O\nd -\n", "a B-X\r\nb I-X\r\n\r\nc O\r\nd -\r\n",
        "a B-X\rb I-X\r\rc O\rd -\r", "a B-X\nb I-X\r\rc O\r\nd -",
        "a|B-X b|I-X\rc|O d|-\r",
    };

    for (size_t i = 0; i < COUNT(texts); i++) {
        crt_ner_corpus_t *c = parsed(texts[i], 1);

        assert_int_equal(crt_ner_corpus_documents(c), 2);
        assert_string_equal(tags_of(c, 0), "B-X L-X");
        assert_string_equal(tags_of(c, 1), "O -");
        assert_string_equal(crt_ner_corpus_word(c, 1, 1), "d");
        crt_ner_corpus_drop(&c);
    }
    expect_error("a O\r\rb O\rc\r", "text:4: a word and its tag are wanted: \"c\"");
}

static void byte_order_mark_is_no_part_of_the_first_word(void **state)
{
    crt_ner_corpus_t *c = parsed("\xef\xbb\xbf"
                                 "a O\nb O\n",
                                 1);

    assert_string_equal(crt_ner_corpus_word(c, 0, 0), "a");
    crt_ner_corpus_drop(&c);
    expect_error("\xff\xfe"
                 "a",
                 "text: UTF-16, not UTF-8");
    expect_error("\xef\xbb\xbf", "text: no words");
}

static void broken_tags_name_file_and_line(void **state)
{
    expect_error("a O\nb X-PER\n", "text:2: no tag: \"X-PER\"");
    expect_error("a O\nb B-\n", "text:2: a tag without a label: \"B-\"");
    expect_error("a O\n\nb BPER\n", "text:3: a tag without a label: \"BPER\"");
    expect_error("a O\nb OO\n", "text:2: no tag");
    expect_error("a O\nb\n", "text:2: a word and its tag are wanted: \"b\"");
    expect_error("a|O b|O\nc|O d\n", "text:2: Word|POS|tag is wanted: \"d\"");
    expect_error("a|O b|Q\n", "text:1: no tag: \"Q\"");
    expect_error("a U-X\nb L-X\n",
                 "text:2: goes on with an entity that has not begun: \"b\"");
    expect_error("a U-X\nb B-X\nc O\n", "text:3: an entity before it has no end: \"c\"");
    expect_error("a U-X\nb B-X\nc L-Y\n",
                 "text:3: an entity before it has no end: \"c\"");
    expect_error("a U-X\nb B-X\n\nc L-X\n",
                 "text:2: an entity has no end in its sentence");
    expect_error("a O\n\xff O\n", "text:2: a word that is not UTF-8");
    expect_error("\n\n", "text: no words");
}

static void bytes_of_zero_and_words_without_end_are_refused(void **state)
{
    static const char zero[] = "a O\nb\0c O\n";
    char *text = malloc(5003);
    crt_ner_corpus_t *c;

    assert_fails(crt_ner_corpus_parse("text", zero, sizeof(zero) - 1, 1, &c),
                 CRT_ERR_CORRUPT, "text:2: a byte of zero");
    memset(text, 'w', 5000);
    memcpy(text + 5000, " O", 3);
    expect_error(text, "text:1: a word that is too long");
    assert_fails(crt_ner_corpus_parse("text", "a O", 3, 0, &c), CRT_ERR_INVALID,
                 "documents of 0 sentences");
    free(text);
}

static void more_labels_than_there_may_be_are_refused(void **state)
{
    char *text = malloc(300 * 16), *at = text;
    crt_ner_corpus_t *c;

    for (int i = 0; i < 300; i++)
        at += sprintf(at, "a B-%d\n", i);
    assert_fails(crt_ner_corpus_parse("text", text, strlen(text), 1, &c),
                 CRT_ERR_TOO_LARGE, "more than 255 labels");
    free(text);
}

static void documents_of_several_sentences_end_at_marks(void **state)
{
    crt_ner_corpus_t *c = parsed("-DOCSTART- -X- O\n\na O\n\nb O\n\nc O\n\n"
                                 "-DOCSTART- -X- O\n\nd O\n\ne O\n",
                                 2);

    assert_int_equal(crt_ner_corpus_documents(c), 3);
    assert_int_equal(crt_ner_corpus_length(c, 0), 2);
    assert_int_equal(crt_ner_corpus_length(c, 1), 1);
    assert_int_equal(crt_ner_corpus_length(c, 2), 2);
    crt_ner_corpus_drop(&c);
}

/* Of spaCy 3.8: Doc(spacy.blank("xx").vocab, words=[...]).to_array([NORM, PREFIX, SUFFIX,
 * SHAPE]) */
static void features_are_those_of_spacy(void **state)
{
    static const struct {
        const char *word;
        uint64_t keys[4];
    } cases[] = {
        {"coffee",
         {3197928453018144401u, 16900879642891266615u, 7125196598045271428u,
          13110060611322374290u}},
        {"London",
         {686896126224900680u, 10603054956214495369u, 3323229765550969522u,
          16072095006890171862u}},
        {"Mr.",
         {1153941636839804325u, 3209455878668673793u, 15275761157247972012u,
          17096342708991983284u}},
        {"1987",
         {939996378630513184u, 5533571732986600803u, 17843654975650030549u,
          16540303583526207617u}},
        {"U.N.",
         {7266617661067169832u, 8804677687338025421u, 116634126254081759u,
          9346084826459880894u}},
        {"Éclair",
         {4594911457355527430u, 8090263931521423933u, 11605145041906211243u,
          16072095006890171862u}},
        {"Straße",
         {4835282032338639150u, 12290980237632234855u, 1581312248722177571u,
          16072095006890171862u}},
        {"Aaaaaaa",
         {1179047054410847331u, 14862748245026736845u, 9095482808210815123u,
          16072095006890171862u}},
        {"♥",
         {11364276798960784327u, 11364276798960784327u, 11364276798960784327u,
          11364276798960784327u}},
        {"2-1",
         {17114532910440132863u, 15180167692696242062u, 17114532910440132863u,
          7667103420895195721u}},
        {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
         "aaaaaaaaaaa"
         "aaaaaaaaaaZ",
         {13161603828153325234u, 11901859001352538922u, 5620690608098288595u,
          13735693502083210583u}},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        uint64_t keys[CRT_NER_FEATURES];

        assert_ok(crt_ner_word_keys(cases[i].word, strlen(cases[i].word), keys));
        for (int k = 0; k < 4; k++)
            if (keys[k] != cases[i].keys[k])
                fail_msg("feature %d of %s is %llu", k, cases[i].word,
                         (unsigned long long)keys[k]);
    }
}

/* Of spaCy 3.8: the same with [ORTH, LOWER, LENGTH, IS_ALPHA, IS_ASCII, IS_DIGIT, IS_LOWER,
 * IS_UPPER, IS_TITLE, IS_SPACE, SPACY, ID] */
static void other_features_are_those_of_spacy(void **state)
{
    static const struct {
        const char *word;
        uint64_t orth, lower, others[10];
    } cases[] = {
        {"London",
         5392354317538386956u,
         686896126224900680u,
         {6, 1, 1, 0, 0, 0, 1, 0, 1, UINT64_MAX}},
        {"iPad",
         2836888894124911746u,
         8836152387775250206u,
         {4, 1, 1, 0, 0, 0, 0, 0, 1, UINT64_MAX}},
        {"NATO",
         5707719273113622397u,
         15302922689940742755u,
         {4, 1, 1, 0, 0, 1, 0, 0, 1, UINT64_MAX}},
        {"1987",
         939996378630513184u,
         939996378630513184u,
         {4, 0, 1, 1, 0, 0, 0, 0, 1, UINT64_MAX}},
        {"Éclair",
         7239557600699054769u,
         4594911457355527430u,
         {6, 1, 0, 0, 0, 0, 1, 0, 1, UINT64_MAX}},
        {"a-b",
         8078056416775021681u,
         8078056416775021681u,
         {3, 0, 1, 0, 1, 0, 0, 0, 1, UINT64_MAX}},
        {"U.N.",
         391119640002477987u,
         7266617661067169832u,
         {4, 0, 1, 0, 0, 1, 1, 0, 1, UINT64_MAX}},
        {"   ",
         6718839663412986256u,
         6718839663412986256u,
         {3, 0, 1, 0, 0, 0, 0, 1, 1, UINT64_MAX}},
        {"♥",
         11364276798960784327u,
         11364276798960784327u,
         {1, 0, 0, 0, 0, 0, 0, 0, 1, UINT64_MAX}},
        {"O'Neill",
         5032264546079621312u,
         18021436434447055287u,
         {7, 0, 1, 0, 0, 0, 1, 0, 1, UINT64_MAX}},
        {"x2",
         5735368184179705075u,
         5735368184179705075u,
         {2, 0, 1, 0, 1, 0, 0, 0, 1, UINT64_MAX}},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        uint64_t keys[CRT_NER_FEATURES];

        assert_ok(crt_ner_word_keys(cases[i].word, strlen(cases[i].word), keys));
        assert_int_equal(keys[CRT_NER_ORTH], cases[i].orth);
        assert_int_equal(keys[CRT_NER_LOWER], cases[i].lower);
        for (int k = 0; k < 10; k++)
            if (keys[CRT_NER_LENGTH + k] != cases[i].others[k])
                fail_msg("%s of %s is %llu",
                         crt_ner_feature_name((crt_ner_feature_t)(CRT_NER_LENGTH + k)),
                         cases[i].word, (unsigned long long)keys[CRT_NER_LENGTH + k]);
    }
    assert_string_equal(crt_ner_feature_name(CRT_NER_ID), "ID");
    assert_null(crt_ner_feature_name((crt_ner_feature_t)CRT_NER_FEATURES));
}

/* Of spaCy 3.8: norm_, lower_ and shape_ of the same documents, and the flags IS_ALPHA, IS_DIGIT,
 * IS_LOWER, IS_UPPER, IS_TITLE and IS_SPACE that are true. */
static void quotes_dashes_and_letters_of_all_scripts_are_those_of_spacy(void **state)
{
    static const struct {
        const char *word, *norm, *lower, *shape, *flags;
    } cases[] = {
        {"’S", "'s", "’s", "’X", "ut"},
        {"“", "\"", "“", "“", ""},
        {"``", "\"", "``", "``", ""},
        {"--", "-", "--", "--", ""},
        {"…", "...", "…", "…", ""},
        {"US$", "$", "us$", "XX$", "u"},
        {"us$", "us$", "us$", "xx$", "l"},
        {"€", "$", "€", "€", ""},
        {"¢", "¢", "¢", "¢", ""},
        {"বাংলাদেশ", "বাংলাদেশ", "বাংলাদেশ", "xাংxাxেx", ""},
        {"২০২৪", "২০২৪", "২০২৪", "dddd", "d"},
        {"हिन्दी", "हिन्दी", "हिन्दी", "xिx्xी", ""},
        {"שָׁלוֹם", "שָׁלוֹם", "שָׁלוֹם", "xָׁxxֹx", ""},
        {"مُحَمَّد", "مُحَمَّد", "مُحَمَّد", "xُxَxَّx", ""},
        {"٣٤", "٣٤", "٣٤", "dd", "d"},
        {"ภาษา", "ภาษา", "ภาษา", "xxxx", "a"},
        {"x²", "x²", "x²", "xd", "l"},
        {"①", "①", "①", "d", "d"},
        {"Ⅳ", "ⅳ", "ⅳ", "Ⅳ", "ut"},
        {"Ⓐb", "ⓐb", "ⓐb", "Ⓐx", "t"},
        {"ǅ", "ǆ", "ǆ", "x", "at"},
        {"ΟΔΟΣ", "οδος", "οδος", "XXXX", "au"},
        {"İZMİR", "i̇zmi̇r", "i̇zmi̇r", "XXXX", "au"},
        {"ΑΣ.", "ας.", "ας.", "XX.", "u"},
        {"Σ", "σ", "σ", "X", "aut"},
        {"ΑΣ-Σ", "ας-σ", "ας-σ", "XX-X", "u"},
        {"\xc2\xa0", "\xc2\xa0", "\xc2\xa0", "\xc2\xa0", "s"},
    };
    static const struct {
        char letter;
        crt_ner_feature_t feature;
    } flags[] = {{'a', CRT_NER_IS_ALPHA}, {'d', CRT_NER_IS_DIGIT},
                 {'l', CRT_NER_IS_LOWER}, {'u', CRT_NER_IS_UPPER},
                 {'t', CRT_NER_IS_TITLE}, {'s', CRT_NER_IS_SPACE}};

    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *const texts[] = {cases[i].norm, cases[i].lower, cases[i].shape};
        const crt_ner_feature_t features[] = {CRT_NER_NORM, CRT_NER_LOWER, CRT_NER_SHAPE};
        uint64_t keys[CRT_NER_FEATURES];

        assert_ok(crt_ner_word_keys(cases[i].word, strlen(cases[i].word), keys));
        for (size_t k = 0; k < COUNT(texts); k++)
            if (keys[features[k]] != crt_hash_string(texts[k], strlen(texts[k])))
                fail_msg("%s of %s is not %s", crt_ner_feature_name(features[k]),
                         cases[i].word, texts[k]);
        for (size_t k = 0; k < COUNT(flags); k++)
            if (keys[flags[k].feature] !=
                (strchr(cases[i].flags, flags[k].letter) != NULL))
                fail_msg("%s of %s is %llu", crt_ner_feature_name(flags[k].feature),
                         cases[i].word, (unsigned long long)keys[flags[k].feature]);
    }
}

static void words_that_are_not_utf8_have_no_keys(void **state)
{
    static const char *const words[] = {
        "\x80", "\xc3",   "\xc0\xaf", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80",
        "\xff", "a\xc3(", ""};
    uint64_t keys[CRT_NER_FEATURES];

    for (size_t i = 0; i < COUNT(words); i++)
        assert_int_equal(crt_ner_word_keys(words[i], strlen(words[i]), keys),
                         CRT_ERR_INVALID);
}

static void what_was_written_reads_the_same(void **state)
{
    char *folder = new_folder();
    const char *path = path_in(folder, "corpus.conll");
    crt_ner_corpus_t *c, *again;

    assert_ok(crt_ner_corpus_new_synthetic(50, 3, &c));
    assert_ok(crt_ner_corpus_write(c, path));
    assert_ok(crt_ner_corpus_read(path, 1, &again));
    assert_int_equal(crt_ner_corpus_documents(again), 50);
    assert_int_equal(crt_ner_corpus_entities(again), crt_ner_corpus_entities(c));
    for (size_t i = 0; i < 50; i++) {
        char tags[1024];

        strcpy(tags, tags_of(c, i));
        assert_string_equal(tags_of(again, i), tags);
        for (size_t k = 0; k < crt_ner_corpus_length(c, i); k++)
            assert_string_equal(crt_ner_corpus_word(again, i, k),
                                crt_ner_corpus_word(c, i, k));
    }
    assert_int_equal(unlink(path), 0);
    assert_fails(crt_ner_corpus_read(path, 1, &again), CRT_ERR_NOT_FOUND, "corpus.conll");
    assert_int_equal(rmdir(folder), 0);
    crt_ner_corpus_drop(&c);
    crt_ner_corpus_drop(&again);
    free(folder);
}

static void a_pipe_is_not_replaced_by_a_file(void **state)
{
    char *folder = new_folder();
    const char *path = path_in(folder, "pipe");
    struct stat info;
    crt_ner_corpus_t *c;

    assert_ok(crt_ner_corpus_new_synthetic(2, 3, &c));
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_fails(crt_ner_corpus_write(c, path), CRT_ERR_IO, "no regular file");
    assert_int_equal(stat(path, &info), 0);
    assert_true(S_ISFIFO(info.st_mode));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
    crt_ner_corpus_drop(&c);
    free(folder);
}

static void a_synthetic_document_does_not_depend_on_the_count(void **state)
{
    crt_ner_corpus_t *few, *many;

    assert_ok(crt_ner_corpus_new_synthetic(5, 9, &few));
    assert_ok(crt_ner_corpus_new_synthetic(300, 9, &many));
    for (size_t i = 0; i < 5; i++)
        assert_string_equal(crt_ner_corpus_word(few, i, 0),
                            crt_ner_corpus_word(many, i, 0));
    assert_int_equal(crt_ner_corpus_labels(many), 4);
    assert_true(crt_ner_corpus_entities(many) > 300);
    crt_ner_corpus_drop(&few);
    crt_ner_corpus_drop(&many);
}

static void parts_are_all_documents_once(void **state)
{
    crt_ner_corpus_t *c, *train, *test;

    assert_ok(crt_ner_corpus_new_synthetic(100, 1, &c));
    assert_ok(crt_ner_corpus_new_part(c, 5, 0, 0.8, &train));
    assert_ok(crt_ner_corpus_new_part(c, 5, 0.8, 1, &test));
    assert_int_equal(crt_ner_corpus_documents(train), 80);
    assert_int_equal(crt_ner_corpus_documents(test), 20);
    assert_int_equal(crt_ner_corpus_words(train) + crt_ner_corpus_words(test),
                     crt_ner_corpus_words(c));
    assert_int_equal(crt_ner_corpus_entities(train) + crt_ner_corpus_entities(test),
                     crt_ner_corpus_entities(c));
    assert_string_equal(crt_ner_corpus_label(test, 0, NULL),
                        crt_ner_corpus_label(c, 0, NULL));
    crt_ner_corpus_drop(&train);
    crt_ner_corpus_drop(&test);
    assert_fails(crt_ner_corpus_new_part(c, 5, 0.001, 0.002, &train), CRT_ERR_INVALID,
                 "no document");
    assert_fails(crt_ner_corpus_new_part(c, 5, 0.5, 0.5, &train), CRT_ERR_INVALID, "0.5");
    crt_ner_corpus_drop(&c);
}

/* Documents with these numbers of words. */
static crt_ner_corpus_t *of_lengths(const int *lengths, size_t count)
{
    char *text = malloc(1 << 20), *at = text;
    crt_ner_corpus_t *c;

    for (size_t i = 0; i < count; i++) {
        for (int k = 0; k < lengths[i]; k++)
            at += sprintf(at, "w%zu O\n", i);
        at += sprintf(at, "\n");
    }
    c = parsed(text, 1);
    free(text);
    return c;
}

static void every_document_is_in_one_batch_of_a_pass(void **state)
{
    int lengths[200], seen[200] = {0};
    crt_ner_batching_t options = crt_ner_batching(4);
    crt_ner_corpus_t *c;
    crt_ner_batches_t *b;
    const crt_ner_batch_t *batch;
    size_t words = 0;

    for (int i = 0; i < 200; i++)
        lengths[i] = 1 + i * 7 % 60;
    lengths[77] = 400;
    c = of_lengths(lengths, 200);
    assert_ok(crt_ner_batches_new(c, &options, &b));
    while (words < crt_ner_corpus_words(c)) {
        size_t own = 0;

        assert_ok(crt_ner_batches_next(b, &batch));
        assert_int_equal(crt_ner_batches_epoch(b), 0);
        for (size_t i = 0; i < batch->count; i++) {
            seen[batch->documents[i]]++;
            own += crt_ner_corpus_length(c, batch->documents[i]);
        }
        assert_int_equal(own, batch->words);
        assert_true(own <= 130 || batch->count == 1);
        words += own;
    }
    for (int i = 0; i < 200; i++)
        assert_int_equal(seen[i], 1);
    assert_ok(crt_ner_batches_next(b, &batch));
    assert_int_equal(crt_ner_batches_epoch(b), 1);
    crt_ner_batches_drop(&b);
    crt_ner_corpus_drop(&c);
}

/* The batches of the first pass over documents of 9, 5, 8 and so on words, in the order of seed
 * 0: 8 9 13 11 6 7 1 14 10 15 12 2 5 0 3 4. */
static const char *cut(const crt_ner_batching_t *options)
{
    static const int lengths[] = {9, 5, 8, 1, 2, 3, 7, 3, 4, 4, 6, 4, 20, 4, 2, 3};
    static char got[1024];
    crt_ner_corpus_t *c = of_lengths(lengths, COUNT(lengths));
    crt_ner_batches_t *b;
    const crt_ner_batch_t *batch;
    char *at = got;

    assert_ok(crt_ner_batches_new(c, options, &b));
    do {
        assert_ok(crt_ner_batches_next(b, &batch));
        for (size_t i = 0; crt_ner_batches_epoch(b) == 0 && i < batch->count; i++)
            at += sprintf(at, "%zu%s", batch->documents[i],
                          i + 1 < batch->count ? " " : "; ");
    } while (crt_ner_batches_epoch(b) == 0);
    crt_ner_batches_drop(&b);
    crt_ner_corpus_drop(&c);
    return got;
}

/* As spaCy 3.8 gives them for this order: minibatch_by_words(documents, size=10, tolerance=0.5,
 * discard_oversize=False), minibatch(documents, size=3), minibatch_by_padded_size(documents,
 * size=16, buffer=9, discard_oversize=...) */
static void batches_are_cut_as_spacy_cuts_them(void **state)
{
    crt_ner_batching_t options = crt_ner_batching(0);

    options.start = options.stop = 10;
    options.tolerance = 0.5;
    assert_string_equal(cut(&options), "8 9; 13 11; 6 7; 1 14; 12; 10 15; 2; 5 0 3 4; ");
    options.kind = CRT_NER_BY_DOCUMENTS;
    options.start = options.stop = 3;
    assert_string_equal(cut(&options), "8 9 13; 11 6 7; 1 14 10; 15 12 2; 5 0 3; 4; ");
    options.kind = CRT_NER_BY_PADDED;
    options.start = options.stop = 16;
    options.buffer = 9;
    assert_string_equal(cut(&options), "6 10; 13 11 1; 8 9 7 14; 12; 0; 2; 15 5 3 4; ");
    options.discard_oversize = true;
    assert_string_equal(cut(&options), "6 10; 13 11 1; 0; 2; 15 5 3 4; ");
}

static void selections_are_those_of_a_corpus_of_spacy(void **state)
{
    static const char text[] =
        "Otto U-PER\n\nIn O\nULM U-LOC\n. O\n\nÉa O\nB U-ORG\n\nC U-X\n";
    crt_ner_corpus_t *c = parsed(text, 1), *s;
    crt_ner_selection_t selection = CRT_NER_SELECTION(.limit = 0);

    assert_ok(crt_ner_corpus_new_selection(c, &selection, &s));
    assert_int_equal(crt_ner_corpus_documents(s), 4);
    assert_int_equal(crt_ner_corpus_labels(s), 4);
    crt_ner_corpus_drop(&s);
    selection.limit = 3;
    selection.max_length = 3; /* fewer words than that */
    selection.lower_case = 1;
    assert_ok(crt_ner_corpus_new_selection(c, &selection, &s));
    assert_int_equal(crt_ner_corpus_documents(s), 2);
    assert_int_equal(crt_ner_corpus_labels(s), 2);
    assert_string_equal(crt_ner_corpus_label(s, 1, NULL), "ORG");
    assert_string_equal(crt_ner_corpus_word(s, 0, 0), "otto");
    assert_string_equal(crt_ner_corpus_word(s, 1, 0), "éa");
    assert_string_equal(tags_of(s, 1), "O U-ORG");
    assert_int_equal(crt_ner_corpus_key(s, 0, 0, CRT_NER_ORTH),
                     crt_hash_string("otto", 4));
    crt_ner_corpus_drop(&s);
    selection.max_length = 1;
    assert_fails(crt_ner_corpus_new_selection(c, &selection, &s), CRT_ERR_INVALID,
                 "none of the first 3 documents has fewer than 1 words");
    selection.lower_case = 2;
    assert_fails(crt_ner_corpus_new_selection(c, &selection, &s), CRT_ERR_INVALID,
                 "2 of the documents in lower case");
    crt_ner_corpus_drop(&c);
}

static void part_of_the_documents_is_in_lower_case(void **state)
{
    crt_ner_corpus_t *c, *s;
    crt_ner_selection_t selection = CRT_NER_SELECTION(.lower_case = 0.3, .seed = 5);
    int lower = 0;

    assert_ok(crt_ner_corpus_new_synthetic(500, 1, &c));
    assert_ok(crt_ner_corpus_new_selection(c, &selection, &s));
    for (size_t i = 0; i < 500; i++) {
        bool is_lower = true;

        for (size_t k = 0; k < crt_ner_corpus_length(s, i); k++)
            is_lower = is_lower && !crt_ner_corpus_key(s, i, k, CRT_NER_IS_TITLE);
        lower += is_lower;
    }
    assert_in_range(lower, 110, 190);
    crt_ner_corpus_drop(&s);
    crt_ner_corpus_drop(&c);
}

static void batches_grow_as_the_schedule_says(void **state)
{
    int lengths[1000];
    crt_ner_batching_t options = crt_ner_batching(0);
    crt_ner_corpus_t *c;
    crt_ner_batches_t *b;
    const crt_ner_batch_t *batch;

    for (int i = 0; i < 1000; i++)
        lengths[i] = 1;
    c = of_lengths(lengths, 1000);
    options.start = 10;
    options.factor = 2;
    options.stop = 50;
    options.tolerance = 0;
    assert_ok(crt_ner_batches_new(c, &options, &b));
    for (size_t expected = 10; expected <= 160; expected *= 2) {
        assert_ok(crt_ner_batches_next(b, &batch));
        assert_int_equal(batch->count, expected < 50 ? expected : 50);
    }
    crt_ner_batches_drop(&b);
    crt_ner_corpus_drop(&c);
}

static void members_share_the_documents_of_a_pass(void **state)
{
    int lengths[101], seen[101] = {0};
    crt_ner_corpus_t *c;

    for (int i = 0; i < 101; i++)
        lengths[i] = 5;
    c = of_lengths(lengths, 101);
    for (int member = 0; member < 4; member++) {
        crt_ner_batching_t options = crt_ner_batching(8);
        crt_ner_batches_t *b;
        const crt_ner_batch_t *batch;

        options.member = member;
        options.members = 4;
        assert_ok(crt_ner_batches_new(c, &options, &b));
        for (;;) {
            assert_ok(crt_ner_batches_next(b, &batch));
            if (crt_ner_batches_epoch(b) > 0)
                break;
            for (size_t i = 0; i < batch->count; i++)
                seen[batch->documents[i]]++;
        }
        crt_ner_batches_drop(&b);
    }
    for (int i = 0; i < 101; i++)
        assert_int_equal(seen[i], 1);
    crt_ner_corpus_drop(&c);
}

static void oversize_documents_may_be_left_out(void **state)
{
    static const int lengths[] = {5, 300, 6};
    crt_ner_batching_t options = crt_ner_batching(0);
    crt_ner_corpus_t *c = of_lengths(lengths, COUNT(lengths)), *large;
    crt_ner_batches_t *b;
    const crt_ner_batch_t *batch;

    options.discard_oversize = true;
    assert_ok(crt_ner_batches_new(c, &options, &b));
    for (int i = 0; i < 3; i++) {
        assert_ok(crt_ner_batches_next(b, &batch));
        assert_int_equal(batch->words, 11);
    }
    crt_ner_batches_drop(&b);
    large = of_lengths(lengths + 1, 1);
    assert_ok(crt_ner_batches_new(large, &options, &b));
    assert_fails(crt_ner_batches_next(b, &batch), CRT_ERR_INVALID, "too many words");
    crt_ner_batches_drop(&b);
    crt_ner_corpus_drop(&large);
    crt_ner_corpus_drop(&c);
}

static void batchings_that_can_not_be_are_refused(void **state)
{
    static const int lengths[] = {5, 6};
    crt_ner_corpus_t *c = of_lengths(lengths, COUNT(lengths));
    crt_ner_batching_t o = crt_ner_batching(0);
    crt_ner_batches_t *b;

    o.members = 3;
    assert_fails(crt_ner_batches_new(c, &o, &b), CRT_ERR_INVALID,
                 "2 documents for 3 members");
    o.member = 3;
    assert_fails(crt_ner_batches_new(c, &o, &b), CRT_ERR_INVALID, "member 3 of 3");
    o = crt_ner_batching(0);
    o.start = 0;
    assert_fails(crt_ner_batches_new(c, &o, &b), CRT_ERR_INVALID, "batches of 0, times");
    o = crt_ner_batching(0);
    o.tolerance = NAN;
    assert_fails(crt_ner_batches_new(c, &o, &b), CRT_ERR_INVALID, "tolerance");
    o = crt_ner_batching(0);
    o.kind = CRT_NER_BY_PADDED;
    assert_fails(crt_ner_batches_new(c, &o, &b), CRT_ERR_INVALID,
                 "batches of kind 2 from a buffer of 0");
    o.struct_size = 1;
    assert_fails(crt_ner_batches_new(c, &o, &b), CRT_ERR_INVALID, "its size is 1");
    crt_ner_corpus_drop(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_in_lines_become_documents),
        cmocka_unit_test(sentences_in_lines_are_the_same_documents),
        cmocka_unit_test(iob_begins_an_entity_where_the_label_changes),
        cmocka_unit_test(biluo_is_read_as_it_is),
        cmocka_unit_test(iobes_says_the_same_with_other_letters),
        cmocka_unit_test(lines_end_as_they_do_on_any_system),
        cmocka_unit_test(byte_order_mark_is_no_part_of_the_first_word),
        cmocka_unit_test(broken_tags_name_file_and_line),
        cmocka_unit_test(bytes_of_zero_and_words_without_end_are_refused),
        cmocka_unit_test(more_labels_than_there_may_be_are_refused),
        cmocka_unit_test(documents_of_several_sentences_end_at_marks),
        cmocka_unit_test(features_are_those_of_spacy),
        cmocka_unit_test(other_features_are_those_of_spacy),
        cmocka_unit_test(quotes_dashes_and_letters_of_all_scripts_are_those_of_spacy),
        cmocka_unit_test(words_that_are_not_utf8_have_no_keys),
        cmocka_unit_test(what_was_written_reads_the_same),
        cmocka_unit_test(a_pipe_is_not_replaced_by_a_file),
        cmocka_unit_test(a_synthetic_document_does_not_depend_on_the_count),
        cmocka_unit_test(parts_are_all_documents_once),
        cmocka_unit_test(every_document_is_in_one_batch_of_a_pass),
        cmocka_unit_test(batches_are_cut_as_spacy_cuts_them),
        cmocka_unit_test(selections_are_those_of_a_corpus_of_spacy),
        cmocka_unit_test(part_of_the_documents_is_in_lower_case),
        cmocka_unit_test(batches_grow_as_the_schedule_says),
        cmocka_unit_test(members_share_the_documents_of_a_pass),
        cmocka_unit_test(oversize_documents_may_be_left_out),
        cmocka_unit_test(batchings_that_can_not_be_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
