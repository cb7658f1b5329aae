/* Layer tables, those of graphs, and the times that follow from declared rates. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sched/estimate.h"

static const char good_text[] = "[model]\n"
                                "name = paper\n"
                                "[layer emb]\n"
                                "type = embedding\n"
                                "in_bytes = 480\n"
                                "out_bytes = 2160\n"
                                "cut_bytes = 5000\n"
                                "weight_bytes = 36e6\n"
                                "touched_bytes = 4320\n"
                                "[layer top]\n"
                                "type = fc\n"
                                "in_bytes = 2160\n"
                                "out_bytes = 4\n"
                                "weight_bytes = 2164\n"
                                "flops = 1081\n";

static const char cluster_text[] = "[type a]\nprice_per_hour = 0.04\nlimit = 48\ndevice = cpu\n"
                                   "flops = 1e9\nmemory_bandwidth = 1e8\nlink_bandwidth = 1e7\n"
                                   "batch_overhead = 0.25\nalpha = 0.5\nbeta = 0.75\n"
                                   "[type b]\nprice_per_hour = 2\nlimit = 8\n"
                                   "flops = 1e3\nmemory_bandwidth = 1e9\nlink_bandwidth = 1e9\n"
                                   "[goal]\nthroughput = 300\nexamples = 1e6\nepochs = 2\nservice_cores = 3\n";
#define TEXT_BYTES 4096

/* The text with `to` in place of `from`, which stands in it once. */
static char *changed(char text[TEXT_BYTES], const char *good, const char *from, const char *to)
{
    const char *at = strstr(good, from);
    if (at == NULL || strstr(at + 1, from) != NULL) fail_msg("not once in the text: %s", from);
    snprintf(text, TEXT_BYTES, "%.*s%s%s", (int)(at - good), good, to, at + strlen(from));
    return text;
}

static status table_parse(struct layer_table *table, const char *text)
{
    return layer_table_parse(table, "l.cfg", text, strlen(text));
}

static void assert_text_refused(const char *text, const char *message)
{
    struct layer_table table, empty = {0};
    memset(&table, 0xAA, sizeof table);
    if (table_parse(&table, text) != ST_INVALID) fail_msg("expected INVALID: %s", text);
    assert_string_equal(status_message(), message);
    assert_memory_equal(&table, &empty, sizeof table);
}

static void assert_refused(const char *from, const char *to, const char *message)
{
    char text[TEXT_BYTES];
    assert_text_refused(changed(text, good_text, from, to), message);
}

/* --- layer tables ----------------------------------------------------------------------------- */

static void layer_table_parse__good__says_what_the_text_says(void **state)
{
    (void)state;
    struct layer_table t;
    assert_int_equal(table_parse(&t, good_text), ST_OK);
    assert_string_equal(t.name, "paper");
    assert_int_equal(t.layer_count, 2);
    const struct layer_facts *emb = &t.layers[0], *top = &t.layers[1];
    assert_string_equal(emb->name, "emb");
    assert_string_equal(emb->kind, "embedding");
    assert_true(emb->in_bytes == 480 && emb->out_bytes == 2160 && emb->cut_bytes == 5000);
    assert_true(emb->touched_bytes == 4320 && emb->weight_bytes == 36e6 && emb->dense_bytes == 0 && emb->flops == 0);
    assert_string_equal(top->name, "top");
    /* Not given: twice the output; all of its weights are synchronised. */
    assert_true(top->cut_bytes == 8 && top->weight_bytes == 2164 && top->dense_bytes == 2164 && top->flops == 1081);
    layer_table_free(&t);
    assert_null(t.memory);
}

static void layer_table_parse__cut_of_0__is_not_the_default(void **state)
{
    (void)state;
    struct layer_table t;
    char text[TEXT_BYTES];
    assert_int_equal(table_parse(&t, changed(text, good_text, "out_bytes = 4\n", "out_bytes = 4\ncut_bytes = 0\n")),
                     ST_OK);
    assert_true(t.layers[1].cut_bytes == 0);
    layer_table_free(&t);
}

static void layer_table_parse__wrong__is_named(void **state)
{
    (void)state;
    assert_refused("in_bytes = 480", "in_bytes = -1",
                   "l.cfg:5: [layer emb] in_bytes: expected a number from 0 to 1e18 (bytes), found \"-1\"");
    assert_refused("flops = 1081", "flops = many",
                   "l.cfg:15: [layer top] flops: expected a number from 0 to 1e18, found \"many\"");
    assert_refused(
        "type = fc\n", "",
        "l.cfg:10: [layer top]: expected a key \"type\" (kind of layer: embedding, fc, …: text), found none");
    assert_refused("type = fc", "type =", "l.cfg:11: [layer top] type: expected 1 to 128 bytes in UTF-8");
    assert_refused("type = fc", "type = \xFF", "l.cfg:11: [layer top] type: expected 1 to 128 bytes in UTF-8");
    assert_refused("touched_bytes", "touched_byte",
                   "l.cfg:9: [layer emb] touched_byte: no such key; did you mean \"touched_bytes\"?");
    assert_refused("[layer top]", "[layer]", "l.cfg:10: [layer]: expected [layer NAME] with a name in UTF-8");
    assert_refused("[layer top]", "[layer emb]", "l.cfg:10: [layer emb] is here a second time; the first is in line 3");
    assert_refused("[layer top]", "[fc top]", "l.cfg:10: [fc top]: no such section; expected [model] or [layer NAME]");
    assert_refused("[model]", "[model m]", "l.cfg:1: [model m]: expected [model] without a name");
    assert_text_refused("[model]\n", "l.cfg: expected at least one [layer NAME], found none");
}

static void layer_table_parse__too_many_layers__is_refused(void **state)
{
    (void)state;
    size_t room = 32 * (INSTANCE_LAYERS_MAX + 1), used = 0;
    char *text = malloc(room);
    for (uint32_t l = 0; l <= INSTANCE_LAYERS_MAX; l++)
        used += (size_t)snprintf(text + used, room - used, "[layer l%u]\ntype = fc\n", l);
    assert_text_refused(text, "l.cfg:2049: [layer l1024]: expected at most 1024 layers, found another");
    free(text);
}

static void layer_table_read__file__is_parsed_and_absence_named(void **state)
{
    (void)state;
    char path[] = "/tmp/test_estimate_XXXXXX";
    struct layer_table t;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, good_text, strlen(good_text)), strlen(good_text));
    close(fd);
    assert_int_equal(layer_table_read(&t, path), ST_OK);
    assert_int_equal(t.layer_count, 2);
    layer_table_free(&t);
    unlink(path);
    assert_int_equal(layer_table_read(&t, path), ST_IO);
    assert_non_null(strstr(status_message(), path));
}

static void layer_table_keys__every_kind__has_its_table(void **state)
{
    (void)state;
    size_t count;
    for (const char *const *kind = layer_table_kinds; *kind; kind++) assert_non_null(layer_table_keys(*kind, &count));
    assert_int_equal(count, 7);
    assert_null(layer_table_keys("type", &count));
}

/* --- graphs ----------------------------------------------------------------------------------- */

/* Two fields of up to 3 keys each; rows of 2 floats and as many of Adagrad's. h1 and its
 * batch normalisation are one layer. */
static const char model_text[] = "[model]\nname = tiny\n"
                                 "[data]\ndense = I1..I2\nsparse = C1..C2\nids_max = 3\n"
                                 "[table emb]\ndim = 2\noptimizer = adagrad 0.1\n"
                                 "[embedding e]\ntable = emb\ninput = sparse\n"
                                 "[concat x]\ninput = e, dense\n"
                                 "[batch_norm n]\ninput = x\nlayer = top\n"
                                 "[fc h1]\ninput = n\nunits = 4\nactivation = relu\nlayer = top\n"
                                 "[fc h2]\ninput = h1\nunits = 1\n"
                                 "[loss bce]\ninput = h2\nlabel = label\n";

static void layer_table_of_graph__tiny__has_its_bytes_and_flops(void **state)
{
    (void)state;
    struct graph g;
    struct layer_table t;
    if (graph_compile(&g, "m.cfg", model_text, strlen(model_text), NULL, 0, NULL) != ST_OK)
        fail_msg("%s", status_message());
    assert_int_equal(layer_table_of_graph(&t, &g), ST_OK);
    assert_string_equal(t.name, "tiny");
    assert_int_equal(t.layer_count, 5);
    static const char *const names[] = {"e", "x", "top", "h2", "bce"}, *const kinds[] = {"embedding", "concat",
                                                                                         "batch_norm", "fc", "loss"};
    for (uint32_t l = 0; l < 5; l++) {
        assert_string_equal(t.layers[l].name, names[l]);
        /* batch_norm: 9 of 6 columns are 54, fc: 2 of 6 by 4 and a bias each are 52. */
        assert_string_equal(t.layers[l].kind, kinds[l]);
        assert_true(t.layers[l].flops == (double)g.layers[l].flops_forward);
    }
    const struct layer_facts *e = &t.layers[0], *top = &t.layers[2];
    /* 6 keys of 8 bytes; output [4]. Across the cut: the output, its gradient,
     * two numeric columns and the label. */
    assert_true(e->in_bytes == 48 && e->out_bytes == 16 && e->cut_bytes == 16 + 16 + 8 + 4);
    /* 6 rows, read and written. */
    uint32_t span = g.tables[0].span_floats;
    assert_true(span >= 4 && e->touched_bytes == 2 * 6 * span * 4.0);
    assert_true(e->weight_bytes == 0 && e->dense_bytes == 0);
    /* Weight and bias of the fc, and four of 6 of batch_norm. */
    assert_true(top->weight_bytes == 4 * (6 * 4 + 4 + 4 * 6) && top->dense_bytes == top->weight_bytes);
    assert_true(top->cut_bytes == 16 + 16 + 4 && top->touched_bytes == 0);
    assert_true(t.layers[4].cut_bytes == 0);
    /* 6 rows at most of 2 floats, there and back, with their keys; half a row an example, as measured. */
    assert_true(e->row_bytes == 6 * (8 + 16));
    layer_table_rows(&t, &g, (const double[]){0.5});
    assert_true(e->row_bytes == 12 && top->row_bytes == 0);
    layer_table_free(&t);
    graph_close(&g);
}

/* --- times ------------------------------------------------------------------------------------ */

static void estimate_time__either_bound__by_hand(void **state)
{
    (void)state;
    const struct cluster_rates rates = {.flops = 1000,
                                        .memory_bandwidth = 100,
                                        .link_bandwidth = 10,
                                        .batch_overhead = 0.5,
                                        .alpha = 0.75,
                                        .beta = 0.25};
    struct layer_facts layer = {.in_bytes = 4,
                                .out_bytes = 6,
                                .cut_bytes = 7,
                                .touched_bytes = 5,
                                .weight_bytes = 999,
                                .dense_bytes = 20,
                                .flops = 10};
    /* Of 8 examples: 240 operations take 0.24 s, 2 (4 + 6) + 5 bytes each 2 s; weights and gradients 4 s. */
    struct instance_time time = estimate_time(&layer, &rates, 8);
    assert_true(time.oct == 0.5 + 4 + 2 && time.fixed == 4.5 && time.odt == 5.6);
    assert_true(time.alpha == 0.75 && time.beta == 0.25 && time.alpha_low == 0 && time.alpha_high == 0);
    layer.flops = 100;
    assert_true(estimate_time(&layer, &rates, 8).oct == 0.5 + 4 + 2.4);
}

static void estimate_time__nothing_to_do__stays_above_0(void **state)
{
    (void)state;
    const struct cluster_rates rates = {.flops = 1, .memory_bandwidth = 1, .link_bandwidth = 1};
    struct instance_time time = estimate_time(&(struct layer_facts){0}, &rates, 256);
    assert_true(time.oct > 0 && time.odt == 0);
}

static void estimate__table_and_cluster__is_an_instance(void **state)
{
    (void)state;
    struct layer_table t;
    struct cluster c;
    struct instance i;
    assert_int_equal(table_parse(&t, good_text), ST_OK);
    assert_int_equal(cluster_parse(&c, "c.cfg", cluster_text, strlen(cluster_text)), ST_OK);
    assert_int_equal(estimate(&i, &t, &c, 100), ST_OK);
    struct instance_time b_top = estimate_time(&t.layers[1], &c.types[1].rates, 100);
    layer_table_free(&t);
    cluster_free(&c);
    assert_string_equal(i.name, "paper");
    assert_true(i.batch == 100 && i.examples == 1e6 && i.epochs == 2 && i.throughput_limit == 300);
    assert_int_equal(i.service_cores, 3);
    assert_string_equal(i.types[1].resource.name, "b");
    assert_int_equal(i.types[0].resource.device, RESOURCE_CPU);
    assert_int_equal(i.types[0].source, INSTANCE_DECLARED);
    assert_string_equal(i.layers[0].name, "emb");
    assert_string_equal(i.layers[0].kind, "embedding");
    assert_true(i.layers[0].in_bytes == 480 && i.layers[0].weight_bytes == 36e6 && i.layers[0].cut_bytes == 5000);
    /* 2 (480 + 2160) + 4320 bytes of 100 examples at 1e8 a second, and the overhead. */
    assert_true(i.times[0].oct == 0.25 + 960000 / 1e8 && i.times[0].odt == 500000 / 1e7);
    assert_memory_equal(instance_time(&i, 1, 1), &b_top, sizeof b_top);
    instance_free(&i);
}

static void estimate__goal_max__leaves_the_limit_open(void **state)
{
    (void)state;
    struct layer_table t;
    struct cluster c;
    struct instance i;
    char text[TEXT_BYTES];
    changed(text, cluster_text, "throughput = 300", "throughput = max");
    assert_int_equal(table_parse(&t, good_text), ST_OK);
    assert_int_equal(cluster_parse(&c, "c.cfg", text, strlen(text)), ST_OK);
    assert_int_equal(estimate(&i, &t, &c, 100), ST_OK);
    assert_true(i.throughput_limit == 0);
    instance_free(&i);
    cluster_free(&c);
    layer_table_free(&t);
}

static void estimate_refused(const char *from, const char *to, double batch, const char *message)
{
    struct layer_table t;
    struct cluster c;
    struct instance i;
    char text[TEXT_BYTES];
    changed(text, cluster_text, from, to);
    assert_int_equal(table_parse(&t, good_text), ST_OK);
    assert_int_equal(cluster_parse(&c, "c.cfg", text, strlen(text)), ST_OK);
    assert_int_equal(estimate(&i, &t, &c, batch), ST_INVALID);
    assert_string_equal(status_message(), message);
    assert_null(i.memory);
    cluster_free(&c);
    layer_table_free(&t);
}

static void estimate__wrong__is_named(void **state)
{
    (void)state;
    estimate_refused(
        "flops = 1e3\nmemory_bandwidth = 1e9\nlink_bandwidth = 1e9\n", "", 100,
        "c.cfg:11: [type b]: expected the declared rates flops, memory_bandwidth and link_bandwidth, found none");
    estimate_refused("examples = 1e6\n", "", 100, "c.cfg: [goal] examples: expected how many an epoch has, found none");
    estimate_refused("flops = 1e3", "flops = 1e-300", 100, "layer \"top\" on type \"b\": oct is 3.243e+305");
    estimate_refused("limit = 8", "limit = 9", 0, "a batch of 0 examples");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layer_table_parse__good__says_what_the_text_says),
        cmocka_unit_test(layer_table_parse__cut_of_0__is_not_the_default),
        cmocka_unit_test(layer_table_parse__wrong__is_named),
        cmocka_unit_test(layer_table_parse__too_many_layers__is_refused),
        cmocka_unit_test(layer_table_read__file__is_parsed_and_absence_named),
        cmocka_unit_test(layer_table_keys__every_kind__has_its_table),
        cmocka_unit_test(layer_table_of_graph__tiny__has_its_bytes_and_flops),
        cmocka_unit_test(estimate_time__either_bound__by_hand),
        cmocka_unit_test(estimate_time__nothing_to_do__stays_above_0),
        cmocka_unit_test(estimate__table_and_cluster__is_an_instance),
        cmocka_unit_test(estimate__goal_max__leaves_the_limit_open),
        cmocka_unit_test(estimate__wrong__is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
