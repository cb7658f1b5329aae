/* Counts the operations and bytes of cells, and makes times of them. */
#include "sched/trees/place_cells.h"

#include <math.h>
#include <string.h>

#include "graph/cell.h"
#include "graph/op.h"

#define FLOAT_BYTES 4.0

static uint32_t tree_find(const struct graph *g)
{
    for (uint32_t i = 0; i < g->forward_count; i++)
        if (g->nodes[i].op == OP_ID_tree) return i;
    return g->forward_count;
}

/* `rows` of a step or product: 1 of its node, or one for each edge of the node. */
static struct place_work cell_work(const struct cells *cells, const struct cell_view *v, uint32_t children)
{
    struct place_work work = {0};
    for (uint32_t i = 0; i < v->cell->product_count; i++) {
        const struct cell_product *p = &v->products[i];
        const double rows = p->is_edge ? children : 1, in = cell_product_cols(cells, p),
                     out = (double)p->output_count * cells->units;
        work.flops += 2 * rows * in * out;
        work.moved_bytes += rows * (in + out) * FLOAT_BYTES;
        work.weight_bytes += (in + 1) * out * FLOAT_BYTES;
    }
    for (uint32_t i = 0; i < v->cell->step_count; i++) {
        if (v->steps[i].op == CELL_PRODUCT) continue;
        work.flops += cells->units;
        work.moved_bytes += (2 + cell_step_has_b(&v->steps[i])) * cells->units * FLOAT_BYTES;
    }
    return work;
}

status place_cells_of_graph(struct place_cells *c, uint32_t *tree, const struct graph *g, const char *path,
                            uint32_t units, uint32_t classes)
{
    *c = (struct place_cells){0};
    *tree = tree_find(g);
    if (*tree == g->forward_count)
        FAIL(INVALID, "%s: expected a graph with a [tree], whose nodes can be placed, found none", path);
    const struct graph_node *n = &g->nodes[*tree];
    struct tree_attr attr;
    memcpy(&attr, n->attr, sizeof attr);
    c->units = units ? units : attr.units;
    struct cells cells = {
        .units = c->units, .word_cols = n->input_count > 1 ? attr.dim : 0, .state_count = attr.state_count};
    const uint32_t *at = g->args + n->program_begin, *end = at + tree_cell_words(n);
    TRY(cells_check(&cells, at, tree_cell_words(n)));
    c->kind_count = cells.kind_count;
    if (c->kind_count >= PLACE_KINDS_MAX)
        FAIL(INVALID, "%s: expected at most %u kinds of nodes to place, found %u", path, PLACE_KINDS_MAX - 1,
             c->kind_count);
    struct cell_view view;
    for (uint32_t k = 0; k < c->kind_count; k++) {
        CHECK(cell_view_next(&at, end, &view));
        c->children_min[k] = view.cell->children_min;
        c->children[k] = view.cell->children_min > 2   ? view.cell->children_min
                         : view.cell->children_max < 2 ? view.cell->children_max
                                                       : 2;
        c->work[k] = cell_work(&cells, &view, c->children[k]);
        if (view.cell->needs_word) c->word_bytes[k] = cells.word_cols * FLOAT_BYTES;
    }
    c->value_bytes = (double)cells.state_count * c->units * FLOAT_BYTES;
    c->root_bytes = c->units * FLOAT_BYTES;
    c->work[c->kind_count] = (struct place_work){.flops = 2. * c->units * classes,
                                                 .moved_bytes = (c->units + classes) * FLOAT_BYTES,
                                                 .weight_bytes = (c->units + 1.) * classes * FLOAT_BYTES};
    return ST_OK;
}

void place_seconds_declare(double *seconds, const struct place_work *work, const struct cluster_rates *rates)
{
    for (uint32_t i = 0; i < PLACE_SIZES; i++) {
        const double count = (double)(UINT32_C(1) << i);
        seconds[i] =
            rates->batch_overhead + fmax(count * work->flops / rates->flops,
                                         (work->weight_bytes + count * work->moved_bytes) / rates->memory_bandwidth);
    }
}

void place_links_declare(struct place_machine *m, const struct place_cells *cells, bool has_outputs,
                         const struct cluster_rates *const *rates)
{
    for (uint32_t k = 0; k < cells->kind_count; k++) {
        m->bytes[k] = cells->value_bytes;
        m->input_bytes[k] = cells->word_bytes[k];
    }
    /* The classes of an output are a few numbers, which are not counted. */
    m->root_bytes = has_outputs ? 0 : cells->root_bytes;
    for (uint32_t from = 0; from < m->device_count; from++)
        for (uint32_t to = 0; to < m->device_count; to++) {
            struct place_link link = {0};
            if (from != to && from != 0)
                link.latency += rates[from]->link_latency, link.a_byte += 1 / rates[from]->link_bandwidth;
            if (from != to && to != 0)
                link.latency += rates[to]->link_latency, link.a_byte += 1 / rates[to]->link_bandwidth;
            m->link[from][to] = link;
        }
}
