/* The cpu device: chooses the kernels at open, then walks node lists. */
#include "engine/device/cpu/cpu_device.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/futex.h"
#include "engine/base/memory.h"
#include "engine/base/trace.h"
#include "engine/device/cpu/kernels.h"
#include "engine/device/kind.h"

static const struct cpu_kernels *const kernels_by_isa[ISA_COUNT] = {
    &cpu_kernels_base, &cpu_kernels_avx2, &cpu_kernels_avx512, &cpu_kernels_avx512, &cpu_kernels_avx512};
static const struct bf16_products *const bf16_by_isa[ISA_COUNT] = {
    &bf16_products_base, &bf16_products_avx2, &bf16_products_avx512, &bf16_products_avx512bf16, &bf16_products_amx};

struct cpu_device {
    struct device device; /* first: a struct device * is a struct cpu_device * */
    const struct cpu_kernels *kernels;
    enum isa isa;
    const struct resource_slow *slow; /* the caller's, or NULL */
    struct cpu_work work;
    uint64_t product_count;
    void *memory;
    size_t memory_bytes;
};

static status isa_choose(const char *name, enum isa *isa)
{
    if (!isa_find(name, isa))
        FAIL(USAGE, "unknown instruction set \"%s\"; expected base, avx2, avx512, avx512bf16 or amx", name);
    if (!isa_runs_here(*isa))
        FAIL(USAGE, "instruction set %s does not run on this processor; the best here is %s", name,
             isa_names[isa_best()]);
    return ST_OK;
}

/* The factor of an op in a step; 1 where nothing is slowed. */
static double slow_factor(const struct cpu_device *d, op_id op, uint64_t step)
{
    return d->slow && resource_is_slowed_at(d->slow, step) ? (double)d->slow->op[op] : 1;
}

/* Spins until the work that began at begin_ns has taken `factor` times its time so far. The
 * clock is the thread's own: else the factor would also multiply the time that others take
 * from the thread while an op runs. */
static void slow_spin(double factor, uint64_t begin_ns)
{
    if (!(factor > 1)) return;
    uint64_t now_ns = clock_thread_ns(), end_ns = begin_ns + (uint64_t)((double)(now_ns - begin_ns) * factor);
    while (now_ns < end_ns) {
        spin_pause();
        now_ns = clock_thread_ns();
    }
}

static status cpu_submit(struct device *device, const struct op_context *c, const struct graph_node *nodes,
                         uint32_t count)
{
    const struct cpu_device *d = (const struct cpu_device *)device;
    CHECK(c->graph == d->work.graph);
    if (c->batch->example_count == 0) return ST_OK;
    /* One reading of the clock ends an op and begins the next. */
    bool is_traced = trace_is_on();
    uint64_t begin_ns = is_traced ? clock_ns() : 0, begin_thread_ns = d->slow ? clock_thread_ns() : 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct graph_node *n = &nodes[i];
        bool is_forward = n->pass == PASS_FORWARD;
        if (!is_forward) n = &c->graph->nodes[n->other];
        cpu_kernel *kernel = is_forward ? d->kernels->forward[n->op] : d->kernels->backward[n->op];
        if (kernel != NULL)
            kernel(&d->work, c, n);
        else if (is_forward)
            op_table[n->op].forward(c, n);
        else
            op_table[n->op].backward(c, n);
        if (d->slow) {
            slow_spin(slow_factor(d, n->op, c->batch->step), begin_thread_ns);
            begin_thread_ns = clock_thread_ns();
        }
        if (!is_traced) continue;
        uint64_t end_ns = clock_ns();
        trace_put(is_forward ? TRACE_OP : TRACE_OP_BACKWARD, graph_string(c->graph, n->name), begin_ns, end_ns,
                  c->batch->step, c->batch->micro_index);
        begin_ns = end_ns;
    }
    return ST_OK;
}

static status cpu_update_rows(struct device *device, const struct table_update *update)
{
    const struct cpu_device *d = (const struct cpu_device *)device;
    uint64_t begin_ns = d->slow ? clock_thread_ns() : 0;
    d->kernels->update_rows(&d->work, update);
    if (d->slow) slow_spin(slow_factor(d, RESOURCE_SLOW_ROWS, update->t - 1), begin_ns);
    return ST_OK;
}

static status cpu_update_params(struct device *device, const struct param_update *update)
{
    const struct cpu_device *d = (const struct cpu_device *)device;
    uint64_t begin_ns = d->slow ? clock_thread_ns() : 0;
    d->kernels->update_params(&d->work, update);
    if (d->slow) slow_spin(slow_factor(d, RESOURCE_SLOW_PARAMS, update->t - 1), begin_ns);
    return ST_OK;
}

static status cpu_sum_params(struct device *device, const struct param_sums *sums)
{
    const struct cpu_device *d = (const struct cpu_device *)device;
    uint64_t begin_ns = d->slow ? clock_thread_ns() : 0;
    d->kernels->sum_params(&d->work, sums);
    if (d->slow) slow_spin(slow_factor(d, RESOURCE_SLOW_PARAMS, sums->t - 1), begin_ns);
    return ST_OK;
}

static status cpu_sum_rows(struct device *device, const struct table_sums *sums)
{
    const struct cpu_device *d = (const struct cpu_device *)device;
    uint64_t begin_ns = d->slow ? clock_thread_ns() : 0;
    d->kernels->sum_rows(&d->work, sums);
    if (d->slow) slow_spin(slow_factor(d, RESOURCE_SLOW_PARAMS, sums->t - 1), begin_ns);
    return ST_OK;
}

static void cpu_close(struct device *device)
{
    struct cpu_device *d = (struct cpu_device *)device;
    team_close(d->work.team);
    memory_give("kernel scratch", d->memory, d->memory_bytes);
    free(d);
}

static const struct device_vt cpu_vt = {
    .name = "cpu",
    .submit = cpu_submit,
    .update_rows = cpu_update_rows,
    .update_params = cpu_update_params,
    .sum_params = cpu_sum_params,
    .sum_rows = cpu_sum_rows,
    .close = cpu_close,
};

static void work_layout(struct cpu_work *work, struct layout *l)
{
    const struct graph *g = work->graph;
    const uint32_t **list;
    LAYOUT_TAKE(l, work->dz, (size_t)g->header->micro * work->dz_stride);
    LAYOUT_TAKE(l, work->packed, work->packed_floats);
    LAYOUT_TAKE(l, list, g->node_count);
    work->node_words = list;
    for (uint32_t i = 0; i < g->node_count; i++) {
        const struct graph_node *n = &g->nodes[i];
        const struct cpu_need *need = &cpu_needs[n->op];
        if (need->word_count == NULL || n->pass != PASS_FORWARD) continue;
        uint32_t *words;
        LAYOUT_TAKE(l, words, need->word_count(g, n));
        if (words != NULL && need->words_fill(g, n, words)) list[i] = words;
    }
}

static status memory_plan(struct cpu_device *d, const struct cpu_scratch *scratch)
{
    struct cpu_work *work = &d->work;
    work->dz_stride = scratch->dz_stride;
    work->packed_floats = scratch->packed_floats;
    if (work->packed_floats > 0) work->bf16_pairs = work->bf16->pairs_are_faster();
    struct layout sum = {0};
    work_layout(work, &sum);
    d->memory_bytes = sum.bytes;
    TRY(memory_take("kernel scratch", d->memory_bytes, &d->memory));
    work_layout(work, &(struct layout){.base = d->memory});
    return ST_OK;
}

status cpu_device_open(struct device **out, const struct graph *graph, uint32_t threads, const int *processors,
                       const char *isa)
{
    status st;
    *out = NULL;
    enum isa chosen;
    TRY(isa_choose(isa, &chosen));
    struct cpu_device *d = calloc(1, sizeof *d);
    if (d == NULL) FAIL(MEMORY, "no memory to describe the cpu device");
    d->device.vt = &cpu_vt;
    d->isa = chosen;
    d->kernels = kernels_by_isa[chosen];
    d->work.bf16 = bf16_by_isa[chosen];
    d->work.graph = graph;
    d->product_count = PRODUCT_NUMBERS;
    d->work.product_count = &d->product_count;
    const struct cpu_scratch scratch = cpu_scratch_of(graph);
    TRY_GOTO(memory_plan(d, &scratch), fail);
    TRY_GOTO(team_open(&d->work.team, threads, scratch.member_bytes, processors), fail);
    *out = &d->device;
    return ST_OK;
fail:
    cpu_close(&d->device);
    return st;
}

const struct cpu_kernels *cpu_kernels_of(const struct device *device) { return kernels_by_isa[cpu_device_isa(device)]; }

void cpu_device_slow_set(struct device *device, const struct resource_slow *slow)
{
    ((struct cpu_device *)device)->slow = slow;
}
void cpu_device_bf16_pairs_set(struct device *device, bool is_pairs)
{
    struct cpu_device *d = (struct cpu_device *)device;
    d->work.bf16_pairs = d->isa == ISA_amx || (is_pairs && d->isa == ISA_avx512bf16);
}
bool cpu_device_bf16_pairs(const struct device *device) { return ((const struct cpu_device *)device)->work.bf16_pairs; }
enum isa cpu_device_isa(const struct device *device)
{
    return device->vt == &cpu_vt ? ((const struct cpu_device *)device)->isa : isa_best();
}
struct team *cpu_device_team(struct device *device) { return ((struct cpu_device *)device)->work.team; }

/* --- as a kind of devices --------------------------------------------------------------------- */

static status kind_open(struct device **device, struct device_stage *stage, const struct device_stage_options *o,
                        const struct device_seat *seat)
{
    (void)stage;
    TRY(cpu_device_open(device, o->graph, seat->core_count, seat->processors, o->isa));
    team_spin_set(cpu_device_team(*device), o->spins);
    return ST_OK;
}

const struct device_kind device_kind_cpu = {
    .streams = 1,
    .replicas_max = UINT32_MAX,
    .has_cores = true,
    .open = kind_open,
    .slow_set = cpu_device_slow_set,
};
