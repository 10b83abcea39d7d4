/* SPDX-License-Identifier: Apache-2.0 */
/* The argument macros of crt.h: values of many kinds in one call, checked by the compiler.
 *
 *     crt_call(actor, &method, 1, 2.5, "text", &tensor, ref)
 *     crt_tell(actor, &method, ...)        crt_submit(&task, options, ...)
 *     crt_actor_new(&class, options, ...)  crt_args(call, &a, &b)
 *     crt_arg_at(call, index, &x)          crt_return(call, x)         crt_yield(call, x)
 *     crt_submit_stream(&task, options, ...)    crt_call_stream(actor, &method, options, ...)
 *     crt_put(x)   crt_get(ref, &x)        crt_get_for(ref, wait_ms, &x)
 *
 * Memory that crt_get and crt_args give by a pointer is borrowed and read-only. crt_get_v says how
 * to copy the memory.
 *
 * C chooses by _Generic, C++ by overloads. A call has at most 16 arguments in C, which a static
 * assertion checks. The functions that end in _v take more.
 * Included by crt.h.
 */
#ifndef CRT_ARGUMENTS_H
#define CRT_ARGUMENTS_H

#include "crt.h"
#include "crt_stream.h"

/* clang-format off */

/* Every macro takes at least one argument in its "...", as C11 requires: the head, and a tail of
 * 0 to 16 arguments. */
#define CRTI_HEAD(...)       CRTI_HEAD_(__VA_ARGS__, 0)
#define CRTI_HEAD_(head, ...) head
/* 1 to 17, or MANY up to 64. */
#define CRTI_COUNT(...)                                                                   \
    CRTI_COUNT_(__VA_ARGS__, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY,  \
               MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY,   \
               MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY,   \
               MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY,   \
               MANY, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define CRTI_COUNT_(a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15,     \
                   a16, a17, a18, a19, a20, a21, a22, a23, a24, a25, a26, a27, a28, a29, \
                   a30, a31, a32, a33, a34, a35, a36, a37, a38, a39, a40, a41, a42, a43, \
                   a44, a45, a46, a47, a48, a49, a50, a51, a52, a53, a54, a55, a56, a57, \
                   a58, a59, a60, a61, a62, a63, a64, count, ...) count
#define CRTI_PASTE(a, b)  CRTI_PASTE_(a, b)
#define CRTI_PASTE_(a, b) a##b

#ifndef __cplusplus

/* C23's nullptr, where the compiler has it. */
#if __STDC_VERSION__ >= 202311L
#define CRTI_NULLPTR(F) typeof(nullptr): F,
#else
#define CRTI_NULLPTR(F)
#endif

#define CRT_ARG(x)                                                                       \
    _Generic((x),                                                                        \
        bool: crt_arg_bool,                                                              \
        char: crt_arg_int,                                                               \
        signed char: crt_arg_int,                                                        \
        short: crt_arg_int,                                                              \
        int: crt_arg_int,                                                                \
        long: crt_arg_int,                                                               \
        long long: crt_arg_int,                                                          \
        unsigned char: crt_arg_unsigned,                                                 \
        unsigned short: crt_arg_unsigned,                                                \
        unsigned: crt_arg_unsigned,                                                      \
        unsigned long: crt_arg_unsigned,                                                 \
        unsigned long long: crt_arg_unsigned,                                            \
        float: crt_arg_float,                                                            \
        double: crt_arg_float,                                                           \
        char *: crt_arg_string,                                                          \
        const char *: crt_arg_string,                                                    \
        crt_bytes_t: crt_arg_bytes,                                                      \
        crt_tensor_t *: crt_arg_tensor,                                                  \
        const crt_tensor_t *: crt_arg_tensor,                                            \
        crt_ref_t *: crt_arg_ref,                                                        \
        const crt_ref_t *: crt_arg_ref,                                                  \
        crt_actor_t *: crt_arg_actor,                                                    \
        crt_object_t *: crt_arg_object,                                                  \
        crt_value_t *: crt_arg_value,                                                    \
        const crt_value_t *: crt_arg_value,                                              \
        CRTI_NULLPTR(crt_arg_none)                                                       \
        void *: crt_arg_none,                                                            \
        crt_arg_t: crt_arg_self)(x)
#define CRTI_ARG_AT(x) ((const crt_arg_t[]){CRT_ARG(x)})

#define CRTI_OUT_KIND(p)                                                                  \
    _Generic((p),                                                                        \
        bool *: CRT_OUT_BOOL,                                                            \
        signed char *: CRT_OUT_INT8,                                                     \
        short *: CRT_OUT_INT16,                                                          \
        int *: CRT_OUT_INT32,                                                            \
        long *: CRT_OUT_INT64,                                                           \
        long long *: CRT_OUT_INT64,                                                      \
        unsigned char *: CRT_OUT_UINT8,                                                  \
        unsigned short *: CRT_OUT_UINT16,                                                \
        unsigned *: CRT_OUT_UINT32,                                                      \
        unsigned long *: CRT_OUT_UINT64,                                                 \
        unsigned long long *: CRT_OUT_UINT64,                                            \
        float *: CRT_OUT_FLOAT,                                                          \
        double *: CRT_OUT_DOUBLE,                                                        \
        const char **: CRT_OUT_STRING,                                                   \
        crt_bytes_t *: CRT_OUT_BYTES,                                                    \
        const crt_tensor_t **: CRT_OUT_TENSOR,                                           \
        crt_ref_t **: CRT_OUT_REF,                                                       \
        crt_actor_t **: CRT_OUT_ACTOR,                                                   \
        const crt_value_t **: CRT_OUT_VALUE,                                             \
        char **: (struct crti_text_is_read_into_a_const_char_pointer){0},                \
        CRTI_NULLPTR(CRT_OUT_NONE)                                                       \
        void *: CRT_OUT_NONE)
/* The name of this struct is the error text of the compiler when a program reads text into a char
 * *. Text is read-only. */
struct crti_text_is_read_into_a_const_char_pointer {
    int none;
};
#define CRT_OUT(p) ((crt_out_t){CRTI_OUT_KIND(p), (p)})

#define CRTI_EACH_2(F, z, a)       F(a)
#define CRTI_EACH_3(F, z, a, ...)  F(a), CRTI_EACH_2(F, z, __VA_ARGS__)
#define CRTI_EACH_4(F, z, a, ...)  F(a), CRTI_EACH_3(F, z, __VA_ARGS__)
#define CRTI_EACH_5(F, z, a, ...)  F(a), CRTI_EACH_4(F, z, __VA_ARGS__)
#define CRTI_EACH_6(F, z, a, ...)  F(a), CRTI_EACH_5(F, z, __VA_ARGS__)
#define CRTI_EACH_7(F, z, a, ...)  F(a), CRTI_EACH_6(F, z, __VA_ARGS__)
#define CRTI_EACH_8(F, z, a, ...)  F(a), CRTI_EACH_7(F, z, __VA_ARGS__)
#define CRTI_EACH_9(F, z, a, ...)  F(a), CRTI_EACH_8(F, z, __VA_ARGS__)
#define CRTI_EACH_10(F, z, a, ...) F(a), CRTI_EACH_9(F, z, __VA_ARGS__)
#define CRTI_EACH_11(F, z, a, ...) F(a), CRTI_EACH_10(F, z, __VA_ARGS__)
#define CRTI_EACH_12(F, z, a, ...) F(a), CRTI_EACH_11(F, z, __VA_ARGS__)
#define CRTI_EACH_13(F, z, a, ...) F(a), CRTI_EACH_12(F, z, __VA_ARGS__)
#define CRTI_EACH_14(F, z, a, ...) F(a), CRTI_EACH_13(F, z, __VA_ARGS__)
#define CRTI_EACH_15(F, z, a, ...) F(a), CRTI_EACH_14(F, z, __VA_ARGS__)
#define CRTI_EACH_16(F, z, a, ...) F(a), CRTI_EACH_15(F, z, __VA_ARGS__)
#define CRTI_EACH_17(F, z, a, ...) F(a), CRTI_EACH_16(F, z, __VA_ARGS__)

/* "array, count" of the arguments after the head. F makes one element of type T. */
#define CRTI_TAIL(T, F, ...) CRTI_PASTE(CRTI_TAIL_, CRTI_COUNT(__VA_ARGS__))(T, F, __VA_ARGS__)
#define CRTI_TAIL_1(T, F, z) NULL, 0
#define CRTI_TAIL_N(T, F, N, ...)                                                         \
    (const T[]){CRTI_PASTE(CRTI_EACH_, N)(F, __VA_ARGS__)}, (N)-1
#define CRTI_TAIL_2(T, F, ...)  CRTI_TAIL_N(T, F, 2, __VA_ARGS__)
#define CRTI_TAIL_3(T, F, ...)  CRTI_TAIL_N(T, F, 3, __VA_ARGS__)
#define CRTI_TAIL_4(T, F, ...)  CRTI_TAIL_N(T, F, 4, __VA_ARGS__)
#define CRTI_TAIL_5(T, F, ...)  CRTI_TAIL_N(T, F, 5, __VA_ARGS__)
#define CRTI_TAIL_6(T, F, ...)  CRTI_TAIL_N(T, F, 6, __VA_ARGS__)
#define CRTI_TAIL_7(T, F, ...)  CRTI_TAIL_N(T, F, 7, __VA_ARGS__)
#define CRTI_TAIL_8(T, F, ...)  CRTI_TAIL_N(T, F, 8, __VA_ARGS__)
#define CRTI_TAIL_9(T, F, ...)  CRTI_TAIL_N(T, F, 9, __VA_ARGS__)
#define CRTI_TAIL_10(T, F, ...) CRTI_TAIL_N(T, F, 10, __VA_ARGS__)
#define CRTI_TAIL_11(T, F, ...) CRTI_TAIL_N(T, F, 11, __VA_ARGS__)
#define CRTI_TAIL_12(T, F, ...) CRTI_TAIL_N(T, F, 12, __VA_ARGS__)
#define CRTI_TAIL_13(T, F, ...) CRTI_TAIL_N(T, F, 13, __VA_ARGS__)
#define CRTI_TAIL_14(T, F, ...) CRTI_TAIL_N(T, F, 14, __VA_ARGS__)
#define CRTI_TAIL_15(T, F, ...) CRTI_TAIL_N(T, F, 15, __VA_ARGS__)
#define CRTI_TAIL_16(T, F, ...) CRTI_TAIL_N(T, F, 16, __VA_ARGS__)
#define CRTI_TAIL_17(T, F, ...) CRTI_TAIL_N(T, F, 17, __VA_ARGS__)
#define CRTI_TAIL_MANY(T, ...)                                                            \
    (const T *)(0 * sizeof(struct {                                                      \
        int none;                                                                        \
        _Static_assert(0, "at most 16 arguments: give several refs as one with "         \
                          "crt_arg_each, values in a crt_list, or call the function that " \
                          "ends in _v with an array");                                   \
    })), 0
#define CRTI_ARGUMENTS(...) CRTI_TAIL(crt_arg_t, CRT_ARG, __VA_ARGS__)
#define CRTI_OUTS(...)      CRTI_TAIL(crt_out_t, CRT_OUT, __VA_ARGS__)

/* Options and methods, checked by their type. When a call leaves the options out, so that an
 * argument takes their place, the compiler reports an error. */
static inline const crt_task_options_t *crti_task_options(const crt_task_options_t *options)
{
    return options;
}
static inline const crt_call_options_t *crti_call_options(const crt_call_options_t *options)
{
    return options;
}
static inline const crt_actor_options_t *crti_actor_options(const crt_actor_options_t *options)
{
    return options;
}
static inline const crt_method_t *crti_method(const crt_method_t *method)
{
    return method;
}
#define CRTI_OF(type, F, x)                                                              \
    _Generic((x), type *: F, const type *: F, CRTI_NULLPTR(F) void *: F)(x)
#define CRTI_TASK_OPTIONS(x)  CRTI_OF(crt_task_options_t, crti_task_options, x)
#define CRTI_CALL_OPTIONS(x)  CRTI_OF(crt_call_options_t, crti_call_options, x)
#define CRTI_ACTOR_OPTIONS(x) CRTI_OF(crt_actor_options_t, crti_actor_options, x)
#define CRTI_METHOD(x)        CRTI_OF(crt_method_t, crti_method, x)

#define crt_call(actor, ...)                                                             \
    CRTI_HERE(crt_call_v((actor), CRTI_METHOD(CRTI_HEAD(__VA_ARGS__)), NULL,             \
        CRTI_ARGUMENTS(__VA_ARGS__)))
#define crt_call_with(actor, method, ...)                                                \
    CRTI_HERE(crt_call_v((actor), CRTI_METHOD(method),                                   \
        CRTI_CALL_OPTIONS(CRTI_HEAD(__VA_ARGS__)), CRTI_ARGUMENTS(__VA_ARGS__)))
#define crt_tell(actor, ...)                                                             \
    crt_tell_v((actor), CRTI_METHOD(CRTI_HEAD(__VA_ARGS__)),                             \
        CRTI_ARGUMENTS(__VA_ARGS__))
#define crt_submit(task, ...)                                                            \
    CRTI_HERE(crt_submit_v((task), CRTI_TASK_OPTIONS(CRTI_HEAD(__VA_ARGS__)),            \
        CRTI_ARGUMENTS(__VA_ARGS__)))
#define crt_call_returns(refs, count, actor, method, ...)                                \
    crt_call_returns_v((refs), (count), (actor), CRTI_METHOD(method),                    \
        CRTI_CALL_OPTIONS(CRTI_HEAD(__VA_ARGS__)), CRTI_ARGUMENTS(__VA_ARGS__))
#define crt_submit_returns(refs, count, task, ...)                                       \
    crt_submit_returns_v((refs), (count), (task),                                        \
        CRTI_TASK_OPTIONS(CRTI_HEAD(__VA_ARGS__)), CRTI_ARGUMENTS(__VA_ARGS__))
#define crt_submit_stream(task, ...)                                                     \
    crt_submit_stream_v((task), CRTI_TASK_OPTIONS(CRTI_HEAD(__VA_ARGS__)),               \
        CRTI_ARGUMENTS(__VA_ARGS__))
#define crt_call_stream(actor, method, ...)                                              \
    crt_call_stream_v((actor), CRTI_METHOD(method),                                      \
        CRTI_CALL_OPTIONS(CRTI_HEAD(__VA_ARGS__)), CRTI_ARGUMENTS(__VA_ARGS__))
#define crt_actor_new(actor_class, ...)                                                  \
    crt_actor_new_v((actor_class), CRTI_ACTOR_OPTIONS(CRTI_HEAD(__VA_ARGS__)),           \
        CRTI_ARGUMENTS(__VA_ARGS__))
#define crt_args(...)                    crt_args_v(CRTI_HEAD(__VA_ARGS__), CRTI_OUTS(__VA_ARGS__))
#define crt_arg_at(call, index, p)       crt_arg_at_v((call), (index), CRT_OUT(p))
#define crt_return(call, x)              crt_return_v((call), CRTI_ARG_AT(x))
#define crt_return_at(call, index, x)    crt_return_at_v((call), (index), CRTI_ARG_AT(x))
#define crt_yield(call, x)               crt_yield_v((call), CRTI_ARG_AT(x))
#define crt_put(x)                       CRTI_HERE(crt_put_v(CRTI_ARG_AT(x)))
#define crt_put_with(x, options)         CRTI_HERE(crt_put_with_v(CRTI_ARG_AT(x), options))
#define crt_get(ref, p)                  crt_get_v((ref), -1, CRT_OUT(p))
#define crt_get_for(ref, wait_ms, p)  crt_get_v((ref), (wait_ms), CRT_OUT(p))
#define crt_value_read(value, p)         crt_value_read_v((value), CRT_OUT(p))

#else /* __cplusplus */

#include <cstddef>
#include <type_traits>

/* Only a bool is a bool: no pointer turns into `true`. */
template <class CrtX, std::enable_if_t<std::is_same_v<CrtX, bool>, int> = 0>
inline crt_arg_t CRT_ARG(CrtX x) { return crt_arg_bool(x); }
inline crt_arg_t CRT_ARG(int x) { return crt_arg_int(x); }
inline crt_arg_t CRT_ARG(long x) { return crt_arg_int(x); }
inline crt_arg_t CRT_ARG(long long x) { return crt_arg_int(x); }
inline crt_arg_t CRT_ARG(unsigned x) { return crt_arg_unsigned(x); }
inline crt_arg_t CRT_ARG(unsigned long x) { return crt_arg_unsigned(x); }
inline crt_arg_t CRT_ARG(unsigned long long x) { return crt_arg_unsigned(x); }
inline crt_arg_t CRT_ARG(double x) { return crt_arg_float(x); }
inline crt_arg_t CRT_ARG(char *x) { return crt_arg_string(x); }
inline crt_arg_t CRT_ARG(const char *x) { return crt_arg_string(x); }
inline crt_arg_t CRT_ARG(crt_bytes_t x) { return crt_arg_bytes(x); }
inline crt_arg_t CRT_ARG(crt_tensor_t *x) { return crt_arg_tensor(x); }
inline crt_arg_t CRT_ARG(const crt_tensor_t *x) { return crt_arg_tensor(x); }
inline crt_arg_t CRT_ARG(crt_ref_t *x) { return crt_arg_ref(x); }
inline crt_arg_t CRT_ARG(const crt_ref_t *x) { return crt_arg_ref(x); }
inline crt_arg_t CRT_ARG(crt_actor_t *x) { return crt_arg_actor(x); }
inline crt_arg_t CRT_ARG(crt_object_t *x) { return crt_arg_object(x); }
inline crt_arg_t CRT_ARG(crt_value_t *x) { return crt_arg_value(x); }
inline crt_arg_t CRT_ARG(const crt_value_t *x) { return crt_arg_value(x); }
inline crt_arg_t CRT_ARG(crt_arg_t x) { return x; }
inline crt_arg_t CRT_ARG(std::nullptr_t) { return crt_arg_none(nullptr); }
/* No other pointer, and no object of a class, is an argument: crt.hpp takes std::string and
 * others. */
template <class CrtX> crt_arg_t CRT_ARG(CrtX *) = delete;
template <class CrtX, std::enable_if_t<std::is_class_v<CrtX>, int> = 0>
crt_arg_t CRT_ARG(const CrtX &) = delete;

inline crt_out_t CRT_OUT(bool *p) { return {CRT_OUT_BOOL, p}; }
inline crt_out_t CRT_OUT(signed char *p) { return {CRT_OUT_INT8, p}; }
inline crt_out_t CRT_OUT(short *p) { return {CRT_OUT_INT16, p}; }
inline crt_out_t CRT_OUT(int *p) { return {CRT_OUT_INT32, p}; }
inline crt_out_t CRT_OUT(long *p) { return {CRT_OUT_INT64, p}; }
inline crt_out_t CRT_OUT(long long *p) { return {CRT_OUT_INT64, p}; }
inline crt_out_t CRT_OUT(unsigned char *p) { return {CRT_OUT_UINT8, p}; }
inline crt_out_t CRT_OUT(unsigned short *p) { return {CRT_OUT_UINT16, p}; }
inline crt_out_t CRT_OUT(unsigned *p) { return {CRT_OUT_UINT32, p}; }
inline crt_out_t CRT_OUT(unsigned long *p) { return {CRT_OUT_UINT64, p}; }
inline crt_out_t CRT_OUT(unsigned long long *p) { return {CRT_OUT_UINT64, p}; }
inline crt_out_t CRT_OUT(float *p) { return {CRT_OUT_FLOAT, p}; }
inline crt_out_t CRT_OUT(double *p) { return {CRT_OUT_DOUBLE, p}; }
inline crt_out_t CRT_OUT(const char **p) { return {CRT_OUT_STRING, p}; }
inline crt_out_t CRT_OUT(crt_bytes_t *p) { return {CRT_OUT_BYTES, p}; }
inline crt_out_t CRT_OUT(const crt_tensor_t **p) { return {CRT_OUT_TENSOR, p}; }
inline crt_out_t CRT_OUT(crt_ref_t **p) { return {CRT_OUT_REF, p}; }
inline crt_out_t CRT_OUT(crt_actor_t **p) { return {CRT_OUT_ACTOR, p}; }
inline crt_out_t CRT_OUT(const crt_value_t **p) { return {CRT_OUT_VALUE, p}; }
inline crt_out_t CRT_OUT(std::nullptr_t) { return {CRT_OUT_NONE, nullptr}; }
/* Text is read-only: a program reads text into a const char *. */
crt_out_t CRT_OUT(char **) = delete;
template <class CrtX> crt_out_t CRT_OUT(CrtX *) = delete;

template <class... CrtA>
crt_ref_t *crt_call(crt_actor_t *actor, const crt_method_t *method, CrtA... args)
{
    const crt_arg_t crti_list[] = {CRT_ARG(args)..., crt_arg_none(nullptr)};
    return crt_call_v(actor, method, nullptr, crti_list, sizeof...(args));
}
template <class... CrtA>
crt_ref_t *crt_call_with(crt_actor_t *actor, const crt_method_t *method,
                         const crt_call_options_t *options, CrtA... args)
{
    const crt_arg_t crti_list[] = {CRT_ARG(args)..., crt_arg_none(nullptr)};
    return crt_call_v(actor, method, options, crti_list, sizeof...(args));
}
template <class... CrtA>
crt_status_t crt_tell(crt_actor_t *actor, const crt_method_t *method, CrtA... args)
{
    const crt_arg_t crti_list[] = {CRT_ARG(args)..., crt_arg_none(nullptr)};
    return crt_tell_v(actor, method, crti_list, sizeof...(args));
}
template <class... CrtA>
crt_ref_t *crt_submit(const crt_task_t *task, const crt_task_options_t *options,
                      CrtA... args)
{
    const crt_arg_t crti_list[] = {CRT_ARG(args)..., crt_arg_none(nullptr)};
    return crt_submit_v(task, options, crti_list, sizeof...(args));
}
template <class... CrtA>
void crt_call_returns(crt_ref_t **refs, std::size_t returns, crt_actor_t *actor,
                      const crt_method_t *method, const crt_call_options_t *options,
                      CrtA... args)
{
    const crt_arg_t crti_list[] = {CRT_ARG(args)..., crt_arg_none(nullptr)};
    crt_call_returns_v(refs, returns, actor, method, options, crti_list, sizeof...(args));
}
template <class... CrtA>
void crt_submit_returns(crt_ref_t **refs, std::size_t returns, const crt_task_t *task,
                        const crt_task_options_t *options, CrtA... args)
{
    const crt_arg_t crti_list[] = {CRT_ARG(args)..., crt_arg_none(nullptr)};
    crt_submit_returns_v(refs, returns, task, options, crti_list, sizeof...(args));
}
template <class... CrtA>
crt_stream_t *crt_submit_stream(const crt_task_t *task, const crt_task_options_t *options,
                                CrtA... args)
{
    const crt_arg_t crti_list[] = {CRT_ARG(args)..., crt_arg_none(nullptr)};
    return crt_submit_stream_v(task, options, crti_list, sizeof...(args));
}
template <class... CrtA>
crt_stream_t *crt_call_stream(crt_actor_t *actor, const crt_method_t *method,
                              const crt_call_options_t *options, CrtA... args)
{
    const crt_arg_t crti_list[] = {CRT_ARG(args)..., crt_arg_none(nullptr)};
    return crt_call_stream_v(actor, method, options, crti_list, sizeof...(args));
}
template <class... CrtA>
crt_actor_t *crt_actor_new(const crt_actor_class_t *actor_class,
                           const crt_actor_options_t *options, CrtA... args)
{
    const crt_arg_t crti_list[] = {CRT_ARG(args)..., crt_arg_none(nullptr)};
    return crt_actor_new_v(actor_class, options, crti_list, sizeof...(args));
}
template <class... CrtP> crt_status_t crt_args(crt_call_t *call, CrtP... pointers)
{
    const crt_out_t crti_outs[] = {CRT_OUT(pointers)..., CRT_OUT(nullptr)};
    return crt_args_v(call, crti_outs, sizeof...(pointers));
}
template <class CrtP>
crt_status_t crt_arg_at(crt_call_t *call, std::size_t index, CrtP pointer)
{
    return crt_arg_at_v(call, index, CRT_OUT(pointer));
}
template <class CrtT> crt_status_t crt_return(crt_call_t *call, CrtT value)
{
    const auto crti_arg = CRT_ARG(value);
    return crt_return_v(call, &crti_arg);
}
template <class CrtT>
crt_status_t crt_return_at(crt_call_t *call, std::size_t index, CrtT value)
{
    const auto crti_arg = CRT_ARG(value);
    return crt_return_at_v(call, index, &crti_arg);
}
template <class CrtT> crt_status_t crt_yield(crt_call_t *call, CrtT value)
{
    const auto crti_arg = CRT_ARG(value);
    return crt_yield_v(call, &crti_arg);
}
template <class CrtT> crt_ref_t *crt_put(CrtT value)
{
    const auto crti_arg = CRT_ARG(value);
    return crt_put_v(&crti_arg);
}
template <class CrtT> crt_ref_t *crt_put_with(CrtT value, const crt_put_options_t *options)
{
    const auto crti_arg = CRT_ARG(value);
    return crt_put_with_v(&crti_arg, options);
}
template <class CrtP> crt_status_t crt_get(crt_ref_t *ref, CrtP pointer)
{
    return crt_get_v(ref, -1, CRT_OUT(pointer));
}
template <class CrtP>
crt_status_t crt_get_for(crt_ref_t *ref, int64_t wait_ms, CrtP pointer)
{
    return crt_get_v(ref, wait_ms, CRT_OUT(pointer));
}
template <class CrtP> crt_status_t crt_value_read(const crt_value_t *value, CrtP pointer)
{
    return crt_value_read_v(value, CRT_OUT(pointer));
}

/* The templates above, which record the line of the program that calls them. */
#define crt_call(...)      CRTI_HERE(crt_call(__VA_ARGS__))
#define crt_call_with(...) CRTI_HERE(crt_call_with(__VA_ARGS__))
#define crt_submit(...)    CRTI_HERE(crt_submit(__VA_ARGS__))
#define crt_put(...)       CRTI_HERE(crt_put(__VA_ARGS__))
#define crt_put_with(...)  CRTI_HERE(crt_put_with(__VA_ARGS__))

#endif

/* A ref made in this line of this file. */
#define CRTI_HERE(ref)                crt_ref_at((ref), __FILE__ ":" CRTI_LINE(__LINE__))
#define CRTI_LINE(line)               CRTI_LINE_(line)
#define CRTI_LINE_(line)              #line
#define crt_object_seal(object_take) CRTI_HERE(crt_object_seal(object_take))

#endif
