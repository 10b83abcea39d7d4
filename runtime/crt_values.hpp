// SPDX-License-Identifier: Apache-2.0
// Errors of crt.hpp, and how values of C++ travel. Included by crt.hpp.
//
// `codec` has a specialisation for each type: the kind of its values, and two functions that make
// an argument of a value (put) and read a value (take). All functions are inline; any thread may
// call them.
#ifndef CRT_VALUES_HPP
#define CRT_VALUES_HPP

#if !defined(__cplusplus) || __cplusplus < 201703L
#    error "crt.hpp needs C++17 or later"
#endif
#ifndef __cpp_exceptions
#    error "crt.hpp needs exceptions; programs without them use crt.h"
#endif

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <forward_list>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>
#if __cplusplus >= 202002L && __has_include(<span>)
#    include <span>
#endif

// Functions of crt.h have the names of structs, which is well in C.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#include "crt_collective.h"
#include "crt_define.h"
#pragma GCC diagnostic pop

namespace crt
{

// ------------------------------------------------------------------ errors

// A failure of crt, or of a call. A task or method may throw this error to fail with a status.
class error : public std::runtime_error
{
  public:
    error(crt_status_t status, const std::string &text) : std::runtime_error(text), number(status)
    {
    }
    // Returns the status, for example CRT_ERR_TIMED_OUT. The text is what().
    crt_status_t status() const noexcept { return number; }

  private:
    crt_status_t number;
};

// Throws crt::error with the detail text of this thread if `status` is an error. For functions of
// crt.h: crt::check(crt_kv_delete("key")). Returns a status that is no error.
inline crt_status_t check(crt_status_t status)
{
    if (status < 0) {
        const char *text = crt_error_detail();
        throw error(status, *text ? text : crt_status_text(status));
    }
    return status;
}

// ------------------------------------------------------------------ views

#ifdef __cpp_lib_span
template <class T> using span = std::span<T>;
#else
// Elements in memory that another object owns: std::span of C++20 in short.
template <class T> class span
{
  public:
    using element_type = T;
    using value_type = std::remove_cv_t<T>;
    using iterator = T *;

    constexpr span() noexcept = default;
    constexpr span(T *first, std::size_t count) noexcept : start(first), length(count) {}
    // Elements of a container or array whose elements lie one after the other.
    template <class Container,
              class = std::enable_if_t<
                  std::is_convertible_v<
                      std::remove_pointer_t<decltype(std::data(std::declval<Container &>()))> (*)[],
                      T (*)[]> &&
                  !std::is_same_v<std::remove_cv_t<std::remove_reference_t<Container>>, span>>>
    constexpr span(Container &&from) noexcept : start(std::data(from)), length(std::size(from))
    {
    }
    constexpr T *data() const noexcept { return start; }
    constexpr std::size_t size() const noexcept { return length; }
    constexpr bool empty() const noexcept { return length == 0; }
    constexpr T &operator[](std::size_t index) const { return start[index]; }
    constexpr iterator begin() const noexcept { return start; }
    constexpr iterator end() const noexcept { return start + length; }

  private:
    T *start = nullptr;
    std::size_t length = 0;
};
#endif

// Bytes that another object owns.
using bytes = span<const std::byte>;

// ------------------------------------------------------------------ structs of the program

// Names a struct whose bytes are sent as they are: numbers, arrays of numbers and structs of
// those, without pointers.
//
//     template <> struct crt::type<point> : crt::plain {};
struct plain {
};

// Names the members of a struct that are sent, in order; at least one.
//
//     template <> struct crt::type<person> : crt::members<&person::name, &person::age> {};
template <auto... Members> struct members {
};

// How values of a struct are sent. Specialise this template for the structs of a program.
template <class T> struct type {
};

// ------------------------------------------------------------------ classes named below

class any_ref;
template <class T> class ref;
class any_actor;
template <class C> class actor;
template <class T> class object;
template <class T> class stream;
class call;
template <class T> class yield;
template <class T> T read(const crt_value_t *value);

namespace detail
{

template <class...> inline constexpr bool never = false;
template <auto> struct constant {
};
template <class...> struct list {
};
template <class T> using bare = std::remove_cv_t<std::remove_reference_t<T>>;

// ------------------------------------------------------------------ names and signatures

// The part of a text of the compiler that names F or a type: "... [with auto F = &space::f]".
constexpr std::string_view name_in(std::string_view text)
{
    constexpr std::string_view before[] = {"F = ", "{anonymous}::", "(anonymous namespace)::"};

    for (std::string_view part : before)
        if (auto at = text.rfind(part); at != std::string_view::npos)
            text.remove_prefix(at + part.size());
    if (text.substr(0, 1) == "&")
        text.remove_prefix(1);
    return text.substr(0, text.size() - 1);
}
constexpr std::string_view last_part(std::string_view name)
{
    auto at = name.rfind("::");

    return at == std::string_view::npos ? name : name.substr(at + 2);
}
template <auto F> constexpr auto function_name() { return name_in(__PRETTY_FUNCTION__); }
template <class F> constexpr auto class_name() { return name_in(__PRETTY_FUNCTION__); }

// Texts of the compiler, joined by ", " and ended by a zero byte.
template <std::size_t Size, class... Texts> constexpr auto joined(Texts... texts)
{
    std::array<char, Size> made{};
    std::size_t at = 0;

    for (std::string_view text : {std::string_view(), std::string_view(texts)...}) {
        if (at > 0)
            made[at++] = ',';
        for (char letter : text)
            made[at++] = letter;
    }
    return made;
}

// ------------------------------------------------------------------ kinds of values

// Kinds of values. Two types of C++ with one kind may stand for each other.
struct none_kind {
};
struct bool_kind {
};
struct int_kind {
};
struct float_kind {
};
struct text_kind {
};
struct bytes_kind {
};
struct any_kind {
};
// T void: of any type.
template <class T> struct tensor_kind {
};
template <class K> struct list_kind {
};
template <class K> struct map_kind {
};
template <class... K> struct tuple_kind {
};
template <class K> struct optional_kind {
};
template <class K> struct ref_kind {
    using value = K;
};
template <class C> struct actor_kind {
};
template <class T> struct struct_kind {
};

template <class From, class To, bool Inside> constexpr bool can_pass();

template <class From, class To> struct widens : std::false_type {
};
template <class T> struct widens<tensor_kind<void>, tensor_kind<T>> : std::true_type {
};
template <class T> struct widens<tensor_kind<T>, tensor_kind<void>> : std::true_type {
};
template <class C> struct widens<actor_kind<C>, actor_kind<void>> : std::true_type {
};
template <class C> struct widens<actor_kind<void>, actor_kind<C>> : std::true_type {
};
template <class A, class B>
struct widens<list_kind<A>, list_kind<B>> : std::bool_constant<can_pass<A, B, true>()> {
};
template <class A, class B>
struct widens<map_kind<A>, map_kind<B>> : std::bool_constant<can_pass<A, B, true>()> {
};
template <class... A, class... B> constexpr bool all_pass(list<A...>, list<B...>)
{
    if constexpr (sizeof...(A) == sizeof...(B))
        return (can_pass<A, B, true>() && ...);
    else
        return false;
}
template <class... A, class... B>
struct widens<tuple_kind<A...>, tuple_kind<B...>>
    : std::bool_constant<all_pass(list<A...>(), list<B...>())> {
};
template <class A, class B>
struct widens<A, optional_kind<B>> : std::bool_constant<can_pass<A, B, true>()> {
};
template <class A, class B>
struct widens<optional_kind<A>, optional_kind<B>> : std::bool_constant<can_pass<A, B, true>()> {
};
template <class B> struct widens<none_kind, optional_kind<B>> : std::true_type {
};

template <class T> inline constexpr bool is_ref_kind = false;
template <class K> inline constexpr bool is_ref_kind<ref_kind<K>> = true;

// Whether a value of the first kind may be given for a parameter of the second. A ref stands for
// its value, but not Inside of a list.
template <class From, class To, bool Inside> constexpr bool can_pass()
{
    if constexpr (std::is_same_v<From, To>)
        return true;
    else if constexpr (is_ref_kind<To> && is_ref_kind<From>)
        return can_pass<typename From::value, typename To::value, true>();
    else if constexpr (is_ref_kind<To>)
        return std::is_same_v<From, any_kind>;
    else if constexpr (is_ref_kind<From> && Inside)
        return std::is_same_v<To, any_kind>;
    else if constexpr (is_ref_kind<From>)
        return can_pass<typename From::value, To, true>();
    else if constexpr (std::is_same_v<From, any_kind> || std::is_same_v<To, any_kind>)
        return true;
    else if constexpr (std::is_same_v<From, int_kind> && std::is_same_v<To, float_kind>)
        return true;
    else
        return widens<From, To>::value;
}

// ------------------------------------------------------------------ values

// Memory that arguments point to until the call was made, and objects that the call takes.
class scratch
{
  public:
    scratch() = default;
    scratch(const scratch &) = delete;
    scratch &operator=(const scratch &) = delete;
    ~scratch()
    {
        for (crt_object_t *&object : objects)
            crt_object_abort(&object);
    }
    // The call was made, and has taken the objects.
    void made() noexcept { objects.clear(); }

    std::forward_list<std::string> texts;
    std::forward_list<crt_tensor_t> tensors;
    std::forward_list<std::vector<crt_arg_t>> items;
    std::forward_list<crt_object_t *> objects;
};

inline std::string_view whole(std::string_view text)
{
    if (text.find('\0') != std::string_view::npos)
        throw error(CRT_ERR_INVALID, "a text with a zero byte in it: send bytes instead");
    return text;
}

// Type of the elements of a tensor; 0 for types that are none.
template <class T> constexpr int dtype_number()
{
    if (std::is_same_v<T, float>)
        return CRT_DTYPE_FLOAT32;
    if (std::is_same_v<T, double>)
        return CRT_DTYPE_FLOAT64;
    if (!std::is_integral_v<T> || std::is_same_v<T, bool> || std::is_same_v<T, char> ||
        std::is_same_v<T, wchar_t> || std::is_same_v<T, char16_t> || std::is_same_v<T, char32_t>)
        return 0;
    switch (sizeof(T)) {
    case 1: return std::is_signed_v<T> ? CRT_DTYPE_INT8 : CRT_DTYPE_UINT8;
    case 2: return std::is_signed_v<T> ? CRT_DTYPE_INT16 : CRT_DTYPE_UINT16;
    case 4: return std::is_signed_v<T> ? CRT_DTYPE_INT32 : CRT_DTYPE_UINT32;
    case 8: return std::is_signed_v<T> ? CRT_DTYPE_INT64 : CRT_DTYPE_UINT64;
    default: return 0;
    }
}
template <class T> inline constexpr bool is_number = dtype_number<T>() != 0;
template <class T> inline constexpr crt_dtype_t dtype = static_cast<crt_dtype_t>(dtype_number<T>());

template <class T> crt_tensor_t tensor_over(const T *data, std::size_t count)
{
    const std::int64_t shape[] = {static_cast<std::int64_t>(count)};

    return crt_tensor_view(dtype<T>, 1, shape, const_cast<T *>(data));
}

// How a type of C++ is sent and received. `raw` is the variable that crt_args and crt_get fill in,
// `word` the kind in a signature; a borrowed value points into the call or ref.
template <class T, class = void> struct codec {
    static_assert(never<T>, "crt: a value of this type is no argument and no result: the types "
                            "are listed at the top of crt.hpp; a struct needs a crt::type");
};

template <class T> inline constexpr bool is_integer = is_number<T> &&std::is_integral_v<T>;

template <class T> struct codec<T, std::enable_if_t<is_integer<T>>> {
    using kind = int_kind;
    using raw = T;
    static constexpr std::string_view word = "int";
    static constexpr bool is_borrowed = false;
    static crt_arg_t put(T value, scratch &)
    {
        if constexpr (std::is_signed_v<T>)
            return crt_arg_int(value);
        else
            return crt_arg_unsigned(value);
    }
    static T take(raw value) { return value; }
};

template <class T> struct codec<T, std::enable_if_t<std::is_enum_v<T>>> {
    using number = codec<std::underlying_type_t<T>>;
    using kind = int_kind;
    using raw = typename number::raw;
    static constexpr std::string_view word = "int";
    static constexpr bool is_borrowed = false;
    static crt_arg_t put(T value, scratch &room)
    {
        return number::put(static_cast<std::underlying_type_t<T>>(value), room);
    }
    static T take(raw value) { return static_cast<T>(value); }
};

template <> struct codec<bool> {
    using kind = bool_kind;
    using raw = bool;
    static constexpr std::string_view word = "bool";
    static constexpr bool is_borrowed = false;
    static crt_arg_t put(bool value, scratch &) { return crt_arg_bool(value); }
    static bool take(raw value) { return value; }
};

template <class T>
struct codec<T, std::enable_if_t<std::is_same_v<T, float> || std::is_same_v<T, double>>> {
    using kind = float_kind;
    using raw = T;
    static constexpr std::string_view word = "float";
    static constexpr bool is_borrowed = false;
    static crt_arg_t put(T value, scratch &) { return crt_arg_float(static_cast<double>(value)); }
    static T take(raw value) { return value; }
};

struct text_codec {
    using kind = text_kind;
    using raw = const char *;
    static constexpr std::string_view word = "string";
};
template <> struct codec<std::string> : text_codec {
    static constexpr bool is_borrowed = false;
    static crt_arg_t put(const std::string &text, scratch &)
    {
        return crt_arg_string(whole(text).data());
    }
    static std::string take(raw text) { return text; }
};
template <> struct codec<std::string_view> : text_codec {
    static constexpr bool is_borrowed = true;
    static crt_arg_t put(std::string_view text, scratch &room)
    {
        return crt_arg_string(room.texts.emplace_front(whole(text)).c_str());
    }
    static std::string_view take(raw text) { return text; }
};
template <> struct codec<const char *> : text_codec {
    static constexpr bool is_borrowed = true;
    static crt_arg_t put(const char *text, scratch &) { return crt_arg_string(text); }
    static const char *take(raw text) { return text; }
};
template <> struct codec<char *> : codec<const char *> {
};

struct bytes_codec {
    using kind = bytes_kind;
    using raw = crt_bytes_t;
    static constexpr std::string_view word = "bytes";
};
template <> struct codec<crt_bytes_t> : bytes_codec {
    static constexpr bool is_borrowed = true;
    static crt_arg_t put(crt_bytes_t value, scratch &) { return crt_arg_bytes(value); }
    static crt_bytes_t take(raw value) { return value; }
};
template <class T>
struct codec<span<T>, std::enable_if_t<std::is_same_v<std::remove_const_t<T>, std::byte>>>
    : bytes_codec {
    static constexpr bool is_borrowed = true;
    static crt_arg_t put(span<T> value, scratch &)
    {
        return crt_arg_bytes(crt_bytes(value.data(), value.size()));
    }
    static span<T> take(raw value)
    {
        static_assert(std::is_const_v<T>, "crt: received bytes are read-only: use crt::bytes");
        return {static_cast<const std::byte *>(value.data), value.size};
    }
};
template <> struct codec<std::vector<std::byte>> : bytes_codec {
    static constexpr bool is_borrowed = false;
    static crt_arg_t put(const std::vector<std::byte> &value, scratch &)
    {
        return crt_arg_bytes(crt_bytes(value.data(), value.size()));
    }
    static std::vector<std::byte> take(raw value)
    {
        const std::byte *first = static_cast<const std::byte *>(value.data);

        return std::vector<std::byte>(first, first + value.size);
    }
};

template <class T> struct tensor_codec {
    using kind = tensor_kind<T>;
    using raw = const crt_tensor_t *;
    static constexpr std::string_view word = "tensor";

    static crt_arg_t put_elements(const T *data, std::size_t count, scratch &room)
    {
        return crt_arg_tensor(&room.tensors.emplace_front(tensor_over(data, count)));
    }
    static span<const T> elements(raw tensor)
    {
        if (tensor->dtype != dtype<T>)
            throw error(CRT_ERR_INVALID, std::string("the tensor is of ") +
                                             crt_dtype_name(tensor->dtype) + ", " +
                                             crt_dtype_name(dtype<T>) + " is wanted");
        if (tensor->device.type != CRT_DEVICE_HOST || !crt_tensor_is_dense(tensor))
            throw error(CRT_ERR_INVALID, "the tensor is not dense in main memory");
        return {static_cast<const T *>(tensor->data), crt_tensor_count(tensor)};
    }
};
template <class T>
struct codec<span<T>, std::enable_if_t<is_number<std::remove_const_t<T>>>>
    : tensor_codec<std::remove_const_t<T>> {
    using base = tensor_codec<std::remove_const_t<T>>;
    static constexpr bool is_borrowed = true;
    static crt_arg_t put(span<T> value, scratch &room)
    {
        return base::put_elements(value.data(), value.size(), room);
    }
    static span<T> take(typename base::raw tensor)
    {
        static_assert(std::is_const_v<T>, "crt: received values are read-only: use crt::span of "
                                          "const elements, or std::vector for a copy");
        return base::elements(tensor);
    }
};
template <class T> struct codec<std::vector<T>, std::enable_if_t<is_number<T>>> : tensor_codec<T> {
    static constexpr bool is_borrowed = false;
    static crt_arg_t put(const std::vector<T> &value, scratch &room)
    {
        return tensor_codec<T>::put_elements(value.data(), value.size(), room);
    }
    static std::vector<T> take(typename tensor_codec<T>::raw tensor)
    {
        span<const T> from = tensor_codec<T>::elements(tensor);

        return std::vector<T>(from.begin(), from.end());
    }
};
template <class T, std::size_t Size>
struct codec<std::array<T, Size>, std::enable_if_t<is_number<T>>> : tensor_codec<T> {
    static constexpr bool is_borrowed = false;
    static crt_arg_t put(const std::array<T, Size> &value, scratch &room)
    {
        return tensor_codec<T>::put_elements(value.data(), Size, room);
    }
    static std::array<T, Size> take(typename tensor_codec<T>::raw tensor)
    {
        span<const T> from = tensor_codec<T>::elements(tensor);
        std::array<T, Size> made{};

        if (from.size() != Size)
            throw error(CRT_ERR_INVALID, "the tensor has " + std::to_string(from.size()) +
                                             " elements, " + std::to_string(Size) + " are wanted");
        std::copy(from.begin(), from.end(), made.begin());
        return made;
    }
};
template <> struct codec<const crt_tensor_t *> {
    using kind = tensor_kind<void>;
    using raw = const crt_tensor_t *;
    static constexpr std::string_view word = "tensor";
    static constexpr bool is_borrowed = true;
    static crt_arg_t put(const crt_tensor_t *value, scratch &) { return crt_arg_tensor(value); }
    static const crt_tensor_t *take(raw value) { return value; }
};
template <> struct codec<crt_tensor_t *> : codec<const crt_tensor_t *> {
};

// A value of any kind.
struct any_codec {
    using raw = const crt_value_t *;
    static constexpr std::string_view word = "any";
};
template <> struct codec<const crt_value_t *> : any_codec {
    using kind = any_kind;
    static constexpr bool is_borrowed = true;
    static crt_arg_t put(const crt_value_t *value, scratch &) { return crt_arg_value(value); }
    static const crt_value_t *take(raw value) { return value; }
};
template <> struct codec<std::nullptr_t> : any_codec {
    using kind = none_kind;
    static crt_arg_t put(std::nullptr_t, scratch &) { return crt_arg_none(nullptr); }
};
template <class T> struct codec<std::optional<T>> : any_codec {
    using kind = optional_kind<typename codec<T>::kind>;
    static constexpr bool is_borrowed = codec<T>::is_borrowed;
    static crt_arg_t put(const std::optional<T> &value, scratch &room)
    {
        return value ? codec<T>::put(*value, room) : crt_arg_none(nullptr);
    }
    static std::optional<T> take(raw value)
    {
        if (crt_value_kind(value) == CRT_KIND_NONE)
            return std::nullopt;
        return read<T>(value);
    }
};

struct list_codec {
    using raw = const crt_value_t *;
    static constexpr std::string_view word = "list";

    static std::size_t count_of(raw value, crt_kind_t wanted)
    {
        if (crt_value_kind(value) != wanted)
            throw error(CRT_ERR_INVALID, std::string("the value is of kind ") +
                                             crt_kind_name(crt_value_kind(value)) + ", a " +
                                             crt_kind_name(wanted) + " is wanted");
        return crt_value_count(value);
    }
    static void want(raw value, std::size_t count)
    {
        if (count_of(value, CRT_KIND_LIST) != count)
            throw error(CRT_ERR_INVALID, "the list has " + std::to_string(crt_value_count(value)) +
                                             " entries, " + std::to_string(count) + " are wanted");
    }
};
template <class T>
struct codec<std::vector<T>, std::enable_if_t<!is_number<T> && !std::is_same_v<T, std::byte>>>
    : list_codec {
    using kind = list_kind<typename codec<T>::kind>;
    static constexpr bool is_borrowed = codec<T>::is_borrowed;
    static crt_arg_t put(const std::vector<T> &value, scratch &room)
    {
        std::vector<crt_arg_t> &items = room.items.emplace_front();

        items.reserve(value.size());
        for (const auto &item : value)
            items.push_back(codec<T>::put(item, room));
        return crt_list(items.data(), items.size());
    }
    static std::vector<T> take(raw value)
    {
        std::size_t count = count_of(value, CRT_KIND_LIST);
        std::vector<T> made;

        made.reserve(count);
        for (std::size_t i = 0; i < count; i++)
            made.push_back(read<T>(crt_value_at(value, i)));
        return made;
    }
};

template <class Tuple, class... T> struct tuple_codec : list_codec {
    using kind = tuple_kind<typename codec<T>::kind...>;
    static constexpr bool is_borrowed = (codec<T>::is_borrowed || ...);
    static crt_arg_t put(const Tuple &value, scratch &room)
    {
        std::vector<crt_arg_t> &items = room.items.emplace_front();

        items.reserve(sizeof...(T));
        std::apply([&](const T &...item) { (items.push_back(codec<T>::put(item, room)), ...); },
                   value);
        return crt_list(items.data(), items.size());
    }
    static Tuple take(raw value)
    {
        want(value, sizeof...(T));
        return take(value, std::index_sequence_for<T...>());
    }
    template <std::size_t... Index> static Tuple take(raw value, std::index_sequence<Index...>)
    {
        return Tuple{read<T>(crt_value_at(value, Index))...};
    }
};
template <class A, class B> struct codec<std::pair<A, B>> : tuple_codec<std::pair<A, B>, A, B> {
};
template <class... T> struct codec<std::tuple<T...>> : tuple_codec<std::tuple<T...>, T...> {
};

template <class Map, class T> struct map_codec : list_codec {
    using kind = map_kind<typename codec<T>::kind>;
    static constexpr std::string_view word = "map";
    static constexpr bool is_borrowed = codec<T>::is_borrowed;
    static crt_arg_t put(const Map &value, scratch &room)
    {
        std::vector<crt_arg_t> &items = room.items.emplace_front();

        items.reserve(2 * value.size());
        for (const auto &[key, item] : value) {
            items.push_back(codec<std::string>::put(key, room));
            items.push_back(codec<T>::put(item, room));
        }
        return crt_map(items.data(), items.size());
    }
    static Map take(raw value)
    {
        std::size_t count = count_of(value, CRT_KIND_MAP);
        Map made;

        for (std::size_t i = 0; i < count; i++)
            made.emplace(crt_value_key(value, i), read<T>(crt_value_at(value, i)));
        return made;
    }
};
template <class T> struct codec<std::map<std::string, T>> : map_codec<std::map<std::string, T>, T> {
};
template <class T>
struct codec<std::unordered_map<std::string, T>>
    : map_codec<std::unordered_map<std::string, T>, T> {
};

template <class T> struct codec<T, std::enable_if_t<std::is_base_of_v<plain, type<T>>>> {
    static_assert(std::is_trivially_copyable_v<T>, "crt: a struct of crt::plain is no plain data");
    using kind = struct_kind<T>;
    using raw = crt_bytes_t;
    static constexpr std::string_view word = "bytes";
    static constexpr bool is_borrowed = false;
    static crt_arg_t put(const T &value, scratch &)
    {
        return crt_arg_bytes(crt_bytes(&value, sizeof(value)));
    }
    static T take(raw value)
    {
        T made{};

        if (value.size != sizeof(made))
            throw error(CRT_ERR_INVALID, "the value has " + std::to_string(value.size) +
                                             " bytes, the struct has " +
                                             std::to_string(sizeof(made)));
        std::memcpy(&made, value.data, sizeof(made));
        return made;
    }
};

template <class T> T member_type(T);
template <class S, class T> T member_type(T S::*);
template <class T, auto... M> struct members_codec : list_codec {
    static_assert(sizeof...(M) > 0, "crt: crt::members names no member");
    template <auto Member> using of = codec<decltype(member_type(Member))>;
    using kind = struct_kind<T>;
    static constexpr bool is_borrowed = (of<M>::is_borrowed || ...);
    static crt_arg_t put(const T &value, scratch &room)
    {
        std::vector<crt_arg_t> &items = room.items.emplace_front();

        items.reserve(sizeof...(M));
        (items.push_back(of<M>::put(value.*M, room)), ...);
        return crt_list(items.data(), items.size());
    }
    static T take(raw value)
    {
        T made{};
        std::size_t index = 0;

        want(value, sizeof...(M));
        ((made.*M = read<decltype(member_type(M))>(crt_value_at(value, index++))), ...);
        return made;
    }
};
template <class T, auto... M> members_codec<T, M...> members_of(const members<M...> *);
template <class T>
struct codec<T, std::void_t<decltype(members_of<T>(static_cast<const type<T> *>(nullptr)))>>
    : decltype(members_of<T>(static_cast<const type<T> *>(nullptr))) {
};

// Reads from a ref. `wait` is in milliseconds.
template <class T> T get(crt_ref_t *from, std::int64_t wait)
{
    if constexpr (std::is_void_v<T>) {
        check(crt_get_v(from, wait, CRT_OUT(nullptr)));
    } else {
        typename codec<T>::raw raw{};

        check(crt_get_v(from, wait, CRT_OUT(&raw)));
        return codec<T>::take(raw);
    }
}

template <class T> constexpr bool is_borrowed()
{
    if constexpr (std::is_void_v<T>)
        return false;
    else
        return codec<T>::is_borrowed;
}

// Milliseconds of a duration, rounded up. A time that is longer than any program means no limit.
template <class Rep, class Period>
std::int64_t milliseconds(std::chrono::duration<Rep, Period> duration)
{
    using exact = std::chrono::duration<double, std::milli>;

    if (duration <= std::chrono::duration<Rep, Period>::zero())
        return 0;
    if (exact(duration).count() > 1e15)
        return CRT_FOREVER;
    return std::chrono::ceil<std::chrono::duration<std::int64_t, std::milli>>(duration).count();
}

} // namespace detail

// Reads a received value of crt.h: read<std::string>(crt_value_find(map, "name")). A borrowed
// result is valid as long as `value`. Throws CRT_ERR_INVALID when the value is NULL, of another
// kind, or does not fit.
template <class T> T read(const crt_value_t *value)
{
    typename detail::codec<T>::raw raw{};

    check(crt_value_read_v(value, CRT_OUT(&raw)));
    return detail::codec<T>::take(raw);
}

} // namespace crt

#endif
