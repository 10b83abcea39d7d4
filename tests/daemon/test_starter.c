/* SPDX-License-Identifier: Apache-2.0 */
/* Daemons that serve, that report why they can't, that crash, hang, and are not there: shells play
 * them. */
#include "runtime/daemon/starter.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/daemon/ready.h"

#include <cmocka.h>

#define PATIENT_MS 60000

/* The options that it gets are arguments of the script. */
static void spawn(crti_starter_t *s, const char *script, int lifeline)
{
    crti_starter_init(s, "crt-play", lifeline);
    crti_starter_option(s, "-c", script);
    crti_starter_flag(s, "crt-play");
    crti_starter_option(s, "--nothing", NULL);
    assert_int_equal(crti_starter_spawn(s, "/bin/sh"), CRT_OK);
}

static int end(crti_starter_t *s)
{
    int how;

    kill(s->pid, SIGKILL);
    how = crti_starter_await_end(s->pid, s->pidfd, UINT64_MAX);
    crti_starter_close(s);
    crti_starter_release(s);
    assert_int_equal(s->pidfd, -1);
    return how;
}

static void what_a_daemon_says_when_it_serves_is_read(void **state)
{
    crti_starter_t s;
    char value[80];

    spawn(&s, "echo ready options $* >&3; exec sleep 1000", -1);
    assert_int_equal(crti_starter_wait(&s, PATIENT_MS, -1), CRT_OK);
    assert_string_equal(s.ready, "ready options --ready-fd 3");
    assert_string_equal(crti_ready_get(s.ready, "options", value, sizeof(value)),
                        "--ready-fd");
    assert_true(WIFSIGNALED(end(&s)));
}

static void a_daemon_with_a_lifeline_ends_with_its_starter(void **state)
{
    crti_starter_t s;
    int ends[2];

    assert_int_equal(crti_starter_pipe(ends), CRT_OK);
    assert_true(ends[0] >= 10 && ends[1] >= 10);
    spawn(&s, "echo ready $* >&3; read line <&4; exit 7", ends[0]);
    assert_int_equal(crti_starter_wait(&s, PATIENT_MS, -1), CRT_OK);
    assert_string_equal(s.ready, "ready --ready-fd 3 --lifeline-fd 4");
    close(ends[0]);
    close(ends[1]);
    assert_int_equal(WEXITSTATUS(crti_starter_await_end(s.pid, s.pidfd, UINT64_MAX)), 7);
    crti_starter_close(&s);
    crti_starter_release(&s);
}

static void why_it_does_not_serve_is_told(void **state)
{
    static const char *const cases[][2] = {
        {"echo error the port is taken >&3", "the port is taken"},
        {"echo one >&2; echo two >&2; exit 1", "crt-play ended before it served: two"},
        {"kill -SEGV $$", "crt-play ended before it served (killed by signal 11: "},
        {"echo nonsense >&3", "crt-play ended before it served"},
    };
    crti_starter_t s;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        spawn(&s, cases[i][0], -1);
        assert_int_equal(crti_starter_wait(&s, PATIENT_MS, -1), CRT_ERR_IO);
        if (!strstr(crt_error_detail(), cases[i][1]))
            fail_msg("\"%s\" has no \"%s\"", crt_error_detail(), cases[i][1]);
        end(&s);
    }
}

static void a_wait_has_an_end(void **state)
{
    crti_starter_t s;
    int ends[2];

    spawn(&s, "exec sleep 1000", -1);
    assert_int_equal(crti_starter_wait(&s, 1, -1), CRT_ERR_TIMED_OUT);
    assert_int_equal(pipe(ends), 0);
    close(ends[1]); /* the other one can be read */
    assert_int_equal(crti_starter_wait(&s, PATIENT_MS, ends[0]), CRT_ERR_INTERRUPTED);
    close(ends[0]);
    /* It is killed when its time is over. */
    assert_int_equal(WTERMSIG(crti_starter_await_end(s.pid, s.pidfd, crti_now_ns())),
                     SIGKILL);
    crti_starter_close(&s);
    crti_starter_release(&s);
}

static void a_program_that_is_not_there_is_named(void **state)
{
    crti_starter_t s;

    crti_starter_init(&s, "crt-play", -1);
    assert_int_equal(crti_starter_spawn(&s, "/nonexistent/crt-play"), CRT_ERR_IO);
    assert_non_null(strstr(crt_error_detail(), "/nonexistent/crt-play"));
    assert_int_equal(s.pid, 0);
    assert_int_equal(s.ready_fd, -1);
    assert_int_equal(s.errors_fd, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_daemon_says_when_it_serves_is_read),
        cmocka_unit_test(a_daemon_with_a_lifeline_ends_with_its_starter),
        cmocka_unit_test(why_it_does_not_serve_is_told),
        cmocka_unit_test(a_wait_has_an_end),
        cmocka_unit_test(a_program_that_is_not_there_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
