/* DynPartition's agent: its state, network, memory and learning. */
#include "sched/trees/dqn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STATE_WIDTH 32u
#define STATE_PARTS 4u /* of a node: position, depth, parent, is a leaf */
#define INPUTS      (DQN_NODES_MAX * STATE_WIDTH)
#define HIDDEN      16u
#define HIDDENS     3u
#define ADAM_BETA1  0.9f
#define ADAM_BETA2  0.999f
#define ADAM_TINY   1e-8f

/* A layer: value[o] = bias[o] + sum of weight[i][o] * input[i]. */
struct layer {
    uint32_t inputs, outputs;
    float *weight, *bias;
};

struct episode {
    const struct place_units *u;
    float reward;
    uint8_t device[DQN_NODES_MAX]; /* of units */
};

struct dqn {
    uint32_t device_count;
    enum dqn_state sees;
    struct layer layer[HIDDENS + 1];
    size_t parameter_count;
    float *parameter, *gradient, *mean, *square; /* [parameter_count] */
    struct layer slope[HIDDENS + 1];             /* the gradient's */
    uint64_t steps;
    float sine[2 * DQN_NODES_MAX][STATE_WIDTH]; /* of a number */
    float state[INPUTS];
    uint32_t place[DQN_NODES_MAX]; /* of a unit: its row, which is its position in order, or its depth */
    uint32_t row_count;
    float hidden[HIDDENS][HIDDEN];
    float *value, *dvalue; /* [rows, devices] */
    struct draw draw;
    struct episode *episode; /* [DQN_REPLAY] */
    uint64_t episode_count;  /* remembered so far */
};

/* --- the network ------------------------------------------------------------------------------ */

static size_t layers_size(struct layer *layer, uint32_t device_count)
{
    size_t count = 0;
    for (uint32_t i = 0; i <= HIDDENS; i++) {
        layer[i].inputs = i == 0 ? INPUTS : HIDDEN;
        layer[i].outputs = i < HIDDENS ? HIDDEN : DQN_NODES_MAX * device_count;
        count += (size_t)(layer[i].inputs + 1) * layer[i].outputs;
    }
    return count;
}

/* Lays layers out; a bias lies behind its weights. */
static void layers_lay(struct layer *layer, float *at)
{
    for (uint32_t i = 0; i <= HIDDENS; i++) {
        layer[i].weight = at;
        layer[i].bias = at + (size_t)layer[i].inputs * layer[i].outputs;
        at = layer[i].bias + layer[i].outputs;
    }
}

/* Uses the first `input_count` inputs, the others being 0, and sets the first `output_count` outputs. */
static void layer_forward(const struct layer *l, const float *input, uint32_t input_count, uint32_t output_count,
                          float *output)
{
    memcpy(output, l->bias, output_count * sizeof *output);
    for (uint32_t i = 0; i < input_count; i++) {
        const float *row = l->weight + (size_t)i * l->outputs;
        for (uint32_t o = 0; o < output_count; o++) output[o] += input[i] * row[o];
    }
}

/* Adds to the slopes; sets dinput, if not NULL, to the inputs' gradient. */
static void layer_backward(const struct layer *l, struct layer *slope, const float *input, uint32_t input_count,
                           const float *doutput, uint32_t output_count, float *dinput)
{
    for (uint32_t o = 0; o < output_count; o++) slope->bias[o] += doutput[o];
    for (uint32_t i = 0; i < input_count; i++) {
        const float *row = l->weight + (size_t)i * l->outputs;
        float *slope_row = slope->weight + (size_t)i * l->outputs, sum = 0;
        for (uint32_t o = 0; o < output_count; o++) slope_row[o] += input[i] * doutput[o];
        if (dinput == NULL) continue;
        for (uint32_t o = 0; o < output_count; o++) sum += row[o] * doutput[o];
        dinput[i] = sum;
    }
}

/* Sets `hidden` and `value` from `state`. */
static void network_forward(struct dqn *q)
{
    const float *input = q->state;
    uint32_t count = q->row_count * STATE_WIDTH;
    for (uint32_t h = 0; h < HIDDENS; h++) {
        layer_forward(&q->layer[h], input, count, HIDDEN, q->hidden[h]);
        for (uint32_t i = 0; i < HIDDEN; i++)
            if (q->hidden[h][i] < 0) q->hidden[h][i] = 0;
        input = q->hidden[h];
        count = HIDDEN;
    }
    layer_forward(&q->layer[HIDDENS], input, count, q->row_count * q->device_count, q->value);
}

/* Adds to the gradient from `dvalue`. */
static void network_backward(struct dqn *q)
{
    float above[HIDDEN], below[HIDDEN];
    layer_backward(&q->layer[HIDDENS], &q->slope[HIDDENS], q->hidden[HIDDENS - 1], HIDDEN, q->dvalue,
                   q->row_count * q->device_count, above);
    for (uint32_t h = HIDDENS; h-- > 0;) {
        for (uint32_t i = 0; i < HIDDEN; i++)
            if (q->hidden[h][i] <= 0) above[i] = 0;
        const float *input = h > 0 ? q->hidden[h - 1] : q->state;
        layer_backward(&q->layer[h], &q->slope[h], input, h > 0 ? HIDDEN : q->row_count * STATE_WIDTH, above, HIDDEN,
                       h > 0 ? below : NULL);
        memcpy(above, below, sizeof above);
    }
}

/* A step of Kingma and Ba 2015, Algorithm 1; leaves a gradient of zero. */
static void network_update(struct dqn *q)
{
    q->steps++;
    const float rate = (float)(DQN_RATE / (1 - pow(ADAM_BETA1, (double)q->steps)));
    const float square_scale = (float)(1 / (1 - pow(ADAM_BETA2, (double)q->steps)));
    for (size_t i = 0; i < q->parameter_count; i++) {
        const float g = q->gradient[i];
        q->mean[i] = ADAM_BETA1 * q->mean[i] + (1 - ADAM_BETA1) * g;
        q->square[i] = ADAM_BETA2 * q->square[i] + (1 - ADAM_BETA2) * g * g;
        q->parameter[i] -= rate * q->mean[i] / (sqrtf(q->square[i] * square_scale) + ADAM_TINY);
    }
    memset(q->gradient, 0, q->parameter_count * sizeof *q->gradient);
}

status dqn_open(struct dqn **out, uint32_t device_count, enum dqn_state state, uint64_t seed)
{
    CHECK(device_count >= 1 && device_count <= PLACE_DEVICES_MAX && state < DQN_STATES);
    struct dqn *q = calloc(1, sizeof *q);
    if (q == NULL) FAIL(MEMORY, "no memory for an agent that places nodes");
    q->device_count = device_count;
    q->sees = state;
    q->parameter_count = layers_size(q->layer, device_count);
    layers_size(q->slope, device_count);
    const size_t values = DQN_NODES_MAX * device_count;
    q->parameter = calloc(4 * q->parameter_count + 2 * values, sizeof *q->parameter);
    q->episode = malloc(DQN_REPLAY * sizeof *q->episode);
    if (q->parameter == NULL || q->episode == NULL) {
        dqn_close(q);
        FAIL(MEMORY, "no memory for an agent that places nodes on %u devices", device_count);
    }
    q->gradient = q->parameter + q->parameter_count;
    q->mean = q->gradient + q->parameter_count;
    q->square = q->mean + q->parameter_count;
    q->value = q->square + q->parameter_count;
    q->dvalue = q->value + values;
    layers_lay(q->layer, q->parameter);
    layers_lay(q->slope, q->gradient);
    q->draw = draw_make(seed, DRAW_DQN);
    for (uint32_t i = 0; i <= HIDDENS; i++) {
        const struct layer *l = &q->layer[i];
        const float reach = 1 / sqrtf((float)l->inputs);
        const size_t count = (size_t)l->inputs * l->outputs + l->outputs;
        for (size_t k = 0; k < count; k++) l->weight[k] = reach * (float)(2 * draw_unit(&q->draw) - 1);
    }
    for (uint32_t n = 0; n < 2 * DQN_NODES_MAX; n++)
        for (uint32_t k = 0; k < STATE_WIDTH; k++) {
            const double angle = n * exp(-3.5 * k / STATE_WIDTH);
            q->sine[n][k] = (float)(k % 2 ? cos(angle) : sin(angle));
        }
    *out = q;
    return ST_OK;
}

void dqn_close(struct dqn *q)
{
    if (q == NULL) return;
    free(q->parameter);
    free(q->episode);
    free(q);
}

/* --- the state -------------------------------------------------------------------------------- */

/* Where nodes lie in their tree. */
struct tree_places {
    uint32_t order[DQN_NODES_MAX], depth[DQN_NODES_MAX], parent[DQN_NODES_MAX]; /* parent's order */
};

/* Adds a node to its row. */
static void node_see(struct dqn *q, const struct place_units *u, const struct tree_places *places, uint32_t i)
{
    const bool is_leaf = u->child_begin[i] == u->child_begin[i + 1];
    const uint32_t part[STATE_PARTS] = {places->order[i], places->depth[i], places->parent[i], is_leaf};
    float *row = q->state + q->place[i] * STATE_WIDTH;
    for (uint32_t p = 0; p < STATE_PARTS && q->sees == DQN_RAW; p++) row[p] = (float)part[p] / DQN_NODES_MAX;
    for (uint32_t k = 0; k < STATE_WIDTH && q->sees != DQN_RAW; k++) {
        float sum = 0;
        for (uint32_t p = 0; p < STATE_PARTS; p++) sum += q->sine[part[p]][k];
        row[k] += sum / STATE_PARTS;
    }
}

/* Sets `place`, `row_count` and `state`. */
static void state_make(struct dqn *q, const struct place_units *u, const struct tree_places *places)
{
    uint32_t nodes[DQN_NODES_MAX] = {0}; /* of a row */
    q->row_count = 0;
    for (uint32_t i = 0; i < u->count; i++) {
        q->place[i] = q->sees == DQN_PER_LEVEL ? places->depth[i] : places->order[i];
        if (q->place[i] >= q->row_count) q->row_count = q->place[i] + 1;
        nodes[q->place[i]]++;
    }
    memset(q->state, 0, q->row_count * STATE_WIDTH * sizeof *q->state);
    for (uint32_t i = 0; i < u->count; i++) node_see(q, u, places, i);
    for (uint32_t r = 0; r < q->row_count; r++)
        for (uint32_t k = 0; k < STATE_WIDTH && nodes[r] > 1; k++) q->state[r * STATE_WIDTH + k] /= (float)nodes[r];
}

/* Sets the state. In order, the first half of a node's children comes before it, with the middle one. */
static void tree_see(struct dqn *q, const struct place_units *u)
{
    struct tree_places places;
    uint32_t below[DQN_NODES_MAX], first[DQN_NODES_MAX], roots = 0;
    CHECK(u->count <= DQN_NODES_MAX);
    for (uint32_t i = 0; i < u->count; i++) roots += u->is_root[i];
    CHECK(u->child_begin[u->count] + roots == u->count); /* no node has two parents, there are no outputs */
    roots = 0;
    for (uint32_t i = 0; i < u->count; i++) {
        below[i] = 1;
        for (uint32_t e = u->child_begin[i]; e < u->child_begin[i + 1]; e++) below[i] += below[u->child[e]];
    }
    for (uint32_t i = u->count; i-- > 0;) {
        const uint32_t begin = u->child_begin[i], end = u->child_begin[i + 1], middle = begin + (end - begin + 1) / 2;
        if (u->is_root[i]) { /* of several roots the last comes first */
            first[i] = roots;
            roots += below[i];
            places.depth[i] = 0;
        }
        places.order[i] = first[i];
        for (uint32_t e = begin; e < middle; e++) places.order[i] += below[u->child[e]];
        if (u->is_root[i]) places.parent[i] = places.order[i];
        uint32_t next = first[i];
        for (uint32_t e = begin; e < end; e++) {
            if (e == middle) next++;
            first[u->child[e]] = next;
            places.depth[u->child[e]] = places.depth[i] + 1;
            places.parent[u->child[e]] = places.order[i];
            next += below[u->child[e]];
        }
    }
    state_make(q, u, &places);
}

void dqn_place(struct dqn *q, const struct place_units *u, double epsilon, uint8_t *device)
{
    uint8_t of_row[DQN_NODES_MAX];
    bool is_placed[DQN_NODES_MAX] = {false}; /* a row */
    tree_see(q, u);
    network_forward(q);
    for (uint32_t i = 0; i < u->count; i++) {
        const uint32_t row = q->place[i];
        const float *value = q->value + row * q->device_count;
        uint32_t best = 0;
        if (is_placed[row]) {
            device[i] = of_row[row];
            continue;
        }
        for (uint32_t other = 1; other < q->device_count; other++)
            if (value[other] > value[best]) best = other;
        if (epsilon > 0 && draw_unit(&q->draw) < epsilon) best = draw_below(&q->draw, q->device_count);
        device[i] = of_row[row] = (uint8_t)best;
        is_placed[row] = true;
    }
}

/* --- learning --------------------------------------------------------------------------------- */

void dqn_remember(struct dqn *q, const struct place_units *u, const uint8_t *device, double reward)
{
    struct episode *episode = &q->episode[q->episode_count++ % DQN_REPLAY];
    CHECK(u->count <= DQN_NODES_MAX);
    episode->u = u;
    episode->reward = (float)reward;
    memcpy(episode->device, device, u->count);
}

double dqn_learn(struct dqn *q)
{
    const uint32_t kept = q->episode_count < DQN_REPLAY ? (uint32_t)q->episode_count : DQN_REPLAY;
    double loss = 0;
    if (kept < DQN_BATCH) return 0;
    for (uint32_t b = 0; b < DQN_BATCH; b++) {
        const struct episode *episode = &q->episode[draw_below(&q->draw, kept)];
        uint32_t chosen[DQN_NODES_MAX], count = 0; /* values, one for each row, in the order of units */
        bool is_there[DQN_NODES_MAX] = {false};
        float sum = 0;
        tree_see(q, episode->u);
        network_forward(q);
        for (uint32_t i = 0; i < episode->u->count; i++) {
            if (is_there[q->place[i]]) continue;
            is_there[q->place[i]] = true;
            chosen[count++] = q->place[i] * q->device_count + episode->device[i];
        }
        for (uint32_t i = 0; i < count; i++) sum += q->value[chosen[i]];
        const float miss = sum - episode->reward;
        loss += (double)miss * miss / DQN_BATCH;
        memset(q->dvalue, 0, q->row_count * q->device_count * sizeof *q->dvalue);
        for (uint32_t i = 0; i < count; i++) q->dvalue[chosen[i]] = 2 * miss / DQN_BATCH;
        network_backward(q);
    }
    network_update(q);
    return loss;
}

double dqn_reward_of(enum dqn_reward kind, double seconds, double seconds_first)
{
    switch (kind) {
    case DQN_ROOT: return -sqrt(seconds * 1e3);
    case DQN_RELATIVE: return -seconds / seconds_first;
    default: return -seconds * 1e3;
    }
}

void dqn_train(struct dqn *q, const struct dqn_training *t)
{
    struct draw d = draw_make(t->seed, DRAW_DQN_TREES);
    for (uint32_t i = 0; i < t->episodes; i++) {
        const struct place_units *u = t->trees[draw_below(&d, t->tree_count)];
        uint8_t device[DQN_NODES_MAX] = {0};
        const double first = place_time(t->clock, u, t->machine, device).seconds;
        dqn_place(q, u, DQN_EPSILON, device);
        const double seconds = place_time(t->clock, u, t->machine, device).seconds;
        double slower = 0;
        for (uint32_t p = 0; p < t->passes && t->noise > 0; p++) slower -= t->noise * log(draw_unit(&d)) / t->passes;
        dqn_remember(q, u, device, dqn_reward_of(t->reward, seconds * (1 + slower), first));
        dqn_learn(q);
        if (t->told) t->told(t->context, i, seconds, first);
    }
}
