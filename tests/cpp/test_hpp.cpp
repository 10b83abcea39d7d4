// SPDX-License-Identifier: Apache-2.0
// crt.hpp on a private cluster: values, exceptions in both directions, actors, ends of processes.
#include <crt.hpp>

#include <csignal>
#include <cstdlib>
#include <future>
#include <iostream>
#include <numeric>
#include <thread>

#include <unistd.h>

using namespace std::chrono_literals;

#define EXPECT(...)                                                                                \
    do {                                                                                           \
        if (!(__VA_ARGS__)) {                                                                      \
            std::cout << __FILE__ << ":" << __LINE__ << ": " << #__VA_ARGS__ << ": "               \
                      << crt_error_detail() << std::endl;                                          \
            std::exit(1);                                                                          \
        }                                                                                          \
    } while (0)

// The status and text of what a function throws.
template <class Function> static crt::error thrown(Function &&function)
{
    try {
        function();
    } catch (const crt::error &e) {
        return e;
    }
    return crt::error(CRT_OK, "nothing was thrown");
}
static bool has(const crt::error &e, std::string_view part)
{
    return std::string_view(e.what()).find(part) != std::string_view::npos;
}

// ------------------------------------------------------------------ values

enum class color : std::uint8_t { red = 1, blue = 200 };
struct point {
    double x, y;
};
struct person {
    std::string name;
    int age = 0;
    std::vector<float> heights;
    std::optional<std::string> nick;
};
template <> struct crt::type<point> : crt::plain {
};
template <>
struct crt::type<person>
    : crt::members<&person::name, &person::age, &person::heights, &person::nick> {
};

using table = std::map<std::string, std::vector<std::string>>;

static std::string scalars(bool flag, int a, std::uint64_t b, float c, double d, color e,
                           std::int8_t f)
{
    return std::to_string(flag) + " " + std::to_string(a) + " " + std::to_string(b) + " " +
           std::to_string(static_cast<int>(c * 4)) + " " + std::to_string(static_cast<int>(d * 4)) +
           " " + std::to_string(static_cast<int>(e)) + " " + std::to_string(f);
}
static std::string texts(const std::string &a, std::string_view b, const char *c, std::string d)
{
    return a + std::string(b) + c + std::move(d);
}
static std::vector<float> doubled(crt::span<const float> numbers)
{
    std::vector<float> made;

    for (float number : numbers)
        made.push_back(2 * number);
    return made;
}
static std::array<std::int64_t, 2> sums(const std::vector<std::int64_t> &a, std::array<double, 2> b)
{
    return {std::accumulate(a.begin(), a.end(), std::int64_t{0}),
            static_cast<std::int64_t>(b[0] + b[1])};
}
static std::vector<std::byte> reversed(crt::bytes bytes, const std::vector<std::byte> &more)
{
    std::vector<std::byte> made(more);

    for (std::byte byte : bytes)
        made.insert(made.begin(), byte);
    return made;
}
static table grouped(const std::vector<std::pair<std::string, std::string>> &rows)
{
    table made;

    for (const auto &[key, value] : rows)
        made[key].push_back(value);
    return made;
}
static std::tuple<int, std::string, bool> three(std::optional<int> number)
{
    return {number.value_or(-1), number ? "some" : "none", number.has_value()};
}
static point mirrored(point p) { return {p.y, p.x}; }
static person older(person p, const std::vector<bool> &flags)
{
    p.age += static_cast<int>(flags.size());
    p.heights.push_back(1.5F);
    return p;
}
static crt::object<float> filled(int count)
{
    crt::object<float> made({2, count});

    std::fill(made.begin(), made.end(), 3.0F);
    return made;
}
static std::string named(const std::vector<float> &, const std::string &name) { return name; }
static crt::ref<std::string> passed_on(const crt::ref<std::string> &of) { return of; }
static const crt_value_t *second(const crt_value_t *list) { return crt_value_at(list, 1); }
static double half(double number) { return number / 2; }

static void values_travel()
{
    EXPECT(
        crt::submit<scalars>(true, -7, std::uint64_t{1} << 40, 1.25F, 2.5, color::blue, -8).get() ==
        "1 -7 1099511627776 5 10 200 -8");
    EXPECT(crt::submit<texts>("a", std::string("b"), std::string_view("cx", 1), "").get() == "abc");
    EXPECT(crt::submit<doubled>(std::vector<float>{1, 2.5F}).get() == std::vector<float>{2, 5});
    EXPECT(
        crt::submit<sums>(std::vector<std::int64_t>{1, 2, 3}, std::array<double, 2>{4, 5}).get() ==
        std::array<std::int64_t, 2>{6, 9});
    EXPECT(crt::submit<sums>(std::vector<std::int64_t>{}, std::array<double, 2>{}).get()[0] == 0);
    const std::vector<std::byte> bytes{std::byte{1}, std::byte{0}, std::byte{2}};
    EXPECT(crt::submit<reversed>(crt::bytes(bytes.data(), 2), bytes).get() ==
           std::vector<std::byte>{std::byte{0}, std::byte{1}, std::byte{1}, std::byte{0},
                                  std::byte{2}});
    std::vector<std::pair<std::string, std::string>> rows{{"x", "1"}, {"y", "2"}, {"x", "3"}};
    EXPECT(crt::submit<grouped>(rows).get() == table{{"x", {"1", "3"}}, {"y", {"2"}}});
    EXPECT(crt::submit<three>(5).get() == std::tuple<int, std::string, bool>{5, "some", true});
    EXPECT(crt::submit<three>(nullptr).get() ==
           std::tuple<int, std::string, bool>{-1, "none", false});
    EXPECT(crt::submit<half>(3).get() == 1.5);
}

static void structs_travel()
{
    point p = crt::submit<mirrored>(point{1, 2}).get();
    EXPECT(p.x == 2 && p.y == 1);
    person made =
        crt::submit<older>(person{"Ada", 36, {1.0F}, "a"}, std::vector<bool>{true, false}).get();
    EXPECT(made.name == "Ada" && made.age == 38 && made.heights.size() == 2 && made.nick == "a");
    crt::error e = thrown(
        [] { crt::submit<mirrored>(crt::any_ref(crt::put(std::vector<std::byte>(3)))).get(); });
    EXPECT(e.status() == CRT_ERR_INVALID && has(e, "3 bytes"));
    e = thrown([] { crt::any_ref(crt::put(std::vector<std::string>{"a"})).get<person>(); });
    EXPECT(e.status() == CRT_ERR_INVALID && has(e, "1 entries, 4"));
}

static void refs_stand_for_values_and_travel()
{
    crt::ref<std::string> text = crt::put("stored"), copy = text, moved = std::move(copy);
    EXPECT(!copy && moved.get() == "stored" && text.id() == moved.id());
    EXPECT(crt::submit<texts>(text, moved, "-", text).get() == "storedstored-stored");
    EXPECT(crt::submit<passed_on>(text).get() == "stored");
    EXPECT(crt::submit<half>(crt::put(5)).get() == 2.5);
    std::vector<crt::ref<std::string>> two =
        crt::put(std::vector<crt::ref<std::string>>{text, moved}).get();
    EXPECT(two.size() == 2 && two[0].get() == "stored" && two[1].id() == text.id());
    crt::any_ref list = crt::put(std::vector<std::string>{"x", "y"});
    crt::any_ref y = crt::submit<second>(list);
    EXPECT(y.get<std::string>() == "y" && y.get<std::string_view>() == "y");
    EXPECT(thrown([&] { (void)y.get<int>(); }).status() == CRT_ERR_INVALID);
    EXPECT(thrown([] { crt::ref<int>().get(); }).status() == CRT_ERR_INVALID);
    EXPECT(thrown([] { crt::put(std::string("a\0b", 3)); }).status() == CRT_ERR_INVALID);
}

static void objects_are_written_in_place()
{
    crt::object<float> object({4});
    std::iota(object.begin(), object.end(), 1.0F);
    crt::ref<std::vector<float>> sealed = std::move(object).seal();
    EXPECT(crt::submit<doubled>(sealed).get() == std::vector<float>{2, 4, 6, 8});
    crt::span<const float> view = sealed.get<crt::span<const float>>();
    EXPECT(view.size() == 4 && view[3] == 4);

    crt_object_t *made = nullptr;
    crt_tensor_t memory;
    const std::int64_t shape[] = {2};
    crt::check(crt_object_create(CRT_DTYPE_FLOAT32, 1, shape, &made, &memory));
    crt::object<float> taken(made, memory);
    taken[0] = taken[1] = 3;
    EXPECT(std::move(taken).seal().get() == std::vector<float>{3, 3});
    crt::check(crt_object_create(CRT_DTYPE_FLOAT32, 1, shape, &made, &memory));
    EXPECT(thrown([&] { crt::object<double> other(made, memory); }).status() == CRT_ERR_INVALID);

    crt::object<float> given({2});
    given[0] = given[1] = 7;
    EXPECT(crt::submit<doubled>(std::move(given)).get() == std::vector<float>{14, 14});
    EXPECT(crt::submit<filled>(3).get() == std::vector<float>(6, 3.0F));
    // The text throws after the object was packed: the room is freed, or the store would be full.
    for (int i = 0; i < 20; i++) {
        crt::object<float> lost({2 << 20});
        EXPECT(thrown([&] {
                   crt::submit<named>(std::move(lost), std::string("a\0", 2));
               }).status() == CRT_ERR_INVALID);
    }
    crt::error e =
        thrown([] { crt::submit<doubled>(crt::any_ref(crt::put(std::vector<double>{1}))).get(); });
    EXPECT(e.status() == CRT_ERR_INVALID && has(e, "float64, float32"));
}

// ------------------------------------------------------------------ exceptions

static int throws(int how)
{
    std::string held(100, 'x'); // must be freed
    switch (how) {
    case 0: throw std::runtime_error("no such row");
    case 1: throw crt::error(CRT_ERR_NOT_FOUND, "no such column");
    case 2: throw std::bad_alloc();
    case 3: throw 7;
    default: return how;
    }
}
static int through(int how) { return crt::submit<throws>(how).get(); }
static void reads(int) {}
static int ends_process()
{
    std::raise(SIGKILL);
    return 0;
}
static int naps(crt::call &call, int most_ms)
{
    for (int ms = 0; ms < most_ms && !call.is_cancelled(); ms += 5)
        std::this_thread::sleep_for(5ms);
    return most_ms;
}

static void exceptions_become_failures_and_failures_exceptions()
{
    crt::error e = thrown([] { crt::submit<throws>(0).get(); });
    EXPECT(e.status() == CRT_ERR_USER && has(e, "no such row"));
    e = thrown([] { crt::submit<throws>(1).get(); });
    EXPECT(e.status() == CRT_ERR_NOT_FOUND && has(e, "no such column"));
    EXPECT(thrown([] { crt::submit<throws>(2).get(); }).status() == CRT_ERR_NO_MEMORY);
    e = thrown([] { crt::submit<throws>(3).get(); });
    EXPECT(e.status() == CRT_ERR_USER && has(e, "no std::exception"));
    EXPECT(crt::submit<throws>(4).get() == 4);
    e = thrown([] { crt::submit<through>(1).get(); });
    EXPECT(e.status() == CRT_ERR_NOT_FOUND && has(e, "no such column"));
    e = thrown([] { crt::submit<reads>(std::int64_t{1} << 40).get(); });
    EXPECT(e.status() == CRT_ERR_INVALID && has(e, "reads"));
    crt::ref<int> failed = crt::submit<throws>(0);
    failed.wait();
    EXPECT(failed.is_ready() && failed.failure()->may_have_run);
    EXPECT(std::string_view(failed.failure()->method) == "throws");
}

static void dead_workers_are_exceptions()
{
    crt::error e =
        thrown([] { crt::submit<ends_process>(CRT_TASK_OPTIONS(.max_attempts = 1)).get(); });
    EXPECT(e.status() == CRT_ERR_WORKER_DIED);
}

static void waits_have_limits()
{
    crt::ref<int> nap = crt::submit<naps>(60000);
    EXPECT(thrown([&] { nap.get_for(10ms); }).status() == CRT_ERR_TIMED_OUT);
    EXPECT(!nap.wait_for(1ms) && !nap.is_ready());
    nap.cancel();
    EXPECT(thrown([&] { nap.get(); }).status() == CRT_ERR_CANCELLED);
    EXPECT(crt::submit<naps>(0).get_for(std::chrono::hours::max()) == 0);
}

// ------------------------------------------------------------------ actors

class counter
{
  public:
    explicit counter(std::int64_t start, const std::string &place = "") : value(start), end(place)
    {
        if (start < 0)
            throw std::invalid_argument("a counter begins at 0 or more");
    }
    ~counter()
    {
        if (!end.empty())
            (void)crt_kv_put(end.c_str(), "ended", 5, true);
    }
    std::int64_t add(std::int64_t amount)
    {
        if (amount == 0)
            throw std::invalid_argument("an amount of 0");
        return value += amount;
    }
    std::int64_t get() const noexcept { return value; }
    // A number that lives on when the process dies.
    void keep(crt::call &call)
    {
        call.save(crt::bytes(reinterpret_cast<const std::byte *>(&value), sizeof(value)));
    }
    void restore(crt::bytes state)
    {
        if (state.size() != sizeof(value))
            throw crt::error(CRT_ERR_CORRUPT, "a state of another size");
        std::memcpy(&value, state.data(), sizeof(value));
    }
    void die() { std::raise(SIGKILL); }
    void count(crt::yield<std::int64_t> &yield, std::int64_t most)
    {
        for (std::int64_t i = 0; i < most; i++)
            yield(value + i);
    }
    crt::actor<counter> self(crt::call &call) { return call.self<counter>(); }

  private:
    std::int64_t value;
    std::string end;
};
template <>
struct crt::actor_class<counter>
    : crt::define_actor<counter(std::int64_t, const std::string &), &counter::add, &counter::get,
                        &counter::keep, &counter::die, &counter::count, &counter::self> {
};

// Adds in another actor.
class agent
{
  public:
    explicit agent(crt::actor<counter> to) : target(std::move(to)) {}
    std::int64_t add_twice(std::int64_t amount)
    {
        target.tell<&counter::add>(amount);
        return target.call<&counter::add>(amount).get();
    }

  private:
    crt::actor<counter> target;
};
template <>
struct crt::actor_class<agent> : crt::define_actor<agent(crt::actor<counter>), &agent::add_twice> {
    static constexpr const char *name = "Agent";
};

static void a_class_is_an_actor()
{
    auto actor = crt::create<counter>(CRT_ACTOR_OPTIONS(.name = "main counter"), 5, "the end");
    actor.wait_ready(60s);
    EXPECT(actor.call<&counter::add>(2).get() == 7);
    EXPECT(actor.call<&counter::get>(CRT_CALL_OPTIONS(.limit_ms = 60000)).get() == 7);
    crt::error e = thrown([&] { actor.call<&counter::add>(0).get(); });
    EXPECT(e.status() == CRT_ERR_USER && has(e, "an amount of 0"));
    auto other = crt::create<agent>(actor);
    EXPECT(other.call<&agent::add_twice>(10).get() == 27);
    crt::ref<std::int64_t> failed = other.call<&agent::add_twice>(0);
    failed.wait();
    EXPECT(std::string_view(failed.failure()->class_name) == "Agent");
    EXPECT(std::string_view(crt_node_id()).size() == 32);
    auto found = crt::find<counter>("main counter");
    EXPECT(found.id() == actor.id() && found.call<&counter::get>().get() == 27);
    EXPECT(actor.call<&counter::self>().get().id() == actor.id());
    EXPECT(thrown([] { crt::find<agent>("main counter"); }).status() == CRT_ERR_INVALID);
    EXPECT(thrown([] { crt::find<agent>("nobody"); }).status() == CRT_ERR_NOT_FOUND);
    // The destructor runs at an end in order, after the head has told others of the end.
    crt::waitset set;
    set.add_end(actor);
    actor.stop(std::chrono::hours::max());
    EXPECT(set.next_for(60s)->kind == CRT_EVENT_ACTOR_END);
    char *ended = nullptr;
    size_t size = 0;
    crt_status_t status = CRT_ERR_NOT_FOUND;
    for (auto until = std::chrono::steady_clock::now() + 60s;
         status == CRT_ERR_NOT_FOUND && std::chrono::steady_clock::now() < until;
         std::this_thread::sleep_for(5ms))
        status = crt_kv_get("the end", reinterpret_cast<void **>(&ended), &size);
    crt::check(status);
    EXPECT(std::string(ended, size) == "ended");
    crt_free(ended);
}

static void a_constructor_that_throws_fails_the_calls()
{
    auto actor = crt::create<counter>(-1, "");
    crt::error e = thrown([&] { actor.call<&counter::get>().get(); });
    EXPECT(e.status() == CRT_ERR_USER && has(e, "begins at 0"));
    EXPECT(thrown([&] { actor.wait_ready(); }).status() == CRT_ERR_USER);
}

static void a_killed_actor_is_an_exception()
{
    auto actor = crt::create<counter>(1, "");
    crt::error e = thrown([&] { actor.call<&counter::die>().get(); });
    EXPECT(e.status() == CRT_ERR_ACTOR_DIED);
    auto other = crt::create<counter>(1, "");
    EXPECT(other.call<&counter::get>().get() == 1);
    other.kill();
    EXPECT(thrown([&] { other.call<&counter::get>().get(); }).status() == CRT_ERR_ACTOR_DIED);
}

static void a_restarted_actor_restores_its_state()
{
    auto actor = crt::create<counter>(CRT_ACTOR_OPTIONS(.max_restarts = 1), 1, "");
    actor.call<&counter::add>(41).get();
    actor.call<&counter::keep>().get();
    EXPECT(thrown([&] { actor.call<&counter::die>().get(); }).status() == CRT_ERR_ACTOR_DIED);
    EXPECT(actor.call<&counter::get>().get() == 42);
}

// ------------------------------------------------------------------ many

static void count(crt::yield<int> &yield, int most)
{
    for (int i = 0; i < most; i++)
        yield(i);
    if (most == 3)
        throw std::out_of_range("three is too many");
}
static void count_on(crt::yield<int> &yield)
{
    for (int i = 0;; i++)
        yield(i);
}

static void streams_are_ranges()
{
    int sum = 0;
    for (int number : crt::submit_stream<count>(100))
        sum += number;
    EXPECT(sum == 4950);
    auto failing = crt::submit_stream<count>(3);
    sum = 0;
    crt::error e = thrown([&] {
        for (int number : failing)
            sum += number;
    });
    EXPECT(sum == 3 && e.status() == CRT_ERR_USER && has(e, "three is too many"));
    crt::any_ref end;
    {
        auto endless = crt::submit_stream<count_on>();
        end = endless.completed();
        EXPECT(endless.next_for(60s).get() == 0 && endless.next().get() == 1);
    }
    EXPECT(thrown([&] { end.get<void>(); }).status() == CRT_ERR_CANCELLED);
    auto actor = crt::create<counter>(7, "");
    std::int64_t last = 0;
    for (std::int64_t number : actor.call_stream<&counter::count>(3))
        last = number;
    EXPECT(last == 9);
}

static int square(int number) { return number * number; }

static void many_refs_are_waited_for()
{
    std::vector<crt::ref<int>> refs;
    for (int i = 0; i < 20; i++)
        refs.push_back(crt::submit<square>(i));
    EXPECT(crt::get_all(refs)[19] == 361);
    crt::wait_all(refs, 60s);
    EXPECT(crt::wait_some(refs, 20, 60s).size() == 20);
    refs.push_back(crt::ref<int>(crt::submit<throws>(0)));
    EXPECT(thrown([&] { crt::get_all(refs); }).status() == CRT_ERR_USER);

    crt_waitset_t *made = nullptr;
    crt::check(crt_waitset_new(&made));
    crt::waitset set(made);
    EXPECT(set.handle() == made);
    std::vector<crt::ref<int>> two{crt::submit<square>(3), crt::submit<throws>(1)};
    auto items = crt::submit_stream<count>(2);
    set.add(two[0], &two[0]);
    set.add(two[1], &two[1]);
    set.add(items, &items);
    int values = 0, failures = 0, ends = 0, yielded = 0;
    while (auto event = set.next()) {
        if (event->kind == CRT_EVENT_REF && event->status == CRT_OK)
            values += event->ref.get<int>() == 9 && event->user == &two[0];
        else if (event->kind == CRT_EVENT_REF)
            failures += event->status == CRT_ERR_NOT_FOUND && event->user == &two[1];
        else if (event->kind == CRT_EVENT_ITEM)
            yielded++;
        else
            ends += event->kind == CRT_EVENT_STREAM_END && event->status == CRT_END_OF_STREAM;
    }
    EXPECT(values == 1 && failures == 1 && yielded == 2 && ends == 1 && set.size() == 0);

    std::promise<int> seen;
    crt::ref<int> nine = crt::submit<square>(3);
    nine.on_ready([&seen, text = std::string(100, 'x')](const crt::any_ref &ref) {
        seen.set_value(ref.get<int>());
    });
    EXPECT(seen.get_future().get() == 9);
}

class member
{
  public:
    member(int size, int rank) : all(joined(size, rank)) {}
    std::vector<float> reduce(std::vector<float> mine)
    {
        all.allreduce(crt::span<float>(mine), CRT_REDUCE_SUM);
        all.barrier();
        return mine;
    }

  private:
    static crt_group_t *joined(int size, int rank)
    {
        crt_group_t *made = nullptr;
        crt::check(crt_group_join(size, rank, nullptr, &made));
        return made;
    }
    crt::group all;
};
template <> struct crt::actor_class<member> : crt::define_actor<member(int, int), &member::reduce> {
};

static void actors_reduce_together()
{
    std::vector<crt::actor<member>> members{crt::create<member>(2, 0), crt::create<member>(2, 1)};
    std::vector<crt::ref<std::vector<float>>> refs;
    for (std::size_t i = 0; i < members.size(); i++)
        refs.push_back(
            members[i].call<&member::reduce>(std::vector<float>{1, static_cast<float>(i)}));
    for (const auto &sum : crt::get_all(refs))
        EXPECT(sum == std::vector<float>{2, 1});
}

static void resources_are_reserved()
{
    crt::placement_group group({CRT_BUNDLE(.num_cpus = 1)});
    group.wait(60s);
    EXPECT(group.ready().get());
    EXPECT(crt::submit<square>(CRT_TASK_OPTIONS(CRT_IN_BUNDLE(group.handle(), 0)), 4).get() == 16);
    group.remove();
}

// ------------------------------------------------------------------ driver

static void driver(int argc, char **argv)
{
    EXPECT(argc > 0 && std::string_view(argv[0]).size() > 0);
    values_travel();
    structs_travel();
    refs_stand_for_values_and_travel();
    objects_are_written_in_place();
    exceptions_become_failures_and_failures_exceptions();
    dead_workers_are_exceptions();
    waits_have_limits();
    a_class_is_an_actor();
    a_constructor_that_throws_fails_the_calls();
    a_killed_actor_is_an_exception();
    a_restarted_actor_restores_its_state();
    streams_are_ranges();
    many_refs_are_waited_for();
    actors_reduce_together();
    resources_are_reserved();
}

// An exception of the driver ends the program with 1, after the cluster was left.
static int failing_driver() { throw std::runtime_error("a driver that throws"); }

int main(int argc, char **argv)
{
    if (argc > 1 && std::string_view(argv[1]) == "throws")
        return crt::run<failing_driver>(argc, argv) == 1 ? 0 : 1;
    if (argc > 1 && std::string_view(argv[1]) == "session") {
        crt::session session(argc, argv, CRT_OPTIONS(.num_cpus = 1, .no_log_to_driver = true));
        return crt::submit<square>(5).get() == 25 ? 0 : 1;
    }
    if (argc > 1 && std::string_view(argv[1]) == "context") {
        crt::context context(argc, argv, "local:2x1");
        crt::session session(argc, argv);
        return crt::submit<square>(5).get() == 25 && context.info().is_private ? 0 : 1;
    }
    return crt::run<driver>(
        argc, argv,
        CRT_OPTIONS(.num_cpus = 4, .object_store_memory = 64 << 20, .no_log_to_driver = true));
}
