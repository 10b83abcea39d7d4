/* SPDX-License-Identifier: Apache-2.0 */
/* The learning library of crt: layers, models, optimizers, data sets.
 *
 * A model keeps all its parameters in one flat buffer of float32 and all its gradients in another,
 * so that the weights are sent as one object and a gradient as one message:
 *
 *     crt_batches_next -> crt_model_compute_gradients -> (gradient tensor)
 *         -> crt_optimizer_apply -> (weights tensor) -> crt_model_accuracy
 *
 * Weights may be read in place from memory outside the model, such as an object of the store that
 * is mapped read only: every function that computes takes the weights as an argument.
 *
 * Structs are made with their macro or function (CRT_BATCH, CRT_INPUT, crt_adam_options, ...),
 * which write the size that the struct has in the headers of the program into the first member. A
 * call returns CRT_ERR_INVALID for a struct that was made without them, and CRT_ERR_UNSUPPORTED
 * when the program sets a member that only a newer version of the library has.
 *
 * Threads: one thread at a time uses an object; different threads may use different objects at the
 * same time. A data set does not change after it was made and may be shared among threads.
 *
 * The functions are in a library of their own: cc app.c $(pkg-config --cflags --libs crt_ml)
 *   */
#ifndef CRT_ML_H
#define CRT_ML_H

#include "crt_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sets the number of threads that the matrix products of this process may use (at least 1).
 * Workers keep the number that the runtime gave them. The kernels are those for the vector
 * instructions of this processor, even if OpenBLAS is older than the processor; the
 * environment variable OPENBLAS_CORETYPE has priority. */
CRT_API void crt_ml_set_threads(int threads);

/* ---------------------------------------------------------------- data sets */

/* Samples and their labels. Features are uint8 (read as x / 255) or float32; labels are uint8. */
typedef struct crt_dataset crt_dataset_t;

typedef enum crt_split { CRT_SPLIT_TRAIN = 0, CRT_SPLIT_TEST = 1 } crt_split_t;

/* Makes a data set over memory of the caller, which must outlive the data set; nothing is
 * copied. `features` is (samples, ...), dense, uint8 or float32. `labels` is (samples), uint8,
 * each below `classes` (2..256); the labels are checked once, in this call. Caller owns the
 * result and drops it with crt_dataset_drop.
 *
 * Errors: CRT_ERR_INVALID, when a tensor, a label or `classes` is wrong; CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_dataset_new(const crt_tensor_t *features,
                                     const crt_tensor_t *labels, int classes,
                                     crt_dataset_t **set_out);

/* Makes a data set of part `index` (0 to parts - 1) of `parts` consecutive, equally large
 * parts of `set`. The shard borrows the memory of `set`, which must outlive it. Caller owns
 * the result and drops it with crt_dataset_drop.
 *
 * Errors: CRT_ERR_INVALID, when there is no such part; CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_dataset_new_shard(const crt_dataset_t *set, int index, int parts,
                                           crt_dataset_t **shard_out);

/* Makes a data set of `count` drawings of the digits 0 to 9, 28 x 28, that look like
 * handwriting: strokes in several styles, distorted, blurred and noisy. Sample i of a seed
 * does not depend on `count`. Caller owns the result and drops it with crt_dataset_drop.
 *
 * Errors: CRT_ERR_INVALID, when `count` is wrong; CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_dataset_new_digits(size_t count, uint64_t seed,
                                            crt_dataset_t **set_out);

/* Reads images and labels from two IDX files (the format of MNIST), plain or gzip. Caller owns
 * the result and drops it with crt_dataset_drop.
 *
 * Errors: CRT_ERR_NOT_FOUND, when a file is missing; CRT_ERR_CORRUPT, when a file is damaged,
 * a label is not below `classes`, or the counts differ; CRT_ERR_UNSUPPORTED, when the elements
 * are of a type that the library does not read; CRT_ERR_TOO_LARGE; CRT_ERR_IO;
 * CRT_ERR_INVALID, when `classes` is not 2..256; CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_dataset_read_idx(const char *images_path,
                                          const char *labels_path, int classes,
                                          crt_dataset_t **set_out);

/* Opens the training half or the test half of a source. `source` "builtin" draws 60,000
 * training or 10,000 test digits. Any other source is a folder with train-images-idx3-ubyte,
 * train-labels-idx1-ubyte, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte (or .idx3-ubyte,
 * .idx1-ubyte), each plain or with .gz. Caller owns the result and drops it with
 * crt_dataset_drop.
 *
 * Errors: those of crt_dataset_read_idx: CRT_ERR_NOT_FOUND, when a file is missing;
 * CRT_ERR_CORRUPT, when a file is damaged; CRT_ERR_UNSUPPORTED; CRT_ERR_TOO_LARGE; CRT_ERR_IO;
 * CRT_ERR_INVALID, when the name of the folder is too long; CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_dataset_open(const char *source, crt_split_t split,
                                      crt_dataset_t **set_out);

/* The number of samples of a set, the number of features of each sample, and the number of
 * classes. */
CRT_API size_t crt_dataset_count(const crt_dataset_t *set);
CRT_API int crt_dataset_width(const crt_dataset_t *set);
CRT_API int crt_dataset_classes(const crt_dataset_t *set);

/* The features, of shape (samples, width), and the labels, of shape (samples). Borrowed: valid
 * until the data set is freed. */
CRT_API const crt_tensor_t *crt_dataset_features(const crt_dataset_t *set);
CRT_API const crt_tensor_t *crt_dataset_labels(const crt_dataset_t *set);

/* Frees a data set and sets the pointer to NULL. Objects that borrow its memory must not be used
 * any more. NULL is allowed. */
CRT_API void crt_dataset_drop(crt_dataset_t **set);

/* ---------------------------------------------------------------- batches */

/* Some samples in the form that a model reads. Made with CRT_BATCH. */
typedef struct crt_batch {
    /* Set by CRT_BATCH. */
    size_t struct_size;
    /* Shape (rows, width), float32. */
    crt_tensor_t inputs;
    /* Shape (rows), uint8. */
    crt_tensor_t labels;
} crt_batch_t;
#define CRT_BATCH(...)                                                                   \
    CRTI_VALUE(crt_batch_t, .struct_size = sizeof(crt_batch_t), __VA_ARGS__)

/* An endless sequence of batches. A pass goes through all samples of a set in random order;
 * its last batch may be short. Each pass draws a new order. */
typedef struct crt_batches crt_batches_t;

/* Makes batches of `batch` samples each of `set`, which must outlive the batches. `seed`
 * determines the order. Caller owns the result and drops it with crt_batches_drop.
 *
 * Errors: CRT_ERR_INVALID, when `batch` is wrong; CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_batches_new(const crt_dataset_t *set, int batch, uint64_t seed,
                                     crt_batches_t **batches_out);

/* The next batch. Borrowed: valid until the next call or crt_batches_drop. */
CRT_API const crt_batch_t *crt_batches_next(crt_batches_t *batches);

/* The number of passes over the data that have begun: 0 before the first batch. */
CRT_API uint64_t crt_batches_epoch(const crt_batches_t *batches);

/* Frees batches and sets the pointer to NULL. NULL is allowed. */
CRT_API void crt_batches_drop(crt_batches_t **batches);

/* ---------------------------------------------------------------- models */

/* Kinds of layers. x: the inputs, y: the outputs. */
typedef enum crt_layer_kind {
    /* y = x W' + b; W is (outputs, inputs). */
    CRT_LAYER_DENSE = 1,
    /* y = max(x, 0). */
    CRT_LAYER_RELU = 2,
    /* During training: y = x * (u >= rate) / (1 - rate). */
    CRT_LAYER_DROPOUT = 3,
    /* y = sum of four rows of a table, chosen by the hash of a key. */
    CRT_LAYER_HASH_EMBED = 4,
    /* y[o] = max over p of x W[o,p]' + b[o,p]. */
    CRT_LAYER_MAXOUT = 5,
    /* y(i) = [x(i-w), ..., x(i+w)], zeros beyond a sequence. */
    CRT_LAYER_EXPAND_WINDOW = 6,
    /* y = (x - mean) / sqrt(variance + epsilon) * gain + bias. */
    CRT_LAYER_LAYER_NORM = 7,
    /* y = x + z: the end of a residual block. */
    CRT_LAYER_ADD = 8,
    /* The outputs of several layers side by side. */
    CRT_LAYER_CONCATENATE = 9,
    /* y = x; holds an array that the caller computes with. */
    CRT_LAYER_PARAMETERS = 10,
    /* Convolution; W is (outputs, inputs, kernel, kernel). */
    CRT_LAYER_CONVOLUTION = 11,
    /* The largest number of each window and channel. */
    CRT_LAYER_MAX_POOL = 12,
    /* The mean of the numbers of each window and channel. */
    CRT_LAYER_AVERAGE_POOL = 13,
    /* Normalisation over the batch: mean and variance of each channel. */
    CRT_LAYER_BATCH_NORM = 14,
    /* All places of a sample become one place. */
    CRT_LAYER_FLATTEN = 15,
    /* Every `stride`th place of rows and columns; channels of zeros are added up to `width`. */
    CRT_LAYER_SUBSAMPLE = 16,
    /* y = x Phi(x). */
    CRT_LAYER_GELU = 17,
    /* softmax(q k' / sqrt(d)) v, of q, k and v side by side. */
    CRT_LAYER_ATTENTION = 18,
    /* Squares of places become one place each. */
    CRT_LAYER_PATCHES = 19,
    /* Adds one place at the end, with the same learnt numbers in every sample. */
    CRT_LAYER_TOKEN = 20,
    /* y = x + P; P is (places, channels). */
    CRT_LAYER_POSITIONS = 21,
    /* y = x tanh(log(1 + e^x)). */
    CRT_LAYER_MISH = 22
} crt_layer_kind_t;

/* How the first weights of a layer are drawn. */
typedef enum crt_layer_init {
    /* W uniform in +-sqrt(6 / (outputs + inputs)), b zero. */
    CRT_INIT_GLOROT = 0,
    /* W and b zero: for the layer in front of the softmax. */
    CRT_INIT_ZERO = 1,
    /* W and b uniform in +-1 / sqrt(inputs), as in PyTorch. */
    CRT_INIT_FAN_IN = 2,
    /* W normal with deviation sqrt(2 / outputs), b zero. */
    CRT_INIT_HE = 3,
    /* W uniform in +-1 / sqrt(inputs), b zero. */
    CRT_INIT_FAN_IN_PLAIN = 4
} crt_layer_init_t;

/* One layer of a model. Made with CRT_LAYER, or with the macro of its kind below. Members that a
 * kind does not use are 0. All layers of an array have the same size.
 *
 * A layer reads the output of the layer before it. For models with branches, `from` and `with`
 * name another layer by the distance back from this layer: 1 is the layer before this one, and
 * one more than the number of layers before this one is the input of the model. Because
 * distances are relative, a block of layers can be copied to any place. */
typedef struct crt_layer {
    /* Set by CRT_LAYER. */
    size_t struct_size;
    crt_layer_kind_t kind;
    /* Dense, maxout: the first weights. */
    crt_layer_init_t init;
    /* Dense, maxout, hash embed: outputs. Parameters: columns. */
    int width;
    /* Dropout, hash embed: part of the inputs that is dropped, 0 <= rate < 1. Attention: part
     * of the probabilities that is dropped. */
    double rate;
    /* Distance back to the layer that this layer reads. 0: the layer before this one. */
    int from;
    /* Add: distance back to the layer with the second input. */
    int with;
    /* Concatenate: number of preceding layers to join, in their order (at most 8). */
    int count;
    /* Maxout: number of pieces; the largest is taken. */
    int pieces;
    /* Expand window: rows on each side. */
    int window;
    /* Hash embed, parameters: rows of the table. */
    int rows;
    /* Hash embed: index of the key of a sample. */
    int column;
    /* Hash embed: seed of the hash. */
    uint32_t seed;
    /* Layer norm, batch norm. */
    double epsilon;
    /* Convolution, pools: rows and columns of a window; for pools 0 is the whole sample.
     * Patches: rows and columns of one patch. */
    int kernel;
    /* Convolution, pools: distance from one window to the next. 0: 1 for a convolution, the
     * kernel for pools. */
    int stride;
    /* Convolution, max pool: rows and columns added on each side. */
    int padding;
    /* Convolution: without b. */
    bool no_bias;
    /* Batch norm: how far the running statistics move toward those of a batch. */
    double momentum;
    /* Attention: number of heads. */
    int heads;
} crt_layer_t;

#define CRT_LAYER(...)                                                                   \
    CRTI_VALUE(crt_layer_t, .struct_size = sizeof(crt_layer_t), __VA_ARGS__)

#ifndef __cplusplus
#    define CRT_DENSE(outputs) CRT_LAYER(.kind = CRT_LAYER_DENSE, .width = (outputs))
#    define CRT_DENSE_ZERO(outputs)                                                      \
        CRT_LAYER(.kind = CRT_LAYER_DENSE, .init = CRT_INIT_ZERO, .width = (outputs))
#    define CRT_RELU()         CRT_LAYER(.kind = CRT_LAYER_RELU)
#    define CRT_DROPOUT(rate_) CRT_LAYER(.kind = CRT_LAYER_DROPOUT, .rate = (rate_))
/* Reads key `column_` of the input of the model; `back` is the distance back to that input:
 * see crt_layer_t. */
#    define CRT_HASH_EMBED(outputs, rows_, seed_, column_, back)                         \
        CRT_LAYER(.kind = CRT_LAYER_HASH_EMBED, .width = (outputs), .rows = (rows_),     \
                  .seed = (seed_), .column = (column_), .from = (back))
#    define CRT_MAXOUT(outputs, pieces_)                                                 \
        CRT_LAYER(.kind = CRT_LAYER_MAXOUT, .width = (outputs), .pieces = (pieces_))
#    define CRT_EXPAND_WINDOW(rows_each_side)                                            \
        CRT_LAYER(.kind = CRT_LAYER_EXPAND_WINDOW, .window = (rows_each_side))
#    define CRT_LAYER_NORM() CRT_LAYER(.kind = CRT_LAYER_LAYER_NORM, .epsilon = 1e-8)
/* Adds the output of the layer before this one and that of the layer at the distance `back`. */
#    define CRT_ADD(back) CRT_LAYER(.kind = CRT_LAYER_ADD, .with = (back))
#    define CRT_CONCATENATE(layers)                                                      \
        CRT_LAYER(.kind = CRT_LAYER_CONCATENATE, .count = (layers))
/* A convolution with square windows. CRT_CONVOLUTION_PLAIN has no b; use it before a batch
 * norm. */
#    define CRT_CONVOLUTION(outputs, kernel_, stride_, padding_)                         \
        CRT_LAYER(.kind = CRT_LAYER_CONVOLUTION, .width = (outputs),                     \
                  .kernel = (kernel_), .stride = (stride_), .padding = (padding_))
#    define CRT_CONVOLUTION_PLAIN(outputs, kernel_, stride_, padding_)                   \
        CRT_LAYER(.kind = CRT_LAYER_CONVOLUTION, .width = (outputs),                     \
                  .kernel = (kernel_), .stride = (stride_), .padding = (padding_),       \
                  .no_bias = true)
#    define CRT_MAX_POOL(kernel_, stride_)                                               \
        CRT_LAYER(.kind = CRT_LAYER_MAX_POOL, .kernel = (kernel_), .stride = (stride_))
#    define CRT_AVERAGE_POOL(kernel_, stride_)                                           \
        CRT_LAYER(.kind = CRT_LAYER_AVERAGE_POOL, .kernel = (kernel_),                   \
                  .stride = (stride_))
/* The mean of all places of a sample. */
#    define CRT_GLOBAL_POOL() CRT_LAYER(.kind = CRT_LAYER_AVERAGE_POOL)
#    define CRT_BATCH_NORM()                                                             \
        CRT_LAYER(.kind = CRT_LAYER_BATCH_NORM, .epsilon = 1e-5, .momentum = 0.1)
#    define CRT_FLATTEN() CRT_LAYER(.kind = CRT_LAYER_FLATTEN)
#    define CRT_GELU()    CRT_LAYER(.kind = CRT_LAYER_GELU)
#    define CRT_MISH()    CRT_LAYER(.kind = CRT_LAYER_MISH)
/* Reads 3 d channels (queries, keys, values) from a dense layer in front of the attention; the
 * output has d channels. */
#    define CRT_ATTENTION(heads_, rate_)                                                 \
        CRT_LAYER(.kind = CRT_LAYER_ATTENTION, .rate = (rate_), .heads = (heads_))
#    define CRT_PATCHES(side) CRT_LAYER(.kind = CRT_LAYER_PATCHES, .kernel = (side))
#    define CRT_TOKEN()       CRT_LAYER(.kind = CRT_LAYER_TOKEN)
#    define CRT_POSITIONS()   CRT_LAYER(.kind = CRT_LAYER_POSITIONS)
#    define CRT_PARAMETERS(rows_, cols)                                                  \
        CRT_LAYER(.kind = CRT_LAYER_PARAMETERS, .rows = (rows_), .width = (cols))
#else
extern "C++" {
/* clang-format off */
/* The same as functions: C++17 has no designated initializers. */
#define CRTI_LAYER(name, parameters, ...)                                                \
    constexpr crt_layer_t name parameters                                                \
    {                                                                                    \
        crt_layer_t crt_made{};                                                          \
        crt_made.struct_size = sizeof(crt_made);                                         \
        CRTI_SET_OF(crt_made, CRTI_SET_COUNT(__VA_ARGS__), __VA_ARGS__)                  \
        return crt_made;                                                                 \
    }
CRTI_LAYER(CRT_DENSE, (int outputs), .kind = CRT_LAYER_DENSE, .width = outputs)
CRTI_LAYER(CRT_DENSE_ZERO, (int outputs), .kind = CRT_LAYER_DENSE, .init = CRT_INIT_ZERO,
           .width = outputs)
CRTI_LAYER(CRT_RELU, (), .kind = CRT_LAYER_RELU)
CRTI_LAYER(CRT_DROPOUT, (double rate), .kind = CRT_LAYER_DROPOUT, .rate = rate)
CRTI_LAYER(CRT_HASH_EMBED, (int outputs, int rows, uint32_t seed, int column, int back),
           .kind = CRT_LAYER_HASH_EMBED, .width = outputs, .rows = rows, .seed = seed,
           .column = column, .from = back)
CRTI_LAYER(CRT_MAXOUT, (int outputs, int pieces), .kind = CRT_LAYER_MAXOUT, .width = outputs,
           .pieces = pieces)
CRTI_LAYER(CRT_EXPAND_WINDOW, (int rows_each_side), .kind = CRT_LAYER_EXPAND_WINDOW,
           .window = rows_each_side)
CRTI_LAYER(CRT_LAYER_NORM, (), .kind = CRT_LAYER_LAYER_NORM, .epsilon = 1e-8)
CRTI_LAYER(CRT_ADD, (int back), .kind = CRT_LAYER_ADD, .with = back)
CRTI_LAYER(CRT_CONCATENATE, (int layers), .kind = CRT_LAYER_CONCATENATE, .count = layers)
CRTI_LAYER(CRT_CONVOLUTION, (int outputs, int kernel, int stride, int padding),
           .kind = CRT_LAYER_CONVOLUTION, .width = outputs, .kernel = kernel,
           .stride = stride, .padding = padding)
CRTI_LAYER(CRT_CONVOLUTION_PLAIN, (int outputs, int kernel, int stride, int padding),
           .kind = CRT_LAYER_CONVOLUTION, .width = outputs, .kernel = kernel,
           .stride = stride, .padding = padding, .no_bias = true)
CRTI_LAYER(CRT_MAX_POOL, (int kernel, int stride), .kind = CRT_LAYER_MAX_POOL,
           .kernel = kernel, .stride = stride)
CRTI_LAYER(CRT_AVERAGE_POOL, (int kernel, int stride), .kind = CRT_LAYER_AVERAGE_POOL,
           .kernel = kernel, .stride = stride)
CRTI_LAYER(CRT_GLOBAL_POOL, (), .kind = CRT_LAYER_AVERAGE_POOL)
CRTI_LAYER(CRT_BATCH_NORM, (), .kind = CRT_LAYER_BATCH_NORM, .epsilon = 1e-5, .momentum = 0.1)
CRTI_LAYER(CRT_FLATTEN, (), .kind = CRT_LAYER_FLATTEN)
CRTI_LAYER(CRT_GELU, (), .kind = CRT_LAYER_GELU)
CRTI_LAYER(CRT_MISH, (), .kind = CRT_LAYER_MISH)
CRTI_LAYER(CRT_ATTENTION, (int heads, double rate), .kind = CRT_LAYER_ATTENTION, .rate = rate,
           .heads = heads)
CRTI_LAYER(CRT_PATCHES, (int side), .kind = CRT_LAYER_PATCHES, .kernel = side)
CRTI_LAYER(CRT_TOKEN, (), .kind = CRT_LAYER_TOKEN)
CRTI_LAYER(CRT_POSITIONS, (), .kind = CRT_LAYER_POSITIONS)
CRTI_LAYER(CRT_PARAMETERS, (int rows, int columns), .kind = CRT_LAYER_PARAMETERS, .rows = rows,
           .width = columns)
/* clang-format on */
}
#endif

/* The id of a string of `size` bytes, as in the string store of spaCy. 0 for the empty string. */
CRT_API uint64_t crt_hash_string(const char *text, size_t size);

/* The four rows of a key, as in HashEmbed of Thinc, before the modulo by the size of the
 * table. */
CRT_API void crt_hash_key(uint64_t key, uint32_t seed, uint32_t rows_out[4]);

/* Layers over one flat buffer of parameters and one of gradients. A model that ends in a dense
 * layer can be trained as a classifier, with softmax and cross-entropy
 * (crt_model_compute_gradients). Any model can be trained with a loss of the caller
 * (crt_model_forward and crt_model_backward). */
typedef struct crt_model crt_model_t;

/* One sample as a model reads it: float32 of (height, width, channels), channels last, or of
 * (channels) for samples without places; or 64-bit keys, which only CRT_HASH_EMBED reads. Made with
 * CRT_INPUT: CRT_INPUT(.height = 28, .width = 28, .channels = 1). */
typedef struct crt_input {
    /* Set by CRT_INPUT. */
    size_t struct_size;
    /* CRT_DTYPE_FLOAT32, or CRT_DTYPE_INT64 for keys. 0: CRT_DTYPE_FLOAT32. */
    crt_dtype_t dtype;
    /* Rows and columns of places. 0: 1. */
    int height, width;
    /* Numbers of each place, or keys of a sample. At least 1. */
    int channels;
} crt_input_t;
#define CRT_INPUT(...)                                                                   \
    CRTI_VALUE(crt_input_t, .struct_size = sizeof(crt_input_t), __VA_ARGS__)

/* Makes a model of `count` layers for samples of `input`. Each layer may read the output of
 * any earlier layer. The output of the last layer is that of the model. A model whose last layer is
 * dense with at most 256 outputs is a classifier. `seed` determines the first weights and the
 * dropout. Caller owns the result and drops it with crt_model_drop.
 *
 * Errors: CRT_ERR_INVALID, when an argument or a layer is wrong (the text names the layer);
 * CRT_ERR_UNSUPPORTED, when a struct has a member set that only a newer version has;
 * CRT_ERR_TOO_LARGE, when the model has too many parameters; CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_model_new(const crt_input_t *input, const crt_layer_t *layers,
                                   size_t count, uint64_t seed, crt_model_t **model_out);

/* Makes a multi-layer perceptron. `widths` is inputs, hidden widths, classes, 0. Each hidden
 * layer is dense, ReLU and, with `dropout` > 0, dropout; the weights of the last dense layer
 * start at zero. `seed` determines the first weights and the dropout. Caller owns the result
 * and drops it with crt_model_drop.
 *
 * Errors: CRT_ERR_INVALID, when `widths` or `dropout` is wrong, or there are more than 256 classes;
 * CRT_ERR_TOO_LARGE, when the model has too many parameters; CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_mlp_new(const int *widths, double dropout, uint64_t seed,
                                 crt_model_t **model_out);

/* The number of inputs of a model, the number of its outputs (the classes), and the number of
 * floats of a flat buffer of all its weights. */
CRT_API int crt_model_inputs(const crt_model_t *model);
CRT_API int crt_model_outputs(const crt_model_t *model);
CRT_API size_t crt_model_parameters(const crt_model_t *model);
/* The number of arrays that the flat buffers consist of: weights and biases of each layer. */
CRT_API size_t crt_model_arrays(const crt_model_t *model);

/* An array of a model: floats [first, first + count) of its flat buffers. Filled by
 * crt_model_array, which takes the size of the struct. */
typedef struct crt_model_array {
    size_t first, count;
    /* Shape of the array. Biases: one row. */
    int rows, cols;
    /* Index of the layer that has the array. */
    size_t layer;
    /* Kind of the layer, such as "dense". Static text. */
    const char *kind;
} crt_model_array_t;

/* Describes array `index` (0 to crt_model_arrays - 1) of a model in `*array_out`, which has
 * `array_size` bytes (sizeof(*array_out)). Errors: CRT_ERR_INVALID, when there is no such array, or
 * `array_size` is too small to be the size of a crt_model_array_t. */
CRT_API crt_status_t crt_model_array(const crt_model_t *model, size_t index,
                                     size_t array_size, crt_model_array_t *array_out);

/* All weights of a model, a flat tensor. Borrowed: valid until the model is freed; the numbers
 * change with the next step of an optimizer. */
CRT_API const crt_tensor_t *crt_model_weights(crt_model_t *model);

/* The sum of all gradients since the last step, a flat tensor. Borrowed: valid until the model
 * is freed. */
CRT_API const crt_tensor_t *crt_model_gradients(crt_model_t *model);

/* The running means and variances of all batch norms. Batch norms use them when the model does
 * not train. A pass of training changes them, in this model only. The numbers are not weights,
 * but crt_model_save writes them too. A flat tensor, of 0 numbers without a batch norm. Borrowed:
 * valid until the model is freed; the program may write to the numbers. */
CRT_API const crt_tensor_t *crt_model_statistics(crt_model_t *model);

/* Copies `weights` (flat) into the model.
 *
 * Errors: CRT_ERR_INVALID, when `weights` is not a dense float32 tensor of the size of the model,
 * or does not lie where the model is (host or GPU). */
CRT_API crt_status_t crt_model_set_weights(crt_model_t *model,
                                           const crt_tensor_t *weights);

/* Adds `gradients` (flat) to the gradients of the model.
 *
 * Errors: CRT_ERR_INVALID, when `gradients` is not a dense float32 tensor of the size of the model,
 * or does not lie where the model is (host or GPU). */
CRT_API crt_status_t crt_model_add_gradients(crt_model_t *model,
                                             const crt_tensor_t *gradients);

/* Discards the gradients that were added since the last step. */
CRT_API void crt_model_zero_gradients(crt_model_t *model);

/* Restarts the random numbers of the dropout. */
CRT_API void crt_model_set_seed(crt_model_t *model, uint64_t seed);

/* Makes one forward and backward pass over `batch`, with dropout. Overwrites `gradients`
 * (flat; NULL: those of the model) with the gradient of the mean cross-entropy, and stores
 * that mean in *loss_out (`loss_out` may be NULL). `weights` (flat) are read in place; NULL:
 * those of the model.
 *
 * Errors: CRT_ERR_INVALID, when the model is not a classifier, a tensor or a label is wrong, or
 * `batch` was not made with CRT_BATCH; CRT_ERR_NO_MEMORY; CRT_ERR_UNSUPPORTED, when the model is on
 * a GPU and crt_model_sync_norms is set, or `batch` has a member set that only a newer version
 * has. */
CRT_API crt_status_t crt_model_compute_gradients(crt_model_t *model,
                                                 const crt_tensor_t *weights,
                                                 const crt_batch_t *batch,
                                                 crt_tensor_t *gradients,
                                                 double *loss_out);

/* A function that learns how far a gradient is: all floats from index `first` to the end are
 * final. */
typedef void crt_gradients_seen_t(void *context, size_t first);

/* Sets a function that every crt_model_compute_gradients of this model calls, in the calling
 * thread, whenever the gradients of a layer are final. Gradients become final from the last
 * layer to the first, so `first` decreases and ends at 0. `seen` NULL: no function. For
 * programs that send gradients while the rest is still computed. */
CRT_API void crt_model_watch_gradients(crt_model_t *model, crt_gradients_seen_t *seen,
                                       void *context);

/* Replaces each of `count` numbers by its sum over all processes that compute parts of one
 * batch. */
typedef crt_status_t crt_norm_sum_t(void *context, float *numbers, size_t count);

/* Synchronised batch normalisation: batch norms compute mean and variance over the rows of all
 * processes of a group, each of which has some rows of one batch. `sum` must replace each of
 * numbers[0..count) by the sum of that number over all processes. `sum` is called in every
 * pass of training, in the calling thread: for each batch norm twice in the forward pass and
 * once in the backward pass. All processes make the same passes. If all have the same number
 * of rows, the average of their gradients is that of the whole batch. `sum` NULL (default):
 * each process uses its own rows only. Models on a GPU do not support it: their passes of
 * training return CRT_ERR_UNSUPPORTED. */
CRT_API void crt_model_sync_norms(crt_model_t *model, crt_norm_sum_t *sum, void *context);

/* Makes a forward pass for a loss of the caller. `inputs` is (rows, inputs) of the dtype of
 * the model and must stay valid until crt_model_backward. `lengths` (int32; NULL: one
 * sequence) has the number of rows of each sequence, for CRT_EXPAND_WINDOW; their sum is the
 * number of rows. `weights` (flat) are read in place; NULL: those of the model. With
 * `training` dropout is on, and crt_model_backward may follow. *outputs_out is (rows,
 * outputs). Borrowed: valid until the next pass of the model.
 *
 * Errors: CRT_ERR_INVALID, when a tensor or a length is wrong; CRT_ERR_NO_MEMORY;
 * CRT_ERR_UNSUPPORTED, when the model is on a GPU and crt_model_sync_norms is set. */
CRT_API crt_status_t crt_model_forward(crt_model_t *model, const crt_tensor_t *weights,
                                       const crt_tensor_t *inputs,
                                       const crt_tensor_t *lengths, bool training,
                                       crt_tensor_t *outputs_out);

/* Makes the backward pass of the last crt_model_forward, with the same weights. `d_outputs`
 * (rows, outputs) is the gradient of the loss. Overwrites `gradients` (flat; NULL: those of
 * the model), except for the arrays of CRT_PARAMETERS, which the caller computes. Overwrites
 * `d_inputs` (rows, inputs; may be NULL) with the gradient of the inputs.
 *
 * Errors: CRT_ERR_INVALID, when no forward pass with `training` came before, a tensor is
 * wrong, or `d_inputs` is given for a model of keys; CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_model_backward(crt_model_t *model, const crt_tensor_t *weights,
                                        const crt_tensor_t *d_outputs,
                                        crt_tensor_t *gradients, crt_tensor_t *d_inputs);

/* Computes probabilities (rows, outputs), float32, of `inputs` (rows, inputs), float32,
 * without dropout. `weights` (flat) are read in place; NULL: those of the model. The caller
 * owns `probabilities` and its memory.
 *
 * Errors: CRT_ERR_INVALID, when a tensor is wrong; CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_model_predict(crt_model_t *model, const crt_tensor_t *weights,
                                       const crt_tensor_t *inputs,
                                       crt_tensor_t *probabilities);

/* The part of the samples of `set` (0..1) whose most probable class is their label. `weights`
 * (flat) are read in place; NULL: those of the model.
 *
 * Errors: CRT_ERR_INVALID, when the set does not fit the model or `weights` is wrong;
 * CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_model_accuracy(crt_model_t *model, const crt_tensor_t *weights,
                                        const crt_dataset_t *set, double *accuracy_out);

/* Writes weights and statistics with shapes and a checksum. The data go to a temporary file
 * next to `path`, which is synced and then renamed to `path`, so that `path` always holds one
 * whole version.
 *
 * Errors: CRT_ERR_IO, when the file cannot be written; CRT_ERR_INVALID, when the name is too
 * long; CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_model_save(crt_model_t *model, const char *path);

/* Reads weights and statistics that crt_model_save wrote. The model is unchanged on failure.
 *
 * Errors: CRT_ERR_NOT_FOUND, when there is no such file; CRT_ERR_CORRUPT, when the file is not
 * of crt_model_save, is cut short or damaged; CRT_ERR_INVALID, when the file is whole but has
 * other shapes; CRT_ERR_IO; CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_model_load(crt_model_t *model, const char *path);

/* Frees a model and sets the pointer to NULL. NULL is allowed. */
CRT_API void crt_model_drop(crt_model_t **model);

/* ---------------------------------------------------------------- optimizers */

/* Turns gradients into new weights. Belongs to one model. */
typedef struct crt_optimizer crt_optimizer_t;

/* Rules by which an optimizer changes weights. */
typedef enum crt_optimizer_kind {
    /* Adam of Thinc: epsilon is not corrected, decay after the step. */
    CRT_OPTIMIZER_ADAM = 1,
    /* SGD of PyTorch. */
    CRT_OPTIMIZER_SGD = 2,
    /* AdamW of PyTorch: epsilon is corrected, decay before the step. */
    CRT_OPTIMIZER_ADAMW = 3,
    /* Rectified Adam of Thinc. */
    CRT_OPTIMIZER_RADAM = 4
} crt_optimizer_kind_t;

/* Options of an optimizer. The defaults of most members are not zero: start from
 * crt_adam_options, crt_adamw_options, crt_radam_options or crt_sgd_options, which set all members,
 * and change some. A zero then means zero. */
typedef struct crt_optimizer_options {
    /* Set by these functions. */
    size_t struct_size;
    crt_optimizer_kind_t kind;
    double learn_rate;
    /* The gradient of each parameter array is scaled to at most this L2 norm. 0: no scaling. */
    double grad_clip;
    /* Penalty on the weights. With `l2_is_weight_decay`: w -= rate * l2 * w in addition to the
     * step. Otherwise: g += l2 * w before the step. */
    double l2;
    /* How the L2 penalty is applied, see `l2`. */
    bool l2_is_weight_decay;
    /* Adam, AdamW, RAdam. */
    double beta1, beta2, epsilon;
    /* SGD: v = momentum * v + g; w -= rate * v. */
    double momentum;
    /* SGD: w -= rate * (g + momentum * v). */
    bool nesterov;
    /* The whole gradient is scaled to at most this L2 norm, before `grad_clip`. 0: no scaling. */
    double global_clip;
    /* If the L2 norm of the whole gradient is above this limit, the step fails. 0: no limit. */
    double norm_limit;
    /* Look-ahead: every `lookahead_steps` steps a second, slow copy of the weights moves
     * `lookahead_rate` of the way to the weights, and the weights become that copy. 0: never. */
    int lookahead_steps;
    double lookahead_rate;
    /* Keeps the averages of crt_optimizer_averages. */
    bool use_averages;
} crt_optimizer_options_t;

/* Sets all members of `*options`, which has `size` bytes (sizeof(*options)), to the defaults of
 * `kind`, as the four functions below say. Programs call these functions, which know the size. */
CRT_API void crt_optimizer_options_init(crt_optimizer_options_t *options, size_t size,
                                        crt_optimizer_kind_t kind, double learn_rate);

/* The options of Adam: beta 0.9 and 0.999, epsilon 1e-8, clip 1.0 per array, no L2. */
static inline crt_optimizer_options_t crt_adam_options(double learn_rate)
{
    crt_optimizer_options_t options;

    crt_optimizer_options_init(&options, sizeof(options), CRT_OPTIMIZER_ADAM, learn_rate);
    return options;
}

/* The options of torch.optim.AdamW: beta 0.9 and 0.999, epsilon 1e-8, weight decay 0.01, no
 * clip. Without decay (l2 = 0) the optimizer is torch.optim.Adam. */
static inline crt_optimizer_options_t crt_adamw_options(double learn_rate)
{
    crt_optimizer_options_t options;

    crt_optimizer_options_init(&options, sizeof(options), CRT_OPTIMIZER_ADAMW,
                               learn_rate);
    return options;
}

/* The options of RAdam of Thinc: those of crt_adam_options, with averages. Look-ahead is off
 * (its authors advise 6 steps and a rate of 0.5). */
static inline crt_optimizer_options_t crt_radam_options(double learn_rate)
{
    crt_optimizer_options_t options;

    crt_optimizer_options_init(&options, sizeof(options), CRT_OPTIMIZER_RADAM,
                               learn_rate);
    return options;
}

/* The options of SGD: no clip, no L2. With l2_is_weight_decay = false, `l2` is weight_decay of
 * PyTorch. */
static inline crt_optimizer_options_t crt_sgd_options(double learn_rate, double momentum)
{
    crt_optimizer_options_t options;

    crt_optimizer_options_init(&options, sizeof(options), CRT_OPTIMIZER_SGD, learn_rate);
    options.momentum = momentum;
    return options;
}

/* Makes an optimizer of `model`, which must outlive the optimizer. `options` NULL: those of
 * crt_adam_options(0.001). Caller owns the result and drops it with crt_optimizer_drop.
 *
 * Errors: CRT_ERR_INVALID, when an option is wrong; CRT_ERR_UNSUPPORTED, when the model is on
 * a GPU that cannot compute this optimizer, or the program sets an option that only a newer version
 * has; CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_optimizer_new(crt_model_t *model,
                                       const crt_optimizer_options_t *options,
                                       crt_optimizer_t **optimizer_out);

/* Make an optimizer of `model` with crt_adam_options or crt_sgd_options: crt_optimizer_new, and its
 * errors. */
static inline crt_status_t crt_adam_new(crt_model_t *model, double learn_rate,
                                        crt_optimizer_t **optimizer_out)
{
    crt_optimizer_options_t options = crt_adam_options(learn_rate);

    return crt_optimizer_new(model, &options, optimizer_out);
}
static inline crt_status_t crt_sgd_new(crt_model_t *model, double learn_rate,
                                       double momentum, crt_optimizer_t **optimizer_out)
{
    crt_optimizer_options_t options = crt_sgd_options(learn_rate, momentum);

    return crt_optimizer_new(model, &options, optimizer_out);
}

/* Makes one update with the gradients that were added to the model, and sets them to zero.
 *
 * Errors, which leave the weights unchanged: CRT_ERR_INVALID, when there are no gradients, a
 * gradient is not finite or its norm is above norm_limit (the text names step and layer), or
 * the optimizer belongs to another model. For a model on a GPU a gradient that is not finite
 * is reported by the next step, which is not made either. */
CRT_API crt_status_t crt_optimizer_step(crt_optimizer_t *optimizer, crt_model_t *model);

/* Makes one update in one pass over memory. Sums `count` flat gradients and those that were
 * added to the model before, updates the weights, and writes a copy of the weights to
 * `weights_out` (flat; may be NULL), such as an object of the store under construction.
 *
 * Errors, which leave the weights unchanged: CRT_ERR_INVALID, when there are no gradients, a
 * tensor is wrong, a gradient is not finite or its norm is above norm_limit, or the optimizer
 * belongs to another model. */
CRT_API crt_status_t crt_optimizer_apply(crt_optimizer_t *optimizer, crt_model_t *model,
                                         const crt_tensor_t *const *gradients,
                                         size_t count, crt_tensor_t *weights_out);

/* A range of floats [first, first + count) in the flat buffers. The struct never changes its
 * size, and is passed by value and in arrays. */
typedef struct crt_part {
    size_t first, count;
} crt_part_t;

/* Measures a gradient, as the first half of an update for processes of which each has all
 * gradients but updates only its own parts of the weights:
 *
 *     crt_optimizer_measure -> sum `squares` over all processes -> crt_optimizer_update
 *
 * `squares` has room for crt_model_arrays(model) numbers. For each array it gets the sum of
 * the squares of the gradients in the `count` parts. Adds the L2 penalty to `gradients` (flat)
 * if the penalty is not weight decay.
 *
 * Errors: CRT_ERR_INVALID, when `gradients` or a part is wrong. */
CRT_API crt_status_t crt_optimizer_measure(const crt_optimizer_t *optimizer,
                                           const crt_model_t *model,
                                           const crt_tensor_t *gradients,
                                           const crt_part_t *parts, size_t count,
                                           double *squares);

/* Makes one update of the `count` parts, with the `squares` of whole arrays: see
 * crt_optimizer_measure. Scales the gradient as a whole to at most the norm `clip` (0:
 * global_clip of the options), then each array as the options of the optimizer say, and
 * updates the parts. `gradients` (flat) are zero in these parts afterwards. Counts as one
 * step.
 *
 * Errors, which change nothing: CRT_ERR_INVALID, when a square is not finite, the norm is
 * above norm_limit, or an argument is wrong. */
CRT_API crt_status_t crt_optimizer_update(crt_optimizer_t *optimizer, crt_model_t *model,
                                          const crt_tensor_t *gradients,
                                          const crt_part_t *parts, size_t count,
                                          const double *squares, double clip);

/* Sets the learn rate, from the next step on, for example to a number of a schedule. Errors:
 * CRT_ERR_INVALID, when `learn_rate` is negative or not finite. */
CRT_API crt_status_t crt_optimizer_set_learn_rate(crt_optimizer_t *optimizer,
                                                  double learn_rate);

/* The moving average of the weights after each step, a flat tensor that can be used as
 * `weights`. The average starts at zero; at step t it moves 1 - min((1 + t) / (10 + t),
 * 0.9999) of the way to the weights. NULL without use_averages and before the first step.
 * Borrowed: valid until the optimizer is freed; the numbers change with the next step. */
CRT_API const crt_tensor_t *crt_optimizer_averages(const crt_optimizer_t *optimizer);

/* The number of updates that were made. */
CRT_API uint64_t crt_optimizer_steps(const crt_optimizer_t *optimizer);

/* The most states that an optimizer has. */
#define CRT_OPTIMIZER_STATES_MAX 4

/* The state of an optimizer: crt_optimizer_states flat buffers, each read with
 * crt_optimizer_state, and the number of steps, set with crt_optimizer_set_steps. Another
 * process that has these and the weights can continue the training. The buffers are borrowed:
 * valid until the optimizer is freed; the program may write to them. */
CRT_API int crt_optimizer_states(const crt_optimizer_t *optimizer);
CRT_API const crt_tensor_t *crt_optimizer_state(crt_optimizer_t *optimizer, int index);
CRT_API void crt_optimizer_set_steps(crt_optimizer_t *optimizer, uint64_t steps);

/* Frees an optimizer and sets the pointer to NULL. NULL is allowed. */
CRT_API void crt_optimizer_drop(crt_optimizer_t **optimizer);

/* ---------------------------------------------------------------- schedules */

/* Shapes of schedules. */
typedef enum crt_schedule_kind {
    CRT_SCHEDULE_KIND_CONSTANT = 1,
    CRT_SCHEDULE_KIND_COMPOUNDING = 2,
    CRT_SCHEDULE_KIND_WARMUP_LINEAR = 3,
    CRT_SCHEDULE_KIND_COSINE = 4,
    CRT_SCHEDULE_KIND_STEP = 5
} crt_schedule_kind_t;

/* A number for each step, such as the learn rate or the size of a batch. Make it with the
 * functions below. A schedule has no state: a program that continues a training asks for the
 * number of its step. */
typedef struct crt_schedule {
    /* Set by the functions below. */
    size_t struct_size;
    crt_schedule_kind_t kind;
    /* The first number, the last one, and the factor from step to step. */
    double start, stop, factor;
    /* Number of steps that the schedule rises, and number of all its steps. */
    uint64_t warmup_steps, steps;
} crt_schedule_t;

/* A schedule with these members, and zero for all others. Part of the functions below. */
static inline crt_schedule_t crti_schedule(crt_schedule_kind_t kind, double start,
                                           double stop, double factor,
                                           uint64_t warmup_steps, uint64_t steps)
{
    return CRTI_VALUE(crt_schedule_t, .struct_size = sizeof(crt_schedule_t), .kind = kind,
                      .start = start, .stop = stop, .factor = factor,
                      .warmup_steps = warmup_steps, .steps = steps);
}

/* The schedule with `value` at every step. */
static inline crt_schedule_t crt_schedule_constant(double value)
{
    return crti_schedule(CRT_SCHEDULE_KIND_CONSTANT, value, 0, 0, 0, 0);
}

/* The schedule start * factor ^ step, never beyond `stop`. */
static inline crt_schedule_t crt_schedule_compounding(double start, double stop,
                                                      double factor)
{
    return crti_schedule(CRT_SCHEDULE_KIND_COMPOUNDING, start, stop, factor, 0, 0);
}

/* The schedule that rises from 0 to `value` in `warmup_steps` and falls back to 0 at
 * `total_steps`, both in straight lines. */
static inline crt_schedule_t
crt_schedule_warmup_linear(double value, uint64_t warmup_steps, uint64_t total_steps)
{
    return crti_schedule(CRT_SCHEDULE_KIND_WARMUP_LINEAR, value, 0, 0, warmup_steps,
                         total_steps);
}

/* The schedule that goes from `start` to `stop` at `steps`, along half a cosine wave; later
 * steps have `stop`. */
static inline crt_schedule_t crt_schedule_cosine(double start, double stop,
                                                 uint64_t steps)
{
    return crti_schedule(CRT_SCHEDULE_KIND_COSINE, start, stop, 0, 0, steps);
}

/* The schedule start * factor ^ (step / every), with a division of integers. */
static inline crt_schedule_t crt_schedule_step(double start, double factor,
                                               uint64_t every)
{
    return crti_schedule(CRT_SCHEDULE_KIND_STEP, start, 0, factor, 0, every);
}

/* Stores the number of a step in `*value_out`. The first step is step 0.
 *
 * Errors: CRT_ERR_INVALID, when the schedule was not made with one of the functions above;
 * CRT_ERR_UNSUPPORTED, when its kind or a member is one that only a newer version has. */
CRT_API crt_status_t crt_schedule_at(const crt_schedule_t *schedule, uint64_t step,
                                     double *value_out);

#ifdef __cplusplus
}
#endif

#endif
