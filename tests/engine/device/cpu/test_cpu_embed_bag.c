/* Kernels of [embedding]: pools, fields that repeat, values of keys. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "graph/row_vector.h"
#include "tests/engine/device/cpu/kernel_case.h"

#define BAG_FIELDS 5u
#define BAG_TABLE  1u
#define BAG_LOOKUP 0u
struct bag_params {
    uint32_t B, dim, gap, keys_max, vocabulary;
    enum pool pool;
    bool repeats_field, has_value, is_run; /* is_run: the op looks up fields 2 and 3 only, which lie side by side */
    bool is_whole;                         /* the op looks up all fields                                          */
    enum table_store store;                /* of the table                                                        */
};

/* Fields 0, 2 and 3 are looked up in table 1 by the op, field 4 in table 1 by somebody else, field 1 in table
 * 0; if it is_whole all in table 1 by the op. */
static void bag_build(struct fixture *f, const void *params)
{
    const struct bag_params *p = params;
    struct hand_graph *h = &f->h;
    struct micro_batch *m = &h->batch;
    hand_open(h, p->B, p->B + p->dim);
    h->graph.field_count = BAG_FIELDS;
    h->graph.table_count = 2;
    h->graph.lookup_count = 2;
    h->graph.tables = f->table;
    h->graph.fields = f->field;
    for (uint32_t i = 0; i < BAG_FIELDS; i++) f->field[i].ids_max = p->keys_max + i; /* beyond keys_max: zeros */
    f->table[BAG_TABLE] = (struct graph_table){.dim = p->dim, .store = p->store, .span_floats = 2 * p->dim + 1};
    uint32_t homes = p->B * BAG_FIELDS, positions_max = homes * p->keys_max + 1;
    m->key_begin = calloc(homes + 1, sizeof *m->key_begin);
    m->key_home = calloc(positions_max, sizeof *m->key_home);
    m->key = calloc(positions_max, sizeof *m->key);
    if (p->has_value) m->value = calloc(positions_max, sizeof *m->value);
    for (uint32_t home = 0; home < homes; home++) {
        uint32_t count = (uint32_t)((hand_random(h) + 1) * 0.5f * (float)(p->keys_max + 1));
        for (uint32_t i = 0; i < count && i < p->keys_max; i++) {
            m->key[m->key_count] = (uint64_t)((hand_random(h) + 1) * 0.5f * (float)p->vocabulary);
            if (m->value) m->value[m->key_count] = p->pool == POOL_MAX ? rintf(2 * hand_random(h)) : hand_random(h);
            m->key_home[m->key_count++] = home;
        }
        m->key_begin[home + 1] = m->key_count;
    }
    /* The ticket of table 1, naively. */
    struct ticket_table *t = &f->ticket_table[BAG_TABLE];
    uint64_t *unique_key = calloc(m->key_count + 1, sizeof *unique_key);
    t->unique_of = malloc((m->key_count + 1) * sizeof *t->unique_of);
    t->occurrence_begin = calloc(m->key_count + 2, sizeof *t->occurrence_begin);
    t->occurrence = calloc(m->key_count + 1, sizeof *t->occurrence);
    for (uint32_t i = 0; i < m->key_count; i++) {
        t->unique_of[i] = 0xdeadbeef;
        if (m->key_home[i] % BAG_FIELDS == 1 && !p->is_whole) continue;
        uint32_t u = 0;
        while (u < t->unique_count && unique_key[u] != m->key[i]) u++;
        unique_key[u] = m->key[i];
        if (u == t->unique_count) t->unique_count++;
        t->unique_of[i] = u;
    }
    free(unique_key);
    for (uint32_t u = 0, count = 0; u < t->unique_count; u++) {
        for (uint32_t i = 0; i < m->key_count; i++)
            if (t->unique_of[i] == u) t->occurrence[count++] = i;
        t->occurrence_begin[u + 1] = count;
    }
    t->span = calloc(t->unique_count + 1, sizeof *t->span);
    t->lane_row = calloc(t->unique_count + 1, sizeof *t->lane_row);
    const uint32_t floats = row_vector_floats(&f->table[BAG_TABLE]);
    f->row = calloc((t->unique_count + 1) * (size_t)floats, sizeof *f->row);
    /* A few values only, so that maxima tie. */
    for (uint32_t i = 0; i < t->unique_count * p->dim; i++)
        row_vector_put(&f->table[BAG_TABLE], f->row + (size_t)(i / p->dim) * floats, i % p->dim,
                       p->pool == POOL_MAX ? rintf(2 * hand_random(h)) : hand_random(h));
    for (uint32_t u = 0; u < t->unique_count; u++) {
        t->span[u] = f->row + (size_t)u * floats;
        t->lane_row[u] = t->unique_count - u; /* row 0 is another micro-batch's */
    }
    f->table_grad_floats = (t->unique_count + 1) * p->dim;
    f->table_grad[BAG_LOOKUP] = malloc(f->table_grad_floats * sizeof(float));
    for (uint32_t i = 0; i < f->table_grad_floats; i++) f->table_grad[BAG_LOOKUP][i] = hand_random(h);
    f->ticket = (struct ticket){.table_count = 2, .table = f->ticket_table};
    h->context.ticket = &f->ticket;
    h->context.table_grad = f->table_grad;

    struct hand_tensors in = {3, {hand_field(h, 0), hand_field(h, 2), hand_field(h, 3)}}, saved = {0};
    if (p->is_run) in = (struct hand_tensors){2, {in.t[1], in.t[2]}};
    if (p->is_whole) in = (struct hand_tensors){5, {in.t[0], hand_field(h, 1), in.t[1], in.t[2], hand_field(h, 4)}};
    if (p->repeats_field) in.t[in.count++] = in.t[0];
    uint32_t cols = 0;
    for (uint32_t i = 0; i < in.count; i++)
        cols += p->dim * (p->pool == POOL_NONE ? f->field[h->tensor[in.t[i]].cols].ids_max : 1);
    uint32_t out = hand_tensor_grad(h, p->B, cols, cols + p->gap);
    if (p->pool == POOL_MAX) saved = (struct hand_tensors){1, {hand_tensor(h, p->B, cols, cols)}};
    struct embed_bag_attr attr = {.table = BAG_TABLE, .pool = p->pool, .dim = p->dim, .lookup = BAG_LOOKUP};
    hand_node(h, OP_ID_embed_bag, in, (struct hand_tensors){0}, out, saved, &attr, sizeof attr, NULL);
}

static void embed_bag__any_pool_and_dim__equals_reference_to_the_bit(void **state)
{
    (void)state;
    static const uint32_t dims[] = {1, 3, 4, 8, 10, 16, 32, 33, 64, 128, 150};
    char what[96];
    for (uint32_t pool = 0; pool < POOL_COUNT; pool++)
        for (size_t d = 0; d < sizeof dims / sizeof dims[0]; d++)
            for (uint32_t B = 1; B <= 129; B += 64) {
                /* Of each width and pool both ways of storing, with one of these batches or another. */
                const enum table_store store = (B / 64 + d) % 2 ? TABLE_BF16 : TABLE_F32;
                struct bag_params p = {B, dims[d], B % 4, 3, 40, (enum pool)pool, .repeats_field = dims[d] == 10};
                p.store = store;
                snprintf(what, sizeof what, "embed_bag pool %u dim %u B %u", pool, dims[d], B);
                case_check(what, bag_build, &p, EXACT);
                p.has_value = true;
                case_check("embed_bag of keys with values", bag_build, &p, EXACT);
                /* Fields side by side, also when a row occurs more often than dout is asked for ahead. */
                p = (struct bag_params){B, dims[d], B % 4, 1 + B % 5, B < 65 ? 40 : 3, (enum pool)pool, .is_run = true};
                p.store = store;
                case_check("embed_bag of fields side by side", bag_build, &p, EXACT);
                p.has_value = true;
                case_check("embed_bag of fields side by side with values", bag_build, &p, EXACT);
                /* All fields; keys for several pieces, each with runs of rows. */
                p = (struct bag_params){4 * B, dims[d], B % 4, 3, 200, (enum pool)pool, .is_whole = true};
                p.store = store;
                if (dims[d] < 33) case_check("embed_bag of all fields", bag_build, &p, EXACT);
            }
}

static void embed_bag__no_keys__is_zero(void **state)
{
    (void)state;
    struct bag_params p = {.B = 7, .dim = 5, .vocabulary = 1, .pool = POOL_SUM};
    struct fixture *f = fixture_open(bag_build, &p);
    struct device *device;
    assert_int_equal(cpu_device_open(&device, &f->h.graph, 2, NULL, NULL), ST_OK);
    assert_int_equal(device_submit(device, &f->h.context, &f->h.node[0], 1), ST_OK);
    device_close(device);
    struct view out = op_out(&f->h.context, &f->h.node[0]);
    for (uint32_t i = 0; i < out.rows * out.cols; i++) assert_true(out.data[i] == 0);
    fixture_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(embed_bag__any_pool_and_dim__equals_reference_to_the_bit),
        cmocka_unit_test(embed_bag__no_keys__is_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
