/* Backward against central differences of the summed loss, for every op of ops.def: each case is a model text; every
 * parameter and every number of every row that the input touches is moved by +-STEP. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>

#include "tests/graph/rig.h"

#define SEED 7
#define STEP 2e-3
/* Of the norm of a tensor's gradient; a norm below FLOOR counts as that. The loss, about 4, is computed in float32: its rounding moves a slope by
 * up to 3e-5, which is 2 % of some gradients that are nearly 0 (of a bias before softmax). Of the others, those behind a relu are the
 * farthest off, for a bend within the step that is too slight to be seen. */
#define TOLERANCE 6e-3
#define FLOOR     1e-2
#define EXAMPLES  6

#define DATA                                                                                                           \
    "[data]\ndense = I1..I3\nsparse = C1..C4\nids_max = 3\n[train]\nbatch = 6\nmicro = 6\noptimizer = sgd 0.1\nseed "  \
    "= 5\n"
#define TABLE "[table emb]\ndim = 3\n"
#define OUT   "[fc z]\ninput = h\nunits = 1\n[loss bce]\ninput = z\nlabel = label\n"
/* Keys with values. */
#define VALUES(pool)                                                                                                   \
    "[data]\nformat = libffm\nsparse = F0..F3\nids_max = 3\n[train]\nbatch = 6\nmicro = 6\noptimizer = sgd 0.1\nseed " \
    "= 5\n" TABLE "[embedding h]\ntable = emb\ninput = sparse\npool = " pool "\n" OUT
#define POOL(pool) DATA TABLE "[embedding h]\ntable = emb\ninput = sparse\npool = " pool "\n" OUT
/* An activation as the end of an fc; as an op that cannot be fused, because it follows a concat; twice in a row, so
 * that the second fc multiplies by the first one's slope. */
#define FUSED(act)                                                                                                     \
    DATA TABLE "[embedding e]\ntable = emb\ninput = sparse\n[concat x]\ninput = dense, e\n[fc h]\ninput = x\nunits = " \
               "5\nactivation = " act "\n" OUT
#define SEPARATE(act)                                                                                                  \
    DATA TABLE "[embedding e]\ntable = emb\ninput = sparse\n[concat x]\ninput = dense, e\n[" act " h]\ninput = "       \
               "x\n" OUT
#define SECTION(act) DATA "[fc x]\ninput = dense\nunits = 5\nlayer = a\n[" act " h]\ninput = x\nlayer = a\n" OUT
#define CHAIN(act)                                                                                                     \
    DATA TABLE "[embedding e]\ntable = emb\ninput = sparse\n[fc a]\ninput = e\nunits = 4\nactivation = " act           \
               "\nslope = 0.2\n"                                                                                       \
               "[fc h]\ninput = a\nunits = 5\nactivation = " act "\nslope = 0.3\n" OUT

/* The keys of C2 weighed against that of C1. */
#define ATTENTION(normalise)                                                                                           \
    DATA TABLE "[embedding q]\ntable = emb\ninput = C1\n[embedding h3]\ntable = emb\ninput = C2\npool = "              \
               "none\n[attention_pairs "                                                                               \
               "p]\ninput = q, h3\n[fc a1]\ninput = p\ngroups = 3\nunits = 4\nactivation = sigmoid\n[fc a2]\ninput = " \
               "a1\ngroups = "                                                                                         \
               "3\nunits = 1\n[attention_pool o]\ninput = a2, h3, C2\nnormalise = " normalise                          \
               "\n[concat h]\ninput = o, q\n" OUT

struct gradient_case {
    const char *name, *text;
};
static const struct gradient_case cases[] = {
    {"gradient__pool_sum__equals_central_difference", POOL("sum")},
    {"gradient__pool_mean__equals_central_difference", POOL("mean")},
    {"gradient__pool_max__equals_central_difference", POOL("max")},
    {"gradient__pool_sum_of_values__equals_central_difference", VALUES("sum")},
    {"gradient__pool_mean_of_values__equals_central_difference", VALUES("mean")},
    {"gradient__pool_max_of_values__equals_central_difference", VALUES("max")},
    {"gradient__pool_none_of_values__equals_central_difference", VALUES("none")},
    {"gradient__pool_none__equals_central_difference", POOL("none")},
    /* A field named twice, and its rows by another op too. */
    {"gradient__pool_none_beside_sum__equals_central_difference",
     DATA TABLE "[embedding e]\ntable = emb\ninput = C3, C1, C3\npool = none\n[embedding s]\ntable = emb\ninput = "
                "sparse\n[concat h]\ninput = s, e\n" OUT},
    {"gradient__fc_of_columns__equals_central_difference", DATA "[fc h]\ninput = dense\nunits = 4\n" OUT},
    {"gradient__fc_without_bias__equals_central_difference",
     DATA "[fc h]\ninput = dense\nunits = 4\nbias = no\nactivation = tanh\n" OUT},
    /* The second with one output a group, behind an activation whose slope it takes over. */
    {"gradient__fc_groups__equals_central_difference",
     DATA TABLE "[embedding e]\ntable = emb\ninput = sparse\n[fc a]\ninput = e\nunits = 5\ngroups = 4\nactivation = "
                "tanh\n[fc b]\ninput = a\nunits = 2\ngroups = 4\nactivation = tanh\n[fc h]\ninput = b\nunits = "
                "1\ngroups = 4\nbias = no\n" OUT},
    /* By one of the same input, by the one behind it, which takes over its slope, and by a group of it: four uses. */
    {"gradient__fc_share__adds", DATA TABLE
     "[embedding e]\ntable = emb\ninput = sparse\n[fc i]\ninput = e\nunits = 4\nactivation = sigmoid\n"
     "[fc a]\ninput = i\nunits = 4\nactivation = tanh\n[fc b]\ninput = a\nunits = 4\nshare = a\n"
     "activation = softsign\n[fc c]\ninput = i\nunits = 4\nshare = b\n[concat g]\ninput = b, e, c\n"
     "[fc d]\ninput = g\nunits = 4\ngroups = 5\nshare = a\nactivation = tanh\n[concat h]\ninput = d, c\n" OUT},
    {"gradient__relu_fused__equals_central_difference", FUSED("relu")},
    {"gradient__leaky_relu_fused__equals_central_difference", FUSED("leaky_relu\nslope = 0.2")},
    {"gradient__sigmoid_fused__equals_central_difference", FUSED("sigmoid")},
    {"gradient__tanh_fused__equals_central_difference", FUSED("tanh")},
    {"gradient__softsign_fused__equals_central_difference", FUSED("softsign")},
    {"gradient__relu_separate__equals_central_difference", SEPARATE("relu")},
    {"gradient__leaky_relu_separate__equals_central_difference", SEPARATE("leaky_relu")},
    {"gradient__sigmoid_separate__equals_central_difference", SEPARATE("sigmoid")},
    {"gradient__tanh_separate__equals_central_difference", SEPARATE("tanh")},
    {"gradient__softsign_separate__equals_central_difference", SEPARATE("softsign")},
    {"gradient__relu_section_after_fc__equals_central_difference", SECTION("relu")},
    {"gradient__leaky_relu_section_after_fc__equals_central_difference", SECTION("leaky_relu")},
    {"gradient__sigmoid_section_after_fc__equals_central_difference", SECTION("sigmoid")},
    {"gradient__tanh_section_after_fc__equals_central_difference", SECTION("tanh")},
    {"gradient__softsign_section_after_fc__equals_central_difference", SECTION("softsign")},
    {"gradient__relu_between_fcs__equals_central_difference", CHAIN("relu")},
    {"gradient__leaky_relu_between_fcs__equals_central_difference", CHAIN("leaky_relu")},
    {"gradient__sigmoid_between_fcs__equals_central_difference", CHAIN("sigmoid")},
    {"gradient__tanh_between_fcs__equals_central_difference", CHAIN("tanh")},
    {"gradient__softsign_between_fcs__equals_central_difference", CHAIN("softsign")},
    {"gradient__no_activation_between_fcs__equals_central_difference", CHAIN("none")},
    {"gradient__dropout__equals_central_difference", DATA TABLE
     "[embedding e]\ntable = emb\ninput = sparse\n[concat x]\ninput = e, dense\n[dropout d]\ninput = x\nrate = 0.4\n"
     "[fc a]\ninput = d\nunits = 6\nactivation = tanh\n[dropout h]\ninput = a\nrate = 0.3\n" OUT},
    /* a: by two fcs and a dropout, and twice by one concat. */
    {"gradient__concat_by_groups__equals_central_difference",
     DATA TABLE "[embedding e]\ntable = emb\ninput = C1..C3\n[concat p]\ninput = e, dense\ngroups = 3\n[fc a]\ninput = "
                "p\nunits = 6\nactivation = tanh\n[concat h]\ngroups = 3\ninput = a, e, a\n" OUT},
    {"gradient__tensor_read_by_several__adds",
     DATA TABLE "[embedding e]\ntable = emb\ninput = sparse\n[fc a]\ninput = e\nunits = 3\nactivation = sigmoid\n"
                "[fc b]\ninput = a\nunits = 2\nactivation = tanh\n[fc c]\ninput = a\nunits = 2\n[dropout d]\ninput = "
                "a\nrate = 0.2\n"
                "[sigmoid s]\ninput = a\n[concat h]\ninput = a, b, c, a, d, s, e\n" OUT},
    {"gradient__two_embeddings_over_one_table__adds",
     DATA TABLE "[table other]\ndim = 2\n[embedding e1]\ntable = emb\ninput = C1..C3\n[embedding e2]\ntable = "
                "emb\ninput = C4, C2\npool = max\n"
                "[embedding e3]\ntable = other\ninput = C2\npool = mean\n[concat h]\ninput = e1, e2, e3\n" OUT},
    {"gradient__batch_norm__equals_central_difference", DATA TABLE
     "[embedding e]\ntable = emb\ninput = sparse\n[concat x]\ninput = e, dense\n[batch_norm n]\ninput = x\n"
     "[fc a]\ninput = n\nunits = 6\nactivation = tanh\n[batch_norm h]\ninput = a\neps = 0.1\nmomentum = 0.5\n" OUT},
    /* a: by an activation of its layer, which then cannot be fused, and by a batch_norm between an fc and an activation;
     * of numeric columns, which have no gradient. */
    {"gradient__batch_norm_around_activations__equals_central_difference",
     DATA "[batch_norm i]\ninput = dense\n[fc a]\ninput = i\nunits = 4\nlayer = l\n[relu r]\ninput = a\nlayer = l\n"
          "[batch_norm n]\ninput = a\n[sigmoid s]\ninput = n\n[concat h]\ninput = r, s, n\n" OUT},
    /* Of numeric columns, which have no gradient, and of a tensor that somebody else reads too. */
    {"gradient__data_norm__equals_central_difference", DATA TABLE
     "[embedding e]\ntable = emb\ninput = sparse\n[data_norm i]\ninput = dense\n[fc a]\ninput = i\nunits = 4\n"
     "activation = tanh\n[data_norm n]\ninput = e\ndecay = 0.5\n[data_norm m]\ninput = a\n[concat h]\ninput = a, n, m, "
     "e\n" OUT},
    {"gradient__softmax__equals_central_difference", DATA TABLE
     "[embedding e]\ntable = emb\ninput = sparse\n[softmax s]\ninput = e\ngroups = 4\n[softmax t]\ninput = s\n"
     "[concat h]\ninput = s, t, e\n" OUT},
    /* Of equal width, of one column, of numeric columns, and a tensor with itself. */
    {"gradient__add__equals_central_difference", DATA TABLE
     "[embedding e]\ntable = emb\ninput = C1\n[fc w]\ninput = e\nunits = 1\n[fc a]\ninput = e\nunits = 3\nactivation = "
     "tanh\n[add s]\ninput = a, w, dense, e, e\n[add t]\ninput = w, w\n[add u]\ninput = t, s\n[concat h]\ninput = s, "
     "t, u\n" OUT},
    {"gradient__mul__equals_central_difference", DATA TABLE
     "[embedding e]\ntable = emb\ninput = C1, C2\n[fc w]\ninput = e\nunits = 1\n[fc a]\ninput = e\nunits = "
     "3\nactivation = "
     "tanh\n[mul p]\ninput = a, dense\n[mul q]\ninput = w, e\n[mul r]\ninput = e, w\n[mul s]\ninput = e, e\n[mul "
     "t]\ninput = w, w\n[concat h]\ninput = p, q, r, s, t, a\n" OUT},
    /* Of tensors that nobody else reads. */
    {"gradient__mul_of_slices__equals_central_difference", DATA TABLE
     "[embedding e]\ntable = emb\ninput = sparse\n[slice a]\ninput = e\nend = 6\n[slice b]\ninput = e\nbegin = 6\n[mul "
     "h]\ninput = a, b\n" OUT},
    /* Two layers over all inputs: one of full rank, one of low. */
    {"gradient__cross__equals_central_difference", DATA TABLE
     "[embedding e]\ntable = emb\ninput = C1\n[concat x0]\ninput = e, dense\n[fc z1]\ninput = x0\nunits = 6\n[cross "
     "c1]\ninput = x0, x0, z1\n[fc v2]\ninput = c1\nunits = 2\nbias = no\n[fc z2]\ninput = v2\nunits = 6\n[cross "
     "h]\ninput = x0, c1, z2\n" OUT},
    {"gradient__cross_of_one_tensor__equals_central_difference", DATA TABLE
     "[embedding e]\ntable = emb\ninput = C1\n[cross a]\ninput = dense, e, e\n[cross h]\ninput = a, a, a\n" OUT},
    /* Parts that overlap, that leave columns out, and of a tensor that others read before and behind. */
    {"gradient__slice__equals_central_difference", DATA TABLE
     "[embedding e]\ntable = emb\ninput = sparse\n[slice a]\ninput = e\nend = 5\n[slice b]\ninput = e\nbegin = 3\nend "
     "= "
     "10\n[slice c]\ninput = b\nbegin = 6\n[slice d]\ninput = dense\nbegin = 1\n[concat h]\ninput = a, c, d\n" OUT},
    {"gradient__reshape__equals_central_difference", DATA TABLE
     "[embedding e]\ntable = emb\ninput = sparse\n[reshape a]\ninput = e\nrows = 4\ntranspose = yes\n[reshape "
     "b]\ninput = "
     "e\nrows = 3\n[reshape c]\ninput = a\nrows = 12\ntranspose = yes\n[concat h]\ninput = c, b, a, e\n" OUT},
    /* Behind an embedding without pooling, where it is pool = sum; then halves of what that gives. */
    {"gradient__sum_pool__equals_central_difference", DATA TABLE
     "[embedding e]\ntable = emb\ninput = sparse\npool = none\n[sum_pool a]\ninput = e\ndim = 3\nrows = 3\n[sum_pool "
     "b]\ninput = a\ndim = 6\nrows = 2\n[sum_pool c]\ninput = a\ndim = 2\nrows = 1\n[concat h]\ninput = a, b, c\n" OUT},
    {"gradient__fm__equals_central_difference", DATA TABLE
     "[embedding e]\ntable = emb\ninput = sparse\n[fm f]\ninput = e\ndim = 3\n[fm g]\ninput = e\ndim = 2\nreduce = "
     "no\n[fm i]\ninput = dense\ndim = 1\n[concat h]\ninput = f, g, i\n" OUT},
    /* Of unequal inputs, of one of them twice, and of the numeric columns. */
    {"gradient__interact__equals_central_difference", DATA TABLE
     "[embedding e]\ntable = emb\ninput = sparse\n[fc a]\ninput = e\nunits = 3\nactivation = tanh\n[interact "
     "i]\ninput = a, e, dense\ndim = 3\n[interact k]\ninput = a, a, e, a\ndim = 3\nself = yes\n[interact "
     "l]\ninput = a\ndim = 1\n[concat h]\ninput = i, k, l\n" OUT},
    {"gradient__attention__equals_central_difference", ATTENTION("none")},
    {"gradient__attention_softmax__equals_central_difference", ATTENTION("softmax")},
    /* One tensor as both inputs, and numeric columns. */
    {"gradient__attention_of_itself__equals_central_difference", DATA TABLE
     "[fc a]\ninput = dense\nunits = 3\nactivation = tanh\n[attention_pairs p]\ninput = a, a\n[attention_pairs "
     "r]\ninput = dense, a\n[attention_pool o]\ninput = a, a, C2\nnormalise = softmax\n[attention_pool k]\ninput "
     "= dense, a, C3\n[embedding e]\ntable = emb\ninput = C2, C3\n[concat h]\ninput = p, r, o, k, e\n" OUT},
    {"gradient__match_dot__equals_central_difference",
     DATA TABLE "[embedding e]\ntable = emb\ninput = sparse\n[fc q]\ninput = dense\nunits = 3\n[match h]\ninput = q, "
                "e\nscale = 2.5\n" OUT},
    {"gradient__match_bias__equals_central_difference",
     DATA TABLE "[embedding e]\ntable = emb\ninput = C1\n[fc q]\ninput = dense\nunits = 2\n[fc c]\ninput = e\nunits = "
                "12\n[match h]\ninput = q, c\nbias = yes\n" OUT},
    {"gradient__match_cosine__equals_central_difference",
     DATA TABLE "[embedding e]\ntable = emb\ninput = sparse\n[fc q]\ninput = dense\nunits = 3\n[match h]\ninput = q, "
                "e\nsimilarity = cosine\nscale = 3\neps = 0.01\n" OUT},
    /* One tensor as both inputs, and the numeric columns as one. */
    {"gradient__match_of_itself__equals_central_difference",
     DATA "[fc a]\ninput = dense\nunits = 6\nactivation = tanh\n[match d]\ninput = a, a\n[match k]\ninput = a, "
          "a\nsimilarity = cosine\neps = 0.5\n[match l]\ninput = dense, a\nsimilarity = cosine\n[concat h]\ninput = d, "
          "k, l, a\n" OUT},
    {"gradient__busy__equals_central_difference", DATA TABLE
     "[embedding e]\ntable = emb\ninput = sparse\n[busy b]\ninput = e\nrounds = 3\n[busy c]\ninput = b\nrounds = 0\n"
     "[concat h]\ninput = b, c, e\n" OUT},
    /* Wider, narrower, and wider by what is no multiple. */
    {"gradient__busy_units__equals_central_difference", DATA TABLE
     "[embedding e]\ntable = emb\ninput = sparse\n[busy b]\ninput = e\nrounds = 0\nunits = 20\n[busy c]\ninput = "
     "b\nrounds = 1\nunits = 3\n[busy d]\ninput = c\nunits = 8\nrounds = 0\n[concat h]\ninput = b, c, d, e\n" OUT},
    {"gradient__softmax_loss__equals_central_difference",
     DATA "[fc h]\ninput = dense\nunits = 5\n[loss l]\nkind = softmax\ninput = h\nlabel = label\nweight = 0.7\n"},
    {"gradient__squared__equals_central_difference",
     DATA "[fc h]\ninput = dense\nunits = 1\n[loss l]\nkind = squared\ninput = h\nweight = 1.5\n"},
    {"gradient__hinge__equals_central_difference",
     DATA "[fc h]\ninput = dense\nunits = 1\n[fc i]\ninput = dense\nunits = 1\n[loss l]\nkind = hinge\nmargin = "
          "0.3\ninput = h, i\n[loss m]\nkind = hinge\ninput = i, I2\nweight = 0.5\n"},
    {"gradient__nce__equals_central_difference",
     DATA "[fc h]\ninput = dense\nunits = 3\n[loss l]\nkind = nce\ninput = h, dense\n"},
    {"gradient__nce_without_correction__equals_central_difference",
     DATA "[fc h]\ninput = dense\nunits = 3\n[loss l]\nkind = nce\ninput = h, dense\ncorrection = no\n"},
    {"gradient__sampled_softmax__equals_central_difference",
     DATA "[fc h]\ninput = dense\nunits = 3\n[loss l]\nkind = sampled_softmax\ninput = h, dense\nweight = 2\n"},
    /* Each adds to the gradients that the ones behind it have written; the first in a layer of its own before other ops;
     * metrics beside them, one of what nothing else reads. */
    {"gradient__all_heads__equals_central_difference", DATA TABLE
     "[embedding e]\ntable = emb\ninput = sparse\n[fc s]\ninput = e\nunits = 3\n[loss a]\nkind = softmax\ninput = "
     "s\nweight = 0.3\n[loss b]\nkind = nce\ninput = s, dense\nweight = 0.2\n[loss c]\nkind = "
     "sampled_softmax\ninput = s, dense\n[fc p]\ninput = s\nunits = 1\nactivation = tanh\n[fc q]\ninput = "
     "e\nunits = 1\n[loss d]\nkind = squared\ninput = p\nweight = 3\n[loss f]\nkind = hinge\ninput = p, "
     "q\n[loss g]\ninput = q\n[metric m]\ninput = s\nlabel = label\n[metric n]\nkind = hit_rate\ninput = s\nk = "
     "1\n[softmax r]\ninput = s\n[metric o]\nkind = ndcg\ninput = r, dense\n[metric t]\ninput = p, q\n"},
    {"gradient__weights_of_examples__equals_central_difference",
     DATA "[fc s]\ninput = dense\nunits = 3\n[fc p]\ninput = dense\nunits = 1\n[loss a]\nkind = softmax\ninput = "
          "s\n[loss b]\nkind = nce\ninput = s, dense\n[loss c]\nkind = sampled_softmax\ninput = s, dense\n[loss "
          "d]\nkind = squared\ninput = p\n[loss f]\nkind = hinge\ninput = p, I1\n[loss g]\ninput = p\n"},
    /* Every input lies within the output, and its gradient within the output's; so does a concat within the next one. */
    {"gradient__parts_of_a_concat__equals_central_difference",
     DATA "[table emb]\ndim = 16\n[embedding e]\ntable = emb\ninput = C1\n[embedding f]\ntable = emb\ninput = C1, C2\n"
          "[embedding p0]\ntable = emb\ninput = C3\n[fc p1]\ninput = e\nunits = 16\nactivation = tanh\n"
          "[relu p2]\ninput = e\n[leaky_relu p3]\ninput = e\n[sigmoid p4]\ninput = e\n[tanh p5]\ninput = e\n"
          "[softsign p6]\ninput = e\n[dropout p7]\ninput = e\nrate = 0.3\n[softmax p8]\ninput = e\n"
          "[concat p]\ninput = p0, p1, p2, p3, p4, p5, p6, p7, p8\n"
          "[batch_norm q0]\ninput = e\neps = 0.1\n[data_norm q1]\ninput = e\ndecay = 0.5\n[add q2]\ninput = e, e\n"
          "[mul q3]\ninput = e, e\n[cross q4]\ninput = e, e, e\n[slice q5]\ninput = f\nbegin = 8\nend = 24\n"
          "[reshape q6]\ninput = e\nrows = 4\ntranspose = yes\n[sum_pool q7]\ninput = f\ndim = 16\nrows = 2\n"
          "[fm q8]\ninput = f\ndim = 16\nreduce = no\n[busy q9]\ninput = e\nrounds = 2\n"
          "[slice w]\ninput = e\nend = 3\n[embedding v]\ntable = emb\ninput = C4\npool = none\n[attention_pool q10]\n"
          "input = w, v, C4\n[interact q11]\ninput = e, f\ndim = 16\n"
          "[concat h]\ninput = p, q0, q1, q2, q3, q4, q5, q6, q7, q8, q9, q10, q11\n" OUT},
    {"gradient__deep_and_wide__equals_central_difference",
     DATA TABLE "[table w]\ndim = 1\n[embedding e]\ntable = emb\ninput = sparse\npool = mean\n[embedding wide]\ntable "
                "= w\ninput = sparse\n"
                "[concat x]\ninput = e, dense\n[fc h1]\ninput = x\nunits = 20\nactivation = relu\n[fc h2]\ninput = "
                "h1\nunits = 7\nactivation = relu\n"
                "[concat h]\ninput = h2, wide\n" OUT},
};
#define CASE_COUNT (sizeof cases / sizeof *cases)

static bool op_is_seen[OP_ID_COUNT];
static double error_worst;
static char worst[128];
static uint32_t point_count, bend_count;

static double loss_at(struct rig *r, float *x, double value)
{
    *x = (float)value;
    rig_forward(r);
    return rig_loss(r);
}

/* Sums of squares, element by element. */
struct distance {
    double difference, norm;
};

static void distance_add(struct rig *r, struct distance *sum, float *x, float gradient)
{
    float kept = *x;
    /* The steps that were taken, after rounding. */
    float above = (float)((double)kept + STEP), below = (float)((double)kept - STEP);
    double at_above = loss_at(r, x, above), at_below = loss_at(r, x, below), here = loss_at(r, x, kept);
    double slope = (at_above - at_below) / ((double)above - (double)below);
    double right = (at_above - here) / ((double)above - (double)kept),
           left = (here - at_below) / ((double)kept - (double)below);
    /* A bend of relu or max within the step shows as two different slopes; the gradient is that of the side without
     * it. */
    if (fabs(right - left) > 0.02 * (fabs(right) + fabs(left)) + 1e-3) {
        slope = fabs(right - (double)gradient) < fabs(left - (double)gradient) ? right : left;
        bend_count++;
    }
    point_count++;
    sum->difference += (slope - (double)gradient) * (slope - (double)gradient);
    sum->norm += slope * slope;
}

static void distance_assert(const struct distance *sum, const char *case_name, const char *name)
{
    double error = sqrt(sum->difference) / fmax(sqrt(sum->norm), FLOOR);
    if (error > error_worst) {
        error_worst = error;
        snprintf(worst, sizeof worst, "%s of %s", name, case_name);
    }
    if (!(error < TOLERANCE))
        fail_msg("%s: gradient is off by %g of its norm; seed %d, step %g, tolerance %g", name, error, SEED, STEP,
                 TOLERANCE);
}

static void graph_of(struct graph *g, const char *text)
{
    if (graph_compile(g, "test.cfg", text, strlen(text), NULL, 0, NULL) != ST_OK) fail_msg("%s", status_message());
}

static bool is_statistic(const struct graph *g, const struct graph_tensor *t)
{
    return optimizer_table[g->optimizers[g->updates[t->update].optimizer].kind].is_internal;
}

/* A row's gradient: the sum of what its table's lookups have added up. */
static float row_gradient(const struct rig *r, uint32_t table, size_t at)
{
    uint32_t lookups[8], count = graph_table_lookups(r->g, table, NULL);
    float sum = 0;
    assert_true(count <= 8);
    graph_table_lookups(r->g, table, lookups);
    for (uint32_t i = 0; i < count; i++) sum += r->table_grad[lookups[i]][at];
    return sum;
}

/* A parameter's gradient: the sum of what all its uses have added up. */
static float param_gradient(const struct rig *r, const struct graph_tensor *t, uint64_t at)
{
    struct graph_alias aliases[4];
    assert_true(graph_aliases(r->g, t->offset, 1, NULL) <= 4);
    uint32_t count = graph_aliases(r->g, t->offset, 1, aliases);
    float sum = r->param_grad[r->g->tensors[t->grad].offset + at];
    for (uint32_t i = 0; i < count; i++) sum += r->param_grad[aliases[i].grad + at];
    return sum;
}

static void gradient__case__equals_central_difference(void **state)
{
    const struct gradient_case *test = *state;
    struct graph g;
    struct rig r;
    graph_of(&g, test->text);
    for (uint32_t i = 0; i < g.forward_count; i++) op_is_seen[g.nodes[i].op] = true;
    rig_open(&r, &g, SEED, EXAMPLES);
    float weight[EXAMPLES] = {0.5f, 2, 0, 1, 0.25f, 3};
    if (strstr(test->name, "weights_of_examples")) r.m.weight = weight;
    rig_forward(&r);
    rig_backward(&r);
    for (uint32_t i = 0; i < g.tensor_count; i++) {
        const struct graph_tensor *t = &g.tensors[i];
        if (t->kind != TENSOR_PARAM) continue;
        assert_int_not_equal(t->grad, GRAPH_NONE);
        if (t->is_alias || is_statistic(&g, t)) continue; /* what a statistic's backward pass adds is no gradient */
        struct distance sum = {0};
        for (uint64_t k = 0; k < (uint64_t)t->rows * t->cols; k++)
            distance_add(&r, &sum, &r.param[t->offset + k], param_gradient(&r, t, k));
        distance_assert(&sum, test->name, graph_string(&g, t->name));
    }
    for (uint32_t i = 0; i < g.table_count; i++) {
        const struct ticket_table *t = &r.ticket.table[i];
        struct distance sum = {0};
        for (uint32_t u = 0; u < t->unique_count; u++)
            for (uint32_t d = 0; d < g.tables[i].dim; d++)
                distance_add(&r, &sum, &t->span[u][d],
                             row_gradient(&r, i, (size_t)t->step_row[u] * g.tables[i].dim + d));
        distance_assert(&sum, test->name, graph_string(&g, g.tables[i].name));
    }
    if (r.m.weight == weight) r.m.weight = NULL;
    rig_close(&r);
    graph_close(&g);
}

/* A second micro-batch of the lane: here the same one, so every dense sum is exactly twice the first. */
static void backward__second_micro_batch__adds_to_the_lane(void **state)
{
    (void)state;
    struct graph g;
    struct rig r;
    graph_of(&g, cases[CASE_COUNT - 1].text);
    rig_open(&r, &g, SEED, EXAMPLES);
    rig_forward(&r);
    rig_backward(&r);
    float *param_grad = rig_take(g.header->param_floats * sizeof *param_grad);
    memcpy(param_grad, r.param_grad, g.header->param_floats * sizeof *param_grad);
    float row_grad = r.table_grad[0][0];
    rig_forward(&r);
    rig_backward(&r);
    for (uint64_t i = 0; i < g.header->param_floats; i++) assert_true(r.param_grad[i] == 2 * param_grad[i]);
    assert_true(row_grad != 0);
    assert_true(fabsf(r.table_grad[0][0] - 2 * row_grad) <= 1e-5f * fabsf(row_grad));
    free(param_grad);
    rig_close(&r);
    graph_close(&g);
}

/* The same table looked up by two ops: each adds to sums of its own, which the other leaves alone. */
static void backward__two_lookups_of_a_table__add_apart(void **state)
{
    (void)state;
    static const char two[] = DATA TABLE "[embedding e1]\ntable = emb\ninput = C1..C2\n[embedding e2]\ntable = emb\n"
                                         "input = C3, C4\n[concat h]\ninput = e1, e2\n" OUT;
    struct graph g;
    struct rig r;
    graph_of(&g, two);
    assert_int_equal(g.lookup_count, 2);
    rig_open(&r, &g, SEED, EXAMPLES);
    rig_forward(&r);
    const struct ticket_table *t = &r.ticket.table[0];
    size_t floats = (size_t)t->unique_count * g.tables[0].dim;
    float *first = rig_take(floats * sizeof *first);
    bool is_any[2] = {false, false};
    for (uint32_t i = g.forward_count; i < g.node_count; i++) {
        const struct graph_node *n = &g.nodes[g.nodes[i].other];
        op_table[n->op].backward(&r.context, n);
        if (strcmp(graph_string(&g, n->name), "e2") == 0) memcpy(first, r.table_grad[1], floats * sizeof *first);
    }
    assert_memory_equal(first, r.table_grad[1], floats * sizeof *first);
    for (uint32_t p = 0; p < r.m.key_count; p++) {
        uint32_t lookup = r.m.key_home[p] % g.field_count >= 2;
        const float *other = r.table_grad[!lookup] + (size_t)t->step_row[t->unique_of[p]] * g.tables[0].dim;
        /* The keys of a field are its own, so a row belongs to one of the two. */
        for (uint32_t d = 0; d < g.tables[0].dim; d++) {
            assert_true(other[d] == 0);
            is_any[lookup] = is_any[lookup] || r.table_grad[lookup][(size_t)t->step_row[t->unique_of[p]] * 3 + d] != 0;
        }
    }
    assert_true(is_any[0] && is_any[1]);
    free(first);
    rig_close(&r);
    graph_close(&g);
}

/* What the statistics' update sees: two micro-batches of 2 and 6 examples add up to 8 means' worth. */
static void batch_norm_backward__statistics__are_sums_over_examples(void **state)
{
    (void)state;
    static const char text[] = DATA "[batch_norm h]\ninput = dense\n" OUT;
    struct graph g;
    graph_of(&g, text);
    uint32_t node = 0, args;
    while (g.nodes[node].op != OP_ID_batch_norm) node++;
    args = g.nodes[node].arg_begin + g.nodes[node].input_count;
    double sum[3] = {0}, scatter[3] = {0};
    float found[2][3] = {{0}};
    for (uint32_t examples = 2; examples <= 6; examples += 4) {
        struct rig r;
        rig_open(&r, &g, SEED + examples, examples);
        rig_forward(&r);
        rig_backward(&r);
        for (uint32_t i = 0; i < 3; i++) {
            double mean = 0;
            for (uint32_t b = 0; b < examples; b++)
                mean += (double)r.m.dense[b * g.header->dense_stride + i] / examples;
            for (uint32_t b = 0; b < examples; b++)
                scatter[i] += pow((double)r.m.dense[b * g.header->dense_stride + i] - mean, 2);
            sum[i] += mean * examples;
            for (uint32_t k = 0; k < 2; k++)
                found[k][i] += r.param_grad[g.tensors[g.args[args + BATCH_NORM_MEAN + k]].offset + i];
        }
        rig_close(&r);
    }
    for (uint32_t i = 0; i < 3; i++) {
        if (!(fabs((double)found[0][i] - sum[i]) < 1e-5)) fail_msg("sum %g, expected %g", (double)found[0][i], sum[i]);
        if (!(fabs((double)found[1][i] - scatter[i]) < 1e-5))
            fail_msg("rows times variance %g, expected %g", (double)found[1][i], scatter[i]);
    }
    graph_close(&g);
}

/* What the statistics' update sees of two micro-batches of 2 and 6 examples; behind a slice of all columns, whose output nobody
 * else reads. */
static void data_norm_backward__statistics__are_sums_over_examples(void **state)
{
    (void)state;
    static const char text[] = DATA "[slice x]\ninput = dense\n[data_norm h]\ninput = x\neps = 0.5\n" OUT;
    struct graph g;
    graph_of(&g, text);
    assert_int_equal(g.nodes[1].op, OP_ID_data_norm);
    const uint32_t *param = &g.args[g.nodes[1].arg_begin + 1];
    for (uint32_t examples = 2; examples <= 6; examples += 4) {
        struct rig r;
        rig_open(&r, &g, SEED + examples, examples);
        float *found[DATA_NORM_PARAMS];
        for (uint32_t k = 0; k < DATA_NORM_PARAMS; k++) found[k] = &r.param_grad[g.tensors[param[k]].offset];
        for (uint32_t i = 0; i < 3; i++) found[DATA_NORM_SUM][i] = 100; /* of a micro-batch before */
        rig_forward(&r);
        rig_backward(&r);
        for (uint32_t i = 0; i < 3; i++) {
            double size = (double)r.param[g.tensors[param[DATA_NORM_SIZE]].offset + i],
                   mean = (double)r.param[g.tensors[param[DATA_NORM_SUM]].offset + i] / size, sum = 100, square_sum = 0;
            for (uint32_t b = 0; b < examples; b++) {
                double x = (double)r.m.dense[b * g.header->dense_stride + i];
                sum += x;
                square_sum += pow(x - mean, 2) + 0.5;
            }
            assert_true(found[DATA_NORM_SIZE][i] == (float)examples);
            assert_true(fabs((double)found[DATA_NORM_SUM][i] - sum) < 1e-4);
            assert_true(fabs((double)found[DATA_NORM_SQUARE_SUM][i] - square_sum) < 1e-4);
        }
        rig_close(&r);
    }
    graph_close(&g);
}

/* An activation section right behind its fc is merged into it; an fc behind an activated fc does its slope. */
static void compile_fuse__activation_behind_fc__is_merged(void **state)
{
    (void)state;
    static const char *const names[] = {"relu", "leaky_relu", "sigmoid", "tanh", "softsign"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char text[1024];
        struct graph g;
        snprintf(text, sizeof text,
                 DATA "[fc x]\ninput = dense\nunits = 5\nlayer = a\n[%s h]\ninput = x\nlayer = a\n" OUT, names[i]);
        graph_of(&g, text);
        assert_int_equal(g.forward_count, 3);
        struct fc_attr first, second;
        memcpy(&first, g.nodes[0].attr, sizeof first);
        memcpy(&second, g.nodes[1].attr, sizeof second);
        assert_int_equal(first.activation, ACT_RELU + i);
        assert_int_equal(first.dout_is_dz, 1);
        assert_int_equal(second.input_activation, ACT_RELU + i);
        graph_close(&g);
    }
}

/* Runs last: the cases above have marked the ops of their graphs. */
static void ops_def__every_op__has_a_case(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < OP_ID_COUNT; i++)
        if (!op_is_seen[i]) fail_msg("no case has an op %s", op_table[i].name);
    printf(
        "# gradients: seed %d, step %g, tolerance %g of the norm, worst %.1e (%s); %u numbers, %u of them at a bend\n",
        SEED, STEP, TOLERANCE, error_worst, worst, point_count, bend_count);
    assert_true(bend_count < point_count / 50);
}

int main(void)
{
    struct CMUnitTest tests[CASE_COUNT + 6];
    memset(tests, 0, sizeof tests);
    for (size_t i = 0; i < CASE_COUNT; i++)
        tests[i] = (struct CMUnitTest){cases[i].name, gradient__case__equals_central_difference, NULL, NULL,
                                       (void *)(uintptr_t)&cases[i]};
    tests[CASE_COUNT] = (struct CMUnitTest)cmocka_unit_test(backward__second_micro_batch__adds_to_the_lane);
    tests[CASE_COUNT + 1] = (struct CMUnitTest)cmocka_unit_test(compile_fuse__activation_behind_fc__is_merged);
    tests[CASE_COUNT + 2] = (struct CMUnitTest)cmocka_unit_test(backward__two_lookups_of_a_table__add_apart);
    tests[CASE_COUNT + 3] =
        (struct CMUnitTest)cmocka_unit_test(batch_norm_backward__statistics__are_sums_over_examples);
    tests[CASE_COUNT + 4] = (struct CMUnitTest)cmocka_unit_test(data_norm_backward__statistics__are_sums_over_examples);
    tests[CASE_COUNT + 5] = (struct CMUnitTest)cmocka_unit_test(ops_def__every_op__has_a_case);
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
