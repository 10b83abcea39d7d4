/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of the parser of named entities: ml/ner_parse.c and ner_train.c on a GPU. A block follows
 * one state from word to word by itself, so that nothing goes to the host between two moves. The
 * rules are those of ml/ner_moves.c. Numbers are float32, whatever outputs are. */

#define BEGIN    1 /* crt_ner_action_t */
#define IN       2
#define LAST     3
#define UNIT     4
#define OUT      5
#define NO_LABEL 255
#define INVALID  9000 /* a cost */
#define IDS      6    /* of a step */

/* ---------------------------------------------------------------- rules */

typedef struct move {
    int action, label;
} move_t;

/* As make_moves of ml/ner_model.c puts them. */
static __device__ move_t move_of(int number, int labels)
{
    if (number < 4 * labels)
        return {BEGIN + number / labels, number % labels};
    return {number == 4 * labels ? UNIT : OUT, NO_LABEL};
}

/* Where a state is: `tags` are its document's. */
typedef struct walk {
    const crti_cuda_tag_t *tags;
    int first, length, at, start, label;
} walk_t;

static __device__ bool is_valid(const walk_t &s, move_t move)
{
    bool open = s.start >= 0;
    bool may_go_on = s.at + 1 < s.length && !s.tags[s.at + 1].starts_sentence;

    switch (move.action) {
    case BEGIN: return !open && may_go_on && !s.tags[s.at].is_space;
    case IN: return open && move.label == s.label && may_go_on;
    case LAST: return open && move.label == s.label;
    case UNIT: return !open && move.label != NO_LABEL && !s.tags[s.at].is_space;
    default: return !open;
    }
}

static __device__ bool is_sunk(const walk_t &s)
{
    if (s.start < 0)
        return false;
    crti_cuda_tag_t gold = s.tags[s.start];

    return (gold.action != BEGIN && gold.action != UNIT) || gold.label != s.label;
}

static __device__ int cost_in(const walk_t &s, int gold, int next)
{
    bool next_is_out = next == OUT || next == 0;

    switch (gold) {
    case LAST: return !(is_sunk(s) && next_is_out);
    case OUT: return !next_is_out;
    case UNIT: return next != OUT;
    default: return 0;
    }
}

static __device__ int cost_of(const walk_t &s, move_t move)
{
    crti_cuda_tag_t gold = s.tags[s.at];
    int next = s.at + 1 < s.length ? s.tags[s.at + 1].action : OUT;

    if (!is_valid(s, move))
        return INVALID;
    if (gold.action == 0)
        return 0;
    switch (move.action) {
    case BEGIN:
    case UNIT: return gold.action != move.action || gold.label != move.label;
    case IN: return cost_in(s, gold.action, next);
    case LAST: return gold.action == IN && !is_sunk(s);
    default: return gold.action == BEGIN || gold.action == UNIT;
    }
}

static __device__ void go(walk_t *s, move_t move)
{
    if (move.action == BEGIN) {
        s->start = s->at;
        s->label = move.label;
    } else if (move.action == LAST) {
        s->start = -1;
    }
    s->at++;
}

static __device__ void context_of(const walk_t &s, int count, int *ids)
{
    ids[0] = s.first + s.at;
    for (int k = 1; k < count; k++)
        ids[k] = -1;
    if (s.start < 0)
        return;
    if (count == 3) {
        ids[1] = s.first + s.start;
        ids[2] = ids[0] - 1;
        return;
    }
    for (int k = 1; k < count && s.start + k - 1 < s.at; k++)
        ids[k] = s.first + s.start + k - 1;
}

/* ---------------------------------------------------------------- vectors and scores */

/* The largest piece of an output of a state; which one: `pieces` when none is above zero. */
static __device__ float largest_of_state(const float *features, const float *bias,
                                         const float *padding, const int *ids, int o,
                                         const crti_cuda_parser_t &p, int *winner_out)
{
    float most = 0;

    *winner_out = p.pieces;
    for (int piece = 0; piece < p.pieces; piece++) {
        int unit = o * p.pieces + piece;
        float sum = bias[unit];

        for (int k = 0; k < p.features; k++)
            sum += ids[k] < 0 ? padding[k * p.units + unit]
                              : features[((count_t)ids[k] * p.features + k) * p.units + unit];
        if (p.pieces == 1 ? sum >= 0 : piece == 0 || sum > most) {
            most = sum;
            *winner_out = piece;
        }
    }
    return most;
}

/* A warp for each move. */
static __device__ void score_moves(float *scores, const float *vector, const float *upper,
                                   const float *upper_bias, const crti_cuda_parser_t &p)
{
    int lane = threadIdx.x % WARP;

    for (int m = threadIdx.x / WARP; m < p.moves; m += blockDim.x / WARP) {
        float sum = 0;

        for (int o = lane; o < p.outs; o += WARP)
            sum += vector[o] * upper[m * p.outs + o];
        sum = sum_of_warp(sum);
        if (lane == 0)
            scores[m] = sum + upper_bias[m];
    }
}

/* The first of the valid moves with the highest score: one warp. */
static __device__ int best_move(const walk_t &s, const float *scores, int lane,
                                const crti_cuda_parser_t &p)
{
    float most = 0;
    int best = p.moves;

    for (int m = lane; m < p.moves; m += WARP)
        if (is_valid(s, move_of(m, p.labels)) && (best == p.moves || scores[m] > most)) {
            best = m;
            most = scores[m];
        }
    for (int step = WARP / 2; step > 0; step /= 2) {
        int other = __shfl_xor_sync(ALL, best, step);
        float score = __shfl_xor_sync(ALL, most, step);
        bool is_better = best == p.moves || score > most || (score == most && other < best);

        if (other < p.moves && is_better) {
            best = other;
            most = score;
        }
    }
    return best;
}

/* The gradients of scores over them: P - G. Returns the sum of their squares. One warp. */
static __device__ float learn_moves(const walk_t &s, float *scores, int lane,
                                    const crti_cuda_parser_t &p)
{
    float most = -__int_as_float(0x7f800000), gold_most = most, least = -1;
    double z = 0, gold_z = 0, sum = 0;

    for (int m = lane; m < p.moves; m += WARP) {
        most = fmaxf(most, scores[m]);
        least = fmaxf(least, -(float)cost_of(s, move_of(m, p.labels)));
    }
    most = largest_of_warp(most);
    least = -largest_of_warp(least);
    for (int m = lane; m < p.moves; m += WARP)
        if (cost_of(s, move_of(m, p.labels)) <= least)
            gold_most = fmaxf(gold_most, scores[m]);
    gold_most = largest_of_warp(gold_most);
    for (int m = lane; m < p.moves; m += WARP) {
        z += expf(scores[m] - most);
        if (cost_of(s, move_of(m, p.labels)) <= least)
            gold_z += expf(scores[m] - gold_most);
    }
    z = sum_of_warp(z) + 1e-10;
    gold_z = sum_of_warp(gold_z) + 1e-10;
    for (int m = lane; m < p.moves; m += WARP) {
        double d = expf(scores[m] - most) / z;

        if (cost_of(s, move_of(m, p.labels)) <= least)
            d -= expf(scores[m] - gold_most) / gold_z;
        scores[m] = d;
        sum += d * d;
    }
    return sum_of_warp(sum);
}

/* ---------------------------------------------------------------- following */

/* A block for each state. Training keeps what each step was made of, and its gradients of scores;
 * else a state's steps use the same memory, and `found` gets the moves. `flat` are the weights. */
KERNEL parse(float *vectors, float *mask, unsigned char *winners, int *ids, float *scores,
             float *losses, unsigned short *found, const float *features, const float *flat,
             const crti_cuda_tag_t *tags, const crti_cuda_state_t *states, crti_cuda_parser_t p)
{
    __shared__ int chosen;
    crti_cuda_state_t state = states[blockIdx.x];
    walk_t s = {tags + state.first, state.first, state.length, state.at, state.start, state.label};
    const float *bias = flat + p.bias_at, *padding = flat + p.padding_at;
    float loss = 0;

    for (int n = 0; n < state.steps; n++) {
        count_t step = state.step + (p.trains ? n : 0);
        float *vector = vectors + step * p.outs, *score = scores + step * p.moves;
        int own[IDS];

        context_of(s, p.features, own);
        for (int o = threadIdx.x; o < p.outs; o += blockDim.x) {
            int winner;
            float x = largest_of_state(features, bias, padding, own, o, p, &winner);
            float left = p.drops && random_at(p.seed, step * p.outs + o) < p.limit ? 0 : p.keep;

            if (p.trains) {
                winners[step * p.outs + o] = winner;
                mask[step * p.outs + o] = left;
            }
            vector[o] = x * left;
            if (!p.has_upper)
                score[o] = vector[o];
        }
        if (p.trains && threadIdx.x < p.features)
            ids[step * IDS + threadIdx.x] = own[threadIdx.x];
        __syncthreads();
        if (p.has_upper)
            score_moves(score, vector, flat + p.upper_at, flat + p.upper_bias_at, p);
        __syncthreads();
        if (threadIdx.x < WARP) {
            int best = best_move(s, score, threadIdx.x, p);

            if (p.trains)
                loss += learn_moves(s, score, threadIdx.x, p);
            if (threadIdx.x == 0) {
                chosen = best;
                if (!p.trains)
                    found[s.first + s.at] = best;
            }
        }
        __syncthreads();
        go(&s, move_of(chosen, p.labels));
        __syncthreads();
    }
    if (p.trains && threadIdx.x == 0)
        losses[blockIdx.x] = loss;
}

/* ---------------------------------------------------------------- back */

/* A block for each document, whose words no other has: from the gradients of vectors to those of
 * what words gave to them, step after step. d_features and d_padding (documents, features, units)
 * are zero before. */
KERNEL parse_back(float *d_features, float *d_padding, const float *d_vectors, const float *mask,
                  const unsigned char *winners, const int *ids, const crti_cuda_range_t *steps,
                  crti_cuda_parser_t p)
{
    crti_cuda_range_t own = steps[blockIdx.x];
    count_t row = (count_t)p.features * p.units;

    for (int i = threadIdx.x; i < p.features * p.outs; i += blockDim.x) {
        int k = i / p.outs, o = i % p.outs;

        for (count_t n = own.first; n < own.end; n++) {
            int winner = winners[n * p.outs + o], id = ids[n * IDS + k];
            float *to = id < 0 ? d_padding + blockIdx.x * row : d_features + id * row;

            if (winner < p.pieces)
                to[k * p.units + o * p.pieces + winner] +=
                    d_vectors[n * p.outs + o] * mask[n * p.outs + o];
        }
    }
}
