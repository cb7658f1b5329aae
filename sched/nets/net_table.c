/* The nets of nets.def, each a function that gives its layers; and how a function makes a table. */
#include "sched/nets/net_build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void conv(struct net_build *b, uint32_t channels, uint32_t side)
{
    net_conv(b, channels, side, side, 1, NET_SAME);
}

/* --- fully connected at the end --------------------------------------------------------------- */

static void net_lenet(struct net_build *b)
{
    conv(b, 32, 5);
    net_pool_max(b, 2, 2, NET_VALID);
    conv(b, 64, 5);
    net_pool_max(b, 2, 2, NET_VALID);
    net_fc(b, 512);
    net_fc(b, b->classes);
}

static void net_alexnet(struct net_build *b)
{
    net_conv(b, 64, 11, 11, 4, NET_VALID);
    net_pool_max(b, 3, 2, NET_VALID);
    conv(b, 192, 5);
    net_pool_max(b, 3, 2, NET_VALID);
    conv(b, 384, 3);
    conv(b, 384, 3);
    conv(b, 256, 3);
    net_pool_max(b, 3, 2, NET_VALID);
    net_fc(b, 4096);
    net_dropout(b);
    net_fc(b, 4096);
    net_dropout(b);
    net_fc(b, b->classes);
}

static void net_overfeat(struct net_build *b)
{
    net_conv(b, 96, 11, 11, 4, NET_VALID);
    net_pool_max(b, 2, 2, NET_VALID);
    net_conv(b, 256, 5, 5, 1, NET_VALID);
    net_pool_max(b, 2, 2, NET_VALID);
    conv(b, 512, 3);
    conv(b, 1024, 3);
    conv(b, 1024, 3);
    net_pool_max(b, 2, 2, NET_VALID);
    net_fc(b, 3072);
    net_dropout(b);
    net_fc(b, 4096);
    net_dropout(b);
    net_fc(b, b->classes);
}

/* Five groups of convolutions of 3 x 3. */
static void vgg(struct net_build *b, const uint32_t conv_counts[5])
{
    static const uint32_t channels[5] = {64, 128, 256, 512, 512};
    for (uint32_t group = 0; group < 5; group++) {
        for (uint32_t i = 0; i < conv_counts[group]; i++) conv(b, channels[group], 3);
        net_pool_max(b, 2, 2, NET_VALID);
    }
    net_fc(b, 4096);
    net_dropout(b);
    net_fc(b, 4096);
    net_dropout(b);
    net_fc(b, b->classes);
}
static void net_vgg11(struct net_build *b) { vgg(b, (const uint32_t[]){1, 1, 2, 2, 2}); }
static void net_vgg16(struct net_build *b) { vgg(b, (const uint32_t[]){2, 2, 3, 3, 3}); }
static void net_vgg19(struct net_build *b) { vgg(b, (const uint32_t[]){2, 2, 4, 4, 4}); }

/* --- residual ---------------------------------------------------------------------------------- */

/* A bottleneck: 1 x 1 with the stride, 3 x 3, 1 x 1, beside the block's input, or a convolution
 * of it where the shapes differ. */
static void bottleneck(struct net_build *b, const char *block, uint32_t channels, uint32_t stride)
{
    const struct net_value in = b->at;
    struct net_value shortcut = in;
    if (in.channels != channels) {
        net_conv(b, channels, 1, 1, stride, NET_SAME);
        shortcut = b->at;
    }
    b->at = in;
    net_conv(b, channels / 4, 1, 1, stride, NET_SAME);
    conv(b, channels / 4, 3);
    conv(b, channels, 1);
    net_add(b, block, shortcut, b->at);
}

static void resnet(struct net_build *b, const uint32_t block_counts[4])
{
    b->norm = NET_SCALE_SHIFT;
    net_conv(b, 64, 7, 7, 2, NET_SAME);
    net_pool_max(b, 3, 2, NET_SAME);
    uint32_t block = 0;
    for (uint32_t group = 0; group < 4; group++)
        for (uint32_t i = 0; i < block_counts[group]; i++) {
            char name[16];
            snprintf(name, sizeof name, "residual%u", block++);
            bottleneck(b, name, 256u << group, group > 0 && i == 0 ? 2 : 1);
        }
    net_mean(b);
    net_fc(b, b->classes);
}
static void net_resnet50(struct net_build *b) { resnet(b, (const uint32_t[]){3, 4, 6, 3}); }
static void net_resnet152(struct net_build *b) { resnet(b, (const uint32_t[]){3, 8, 36, 3}); }

/* --- inception --------------------------------------------------------------------------------- */

/* A module of GoogLeNet: channels of the columns' convolutions, in the order of its Table 1. */
static void googlenet_module(struct net_build *b, uint32_t module, const uint32_t channels[6])
{
    char name[16];
    snprintf(name, sizeof name, "inception%u", module);
    net_module_begin(b);
    net_column(b);
    conv(b, channels[0], 1);
    net_column(b);
    conv(b, channels[1], 1);
    conv(b, channels[2], 3);
    net_column(b);
    conv(b, channels[3], 1);
    conv(b, channels[4], 5);
    net_column(b);
    net_pool_max(b, 3, 1, NET_SAME);
    conv(b, channels[5], 1);
    net_module_end(b, name);
}

static void net_googlenet(struct net_build *b)
{
    static const uint32_t channels[9][6] = {
        {64, 96, 128, 16, 32, 32},     {128, 128, 192, 32, 96, 64},   {192, 96, 208, 16, 48, 64},
        {160, 112, 224, 24, 64, 64},   {128, 128, 256, 24, 64, 64},   {112, 144, 288, 32, 64, 64},
        {256, 160, 320, 32, 128, 128}, {256, 160, 320, 32, 128, 128}, {384, 192, 384, 48, 128, 128},
    };
    net_conv(b, 64, 7, 7, 2, NET_SAME);
    net_pool_max(b, 3, 2, NET_SAME);
    conv(b, 64, 1);
    conv(b, 192, 3);
    net_pool_max(b, 3, 2, NET_SAME);
    for (uint32_t module = 0; module < 9; module++) {
        if (module == 2 || module == 7) net_pool_max(b, 3, 2, NET_SAME);
        googlenet_module(b, module, channels[module]);
    }
    net_pool_average(b, 7, 1, NET_VALID);
    net_fc(b, b->classes);
}

/* Modules of Inception-v3: a (figure 5 of its paper), c (figure 6) and e (figure 7);
 * b and d make the image smaller. */
static void inception3_a(struct net_build *b, const char *name, uint32_t channels)
{
    net_module_begin(b);
    net_column(b);
    conv(b, 64, 1);
    net_column(b);
    conv(b, 48, 1);
    conv(b, 64, 5);
    net_column(b);
    conv(b, 64, 1);
    conv(b, 96, 3);
    conv(b, 96, 3);
    net_column(b);
    net_pool_average(b, 3, 1, NET_SAME);
    conv(b, channels, 1);
    net_module_end(b, name);
}

static void inception3_b(struct net_build *b, const char *name)
{
    net_module_begin(b);
    net_column(b);
    net_conv(b, 384, 3, 3, 2, NET_VALID);
    net_column(b);
    conv(b, 64, 1);
    conv(b, 96, 3);
    net_conv(b, 96, 3, 3, 2, NET_VALID);
    net_column(b);
    net_pool_max(b, 3, 2, NET_VALID);
    net_module_end(b, name);
}

/* 1 x 7 or 7 x 1. */
static void conv_flat(struct net_build *b, uint32_t channels) { net_conv(b, channels, 1, 7, 1, NET_SAME); }
static void conv_tall(struct net_build *b, uint32_t channels) { net_conv(b, channels, 7, 1, 1, NET_SAME); }

static void inception3_c(struct net_build *b, const char *name, uint32_t channels)
{
    net_module_begin(b);
    net_column(b);
    conv(b, 192, 1);
    net_column(b);
    conv(b, channels, 1);
    conv_flat(b, channels);
    conv_tall(b, 192);
    net_column(b);
    conv(b, channels, 1);
    conv_tall(b, channels);
    conv_flat(b, channels);
    conv_tall(b, channels);
    conv_flat(b, 192);
    net_column(b);
    net_pool_average(b, 3, 1, NET_SAME);
    conv(b, 192, 1);
    net_module_end(b, name);
}

static void inception3_d(struct net_build *b, const char *name)
{
    net_module_begin(b);
    net_column(b);
    conv(b, 192, 1);
    net_conv(b, 320, 3, 3, 2, NET_VALID);
    net_column(b);
    conv(b, 192, 1);
    conv_flat(b, 192);
    conv_tall(b, 192);
    net_conv(b, 192, 3, 3, 2, NET_VALID);
    net_column(b);
    net_pool_max(b, 3, 2, NET_VALID);
    net_module_end(b, name);
}

/* 1 x 3 and 3 x 1 beside each other, as the ends of two columns. */
static void conv_forked(struct net_build *b)
{
    const struct net_value fork = b->at;
    net_conv(b, 384, 1, 3, 1, NET_SAME);
    net_column_from(b, fork);
    net_conv(b, 384, 3, 1, 1, NET_SAME);
}

static void inception3_e(struct net_build *b, const char *name,
                         void (*pool)(struct net_build *, uint32_t, uint32_t, enum net_padding))
{
    net_module_begin(b);
    net_column(b);
    conv(b, 320, 1);
    net_column(b);
    conv(b, 384, 1);
    conv_forked(b);
    net_column(b);
    conv(b, 448, 1);
    conv(b, 384, 3);
    conv_forked(b);
    net_column(b);
    pool(b, 3, 1, NET_SAME);
    conv(b, 192, 1);
    net_module_end(b, name);
}

static void net_inception3(struct net_build *b)
{
    b->norm = NET_SHIFT;
    net_conv(b, 32, 3, 3, 2, NET_VALID);
    net_conv(b, 32, 3, 3, 1, NET_VALID);
    conv(b, 64, 3);
    net_pool_max(b, 3, 2, NET_VALID);
    net_conv(b, 80, 1, 1, 1, NET_VALID);
    net_conv(b, 192, 3, 3, 1, NET_VALID);
    net_pool_max(b, 3, 2, NET_VALID);
    inception3_a(b, "a0", 32);
    inception3_a(b, "a1", 64);
    inception3_a(b, "a2", 64);
    inception3_b(b, "b0");
    inception3_c(b, "c0", 128);
    inception3_c(b, "c1", 160);
    inception3_c(b, "c2", 160);
    inception3_c(b, "c3", 192);
    inception3_d(b, "d0");
    inception3_e(b, "e0", net_pool_average);
    inception3_e(b, "e1", net_pool_max);
    net_mean(b);
    net_fc(b, b->classes);
}

/* --- tables ------------------------------------------------------------------------------------ */

static const struct {
    const char *source;
    void (*build)(struct net_build *);
    uint32_t side, batch;
} nets[NET_ID_COUNT] = {
#define NET(id, name, side, batch, source) [NET_ID_##id] = {source, net_##id, side, batch},
#include "sched/nets/nets.def"
#undef NET
};
const char *const net_names[NET_ID_COUNT + 1] = {
#define NET(id, name, ...) [NET_ID_##id] = name,
#include "sched/nets/nets.def"
#undef NET
};

static status net_copy(struct net *net, net_id id, const struct net_build *b)
{
    const size_t bytes = b->layer_count * sizeof *net->layers;
    net->layers = malloc(bytes);
    if (!net->layers) FAIL(MEMORY, "net %s: no %zu bytes for its layers", net_names[id], bytes);
    memcpy(net->layers, b->layers, bytes);
    net->name = net_names[id];
    net->source = nets[id].source;
    net->layer_count = b->layer_count;
    net->in_elems = 3ull * nets[id].side * nets[id].side;
    net->batch = nets[id].batch;
    return ST_OK;
}

status net_make(struct net *net, const char *name, uint32_t classes)
{
    *net = (struct net){0};
    uint32_t id = 0;
    while (id < NET_ID_COUNT && strcmp(name, net_names[id]) != 0) id++;
    if (id == NET_ID_COUNT) {
        char all[256] = "";
        for (uint32_t i = 0; i < NET_ID_COUNT; i++) {
            const size_t used = strlen(all);
            snprintf(all + used, sizeof all - used, "%s%s", i == 0 ? "" : ", ", net_names[i]);
        }
        FAIL(INVALID, "there is no net '%.*s'; there are %s", (int)NET_NAME_BYTES, name, all);
    }
    if (classes < 1 || classes > NET_CLASSES_MAX)
        FAIL(INVALID, "net %s: %u classes; 1 to %u are expected", name, classes, NET_CLASSES_MAX);
    struct net_build *b = calloc(1, sizeof *b);
    if (!b) FAIL(MEMORY, "net %s: no %zu bytes to make it", name, sizeof *b);
    b->classes = classes;
    b->at = (struct net_value){NET_IMAGE, 3, nets[id].side, nets[id].side};
    nets[id].build(b);
    net_cuts_set(b);
    const status st = net_copy(net, id, b);
    free(b);
    return st;
}

void net_free(struct net *net)
{
    free(net->layers);
    *net = (struct net){0};
}

uint64_t net_params(const struct net *net, uint32_t first, uint32_t last)
{
    uint64_t sum = 0;
    for (uint32_t i = first; i < last; i++) sum += net->layers[i].params;
    return sum;
}

double net_flops(const struct net *net, uint32_t first, uint32_t last)
{
    double sum = 0;
    for (uint32_t i = first; i < last; i++) sum += net->layers[i].flops;
    return sum;
}
