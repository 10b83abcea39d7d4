/* SPDX-License-Identifier: Apache-2.0 */
#include "ring_bed.h"

#include "collective/group_int.h"
#include "runtime/core/process/context.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

/* Shared by all members. */
struct bed_board {
    pthread_barrier_t barrier;
    char address[BED_SIZE][CRTI_STREAM_ADDRESS];
    int memory_fd[BED_SIZE];
    pid_t pid[BED_SIZE];
    _Atomic uint64_t words[64];
};

void bed_meet(bed_t *bed)
{
    pthread_barrier_wait(&bed->board->barrier);
}

uint64_t bed_word(bed_t *bed, int index)
{
    return bed->board->words[index];
}

void bed_set_word(bed_t *bed, int index, uint64_t value)
{
    bed->board->words[index] = value;
}

crti_stream_place_t bed_place(const bed_t *bed)
{
    return (crti_stream_place_t){
        .key = {{1, 2, 3}}, .encrypt = !bed->plain, .ip = "127.0.0.1"};
}

static uint64_t nonce_of(uint64_t incarnation, int rank)
{
    return incarnation * 1000 + (uint64_t)rank + 7;
}

static crt_group_t *new_group(bed_t *bed, uint64_t incarnation)
{
    crt_group_t *group = calloc(1, sizeof(*group));
    struct crti_group_private *p = calloc(1, sizeof(*p));

    BED_CHECK(group && p);
    group->private = p;
    pthread_mutex_init(&p->lock, NULL);
    snprintf(group->name, sizeof(group->name), "bed");
    group->incarnation = incarnation;
    group->size = bed->size;
    group->rank = bed->rank;
    group->links = bed->links;
    group->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    group->members = calloc((size_t)bed->size, sizeof(crti_member_t));
    BED_CHECK(group->wake_fd >= 0 && group->members);
    BED_CHECK(crti_region_new(bed->size, nonce_of(incarnation, bed->rank), &p->region) ==
              CRT_OK);
    bed->board->memory_fd[bed->rank] = crti_region_fd(p->region);
    bed->board->pid[bed->rank] = getpid();
    bed_meet(bed);
    for (int i = 0; i < bed->size; i++) {
        crti_member_t *m = &group->members[i];
        int node = bed->per_node ? i / bed->per_node : i;

        m->actor = (crti_id_t){1, (uint64_t)i + 1};
        m->node = (crti_id_t){2, (uint64_t)node + 1};
        m->nonce = nonce_of(incarnation, i);
        m->pid = bed->board->pid[i];
        m->memory_fd = bed->board->memory_fd[i];
        snprintf(m->address, sizeof(m->address), "%s", bed->board->address[i]);
    }
    return group;
}

static void free_group(crt_group_t *group)
{
    close(group->wake_fd);
    crti_region_free(group->private->region);
    free(group->private);
    free(group->members);
    free(group);
}

static void open_group(bed_t *bed, uint64_t incarnation)
{
    bed->group = new_group(bed, incarnation);
    bed->sequence = 0;
    if (bed->backend)
        BED_CHECK(crti_group_open_by(bed->group, bed->backend,
                                     crti_now_ns() + 30 * CRTI_S, &bed->state) == CRT_OK);
}

static void close_group(bed_t *bed)
{
    if (bed->backend)
        bed->backend->close(bed->state);
    free_group(bed->group);
}

void bed_rebuild(bed_t *bed, uint64_t incarnation)
{
    close_group(bed);
    open_group(bed, incarnation);
}

static uint64_t deadline_of(const bed_t *bed)
{
    return crti_now_ns() +
           (uint64_t)(bed->timeout_ms ? bed->timeout_ms : 60000) * CRTI_MS;
}

crt_status_t bed_step(bed_t *bed, crti_step_t step)
{
    crt_status_t status;

    if (step.kind == CRT_COLLECTIVE_SEND || step.kind == CRT_COLLECTIVE_RECV) {
        crti_pair_t pair;

        status = bed_post(bed, step, &pair);
        return status == CRT_OK ? bed_await(bed, &pair) : status;
    }
    step.sequence = ++bed->sequence;
    bed->group->running = CRTI_GROUP_OPENING + step.sequence;
    if (step.deadline_ns == 0)
        step.deadline_ns = deadline_of(bed);
    status = bed->backend->run(bed->state, &step);
    if (status == CRT_OK)
        bed->group->done = bed->group->running;
    bed->group->running = 0;
    return status;
}

crt_status_t bed_post(bed_t *bed, crti_step_t step, crti_pair_t *pair)
{
    *pair = (crti_pair_t){.is_send = step.kind == CRT_COLLECTIVE_SEND,
                          .dtype = step.dtype,
                          .count = step.count,
                          .bytes = step.count * crt_dtype_size(step.dtype),
                          .input = step.input,
                          .output = step.output,
                          .peer = step.peer,
                          .rank = step.peer};
    crti_list_init(&pair->link);
    return bed->backend->post(bed->state, pair);
}

crt_status_t bed_await(bed_t *bed, crti_pair_t *pair)
{
    crt_status_t status = CRT_OK;

    if (pair->is_done)
        return CRT_OK;
    bed->group->awaits = &pair;
    bed->group->await_count = 1;
    status = bed->backend->await(bed->state, &pair, 1, deadline_of(bed));
    bed->group->awaits = NULL;
    bed->group->await_count = 0;
    return status;
}

static void live(bed_t *bed, bed_member_t *member)
{
    crti_stream_place_t place = bed_place(bed);

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    BED_CHECK(crti_links_new_at(&place, &bed->links, bed->board->address[bed->rank]) ==
              CRT_OK);
    open_group(bed, 1);
    member(bed);
    close_group(bed);
    crti_links_free(bed->links);
}

void bed_run_as(const bed_t *how, bed_member_t *member, unsigned killed)
{
    pthread_barrierattr_t shared;
    struct bed_board *board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE,
                                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pids[BED_SIZE];
    bool failed = false;

    assert_true(board != MAP_FAILED);
    assert_true(how->size <= BED_SIZE);
    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&board->barrier, &shared, (unsigned)how->size);
    fflush(NULL);
    for (int i = 0; i < how->size; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0) {
            bed_t bed = *how;

            bed.rank = i;
            bed.board = board;
            live(&bed, member);
            exit(0); /* the leak check runs */
        }
    }
    for (int left = how->size; left; left--) {
        int status = -1, i = 0;
        pid_t pid = wait(&status);

        while (i < how->size && pids[i] != pid)
            i++;
        assert_true(i < how->size);
        pids[i] = 0;
        if (killed & (1u << i)) {
            failed |= !WIFSIGNALED(status);
        } else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
            failed = true;
            fprintf(stderr, "rank %d: wait status %x\n", i, (unsigned)status);
            for (int j = 0; j < how->size; j++) /* the others may wait for it */
                if (pids[j])
                    kill(pids[j], SIGKILL);
        }
    }
    munmap(board, sizeof(*board));
    assert_false(failed);
}

void bed_run(int size, const crti_backend_t *backend, bed_member_t *member)
{
    bed_run_as(&(bed_t){.size = size, .backend = backend}, member, 0);
}
