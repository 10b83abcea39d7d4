/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks and actors with an environment of their own: env_vars and working_dir. */
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <crt.h>

#include <cmocka.h>

#include "ok.h"

#define PATIENCE_MS    60000
#define VARIABLES(...) ((const char *const[]){__VA_ARGS__, NULL})

/* ---------------------------------------------------------------- in the workers */

static char at_start[64]; /* as a library finds it that reads it when it is loaded */

__attribute__((constructor)) static void read_at_start(void)
{
    const char *mode = getenv("MODE");

    snprintf(at_start, sizeof(at_start), "%s", mode ? mode : "none");
}

/* "MODE, that of the start, OF_JOB, SECOND, folder". */
static void describe(char *text, size_t size)
{
    static const char *const names[] = {"MODE", "OF_JOB", "SECOND"};
    char folder[PATH_MAX];
    size_t used = (size_t)snprintf(text, size, "%s", at_start);

    for (size_t i = 0; i < 3; i++) {
        const char *value = getenv(names[i]);

        used += (size_t)snprintf(text + used, size - used, " %s", value ? value : "none");
    }
    snprintf(text + used, size - used, " %s", getcwd(folder, sizeof(folder)));
}

static crt_status_t say_run(crt_call_t *call)
{
    char text[PATH_MAX + 200];

    describe(text, sizeof(text));
    return crt_return(call, text);
}
static const crt_task_t say = CRT_TASK(.name = "say", .run = say_run);
static const crt_task_t say_default =
    CRT_TASK(.name = "say_default", .run = say_run,
             .defaults = CRT_TASK_DEFAULTS(.working_dir = "/usr"));

static crt_status_t pid_run(crt_call_t *call)
{
    return crt_return(call, (int64_t)getpid());
}
static const crt_task_t pid = CRT_TASK(.name = "pid", .run = pid_run);

/* Makes one file and waits for another one: runs to its end only beside the task of that one. */
static crt_status_t meet_run(crt_call_t *call)
{
    const char *mine, *other;
    int fd;

    CRT_TRY(crt_args(call, &mine, &other));
    fd = open(mine, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return crt_fail(call, CRT_ERR_IO, "%s", mine);
    close(fd);
    for (int i = 0; i < PATIENCE_MS && access(other, F_OK) != 0; i++)
        usleep(1000);
    return access(other, F_OK) == 0 ? crt_return(call, getenv("MODE"))
                                    : crt_fail(call, CRT_ERR_TIMED_OUT, "%s", other);
}
static const crt_task_t meet =
    CRT_TASK(.name = "meet", .run = meet_run, .signature = "string, string");

/* What a task says that this one submits with SECOND, or with nothing of its own. */
static crt_status_t ask_run(crt_call_t *call)
{
    const char *text;
    crt_ref_t *ref;
    crt_status_t status;
    bool has_second;

    CRT_TRY(crt_args(call, &has_second));
    ref = has_second
              ? crt_submit(&say, CRT_TASK_OPTIONS(.env_vars = VARIABLES("SECOND=2")))
              : crt_submit(&say, NULL);
    status = crt_get(ref, &text);
    if (status == CRT_OK)
        status = crt_return(call, text);
    crt_ref_drop(&ref);
    return status;
}
static const crt_task_t ask =
    CRT_TASK(.name = "ask", .run = ask_run, .signature = "bool");

static crt_status_t speak_run(void *self, crt_call_t *call)
{
    return say_run(call);
}
static crt_status_t die_run(void *self, crt_call_t *call)
{
    raise(SIGKILL);
    return CRT_OK;
}
static const crt_method_t speak = CRT_METHOD(.name = "speak", .run = speak_run);
static const crt_method_t die = CRT_METHOD(.name = "die", .run = die_run);
static const crt_actor_class_t speaker =
    CRT_ACTOR_CLASS(.name = "Speaker", .methods = CRT_METHODS(&speak, &die));

/* ---------------------------------------------------------------- in the tests */

static char folder[] = "/tmp/crt-environments-XXXXXX", here[PATH_MAX];

static int make_folder(void **state)
{
    return mkdtemp(folder) && getcwd(here, sizeof(here)) ? 0 : -1;
}

static int remove_folder(void **state)
{
    char path[PATH_MAX];

    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof(path), "%s/%c", folder, 'a' + i);
        unlink(path);
    }
    return rmdir(folder);
}

/* `format` has the folder. */
static void assert_says(crt_ref_t *ref, const char *expected, const char *where)
{
    char whole[PATH_MAX + 100];
    const char *text;

    snprintf(whole, sizeof(whole), "%s %s", expected, where);
    OK(crt_get_for(ref, PATIENCE_MS, &text));
    assert_string_equal(text, whole);
    crt_ref_drop(&ref);
}

static void assert_fails(crt_ref_t *ref, crt_status_t status, const char *text)
{
    const crt_error_t *error;
    size_t count;

    assert_int_equal(crt_wait(&ref, 1, 1, PATIENCE_MS, NULL, &count), CRT_OK);
    error = crt_ref_error(ref);
    assert_non_null(error);
    assert_int_equal(error->status, status);
    if (!strstr(error->text, text))
        fail_msg("\"%s\" is not in: %s", text, error->text);
    crt_ref_drop(&ref);
}

static void tasks_with_other_variables_run_beside_each_other(void **state)
{
    char a[PATH_MAX], b[PATH_MAX];
    crt_ref_t *refs[2];
    const char *text;

    snprintf(a, sizeof(a), "%s/a", folder);
    snprintf(b, sizeof(b), "%s/b", folder);
    refs[0] = crt_submit(&meet, CRT_TASK_OPTIONS(.env_vars = VARIABLES("MODE=a")), a, b);
    refs[1] = crt_submit(&meet, CRT_TASK_OPTIONS(.env_vars = VARIABLES("MODE=b")), b, a);
    OK(crt_get_for(refs[0], PATIENCE_MS, &text));
    assert_string_equal(text, "a");
    OK(crt_get_for(refs[1], PATIENCE_MS, &text));
    assert_string_equal(text, "b");
    crt_refs_drop(refs, 2);
    assert_says(crt_submit(&say, NULL), "none none job none", here);
}

static void variables_are_there_at_the_start_and_replace_those_of_the_job(void **state)
{
    assert_says(crt_submit(&say, CRT_TASK_OPTIONS(.env_vars = VARIABLES("MODE=x y=z",
                                                                        "SECOND="))),
                "x y=z x y=z job ", here);
    assert_says(crt_submit(&say, CRT_TASK_OPTIONS(.env_vars = VARIABLES("OF_JOB=task"))),
                "none none task none", here);
}

static int64_t pid_of(const crt_task_options_t *options)
{
    crt_ref_t *ref = crt_submit(&pid, options);
    int64_t value;

    OK(crt_get_for(ref, PATIENCE_MS, &value));
    crt_ref_drop(&ref);
    return value;
}

static void tasks_with_the_same_environment_share_a_worker(void **state)
{
    int64_t one =
        pid_of(CRT_TASK_OPTIONS(.env_vars = VARIABLES("MODE=same", "SECOND=1")));

    assert_int_equal(
        one, pid_of(CRT_TASK_OPTIONS(.env_vars = VARIABLES("SECOND=1", "MODE=same"))));
    assert_int_not_equal(one,
                         pid_of(CRT_TASK_OPTIONS(.env_vars = VARIABLES("MODE=same"))));
    assert_int_not_equal(one, pid_of(NULL));
}

static void a_task_runs_in_its_folder_or_says_why_not(void **state)
{
    assert_says(crt_submit(&say, CRT_TASK_OPTIONS(.working_dir = folder)),
                "none none job none", folder);
    assert_says(crt_submit(&say_default, NULL), "none none job none", "/usr");
    assert_says(crt_submit(&say_default, CRT_TASK_OPTIONS(.working_dir = "/")),
                "none none job none", "/");
    assert_fails(crt_submit(&say, CRT_TASK_OPTIONS(.working_dir = "/nowhere/at/all")),
                 CRT_ERR_WORKER_DIED,
                 "the working_dir /nowhere/at/all can't be entered: No such file");
}

static void what_a_task_submits_has_its_environment_and_what_is_added(void **state)
{
    crt_task_options_t options =
        *CRT_TASK_OPTIONS(.env_vars = VARIABLES("MODE=outer"), .working_dir = folder);

    assert_says(crt_submit(&ask, &options, false), "outer outer job none", folder);
    assert_says(crt_submit(&ask, &options, true), "outer outer job 2", folder);
    assert_says(crt_submit(&ask, NULL, true), "none none job 2", here);
}

static void an_actor_has_its_environment_again_after_a_restart(void **state)
{
    crt_actor_t *actor = crt_actor_new(
        &speaker, CRT_ACTOR_OPTIONS(.env_vars = VARIABLES("MODE=actor"),
                                    .working_dir = folder, .max_restarts = 2));

    assert_says(crt_call(actor, &speak), "actor actor job none", folder);
    assert_fails(crt_call(actor, &die), CRT_ERR_ACTOR_DIED, "signal 9");
    assert_says(crt_call(actor, &speak), "actor actor job none", folder);
    crt_actor_drop(&actor);
}

static void wrong_values_are_refused_with_a_sentence(void **state)
{
    static const struct {
        const char *variable;
        crt_status_t status;
        const char *text;
    } wrong[] = {
        {"MODE", CRT_ERR_INVALID, "env_vars has \"MODE\": write NAME=VALUE"},
        {"=x", CRT_ERR_INVALID, "write NAME=VALUE"},
        {"MY MODE=x", CRT_ERR_INVALID, "a name has letters, digits and _"},
        {"1MODE=x", CRT_ERR_INVALID, "begins with no digit"},
        {"CRT_ADDRESS=x", CRT_ERR_UNSUPPORTED, "variables of crt are those of the job"},
    };
    char *large = malloc(70000);
    crt_actor_t *actor;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_fails(
            crt_submit(&say, CRT_TASK_OPTIONS(.env_vars = VARIABLES(wrong[i].variable))),
            wrong[i].status, wrong[i].text);
    assert_fails(crt_submit(&say, CRT_TASK_OPTIONS(.env_vars = VARIABLES("A=1", "A=2"))),
                 CRT_ERR_INVALID, "env_vars has A twice");
    memset(large, 'x', 69999);
    large[69999] = '\0';
    large[1] = '=';
    assert_fails(crt_submit(&say, CRT_TASK_OPTIONS(.env_vars = VARIABLES(large))),
                 CRT_ERR_TOO_LARGE, "env_vars of more than 65536 bytes");
    free(large);
    assert_fails(crt_submit(&say, CRT_TASK_OPTIONS(.working_dir = "here")),
                 CRT_ERR_INVALID, "give a path from /");
    assert_fails(crt_submit(&say, CRT_TASK_OPTIONS(.working_dir = "https://h/x.zip")),
                 CRT_ERR_UNSUPPORTED, "bring it to the nodes by setup");
    actor = crt_actor_new(&speaker, CRT_ACTOR_OPTIONS(.working_dir = "gcs://x.zip"));
    assert_fails(crt_call(actor, &speak), CRT_ERR_UNSUPPORTED, "by setup");
    crt_actor_drop(&actor);
}

static int driver(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tasks_with_other_variables_run_beside_each_other),
        cmocka_unit_test(variables_are_there_at_the_start_and_replace_those_of_the_job),
        cmocka_unit_test(tasks_with_the_same_environment_share_a_worker),
        cmocka_unit_test(a_task_runs_in_its_folder_or_says_why_not),
        cmocka_unit_test(what_a_task_submits_has_its_environment_and_what_is_added),
        cmocka_unit_test(an_actor_has_its_environment_again_after_a_restart),
        cmocka_unit_test(wrong_values_are_refused_with_a_sentence),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

int main(int argc, char **argv)
{
    setenv("OF_JOB", "job", 0);
    return crt_main(argc, argv,
                    CRT_OPTIONS(.tasks = CRT_TASKS(&say, &say_default, &pid, &meet, &ask),
                                .classes = CRT_CLASSES(&speaker), .num_cpus = 4,
                                .object_store_memory = 64 << 20),
                    driver);
}
