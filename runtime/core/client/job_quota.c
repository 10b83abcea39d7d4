/* SPDX-License-Identifier: Apache-2.0 */
/* The quota of a job. See job_quota.h. */
#include "runtime/core/client/job_quota.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/number_text.h"
#include "runtime/core/refs/kept_copies.h"
#include "runtime/net/message.h"

static crt_status_t check(const char *name, const char *text, double least, double most,
                          bool is_whole)
{
    char *end;
    double value = crti_read_number(text, &end);

    if (end == text || *end || !(value >= least && value <= most) ||
        (is_whole && value != (double)(long)value))
        return crt_raise(CRT_ERR_INVALID, "%s=%s: %s of %g to %g is needed", name, text,
                         is_whole ? "a whole number" : "a part", least, most);
    return CRT_OK;
}

/* `value` 0: the options say nothing. */
static crt_status_t pack(crti_buffer_t *environment, const char *name, double value,
                         double least, double most, bool is_whole)
{
    const char *given = getenv(name);
    char text[64], entry[128];
    crt_status_t status;

    if (given && *given)
        return check(name, given, least, most, is_whole);
    if (value == 0)
        return CRT_OK;
    crti_format(text, sizeof(text), "%.10g", value);
    status = check(name, text, least, most, is_whole);
    if (status != CRT_OK)
        return status;
    snprintf(entry, sizeof(entry), "%s=%s", name, text);
    return crti_list_pack(environment, entry, strlen(entry));
}

crt_status_t crti_job_quota_pack(const crt_options_t *options, crti_buffer_t *environment)
{
    crt_status_t status = pack(environment, CRTI_JOB_PRIORITY,
                               options ? options->priority : 0, 1, 1000, true);

    if (status == CRT_OK)
        status = pack(environment, CRTI_JOB_MAX_SHARE, options ? options->max_share : 0,
                      0.0001, 1, false);
    return status == CRT_OK
               ? pack(environment, CRTI_JOB_COPIES, options ? (double)options->copies : 0,
                      1, CRTI_COPIES_MAX, true)
               : status;
}

int64_t crti_job_copies(const crt_options_t *options)
{
    const char *given = getenv(CRTI_JOB_COPIES);

    if (given && *given)
        return strtoll(given, NULL, 10);
    return options ? options->copies : 0;
}
