/* SPDX-License-Identifier: Apache-2.0 */
/* Spec: a model's description on its way to an actor, as arguments and back. */
#ifndef CRTI_ACTORS_SPEC_H
#define CRTI_ACTORS_SPEC_H

#include <crt_define.h>

#include <crt_actors.h>

/* A method of the public interface: its descriptor `function`_method, and the function that
 * returns it. */
#define CRTI_SPEC_METHOD(function, ...)                                                  \
    static const crt_method_t function##_method = CRT_METHOD(__VA_ARGS__);               \
    const crt_method_t *function(void)                                                   \
    {                                                                                    \
        return &function##_method;                                                       \
    }

/* A class that each program with this library has: its descriptor `prefix`_descriptor, and the
 * function `prefix`_class. */
#define CRTI_SPEC_CLASS(prefix, ...)                                                     \
    static const crt_actor_class_t prefix##_descriptor = CRT_ACTOR_CLASS(__VA_ARGS__);   \
    const crt_actor_class_t *prefix##_class(void)                                        \
    {                                                                                    \
        return &prefix##_descriptor;                                                     \
    }                                                                                    \
    __attribute__((constructor)) static void prefix##_define(void)                       \
    {                                                                                    \
        static crt_definition_t definition = {.struct_size = sizeof(definition),         \
                                              .actor_class = &prefix##_descriptor};      \
                                                                                         \
        crt_define(&definition);                                                         \
    }

/* An actor of `actor_class` whose `create` fails with `status` and the error text of this
 * thread: the program gave arguments that this version does not know. crti_spec_model, with
 * which each `create` begins, fails with them. */
crt_actor_t *crti_spec_refuse(const crt_actor_class_t *actor_class,
                              const crt_actor_options_t *options, crt_status_t status);

#define CRTI_SPEC_WIDTHS_MAX 64

/* What the program describes, as this version knows it, and with defaults for what is 0. */
crt_status_t crti_spec_copy(crt_model_spec_t *mine, const crt_model_spec_t *given);
crt_status_t crti_spec_data(crt_data_spec_t *mine, const crt_data_spec_t *given);

/* A spec's widths as arguments, after the name of its network if it has one; `room` holds what
 * the result points at. A list that is too long travels with its first CRTI_SPEC_WIDTHS_MAX + 1
 * widths and is refused where it is read. */
#define CRTI_SPEC_ITEMS_MAX (CRTI_SPEC_WIDTHS_MAX + 2)
crt_arg_t crti_spec_widths(const crt_model_spec_t *spec,
                           crt_arg_t room[CRTI_SPEC_ITEMS_MAX]);

/* A model of such a list; the list is checked. */
crt_status_t crti_spec_model(const crt_value_t *widths, double dropout, uint64_t seed,
                             crt_model_t **model_out);

/* The weights of `model` in a tensor that a server made: `*view_out` are the weights; statistics
 * that stand behind them become the model's. */
crt_status_t crti_spec_weights(crt_model_t *model, const crt_tensor_t *weights,
                               crt_tensor_t *view_out);

/* An object for a server's answer: the statistics of `model` stand in it already; `*view_out` is
 * the room before them, for the weights. */
crt_status_t crti_spec_answer(crt_model_t *model, crt_object_t **object_out,
                              crt_tensor_t *view_out);

/* Entry `key` of a map into `to` (as crt_value_read takes it); one that is missing stays. */
#define CRTI_SPEC_READ(map, key, to)                                                     \
    (crt_value_find(map, key) ? crt_value_read(crt_value_find(map, key), to) : CRT_OK)

/* An optimizer (NULL: crt_adam_options(0.001)) as entries of a map, keys and values in turn:
 * "optimizer" ("adam", "sgd", "adamw" or "radam"), and its options by their names. And back:
 * what is missing is as crt_adam_options(0.001) and the like have it. */
#define CRTI_SPEC_OPTIMIZER_ITEMS 30
crt_status_t crti_spec_optimizer_items(const crt_optimizer_options_t *options,
                                       crt_arg_t items[CRTI_SPEC_OPTIMIZER_ITEMS]);
crt_status_t crti_spec_optimizer(const crt_value_t *map,
                                 crt_optimizer_options_t *options_out);

/* Room in the store for a flat gradient of `model`. */
crt_status_t crti_spec_object(const crt_model_t *model, crt_object_t **object_out,
                              crt_tensor_t *view_out);

#endif
