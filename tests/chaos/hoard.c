/* SPDX-License-Identifier: Apache-2.0 */
/* The hoard of a driver: more objects than its node's store holds, each of which is read now and
 * then, and then another one is put in its place. Faults may make the disk fail that they are
 * written to: then a put or a get may fail, in words that name the disk, and nothing is lost. */
#include <stdlib.h>
#include <time.h>

#include "account.h"
#include "ledger.h"
#include "load.h"

#define OBJECTS_MAX 4096
#define SIZE        ((int64_t)(64 << 10)) /* elements: half a MiB */
#define PAUSE_NS    20000000

typedef struct hoarded {
    crt_ref_t *ref;
    uint64_t number;
} hoarded_t;

/* How many objects it is to hold; 0: there is none. */
static uint64_t wanted(void)
{
    const char *mib = getenv("CHAOS_HOARD_MIB");
    uint64_t count = mib ? 2 * strtoull(mib, NULL, 10) : 0;

    return count < OBJECTS_MAX ? count : OBJECTS_MAX;
}

static void put(load_t *load, hoarded_t *hoarded)
{
    const int64_t size = SIZE;
    crt_object_t *object;
    crt_tensor_t view;
    crt_status_t status;

    load_beat(load, "puts into its hoard");
    status = crt_object_create(CRT_DTYPE_INT64, 1, &size, &object, &view);
    load_count(load, "hoard, crt_object_create", status,
               status == CRT_OK ? "" : crt_error_detail());
    if (status != CRT_OK)
        return;
    hoarded->number = load_random(load, 1u << 30);
    account_fill_in(hoarded->number, size, view.data);
    hoarded->ref = crt_object_seal(&object);
}

/* False: it could not be read now; it stays. */
static bool take(load_t *load, hoarded_t *hoarded)
{
    const crt_tensor_t *tensor = NULL;
    crt_status_t status;
    int64_t sum = 0;

    load_beat(load, "reads its hoard");
    status = account_get(hoarded->ref, CRT_OUT(&tensor));
    load_count(load, "hoard, crt_get", status,
               status == CRT_OK ? "" : crt_error_detail());
    if (status == CRT_OK &&
        (!account_sum(tensor, &sum) || sum != account_sum_of(hoarded->number, SIZE)))
        load_finding("wrong: an object of the hoard is not what was written");
    if (status == CRT_ERR_OBJECT_LOST && !atomic_load(&load_is_lost))
        load_finding("lost: an object of the hoard: %s", crt_error_detail());
    if (status == CRT_ERR_STORE_FULL)
        return false;
    crt_ref_drop(&hoarded->ref);
    return true;
}

void *hoard_main(void *user)
{
    load_t *load = user;
    const uint64_t count = wanted();
    hoarded_t *hoard = calloc(count + 1, sizeof(*hoard));

    while (hoard && count > 0 && !atomic_load(&load_is_over) &&
           !atomic_load(&load_is_lost)) {
        hoarded_t *one = &hoard[load_random(load, count)];

        if (one->ref ? take(load, one) : true)
            put(load, one);
        nanosleep(&(struct timespec){0, PAUSE_NS}, NULL);
    }
    for (uint64_t i = 0; hoard && i < count; i++) {
        load_beat(load, "ends its hoard");
        if (hoard[i].ref && !atomic_load(&load_is_lost))
            take(load, &hoard[i]);
        crt_ref_drop(&hoard[i].ref);
    }
    free(hoard);
    load_beat(load, "has ended");
    return NULL;
}
