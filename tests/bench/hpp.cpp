// SPDX-License-Identifier: Apache-2.0
// What crt.hpp costs: calls and tasks through crt.hpp and through crt.h in turns, in one process.
// Each line has the median of the rounds of both, the spread of each (10th to 90th percentile), the
// median of the ratios of neighbours, and the ratio of the 10th percentiles, which other work of
// the machine disturbs least.
//
//     hpp [ROUNDS]
#include <crt.hpp>

#include <cstdio>
#include <cstdlib>

#include "hpp_c.h"
#include "own_cluster.h"

class adder_hpp
{
public:
    std::int64_t add(std::int64_t amount)
    {
        return sum += amount;
    }

private:
    std::int64_t sum = 0;
};
template <> struct crt::actor_class<adder_hpp> : crt::define_actor<adder_hpp(), &adder_hpp::add> {
};

static std::int64_t square_hpp(std::int64_t number)
{
    return number * number;
}
static std::int64_t length_hpp(const std::string &text)
{
    return static_cast<std::int64_t>(text.size());
}

static std::int64_t calls(const crt::actor<adder_hpp> &actor, int count)
{
    std::int64_t sum = 0;

    for (int i = 0; i < count; i++)
        sum = actor.call<&adder_hpp::add>(i).get();
    return sum;
}
static std::int64_t batch(const crt::actor<adder_hpp> &actor,
                          std::vector<crt::ref<std::int64_t>> &refs, int count)
{
    std::int64_t sum = 0;

    for (int i = 0; i < count; i++)
        refs.push_back(actor.call<&adder_hpp::add>(i));
    for (const auto &ref : refs)
        sum = ref.get();
    crt::drop_all(refs);
    return sum;
}
static std::int64_t tasks(int count)
{
    std::int64_t number = 0;

    for (int i = 0; i < count; i++)
        number = crt::submit<square_hpp>(i).get();
    return number;
}
static std::int64_t texts(int count)
{
    std::int64_t number = 0;

    for (int i = 0; i < count; i++)
        number = crt::submit<length_hpp>("a text of some length").get();
    return number;
}

// ------------------------------------------------------------------ figures

template <class Function> static double microseconds(Function &&function, int count)
{
    auto begin = std::chrono::steady_clock::now();

    function();
    std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    return took.count() / count;
}

static double at(std::vector<double> values, double part)
{
    std::sort(values.begin(), values.end());
    return values[static_cast<std::size_t>(part * static_cast<double>(values.size() - 1))];
}

template <class C, class Cpp>
static void compare(const char *what, int rounds, int count, C &&c, Cpp &&cpp)
{
    std::vector<double> of_c, of_cpp, ratios;

    for (int i = -2; i < rounds; i++) { // the first two warm up
        double first = i % 2 ? microseconds(c, count) : microseconds(cpp, count);
        double second = i % 2 ? microseconds(cpp, count) : microseconds(c, count);

        if (i < 0)
            continue;
        of_c.push_back(i % 2 ? first : second);
        of_cpp.push_back(i % 2 ? second : first);
        ratios.push_back(of_cpp.back() / of_c.back());
    }
    std::printf("%-12s crt.h %7.3f us (%.3f to %.3f)  crt.hpp %7.3f us (%.3f to %.3f)  "
                "ratio %.4f, quiet %.4f\n",
                what, at(of_c, 0.5), at(of_c, 0.1), at(of_c, 0.9), at(of_cpp, 0.5),
                at(of_cpp, 0.1), at(of_cpp, 0.9), at(ratios, 0.5),
                at(of_cpp, 0.1) / at(of_c, 0.1));
    std::fflush(stdout);
}

static void driver(int argc, char **argv)
{
    constexpr int many = 1000, few = 100;
    int rounds = argc > 1 ? std::atoi(argv[1]) : 2001;
    crt::any_actor c(c_adder());
    auto cpp = crt::create<adder_hpp>();
    std::vector<crt_ref_t *> c_refs(many);
    std::vector<crt::ref<std::int64_t>> refs;

    refs.reserve(many);
    cpp.wait_ready();
    compare("call", rounds, few, [&] { c_calls(c.handle(), few); }, [&] { calls(cpp, few); });
    compare("1000 calls", rounds, many, [&] { c_batch(c.handle(), c_refs.data(), many); },
            [&] { batch(cpp, refs, many); });
    compare("task", rounds, few, [&] { c_tasks(few); }, [&] { tasks(few); });
    compare("task, text", rounds, few, [&] { c_texts(few); }, [&] { texts(few); });
}

int main(int argc, char **argv)
{
    use_own_cluster();
    return crt::run<driver>(argc, argv, CRT_OPTIONS(.num_cpus = 2));
}
