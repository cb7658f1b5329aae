/* Model texts with trees: tests run them forward and backward on the trees that a rig makes. */
#ifndef HETERPS_TESTS_GRAPH_TREE_TEXTS_H
#define HETERPS_TESTS_GRAPH_TREE_TEXTS_H

#include "tests/graph/op_texts.h"

#define TREES(kinds)                                                                                                   \
    "[data]\nformat = trees\nsparse = word, tree\nids_max = 9\nkinds = " kinds                                         \
    "\n[train]\nbatch = 6\nmicro = 6\noptimizer = sgd 0.1\nseed = 5\n" TABLE                                           \
    "[embedding e]\ntable = emb\ninput = word\npool = none\n"
#define LEAF "[cell leaf]\nc = affine(x)\nh = sigmoid(affine(x)) * tanh(c)\n"

static const struct op_text tree_texts[] = {
    /* Tai et al., section 3.2: gates of both children, of x at the leaves. */
    {"tree_binary", TREES("leaf, inner") LEAF
     "[cell inner]\ni = sigmoid(affine(left.h, right.h))\n"
     "l = sigmoid(affine(left.h, right.h))\nr = sigmoid(affine(left.h, right.h))\nu = tanh(affine(left.h, right.h))\n"
     "c = i * u + l * left.c + r * right.c\nh = sigmoid(affine(left.h, right.h)) * tanh(c)\n"
     "[tree h]\ninput = tree, e\nunits = 4\ndim = 3\nstate = h, c\n" OUT},
    /* Section 3.1: a gate for each child, of x and its state. */
    {"tree_child_sum", TREES("leaf, inner") LEAF
     "[cell inner]\ns = sum(child.h)\ni = sigmoid(affine(x, s))\nu = tanh(affine(x, s))\n"
     "c = i * u + sum(sigmoid(affine(x, child.h)) * child.c)\nh = sigmoid(affine(x, s)) * tanh(c)\n"
     "[tree h]\ninput = tree, e\nunits = 4\ndim = 3\nstate = h, c\n" OUT},
    /* Every function, numbers, differences, a name read twice, a line that is
     * another's, and the states of all nodes. */
    {"tree_of_functions", TREES("leaf, inner, pair") "[cell leaf]\nv = number * x - 0.5\n"
                                                     "[cell inner]\na = sin(sum(child.v * (child.v + x) - x))\n"
                                                     "b = cos(a) * a * 0.7 + prod(softsign(child.v) + 1.5)\nv = b\n"
                                                     "[cell pair]\nd = child2.v - left.v\nw = softsign(d)\n"
                                                     "v = w * w - (w - d) * child1.v + number\n"
                                                     "[tree t]\ninput = tree, e\nunits = 3\nstate = v\ngives = nodes\n"
                                                     "[slice h]\ninput = t\nend = 26\n" OUT},
    /* A loss at every node that has a number, twice of the same scores. */
    {"softmax_nodes",
     TREES("leaf, inner") "[cell leaf]\nh = tanh(affine(x))\n[cell inner]\nh = tanh(affine(left.h, right.h))\n"
                          "[tree t]\ninput = tree, e\nunits = 4\ndim = 3\nstate = h\ngives = nodes\n[fc y]\ninput = t\n"
                          "groups = 9\nunits = 3\n[loss a]\nkind = softmax_nodes\ninput = y, tree\nweight = 0.5\n"
                          "[loss b]\nkind = softmax_nodes\ninput = y, tree\n"},
    /* Two trees that read the same vectors, and add up their gradients. */
    {"trees_of_one_lookup", TREES("leaf, inner") LEAF
     "[cell inner]\nc = tanh(affine(left.h, right.c))\nh = c * affine(left.h, right.c) + sum(child.h)\n"
     "[tree a]\ninput = tree, e\nunits = 4\ndim = 3\nstate = h, c\n"
     "[tree b]\ninput = tree, e\nunits = 3\ndim = 3\nstate = h, c\ngives = nodes\n"
     "[slice s]\ninput = b\nend = 9\n[concat h]\ninput = a, s, e\n" OUT},
    /* Without vectors; two trees of the same nodes. */
    {"trees_of_numbers",
     "[data]\nformat = trees\nsparse = tree\nids_max = 7\nkinds = leaf, inner\n[train]\nbatch = 6\nmicro = 6\n"
     "optimizer = sgd 0.1\nseed = 5\n[cell leaf]\nv = number * 0.3 + 1\nu = v\n"
     "[cell inner]\nu = tanh(affine(left.u, left.v))\nv = sum(child.v) + affine(u)\n[tree a]\ninput = tree\nunits = 2\n"
     "state = v, u\n[tree b]\ninput = tree\nunits = 3\nstate = u, v\ngives = nodes\n[concat h]\ninput = a, b\n" OUT},
    /* Vectors of one number, which are vectors none the less. */
    {"trees_of_one_column",
     "[data]\nformat = trees\nsparse = word, tree\nids_max = 9\nkinds = leaf, inner\n[train]\nbatch = 6\nmicro = 6\n"
     "optimizer = sgd 0.1\nseed = 5\n[table one]\ndim = 1\n[embedding e]\ntable = one\ninput = word\npool = none\n"
     "[cell leaf]\nv = tanh(affine(x)) + number\n[cell inner]\nv = tanh(affine(left.v, right.v) + number)\n"
     "[tree a]\ninput = tree, e\nunits = 1\ndim = 1\nstate = v\n"
     "[tree b]\ninput = tree, e\nunits = 3\ndim = 1\nstate = v\n[concat h]\ninput = a, b\n" OUT},
};
#define TREE_TEXT_COUNT (sizeof tree_texts / sizeof tree_texts[0])

#endif
