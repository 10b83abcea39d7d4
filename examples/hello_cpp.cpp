// SPDX-License-Identifier: Apache-2.0
#include <crt.hpp>
#include <iostream>

// Runs in a worker process. The program is hello_task.c in C++.
static std::string hello(const std::string &name, int number)
{
    const std::string text = "hello " + name + ", " + std::to_string(number) + " squared is ";
    return text + std::to_string(number * number);
}

// Runs in the process you started.
static void driver()
{
    std::vector<crt::ref<std::string>> refs;
    for (int i = 0; i < 4; i++) // all four are under way at once
        refs.push_back(crt::submit<hello>("cluster", i));
    for (const std::string &text : crt::get_all(refs))
        std::cout << text << "\n";
}

int main(int argc, char **argv)
{
    return crt::run<driver>(argc, argv);
}
