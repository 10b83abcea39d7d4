/* SPDX-License-Identifier: Apache-2.0 */
/* Fit: one call that trains. See crt_fit.h for what it does.
 *
 *     fit.c         the call: options, phases, what is told
 *     fit_check.c   what is wrong, before anything is started
 *     fit_data.c    the data: split, and put into the store
 *     fit_group.c   members that sum their gradients among themselves (trainer.h)
 *     fit_server.c  members that give their gradients to a parameter server
 *     fit_print.c   reports as text
 */
#ifndef CRTI_ACTORS_FIT_H
#define CRTI_ACTORS_FIT_H

#include <crt_fit.h>

#define CRTI_FIT_MEMBERS_MAX 1024

/* A data set in the store. No refs: there is none. */
typedef struct crti_fit_data {
    crt_ref_t *features, *labels;
    size_t count;
    int classes;
} crti_fit_data_t;

/* Sums over samples, or, of a training, over batches. */
typedef struct crti_fit_sums {
    double loss;
    uint64_t right, count, samples;
} crti_fit_sums_t;

typedef struct crti_fit crti_fit_t;

/* What a strategy does. Deaths of members are its matter: a call fails only for other reasons, or
 * when members die again and again before a step is made. A training whose members all died begins
 * again at the last checkpoint, or at the beginning: `step` and `batches` then are lower. */
typedef struct crti_fit_strategy {
    /* Starts the members. They go on from `checkpoint`; NULL: begin. */
    crt_status_t (*begin)(crti_fit_t *fit, const char *checkpoint);
    /* Makes steps until there are `steps`; fewer when all members died. `compares`: it is the end
     * of a phase, and all weights must be the same. Adds to `sums`. */
    crt_status_t (*train)(crti_fit_t *fit, uint64_t steps, bool compares,
                          crti_fit_sums_t *sums);
    /* After a train that compared. */
    crt_status_t (*evaluate)(crti_fit_t *fit, const crti_fit_data_t *data,
                             crti_fit_sums_t *sums);
    /* After a train that compared. `*is_saved_out` is false when members died meanwhile: then train
     * to the same step, and once more. */
    crt_status_t (*save)(crti_fit_t *fit, bool is_last, bool *is_saved_out);
    /* Weights, and statistics behind them. Caller drops the ref. */
    crt_status_t (*fetch)(crti_fit_t *fit, crt_ref_t **weights_out);
    void (*end)(crti_fit_t *fit);
} crti_fit_strategy_t;

extern const crti_fit_strategy_t crti_fit_group, crti_fit_server;

struct crti_fit {
    crt_fit_options_t o; /* with defaults for what is 0 */
    crt_model_spec_t spec;
    crt_optimizer_options_t optimizer;
    const char *name, *format, *precision; /* "": none */
    bool by_host; /* GPUs compute passes alone; sums and updates are the host's */
    char folder[4096];
    crti_fit_data_t train, validation, test;
    const crti_fit_strategy_t *strategy;
    void *state;                   /* the strategy's */
    size_t parameters;             /* of the model */
    int devices;                   /* members that train now */
    uint64_t step, batches;        /* that were made and taken */
    uint64_t per_pass;             /* batches of a pass over the data */
    uint64_t furthest;             /* step that was ever made */
    int deaths, joined, fruitless; /* fruitless: deaths since `furthest` grew */
    double began, trained;         /* when, and seconds of training without validations */
    uint64_t samples;
    crt_fit_result_t result;
};

/* Makes `fit` of what the program gave. */
crt_status_t crti_fit_check(crti_fit_t *fit, const crt_fit_options_t *options);

/* Whether the training can go on from the checkpoint at `path`. */
crt_status_t crti_fit_check_checkpoint(const crti_fit_t *fit, const char *path);

/* Puts the data into the store. */
crt_status_t crti_fit_open_data(crti_fit_t *fit);
void crti_fit_close_data(crti_fit_t *fit);

/* Tells the program an event. */
void crti_fit_tell(crti_fit_t *fit, const char *format, ...) CRT_PRINTF(2, 3);

/* A member died, which `error` says. CRT_ERR_ACTOR_DIED when it is in vain to go on. */
crt_status_t crti_fit_count_death(crti_fit_t *fit, const char *who,
                                  const crt_error_t *error);

/* Options of the actor of a member. */
crt_actor_options_t crti_fit_actor(const crti_fit_t *fit);

/* A process or node was lost, and with it what the call was to bring. */
bool crti_fit_is_death(const crt_error_t *error);

/* Waits until a call has ended, in whatever way. Fails when the wait was ended before. */
crt_status_t crti_fit_wait(crt_ref_t *ref);

/* The same of a call of member `number`, which the runtime starts again when it died: fails, too,
 * when there has been no room for it for the limit. */
crt_status_t crti_fit_wait_for(const crti_fit_t *fit, crt_actor_t *member, int number,
                               crt_ref_t *ref);

/* CRT_ERR_TIMED_OUT: what was not there in time, and what it waits for. */
crt_status_t crti_fit_not_there(const crti_fit_t *fit, const char *format, ...)
    CRT_PRINTF(2, 3);

/* Adds an answer of crti_evaluate. */
crt_status_t crti_fit_add_score(crt_ref_t *ref, crti_fit_sums_t *sums);

#endif
