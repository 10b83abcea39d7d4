/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of cli/folder.c and cli/ignore.c: what of a folder becomes a zip, and that it is always the
 * same. */
#include "cli/folder.h"
#include "cli/ignore.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64];

static int make_folder(void **state)
{
    strcpy(folder, "/tmp/crt-folder-XXXXXX");
    return mkdtemp(folder) ? chdir(folder) : -1;
}

static int remove_folder(void **state)
{
    char command[100];

    snprintf(command, sizeof(command), "rm -rf %s*", folder);
    return chdir("/") || system(command);
}

static void shell(const char *command)
{
    assert_int_equal(system(command), 0);
}

/* The bytes of the zip, which the caller frees. */
static char *pack(const char *const *excludes, size_t *size_out)
{
    FILE *zip;
    char *bytes = malloc(1 << 20);

    if (crti_folder_pack(folder, excludes, &zip) != CRT_OK)
        fail_msg("%s", crt_error_detail());
    *size_out = fread(bytes, 1, 1 << 20, zip);
    fclose(zip);
    return bytes;
}

static bool has_name(const char *bytes, size_t size, const char *name)
{
    return memmem(bytes, size, name, strlen(name)) != NULL;
}

static const char *const nothing[] = {NULL};

static void the_same_files_are_the_same_bytes_whatever_order_clock_and_zone(void **state)
{
    size_t a_size, b_size;
    char *a, *b;

    shell("mkdir d && echo 1 > d/x && echo 2 > b && echo 3 > a && chmod 755 a");
    a = pack(nothing, &a_size);
    shell("rm -r * && echo 3 > a && chmod 700 a && echo 2 > b && mkdir d && echo 1 > d/x "
          "&& "
          "touch -d 2001-02-03 a b d/x d && chmod 600 b");
    setenv("TZ", "Pacific/Kiritimati", 1);
    tzset();
    b = pack(nothing, &b_size);
    assert_int_equal(a_size, b_size);
    assert_memory_equal(a, b, a_size);
    free(b);
    shell("echo 4 > a");
    b = pack(nothing, &b_size);
    assert_true(a_size != b_size || memcmp(a, b, a_size) != 0);
    free(a);
    free(b);
}

static void gitignore_and_excludes_leave_files_out(void **state)
{
    static const char *const excludes[] = {"/data", NULL};
    size_t size;
    char *zip;

    shell("mkdir -p build sub/deep data .git && touch build/obj a.o keep.o sub/b.o "
          "sub/local sub/deep/local top data/set .git/config main.c && "
          "printf '*.o\\n!keep.o\\nbuild/\\n# local\\n' > .gitignore && "
          "echo /local > sub/.gitignore");
    zip = pack(excludes, &size);
    assert_true(has_name(zip, size, "main.c"));
    assert_true(has_name(zip, size, "keep.o"));
    assert_true(has_name(zip, size, "sub/deep/local"));
    assert_false(has_name(zip, size, "a.o"));
    assert_false(has_name(zip, size, "sub/b.o"));
    assert_false(has_name(zip, size, "sub/local"));
    assert_false(has_name(zip, size, "build"));
    assert_false(has_name(zip, size, "data"));
    assert_false(has_name(zip, size, ".git/"));
    free(zip);
}

static void a_gitignore_of_any_editor_leaves_its_files_out(void **state)
{
    static const char *const texts[] = {
        "\\357\\273\\277secret\\nother\\n", /* with a byte order mark */
        "\\357\\273\\277secret\\r\\nother\\r\\n", "other\\rsecret\\r", "other\\nsecret"};
    size_t size;
    char *zip;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        char line[200];

        snprintf(line, sizeof(line),
                 "touch secret other main.c && printf '%s' >.gitignore", texts[i]);
        shell(line);
        zip = pack(nothing, &size);
        assert_true(has_name(zip, size, "main.c"));
        assert_false(has_name(zip, size, "secret"));
        assert_false(has_name(zip, size, "other"));
        free(zip);
    }
}

static void a_gitignore_that_cannot_be_read_is_no_empty_one(void **state)
{
    FILE *file;

    shell("touch main.c && printf '\\377\\376s\\000' >.gitignore");
    assert_int_equal(crti_folder_pack(folder, nothing, &file), CRT_ERR_IO);
    assert_non_null(strstr(crt_error_detail(), ".gitignore: it is UTF-16"));
    shell("truncate -s 5M .gitignore");
    assert_int_equal(crti_folder_pack(folder, nothing, &file), CRT_ERR_IO);
    assert_non_null(strstr(crt_error_detail(), ".gitignore: File too large"));
    shell("rm .gitignore && ln -s .gitignore .gitignore");
    assert_int_equal(crti_folder_pack(folder, nothing, &file), CRT_ERR_IO);
}

static void links_that_stay_inside_are_kept(void **state)
{
    size_t size;
    char *zip;

    shell(
        "mkdir -p a/b && echo x > file && ln -s ../../file a/b/link && ln -s none gone");
    zip = pack(nothing, &size);
    assert_true(has_name(zip, size, "a/b/link"));
    free(zip);
}

/* Unpacks it beside the folder, into the folder's name and "-unpacked". */
static void unpack(const char *zip, size_t size)
{
    FILE *file =
        popen("cat >$PWD-zip && python3 -m zipfile -e $PWD-zip $PWD-unpacked", "w");

    assert_int_equal(fwrite(zip, 1, size, file), size);
    assert_int_equal(pclose(file), 0);
}

static void what_a_link_leads_to_outside_is_packed_in_its_place(void **state)
{
    static const char *const excludes[] = {"*.tmp", NULL};
    size_t size;
    char *zip;

    /* Files and a folder outside, with links of their own: to a file there, to nothing, and
     * back. */
    shell("mkdir -p inner $PWD-out/sub && cd $PWD-out && echo far >file && "
          "echo deep >sub/deep && touch sub/x.tmp && ln -s ../file sub/near && "
          "ln -s ../none sub/gone && ln -s .. sub/loop");
    shell(
        "ln -s ../../$(basename $PWD)-out/file inner/alone && ln -s $PWD-out inner/all");
    zip = pack(excludes, &size);
    unpack(zip, size);
    free(zip);
    shell("cd $PWD-unpacked/inner && test \"$(cat alone)\" = far && "
          "test \"$(cat all/file all/sub/deep all/sub/near | tr '\\n' ' ')\" = "
          "'far deep far ' && test ! -e all/sub/x.tmp && test ! -L all/sub/gone && "
          "test ! -e all/sub/gone && test ! -e all/sub/loop");
}

static void a_link_to_what_holds_the_folder_is_left_out(void **state)
{
    size_t size;
    char *zip;

    shell("echo x >file && mkdir d && ln -s / root && ln -s ../.. d/up && "
          "ln -s $PWD itself");
    zip = pack(nothing, &size);
    assert_true(has_name(zip, size, "file"));
    assert_false(has_name(zip, size, "root"));
    assert_false(has_name(zip, size, "up"));
    assert_false(has_name(zip, size, "itself"));
    free(zip);
}

static void a_link_by_a_whole_path_that_stays_inside_becomes_relative(void **state)
{
    char command[300];
    size_t size;
    char *zip;

    snprintf(command, sizeof(command),
             "mkdir -p a/b && echo x > file && ln -s %s/file a/b/link && "
             "ln -s a/../file middle && ln -s /no/such/place gone && ln -s ../../gone up",
             folder);
    shell(command);
    zip = pack(nothing, &size);
    assert_true(has_name(zip, size, "a/b/link"));
    assert_true(has_name(zip, size, "../../file")); /* not compressed */
    assert_true(has_name(zip, size, "middle"));
    assert_false(has_name(zip, size, folder));
    assert_false(has_name(zip, size, "gone")); /* what leads nowhere is left out */
    assert_false(has_name(zip, size, "up"));
    free(zip);
}

static void
names_that_no_zip_can_hold_are_refused_and_others_come_as_they_are(void **state)
{
    size_t size;
    char *zip;
    FILE *file;

    shell("touch 'back\\slash' 'a\xc3\xa9' && mkdir d && touch 'd/an\\other'");
    zip = pack(nothing, &size);
    /* With a slash in it nobody takes the other for one. */
    assert_true(has_name(zip, size, "./back\\slash"));
    assert_true(has_name(zip, size, "d/an\\other"));
    assert_true(has_name(zip, size, "a\xc3\xa9"));
    free(zip);
    shell("touch 'caf\xe9'");
    assert_int_equal(crti_folder_pack(folder, nothing, &file), CRT_ERR_INVALID);
    assert_non_null(strstr(crt_error_detail(), "caf\xe9 is no UTF-8"));
}

static void a_folder_of_which_nothing_is_left_is_packed(void **state)
{
    static const char *const all[] = {"*", NULL};
    size_t size;

    free(pack(nothing, &size));
    assert_int_equal(size, 22); /* the end of a zip */
    shell("touch x y");
    free(pack(all, &size));
    assert_int_equal(size, 22);
}

static void a_folder_that_is_too_large_is_refused_with_its_largest_files(void **state)
{
    FILE *file;

    shell("mkdir d && truncate -s 490M d/second && truncate -s 600M first && echo x > y");
    assert_int_equal(crti_folder_pack(folder, nothing, &file), CRT_ERR_TOO_LARGE);
    assert_non_null(
        strstr(crt_error_detail(), "first (600.0 MiB), d/second (490.0 MiB), y"));
}

static void what_is_no_folder_is_refused(void **state)
{
    FILE *file;

    assert_int_equal(crti_folder_pack("/no/such", nothing, &file), CRT_ERR_NOT_FOUND);
}

static void patterns_match_as_in_git(void **state)
{
    static const struct {
        const char *pattern, *path;
        bool is_directory, matches;
    } cases[] = {
        {"*.q", "q/x.q", false, true},   {"/x.q", "q/x.q", false, false},
        {"d/*.q", "d/x.q", false, true}, {"d/*.q", "d/b/x.q", false, false},
        {"a/**/x", "a/x", false, true},  {"a/**/x", "a/b/c/x", false, true},
        {"**/x", "x", false, true},      {"**/x/y", "b/x/y", false, true},
        {"a/**", "a/b", false, true},    {"a/**", "a", true, false},
        {"d/", "d", false, false},       {"d/", "q/d", true, true},
        {"x?[0-9]", "xa5", false, true}, {"\\#a", "#a", false, true},
        {"a\\ ", "a ", false, true},     {"a  ", "a", false, true},
        {"#a", "#a", false, false},      {"b/c", "a/b/c", false, false},
        {"*", ".hidden", false, true},   {"/", "a", true, false},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ignore_list_t list = {0};

        assert_int_equal(crti_ignore_add(&list, cases[i].pattern, ""), CRT_OK);
        if (crti_ignore_matches(&list, cases[i].path, cases[i].is_directory) !=
            cases[i].matches)
            fail_msg("\"%s\" and \"%s\"", cases[i].pattern, cases[i].path);
        crti_ignore_fini(&list);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
        TEST(the_same_files_are_the_same_bytes_whatever_order_clock_and_zone),
        TEST(gitignore_and_excludes_leave_files_out),
        TEST(a_gitignore_of_any_editor_leaves_its_files_out),
        TEST(a_gitignore_that_cannot_be_read_is_no_empty_one),
        TEST(links_that_stay_inside_are_kept),
        TEST(what_a_link_leads_to_outside_is_packed_in_its_place),
        TEST(a_link_to_what_holds_the_folder_is_left_out),
        TEST(a_link_by_a_whole_path_that_stays_inside_becomes_relative),
        TEST(names_that_no_zip_can_hold_are_refused_and_others_come_as_they_are),
        TEST(a_folder_of_which_nothing_is_left_is_packed),
        TEST(a_folder_that_is_too_large_is_refused_with_its_largest_files),
        TEST(what_is_no_folder_is_refused),
        TEST(patterns_match_as_in_git),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
