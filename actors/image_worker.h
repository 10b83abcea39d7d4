/* SPDX-License-Identifier: Apache-2.0 */
/* ImageWorker: what crt_fit uses of it beyond crt_actors.h. */
#ifndef CRTI_ACTORS_IMAGE_WORKER_H
#define CRTI_ACTORS_IMAGE_WORKER_H

#include <crt_actors.h>

/* (weights, features, labels, classes, part, parts) -> list, see crti_evaluate. */
const crt_method_t *crti_image_worker_evaluate(void);

#endif
