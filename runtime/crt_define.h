/* SPDX-License-Identifier: Apache-2.0 */
/* Definitions: a task, an actor or a method in one piece, its types written once. The compiler checks
 * each call, the linker collects what a program has.
 *
 *     #include <crt_define.h>
 *
 *     CRT_DEFINE_TASK(hello, (const char *, name), (int64_t, number))
 *     {
 *         char text[128];
 *         snprintf(text, sizeof(text), "hello %s, %lld", name, (long long)number);
 *         return crt_return(call, text);
 *     }
 *
 *     static int driver(int argc, char **argv)
 *     {
 *         const char *text;
 *         crt_ref_t *ref = hello_submit(NULL, "cluster", 4);
 *         CRT_CHECK(crt_get(ref, &text));
 *         puts(text);
 *         crt_ref_drop(&ref);
 *         return 0;
 *     }
 *     CRT_MAIN(driver)
 *
 * Types of parameters: bool, integers, float, double, const char *, crt_bytes_t,
 * const crt_tensor_t *, crt_ref_t * (the ref itself, not awaited), crt_actor_t *, and
 * const crt_value_t * (a value of any kind). A struct of the program names its crt_type_t:
 * (point_t, place, point_t_type). At most 16 parameters.
 *
 * A definition is also the descriptor of crt_program.h: `hello` is a crt_task_t, and
 * crt_submit(&hello, options, ref, 4) passes a ref in place of a value. Definitions have external
 * names; a header tells other files of them by CRT_DECLARE_TASK, CRT_DECLARE_ACTOR and
 * CRT_DECLARE_METHOD with the same parameters. Concurrency groups, http and max_calls need a
 * descriptor made with CRT_ACTOR_CLASS, CRT_METHOD or CRT_TASK.
 *
 * A definition joins the program before main, or when its shared library is loaded: that has to be
 * before crt_main or crt_init, and the library stays loaded until crt_shutdown. An object file of a
 * static library that nothing refers to is left out by the linker, and its definitions with it.
 *
 * In C a pointer in place of a number, or one of another type, is an error in each file that includes
 * this header, as in GCC 14 and clang 16. In C++ an exception that leaves a definition fails the call.
 */
#ifndef CRT_DEFINE_H
#define CRT_DEFINE_H

#include "crt.h"

#ifdef __cplusplus
#    include <exception>
#    define CRTI_DEF_EXTERN extern "C"
extern "C" {
#else
#    define CRTI_DEF_EXTERN extern
#    pragma GCC diagnostic error "-Wint-conversion"
#    pragma GCC diagnostic error "-Wincompatible-pointer-types"
#endif

/* ---------------------------------------------------------------- structs as arguments */

#define CRT_TYPE_ITEMS 16 /* the most that crt_type_t.pack writes */

/* A struct of the program that is passed by value. Made with CRT_TYPE, or for plain data (no
 * pointers: numbers, arrays of them, such structs) with CRT_DEFINE_PLAIN_TYPE(point_t), which names it
 * point_t_type. Its functions run in any thread. */
typedef struct crt_type {
    /* Set by CRT_TYPE. */
    size_t struct_size;
    /* Of errors. */
    const char *name;
    /* Bytes of the struct. */
    size_t size;
    /* Writes the struct as at most CRT_TYPE_ITEMS arguments and returns their number. The arguments may
     * point into the struct. NULL: the bytes of the struct are passed. */
    size_t (*pack)(const void *value, crt_arg_t *items);
    /* Fills in the struct, zeroed before, from the list of what `pack` has written. What the values point
     * at is borrowed until the call returns, or the ref is dropped. An error fails the read. */
    crt_status_t (*unpack)(const crt_value_t *items, void *value);
} crt_type_t;

/* A struct as an argument. `items` has room for CRT_TYPE_ITEMS and is kept, as `value` is, until the call
 * that the argument is given to returns. */
CRT_API crt_arg_t crt_arg_typed(const crt_type_t *type, const void *value,
                                crt_arg_t *items);

/* Reads a value into a struct. CRT_ERR_INVALID: the value is NULL, of another kind or size; else the
 * status of `unpack`. */
CRT_API crt_status_t crt_value_read_typed(const crt_value_t *value,
                                          const crt_type_t *type, void *to);

/* Returns a struct as the result of a call. Errors of crt_return_v. */
CRT_API crt_status_t crt_return_typed(crt_call_t *call, const crt_type_t *type,
                                      const void *value);

/* Waits for a ref, as crt_get_v does, and reads its value into a struct. Errors of crt_get_v and
 * crt_value_read_typed. */
CRT_API crt_status_t crt_get_typed(crt_ref_t *ref, int64_t wait_ms,
                                   const crt_type_t *type, void *to);

/* ---------------------------------------------------------------- what the macros make */

/* One definition. Members that do not apply are NULL. */
typedef struct crt_definition {
    /* sizeof(crt_definition_t). */
    size_t struct_size;
    const crt_task_t *task;
    /* An actor class; with one of the next three it is the class that they belong to. */
    const crt_actor_class_t *actor_class;
    const crt_method_t *method;
    void (*destroy)(void *self);
    crt_status_t (*restore)(void *self, const void *state, size_t size);
    /* Of the runtime. */
    struct crt_definition *next;
} crt_definition_t;

/* Adds a definition to the program, in any thread, before crt_init: crt_init then knows it as if its
 * options listed it. The definition and what it points at stay valid and unchanged. Called by what
 * the macros make; bindings may call it as well. */
CRT_API void crt_define(crt_definition_t *definition);

#ifdef __cplusplus
}
#endif

/* clang-format off */
#ifdef __cplusplus
#define CRT_TYPE(...) CRTI_MADE(, crt_type_t, .struct_size = sizeof(crt_type_t), __VA_ARGS__)
#define CRT_DEFINE_PLAIN_TYPE(type)                                                      \
    static_assert(std::is_trivially_copyable_v<type>, #type " is not plain data");       \
    [[maybe_unused]] static const crt_type_t type##_type =                               \
        CRT_TYPE(.name = #type, .size = sizeof(type));
#else
#define CRT_TYPE(...) {.struct_size = sizeof(crt_type_t), __VA_ARGS__}
#define CRT_DEFINE_PLAIN_TYPE(type)                                                      \
    __attribute__((unused)) static const crt_type_t type##_type =                        \
        CRT_TYPE(.name = #type, .size = sizeof(type));
#endif

/* F of each parameter, which stands in parentheses; the first of the arguments is none. */
#define CRTI_DEF_FOR(F, ...) CRTI_PASTE(CRTI_DEF_FOR_, CRTI_COUNT(__VA_ARGS__))(F, __VA_ARGS__)
#define CRTI_DEF_FOR_1(F, z)
#define CRTI_DEF_FOR_2(F, z, a)       F a
#define CRTI_DEF_FOR_3(F, z, a, ...)  F a CRTI_DEF_FOR_2(F, z, __VA_ARGS__)
#define CRTI_DEF_FOR_4(F, z, a, ...)  F a CRTI_DEF_FOR_3(F, z, __VA_ARGS__)
#define CRTI_DEF_FOR_5(F, z, a, ...)  F a CRTI_DEF_FOR_4(F, z, __VA_ARGS__)
#define CRTI_DEF_FOR_6(F, z, a, ...)  F a CRTI_DEF_FOR_5(F, z, __VA_ARGS__)
#define CRTI_DEF_FOR_7(F, z, a, ...)  F a CRTI_DEF_FOR_6(F, z, __VA_ARGS__)
#define CRTI_DEF_FOR_8(F, z, a, ...)  F a CRTI_DEF_FOR_7(F, z, __VA_ARGS__)
#define CRTI_DEF_FOR_9(F, z, a, ...)  F a CRTI_DEF_FOR_8(F, z, __VA_ARGS__)
#define CRTI_DEF_FOR_10(F, z, a, ...) F a CRTI_DEF_FOR_9(F, z, __VA_ARGS__)
#define CRTI_DEF_FOR_11(F, z, a, ...) F a CRTI_DEF_FOR_10(F, z, __VA_ARGS__)
#define CRTI_DEF_FOR_12(F, z, a, ...) F a CRTI_DEF_FOR_11(F, z, __VA_ARGS__)
#define CRTI_DEF_FOR_13(F, z, a, ...) F a CRTI_DEF_FOR_12(F, z, __VA_ARGS__)
#define CRTI_DEF_FOR_14(F, z, a, ...) F a CRTI_DEF_FOR_13(F, z, __VA_ARGS__)
#define CRTI_DEF_FOR_15(F, z, a, ...) F a CRTI_DEF_FOR_14(F, z, __VA_ARGS__)
#define CRTI_DEF_FOR_16(F, z, a, ...) F a CRTI_DEF_FOR_15(F, z, __VA_ARGS__)
#define CRTI_DEF_FOR_17(F, z, a, ...) F a CRTI_DEF_FOR_16(F, z, __VA_ARGS__)

/* A parameter is (type, name), or (type, name, crt_type_t). */
#define CRTI_DEF_BY_SIZE(two, three, ...)      CRTI_DEF_BY_SIZE_(__VA_ARGS__, three, two, 0)
#define CRTI_DEF_BY_SIZE_(a, b, c, chosen, ...) chosen
#define CRTI_DEF_PARAMETER(type, ...) , type CRTI_HEAD(__VA_ARGS__)
#define CRTI_DEF_PASS(type, ...)      , CRTI_HEAD(__VA_ARGS__)
#define CRTI_DEF_LOCAL(...)           CRTI_DEF_BY_SIZE(CRTI_DEF_LOCAL_2, CRTI_DEF_LOCAL_3, __VA_ARGS__)(__VA_ARGS__)
#define CRTI_DEF_LOCAL_2(type, name)  type name;
#define CRTI_DEF_LOCAL_3(type, name, of) type name; const crt_value_t *crti_from_##name;
#define CRTI_DEF_TAKE(...)            CRTI_DEF_BY_SIZE(CRTI_DEF_TAKE_2, CRTI_DEF_TAKE_3, __VA_ARGS__)(__VA_ARGS__)
#define CRTI_DEF_TAKE_2(type, name)   CRT_OUT(&name),
#define CRTI_DEF_TAKE_3(type, name, of) CRT_OUT(&crti_from_##name),
#define CRTI_DEF_READ(...)            CRTI_DEF_BY_SIZE(CRTI_DEF_READ_2, CRTI_DEF_READ_3, __VA_ARGS__)(__VA_ARGS__)
#define CRTI_DEF_READ_2(type, name)
#define CRTI_DEF_READ_3(type, name, of)                                                  \
    if (crti_status >= 0)                                                                \
        crti_status = crt_value_read_typed(crti_from_##name, &(of), &name);
#define CRTI_DEF_ROOM(...)            CRTI_DEF_BY_SIZE(CRTI_DEF_ROOM_2, CRTI_DEF_ROOM_3, __VA_ARGS__)(__VA_ARGS__)
#define CRTI_DEF_ROOM_2(type, name)
#define CRTI_DEF_ROOM_3(type, name, of) crt_arg_t crti_items_##name[CRT_TYPE_ITEMS];
#define CRTI_DEF_GIVE(...)            CRTI_DEF_BY_SIZE(CRTI_DEF_GIVE_2, CRTI_DEF_GIVE_3, __VA_ARGS__)(__VA_ARGS__)
#define CRTI_DEF_GIVE_2(type, name)   CRT_ARG(name),
#define CRTI_DEF_GIVE_3(type, name, of) crt_arg_typed(&(of), &name, crti_items_##name),

/* The word of a signature as six letters in a number, by the type of the parameter. */
#define CRTI_DEF_WORD(a, b, c, d, e, f)                                                  \
    ((uint64_t)(a) | (uint64_t)(b) << 8 | (uint64_t)(c) << 16 | (uint64_t)(d) << 24 |    \
     (uint64_t)(e) << 32 | (uint64_t)(f) << 40)
#define CRTI_DEF_WORD_BOOL   CRTI_DEF_WORD('b', 'o', 'o', 'l', ' ', ' ')
#define CRTI_DEF_WORD_INT    CRTI_DEF_WORD('i', 'n', 't', ' ', ' ', ' ')
#define CRTI_DEF_WORD_FLOAT  CRTI_DEF_WORD('f', 'l', 'o', 'a', 't', ' ')
#define CRTI_DEF_WORD_STRING CRTI_DEF_WORD('s', 't', 'r', 'i', 'n', 'g')
#define CRTI_DEF_WORD_BYTES  CRTI_DEF_WORD('b', 'y', 't', 'e', 's', ' ')
#define CRTI_DEF_WORD_TENSOR CRTI_DEF_WORD('t', 'e', 'n', 's', 'o', 'r')
#define CRTI_DEF_WORD_REF    CRTI_DEF_WORD('r', 'e', 'f', ' ', ' ', ' ')
#define CRTI_DEF_WORD_ACTOR  CRTI_DEF_WORD('a', 'c', 't', 'o', 'r', ' ')
#define CRTI_DEF_WORD_ANY    CRTI_DEF_WORD('a', 'n', 'y', ' ', ' ', ' ')
#define CRTI_DEF_LETTER(word, place) (char)((word) >> (8 * (place)) & 0x7f)
#define CRTI_DEF_LETTERS(word)                                                           \
    ',', CRTI_DEF_LETTER(word, 0), CRTI_DEF_LETTER(word, 1), CRTI_DEF_LETTER(word, 2),   \
        CRTI_DEF_LETTER(word, 3), CRTI_DEF_LETTER(word, 4), CRTI_DEF_LETTER(word, 5),
#define CRTI_DEF_SIGN(...)           CRTI_DEF_BY_SIZE(CRTI_DEF_SIGN_2, CRTI_DEF_SIGN_3, __VA_ARGS__)(__VA_ARGS__)
#define CRTI_DEF_SIGN_2(type, name)  CRTI_DEF_LETTERS(CRTI_DEF_WORD_OF(type))
#define CRTI_DEF_SIGN_3(type, name, of) CRTI_DEF_LETTERS(CRTI_DEF_WORD_ANY)

#ifdef __cplusplus
template <class CrtT, class = void> struct crti_word {
    static_assert(std::is_integral_v<CrtT>, "no type of a parameter: see crt_define.h");
    static constexpr uint64_t value = CRTI_DEF_WORD_INT;
};
template <> struct crti_word<bool> { static constexpr uint64_t value = CRTI_DEF_WORD_BOOL; };
template <> struct crti_word<float> { static constexpr uint64_t value = CRTI_DEF_WORD_FLOAT; };
template <> struct crti_word<double> { static constexpr uint64_t value = CRTI_DEF_WORD_FLOAT; };
template <> struct crti_word<const char *> { static constexpr uint64_t value = CRTI_DEF_WORD_STRING; };
template <> struct crti_word<crt_bytes_t> { static constexpr uint64_t value = CRTI_DEF_WORD_BYTES; };
template <> struct crti_word<const crt_tensor_t *> { static constexpr uint64_t value = CRTI_DEF_WORD_TENSOR; };
template <> struct crti_word<crt_ref_t *> { static constexpr uint64_t value = CRTI_DEF_WORD_REF; };
template <> struct crti_word<crt_actor_t *> { static constexpr uint64_t value = CRTI_DEF_WORD_ACTOR; };
template <> struct crti_word<const crt_value_t *> { static constexpr uint64_t value = CRTI_DEF_WORD_ANY; };
#define CRTI_DEF_WORD_OF(type) (crti_word<type>::value)
#define CRTI_DEF_NO_ARG        crt_arg_t()
#define CRTI_DEF_NO_OUT        crt_out_t()
#if defined(__cpp_exceptions) || defined(__EXCEPTIONS)
#define CRTI_DEF_TRY try {
#define CRTI_DEF_CATCH                                                                   \
    } catch (const std::exception &crti_error) {                                         \
        return crt_fail(call, CRT_ERR_USER, "%s", crti_error.what());                    \
    } catch (...) {                                                                      \
        return crt_fail(call, CRT_ERR_USER, "an exception that is no std::exception");   \
    }
#endif
#else
#define CRTI_DEF_WORD_OF(type)                                                           \
    _Generic((type){0},                                                                  \
        bool: CRTI_DEF_WORD_BOOL,                                                        \
        char: CRTI_DEF_WORD_INT,                                                         \
        signed char: CRTI_DEF_WORD_INT,                                                  \
        short: CRTI_DEF_WORD_INT,                                                        \
        int: CRTI_DEF_WORD_INT,                                                          \
        long: CRTI_DEF_WORD_INT,                                                         \
        long long: CRTI_DEF_WORD_INT,                                                    \
        unsigned char: CRTI_DEF_WORD_INT,                                                \
        unsigned short: CRTI_DEF_WORD_INT,                                               \
        unsigned: CRTI_DEF_WORD_INT,                                                     \
        unsigned long: CRTI_DEF_WORD_INT,                                                \
        unsigned long long: CRTI_DEF_WORD_INT,                                           \
        float: CRTI_DEF_WORD_FLOAT,                                                      \
        double: CRTI_DEF_WORD_FLOAT,                                                     \
        const char *: CRTI_DEF_WORD_STRING,                                              \
        crt_bytes_t: CRTI_DEF_WORD_BYTES,                                                \
        const crt_tensor_t *: CRTI_DEF_WORD_TENSOR,                                      \
        crt_ref_t *: CRTI_DEF_WORD_REF,                                                  \
        crt_actor_t *: CRTI_DEF_WORD_ACTOR,                                              \
        const crt_value_t *: CRTI_DEF_WORD_ANY)
#define CRTI_DEF_NO_ARG {.kind = CRT_KIND_NONE}
#define CRTI_DEF_NO_OUT {.kind = CRT_OUT_NONE}
#endif
#ifndef CRTI_DEF_TRY
#define CRTI_DEF_TRY
#define CRTI_DEF_CATCH
#endif

/* Reads the parameters of a call and runs the body with them. */
#define CRTI_DEF_RUN(body, self, ...)                                                    \
    {                                                                                    \
        CRTI_DEF_FOR(CRTI_DEF_LOCAL, __VA_ARGS__)                                        \
        const crt_out_t crti_outs[] = {CRTI_DEF_FOR(CRTI_DEF_TAKE, __VA_ARGS__) CRTI_DEF_NO_OUT}; \
        crt_status_t crti_status =                                                       \
            crt_args_v(call, crti_outs, sizeof(crti_outs) / sizeof(crti_outs[0]) - 1);   \
        CRTI_DEF_FOR(CRTI_DEF_READ, __VA_ARGS__)                                         \
        if (crti_status < 0)                                                             \
            return crti_status;                                                          \
        CRTI_DEF_TRY                                                                     \
        return body(self call CRTI_DEF_FOR(CRTI_DEF_PASS, __VA_ARGS__));                 \
        CRTI_DEF_CATCH                                                                   \
    }
/* The arguments of a stub. */
#define CRTI_DEF_GIVEN(...)                                                              \
    CRTI_DEF_FOR(CRTI_DEF_ROOM, __VA_ARGS__)                                             \
    const crt_arg_t crti_given[] = {CRTI_DEF_FOR(CRTI_DEF_GIVE, __VA_ARGS__) CRTI_DEF_NO_ARG}
#define CRTI_DEF_GIVEN_COUNT (sizeof(crti_given) / sizeof(crti_given[0]) - 1)
/* The signature begins behind the first comma. */
#define CRTI_DEF_SIGNATURE(name, ...)                                                    \
    static const char name[] = {CRTI_DEF_FOR(CRTI_DEF_SIGN, __VA_ARGS__) 0, 0};
/* The definition, and what adds it: .init_array is kept by the linker, in libraries too. */
#define CRTI_DEFINED(name, task, actor_class, method, destroy, restore)                  \
    static crt_definition_t crti_##name##_definition = {                                 \
        sizeof(crt_definition_t), task, actor_class, method, destroy, restore, NULL};    \
    __attribute__((constructor)) static void crti_##name##_define(void)                  \
    {                                                                                    \
        crt_define(&crti_##name##_definition);                                           \
    }

/* ---------------------------------------------------------------- tasks */

#define CRT_DECLARE_TASK(...) CRTI_DECLARE_TASK(CRTI_HEAD(__VA_ARGS__), __VA_ARGS__)
#define CRTI_DECLARE_TASK(task, ...) CRTI_DECLARE_TASK_(task, __VA_ARGS__)
#define CRTI_DECLARE_TASK_(task, ...)                                                    \
    CRTI_DEF_EXTERN const crt_task_t task;                                               \
    CRTI_DEF_EXTERN crt_ref_t *task##_submit(                                            \
        const crt_task_options_t *options CRTI_DEF_FOR(CRTI_DEF_PARAMETER, __VA_ARGS__)); \
    CRTI_DEF_EXTERN crt_stream_t *task##_submit_stream(                                  \
        const crt_task_options_t *options CRTI_DEF_FOR(CRTI_DEF_PARAMETER, __VA_ARGS__)); \
    CRTI_DEF_EXTERN void task##_submit_returns(                                          \
        crt_ref_t **refs, size_t returns,                                                \
        const crt_task_options_t *options CRTI_DEF_FOR(CRTI_DEF_PARAMETER, __VA_ARGS__));

/* CRT_DEFINE_TASK(hello, (const char *, name), ...) { body }: the body has `call` and the parameters,
 * and returns as a task does (crt_return, crt_fail). Gives hello, hello_submit(options, name, ...),
 * hello_submit_stream(options, name, ...) and hello_submit_returns(refs, returns, options, name, ...). */
#define CRT_DEFINE_TASK(...) CRTI_DEFINE_TASK(CRTI_HEAD(__VA_ARGS__), __VA_ARGS__)
#define CRTI_DEFINE_TASK(task, ...) CRTI_DEFINE_TASK_(task, __VA_ARGS__)
#define CRTI_DEFINE_TASK_(task, ...)                                                     \
    CRTI_DECLARE_TASK_(task, __VA_ARGS__)                                                \
    static crt_status_t crti_##task##_body(                                              \
        crt_call_t *call CRTI_DEF_FOR(CRTI_DEF_PARAMETER, __VA_ARGS__));                 \
    static crt_status_t crti_##task##_run(crt_call_t *call)                              \
    CRTI_DEF_RUN(crti_##task##_body, , __VA_ARGS__)                                      \
    CRTI_DEF_SIGNATURE(crti_##task##_signature, __VA_ARGS__)                             \
    const crt_task_t task = CRT_TASK(.name = #task, .run = crti_##task##_run,            \
                                     .signature = crti_##task##_signature + 1);          \
    CRTI_DEFINED(task, &task, NULL, NULL, NULL, NULL)                                    \
    crt_ref_t *task##_submit(                                                            \
        const crt_task_options_t *options CRTI_DEF_FOR(CRTI_DEF_PARAMETER, __VA_ARGS__)) \
    {                                                                                    \
        CRTI_DEF_GIVEN(__VA_ARGS__);                                                     \
        return CRTI_HERE(crt_submit_v(&task, options, crti_given, CRTI_DEF_GIVEN_COUNT)); \
    }                                                                                    \
    crt_stream_t *task##_submit_stream(                                                  \
        const crt_task_options_t *options CRTI_DEF_FOR(CRTI_DEF_PARAMETER, __VA_ARGS__)) \
    {                                                                                    \
        CRTI_DEF_GIVEN(__VA_ARGS__);                                                     \
        return crt_submit_stream_v(&task, options, crti_given, CRTI_DEF_GIVEN_COUNT);    \
    }                                                                                    \
    void task##_submit_returns(                                                          \
        crt_ref_t **refs, size_t returns,                                                \
        const crt_task_options_t *options CRTI_DEF_FOR(CRTI_DEF_PARAMETER, __VA_ARGS__)) \
    {                                                                                    \
        CRTI_DEF_GIVEN(__VA_ARGS__);                                                     \
        crt_submit_returns_v(refs, returns, &task, options, crti_given,                  \
                             CRTI_DEF_GIVEN_COUNT);                                      \
    }                                                                                    \
    static crt_status_t crti_##task##_body(                                              \
        crt_call_t *call CRTI_DEF_FOR(CRTI_DEF_PARAMETER, __VA_ARGS__))

/* ---------------------------------------------------------------- actors */

#define CRT_DECLARE_ACTOR(actor, ...) CRTI_DECLARE_ACTOR_(actor, __VA_ARGS__)
#define CRTI_DECLARE_ACTOR_(actor, ...)                                                  \
    CRTI_DEF_EXTERN const crt_actor_class_t actor;                                       \
    CRTI_DEF_EXTERN crt_actor_t *actor##_new(                                            \
        const crt_actor_options_t *options CRTI_DEF_FOR(CRTI_DEF_PARAMETER, __VA_ARGS__));

/* CRT_DEFINE_ACTOR(counter, struct counter, (int64_t, start), ...) { body }: a class, its struct and
 * what makes it. The body has `self` (zeroed), `call` and the parameters; its error is the error of
 * every call. Gives counter and counter_new(options, start, ...). Methods, CRT_DEFINE_DESTROY and
 * CRT_DEFINE_RESTORE follow in the same file. */
#define CRT_DEFINE_ACTOR(actor, ...)                                                     \
    CRTI_DEFINE_ACTOR(actor, CRTI_HEAD(__VA_ARGS__), __VA_ARGS__)
#define CRTI_DEFINE_ACTOR(actor, type, ...) CRTI_DEFINE_ACTOR_(actor, type, __VA_ARGS__)
#define CRTI_DEFINE_ACTOR_(actor, type, ...)                                             \
    CRTI_DECLARE_ACTOR_(actor, __VA_ARGS__)                                              \
    typedef type crti_##actor##_self;                                                    \
    static crt_status_t crti_##actor##_body(                                             \
        crti_##actor##_self *self,                                                       \
        crt_call_t *call CRTI_DEF_FOR(CRTI_DEF_PARAMETER, __VA_ARGS__));                 \
    static crt_status_t crti_##actor##_create(void *crti_self, crt_call_t *call)         \
    CRTI_DEF_RUN(crti_##actor##_body, CRTI_DEF_SELF(actor), __VA_ARGS__)                 \
    CRTI_DEF_SIGNATURE(crti_##actor##_signature, __VA_ARGS__)                            \
    const crt_actor_class_t actor =                                                      \
        CRT_ACTOR_CLASS(.name = #actor, .size = sizeof(crti_##actor##_self),             \
                        .create = crti_##actor##_create,                                 \
                        .signature = crti_##actor##_signature + 1);                      \
    CRTI_DEFINED(actor, NULL, &actor, NULL, NULL, NULL)                                  \
    crt_actor_t *actor##_new(                                                            \
        const crt_actor_options_t *options CRTI_DEF_FOR(CRTI_DEF_PARAMETER, __VA_ARGS__)) \
    {                                                                                    \
        CRTI_DEF_GIVEN(__VA_ARGS__);                                                     \
        return crt_actor_new_v(&actor, options, crti_given, CRTI_DEF_GIVEN_COUNT);       \
    }                                                                                    \
    static crt_status_t crti_##actor##_body(                                             \
        crti_##actor##_self *self,                                                       \
        crt_call_t *call CRTI_DEF_FOR(CRTI_DEF_PARAMETER, __VA_ARGS__))
#define CRTI_DEF_SELF(actor) (crti_##actor##_self *)crti_self,

/* CRT_DEFINE_DESTROY(counter) { body }: runs with `self` when the actor ends in an orderly way. */
#define CRT_DEFINE_DESTROY(actor)                                                        \
    static void crti_##actor##_end_body(crti_##actor##_self *self);                      \
    static void crti_##actor##_destroy(void *crti_self)                                  \
    {                                                                                    \
        crti_##actor##_end_body((crti_##actor##_self *)crti_self);                       \
    }                                                                                    \
    CRTI_DEFINED(actor##_destroy, NULL, &actor, NULL, crti_##actor##_destroy, NULL)      \
    static void crti_##actor##_end_body(crti_##actor##_self *self)

/* CRT_DEFINE_RESTORE(counter) { body }: runs with `self`, `state` and `size` after the body of the actor
 * in a process that follows another one, when crt_actor_save has kept a state. An error ends the actor. */
#define CRT_DEFINE_RESTORE(actor)                                                        \
    static crt_status_t crti_##actor##_restore_body(crti_##actor##_self *self,           \
                                                    const void *state, size_t size);     \
    static crt_status_t crti_##actor##_restore(void *crti_self, const void *state,       \
                                               size_t size)                              \
    {                                                                                    \
        return crti_##actor##_restore_body((crti_##actor##_self *)crti_self, state,      \
                                           size);                                        \
    }                                                                                    \
    CRTI_DEFINED(actor##_restore, NULL, &actor, NULL, NULL, crti_##actor##_restore)      \
    static crt_status_t crti_##actor##_restore_body(crti_##actor##_self *self,           \
                                                    const void *state, size_t size)

#define CRT_DECLARE_METHOD(actor, ...)                                                   \
    CRTI_DECLARE_METHOD(actor, CRTI_HEAD(__VA_ARGS__), __VA_ARGS__)
#define CRTI_DECLARE_METHOD(actor, method, ...)                                          \
    CRTI_DECLARE_METHOD__(actor, method, __VA_ARGS__)
#define CRTI_DECLARE_METHOD__(actor, method, ...)                                        \
    CRTI_DECLARE_METHOD_(actor##_##method, __VA_ARGS__)
#define CRTI_DECLARE_METHOD_(method, ...)                                                \
    CRTI_DEF_EXTERN const crt_method_t method;                                           \
    CRTI_DEF_EXTERN crt_ref_t *method##_call(                                            \
        crt_actor_t *actor,                                                              \
        const crt_call_options_t *options CRTI_DEF_FOR(CRTI_DEF_PARAMETER, __VA_ARGS__)); \
    CRTI_DEF_EXTERN crt_status_t method##_tell(                                          \
        crt_actor_t *actor CRTI_DEF_FOR(CRTI_DEF_PARAMETER, __VA_ARGS__));               \
    CRTI_DEF_EXTERN crt_stream_t *method##_call_stream(                                  \
        crt_actor_t *actor,                                                              \
        const crt_call_options_t *options CRTI_DEF_FOR(CRTI_DEF_PARAMETER, __VA_ARGS__)); \
    CRTI_DEF_EXTERN void method##_call_returns(                                          \
        crt_ref_t **refs, size_t returns, crt_actor_t *actor,                            \
        const crt_call_options_t *options CRTI_DEF_FOR(CRTI_DEF_PARAMETER, __VA_ARGS__));

/* CRT_DEFINE_METHOD(counter, add, (int64_t, amount), ...) { body }: the body has `self`, `call` and the
 * parameters. Gives counter_add, counter_add_call(actor, options, amount, ...),
 * counter_add_tell(actor, amount, ...), counter_add_call_stream(actor, options, amount, ...) and
 * counter_add_call_returns(refs, returns, actor, options, amount, ...). */
#define CRT_DEFINE_METHOD(actor, ...)                                                    \
    CRTI_DEFINE_METHOD(actor, CRTI_HEAD(__VA_ARGS__), __VA_ARGS__)
#define CRTI_DEFINE_METHOD(actor, method, ...)                                           \
    CRTI_DEFINE_METHOD_(actor, method, __VA_ARGS__)
#define CRTI_DEFINE_METHOD_(actor, method, ...)                                          \
    CRTI_DEFINE_METHOD__(actor, #method, actor##_##method, __VA_ARGS__)
#define CRTI_DEFINE_METHOD__(class_, text, method, ...)                                  \
    CRTI_DECLARE_METHOD_(method, __VA_ARGS__)                                            \
    static crt_status_t crti_##method##_body(                                            \
        crti_##class_##_self *self,                                                      \
        crt_call_t *call CRTI_DEF_FOR(CRTI_DEF_PARAMETER, __VA_ARGS__));                 \
    static crt_status_t crti_##method##_run(void *crti_self, crt_call_t *call)           \
    CRTI_DEF_RUN(crti_##method##_body, CRTI_DEF_SELF(class_), __VA_ARGS__)               \
    CRTI_DEF_SIGNATURE(crti_##method##_signature, __VA_ARGS__)                           \
    const crt_method_t method = CRT_METHOD(.name = text, .run = crti_##method##_run,     \
                                           .signature = crti_##method##_signature + 1);  \
    CRTI_DEFINED(method, NULL, &class_, &method, NULL, NULL)                             \
    crt_ref_t *method##_call(                                                            \
        crt_actor_t *actor,                                                              \
        const crt_call_options_t *options CRTI_DEF_FOR(CRTI_DEF_PARAMETER, __VA_ARGS__)) \
    {                                                                                    \
        CRTI_DEF_GIVEN(__VA_ARGS__);                                                     \
        return CRTI_HERE(                                                                \
            crt_call_v(actor, &method, options, crti_given, CRTI_DEF_GIVEN_COUNT));      \
    }                                                                                    \
    crt_status_t method##_tell(                                                          \
        crt_actor_t *actor CRTI_DEF_FOR(CRTI_DEF_PARAMETER, __VA_ARGS__))                \
    {                                                                                    \
        CRTI_DEF_GIVEN(__VA_ARGS__);                                                     \
        return crt_tell_v(actor, &method, crti_given, CRTI_DEF_GIVEN_COUNT);             \
    }                                                                                    \
    crt_stream_t *method##_call_stream(                                                  \
        crt_actor_t *actor,                                                              \
        const crt_call_options_t *options CRTI_DEF_FOR(CRTI_DEF_PARAMETER, __VA_ARGS__)) \
    {                                                                                    \
        CRTI_DEF_GIVEN(__VA_ARGS__);                                                     \
        return crt_call_stream_v(actor, &method, options, crti_given, CRTI_DEF_GIVEN_COUNT); \
    }                                                                                    \
    void method##_call_returns(                                                          \
        crt_ref_t **refs, size_t returns, crt_actor_t *actor,                            \
        const crt_call_options_t *options CRTI_DEF_FOR(CRTI_DEF_PARAMETER, __VA_ARGS__)) \
    {                                                                                    \
        CRTI_DEF_GIVEN(__VA_ARGS__);                                                     \
        crt_call_returns_v(refs, returns, actor, &method, options, crti_given,           \
                           CRTI_DEF_GIVEN_COUNT);                                        \
    }                                                                                    \
    static crt_status_t crti_##method##_body(                                            \
        crti_##class_##_self *self,                                                      \
        crt_call_t *call CRTI_DEF_FOR(CRTI_DEF_PARAMETER, __VA_ARGS__))

/* ---------------------------------------------------------------- main */

/* CRT_MAIN(driver), or with members of crt_options_t: CRT_MAIN(driver, .num_cpus = 2). */
#define CRT_MAIN(...) CRTI_PASTE(CRTI_DEF_MAIN_, CRTI_DEF_ONE_OR_MORE(__VA_ARGS__))(__VA_ARGS__)
#define CRTI_DEF_MAIN_ONE(driver)                                                        \
    int main(int argc, char **argv)                                                      \
    {                                                                                    \
        return crt_main(argc, argv, NULL, driver);                                       \
    }
#define CRTI_DEF_MAIN_MORE(driver, ...)                                                  \
    int main(int argc, char **argv)                                                      \
    {                                                                                    \
        return crt_main(argc, argv, CRT_OPTIONS(__VA_ARGS__), driver);                   \
    }
#define CRTI_DEF_ONE_OR_MORE(...)                                                        \
    CRTI_COUNT_(__VA_ARGS__, MORE, MORE, MORE, MORE, MORE, MORE, MORE, MORE, MORE, MORE, \
                MORE, MORE, MORE, MORE, MORE, MORE, MORE, MORE, MORE, MORE, MORE, MORE,  \
                MORE, MORE, MORE, MORE, MORE, MORE, MORE, MORE, MORE, MORE, MORE, MORE,  \
                MORE, MORE, MORE, MORE, MORE, MORE, MORE, MORE, MORE, MORE, MORE, MORE,  \
                MORE, MORE, MORE, MORE, MORE, MORE, MORE, MORE, MORE, MORE, MORE, MORE,  \
                MORE, MORE, MORE, MORE, MORE, ONE, 0)
/* clang-format on */

#endif
