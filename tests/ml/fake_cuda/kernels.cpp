/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of ml/cuda as functions of the host: compiled twice, once with MIXED. See fake.h. */
#include "cuda_words.h"

#include <tuple>
#include <type_traits>

#include "ml/cuda/kernel_names.h"
#include "ml/cuda/shapes.h"

#include "ml/cuda/kernels.cu"

#include "ml/cuda/tokens.cu"

#include "ml/cuda/words.cu"

#include "ml/cuda/parser.cu"

#include "ml/cuda/steps.cu"

namespace
{

/* Pointers of kernels are to device memory. */
template <typename T> T translated(const char *kernel, void *argument)
{
    T value = *static_cast<T *>(argument);

    if constexpr (std::is_pointer_v<T>) {
        if (value == nullptr)
            return value;
        void *memory = fake_memory(value, 1);

        if (!memory)
            fake_die("%s: an argument is no device memory", kernel);
        return static_cast<T>(memory);
    } else {
        return value;
    }
}

template <auto function, const char *name> struct wrapped;

template <typename... A, void (*function)(A...), const char *name>
struct wrapped<function, name> {
    using all = std::tuple<A...>;

    static void *copy(void **arguments)
    {
        return new all(take(arguments, std::index_sequence_for<A...>()));
    }

    template <size_t... i> static all take(void **arguments, std::index_sequence<i...>)
    {
        return all(translated<A>(name, arguments[i])...);
    }

    static void run(void *context)
    {
        std::apply(function, *static_cast<all *>(context));
    }

    static void drop(void *copied)
    {
        delete static_cast<all *>(copied);
    }
};

#define NAME(name) constexpr char name_of_##name[] = #name;
CRTI_CUDA_KERNELS(NAME)

} // namespace

#define ENTRY(name)                                                                      \
    {name_of_##name, wrapped<&name, name_of_##name>::copy,                               \
     wrapped<&name, name_of_##name>::run, wrapped<&name, name_of_##name>::drop},

#ifdef MIXED
const fake_kernel_t fake_kernels_of_mixed[] = {
#else
const fake_kernel_t fake_kernels_of_float[] = {
#endif
    CRTI_CUDA_KERNELS(ENTRY){nullptr, nullptr, nullptr, nullptr}};
