/* SPDX-License-Identifier: Apache-2.0 */
/* Several threads of several attachments at once; TSan looks on in its build. */
#include "tests/store/store_test.h"

#include <pthread.h>

#define THREADS     4
#define ROUNDS      3000u
#define STORE_BYTES (8 * MIB)

struct worker {
    crti_store_t *store;
    uint64_t owner;
    unsigned wrong, sealed;
};

/* Makes objects of its own and reads what the others have. */
static void *work(void *arg)
{
    struct worker *w = arg;
    crti_store_view_t view;
    void *data;

    for (uint64_t i = 1; i <= ROUNDS; i++) {
        crti_object_id_t id = object(w->owner, i), other = object(1 + i % THREADS, i);
        size_t size = i % 100 == 0 ? 200000 : 10 + i % 3000;

        if (crti_store_create(w->store, id, size, &data) == CRT_OK) {
            fill(data, id, size);
            w->wrong += crti_store_seal(w->store, id, i % 2) != CRT_OK;
            w->sealed++;
        }
        if (crti_store_get(w->store, other, &view) == CRT_OK) {
            w->wrong += first_wrong(view.data, other, view.size) != view.size;
            crti_store_release(w->store, &view);
        }
        if (i > 50)
            crti_store_free(w->store, object(w->owner, i - 50));
    }
    return NULL;
}

static void threads_of_two_attachments_share_a_store(void **state)
{
    CRTI_AUTO(crti_store_detach) crti_store_t *daemon = new_store(STORE_BYTES);
    crti_store_t *a = join(daemon, 1);
    struct worker workers[THREADS];
    pthread_t threads[THREADS];

    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){i % 2 ? a : daemon, i + 1, 0, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(workers[i].wrong, 0);
        assert_true(workers[i].sealed > ROUNDS / 2);
    }
    assert_ok(crti_store_check(daemon));
    for (uint64_t owner = 1; owner <= THREADS; owner++)
        crti_store_drop_owner(daemon, object(owner, 0).owner);
    crti_store_detach(a);
    assert_ok(crti_store_check(daemon));
}

/* All want the same ids: one creates each, the others are told so. */
static void *race(void *arg)
{
    struct worker *w = arg;
    void *data;

    for (uint64_t i = 1; i <= ROUNDS; i++) {
        crt_status_t status = crti_store_create(w->store, object(9, i), 64, &data);

        if (status == CRT_OK) {
            fill(data, object(9, i), 64);
            w->wrong += crti_store_seal(w->store, object(9, i), true) != CRT_OK;
            w->sealed++;
        } else if (status != CRT_ERR_EXISTS) {
            w->wrong++;
        }
    }
    return NULL;
}

static void one_of_many_creators_of_an_id_wins(void **state)
{
    CRTI_AUTO(crti_store_detach) crti_store_t *daemon = new_store(STORE_BYTES);
    CRTI_AUTO(crti_store_detach) crti_store_t *a = join(daemon, 1);
    struct worker workers[THREADS];
    pthread_t threads[THREADS];
    unsigned sealed = 0;

    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){i % 2 ? a : daemon, 0, 0, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, race, &workers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(workers[i].wrong, 0);
        sealed += workers[i].sealed;
    }
    assert_int_equal(sealed, ROUNDS);
    assert_ok(crti_store_check(daemon));
}

/* Creators that fill the store wait until the others' objects are freed. */
static void *wait_and_put(void *arg)
{
    struct worker *w = arg;
    void *data;

    for (uint64_t i = 1; i <= 40; i++) {
        crti_object_id_t id = object(w->owner, i);
        crt_status_t status;

        while ((status = crti_store_create(w->store, id, MIB, &data)) ==
               CRT_ERR_STORE_FULL)
            if (crti_store_wait_space(w->store, MIB, crti_now_ns() + 30 * CRTI_S) !=
                CRT_OK)
                break;
        w->wrong += status != CRT_OK || crti_store_seal(w->store, id, true) != CRT_OK;
        if (i > 1)
            crti_store_free(w->store, object(w->owner, i - 1));
    }
    crti_store_free(w->store, object(w->owner, 40));
    return NULL;
}

static void creators_of_a_full_store_wait_for_each_other(void **state)
{
    CRTI_AUTO(crti_store_detach) crti_store_t *daemon = new_store(STORE_BYTES);
    CRTI_AUTO(crti_store_detach) crti_store_t *a = join(daemon, 1);
    struct worker workers[THREADS];
    pthread_t threads[THREADS];

    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){i % 2 ? a : daemon, i + 1, 0, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, wait_and_put, &workers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(workers[i].wrong, 0);
    }
    assert_ok(crti_store_check(daemon));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_of_two_attachments_share_a_store),
        cmocka_unit_test(one_of_many_creators_of_an_id_wins),
        cmocka_unit_test(creators_of_a_full_store_wait_for_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
