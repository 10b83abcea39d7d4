/* SPDX-License-Identifier: Apache-2.0 */
/* What a text of JSON would become, by its characters alone: how deep, how many values. So a
 * stranger's text is judged before memory is taken for it, and what one parser takes all others
 * take.
 *
 * It is no parser: a text that is no JSON has a shape, too.
 */
#ifndef CRTI_BASE_JSON_SHAPE_H
#define CRTI_BASE_JSON_SHAPE_H

#include "runtime/base/buffer.h"

#define CRTI_JSON_DEPTH_MAX                                                              \
    32 /* of what users give: any parser takes what it becomes a part of */

typedef struct crti_json_shape {
    size_t depth;  /* of the deepest bracket; 0: there is none */
    size_t values; /* at most: texts, numbers, words and brackets, keys of objects, too */
    size_t brackets;
    bool has_zero; /* a text with the character U+0000, which ends texts of C */
} crti_json_shape_t;

crti_json_shape_t crti_json_shape(crti_span_t json);

#endif
