/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of http/submission.c: the body of POST /api/jobs/. */
#include "runtime/http/submission.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>
#include <sodium.h>

#include "runtime/net/message.h"

#define SHA "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static crt_status_t parse(const char *json, crti_http_submission_t *s)
{
    return crti_submission_parse(json, strlen(json), s);
}

static void assert_list(const crti_buffer_t *list, const char *const *texts, size_t count)
{
    crti_span_t rest = crti_span(list->data, list->size), entry;

    for (size_t i = 0; i < count; i++) {
        assert_int_equal(crti_list_unpack(&rest, &entry), CRT_OK);
        assert_true(crti_str_equal(entry, texts[i]));
    }
    assert_int_equal(crti_list_unpack(&rest, &entry), CRT_ERR_NOT_FOUND);
}

static void a_full_description_is_taken(void **state)
{
    CRTI_AUTO(crti_submission_fini) crti_http_submission_t s = {0};

    assert_int_equal(
        parse(
            "{\"entrypoint\":\"./p 'a "
            "b'\",\"submission_id\":\"job-1\",\"argv\":[\"./p\",\"a "
            "b\",\"\"],\"runtime_env\":{\"program\":\"" SHA
            "\",\"env_vars\":{\"K\":\"V=1\"},\"excludes\":[]},\"metadata\":{\"m\":\"n\"},"
            "\"entrypoint_num_cpus\":0,\"unknown\":[1],\"retry_policy\":null}",
            &s),
        CRT_OK);
    assert_string_equal(s.id, "job-1");
    assert_string_equal(s.sha, SHA);
    assert_string_equal(s.entrypoint, "./p 'a b'");
    assert_string_equal(s.metadata, "{\"m\":\"n\"}");
    assert_list(&s.argv, (const char *const[]){"./p", "a b", ""}, 3);
    assert_list(&s.environment, (const char *const[]){"K=V=1"}, 1);
}

static void a_python_environment_is_told_to_nodes(void **state)
{
    static const struct {
        const char *json, *variable;
    } cases[] = {
        {"{\"pip\":[\"a==1\",\"--no-index\"]}", "CRT_JOB_PIP=a==1\n--no-index\n"},
        {"{\"uv\":{\"packages\":[\"a\"]}}", "CRT_JOB_UV=a\n"},
        {"{\"config\":{\"setup_timeout_seconds\":-1,\"eager_install\":true}}",
         "CRT_JOB_SETUP_SECONDS=-1"},
        {"{\"conda\":\"aims-ray\"}", "CRT_JOB_CONDA=aims-ray"},
        {"{\"image_uri\":\"a.example/b:1\"}", "CRT_JOB_IMAGE=a.example/b:1"}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        CRTI_AUTO(crti_submission_fini) crti_http_submission_t s = {0};
        char body[256];

        snprintf(body, sizeof(body), "{\"entrypoint\":\"x\",\"runtime_env\":%s}",
                 cases[i].json);
        assert_int_equal(parse(body, &s), CRT_OK);
        assert_list(&s.environment, &cases[i].variable, 1);
    }
}

static void without_a_program_the_shell_runs_the_entrypoint(void **state)
{
    CRTI_AUTO(crti_submission_fini) crti_http_submission_t s = {0};

    assert_int_equal(parse("{\"entrypoint\":\"echo $HOME\"}", &s), CRT_OK);
    assert_list(&s.argv, (const char *const[]){"/bin/sh", "-c", "echo $HOME"}, 3);
    assert_string_equal(s.sha, "");
    assert_string_equal(s.metadata, "{}");
}

static void an_id_is_chosen_when_none_is_given_and_differs_each_time(void **state)
{
    CRTI_AUTO(crti_submission_fini) crti_http_submission_t a = {0}, b = {0};

    assert_int_equal(parse("{\"entrypoint\":\"x\"}", &a), CRT_OK);
    assert_int_equal(parse("{\"entrypoint\":\"x\",\"submission_id\":null}", &b), CRT_OK);
    assert_string_equal(a.id, "");
    assert_string_equal(b.id, "");
    crti_submission_choose_id(&a, false);
    crti_submission_choose_id(&b, false);
    assert_true(crti_http_is_job_id(a.id));
    assert_int_equal(strncmp(a.id, "job_", 4), 0);
    assert_int_equal(strlen(a.id), 20);
    assert_string_not_equal(a.id, b.id);
    crti_submission_choose_id(&b, true); /* as its users know it */
    assert_true(crti_http_is_job_id(b.id));
    assert_int_equal(strncmp(b.id, "raysubmit_", 10), 0);
    assert_int_equal(strlen(b.id), 26);
}

static void job_id_is_an_old_name_of_submission_id(void **state)
{
    CRTI_AUTO(crti_submission_fini) crti_http_submission_t s = {0};

    assert_int_equal(parse("{\"entrypoint\":\"x\",\"job_id\":\"old\"}", &s), CRT_OK);
    assert_string_equal(s.id, "old");
}

static void a_wrong_environment_is_refused_with_what_is_wrong(void **state)
{
    static const struct {
        const char *json, *reason;
    } cases[] = {
        {"{\"entrypoint\":\"x\",\"runtime_env\":{\"pip\":\"a.txt\"}}",
         "runtime_env.pip must be a list of requirements"},
        {"{\"entrypoint\":\"x\",\"runtime_env\":{\"pip\":[]}}", "1 to 16384 bytes"},
        {"{\"entrypoint\":\"x\",\"runtime_env\":{\"pip\":[\"a\\nb\"]}}",
         "runtime_env.pip must be a list of requirements"},
        {"{\"entrypoint\":\"x\",\"runtime_env\":{\"uv\":[\"a\\u0000\"]}}", "zero"},
        {"{\"entrypoint\":\"x\",\"runtime_env\":{\"uv\":{\"packages\":[\"a\"],"
         "\"uv_check\":true}}}",
         "more is for \"setup\""},
        {"{\"entrypoint\":\"x\",\"runtime_env\":{\"conda\":\"a.yaml\"}}",
         "let \"setup\" make one"},
        {"{\"entrypoint\":\"x\",\"runtime_env\":{\"conda\":\"-p\"}}",
         "the name of an environment"},
        {"{\"entrypoint\":\"x\",\"runtime_env\":{\"conda\":{\"name\":\"a\"}}}",
         "the name of an environment"},
        {"{\"entrypoint\":\"x\",\"runtime_env\":{\"conda\":\"a\",\"pip\":[\"b\"]}}",
         "one of conda, pip and uv"},
        {"{\"entrypoint\":\"x\",\"runtime_env\":{\"image_uri\":[\"a\"]}}",
         "the name of an image of less than 256 bytes"},
        {"{\"entrypoint\":\"x\",\"runtime_env\":{\"image_uri\":\"--all\"}}",
         "the name of an image of less than 256 bytes"},
        {"{\"entrypoint\":\"x\",\"runtime_env\":{\"image_uri\":\"a b\"}}",
         "a name without blanks"},
        {"{\"entrypoint\":\"x\",\"runtime_env\":{\"image_uri\":\"a\",\"uv\":[\"b\"]}}",
         "image_uri and \"uv\": let the image have"},
        {"{\"entrypoint\":\"x\",\"runtime_env\":{\"config\":[]}}",
         "\"runtime_env.config\" must be an object"},
        {"{\"entrypoint\":\"x\",\"runtime_env\":{\"config\":{\"setup_timeout_seconds\":0}"
         "}}",
         "1 to 31536000, or -1"},
        {"{\"entrypoint\":\"x\",\"runtime_env\":{\"config\":{\"setup_timeout_seconds\":"
         "\"9\"}}}",
         "1 to 31536000, or -1"},
        {"{\"entrypoint\":\"x\",\"runtime_env\":{\"config\":{\"eager_install\":false}}}",
         "\"eager_install\" is not supported"},
        {"{\"entrypoint\":\"x\",\"runtime_env\":{\"config\":{\"log_files\":[]}}}",
         "\"log_files\" is not supported"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        CRTI_AUTO(crti_submission_fini) crti_http_submission_t s = {0};

        assert_int_equal(parse(cases[i].json, &s), CRT_ERR_INVALID);
        if (!strstr(crt_error_detail(), cases[i].reason))
            fail_msg("%s gave \"%s\"", cases[i].json, crt_error_detail());
    }
}

static void each_mistake_is_named(void **state)
{
    static const struct {
        const char *json, *reason;
    } cases[] = {
        {"", "is empty"},
        {"[]", "must be a JSON object"},
        {"{\"entrypoint\":\"x\"", "not JSON"},
        {"{\"entrypoint\":\"x\",\"entrypoint\":\"y\"}", "not JSON"},
        {"{}", "\"entrypoint\" must be a string"},
        {"{\"entrypoint\":\"\"}", "\"entrypoint\" must be a string"},
        {"{\"entrypoint\":7}", "\"entrypoint\" must be a string"},
        {"{\"entrypoint\":\"a\\u0000b\"}", "zero character"},
        {"{\"entrypoint\":\"x\",\"submission_id\":7}",
         "\"submission_id\" must be a string"},
        {"{\"entrypoint\":\"x\",\"submission_id\":\"../etc\"}",
         "\"submission_id\" must be"},
        {"{\"entrypoint\":\"x\",\"submission_id\":\"\"}", "\"submission_id\" must be"},
        {"{\"entrypoint\":\"x\",\"runtime_env\":[]}",
         "\"runtime_env\" must be an object"},
        {"{\"entrypoint\":\"x\",\"runtime_env\":{\"working_dir\":\"gcs://a\"}}",
         "\"runtime_env.working_dir\" must be gcs://_ray_pkg_HEX.zip"},
        {"{\"entrypoint\":\"x\",\"runtime_env\":{\"working_dir\":\"gcs://_ray_pkg_a.zip/"
         "../x\"}}",
         "must be gcs://_ray_pkg_HEX.zip"},
        {"{\"entrypoint\":\"x\",\"runtime_env\":{\"py_modules\":[\"a\"]}}",
         "runtime_env.py_modules is not supported: let \"setup\""},
        {"{\"entrypoint\":\"x\",\"runtime_env\":{\"setup\":\"make\"}}",
         "working_dir, which is not given"},
        {"{\"entrypoint\":\"x\",\"runtime_env\":{\"program\":\"zz\"}}",
         "runtime_env.program"},
        {"{\"entrypoint\":\"x\",\"runtime_env\":{\"program\":\"" SHA "\"}}",
         "\"argv\" must be"},
        {"{\"entrypoint\":\"x\",\"runtime_env\":{\"env_vars\":{\"K\":1}}}", "env_vars"},
        {"{\"entrypoint\":\"x\",\"runtime_env\":{\"env_vars\":{\"A=B\":\"1\"}}}",
         "env_vars"},
        {"{\"entrypoint\":\"x\",\"runtime_env\":{\"env_vars\":{\"\":\"1\"}}}",
         "env_vars"},
        {"{\"entrypoint\":\"x\",\"runtime_env\":{\"env_vars\":{\"K\":\"a\\u0000\"}}}",
         "zero"},
        {"{\"entrypoint\":\"x\",\"argv\":[]}", "\"argv\" must be"},
        {"{\"entrypoint\":\"x\",\"argv\":\"x\"}", "\"argv\" must be"},
        {"{\"entrypoint\":\"x\",\"argv\":[1]}", "\"argv\" must be"},
        {"{\"entrypoint\":\"x\",\"argv\":[\"a\\u0000\"]}", "zero character"},
        {"{\"entrypoint\":\"x\",\"metadata\":{\"k\":1}}", "\"metadata\" must be"},
        {"{\"entrypoint\":\"x\",\"metadata\":[]}", "\"metadata\" must be"},
        {"{\"entrypoint\":\"x\",\"entrypoint_num_gpus\":\"1\"}", "must be a number"},
        {"{\"entrypoint\":\"x\",\"entrypoint_num_gpus\":-1}",
         "must be 0, or 0.0001 to 1e12"},
        {"{\"entrypoint\":\"x\",\"entrypoint_num_gpus\":1.5}", "GPU"},
        {"{\"entrypoint\":\"x\",\"entrypoint_num_cpus\":1e-9}", "0.0001 to 1e12"},
        {"{\"entrypoint\":\"x\",\"entrypoint_num_cpus\":1.1e12}", "0.0001 to 1e12"},
        {"{\"entrypoint\":\"x\",\"entrypoint_num_cpus\":1,"
         "\"entrypoint_resources\":{\"CPU\":1}}",
         "names CPU twice"},
        {"{\"entrypoint\":\"x\",\"entrypoint_resources\":{\"a\":\"1\"}}",
         "an object of numbers"},
        {"{\"entrypoint\":\"x\",\"entrypoint_resources\":[1]}", "an object of numbers"},
        {"{\"entrypoint\":\"x\",\"entrypoint_label_selector\":{\"a\":1}}",
         "an object of strings"},
        {"{\"entrypoint\":\"x\",\"entrypoint_label_selector\":{\"a\":\"in(b\"}}", ""},
        {"{\"entrypoint\":\"x\",\"retries\":-1}", "a number of 0 to 1000"},
        {"{\"entrypoint\":\"x\",\"retries\":\"2\"}", "a number of 0 to 1000"},
        {"{\"entrypoint\":\"x\",\"retry_policy\":{\"a\":1}}", "not supported"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        CRTI_AUTO(crti_submission_fini) crti_http_submission_t s = {0};

        assert_int_equal(parse(cases[i].json, &s), CRT_ERR_INVALID);
        if (!strstr(crt_error_detail(), cases[i].reason))
            fail_msg("%s gave \"%s\"", cases[i].json, crt_error_detail());
    }
}

static void nesting_without_end_is_refused(void **state)
{
    CRTI_AUTO(crti_submission_fini) crti_http_submission_t s = {0};
    static char json[200001];

    memset(json, '[', sizeof(json) - 1);
    assert_int_equal(parse(json, &s), CRT_ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_description_is_taken),
        cmocka_unit_test(a_python_environment_is_told_to_nodes),
        cmocka_unit_test(a_wrong_environment_is_refused_with_what_is_wrong),
        cmocka_unit_test(without_a_program_the_shell_runs_the_entrypoint),
        cmocka_unit_test(an_id_is_chosen_when_none_is_given_and_differs_each_time),
        cmocka_unit_test(job_id_is_an_old_name_of_submission_id),
        cmocka_unit_test(each_mistake_is_named),
        cmocka_unit_test(nesting_without_end_is_refused),
    };

    if (sodium_init() < 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
