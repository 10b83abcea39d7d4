/* SPDX-License-Identifier: Apache-2.0 */
/* Files from elsewhere. See download.h. */
#include "cli/download.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <sodium.h>

#include "cli/curl_library.h"

#define CONNECT_SECONDS 30L
#define SLOW_SECONDS    60L /* with less than a byte a second count as broken */
#define REDIRECTS       5L
#define TELL_SECONDS    10 /* between lines where nobody looks at a terminal */

typedef struct transfer {
    const download_t *what;
    const char *name; /* for people */
    int fd;           /* of PATH.part */
    uint64_t begun;   /* bytes that were there */
    uint64_t size;    /* bytes that are there */
    time_t told;
    bool is_too_large;
    int error; /* of the disk */
} transfer_t;

/* ---------------------------------------------------------------- SHA-256 */

bool crti_is_sha256(const char *text)
{
    return strlen(text) == SHA256_TEXT - 1 &&
           strspn(text, "0123456789abcdef") == SHA256_TEXT - 1;
}

bool crti_file_sha256(FILE *file, char sha[SHA256_TEXT], uint64_t *size_out)
{
    unsigned char digest[crypto_hash_sha256_BYTES];
    crypto_hash_sha256_state state;
    static unsigned char part[1 << 16];
    size_t n;

    *size_out = 0;
    rewind(file);
    crypto_hash_sha256_init(&state);
    while ((n = fread(part, 1, sizeof(part), file)) > 0) {
        crypto_hash_sha256_update(&state, part, n);
        *size_out += n;
    }
    crypto_hash_sha256_final(&state, digest);
    sodium_bin2hex(sha, SHA256_TEXT, digest, sizeof(digest));
    return !ferror(file);
}

bool crti_file_has_sha256(const char *path, const char *sha)
{
    char found[SHA256_TEXT];
    FILE *file = fopen(path, "re");
    uint64_t size;
    bool has = file && crti_file_sha256(file, found, &size) && strcmp(found, sha) == 0;

    if (file)
        fclose(file);
    return has;
}

/* ---------------------------------------------------------------- bytes */

static void tell(transfer_t *t, uint64_t total, bool is_last)
{
    bool is_terminal = isatty(STDERR_FILENO);
    time_t now = time(NULL);

    if (!is_last && now - t->told < (is_terminal ? 1 : TELL_SECONDS))
        return;
    t->told = now;
    fprintf(stderr, "%s%s: %.1f", is_terminal ? "\r" : "", t->name,
            (double)t->size / (1 << 20));
    if (total > t->size)
        fprintf(stderr, " of %.1f", (double)total / (1 << 20));
    fprintf(stderr, " MiB%s", is_terminal && !is_last ? "" : "\n");
}

/* Appends; false: the reason is in `t`. */
static bool put(transfer_t *t, const char *data, size_t size)
{
    if (size > t->what->most - t->size) {
        t->is_too_large = true;
        return false;
    }
    while (size) {
        ssize_t n = write(t->fd, data, size);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            t->error = errno;
            return false;
        }
        data += n;
        size -= (size_t)n;
        t->size += (uint64_t)n;
    }
    return true;
}

static crt_status_t put_failed(const transfer_t *t)
{
    if (t->is_too_large)
        return crt_raise(CRT_ERR_TOO_LARGE, "%s: more than %llu MiB", t->what->from,
                         (unsigned long long)(t->what->most >> 20));
    return crt_raise(CRT_ERR_IO, "%s.part: %s", t->what->path, strerror(t->error));
}

static crt_status_t copy_file(transfer_t *t)
{
    static char part[1 << 16];
    FILE *file = fopen(t->what->from, "re");
    bool is_written = true;
    struct stat st;
    size_t n;

    if (!file || fstat(fileno(file), &st) != 0 || !S_ISREG(st.st_mode)) {
        int error = file ? EISDIR : errno;

        if (file)
            fclose(file);
        return crt_raise(error == ENOENT ? CRT_ERR_NOT_FOUND : CRT_ERR_IO, "%s: %s",
                         t->what->from, error == EISDIR ? "no file" : strerror(error));
    }
    if (ftruncate(t->fd, 0) == 0)
        t->size = 0;
    while (is_written && (n = fread(part, 1, sizeof(part), file)) > 0) {
        is_written = put(t, part, n);
        tell(t, (uint64_t)st.st_size, false);
    }
    fclose(file);
    return is_written ? CRT_OK : put_failed(t);
}

/* ---------------------------------------------------------------- HTTP */

static size_t on_bytes(char *data, size_t one, size_t count, void *user)
{
    return put(user, data, count) ? count : 0;
}

static int on_progress(void *user, curl_off_t total, curl_off_t now, curl_off_t up_total,
                       curl_off_t up_now)
{
    transfer_t *t = user;

    tell(t, total > 0 ? t->begun + (uint64_t)total : 0, false);
    return 0;
}

static void set_options(CURL *curl, transfer_t *t, char error[CURL_ERROR_SIZE])
{
    bool is_https = strncmp(t->what->from, "https:", 6) == 0;
    const char *authorities = getenv("SSL_CERT_FILE");

    curl_easy_setopt(curl, CURLOPT_URL, t->what->from);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR,
                     is_https ? "https" : "http,https");
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(curl, CURLOPT_MAXREDIRS, REDIRECTS);
    curl_easy_setopt(curl, CURLOPT_FAILONERROR, 1L);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, CONNECT_SECONDS);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, SLOW_SECONDS);
    curl_easy_setopt(curl, CURLOPT_RESUME_FROM_LARGE, (curl_off_t)t->begun);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_bytes);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, t);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, t);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, error);
    if (authorities && *authorities)
        curl_easy_setopt(curl, CURLOPT_CAINFO, authorities);
}

/* The server can't go on where the last try ended, or that was not of this file. */
static bool must_begin_anew(CURLcode code, long answer)
{
    return code == CURLE_RANGE_ERROR ||
           (code == CURLE_HTTP_RETURNED_ERROR && answer == 416);
}

static crt_status_t fetch(transfer_t *t)
{
    char error[CURL_ERROR_SIZE] = "";
    CURLcode code;
    long answer;
    CURL *curl;

    CRT_TRY(crti_curl_library());
    curl_global_init(CURL_GLOBAL_DEFAULT);
    for (;;) {
        answer = 0;
        curl = curl_easy_init();
        if (!curl)
            return crt_raise(CRT_ERR_NO_MEMORY, "out of memory");
        set_options(curl, t, error);
        code = curl_easy_perform(curl);
        curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &answer);
        curl_easy_cleanup(curl);
        if (!t->begun || !must_begin_anew(code, answer) || ftruncate(t->fd, 0) != 0)
            break;
        t->begun = t->size = 0;
    }
    if (code == CURLE_OK)
        return CRT_OK;
    if (code == CURLE_WRITE_ERROR)
        return put_failed(t);
    if (code == CURLE_HTTP_RETURNED_ERROR)
        return crt_raise(answer == 404 ? CRT_ERR_NOT_FOUND : CRT_ERR_IO,
                         "%s: the server answered %ld", t->what->from, answer);
    return crt_raise(CRT_ERR_IO, "%s: %s", t->what->from,
                     error[0] ? error : curl_easy_strerror(code));
}

/* ---------------------------------------------------------------- the whole */

static bool is_url(const char *from)
{
    return strncmp(from, "https://", 8) == 0 || strncmp(from, "http://", 7) == 0;
}

static crt_status_t open_part(transfer_t *t, const char *part)
{
    struct stat st;

    t->fd = open(part, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (t->fd < 0)
        return crt_raise(CRT_ERR_IO, "%s: %s", part, strerror(errno));
    if (flock(t->fd, LOCK_EX | LOCK_NB) != 0)
        return crt_raise(CRT_ERR_BACKPRESSURE,
                         "%s: another process brings this file: wait for its end", part);
    if (fstat(t->fd, &st) != 0 || !S_ISREG(st.st_mode))
        return crt_raise(CRT_ERR_IO, "%s is no file", part);
    t->begun = t->size = (uint64_t)st.st_size <= t->what->most ? (uint64_t)st.st_size : 0;
    if (t->size == 0 && ftruncate(t->fd, 0) != 0)
        return crt_raise(CRT_ERR_IO, "%s: %s", part, strerror(errno));
    return CRT_OK;
}

static crt_status_t keep(const transfer_t *t, const char *part)
{
    char sha[SHA256_TEXT] = "";
    FILE *file = fopen(part, "re");
    uint64_t size = 0;
    bool is_read = file && crti_file_sha256(file, sha, &size);

    if (file)
        fclose(file);
    if (!is_read)
        return crt_raise(CRT_ERR_IO, "%s: %s", part, strerror(errno));
    if (strcmp(sha, t->what->sha256) != 0) {
        unlink(part);
        return crt_raise(CRT_ERR_CORRUPT,
                         "%s: its SHA-256 is %s, not %s: another file, or one that was "
                         "changed on its way; nothing of it was kept",
                         t->what->from, sha, t->what->sha256);
    }
    if (fsync(t->fd) != 0 || rename(part, t->what->path) != 0)
        return crt_raise(CRT_ERR_IO, "%s: %s", t->what->path, strerror(errno));
    return CRT_OK;
}

crt_status_t crti_download(const download_t *download)
{
    const char *slash = strrchr(download->path, '/');
    transfer_t t = {
        .what = download, .name = slash ? slash + 1 : download->path, .told = time(NULL)};
    char part[PATH_MAX];
    crt_status_t status;

    if (snprintf(part, sizeof(part), "%s.part", download->path) >= (int)sizeof(part))
        return crt_raise(CRT_ERR_INVALID, "%s: the path is too long", download->path);
    status = open_part(&t, part);
    if (status == CRT_OK)
        status = is_url(download->from) ? fetch(&t) : copy_file(&t);
    if (status == CRT_OK) {
        tell(&t, t.size, true);
        status = keep(&t, part);
    }
    if (t.fd >= 0)
        close(t.fd);
    return status;
}
