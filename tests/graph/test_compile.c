/* The compiler: what it accepts, what it refuses and where it says so, fusion, batch division, liveness, and
 * which changes of a text change the model's hash. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cfg/settings.h"
#include "graph/graph.h"
#include "graph/op.h"

#define HEAD   "[data]\ndense = I1..I3\nsparse = C1..C4\n[table emb]\ndim = 4\n"
#define LOOKUP "[embedding e]\ntable = emb\ninput = sparse\n"
#define TAIL   "[fc y]\ninput = h\nunits = 1\n[loss bce]\ninput = y\nlabel = label\n"
#define MODEL  HEAD LOOKUP "[concat x]\ninput = e, dense\n[fc h]\ninput = x\nunits = 8\nactivation = relu\n" TAIL

/* Two fcs of one weight and bias. */
#define MODEL_SHARED                                                                                                   \
    HEAD LOOKUP                                                                                                        \
        "[concat x]\ninput = e, dense\n[fc k]\ninput = x\nunits = 8\n[fc h]\ninput = x\nunits = 8\nshare = k\n"        \
        "[concat j]\ninput = k, h\n[fc y]\ninput = j\nunits = 1\n[loss bce]\ninput = y\n"

static status compile_set(struct graph *g, const char *text, const char *set)
{
    return graph_compile(g, "m.cfg", text, strlen(text), &set, set ? 1 : 0, NULL);
}

static struct graph compiled(const char *text, const char *set)
{
    struct graph g;
    status st = compile_set(&g, text, set);
    if (st != ST_OK) fail_msg("%s", status_message());
    return g;
}

static uint64_t hash_of(const char *text, const char *set)
{
    struct graph g = compiled(text, set);
    uint64_t hash = g.header->model_hash;
    graph_close(&g);
    return hash;
}

static void compile__small_model__has_its_shapes(void **state)
{
    (void)state;
    struct graph g = compiled(MODEL, NULL);
    assert_int_equal(g.forward_count, 5);
    assert_int_equal(g.node_count, 10);
    assert_int_equal(g.layer_count, 5);
    assert_int_equal(g.table_count, 1);
    assert_int_equal(g.tables[0].field_count, 4);
    assert_int_equal(g.header->key_count_max, 4);
    uint64_t params = 0;
    for (uint32_t i = 0; i < g.layer_count; i++) params += g.layers[i].param_count;
    assert_int_equal(params, (4 * 4 + 3) * 8 + 8 + 8 + 1);
    assert_int_equal(g.tensors[g.args[g.nodes[graph_loss_next(&g, 0)].arg_begin]].cols, 1);
    graph_close(&g);
}

static void compile__same_text__gives_same_bytes(void **state)
{
    (void)state;
    struct graph a = compiled(MODEL, NULL), b = compiled(MODEL, NULL);
    assert_int_equal(a.bytes, b.bytes);
    assert_memory_equal(a.header, b.header, a.bytes);
    graph_close(&a);
    graph_close(&b);
}

static void compile__embedded_text__compiles_to_the_same_graph(void **state)
{
    (void)state;
    struct graph a = compiled(MODEL, "h.units=16"), b;
    assert_int_equal(graph_compile(&b, "m.cfg", a.text, a.text_bytes, NULL, 0, NULL), ST_OK);
    assert_int_equal(a.bytes, b.bytes);
    assert_memory_equal(a.header, b.header, a.bytes);
    graph_close(&a);
    graph_close(&b);
}

/* A graph of older rules keeps them, whatever --set changes, unless that is the rules themselves. */
static void graph_open_set__older_rules__stay(void **state)
{
    (void)state;
    static const struct {
        const char *compile, *set;
        uint32_t expected;
    } cases[] = {{NULL, "h.units=16", RULES_NEWEST},
                 {"model.rules=8", "h.units=16", RULES_OLDEST},
                 {"model.rules=8", "model.rules=14", RULES_NEWEST},
                 {"model.rules=9", "h.units=16", 9},
                 {"model.rules=9", "model.rules=8", RULES_OLDEST}};
    char path[] = "/tmp/heterps-test-rules-XXXXXX";
    assert_true(mkstemp(path) >= 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct graph g = compiled(MODEL, cases[i].compile), again;
        assert_int_equal(graph_write(&g, path), ST_OK);
        assert_int_equal(graph_open_set(&again, path, &cases[i].set, 1), ST_OK);
        assert_int_equal(again.header->version, cases[i].expected);
        graph_close(&again);
        graph_close(&g);
    }
    unlink(path);
}

/* A table's vectors in bfloat16: the shape of its rows, whose model it is, and rules that do not know it. */
static void compile__store_bf16__halves_vectors_from_rules_11_on(void **state)
{
    (void)state;
    struct graph f32 = compiled(MODEL, "emb.store=f32"), plain = compiled(MODEL, NULL),
                 bf16 = compiled(MODEL, "emb.store=bf16");
    const struct graph_table *whole = &f32.tables[0], *half = &bf16.tables[0];
    assert_int_equal(half->store, TABLE_BF16);
    assert_int_equal(half->span_floats, whole->span_floats - whole->dim + (whole->dim + 1) / 2);
    assert_true(f32.header->model_hash == plain.header->model_hash);
    assert_true(f32.header->model_hash != bf16.header->model_hash);
    graph_close(&f32);
    graph_close(&plain);
    graph_close(&bf16);
    struct graph g;
    const char *const set = "emb.store=bf16", text[] = MODEL "[model]\nrules = 10\n";
    assert_int_equal(graph_compile(&g, "m.cfg", text, strlen(text), &set, 1, NULL), ST_USAGE);
    assert_non_null(strstr(status_message(), "store = bf16 needs [model] rules of 11 or more, and the text says 10"));
}

/* What counts keys for their admission, by the rules of the text. */
static void compile__admission_by_bloom__shards_from_rules_10_on(void **state)
{
    (void)state;
    static const struct {
        const char *rules, *by;
        uint32_t expected;
    } cases[] = {{"8", "bloom", ADMIT_BLOOM},
                 {"9", "bloom", ADMIT_BLOOM},
                 {"10", "bloom", ADMIT_BLOOM_SHARDS},
                 {"10", "exact", ADMIT_EXACT},
                 {"9", "exact", ADMIT_EXACT}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[2048];
        snprintf(text, sizeof text, MODEL "[model]\nrules = %s\n", cases[i].rules);
        struct graph g = compiled(text, cases[i].by[0] == 'b' ? "emb.admit_by=bloom" : "emb.admit_by=exact");
        assert_int_equal(g.tables[0].life.admit_by, cases[i].expected);
        graph_close(&g);
    }
}

static void compile__wrong_text__says_where_and_what(void **state)
{
    (void)state;
    static const struct {
        const char *text, *set, *expected;
    } cases[] = {
        {HEAD LOOKUP "[fc h]\ninput = q\nunits = 8\n" TAIL, NULL, "m.cfg:10"},
        {HEAD LOOKUP "[fc h]\ninput = densee\nunits = 8\n" TAIL, NULL, "did you mean \"dense\""},
        {HEAD LOOKUP "[fc h]\ninput = sparse\nunits = 8\n" TAIL, NULL, "embedding"},
        {HEAD "[embedding h]\ntable = emb\ninput = dense\n" TAIL, NULL, "not one"},
        {HEAD "[embedding h]\ntable = em\ninput = sparse\n" TAIL, NULL, "table"},
        {HEAD LOOKUP "[fcc h]\ninput = e\nunits = 8\n" TAIL, NULL, "did you mean [fc]"},
        {MODEL "[trian]\nbatch = 4\n", NULL, "did you mean [train]"},
        {MODEL "[candidates k]\nof = C27\nnegatives = 3\n", NULL, "expected a column of the criteo format"},
        {MODEL "[candidates k]\nof = C1\nnegatives = 3\n", NULL, "give [column C1] a line vocabulary = NAME"},
        {MODEL "[candidates k$]\nof = C1\nnegatives = 3\n", NULL, "expected [candidates NAME] with a name of"},
        {MODEL "[tabel t]\ndim = 4\n", NULL, "did you mean [table]"},
        {HEAD LOOKUP "[fc h]\ninput = e\nunit = 8\n" TAIL, NULL, "units"},
        {HEAD LOOKUP "[fc h]\ninput = e\nunits = 0\n" TAIL, NULL, "m.cfg:11"},
        {HEAD LOOKUP "[fc h]\ninput = e\nunits = x\n" TAIL, NULL, "m.cfg:11"},
        {HEAD LOOKUP "[fc e]\ninput = e\nunits = 8\n", NULL, "taken"},
        {HEAD LOOKUP "[fc I]\ninput = e\nunits = 8\n"
                     "[fc h]\ninput = e\nunits = 8\n" TAIL,
         NULL, "nothing that leads to the loss"},
        {HEAD LOOKUP "[fc h]\ninput = e\nunits = 8\n[fc m]\ninput = h\nunits = 2\n[metric a]\ninput = m\n" TAIL, NULL,
         "[fc m]: only metrics read this"},
        {HEAD LOOKUP "[fc h]\ninput = e\nunits = 8\n" TAIL "[metric a]\ninput = bce\nlabel = label\n", NULL,
         "a section below reads this"},
        {HEAD LOOKUP "[fc h]\ninput = e\nunits = 8\n" TAIL "[loss s]\nkind = squared\ninput = I1\n", NULL,
         "[loss s]: the loss depends on no parameter"},
        {HEAD LOOKUP "[fc h]\ninput = e\nunits = 2\n[loss n]\nkind = nce\ninput = h, h\n" TAIL, NULL,
         "expected the log_q of [candidates] as the second input, found \"h\""},
        {HEAD LOOKUP "[fc h]\ninput = e\nunits = 8\n[loss s]\nkind = softmax\ninput = h\nlabel = I1\n" TAIL, NULL,
         "expected a label of [data], found \"I1\""},
        {HEAD LOOKUP "[fc h]\ninput = e\nunits = 8\n[loss s]\nkind = hinge\ninput = h\n" TAIL, NULL,
         "expected two inputs, found 1"},
        {HEAD LOOKUP "[fc h]\ninput = e\nunits = 8\n[loss s]\nkind = hing\ninput = h\n" TAIL, NULL,
         "bce, softmax, squared, hinge, nce, sampled_softmax, softmax_nodes, shared_softmax"},
        {HEAD LOOKUP "[fc h]\ninput = e\nunits = 8\n", NULL, "no loss"},
        {HEAD "[column C1]\nkeys_of = C9\n" LOOKUP "[fc h]\ninput = e\nunits = 8\n" TAIL, NULL,
         "[column C1] keys_of: expected a column that [data] names in sparse"},
        {HEAD "[column C1]\nkeys_of = C2\n[column C2]\nkeys_of = C3\n" LOOKUP "[fc h]\ninput = e\nunits = 8\n" TAIL,
         NULL, "\"C2\", which has those of \"C3\""},
        {HEAD "[column label]\nids_max = 2\n" LOOKUP "[fc h]\ninput = e\nunits = 8\n" TAIL, NULL,
         "[column label] ids_max: the label \"label\" has no keys"},
        {HEAD "[fc h]\ninput = dense\nunits = 8\n" TAIL, NULL, "no [embedding] uses"},
        {"[data]\ndense = I1..I14\n", NULL, "I14"},
        {"[data]\ndense = I3..I1\n", NULL, "range"},
        {"[data]\ndense = I1, I1\n", NULL, "twice"},
        {"[data]\nsparse = D1\n", NULL, "D1"},
        {HEAD LOOKUP "[fc h]\ninput = e\nunits = 4\nlayer = a\n[fc i]\ninput = h\nunits = 4\n"
                     "[fc j]\ninput = i\nunits = 1\nlayer = a\n",
         NULL, "follow one another"},
        {"[train]\noptimizer = adgrad 0.1\n" MODEL, NULL, "adagrad"},
        {"[train]\nlanes = 3\n" MODEL, NULL, "m.cfg:2"},
        {MODEL, "train.batch=100", NULL}, /* fine: micro is chosen */
        {"[train]\nsync = wsp\nreduce = bf16\n" MODEL, NULL,
         "m.cfg:3: [train] reduce: expected reduce = f32 under sync = wsp"},
        {"[train]\nsync = wsp\nlanes = 2\n" MODEL, NULL, "m.cfg:3: [train] lanes: expected lanes = 1 under sync = wsp"},
        {"[train]\nsync = asp\nmicro = 64\n" MODEL, NULL,
         "m.cfg:3: [train] micro: expected micro = batch = 128 under sync = asp"},
        {"[train]\nsync = wsp\nbatch = 2000000\n" MODEL, NULL,
         "m.cfg:3: [train] batch: expected a batch of at most 1048576 examples under sync = wsp"},
        {"[train]\nsync = wsp\nlanes = 2\n" MODEL, "train.lanes=1", NULL},
        {"[train]\nmicro = 64\n" MODEL, "train.sync=wsp", "m.cfg:2"},
        {"[train]\noptimizer = moving_average 0.1\n" MODEL, NULL,
         "m.cfg:2: [train] optimizer: expected an optimizer, found \"moving_average\""},
        {"[train]\noptimizer = adagrad_row 0.1\n" MODEL, NULL,
         "m.cfg:2: [train] optimizer: expected a rule for parameters, found \"adagrad_row 0.1\""},
        {"[train]\nschedule = cosin\n" MODEL, NULL, "m.cfg:2: [train] schedule: expected a schedule"},
        {"[train]\nschedule = linear step=5\n" MODEL, NULL, "did you mean steps"},
        {"[train]\nclip_norm = -1\n" MODEL, NULL, "m.cfg:2: [train] clip_norm"},
        {HEAD LOOKUP "[batch_norm h]\ninput = e\nmomentum = 1\n" TAIL, NULL, "m.cfg:11: [batch_norm h] momentum"},
        {HEAD "[batch_norm h]\ninput = sparse\n" TAIL, NULL, "embedding"},
        {HEAD LOOKUP
         "[fc q]\ninput = dense\nunits = 4\n[match h]\ninput = q, e\nsimilarity = cosine\nbias = yes\n" TAIL,
         NULL, "m.cfg:15: [match h] bias: expected bias = no with similarity = cosine"},
        {HEAD LOOKUP "[match h]\ninput = dense, e\n" TAIL, NULL, "vectors of 3 columns"},
        {HEAD LOOKUP "[attention_pool h]\ninput = e, e\n" TAIL, NULL, "three inputs, the last a sparse field, found 2"},
        {HEAD LOOKUP "[attention_pool h]\ninput = e, e, dense\n" TAIL, NULL, "\"dense\" is not one"},
        {HEAD LOOKUP "[attention_pool h]\ninput = C1, e, C1\n" TAIL, NULL, "\"C1\" is a sparse field"},
        {HEAD LOOKUP "[attention_pool h]\ninput = e, e, sparse\n" TAIL, NULL, "cannot go into [attention_pool]"},
        {HEAD LOOKUP "[attention_pool h]\ninput = dense, e, C1\n" TAIL, NULL, "ids_max = 1 keys, found 3"},
        {HEAD LOOKUP "[busy h]\ninput = e\nrounds = 100000001\n" TAIL, NULL, "m.cfg:11: [busy h] rounds"},
        {HEAD LOOKUP "[fc h]\ninput = e\nunits = 8\nshare = y\n" TAIL, NULL,
         "m.cfg:12: [fc h] share: expected the name of an [fc] above, found \"y\""},
        {HEAD LOOKUP "[fc h]\ninput = e\nunits = 8\nshare = h\n" TAIL, NULL, "found \"h\""},
        {HEAD LOOKUP "[fc h]\ninput = e\nunits = 8\nshare = e\n" TAIL, NULL, "found \"e\""},
        {MODEL, "y.share=h", "expected a weight of 19 by 8 as [fc h] has, found 8 by 1"},
        {MODEL_SHARED, "h.units=7", "expected a weight of 19 by 8 as [fc k] has, found 19 by 7"},
        {MODEL_SHARED, "h.bias=no", "expected 2 parameters as [fc k] has, found 1"},
        {MODEL_SHARED, "h.init=zeros", "expected no init beside share = k"},
        {MODEL_SHARED, "h.activation=tanh", NULL},
        {MODEL, "train.micro=300", "multiple"},
        {MODEL, "h.unit=3", "--set"},
        {MODEL, "nosuch.key=3", "--set"},
        {MODEL, "train.batch", "--set"},
        {MODEL, "emb.dim=0", "--set"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct graph g;
        status st = compile_set(&g, cases[i].text, cases[i].set);
        if (cases[i].expected == NULL) {
            if (st != ST_OK) fail_msg("case %zu: %s", i, status_message());
            graph_close(&g);
            continue;
        }
        if (st == ST_OK) fail_msg("case %zu was accepted", i);
        if (!strstr(status_message(), cases[i].expected))
            fail_msg("case %zu: expected \"%s\" in: %s", i, cases[i].expected, status_message());
    }
}

static void compile__batch__is_divided_as_asked(void **state)
{
    (void)state;
    static const struct {
        const char *set;
        uint32_t batch, micro, lanes;
    } cases[] = {{"train.batch=2048", 2048, 512, 1},
                 {"train.batch=100", 100, 100, 1},
                 {"train.batch=600", 600, 300, 1},
                 {"train.batch=521", 521, 1, 1}};
    static const char *const syncs[] = {"[train]\nsync = wsp\n" MODEL,
                                        "[train]\nsync = asp\nlanes = 1\nmicro = 0\n" MODEL};
    for (size_t i = 0; i < 2 * (sizeof cases / sizeof *cases); i++) { /* one micro-batch a step, whatever its size */
        struct graph g = compiled(syncs[i % 2], cases[i / 2].set);
        assert_int_equal(g.header->batch, cases[i / 2].batch);
        assert_int_equal(g.header->micro, cases[i / 2].batch);
        assert_int_equal(g.header->lanes, 1);
        graph_close(&g);
    }
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct graph g = compiled(MODEL, cases[i].set);
        assert_int_equal(g.header->batch, cases[i].batch);
        assert_int_equal(g.header->micro, cases[i].micro);
        assert_int_equal(g.header->lanes, cases[i].lanes);
        graph_close(&g);
    }
}

static void compile__recipe__does_not_change_the_model_hash(void **state)
{
    (void)state;
    uint64_t hash = hash_of(MODEL, NULL);
    static const char *const same[] = {"train.batch=64",  "train.epochs=3", "train.optimizer=adagrad 0.5",
                                       "data.shuffle=10", "store.ram=2GiB", "emb.l2=0.1"};
    static const char *const other[] = {"emb.dim=8",
                                        "h.units=9",
                                        "h.activation=tanh",
                                        "train.seed=2",
                                        "train.optimizer=adam 0.01",
                                        "data.dense=I1..I2",
                                        "data.transform=none",
                                        "e.pool=mean",
                                        "emb.init=uniform 0.5",
                                        "emb.optimizer=momentum 0.1"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (hash_of(MODEL, same[i]) != hash) fail_msg("%s changes the hash", same[i]);
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        if (hash_of(MODEL, other[i]) == hash) fail_msg("%s does not change the hash", other[i]);
    assert_true(hash_of(MODEL "[metric a]\ninput = y\nlabel = label\n", NULL) == hash);
}

static struct fc_attr fc_attr_of(const struct graph *g, const char *name)
{
    struct fc_attr attr = {0};
    for (uint32_t i = 0; i < g->forward_count; i++)
        if (strcmp(graph_string(g, g->nodes[i].name), name) == 0) memcpy(&attr, g->nodes[i].attr, sizeof attr);
    return attr;
}

static void fuse__activation_in_the_same_layer__goes_into_the_fc(void **state)
{
    (void)state;
    struct graph g = compiled(
        HEAD LOOKUP "[fc z]\ninput = e\nunits = 8\nlayer = l\n[leaky_relu h]\ninput = z\nslope = 0.2\nlayer = l\n" TAIL,
        NULL);
    assert_int_equal(g.forward_count, 4);
    assert_int_equal(fc_attr_of(&g, "z").activation, ACT_LEAKY_RELU);
    assert_true(fc_attr_of(&g, "z").slope == 0.2f);
    assert_int_equal(fc_attr_of(&g, "z").dout_is_dz, 1);
    assert_int_equal(fc_attr_of(&g, "y").input_activation, ACT_LEAKY_RELU);
    graph_close(&g);
}

static void fuse__output_read_twice__is_left_alone(void **state)
{
    (void)state;
    struct graph g = compiled(
        HEAD LOOKUP
        "[fc z]\ninput = e\nunits = 8\nlayer = l\n[relu r]\ninput = z\nlayer = l\n[concat h]\ninput = r, z\n" TAIL,
        NULL);
    assert_int_equal(g.forward_count, 6);
    assert_int_equal(fc_attr_of(&g, "z").activation, ACT_NONE);
    graph_close(&g);
}

/* fc ▸ batch_norm ▸ relu: the relu is not the fc's; fc with an activation ▸ batch_norm:
 * the fc does its own slope. */
static void fuse__batch_norm_between__is_left_alone(void **state)
{
    (void)state;
    struct graph g =
        compiled(HEAD LOOKUP "[fc z]\ninput = e\nunits = 8\nlayer = l\n[batch_norm n]\ninput = z\nlayer = l\n"
                             "[relu h]\ninput = n\nlayer = l\n" TAIL,
                 NULL);
    assert_int_equal(g.forward_count, 6);
    assert_int_equal(fc_attr_of(&g, "z").activation, ACT_NONE);
    assert_int_equal(fc_attr_of(&g, "y").input_activation, ACT_NONE);
    graph_close(&g);
    g = compiled(HEAD LOOKUP "[fc z]\ninput = e\nunits = 8\nactivation = tanh\n[batch_norm h]\ninput = z\n" TAIL, NULL);
    assert_int_equal(fc_attr_of(&g, "z").activation, ACT_TANH);
    assert_int_equal(fc_attr_of(&g, "z").dout_is_dz, 0);
    graph_close(&g);
}

/* Of 16 units and 32 inputs on, where rounding gains something; before rules 12 of two units on. */
static void precision__bf16__is_that_of_a_whole_tile(void **state)
{
    (void)state;
    static const struct {
        const char *dim, *units, *set;
        uint32_t precision;
    } cases[] = {
        {"16", "16", "train.precision=bf16", PRECISION_BF16}, {"15", "16", "train.precision=bf16", PRECISION_F32},
        {"16", "15", "train.precision=bf16", PRECISION_F32},  {"16", "1", "train.precision=bf16", PRECISION_F32},
        {"1", "2", "train.precision=tf32", PRECISION_TF32},   {"1", "1", "train.precision=tf32", PRECISION_F32},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        for (int old = 0; old < 2; old++) {
            snprintf(text, sizeof text,
                     "[data]\nsparse = C1, C2\n[table t]\ndim = %s\n[embedding e]\ntable = t\ninput = sparse\n[fc h]\n"
                     "input = e\nunits = %s\n[fc y]\ninput = h\nunits = 1\n[loss l]\ninput = y\n[model]\nrules = %d\n",
                     cases[i].dim, cases[i].units, old ? 11 : 12);
            struct graph g = compiled(text, cases[i].set);
            const uint32_t whole = strstr(cases[i].set, "bf16") ? PRECISION_BF16 : PRECISION_TF32;
            assert_int_equal(fc_attr_of(&g, "h").precision,
                             old && strcmp(cases[i].units, "1") != 0 ? whole : cases[i].precision);
            graph_close(&g);
        }
    }
}

/* Every fc of several units, and nothing that a trained model depends on. */
static void precision__rounded__is_told_to_every_fc_but_that_of_one_unit(void **state)
{
    (void)state;
    static const char text[] = HEAD LOOKUP "[fc h0]\ninput = e\nunits = 32\n[fc h]\ninput = h0\nunits = 16\n" TAIL;
    struct graph f32 = compiled(text, NULL), bf16 = compiled(text, "train.precision=bf16");
    assert_int_equal(fc_attr_of(&f32, "h").precision, PRECISION_F32);
    assert_int_equal(fc_attr_of(&bf16, "h").precision, PRECISION_BF16);
    assert_int_equal(fc_attr_of(&bf16, "y").units, 1);
    assert_int_equal(fc_attr_of(&bf16, "y").precision, PRECISION_F32);
    assert_true(f32.header->model_hash == bf16.header->model_hash);
    struct graph tf32 = compiled(text, "train.precision=tf32");
    assert_int_equal(fc_attr_of(&tf32, "h").precision, PRECISION_TF32);
    assert_int_equal(fc_attr_of(&tf32, "y").precision, PRECISION_F32);
    assert_true(f32.header->model_hash == tf32.header->model_hash);
    graph_close(&f32);
    graph_close(&bf16);
    graph_close(&tf32);
}

/* --- parameters and their updates ------------------------------------------------------------- */

#define NORMS                                                                                                          \
    HEAD LOOKUP "[batch_norm n1]\ninput = e\n[fc a]\ninput = n1\nunits = 5\n[batch_norm n2]\ninput = a\n"              \
                "[concat c]\ninput = n2, dense\n[batch_norm n3]\ninput = c\nmomentum = 0.5\n"                          \
                "[busy w]\ninput = n3\nrounds = 1\n[batch_norm h]\ninput = w\n" TAIL

static const struct graph_tensor *tensor_of(const struct graph *g, const char *name)
{
    for (uint32_t i = 0; i < g->tensor_count; i++)
        if (strcmp(graph_string(g, g->tensors[i].name), name) == 0) return &g->tensors[i];
    fail_msg("no tensor %s", name);
    return NULL;
}

/* What is trained comes first, in one update; then a run of statistics for each change of momentum. */
static void updates__batch_norms__are_runs_behind_what_is_trained(void **state)
{
    (void)state;
    struct graph g = compiled(NORMS, "train.optimizer=adam 0.01");
    static const float momentum[] = {0.9f, 0.5f, 0.9f};
    static const struct {
        const char *name;
        uint32_t update;
    } cases[] = {{"n1.weight", 0}, {"a.bias", 0},      {"y.weight", 0},     {"n1.mean", 1}, {"n1.variance", 1},
                 {"n2.mean", 1},   {"n2.variance", 1}, {"n3.variance", 2},  {"h.mean", 3},  {"h.variance", 3},
                 {"h.bias", 0},    {"d.h.mean", 3},    {"d.h.variance", 3}, {"n3.mean", 2}};
    assert_int_equal(g.update_count, 5);
    uint64_t offset = 0;
    for (uint32_t i = 0; i < 4; i++) {
        const struct graph_update *u = &g.updates[i];
        const struct graph_optimizer *o = &g.optimizers[u->optimizer];
        assert_int_equal(u->table, GRAPH_NONE);
        assert_int_equal(u->param_offset, offset);
        assert_true(u->param_count > 0);
        offset += u->param_count;
        assert_int_equal(o->kind, i ? OPTIMIZER_ID_moving_average : OPTIMIZER_ID_adam);
        if (i > 0) assert_true(o->param[0] == momentum[i - 1]);
    }
    assert_int_equal(offset, g.header->param_floats);
    assert_int_equal(g.header->state_floats, 2 * g.updates[0].param_count);
    assert_int_equal(g.updates[4].table, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(tensor_of(&g, cases[i].name)->update, cases[i].update);
    /* Saved once a micro-batch, not once an example. */
    assert_int_equal(tensor_of(&g, "n1.micro_mean")->rows, 1);
    assert_int_equal(tensor_of(&g, "n1.micro_variance")->rows, 1);
    graph_close(&g);
}

/* Each rule of statistics has updates of its own, also where its number is another's. */
static void updates__batch_norm_and_data_norm__are_apart(void **state)
{
    (void)state;
    struct graph g = compiled(HEAD LOOKUP "[data_norm n1]\ninput = e\ndecay = 0.9\n[batch_norm n2]\ninput = n1\n"
                                          "[data_norm h]\ninput = n2\n" TAIL,
                              "train.optimizer=adam 0.01");
    static const uint32_t kinds[] = {OPTIMIZER_ID_adam, OPTIMIZER_ID_accumulate, OPTIMIZER_ID_moving_average,
                                     OPTIMIZER_ID_accumulate};
    static const float numbers[] = {0, 0.9f, 0.9f, 0.9999999f};
    assert_int_equal(g.update_count, 5);
    for (uint32_t i = 0; i < 4; i++) {
        const struct graph_optimizer *o = &g.optimizers[g.updates[i].optimizer];
        assert_int_equal(o->kind, kinds[i]);
        if (i > 0) assert_true(o->param[0] == numbers[i]);
    }
    assert_int_equal(tensor_of(&g, "n1.size")->update, 1);
    assert_int_equal(tensor_of(&g, "n2.variance")->update, 2);
    assert_int_equal(tensor_of(&g, "h.square_sum")->update, 3);
    graph_close(&g);
}

/* The second node's parameters are the first's; only their gradients have places
 * of their own, behind all others. */
static void params__shared__have_one_place_and_two_gradients(void **state)
{
    (void)state;
    struct graph g = compiled(MODEL_SHARED, NULL), apart = compiled(MODEL_SHARED, "h.share=");
    uint64_t weight_floats = 19 * 8 + 8, bias_floats = 16; /* each to a multiple of 16 */
    assert_int_equal(tensor_of(&g, "h.weight")->offset, tensor_of(&g, "k.weight")->offset);
    assert_int_equal(tensor_of(&g, "h.bias")->offset, tensor_of(&g, "k.bias")->offset);
    assert_int_equal(tensor_of(&g, "d.k.weight")->offset, tensor_of(&g, "k.weight")->offset);
    assert_int_equal(tensor_of(&g, "d.h.weight")->offset, g.header->param_floats);
    assert_int_equal(tensor_of(&g, "d.h.bias")->offset, g.header->param_floats + weight_floats);
    assert_int_equal(g.header->grad_floats, g.header->param_floats + weight_floats + bias_floats);
    assert_int_equal(apart.header->param_floats, g.header->grad_floats);
    assert_int_equal(apart.header->grad_floats, g.header->grad_floats);
    assert_int_equal(apart.header->state_floats - g.header->state_floats, weight_floats + bias_floats);
    for (uint32_t i = 0; i < g.layer_count; i++)
        assert_int_equal(g.layers[i].param_count, i == 3 ? 0 : apart.layers[i].param_count);
    struct graph_alias aliases[2];
    assert_int_equal(graph_aliases(&g, 0, g.header->param_floats, NULL), 2);
    assert_int_equal(graph_aliases(&g, 0, g.header->param_floats, aliases), 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(aliases[i].owner, 2);
        assert_int_equal(aliases[i].node, 3);
    }
    assert_int_equal(aliases[0].count, weight_floats);
    assert_int_equal(aliases[1].grad, tensor_of(&g, "d.h.bias")->offset);
    assert_int_equal(graph_aliases(&g, tensor_of(&g, "y.weight")->offset, 16, NULL), 0);
    assert_true(g.header->model_hash != apart.header->model_hash);
    graph_close(&apart);
    graph_close(&g);
    /* Of whom it is belongs to the model as well. */
    static const char three[] = HEAD LOOKUP "[fc a]\ninput = e\nunits = 2\n[fc b]\ninput = e\nunits = 2\n[fc c]\n"
                                            "input = e\nunits = 2\nshare = a\n[concat h]\ninput = a, b, c\n" TAIL;
    assert_true(hash_of(three, NULL) != hash_of(three, "c.share=b"));
}

static bool node_owns(const struct graph *g, uint32_t begin, uint32_t end, const struct graph_tensor *t)
{
    for (uint32_t i = begin; i < end; i++)
        for (uint32_t k = 0; k < g->nodes[i].param_count; k++)
            if (&g->tensors[g->args[g->nodes[i].arg_begin + g->nodes[i].input_count + k]] == t) return true;
    return false;
}

/* Every cut into three stages: the runs of the stages tile each update,
 * and hold exactly their nodes' parameters. */
static void params_of_nodes__any_cut__tiles_every_update(void **state)
{
    (void)state;
    static const char *const texts[] = {
        NORMS, MODEL, MODEL_SHARED,
        HEAD "[embedding h]\ntable = emb\ninput = sparse\n[fc q]\ninput = h\nunits = 1\n[loss bce]\ninput = q\n"};
    for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
        struct graph g = compiled(texts[k], NULL);
        uint32_t n = g.forward_count;
        for (uint32_t first = 0; first <= n; first++)
            for (uint32_t second = first; second <= n; second++)
                for (uint32_t update = 0; update < g.update_count && g.updates[update].table == GRAPH_NONE; update++) {
                    const uint32_t cut[] = {0, first, second, n};
                    uint64_t at = g.updates[update].param_offset;
                    for (int stage = 0; stage < 3; stage++) {
                        uint64_t offset, count;
                        graph_params_of_nodes(&g, cut[stage], cut[stage + 1], update, &offset, &count);
                        assert_int_equal(offset, at);
                        for (uint32_t i = 0; i < g.tensor_count; i++) {
                            const struct graph_tensor *t = &g.tensors[i];
                            if (t->kind != TENSOR_PARAM || t->update != update || t->is_alias) continue;
                            bool is_in =
                                t->offset >= offset && t->offset + (uint64_t)t->rows * t->cols <= offset + count;
                            assert_int_equal(is_in, node_owns(&g, cut[stage], cut[stage + 1], t));
                        }
                        at += count;
                    }
                    assert_int_equal(at, g.updates[update].param_offset + g.updates[update].param_count);
                }
        graph_close(&g);
    }
}

static void updates__lookups_only__have_no_parameters(void **state)
{
    (void)state;
    struct graph g = compiled("[data]\nsparse = C1\n[table w]\ndim = 1\n[embedding y]\ntable = w\ninput = sparse\n"
                              "[loss bce]\ninput = y\n",
                              NULL);
    assert_int_equal(g.update_count, 1);
    assert_int_equal(g.updates[0].table, 0);
    assert_int_equal(g.header->param_floats, 0);
    graph_close(&g);
}

/* One table in two layers: two lookups, which a plan may put into different stages. */
static void lookups__one_table_in_two_layers__are_numbered_in_order(void **state)
{
    (void)state;
    struct graph g =
        compiled(HEAD "[table wide]\ndim = 1\n[embedding e]\ntable = emb\ninput = C1, C2\n[fc a]\ninput = e\n"
                      "units = 3\n[embedding v]\ntable = wide\ninput = sparse\n[embedding f]\ntable = emb\n"
                      "input = C2..C4\n[concat h]\ninput = a, v, f\n" TAIL,
                 NULL);
    uint32_t lookups[3];
    assert_int_equal(g.lookup_count, 3);
    assert_int_equal(graph_table_lookups(&g, 0, lookups), 2);
    assert_int_equal(lookups[0], 0);
    assert_int_equal(lookups[1], 2);
    assert_int_equal(graph_table_first_node(&g, 0), 0);
    assert_int_equal(graph_table_lookups(&g, 1, lookups), 1);
    assert_int_equal(lookups[0], 1);
    assert_int_equal(graph_table_first_node(&g, 1), 2);
    for (uint32_t i = 0, lookup = 0; i < g.forward_count; i++) {
        struct embed_bag_attr attr;
        memcpy(&attr, g.nodes[i].attr, sizeof attr);
        if (g.nodes[i].op == OP_ID_embed_bag) assert_int_equal(attr.lookup, lookup++);
    }
    assert_int_not_equal(g.nodes[0].layer, g.nodes[3].layer);
    graph_close(&g);
}

static void memory__tensors_alive_together__do_not_overlap(void **state)
{
    (void)state;
    struct graph g = compiled(MODEL, NULL);
    /* At its backward node the first fc reads its input x, its output h and d.h,
     * and writes d.x: four places. */
    const char *const names[] = {"x", "h", "d.h", "d.x"};
    const struct graph_tensor *found[4] = {0};
    for (uint32_t i = 0; i < g.tensor_count; i++)
        for (int k = 0; k < 4; k++)
            if (strcmp(graph_string(&g, g.tensors[i].name), names[k]) == 0) found[k] = &g.tensors[i];
    for (int i = 0; i < 4; i++) {
        assert_non_null(found[i]);
        for (int k = 0; k < i; k++) {
            uint64_t bytes_i = graph_activation_bytes(g.header, found[i]),
                     bytes_k = graph_activation_bytes(g.header, found[k]);
            assert_true(found[i]->offset + bytes_i <= found[k]->offset ||
                        found[k]->offset + bytes_k <= found[i]->offset);
        }
    }
    graph_close(&g);
}

/* Columns 0, 32 and 96 begin a cache line; 33 does not, and what another op reads besides gets a gradient of
 * its own. */
static void memory__inputs_of_a_concat__lie_within_its_output(void **state)
{
    (void)state;
    struct graph g = compiled(
        HEAD
        "[embedding e]\ntable = emb\ninput = C1..C4\n[fc a]\ninput = e\nunits = 32\n[fc b]\ninput = a\nunits = 64\n"
        "[concat ab]\ninput = a, b\n[fc c]\ninput = e\nunits = 1\n[fc d]\ninput = e\nunits = 16\n"
        "[concat h]\ninput = ab, c, d\n" TAIL,
        NULL);
    const struct graph_tensor *h = tensor_of(&g, "h"), *dh = tensor_of(&g, "d.h");
    static const struct {
        const char *name;
        uint32_t col; /* GRAPH_NONE: outside */
    } cases[] = {{"ab", 0},   {"a", 0},    {"b", 32},   {"c", 96},           {"d", GRAPH_NONE},
                 {"d.ab", 0}, {"d.b", 32}, {"d.c", 96}, {"d.a", GRAPH_NONE}, {"d.d", GRAPH_NONE}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct graph_tensor *t = tensor_of(&g, cases[i].name),
                                  *whole = strncmp(cases[i].name, "d.", 2) == 0 ? dh : h;
        uint64_t begin = whole->offset, end = graph_activation_end(g.header, whole);
        if (cases[i].col != GRAPH_NONE) {
            assert_int_equal(t->offset, begin + cases[i].col * sizeof(float));
            assert_int_equal(t->stride, whole->stride);
        } else if (t->offset < end && begin < graph_activation_end(g.header, t)) {
            fail_msg("%s lies within %s", cases[i].name, whole == h ? "h" : "d.h");
        }
    }
    graph_close(&g);
}

/* The parts' strides are the whole's, but not their memory: 2^16 examples of 90 parts of 1024 columns are
 * less than 2^34 floats, gradients included. */
static void compile__many_columns__are_told_apart(void **state)
{
    (void)state;
    struct graph g;
    static const char text[] =
        "[data]\nformat = csv\nsparse = C1..C999\ndense = I1..I1000\n[table emb]\ndim = 4\n" LOOKUP
        "[concat x]\ninput = e, I900\n[fc h]\ninput = x\nunits = 8\n" TAIL;
    const char *const refused[][2] = {
        {"data.sparse=C1..C999, C77", "the column \"C77\" is named twice"},
        {"data.dense=I1..I900, I900", "the column \"I900\" is named twice"},
        {"data.label=dense", "\"dense\" is another column's name"},
        {"data.dense=I1..I899", "I900"},
    };
    g = compiled(text, NULL);
    assert_int_equal(g.field_count, 999);
    assert_int_equal(g.header->dense_count, 1000);
    for (uint32_t f = 0; f < g.field_count; f++) {
        char name[16];
        snprintf(name, sizeof name, "C%u", f + 1);
        assert_string_equal(graph_string(&g, g.fields[f].name), name);
        assert_int_equal(tensor_of(&g, name)->cols, f);
    }
    assert_int_equal(tensor_of(&g, "I900")->offset, 899);
    assert_int_equal(g.tables[0].field_count, 999);
    graph_close(&g);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        assert_int_not_equal(compile_set(&g, text, refused[i][0]), ST_OK);
        if (!strstr(status_message(), refused[i][1])) fail_msg("%s: %s", refused[i][0], status_message());
    }
}

/* A column of texts, and a number, may be a label as well; what reads a label finds
 * that, all else the column. */
static void compile__label_that_is_another_column__is_both(void **state)
{
    (void)state;
    static const char text[] =
        "[data]\nformat = csv\nsparse = c, d\ndense = n, m\nlabel = c, n, l\n[table emb]\ndim = 4\n"
        "[embedding e]\ntable = emb\ninput = c\n[concat x]\ninput = e, n\n[fc y]\ninput = x\n"
        "units = 1\n[loss a]\ninput = y\nlabel = c\n[loss b]\ninput = y\nlabel = n\n";
    struct graph g = compiled(text, NULL);
    uint32_t count = 0;
    for (uint32_t i = graph_loss_next(&g, 0); i < g.forward_count; i = graph_loss_next(&g, i + 1), count++) {
        const struct graph_tensor *t = &g.tensors[g.args[g.nodes[i].arg_begin + 1]];
        assert_int_equal(t->kind, TENSOR_LABEL);
        assert_int_equal(t->offset, count);
    }
    assert_int_equal(count, 2);
    graph_close(&g);
    assert_int_not_equal(compile_set(&g, text, "x.input=e, l"), ST_OK);
    if (!strstr(status_message(), "the label \"l\" cannot be an input")) fail_msg("%s", status_message());
    assert_int_not_equal(compile_set(&g, text, "data.label=c, n, x"), ST_OK);
    if (!strstr(status_message(), "the name \"x\" is taken")) fail_msg("%s", status_message());
}

static void memory__many_parts__count_once(void **state)
{
    (void)state;
    static char text[16384];
    size_t length = (size_t)snprintf(text, sizeof text, HEAD LOOKUP);
    for (int i = 0; i < 90; i++)
        length += (size_t)snprintf(text + length, sizeof text - length, "[fc f%d]\ninput = e\nunits = 1024\n", i);
    length += (size_t)snprintf(text + length, sizeof text - length, "[concat h]\ninput = f0");
    for (int i = 1; i < 90; i++) length += (size_t)snprintf(text + length, sizeof text - length, ", f%d", i);
    snprintf(text + length, sizeof text - length, "\n" TAIL "[train]\nbatch = 65536\nmicro = 65536\n");
    struct graph g = compiled(text, NULL);
    const struct graph_tensor *h = tensor_of(&g, "h"), *last = tensor_of(&g, "f89");
    assert_int_equal(last->offset, h->offset + 89 * 1024 * sizeof(float));
    assert_true(g.header->slot_bytes < (uint64_t)1 << 36);
    graph_close(&g);
}

static void memory__deep_net__needs_less_than_the_sum_of_its_tensors(void **state)
{
    (void)state;
    struct graph g = compiled(MODEL, NULL);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < g.tensor_count; i++)
        if (g.tensors[i].kind == TENSOR_ACTIVATION) sum += (uint64_t)g.tensors[i].stride * g.header->micro * 4;
    assert_true(g.header->slot_bytes < sum);
    assert_true(g.header->slot_eval_bytes <= g.header->slot_bytes);
    graph_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compile__small_model__has_its_shapes),
        cmocka_unit_test(compile__same_text__gives_same_bytes),
        cmocka_unit_test(compile__embedded_text__compiles_to_the_same_graph),
        cmocka_unit_test(graph_open_set__older_rules__stay),
        cmocka_unit_test(compile__store_bf16__halves_vectors_from_rules_11_on),
        cmocka_unit_test(compile__admission_by_bloom__shards_from_rules_10_on),
        cmocka_unit_test(compile__wrong_text__says_where_and_what),
        cmocka_unit_test(compile__batch__is_divided_as_asked),
        cmocka_unit_test(compile__recipe__does_not_change_the_model_hash),
        cmocka_unit_test(fuse__activation_in_the_same_layer__goes_into_the_fc),
        cmocka_unit_test(fuse__output_read_twice__is_left_alone),
        cmocka_unit_test(fuse__batch_norm_between__is_left_alone),
        cmocka_unit_test(precision__bf16__is_that_of_a_whole_tile),
        cmocka_unit_test(precision__rounded__is_told_to_every_fc_but_that_of_one_unit),
        cmocka_unit_test(updates__batch_norm_and_data_norm__are_apart),
        cmocka_unit_test(updates__batch_norms__are_runs_behind_what_is_trained),
        cmocka_unit_test(params__shared__have_one_place_and_two_gradients),
        cmocka_unit_test(params_of_nodes__any_cut__tiles_every_update),
        cmocka_unit_test(updates__lookups_only__have_no_parameters),
        cmocka_unit_test(lookups__one_table_in_two_layers__are_numbered_in_order),
        cmocka_unit_test(memory__tensors_alive_together__do_not_overlap),
        cmocka_unit_test(memory__inputs_of_a_concat__lie_within_its_output),
        cmocka_unit_test(compile__many_columns__are_told_apart),
        cmocka_unit_test(compile__label_that_is_another_column__is_both),
        cmocka_unit_test(memory__many_parts__count_once),
        cmocka_unit_test(memory__deep_net__needs_less_than_the_sum_of_its_tensors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
