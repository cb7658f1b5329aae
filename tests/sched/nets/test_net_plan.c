/* RALP's verdicts on the networks of its paper: Tables 1 and 2, the four that its strict threshold splits,
 * and the one that none does; and nets as layer tables. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <string.h>

#include <cmocka.h>

#include "sched/nets/net_plan.h"

#define CLASSES 1001u /* of ImageNet-1K in TensorFlow's benchmarks, which have one for none */
#define GIB     1073741824.0

static struct ralp verdict_of(const char *name, double threshold, char *text, size_t bytes)
{
    struct net net;
    struct ralp r;
    assert_int_equal(net_make(&net, name, CLASSES), ST_OK);
    assert_int_equal(net_ralp(&r, &net, net.batch, threshold), ST_OK);
    ralp_text(&r, net.name, net.layers[r.last].name, text, bytes);
    net_free(&net);
    return r;
}

/* Table 1, with the layer behind which each is split. */
static const struct {
    const char *name;
    double skewness;
    const char *last;
    bool is_split_strictly;
} table_1[] = {
    {"alexnet", -2.27, "mpool2", true},
    {"googlenet", -0.74, "apool0", false},
    {"inception3", -0.96, "spatial_mean0", false},
    {"lenet", -1.16, "mpool1", false},
    {"overfeat", -2.11, "mpool2", true},
    {"resnet50", -1.26, "spatial_mean0", false},
    {"vgg11", -3.62, "mpool4", true},
    {"vgg19", -3.02, "mpool4", true},
};

static void net_ralp__table_1__is_the_papers_to_two_decimals(void **state)
{
    (void)state;
    char text[512], behind[64];
    for (size_t i = 0; i < sizeof table_1 / sizeof *table_1; i++) {
        const struct ralp r = verdict_of(table_1[i].name, RALP_THRESHOLD, text, sizeof text);
        assert_float_equal(round(r.skewness * 100), table_1[i].skewness * 100, 1e-6);
        assert_int_equal(r.verdict, RALP_SPLIT);
        snprintf(behind, sizeof behind, "%s is split behind %s: ", table_1[i].name, table_1[i].last);
        assert_memory_equal(text, behind, strlen(behind));
    }
}

static void net_ralp__strict_threshold__splits_the_papers_four(void **state)
{
    (void)state;
    char text[512];
    for (size_t i = 0; i < sizeof table_1 / sizeof *table_1; i++) {
        const struct ralp r = verdict_of(table_1[i].name, -1.5, text, sizeof text);
        assert_int_equal(r.verdict, table_1[i].is_split_strictly ? RALP_SPLIT : RALP_NOT_SKEWED);
    }
}

static void net_ralp__resnet152__is_declined_with_its_skewness(void **state)
{
    (void)state;
    char text[512];
    const struct ralp r = verdict_of("resnet152", RALP_THRESHOLD, text, sizeof text);
    assert_int_equal(r.verdict, RALP_NOT_SKEWED);
    assert_non_null(strstr(text, "resnet152 is not split"));
    assert_non_null(strstr(text, "is -0.38, which is not below -0.50"));
}

/* GiB a step on 8 machines. */
static void net_ralp__table_2__is_within_two_percent(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double model, all_reduce, split;
    } table_2[] = {{"alexnet", 0.23, 3.23, 0.47}, {"inception3", 0.09, 1.24, 1.30}, {"vgg11", 0.50, 6.93, 0.64}};
    char text[512];
    for (size_t i = 0; i < sizeof table_2 / sizeof *table_2; i++) {
        const struct ralp r = verdict_of(table_2[i].name, RALP_THRESHOLD, text, sizeof text);
        assert_float_equal(r.param_bytes / GIB, table_2[i].model, 0.006);
        assert_float_equal(ralp_all_reduce_bytes(&r, 8) / GIB / table_2[i].all_reduce, 1, 0.02);
        assert_float_equal(ralp_step_bytes(&r, 8) / GIB / table_2[i].split, 1, 0.02);
    }
}

static void layer_table_of_net__vgg11__has_kinds_and_bytes(void **state)
{
    (void)state;
    struct net net;
    struct layer_table table;
    assert_int_equal(net_make(&net, "vgg11", CLASSES), ST_OK);
    assert_int_equal(layer_table_of_net(&table, &net), ST_OK);
    assert_int_equal(table.layer_count, net.layer_count);
    assert_string_equal(table.name, "vgg11");
    assert_string_equal(table.layers[0].kind, "conv");
    assert_string_equal(table.layers[1].kind, "pool");
    assert_string_equal(table.layers[13].kind, "fc");
    assert_string_equal(table.layers[14].kind, "dropout");
    assert_float_equal(table.layers[13].weight_bytes, 4. * 4096 * (25088 + 1), 0);
    assert_float_equal(table.layers[12].cut_bytes, 2. * 4 * 25088, 0);
    assert_float_equal(table.layers[13].in_bytes, 4. * 25088, 0);
    layer_table_free(&table);
    net_free(&net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(net_ralp__table_1__is_the_papers_to_two_decimals),
        cmocka_unit_test(net_ralp__strict_threshold__splits_the_papers_four),
        cmocka_unit_test(net_ralp__resnet152__is_declined_with_its_skewness),
        cmocka_unit_test(net_ralp__table_2__is_within_two_percent),
        cmocka_unit_test(layer_table_of_net__vgg11__has_kinds_and_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
