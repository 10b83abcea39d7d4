/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of cli/runtime_env.c: files of runtime environments, in YAML and JSON. */
#include "cli/runtime_env.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* The text as JSON, sorted; the caller frees it. */
static char *read_as(const char *path, const char *text)
{
    json_t *env;
    char *made;

    if (crti_runtime_env_parse(path, text, &env) != CRT_OK)
        fail_msg("%s", crt_error_detail());
    made = json_dumps(env, JSON_COMPACT | JSON_SORT_KEYS);
    json_decref(env);
    return made;
}

static void expect(const char *path, const char *text, const char *json)
{
    char *made = read_as(path, text);

    assert_string_equal(made, json);
    free(made);
}

static void refuse(const char *path, const char *text, const char *why)
{
    json_t *env;

    assert_int_equal(crti_runtime_env_parse(path, text, &env), CRT_ERR_INVALID);
    if (!strstr(crt_error_detail(), why))
        fail_msg("\"%s\" is not in \"%s\"", why, crt_error_detail());
}

static void yaml_is_read_as_json_is(void **state)
{
    static const char json[] =
        "{\"env_vars\":{\"A\":\"1\",\"B\":\"x y\",\"C\":\"\",\"D\":\"yes\"},\"excludes\":"
        "[\"/out\",\"*.o\"],\"setup\":\"make\\nmake check\\n\",\"working_dir\":\".\"}";

    expect("e.json", json, json);
    expect("e", json, json);
    expect(
        "e.yaml",
        "# of a job\nworking_dir: .\nexcludes: [/out, '*.o']\nsetup: |\n  make\n  make "
        "check\nenv_vars:\n  A: 1\n  B: x y\n  C: \"\"\n  D: yes\n",
        json);
    expect("e.yml", "{\"working_dir\": \"here\"}", "{\"working_dir\":\"here\"}");
    expect("e", "---\nworking_dir: here\n", "{\"working_dir\":\"here\"}");
    expect("e.yaml", "excludes: data\nsetup: ~\nworking_dir: null\nenv_vars:\n",
           "{\"excludes\":[\"data\"]}");
    expect("e.yaml", "setup: 'null'\n", "{\"setup\":\"null\"}");
    expect("e.yaml", "config:\n  setup_timeout_seconds: 90\n  eager_install: true\n",
           "{\"config\":{\"setup_timeout_seconds\":90}}");
}

static void an_error_has_its_line_and_column_and_the_nearest_key(void **state)
{
    refuse("a.yaml", "setup: make\nworkin_dir: .\n",
           "a.yaml:2:1: unknown key \"workin_dir\"; the nearest one is working_dir");
    refuse("a.yaml", "env-vars: {}\n",
           "a.yaml:1:1: unknown key \"env-vars\"; the nearest");
    refuse("a.yaml", "what: .\n", "a.yaml:1:1: unknown key \"what\"");
    refuse("a.yaml", "setup: a\n\tworking_dir: .\n", "a.yaml:2:1: ");
    refuse("a.yaml", "env_vars: [a]\n", "a.yaml:1:11: env_vars is a map");
    refuse("a.yaml", "env_vars:\n  K:\n", "a.yaml:2:3: the variable K has no value");
    refuse("a.yaml", "env_vars:\n  K: [1]\n", "a.yaml:2:6: K is a text or a number");
    refuse("a.yaml", "excludes: {a: b}\n", "excludes is a list, not a map");
    refuse("a.yaml", "config: {setup_timeout_seconds: 9s}\n", "a whole number");
    refuse("a.yaml", "config:\n  eager_install: false\n", "a.yaml:2:3: config has");
    refuse("a.yaml", "setup: a\nsetup: b\n", "a.yaml:2:1: setup is there already");
    refuse("a.yaml", "- setup\n", "a runtime environment is a map of KEY: VALUE");
    refuse("a.yaml", "", "a.yaml: nothing is in it");
    refuse("a.json", "{\"setup\": }", "a.json:1:11: ");
    refuse("a.json", "{\"a\": 1, \"a\": 2}", "a.json:1:");
}

static void what_is_not_supported_is_refused_with_the_word_setup(void **state)
{
    static const char *const names[] = {"py_modules", "container", "java_jars"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char text[64];

        snprintf(text, sizeof(text), "working_dir: .\n%s: [a]\n", names[i]);
        refuse("a.yaml", text, "a.yaml:2:1: ");
        refuse("a.yaml", text, "is not supported: let \"setup\"");
    }
}

static void what_ray_passes_over_is_passed_over(void **state)
{
    json_t *env;

    assert_int_equal(
        crti_runtime_env_parse("a.yaml",
                               "num_cpus: 1 # of the job\nnum_gpus: 0\nresources:\n"
                               "  TPU: 4\nenv_vars:\n  KEY: \"VALUE\"\n",
                               &env),
        CRT_OK);
    crti_runtime_env_pass_over("test", env);
    assert_int_equal(json_object_size(env), 1);
    assert_non_null(json_object_get(env, "env_vars"));
    json_decref(env);
}

static void a_file_that_every_user_can_write_is_refused(void **state)
{
    char path[] = "/tmp/crt-env-XXXXXX";
    int fd = mkstemp(path);
    json_t *env;

    assert_int_equal(write(fd, "setup: make\n", 12), 12);
    close(fd);
    assert_int_equal(crti_runtime_env_read(path, &env), CRT_OK);
    json_decref(env);
    assert_int_equal(chmod(path, 0646), 0);
    assert_int_equal(crti_runtime_env_read(path, &env), CRT_ERR_PERMISSION);
    assert_non_null(strstr(crt_error_detail(), "every user of this host can write it"));
    unlink(path);
    assert_int_equal(crti_runtime_env_read(path, &env), CRT_ERR_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(yaml_is_read_as_json_is),
        cmocka_unit_test(an_error_has_its_line_and_column_and_the_nearest_key),
        cmocka_unit_test(what_is_not_supported_is_refused_with_the_word_setup),
        cmocka_unit_test(what_ray_passes_over_is_passed_over),
        cmocka_unit_test(a_file_that_every_user_can_write_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
