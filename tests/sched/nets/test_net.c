/* Tables of layers: parameters, layers and operations beside public totals, and cuts counted by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "sched/nets/net.h"

static struct net made(const char *name, uint32_t classes)
{
    struct net net;
    assert_int_equal(net_make(&net, name, classes), ST_OK);
    return net;
}

static uint32_t count_of(const struct net *net, enum net_kind kind)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < net->layer_count; i++) count += net->layers[i].kind == kind;
    return count;
}

static const struct net_layer *layer_of(const struct net *net, const char *name)
{
    for (uint32_t i = 0; i < net->layer_count; i++)
        if (strcmp(net->layers[i].name, name) == 0) return &net->layers[i];
    fail_msg("%s has no layer %s", net->name, name);
    return NULL;
}

/* Of 1,000 classes. Parameters: torchvision's for VGG and ResNet, those that Keras trains for
 * Inception-v3, whose batch normalisation does not scale either, Caffe's for GoogLeNet; AlexNet, Overfeat
 * and LeNet by hand. Billions of multiply and add: the papers' (VGG-19 19.6, ResNet 3.8 and 11.3,
 * GoogLeNet 1.5, Inception-v3 5). */
static const struct {
    const char *name;
    uint64_t params;
    uint32_t conv_count, counted; /* counted: with pools and fully connected layers */
    double giga_macs;
} known[] = {
    {"alexnet",
     64ull * 364 + 192ull * 1601 + 384ull * 1729 + 384ull * 3457 + 256ull * 3457 + 4096ull * 9217 + 4096ull * 4097 +
         1000ull * 4097,
     5, 11, 0.839},
    {"googlenet", 6998552, 57, 72, 1.58},
    {"inception3", 23817352, 94, 109, 5.72},
    {"lenet", 32ull * 76 + 64ull * 801 + 512ull * 3137 + 1000ull * 513, 2, 6, 0.01404},
    {"overfeat",
     96ull * 364 + 256ull * 2401 + 512ull * 2305 + 1024ull * 4609 + 1024ull * 9217 + 3072ull * 36865 + 4096ull * 3073 +
         1000ull * 4097,
     5, 11, 2.80},
    {"resnet50", 25557032, 53, 56, 3.86},
    {"resnet152", 60192808, 155, 158, 11.3},
    {"vgg11", 132863336, 8, 16, 7.61},
    {"vgg16", 138357544, 13, 21, 15.5},
    {"vgg19", 143667240, 16, 24, 19.6},
};

static void net_make__every_net__has_its_public_totals(void **state)
{
    (void)state;
    assert_int_equal(sizeof known / sizeof *known, NET_ID_COUNT);
    for (size_t i = 0; i < NET_ID_COUNT; i++) {
        struct net net = made(known[i].name, 1000);
        uint32_t counted = 0;
        for (uint32_t l = 0; l < net.layer_count; l++) counted += net_layer_is_counted(&net.layers[l]);
        assert_string_equal(net.name, known[i].name);
        assert_int_equal(net_params(&net, 0, net.layer_count), known[i].params);
        assert_int_equal(count_of(&net, NET_CONV), known[i].conv_count);
        assert_int_equal(counted, known[i].counted);
        assert_float_equal(net_flops(&net, 0, net.layer_count) / 2e9 / known[i].giga_macs, 1, 0.01);
        net_free(&net);
    }
}

static void net_make__more_classes__grow_only_the_last_layer(void **state)
{
    (void)state;
    for (size_t i = 0; i < NET_ID_COUNT; i++) {
        struct net few = made(known[i].name, 1000), many = made(known[i].name, 21841);
        const uint32_t last = few.layer_count - 1;
        assert_int_equal(few.layer_count, many.layer_count);
        for (uint32_t l = 0; l < last; l++) assert_memory_equal(&few.layers[l], &many.layers[l], sizeof *few.layers);
        assert_int_equal(many.layers[last].out_elems, 21841);
        assert_int_equal(many.layers[last].params, (few.layers[last].in_elems + 1) * 21841);
        net_free(&few);
        net_free(&many);
    }
}

static void net_make__chain__cuts_carry_each_output(void **state)
{
    (void)state;
    struct net net = made("vgg16", 1000);
    for (uint32_t l = 0; l < net.layer_count; l++) {
        assert_int_equal(net.layers[l].cut_elems, net.layers[l].out_elems);
        assert_int_equal(net.layers[l].in_elems, l == 0 ? net.in_elems : net.layers[l - 1].out_elems);
        assert_int_equal(net.layers[l].stash_elems, net.layers[l].out_elems);
    }
    assert_int_equal(layer_of(&net, "mpool4")->out_elems, 7 * 7 * 512);
    net_free(&net);
}

static void net_make__residual_block__cuts_carry_its_shortcut(void **state)
{
    (void)state;
    struct net net = made("resnet50", 1000);
    const uint64_t image = 56 * 56;
    /* conv1 is the first block's shortcut; conv2, conv3 and conv4 its bottleneck. */
    assert_int_equal(layer_of(&net, "mpool0")->cut_elems, image * 64);
    assert_int_equal(layer_of(&net, "conv1")->cut_elems, image * (64 + 256));
    assert_int_equal(layer_of(&net, "conv2")->cut_elems, image * (256 + 64));
    assert_int_equal(layer_of(&net, "conv4")->cut_elems, image * (256 + 256));
    assert_int_equal(layer_of(&net, "residual0_add")->cut_elems, image * 256);
    /* The second block's shortcut is what it reads. */
    assert_int_equal(layer_of(&net, "conv5")->cut_elems, image * (256 + 64));
    assert_int_equal(layer_of(&net, "residual1_add")->in_elems, image * (256 + 256));
    assert_int_equal(layer_of(&net, "conv5")->stash_elems, image * 64 * 2);
    assert_int_equal(layer_of(&net, "residual15_add")->out_elems, 7 * 7 * 2048);
    net_free(&net);
}

static void net_make__inception_module__cuts_carry_its_columns(void **state)
{
    (void)state;
    struct net net = made("googlenet", 1000);
    const uint64_t image = 28 * 28;
    /* What the module reads (192) lives until its last column has read it. */
    assert_int_equal(layer_of(&net, "conv3")->cut_elems, image * (192 + 64));
    assert_int_equal(layer_of(&net, "conv4")->cut_elems, image * (192 + 64 + 96));
    assert_int_equal(layer_of(&net, "conv5")->cut_elems, image * (192 + 64 + 128));
    assert_int_equal(layer_of(&net, "mpool2")->cut_elems, image * (64 + 128 + 32 + 192));
    assert_int_equal(layer_of(&net, "inception0_concat")->cut_elems, image * 256);
    net_free(&net);
    /* Two columns that fork, in Inception-v3's module e: 2,048 channels at its end. */
    net = made("inception3", 1000);
    assert_int_equal(layer_of(&net, "e0_concat")->out_elems, 8 * 8 * 2048);
    assert_int_equal(layer_of(&net, "conv79")->in_elems, 8 * 8 * 384);
    assert_int_equal(layer_of(&net, "conv78")->cut_elems, 8 * 8 * (1280 + 320 + 384 + 384));
    net_free(&net);
}

static void net_make__unknown_name_or_no_classes__is_refused(void **state)
{
    (void)state;
    struct net net;
    assert_int_equal(net_make(&net, "vgg12", 1000), ST_INVALID);
    assert_non_null(strstr(status_message(), "'vgg12'"));
    assert_non_null(strstr(status_message(), "vgg11, vgg16, vgg19"));
    assert_null(net.layers);
    assert_int_equal(net_make(&net, "vgg11", 0), ST_INVALID);
    assert_int_equal(net_make(&net, "vgg11", NET_CLASSES_MAX + 1), ST_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(net_make__every_net__has_its_public_totals),
        cmocka_unit_test(net_make__more_classes__grow_only_the_last_layer),
        cmocka_unit_test(net_make__chain__cuts_carry_each_output),
        cmocka_unit_test(net_make__residual_block__cuts_carry_its_shortcut),
        cmocka_unit_test(net_make__inception_module__cuts_carry_its_columns),
        cmocka_unit_test(net_make__unknown_name_or_no_classes__is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
