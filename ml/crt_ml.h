/* SPDX-License-Identifier: Apache-2.0 */
/* The learning library of crt: layers, models, optimizers, data sets.
 *
 * A model keeps all its parameters in one flat buffer of float32 and all its gradients in
 * another, so that the weights travel as one object and a gradient as one message:
 *
 *     crt_batches_next -> crt_model_compute_gradients -> (gradient tensor)
 *         -> crt_optimizer_apply -> (weights tensor) -> crt_model_accuracy
 *
 * Weights may be read in place from memory that is not the model's, such as an object of
 * the store mapped read only: every function that computes takes them as an argument.
 *
 * Threads: an object is used by one thread at a time; different objects by different
 * threads at once. A data set is read only after it was made and may be shared.
 *
 * It is a library of its own: cc app.c $(pkg-config --cflags --libs crt_ml)
 */
#ifndef CRT_ML_H
#define CRT_ML_H

#include "crt_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Threads that the matrix products of this process may use (at least 1). Workers leave it
 * at what the runtime gave them. The kernels are those for the vectors of this processor, also where OpenBLAS is
 * older than it; the environment's OPENBLAS_CORETYPE comes first. */
CRT_API void crt_ml_set_threads(int threads);

/* ---------------------------------------------------------------- data sets */

/* Samples and their labels. Features are uint8 (read as x / 255) or float32, labels
 * uint8. */
typedef struct crt_dataset crt_dataset_t;

typedef enum crt_split { CRT_SPLIT_TRAIN = 0, CRT_SPLIT_TEST = 1 } crt_split_t;

/* A data set over memory of the caller, which must outlive it; nothing is copied.
 * `features` is (samples, ...), dense; `labels` is (samples), each below `classes`
 * (2..256). Labels are checked here, once. Caller owns the result and frees it with
 * crt_dataset_free. */
CRT_API crt_status_t crt_dataset_new(const crt_tensor_t *features,
                                     const crt_tensor_t *labels, int classes,
                                     crt_dataset_t **set_out);

/* The part `index` of `parts` consecutive, equally large parts of `set`; borrows its
 * memory. Caller owns the result and frees it with crt_dataset_free. */
CRT_API crt_status_t crt_dataset_new_shard(const crt_dataset_t *set, int index, int parts,
                                           crt_dataset_t **shard_out);

/* `count` drawings of the digits 0 to 9, 28x28, that look written by hand: strokes in
 * several styles, distorted, blurred and noisy. Sample i of a seed is the same whatever
 * the count. Caller owns the result and frees it with crt_dataset_free. */
CRT_API crt_status_t crt_dataset_new_digits(size_t count, uint64_t seed,
                                            crt_dataset_t **set_out);

/* Images and labels from two IDX files (the format of MNIST), plain or gzip.
 * CRT_ERR_NOT_FOUND when a file is missing, CRT_ERR_CORRUPT when one is damaged or the
 * counts differ. Caller owns the result and frees it with crt_dataset_free. */
CRT_API crt_status_t crt_dataset_read_idx(const char *images_path,
                                          const char *labels_path, int classes,
                                          crt_dataset_t **set_out);

/* One half of a source: "builtin" draws 60,000 training or 10,000 test digits, anything else is
 * a folder with train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and
 * t10k-labels-idx1-ubyte (or .idx3-ubyte, .idx1-ubyte), each plain or with .gz. Caller owns the
 * result and frees it with crt_dataset_free. */
CRT_API crt_status_t crt_dataset_open(const char *source, crt_split_t split,
                                      crt_dataset_t **set_out);

/* How many samples a set has, how many features each of them, and how many classes there are. */
CRT_API size_t crt_dataset_count(const crt_dataset_t *set);
CRT_API int crt_dataset_width(const crt_dataset_t *set);
CRT_API int crt_dataset_classes(const crt_dataset_t *set);

/* (samples, width) and (samples). Borrowed: valid until the data set is freed. */
CRT_API const crt_tensor_t *crt_dataset_features(const crt_dataset_t *set);
CRT_API const crt_tensor_t *crt_dataset_labels(const crt_dataset_t *set);

/* Frees a data set; what borrows from it must be gone. NULL is fine. */
CRT_API void crt_dataset_free(crt_dataset_t *set);

/* ---------------------------------------------------------------- batches */

/* Some samples as a model takes them. */
typedef struct crt_batch {
    crt_tensor_t inputs; /* (rows, width), float32 */
    crt_tensor_t labels; /* (rows), uint8 */
} crt_batch_t;

/* An endless row of batches: all samples of a set in random order, the last batch of a
 * pass may be short, then the order is drawn again. */
typedef struct crt_batches crt_batches_t;

/* Batches of `batch` samples each of `set`, which must outlive them.
 * Caller owns the result and frees it with crt_batches_free. */
CRT_API crt_status_t crt_batches_new(const crt_dataset_t *set, int batch, uint64_t seed,
                                     crt_batches_t **batches_out);

/* The next batch. Borrowed: valid until the next call or crt_batches_free. */
CRT_API const crt_batch_t *crt_batches_next(crt_batches_t *batches);

/* Passes over the data that have begun: 0 before the first batch. */
CRT_API uint64_t crt_batches_epoch(const crt_batches_t *batches);

/* Frees batches; NULL is fine. */
CRT_API void crt_batches_free(crt_batches_t *batches);

/* ---------------------------------------------------------------- models */

typedef enum crt_layer_kind {
    CRT_LAYER_DENSE = 1,   /* y = x W' + b; W is (outputs, inputs) */
    CRT_LAYER_RELU = 2,    /* y = max(x, 0) */
    CRT_LAYER_DROPOUT = 3, /* while training: y = x * (u >= rate) / (1 - rate) */
    CRT_LAYER_HASH_EMBED =
        4, /* y = sum of four rows of a table, named by the hash of a key */
    CRT_LAYER_MAXOUT = 5, /* y[o] = max over p of x W[o,p]' + b[o,p] */
    CRT_LAYER_EXPAND_WINDOW =
        6, /* y(i) = [x(i-w), ..., x(i+w)], zeros beyond a sequence */
    CRT_LAYER_LAYER_NORM =
        7,             /* y = (x - mean) / sqrt(variance + epsilon) * gain + bias */
    CRT_LAYER_ADD = 8, /* y = x + z: the end of a residual block */
    CRT_LAYER_CONCATENATE = 9,   /* the outputs of several layers side by side */
    CRT_LAYER_PARAMETERS = 10,   /* y = x; holds an array that the caller computes with */
    CRT_LAYER_CONVOLUTION = 11,  /* W is (outputs, inputs, kernel, kernel) */
    CRT_LAYER_MAX_POOL = 12,     /* the largest number of each window and channel */
    CRT_LAYER_AVERAGE_POOL = 13, /* their mean */
    CRT_LAYER_BATCH_NORM =
        14, /* layer norm over the batch: each channel its mean and variance */
    CRT_LAYER_FLATTEN = 15, /* all places of a sample as one */
    CRT_LAYER_SUBSAMPLE =
        16, /* every `stride`th place of rows and columns; channels of zeros up to `width` */
    CRT_LAYER_GELU = 17,      /* y = x Phi(x) */
    CRT_LAYER_ATTENTION = 18, /* of q, k, v side by side: softmax(q k' / sqrt(d)) v */
    CRT_LAYER_PATCHES = 19,   /* squares of places become one place each */
    CRT_LAYER_TOKEN = 20,     /* one place more at the end: the same numbers, learnt */
    CRT_LAYER_POSITIONS = 21, /* y = x + P; P is (places, channels) */
    CRT_LAYER_MISH = 22       /* y = x tanh(log(1 + e^x)) */
} crt_layer_kind_t;

typedef enum crt_layer_init {
    CRT_LAYER_GLOROT = 0, /* W uniform in +-sqrt(6 / (outputs + inputs)), b zero */
    CRT_LAYER_ZERO = 1,   /* W and b zero: for the layer in front of the softmax */
    CRT_LAYER_FAN_IN = 2, /* W and b uniform in +-1 / sqrt(inputs), as PyTorch has it */
    CRT_LAYER_HE = 3,     /* W normal with deviation sqrt(2 / outputs), b zero */
    CRT_LAYER_FAN_IN_PLAIN = 4 /* W uniform in +-1 / sqrt(inputs), b zero */
} crt_layer_init_t;

/* One layer of a model; make it with the macros below. Members that its kind does not name are 0.
 *
 * A layer reads the output of the layer before it. So that models may branch, `from` and `with`
 * name others by how many layers back they are, counted from this layer: 1 is the layer before it,
 * and one more than there are layers before it is the model's input. A row of layers means the same
 * wherever it stands, so blocks can be copied. */
typedef struct crt_layer {
    crt_layer_kind_t kind;
    crt_layer_init_t init; /* dense, maxout */
    int width;             /* dense, maxout, hash embed: outputs; parameters: columns */
    double
        rate;  /* dropout, hash embed: part of the inputs that is left out, 0 <= rate < 1;
                 attention: of the probabilities */
    int from;  /* what it reads; 0: the layer before it */
    int with;  /* add: the second input */
    int count; /* concatenate: the last so many layers, in their order (at most 8) */
    int pieces;     /* maxout: of which the largest is taken */
    int window;     /* expand window: rows on each side */
    int rows;       /* hash embed, parameters: of the table */
    int column;     /* hash embed: which of a sample's keys */
    uint32_t seed;  /* hash embed: of the hash */
    double epsilon; /* layer norm, batch norm */
    int kernel; /* convolution, pools: rows and columns of a window; pools: 0 is all of a sample;
                   patches: rows and columns of one */
    int stride; /* convolution, pools: from a window to the next; 0 is 1, of pools the kernel */
    int padding;  /* convolution, max pool: rows and columns added on each side */
    bool no_bias; /* convolution: without b */
    double
        momentum; /* batch norm: how far the running statistics move to those of a batch */
    int heads;    /* attention */
} crt_layer_t;

#ifndef __cplusplus
#    define CRT_DENSE(outputs)                                                           \
        ((crt_layer_t){CRT_LAYER_DENSE, CRT_LAYER_GLOROT, (outputs), 0})
#    define CRT_DENSE_ZERO(outputs)                                                      \
        ((crt_layer_t){CRT_LAYER_DENSE, CRT_LAYER_ZERO, (outputs), 0})
#    define CRT_RELU() ((crt_layer_t){CRT_LAYER_RELU, CRT_LAYER_GLOROT, 0, 0})
#    define CRT_DROPOUT(rate)                                                            \
        ((crt_layer_t){CRT_LAYER_DROPOUT, CRT_LAYER_GLOROT, 0, (rate)})
/* Reads key `column_` of the model's input, which is `back` layers back: see crt_layer_t. */
#    define CRT_HASH_EMBED(outputs, rows_, seed_, column_, back)                         \
        ((crt_layer_t){.kind = CRT_LAYER_HASH_EMBED,                                     \
                       .width = (outputs),                                               \
                       .rows = (rows_),                                                  \
                       .seed = (seed_),                                                  \
                       .column = (column_),                                              \
                       .from = (back)})
#    define CRT_MAXOUT(outputs, pieces_)                                                 \
        ((crt_layer_t){.kind = CRT_LAYER_MAXOUT, .width = (outputs), .pieces = (pieces_)})
#    define CRT_EXPAND_WINDOW(rows_each_side)                                            \
        ((crt_layer_t){.kind = CRT_LAYER_EXPAND_WINDOW, .window = (rows_each_side)})
#    define CRT_LAYER_NORM()                                                             \
        ((crt_layer_t){.kind = CRT_LAYER_LAYER_NORM, .epsilon = 1e-8})
/* The output of the layer before it and that of the layer `back` layers back. */
#    define CRT_ADD(back) ((crt_layer_t){.kind = CRT_LAYER_ADD, .with = (back)})
#    define CRT_CONCATENATE(layers)                                                      \
        ((crt_layer_t){.kind = CRT_LAYER_CONCATENATE, .count = (layers)})
/* A convolution with square windows; CRT_CONVOLUTION_PLAIN has no b, for the layer before a batch norm. */
#    define CRT_CONVOLUTION(outputs, kernel_, stride_, padding_)                         \
        ((crt_layer_t){.kind = CRT_LAYER_CONVOLUTION,                                    \
                       .width = (outputs),                                               \
                       .kernel = (kernel_),                                              \
                       .stride = (stride_),                                              \
                       .padding = (padding_)})
#    define CRT_CONVOLUTION_PLAIN(outputs, kernel_, stride_, padding_)                   \
        ((crt_layer_t){.kind = CRT_LAYER_CONVOLUTION,                                    \
                       .width = (outputs),                                               \
                       .kernel = (kernel_),                                              \
                       .stride = (stride_),                                              \
                       .padding = (padding_),                                            \
                       .no_bias = true})
#    define CRT_MAX_POOL(kernel_, stride_)                                               \
        ((crt_layer_t){                                                                  \
            .kind = CRT_LAYER_MAX_POOL, .kernel = (kernel_), .stride = (stride_)})
#    define CRT_AVERAGE_POOL(kernel_, stride_)                                           \
        ((crt_layer_t){                                                                  \
            .kind = CRT_LAYER_AVERAGE_POOL, .kernel = (kernel_), .stride = (stride_)})
/* The mean of all places of a sample. */
#    define CRT_GLOBAL_POOL() ((crt_layer_t){.kind = CRT_LAYER_AVERAGE_POOL})
#    define CRT_BATCH_NORM()                                                             \
        ((crt_layer_t){.kind = CRT_LAYER_BATCH_NORM, .epsilon = 1e-5, .momentum = 0.1})
#    define CRT_FLATTEN() ((crt_layer_t){.kind = CRT_LAYER_FLATTEN})
#    define CRT_GELU()    ((crt_layer_t){.kind = CRT_LAYER_GELU})
#    define CRT_MISH()    ((crt_layer_t){.kind = CRT_LAYER_MISH})
/* Reads 3 d channels, queries, keys and values, of a dense layer in front of it; puts out d. */
#    define CRT_ATTENTION(heads_, rate_)                                                 \
        ((crt_layer_t){.kind = CRT_LAYER_ATTENTION, .rate = (rate_), .heads = (heads_)})
#    define CRT_PATCHES(side) ((crt_layer_t){.kind = CRT_LAYER_PATCHES, .kernel = (side)})
#    define CRT_TOKEN()       ((crt_layer_t){.kind = CRT_LAYER_TOKEN})
#    define CRT_POSITIONS()   ((crt_layer_t){.kind = CRT_LAYER_POSITIONS})
#    define CRT_PARAMETERS(rows_, cols)                                                  \
        ((crt_layer_t){.kind = CRT_LAYER_PARAMETERS, .rows = (rows_), .width = (cols)})
#endif

/* The id of a string as spaCy's string store has it; 0 for the empty one. */
CRT_API uint64_t crt_hash_string(const char *text, size_t size);

/* The four rows of a key before the table's size is taken off, as Thinc's HashEmbed has them. */
CRT_API void crt_hash_key(uint64_t key, uint32_t seed, uint32_t rows_out[4]);

/* Layers over one flat buffer of parameters and one of gradients. What ends in a dense layer can be
 * trained as a classifier, with a softmax and cross-entropy (crt_model_compute_gradients); everything
 * with a loss of the caller's (crt_model_forward and crt_model_backward). */
typedef struct crt_model crt_model_t;

/* One sample as a model reads it: float32 of (height, width, channels), channels last and without
 * places 1 x 1; or keys of 64 bits (CRT_INT64, 1 x 1) that only CRT_HASH_EMBED reads. */
typedef struct crt_input {
    crt_dtype_t dtype;
    int height, width, channels;
} crt_input_t;

/* `count` layers, of which each may read what any before it puts out. The last one's output is the
 * model's. `seed` draws the first weights and starts the dropout. CRT_ERR_INVALID names a layer that
 * can't be. Caller owns the result and frees it with crt_model_free. */
CRT_API crt_status_t crt_network_new(const crt_input_t *input, const crt_layer_t *layers,
                                     size_t count, uint64_t seed,
                                     crt_model_t **model_out);

/* `count` layers from the input on, the last one dense: its outputs are the classes.
 * `seed` draws the first weights and starts the dropout. CRT_ERR_INVALID names a layer
 * that can't be. Caller owns the result and frees it with crt_model_free. */
CRT_API crt_status_t crt_model_new(int inputs, const crt_layer_t *layers, size_t count,
                                   uint64_t seed, crt_model_t **model_out);

/* A multi-layer perceptron. `widths` ends with 0: inputs, hidden widths, classes, 0. Each
 * hidden layer is dense, ReLU and (rate > 0) dropout; the last dense layer starts at
 * zero. Caller owns the result and frees it with crt_model_free. */
CRT_API crt_status_t crt_mlp_new(const int *widths, double dropout, uint64_t seed,
                                 crt_model_t **model_out);

/* Inputs of a model, its outputs (the classes), and the floats of a flat buffer of all its weights. */
CRT_API int crt_model_inputs(const crt_model_t *model);
CRT_API int crt_model_outputs(const crt_model_t *model);
CRT_API size_t crt_model_parameters(const crt_model_t *model);
/* Weights and biases of each layer: the arrays that the flat buffers consist of. */
CRT_API size_t crt_model_arrays(const crt_model_t *model);

/* An array of a model: floats [first, first + count) of its flat buffers. */
typedef struct crt_model_array {
    size_t first, count;
    int rows, cols;   /* biases: one row */
    size_t layer;     /* index of its layer */
    const char *kind; /* of the layer, such as "dense"; never freed */
} crt_model_array_t;

/* Array `index` of crt_model_arrays. CRT_ERR_INVALID when there is none. */
CRT_API crt_status_t crt_model_array(const crt_model_t *model, size_t index,
                                     crt_model_array_t *array_out);

/* All weights, one dimension. Borrowed: valid until the model is freed; the numbers
 * change with the next optimizer step. */
CRT_API const crt_tensor_t *crt_model_weights(crt_model_t *model);

/* All gradients summed since the last step. Borrowed: valid until the model is freed. */
CRT_API const crt_tensor_t *crt_model_gradients(crt_model_t *model);

/* The running means and variances of all batch norms: what they compute with when not training. A pass
 * of training changes them, in this model only; they are no weights, but crt_model_save writes them, too. One
 * dimension, 0 numbers without a batch norm. Borrowed: valid until the model is freed; may be written to. */
CRT_API const crt_tensor_t *crt_model_statistics(crt_model_t *model);

/* Copies `weights` (flat) into the model. */
CRT_API crt_status_t crt_model_set_weights(crt_model_t *model,
                                           const crt_tensor_t *weights);

/* Adds a flat gradient to the model's. */
CRT_API crt_status_t crt_model_add_gradients(crt_model_t *model,
                                             const crt_tensor_t *gradients);

/* Forgets the gradients added since the last step. */
CRT_API void crt_model_zero_gradients(crt_model_t *model);

/* Restarts the random numbers of the dropout. */
CRT_API void crt_model_set_seed(crt_model_t *model, uint64_t seed);

/* One forward and backward pass over `batch`, with dropout: *overwrites* `gradients`
 * (flat) with the gradient of the mean cross-entropy and stores that mean in `*loss_out`
 * (may be NULL). `weights` NULL: the model's own; else they are read in place.
 * `gradients` NULL: the model's own. */
CRT_API crt_status_t crt_model_compute_gradients(crt_model_t *model,
                                                 const crt_tensor_t *weights,
                                                 const crt_batch_t *batch,
                                                 crt_tensor_t *gradients,
                                                 double *loss_out);

/* Says how far a gradient is: all floats from `first` to the end are final. */
typedef void crt_gradients_seen_t(void *context, size_t first);

/* Calls `seen` (NULL: nothing) in every crt_model_compute_gradients of this model, in its thread,
 * whenever a layer's gradients are final: from the last layer to the first, so `first` falls, and
 * ends at 0. For callers that send gradients while the rest is still computed. */
CRT_API void crt_model_watch_gradients(crt_model_t *model, crt_gradients_seen_t *seen,
                                       void *context);

/* Replaces each of `count` numbers by its sum over all who compute parts of one batch. */
typedef crt_status_t crt_norm_sum_t(void *context, float *numbers, size_t count);

/* Batch norms of this model compute mean and variance of one batch of which others have the other rows: `sum` (NULL:
 * of its own rows only, as at first) is called in every pass of training, in its thread, twice in the forward pass of a
 * batch norm and once in its backward pass. All of them make the same passes. The average of their gradients is then
 * that of the whole batch, if they have as many rows each. */
CRT_API void crt_model_sync_norms(crt_model_t *model, crt_norm_sum_t *sum, void *context);

/* A forward pass for a loss of the caller's. `inputs` is (rows, inputs) of the model's dtype and must
 * stay until crt_model_backward. `lengths` (int32, NULL: one sequence) says how many rows each
 * sequence has, for CRT_EXPAND_WINDOW; their sum is the number of rows. `weights` as above. While `training`
 * dropout is on, and crt_model_backward may follow. `*outputs_out` is (rows, outputs); borrowed,
 * valid until the model's next pass. */
CRT_API crt_status_t crt_model_forward(crt_model_t *model, const crt_tensor_t *weights,
                                       const crt_tensor_t *inputs,
                                       const crt_tensor_t *lengths, bool training,
                                       crt_tensor_t *outputs_out);

/* The backward pass of the last crt_model_forward, with the same weights: `d_outputs` (rows,
 * outputs) is the gradient of the loss. Overwrites `gradients` (flat; NULL: the model's own), but for the arrays
 * of CRT_PARAMETERS, which are the caller's, and `d_inputs` (rows, inputs; may be NULL).
 * CRT_ERR_INVALID when no forward pass with training came before. */
CRT_API crt_status_t crt_model_backward(crt_model_t *model, const crt_tensor_t *weights,
                                        const crt_tensor_t *d_outputs,
                                        crt_tensor_t *gradients, crt_tensor_t *d_inputs);

/* Probabilities (rows, outputs) of `inputs` (rows, inputs), float32, without dropout.
 * `weights` as above. */
CRT_API crt_status_t crt_model_predict(crt_model_t *model, const crt_tensor_t *weights,
                                       const crt_tensor_t *inputs,
                                       crt_tensor_t *probabilities);

/* The part of `set` whose most probable class is its label, 0..1. `weights` as above. */
CRT_API crt_status_t crt_model_accuracy(crt_model_t *model, const crt_tensor_t *weights,
                                        const crt_dataset_t *set, double *accuracy_out);

/* Writes weights and statistics with shapes and a checksum: to a file beside `path`, synced, then
 * renamed over it, so that `path` always holds one whole version. */
CRT_API crt_status_t crt_model_save(crt_model_t *model, const char *path);

/* Reads weights that crt_model_save wrote. CRT_ERR_NOT_FOUND: no such file;
 * CRT_ERR_CORRUPT: not such a file, cut short or damaged; CRT_ERR_INVALID: whole, but of
 * another shape. The model is unchanged on failure. */
CRT_API crt_status_t crt_model_load(crt_model_t *model, const char *path);

/* Frees a model; NULL is fine. */
CRT_API void crt_model_free(crt_model_t *model);

/* ---------------------------------------------------------------- optimizers */

/* Turns gradients into new weights. Belongs to one model. */
typedef struct crt_optimizer crt_optimizer_t;

typedef enum crt_optimizer_kind {
    CRT_ADAM = 1,  /* as Thinc has it: epsilon is not corrected, decay after the step */
    CRT_SGD = 2,   /* as PyTorch has it */
    CRT_ADAMW = 3, /* as PyTorch has it: epsilon corrected, decay before the step */
    CRT_RADAM = 4  /* rectified Adam, as Thinc has it */
} crt_optimizer_kind_t;

/* Start from crt_adam_options, crt_adamw_options, crt_radam_options or crt_sgd_options. */
typedef struct crt_optimizer_options {
    size_t size; /* of this struct */
    crt_optimizer_kind_t kind;
    double learn_rate;
    /* Each parameter array's gradient is scaled to at most this L2 norm; 0: never. */
    double grad_clip;
    /* A penalty on the weights: w -= rate * l2 * w beside the step, or, when it is not
     * weight decay, g += l2 * w before. */
    double l2;
    bool l2_is_weight_decay;
    double beta1, beta2, epsilon; /* Adam, AdamW, RAdam */
    double momentum;              /* SGD: v = momentum * v + g; w -= rate * v */
    bool nesterov;                /* SGD: w -= rate * (g + momentum * v) */
    /* The whole gradient is scaled to at most this L2 norm, before grad_clip; 0: never. */
    double global_clip;
    /* A whole gradient beyond this L2 norm ends the step with an error; 0: there is no limit. */
    double norm_limit;
    /* Look-ahead: every so many steps the weights go back to a second, slow copy of them that
     * has come `lookahead_rate` of the way; 0: never. */
    int lookahead_steps;
    double lookahead_rate;
    bool use_averages; /* crt_optimizer_averages */
} crt_optimizer_options_t;

/* The options of Adam: beta 0.9 and 0.999, epsilon 1e-8, clip 1.0 per array, no L2. */
CRT_API crt_optimizer_options_t crt_adam_options(double learn_rate);

/* The options of torch.optim.AdamW: beta 0.9 and 0.999, epsilon 1e-8, weight decay 0.01, no clip. Without
 * decay (l2 = 0) it is torch.optim.Adam. */
CRT_API crt_optimizer_options_t crt_adamw_options(double learn_rate);

/* The options of Thinc's RAdam: those of Adam, with averages; look-ahead is off (6 steps and a
 * rate of 0.5 are what its authors advise). */
CRT_API crt_optimizer_options_t crt_radam_options(double learn_rate);

/* The options of SGD: no clip, no L2. With l2_is_weight_decay = false its L2 is PyTorch's weight_decay. */
CRT_API crt_optimizer_options_t crt_sgd_options(double learn_rate, double momentum);

/* An optimizer of `model`, which must outlive it.
 * Caller owns the result and frees it with crt_optimizer_free. */
CRT_API crt_status_t crt_optimizer_new(crt_model_t *model,
                                       const crt_optimizer_options_t *options,
                                       crt_optimizer_t **optimizer_out);

/* An optimizer as of crt_optimizer_new with crt_adam_options. */
CRT_API crt_status_t crt_adam_new(crt_model_t *model, double learn_rate,
                                  crt_optimizer_t **optimizer_out);

/* An optimizer as of crt_optimizer_new with crt_sgd_options. */
CRT_API crt_status_t crt_sgd_new(crt_model_t *model, double learn_rate, double momentum,
                                 crt_optimizer_t **optimizer_out);

/* One update with the gradients added to the model, which are zero afterwards. CRT_ERR_INVALID
 * when there are none, or when one is not finite or beyond the limit: the text names step and layer, the weights stay. */
CRT_API crt_status_t crt_optimizer_step(crt_optimizer_t *optimizer, crt_model_t *model);

/* An update in one pass over memory: sums `count` flat gradients (and what was added to
 * the model before), updates the weights and writes a copy of them to `weights_out`
 * (flat, may be NULL), such as an object of the store under construction. */
CRT_API crt_status_t crt_optimizer_apply(crt_optimizer_t *optimizer, crt_model_t *model,
                                         const crt_tensor_t *const *gradients,
                                         size_t count, crt_tensor_t *weights_out);

/* A run of floats in the flat buffers. */
typedef struct crt_part {
    size_t first, count;
} crt_part_t;

/* An update of some parts of the weights, for processes of which each has all gradients but
 * updates only its own parts:
 *
 *     crt_optimizer_measure -> sum `squares` over all processes -> crt_optimizer_update
 *
 * `squares` has room for crt_model_arrays(model) numbers and gets, for each array, the sum of the
 * squares of the gradients in these parts. Adds the L2 penalty to `gradients` (flat) where it is
 * not weight decay. */
CRT_API crt_status_t crt_optimizer_measure(const crt_optimizer_t *optimizer,
                                           const crt_model_t *model,
                                           const crt_tensor_t *gradients,
                                           const crt_part_t *parts, size_t count,
                                           double *squares);

/* An update with the `squares` of whole arrays. Scales the gradient to at most the norm `clip` as a whole (0:
 * global_clip of the options), then each array as the optimizer's options say, and updates the parts; `gradients` are zero in
 * them afterwards. Counts as one step. CRT_ERR_INVALID when a square is not finite or beyond the limit: then nothing
 * was changed. */
CRT_API crt_status_t crt_optimizer_update(crt_optimizer_t *optimizer, crt_model_t *model,
                                          const crt_tensor_t *gradients,
                                          const crt_part_t *parts, size_t count,
                                          const double *squares, double clip);

/* From the next step on: what a schedule says. CRT_ERR_INVALID when it is negative or not finite. */
CRT_API crt_status_t crt_optimizer_set_learn_rate(crt_optimizer_t *optimizer,
                                                  double learn_rate);

/* The moving average of the weights after each step, flat, to be used as `weights`: it moves by 1 - min((1 + t) / (10 + t),
 * 0.9999) of the way at step t, from zero. NULL without use_averages, and before the first step. Borrowed:
 * valid until the optimizer is freed; the numbers change with the next step. */
CRT_API const crt_tensor_t *crt_optimizer_averages(const crt_optimizer_t *optimizer);

/* Updates made so far. */
CRT_API uint64_t crt_optimizer_steps(const crt_optimizer_t *optimizer);

/* What the optimizer remembers: flat buffers, as many as crt_optimizer_states says, and the number
 * of steps. Together with the weights they are all that another process needs to go on.
 * Borrowed: valid until the optimizer is freed; may be written to. */
CRT_API int crt_optimizer_states(const crt_optimizer_t *optimizer);
CRT_API const crt_tensor_t *crt_optimizer_state(crt_optimizer_t *optimizer, int index);
CRT_API void crt_optimizer_set_steps(crt_optimizer_t *optimizer, uint64_t steps);

/* Frees an optimizer; NULL is fine. */
CRT_API void crt_optimizer_free(crt_optimizer_t *optimizer);

/* ---------------------------------------------------------------- schedules */

typedef enum crt_schedule_kind {
    CRT_SCHEDULE_CONSTANT = 1,
    CRT_SCHEDULE_COMPOUNDING = 2,
    CRT_SCHEDULE_WARMUP_LINEAR = 3,
    CRT_SCHEDULE_COSINE = 4,
    CRT_SCHEDULE_STEP = 5
} crt_schedule_kind_t;

/* A number for each step, such as the learn rate or the size of a batch; make it with the functions
 * below. It has no state: a program that goes on asks for the step where it is. */
typedef struct crt_schedule {
    crt_schedule_kind_t kind;
    double start, stop, factor;
    uint64_t warmup_steps, steps;
} crt_schedule_t;

/* `value` at every step. */
CRT_API crt_schedule_t crt_schedule_constant(double value);

/* start * factor ^ step, never beyond `stop`. */
CRT_API crt_schedule_t crt_schedule_compounding(double start, double stop, double factor);

/* From 0 to `value` in `warmup_steps`, then back to 0 at `total_steps`, both in straight lines. */
CRT_API crt_schedule_t crt_schedule_warmup_linear(double value, uint64_t warmup_steps,
                                                  uint64_t total_steps);

/* From `start` to `stop` at `steps`, along half a wave; `stop` from then on. */
CRT_API crt_schedule_t crt_schedule_cosine(double start, double stop, uint64_t steps);

/* start * factor ^ (step / every), whole numbers. */
CRT_API crt_schedule_t crt_schedule_step(double start, double factor, uint64_t every);

/* The number of a step; the first one is step 0. */
CRT_API double crt_schedule_at(const crt_schedule_t *schedule, uint64_t step);

#ifdef __cplusplus
}
#endif

#endif
