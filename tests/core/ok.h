/* SPDX-License-Identifier: Apache-2.0 */
/* What every test of the whole library asks of nearly every call: that it succeeded, and if not,
 * what the library says about it. Needs crt.h and cmocka.h. */
#ifndef CRT_TESTS_CORE_OK_H
#define CRT_TESTS_CORE_OK_H

/* Fails the test unless `expression` is CRT_OK. */
#define OK(expression)                                                                   \
    do {                                                                                 \
        crt_status_t status_ = (expression);                                             \
        if (status_ != CRT_OK)                                                           \
            fail_msg("%s: %s: %s", #expression, crt_status_name(status_),                \
                     crt_error_detail());                                                \
    } while (0)

#endif
