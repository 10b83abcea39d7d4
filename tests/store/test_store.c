/* SPDX-License-Identifier: Apache-2.0 */
/* Behaviour of the object store, several attachments in one process. */
#include "tests/store/store_test.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "runtime/net/protocol.h"
#include "runtime/store/table.h"

static void a_sealed_object_is_read_in_place_by_another_process(void **state)
{
    CRTI_AUTO(crti_store_detach) crti_store_t *daemon = new_store(16 * MIB);
    CRTI_AUTO(crti_store_detach) crti_store_t *a = join(daemon, 1);
    CRTI_AUTO(crti_store_detach) crti_store_t *b = join(daemon, 2);
    const size_t sizes[] = {0, 1, 64, 65, 1024, 8192, 8193, 100000, 3 * MIB};
    crti_store_view_t view;

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        crti_object_id_t id = object(7, i + 1);

        assert_ok(put(a, id, sizes[i], true));
        assert_true(crti_store_contains(b, id));
        assert_ok(crti_store_get(b, id, &view));
        assert_int_equal(view.size, sizes[i]);
        assert_int_equal((uintptr_t)view.data % CRTI_STORE_ALIGNMENT, 0);
        assert_int_equal(first_wrong(view.data, id, view.size), view.size);
        crti_store_release(b, &view);
        assert_null(view.data);
        assert_ok(crti_store_check(daemon));
    }
}

static void an_unsealed_object_is_seen_by_nobody(void **state)
{
    CRTI_AUTO(crti_store_detach) crti_store_t *daemon = new_store(16 * MIB);
    CRTI_AUTO(crti_store_detach) crti_store_t *a = join(daemon, 1);
    crti_store_view_t view;
    void *data;

    assert_ok(crti_store_create(a, object(1, 1), 1024, &data));
    assert_false(crti_store_contains(daemon, object(1, 1)));
    assert_int_equal(crti_store_get(daemon, object(1, 1), &view), CRT_ERR_NOT_FOUND);
    assert_int_equal(crti_store_get(a, object(1, 1), &view), CRT_ERR_NOT_FOUND);
    assert_int_equal(crti_store_create(daemon, object(1, 1), 5, &data), CRT_ERR_EXISTS);
    /* Nor may another process seal or abort it. */
    assert_int_equal(crti_store_seal(daemon, object(1, 1), true), CRT_ERR_NOT_FOUND);
    crti_store_abort(daemon, object(1, 1));
    assert_ok(crti_store_seal(a, object(1, 1), true));
    assert_int_equal(crti_store_seal(a, object(1, 1), true), CRT_ERR_NOT_FOUND);
    assert_int_equal(crti_store_create(daemon, object(1, 1), 5, &data), CRT_ERR_EXISTS);
    assert_ok(crti_store_check(daemon));
}

static void an_aborted_object_leaves_nothing_and_can_be_made_again(void **state)
{
    CRTI_AUTO(crti_store_detach) crti_store_t *daemon = new_store(16 * MIB);
    size_t before = used_bytes(daemon), sizes[] = {100, 5 * MIB};
    void *data;

    for (int i = 0; i < 2; i++) {
        assert_ok(crti_store_create(daemon, object(1, 1), sizes[i], &data));
        crti_store_abort(daemon, object(1, 1));
        crti_store_abort(daemon, object(1, 1));
        assert_ok(put(daemon, object(1, 1), sizes[i], true));
        crti_store_free(daemon, object(1, 1));
        assert_ok(crti_store_check(daemon));
    }
    assert_in_range(used_bytes(daemon), before, before + 65536); /* slabs kept at hand */
}

static void users_see_objects_through_a_read_only_mapping(void **state)
{
    CRTI_AUTO(crti_store_detach) crti_store_t *daemon = new_store(16 * MIB);
    crti_store_view_t view;
    int pipe_ends[2];

    assert_ok(put(daemon, object(1, 1), 4096, true));
    assert_ok(crti_store_get(daemon, object(1, 1), &view));
    assert_int_equal(pipe(pipe_ends), 0);
    assert_int_equal(write(pipe_ends[1], "x", 1), 1);
    /* The kernel refuses to write there: EFAULT, no signal. */
    assert_int_equal(read(pipe_ends[0], (void *)(uintptr_t)view.data, 1), -1);
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    crti_store_release(daemon, &view);
}

static void a_freed_object_is_gone_at_once_and_its_memory_with_the_last_pin(void **state)
{
    CRTI_AUTO(crti_store_detach) crti_store_t *daemon = new_store(16 * MIB);
    CRTI_AUTO(crti_store_detach) crti_store_t *a = join(daemon, 1);
    crti_object_id_t id = object(3, 9);
    crti_store_view_t first, second, other;
    size_t before;

    assert_ok(put(a, id, 4 * MIB, true));
    before = used_bytes(daemon);
    assert_ok(crti_store_get(a, id, &first));
    assert_ok(crti_store_get(daemon, id, &second));
    crti_store_free(daemon, id);
    crti_store_free(daemon, id);
    assert_false(crti_store_contains(a, id));
    assert_int_equal(crti_store_get(a, id, &other), CRT_ERR_NOT_FOUND);
    assert_true(used_bytes(daemon) >= before);
    assert_int_equal(first_wrong(first.data, id, first.size), first.size);
    crti_store_release(daemon, &second);
    assert_ok(put(daemon, id, 100, true)); /* the id may come again meanwhile */
    assert_int_equal(first_wrong(first.data, id, first.size), first.size);
    crti_store_release(a, &first);
    assert_true(used_bytes(daemon) < before - 3 * MIB);
    assert_true(crti_store_contains(daemon, id));
    assert_ok(crti_store_check(daemon));
}

static void an_object_freed_while_it_is_written_is_gone_with_its_seal(void **state)
{
    CRTI_AUTO(crti_store_detach) crti_store_t *daemon = new_store(16 * MIB);
    CRTI_AUTO(crti_store_detach) crti_store_t *a = join(daemon, 1);
    void *data;

    assert_ok(crti_store_create(a, object(1, 1), 100000, &data));
    crti_store_free(daemon, object(1, 1));
    memset(data, 1, 100000);
    assert_ok(crti_store_seal(a, object(1, 1), true));
    assert_false(crti_store_contains(daemon, object(1, 1)));
    assert_ok(crti_store_check(daemon));
    assert_ok(put(a, object(1, 1), 10, true));
}

static void an_object_larger_than_the_store_is_refused_for_good(void **state)
{
    CRTI_AUTO(crti_store_detach) crti_store_t *daemon = new_store(16 * MIB);
    struct crti_store_stats stats;
    size_t capacity;
    void *data;

    crti_store_stats(daemon, &stats);
    capacity = stats.capacity;
    assert_true(capacity >= 16 * MIB);
    assert_int_equal(crti_store_create(daemon, object(1, 1), capacity + 1, &data),
                     CRT_ERR_TOO_LARGE);
    assert_int_equal(crti_store_create(daemon, object(1, 1), SIZE_MAX, &data),
                     CRT_ERR_TOO_LARGE);
    assert_int_equal(crti_store_wait_space(daemon, capacity + 1, UINT64_MAX),
                     CRT_ERR_TOO_LARGE);
    assert_ok(crti_store_create(daemon, object(1, 1), capacity, &data));
    assert_ok(crti_store_check(daemon));
}

static void a_full_store_says_who_filled_it_and_still_gives_views(void **state)
{
    CRTI_AUTO(crti_store_detach) crti_store_t *daemon = new_store(8 * MIB);
    CRTI_AUTO(crti_store_detach) crti_store_t *a = join(daemon, 1);
    crti_store_view_t views[500];
    uint64_t n = 0;
    void *data;

    while (put(a, (crti_object_id_t){{1, ~1ull}, n + 1}, 10000, true) == CRT_OK)
        n++;
    assert_in_range(n, 600, 840);
    assert_int_equal(crti_store_create(a, object(2, 1), 10000, &data),
                     CRT_ERR_STORE_FULL);
    assert_non_null(strstr(crt_error_detail(), "largest users: process"));
    assert_non_null(strstr(crt_error_detail(), "(pid "));
    assert_int_equal(crti_store_wait_space(a, 10000, crti_now_ns() + 30 * CRTI_MS),
                     CRT_ERR_STORE_FULL);
    assert_non_null(strstr(crt_error_detail(), "largest users: process"));
    for (uint64_t i = 0; i < 500; i++)
        assert_ok(crti_store_get(a, object(1, i + 1), &views[i]));
    assert_ok(crti_store_check(daemon));
    for (uint64_t i = 0; i < 500; i++)
        crti_store_release(a, &views[i]);
    crti_store_free(a, object(1, 5));
    assert_ok(crti_store_wait_space(a, 10000, crti_now_ns()));
    assert_ok(put(a, object(2, 1), 10000, true));
    assert_ok(crti_store_check(daemon));
}

static void unpinned_copies_are_evicted_oldest_first(void **state)
{
    CRTI_AUTO(crti_store_detach) crti_store_t *daemon = new_store(8 * MIB);
    struct crti_store_stats stats;
    crti_store_view_t pinned, touched;

    for (uint64_t i = 1; i <= 7; i++)
        assert_ok(put(daemon, object(1, i), MIB, i == 7));
    assert_ok(crti_store_get(daemon, object(1, 1), &pinned));
    assert_ok(crti_store_get(daemon, object(1, 2), &touched)); /* used last */
    crti_store_release(daemon, &touched);
    assert_ok(put(daemon, object(2, 1), 3 * MIB, true));
    assert_true(crti_store_contains(daemon, object(1, 1)));  /* pinned */
    assert_true(crti_store_contains(daemon, object(1, 2)));  /* used lately */
    assert_false(crti_store_contains(daemon, object(1, 3))); /* the oldest */
    assert_true(crti_store_contains(daemon, object(1, 7)));  /* primary */
    crti_store_stats(daemon, &stats);
    assert_in_range(stats.evictions, 2, 3);
    assert_int_equal(stats.pinned_bytes, MIB);
    assert_int_equal(first_wrong(pinned.data, object(1, 1), MIB), MIB);
    assert_int_equal(put(daemon, object(2, 2), 6 * MIB, true), CRT_ERR_STORE_FULL);
    crti_store_release(daemon, &pinned);
    assert_ok(crti_store_check(daemon));
}

static bool is_owner(void *user, crti_id_t owner)
{
    return crti_id_equal(owner, *(const crti_id_t *)user);
}

static void a_dropped_owner_loses_all_its_objects_and_nobody_else_any(void **state)
{
    CRTI_AUTO(crti_store_detach) crti_store_t *daemon = new_store(16 * MIB);
    CRTI_AUTO(crti_store_detach) crti_store_t *a = join(daemon, 1);
    crti_store_view_t view;
    void *data;

    for (uint64_t i = 1; i <= 300; i++) {
        assert_ok(put(i % 2 ? a : daemon, object(1, i), 10 * i, i % 3 != 0));
        assert_ok(put(a, object(2, i), 100, true));
    }
    assert_ok(crti_store_create(a, object(1, 1000), 100, &data));
    assert_ok(crti_store_get(a, object(1, 7), &view));
    assert_int_equal(crti_store_drop_owner(daemon, (crti_id_t){1, ~1ull}), 301);
    assert_int_equal(crti_store_drop_owner(daemon, (crti_id_t){1, ~1ull}), 0);
    for (uint64_t i = 1; i <= 300; i++) {
        assert_false(crti_store_contains(daemon, object(1, i)));
        assert_true(crti_store_contains(daemon, object(2, i)));
    }
    assert_int_equal(first_wrong(view.data, object(1, 7), 70), 70);
    crti_store_release(a, &view);
    assert_ok(crti_store_seal(a, object(1, 1000), true));
    assert_false(crti_store_contains(a, object(1, 1000)));
    assert_int_equal(crti_store_drop_owners(daemon, is_owner, &(crti_id_t){1, ~1ull}), 0);
    assert_int_equal(crti_store_drop_owners(daemon, is_owner, &(crti_id_t){2, ~2ull}),
                     300);
    assert_false(crti_store_contains(daemon, object(2, 1)));
    assert_ok(crti_store_check(daemon));
}

static void detach_gives_back_pins_and_unsealed_blocks(void **state)
{
    CRTI_AUTO(crti_store_detach) crti_store_t *daemon = new_store(16 * MIB);
    crti_store_t *a = join(daemon, 1);
    struct crti_store_stats stats;
    crti_store_view_t view;
    void *data;

    assert_ok(put(a, object(1, 1), 100, true));
    for (int i = 0; i < 200; i++)
        assert_ok(crti_store_get(a, object(1, 1), &view));
    assert_ok(crti_store_create(a, object(1, 2), 2 * MIB, &data));
    assert_ok(crti_store_create(a, object(1, 3), 30, &data));
    crti_store_detach(a);
    assert_ok(crti_store_check(daemon));
    crti_store_stats(daemon, &stats);
    assert_int_equal(stats.objects, 1);
    assert_int_equal(stats.pins, 0);
    crti_store_free(daemon, object(1, 1));
    assert_int_equal(used_bytes(daemon), 0);
    assert_ok(crti_store_check(daemon));
}

static void a_slot_has_one_process_at_a_time_and_can_be_used_again(void **state)
{
    CRTI_AUTO(crti_store_detach) crti_store_t *daemon = new_store(8 * MIB);
    crti_store_t *a = join(daemon, 5), *other = NULL;

    assert_int_equal(
        crti_store_attach(crti_store_fd(daemon), 5, (crti_id_t){9, 9}, &other),
        CRT_ERR_EXISTS);
    assert_int_equal(
        crti_store_attach(crti_store_fd(daemon), 64, (crti_id_t){9, 9}, &other),
        CRT_ERR_INVALID);
    assert_int_equal(
        crti_store_attach(crti_store_fd(daemon), 0, (crti_id_t){9, 9}, &other),
        CRT_ERR_INVALID);
    crti_store_detach(a);
    a = join(daemon, 5);
    crti_store_detach(a);
    assert_ok(crti_store_reclaim(daemon, 5));
    assert_ok(crti_store_reclaim(daemon, 6)); /* never attached */
    assert_int_equal(crti_store_reclaim(daemon, 0), CRT_ERR_INVALID);
    assert_ok(crti_store_check(daemon));
}

static void a_file_that_is_no_store_is_refused(void **state)
{
    CRTI_AUTO(crti_close) int fd = memfd_create("other", MFD_CLOEXEC);
    crti_store_t *store = NULL;

    assert_int_equal(crti_store_attach(fd, 1, (crti_id_t){1, 1}, &store),
                     CRT_ERR_CORRUPT);
    assert_int_equal(ftruncate(fd, 64 * MIB), 0);
    assert_int_equal(crti_store_attach(fd, 1, (crti_id_t){1, 1}, &store),
                     CRT_ERR_CORRUPT);
    assert_int_equal(crti_store_attach(-1, 1, (crti_id_t){1, 1}, &store), CRT_ERR_IO);
    assert_null(store);
}

static void a_store_too_large_or_too_small_is_refused_with_the_reason(void **state)
{
    crti_store_t *store = NULL;

    assert_int_equal(crti_store_new(1000, 4, &store), CRT_ERR_INVALID);
    assert_int_equal(crti_store_new(8 * MIB, 0, &store), CRT_ERR_INVALID);
    assert_int_equal(crti_store_new(8 * MIB, 1u << 20, &store), CRT_ERR_INVALID);
    assert_int_equal(crti_store_new(1ull << 42, 4, &store), CRT_ERR_NO_MEMORY);
    assert_non_null(strstr(crt_error_detail(), "this host has"));
    assert_null(store);
}

static void hundred_megabytes_find_room_after_churn(void **state)
{
    CRTI_AUTO(crti_store_detach) crti_store_t *daemon = new_store(256 * MIB);
    CRTI_AUTO(crti_store_detach) crti_store_t *a = join(daemon, 1);
    uint64_t number = 0, oldest = 0;
    unsigned random = 12345;
    void *data;

    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 400; i++) {
            size_t size;

            random = random * 1103515245u + 12345u;
            size = (size_t)64 << (random >> 16) % 14; /* 64 ... 512 KiB */
            assert_ok(
                crti_store_create(i % 2 ? a : daemon, object(1, ++number), size, &data));
            assert_ok(crti_store_seal(i % 2 ? a : daemon, object(1, number), true));
            if (number - oldest > 200)
                crti_store_free(daemon, object(1, ++oldest));
        }
        assert_ok(crti_store_create(a, object(2, 1), 100000000, &data));
        assert_ok(crti_store_seal(a, object(2, 1), true));
        crti_store_free(daemon, object(2, 1));
    }
    assert_ok(crti_store_check(daemon));
    while (oldest < number)
        crti_store_free(daemon, object(1, ++oldest));
    assert_ok(crti_store_check(daemon));
}

static void a_freed_hole_serves_the_next_object_of_its_size(void **state)
{
    CRTI_AUTO(crti_store_detach) crti_store_t *daemon = new_store(64 * MIB);
    struct crti_store_stats before, after;

    assert_ok(put(daemon, object(1, 1), 10000000, true));
    assert_ok(put(daemon, object(1, 2), 100000, true)); /* behind it */
    crti_store_stats(daemon, &before);
    for (uint64_t i = 3; i < 20; i++) {
        crti_store_free(daemon, object(1, i == 3 ? 1 : i - 1));
        assert_ok(put(daemon, object(1, i), 10000000, true));
    }
    crti_store_stats(daemon, &after);
    assert_int_equal(after.high_water, before.high_water);
}

static void copies_of_every_size_and_alignment_are_exact(void **state)
{
    const size_t most = 5 * MIB;
    uint8_t *from = malloc(most + 64), *to = malloc(most + 64);

    for (size_t i = 0; i < most + 64; i++)
        from[i] = (uint8_t)(i * 2654435761u >> 13);
    for (size_t size = most - 700; size < most; size += 97) {
        size_t shift = size % 61, place = size % 53;

        memset(to, 0, most + 64);
        crti_store_copy(to + place, from + shift, size);
        assert_memory_equal(to + place, from + shift, size);
        assert_int_equal(to[place + size], 0);
        assert_int_equal(place > 0 ? to[place - 1] : 0, 0);
    }
    crti_store_copy(to, from, 0);
    crti_store_copy(to, from, 100);
    assert_memory_equal(to, from, 100);
    free(from);
    free(to);
}

/* With a second thread, when a core is free just then. */
static void large_copies_are_exact(void **state)
{
    const size_t most = 24 * MIB;
    uint8_t *from = malloc(most + 64), *to = malloc(most + 64);

    for (size_t i = 0; i < most + 64; i++)
        from[i] = (uint8_t)(i * 2654435761u >> 13);
    for (size_t size = 8 * MIB - 1; size < most; size += 3 * MIB + 12345) {
        size_t shift = size % 61, place = size % 53;

        memset(to, 0, most + 64);
        crti_store_copy(to + place, from + shift, size);
        assert_memory_equal(to + place, from + shift, size);
        assert_int_equal(to[place + size], 0);
        assert_int_equal(place > 0 ? to[place - 1] : 0, 0);
    }
    free(from);
    free(to);
}

static long faults(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
}

/* Without what a sanitizer adds: its own memory faults, too. */
__attribute__((no_sanitize_address, no_sanitize_thread, noinline)) static void
touch_pages(volatile uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i += 4096)
        bytes[i] = 1;
}

static void a_large_object_is_mapped_when_it_is_made(void **state)
{
    for (int huge = 0; huge < 2; huge++) {
        crti_store_t *daemon, *a;
        long before;
        void *data;

        assert_ok(crti_store_new_on(64 * MIB, 64, huge, &daemon));
        crti_store_stop_threads(daemon);
        a = join(daemon, 1);
        assert_ok(crti_store_create(a, object(1, 1), 48 * MIB, &data));
        before = faults();
        touch_pages(data, 48 * MIB);
        assert_in_range(faults() - before, 0, 500); /* of 12,288 pages */
        assert_ok(crti_store_seal(a, object(1, 1), true));
        crti_store_detach(a);
        crti_store_detach(daemon);
    }
}

static void a_hundred_thousand_rounds_leave_the_store_as_it_was(void **state)
{
    CRTI_AUTO(crti_store_detach) crti_store_t *daemon = new_store(32 * MIB);
    CRTI_AUTO(crti_store_detach) crti_store_t *a = join(daemon, 1);
    CRTI_AUTO(crti_store_detach) crti_store_t *b = join(daemon, 2);
    struct crti_store_stats early, late;
    crti_store_view_t view;

    for (uint64_t i = 1; i <= 100000; i++) {
        crti_object_id_t id = object(i % 3, i);

        assert_ok(put(a, id, i % 50 == 0 ? 30000 : 64 + i % 1000, true));
        assert_ok(crti_store_get(b, id, &view));
        crti_store_release(b, &view);
        crti_store_free(i % 2 ? a : b, id);
        if (i == 10000)
            crti_store_stats(daemon, &early);
    }
    crti_store_stats(daemon, &late);
    assert_int_equal(late.used, early.used);
    assert_int_equal(late.high_water, early.high_water);
    assert_int_equal(late.objects, 0);
    assert_ok(crti_store_check(daemon));
}

static void a_store_without_huge_pages_works_the_same(void **state)
{
    CRTI_AUTO(crti_store_detach) crti_store_t *daemon = NULL;
    CRTI_AUTO(crti_store_detach) crti_store_t *a = NULL;
    struct crti_store_stats stats;
    crti_store_view_t view;

    assert_ok(crti_store_new_on(16 * MIB, 4, false, &daemon));
    a = join(daemon, 1);
    assert_ok(put(a, object(1, 1), 3 * MIB, true));
    assert_ok(crti_store_get(daemon, object(1, 1), &view));
    assert_int_equal(first_wrong(view.data, object(1, 1), 3 * MIB), 3 * MIB);
    crti_store_release(daemon, &view);
    crti_store_stats(daemon, &stats);
    assert_false(stats.huge_pages);
    /* Nobody who has the descriptor can cut the file and kill its readers. */
    assert_int_not_equal(ftruncate(crti_store_fd(daemon), 4096), 0);
    assert_ok(crti_store_check(daemon));
}

/* Pages of the arena that the kernel has in memory. */
static size_t resident_bytes(const crti_store_t *store)
{
    size_t pages = (size_t)store->geometry.page_count, count = 0;
    unsigned char *map = malloc(pages);

    assert_int_equal(
        mincore(store->base + store->geometry.data_offset, pages << CRTI_PAGE_SHIFT, map),
        0);
    for (size_t i = 0; i < pages; i++)
        count += map[i] & 1;
    free(map);
    return count << CRTI_PAGE_SHIFT;
}

static void wait_for_prefault(const crti_store_t *store)
{
    uint64_t deadline = crti_now_ns() + 20 * CRTI_S;

    while (atomic_load(&store->header->fault_mark) == UINT32_MAX)
        if (crti_now_ns() > deadline)
            fail_msg("the pre-faulting thread has not come to rest");
        else
            sched_yield();
}

static void pages_are_ready_ahead_of_use_but_not_the_whole_arena(void **state)
{
    CRTI_AUTO(crti_store_detach) crti_store_t *daemon = NULL;
    void *data;

    /* mincore tells of 4 KiB pages what was touched only on a memfd. */
    assert_ok(crti_store_new_on(256 * MIB, 4, false, &daemon));
    wait_for_prefault(daemon);
    assert_in_range(resident_bytes(daemon), 16 * MIB, 24 * MIB);
    assert_ok(crti_store_create(daemon, object(1, 1), 32 * MIB, &data));
    wait_for_prefault(daemon);
    assert_in_range(resident_bytes(daemon), 64 * MIB, 80 * MIB);
    crti_store_abort(daemon, object(1, 1));
    assert_in_range(resident_bytes(daemon), 64 * MIB, 80 * MIB); /* not for minutes */
}

/* The thread comes behind the one who writes, and puts together what that one is writing to. */
static void an_object_keeps_its_bytes_while_its_pages_are_put_together(void **state)
{
    CRTI_AUTO(crti_store_detach) crti_store_t *daemon = NULL;
    CRTI_AUTO(crti_store_detach) crti_store_t *a = NULL;
    const size_t size = 12 * MIB;
    crti_store_view_t view;

    assert_ok(crti_store_new_on(128 * MIB, 4, false, &daemon));
    a = join(daemon, 1);
    for (uint64_t i = 1; i <= 8; i++)
        assert_ok(put(a, object(1, i), size, true));
    wait_for_prefault(daemon);
    for (uint64_t i = 1; i <= 8; i++) {
        assert_ok(crti_store_get(daemon, object(1, i), &view));
        assert_int_equal(first_wrong(view.data, object(1, i), size), size);
        crti_store_release(daemon, &view);
    }
}

/* Also when all of it is on disk: then nothing but entries has memory. */
static void few_objects_share_a_bucket_however_many_there_are(void **state)
{
    for (size_t bytes = 8 * MIB; bytes <= (size_t)1 << 40; bytes *= 2) {
        crti_geometry_t g;
        uint64_t most;

        assert_ok(crti_arena_plan(bytes, 64, &g));
        most = (uint64_t)g.page_count * (CRTI_PAGE_BYTES / CRTI_RECORD_BYTES);
        assert_true(most / g.bucket_count <= 33);
    }
}

/* Their numbers differ above CRTI_NUMBER_BITS only. */
static void many_results_of_one_call_share_no_bucket(void **state)
{
    CRTI_AUTO(crti_store_detach) crti_store_t *daemon = new_store(64 * MIB);
    uint64_t count = daemon->geometry.bucket_count;
    CRTI_AUTO(free) uint8_t *taken = calloc(count, 1);
    const crti_bucket_t *first =
        (crti_bucket_t *)(daemon->base + daemon->geometry.buckets_offset);
    unsigned most = 0;

    for (uint64_t part = 0; part < count; part++) {
        const crti_bucket_t *bucket =
            crti_table_bucket(daemon, object(1, 77 | part << CRTI_NUMBER_BITS));
        unsigned now = ++taken[bucket - first];

        most = now > most ? now : most;
    }
    assert_int_equal(most, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sealed_object_is_read_in_place_by_another_process),
        cmocka_unit_test(an_unsealed_object_is_seen_by_nobody),
        cmocka_unit_test(an_aborted_object_leaves_nothing_and_can_be_made_again),
        cmocka_unit_test(users_see_objects_through_a_read_only_mapping),
        cmocka_unit_test(a_freed_object_is_gone_at_once_and_its_memory_with_the_last_pin),
        cmocka_unit_test(an_object_freed_while_it_is_written_is_gone_with_its_seal),
        cmocka_unit_test(an_object_larger_than_the_store_is_refused_for_good),
        cmocka_unit_test(a_full_store_says_who_filled_it_and_still_gives_views),
        cmocka_unit_test(unpinned_copies_are_evicted_oldest_first),
        cmocka_unit_test(a_dropped_owner_loses_all_its_objects_and_nobody_else_any),
        cmocka_unit_test(detach_gives_back_pins_and_unsealed_blocks),
        cmocka_unit_test(a_slot_has_one_process_at_a_time_and_can_be_used_again),
        cmocka_unit_test(a_file_that_is_no_store_is_refused),
        cmocka_unit_test(a_store_too_large_or_too_small_is_refused_with_the_reason),
        cmocka_unit_test(a_store_without_huge_pages_works_the_same),
        cmocka_unit_test(pages_are_ready_ahead_of_use_but_not_the_whole_arena),
        cmocka_unit_test(an_object_keeps_its_bytes_while_its_pages_are_put_together),
        cmocka_unit_test(hundred_megabytes_find_room_after_churn),
        cmocka_unit_test(a_freed_hole_serves_the_next_object_of_its_size),
        cmocka_unit_test(copies_of_every_size_and_alignment_are_exact),
        cmocka_unit_test(large_copies_are_exact),
        cmocka_unit_test(a_large_object_is_mapped_when_it_is_made),
        cmocka_unit_test(a_hundred_thousand_rounds_leave_the_store_as_it_was),
        cmocka_unit_test(few_objects_share_a_bucket_however_many_there_are),
        cmocka_unit_test(many_results_of_one_call_share_no_bucket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
