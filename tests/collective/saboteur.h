/* SPDX-License-Identifier: Apache-2.0 */
/* The second member of a group of two in shared memory, with a defect. */
#ifndef CRTI_TESTS_COLLECTIVE_SABOTEUR_H
#define CRTI_TESTS_COLLECTIVE_SABOTEUR_H

#include <crt_collective.h>

extern const crt_actor_class_t saboteur_class;
/* Joins the group of that name. */
extern const crt_method_t saboteur_join;
/* 0, 1, 2: describes an input that lies nowhere. */
extern const crt_method_t saboteur_spoil;
/* Dies with an input that nobody has reached. */
extern const crt_method_t saboteur_die;

#endif
