/* Models and clusters of a few numbers, for tests of virtual workers. */
#ifndef HETERPS_TESTS_WORKERS_FIXTURE_H
#define HETERPS_TESTS_WORKERS_FIXTURE_H

#include "sched/workers/workers_model.h"

#define FIXTURE_LAYERS_MAX 8u
#define FIXTURE_TYPES_MAX  3u

struct fixture_layer {
    double weights, out, cut, seconds[FIXTURE_TYPES_MAX]; /* cut: behind it */
};

/* cmocka's assertions are the includer's. */
static inline void fixture_model(struct workers_model *m, const struct fixture_layer *layers, uint32_t layer_count,
                                 uint32_t type_count, double batch)
{
    assert_int_equal(workers_model_make(m, layer_count, type_count), ST_OK);
    m->name = "fixture";
    m->batch = batch;
    for (uint32_t i = 0; i < layer_count; i++) {
        m->weight_bytes[i + 1] = m->weight_bytes[i] + layers[i].weights;
        m->stash_bytes[i + 1] = m->stash_bytes[i] + layers[i].out;
        m->out_bytes[i] = layers[i].out;
        if (i + 1 < layer_count) m->cut_bytes[i + 1] = layers[i].cut;
        for (uint32_t t = 0; t < type_count; t++) {
            double *seconds = m->seconds + (size_t)t * (layer_count + 1) + i;
            seconds[1] = seconds[0] + layers[i].seconds[t];
        }
    }
}

/* A net of sched/nets as a stock cluster trains it: cfg/NAME.cfg. */
static inline void fixture_stock(struct workers_model *m, struct workers_cluster *c, const char *net_name,
                                 const char *path)
{
    struct net net;
    struct cluster cluster;
    double flops[WORKERS_NODES_MAX];
    assert_int_equal(net_make(&net, net_name, 1000), ST_OK);
    assert_int_equal(cluster_read(&cluster, path), ST_OK);
    for (uint32_t t = 0; t < cluster.type_count; t++) flops[t] = cluster.types[t].rates.flops;
    assert_int_equal(workers_cluster_of(c, &cluster), ST_OK);
    assert_int_equal(workers_model_of_net(m, &net, 32, flops, cluster.type_count), ST_OK);
    cluster_free(&cluster);
    net_free(&net);
}

#endif
