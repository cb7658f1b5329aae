/* The stock of cfg/: every cluster and every layer table is read, belongs together with every other, and says
 * what its head says. Times from declared rates are sensible: an accelerator gains more on products than on
 * rows, and nothing on next to no work. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sched/estimate.h"

#define BATCH 2048.0

static const struct {
    const char *name;
    uint32_t layer_count; /* as the paper says */
} tables[] = {{"ctrdnn7", 7},   {"ctrdnn8", 8},   {"ctrdnn12", 12}, {"ctrdnn16", 16},
              {"ctrdnn20", 20}, {"matchnet", 16}, {"2emb", 10},     {"nce", 5}};
#define TABLE_COUNT (sizeof tables / sizeof tables[0])

static void must(status st)
{
    if (st != ST_OK) fail_msg("%s", status_message());
}

static struct layer_table table_of(const char *name)
{
    char path[128];
    struct layer_table table;
    snprintf(path, sizeof path, "cfg/%s.layers.cfg", name);
    must(layer_table_read(&table, path));
    return table;
}

static struct cluster cluster_of(const char *name)
{
    char path[128];
    struct cluster cluster;
    snprintf(path, sizeof path, "cfg/%s.cfg", name);
    must(cluster_read(&cluster, path));
    return cluster;
}

/* The files that the pattern names and that are layer tables, or are not. */
static uint32_t for_each(bool are_tables, void (*what)(const char *path))
{
    glob_t found;
    uint32_t count = 0;
    assert_int_equal(glob("cfg/*.cfg", 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        if ((strstr(found.gl_pathv[i], ".layers.cfg") != NULL) != are_tables) continue;
        what(found.gl_pathv[i]);
        count++;
    }
    globfree(&found);
    return count;
}

static const struct layer_facts *layer_of(const struct layer_table *table, const char *name)
{
    for (uint32_t l = 0; l < table->layer_count; l++)
        if (strcmp(table->layers[l].name, name) == 0) return &table->layers[l];
    fail_msg("%s has no layer %s", table->name, name);
    return NULL;
}

/* --- clusters ----------------------------------------------------------------------------------- */

static void assert_cluster_is_whole(const char *path)
{
    struct cluster cluster;
    must(cluster_read(&cluster, path));
    assert_true(cluster.examples > 0);
    for (uint32_t t = 0; t < cluster.type_count; t++) {
        const struct cluster_type *type = &cluster.types[t];
        if (!type->has_rates || !(type->resource.price_per_hour > 0) || type->resource.limit < 1 ||
            !(type->rates.batch_overhead > 0) || !(type->rates.alpha > 0 && type->rates.alpha <= 1) ||
            !(type->rates.beta > 0 && type->rates.beta <= 1))
            fail_msg("%s: type %s is not whole", path, type->resource.name);
        /* An accelerator is worth its price somewhere: it does more products for it than the cores. */
        if (type->resource.device == RESOURCE_CPU || cluster.types[0].resource.device != RESOURCE_CPU) continue;
        if (!(type->rates.flops / type->resource.price_per_hour >
              cluster.types[0].rates.flops / cluster.types[0].resource.price_per_hour))
            fail_msg("%s: type %s does fewer products a dollar than a core", path, type->resource.name);
    }
    cluster_free(&cluster);
}

static void stock_clusters__all_of_cfg__are_read_with_rates_prices_and_limits(void **state)
{
    (void)state;
    assert_true(for_each(false, assert_cluster_is_whole) >= 10);
}

static void stock_clusters__of_the_paper__have_its_prices_and_units(void **state)
{
    (void)state;
    struct cluster two = cluster_of("paper2"), one = cluster_of("paper1");
    assert_int_equal(two.type_count, 2);
    assert_int_equal(two.types[0].resource.device, RESOURCE_CPU);
    assert_true(two.types[0].resource.price_per_hour == 0.04);
    assert_int_equal(two.types[0].resource.limit, 10 * 48);
    assert_true(two.types[1].resource.price_per_hour == 2.42);
    assert_int_equal(two.types[1].resource.limit, 4 * 8);
    assert_int_equal(one.type_count, 1);
    assert_memory_equal(&one.types[0].rates, &two.types[1].rates, sizeof one.types[0].rates);
    cluster_free(&two);
    cluster_free(&one);
}

static void stock_clusters__with_more_types__hold_those_with_fewer(void **state)
{
    (void)state;
    static const char *const names[] = {"paper2", "paper4", "paper8", "paper16", "paper32", "paper64"};
    struct cluster fewer = cluster_of(names[0]);
    for (uint32_t i = 1; i < 6; i++) {
        struct cluster more = cluster_of(names[i]);
        assert_int_equal(more.type_count, 2u << i);
        for (uint32_t t = 0; t < fewer.type_count; t++) {
            const struct cluster_type *a = &fewer.types[t], *b = &more.types[t];
            assert_string_equal(a->resource.name, b->resource.name);
            assert_true(a->resource.price_per_hour == b->resource.price_per_hour);
            assert_int_equal(a->resource.limit, b->resource.limit);
            assert_memory_equal(&a->rates, &b->rates, sizeof a->rates);
        }
        /* The same card at different prices, none equal to another. */
        for (uint32_t t = 2; t < more.type_count; t++) {
            assert_memory_equal(&more.types[t].rates, &more.types[1].rates, sizeof more.types[t].rates);
            for (uint32_t other = 1; other < t; other++)
                assert_true(more.types[t].resource.price_per_hour != more.types[other].resource.price_per_hour);
        }
        cluster_free(&fewer);
        fewer = more;
    }
    cluster_free(&fewer);
}

/* --- layer tables -------------------------------------------------------------------------------- */

static void stock_layer_tables__of_the_paper__have_its_numbers_of_layers(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < TABLE_COUNT; i++) {
        struct layer_table table = table_of(tables[i].name);
        assert_int_equal(table.layer_count, tables[i].layer_count);
        assert_string_equal(table.name, tables[i].name);
        layer_table_free(&table);
    }
}

static void assert_products_fit(const char *path)
{
    struct layer_table table;
    must(layer_table_read(&table, path));
    for (uint32_t l = 0; l < table.layer_count; l++) {
        const struct layer_facts *layer = &table.layers[l];
        if (strcmp(layer->kind, "fc") != 0) continue;
        /* A product and a sum for each of in * out weights; as many biases as outputs;
         * all of them synchronised. */
        double in = layer->in_bytes / 4, out = layer->out_bytes / 4;
        assert_true(layer->flops == 2 * in * out);
        assert_true(layer->weight_bytes == 4 * (in + 1) * out);
        assert_true(layer->dense_bytes == layer->weight_bytes);
    }
    layer_table_free(&table);
}

static void stock_layer_tables__fully_connected__flops_and_weights_follow_from_their_widths(void **state)
{
    (void)state;
    assert_int_equal(for_each(true, assert_products_fit), TABLE_COUNT);
}

static void stock_layer_tables__rows__are_touched_and_not_synchronised(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < TABLE_COUNT; i++) {
        struct layer_table table = table_of(tables[i].name);
        for (uint32_t l = 0; l < table.layer_count; l++) {
            const struct layer_facts *layer = &table.layers[l];
            bool has_rows = strcmp(layer->kind, "embedding") == 0 || strcmp(layer->kind, "nce") == 0;
            assert_int_equal(layer->touched_bytes > 0, has_rows);
            if (has_rows) assert_true(layer->dense_bytes == 0);
            /* The rows of its output, read and written. */
            if (strcmp(layer->kind, "embedding") == 0) assert_true(layer->touched_bytes == 2 * layer->out_bytes);
        }
        layer_table_free(&table);
    }
}

static void stock_layer_tables__chains__cut_is_the_output_there_and_back_and_the_label(void **state)
{
    (void)state;
    static const char *const names[] = {"ctrdnn8", "ctrdnn12", "ctrdnn16", "ctrdnn20"};
    for (uint32_t i = 0; i < 4; i++) {
        struct layer_table table = table_of(names[i]);
        for (uint32_t l = 0; l + 1 < table.layer_count; l++)
            assert_true(table.layers[l].cut_bytes == 2 * table.layers[l].out_bytes + 8);
        assert_true(table.layers[table.layer_count - 1].cut_bytes == 0);
        layer_table_free(&table);
    }
}

static void stock_layer_tables__towers__cut_holds_what_the_cosines_wait_for(void **state)
{
    (void)state;
    struct layer_table table = table_of("matchnet");
    double fc = layer_of(&table, "query_fc")->out_bytes, ids = layer_of(&table, "query_emb")->in_bytes;
    assert_true(layer_of(&table, "query_fc")->cut_bytes == 2 * fc + 2 * ids);
    assert_true(layer_of(&table, "pos_title_fc")->cut_bytes == 4 * fc + ids);
    assert_true(layer_of(&table, "neg_title_fc")->cut_bytes == 6 * fc);
    /* One cosine is there; the other waits for the query and the negative title. */
    assert_true(layer_of(&table, "cos_q_pos")->cut_bytes == 2 * 4 + 4 * fc);
    /* The accuracy reads both and gives no gradient. */
    assert_true(layer_of(&table, "hinge_loss")->cut_bytes == 2 * 4);
    layer_table_free(&table);
    table = table_of("2emb");
    /* The wide side goes past the three layers of the deep one. */
    assert_true(layer_of(&table, "fc0")->cut_bytes == 2 * layer_of(&table, "fc0")->out_bytes + 2 * 4 + 8);
    layer_table_free(&table);
}

/* --- times --------------------------------------------------------------------------------------- */

static void assert_every_table_has_times_on(const char *path)
{
    struct cluster cluster;
    must(cluster_read(&cluster, path));
    for (uint32_t i = 0; i < TABLE_COUNT; i++) {
        struct layer_table table = table_of(tables[i].name);
        struct instance instance;
        must(estimate(&instance, &table, &cluster, BATCH));
        must(instance_check(&instance));
        assert_int_equal(instance.layer_count, tables[i].layer_count);
        assert_int_equal(instance.type_count, cluster.type_count);
        instance_free(&instance);
        layer_table_free(&table);
    }
    cluster_free(&cluster);
}

static void estimate__every_table_on_every_cluster__is_an_instance(void **state)
{
    (void)state;
    (void)for_each(false, assert_every_table_has_times_on);
}

/* How many cores a V100 is worth on a layer. */
static double gain(const struct cluster *cluster, const struct layer_table *table, const char *layer)
{
    const struct layer_facts *facts = layer_of(table, layer);
    return estimate_time(facts, &cluster->types[0].rates, BATCH).oct /
           estimate_time(facts, &cluster->types[1].rates, BATCH).oct;
}

static void estimate__v100_against_a_core__gains_most_on_products_and_nothing_on_a_loss(void **state)
{
    (void)state;
    struct cluster cluster = cluster_of("paper2");
    struct layer_table table = table_of("ctrdnn16");
    double products = gain(&cluster, &table, "fc0"), rows = gain(&cluster, &table, "slot_emb");
    assert_true(products > 100 && products < 1000);
    assert_true(rows > 10 && rows < products / 2);
    assert_true(gain(&cluster, &table, "log_loss") < 1);
    /* For the price of a V100 there are 60 cores: each kind has what suits it. */
    double cores = cluster.types[1].resource.price_per_hour / cluster.types[0].resource.price_per_hour;
    assert_true(products > cores && rows < cores);
    layer_table_free(&table);
    cluster_free(&cluster);
}

static void estimate__four_models_on_cores__ctrdnn_asks_most(void **state)
{
    (void)state;
    static const char *const names[] = {"ctrdnn16", "matchnet", "2emb", "nce"};
    struct cluster cluster = cluster_of("paper2");
    double most = 0;
    for (uint32_t i = 0; i < 4; i++) {
        struct layer_table table = table_of(names[i]);
        double seconds = 0;
        for (uint32_t l = 0; l < table.layer_count; l++)
            seconds += estimate_time(&table.layers[l], &cluster.types[0].rates, BATCH).oct;
        if (i == 0) most = seconds;
        if (i > 0) assert_true(seconds < most);
        layer_table_free(&table);
    }
    cluster_free(&cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stock_clusters__all_of_cfg__are_read_with_rates_prices_and_limits),
        cmocka_unit_test(stock_clusters__of_the_paper__have_its_prices_and_units),
        cmocka_unit_test(stock_clusters__with_more_types__hold_those_with_fewer),
        cmocka_unit_test(stock_layer_tables__of_the_paper__have_its_numbers_of_layers),
        cmocka_unit_test(stock_layer_tables__fully_connected__flops_and_weights_follow_from_their_widths),
        cmocka_unit_test(stock_layer_tables__rows__are_touched_and_not_synchronised),
        cmocka_unit_test(stock_layer_tables__chains__cut_is_the_output_there_and_back_and_the_label),
        cmocka_unit_test(stock_layer_tables__towers__cut_holds_what_the_cosines_wait_for),
        cmocka_unit_test(estimate__every_table_on_every_cluster__is_an_instance),
        cmocka_unit_test(estimate__v100_against_a_core__gains_most_on_products_and_nothing_on_a_loss),
        cmocka_unit_test(estimate__four_models_on_cores__ctrdnn_asks_most),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
