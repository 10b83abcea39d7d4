/* SPDX-License-Identifier: Apache-2.0 */
/* A program that opens the library at run time and closes it again, while threads live that have
 * used it: what the library does at their end is still there. Usage: test_unloaded LIBRARY */
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const char *path;
static void *library;
static pthread_barrier_t barrier;

/* An error's text is freed when its thread ends. */
static void *use(void *unused)
{
    int (*kv_delete)(const char *key);
    const char *(*error_detail)(void);

    *(void **)&kv_delete = dlsym(library, "crt_kv_delete");
    *(void **)&error_detail = dlsym(library, "crt_error_detail");
    assert_non_null(kv_delete);
    assert_non_null(error_detail);
    assert_true(kv_delete("key") < 0);
    assert_non_null(strstr(error_detail(), "crt_init was not called"));
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    return NULL;
}

static void a_thread_that_used_the_library_ends_after_it_was_closed(void **state)
{
    pthread_t thread;

    library = dlopen(path, RTLD_NOW);
    assert_non_null(library);
    pthread_barrier_init(&barrier, NULL, 2);
    assert_int_equal(pthread_create(&thread, NULL, use, NULL), 0);
    pthread_barrier_wait(&barrier);
    assert_int_equal(dlclose(library), 0);
    pthread_barrier_wait(&barrier);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_barrier_destroy(&barrier);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_that_used_the_library_ends_after_it_was_closed),
    };

    if (argc != 2)
        return 2;
    path = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
