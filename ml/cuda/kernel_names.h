/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of *.cu, by their names. Includes nothing, so that tests compile it beside them. */
#ifndef CRTI_ML_CUDA_KERNEL_NAMES_H
#define CRTI_ML_CUDA_KERNEL_NAMES_H

#define CRTI_CUDA_KERNELS(X)                                                             \
    X(relu_forward)                                                                      \
    X(relu_backward)                                                                     \
    X(add)                                                                               \
    X(accumulate)                                                                        \
    X(multiply)                                                                          \
    X(dropout)                                                                           \
    X(turn)                                                                              \
    X(load)                                                                              \
    X(store)                                                                             \
    X(add_bias)                                                                          \
    X(sum_channels)                                                                      \
    X(subsample_forward)                                                                 \
    X(subsample_backward)                                                                \
    X(max_pool_forward)                                                                  \
    X(max_pool_backward)                                                                 \
    X(average_pool_forward)                                                              \
    X(average_pool_backward)                                                             \
    X(norm_measure)                                                                      \
    X(norm_keep)                                                                         \
    X(norm_forward)                                                                      \
    X(norm_measure_back)                                                                 \
    X(norm_gradients)                                                                    \
    X(norm_backward)                                                                     \
    X(softmax)                                                                           \
    X(cross_entropy)                                                                     \
    X(mean_loss)                                                                         \
    X(sum_columns)                                                                       \
    X(sum_float_columns)                                                                 \
    X(sum_partials)                                                                      \
    X(layer_norm_forward)                                                                \
    X(layer_norm_sums)                                                                   \
    X(layer_norm_backward)                                                               \
    X(gelu_forward)                                                                      \
    X(gelu_backward)                                                                     \
    X(mish_forward)                                                                      \
    X(mish_backward)                                                                     \
    X(attention_softmax)                                                                 \
    X(attention_softmax_back)                                                            \
    X(patches_forward)                                                                   \
    X(patches_backward)                                                                  \
    X(token_forward)                                                                     \
    X(positions_forward)                                                                 \
    X(copy_columns)                                                                      \
    X(embed_forward)                                                                     \
    X(embed_places)                                                                      \
    X(embed_gradients)                                                                   \
    X(window_forward)                                                                    \
    X(window_backward)                                                                   \
    X(maxout_forward)                                                                    \
    X(maxout_backward)                                                                   \
    X(parse)                                                                             \
    X(parse_back)                                                                        \
    X(squares)                                                                           \
    X(judge_step)                                                                        \
    X(sgd)                                                                               \
    X(adam)                                                                              \
    X(follow)

#endif
