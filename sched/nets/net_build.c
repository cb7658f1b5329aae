/* The arithmetic of layers: shapes, parameters, operations, and the values that cross cuts. */
#include "sched/nets/net_build.h"

#include <stdio.h>

static uint64_t elems(struct net_value v) { return (uint64_t)v.channels * v.height * v.width; }

/* Adds a layer that reads the values; the next layer reads its output. */
static struct net_layer *layer_add(struct net_build *b, enum net_kind kind, const struct net_value *reads,
                                   uint32_t read_count, struct net_value out)
{
    CHECK(b->layer_count < NET_LAYERS_MAX);
    const uint32_t index = b->layer_count++;
    struct net_layer *l = &b->layers[index];
    *l = (struct net_layer){.kind = kind, .out_elems = elems(out), .stash_elems = elems(out)};
    b->last_use[index] = index;
    for (uint32_t i = 0; i < read_count; i++) {
        l->in_elems += elems(reads[i]);
        if (reads[i].layer != NET_IMAGE) b->last_use[reads[i].layer] = index;
    }
    out.layer = index;
    b->at = out;
    return l;
}

static void name_counted(struct net_layer *l, const char *kind, uint32_t *count)
{
    snprintf(l->name, sizeof l->name, "%s%u", kind, (*count)++);
}

/* The number of windows of `side` along `size`. */
static uint32_t windows(uint32_t size, uint32_t side, uint32_t stride, enum net_padding padding)
{
    CHECK(size >= side || padding == NET_SAME);
    return padding == NET_SAME ? (size + stride - 1) / stride : (size - side) / stride + 1;
}

static struct net_value windowed(struct net_value in, uint32_t height, uint32_t width, uint32_t stride,
                                 enum net_padding padding)
{
    in.height = windows(in.height, height, stride, padding);
    in.width = windows(in.width, width, stride, padding);
    return in;
}

void net_conv(struct net_build *b, uint32_t channels, uint32_t height, uint32_t width, uint32_t stride,
              enum net_padding padding)
{
    const struct net_value in = b->at;
    struct net_value out = windowed(in, height, width, stride, padding);
    out.channels = channels;
    struct net_layer *l = layer_add(b, NET_CONV, &in, 1, out);
    name_counted(l, "conv", &b->conv_count);
    const uint64_t weights = (uint64_t)in.channels * height * width * channels;
    l->params = weights + channels * (b->norm == NET_SCALE_SHIFT ? 2u : 1u);
    l->flops = 2. * (double)weights * out.height * out.width;
    if (b->norm != NET_BIAS) l->stash_elems *= 2;
}

static struct net_layer *pool(struct net_build *b, uint32_t side, uint32_t stride, enum net_padding padding)
{
    const struct net_value in = b->at;
    struct net_layer *l = layer_add(b, NET_POOL, &in, 1, windowed(in, side, side, stride, padding));
    l->flops = (double)l->out_elems * side * side;
    return l;
}

void net_pool_max(struct net_build *b, uint32_t side, uint32_t stride, enum net_padding padding)
{
    name_counted(pool(b, side, stride, padding), "mpool", &b->max_count);
}

void net_pool_average(struct net_build *b, uint32_t side, uint32_t stride, enum net_padding padding)
{
    name_counted(pool(b, side, stride, padding), "apool", &b->average_count);
}

void net_mean(struct net_build *b)
{
    CHECK(b->at.height == b->at.width);
    name_counted(pool(b, b->at.height, 1, NET_VALID), "spatial_mean", &b->mean_count);
}

void net_fc(struct net_build *b, uint32_t outputs)
{
    const struct net_value in = b->at, out = {.channels = outputs, .height = 1, .width = 1};
    struct net_layer *l = layer_add(b, NET_FC, &in, 1, out);
    name_counted(l, "affine", &b->fc_count);
    l->params = (elems(in) + 1) * outputs;
    l->flops = 2. * (double)elems(in) * outputs;
}

void net_dropout(struct net_build *b)
{
    const struct net_value in = b->at;
    name_counted(layer_add(b, NET_DROPOUT, &in, 1, in), "dropout", &b->dropout_count);
}

void net_add(struct net_build *b, const char *block, struct net_value one, struct net_value other)
{
    CHECK(one.channels == other.channels && one.height == other.height && one.width == other.width);
    const struct net_value reads[] = {one, other};
    struct net_layer *l = layer_add(b, NET_ADD, reads, 2, one);
    snprintf(l->name, sizeof l->name, "%s_add", block);
    l->flops = (double)l->out_elems;
}

void net_module_begin(struct net_build *b)
{
    b->module = b->at;
    b->column_count = 0;
}

void net_column_from(struct net_build *b, struct net_value value)
{
    CHECK(b->column_count < NET_COLUMNS_MAX);
    if (b->column_count > 0) b->ends[b->column_count - 1] = b->at;
    b->column_count++;
    b->at = value;
}

void net_column(struct net_build *b) { net_column_from(b, b->module); }

void net_module_end(struct net_build *b, const char *block)
{
    struct net_value out = b->at;
    b->ends[b->column_count - 1] = b->at;
    for (uint32_t i = 0; i + 1 < b->column_count; i++) {
        CHECK(b->ends[i].height == out.height && b->ends[i].width == out.width);
        out.channels += b->ends[i].channels;
    }
    struct net_layer *l = layer_add(b, NET_CONCAT, b->ends, b->column_count, out);
    snprintf(l->name, sizeof l->name, "%s_concat", block);
}

void net_cuts_set(struct net_build *b)
{
    for (uint32_t cut = 0; cut < b->layer_count; cut++)
        for (uint32_t i = 0; i <= cut; i++)
            if (b->last_use[i] > cut) b->layers[cut].cut_elems += b->layers[i].out_elems;
    b->layers[b->layer_count - 1].cut_elems = b->layers[b->layer_count - 1].out_elems;
}
