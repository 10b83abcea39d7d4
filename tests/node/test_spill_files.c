/* SPDX-License-Identifier: Apache-2.0 */
/* Files of spilled objects: what is written is read, what was changed is noticed, and the room of
 * what is gone comes back. On a storage that fails as the test wants, and on a directory. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <sodium.h>

#include "runtime/node/objects/spill_files.h"
#include "runtime/node/objects/spill_tag.h"

#define KIB 1024u
#define MIB 1048576u

#define assert_ok(expression)                                                            \
    do {                                                                                 \
        crt_status_t assert_ok_status = (expression);                                    \
        if (assert_ok_status != CRT_OK)                                                  \
            fail_msg("%s: %s: %s", #expression, crt_status_name(assert_ok_status),       \
                     crt_error_detail());                                                \
    } while (0)

/* ---------------------------------------------------------------- a storage in memory */

typedef struct fake_file {
    unsigned char *bytes;
    size_t size, room;
    const char *where;
} fake_file_t;

static struct {
    const char *failing; /* the place where nothing can be written */
    int append_error, settle_error;
    unsigned files;
    uint64_t discarded, room;
    uint64_t wanted, wanted_until,
        ahead; /* bytes, where they end, at most before a read */
    fake_file_t *last;
} fake;

static int fake_open(const char *where, void **file_out)
{
    fake_file_t *file;

    if (fake.failing && strcmp(where, fake.failing) == 0)
        return EROFS;
    file = calloc(1, sizeof(*file));
    file->where = where;
    fake.last = file;
    fake.files++;
    *file_out = file;
    return 0;
}

static int fake_append(void *user, uint64_t offset, const void *bytes, size_t size)
{
    fake_file_t *file = user;

    if (fake.append_error)
        return fake.append_error;
    assert_true(offset >= file->size);
    if (offset + size > file->room) {
        file->room = 2 * (offset + size);
        file->bytes = realloc(file->bytes, file->room);
    }
    memset(file->bytes + file->size, 0, offset - file->size);
    memcpy(file->bytes + offset, bytes, size);
    file->size = offset + size;
    return 0;
}

static int fake_settle(void *file)
{
    return fake.settle_error;
}

static void fake_want(void *user, uint64_t offset, uint64_t size)
{
    fake.wanted += size;
    fake.wanted_until = offset + size;
}

static int fake_read(void *user, uint64_t offset, void *bytes, size_t size)
{
    const fake_file_t *file = user;

    if (fake.wanted && fake.wanted_until - offset > fake.ahead)
        fake.ahead = fake.wanted_until - offset;
    if (offset + size > file->size)
        return ENODATA;
    memcpy(bytes, file->bytes + offset, size);
    return 0;
}

static void fake_discard(void *user, uint64_t offset, uint64_t size)
{
    fake_file_t *file = user;

    fake.discarded += size;
    for (uint64_t i = offset; i < offset + size && i < file->size; i++)
        file->bytes[i] = 0;
}

static void fake_remove(void *user)
{
    fake_file_t *file = user;

    fake.files--;
    free(file->bytes);
    free(file);
}

static int fake_room(const char *where, uint64_t *bytes_out)
{
    *bytes_out = fake.room;
    return 0;
}

static const crti_spill_ops_t fake_ops = {fake_open,   fake_append, fake_settle,
                                          fake_want,   fake_read,   fake_discard,
                                          fake_remove, fake_room};

static crti_spill_files_t *new_files(uint64_t limit)
{
    static const char *const places[] = {"a", "b"};
    crti_spill_files_t *files = NULL;

    memset(&fake, 0, sizeof(fake));
    fake.room = UINT64_MAX / 2;
    assert_ok(crti_spill_files_new(&fake_ops, places, 2, limit, &files));
    return files;
}

/* ---------------------------------------------------------------- objects */

static crti_object_id_t object(uint64_t number)
{
    return (crti_object_id_t){{1, 2}, number};
}

static unsigned char *bytes_of(uint64_t number, size_t size)
{
    unsigned char *bytes = malloc(size + 1);

    for (size_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)(number * 31 + i * 7 + i / 251);
    return bytes;
}

static uint16_t group; /* of what is appended */

static crti_spill_result_t append(crti_spill_files_t *files, uint64_t number, size_t size,
                                  int *error)
{
    CRTI_AUTO(free) unsigned char *bytes = bytes_of(number, size);

    return crti_spill_files_append(files, object(number), group, bytes, size, error);
}

static void save(crti_spill_files_t *files, uint64_t number, size_t size)
{
    int error = 0;

    assert_int_equal(append(files, number, size, &error), CRTI_SPILL_DONE);
    assert_int_equal(crti_spill_files_settle(files, &error), CRTI_SPILL_DONE);
}

static crt_status_t read_whole(crti_spill_files_t *files, uint64_t number, size_t size)
{
    CRTI_AUTO(free)
    unsigned char *wanted = bytes_of(number, size), *found = malloc(size + 1);
    crt_status_t status = crti_spill_files_read(files, object(number), 0, found, size);

    if (status == CRT_OK)
        assert_memory_equal(found, wanted, size);
    return status;
}

/* ---------------------------------------------------------------- tests */

/* RFC 8439, 2.5.2; and one tag, however it is computed. */
static void tags_are_poly1305_at_every_size(void **state)
{
    static const unsigned char key[CRTI_SPILL_TAG_KEY_BYTES] = {
        0x85, 0xd6, 0xbe, 0x78, 0x57, 0x55, 0x6d, 0x33, 0x7f, 0x44, 0x52,
        0xfe, 0x42, 0xd5, 0x06, 0xa8, 0x01, 0x03, 0x80, 0x8a, 0xfb, 0x0d,
        0xb2, 0xfd, 0x4a, 0xbf, 0xf6, 0xaf, 0x41, 0x49, 0xf5, 0x1b};
    static const unsigned char wanted[CRTI_SPILL_TAG_BYTES] = {
        0xa8, 0x06, 0x1d, 0xc1, 0x30, 0x51, 0x36, 0xc6,
        0xc2, 0x2b, 0x8b, 0xaf, 0x0c, 0x01, 0x27, 0xa9};
    static const size_t sizes[] = {0, 1, 1023, 1024, 1025, MIB};
    unsigned char tag[CRTI_SPILL_TAG_BYTES], other[CRTI_SPILL_TAG_BYTES];

    crti_spill_tag(key, "Cryptographic Forum Research Group", 34, tag);
    assert_memory_equal(tag, wanted, sizeof(tag));
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        CRTI_AUTO(free) unsigned char *bytes = bytes_of(i, sizes[i]);

        crti_spill_tag(key, bytes, sizes[i], tag);
        crypto_onetimeauth_poly1305(other, bytes, sizes[i], key);
        assert_memory_equal(tag, other, sizeof(tag));
    }
}

static void objects_of_every_size_are_read_as_they_were_written(void **state)
{
    static const size_t sizes[] = {
        0,       1,   63,      64,          65 * KIB,     4 * KIB,     100,
        MIB - 1, MIB, MIB + 1, 5 * MIB + 3, 64 * KIB - 1, 64 * KIB + 1};
    CRTI_AUTO(crti_spill_files_free) crti_spill_files_t *files = new_files(0);
    size_t count = sizeof(sizes) / sizeof(sizes[0]);
    int error = 0;

    for (size_t i = 0; i < count; i++)
        assert_int_equal(append(files, i, sizes[i], &error), CRTI_SPILL_DONE);
    assert_int_equal(crti_spill_files_settle(files, &error), CRTI_SPILL_DONE);
    for (size_t i = count; i-- > 0;)
        assert_ok(read_whole(files, i, sizes[i]));
    assert_int_equal(crti_spill_files_figures(files).objects, count);
    assert_int_equal(fake.files, 1);
    for (size_t i = 0; i < count; i++)
        crti_spill_files_drop(files, object(i));
    assert_int_equal(fake.files, 0);
    assert_int_equal(crti_spill_files_figures(files).disk_bytes, 0);
    assert_int_equal(crti_spill_files_figures(files).bytes, 0);
}

static void a_part_is_read_alone_and_nothing_but_parts(void **state)
{
    CRTI_AUTO(crti_spill_files_free) crti_spill_files_t *files = new_files(0);
    CRTI_AUTO(free)
    unsigned char *wanted = bytes_of(1, 3 * MIB + 5), *found = malloc(MIB);

    save(files, 1, 3 * MIB + 5);
    assert_ok(crti_spill_files_read(files, object(1), 2 * MIB, found, MIB));
    assert_memory_equal(found, wanted + 2 * MIB, MIB);
    assert_ok(crti_spill_files_read(files, object(1), 3 * MIB, found, 5));
    assert_memory_equal(found, wanted + 3 * MIB, 5);
    assert_int_equal(crti_spill_files_read(files, object(1), 1, found, MIB),
                     CRT_ERR_INVALID);
    assert_int_equal(crti_spill_files_read(files, object(1), MIB, found, 17),
                     CRT_ERR_INVALID);
    assert_int_equal(crti_spill_files_read(files, object(1), 4 * MIB, found, MIB),
                     CRT_ERR_INVALID);
    assert_int_equal(crti_spill_files_read(files, object(1), 3 * MIB, found, MIB),
                     CRT_ERR_INVALID);
    assert_int_equal(crti_spill_files_read(files, object(2), 0, found, 1),
                     CRT_ERR_NOT_FOUND);
}

static void the_storage_is_told_what_is_read_next_and_of_nothing_else(void **state)
{
    CRTI_AUTO(crti_spill_files_free) crti_spill_files_t *files = new_files(0);

    save(files, 1, MIB);
    save(files, 2, 20 * MIB + 5);
    save(files, 3, 5 * MIB);
    assert_ok(read_whole(files, 1, MIB)); /* one read tells it */
    assert_int_equal(fake.wanted, 0);
    assert_ok(read_whole(files, 2, 20 * MIB + 5));
    assert_int_equal(fake.wanted, 20 * MIB + 5);
    assert_int_equal(fake.ahead, 8 * MIB);
}

static void a_changed_byte_is_never_read(void **state)
{
    CRTI_AUTO(crti_spill_files_free) crti_spill_files_t *files = new_files(0);
    const size_t size = 2 * MIB + 100;

    save(files, 1, size);
    for (size_t i = 0; i < size; i += size / 50) {
        fake.last->bytes[i] ^= 1;
        assert_int_equal(read_whole(files, 1, size), CRT_ERR_OBJECT_LOST);
        assert_non_null(strstr(crt_error_detail(), "somebody changed it"));
        fake.last->bytes[i] ^= 1;
    }
    assert_ok(read_whole(files, 1, size));
    fake.last->size -= 1;
    assert_int_equal(read_whole(files, 1, size), CRT_ERR_OBJECT_LOST);
    assert_non_null(strstr(crt_error_detail(), "shorter"));
}

/* Both are bytes that this node wrote. */
static void swapped_parts_and_objects_are_never_read(void **state)
{
    CRTI_AUTO(crti_spill_files_free) crti_spill_files_t *files = new_files(0);
    CRTI_AUTO(free) unsigned char *kept = malloc(MIB);

    save(files, 1, 2 * MIB);
    save(files, 2, 2 * MIB);
    memcpy(kept, fake.last->bytes, MIB);
    memcpy(fake.last->bytes, fake.last->bytes + MIB, MIB);
    memcpy(fake.last->bytes + MIB, kept, MIB);
    assert_int_equal(read_whole(files, 1, 2 * MIB), CRT_ERR_OBJECT_LOST);
    memcpy(fake.last->bytes, fake.last->bytes + 2 * MIB, 2 * MIB);
    assert_int_equal(read_whole(files, 1, 2 * MIB), CRT_ERR_OBJECT_LOST);
    assert_ok(read_whole(files, 2, 2 * MIB));
}

static void a_batch_that_fails_leaves_what_was_settled(void **state)
{
    CRTI_AUTO(crti_spill_files_free) crti_spill_files_t *files = new_files(0);
    int error = 0;

    save(files, 1, 3 * MIB);
    fake.settle_error = EIO;
    assert_int_equal(append(files, 2, MIB, &error), CRTI_SPILL_DONE);
    assert_int_equal(append(files, 3, 10, &error), CRTI_SPILL_DONE);
    assert_int_equal(crti_spill_files_settle(files, &error), CRTI_SPILL_FAILED);
    assert_int_equal(error, EIO);
    assert_string_equal(crti_spill_files_failed(files), fake.last->where);
    crti_spill_files_drop(files, object(2));
    crti_spill_files_drop(files, object(3));
    fake.settle_error = 0;
    fake.append_error = ENOSPC;
    assert_int_equal(append(files, 4, MIB, &error), CRTI_SPILL_FAILED);
    assert_int_equal(error, ENOSPC);
    crti_spill_files_drop(files, object(4));
    fake.append_error = 0;
    assert_ok(read_whole(files, 1, 3 * MIB));
    save(files, 5, MIB);
    assert_ok(read_whole(files, 5, MIB));
    crti_spill_files_drop(files, object(1));
    crti_spill_files_drop(files, object(5));
    assert_int_equal(fake.files, 0);
}

static void another_directory_takes_what_one_can_not(void **state)
{
    CRTI_AUTO(crti_spill_files_free) crti_spill_files_t *files = new_files(0);
    int error = 0;

    fake.failing = "b";
    for (uint64_t i = 0; i < 3; i++)
        if (append(files, i, MIB, &error) == CRTI_SPILL_FAILED) {
            assert_int_equal(error, EROFS);
            assert_string_equal(crti_spill_files_failed(files), "b");
        }
    assert_string_equal(fake.last->where, "a");
    assert_int_equal(crti_spill_files_settle(files, &error), CRTI_SPILL_DONE);
    assert_ok(read_whole(files, 2, MIB));
}

static void the_room_of_dropped_objects_comes_back_piece_by_piece(void **state)
{
    CRTI_AUTO(crti_spill_files_free) crti_spill_files_t *files = new_files(0);
    int error = 0;

    for (uint64_t i = 0; i < 64; i++)
        assert_int_equal(append(files, i, 256 * KIB, &error), CRTI_SPILL_DONE);
    assert_int_equal(crti_spill_files_settle(files, &error), CRTI_SPILL_DONE);
    for (uint64_t i = 0; i < 64; i++)
        if (i != 5 && i != 63)
            crti_spill_files_drop(files, object(i));
    assert_true(fake.discarded >= 60 * 256 * KIB);
    assert_true(crti_spill_files_figures(files).disk_bytes <= 600 * KIB);
    assert_ok(read_whole(files, 5, 256 * KIB));
    assert_ok(read_whole(files, 63, 256 * KIB));
}

static void a_file_that_is_full_goes_with_its_last_object(void **state)
{
    CRTI_AUTO(crti_spill_files_free) crti_spill_files_t *files = new_files(0);
    const size_t size = 100 * MIB;
    CRTI_AUTO(free) unsigned char *bytes = calloc(1, size);
    unsigned most = 0;
    int error = 0;

    for (uint64_t i = 0; i < 6; i++) {
        assert_int_equal(
            crti_spill_files_append(files, object(i), 0, bytes, size, &error),
            CRTI_SPILL_DONE);
        most = fake.files > most ? fake.files : most;
        if (i >= 1)
            crti_spill_files_drop(files, object(i - 1));
    }
    assert_int_equal(most, 2);
    assert_int_equal(fake.files, 1);
    assert_ok(crti_spill_files_read(files, object(5), 99 * MIB, bytes, MIB));
}

static void the_limit_is_kept(void **state)
{
    CRTI_AUTO(crti_spill_files_free) crti_spill_files_t *files = new_files(10 * MIB);
    int error = 0;
    uint64_t count = 0;

    assert_int_equal(append(files, 99, 11 * MIB, &error), CRTI_SPILL_LIMITED);
    do
        group++;
    while (append(files, count, MIB, &error) == CRTI_SPILL_DONE && ++count);
    assert_true(count == 9 || count == 10);
    crti_spill_files_drop(files, object(1));
    assert_int_equal(append(files, 100, MIB, &error), CRTI_SPILL_DONE);
    group = 0;
}

#define EIGHTH (128 * KIB) /* of a MiB */

/* Objects of a group until it may have no more. */
static uint64_t fill_share(crti_spill_files_t *files, uint16_t of)
{
    uint64_t count = 0;
    int error = 0;

    group = of;
    while (crti_spill_files_may_take(files, of, EIGHTH) &&
           append(files, of * 1000ull + count, EIGHTH, &error) == CRTI_SPILL_DONE)
        count++;
    assert_int_equal(append(files, 999999, EIGHTH, &error), CRTI_SPILL_SHARED);
    assert_int_equal(crti_spill_files_taken(files, of), count * EIGHTH);
    group = 0;
    return count;
}

static void
a_group_leaves_a_quarter_to_others_and_the_next_a_quarter_of_that(void **state)
{
    CRTI_AUTO(crti_spill_files_free) crti_spill_files_t *files = new_files(8 * MIB);

    assert_in_range(fill_share(files, 1), 46, 48);
    assert_in_range(fill_share(files, 2), 11, 13);
    assert_in_range(fill_share(files, 3), 2, 4);
    for (uint64_t i = 0; i < 46; i++)
        crti_spill_files_drop(files, object(1000 + i));
    assert_true(crti_spill_files_taken(files, 1) <= 2 * EIGHTH);
    assert_in_range(fill_share(files, 4), 32, 36);
}

static void without_a_limit_the_room_of_the_emptiest_place_is_shared_out(void **state)
{
    CRTI_AUTO(crti_spill_files_free) crti_spill_files_t *files = new_files(0);
    int error = 0;

    fake.room = 8 * MIB;
    crti_spill_files_look(files);
    assert_in_range(fill_share(files, 1), 46, 49);
    fake.room = 2 * MIB;
    crti_spill_files_look(files);
    assert_in_range(fill_share(files, 2), 11, 13);
    fake.room = 1000; /* for nobody */
    crti_spill_files_look(files);
    assert_true(crti_spill_files_may_take(files, 1, EIGHTH));
    assert_int_equal(append(files, 5, 9 * MIB, &error), CRTI_SPILL_FAILED);
    assert_int_equal(error, ENOSPC);
}

static void nothing_is_written_where_there_is_no_room(void **state)
{
    CRTI_AUTO(crti_spill_files_free) crti_spill_files_t *files = new_files(0);
    int error = 0;

    fake.room = 2 * MIB;
    assert_int_equal(append(files, 1, MIB, &error), CRTI_SPILL_DONE);
    assert_int_equal(append(files, 2, 3 * MIB, &error), CRTI_SPILL_FAILED);
    assert_int_equal(error, ENOSPC);
}

/* Its drop is heard of after another object of the same id was saved. */
static void a_late_drop_is_about_the_object_before(void **state)
{
    CRTI_AUTO(crti_spill_files_free) crti_spill_files_t *files = new_files(0);

    save(files, 1, 1000);
    save(files, 1, 2000);
    crti_spill_files_drop(files, object(1));
    assert_ok(read_whole(files, 1, 2000));
    crti_spill_files_drop(files, object(1));
    assert_int_equal(read_whole(files, 1, 2000), CRT_ERR_NOT_FOUND);
    crti_spill_files_drop(files, object(1)); /* unknown */
    assert_int_equal(crti_spill_files_figures(files).bytes, 0);
}

static void a_directory_holds_files_without_names(void **state)
{
    char where[] = "/tmp/crt-spill-XXXXXX";
    const char *const places[] = {where};
    crti_spill_files_t *files = NULL;

    assert_non_null(mkdtemp(where));
    assert_ok(crti_spill_files_new(&crti_spill_directory, places, 1, 0, &files));
    save(files, 1, 3 * MIB);
    save(files, 2, 30);
    assert_ok(read_whole(files, 1, 3 * MIB));
    assert_ok(read_whole(files, 2, 30));
    assert_int_equal(rmdir(where), 0); /* it is empty */
    assert_ok(read_whole(files, 1, 3 * MIB));
    crti_spill_files_free(files);
}

static void a_file_of_a_directory_is_read_by_its_user_alone(void **state)
{
    char where[] = "/tmp/crt-spill-XXXXXX", path[64];
    void *file;
    struct stat found;
    mode_t before = umask(0);
    int fd;

    assert_non_null(mkdtemp(where));
    fd = dup(0);
    close(fd); /* the next one that is opened */
    assert_int_equal(crti_spill_directory.open(where, &file), 0);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    assert_int_equal(stat(path, &found), 0);
    assert_true(S_ISREG(found.st_mode));
    assert_int_equal(found.st_mode & 0777, 0600);
    assert_int_equal(found.st_nlink, 0);
    crti_spill_directory.remove(file);
    umask(before);
    rmdir(where);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tags_are_poly1305_at_every_size),
        cmocka_unit_test(objects_of_every_size_are_read_as_they_were_written),
        cmocka_unit_test(a_part_is_read_alone_and_nothing_but_parts),
        cmocka_unit_test(the_storage_is_told_what_is_read_next_and_of_nothing_else),
        cmocka_unit_test(a_changed_byte_is_never_read),
        cmocka_unit_test(swapped_parts_and_objects_are_never_read),
        cmocka_unit_test(a_batch_that_fails_leaves_what_was_settled),
        cmocka_unit_test(another_directory_takes_what_one_can_not),
        cmocka_unit_test(the_room_of_dropped_objects_comes_back_piece_by_piece),
        cmocka_unit_test(a_file_that_is_full_goes_with_its_last_object),
        cmocka_unit_test(the_limit_is_kept),
        cmocka_unit_test(
            a_group_leaves_a_quarter_to_others_and_the_next_a_quarter_of_that),
        cmocka_unit_test(without_a_limit_the_room_of_the_emptiest_place_is_shared_out),
        cmocka_unit_test(nothing_is_written_where_there_is_no_room),
        cmocka_unit_test(a_late_drop_is_about_the_object_before),
        cmocka_unit_test(a_directory_holds_files_without_names),
        cmocka_unit_test(a_file_of_a_directory_is_read_by_its_user_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
