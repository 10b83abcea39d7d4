/* SPDX-License-Identifier: Apache-2.0 */
/* Labels, selectors, and which nodes they allow. */
#include "runtime/base/scheduling.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define NODE  ((crti_id_t){0x0123abcd00000000, 1})
#define OTHER ((crti_id_t){0x0123abcd00000000, 2})

static bool allows(const char *selector, unsigned alternative, const char *labels)
{
    crti_scheduling_t how = {.strategy = CRTI_STRATEGY_DEFAULT};

    snprintf(how.selector, sizeof(how.selector), "%s", selector);
    assert_int_equal(crti_scheduling_check(&how), CRT_OK);
    return crti_scheduling_allows(&how, alternative, NODE, labels);
}

static void labels_are_keys_with_values_each_once(void **state)
{
    static const char *const right[] = {"", "a=b", "zone=eu-1,crt.io/kind=h100,x=_"};
    static const char *const wrong[] = {"a",     "a=",   "=b",      "a=b,",  ",a=b",
                                        "a=b c", "a=!b", "a=b,a=c", "a=(b)", "a=b;c=d"};
    char text[CRTI_LABELS_SIZE + 1];

    for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++)
        assert_int_equal(crti_labels_check(right[i]), CRT_OK);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        if (crti_labels_check(wrong[i]) != CRT_ERR_INVALID)
            fail_msg("\"%s\" is taken", wrong[i]);
    memset(text, 'a', sizeof(text));
    text[CRTI_LABELS_SIZE] = '\0';
    assert_int_equal(crti_labels_check(text), CRT_ERR_INVALID);
    assert_int_equal(crti_selector_check(text), CRT_ERR_INVALID);
}

static void a_selector_says_what_labels_must_be_or_must_not_be(void **state)
{
    const char *labels = "zone=eu,gpu=h100";

    assert_true(allows("", 0, ""));
    assert_true(allows("zone=eu", 0, labels));
    assert_true(allows(" zone = eu , gpu=h100 ", 0, labels));
    assert_false(allows("zone=eu,gpu=a100", 0, labels));
    assert_false(allows("zone=e", 0, labels));
    assert_true(allows("zone=!us", 0, labels));
    assert_false(allows("zone=!eu", 0, labels));
    assert_true(allows("gpu=in(a100,h100)", 0, labels));
    assert_false(allows("gpu=in(a100,b200),zone=eu", 0, labels));
    assert_true(allows("gpu=!in(a100,b200)", 0, labels));
    assert_false(allows("gpu=!in(a100,h100)", 0, labels));
    assert_true(allows("rack=!7", 0, labels)); /* no label differs from every value */
    assert_false(allows("rack=in(7)", 0, labels));
}

static void alternatives_are_tried_one_by_one(void **state)
{
    crti_scheduling_t how = {.selector = "zone=eu;zone=in(us,uk);*"};

    assert_int_equal(crti_scheduling_alternatives(&how), 3);
    assert_false(crti_scheduling_allows(&how, 0, NODE, "zone=us"));
    assert_true(crti_scheduling_allows(&how, 1, NODE, "zone=us"));
    assert_false(crti_scheduling_allows(&how, 1, NODE, ""));
    assert_true(crti_scheduling_allows(&how, 2, NODE, ""));
    assert_false(crti_scheduling_allows(&how, 3, NODE, ""));
    assert_true(allows("zone=eu;", 1, ""));
}

static void what_is_no_selector_is_refused(void **state)
{
    static const char *const wrong[] = {
        "zone",        "zone=",  "=eu",       "zone=in(",         "zone=in()",
        "zone=in(a,)", "zone=!", "zone=eu,",  "zone=!!eu",        "zo ne=a",
        "zone=in(a)b", "a=b;c",  "a=in(b;c)", "1;2;3;4;5;6;7;8;9"};

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        if (crti_selector_check(wrong[i]) != CRT_ERR_INVALID)
            fail_msg("\"%s\" is taken", wrong[i]);
    assert_int_equal(crti_selector_check(";;;;;;;;"), CRT_ERR_INVALID);
    assert_int_equal(
        crti_scheduling_check(&(crti_scheduling_t){.strategy = CRTI_STRATEGIES}),
        CRT_ERR_INVALID);
}

static void affinity_allows_one_node_only(void **state)
{
    crti_scheduling_t how = {.strategy = CRTI_STRATEGY_AFFINITY, .node = NODE},
                      same = how;
    char text[100];

    assert_true(crti_scheduling_allows(&how, 0, NODE, ""));
    assert_false(crti_scheduling_allows(&how, 0, OTHER, ""));
    assert_false(crti_scheduling_is_any(&how));
    assert_string_equal(crti_scheduling_format(&how, text, sizeof(text)),
                        "node 0123abcd");
    assert_true(crti_scheduling_equal(&how, &same));
    same.node = OTHER;
    assert_false(crti_scheduling_equal(&how, &same));
    assert_true(
        crti_scheduling_is_any(&(crti_scheduling_t){.strategy = CRTI_STRATEGY_SPREAD}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels_are_keys_with_values_each_once),
        cmocka_unit_test(a_selector_says_what_labels_must_be_or_must_not_be),
        cmocka_unit_test(alternatives_are_tried_one_by_one),
        cmocka_unit_test(what_is_no_selector_is_refused),
        cmocka_unit_test(affinity_allows_one_node_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
