/* SPDX-License-Identifier: Apache-2.0 */
/* Spec: a model's description on its way to an actor, as arguments and back. */
#ifndef CRTI_ACTORS_SPEC_H
#define CRTI_ACTORS_SPEC_H

#include "crt_actors.h"

#define CRTI_SPEC_WIDTHS_MAX 64

/* Widths as arguments; `room` holds what the result points at. A list that is too long
 * travels with its first CRTI_SPEC_WIDTHS_MAX + 1 entries and is refused where it is
 * read. */
crt_arg_t crti_spec_widths(const int *widths, crt_arg_t room[CRTI_SPEC_WIDTHS_MAX + 1]);

/* A model of a list of widths; the list is checked. */
crt_status_t crti_spec_model(const crt_value_t *widths, double dropout, uint64_t seed,
                             crt_model_t **model_out);

/* Entry `key` of a map into `to` (as crt_value_read takes it); one that is missing stays. */
#define CRTI_SPEC_READ(map, key, to)                                                     \
    (crt_value_find(map, key) ? crt_value_read(crt_value_find(map, key), to) : CRT_OK)

/* An optimizer as entries of a map, keys and values in turn: "optimizer" ("adam", "sgd", "adamw" or "radam"), and its
 * options by their names. And back: what is missing is as crt_adam_options(0.001) and the like have it. */
#define CRTI_SPEC_OPTIMIZER_ITEMS 30
void crti_spec_optimizer_items(const crt_optimizer_options_t *options,
                               crt_arg_t items[CRTI_SPEC_OPTIMIZER_ITEMS]);
crt_status_t crti_spec_optimizer(const crt_value_t *map,
                                 crt_optimizer_options_t *options_out);

/* Room in the store for the flat weights or gradients of `model`. */
crt_status_t crti_spec_object(const crt_model_t *model, crt_object_t **object_out,
                              crt_tensor_t *view_out);

#endif
