/* SPDX-License-Identifier: Apache-2.0 */
/* Every kind of message with a body that makes sense. Who includes it has defined set_TYPE(TYPE *)
 * before, for each type of a field (runtime/net/protocol.h). */
#ifndef CRTI_TESTS_FUZZ_MESSAGE_KINDS_H
#define CRTI_TESTS_FUZZ_MESSAGE_KINDS_H

static void set_RES(crti_resources_t *resources)
{
    crti_resources_set(resources, "CPU", CRTI_RESOURCE_ONE);
}
static void set_ROOM(crti_resources_t *resources)
{
    set_RES(resources);
}

#define SET(type, field) set_##type(&m->field);
#define FILL(NAME, name, number)                                                         \
    static void fill_##name(void *body)                                                  \
    {                                                                                    \
        crti_msg_##name##_t *m = body;                                                   \
                                                                                         \
        m->unused = 0;                                                                   \
        CRTI_FIELDS_##NAME(SET)                                                          \
    }
CRTI_MESSAGE_MAP(FILL)

static const struct {
    crti_message_kind_t kind;
    void (*fill)(void *body);
} kinds[] = {
#define ENTRY(NAME, name, number) {CRTI_MSG_##NAME, fill_##name},
    CRTI_MESSAGE_MAP(ENTRY)
#undef ENTRY
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

#endif
