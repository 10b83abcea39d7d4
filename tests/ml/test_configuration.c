/* SPDX-License-Identifier: Apache-2.0 */
/* Configurations: what is read, overridden, resolved, asked for, and printed; and what is wrong
 * with them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crt_configuration.h"

#include "ml_test.h"

static crt_configuration_t *parsed(const char *text)
{
    crt_configuration_t *c;

    assert_ok(crt_configuration_parse("train.cfg", text, strlen(text), &c));
    return c;
}

static crt_configuration_t *resolved(const char *text)
{
    crt_configuration_t *c = parsed(text);

    assert_ok(crt_configuration_resolve(c));
    return c;
}

/* The error of a text that can't be read, or can't be resolved. */
static void refused(const char *text, crt_status_t wanted, const char *why)
{
    crt_configuration_t *c = NULL;
    crt_status_t status = crt_configuration_parse("train.cfg", text, strlen(text), &c);

    if (status == CRT_OK)
        status = crt_configuration_resolve(c);
    if (status != wanted || !strstr(crt_error_detail(), why))
        print_error("%s\n%s: %s\n", text, crt_status_name(status), crt_error_detail());
    assert_int_equal(status, wanted);
    assert_non_null(strstr(crt_error_detail(), why));
    crt_configuration_drop(&c);
}

static int64_t number(crt_configuration_t *c, const char *path)
{
    int64_t value = -77;

    assert_ok(crt_configuration_int(c, path, INT64_MIN, INT64_MAX, &value));
    return value;
}

static const char *string(crt_configuration_t *c, const char *path)
{
    const char *value = NULL;

    assert_ok(crt_configuration_string(c, path, &value));
    return value ? value : "(null)";
}

static void keys_are_told_in_their_order_and_whether_they_say_something(void **state)
{
    static const char text[] =
        "[a]\nnull = null\nfalse = false\nzero = 0\nempty = \"\"\nlist = []\nmap = {}\n"
        "[a.b]\nx = 1\n[ab]\ny = [null]\n";
    static const char *const unset[] = {"a.null", "a.false", "a.zero", "a.empty",
                                        "a.list", "a.map",   "a.none", "b"};
    static const char *const set[] = {"a", "a.b", "a.b.x", "ab.y", "ab"};
    crt_configuration_t *c = resolved(text);

    for (size_t i = 0; i < sizeof(unset) / sizeof(unset[0]); i++)
        assert_false(crt_configuration_is_set(c, unset[i]));
    for (size_t i = 0; i < sizeof(set) / sizeof(set[0]); i++)
        assert_true(crt_configuration_is_set(c, set[i]));
    assert_string_equal(crt_configuration_path_at(c, "a", 0), "a.null");
    assert_string_equal(crt_configuration_path_at(c, "a", 6), "a.b.x");
    assert_null(crt_configuration_path_at(c, "a", 7));
    assert_string_equal(crt_configuration_path_at(c, "a.b", 0), "a.b.x");
    assert_string_equal(crt_configuration_path_at(c, NULL, 7), "ab.y");
    assert_null(crt_configuration_path_at(c, "b", 0));
    crt_configuration_drop(&c);
}

static void text_of_any_editor_is_read(void **state)
{
    static const char *const texts[] = {
        "\xef\xbb\xbf[a]\nx = 1\ny = [2,\n  3]\n\n[b]\nz = ${a.x}\n",
        "[a]\r\nx = 1\r\ny = [2,\r\n  3]\r\n\r\n[b]\r\nz = ${a.x}\r\n",
        "\xef\xbb\xbf[a]\rx = 1\ry = [2,\r  3]\r\r[b]\rz = ${a.x}",
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        crt_configuration_t *c = resolved(texts[i]);
        int64_t second = 0;

        assert_int_equal(number(c, "b.z"), 1);
        assert_ok(crt_configuration_int_at(c, "a.y", 1, 0, 9, &second, NULL));
        assert_int_equal(second, 3);
        crt_configuration_drop(&c);
    }
    refused("[a]\r\rx = 1\ry\r", CRT_ERR_INVALID, "train.cfg:4: neither [section]");
    refused("\xff\xfe[", CRT_ERR_CORRUPT, "train.cfg: UTF-16, not UTF-8");
}

/* The configuration of the notebook "Parallel training with Thinc and Ray". */
static const char notebook[] = "\n[training]\niterations = 200\nbatch_size = 128\n\n"
                               "[evaluation]\nbatch_size = 256\nfrequency = 10\n\n"
                               "[model]\n@layers = \"relu_relu_softmax.v1\"\n"
                               "hidden_width = 128\ndropout = 0.2\n\n"
                               "[optimizer]\n@optimizers = \"Adam.v1\"\n\n"
                               "[ray]\nnum_workers = 2\n"
                               "object_store_memory = 3000000000\nnum_cpus = 2\n";

static void values_are_json_and_other_text_is_a_string(void **state)
{
    crt_configuration_t *c =
        resolved("# a comment\n[a]\ni = 3\n  \nf=0.5\nflag = true\ns = \"x = y\"\nbare = "
                 "some text\nlist = [\"p\",\n  \"q\"\n  ]\n; another\nnone = "
                 "null\nnumbers = [5, 6, 7]\n"
                 "[a.b]\ni = 4\n[*.c]\nd = 1\n");
    const char *item = NULL;
    double f = 0, whole = 0;
    int64_t third = 0;
    size_t count;
    bool b = false;

    assert_int_equal(number(c, "a.i"), 3);
    assert_int_equal(number(c, "a.b.i"), 4);
    assert_int_equal(number(c, "*.c.d"), 1);
    assert_ok(crt_configuration_float(c, "a.f", 0, 1, &f));
    assert_ok(crt_configuration_float(c, "a.i", 0, 10, &whole));
    assert_ok(crt_configuration_bool(c, "a.b.missing", &b));
    assert_false(b);
    assert_ok(crt_configuration_bool(c, "a.flag", &b));
    assert_true(b);
    assert_true(f == 0.5 && whole == 3);
    assert_string_equal(string(c, "a.s"), "x = y");
    assert_string_equal(string(c, "a.bare"), "some text");
    assert_string_equal(string(c, "a.none"), "(null)");
    assert_ok(crt_configuration_string_at(c, "a.list", 1, &item, &count));
    assert_int_equal(count, 2);
    assert_string_equal(item, "q");
    assert_ok(crt_configuration_int_at(c, "a.numbers", 2, 0, 9, &third, &count));
    assert_int_equal(count, 3);
    assert_int_equal(third, 7);
    assert_fails(crt_configuration_int_at(c, "a.numbers", 2, 0, 6, &third, NULL),
                 CRT_ERR_INVALID, "number 2 of a.numbers is 7, not in 0..6");
    assert_fails(crt_configuration_int_at(c, "a.list", 0, 0, 6, &third, NULL),
                 CRT_ERR_INVALID, "not a list of whole numbers");
    crt_configuration_drop(&c);
}

static void references_give_the_value_of_another_key(void **state)
{
    crt_configuration_t *c = resolved(
        "[paths]\nroot = \"corpus\"\ntrain = \"${paths.root}/train.iob\"\n"
        "[system]\nseed = 7\nname = run-${system.seed}\nmoney = \"$$5 $${x}\"\n"
        "[training]\nseed = ${system:seed}\ntext = \"${system.seed}\"\n"
        "list = [${system.seed}, \"${training.text}\"]\noptimizer = ${optimizer}\n"
        "[optimizer]\nrate = ${optimizer.deep.rate}\n[optimizer.deep]\nrate = 9\n");

    assert_string_equal(string(c, "paths.train"), "corpus/train.iob");
    assert_int_equal(number(c, "training.seed"), 7);
    assert_string_equal(string(c, "training.text"), "7");
    assert_string_equal(string(c, "system.name"), "run-7");
    assert_string_equal(string(c, "system.money"), "$5 ${x}");
    assert_int_equal(number(c, "training.optimizer.rate"), 9);
    assert_int_equal(number(c, "training.optimizer.deep.rate"), 9);
    crt_configuration_drop(&c);
}

static void what_is_printed_is_read_again_as_the_same(void **state)
{
    crt_configuration_t *c =
        resolved("[a]\nx = 0.1\nmoney = \"$$5\"\nn = null\nlist = "
                 "[1, [2.5]]\ny = ${a.x}\n[a.b]\n[c]\nz = \"\\n\"\n");
    crt_configuration_t *again;
    char *first, *second;
    int64_t steps = 20;

    assert_ok(crt_configuration_int(c, "training.steps", 0, 100, &steps));
    assert_ok(crt_configuration_text(c, &first));
    assert_non_null(strstr(first, "x = 0.1\n"));
    assert_non_null(strstr(first, "y = 0.1\n"));
    assert_non_null(strstr(first, "[training]\nsteps = 20\n"));
    again = resolved(first);
    assert_string_equal(string(again, "a.money"), "$5");
    assert_ok(crt_configuration_text(again, &second));
    assert_string_equal(first, second);
    free(first);
    free(second);
    crt_configuration_drop(&c);
    crt_configuration_drop(&again);
}

static void the_command_line_wins(void **state)
{
    crt_configuration_t *c = parsed("[a]\nx = 1\ny = ${a.x}\n");
    bool flag = false;

    assert_ok(crt_configuration_override(c, "--a.x=2"));
    assert_ok(crt_configuration_override(c, "--a.x=3"));
    assert_ok(crt_configuration_override(c, "--a.flag"));
    assert_ok(crt_configuration_override(c, "--b.text=plain words"));
    assert_ok(crt_configuration_override(c, "--b.copy=\"${a.x} ${b.text}\""));
    assert_ok(crt_configuration_override(c, "--b.made={\"@makers\":\"one\",\"z\":7}"));
    assert_ok(crt_configuration_resolve(c));
    assert_string_equal(string(c, "b.made.@makers"), "one");
    assert_int_equal(number(c, "b.made.z"), 7);
    assert_int_equal(number(c, "a.x"), 3);
    assert_int_equal(number(c, "a.y"), 3);
    assert_string_equal(string(c, "b.copy"), "3 plain words");
    assert_ok(crt_configuration_bool(c, "a.flag", &flag));
    assert_true(flag);
    assert_fails(crt_configuration_override(c, "--flag"), CRT_ERR_INVALID, "neither");
    assert_fails(crt_configuration_override(c, "a.b=3"), CRT_ERR_INVALID, "neither");
    assert_fails(crt_configuration_override(c, "--a..b=3"), CRT_ERR_INVALID, "no name");
    crt_configuration_drop(&c);
}

static void put_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void groups_choose_a_file_beside_the_configuration(void **state)
{
    char folder[] = "/tmp/crt-configuration-XXXXXX", path[128], copy[128];
    crt_configuration_t *c;

    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
    assert_int_equal(mkdir("model", 0700), 0);
    put_file("model/mlp.cfg", "width = 128\ndepth = ${system.depth}\n[sub]\nrate = 1\n");
    put_file("model/cnn.cfg", "width = 32\nkernel = 5\n");
    put_file("model/twice.cfg", "kernel = 3\nkernel = 5\n");
    put_file("main.cfg", "[defaults]\nmodel = \"mlp\"\nnothing = null\n"
                         "[system]\ndepth = 3\n[model]\nwidth = 64\n");
    snprintf(path, sizeof(path), "%s/main.cfg", folder);
    snprintf(copy, sizeof(copy), "%s/copy.cfg", folder);
    assert_ok(crt_configuration_read(path, &c));
    assert_ok(crt_configuration_resolve(c));
    assert_int_equal(number(c, "model.width"), 64);
    assert_int_equal(number(c, "model.depth"), 3);
    assert_int_equal(number(c, "model.sub.rate"), 1);
    assert_int_equal(number(c, "system.depth"), 3);
    assert_ok(crt_configuration_finish(c));
    assert_ok(crt_configuration_write(c, copy));
    crt_configuration_drop(&c);

    assert_ok(crt_configuration_read(copy, &c)); /* holds what was chosen */
    assert_ok(crt_configuration_resolve(c));
    assert_int_equal(number(c, "model.sub.rate"), 1);
    crt_configuration_drop(&c);

    assert_ok(crt_configuration_read(path, &c));
    assert_ok(crt_configuration_override(c, "model=cnn"));
    assert_ok(crt_configuration_override(c, "--model.width=8"));
    assert_ok(crt_configuration_resolve(c));
    assert_int_equal(number(c, "model.width"), 8);
    assert_int_equal(number(c, "model.kernel"), 5);
    assert_false(crt_configuration_has(c, "model.depth"));
    crt_configuration_drop(&c);

    assert_ok(crt_configuration_read(path, &c));
    assert_ok(crt_configuration_override(c, "model=vit"));
    assert_fails(crt_configuration_resolve(c), CRT_ERR_NOT_FOUND,
                 "group 'model' has no choice 'vit'; there are ");
    crt_configuration_drop(&c);

    assert_ok(crt_configuration_read(path, &c));
    assert_ok(crt_configuration_override(c, "modle=cnn"));
    assert_fails(crt_configuration_resolve(c), CRT_ERR_NOT_FOUND, "no group 'modle'");
    crt_configuration_drop(&c);

    assert_ok(crt_configuration_read(path, &c));
    assert_ok(crt_configuration_override(c, "model=twice"));
    assert_fails(crt_configuration_resolve(c), CRT_ERR_INVALID, "line 1 already");
    crt_configuration_drop(&c);

    assert_ok(crt_configuration_read(path, &c));
    assert_ok(crt_configuration_override(c, "model=../x"));
    assert_fails(crt_configuration_resolve(c), CRT_ERR_INVALID, "does not choose");
    crt_configuration_drop(&c);

    unlink("model/mlp.cfg");
    unlink("model/cnn.cfg");
    unlink("model/twice.cfg");
    rmdir("model");
    unlink("main.cfg");
    unlink("copy.cfg");
    assert_int_equal(chdir("/"), 0);
    rmdir(folder);
}

static void a_key_that_nobody_asked_for_is_an_error(void **state)
{
    crt_configuration_t *c = resolved("[a]\nsteps = 1\n\nstesp = 2\n[other]\nx = 1\n");

    number(c, "a.steps");
    assert_fails(crt_configuration_finish(c), CRT_ERR_INVALID,
                 "train.cfg:4: there is no 'a.stesp'; the nearest name is a.steps");
    number(c, "a.stesp");
    assert_fails(crt_configuration_finish(c), CRT_ERR_INVALID, "train.cfg:6");
    crt_configuration_skip(c, "other");
    assert_ok(crt_configuration_finish(c));
    crt_configuration_drop(&c);
}

static void wrong_values_are_named_with_their_line(void **state)
{
    crt_configuration_t *c = resolved("[a]\nx = \"3\"\ny = 1.5\nz = 5\nl = [1]\n[a.s]\n");
    const char *text = NULL;
    int64_t whole = 0;
    bool flag = false;
    double f = 0;

    assert_fails(crt_configuration_int(c, "a.x", 0, 9, &whole), CRT_ERR_INVALID,
                 "train.cfg:2: a.x is \"3\", not a whole number in 0..9");
    assert_fails(crt_configuration_int(c, "a.y", 0, 9, &whole), CRT_ERR_INVALID, ":3:");
    assert_fails(crt_configuration_int(c, "a.z", 0, 4, &whole), CRT_ERR_INVALID, ":4:");
    assert_fails(crt_configuration_float(c, "a.z", 0, 1, &f), CRT_ERR_INVALID, ":4:");
    assert_fails(crt_configuration_bool(c, "a.z", &flag), CRT_ERR_INVALID, "true or");
    assert_fails(crt_configuration_string(c, "a.z", &text), CRT_ERR_INVALID, "a text");
    assert_fails(crt_configuration_string_at(c, "a.l", 0, &text, NULL), CRT_ERR_INVALID,
                 "a list of texts");
    assert_fails(crt_configuration_int(c, "a.s", 0, 4, &whole), CRT_ERR_INVALID,
                 "train.cfg:6: a.s is a section");
    assert_fails(crt_configuration_require(c, "a.t"), CRT_ERR_NOT_FOUND,
                 "train.cfg:1: [a] does not say 't'");
    assert_fails(crt_configuration_require(c, "paths.t"), CRT_ERR_NOT_FOUND,
                 "there is no section [paths]");
    crt_configuration_drop(&c);
}

static void damaged_texts_are_refused_with_file_and_line(void **state)
{
    refused("x = 1\n", CRT_ERR_INVALID, "train.cfg:1: a key in front of");
    refused("[a]\n\nnonsense\n", CRT_ERR_INVALID, "train.cfg:3: neither");
    refused("[a\nx = 1\n", CRT_ERR_INVALID, "train.cfg:1: no ]");
    refused("[]\n", CRT_ERR_INVALID, "no name");
    refused("[a..b]\n", CRT_ERR_INVALID, "no name");
    refused("[a]\n[a]\n", CRT_ERR_INVALID, "train.cfg:2: section [a] is there");
    refused("[a]\nx = 1\nx = 2\n", CRT_ERR_INVALID,
            "train.cfg:3: 'a.x' is in line 2 already");
    refused("[a]\nx.y = 1\n", CRT_ERR_INVALID, "'x.y' is no key");
    refused("[a]\n= 1\n", CRT_ERR_INVALID, "no name");
    refused("[a]\nx = [1,\n", CRT_ERR_INVALID, "train.cfg:2: not JSON");
    refused("[a]\nx = \"open\n", CRT_ERR_INVALID, "train.cfg:2: not JSON");
    refused("[a]\nx = 'single'\n", CRT_ERR_INVALID, "double quotes");
    refused("[a]\nb = 1\n[a.b]\n", CRT_ERR_INVALID, "'a.b' has a value");
    refused("[a.b]\n[a]\nb = 1\n", CRT_ERR_INVALID, "train.cfg:3: 'a.b' is a section");
    refused("[a]\n\n  [b]\n", CRT_ERR_INVALID, "train.cfg:3: begins with a space");
}

static void references_that_lead_nowhere_are_refused(void **state)
{
    refused("[a]\nx = ${a.x}\n", CRT_ERR_INVALID, "train.cfg:2: a.x refers to itself");
    refused("[a]\nx = \"${a.y}\"\ny = [${a.z}]\nz = ${a.x}\n", CRT_ERR_INVALID,
            "refers to itself");
    refused("[a]\nx = 1\n\ny = ${a.xx}\n", CRT_ERR_NOT_FOUND,
            "train.cfg:4: a.y refers to ${a.xx}, which is not there; the nearest name is "
            "a.x");
    refused("[a]\nx = ${a.y\n", CRT_ERR_INVALID, "no reference");
    refused("[a]\nx = \"${}\"\n", CRT_ERR_INVALID, "no reference");
    refused("[a]\nx = [1]\ny = \"t ${a.x}\"\n", CRT_ERR_INVALID, "no single value");
    refused("[a]\nx = ${a}\n", CRT_ERR_INVALID, "part of");
    refused("[a]\nx = ${b}\n[b]\ny = ${a}\n", CRT_ERR_INVALID, "");
    refused("[a]\nx = ${nothing}\n", CRT_ERR_NOT_FOUND, "not there");
}

typedef struct optimizer {
    char name[16];
    double rate;
} optimizer_t;

static crt_status_t make_adam(crt_configuration_t *c, const char *section, void *made)
{
    optimizer_t *o = made;
    char path[64];

    snprintf(o->name, sizeof(o->name), "adam");
    snprintf(path, sizeof(path), "%s.learn_rate", section);
    o->rate = 0.001;
    return crt_configuration_float(c, path, 0, 1, &o->rate);
}

static void factories_make_what_a_section_names(void **state)
{
    static const crt_factory_t factories[] = {
        CRT_FACTORY(.registry = "optimizers", .name = "Adam.v1", .make = make_adam),
        CRT_FACTORY(.registry = "layers", .name = "Adam.v2", .make = make_adam),
        {0}};
    crt_configuration_t *c = resolved(notebook), *other;
    optimizer_t optimizer;

    assert_ok(
        crt_configuration_make(c, "optimizer", "optimizers", factories, &optimizer));
    assert_string_equal(optimizer.name, "adam");
    assert_true(optimizer.rate == 0.001);
    assert_int_equal(number(c, "ray.object_store_memory"), 3000000000);
    assert_fails(crt_configuration_make(c, "ray", "optimizers", factories, &optimizer),
                 CRT_ERR_NOT_FOUND, "train.cfg:18: [ray] does not say '@optimizers'");
    crt_configuration_drop(&c);
    other = resolved("[o]\n@optimizers = \"Adan.v1\"\n");
    assert_fails(crt_configuration_make(other, "o", "optimizers", factories, &optimizer),
                 CRT_ERR_NOT_FOUND,
                 "train.cfg:2: no 'optimizers' is called 'Adan.v1'; the nearest name is "
                 "Adam.v1");
    crt_configuration_drop(&other);
}

static void a_value_that_names_a_factory_is_a_section(void **state)
{
    static const crt_factory_t factories[] = {
        CRT_FACTORY(.registry = "optimizers", .name = "Adam.v1", .make = make_adam), {0}};
    crt_configuration_t *c = resolved(
        "[s]\nrate = 0.5\n[t]\no = {\"@optimizers\": \"Adam.v1\", \"learn_rate\": "
        "\"${s.rate}\"}\n");
    optimizer_t optimizer;

    assert_true(crt_configuration_has(c, "t.o.@optimizers"));
    assert_fails(crt_configuration_make(c, "t.o", "optimizers", factories, &optimizer),
                 CRT_ERR_INVALID, "train.cfg:4: t.o.learn_rate is \"0.5\"");
    crt_configuration_drop(&c);
    assert_ok(
        crt_configuration_parse("train.cfg", "[t]\no = {\"@x\": 1, \"a.b\": 2}", 27, &c));
    assert_fails(crt_configuration_resolve(c), CRT_ERR_INVALID,
                 "'a.b' is no name of a key");
    crt_configuration_drop(&c);
}

static void a_command_line_gives_its_file_and_overrides_and_keeps_the_rest(void **state)
{
    char folder[] = "/tmp/crt-arguments-XXXXXX", file[64];
    char *words[] = {"train", file, "--csv", "b.csv", "--t.steps=7", "-x", "c.d", NULL};
    char *none[] = {"train", "--json", NULL}, *missing[] = {"train", "/nowhere", NULL};
    crt_configuration_t *c;
    int argc = 7;

    assert_non_null(mkdtemp(folder));
    snprintf(file, sizeof(file), "%s/train.cfg", folder);
    put_file(file, "[t]\nsteps = 5\nrate = 3\n");
    assert_ok(crt_configuration_arguments(&argc, words, &c));
    assert_int_equal(argc, 5);
    assert_string_equal(words[1], "--csv");
    assert_string_equal(words[2], "b.csv");
    assert_string_equal(words[3], "-x");
    assert_string_equal(words[4], "c.d");
    assert_null(words[5]);
    assert_int_equal(number(c, "t.steps"), 7);
    assert_int_equal(number(c, "t.rate"), 3);
    crt_configuration_drop(&c);
    argc = 2;
    assert_ok(crt_configuration_arguments(&argc, none, &c));
    assert_int_equal(argc, 2);
    assert_false(crt_configuration_has(c, "t"));
    crt_configuration_drop(&c);
    assert_fails(crt_configuration_arguments(&argc, missing, &c), CRT_ERR_NOT_FOUND,
                 "/nowhere");
    assert_int_equal(unlink(file) + rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_json_and_other_text_is_a_string),
        cmocka_unit_test(text_of_any_editor_is_read),
        cmocka_unit_test(keys_are_told_in_their_order_and_whether_they_say_something),
        cmocka_unit_test(references_give_the_value_of_another_key),
        cmocka_unit_test(what_is_printed_is_read_again_as_the_same),
        cmocka_unit_test(the_command_line_wins),
        cmocka_unit_test(groups_choose_a_file_beside_the_configuration),
        cmocka_unit_test(a_key_that_nobody_asked_for_is_an_error),
        cmocka_unit_test(wrong_values_are_named_with_their_line),
        cmocka_unit_test(damaged_texts_are_refused_with_file_and_line),
        cmocka_unit_test(references_that_lead_nowhere_are_refused),
        cmocka_unit_test(factories_make_what_a_section_names),
        cmocka_unit_test(a_value_that_names_a_factory_is_a_section),
        cmocka_unit_test(a_command_line_gives_its_file_and_overrides_and_keeps_the_rest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
