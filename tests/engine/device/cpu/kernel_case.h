/* How kernels of every instruction set that runs here are tried: against the reference op within rounding (or
 * to the bit, where the kernel promises that), and against themselves, to the bit, for other numbers of
 * threads and other orders of the pieces. One case is a graph of one node, made again for every run, so that
 * all start from the same values. Included behind cmocka.h. */
#ifndef HETERPS_TESTS_ENGINE_CPU_KERNEL_CASE_H
#define HETERPS_TESTS_ENGINE_CPU_KERNEL_CASE_H

#include "cfg/settings.h"
#include "engine/bench/hand_graph.h"
#include "engine/device/cpu/cpu_device.h"
#include "engine/device/cpu/kernels.h"
#include "tests/engine/device/cpu/kernel_check.h"

/* Largest accepted |a - b| / (1 + |b|) of a product: 429 roundings of 6e-8 on sums of some tens. */
#define PRODUCT_TOLERANCE 5e-5

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

static inline void fixture_close(struct fixture *f)
{
    hand_close(&f->h);
    for (int t = 0; t < 2; t++) {
        struct ticket_table *tt = &f->ticket_table[t];
        free(tt->unique_of), free(tt->span), free(tt->occurrence_begin), free(tt->occurrence), free(tt->lane_row);
        free(f->table_grad[t]);
    }
    free(f->h.batch.key_begin), free(f->h.batch.key_home), free(f->h.batch.key), free(f->h.batch.value), free(f->row);
    free(f);
}

static inline struct fixture *fixture_open(fixture_build *build, const void *params)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    build(f, params);
    return f;
}

static inline void fixtures_compare(const char *what, const struct fixture *a, const struct fixture *b,
                                    double tolerance)
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

static inline void reference_run(struct fixture *f)
{
    const struct graph_node *n = &f->h.node[0];
    op_table[n->op].forward(&f->h.context, n);
    op_table[n->op].backward(&f->h.context, n);
}

/* What other kernels have left in a member's scratch: whoever reads it before he has written it is found. */
static inline void scratch_spoil(void *context, uint32_t piece, void *scratch)
{
    (void)piece;
    memset(scratch, 0xff, *(const size_t *)context); /* NaN */
}

static bool bf16_is_pairs; /* which of the two ways products in bfloat16 take, where there are two */

static inline void device_run(struct fixture *f, enum isa isa, uint32_t members, uint32_t delay_ns)
{
    struct device *device;
    assert_int_equal(cpu_device_open(&device, &f->h.graph, members, NULL, isa_names[isa]), ST_OK);
    cpu_device_bf16_pairs_set(device, bf16_is_pairs);
    team_delay_set(cpu_device_team(device), members, delay_ns);
    size_t scratch_bytes = cpu_scratch_of(&f->h.graph).member_bytes;
    if (scratch_bytes > 0) team_run(cpu_device_team(device), scratch_spoil, &scratch_bytes, 2 * members);
    assert_int_equal(device_submit(device, &f->h.context, &f->h.node[0], 1), ST_OK);
    assert_int_equal(device_submit(device, &f->h.context, &f->h.node[1], 1), ST_OK);
    device_close(device);
}

/* Forward, then backward, on the instruction sets [isa, end) and every team, against `run`. */
static inline void case_check_by(const char *what, fixture_build *build, const void *params, double tolerance,
                                 void (*run)(struct fixture *), int isa, int end)
{
    struct fixture *reference = fixture_open(build, params);
    run(reference);
    for (; isa < end; isa++) {
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

static inline void case_check(const char *what, fixture_build *build, const void *params, double tolerance)
{
    case_check_by(what, build, params, tolerance, reference_run, 0, ISA_COUNT);
}

#endif
