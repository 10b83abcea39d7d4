/* SPDX-License-Identifier: Apache-2.0 */
/* draw_digits FOLDER TRAIN TEST: the four IDX files of a small set of drawn digits.
 *
 * Programs that each read it start at once; the built-in set has 70,000 and is drawn by each of
 * their processes. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include <crt_ml.h>

static void write_file(const char *folder, const char *name, const crt_tensor_t *t,
                       const unsigned char *head, size_t head_size, size_t size)
{
    char path[PATH_MAX];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "wb");
    if (!file || fwrite(head, 1, head_size, file) != head_size ||
        fwrite(t->data, 1, size, file) != size || fclose(file) != 0) {
        perror(path);
        exit(1);
    }
}

static void write_split(const char *folder, const char *prefix, crt_split_t split,
                        const char *text)
{
    uint32_t count = (uint32_t)strtoul(text, NULL, 10);
    const unsigned char n[4] = {(unsigned char)(count >> 24),
                                (unsigned char)(count >> 16), (unsigned char)(count >> 8),
                                (unsigned char)count};
    const unsigned char images[16] = {0, 0, 8, 3,  n[0], n[1], n[2], n[3],
                                      0, 0, 0, 28, 0,    0,    0,    28};
    const unsigned char labels[8] = {0, 0, 8, 1, n[0], n[1], n[2], n[3]};
    crt_dataset_t *set;
    char name[64];

    CRT_CHECK(crt_dataset_new_digits(count, split, &set));
    snprintf(name, sizeof(name), "%s-images-idx3-ubyte", prefix);
    write_file(folder, name, crt_dataset_features(set), images, sizeof(images),
               (size_t)count * 784);
    snprintf(name, sizeof(name), "%s-labels-idx1-ubyte", prefix);
    write_file(folder, name, crt_dataset_labels(set), labels, sizeof(labels), count);
    crt_dataset_drop(&set);
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: draw_digits FOLDER TRAIN TEST\n");
        return 2;
    }
    write_split(argv[1], "train", CRT_SPLIT_TRAIN, argv[2]);
    write_split(argv[1], "t10k", CRT_SPLIT_TEST, argv[3]);
    return 0;
}
