/* Every kernel of every instruction set that runs here: against the reference op within rounding (or to the bit,
 * where the kernel promises that), and against itself, to the bit, for other numbers of threads and other orders of
 * the pieces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>

#include "cfg/settings.h"
#include "engine/cpu/device.h"
#include "engine/bench/hand_graph.h"
#include "tests/engine/kernel_check.h"

/* Largest accepted |a - b| / (1 + |b|) of a product: 429 roundings of 6e-8 on sums of some tens. */
#define PRODUCT_TOLERANCE 5e-5

/* --- one case: a graph made again for every run, so that all start from the same values ------- */

struct fixture {
    struct hand_graph h;
    struct graph_table table[2];
    struct graph_field field[8];
    struct ticket_table ticket_table[2];
    struct ticket ticket;
    float *table_grad[2]; /* [lookup] */
    uint32_t table_grad_floats;
    float *row; /* values of all rows */
};
typedef void fixture_build(struct fixture *f, const void *params);

static void fixture_close(struct fixture *f)
{
    hand_close(&f->h);
    for (int t = 0; t < 2; t++) {
        struct ticket_table *tt = &f->ticket_table[t];
        free(tt->unique_of), free(tt->span), free(tt->occurrence_begin), free(tt->occurrence), free(tt->step_row);
        free(f->table_grad[t]);
    }
    free(f->h.batch.key_begin), free(f->h.batch.key_home), free(f->h.batch.key), free(f->h.batch.value), free(f->row);
    free(f);
}

static struct fixture *fixture_open(fixture_build *build, const void *params)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    build(f, params);
    return f;
}

static void fixtures_compare(const char *what, const struct fixture *a, const struct fixture *b, double tolerance)
{
    char name[160];
    for (uint32_t t = 0; t < a->h.graph.tensor_count; t++) {
        const struct view *v = &a->h.view[t];
        if (v->data == NULL) continue;
        snprintf(name, sizeof name, "%s, tensor %u", what, t);
        floats_compare(name, v->data, b->h.view[t].data, v->rows, v->cols, v->stride, tolerance);
    }
    for (int t = 0; t < 2; t++)
        if (a->table_grad[t] != NULL)
            floats_compare(what, a->table_grad[t], b->table_grad[t], 1, a->table_grad_floats, a->table_grad_floats,
                           tolerance);
}

static void reference_run(struct fixture *f)
{
    const struct graph_node *n = &f->h.node[0];
    op_table[n->op].forward(&f->h.context, n);
    op_table[n->op].backward(&f->h.context, n);
}

static bool bf16_is_pairs; /* which of the two ways products in bfloat16 take, where there are two */

static void device_run(struct fixture *f, enum isa isa, uint32_t members, uint32_t delay_ns)
{
    struct device *device;
    assert_int_equal(cpu_device_open(&device, &f->h.graph, members, NULL, isa_names[isa]), ST_OK);
    cpu_device_bf16_pairs_set(device, bf16_is_pairs);
    team_delay_set(cpu_device_team(device), members, delay_ns);
    assert_int_equal(device_submit(device, &f->h.context, &f->h.node[0], 1), ST_OK);
    assert_int_equal(device_submit(device, &f->h.context, &f->h.node[1], 1), ST_OK);
    device->vt->close(device);
}

/* Forward, then backward, on every instruction set and team. */
static void case_check(const char *what, fixture_build *build, const void *params, double tolerance)
{
    struct fixture *reference = fixture_open(build, params);
    reference_run(reference);
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        if (!isa_runs_here((enum isa)isa)) continue;
        char name[128];
        struct fixture *first = fixture_open(build, params);
        device_run(first, (enum isa)isa, 1, 0);
        snprintf(name, sizeof name, "%s, %s against the reference", what, isa_names[isa]);
        fixtures_compare(name, first, reference, tolerance);
        for (size_t i = 1; i < MEMBERS_TRIED; i++) {
            struct fixture *other = fixture_open(build, params);
            device_run(other, (enum isa)isa, members_tried[i], 3000);
            snprintf(name, sizeof name, "%s, %s with %u members against 1", what, isa_names[isa], members_tried[i]);
            fixtures_compare(name, other, first, EXACT);
            fixture_close(other);
        }
        fixture_close(first);
    }
    fixture_close(reference);
}

/* --- fc --------------------------------------------------------------------------------------- */

struct fc_params {
    uint32_t B, K, N, gap; /* gap: floats between columns and stride */
    struct fc_attr attr;   /* without units; groups 0: 1 */
    bool adds, wants_din, wants_dweight;
};

static void fc_build(struct fixture *f, const void *params)
{
    const struct fc_params *p = params;
    struct hand_graph *h = &f->h;
    struct fc_attr attr = p->attr;
    uint32_t adds[1] = {p->adds};
    attr.units = p->N;
    if (attr.groups == 0) attr.groups = 1;
    hand_open(h, p->B, p->B + p->K + p->N);
    uint32_t in_cols = attr.groups * p->K, out_cols = attr.groups * p->N;
    uint32_t in = p->wants_din ? hand_tensor_grad(h, p->B, in_cols, in_cols + p->gap)
                               : hand_tensor(h, p->B, in_cols, in_cols + p->gap);
    uint32_t out = hand_tensor_grad(h, p->B, out_cols, out_cols + p->gap);
    uint32_t weight = p->wants_dweight ? hand_tensor_grad(h, p->K, p->N, p->N) : hand_tensor(h, p->K, p->N, p->N);
    struct hand_tensors param = {1, {weight}};
    if (attr.has_bias)
        param.t[param.count++] = p->wants_dweight ? hand_tensor_grad(h, 1, p->N, p->N) : hand_tensor(h, 1, p->N, p->N);
    hand_node(h, OP_ID_fc, (struct hand_tensors){1, {in}}, param, out, (struct hand_tensors){0}, &attr, sizeof attr,
              adds);
}

static void fc_check(struct fc_params p)
{
    char what[96];
    snprintf(what, sizeof what, "fc B %u K %u N %u groups %u gap %u activation %u adds %d", p.B, p.K, p.N,
             p.attr.groups, p.gap, p.attr.activation, p.adds);
    case_check(what, fc_build, &p, PRODUCT_TOLERANCE);
}

static void fc__odd_shapes__equal_reference_for_every_team(void **state)
{
    (void)state;
    static const uint32_t shapes[][3] = {{1, 1, 1},     {1, 429, 1},     {3, 1, 2},      {2, 3, 4},
                                         {5, 7, 9},     {6, 16, 16},     {7, 17, 15},    {13, 33, 31},
                                         {100, 13, 64}, {256, 31, 1},    {100, 429, 65}, {300, 10, 33},
                                         {29, 600, 18}, {256, 429, 128}, {40, 1100, 70}, {530, 30, 64}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (uint32_t gap = 0; gap <= 3; gap += 3)
            fc_check((struct fc_params){shapes[i][0],
                                        shapes[i][1],
                                        shapes[i][2],
                                        gap,
                                        {.has_bias = 1, .activation = ACT_RELU},
                                        .adds = gap != 0,
                                        .wants_din = true,
                                        .wants_dweight = true});
}

static void fc__every_fusion__equals_reference(void **state)
{
    (void)state;
    for (uint32_t N = 1; N <= 19; N += 18)
        for (uint32_t activation = 0; activation < ACT_COUNT; activation++)
            for (uint32_t flags = 0; flags < 32; flags++)
                fc_check((struct fc_params){
                    11,
                    21,
                    N,
                    1,
                    {.has_bias = flags & 1,
                     .activation = (uint8_t)activation,
                     .slope = 0.1f,
                     .dout_is_dz = flags >> 1 & 1,
                     .input_activation = (uint8_t)(flags & 4 ? ACT_COUNT - 1 - activation : ACT_NONE),
                     .input_slope = 0.2f},
                    .adds = flags >> 3 & 1,
                    .wants_din = flags & 16 ? activation != ACT_TANH : true,
                    .wants_dweight = flags & 16 ? activation != ACT_RELU : true});
}

static void fc__groups__equal_reference_for_every_team(void **state)
{
    (void)state;
    static const uint32_t shapes[][4] = {/* B, K, N, groups */
                                         {1, 1, 1, 1},    {1, 3, 1, 7},    {5, 1, 2, 40},
                                         {2, 20, 17, 33}, {40, 64, 36, 9}, {37, 36, 1, 11},
                                         {3, 140, 5, 2},  {300, 7, 33, 3}, {256, 16, 40, 2}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (uint32_t flags = 0; flags < 8; flags++)
            fc_check((struct fc_params){shapes[i][0],
                                        shapes[i][1],
                                        shapes[i][2],
                                        flags & 1 ? 3 : 0,
                                        {.groups = shapes[i][3],
                                         .has_bias = flags & 1,
                                         .activation = flags & 2 ? ACT_SIGMOID : ACT_RELU,
                                         .dout_is_dz = flags >> 2 & 1,
                                         .input_activation = flags & 2 ? ACT_RELU : ACT_NONE},
                                        .adds = flags & 1,
                                        .wants_din = flags != 6,
                                        .wants_dweight = flags != 5});
}

/* Bytes, not only closeness: a product of two bfloat16 is exact, so nothing but the order of additions could differ, and it is one. Activations
 * whose exponentials are approximated are left to the tests above. */
static void fc__bf16__equals_reference_to_the_bit(void **state)
{
    (void)state;
    static const uint32_t shapes[][4] = {/* B, K, N, groups */
                                         {1, 1, 2, 1},     {1, 429, 3, 1},    {2, 3, 4, 1},      {5, 7, 9, 1},
                                         {6, 16, 16, 1},   {7, 17, 15, 1},    {13, 33, 31, 1},   {100, 13, 64, 1},
                                         {259, 31, 33, 1}, {29, 600, 18, 1},  {40, 20, 17, 9},   {5, 1, 2, 40},
                                         {300, 7, 33, 3},  {15, 2051, 35, 1}, {2060, 5, 290, 1}, {1100, 6, 290, 2}};
    for (int is_pairs = 0; is_pairs < 2; is_pairs++)
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
            for (uint32_t flags = 0; flags < (i < 12 ? 4 : 1); flags++) {
                struct fc_params p = {shapes[i][0],
                                      shapes[i][1],
                                      shapes[i][2],
                                      flags & 1 ? 3 : 0,
                                      {.groups = shapes[i][3],
                                       .has_bias = flags & 1,
                                       .activation = flags & 2 ? ACT_RELU : ACT_NONE,
                                       .dout_is_dz = flags >> 1 & 1,
                                       .input_activation = flags & 1 ? ACT_RELU : ACT_NONE,
                                       .precision = PRECISION_BF16},
                                      .adds = flags & 1,
                                      .wants_din = flags != 2,
                                      .wants_dweight = true};
                char what[96];
                snprintf(what, sizeof what, "fc in bf16, B %u K %u N %u groups %u flags %u pairs %d", p.B, p.K, p.N,
                         p.attr.groups, flags, is_pairs);
                bf16_is_pairs = is_pairs;
                case_check(what, fc_build, &p, EXACT);
            }
}

/* Products and sums on both sides of 2^-126, below which VDPBF16PS has zeros: the device may take either way, so it must not show. */
static void fc_tiny_build(struct fixture *f, const void *params)
{
    fc_build(f, params);
    for (uint32_t t = 0; t < f->h.graph.tensor_count; t++) {
        struct view *v = &f->h.view[t];
        for (size_t i = 0; v->data != NULL && i < (size_t)v->rows * v->stride; i++)
            v->data[i] *= ldexpf(1, -50 - (int)(i * 7919 % 41));
    }
}

static void fc__bf16_of_tiny_numbers__is_the_same_both_ways(void **state)
{
    (void)state;
    if (!isa_runs_here(ISA_avx512bf16)) skip();
    struct fc_params p = {
        40, 37, 50, 0, {.precision = PRECISION_BF16}, .adds = false, .wants_din = true, .wants_dweight = true};
    struct fixture *pairs = fixture_open(fc_tiny_build, &p), *single = fixture_open(fc_tiny_build, &p);
    bf16_is_pairs = true;
    device_run(pairs, ISA_avx512bf16, 1, 0);
    bf16_is_pairs = false;
    device_run(single, ISA_avx512bf16, 1, 0);
    fixtures_compare("fc in bf16 of tiny numbers, both ways", pairs, single, EXACT);
    fixture_close(pairs);
    fixture_close(single);
}

/* --- embed_bag -------------------------------------------------------------------------------- */

#define BAG_FIELDS 5u
#define BAG_TABLE  1u
#define BAG_LOOKUP 0u
struct bag_params {
    uint32_t B, dim, gap, keys_max, vocabulary;
    enum pool pool;
    bool repeats_field, has_value, is_run; /* is_run: the op looks up fields 2 and 3 only, which lie side by side */
};

/* Fields 0, 2 and 3 are looked up in table 1 by the op, field 4 in table 1 by somebody else, field 1 in table 0. */
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
    f->table[BAG_TABLE] = (struct graph_table){.dim = p->dim, .span_floats = 2 * p->dim + 1};
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
        if (m->key_home[i] % BAG_FIELDS == 1) continue;
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
    t->step_row = calloc(t->unique_count + 1, sizeof *t->step_row);
    f->row = malloc((t->unique_count + 1) * (size_t)p->dim * sizeof *f->row);
    /* A few values only, so that maxima tie. */
    for (uint32_t i = 0; i < t->unique_count * p->dim; i++)
        f->row[i] = p->pool == POOL_MAX ? rintf(2 * hand_random(h)) : hand_random(h);
    for (uint32_t u = 0; u < t->unique_count; u++) {
        t->span[u] = f->row + (size_t)u * p->dim;
        t->step_row[u] = t->unique_count - u; /* row 0 is another micro-batch's */
    }
    f->table_grad_floats = (t->unique_count + 1) * p->dim;
    f->table_grad[BAG_LOOKUP] = malloc(f->table_grad_floats * sizeof(float));
    for (uint32_t i = 0; i < f->table_grad_floats; i++) f->table_grad[BAG_LOOKUP][i] = hand_random(h);
    f->ticket = (struct ticket){.table_count = 2, .table = f->ticket_table};
    h->context.ticket = &f->ticket;
    h->context.table_grad = f->table_grad;

    struct hand_tensors in = {3, {hand_field(h, 0), hand_field(h, 2), hand_field(h, 3)}}, saved = {0};
    if (p->is_run) in = (struct hand_tensors){2, {in.t[1], in.t[2]}};
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
                struct bag_params p = {B, dims[d], B % 4, 3, 40, (enum pool)pool, .repeats_field = dims[d] == 10};
                snprintf(what, sizeof what, "embed_bag pool %u dim %u B %u", pool, dims[d], B);
                case_check(what, bag_build, &p, EXACT);
                p.has_value = true;
                case_check("embed_bag of keys with values", bag_build, &p, EXACT);
                /* Fields side by side, also when a row occurs more often than dout is asked for ahead. */
                p = (struct bag_params){B, dims[d], B % 4, 1 + B % 5, B < 65 ? 40 : 3, (enum pool)pool, .is_run = true};
                case_check("embed_bag of fields side by side", bag_build, &p, EXACT);
                p.has_value = true;
                case_check("embed_bag of fields side by side with values", bag_build, &p, EXACT);
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
    device->vt->close(device);
    struct view out = op_out(&f->h.context, &f->h.node[0]);
    for (uint32_t i = 0; i < out.rows * out.cols; i++) assert_true(out.data[i] == 0);
    fixture_close(f);
}

/* --- ops that pass over their rows once ------------------------------------------------------- */

struct rows_params {
    op_id op;
    uint32_t B, cols, gap;
    bool adds, wants_din, training;
};

static void rows_build(struct fixture *f, const void *params)
{
    const struct rows_params *p = params;
    struct hand_graph *h = &f->h;
    uint32_t adds[1] = {p->adds};
    hand_open(h, p->B, p->cols);
    h->context.training = p->training;
    h->context.example_begin = 512;
    h->batch.step = 77;
    uint32_t in = p->wants_din ? hand_tensor_grad(h, p->B, p->cols, p->cols + p->gap)
                               : hand_tensor(h, p->B, p->cols, p->cols + p->gap);
    struct leaky_relu_attr leaky = {.slope = 0.01f};
    struct dropout_attr dropout = {.rate = 0.3f};
    const uint32_t units[] = {0, 2 * p->cols + 1, (p->cols + 1) / 2}; /* as wide, wider, narrower */
    struct busy_attr busy = {.rounds = 50, .units = units[p->gap % 3]};
    bool is_busy = p->op == OP_ID_busy;
    const void *attr = p->op == OP_ID_leaky_relu ? (const void *)&leaky : &dropout;
    if (is_busy) attr = &busy;
    uint32_t out_cols = is_busy && busy.units != 0 ? busy.units : p->cols;
    uint32_t out = hand_tensor_grad(h, p->B, out_cols, out_cols + 2 * p->gap);
    hand_node(h, p->op, (struct hand_tensors){1, {in}}, (struct hand_tensors){0}, out, (struct hand_tensors){0}, attr,
              is_busy ? sizeof busy : sizeof(float), adds);
}

static void rows_check(op_id op, double tolerance)
{
    static const uint32_t cols[] = {1, 3, 16, 31, 70};
    char what[96];
    for (size_t i = 0; i < sizeof cols / sizeof cols[0]; i++)
        for (uint32_t flags = 0; flags < 8; flags++) {
            struct rows_params p = {op, 37, cols[i], i % 3, flags & 1, (flags & 3) != 2, flags >> 2 & 1};
            snprintf(what, sizeof what, "%s cols %u flags %u", op_table[op].name, cols[i], flags);
            case_check(what, rows_build, &p, tolerance);
        }
}

static void relu__odd_rows__equals_reference_to_the_bit(void **state) { (void)state, rows_check(OP_ID_relu, EXACT); }
static void leaky_relu__odd_rows__equals_reference_to_the_bit(void **state)
{
    (void)state, rows_check(OP_ID_leaky_relu, EXACT);
}
static void sigmoid__odd_rows__equals_reference(void **state) { (void)state, rows_check(OP_ID_sigmoid, 3e-7); }
static void tanh__odd_rows__equals_reference(void **state) { (void)state, rows_check(OP_ID_tanh, 3e-7); }
static void softsign__odd_rows__equals_reference_to_the_bit(void **state)
{
    (void)state, rows_check(OP_ID_softsign, EXACT);
}
static void dropout__odd_rows__equals_reference_to_the_bit(void **state)
{
    (void)state, rows_check(OP_ID_dropout, EXACT);
}

static void busy__odd_rows__equals_reference_to_the_bit(void **state) { (void)state, rows_check(OP_ID_busy, EXACT); }

struct norm_params {
    uint32_t B, cols, gap;
    bool adds, wants_din, wants_dparam, training;
};
static void norm_build(struct fixture *f, const void *params)
{
    const struct norm_params *p = params;
    struct hand_graph *h = &f->h;
    uint32_t adds[1] = {p->adds};
    hand_open(h, p->B, p->B + p->cols);
    h->context.training = p->training;
    uint32_t in = p->wants_din ? hand_tensor_grad(h, p->B, p->cols, p->cols + p->gap)
                               : hand_tensor(h, p->B, p->cols, p->cols + p->gap);
    uint32_t out = hand_tensor_grad(h, p->B, p->cols, p->cols + 2 * p->gap);
    struct hand_tensors param = {4, {0}}, saved = {2, {0}};
    for (uint32_t i = 0; i < param.count; i++)
        param.t[i] = p->wants_dparam ? hand_tensor_grad(h, 1, p->cols, p->cols) : hand_tensor(h, 1, p->cols, p->cols);
    for (uint32_t i = 0; i < saved.count; i++) saved.t[i] = hand_tensor(h, 1, p->cols, p->cols);
    float *variance = h->view[param.t[BATCH_NORM_VARIANCE]].data;
    for (uint32_t i = 0; i < p->cols; i++) variance[i] += 1;
    struct batch_norm_attr attr = {.eps = 1e-5f, .momentum = 0.9f};
    hand_node(h, OP_ID_batch_norm, (struct hand_tensors){1, {in}}, param, out, saved, &attr, sizeof attr, adds);
}

/* The kernel does as the reference does, and uses no fma: the same bits. */
static void batch_norm__odd_shapes__equals_reference_to_the_bit(void **state)
{
    (void)state;
    static const uint32_t cols[] = {1, 3, 16, 31, 64, 70, 129}, rows[] = {1, 2, 37, 256};
    char what[96];
    for (size_t i = 0; i < sizeof cols / sizeof cols[0]; i++)
        for (uint32_t flags = 0; flags < 16; flags++) {
            struct norm_params p = {rows[(i + flags) % 4], cols[i],          i % 3,           flags & 1,
                                    (flags & 3) != 2,      (flags & 4) == 0, (flags & 8) == 0};
            snprintf(what, sizeof what, "batch_norm B %u cols %u flags %u", p.B, cols[i], flags);
            case_check(what, norm_build, &p, EXACT);
        }
}

static void data_norm_build(struct fixture *f, const void *params)
{
    const struct norm_params *p = params;
    struct hand_graph *h = &f->h;
    uint32_t adds[1] = {p->adds};
    hand_open(h, p->B, p->B + p->cols);
    h->context.training = p->training;
    uint32_t in = p->wants_din ? hand_tensor_grad(h, p->B, p->cols, p->cols + p->gap)
                               : hand_tensor(h, p->B, p->cols, p->cols + p->gap);
    uint32_t out = hand_tensor_grad(h, p->B, p->cols, p->cols + 2 * p->gap);
    struct hand_tensors param = {DATA_NORM_PARAMS, {0}};
    for (uint32_t i = 0; i < param.count; i++) {
        param.t[i] = p->wants_dparam ? hand_tensor_grad(h, 1, p->cols, p->cols) : hand_tensor(h, 1, p->cols, p->cols);
        for (uint32_t k = 0; k < p->cols && i != DATA_NORM_SUM; k++) h->view[param.t[i]].data[k] += 1.5f;
    }
    struct data_norm_attr attr = {.eps = 1e-4f, .decay = 0.9f};
    hand_node(h, OP_ID_data_norm, (struct hand_tensors){1, {in}}, param, out, (struct hand_tensors){0}, &attr,
              sizeof attr, adds);
}

static void data_norm__odd_shapes__equals_reference_to_the_bit(void **state)
{
    (void)state;
    static const uint32_t cols[] = {1, 3, 16, 31, 64, 70, 129}, rows[] = {1, 2, 37, 256};
    char what[96];
    for (size_t i = 0; i < sizeof cols / sizeof cols[0]; i++)
        for (uint32_t flags = 0; flags < 16; flags++) {
            struct norm_params p = {rows[(i + flags) % 4], cols[i],          i % 3,           flags & 1,
                                    (flags & 3) != 2,      (flags & 4) == 0, (flags & 8) == 0};
            snprintf(what, sizeof what, "data_norm B %u cols %u flags %u", p.B, cols[i], flags);
            case_check(what, data_norm_build, &p, EXACT);
        }
}

/* --- ops with one or more inputs and no parameters -------------------------------------------- */

/* attr: the op's; cols: of each input, then of the output; an input without `wants_din` has no gradient, one like the input
 * before it (SAME) is the same tensor. */
#define SAME 0u
struct many_params {
    op_id op;
    const void *attr;
    size_t attr_bytes;
    uint32_t B, gap, input_count, cols[5];
    uint32_t adds, wants_din; /* bit i: of input i */
};
static void many_build(struct fixture *f, const void *params)
{
    const struct many_params *p = params;
    struct hand_graph *h = &f->h;
    struct hand_tensors in = {p->input_count, {0}};
    uint32_t adds[4];
    hand_open(h, p->B, p->B + p->cols[0]);
    for (uint32_t i = 0; i < p->input_count; i++) {
        adds[i] = p->cols[i] == SAME || (p->adds >> i & 1); /* the input before has been written */
        if (p->cols[i] == SAME)
            in.t[i] = in.t[i - 1];
        else if (p->wants_din >> i & 1)
            in.t[i] = hand_tensor_grad(h, p->B, p->cols[i], p->cols[i] + (i + 1) * p->gap);
        else
            in.t[i] = hand_tensor(h, p->B, p->cols[i], p->cols[i] + p->gap);
    }
    uint32_t out_cols = p->cols[p->input_count], out = hand_tensor_grad(h, p->B, out_cols, out_cols + 2 * p->gap);
    hand_node(h, p->op, in, (struct hand_tensors){0}, out, (struct hand_tensors){0}, p->attr, p->attr_bytes, adds);
}

/* With every choice of gradients that are wanted, and of those that are added to; of three inputs and more with some. */
static void many_check(struct many_params p, double tolerance)
{
    static const uint32_t rows[] = {1, 37, 50};
    char what[96];
    for (uint32_t flags = 0; flags<1u << (2 * p.input_count); flags += p.input_count> 2 ? 7 : 1) {
        p.adds = flags;
        p.wants_din = ~flags >> p.input_count;
        p.B = rows[flags % 3];
        p.gap = flags / 3 % 3;
        snprintf(what, sizeof what, "%s cols %u to %u, flags %u", op_table[p.op].name, p.cols[0], p.cols[p.input_count],
                 flags);
        case_check(what, many_build, &p, tolerance);
    }
}

static void softmax__odd_parts__equals_reference(void **state)
{
    (void)state;
    static const uint32_t parts[] = {1, 2, 7, 16, 31, 70}, groups[] = {1, 3};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        for (size_t k = 0; k < sizeof groups / sizeof *groups; k++) {
            struct softmax_attr attr = {.groups = groups[k]};
            uint32_t cols = parts[i] * groups[k];
            many_check((struct many_params){OP_ID_softmax, &attr, sizeof attr, .input_count = 1, .cols = {cols, cols}},
                       5e-7);
        }
}

/* All far below zero, and far apart: the greatest decides. */
static void softmax__extreme_numbers__are_as_in_the_reference(void **state)
{
    (void)state;
    enum { COLS = 37 };
    struct softmax_attr attr = {.groups = 1};
    struct many_params p = {OP_ID_softmax, &attr, sizeof attr, .B = 3, .input_count = 1, .cols = {COLS, COLS}};
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        if (!isa_runs_here((enum isa)isa)) continue;
        struct fixture *reference = fixture_open(many_build, &p), *f = fixture_open(many_build, &p);
        for (int k = 0; k < 2; k++) {
            float *in = (k == 0 ? reference : f)->h.view[0].data;
            for (int i = 0; i < COLS; i++) in[i] = in[i] * 200 - 1e6f;
            in[COLS + COLS - 1] = 3e38f;
            in[COLS] = -INFINITY;
            in[2 * COLS + 33] = NAN;
        }
        op_table[OP_ID_softmax].forward(&reference->h.context, &reference->h.node[0]);
        struct device *device;
        assert_int_equal(cpu_device_open(&device, &f->h.graph, 1, NULL, isa_names[isa]), ST_OK);
        assert_int_equal(device_submit(device, &f->h.context, &f->h.node[0], 1), ST_OK);
        device->vt->close(device);
        const float *got = op_out(&f->h.context, &f->h.node[0]).data,
                    *expected = op_out(&reference->h.context, &reference->h.node[0]).data;
        floats_compare(isa_names[isa], got, expected, 2, COLS, COLS, 5e-7);
        for (int i = 2 * COLS; i < 3 * COLS; i++) assert_true(isnan(got[i]) && isnan(expected[i]));
        fixture_close(f);
        fixture_close(reference);
    }
}

/* The gradient of one column is a sum, whose order is the kernel's own; all else is to the bit. */
static void add_mul_cross__odd_widths__equal_reference(void **state)
{
    (void)state;
    static const uint32_t cols[] = {1, 3, 16, 31, 70};
    for (size_t i = 0; i < sizeof cols / sizeof *cols; i++) {
        uint32_t c = cols[i];
        const struct {
            struct many_params p;
            double tolerance;
        } cases[] = {
            {{OP_ID_add, NULL, 0, .input_count = 2, .cols = {c, c, c}}, EXACT},
            {{OP_ID_add, NULL, 0, .input_count = 4, .cols = {c, SAME, 1, c, c}}, 2e-6},
            {{OP_ID_mul, NULL, 0, .input_count = 2, .cols = {c, c, c}}, EXACT},
            {{OP_ID_mul, NULL, 0, .input_count = 2, .cols = {c, SAME, c}}, EXACT},
            {{OP_ID_mul, NULL, 0, .input_count = 2, .cols = {c, 1, c}}, 2e-6},
            {{OP_ID_mul, NULL, 0, .input_count = 2, .cols = {1, c, c}}, 2e-6},
            {{OP_ID_cross, NULL, 0, .input_count = 3, .cols = {c, c, c, c}}, EXACT},
            {{OP_ID_cross, NULL, 0, .input_count = 3, .cols = {c, SAME, c, c}}, EXACT},
        };
        for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) many_check(cases[k].p, cases[k].tolerance);
    }
}

static void slice_reshape_sum_pool__odd_shapes__equal_reference_to_the_bit(void **state)
{
    (void)state;
    static const uint32_t counts[][2] = {{1, 1}, {1, 7}, {3, 1}, {2, 16}, {5, 31}, {17, 6}, {20, 33}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        uint32_t rows = counts[i][0], width = counts[i][1], cols = rows * width;
        for (uint32_t is_transposed = 0; is_transposed < 2; is_transposed++)
            many_check((struct many_params){OP_ID_reshape, &(struct reshape_attr){rows, is_transposed},
                                            sizeof(struct reshape_attr), .input_count = 1, .cols = {cols, cols}},
                       EXACT);
        for (uint32_t groups = 1; groups < 4; groups += 2)
            many_check((struct many_params){OP_ID_sum_pool, &(struct sum_pool_attr){width, rows},
                                            sizeof(struct sum_pool_attr), .input_count = 1,
                                            .cols = {groups * cols, groups * width}},
                       EXACT);
        for (uint32_t begin = 0; begin <= width; begin += width)
            many_check((struct many_params){OP_ID_slice, &(struct slice_attr){begin, begin + cols},
                                            sizeof(struct slice_attr), .input_count = 1,
                                            .cols = {begin + cols + 2 * begin, cols}},
                       EXACT);
    }
}

struct fm_params {
    uint32_t B, S, dim, gap;
    bool is_reduced, adds;
};
static void fm_build(struct fixture *f, const void *params)
{
    const struct fm_params *p = params;
    struct hand_graph *h = &f->h;
    uint32_t adds[1] = {p->adds}, cols = p->S * p->dim, out_cols = p->is_reduced ? 1 : p->dim;
    hand_open(h, p->B, p->B + cols);
    uint32_t e = hand_tensor_grad(h, p->B, cols, cols + p->gap),
             out = hand_tensor_grad(h, p->B, out_cols, out_cols + p->gap);
    struct fm_attr attr = {.dim = p->dim, .is_reduced = p->is_reduced};
    hand_node(h, OP_ID_fm, (struct hand_tensors){1, {e}}, (struct hand_tensors){0}, out, (struct hand_tensors){0},
              &attr, sizeof attr, adds);
}

static void fm__odd_shapes__equals_reference(void **state)
{
    (void)state;
    static const uint32_t dims[] = {1, 3, 8, 16, 17, 33, 64, 70, 130}, vectors[] = {1, 2, 27};
    char what[96];
    for (size_t i = 0; i < sizeof dims / sizeof dims[0]; i++)
        for (uint32_t flags = 0; flags < 4; flags++) {
            struct fm_params p = {i % 2 ? 3 : 300, vectors[(i + flags) % 3], dims[i], i % 3, flags & 1, flags >> 1};
            snprintf(what, sizeof what, "fm B %u S %u dim %u flags %u", p.B, p.S, p.dim, flags);
            case_check(what, fm_build, &p, PRODUCT_TOLERANCE);
        }
}

struct interact_params {
    uint32_t B, dim, gap, vectors[4]; /* vectors: of each input; 0: no such input */
    bool has_self, adds, wants_first, repeats;
};
static void interact_build(struct fixture *f, const void *params)
{
    const struct interact_params *p = params;
    struct hand_graph *h = &f->h;
    struct interact_attr attr = {.dim = p->dim, .has_self = p->has_self};
    struct hand_tensors in = {0};
    uint32_t adds[5] = {p->adds, 0, p->adds, 0, 1}, S = 0;
    hand_open(h, p->B, p->B + p->dim);
    for (uint32_t i = 0; i < 4 && p->vectors[i] > 0; i++) {
        uint32_t cols = p->vectors[i] * p->dim;
        in.t[in.count++] = i > 0 || p->wants_first ? hand_tensor_grad(h, p->B, cols, cols + p->gap)
                                                   : hand_tensor(h, p->B, cols, cols + p->gap);
        S += p->vectors[i];
    }
    if (p->repeats) {
        adds[in.count] = 1;
        in.t[in.count++] = in.t[0];
        S += p->vectors[0];
    }
    uint32_t pairs = S * (S - 1) / 2 + (p->has_self ? S : 0);
    uint32_t out = hand_tensor_grad(h, p->B, pairs, pairs + p->gap);
    hand_node(h, OP_ID_interact, in, (struct hand_tensors){0}, out, (struct hand_tensors){0}, &attr, sizeof attr, adds);
}

static void interact__odd_shapes__equals_reference(void **state)
{
    (void)state;
    static const uint32_t dims[] = {1, 3, 8, 16, 17, 31, 32, 33, 64, 70},
                          vectors[][4] = {{2}, {1, 1}, {1, 2, 1, 1}, {26, 1}, {1, 5, 3, 2}, {9, 7, 15}};
    char what[96];
    for (size_t i = 0; i < sizeof dims / sizeof dims[0]; i++)
        for (uint32_t flags = 0; flags < 16; flags++) {
            const uint32_t *v = vectors[(i + flags) % 6];
            struct interact_params p = {i % 3 ? 3 : 40, dims[i],          i % 2,    {v[0], v[1], v[2], v[3]}, flags & 1,
                                        flags & 2,      (flags & 4) == 0, flags & 8};
            snprintf(what, sizeof what, "interact B %u dim %u vectors %u %u flags %u", p.B, p.dim, v[0], v[1], flags);
            case_check(what, interact_build, &p, PRODUCT_TOLERANCE);
        }
}

struct attention_params {
    op_id op;
    uint32_t B, T, D, gap;
    bool is_softmax, adds, wants_first, wants_second, is_one; /* is_one: both inputs are one tensor */
};
static void attention_build(struct fixture *f, const void *params)
{
    const struct attention_params *p = params;
    struct hand_graph *h = &f->h;
    bool is_pool = p->op == OP_ID_attention_pool;
    uint32_t adds[3] = {p->adds, p->adds || p->is_one, 0}, cols = p->T * p->D, first_cols = is_pool ? p->T : p->D;
    hand_open(h, p->B, p->B + cols);
    uint32_t first = p->wants_first ? hand_tensor_grad(h, p->B, first_cols, first_cols + p->gap)
                                    : hand_tensor(h, p->B, first_cols, first_cols + p->gap);
    uint32_t second = first;
    if (!p->is_one)
        second = p->wants_second ? hand_tensor_grad(h, p->B, cols, cols + p->gap)
                                 : hand_tensor(h, p->B, cols, cols + p->gap);
    struct hand_tensors in = {2, {first, second}}, saved = {0};
    if (is_pool) {
        /* Every number of keys, none and all among them. */
        in.t[in.count++] = hand_field(h, 0);
        h->graph.field_count = 1;
        h->batch.key_begin = calloc(p->B + 1, sizeof *h->batch.key_begin);
        for (uint32_t b = 0; b < p->B; b++)
            h->batch.key_begin[b + 1] = h->batch.key_begin[b] + (p->T + 2 * b) % (p->T + 1);
    }
    uint32_t out_cols = is_pool ? p->D : 4 * cols, out = hand_tensor_grad(h, p->B, out_cols, out_cols + p->gap);
    if (p->is_softmax) saved = (struct hand_tensors){1, {hand_tensor(h, p->B, p->T, p->T + p->gap)}};
    struct attention_pool_attr attr = {.is_softmax = p->is_softmax};
    hand_node(h, p->op, in, (struct hand_tensors){0}, out, saved, &attr, is_pool ? sizeof attr : 0, adds);
}

static void attention_check(op_id op, double tolerance)
{
    static const uint32_t shapes[][3] = {{1, 1, 1}, {9, 3, 4}, {40, 50, 16}, {3, 17, 33}, {5, 2, 70}, {30, 16, 8}};
    char what[96];
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (uint32_t flags = 0; flags < 16; flags++) {
            struct attention_params p = {op,
                                         shapes[i][0],
                                         shapes[i][1],
                                         shapes[i][2],
                                         i % 3,
                                         .is_softmax = op == OP_ID_attention_pool && flags & 8,
                                         .adds = flags & 1,
                                         .wants_first = (flags & 6) != 2,
                                         .wants_second = (flags & 6) != 4,
                                         .is_one = (flags & 6) == 6};
            if (p.is_one && op == OP_ID_attention_pairs) p.T = 1;
            if (p.is_one && op == OP_ID_attention_pool) p.D = 1;
            snprintf(what, sizeof what, "%s B %u T %u D %u flags %u", op_table[op].name, p.B, p.T, p.D, flags);
            case_check(what, attention_build, &p, tolerance);
        }
}
static void attention_pairs__odd_shapes__equals_reference_to_the_bit(void **state)
{
    (void)state, attention_check(OP_ID_attention_pairs, EXACT);
}
static void attention_pool__odd_shapes__equals_reference(void **state)
{
    (void)state, attention_check(OP_ID_attention_pool, PRODUCT_TOLERANCE);
}

struct match_params {
    uint32_t B, D, n, gap;
    struct match_attr attr;
    bool adds, wants_dq, wants_dc, is_one; /* is_one: q is c, too */
};
static void match_build(struct fixture *f, const void *params)
{
    const struct match_params *p = params;
    struct hand_graph *h = &f->h;
    uint32_t adds[2] = {p->adds, p->adds || p->is_one}, cols = p->n * (p->D + p->attr.has_bias);
    hand_open(h, p->B, p->B + p->D);
    uint32_t q =
        p->wants_dq ? hand_tensor_grad(h, p->B, p->D, p->D + p->gap) : hand_tensor(h, p->B, p->D, p->D + p->gap);
    uint32_t c = q;
    if (!p->is_one)
        c = p->wants_dc ? hand_tensor_grad(h, p->B, cols, cols + p->gap) : hand_tensor(h, p->B, cols, cols + p->gap);
    uint32_t out = hand_tensor_grad(h, p->B, p->n, p->n + p->gap);
    struct hand_tensors saved = {0};
    if (p->attr.similarity == MATCH_COSINE)
        saved = (struct hand_tensors){
            2, {hand_tensor(h, p->B, p->n + 1, p->n + 1 + p->gap), hand_tensor(h, p->B, p->n, p->n)}};
    hand_node(h, OP_ID_match, (struct hand_tensors){2, {q, c}}, (struct hand_tensors){0}, out, saved, &p->attr,
              sizeof p->attr, adds);
}

static void match__odd_shapes__equals_reference(void **state)
{
    (void)state;
    static const uint32_t shapes[][3] = {{1, 1, 1},  {3, 4, 2},   {2, 16, 5},   {5, 17, 17}, {2, 64, 33},
                                         {3, 70, 3}, {1, 256, 9}, {40, 33, 20}, {2, 129, 1}};
    char what[96];
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (uint32_t flags = 0; flags < 24; flags++) {
            struct match_params p = {
                shapes[i][0],
                shapes[i][1],
                shapes[i][2],
                i % 3,
                {.similarity = flags / 8 == 2, .has_bias = flags / 8 == 1, .scale = 1.5f, .eps = 0.01f},
                .adds = flags & 1,
                .wants_dq = (flags & 6) != 2,
                .wants_dc = (flags & 6) != 4,
                .is_one = (flags & 6) == 6 && flags / 8 != 1};
            if (p.is_one) p.n = 1;
            snprintf(what, sizeof what, "match B %u D %u n %u flags %u", p.B, p.D, p.n, flags);
            case_check(what, match_build, &p, PRODUCT_TOLERANCE);
        }
}

struct values_params {
    op_id op;
    const float *value;
    uint32_t count;
};
static void values_build(struct fixture *f, const void *params)
{
    const struct values_params *p = params;
    hand_open(&f->h, 1, 1);
    uint32_t in = hand_tensor(&f->h, 1, p->count, p->count), out = hand_tensor(&f->h, 1, p->count, p->count);
    memcpy(f->h.view[in].data, p->value, p->count * sizeof(float));
    struct leaky_relu_attr attr = {.slope = 0.01f};
    hand_node(&f->h, p->op, (struct hand_tensors){1, {in}}, (struct hand_tensors){0}, out, (struct hand_tensors){0},
              &attr, sizeof attr, NULL);
}

/* Relative error of every element against the reference, which rounds a double once; where that is denormal,
 * absolute. */
static void values_check(op_id op, const float *value, uint32_t count, double tolerance)
{
    struct values_params p = {op, value, count};
    struct fixture *reference = fixture_open(values_build, &p);
    op_table[op].forward(&reference->h.context, &reference->h.node[0]);
    const float *expected = op_out(&reference->h.context, &reference->h.node[0]).data;
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        if (!isa_runs_here((enum isa)isa)) continue;
        struct fixture *f = fixture_open(values_build, &p);
        struct device *device;
        assert_int_equal(cpu_device_open(&device, &f->h.graph, 1, NULL, isa_names[isa]), ST_OK);
        assert_int_equal(device_submit(device, &f->h.context, &f->h.node[0], 1), ST_OK);
        device->vt->close(device);
        const float *got = op_out(&f->h.context, &f->h.node[0]).data;
        for (uint32_t i = 0; i < count; i++) {
            if (isnan(expected[i]) && isnan(got[i])) continue;
            double error = fabs((double)got[i] - (double)expected[i]);
            if (!(got[i] == expected[i]) && !(error <= tolerance * fabs((double)expected[i]) + 1e-37))
                fail_msg("%s %s of %a is %a, expected %a", isa_names[isa], op_table[op].name, (double)value[i],
                         (double)got[i], (double)expected[i]);
        }
        fixture_close(f);
    }
    fixture_close(reference);
}

static void activations__whole_range__within_six_roundings(void **state)
{
    (void)state;
    enum { COUNT = 40000 };
    static float value[COUNT];
    for (int i = 0; i < COUNT; i++) value[i] = ldexpf((float)(i % 1000 - 500) / 500, i / 1000 - 30);
    static const float special[] = {0.0f,   -0.0f,   INFINITY, -INFINITY, NAN,   87.5f,  -87.5f,
                                    1e-45f, -1e-45f, 3e38f,    -3e38f,    0.25f, -0.25f, 0x1.fffffep-3f};
    memcpy(value, special, sizeof special);
    values_check(OP_ID_tanh, value, COUNT, 6 * 0x1p-24);
    values_check(OP_ID_sigmoid, value, COUNT, 6 * 0x1p-24);
    values_check(OP_ID_softsign, value, COUNT, 0);
    values_check(OP_ID_relu, value, COUNT, 0);
    values_check(OP_ID_leaky_relu, value, COUNT, 0);
}

struct concat_params {
    uint32_t B;
    bool adds;
    uint32_t groups;
};
static void concat_build(struct fixture *f, const void *params)
{
    const struct concat_params *p = params;
    struct hand_graph *h = &f->h;
    hand_open(h, p->B, p->B);
    uint32_t adds[4] = {p->adds, 0, p->adds, 0};
    uint32_t G = p->groups;
    struct hand_tensors in = {4,
                              {hand_tensor_grad(h, p->B, 13 * G, 16 * G), hand_tensor(h, p->B, G, G),
                               hand_tensor_grad(h, p->B, 40 * G, 40 * G + 1), hand_tensor_grad(h, p->B, 3 * G, 3 * G)}};
    uint32_t out = hand_tensor_grad(h, p->B, 57 * G, 64 * G);
    hand_node(h, OP_ID_concat, in, (struct hand_tensors){0}, out, (struct hand_tensors){0},
              &(struct concat_attr){.groups = G}, sizeof(struct concat_attr), adds);
}

static void concat__some_gradients_wanted__equals_reference_to_the_bit(void **state)
{
    (void)state;
    for (uint32_t B = 1; B < 100; B += 49)
        for (int adds = 0; adds < 2; adds++)
            for (uint32_t groups = 1; groups <= 5; groups += 2)
                case_check("concat", concat_build, &(struct concat_params){B, adds, groups}, EXACT);
}

struct loss_params {
    op_id op;
    uint32_t B, C, saved_cols;
    bool adds, is_weighted, corrects;
    float half_width; /* of logits and log probabilities: those above 0 are hits */
};
static void loss_build(struct fixture *f, const void *params)
{
    static float weight[128];
    const struct loss_params *p = params;
    struct hand_graph *h = &f->h;
    bool has_label = op_table[p->op].inputs == OP_INPUTS_LOSS;
    hand_open(h, p->B, p->B + p->C);
    uint32_t x = hand_tensor_grad(h, p->B, p->C, p->C + 3),
             second = hand_tensor(h, p->B, has_label ? 1 : p->C, (has_label ? 1 : p->C) + 2);
    for (uint32_t b = 0; b < p->B; b++) {
        for (uint32_t j = 0; j < p->C; j++) h->view[x].data[b * h->view[x].stride + j] *= p->half_width;
        /* Every third label is none: one too many, not whole, not a number; its loss is NaN, its gradient that of no class. */
        float *label = &h->view[second].data[b * h->view[second].stride];
        const float none[] = {(float)p->C, 0.5f, -1};
        if (has_label) *label = b % 3 == 1 ? none[b / 3 % 3] : (float)((h->draw >> 33) % p->C);
        (void)hand_random(h);
        weight[b] = (float)(b % 5) / 2;
    }
    if (p->is_weighted) h->batch.weight = weight;
    uint32_t out = hand_tensor(h, p->B, 1, 1);
    struct hand_tensors saved = {0};
    if (p->saved_cols) saved = (struct hand_tensors){1, {hand_tensor(h, p->B, p->saved_cols, p->saved_cols)}};
    struct loss_attr attr = {.weight = 0.75f, .log_z = 1.5f, .corrects = p->corrects};
    hand_node(h, p->op, (struct hand_tensors){2, {x, second}}, (struct hand_tensors){0}, out, saved, &attr, sizeof attr,
              (uint32_t[]){p->adds, 0});
}

static void bce_logits__no_kernel__runs_as_reference(void **state)
{
    (void)state;
    case_check("bce_logits", loss_build, &(struct loss_params){OP_ID_bce_logits, 33, 1, .half_width = 1}, EXACT);
}

/* Around a vector, around a block of columns, and as wide as a vocabulary. */
static void losses_of_many_columns__any_shape__equal_reference(void **state)
{
    (void)state;
    static const uint32_t cols[] = {2, 3, 15, 16, 17, 100, 1023, 1025, 5000};
    static const struct loss_params of[] = {{OP_ID_softmax_loss, .saved_cols = LOSS_SAVED_COLS},
                                            {OP_ID_sampled_softmax, .saved_cols = LOSS_SAVED_COLS},
                                            {OP_ID_nce, .saved_cols = 1},
                                            {OP_ID_nce, .saved_cols = 1, .corrects = true}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        for (size_t k = 0; k < sizeof cols / sizeof *cols; k++)
            for (int variant = 0; variant < 4; variant++) {
                struct loss_params p = of[i];
                p.B = cols[k] > 1000 ? 7 : 37;
                p.C = cols[k];
                p.adds = variant & 1;
                p.is_weighted = variant & 2;
                p.half_width = variant == 3 ? 60 : 3;
                case_check(op_table[p.op].name, loss_build, &p, PRODUCT_TOLERANCE);
            }
}

static void submit__no_examples__touches_nothing(void **state)
{
    (void)state;
    struct fc_params p = {4, 5, 6, 0, {.has_bias = 1}, .wants_din = true, .wants_dweight = true};
    struct fixture *f = fixture_open(fc_build, &p), *untouched = fixture_open(fc_build, &p);
    f->h.batch.example_count = 0;
    device_run(f, isa_best(), 2, 0);
    fixtures_compare("empty micro-batch", f, untouched, EXACT);
    fixture_close(f);
    fixture_close(untouched);
}

/* --- opening ---------------------------------------------------------------------------------- */

static void open__unknown_isa__is_refused(void **state)
{
    (void)state;
    struct hand_graph h;
    struct device *device;
    hand_open(&h, 1, 1);
    assert_int_equal(cpu_device_open(&device, &h.graph, 1, NULL, "avx3"), ST_USAGE);
    assert_null(device);
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        bool runs = isa_runs_here((enum isa)isa);
        assert_int_equal(cpu_device_open(&device, &h.graph, 1, NULL, isa_names[isa]), runs ? ST_OK : ST_USAGE);
        if (!runs) continue;
        assert_int_equal(cpu_device_isa(device), isa);
        device->vt->close(device);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fc__odd_shapes__equal_reference_for_every_team),
        cmocka_unit_test(fc__every_fusion__equals_reference),
        cmocka_unit_test(fc__groups__equal_reference_for_every_team),
        cmocka_unit_test(fc__bf16__equals_reference_to_the_bit),
        cmocka_unit_test(fc__bf16_of_tiny_numbers__is_the_same_both_ways),
        cmocka_unit_test(embed_bag__any_pool_and_dim__equals_reference_to_the_bit),
        cmocka_unit_test(embed_bag__no_keys__is_zero),
        cmocka_unit_test(relu__odd_rows__equals_reference_to_the_bit),
        cmocka_unit_test(leaky_relu__odd_rows__equals_reference_to_the_bit),
        cmocka_unit_test(sigmoid__odd_rows__equals_reference),
        cmocka_unit_test(tanh__odd_rows__equals_reference),
        cmocka_unit_test(softsign__odd_rows__equals_reference_to_the_bit),
        cmocka_unit_test(dropout__odd_rows__equals_reference_to_the_bit),
        cmocka_unit_test(busy__odd_rows__equals_reference_to_the_bit),
        cmocka_unit_test(batch_norm__odd_shapes__equals_reference_to_the_bit),
        cmocka_unit_test(data_norm__odd_shapes__equals_reference_to_the_bit),
        cmocka_unit_test(softmax__odd_parts__equals_reference),
        cmocka_unit_test(softmax__extreme_numbers__are_as_in_the_reference),
        cmocka_unit_test(add_mul_cross__odd_widths__equal_reference),
        cmocka_unit_test(slice_reshape_sum_pool__odd_shapes__equal_reference_to_the_bit),
        cmocka_unit_test(fm__odd_shapes__equals_reference),
        cmocka_unit_test(interact__odd_shapes__equals_reference),
        cmocka_unit_test(attention_pairs__odd_shapes__equals_reference_to_the_bit),
        cmocka_unit_test(attention_pool__odd_shapes__equals_reference),
        cmocka_unit_test(match__odd_shapes__equals_reference),
        cmocka_unit_test(activations__whole_range__within_six_roundings),
        cmocka_unit_test(concat__some_gradients_wanted__equals_reference_to_the_bit),
        cmocka_unit_test(bce_logits__no_kernel__runs_as_reference),
        cmocka_unit_test(losses_of_many_columns__any_shape__equal_reference),
        cmocka_unit_test(submit__no_examples__touches_nothing),
        cmocka_unit_test(open__unknown_isa__is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
