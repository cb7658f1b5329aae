/* Lays one layer after another, and works out shapes, parameters,
 * operations and the values that cross the cuts. */
#ifndef HETERPS_SCHED_NETS_NET_BUILD_H
#define HETERPS_SCHED_NETS_NET_BUILD_H

#include "sched/nets/net.h"

#define NET_LAYERS_MAX  256u
#define NET_COLUMNS_MAX 8u
#define NET_IMAGE       UINT32_MAX /* as a layer: the image */

/* Beside its weights a convolution has a bias for each channel, or batch normalisation
 * that shifts, or scales and shifts. */
enum net_norm { NET_BIAS, NET_SHIFT, NET_SCALE_SHIFT };
/* VALID: windows lie within the image; SAME: there are ceil(size / stride) of them. */
enum net_padding { NET_SAME, NET_VALID };

/* A value: the layer that makes it, and its shape. */
struct net_value {
    uint32_t layer;
    uint32_t channels, height, width;
};

struct net_build {
    struct net_layer layers[NET_LAYERS_MAX];
    uint32_t last_use[NET_LAYERS_MAX]; /* the last layer that reads it; itself: none */
    uint32_t layer_count, classes;
    struct net_value at; /* what the next layer reads */
    enum net_norm norm;
    uint32_t conv_count, max_count, average_count, mean_count, fc_count, dropout_count;
    /* of the inception module under way: the value that it reads, and the ends of all columns but the last */
    struct net_value module, ends[NET_COLUMNS_MAX];
    uint32_t column_count;
};

void net_conv(struct net_build *b, uint32_t channels, uint32_t height, uint32_t width, uint32_t stride,
              enum net_padding padding);
void net_pool_max(struct net_build *b, uint32_t side, uint32_t stride, enum net_padding padding);
void net_pool_average(struct net_build *b, uint32_t side, uint32_t stride, enum net_padding padding);
/* Over the whole image. */
void net_mean(struct net_build *b);
void net_fc(struct net_build *b, uint32_t outputs);
void net_dropout(struct net_build *b);
/* The sum of two values of one shape, in the block of this name. */
void net_add(struct net_build *b, const char *block, struct net_value one, struct net_value other);

/* An inception module: columns of layers, from net_module_begin to net_module_end, which joins their ends.
 * net_column begins each column. */
void net_module_begin(struct net_build *b);
/* The next layers read what the module reads. */
void net_column(struct net_build *b);
/* The next layers read this value of an earlier column. */
void net_column_from(struct net_build *b, struct net_value value);
void net_module_end(struct net_build *b, const char *block);

/* After the last layer: sets the values that cross each cut. */
void net_cuts_set(struct net_build *b);

#endif
