/* SPDX-License-Identifier: Apache-2.0 */
/* crt data get: brings the files of a known data set, checked by their SHA-256.
 *
 * Where it sits
 *     user -> [ cli/data.c ] -> cli/download.c, libarchive
 * Rules
 *     Files get their names when all their bytes are there and right, so that a training never
 *     reads half of one. Of an archive only members are taken whose names are known, as files.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sodium.h>

#include "cli/archive_library.h"
#include "cli/download.h"
#include "cli/options.h"
#include "runtime/base/plain_text.h"

#define DATA_GET    "crt data get"
#define FILES_MAX   4
#define MEMBERS_MAX 6
#define FILE_MOST   ((uint64_t)1 << 30)
#define LIST_MOST   ((size_t)1 << 20)
#define BLOCK       ((size_t)64 << 10)

/* The sums are those of the files as their authors give them out. */
typedef struct data_set {
    const char *name;
    struct {
        const char *name, *sha256;
    } files[FILES_MAX];
    const char *members[MEMBERS_MAX]; /* of the file, which is an archive */
    const char *next;                 /* what is to be done then */
} data_set_t;

static const data_set_t sets[] = {
    {.name = "mnist",
     .files = {{"train-images-idx3-ubyte.gz",
                "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"},
               {"train-labels-idx1-ubyte.gz",
                "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"},
               {"t10k-images-idx3-ubyte.gz",
                "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"},
               {"t10k-labels-idx1-ubyte.gz",
                "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"}}},
    {.name = "cifar10",
     .files = {{"cifar-10-binary.tar.gz",
                "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"}},
     .members = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                 "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"}},
    {.name = "cifar100",
     .files = {{"cifar-100-binary.tar.gz",
                "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec"}},
     .members = {"train.bin", "test.bin"}},
    {.name = "svhn",
     .files = {{"train_32x32.mat",
                "435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8"},
               {"test_32x32.mat",
                "cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b"}},
     .next = "examples/convert_svhn.py makes train.bin and test.bin of them"}};

static const char *from, *into, *checksums;

/* ---------------------------------------------------------------- checksums */

/* Of a line of `sha256sum`, "SHA256  NAME". Cut in place; NULL: it has none, or of another file. */
static const char *sum_in(char *line, const char *name)
{
    size_t size = strspn(line, "0123456789abcdef");
    char *end = line + size;

    if (size != SHA256_TEXT - 1 || end[0] != ' ' || (end[1] != ' ' && end[1] != '*'))
        return NULL;
    end[0] = '\0';
    return strcmp(end + 2, name) == 0 ? line : NULL;
}

/* That of the user's list, where there is one. */
static crt_status_t find_sum(const char *name, const char *known, char sha[SHA256_TEXT])
{
    char *text, *line, *save = NULL;
    const char *found = NULL;

    snprintf(sha, SHA256_TEXT, "%s", known);
    if (!checksums)
        return CRT_OK;
    text = crti_plain_text_read(checksums, LIST_MOST);
    if (!text)
        return crt_raise(CRT_ERR_IO, "%s: %s", checksums, strerror(errno));
    line = strtok_r(text, "\r\n", &save);
    for (; line && !found; line = strtok_r(NULL, "\r\n", &save))
        found = sum_in(line, name);
    if (found)
        snprintf(sha, SHA256_TEXT, "%s", found);
    free(text);
    return found ? CRT_OK
                 : crt_raise(CRT_ERR_NOT_FOUND,
                             "%s has no line \"SHA256  %s\", as sha256sum prints them",
                             checksums, name);
}

/* ---------------------------------------------------------------- archives */

static crt_status_t read_failed(struct archive *archive, const char *path)
{
    const char *text = archive_error_string(archive);

    return crt_raise(CRT_ERR_CORRUPT, "%s: %s", path, text ? text : "no whole archive");
}

/* The one whose name ends the path; NULL: none is wanted. */
static const char *member_of(const data_set_t *set, struct archive_entry *entry)
{
    const char *path = archive_entry_pathname(entry);
    const char *slash = path ? strrchr(path, '/') : NULL,
               *name = slash ? slash + 1 : path;

    for (size_t i = 0; i < MEMBERS_MAX && set->members[i]; i++)
        if (name && strcmp(name, set->members[i]) == 0)
            return archive_entry_filetype(entry) == AE_IFREG ? set->members[i] : NULL;
    return NULL;
}

static crt_status_t write_member(struct archive *archive, const char *path, FILE *file)
{
    static char part[BLOCK];
    uint64_t size = 0;
    la_ssize_t n;

    while ((n = archive_read_data(archive, part, sizeof(part))) > 0) {
        size += (uint64_t)n;
        if (size > FILE_MOST)
            return crt_raise(CRT_ERR_TOO_LARGE, "%s: more than %llu MiB", path,
                             (unsigned long long)(FILE_MOST >> 20));
        if (fwrite(part, 1, (size_t)n, file) != (size_t)n)
            return crt_raise(CRT_ERR_IO, "%s: %s", path, strerror(errno));
    }
    return n == 0 ? CRT_OK : read_failed(archive, path);
}

static crt_status_t take_member(struct archive *archive, const char *name)
{
    char path[PATH_MAX], part[PATH_MAX + 8];
    crt_status_t status;
    FILE *file;

    if (snprintf(path, sizeof(path), "%s/%s", into, name) >= (int)sizeof(path))
        return crt_raise(CRT_ERR_INVALID, "%s: the path is too long", into);
    snprintf(part, sizeof(part), "%s.part", path);
    unlink(part);
    file = fopen(part, "wxe");
    if (!file)
        return crt_raise(CRT_ERR_IO, "%s: %s", part, strerror(errno));
    status = write_member(archive, path, file);
    if (fclose(file) != 0 && status == CRT_OK)
        status = crt_raise(CRT_ERR_IO, "%s: %s", path, strerror(errno));
    if (status == CRT_OK && rename(part, path) != 0)
        status = crt_raise(CRT_ERR_IO, "%s: %s", path, strerror(errno));
    if (status == CRT_OK)
        fprintf(stderr, "%s: unpacked\n", name);
    else
        unlink(part);
    return status;
}

static crt_status_t take_members(const data_set_t *set, struct archive *archive,
                                 const char *path)
{
    struct archive_entry *entry;
    size_t wanted = 0, taken = 0;
    int result;

    while (wanted < MEMBERS_MAX && set->members[wanted])
        wanted++;
    while ((result = archive_read_next_header(archive, &entry)) == ARCHIVE_OK ||
           result == ARCHIVE_WARN) {
        const char *name = member_of(set, entry);

        if (name) {
            CRT_TRY(take_member(archive, name));
            taken++;
        }
    }
    if (result != ARCHIVE_EOF)
        return read_failed(archive, path);
    return taken == wanted
               ? CRT_OK
               : crt_raise(CRT_ERR_CORRUPT, "%s has %zu of the %zu files of %s", path,
                           taken, wanted, set->name);
}

static crt_status_t unpack(const data_set_t *set, const char *path)
{
    struct archive *archive;
    crt_status_t status;

    CRT_TRY(crti_archive_library());
    archive = archive_read_new();
    if (!archive)
        return crt_raise(CRT_ERR_NO_MEMORY, "out of memory");
    if (archive_read_support_filter_gzip(archive) != ARCHIVE_OK ||
        archive_read_support_format_tar(archive) != ARCHIVE_OK ||
        archive_read_open_filename(archive, path, BLOCK) != ARCHIVE_OK)
        status = read_failed(archive, path);
    else
        status = take_members(set, archive, path);
    archive_read_free(archive);
    return status;
}

/* ---------------------------------------------------------------- the set */

static bool is_unpacked(const data_set_t *set)
{
    char path[PATH_MAX];

    for (size_t i = 0; i < MEMBERS_MAX && set->members[i]; i++) {
        snprintf(path, sizeof(path), "%s/%s", into, set->members[i]);
        if (access(path, R_OK) != 0)
            return false;
    }
    return true;
}

static crt_status_t get_file(const data_set_t *set, size_t index)
{
    const char *name = set->files[index].name;
    char source[PATH_MAX], path[PATH_MAX], sha[SHA256_TEXT];
    size_t length = strlen(from);
    download_t download = {
        .from = source, .path = path, .sha256 = sha, .most = FILE_MOST};

    while (length > 1 && from[length - 1] == '/')
        length--;
    CRT_TRY(find_sum(name, set->files[index].sha256, sha));
    if (snprintf(source, sizeof(source), "%.*s/%s", (int)length, from, name) >=
            (int)sizeof(source) ||
        snprintf(path, sizeof(path), "%s/%s", into, name) >= (int)sizeof(path))
        return crt_raise(CRT_ERR_INVALID, "--from or --into is too long");
    if (!crti_file_has_sha256(path, sha))
        CRT_TRY(crti_download(&download));
    else if (!set->members[0] || is_unpacked(set)) {
        fprintf(stderr, "%s: is there\n", name);
        return CRT_OK;
    }
    return set->members[0] ? unpack(set, path) : CRT_OK;
}

/* With those above it. */
static crt_status_t make_directory(const char *path)
{
    char whole[PATH_MAX];

    if (snprintf(whole, sizeof(whole), "%s", path) >= (int)sizeof(whole))
        return crt_raise(CRT_ERR_INVALID, "--into is too long");
    for (char *at = whole + 1; *at; at++)
        if (*at == '/') {
            *at = '\0';
            (void)mkdir(whole, 0777); /* the last one tells */
            *at = '/';
        }
    if (mkdir(whole, 0777) != 0 && errno != EEXIST)
        return crt_raise(CRT_ERR_IO, "%s: %s", path, strerror(errno));
    return CRT_OK;
}

static int get(const data_set_t *set)
{
    char place[64];
    crt_status_t status;

    snprintf(place, sizeof(place), "data/%s", set->name);
    if (!into)
        into = place;
    status = make_directory(into);
    for (size_t i = 0; i < FILES_MAX && set->files[i].name && status == CRT_OK; i++)
        status = get_file(set, i);
    if (status != CRT_OK)
        return crti_cli_fail_detail(DATA_GET);
    printf("%s is in %s%s%s\n", set->name, into, set->next ? "; " : "",
           set->next ? set->next : "");
    return 0;
}

static const option_spec_t specs[] = {
    {"from", 0, "SOURCE", OPTION_TEXT, &from,
     "URL or folder that has the files by their names"},
    {"into", 0, "DIR", OPTION_TEXT, &into, "where they go; default: data/SET"},
    {"checksums", 0, "FILE", OPTION_TEXT, &checksums,
     "lines of sha256sum that count instead of the authors', for files of others"}};

static int run_get(int argc, char **argv)
{
    static const command_spec_t spec = {
        .name = DATA_GET,
        .operands = "mnist|cifar10|cifar100|svhn",
        .summary =
            "Brings the files of a data set from a server or a folder, checks them "
            "by their\nSHA-256 and unpacks them. What is there already is not "
            "brought again; what was\ninterrupted goes on.",
        .options = specs,
        .count = sizeof(specs) / sizeof(specs[0])};
    int first = crti_cli_parse(argc, argv, &spec);

    if (first <= 0)
        return -first;
    if (first + 1 != argc)
        return crti_cli_misused(DATA_GET, "which of mnist, cifar10, cifar100 and svhn?");
    if (!from)
        return crti_cli_misused(DATA_GET, "--from says which server or folder has them");
    if (sodium_init() < 0)
        return crti_cli_fail(DATA_GET, "libsodium does not start");
    for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++)
        if (strcmp(sets[i].name, argv[first]) == 0)
            return get(&sets[i]);
    return crti_cli_misused(DATA_GET,
                            "no data set \"%s\": there are mnist, cifar10, cifar100 and "
                            "svhn",
                            argv[first]);
}

int crti_cli_data(int argc, char **argv)
{
    if (argc >= 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        printf("Usage: crt data COMMAND [OPTIONS]\n\nData for the trainings of "
               "examples/.\n\nCommands:\n  get      bring the files of a data set, and "
               "check them\n\ncrt data COMMAND --help shows the options of a "
               "command.\n");
        crti_cli_print_environment();
        return 0;
    }
    if (argc >= 2 && strcmp(argv[1], "get") == 0)
        return run_get(argc - 1, argv + 1);
    return argc < 2 ? crti_cli_misused("crt data", "which command? There is get")
                    : crti_cli_misused("crt data", "unknown command \"%s\"; there is get",
                                       argv[1]);
}
