/* SPDX-License-Identifier: Apache-2.0 */
/* A task puts numbers into a queue of four places; the driver gets them until the last.
 *
 *     ./queue
 */
#include <stdio.h>

#include <crt_util.h>

static crt_status_t produce_run(crt_call_t *call)
{
    crt_actor_t *queue;
    int count;

    CRT_TRY(crt_args(call, &queue, &count));
    for (int i = 1; i <= count; i++) {
        crt_ref_t *item = crt_put(i);
        crt_status_t status = crt_queue_put(queue, item, -1); /* waits while it is full */

        crt_ref_drop(&item);
        CRT_TRY(status);
    }
    return CRT_OK;
}
static const crt_task_t produce =
    CRT_TASK(.name = "produce", .run = produce_run, .signature = "actor, int");

static int driver(int argc, char **argv)
{
    crt_actor_t *queue = crt_queue_new(NULL, 4);
    crt_ref_t *done = crt_submit(&produce, NULL, queue, 10), *item;
    int number = 0, sum = 0;

    while (number < 10) {
        CRT_CHECK(crt_queue_get(queue, 60000, &item));
        CRT_CHECK(crt_get(item, &number));
        crt_ref_drop(&item);
        sum += number;
    }
    printf("the sum of all items is %d\n", sum);
    printf("one more: %s\n", crt_status_name(crt_queue_get(queue, 10, &item)));
    crt_ref_drop(&done);
    crt_actor_drop(&queue);
    return 0;
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv, CRT_OPTIONS(.tasks = CRT_TASKS(&produce)), driver);
}
