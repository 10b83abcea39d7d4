/* SPDX-License-Identifier: Apache-2.0 */
/* A program that counts and measures, for test_metrics.py: an actor with a counter, a gauge and a
 * histogram, a task that fails, a metric that is refused; then it waits for the end of its
 * input. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <crt.h>

static crt_status_t count_run(void *self, crt_call_t *call)
{
    static const double bounds[] = {0.1, 1, 10};
    crt_counter_t *images;
    crt_gauge_t *loss;
    crt_histogram_t *seconds;
    double amount;

    CRT_TRY(crt_args(call, &amount));
    CRT_TRY(
        crt_counter("images_total", "Images that were read.", "set=\"train\\", &images));
    CRT_TRY(crt_gauge("loss", "The loss.", NULL, &loss));
    CRT_TRY(
        crt_histogram("step_seconds", "Duration of a step.", NULL, bounds, 3, &seconds));
    crt_counter_add(images, amount);
    crt_counter_add(images, -5);
    crt_gauge_set(loss, 1 / amount);
    crt_histogram_observe(seconds, amount);
    return CRT_OK;
}
static const crt_method_t model_count =
    CRT_METHOD(.name = "count", .run = count_run, .signature = "float");
static const crt_actor_class_t model =
    CRT_ACTOR_CLASS(.name = "Model", .size = 8, .methods = CRT_METHODS(&model_count));

static crt_status_t fail_run(crt_call_t *call)
{
    return crt_fail(call, CRT_ERR_USER, "as it should");
}
static const crt_task_t failing =
    CRT_TASK(.name = "failing", .run = fail_run, .signature = "");

static void check(bool is_right, const char *what)
{
    if (!is_right) {
        fprintf(stderr, "%s: %s\n", what, crt_error_detail());
        exit(1);
    }
}

static void end_actor(crt_actor_t **actor)
{
    check(crt_actor_kill(*actor, NULL) == CRT_OK, "kill");
    crt_actor_drop(actor);
}

static int driver(int argc, char **argv)
{
    crt_actor_t *first = crt_actor_new(&model, NULL),
                *second = crt_actor_new(&model, NULL);
    crt_counter_t *mine, *other = NULL;
    crt_gauge_t *wrong;
    crt_ref_t *refs[] = {crt_call(first, &model_count, 0.5),
                         crt_call(first, &model_count, 20.0),
                         crt_call(second, &model_count, 4.0), crt_submit(&failing, NULL)};

    for (int i = 0; i < 3; i++)
        check(crt_get(refs[i], NULL) == CRT_OK, "count");
    check(crt_get(refs[3], NULL) == CRT_ERR_USER, "failing");
    crt_refs_drop(refs, 4);
    check(crt_counter("rounds", "Rounds.", NULL, &mine) == CRT_OK, "counter");
    check(crt_counter("crt_rounds", "Rounds.", NULL, &other) == CRT_ERR_INVALID,
          "own name");
    check(crt_gauge("rounds", "Rounds.", NULL, &wrong) == CRT_ERR_INVALID, "other kind");
    check(crt_gauge("rounds_total", "Rounds.", NULL, &wrong) == CRT_ERR_INVALID,
          "a name that is shown for another one");
    check(crt_counter("twice", "One label twice.", "a=1,a=2", &other) == CRT_ERR_INVALID,
          "a label twice");
    check(crt_counter("town", "By town.", "town=K\xc3\xb6ln", &other) == CRT_OK, "UTF-8");
    crt_counter_add(other, 1);
    check(crt_counter("town", "By town.", "town=K\xc3\xa4ln", &other) == CRT_OK, "UTF-8");
    crt_counter_add(other, 10);
    check(crt_gauge("low", "Below all.", NULL, &wrong) == CRT_OK, "gauge");
    crt_gauge_set(wrong, -INFINITY);
    other = NULL;
    crt_counter_add(mine, 7);
    crt_counter_add(other, 1);
    puts("counted");
    fflush(stdout);
    getchar();
    end_actor(&second); /* what it counted stays */
    puts("ended");
    fflush(stdout);
    getchar();
    crt_actor_drop(&first);
    return 0;
}

int main(int argc, char **argv)
{
    crt_counter_t *early;

    if (crt_counter("early", "Too early.", NULL, &early) != CRT_ERR_NOT_INITIALIZED)
        return 1;
    return crt_main(
        argc, argv,
        CRT_OPTIONS(.classes = CRT_CLASSES(&model), .tasks = CRT_TASKS(&failing)),
        driver);
}
