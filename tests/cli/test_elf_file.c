/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of an ELF file that is handed to another host: this very test program. */
#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/elf_file.h"

static unsigned char *read_self(size_t *size)
{
    FILE *file = fopen("/proc/self/exe", "rb");
    unsigned char *bytes;

    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    bytes = malloc(*size);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *size, file), *size);
    fclose(file);
    return bytes;
}

static void what_is_loaded_stays_and_paths_count_for_all(void **state)
{
    size_t size;
    unsigned char *bytes = read_self(&size);
    elf_facts_t facts, again;
    Elf64_Ehdr head;

    assert_non_null(strstr(crti_elf_loader(bytes, size), "/ld"));
    assert_int_equal(crti_elf_make_portable(bytes, size, &facts), CRT_OK);
    assert_in_range(facts.size, 1000, size);
    assert_in_range(facts.glibc, 2, 1000);
    memcpy(&head, bytes, sizeof(head));
    assert_int_equal(head.e_shnum, 0);
    /* -Wl,-rpath,/a/place:$ORIGIN/there, and what the build adds */
    assert_non_null(strstr(facts.path, "//////"
                                       "//"
                                       ":$ORIGIN/there"));
    assert_null(strstr(facts.path, "/a/place"));
    assert_int_equal(crti_elf_make_portable(bytes, facts.size, &again), CRT_OK);
    assert_int_equal(again.size, facts.size);
    assert_ptr_equal(again.path, facts.path);
    free(bytes);
}

/* A copy of its own, so that the sanitizer sees a read behind it. */
static void damaged(const unsigned char *bytes, size_t size, size_t at, unsigned char to)
{
    unsigned char *copy = malloc(size ? size : 1);
    elf_facts_t facts;

    memcpy(copy, bytes, size);
    if (at < size)
        copy[at] = to;
    crti_elf_loader(copy, size);
    if (crti_elf_make_portable(copy, size, &facts) == CRT_OK)
        assert_in_range(facts.size, 0, size);
    free(copy);
}

static void damaged_files_are_refused_or_harmless(void **state)
{
    size_t size, loaded;
    unsigned char *bytes = read_self(&size);
    elf_facts_t facts;

    assert_int_equal(crti_elf_make_portable(bytes, size, &facts), CRT_OK);
    loaded = facts.size < 16384 ? facts.size : 16384;
    for (size_t i = 0; i < loaded; i += i < 1024 ? 1 : 61)
        damaged(bytes, i, SIZE_MAX, 0);
    for (size_t i = 0; i < 1024; i++) {
        damaged(bytes, loaded, i, 0xff);
        damaged(bytes, loaded, i, 0);
    }
    assert_int_equal(crti_elf_make_portable((unsigned char *)"no", 2, &facts),
                     CRT_ERR_INVALID);
    assert_null(crti_elf_loader((const unsigned char *)"", 0));
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_loaded_stays_and_paths_count_for_all),
        cmocka_unit_test(damaged_files_are_refused_or_harmless)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
