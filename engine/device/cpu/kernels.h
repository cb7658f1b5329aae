/* The contract between the device and its kernels. isa/ is compiled once for each width of vectors, isa/bf16
 * once for each instruction set, with ISA defined as its name; each compilation exports one table. */
#ifndef HETERPS_ENGINE_DEVICE_CPU_KERNELS_H
#define HETERPS_ENGINE_DEVICE_CPU_KERNELS_H

#include "engine/device/cpu/team.h"
#include "graph/device.h"

/* Every kernel gets this besides its node. Set once at open. */
struct cpu_work {
    struct team *team;
    const struct graph *graph;
    float *dz; /* [micro, dz_stride]: fc's gradient before its activation   */
    uint32_t dz_stride;
    /* [packed_floats]: an op's scratch in a pass: packed right factors,
     * a shared_softmax's arrays, a tree's batches */
    float *packed;
    size_t packed_floats;
    uint64_t *product_count; /* the latest product's number */
    const struct bf16_products *bf16;
    bool bf16_pairs;                   /* how bf16's factors are packed (isa/bf16/pack_bf16.h) */
    const uint32_t *const *node_words; /* [node]: the words of cpu_need.words_fill; NULL: none */
};

/* Runs one node on the team: gets the forward node in both passes (graph/op.h). */
typedef void cpu_kernel(const struct cpu_work *, const struct op_context *, const struct graph_node *);

struct cpu_kernels {
    cpu_kernel *forward[OP_ID_COUNT], *backward[OP_ID_COUNT]; /* NULL: the reference */
    void (*update_rows)(const struct cpu_work *, const struct table_update *);
    void (*update_params)(const struct cpu_work *, const struct param_update *);
    void (*sum_params)(const struct cpu_work *, const struct param_sums *);
    void (*sum_rows)(const struct cpu_work *, const struct table_sums *);
    /* Ranking (engine/eval/rank.h); no team. Words lie in panels of `panel_words`: word w's bias, then its
     * numbers, are the panel's floats w % panel_words, panel_words + w % panel_words, … */
    uint32_t panel_words;
    /* scores[r][w] = bias + sum over d, in order, of query[r][d] * word[d], for all words of the panels. */
    void (*score)(float *scores, size_t scores_stride, const float *query, size_t query_stride, uint32_t rows,
                  const float *panels, uint32_t panel_count, uint32_t dim);
    float (*greatest)(const float *x, size_t count);
    /* Sum of exp(x - greatest), blocks of a thousand added in double. */
    double (*exp_sum)(const float *x, size_t count, float greatest);
    /* Counts the numbers above x0, and those equal to it. */
    void (*above_count)(const float *x, size_t count, float x0, uint64_t *above, uint64_t *equal);
    /* The first index from `from` on whose x is above x0; `count` if there is none. */
    size_t (*above_next)(const float *x, size_t from, size_t count, float x0);
};
const struct cpu_kernels *cpu_kernels_of(const struct device *device);
extern const struct cpu_kernels cpu_kernels_base, cpu_kernels_avx2, cpu_kernels_avx512;

struct product; /* isa/product.h */
/* A piece's place: rows of each of its groups of rows, and columns. */
struct product_place {
    uint32_t row, rows, col, cols, group, groups;
};
/* product_cut, product_pack and product_piece (isa/product.h) for a product in bfloat16. Pieces of packing,
 * if there are any, come before those that multiply. */
struct bf16_products {
    uint32_t rows;                                         /* multiplied at a time: a piece begins at a multiple */
    uint32_t cols;                                         /* of a piece, most                                   */
    void (*cut)(struct product *p, uint32_t members);      /* sets pack_count, pack_panels and packed_floats      */
    void (*pack)(const struct product *p, uint32_t piece); /* packs a piece                                       */
    void (*piece)(const struct product *p, struct product_place at, void *scratch);
    /* Whether VDPBF16PS is there and multiplies faster here than fused multiply-adds of rounded factors:
     * measures both, about 100 us. */
    bool (*pairs_are_faster)(void);
};
extern const struct bf16_products bf16_products_base, bf16_products_avx2, bf16_products_avx512,
    bf16_products_avx512bf16, bf16_products_amx;

/* A member's scratch in interact (isa/interact.c): an example's vectors, a multiple of INTERACT_PAD floats
 * apart, and room for INTERACT_ROWS_MORE vectors behind the last. */
#define INTERACT_PAD       16u
#define INTERACT_ROWS_MORE 3u
static inline uint32_t interact_stride(uint32_t dim) { return (dim + INTERACT_PAD - 1) / INTERACT_PAD * INTERACT_PAD; }

/* The arrays of shared_softmax (isa/shared_softmax.c) in cpu_work's packed, for a full micro-batch: N words
 * of D numbers. N_stride is whole panels of any set, D_stride whole cache lines. */
struct shared_scratch {
    uint32_t N_stride, D_stride;
    uint64_t *key;  /* [N]                                                            */
    float *panels;  /* [N / panel][D + 1][panel]: minus log q, then the vectors        */
    float *hats;    /* [N, D]: vectors, normalised                                    */
    float *queries; /* [micro, D]: likewise                                           */
    float *G;       /* [micro, N_stride]: gradients of similarities                   */
};
/* A member's scratch has the vectors and logits of a piece's examples. */
#define SHARED_PIECE_ROWS 16u
/* Places the arrays in `packed` (NULL: only counts); returns the floats that they take. */
size_t shared_scratch_place(struct shared_scratch *at, float *packed, uint32_t micro, uint32_t words, uint32_t D);

/* A member's scratch, unless an interact or a shared_softmax needs more: packed blocks of a product's right
 * factor (isa/product.c), a packed tile of the left one, a tile of sums, and which blocks are there. It has
 * room for the widest and highest tiles of all sets. */
#define PRODUCT_TERMS      512u /* of a block                                                                        */
#define PRODUCT_COLS       256u
#define PRODUCT_LEFT       32u
#define PRODUCT_TILE_BYTES (32 * 32 * sizeof(float))
#define FC_PANEL_MAX       32u /* columns of a panel                                                                  */
/* floats of the blocks: half of a usual second cache */
#define PRODUCT_KEPT       (2u * PRODUCT_TERMS * PRODUCT_COLS)
#define PRODUCT_KEPT_BYTES 16u
/* Floats of a right factor that is packed whole (isa/product_whole.c), for any set. */
static inline size_t product_whole_floats(size_t terms, size_t cols)
{
    return terms * ((cols + FC_PANEL_MAX - 1) / FC_PANEL_MAX * FC_PANEL_MAX);
}
/* Products are numbered from here. The upper half is a signalling NaN, which no arithmetic and
 * no rounding leaves in a scratch. */
#define PRODUCT_NUMBERS (UINT64_C(0x7fa00000) << 32)
#define CPU_SCRATCH_BYTES                                                                                              \
    ((PRODUCT_KEPT + PRODUCT_TERMS * PRODUCT_LEFT) * sizeof(float) + PRODUCT_TILE_BYTES + PRODUCT_KEPT_BYTES)

/* --- what kernels need besides the tensors of their node, in every instruction set (needs.c) ----- */

/* The most scratch that any node of a graph needs. */
struct cpu_scratch {
    uint32_t dz_stride; /* of cpu_work */
    size_t packed_floats;
    size_t member_bytes; /* of each member of the team */
};
struct cpu_scratch cpu_scratch_of(const struct graph *graph);

/* The needs of an op, as cpu_ops.def lists them. NULL: none. */
struct cpu_need {
    /* Raises `most` to what the forward node and its backward node need. */
    void (*scratch)(const struct graph *graph, const struct graph_node *n, struct cpu_scratch *most);
    /* Words about a forward node, made once at open: how many, and which. False: this node has none. */
    uint32_t (*word_count)(const struct graph *graph, const struct graph_node *n);
    bool (*words_fill)(const struct graph *graph, const struct graph_node *n, uint32_t *words);
};
extern const struct cpu_need cpu_needs[OP_ID_COUNT];

#endif
