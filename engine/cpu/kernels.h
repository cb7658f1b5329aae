/* What the device and its kernels agree on. isa/ is compiled once for each instruction set, with ISA defined as its
 * name; each compilation exports one table. */
#ifndef HETERPS_ENGINE_CPU_KERNELS_H
#define HETERPS_ENGINE_CPU_KERNELS_H

#include "engine/pipe/team.h"
#include "graph/device.h"

/* What every kernel is given besides its node. Set once at open. */
struct cpu_work {
    struct team *team;
    const struct graph *graph;
    float *dz; /* [micro, dz_stride]: fc's gradient before its activation   */
    uint32_t dz_stride;
    const uint32_t *const *column_of_field; /* [node][field]: where an embed_bag's output has a field, or NONE; NULL for
                                               other nodes, and where a field is an input twice             */
};

/* Runs one node on the team: gets the forward node in both passes (graph/op.h). */
typedef void cpu_kernel(const struct cpu_work *, const struct op_context *, const struct graph_node *);

struct cpu_kernels {
    const char *name;
    cpu_kernel *forward[OP_ID_COUNT], *backward[OP_ID_COUNT]; /* NULL: the reference */
    void (*update_rows)(const struct cpu_work *, const struct table_update *);
    void (*update_params)(const struct cpu_work *, const struct param_update *);
    void (*sum_params)(const struct cpu_work *, const struct param_sums *);
};
extern const struct cpu_kernels cpu_kernels_base, cpu_kernels_avx2, cpu_kernels_avx512;

/* A member's scratch: one packed panel and one strip of partial sums of a product (isa/fc.c), the widest of all
 * sets. */
#define FC_BLOCK          128u /* terms of an element's sum between two visits to its partial sum                  */
#define FC_ROWS_MAX       256u /* rows of a piece                                                                  */
#define FC_PANEL_MAX      32u  /* columns of a panel                                                               */
#define CPU_SCRATCH_BYTES ((FC_BLOCK + FC_ROWS_MAX) * FC_PANEL_MAX * sizeof(float))

#endif
