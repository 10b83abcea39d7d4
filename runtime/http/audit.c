/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of who changed what. See audit.h. */
#include "runtime/http/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/limit.h"
#include "runtime/base/log.h"

#define PATH_SHOWN 512 /* bytes of a path */

struct crti_audit {
    char *path;
    int fd;
    off_t size;
};

static crt_status_t open_file(crti_audit_t *audit)
{
    struct stat st;

    audit->fd =
        open(audit->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (audit->fd < 0 || fstat(audit->fd, &st) != 0)
        return crt_raise(CRT_ERR_IO, "%s: %s", audit->path, strerror(errno));
    audit->size = st.st_size;
    return CRT_OK;
}

crt_status_t crti_audit_new(const char *path, crti_audit_t **audit_out)
{
    crti_audit_t *audit = calloc(1, sizeof(*audit));
    crt_status_t status;

    if (!audit || !(audit->path = strdup(path))) {
        free(audit);
        return crt_raise(CRT_ERR_NO_MEMORY, "out of memory");
    }
    status = open_file(audit);
    if (status == CRT_OK)
        *audit_out = audit;
    else
        crti_audit_free(audit);
    return status;
}

void crti_audit_free(crti_audit_t *audit)
{
    if (!audit)
        return;
    if (audit->fd >= 0)
        close(audit->fd);
    free(audit->path);
    free(audit);
}

/* ---------------------------------------------------------------- a line */

static const char *method_name(crti_http_method_t method)
{
    switch (method) {
    case CRTI_HTTP_POST: return "POST";
    case CRTI_HTTP_PUT: return "PUT";
    case CRTI_HTTP_DELETE: return "DELETE";
    default: return "OTHER";
    }
}

static void name_source(int fd, char *text, size_t size)
{
    char host[64] = "?", service[16] = "?";
    struct sockaddr_storage from = {0};
    socklen_t length = sizeof(from);
    struct ucred peer;
    socklen_t peer_size = sizeof(peer);

    if (getpeername(fd, (struct sockaddr *)&from, &length) != 0)
        snprintf(text, size, "?");
    else if (from.ss_family != AF_UNIX &&
             getnameinfo((struct sockaddr *)&from, length, host, sizeof(host), service,
                         sizeof(service), NI_NUMERICHOST | NI_NUMERICSERV) == 0)
        snprintf(text, size, "%s:%s", host, service);
    else if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &peer_size) == 0)
        snprintf(text, size, "local:%u", (unsigned)peer.uid);
    else
        snprintf(text, size, "?");
}

/* One word: nothing of it begins a line of its own. */
static void write_word(FILE *to, const char *text, size_t most)
{
    size_t size = strnlen(text, most);

    for (size_t i = 0; i < size; i++)
        fprintf(to, text[i] > ' ' && text[i] < 127 && text[i] != '%' ? "%c" : "%%%02X",
                (unsigned char)text[i]);
}

char *crti_audit_begin(const crti_http_request_t *request, const char *who, int fd)
{
    char source[96], *text = NULL;
    size_t size;
    FILE *to;

    name_source(fd, source, sizeof(source));
    to = open_memstream(&text, &size);
    if (!to)
        return NULL;
    fprintf(to, "%s ", method_name(request->method));
    write_word(to, request->path, PATH_SHOWN);
    /* What follows the reply's code. */
    fprintf(to, "%c%s %s ", '\0', who, source);
    fclose(to); /* which may move the text */
    return text;
}

/* One file of earlier lines is kept. */
static void rotate(crti_audit_t *audit)
{
    CRTI_AUTO(free) char *old = NULL;

    if (asprintf(&old, "%s.1", audit->path) < 0)
        return;
    close(crti_take_fd(&audit->fd));
    if (rename(audit->path, old) != 0)
        crti_log(CRTI_LOG_WARN, "http", "%s: %s", audit->path, strerror(errno));
    if (open_file(audit) != CRT_OK)
        crti_log(CRTI_LOG_ERROR, "http", "changes are not recorded: %s",
                 crt_error_detail());
}

void crti_audit_end(crti_audit_t *audit, char *begun_take, unsigned code,
                    const char *subject)
{
    CRTI_AUTO(free) char *begun = begun_take, *line = NULL;
    CRTI_AUTO(fclose) FILE *to = NULL;
    struct timespec now;
    struct tm utc;
    char when[32];
    size_t size = 0;

    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    strftime(when, sizeof(when), "%FT%T", &utc);
    to = open_memstream(&line, &size);
    if (!to)
        return;
    fprintf(to, "%s.%03ldZ %s %03u %s", when, now.tv_nsec / 1000000, begun, code,
            begun + strlen(begun) + 1);
    write_word(to, *subject ? subject : "-", PATH_SHOWN);
    fputc('\n', to);
    fflush(to);
    if (audit->size + (off_t)size > (off_t)CRTI_LIMIT(log_file))
        rotate(audit);
    if (audit->fd < 0 && open_file(audit) != CRT_OK)
        return;
    if (write(audit->fd, line, size) == (ssize_t)size)
        audit->size += (off_t)size;
    else
        crti_log(CRTI_LOG_WARN, "http", "a change is not recorded: %s: %s", audit->path,
                 strerror(errno));
}
