// SPDX-License-Identifier: Apache-2.0
// crt for C++17 and later: typed tasks and actors, refs that drop themselves, exceptions.
//
//     #include <crt.hpp>
//     #include <iostream>
//
//     static std::string hello(const std::string &name, int number)
//     {
//         return "hello " + name + ", " + std::to_string(number);
//     }
//
//     class counter {
//     public:
//         explicit counter(std::int64_t start) : value(start) {}
//         std::int64_t add(std::int64_t amount) { return value += amount; }
//
//     private:
//         std::int64_t value;
//     };
//     template <>
//     struct crt::actor_class<counter>
//         : crt::define_actor<counter(std::int64_t), &counter::add> {};
//
//     static void driver()
//     {
//         crt::ref<std::string> text = crt::submit<hello>("cluster", 4);
//         crt::actor<counter> actor = crt::create<counter>(5);
//
//         std::cout << text.get() << actor.call<&counter::add>(7).get() << "\n";
//     }
//     int main(int argc, char **argv)
//     {
//         return crt::run<driver>(argc, argv);
//     }
//
// This header holds no symbols of the library: all is inline over the functions of crt.h, and a
// program may use both. `handle()` of an object is the pointer for functions of crt.h.
//
// Definitions: a program that submits a function or makes an actor of a class has defined the task
// or class; the compiler adds the definition to the program before main (crt_define of
// crt_define.h). The name of a task is the name of the function, "space::hello"; the name of a
// class is that of the C++ class. Names are unique in a program: wrap overloaded functions, or
// instances of a template, in functions of other names.
//
// Types: parameters and results are bool, integers (all but char, wchar_t, char16_t and char32_t;
// alone, outside of a tensor, at most INT64_MAX), enumerations, float, double, std::string,
// std::string_view, const char *, crt::bytes (std::vector<std::byte> owns them), std::vector,
// std::array and crt::span of numbers (a tensor of rank 1), std::vector of other types (a list),
// std::pair, std::tuple, std::optional, std::map and std::unordered_map with text as keys,
// crt::ref, crt::actor, crt::object (as an argument or result), structs with a crt::type, and
// const crt_value_t * and const crt_tensor_t * of crt.h. A parameter is a value or a reference to
// const. A caller may pass a crt::ref in place of a value: the call waits for the value.
//
// Lifetimes: std::string_view, const char *, crt::bytes, crt::span and pointers are borrowed. As a
// parameter they are valid until the function returns. As a value of a ref they are valid as long
// as that ref, or a copy of that ref. All other types own what they hold.
//
// Errors: a function that fails throws crt::error, with a status of crt.h, or std::bad_alloc. An
// exception that leaves a task or method fails the call: crt::error with its status and text,
// std::bad_alloc with CRT_ERR_NO_MEMORY, any other with CRT_ERR_USER and what(). A failed
// submission is a failed ref, whose get throws. Each comment names what its function adds to this.
//
// Threads: one thread at a time uses one object of this header. Copies of a ref or an actor are
// objects of their own; different threads may use them at the same time.
#ifndef CRT_HPP
#define CRT_HPP

#include <cstdio>
#include <exception>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <new>

#include "crt_values.hpp"

namespace crt
{

template <class C> struct actor_class;

namespace detail
{

// A handle of crt with a count of holds: copies keep, the end drops.
template <class Handle, Handle *(*Keep)(Handle *), void (*Drop)(Handle **)> class counted
{
  public:
    counted() noexcept = default;
    counted(const counted &other) noexcept : held(other.held ? Keep(other.held) : nullptr) {}
    counted(counted &&other) noexcept : held(std::exchange(other.held, nullptr)) {}
    counted &operator=(counted other) noexcept
    {
        std::swap(held, other.held);
        return *this;
    }
    // Not virtual: classes that derive from this add no members.
    ~counted()
    {
        if (held)
            Drop(&held);
    }
    // The pointer for functions of crt.h. Borrowed: valid as long as this object.
    Handle *handle() const noexcept { return held; }
    // Gives the hold to the caller, who drops it. This object is empty then.
    Handle *release() noexcept { return std::exchange(held, nullptr); }
    explicit operator bool() const noexcept { return held != nullptr; }

  protected:
    explicit counted(Handle *taken) noexcept : held(taken) {}

  private:
    Handle *held = nullptr;
};

// A handle of crt with one owner.
template <class Handle, void (*Drop)(Handle **)> struct dropper {
    void operator()(Handle *handle) const noexcept { Drop(&handle); }
};
template <class Handle, void (*Drop)(Handle **)>
using owned = std::unique_ptr<Handle, dropper<Handle, Drop>>;

} // namespace detail

// ------------------------------------------------------------------ refs

// A ref of which the program does not know the type. Copies are refs to the same value; the value
// is kept until the last one is gone. An empty ref has no value: functions throw CRT_ERR_INVALID.
class any_ref : public detail::counted<crt_ref_t, crt_ref_keep, crt_ref_drop>
{
  public:
    any_ref() noexcept = default;
    // Takes a hold that a function of crt.h gave, and drops it at the end.
    explicit any_ref(crt_ref_t *taken) noexcept : counted(taken) {}
    // Keeps a ref that is borrowed, as those of crt_args and callbacks are.
    static any_ref keep(crt_ref_t *borrowed) noexcept { return any_ref(crt_ref_keep(borrowed)); }

    // Waits for the value and reads it as T; void reads nothing. Throws the error of a failed
    // call; CRT_ERR_INVALID when the value is of another type; CRT_ERR_INTERRUPTED after
    // crt_interrupt; CRT_ERR_CANCELLED when the call that waits was cancelled; CRT_ERR_DEADLOCK
    // when the wait would never end; CRT_ERR_CLOSED after the end of the session. A T that
    // borrows is read from a variable only, as long as which it is valid.
    template <class T> T get() const & { return detail::get<T>(handle(), CRT_FOREVER); }
    template <class T> T get() const &&
    {
        static_assert(!detail::is_borrowed<T>(),
                      "crt: this type borrows from the ref: keep the ref in a variable");
        return detail::get<T>(handle(), CRT_FOREVER);
    }
    // The same within a time; throws CRT_ERR_TIMED_OUT after that, and may be called again.
    template <class T, class Rep, class Period>
    T get_for(std::chrono::duration<Rep, Period> limit) const &
    {
        return detail::get<T>(handle(), detail::milliseconds(limit));
    }
    template <class T, class Rep, class Period>
    T get_for(std::chrono::duration<Rep, Period> limit) const &&
    {
        static_assert(!detail::is_borrowed<T>(),
                      "crt: this type borrows from the ref: keep the ref in a variable");
        return detail::get<T>(handle(), detail::milliseconds(limit));
    }

    // Waits until the ref has a value or an error. Throws no error of the ref; else as get.
    void wait() const { wait_ms(CRT_FOREVER); }
    // The same within a time. Returns whether the ref is ready.
    template <class Rep, class Period> bool wait_for(std::chrono::duration<Rep, Period> limit) const
    {
        return wait_ms(detail::milliseconds(limit));
    }
    // Returns whether get would not wait.
    bool is_ready() const noexcept { return crt_ref_is_ready(handle()); }
    // Returns the error of a failed ref: actor, method, node, process. NULL while the ref is not
    // ready and when it has a value. Borrowed: valid as long as the ref.
    const crt_error_t *failure() const noexcept { return crt_ref_error(handle()); }
    // Cancels the call that makes the value. Throws CRT_ERR_NOT_FOUND when the call has ended,
    // CRT_ERR_INVALID when the ref is not the result of a call of this process.
    void cancel(const crt_cancel_options_t *options = nullptr) const
    {
        check(crt_cancel(handle(), options));
    }
    // Returns the id of the value, 48 hex digits.
    std::string id() const
    {
        char text[CRT_OBJECT_ID_SIZE];

        check(crt_ref_id(handle(), text, sizeof(text)));
        return text;
    }
    // Runs `function(any_ref)` once, when the ref is ready, on the thread of the library that runs
    // callbacks one after the other (crt_ref_on_ready says what they may do). A function that
    // throws ends the program by std::terminate, as a std::thread does.
    template <class Function> void on_ready(Function function) const
    {
        auto kept = std::make_unique<Function>(std::move(function));

        check(crt_ref_on_ready(
            handle(),
            [](crt_ref_t *ready, void *user) noexcept {
                std::unique_ptr<Function> run(static_cast<Function *>(user));
                (*run)(any_ref::keep(ready));
            },
            kept.get()));
        (void)kept.release();
    }

  private:
    bool wait_ms(std::int64_t limit) const
    {
        crt_ref_t *one = handle();
        std::size_t count = 0;
        crt_status_t status = crt_wait(&one, 1, 1, limit, nullptr, &count);

        return status != CRT_ERR_TIMED_OUT && check(status) == CRT_OK;
    }
};

// A ref to a value of type T; void: to the end of a call without a result.
template <class T> class ref : public any_ref
{
  public:
    using value_type = T;

    ref() noexcept = default;
    explicit ref(crt_ref_t *taken) noexcept : any_ref(taken) {}
    // The program says of which type the value is. A wrong type shows when the ref is read.
    explicit ref(any_ref other) noexcept : any_ref(std::move(other)) {}
    using any_ref::get;
    using any_ref::get_for;
    // As get of any_ref, with the type that the task or method has.
    T get() const & { return any_ref::get<T>(); }
    T get() const && { return std::move(*this).any_ref::template get<T>(); }
    template <class Rep, class Period> T get_for(std::chrono::duration<Rep, Period> limit) const &
    {
        return any_ref::get_for<T>(limit);
    }
    template <class Rep, class Period> T get_for(std::chrono::duration<Rep, Period> limit) const &&
    {
        return std::move(*this).any_ref::template get_for<T>(limit);
    }
};

namespace detail
{

template <class T> struct kind_of_value {
    using kind = typename codec<T>::kind;
};
template <> struct kind_of_value<void> {
    using kind = none_kind;
};
struct ref_codec {
    using raw = crt_ref_t *;
    static constexpr std::string_view word = "ref";
    static constexpr bool is_borrowed = false;
    static crt_arg_t put(const any_ref &value, scratch &) { return crt_arg_ref(value.handle()); }
};
template <> struct codec<any_ref> : ref_codec {
    using kind = ref_kind<any_kind>;
    static any_ref take(raw value) { return any_ref::keep(value); }
};
template <class T> struct codec<ref<T>> : ref_codec {
    using kind = ref_kind<typename kind_of_value<T>::kind>;
    static ref<T> take(raw value) { return ref<T>(any_ref::keep(value)); }
};

// The type that owns a value of T, and the ref to a result T of a function.
template <class T> struct owning {
    using type = T;
};
template <> struct owning<std::string_view> {
    using type = std::string;
};
template <> struct owning<const char *> : owning<std::string_view> {
};
template <> struct owning<char *> : owning<std::string_view> {
};
template <> struct owning<crt_bytes_t> {
    using type = std::vector<std::byte>;
};
template <class T> struct owning<span<T>> {
    using type = std::vector<std::remove_const_t<T>>;
};
template <class T> struct owning<object<T>> {
    using type = std::vector<T>;
};
template <class T> using owning_t = typename owning<bare<T>>::type;
template <class T> struct ref_to {
    using type = ref<owning_t<T>>;
};
template <> struct ref_to<any_ref> {
    using type = any_ref;
};
template <> struct ref_to<const crt_value_t *> : ref_to<any_ref> {
};
template <class T> struct ref_to<ref<T>> {
    using type = ref<T>;
};
template <class T> using ref_to_t = typename ref_to<bare<T>>::type;

template <class Refs> std::vector<crt_ref_t *> handles(const Refs &refs)
{
    std::vector<crt_ref_t *> made;

    made.reserve(std::size(refs));
    for (const any_ref &item : refs)
        made.push_back(item.handle());
    return made;
}

} // namespace detail

// Puts a value into the store and returns a ref to it. A failure is a failed ref.
template <class T> auto put(T &&value)
{
    static_assert(!std::is_base_of_v<any_ref, std::decay_t<T>>,
                  "crt: a ref is put inside of another value, for example a std::vector");
    detail::scratch room;
    const crt_arg_t arg = detail::codec<std::decay_t<T>>::put(std::forward<T>(value), room);
    detail::ref_to_t<std::decay_t<T>> made(crt_ref_at(crt_put_v(&arg), "crt::put"));

    room.made();
    return made;
}

// Waits until all refs of a container are ready, or one has failed. Throws the error of that one;
// CRT_ERR_TIMED_OUT when `limit` has passed; else as get of any_ref.
template <class Refs> void wait_all(const Refs &refs)
{
    auto all = detail::handles(refs);

    check(crt_refs_wait(all.data(), all.size(), nullptr, CRT_FOREVER, nullptr));
}
template <class Refs, class Rep, class Period>
void wait_all(const Refs &refs, std::chrono::duration<Rep, Period> limit)
{
    auto all = detail::handles(refs);

    check(crt_refs_wait(all.data(), all.size(), nullptr, detail::milliseconds(limit), nullptr));
}

// Waits until `want` refs of a container are ready, with a value or an error, and returns their
// indices; after `limit` those of the refs that are ready. Throws as get of any_ref, and
// CRT_ERR_INVALID when `want` is more than the number of refs.
template <class Refs, class Rep, class Period>
std::vector<std::size_t> wait_some(const Refs &refs, std::size_t want,
                                   std::chrono::duration<Rep, Period> limit)
{
    auto all = detail::handles(refs);
    std::vector<std::size_t> ready(want);
    std::size_t count = 0;
    crt_status_t status =
        crt_wait(all.data(), all.size(), want, detail::milliseconds(limit), ready.data(), &count);

    if (status != CRT_ERR_TIMED_OUT)
        check(status);
    ready.resize(count);
    return ready;
}

// Waits for all refs and returns their values in order. Throws as wait_all.
template <class T> std::vector<T> get_all(const std::vector<ref<T>> &refs)
{
    static_assert(!detail::is_borrowed<T>(), "crt: this type borrows from its ref");
    std::vector<T> values;

    wait_all(refs);
    values.reserve(refs.size());
    for (const ref<T> &item : refs)
        values.push_back(item.get());
    return values;
}

// Drops all refs of a vector at once, which costs less than one by one, and empties the vector.
template <class Ref> void drop_all(std::vector<Ref> &refs) noexcept
{
    std::array<crt_ref_t *, 64> some;
    std::size_t count = 0;

    for (any_ref &item : refs) {
        some[count++] = item.release();
        if (count == some.size()) {
            crt_refs_drop(some.data(), count);
            count = 0;
        }
    }
    crt_refs_drop(some.data(), count);
    refs.clear();
}

// ------------------------------------------------------------------ objects

// A tensor in the store that the program writes in place: no copy is made. The program gives the
// object away once, by std::move, as an argument, a result, or to seal; the room of an object that
// is not given away is freed. The receiver gets a tensor. One owner: objects move and do not copy.
template <class T> class object
{
    static_assert(detail::is_number<T>, "crt: the elements of an object are numbers");

  public:
    // Makes an object; the shape has 0 to 8 sizes. Waits at most 5 s for room. Throws
    // CRT_ERR_STORE_FULL, CRT_ERR_TOO_LARGE, or CRT_ERR_INVALID when the shape is wrong.
    explicit object(std::initializer_list<std::int64_t> shape)
    {
        crt_object_t *made = nullptr;

        check(crt_object_create(detail::dtype<T>, static_cast<int>(shape.size()), shape.begin(),
                                &made, &view));
        held.reset(made);
    }
    // Takes an object that crt_object_create gave, with the view of its memory. Throws
    // CRT_ERR_INVALID when the elements are not of T.
    object(crt_object_t *taken, const crt_tensor_t &memory) : held(taken), view(memory)
    {
        if (!taken)
            throw std::bad_alloc();
        if (memory.dtype != detail::dtype<T>)
            throw error(CRT_ERR_INVALID, "crt::object: the elements are of another type");
    }
    // The elements. Valid until the object was given away.
    T *data() const noexcept { return static_cast<T *>(view.data); }
    std::size_t size() const noexcept { return crt_tensor_count(&view); }
    T &operator[](std::size_t index) const noexcept { return data()[index]; }
    T *begin() const noexcept { return data(); }
    T *end() const noexcept { return data() + size(); }
    // Ends the writing: std::move(object).seal(). A failure is a failed ref.
    ref<std::vector<T>> seal() &&
    {
        crt_object_t *given = held.release();

        return ref<std::vector<T>>(crt_ref_at((crt_object_seal)(&given), "crt::object"));
    }
    // Gives the object to the caller, who gives it to a function of crt.h.
    crt_object_t *release() noexcept { return held.release(); }

  private:
    detail::owned<crt_object_t, crt_object_abort> held;
    crt_tensor_t view{};
};

namespace detail
{

template <class T> struct codec<object<T>> {
    using kind = tensor_kind<T>;
    using raw = const crt_tensor_t *;
    static constexpr std::string_view word = "tensor";
    static constexpr bool is_borrowed = true;
    static crt_arg_t put(object<T> &&value, scratch &room)
    {
        room.objects.push_front(nullptr);
        room.objects.front() = value.release();
        return crt_arg_object(room.objects.front());
    }
    static crt_arg_t put(const object<T> &, scratch &)
    {
        static_assert(never<T>, "crt: the call takes the object: give std::move(object)");
        return {};
    }
};

} // namespace detail

// ------------------------------------------------------------------ inside a call

// The call that runs. A function or method whose first parameter is crt::call & gets its call; the
// caller does not pass that parameter. Valid until the function returns, on its thread.
class call
{
  public:
    explicit call(crt_call_t *given) noexcept : running(given) {}
    call(const call &) = delete;
    call &operator=(const call &) = delete;

    // Returns true when the call was cancelled, or nobody wants its result any more.
    bool is_cancelled() const noexcept { return crt_cancelled(running); }
    // Returns 1 the first time, 2 when the call is made again, and so on.
    std::int64_t attempt() const noexcept { return crt_call_attempt(running); }
    // Returns the id of the call, 48 hex digits.
    std::string task_id() const
    {
        char text[CRT_OBJECT_ID_SIZE];

        check(crt_task_id(running, text, sizeof(text)));
        return text;
    }
    // Returns a handle of the actor, of class C, whose method or constructor runs. Throws
    // CRT_ERR_INVALID in a task; CRT_ERR_NOT_FOUND when the actor ends; CRT_ERR_HEAD_LOST or
    // CRT_ERR_TIMED_OUT when the head does not answer.
    template <class C> actor<C> self() const
    {
        crt_actor_t *made = nullptr;

        check(crt_actor_self(running, &made));
        return actor<C>(made);
    }
    // Saves at most 1 MiB for the next process of the actor. The member `void restore(crt::bytes)`
    // gets the state there, after the constructor. Throws CRT_ERR_TOO_LARGE; CRT_ERR_ACTOR_DIED
    // when another process serves the actor by now; CRT_ERR_INVALID when the class has no
    // `restore`; CRT_ERR_HEAD_LOST or CRT_ERR_TIMED_OUT when the head does not answer.
    void save(bytes state) { check(crt_actor_save(running, state.data(), state.size())); }
    // Ends the actor for good after this call. Throws CRT_ERR_INVALID in a task.
    void exit_actor() { check(crt_actor_exit(running)); }
    // The pointer for functions of crt.h.
    crt_call_t *handle() const noexcept { return running; }

  private:
    crt_call_t *running;
};

// The first parameter of a function or method that yields values of type T one by one, for
// submit_stream and call_stream.
//
//     static void count(crt::yield<int> &yield, int most)
//     {
//         for (int i = 0; i < most; i++)
//             yield(i);
//     }
template <class T> class yield : public call
{
  public:
    using call::call;
    // Sends a value. Waits while the caller has not taken the values before. Throws
    // CRT_ERR_CANCELLED when the caller has dropped the stream, CRT_ERR_INVALID when the caller
    // asked for no stream.
    void operator()(const T &value)
    {
        detail::scratch room;
        const crt_arg_t arg = detail::codec<T>::put(value, room);

        check(crt_yield_v(handle(), &arg));
    }
};

namespace detail
{

// Runs the body of a call: no exception passes.
template <class Function> crt_status_t guarded(crt_call_t *running, Function &&body) noexcept
{
    try {
        return body();
    } catch (const error &e) {
        return crt_fail_text(running, e.status(), e.what());
    } catch (const std::bad_alloc &e) {
        return crt_fail_text(running, CRT_ERR_NO_MEMORY, e.what());
    } catch (const std::exception &e) {
        return crt_fail_text(running, CRT_ERR_USER, e.what());
    } catch (...) {
        return crt_fail_text(running, CRT_ERR_USER, "an exception that is no std::exception");
    }
}

// The parameters of a function: what the caller passes, after the call itself.
template <class P> struct parameter {
    static_assert(!std::is_reference_v<P> || (std::is_lvalue_reference_v<P> &&
                                              std::is_const_v<std::remove_reference_t<P>>),
                  "crt: a parameter is a value or a reference to const: the function runs in "
                  "another process");
    using type = bare<P>;
};
template <class T> inline constexpr bool is_yield = false;
template <class T> inline constexpr bool is_yield<yield<T>> = true;
template <class T> inline constexpr bool is_context = std::is_same_v<T, call> || is_yield<T>;

template <class... P> inline constexpr bool begins_with_context = false;
template <class First, class... P>
inline constexpr bool begins_with_context<First, P...> = is_context<bare<First>>;
template <bool HasContext, class... P> struct split {
    using context = void;
    using passed = list<typename parameter<P>::type...>;
};
template <class First, class... P> struct split<true, First, P...> {
    using context = bare<First>;
    using passed = list<typename parameter<P>::type...>;
};
template <class... P> using parameters = split<begins_with_context<P...>, P...>;

template <class F> struct function {
    static_assert(never<F>, "crt: this is no function and no member function");
};
template <class R, class... P> struct function<R (*)(P...)> : parameters<P...> {
    using result = R;
};
template <class R, class... P> struct function<R (*)(P...) noexcept> : function<R (*)(P...)> {
};
template <class C, class R, class... P> struct function<R (C::*)(P...)> : function<R (*)(P...)> {
};
template <class C, class R, class... P>
struct function<R (C::*)(P...) const> : function<R (*)(P...)> {
};
template <class C, class R, class... P>
struct function<R (C::*)(P...) noexcept> : function<R (*)(P...)> {
};
template <class C, class R, class... P>
struct function<R (C::*)(P...) const noexcept> : function<R (*)(P...)> {
};

template <class... P>
inline constexpr std::size_t signature_size = (codec<P>::word.size() + ... + (sizeof...(P) + 1));
template <class... P> constexpr auto signature(list<P...>)
{
    return joined<signature_size<P...>>(codec<P>::word...);
}
template <class Passed> inline constexpr auto signature_of = signature(Passed());

// Reads the arguments of a call, runs `body` with them, and sets the result.
template <class Result, class Body, class... Arguments>
crt_status_t answer(crt_call_t *running, Body &body, Arguments &&...arguments)
{
    static_assert(!std::is_same_v<bare<Result>, crt_status_t>,
                  "crt: a function fails by an exception; it returns no status");
    if constexpr (std::is_void_v<Result>) {
        body(std::forward<Arguments>(arguments)...);
        return CRT_OK;
    } else {
        Result &&result = body(std::forward<Arguments>(arguments)...);
        scratch room;
        const crt_arg_t arg = codec<bare<Result>>::put(std::forward<Result>(result), room);
        const crt_status_t status = crt_return_v(running, &arg);

        room.made();
        return status;
    }
}
template <class Context, class Result, class... P, std::size_t... Index, class Body>
crt_status_t serve(crt_call_t *running, list<P...>, std::index_sequence<Index...>, Body &body)
{
    std::tuple<typename codec<P>::raw...> raw{};
    const crt_out_t outs[] = {CRT_OUT(&std::get<Index>(raw))..., CRT_OUT(nullptr)};
    const crt_status_t status = crt_args_v(running, outs, sizeof...(P));

    if (status < 0)
        return status;
    if constexpr (std::is_void_v<Context>) {
        return answer<Result>(running, body, codec<P>::take(std::get<Index>(raw))...);
    } else {
        Context context(running);
        return answer<Result>(running, body, context, codec<P>::take(std::get<Index>(raw))...);
    }
}
template <class Function, class Result, class... P, class Body>
crt_status_t serve(crt_call_t *running, list<P...> passed, Body &&body) noexcept
{
    return guarded(running, [&] {
        return serve<typename Function::context, Result>(running, passed,
                                                         std::index_sequence_for<P...>(), body);
    });
}

// ------------------------------------------------------------------ definitions

// A definition of the program. The constructor runs before main.
struct defined {
    crt_definition_t definition{};

    defined(const crt_task_t *task, const crt_actor_class_t *actor_class) noexcept
    {
        definition.struct_size = sizeof(definition);
        definition.task = task;
        definition.actor_class = actor_class;
        crt_define(&definition);
    }
};

template <auto F> struct task {
    using type = function<decltype(F)>;
    static constexpr auto name = joined<function_name<F>().size() + 1>(function_name<F>());

    static crt_status_t run(crt_call_t *running) noexcept
    {
        return serve<type, typename type::result>(
            running, typename type::passed(), [](auto &&...arguments) -> decltype(auto) {
                return F(std::forward<decltype(arguments)>(arguments)...);
            });
    }
    static constexpr crt_task_t make() noexcept
    {
        crt_task_t made{};

        made.struct_size = sizeof(made);
        made.name = name.data();
        made.run = run;
        made.signature = signature_of<typename type::passed>.data();
        return made;
    }
    static inline const crt_task_t descriptor = make();
    static inline defined entry{&descriptor, nullptr};
    // Use of the entry is what defines the task.
    static const crt_task_t *get() noexcept { return entry.definition.task; }
};

template <class C, auto M> struct method {
    using type = function<decltype(M)>;
    static constexpr auto text = last_part(function_name<M>());
    static constexpr auto name = joined<text.size() + 1>(text);

    static crt_status_t run(void *self, crt_call_t *running) noexcept
    {
        return serve<type, typename type::result>(
            running, typename type::passed(), [self](auto &&...arguments) -> decltype(auto) {
                return (static_cast<C *>(self)->*M)(
                    std::forward<decltype(arguments)>(arguments)...);
            });
    }
    static constexpr crt_method_t make() noexcept
    {
        crt_method_t made{};

        made.struct_size = sizeof(made);
        made.name = name.data();
        made.run = run;
        made.signature = signature_of<typename type::passed>.data();
        return made;
    }
    static inline const crt_method_t descriptor = make();
};

template <class... Texts> constexpr bool are_distinct(Texts... texts)
{
    const std::string_view all[] = {texts..., ""};
    bool found = false;

    for (std::size_t i = 0; i < sizeof...(Texts); i++)
        for (std::size_t j = 0; j < i; j++)
            found = found || all[i] == all[j];
    return !found;
}

template <class C, class = void> inline constexpr bool has_restore = false;
template <class C>
inline constexpr bool has_restore<C, std::void_t<decltype(std::declval<C &>().restore(bytes()))>> =
    true;

template <class D, class = void> inline constexpr bool has_name = false;
template <class D> inline constexpr bool has_name<D, std::void_t<decltype(D::name)>> = true;

template <class C, class Constructor, auto... M> struct class_descriptor;
template <class C, class... P, auto... M> struct class_descriptor<C, list<P...>, M...> {
    using type = parameters<P...>;
    static_assert(std::is_constructible_v<C, P...>,
                  "crt: the class has no constructor with the parameters of crt::define_actor");
    static_assert(alignof(C) <= alignof(std::max_align_t),
                  "crt: an actor can't be aligned more than std::max_align_t");
    static_assert(are_distinct(method<C, M>::text...),
                  "crt: two methods have one name: wrap overloaded methods in others");
    static constexpr std::string_view text = last_part(class_name<C>());
    static constexpr auto name = joined<text.size() + 1>(text);

    static crt_status_t create(void *self, crt_call_t *running) noexcept
    {
        return serve<type, void>(running, typename type::passed(), [self](auto &&...arguments) {
            ::new (self) C(std::forward<decltype(arguments)>(arguments)...);
        });
    }
    static void destroy(void *self) noexcept { static_cast<C *>(self)->~C(); }
    static crt_status_t restore(void *self, const void *state, std::size_t size) noexcept
    {
        try {
            static_cast<C *>(self)->restore(bytes(static_cast<const std::byte *>(state), size));
            return CRT_OK;
        } catch (const error &e) {
            return crt_raise_text(e.status(), e.what());
        } catch (const std::exception &e) {
            return crt_raise_text(CRT_ERR_USER, e.what());
        } catch (...) {
            return crt_raise_text(CRT_ERR_USER, "an exception that is no std::exception");
        }
    }
    static constexpr const crt_method_t *methods[] = {&method<C, M>::descriptor..., nullptr};
    static constexpr crt_actor_class_t make() noexcept
    {
        crt_actor_class_t made{};

        made.struct_size = sizeof(made);
        if constexpr (has_name<actor_class<C>>)
            made.name = actor_class<C>::name;
        else
            made.name = name.data();
        made.size = sizeof(C);
        made.create = create;
        made.signature = signature_of<typename type::passed>.data();
        made.destroy = destroy;
        made.methods = methods;
        if constexpr (has_restore<C>)
            made.restore = restore;
        return made;
    }
    static inline const crt_actor_class_t descriptor = make();
    static inline defined entry{nullptr, &descriptor};
    static const crt_actor_class_t *get() noexcept { return entry.definition.actor_class; }
};

// ------------------------------------------------------------------ checks of calls

// Argument number `Index` (from 0) of a call of `Called`.
template <class Called, std::size_t Index, class Parameter, class Argument> struct argument_of {
    static_assert(
        can_pass<typename codec<Argument>::kind, typename codec<Parameter>::kind, false>(),
        "crt: an argument is of another type than the parameter of the function; see "
        "crt::detail::argument_of<function, number, parameter, argument>");
    static constexpr bool is_right = true;
};
template <class Called, class... P, class... A, std::size_t... Index>
constexpr bool are_right(list<P...>, list<A...>, std::index_sequence<Index...>)
{
    return (argument_of<Called, Index, P, A>::is_right && ...);
}

// Checks and packs arguments, and gives them to `make`.
template <class Called, class... P, class Make, class... A>
auto with_arguments(list<P...> passed, Make &&make, A &&...arguments)
{
    static_assert(sizeof...(A) == sizeof...(P),
                  "crt: the call has more or fewer arguments than the function has parameters");
    if constexpr (sizeof...(A) == sizeof...(P))
        static_assert(are_right<Called>(list<P...>(), list<std::decay_t<A>...>(),
                                        std::index_sequence_for<P...>()));
    scratch room;
    const crt_arg_t args[] = {codec<std::decay_t<A>>::put(std::forward<A>(arguments), room)...,
                              crt_arg_none(nullptr)};
    auto made = make(args, sizeof...(A));

    (void)passed;
    room.made();
    return made;
}

template <class T> inline constexpr bool is_stream = false;
template <class T> inline constexpr bool is_stream<yield<T>> = true;
template <class Function> constexpr void check_single()
{
    static_assert(!is_stream<typename Function::context>,
                  "crt: this function yields: use submit_stream or call_stream");
}
template <class Context> struct item_of {
    static_assert(never<Context>, "crt: the first parameter of a stream is crt::yield<T> &");
};
template <class T> struct item_of<yield<T>> {
    using type = T;
};

} // namespace detail

// ------------------------------------------------------------------ streams

// The values that a call yields, one by one. One owner: streams move. A stream that ends before
// its call cancels the call.
//
//     for (int number : crt::submit_stream<count>(10))
template <class T> class stream
{
  public:
    // Takes a stream that a function of crt.h gave.
    explicit stream(crt_stream_t *taken) : held(taken)
    {
        if (!taken)
            throw std::bad_alloc();
    }
    // Waits for the next value and returns a ref to it; an empty one at the end. Throws the error
    // of the call after the values that came before; else as get of any_ref.
    ref<T> next() { return next_ms(CRT_FOREVER); }
    // The same within a time; throws CRT_ERR_TIMED_OUT after that, and may be called again.
    template <class Rep, class Period> ref<T> next_for(std::chrono::duration<Rep, Period> limit)
    {
        return next_ms(detail::milliseconds(limit));
    }
    // Returns a ref that is ready when the call has ended, with its error.
    any_ref completed() const { return any_ref(crt_stream_completed(held.get())); }
    crt_stream_t *handle() const noexcept { return held.get(); }

    // Reads the values in turn. Advancing throws as next.
    class iterator
    {
      public:
        using iterator_category = std::input_iterator_tag;
        using value_type = T;
        using difference_type = std::ptrdiff_t;
        using pointer = void;
        using reference = T;

        iterator() = default;
        explicit iterator(stream &of) : from(&of), current(of.next()) {}
        T operator*() const { return current.get(); }
        iterator &operator++()
        {
            current = from->next();
            return *this;
        }
        void operator++(int) { ++*this; }
        bool operator==(const iterator &other) const noexcept { return !current == !other.current; }
        bool operator!=(const iterator &other) const noexcept { return !(*this == other); }

      private:
        stream *from = nullptr;
        ref<T> current;
    };
    iterator begin() { return iterator(*this); }
    iterator end() noexcept { return iterator(); }

  private:
    ref<T> next_ms(std::int64_t limit)
    {
        crt_ref_t *item = nullptr;

        if (check(crt_stream_next(held.get(), limit, &item)) == CRT_END_OF_STREAM)
            return ref<T>();
        return ref<T>(item);
    }
    detail::owned<crt_stream_t, crt_stream_drop> held;
};

// ------------------------------------------------------------------ tasks

// Submits the function F as a task, which runs in a worker process: submit<hello>("cluster", 4).
// The compiler checks each argument against the parameter of the function. Options of crt.h may
// stand first: submit<hello>(CRT_TASK_OPTIONS(.num_cpus = 2), "cluster", 4). Returns at once a ref
// to the result, or a failed ref. Throws only CRT_ERR_INVALID for a text with a zero byte.
template <auto F, class... A> auto submit(const crt_task_options_t *options, A &&...arguments)
{
    using called = detail::task<F>;
    using type = typename called::type;

    detail::check_single<type>();
    return detail::with_arguments<called>(
        typename type::passed(),
        [options](const crt_arg_t *args, std::size_t count) {
            return detail::ref_to_t<typename type::result>(
                crt_ref_at(crt_submit_v(called::get(), options, args, count), called::name.data()));
        },
        std::forward<A>(arguments)...);
}
template <auto F, class... A> auto submit(A &&...arguments)
{
    return submit<F>(static_cast<const crt_task_options_t *>(nullptr),
                     std::forward<A>(arguments)...);
}

// Submits a function that yields, whose first parameter is crt::yield<T> &, and returns the stream
// of its values. Arguments and options are those of submit.
template <auto F, class... A>
auto submit_stream(const crt_task_options_t *options, A &&...arguments)
{
    using called = detail::task<F>;
    using type = typename called::type;

    return detail::with_arguments<called>(
        typename type::passed(),
        [options](const crt_arg_t *args, std::size_t count) {
            return stream<typename detail::item_of<typename type::context>::type>(
                crt_submit_stream_v(called::get(), options, args, count));
        },
        std::forward<A>(arguments)...);
}
template <auto F, class... A> auto submit_stream(A &&...arguments)
{
    return submit_stream<F>(static_cast<const crt_task_options_t *>(nullptr),
                            std::forward<A>(arguments)...);
}

// ------------------------------------------------------------------ actors

// The definition of a class as an actor: the parameters of the constructor that makes an actor,
// and the methods that callers call. The destructor runs when the actor ends in an orderly way,
// not when its process dies. A member `void restore(crt::bytes)` gets what call::save kept. The
// name of the class in the cluster is `static constexpr const char *name` of the specialisation, or
// else the name of the C++ class.
//
//     template <>
//     struct crt::actor_class<counter>
//         : crt::define_actor<counter(std::int64_t), &counter::add, &counter::get> {};
template <class Constructor, auto... Methods> struct define_actor {
    static_assert(detail::never<Constructor>,
                  "crt: the first argument of crt::define_actor is CLASS(PARAMETERS...)");
};
template <class C, class... P, auto... Methods> struct define_actor<C(P...), Methods...> {
    using type = C;
    using constructor = detail::parameters<P...>;
    template <class Self>
    using descriptor = detail::class_descriptor<Self, detail::list<P...>, Methods...>;
    template <auto M>
    static constexpr bool has = (std::is_same_v<detail::constant<M>, detail::constant<Methods>> ||
                                 ...);
};

// Specialised for each class that is an actor, by define_actor.
template <class C> struct actor_class {
    static_assert(detail::never<C>,
                  "crt: the class is no actor: there is no crt::actor_class of it");
};

namespace detail
{

template <class C> struct actor_type {
    using definition = actor_class<C>;
    static_assert(std::is_same_v<typename definition::type, C>,
                  "crt: crt::actor_class of a class defines another class");
    using descriptor = typename definition::template descriptor<C>;
};

} // namespace detail

// A handle of an actor of which the program does not know the class. Copies are handles of the same
// actor; the actor ends when the last handle in the cluster is gone, unless it is detached.
class any_actor : public detail::counted<crt_actor_t, crt_actor_keep, crt_actor_drop>
{
  public:
    any_actor() noexcept = default;
    // Takes a hold that a function of crt.h gave, and drops it at the end.
    explicit any_actor(crt_actor_t *taken) noexcept : counted(taken) {}
    static any_actor keep(crt_actor_t *borrowed) noexcept
    {
        return any_actor(crt_actor_keep(borrowed));
    }
    // Waits until the constructor has ended. Throws the error of the constructor, or of an actor
    // that is dead or was not made; else as get of any_ref.
    void wait_ready() const { check(crt_actor_ready(handle(), CRT_FOREVER)); }
    // The same within a time; throws CRT_ERR_TIMED_OUT after that.
    template <class Rep, class Period>
    void wait_ready(std::chrono::duration<Rep, Period> limit) const
    {
        check(crt_actor_ready(handle(), detail::milliseconds(limit)));
    }
    // Ends the actor at once; pending calls fail with CRT_ERR_ACTOR_DIED. Throws CRT_ERR_HEAD_LOST
    // or CRT_ERR_TIMED_OUT when the head does not answer.
    void kill(const crt_kill_options_t *options = nullptr) const
    {
        check(crt_actor_kill(handle(), options));
    }
    // Ends the actor after the calls that this process made before, and runs its destructor. After
    // `limit` the actor is killed, and CRT_ERR_TIMED_OUT thrown.
    template <class Rep, class Period> void stop(std::chrono::duration<Rep, Period> limit) const
    {
        std::int64_t time = detail::milliseconds(limit);

        // 0 is no limit there, but no time here.
        check(crt_actor_stop(handle(), time == CRT_FOREVER ? 0 : std::max<std::int64_t>(time, 1)));
    }
    // Returns the id of the actor, 32 hex digits.
    std::string id() const { return crt_actor_id(handle()); }
};

// A handle of an actor of class C.
template <class C> class actor : public any_actor
{
    template <auto M> using method = detail::method<C, M>;
    template <auto M> using type_of = typename method<M>::type;
    template <auto M> static constexpr void check_method()
    {
        static_assert(actor_class<C>::template has<M>,
                      "crt: the class does not list this method in its crt::actor_class");
    }

  public:
    actor() noexcept = default;
    explicit actor(crt_actor_t *taken) noexcept : any_actor(taken) {}
    // The program says of which class the actor is. A wrong class shows when it is called.
    explicit actor(any_actor other) noexcept : any_actor(std::move(other)) {}

    // Calls a method: actor.call<&counter::add>(7). The compiler checks each argument. Options of
    // crt.h may stand first: actor.call<&counter::add>(CRT_CALL_OPTIONS(.limit_ms = 100), 7).
    // Calls of one caller run in the order in which they were made. Returns at once a ref to the
    // result, or a failed ref; waits while too many calls are in flight. Throws only
    // CRT_ERR_INVALID for a text with a zero byte.
    template <auto M, class... A>
    auto call(const crt_call_options_t *options, A &&...arguments) const
    {
        check_method<M>();
        detail::check_single<type_of<M>>();
        return detail::with_arguments<method<M>>(
            typename type_of<M>::passed(),
            [this, options](const crt_arg_t *args, std::size_t count) {
                return detail::ref_to_t<typename type_of<M>::result>(
                    crt_ref_at(crt_call_v(handle(), &method<M>::descriptor, options, args, count),
                               method<M>::name.data()));
            },
            std::forward<A>(arguments)...);
    }
    template <auto M, class... A> auto call(A &&...arguments) const
    {
        return call<M>(static_cast<const crt_call_options_t *>(nullptr),
                       std::forward<A>(arguments)...);
    }

    // Calls a method without a ref to the result. Errors of the method are logged and counted.
    // Throws the error of a call that could not be made, for example CRT_ERR_ACTOR_DIED.
    template <auto M, class... A> void tell(A &&...arguments) const
    {
        check_method<M>();
        check(detail::with_arguments<method<M>>(
            typename type_of<M>::passed(),
            [this](const crt_arg_t *args, std::size_t count) {
                return crt_tell_v(handle(), &method<M>::descriptor, args, count);
            },
            std::forward<A>(arguments)...));
    }

    // Calls a method that yields, whose first parameter is crt::yield<T> &, and returns the stream
    // of its values. Arguments and options are those of call.
    template <auto M, class... A>
    auto call_stream(const crt_call_options_t *options, A &&...arguments) const
    {
        check_method<M>();
        return detail::with_arguments<method<M>>(
            typename type_of<M>::passed(),
            [this, options](const crt_arg_t *args, std::size_t count) {
                return stream<typename detail::item_of<typename type_of<M>::context>::type>(
                    crt_call_stream_v(handle(), &method<M>::descriptor, options, args, count));
            },
            std::forward<A>(arguments)...);
    }
    template <auto M, class... A> auto call_stream(A &&...arguments) const
    {
        return call_stream<M>(static_cast<const crt_call_options_t *>(nullptr),
                              std::forward<A>(arguments)...);
    }
};

namespace detail
{

template <> struct codec<any_actor> {
    using kind = actor_kind<void>;
    using raw = crt_actor_t *;
    static constexpr std::string_view word = "actor";
    static constexpr bool is_borrowed = false;
    static crt_arg_t put(const any_actor &value, scratch &)
    {
        return crt_arg_actor(value.handle());
    }
    static any_actor take(raw value) { return any_actor::keep(value); }
};
template <class C> struct codec<actor<C>> : codec<any_actor> {
    using kind = actor_kind<C>;
    static actor<C> take(crt_actor_t *value) { return actor<C>(any_actor::keep(value)); }
};

} // namespace detail

// Makes an actor of class C, with the arguments of its constructor: create<counter>(5). Options of
// crt.h may stand first: create<counter>(CRT_ACTOR_OPTIONS(.name = "c"), 5). Returns a handle at
// once; an error of the constructor or of the placement shows in the calls of the actor and in
// wait_ready. Throws std::bad_alloc, and CRT_ERR_INVALID for a text with a zero byte.
template <class C, class... A> actor<C> create(const crt_actor_options_t *options, A &&...arguments)
{
    using type = detail::actor_type<C>;

    crt_actor_t *made = detail::with_arguments<type>(
        typename type::definition::constructor::passed(),
        [options](const crt_arg_t *args, std::size_t count) {
            return crt_actor_new_v(type::descriptor::get(), options, args, count);
        },
        std::forward<A>(arguments)...);
    if (!made)
        throw std::bad_alloc();
    return actor<C>(made);
}
template <class C, class... A> actor<C> create(A &&...arguments)
{
    return create<C>(static_cast<const crt_actor_options_t *>(nullptr),
                     std::forward<A>(arguments)...);
}

// Finds a living actor of class C by name, in a namespace; NULL is the namespace of the job. Waits
// at most 30 s for the head. Throws CRT_ERR_NOT_FOUND when there is none; CRT_ERR_INVALID when the
// actor is of another class; CRT_ERR_HEAD_LOST or CRT_ERR_TIMED_OUT when the head does not answer.
template <class C> actor<C> find(const std::string &name, const char *name_space = nullptr)
{
    crt_actor_t *found = nullptr;

    check(crt_actor_find(name.c_str(), CRT_FIND_OPTIONS(.name_space = name_space),
                         detail::actor_type<C>::descriptor::get(), &found));
    return actor<C>(found);
}

// ------------------------------------------------------------------ wait sets

// Refs, streams and ends of actors and nodes that a program waits for, each with a pointer of the
// program. One owner: sets move. Threads: several threads may use one set.
class waitset
{
  public:
    // Throws CRT_ERR_NOT_INITIALIZED, CRT_ERR_FORKED, CRT_ERR_NO_MEMORY.
    waitset()
    {
        crt_waitset_t *made = nullptr;

        check(crt_waitset_new(&made));
        held.reset(made);
    }
    // Takes a set that a function of crt.h gave.
    explicit waitset(crt_waitset_t *taken) : held(taken)
    {
        if (!taken)
            throw std::bad_alloc();
    }
    // An event. The program moves the ref out to keep the ref.
    struct event {
        crt_event_kind_t kind = CRT_EVENT_NONE;
        // CRT_OK, or the error of the ref, stream, actor or node.
        crt_status_t status = CRT_OK;
        void *user = nullptr;
        any_ref ref;
        any_actor actor;
        // The reason of an end, in words.
        std::string text;
    };

    // Add what the set waits for. The set has a hold of its own on a ref, and none on an actor; a
    // stream must live as long as it is in the set. Throw CRT_ERR_EXISTS when the stream is in a
    // set already, CRT_ERR_INVALID, CRT_ERR_CLOSED, CRT_ERR_NO_MEMORY.
    void add(const any_ref &item, void *user = nullptr)
    {
        check(crt_waitset_add_ref(held.get(), item.handle(), user));
    }
    template <class T> void add(const stream<T> &item, void *user = nullptr)
    {
        check(crt_waitset_add_stream(held.get(), item.handle(), user));
    }
    void add_end(const any_actor &item, void *user = nullptr)
    {
        check(crt_waitset_add_actor_end(held.get(), item.handle(), user));
    }
    void add_node_end(const std::string &node_id, void *user = nullptr)
    {
        check(crt_waitset_add_node_end(held.get(), node_id.c_str(), user));
    }
    // Takes out everything with this pointer. Throws CRT_ERR_NOT_FOUND when there is nothing.
    void remove(void *user) { check(crt_waitset_remove(held.get(), user)); }
    // Returns the number of things in the set.
    std::size_t size() const noexcept { return crt_waitset_count(held.get()); }
    // Waits for the next event; none when the set is empty. Throws CRT_ERR_INTERRUPTED after
    // crt_interrupt, CRT_ERR_CANCELLED, CRT_ERR_CLOSED.
    std::optional<event> next() { return next_ms(CRT_FOREVER); }
    // The same within a time; none also after that.
    template <class Rep, class Period>
    std::optional<event> next_for(std::chrono::duration<Rep, Period> limit)
    {
        return next_ms(detail::milliseconds(limit));
    }
    // Returns a descriptor for an event loop, which is readable while there is an event. The set
    // owns it. Throws CRT_ERR_IO when the process has no free descriptor.
    int descriptor()
    {
        int number = -1;

        check(crt_waitset_fd(held.get(), &number));
        return number;
    }
    crt_waitset_t *handle() const noexcept { return held.get(); }

  private:
    std::optional<event> next_ms(std::int64_t limit)
    {
        struct dropped {
            crt_event_t event = CRT_EVENT_INIT;
            ~dropped() { crt_event_drop(&event); }
        } raw;
        crt_status_t status = crt_waitset_next(held.get(), limit, &raw.event);

        if (status == CRT_ERR_TIMED_OUT || status == CRT_ERR_NOT_FOUND)
            return std::nullopt;
        check(status);
        event made;
        made.kind = raw.event.kind;
        made.status = raw.event.status;
        made.user = raw.event.user;
        if (raw.event.ref)
            made.ref = any_ref::keep(raw.event.ref);
        if (raw.event.actor)
            made.actor = any_actor::keep(raw.event.actor);
        if (raw.event.text)
            made.text = raw.event.text;
        return made;
    }
    detail::owned<crt_waitset_t, crt_waitset_drop> held;
};

// ------------------------------------------------------------------ groups

// Actors that exchange numbers: the membership of this actor (crt_collective.h). One owner: groups
// move; the end leaves the group. Each member makes the same operations in the same order. Threads:
// one thread at a time. Operations throw CRT_ERR_TIMED_OUT, CRT_ERR_ACTOR_DIED or
// CRT_ERR_NODE_LOST, CRT_ERR_CLOSED and CRT_ERR_CANCELLED as those of crt.h, and CRT_ERR_INVALID
// when members make different calls.
class group
{
  public:
    // Joins a group of `size` members as `rank` and waits for the others.
    group(int size, int rank, const crt_group_options_t *options = nullptr)
    {
        crt_group_t *made = nullptr;

        check(crt_group_join(size, rank, options, &made));
        held.reset(made);
    }
    // Joins a group that was declared (crt_group_declare). Throws CRT_ERR_NOT_FOUND when it wasn't.
    explicit group(const std::string &name)
    {
        crt_group_t *made = nullptr;

        check(crt_group_find(name.c_str(), &made));
        held.reset(made);
    }
    // Takes a membership that a function of crt_collective.h gave; not the world, which is
    // borrowed.
    explicit group(crt_group_t *taken) : held(taken)
    {
        if (!taken)
            throw std::bad_alloc();
    }
    int rank() const noexcept { return crt_group_rank(held.get()); }
    int size() const noexcept { return crt_group_size(held.get()); }
    void barrier() { check(crt_group_barrier(held.get())); }
    // Combines the elements of all members, in place.
    template <class T> void allreduce(span<T> elements, crt_reduction_t reduction)
    {
        crt_tensor_t view = detail::tensor_over(elements.data(), elements.size());

        check(crt_group_allreduce(held.get(), &view, &view, reduction));
    }
    // Copies the elements of the member `root` to all members.
    template <class T> void broadcast(span<T> elements, int root)
    {
        crt_tensor_t view = detail::tensor_over(elements.data(), elements.size());

        check(crt_group_broadcast(held.get(), &view, root));
    }
    // Gives every member the elements of all, in the order of the ranks.
    template <class T> void allgather(span<const T> mine, span<T> all)
    {
        crt_tensor_t from = detail::tensor_over(mine.data(), mine.size());
        crt_tensor_t to = detail::tensor_over(all.data(), all.size());

        check(crt_group_allgather(held.get(), &from, &to));
    }
    crt_group_t *handle() const noexcept { return held.get(); }

  private:
    detail::owned<crt_group_t, crt_group_drop> held;
};

// Resources that are reserved together (crt_placement_group.h). The end of this object drops the
// handle, not the group. Options take handle(): CRT_IN_BUNDLE(group.handle(), 0). One owner.
class placement_group
{
  public:
    // Asks for bundles made with CRT_BUNDLE. Errors show in wait and ready. Throws std::bad_alloc.
    explicit placement_group(const std::vector<crt_bundle_t> &bundles,
                             const crt_placement_group_options_t *options = nullptr)
        : placement_group(crt_placement_group_new(bundles.data(), bundles.size(), options))
    {
    }
    // Takes a handle that a function of crt.h gave.
    explicit placement_group(crt_placement_group_t *taken) : held(taken)
    {
        if (!taken)
            throw std::bad_alloc();
    }
    // Waits until all bundles are reserved. Throws CRT_ERR_UNSCHEDULABLE, CRT_ERR_INVALID,
    // CRT_ERR_EXISTS; else as get of any_ref.
    void wait() const { check(crt_placement_group_wait(held.get(), CRT_FOREVER)); }
    // The same within a time; throws CRT_ERR_TIMED_OUT after that.
    template <class Rep, class Period> void wait(std::chrono::duration<Rep, Period> limit) const
    {
        check(crt_placement_group_wait(held.get(), detail::milliseconds(limit)));
    }
    // Returns a ref that is ready when all bundles are reserved.
    ref<bool> ready() const { return ref<bool>(crt_placement_group_ready(held.get())); }
    // Removes the group from the cluster, and ends what runs in it.
    void remove() { check(crt_placement_group_remove(held.get())); }
    crt_placement_group_t *handle() const noexcept { return held.get(); }

  private:
    detail::owned<crt_placement_group_t, crt_placement_group_drop> held;
};

// ------------------------------------------------------------------ start and stop

// The cluster that a program starts for itself, from here until the end of the scope:
// crt_context_start, and crt_context_stop. Make it at the beginning of main, before the session:
//
//     crt::context context(argc, argv, "local:4");
//     crt::session session(argc, argv);
//
// `cluster` is as in crt_context_options_t; NULL: the cluster that a session would join or start.
// With "file:" and "slurm" the program goes on from the beginning of main on another host. Throws
// the errors of crt_context_start. In a worker process the context does nothing.
class context
{
  public:
    context(int argc, char **argv, const char *cluster = nullptr)
    {
        check(crt_context_start(
            CRT_CONTEXT_OPTIONS(.cluster = cluster, .argc = argc, .argv = argv)));
    }
    context(const context &) = delete;
    context &operator=(const context &) = delete;
    ~context() { (void)crt_context_stop(); }
    // The addresses of the cluster. Throws the errors of crt_context_info.
    crt_cluster_info_t info() const
    {
        crt_cluster_info_t result;

        check(crt_context_info(sizeof(result), &result));
        return result;
    }
};

// The membership of a program in a cluster, for programs that do not use run: crt_init, and
// crt_shutdown at the end. In a worker process the constructor serves calls and does not return.
// Throws the errors of crt_init.
class session
{
  public:
    session(int argc, char **argv, const crt_options_t *options = nullptr)
    {
        check(crt_init(argc, argv, options));
    }
    session(const session &) = delete;
    session &operator=(const session &) = delete;
    ~session() { (void)crt_shutdown(); }
};

namespace detail
{

template <auto Driver> int drive(int argc, char **argv) noexcept
{
    try {
        if constexpr (std::is_invocable_r_v<int, decltype(Driver), int, char **>) {
            return Driver(argc, argv);
        } else if constexpr (std::is_invocable_r_v<int, decltype(Driver)>) {
            return Driver();
        } else if constexpr (std::is_invocable_v<decltype(Driver), int, char **>) {
            Driver(argc, argv);
        } else {
            static_assert(std::is_invocable_v<decltype(Driver)>,
                          "crt: a driver has no parameters, or (int argc, char **argv)");
            Driver();
        }
        return 0;
    } catch (const error &e) {
        std::fprintf(stderr, "%s: %s\n", crt_status_name(e.status()), e.what());
    } catch (const std::exception &e) {
        std::fprintf(stderr, "%s\n", e.what());
    } catch (...) {
        std::fprintf(stderr, "an exception that is no std::exception\n");
    }
    return 1;
}

} // namespace detail

// Joins a cluster or starts a private one, runs the function Driver, and leaves the cluster, as
// crt_main does: return crt::run<driver>(argc, argv, CRT_OPTIONS(.num_cpus = 2)). The driver is
// int or void, with (int argc, char **argv) or without parameters. Returns the result of the
// driver; 1 after printing the reason when the driver throws, or when there is no cluster.
template <auto Driver> int run(int argc, char **argv, const crt_options_t *options = nullptr)
{
    return crt_main(argc, argv, options, detail::drive<Driver>);
}

} // namespace crt

#endif
