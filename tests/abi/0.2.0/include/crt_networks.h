/* SPDX-License-Identifier: Apache-2.0 */
/* Networks by name, for images and data of the same form.
 *
 *     mlp, mlp-4096x4                        dense layers of 128, 128 or of 4096, four times
 *     convnet, cnn, fcnn                     small convolutional networks for MNIST
 *     lenet                                  20 and 50 windows of 5 x 5, then 500
 *     vit, vit-gelu                          patches of 4 x 4, 4 encoders of 32 channels and 8
 *                                            heads, with ReLU or GELU, the mean of all tokens
 *     resnet18, 34, 50, 101, 152             of He et al., with the stem for 32 x 32 places
 *     resnet20, 32, 44, 56, 110              of He et al., 6n + 2 layers for CIFAR-10, shortcuts
 *                                            without parameters; with 1 x 1 convolutions:
 *                                            resnet32-projection
 *     vgg11, vgg13, vgg16, vgg19             plain, or with batch norm: vgg11-bn
 *
 * Weights start as in PyTorch.
 */
#ifndef CRT_NETWORKS_H
#define CRT_NETWORKS_H

#include "crt_ml.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Reads the name of a network, which may have capitals, hyphens and underscores, and stores the
 * exact name: "resnet18" for "ResNet-18". *name_out is static text. Errors:
 * CRT_ERR_NOT_FOUND, when there is no such network (the text has the nearest name). */
CRT_API crt_status_t crt_network_parse(const char *name, const char **name_out);

/* Makes a network for images of `input` (NULL: 28 x 28 x 1, for resnet and vgg 32 x 32 x 3)
 * with `classes` classes (2..256). `seed` determines the first weights and the dropout. Caller
 * owns the result and drops it with crt_model_drop.
 *
 * Errors: CRT_ERR_NOT_FOUND, when there is no such network (the text has the nearest name);
 * CRT_ERR_INVALID, when `classes` is wrong or the images are too small; CRT_ERR_TOO_LARGE,
 * when the model has too many parameters; CRT_ERR_UNSUPPORTED, when `input` has a member set that
 * only a newer version has; CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_network_by_name(const char *name, const crt_input_t *input,
                                         int classes, uint64_t seed,
                                         crt_model_t **model_out);

/* The name of network number `index`, from 0; NULL beyond the last. Static text. */
CRT_API const char *crt_network_name(size_t index);

#ifdef __cplusplus
}
#endif

#endif
