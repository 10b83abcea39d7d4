/* SPDX-License-Identifier: Apache-2.0 */
/* The page of metrics: what is counted can be read and summed, and any bytes may be there. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/base/metrics.h"

static crti_metrics_t page;

static int clear(void **state)
{
    memset(&page, 0, sizeof(page));
    return 0;
}

static crti_metric_t *make(const char *name, const char *labels, crti_metric_kind_t kind)
{
    crti_metric_t like = {0}, *metric;

    strcpy(like.id.name, name);
    strcpy(like.help, "what it is");
    assert_int_equal(crti_metric_labels(labels, like.id.labels), CRT_OK);
    if (kind == CRTI_METRIC_HISTOGRAM) {
        like.bounds[0] = 1;
        like.bounds[1] = 10;
        like.bucket_count = 2;
    }
    assert_int_equal(crti_metric_make(&page, &like, kind, &metric), CRT_OK);
    return metric;
}

static crti_metric_view_t read_one(void)
{
    crti_metric_view_t view;
    size_t cursor = 0;

    assert_true(crti_metric_read(&page, &cursor, &view));
    return view;
}

static void the_same_name_and_labels_are_the_same_metric(void **state)
{
    crti_metric_t like = {0}, *other;
    crti_metric_t *metric = make("steps", "a=1,b=x y", CRTI_METRIC_COUNTER);

    assert_ptr_equal(make("steps", "a=1,b=x y", CRTI_METRIC_COUNTER), metric);
    assert_ptr_not_equal(make("steps", "a=2", CRTI_METRIC_COUNTER), metric);
    assert_string_equal(metric->id.labels, "a=\"1\",b=\"x y\"");
    like.id = metric->id;
    assert_int_equal(crti_metric_make(&page, &like, CRTI_METRIC_GAUGE, &other),
                     CRT_ERR_INVALID);
}

static void values_are_read_as_they_were_counted(void **state)
{
    crti_metric_t *metric = make("steps", NULL, CRTI_METRIC_COUNTER);
    crti_metric_view_t view;

    for (int i = 0; i < 10; i++)
        crti_metric_add(metric, 0.5);
    view = read_one();
    assert_true(view.value == 5);
    assert_string_equal(view.id.name, "steps");
    assert_string_equal(view.help, "what it is");
}

static void a_histogram_counts_by_bound_and_sums(void **state)
{
    crti_metric_t *metric = make("seconds", NULL, CRTI_METRIC_HISTOGRAM);
    crti_metric_view_t view, more;

    crti_metric_observe(metric, 1); /* at the bound: below it */
    crti_metric_observe(metric, 1.5);
    crti_metric_observe(metric, 100);
    view = more = read_one();
    assert_int_equal(view.counts[0], 1);
    assert_int_equal(view.counts[1], 1);
    assert_int_equal(view.counts[2], 1);
    assert_true(view.value == 102.5);
    assert_true(crti_metric_merge(&view, &more));
    assert_int_equal(view.counts[2], 2);
    assert_true(view.value == 205);
    more.bounds[1] = 11;
    assert_false(crti_metric_merge(&view, &more));
}

static void of_gauges_the_newest_is_taken(void **state)
{
    crti_metric_t *metric = make("loss", NULL, CRTI_METRIC_GAUGE);
    crti_metric_view_t old, new;

    crti_metric_set(metric, 3, 100);
    old = read_one();
    crti_metric_set(metric, 2, 200);
    new = read_one();
    assert_true(crti_metric_merge(&old, &new));
    assert_true(old.value == 2);
    crti_metric_set(metric, 9, 50);
    new = read_one();
    assert_true(crti_metric_merge(&old, &new));
    assert_true(old.value == 2);
}

static void a_gauge_that_was_not_set_has_no_value(void **state)
{
    crti_metric_t *metric = make("loss", NULL, CRTI_METRIC_GAUGE);
    crti_metric_view_t view;
    size_t cursor = 0;

    assert_false(crti_metric_read(&page, &cursor, &view));
    crti_metric_set(metric, 0, 100);
    assert_true(read_one().value == 0);
}

static void of_a_gauge_the_last_values_are_kept(void **state)
{
    crti_metric_t *metric = make("loss", NULL, CRTI_METRIC_GAUGE);
    crti_metric_view_t view;

    for (unsigned i = 0; i < 3; i++)
        crti_metric_set(metric, i, 100 + i);
    view = read_one();
    assert_int_equal(view.recent_count, 3);
    assert_int_equal(view.recent[0].number, 0);
    assert_true(view.recent[2].value == 2);
    for (unsigned i = 3; i < 50; i++)
        crti_metric_set(metric, i, 100 + i);
    view = read_one();
    assert_int_equal(view.recent_count, CRTI_METRIC_RECENT);
    for (unsigned i = 0; i < CRTI_METRIC_RECENT; i++) {
        assert_int_equal(view.recent[i].number, 30 + i);
        assert_int_equal(view.recent[i].set_ns, 130 + i);
        assert_true(view.recent[i].value == 30 + i);
    }
    metric->recent[45 % CRTI_METRIC_RECENT].set_ns = 0; /* it is being written */
    assert_int_equal(read_one().recent_count, CRTI_METRIC_RECENT - 1);
    metric->sets = 55; /* five were, while it was read */
    assert_int_equal(read_one().recent[0].number, 35);
}

static void names_that_prometheus_does_not_take_are_refused(void **state)
{
    static const char *const names[] = {"",      "1a",  "a-b",     "a b",
                                        "crt_a", "a:b", "\xc3\xa4"};
    static const char *const labels[] = {"a",     "a=1,,b=2", "1=2", "le=3",
                                         "__a=1", "job_id=2", "=1"};
    char out[CRTI_METRIC_LABELS];

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        assert_int_equal(crti_metric_check_name(names[i]), CRT_ERR_INVALID);
    assert_int_equal(crti_metric_check_name(NULL), CRT_ERR_INVALID);
    assert_int_equal(crti_metric_check_name("a_1"), CRT_OK);
    for (size_t i = 0; i < sizeof(labels) / sizeof(labels[0]); i++)
        assert_int_equal(crti_metric_labels(labels[i], out), CRT_ERR_INVALID);
    assert_int_equal(crti_metric_labels("a=\"q\\\"", out), CRT_OK);
    assert_string_equal(out, "a=\"\\\"q\\\\\\\"\"");
}

static void a_label_is_given_once(void **state)
{
    char out[CRTI_METRIC_LABELS];
    crti_metric_view_t view;
    size_t cursor = 0;

    assert_int_equal(crti_metric_labels("a=1,a=2", out), CRT_ERR_INVALID);
    assert_int_equal(crti_metric_labels("a=1,b=\"a=,a=1", out), CRT_ERR_INVALID);
    assert_int_equal(crti_metric_labels("a=1,aa=1,b=a", out), CRT_OK);
    make("good", "a=1,b=2", CRTI_METRIC_COUNTER);
    strcpy(page.metric[0].id.labels, "a=\"1\",a=\"2\"");
    assert_false(crti_metric_read(&page, &cursor, &view));
}

static void values_of_labels_are_utf8_and_stay_as_they_are(void **state)
{
    char out[CRTI_METRIC_LABELS];

    make("town", "town=K\xc3\xb6ln", CRTI_METRIC_COUNTER);
    assert_string_equal(read_one().id.labels, "town=\"K\xc3\xb6ln\"");
    assert_int_equal(crti_metric_labels("a=\xff\xfe", out), CRT_ERR_INVALID);
    assert_int_equal(crti_metric_labels("a=x\ny", out), CRT_ERR_INVALID);
    assert_int_equal(crti_metric_labels("a=K\xc3", out), CRT_ERR_INVALID);
}

static void a_name_is_shown_for_one_metric_only(void **state)
{
    static const struct {
        const char *a;
        crti_metric_kind_t a_kind;
        const char *b;
        crti_metric_kind_t b_kind;
        bool share;
    } pairs[] = {
        {"jobs", CRTI_METRIC_COUNTER, "jobs_total", CRTI_METRIC_GAUGE, true},
        {"jobs", CRTI_METRIC_COUNTER, "jobs_total", CRTI_METRIC_COUNTER, true},
        {"jobs", CRTI_METRIC_COUNTER, "jobs", CRTI_METRIC_GAUGE, false},
        {"step", CRTI_METRIC_HISTOGRAM, "step_sum", CRTI_METRIC_GAUGE, true},
        {"step", CRTI_METRIC_HISTOGRAM, "step_count", CRTI_METRIC_COUNTER, false},
        {"step", CRTI_METRIC_HISTOGRAM, "steps", CRTI_METRIC_GAUGE, false},
        {"step", CRTI_METRIC_HISTOGRAM, "step", CRTI_METRIC_GAUGE, true}};
    crti_metric_t like = {.id.name = "jobs_total"}, *metric;

    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        assert_true(crti_metric_share_family(pairs[i].a, pairs[i].a_kind, pairs[i].b,
                                             pairs[i].b_kind) == pairs[i].share);
        assert_true(crti_metric_share_family(pairs[i].b, pairs[i].b_kind, pairs[i].a,
                                             pairs[i].a_kind) == pairs[i].share);
    }
    make("jobs", "a=1", CRTI_METRIC_COUNTER);
    assert_int_equal(crti_metric_make(&page, &like, CRTI_METRIC_GAUGE, &metric),
                     CRT_ERR_INVALID);
    strcpy(like.id.name, "jobs");
    memset(like.id.name + 4, 0, sizeof(like.id.name) - 4);
    assert_int_equal(crti_metric_make(&page, &like, CRTI_METRIC_GAUGE, &metric),
                     CRT_ERR_INVALID);
}

static void a_page_has_so_many_and_no_more(void **state)
{
    crti_metric_t like = {0}, *metric;
    char name[32];

    for (int i = 0; i < CRTI_METRICS; i++) {
        snprintf(name, sizeof(name), "m%d", i);
        make(name, NULL, CRTI_METRIC_COUNTER);
    }
    strcpy(like.id.name, "more");
    assert_int_equal(crti_metric_make(&page, &like, CRTI_METRIC_COUNTER, &metric),
                     CRT_ERR_NO_MEMORY);
}

static void bytes_of_a_stranger_are_left_out(void **state)
{
    crti_metric_view_t view;
    size_t cursor = 0;

    make("good", "a=1", CRTI_METRIC_COUNTER);
    memset(page.metric[0].id.labels, 'x', CRTI_METRIC_LABELS);
    assert_false(crti_metric_read(&page, &cursor, &view));
    strcpy(page.metric[0].id.labels, "a=\"1\"} 7\nevil{b=\"");
    cursor = 0;
    assert_false(crti_metric_read(&page, &cursor, &view));
    memset(page.metric[0].id.labels, 0, CRTI_METRIC_LABELS);
    page.metric[0].bucket_count = 1000;
    cursor = 0;
    assert_false(crti_metric_read(&page, &cursor, &view));
    atomic_store(&page.count, UINT32_MAX);
    cursor = 0;
    assert_false(crti_metric_read(&page, &cursor, &view));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_same_name_and_labels_are_the_same_metric, clear),
        cmocka_unit_test_setup(values_are_read_as_they_were_counted, clear),
        cmocka_unit_test_setup(a_histogram_counts_by_bound_and_sums, clear),
        cmocka_unit_test_setup(of_gauges_the_newest_is_taken, clear),
        cmocka_unit_test_setup(a_gauge_that_was_not_set_has_no_value, clear),
        cmocka_unit_test_setup(of_a_gauge_the_last_values_are_kept, clear),
        cmocka_unit_test_setup(names_that_prometheus_does_not_take_are_refused, clear),
        cmocka_unit_test_setup(a_label_is_given_once, clear),
        cmocka_unit_test_setup(values_of_labels_are_utf8_and_stay_as_they_are, clear),
        cmocka_unit_test_setup(a_name_is_shown_for_one_metric_only, clear),
        cmocka_unit_test_setup(a_page_has_so_many_and_no_more, clear),
        cmocka_unit_test_setup(bytes_of_a_stranger_are_left_out, clear),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
