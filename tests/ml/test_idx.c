/* SPDX-License-Identifier: Apache-2.0 */
/* The IDX reader: whole files, plain and gzip, and every kind of damage. */
#include <sys/stat.h>
#include <unistd.h>

#include "ml/idx.h"

#include "ml_test.h"

#include <zlib.h>

/* Two images of 2x3 and two labels. */
static const uint8_t images[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0,
                                 0, 3, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2};
static const uint8_t labels[] = {0, 0, 8, 1, 0, 0, 0, 2, 7, 3};

static size_t pack(const void *data, size_t size, uint8_t *out, size_t room)
{
    z_stream z = {.next_in = (uint8_t *)(uintptr_t)data,
                  .avail_in = (uInt)size,
                  .next_out = out,
                  .avail_out = (uInt)room};

    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, 0), Z_OK);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    deflateEnd(&z);
    return room - z.avail_out;
}

static void plain_and_packed_files_give_the_same_array(void **state)
{
    uint8_t packed[256];
    size_t size = pack(images, sizeof(images), packed, sizeof(packed));
    crti_idx_t a, b;

    assert_ok(crti_idx_decode("plain", images, sizeof(images), &a));
    assert_ok(crti_idx_decode("packed", packed, size, &b));
    assert_int_equal(a.rank, 3);
    assert_int_equal(a.shape[0], 2);
    assert_int_equal(a.shape[2], 3);
    assert_int_equal(a.size, 12);
    assert_memory_equal(a.data, images + 16, 12);
    assert_int_equal(b.size, 12);
    assert_memory_equal(b.data, images + 16, 12);
    free(a.data);
    free(b.data);
}

static void file_cut_short_anywhere_is_corrupt(void **state)
{
    uint8_t packed[256];
    size_t size = pack(images, sizeof(images), packed, sizeof(packed));
    crti_idx_t idx;

    for (size_t n = 0; n < sizeof(images); n++)
        assert_fails(crti_idx_decode("plain", images, n, &idx), CRT_ERR_CORRUPT,
                     "cut short");
    for (size_t n = 2; n < size; n++)
        assert_fails(crti_idx_decode("packed", packed, n, &idx), CRT_ERR_CORRUPT,
                     "cut short");
}

static void bytes_behind_the_end_are_corrupt(void **state)
{
    uint8_t longer[sizeof(images) + 1] = {0}, packed[256];
    size_t size;
    crti_idx_t idx;

    memcpy(longer, images, sizeof(images));
    assert_fails(crti_idx_decode("plain", longer, sizeof(longer), &idx), CRT_ERR_CORRUPT,
                 "1 bytes behind the array");
    size = pack(longer, sizeof(longer), packed, sizeof(packed));
    assert_fails(crti_idx_decode("packed", packed, size, &idx), CRT_ERR_CORRUPT,
                 ": 1 bytes behind the array");
    packed[size - 8] ^= 1; /* of the checksum: what is behind is damage */
    assert_fails(crti_idx_decode("packed", packed, size, &idx), CRT_ERR_CORRUPT,
                 "gzip: incorrect data check");
    size = pack(images, sizeof(images), packed, sizeof(packed));
    packed[size++] = 1;
    assert_fails(crti_idx_decode("packed", packed, size, &idx), CRT_ERR_CORRUPT,
                 "1 bytes behind the packed ones");
    packed[size - 1] = 0;
    packed[size++] = 0x1f;
    assert_fails(crti_idx_decode("packed", packed, size, &idx), CRT_ERR_CORRUPT,
                 "1 bytes behind the packed ones");
    size = pack(images, sizeof(images), packed, sizeof(packed));
    size += pack("more", 4, packed + size, sizeof(packed) - size);
    assert_fails(crti_idx_decode("packed", packed, size, &idx), CRT_ERR_CORRUPT,
                 "bytes behind the array");
}

/* What cat makes of two packed files, and block-wise packers of one; some fill up to a whole
 * block with zeros. */
static void several_members_and_zeros_behind_them_are_one_array(void **state)
{
    uint8_t packed[512];
    size_t size = 0;
    crti_idx_t idx;

    for (size_t at = 0, piece = 1; at < sizeof(images); at += piece, piece = 9) {
        piece = at + piece > sizeof(images) ? sizeof(images) - at : piece;
        size += pack(images + at, piece, packed + size, sizeof(packed) - size);
    }
    size += pack("", 0, packed + size, sizeof(packed) - size);
    for (int padded = 0; padded < 2; padded++, size += 64) {
        assert_ok(crti_idx_decode("members", packed, size, &idx));
        assert_int_equal(idx.size, 12);
        assert_memory_equal(idx.data, images + 16, 12);
        free(idx.data);
        memset(packed + size, 0, 64);
    }
    assert_ok(crti_idx_decode("padded", packed, size, &idx));
    free(idx.data);
}

static void flipped_bit_in_a_packed_file_is_corrupt(void **state)
{
    uint8_t packed[256];
    size_t size = pack(images, sizeof(images), packed, sizeof(packed));

    for (size_t i = 10; i < size; i++) { /* the ten bytes before are gzip's own header */
        crti_idx_t idx = {0};
        crt_status_t status;

        packed[i] ^= 4;
        status = crti_idx_decode("packed", packed, size, &idx);
        packed[i] ^= 4;
        /* The flip may have changed the type of the numbers, which is seen first. */
        assert_true(status == CRT_ERR_CORRUPT || status == CRT_ERR_UNSUPPORTED);
    }
}

static void headers_that_can_not_be_are_named(void **state)
{
    uint8_t data[sizeof(images)];
    crti_idx_t idx;

    memcpy(data, images, sizeof(data));
    data[0] = 'P';
    assert_fails(crti_idx_decode("x", data, sizeof(data), &idx), CRT_ERR_CORRUPT,
                 "not an IDX file");
    memcpy(data, images, sizeof(data));
    data[2] = 0x0d;
    assert_fails(crti_idx_decode("x", data, sizeof(data), &idx), CRT_ERR_UNSUPPORTED,
                 "0x0d");
    memcpy(data, images, sizeof(data));
    data[3] = 0;
    assert_fails(crti_idx_decode("x", data, sizeof(data), &idx), CRT_ERR_CORRUPT,
                 "0 dimensions");
    data[3] = 200;
    assert_fails(crti_idx_decode("x", data, sizeof(data), &idx), CRT_ERR_CORRUPT,
                 "200 dimensions");
    memcpy(data, images, sizeof(data));
    data[11] = 0;
    assert_fails(crti_idx_decode("x", data, sizeof(data), &idx), CRT_ERR_CORRUPT,
                 "dimension 1 is 0");
}

static void sizes_that_overflow_are_refused_before_memory_is_asked_for(void **state)
{
    uint8_t data[sizeof(images)], packed[256];
    size_t size;
    crti_idx_t idx;

    memcpy(data, images, sizeof(data));
    memset(data + 4, 0xff, 12); /* 2^96 bytes */
    assert_fails(crti_idx_decode("x", data, sizeof(data), &idx), CRT_ERR_CORRUPT,
                 "beyond");
    memset(data + 4, 0, 12);
    data[4] = 0x40; /* 2^30 x 1 x 1: within the limit, but not in this file */
    data[11] = data[15] = 1;
    assert_fails(crti_idx_decode("x", data, sizeof(data), &idx), CRT_ERR_CORRUPT,
                 "cut short");
    size = pack(data, sizeof(data), packed, sizeof(packed));
    assert_fails(crti_idx_decode("x", packed, size, &idx), CRT_ERR_CORRUPT, "cut short");
}

static void remove_folder(char *folder)
{
    static const char *const names[] = {"train-images-idx3-ubyte",
                                        "train-labels-idx1-ubyte",
                                        "train-labels-idx1-ubyte.gz",
                                        "train-images.idx3-ubyte",
                                        "train-labels.idx1-ubyte.gz",
                                        "a",
                                        "b"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        unlink(path_in(folder, names[i]));
    assert_int_equal(rmdir(folder), 0);
    free(folder);
}

static void folder_with_plain_and_packed_files_is_read(void **state)
{
    char *folder = new_folder();
    uint8_t packed[256];
    size_t size = pack(labels, sizeof(labels), packed, sizeof(packed));
    crt_dataset_t *set;

    write_file(path_in(folder, "train-images-idx3-ubyte"), images, sizeof(images));
    write_file(path_in(folder, "train-labels-idx1-ubyte.gz"), packed, size);
    assert_ok(crt_dataset_open(folder, CRT_SPLIT_TRAIN, &set));
    assert_int_equal(crt_dataset_count(set), 2);
    assert_int_equal(crt_dataset_width(set), 6);
    assert_int_equal(((uint8_t *)crt_dataset_labels(set)->data)[1], 3);
    crt_dataset_drop(&set);
    assert_fails(crt_dataset_open(folder, CRT_SPLIT_TEST, &set), CRT_ERR_NOT_FOUND,
                 "t10k-images-idx3-ubyte, plain or .gz: No such file");
    remove_folder(folder);
}

/* As Windows and some mirrors name them; beside them there may be folders of the other name. */
static void files_with_a_dot_in_their_names_are_read(void **state)
{
    char *folder = new_folder();
    uint8_t packed[256];
    size_t size = pack(labels, sizeof(labels), packed, sizeof(packed));
    crt_dataset_t *set;

    assert_int_equal(mkdir(path_in(folder, "train-images-idx3-ubyte"), 0700), 0);
    write_file(path_in(folder, "train-images.idx3-ubyte"), images, sizeof(images));
    write_file(path_in(folder, "train-labels.idx1-ubyte.gz"), packed, size);
    assert_ok(crt_dataset_open(folder, CRT_SPLIT_TRAIN, &set));
    assert_int_equal(crt_dataset_count(set), 2);
    crt_dataset_drop(&set);
    assert_int_equal(rmdir(path_in(folder, "train-images-idx3-ubyte")), 0);
    remove_folder(folder);
}

static void files_that_do_not_belong_together_are_corrupt(void **state)
{
    char *folder = new_folder();
    const char *a = path_in(folder, "a"), *b = path_in(folder, "b");
    static const uint8_t three[] = {0, 0, 8, 1, 0, 0, 0, 3, 7, 3, 1};
    crt_dataset_t *set = NULL;

    write_file(a, images, sizeof(images));
    write_file(b, three, sizeof(three));
    assert_fails(crt_dataset_read_idx(a, b, 10, &set), CRT_ERR_CORRUPT, "has 2 images");
    assert_fails(crt_dataset_read_idx(a, a, 10, &set), CRT_ERR_CORRUPT, "labels have 1");
    assert_fails(crt_dataset_read_idx(b, b, 10, &set), CRT_ERR_CORRUPT, "at least 2");
    write_file(b, labels, sizeof(labels));
    assert_fails(crt_dataset_read_idx(a, b, 7, &set), CRT_ERR_CORRUPT,
                 "label 0 is 7, not below 7");
    assert_fails(crt_dataset_read_idx(a, folder, 10, &set), CRT_ERR_IO,
                 "not a regular file");
    assert_null(set);
    remove_folder(folder);
}

static void named_pipe_is_refused_at_once(void **state)
{
    char *folder = new_folder();
    const char *a = path_in(folder, "a");
    crti_idx_t idx;

    assert_int_equal(mkfifo(a, 0600), 0);
    assert_fails(crti_idx_read(a, &idx), CRT_ERR_IO, "not a regular file");
    remove_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_and_packed_files_give_the_same_array),
        cmocka_unit_test(file_cut_short_anywhere_is_corrupt),
        cmocka_unit_test(bytes_behind_the_end_are_corrupt),
        cmocka_unit_test(several_members_and_zeros_behind_them_are_one_array),
        cmocka_unit_test(flipped_bit_in_a_packed_file_is_corrupt),
        cmocka_unit_test(headers_that_can_not_be_are_named),
        cmocka_unit_test(sizes_that_overflow_are_refused_before_memory_is_asked_for),
        cmocka_unit_test(folder_with_plain_and_packed_files_is_read),
        cmocka_unit_test(files_with_a_dot_in_their_names_are_read),
        cmocka_unit_test(files_that_do_not_belong_together_are_corrupt),
        cmocka_unit_test(named_pipe_is_refused_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
