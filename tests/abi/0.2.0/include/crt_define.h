/* SPDX-License-Identifier: Apache-2.0 */
/* Macros that define a task, an actor or a method in one place. The types of the parameters are
 * written once, and the compiler checks each call. The program lists its definitions nowhere.
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
 * A parameter is (type, name). The types are bool, integers, float, double, const char *,
 * crt_bytes_t, const crt_tensor_t *, crt_ref_t * (the ref itself; the call does not wait for its
 * value), crt_actor_t * and const crt_value_t * (a value of any kind). A struct of the program is
 * (type, name, crt_type_t), for example (point_t, place, point_t_type). At most 16 parameters.
 *
 * A definition is also a descriptor of crt_program.h: `hello` is a crt_task_t, and
 * crt_submit(&hello, options, ref, 4) passes a ref in place of a value. Definitions have external
 * names. A header declares a definition for other files with CRT_DECLARE_TASK, CRT_DECLARE_ACTOR
 * or CRT_DECLARE_METHOD and the parameters of the definition. A task with max_calls, or a class
 * with concurrency groups or http, needs a descriptor made with CRT_TASK, CRT_ACTOR_CLASS or
 * CRT_METHOD.
 *
 * A definition joins the program before main, or when its shared library is loaded. A library must
 * be loaded before crt_main or crt_init, and must stay loaded until crt_shutdown. The linker omits
 * an object file of a static library that no other file refers to, with the definitions in that
 * file.
 *
 * In C, a file that includes this header can't pass a pointer as a number, or as a pointer to
 * another type: both are errors of the compiler, as in GCC 14 and clang 16. In C++, an exception
 * that leaves the body of a definition fails the call with CRT_ERR_USER.
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

/* The largest number of arguments that crt_type_t.pack writes. */
#define CRT_TYPE_ITEMS 16

/* Describes a struct of the program that is passed by value. A program makes this descriptor with
 * CRT_TYPE, or with CRT_DEFINE_PLAIN_TYPE for plain data. The functions `pack` and `unpack` may
 * run in any thread. */
typedef struct crt_type {
    /* Set by CRT_TYPE. */
    size_t struct_size;
    /* The name of the struct in error texts. */
    const char *name;
    /* Bytes of the struct. */
    size_t size;
    /* Writes the struct as at most CRT_TYPE_ITEMS arguments and returns the number of arguments.
     * The arguments may point into the struct. NULL: the bytes of the struct are passed. */
    size_t (*pack)(const void *value, crt_arg_t *items);
    /* Fills in the struct, which is zero before, from the list of the arguments that `pack`
     * wrote. Memory that the values point to is borrowed until the call returns, or until the ref
     * is dropped. An error fails the read. */
    crt_status_t (*unpack)(const crt_value_t *items, void *value);
} crt_type_t;

/* Makes an argument of a struct. `items` has room for CRT_TYPE_ITEMS arguments. `items` and
 * `value` must stay valid and unchanged until the call that gets the argument returns. */
CRT_API crt_arg_t crt_arg_typed(const crt_type_t *type, const void *value,
                                crt_arg_t *items);

/* Reads a value into a struct.
 *
 * Errors: CRT_ERR_INVALID, when `value` is NULL, or of another kind or size than the struct; an
 * error that `unpack` of the type returns. */
CRT_API crt_status_t crt_value_read_typed(const crt_value_t *value,
                                          const crt_type_t *type, void *to);

/* Returns a struct as the result of a call. Errors: those of crt_return_v. */
CRT_API crt_status_t crt_return_typed(crt_call_t *call, const crt_type_t *type,
                                      const void *value);

/* Waits for a ref, as crt_get_v does, and reads its value into a struct. `wait_ms` is how long
 * the caller waits, in milliseconds: 0 does not wait, below 0 waits without limit.
 *
 * Errors: those of crt_get_v; CRT_ERR_INVALID, when the value is of another kind or size than the
 * struct; an error that `unpack` of the type returns. */
CRT_API crt_status_t crt_get_typed(crt_ref_t *ref, int64_t wait_ms,
                                   const crt_type_t *type, void *to);

/* ---------------------------------------------------------------- registration */

/* One definition. Members that do not apply are NULL. */
typedef struct crt_definition {
    /* sizeof(crt_definition_t). */
    size_t struct_size;
    const crt_task_t *task;
    /* The actor class. With `method`, `destroy` or `restore`: the class that the member belongs
     * to. */
    const crt_actor_class_t *actor_class;
    const crt_method_t *method;
    void (*destroy)(void *self);
    crt_status_t (*restore)(void *self, const void *state, size_t size);
    /* Used by the runtime. */
    struct crt_definition *next;
} crt_definition_t;

/* Adds a definition to the program; crt_init then knows the definition as if the options of
 * crt_init listed it. Call before crt_init; any thread may call. The definition, and all that the
 * definition points to, must stay valid and unchanged until crt_shutdown. The macros CRT_DEFINE_*
 * call crt_define; language bindings may call crt_define too. */
CRT_API void crt_define(crt_definition_t *definition);

#ifdef __cplusplus
}
#endif

/* clang-format off */
/* CRT_TYPE makes a crt_type_t, with members given by name. CRT_DEFINE_PLAIN_TYPE(T) defines the
 * static descriptor T_type of a struct of plain data: numbers, arrays of numbers, and structs of
 * those, without pointers. T is one identifier.
 *
 *     typedef struct { double x, y; } point_t;
 *     CRT_DEFINE_PLAIN_TYPE(point_t)
 *
 *     CRT_DEFINE_TASK(length, (point_t, point, point_t_type))
 *     {
 *         return crt_return(call, hypot(point.x, point.y));
 *     }
 *
 * A struct with pointers has functions that write and read its members:
 *
 *     static const crt_type_t person_type = CRT_TYPE(.name = "person", .size = sizeof(person_t),
 *                                                    .pack = pack, .unpack = unpack);
 */
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

/* F of each parameter. A parameter stands in parentheses; the first argument is no parameter. */
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

/* Takes the parentheses off the members of a descriptor. */
#define CRTI_DEF_MEMBERS(...) __VA_ARGS__

/* A parameter is (type, name), or (type, name, crt_type_t). */
#define CRTI_DEF_BY_SIZE(two, three, ...)      CRTI_DEF_BY_SIZE_(__VA_ARGS__, three, two, 0)
#define CRTI_DEF_BY_SIZE_(a, b, c, chosen, ...) chosen
#define CRTI_DEF_PARAMETER(type, ...) , type CRTI_HEAD(__VA_ARGS__)
#define CRTI_DEF_PASS(type, ...)      , CRTI_HEAD(__VA_ARGS__)
#define CRTI_DEF_LOCAL(...)                                                              \
    CRTI_DEF_BY_SIZE(CRTI_DEF_LOCAL_2, CRTI_DEF_LOCAL_3, __VA_ARGS__)(__VA_ARGS__)
#define CRTI_DEF_LOCAL_2(type, name)  type name;
#define CRTI_DEF_LOCAL_3(type, name, of) type name; const crt_value_t *crti_from_##name;
#define CRTI_DEF_TAKE(...)                                                               \
    CRTI_DEF_BY_SIZE(CRTI_DEF_TAKE_2, CRTI_DEF_TAKE_3, __VA_ARGS__)(__VA_ARGS__)
#define CRTI_DEF_TAKE_2(type, name)   CRT_OUT(&name),
#define CRTI_DEF_TAKE_3(type, name, of) CRT_OUT(&crti_from_##name),
#define CRTI_DEF_READ(...)                                                               \
    CRTI_DEF_BY_SIZE(CRTI_DEF_READ_2, CRTI_DEF_READ_3, __VA_ARGS__)(__VA_ARGS__)
#define CRTI_DEF_READ_2(type, name)
#define CRTI_DEF_READ_3(type, name, of)                                                  \
    if (crti_status >= 0)                                                                \
        crti_status = crt_value_read_typed(crti_from_##name, &(of), &name);
#define CRTI_DEF_ROOM(...)                                                               \
    CRTI_DEF_BY_SIZE(CRTI_DEF_ROOM_2, CRTI_DEF_ROOM_3, __VA_ARGS__)(__VA_ARGS__)
#define CRTI_DEF_ROOM_2(type, name)
#define CRTI_DEF_ROOM_3(type, name, of) crt_arg_t crti_items_##name[CRT_TYPE_ITEMS];
#define CRTI_DEF_GIVE(...)                                                               \
    CRTI_DEF_BY_SIZE(CRTI_DEF_GIVE_2, CRTI_DEF_GIVE_3, __VA_ARGS__)(__VA_ARGS__)
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
#define CRTI_DEF_SIGN(...)                                                               \
    CRTI_DEF_BY_SIZE(CRTI_DEF_SIGN_2, CRTI_DEF_SIGN_3, __VA_ARGS__)(__VA_ARGS__)
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
template <> struct crti_word<const char *> {
    static constexpr uint64_t value = CRTI_DEF_WORD_STRING;
};
template <> struct crti_word<crt_bytes_t> {
    static constexpr uint64_t value = CRTI_DEF_WORD_BYTES;
};
template <> struct crti_word<const crt_tensor_t *> {
    static constexpr uint64_t value = CRTI_DEF_WORD_TENSOR;
};
template <> struct crti_word<crt_ref_t *> { static constexpr uint64_t value = CRTI_DEF_WORD_REF; };
template <> struct crti_word<crt_actor_t *> {
    static constexpr uint64_t value = CRTI_DEF_WORD_ACTOR;
};
template <> struct crti_word<const crt_value_t *> {
    static constexpr uint64_t value = CRTI_DEF_WORD_ANY;
};
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
/* The arguments of a function that makes a call. */
#define CRTI_DEF_GIVEN(...)                                                              \
    CRTI_DEF_FOR(CRTI_DEF_ROOM, __VA_ARGS__)                                             \
    const crt_arg_t crti_given[] = {CRTI_DEF_FOR(CRTI_DEF_GIVE, __VA_ARGS__) CRTI_DEF_NO_ARG}
#define CRTI_DEF_GIVEN_COUNT (sizeof(crti_given) / sizeof(crti_given[0]) - 1)
/* The signature begins behind the first comma. */
#define CRTI_DEF_SIGNATURE(name, ...)                                                    \
    static const char name[] = {CRTI_DEF_FOR(CRTI_DEF_SIGN, __VA_ARGS__) 0, 0};
/* The definition, and the function that adds the definition to the program before main. The
 * linker keeps .init_array, in libraries too. */
#define CRTI_DEFINED(name, task, actor_class, method, destroy, restore)                  \
    static crt_definition_t crti_##name##_definition = {                                 \
        sizeof(crt_definition_t), task, actor_class, method, destroy, restore, NULL};    \
    __attribute__((constructor)) static void crti_##name##_define(void)                  \
    {                                                                                    \
        crt_define(&crti_##name##_definition);                                           \
    }

/* ---------------------------------------------------------------- tasks */

/* CRT_DECLARE_TASK(task, parameters...) declares a task that another file defines, and the
 * functions that submit the task. The parameters are those of CRT_DEFINE_TASK. No semicolon
 * follows.
 *
 *     CRT_DECLARE_TASK(hello, (const char *, name), (int64_t, number)) */
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

/* CRT_DEFINE_TASK(task, parameters...) { body } defines a task. The body has the variables `call`
 * (crt_call_t *) and the parameters, and returns a crt_status_t, usually by crt_return or
 * crt_fail. Pointers in the parameters are borrowed until the body returns.
 *
 *     CRT_DEFINE_TASK(square, (int64_t, number))
 *     {
 *         return crt_return(call, number * number);
 *     }
 *
 * Defines the descriptor and three functions that submit the task; `options` may be NULL:
 *
 *     const crt_task_t square;
 *     crt_ref_t *square_submit(options, number);                        as crt_submit
 *     crt_stream_t *square_submit_stream(options, number);              as crt_submit_stream
 *     void square_submit_returns(refs, returns, options, number);       as crt_submit_returns
 *
 * CRT_DEFINE_TASK_WITH(task, (members), parameters...) { body } sets members of the descriptor,
 * too:
 *
 *     CRT_DEFINE_TASK_WITH(square, (.defaults = CRT_TASK_DEFAULTS(.num_cpus = 2)),
 *                          (int64_t, number)) */
#define CRT_DEFINE_TASK(...) CRTI_DEFINE_TASK(CRTI_HEAD(__VA_ARGS__), __VA_ARGS__)
#define CRTI_DEFINE_TASK(task, ...) CRTI_DEFINE_TASK_(task, (.defaults = NULL), __VA_ARGS__)
#define CRT_DEFINE_TASK_WITH(task, ...) CRTI_DEFINE_TASK_(task, CRTI_HEAD(__VA_ARGS__), __VA_ARGS__)
#define CRTI_DEFINE_TASK_(task, members, ...)                                                     \
    CRTI_DECLARE_TASK_(task, __VA_ARGS__)                                                \
    static crt_status_t crti_##task##_body(                                              \
        crt_call_t *call CRTI_DEF_FOR(CRTI_DEF_PARAMETER, __VA_ARGS__));                 \
    static crt_status_t crti_##task##_run(crt_call_t *call)                              \
    CRTI_DEF_RUN(crti_##task##_body, , __VA_ARGS__)                                      \
    CRTI_DEF_SIGNATURE(crti_##task##_signature, __VA_ARGS__)                             \
    const crt_task_t task = CRT_TASK(.name = #task, .run = crti_##task##_run,            \
                                     .signature = crti_##task##_signature + 1,           \
                                     CRTI_DEF_MEMBERS members);                          \
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

/* CRT_DECLARE_ACTOR(actor, struct, parameters...) declares an actor class that another file
 * defines, and the function that makes an actor. The arguments are those of CRT_DEFINE_ACTOR; the
 * struct may be incomplete. No semicolon follows.
 *
 *     CRT_DECLARE_ACTOR(counter, struct counter, (int64_t, start)) */
#define CRT_DECLARE_ACTOR(actor, ...) CRTI_DECLARE_ACTOR_(actor, __VA_ARGS__)
#define CRTI_DECLARE_ACTOR_(actor, ...)                                                  \
    CRTI_DEF_EXTERN const crt_actor_class_t actor;                                       \
    CRTI_DEF_EXTERN crt_actor_t *actor##_new(                                            \
        const crt_actor_options_t *options CRTI_DEF_FOR(CRTI_DEF_PARAMETER, __VA_ARGS__));

/* CRT_DEFINE_ACTOR(actor, struct, parameters...) { body } defines an actor class, with the struct
 * that holds the state of an actor. The body makes one actor. The body has the variables `self`
 * (a pointer to the struct, which is zero), `call` and the parameters, and returns CRT_OK or an
 * error. After an error every call of the actor fails with that error.
 *
 *     struct counter { int64_t value; };
 *     CRT_DEFINE_ACTOR(counter, struct counter, (int64_t, start))
 *     {
 *         self->value = start;
 *         return CRT_OK;
 *     }
 *
 * Defines the class and a function that makes an actor; `options` may be NULL:
 *
 *     const crt_actor_class_t counter;
 *     crt_actor_t *counter_new(options, start);       as crt_actor_new
 *
 * CRT_DEFINE_METHOD, CRT_DEFINE_DESTROY and CRT_DEFINE_RESTORE of the class follow in the file of
 * this definition. CRT_DEFINE_ACTOR_WITH(actor, (members), type, parameters...) { body } sets
 * members of the descriptor, too:
 *
 *     CRT_DEFINE_ACTOR_WITH(counter, (.http = true), struct counter, (int64_t, start)) */
#define CRT_DEFINE_ACTOR(actor, ...)                                                     \
    CRTI_DEFINE_ACTOR_(actor, (.defaults = NULL), CRTI_HEAD(__VA_ARGS__), __VA_ARGS__)
#define CRT_DEFINE_ACTOR_WITH(actor, members, ...)                                       \
    CRTI_DEFINE_ACTOR_(actor, members, CRTI_HEAD(__VA_ARGS__), __VA_ARGS__)
#define CRTI_DEFINE_ACTOR_(actor, members, type, ...)                                    \
    CRTI_DEFINE_ACTOR__(actor, members, type, __VA_ARGS__)
#define CRTI_DEFINE_ACTOR__(actor, members, type, ...)                                             \
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
                        .signature = crti_##actor##_signature + 1,                       \
                        CRTI_DEF_MEMBERS members);                                       \
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

/* CRT_DEFINE_DESTROY(actor) { body } defines the function that runs when an actor ends in an
 * orderly way, not when its process dies. The body has the variable `self` and returns nothing.
 *
 *     CRT_DEFINE_DESTROY(counter)
 *     {
 *         free(self->text);
 *     } */
#define CRT_DEFINE_DESTROY(actor)                                                        \
    static void crti_##actor##_end_body(crti_##actor##_self *self);                      \
    static void crti_##actor##_destroy(void *crti_self)                                  \
    {                                                                                    \
        crti_##actor##_end_body((crti_##actor##_self *)crti_self);                       \
    }                                                                                    \
    CRTI_DEFINED(actor##_destroy, NULL, &actor, NULL, crti_##actor##_destroy, NULL)      \
    static void crti_##actor##_end_body(crti_##actor##_self *self)

/* CRT_DEFINE_RESTORE(actor) { body } defines the function that restores the state of an actor
 * after a restart. The body runs in the process that replaces an earlier process of the actor,
 * after the body of CRT_DEFINE_ACTOR, if crt_actor_save has kept a state. The body has the
 * variables `self`, `state` (const void *) and `size` (bytes of the state), and returns CRT_OK or
 * an error. An error ends the actor.
 *
 *     CRT_DEFINE_RESTORE(counter)
 *     {
 *         if (size != sizeof(self->value))
 *             return CRT_ERR_CORRUPT;
 *         memcpy(&self->value, state, size);
 *         return CRT_OK;
 *     } */
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

/* CRT_DECLARE_METHOD(actor, method, parameters...) declares a method that another file defines, and
 * the functions that call the method. The arguments are those of CRT_DEFINE_METHOD. No semicolon
 * follows.
 *
 *     CRT_DECLARE_METHOD(counter, add, (int64_t, amount))
 */
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

/* CRT_DEFINE_METHOD(actor, method, parameters...) { body } defines a method of an actor. The body
 * has the variables `self` (the struct of the actor), `call` and the parameters, and returns a
 * crt_status_t, usually by crt_return or crt_fail. Pointers in the parameters are borrowed until
 * the body returns.
 *
 *     CRT_DEFINE_METHOD(counter, add, (int64_t, amount))
 *     {
 *         return crt_return(call, self->value += amount);
 *     }
 *
 * Defines the descriptor, named actor_method, and four functions that call the method; `options`
 * may be NULL:
 *
 *     const crt_method_t counter_add;
 *     crt_ref_t *counter_add_call(actor, options, amount);                    as crt_call_with
 *     crt_status_t counter_add_tell(actor, amount);                           as crt_tell
 *     crt_stream_t *counter_add_call_stream(actor, options, amount);          as crt_call_stream
 *     void counter_add_call_returns(refs, returns, actor, options, amount);   as crt_call_returns
 *
 * CRT_DEFINE_METHOD_WITH(actor, method, (members), parameters...) { body } sets members of the
 * descriptor, too:
 *
 *     CRT_DEFINE_METHOD_WITH(counter, add, (.defaults = CRT_CALL_DEFAULTS(.limit_ms = 100)),
 *                            (int64_t, amount))
 */
#define CRT_DEFINE_METHOD(actor, ...)                                                    \
    CRTI_DEFINE_METHOD(actor, CRTI_HEAD(__VA_ARGS__), __VA_ARGS__)
#define CRTI_DEFINE_METHOD(actor, method, ...)                                           \
    CRTI_DEFINE_METHOD_(actor, method, (.defaults = NULL), __VA_ARGS__)
#define CRT_DEFINE_METHOD_WITH(actor, method, ...)                                       \
    CRTI_DEFINE_METHOD_(actor, method, CRTI_HEAD(__VA_ARGS__), __VA_ARGS__)
#define CRTI_DEFINE_METHOD_(actor, method, members, ...)                                 \
    CRTI_DEFINE_METHOD__(actor, #method, actor##_##method, members, __VA_ARGS__)
#define CRTI_DEFINE_METHOD__(class_, text, method, members, ...)                                  \
    CRTI_DECLARE_METHOD_(method, __VA_ARGS__)                                            \
    static crt_status_t crti_##method##_body(                                            \
        crti_##class_##_self *self,                                                      \
        crt_call_t *call CRTI_DEF_FOR(CRTI_DEF_PARAMETER, __VA_ARGS__));                 \
    static crt_status_t crti_##method##_run(void *crti_self, crt_call_t *call)           \
    CRTI_DEF_RUN(crti_##method##_body, CRTI_DEF_SELF(class_), __VA_ARGS__)               \
    CRTI_DEF_SIGNATURE(crti_##method##_signature, __VA_ARGS__)                           \
    const crt_method_t method = CRT_METHOD(.name = text, .run = crti_##method##_run,     \
                                           .signature = crti_##method##_signature + 1,   \
                                           CRTI_DEF_MEMBERS members);                    \
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

/* CRT_MAIN(driver, options...) defines main, which calls crt_main with the function `int
 * driver(int argc, char **argv)`. The options are members of crt_options_t by name; without
 * options crt_main gets NULL. No semicolon follows.
 *
 *     CRT_MAIN(driver, .num_cpus = 2) */
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
