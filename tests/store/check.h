/* SPDX-License-Identifier: Apache-2.0 */
/* Check: the invariants of docs/design/store.md, one function for each table.
 *
 * Where it sits
 *     tests of the store, tests/fuzz -> [ tests/store/check.c ] -> every table, reading only
 * Threads
 *     No thread may be inside a call of the store: nothing is locked here.
 */
#ifndef CRT_TESTS_STORE_CHECK_H
#define CRT_TESTS_STORE_CHECK_H

#include "runtime/store/store.h"

/* Walks every table. CRT_ERR_CORRUPT with the first rule that does not hold. */
crt_status_t crti_store_check(crti_store_t *store);

#endif
