/* SPDX-License-Identifier: Apache-2.0 */
/* Networks by name: lists of layers. See ml/crt_networks.h.
 *
 * Parameters stand in the order of the modules of the PyTorch programs that these networks are
 * known from, so that their weights can be carried over one by one.
 */
#include <crt_networks.h>

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "ml/configuration.h"
#include "ml/model.h"

/* What is being built. Layers beyond the room are counted only. */
typedef struct network {
    crt_layer_t layers[CRTI_MODEL_LAYERS_MAX];
    size_t count;
    int classes;
    crt_layer_init_t init; /* of convolutions */
} network_t;

/* One line of the table of names. */
typedef struct recipe {
    const char *name;
    void (*build)(network_t *network, const struct recipe *recipe);
    bool is_large; /* 32 x 32 x 3 */
    int numbers[4];
    bool flag;
} recipe_t;

static void add(network_t *n, crt_layer_t layer)
{
    if (n->count < CRTI_MODEL_LAYERS_MAX)
        n->layers[n->count] = layer;
    n->count++;
}

static void add_dense(network_t *n, int outputs)
{
    crt_layer_t layer = CRT_DENSE(outputs);

    layer.init = CRT_INIT_FAN_IN;
    add(n, layer);
}

static void add_convolution(network_t *n, crt_layer_t layer)
{
    layer.init = n->init;
    add(n, layer);
}

/* ---------------------------------------------------------------- small ones */

static void build_mlp(network_t *n, const recipe_t *r)
{
    add(n, CRT_FLATTEN());
    for (int i = 0; i < r->numbers[1]; i++) {
        add_dense(n, r->numbers[0]);
        add(n, CRT_RELU());
    }
    add_dense(n, n->classes);
}

/* Of Ray's tutorial of parameter servers. */
static void build_convnet(network_t *n, const recipe_t *r)
{
    (void)r;
    add_convolution(n, CRT_CONVOLUTION(3, 3, 1, 0));
    add(n, CRT_MAX_POOL(3, 3));
    add(n, CRT_RELU());
    add(n, CRT_FLATTEN());
    add_dense(n, n->classes);
}

/* Of TensorFlow's tutorial of MNIST. */
static void build_cnn(network_t *n, const recipe_t *r)
{
    (void)r;
    for (int width = 32; width <= 64; width *= 2) {
        add_convolution(n, CRT_CONVOLUTION(width, 5, 1, 2));
        add(n, CRT_RELU());
        add(n, CRT_MAX_POOL(2, 2));
    }
    add(n, CRT_FLATTEN());
    add_dense(n, 1024);
    add(n, CRT_RELU());
    add(n, CRT_DROPOUT(0.5));
    add_dense(n, n->classes);
}

static void build_fcnn(network_t *n, const recipe_t *r)
{
    static const struct {
        int kernel, width, stride;
    } rows[] = {{7, 16, 2}, {3, 16, 1}, {3, 32, 2}, {3, 32, 1}, {3, 64, 2}, {3, 64, 1}};

    (void)r;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        add_convolution(n, CRT_CONVOLUTION_PLAIN(rows[i].width, rows[i].kernel,
                                                 rows[i].stride, 1 + rows[i].kernel / 2));
        add(n, CRT_BATCH_NORM());
        add(n, CRT_RELU());
    }
    add(n, CRT_GLOBAL_POOL());
    add_dense(n, n->classes);
}

static void build_lenet(network_t *n, const recipe_t *r)
{
    (void)r;
    add_convolution(n, CRT_CONVOLUTION(20, 5, 1, 0));
    add(n, CRT_MAX_POOL(2, 2));
    add(n, CRT_RELU());
    add_convolution(n, CRT_CONVOLUTION(50, 5, 1, 0));
    add(n, CRT_MAX_POOL(2, 2));
    add(n, CRT_RELU());
    add(n, CRT_FLATTEN());
    add_dense(n, 500);
    add_dense(n, n->classes);
}

/* ---------------------------------------------------------------- residual ones */

static void add_normed(network_t *n, int width, int kernel, int stride, int from)
{
    crt_layer_t layer = CRT_CONVOLUTION_PLAIN(width, kernel, stride, kernel / 2);

    layer.from = from;
    add_convolution(n, layer);
    add(n, CRT_BATCH_NORM());
}

/* A block from the layer before it on: two or three convolutions, and the shortcut that is
 * added. */
static void add_block(network_t *n, int width, int stride, int expansion, bool changes,
                      bool projects)
{
    size_t begin = n->count, end;
    int outputs = width * expansion;

    if (expansion > 1) {
        add_normed(n, width, 1, 1, 0);
        add(n, CRT_RELU());
    }
    add_normed(n, width, 3, stride, 0);
    add(n, CRT_RELU());
    add_normed(n, outputs, expansion > 1 ? 1 : 3, 1, 0);
    end = n->count;
    if (changes && projects)
        add_normed(n, outputs, 1, stride, (int)(end - begin) + 1);
    else if (changes)
        add(n, CRT_LAYER(.kind = CRT_LAYER_SUBSAMPLE, .width = outputs, .stride = stride,
                         .from = (int)(end - begin) + 1));
    add(n, CRT_ADD(changes ? (int)(n->count - end) + 1 : (int)(n->count - begin) + 1));
    add(n, CRT_RELU());
}

/* Stages of `blocks`, each twice as wide as the one before and, but for the first, half as high. */
static void add_stages(network_t *n, int width, const int *blocks, int stages,
                       int expansion, bool projects)
{
    add_normed(n, width, 3, 1, 0);
    add(n, CRT_RELU());
    for (int i = 0; i < stages; i++, width *= 2)
        for (int k = 0; k < blocks[i]; k++) {
            int stride = i > 0 && k == 0 ? 2 : 1;

            add_block(n, width, stride, expansion, k == 0 && (i > 0 || expansion > 1),
                      projects);
        }
    add(n, CRT_GLOBAL_POOL());
    add_dense(n, n->classes);
}

static void build_resnet(network_t *n, const recipe_t *r)
{
    add_stages(n, 64, r->numbers, 4, r->flag ? 4 : 1, true);
}

static void build_resnet_cifar(network_t *n, const recipe_t *r)
{
    const int blocks[] = {r->numbers[0], r->numbers[0], r->numbers[0]};

    add_stages(n, 16, blocks, 3, 1, r->flag);
}

/* ---------------------------------------------------------------- VGG */

/* Numbers: convolutions in the first two stages, and in the others. */
static void build_vgg(network_t *n, const recipe_t *r)
{
    static const int widths[] = {64, 128, 256, 512, 512};

    n->init = CRT_INIT_HE;
    for (int i = 0; i < 5; i++) {
        for (int k = 0; k < r->numbers[i < 2 ? 0 : 1]; k++) {
            add_convolution(n, CRT_CONVOLUTION(widths[i], 3, 1, 1));
            if (r->flag)
                add(n, CRT_BATCH_NORM());
            add(n, CRT_RELU());
        }
        add(n, CRT_MAX_POOL(2, 2));
    }
    add(n, CRT_FLATTEN());
    for (int i = 0; i < 2; i++) {
        add(n, CRT_DROPOUT(0.5));
        add_dense(n, 512);
        add(n, CRT_RELU());
    }
    add_dense(n, n->classes);
}

/* ---------------------------------------------------------------- transformers */

static void add_norm(network_t *n)
{
    crt_layer_t layer = CRT_LAYER_NORM();

    layer.epsilon = 1e-5;
    add(n, layer);
}

static void add_drawn(network_t *n, int outputs, crt_layer_init_t init)
{
    crt_layer_t layer = CRT_DENSE(outputs);

    layer.init = init;
    add(n, layer);
}

/* PyTorch's TransformerEncoderLayer, norms first. */
static void add_encoder(network_t *n, int width, int heads, int hidden, bool gelu)
{
    const double rate = 0.1;

    add_norm(n);
    add_drawn(n, 3 * width, CRT_INIT_GLOROT);
    add(n, CRT_ATTENTION(heads, rate));
    add_drawn(n, width, CRT_INIT_FAN_IN_PLAIN);
    add(n, CRT_DROPOUT(rate));
    add(n, CRT_ADD(6));
    add_norm(n);
    add_dense(n, hidden);
    add(n, gelu ? CRT_GELU() : CRT_RELU());
    add(n, CRT_DROPOUT(rate));
    add_dense(n, width);
    add(n, CRT_DROPOUT(rate));
    add(n, CRT_ADD(7));
}

static void build_vit(network_t *n, const recipe_t *r)
{
    int width = r->numbers[1];

    add(n, CRT_PATCHES(r->numbers[0]));
    add_norm(n);
    add_dense(n, width);
    add_norm(n);
    add(n, CRT_TOKEN());
    add(n, CRT_POSITIONS());
    for (int i = 0; i < r->numbers[2]; i++)
        add_encoder(n, width, r->numbers[3], 8 * width, r->flag);
    add(n, CRT_GLOBAL_POOL());
    add_dense(n, n->classes);
}

/* ---------------------------------------------------------------- names */

static const recipe_t recipes[] = {
    {"mlp", build_mlp, false, {128, 2}, false},
    {"mlp-4096x4", build_mlp, false, {4096, 4}, false},
    {"convnet", build_convnet, false, {0}, false},
    {"cnn", build_cnn, false, {0}, false},
    {"fcnn", build_fcnn, false, {0}, false},
    {"lenet", build_lenet, false, {0}, false},
    {"vit", build_vit, false, {4, 32, 4, 8}, false},
    {"vit-gelu", build_vit, false, {4, 32, 4, 8}, true},
    {"resnet18", build_resnet, true, {2, 2, 2, 2}, false},
    {"resnet34", build_resnet, true, {3, 4, 6, 3}, false},
    {"resnet50", build_resnet, true, {3, 4, 6, 3}, true},
    {"resnet101", build_resnet, true, {3, 4, 23, 3}, true},
    {"resnet152", build_resnet, true, {3, 8, 36, 3}, true},
    {"resnet20", build_resnet_cifar, true, {3}, false},
    {"resnet32", build_resnet_cifar, true, {5}, false},
    {"resnet44", build_resnet_cifar, true, {7}, false},
    {"resnet56", build_resnet_cifar, true, {9}, false},
    {"resnet110", build_resnet_cifar, true, {18}, false},
    {"resnet20-projection", build_resnet_cifar, true, {3}, true},
    {"resnet32-projection", build_resnet_cifar, true, {5}, true},
    {"resnet44-projection", build_resnet_cifar, true, {7}, true},
    {"resnet56-projection", build_resnet_cifar, true, {9}, true},
    {"resnet110-projection", build_resnet_cifar, true, {18}, true},
    {"vgg11", build_vgg, true, {1, 2}, false},
    {"vgg13", build_vgg, true, {2, 2}, false},
    {"vgg16", build_vgg, true, {2, 3}, false},
    {"vgg19", build_vgg, true, {2, 4}, false},
    {"vgg11-bn", build_vgg, true, {1, 2}, true},
    {"vgg13-bn", build_vgg, true, {2, 2}, true},
    {"vgg16-bn", build_vgg, true, {2, 3}, true},
    {"vgg19-bn", build_vgg, true, {2, 4}, true},
};

#define RECIPES (sizeof(recipes) / sizeof(recipes[0]))

const char *crt_network_name(size_t index)
{
    return index < RECIPES ? recipes[index].name : NULL;
}

/* The letters and digits of a name, small. */
static void simplify(const char *name, char *out, size_t room)
{
    size_t at = 0;

    for (; *name && at + 1 < room; name++)
        if (*name != '-' && *name != '_')
            out[at++] = (char)tolower((unsigned char)*name);
    out[at] = '\0';
}

static crt_status_t find(const char *name, const recipe_t **recipe_out)
{
    char wanted[64], known[64];
    size_t nearest = 0;

    simplify(name, wanted, sizeof(wanted));
    for (size_t i = 0; i < RECIPES; i++) {
        simplify(recipes[i].name, known, sizeof(known));
        if (strcmp(known, wanted) == 0) {
            *recipe_out = &recipes[i];
            return CRT_OK;
        }
        if (crti_configuration_distance(recipes[i].name, name) <
            crti_configuration_distance(recipes[nearest].name, name))
            nearest = i;
    }
    return crt_raise(CRT_ERR_NOT_FOUND,
                     "no network is called '%s'; the nearest name is '%s'", name,
                     recipes[nearest].name);
}

crt_status_t crt_network_parse(const char *name, const char **name_out)
{
    const recipe_t *recipe;
    crt_status_t status = find(name, &recipe);

    if (status == CRT_OK)
        *name_out = recipe->name;
    return status;
}

crt_status_t crt_network_by_name(const char *name, const crt_input_t *input, int classes,
                                 uint64_t seed, crt_model_t **model_out)
{
    const recipe_t *recipe;
    crt_input_t usual = CRT_INPUT(.height = 28, .width = 28, .channels = 1);
    crt_status_t status = find(name, &recipe);
    network_t *n;

    if (status != CRT_OK)
        return status;
    if (classes < 2 || classes > 256)
        return crt_raise(CRT_ERR_INVALID, "%s: %d classes, not 2..256", name, classes);
    n = calloc(1, sizeof(*n));
    if (!n)
        return crt_raise(CRT_ERR_NO_MEMORY, "%s", name);
    n->classes = classes;
    n->init = CRT_INIT_FAN_IN;
    recipe->build(n, recipe);
    if (recipe->is_large)
        usual = CRT_INPUT(.height = 32, .width = 32, .channels = 3);
    status = crt_model_new(input ? input : &usual, n->layers, n->count, seed, model_out);
    free(n);
    return status;
}
