/* Instances without measuring: layers' flops and bytes, and types' declared rates. Layers come from a
 * compiled graph, or, for models that exist only on paper, from a layer table (INI):
 *
 *     [model]
 *     name = matchnet
 *     [layer slot_emb]
 *     type = embedding
 *     in_bytes = 4800             ; an example
 *     out_bytes = 21600           ; of its output, an example
 *     cut_bytes = 43200           ; across the cut after it, there and back; default: 2 out_bytes
 *     weight_bytes = 36000000     ; in all
 *     touched_bytes = 43200       ; of parameters read and written, an example (rows); default: 0
 *     flops = 0                   ; forward, an example
 *
 * Times of a layer on a unit of a type, for a batch of B:
 *
 *     oct = overhead + max(3 flops B / rate, moved B / memory_bandwidth) + synchronisation
 *     odt = cut_bytes B / link_bandwidth
 *
 * Backward costs twice forward; `moved` counts input, output and touched bytes of both passes;
 * synchronisation moves the dense weights and their gradients once a batch over the link. */
#ifndef HETERPS_SCHED_ESTIMATE_H
#define HETERPS_SCHED_ESTIMATE_H

#include "sched/cluster.h"

struct layer_facts {
    const char *name, *kind;
    double in_bytes, out_bytes, cut_bytes, touched_bytes; /* an example */
    double weight_bytes, dense_bytes;                     /* in all; the part synchronised every batch */
    double row_bytes;                                     /* as an instance's                          */
    double flops;                                         /* forward, an example */
    uint32_t tied_before, tied_behind;                    /* as an instance's */
    bool is_end;                                          /* as an instance's */
};
struct layer_table {
    const char *name;
    struct layer_facts *layers;
    uint32_t layer_count;
    struct ini ini; /* owns the texts of a table read from one */
    void *memory;
};
/* The kinds of a layer table's sections: "model", "layer", NULL; and the keys of a
 * kind (sched/cluster.def), or NULL. */
extern const char *const layer_table_kinds[];
const struct cfg_key *layer_table_keys(const char *kind, size_t *key_count);

/* Reads a layer table, whatever its bytes, as cluster_parse. */
MUST_USE status layer_table_parse(struct layer_table *table, const char *path, const char *text, size_t bytes);
MUST_USE status layer_table_read(struct layer_table *table, const char *path);
/* The layers of a compiled graph, which lends the names. A layer's kind is the section of its op with the
 * most flops, or of its first op. Its touched bytes are those of one row for each key that its fields may
 * have. The number of a table's rows is not known, so weight_bytes count dense parameters alone. */
MUST_USE status layer_table_of_graph(struct layer_table *table, const struct graph *graph);
/* Replaces row_bytes, which layer_table_of_graph takes from the most keys that fields may have, by what was
 * measured: rows [table_count], distinct rows that an example adds to a step. Layers that look up one table
 * share them in proportion to their keys. */
void layer_table_rows(struct layer_table *table, const struct graph *graph, const double *rows);
void layer_table_free(struct layer_table *table);

/* The instance of these layers on a cluster, by declared rates; batch: B_o. For a goal of "max"
 * throughput_limit is 0, and the caller sets it. INVALID, with file and line: a type has no
 * rates, or the goal no examples. */
MUST_USE status estimate(struct instance *instance, const struct layer_table *table, const struct cluster *cluster,
                         double batch);
/* The times of one layer. */
struct instance_time estimate_time(const struct layer_facts *layer, const struct cluster_rates *rates, double batch);

#endif
