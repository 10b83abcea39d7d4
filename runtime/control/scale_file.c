/* SPDX-License-Identifier: Apache-2.0 */
/* Rules of the autoscaler from JSON. See scale_file.h. */
#include "runtime/control/scale_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/buffer.h"
#include "runtime/base/cleanup.h"

#define FILE_MAX (1 << 20)

crt_status_t crti_scale_file_read(int fd, json_t **file_out)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t text = {0};
    json_error_t error;
    ssize_t n = 1;

    while (n > 0 && text.size < FILE_MAX) {
        if (crti_buffer_reserve(&text, 4096) != CRT_OK)
            return crt_raise(CRT_ERR_NO_MEMORY, "rules of the autoscaler");
        n = pread(fd, text.data + text.size, 4096, (off_t)text.size);
        text.size += n > 0 ? (size_t)n : 0;
    }
    if (n < 0)
        return crt_raise(CRT_ERR_IO, "rules of the autoscaler: %s", strerror(errno));
    *file_out = json_loadb((const char *)text.data, text.size, 0, &error);
    if (!*file_out)
        return crt_raise(CRT_ERR_INVALID, "rules of the autoscaler: %s", error.text);
    return CRT_OK;
}

static crt_status_t read_type(const json_t *given, crti_node_type_t *type)
{
    const json_t *resources = json_object_get(given, "resources");
    const char *name = json_string_value(json_object_get(given, "name"));
    const char *labels = json_string_value(json_object_get(given, "labels"));
    crt_status_t status;
    const char *key;
    json_t *amount;

    *type = (crti_node_type_t){
        .min = (size_t)json_integer_value(json_object_get(given, "min")),
        .max = (size_t)json_integer_value(json_object_get(given, "max"))};
    if (!name || !*name || strlen(name) >= sizeof(type->name) ||
        (labels && strlen(labels) >= sizeof(type->labels)) || type->max < type->min)
        return crt_raise(CRT_ERR_INVALID, "rules of the autoscaler: a wrong node type");
    snprintf(type->name, sizeof(type->name), "%s", name);
    snprintf(type->labels, sizeof(type->labels), "%s", labels ? labels : "");
    json_object_foreach((json_t *)resources, key, amount)
    {
        int64_t units;

        if (!crti_resources_amount(json_number_value(amount), &units))
            return crt_raise(CRT_ERR_INVALID, "node type %s: a wrong amount of %s", name,
                             key);
        status = crti_resources_set(&type->resources, key, units);
        if (status != CRT_OK)
            return status;
    }
    return CRT_OK;
}

static uint64_t time_of(const json_t *file, const char *key)
{
    return (uint64_t)(json_number_value(json_object_get(file, key)) * (double)CRTI_S);
}

crt_status_t crti_scale_file_rules(const json_t *file, crti_node_type_t *types,
                                   crti_scale_config_t *config_out)
{
    const json_t *given = json_object_get(file, "node_types");
    crt_status_t status = CRT_OK;

    *config_out = (crti_scale_config_t){
        .types = types,
        .type_count = json_array_size(given),
        .idle_ns = time_of(file, "idle_timeout"),
        .start_ns = time_of(file, "start_timeout"),
        .up = json_number_value(json_object_get(file, "upscaling_speed")),
        .down = json_number_value(json_object_get(file, "downscaling_speed"))};
    if (config_out->type_count == 0 || config_out->type_count > CRTI_NODE_TYPES_MAX ||
        config_out->idle_ns == 0 || config_out->start_ns == 0)
        return crt_raise(CRT_ERR_INVALID,
                         "rules of the autoscaler: not those of crt start");
    for (size_t i = 0; status == CRT_OK && i < config_out->type_count; i++)
        status = read_type(json_array_get(given, i), &types[i]);
    return status;
}
