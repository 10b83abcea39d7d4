/* SPDX-License-Identifier: Apache-2.0 */
/* What the files that read a configuration share.
 *
 *     setup.c  training, corpora -> setup_model.c  the model
 *                                -> setup_rules.c  what else spaCy knows: refused, or without
 *                                effect
 */
#ifndef TRAIN_NER_SETUP_H
#define TRAIN_NER_SETUP_H

#include <stdio.h>

#include "train_ner.h"

#define PATH_ROOM 256

/* The path of a key in a section; valid until the next call. Not to be a section itself: see
 * make_below. */
const char *key(const char *section, const char *name);

/* Has the factory that the section `name` in `section` names make something. */
crt_status_t make_below(crt_configuration_t *c, const char *section, const char *name,
                        const char *registry, const crt_factory_t *factories, void *made);

/* A key of a section. */
crt_status_t read_int(crt_configuration_t *c, const char *section, const char *name,
                      int low, int high, int *value);
crt_status_t read_bool(crt_configuration_t *c, const char *section, const char *name,
                       bool *value);
crt_status_t read_float(crt_configuration_t *c, const char *section, const char *name,
                        double low, double high, double *value);

/* Makes `s->model`, and finds what the model listens to. */
crt_status_t read_model(crt_configuration_t *c, setup_t *s);

/* setup_rules.c. The first is called when the model was read, the second when all was. */
crt_status_t refuse_settings(crt_configuration_t *c, const setup_t *s);
crt_status_t pass_over(crt_configuration_t *c, const setup_t *s);

/* What configurations may name, as rows of a table. */
void print_factories(FILE *out, const crt_factory_t *factories);
void print_model_factories(FILE *out);
void print_training_factories(FILE *out);

#endif
