// SPDX-License-Identifier: Apache-2.0
// counter_actor.c in C++: an actor is an object that lives in a process of its own.
#include <crt.hpp>
#include <iostream>

class counter
{
public:
    explicit counter(int start) : value(start) {}
    int add(int amount)
    {
        if (amount < 0)
            throw std::invalid_argument("can't count down by " + std::to_string(-amount));
        return value += amount;
    }

private:
    int value;
};
template <> struct crt::actor_class<counter> : crt::define_actor<counter(int), &counter::add> {};

static void driver()
{
    auto actor = crt::create<counter>(100);
    std::vector<crt::ref<int>> refs;

    for (int i = 0; i < 3; i++) // calls of one caller run in the order they were made
        refs.push_back(actor.call<&counter::add>(i + 1));
    for (const auto &ref : refs)
        std::cout << "the counter is at " << ref.get() << "\n";

    auto wrong = actor.call<&counter::add>(-5);
    try {
        wrong.get();
    } catch (const crt::error &) {
        const crt_error_t *error = wrong.failure();

        std::cout << error->class_name << "." << error->method << " failed: " << error->text
                  << "\n";
    }
}

int main(int argc, char **argv)
{
    return crt::run<driver>(argc, argv);
}
