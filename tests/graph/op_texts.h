/* Model texts with every op of ops.def in every way in which it can be used:
 * tests run them forward and backward. */
#ifndef HETERPS_TESTS_GRAPH_OP_TEXTS_H
#define HETERPS_TESTS_GRAPH_OP_TEXTS_H

#define DATA                                                                                                           \
    "[data]\ndense = I1..I3\nsparse = C1..C4\nids_max = 3\n"                                                           \
    "[train]\nbatch = 6\nmicro = 6\noptimizer = sgd 0.1\nseed = 5\n"
#define TABLE "[table emb]\ndim = 3\n"
#define OUT   "[fc z]\ninput = h\nunits = 1\n[loss bce]\ninput = z\nlabel = label\n"
/* Keys with values. */
#define VALUES(pool)                                                                                                   \
    "[data]\nformat = libffm\nsparse = F0..F3\nids_max = 3\n[train]\nbatch = 6\nmicro = 6\noptimizer = sgd 0.1\n"      \
    "seed = 5\n" TABLE "[embedding h]\ntable = emb\ninput = sparse\npool = " pool "\n" OUT
#define POOL(pool) DATA TABLE "[embedding h]\ntable = emb\ninput = sparse\npool = " pool "\n" OUT
/* An activation as the end of an fc; as an op that cannot be fused, because it follows a concat; twice in a
 * row, so that the second fc multiplies by the first one's slope. */
#define FUSED(act)                                                                                                     \
    DATA TABLE "[embedding e]\ntable = emb\ninput = sparse\n[concat x]\ninput = dense, e\n"                            \
               "[fc h]\ninput = x\nunits = 5\nactivation = " act "\n" OUT
#define SEPARATE(act)                                                                                                  \
    DATA TABLE "[embedding e]\ntable = emb\ninput = sparse\n[concat x]\ninput = dense, e\n[" act " h]\n"               \
               "input = x\n" OUT
#define SECTION(act) DATA "[fc x]\ninput = dense\nunits = 5\nlayer = a\n[" act " h]\ninput = x\nlayer = a\n" OUT
#define CHAIN(act)                                                                                                     \
    DATA TABLE "[embedding e]\ntable = emb\ninput = sparse\n[fc a]\ninput = e\nunits = 4\nactivation = " act           \
               "\nslope = 0.2\n"                                                                                       \
               "[fc h]\ninput = a\nunits = 5\nactivation = " act "\nslope = 0.3\n" OUT

/* The keys of C2 weighed against that of C1. */
#define ATTENTION(normalise)                                                                                           \
    DATA TABLE "[embedding q]\ntable = emb\ninput = C1\n[embedding h3]\ntable = emb\ninput = C2\npool = none\n"        \
               "[attention_pairs p]\ninput = q, h3\n"                                                                  \
               "[fc a1]\ninput = p\ngroups = 3\nunits = 4\nactivation = sigmoid\n"                                     \
               "[fc a2]\ninput = a1\ngroups = 3\nunits = 1\n"                                                          \
               "[attention_pool o]\ninput = a2, h3, C2\nnormalise = " normalise "\n[concat h]\ninput = o, q\n" OUT

struct op_text {
    const char *name, *text;
};
static const struct op_text op_texts[] = {
    {"pool_sum", POOL("sum")},
    {"pool_mean", POOL("mean")},
    {"pool_max", POOL("max")},
    {"pool_sum_of_values", VALUES("sum")},
    {"pool_mean_of_values", VALUES("mean")},
    {"pool_max_of_values", VALUES("max")},
    {"pool_none_of_values", VALUES("none")},
    {"pool_none", POOL("none")},
    /* A field named twice, and its rows by another op too. */
    {"pool_none_beside_sum", DATA TABLE "[embedding e]\ntable = emb\ninput = C3, C1, C3\npool = none\n"
                                        "[embedding s]\ntable = emb\ninput = sparse\n[concat h]\ninput = s, e\n" OUT},
    {"fc_of_columns", DATA "[fc h]\ninput = dense\nunits = 4\n" OUT},
    {"fc_without_bias", DATA "[fc h]\ninput = dense\nunits = 4\nbias = no\nactivation = tanh\n" OUT},
    /* The second with one output a group, behind an activation whose slope it takes over. */
    {"fc_groups",
     DATA TABLE "[embedding e]\ntable = emb\ninput = sparse\n[fc a]\ninput = e\nunits = 5\n"
                "groups = 4\nactivation = tanh\n[fc b]\ninput = a\nunits = 2\ngroups = 4\nactivation = tanh\n"
                "[fc h]\ninput = b\nunits = 1\ngroups = 4\nbias = no\n" OUT},
    /* By one of the same input, by the one behind it, which takes over its slope,
     * and by a group of it: four uses. */
    {"fc_share__adds", DATA TABLE
     "[embedding e]\ntable = emb\ninput = sparse\n[fc i]\ninput = e\nunits = 4\nactivation = sigmoid\n"
     "[fc a]\ninput = i\nunits = 4\nactivation = tanh\n[fc b]\ninput = a\nunits = 4\nshare = a\n"
     "activation = softsign\n[fc c]\ninput = i\nunits = 4\nshare = b\n[concat g]\ninput = b, e, c\n"
     "[fc d]\ninput = g\nunits = 4\ngroups = 5\nshare = a\nactivation = tanh\n[concat h]\ninput = d, c\n" OUT},
    {"relu_fused", FUSED("relu")},
    {"leaky_relu_fused", FUSED("leaky_relu\nslope = 0.2")},
    {"sigmoid_fused", FUSED("sigmoid")},
    {"tanh_fused", FUSED("tanh")},
    {"softsign_fused", FUSED("softsign")},
    {"relu_separate", SEPARATE("relu")},
    {"leaky_relu_separate", SEPARATE("leaky_relu")},
    {"sigmoid_separate", SEPARATE("sigmoid")},
    {"tanh_separate", SEPARATE("tanh")},
    {"softsign_separate", SEPARATE("softsign")},
    {"relu_section_after_fc", SECTION("relu")},
    {"leaky_relu_section_after_fc", SECTION("leaky_relu")},
    {"sigmoid_section_after_fc", SECTION("sigmoid")},
    {"tanh_section_after_fc", SECTION("tanh")},
    {"softsign_section_after_fc", SECTION("softsign")},
    {"relu_between_fcs", CHAIN("relu")},
    {"leaky_relu_between_fcs", CHAIN("leaky_relu")},
    {"sigmoid_between_fcs", CHAIN("sigmoid")},
    {"tanh_between_fcs", CHAIN("tanh")},
    {"softsign_between_fcs", CHAIN("softsign")},
    {"no_activation_between_fcs", CHAIN("none")},
    {"dropout", DATA TABLE
     "[embedding e]\ntable = emb\ninput = sparse\n[concat x]\ninput = e, dense\n[dropout d]\ninput = x\nrate = 0.4\n"
     "[fc a]\ninput = d\nunits = 6\nactivation = tanh\n[dropout h]\ninput = a\nrate = 0.3\n" OUT},
    /* a: by two fcs and a dropout, and twice by one concat. */
    {"concat_by_groups",
     DATA TABLE "[embedding e]\ntable = emb\ninput = C1..C3\n[concat p]\ninput = e, dense\ngroups = 3\n"
                "[fc a]\ninput = p\nunits = 6\nactivation = tanh\n[concat h]\ngroups = 3\ninput = a, e, a\n" OUT},
    {"tensor_read_by_several__adds",
     DATA TABLE "[embedding e]\ntable = emb\ninput = sparse\n[fc a]\ninput = e\nunits = 3\nactivation = sigmoid\n"
                "[fc b]\ninput = a\nunits = 2\nactivation = tanh\n[fc c]\ninput = a\nunits = 2\n"
                "[dropout d]\ninput = a\nrate = 0.2\n"
                "[sigmoid s]\ninput = a\n[concat h]\ninput = a, b, c, a, d, s, e\n" OUT},
    {"two_embeddings_over_one_table__adds",
     DATA TABLE "[table other]\ndim = 2\n[embedding e1]\ntable = emb\ninput = C1..C3\n"
                "[embedding e2]\ntable = emb\ninput = C4, C2\npool = max\n"
                "[embedding e3]\ntable = other\ninput = C2\npool = mean\n[concat h]\ninput = e1, e2, e3\n" OUT},
    {"batch_norm", DATA TABLE
     "[embedding e]\ntable = emb\ninput = sparse\n[concat x]\ninput = e, dense\n[batch_norm n]\ninput = x\n"
     "[fc a]\ninput = n\nunits = 6\nactivation = tanh\n[batch_norm h]\ninput = a\neps = 0.1\nmomentum = 0.5\n" OUT},
    /* a: by an activation of its layer, which then cannot be fused, and by a batch_norm between an fc and an
     * activation; of numeric columns, which have no gradient. */
    {"batch_norm_around_activations",
     DATA "[batch_norm i]\ninput = dense\n[fc a]\ninput = i\nunits = 4\nlayer = l\n[relu r]\ninput = a\nlayer = l\n"
          "[batch_norm n]\ninput = a\n[sigmoid s]\ninput = n\n[concat h]\ninput = r, s, n\n" OUT},
    /* Of numeric columns, which have no gradient, and of a tensor that somebody else reads too. */
    {"data_norm", DATA TABLE
     "[embedding e]\ntable = emb\ninput = sparse\n[data_norm i]\ninput = dense\n[fc a]\ninput = i\nunits = 4\n"
     "activation = tanh\n[data_norm n]\ninput = e\ndecay = 0.5\n[data_norm m]\ninput = a\n"
     "[concat h]\ninput = a, n, m, e\n" OUT},
    {"softmax", DATA TABLE
     "[embedding e]\ntable = emb\ninput = sparse\n[softmax s]\ninput = e\ngroups = 4\n[softmax t]\ninput = s\n"
     "[concat h]\ninput = s, t, e\n" OUT},
    /* Of equal width, of one column, of numeric columns, and a tensor with itself. */
    {"add", DATA TABLE
     "[embedding e]\ntable = emb\ninput = C1\n[fc w]\ninput = e\nunits = 1\n"
     "[fc a]\ninput = e\nunits = 3\nactivation = tanh\n[add s]\ninput = a, w, dense, e, e\n[add t]\ninput = w, w\n"
     "[add u]\ninput = t, s\n[concat h]\ninput = s, t, u\n" OUT},
    {"mul", DATA TABLE
     "[embedding e]\ntable = emb\ninput = C1, C2\n[fc w]\ninput = e\nunits = 1\n"
     "[fc a]\ninput = e\nunits = 3\nactivation = tanh\n[mul p]\ninput = a, dense\n[mul q]\ninput = w, e\n"
     "[mul r]\ninput = e, w\n[mul s]\ninput = e, e\n[mul t]\ninput = w, w\n[concat h]\ninput = p, q, r, s, t, a\n" OUT},
    /* Of tensors that nobody else reads. */
    {"mul_of_slices", DATA TABLE
     "[embedding e]\ntable = emb\ninput = sparse\n[slice a]\ninput = e\nend = 6\n[slice b]\ninput = e\nbegin = 6\n"
     "[mul h]\ninput = a, b\n" OUT},
    /* Two layers over all inputs: one of full rank, one of low. */
    {"cross", DATA TABLE
     "[embedding e]\ntable = emb\ninput = C1\n[concat x0]\ninput = e, dense\n[fc z1]\ninput = x0\nunits = 6\n"
     "[cross c1]\ninput = x0, x0, z1\n[fc v2]\ninput = c1\nunits = 2\nbias = no\n[fc z2]\ninput = v2\nunits = 6\n"
     "[cross h]\ninput = x0, c1, z2\n" OUT},
    {"cross_of_one_tensor", DATA TABLE
     "[embedding e]\ntable = emb\ninput = C1\n[cross a]\ninput = dense, e, e\n[cross h]\ninput = a, a, a\n" OUT},
    /* Parts that overlap, that leave columns out, and of a tensor that others read before and behind. */
    {"slice", DATA TABLE
     "[embedding e]\ntable = emb\ninput = sparse\n[slice a]\ninput = e\nend = 5\n"
     "[slice b]\ninput = e\nbegin = 3\nend = 10\n[slice c]\ninput = b\nbegin = 6\n[slice d]\ninput = dense\nbegin = 1\n"
     "[concat h]\ninput = a, c, d\n" OUT},
    {"reshape", DATA TABLE
     "[embedding e]\ntable = emb\ninput = sparse\n[reshape a]\ninput = e\nrows = 4\ntranspose = yes\n[reshape b]\n"
     "input = e\nrows = 3\n[reshape c]\ninput = a\nrows = 12\ntranspose = yes\n[concat h]\ninput = c, b, a, e\n" OUT},
    /* Behind an embedding without pooling, where it is pool = sum; then halves of what that gives. */
    {"sum_pool",
     DATA TABLE "[embedding e]\ntable = emb\ninput = sparse\npool = none\n[sum_pool a]\ninput = e\ndim = 3\nrows = 3\n"
                "[sum_pool b]\ninput = a\ndim = 6\nrows = 2\n[sum_pool c]\ninput = a\ndim = 2\nrows = 1\n"
                "[concat h]\ninput = a, b, c\n" OUT},
    {"fm", DATA TABLE
     "[embedding e]\ntable = emb\ninput = sparse\n[fm f]\ninput = e\ndim = 3\n[fm g]\ninput = e\ndim = 2\nreduce = no\n"
     "[fm i]\ninput = dense\ndim = 1\n[concat h]\ninput = f, g, i\n" OUT},
    /* Of unequal inputs, of one of them twice, and of the numeric columns. */
    {"interact",
     DATA TABLE "[embedding e]\ntable = emb\ninput = sparse\n[fc a]\ninput = e\nunits = 3\nactivation = tanh\n"
                "[interact i]\ninput = a, e, dense\ndim = 3\n[interact k]\ninput = a, a, e, a\ndim = 3\nself = yes\n"
                "[interact l]\ninput = a\ndim = 1\n[concat h]\ninput = i, k, l\n" OUT},
    {"attention", ATTENTION("none")},
    {"attention_softmax", ATTENTION("softmax")},
    /* One tensor as both inputs, and numeric columns. */
    {"attention_of_itself", DATA TABLE
     "[fc a]\ninput = dense\nunits = 3\nactivation = tanh\n[attention_pairs p]\ninput = a, a\n[attention_pairs r]\n"
     "input = dense, a\n[attention_pool o]\ninput = a, a, C2\nnormalise = softmax\n[attention_pool k]\n"
     "input = dense, a, C3\n[embedding e]\ntable = emb\ninput = C2, C3\n[concat h]\ninput = p, r, o, k, e\n" OUT},
    {"match_dot", DATA TABLE "[embedding e]\ntable = emb\ninput = sparse\n[fc q]\ninput = dense\nunits = 3\n"
                             "[match h]\ninput = q, e\nscale = 2.5\n" OUT},
    {"match_bias", DATA TABLE "[embedding e]\ntable = emb\ninput = C1\n[fc q]\ninput = dense\nunits = 2\n"
                              "[fc c]\ninput = e\nunits = 12\n[match h]\ninput = q, c\nbias = yes\n" OUT},
    {"match_cosine", DATA TABLE "[embedding e]\ntable = emb\ninput = sparse\n[fc q]\ninput = dense\nunits = 3\n"
                                "[match h]\ninput = q, e\nsimilarity = cosine\nscale = 3\neps = 0.01\n" OUT},
    /* One tensor as both inputs, and the numeric columns as one. */
    {"match_of_itself",
     DATA "[fc a]\ninput = dense\nunits = 6\nactivation = tanh\n[match d]\ninput = a, a\n"
          "[match k]\ninput = a, a\nsimilarity = cosine\neps = 0.5\n[match l]\ninput = dense, a\nsimilarity = cosine\n"
          "[concat h]\ninput = d, k, l, a\n" OUT},
    /* Of several experts an example; some are full, with and without a hidden layer; all of
     * them; their gradients, like those of their gates, are added to what others have written.
     * The load loss is no part of the loss. */
    {"experts", DATA TABLE
     "[embedding e]\ntable = emb\ninput = sparse\n[fc g]\ninput = e\nunits = 4\n[experts m]\ninput = e, g\n"
     "units = 3\nhidden = 5\nactivation = tanh\ncapacity = 0.8\nbalance = 0\n[experts o]\ninput = e, g\n"
     "units = 2\nactivation = sigmoid\ncapacity = 0\nbalance = 0\n[experts a]\ninput = dense, g\nunits = 2\ntop = 4\n"
     "activation = softsign\nbalance = 0\n[concat h]\ninput = m, o, a, g, e\n" OUT},
    {"experts_of_one", DATA TABLE
     "[embedding e]\ntable = emb\ninput = C1, C3\n[experts m]\ninput = e, e\nunits = 3\ntop = 1\nhidden = 2\n"
     "activation = sigmoid\nbalance = 0\n[experts n]\ninput = m, dense\nunits = 4\ntop = 1\nactivation = none\n"
     "balance = 0\n[concat h]\ninput = m, n\n" OUT},
    {"busy", DATA TABLE
     "[embedding e]\ntable = emb\ninput = sparse\n[busy b]\ninput = e\nrounds = 3\n[busy c]\ninput = b\nrounds = 0\n"
     "[concat h]\ninput = b, c, e\n" OUT},
    /* Wider, narrower, and wider by what is no multiple. */
    {"busy_units", DATA TABLE
     "[embedding e]\ntable = emb\ninput = sparse\n[busy b]\ninput = e\nrounds = 0\nunits = 20\n[busy c]\ninput = b\n"
     "rounds = 1\nunits = 3\n[busy d]\ninput = c\nunits = 8\nrounds = 0\n[concat h]\ninput = b, c, d, e\n" OUT},
    {"softmax_loss",
     DATA "[fc h]\ninput = dense\nunits = 5\n[loss l]\nkind = softmax\ninput = h\nlabel = label\nweight = 0.7\n"},
    {"squared", DATA "[fc h]\ninput = dense\nunits = 1\n[loss l]\nkind = squared\ninput = h\nweight = 1.5\n"},
    {"hinge",
     DATA "[fc h]\ninput = dense\nunits = 1\n[fc i]\ninput = dense\nunits = 1\n"
          "[loss l]\nkind = hinge\nmargin = 0.3\ninput = h, i\n[loss m]\nkind = hinge\ninput = i, I2\nweight = 0.5\n"},
    {"nce", DATA "[fc h]\ninput = dense\nunits = 3\n[loss l]\nkind = nce\ninput = h, dense\n"},
    {"nce_without_correction",
     DATA "[fc h]\ninput = dense\nunits = 3\n[loss l]\nkind = nce\ninput = h, dense\ncorrection = no\n"},
    {"sampled_softmax",
     DATA "[fc h]\ninput = dense\nunits = 3\n[loss l]\nkind = sampled_softmax\ninput = h, dense\nweight = 2\n"},
    /* Keys repeat, so that words are targets; and some examples have none. */
    {"shared_softmax",
     DATA TABLE "[embedding q]\ntable = emb\ninput = C1\n[embedding w]\ntable = emb\ninput = C2\npool = none\n"
                "[loss l]\nkind = shared_softmax\ninput = q, w, C2\nscale = 3\neps = 0.1\nweight = 0.7\n"},
    {"shared_softmax_of_dots",
     DATA TABLE "[table wide]\ndim = 20\n[embedding q]\ntable = wide\ninput = C1\n[embedding w]\ntable = wide\n"
                "input = C4\npool = none\n[loss l]\nkind = shared_softmax\ninput = q, w, C4\nsimilarity = dot\n"
                "scale = 1\n[embedding e]\ntable = emb\ninput = C1\n[fc p]\ninput = e\nunits = 20\nactivation = tanh\n"
                "[loss m]\nkind = shared_softmax\ninput = p, w, C4\neps = 0.1\nscale = 2\n"},
    /* Each adds to the gradients that the ones behind it have written; the first in a layer of its own before
     * other ops; metrics beside them, one of what nothing else reads. */
    {"all_heads", DATA TABLE
     "[embedding e]\ntable = emb\ninput = sparse\n[fc s]\ninput = e\nunits = 3\n[loss a]\nkind = softmax\n"
     "input = s\nweight = 0.3\n[loss b]\nkind = nce\ninput = s, dense\nweight = 0.2\n[loss c]\nkind = sampled_softmax\n"
     "input = s, dense\n[fc p]\ninput = s\nunits = 1\nactivation = tanh\n[fc q]\ninput = e\nunits = 1\n"
     "[loss d]\nkind = squared\ninput = p\nweight = 3\n[loss f]\nkind = hinge\ninput = p, q\n[loss g]\ninput = q\n"
     "[metric m]\ninput = s\nlabel = label\n[metric n]\nkind = hit_rate\ninput = s\nk = 1\n[softmax r]\ninput = s\n"
     "[metric o]\nkind = ndcg\ninput = r, dense\n[metric t]\ninput = p, q\n"},
    /* Many scores of an example are 0, its target's among them. */
    {"metrics_of_ties",
     DATA "[fc s]\ninput = dense\nunits = 40\nactivation = relu\n[metric m]\n"
          "input = s\nlabel = label\n[metric n]\nkind = hit_rate\ninput = s\nk = 20\n[metric o]\nkind = ndcg\n"
          "input = s\nk = 30\n[concat h]\ninput = s, dense\n" OUT},
    {"weights_of_examples",
     DATA "[fc s]\ninput = dense\nunits = 3\n[fc p]\ninput = dense\nunits = 1\n[loss a]\nkind = softmax\ninput = s\n"
          "[loss b]\nkind = nce\ninput = s, dense\n[loss c]\nkind = sampled_softmax\ninput = s, dense\n"
          "[loss d]\nkind = squared\ninput = p\n[loss f]\nkind = hinge\ninput = p, I1\n[loss g]\ninput = p\n"},
    /* Every input lies within the output, and its gradient within the output's; so does a concat within the
     * next one. */
    {"parts_of_a_concat",
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
    {"deep_and_wide", DATA TABLE "[table w]\ndim = 1\n[embedding e]\ntable = emb\ninput = sparse\npool = mean\n"
                                 "[embedding wide]\ntable = w\ninput = sparse\n"
                                 "[concat x]\ninput = e, dense\n[fc h1]\ninput = x\nunits = 20\nactivation = relu\n"
                                 "[fc h2]\ninput = h1\nunits = 7\nactivation = relu\n"
                                 "[concat h]\ninput = h2, wide\n" OUT},
};
#define OP_TEXT_COUNT (sizeof op_texts / sizeof op_texts[0])

#endif
