/* Nets keep their bytes: constants, operators and attributes, names, notes and the message around them, of
 * every operator there is. That such a net predicts what the model does is onnxruntime's to say, in
 * e2e/test_onnx.sh: where a fingerprint changes, run that first. Beside it, what is refused, by its name. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <xxhash.h>

#include "engine/onnx/onnx.h"
#include "engine/onnx/onnx_net.h"
#include "tests/engine/model/model_fixture.h"
#include "tests/fault_alloc.h"

#define CLICKS                                                                                                         \
    "[data]\nformat = csv\nlabel = click, kind, amount\ndense = age, 2, tags\nsparse = job, tags, place\n"             \
    "transform = none\nmissing_value = 0.25\n[column tags]\nids_max = 3\n"                                             \
    "[table t]\ndim = 4\noptimizer = adagrad 0.1\n[embedding apart]\ntable = t\ninput = tags\npool = none\n"
#define STORE "[store]\nram = 1MiB\n"
#define LOSS  "[loss bce]\ninput = y\nlabel = click\n" STORE

/* Pools, groups, shares, norms, and what predictions of each loss are. */
static const char layers[] =
    "[model]\nname = layers\n" CLICKS "[embedding most]\ntable = t\ninput = tags, job\npool = max\n"
    "[embedding mean]\ntable = t\ninput = tags\npool = mean\n"
    "[embedding place_e]\ntable = t\ninput = place\n"
    "[slice tags_e]\ninput = apart\nbegin = 4\nend = 12\n"
    "[fc score]\ninput = apart\ngroups = 3\nunits = 1\nactivation = softsign\n"
    "[attention_pool pooled]\ninput = score, apart, tags\nnormalise = softmax\n"
    "[attention_pool weighed]\ninput = score, apart, tags\n"
    "[attention_pairs pairs]\ninput = place_e, apart\n"
    "[sum_pool summed]\ninput = apart\ndim = 2\nrows = 3\n"
    "[reshape turned]\ninput = apart\nrows = 3\ntranspose = yes\n"
    "[reshape same]\ninput = turned\nrows = 2\n"
    "[match near]\ninput = place_e, apart\nsimilarity = cosine\nscale = 3\neps = 0.001\n"
    "[match dots]\ninput = mean, apart\n"
    "[slice three]\ninput = mean\nend = 3\n"
    "[match biased]\ninput = three, apart\nbias = yes\n"
    "[softmax parts]\ninput = same\ngroups = 4\n"
    "[fm squares]\ninput = apart\ndim = 4\nreduce = no\n"
    "[fm square]\ninput = mean\ndim = 2\n"
    "[interact dots2]\ninput = apart, place_e\ndim = 4\n"
    "[interact selves]\ninput = apart\ndim = 6\nself = yes\n"
    "[concat side]\ninput = apart, turned\ngroups = 3\n"
    "[concat all]\n"
    "input = most, tags_e, pooled, weighed, pairs, summed, near, dots, biased, parts, squares, square, dots2, selves, "
    "side, dense\n"
    "[batch_norm normal]\ninput = all\neps = 0.01\n[data_norm scaled]\ninput = dense\n"
    "[fc h]\ninput = normal\nunits = 8\nactivation = tanh\n[leaky_relu bent]\ninput = h\nslope = 0.2\n"
    "[dropout dropped]\ninput = bent\nrate = 0.3\n"
    "[fc g]\ninput = scaled\nunits = 8\nactivation = leaky_relu\n[mul both]\ninput = dropped, g\n"
    "[sigmoid gate]\ninput = both\n[fc no]\ninput = h\nunits = 8\nbias = no\nactivation = relu\n"
    "[cross crossed]\ninput = gate, h, no\n[add sum]\ninput = crossed, h, g\n"
    "[relu cut]\ninput = sum\n[tanh th]\ninput = cut\n[softsign soft]\ninput = th\n"
    "[fc y]\ninput = soft\nunits = 1\n[fc classes]\ninput = soft\nunits = 4\n[fc two]\ninput = soft\nunits = 2\n"
    "[fc value]\ninput = soft\nunits = 1\n"
    "[loss bce]\ninput = y\nlabel = click\n[loss of_four]\nkind = softmax\ninput = classes\nlabel = kind\n"
    "[loss of_two]\nkind = softmax\ninput = two\nlabel = click\n"
    "[loss far]\nkind = squared\ninput = value\nlabel = amount\n"
    "[metric right]\nkind = accuracy\ninput = classes\nlabel = kind\n" STORE;
/* Numbers that are transformed, two tables, fields of one. */
static const char numbers[] =
    "[model]\nname = numbers\n[data]\nformat = criteo\ndense = I1..I3\nsparse = C1..C4\n"
    "[table a]\ndim = 3\n[table b]\ndim = 2\nunseen = zeros\n"
    "[embedding e]\ntable = a\ninput = C1, C2\npool = sum\n"
    "[embedding w]\ntable = b\ninput = C4, C2\npool = sum\n"
    "[concat x]\ninput = e, w, dense\n[fc y]\ninput = x\nunits = 1\n[loss l]\ninput = y\n" STORE;
/* Keys with values. */
static const char valued[] = "[model]\nname = valued\n[data]\nformat = libsvm\nsparse = features\nids_max = 5\n"
                             "[table a]\ndim = 3\n[embedding e]\ntable = a\ninput = features\npool = sum\n"
                             "[fc y]\ninput = e\nunits = 1\n[loss l]\ninput = y\n" STORE;
/* Columns of which only words of a vocabulary count, and absent texts that have a key. */
static const char worded[] = "[model]\nname = worded\n[data]\nformat = csv\nsparse = one, list, plain\n"
                             "missing = key\n[column one]\nvocabulary = w\n"
                             "[column list]\nids_max = 3\nvocabulary = v\n[vocabulary v]\ncolumn = list\n"
                             "path = p\nunknown = c\n[vocabulary w]\ncolumn = one\npath = p\n"
                             "[table a]\ndim = 3\n[embedding e]\ntable = a\ninput = one, list, plain\npool = mean\n"
                             "[fc y]\ninput = e\nunits = 1\n[loss l]\ninput = y\n" STORE;
/* A loss of two rankings, and no table. */
static const char hinge[] = "[model]\nname = hinge\n[data]\nformat = csv\nlabel =\ndense = a, b\ntransform = log1p\n"
                            "[fc x]\ninput = dense\nunits = 1\n[fc z]\ninput = dense\nunits = 1\n"
                            "[loss l]\nkind = hinge\ninput = x, z\n" STORE;

/* Five words; what is drawn of them is nobody's to give. */
#define DRAWN                                                                                                          \
    "[data]\nformat = csv\nlabel = click\nsparse = u\n[vocabulary v]\ncolumn = i\npath = p\n[column i]\n"              \
    "vocabulary = v\n[candidates c]\nof = i\nnegatives = 3\n[table t]\ndim = 4\n[embedding a]\ntable = t\ninput = u\n"
#define MATCH "[embedding k]\ntable = t\ninput = c\npool = none\n[match m]\ninput = a, k\n"
static status words_tell(void *context, const struct vocabulary_settings *settings, const char *name, uint64_t source,
                         status (*word)(void *to, const char *text, size_t bytes, uint64_t count), void *to)
{
    (void)context, (void)settings, (void)name, (void)source;
    for (size_t w = 0; w < 5; w++) TRY(word(to, &"abcde"[w], 1, 9 - w));
    return ST_OK;
}

static void setup_of(struct setup *s, const char *text, const char *const *set, uint32_t set_count)
{
    static const struct graph_source source = {.words = words_tell};
    struct graph g;
    assert_ok(graph_compile(&g, "net.cfg", text, strlen(text), NULL, 0, &source));
    assert_ok(graph_write(&g, fixture_path("net.bin")));
    graph_close(&g);
    static char path[512];
    snprintf(path, sizeof path, "%s", fixture_path("net.bin"));
    assert_ok(setup_open(s, &(struct setup_options){.graph_path = path, .set = set, .set_count = set_count}));
    model_init(&s->model);
}

/* Values all of their own, as fixture_fill's, but no state, which a net has not. */
static void values_put(struct model *model, uint64_t seed, uint64_t row_count)
{
    const struct graph *g = model->graph;
    struct random_stream stream = random_stream(seed, RANDOM_GEN, 0);
    model->progress.step = 10 * seed;
    for (uint32_t i = 0; i < g->tensor_count; i++)
        if (g->tensors[i].kind == TENSOR_PARAM)
            random_fill(model->param + g->tensors[i].offset, (size_t)g->tensors[i].rows * g->tensors[i].cols,
                        INIT_NORMAL, 1, stream, i);
    for (uint32_t table = 0; table < g->table_count; table++)
        for (uint64_t row = 0; row < row_count; row++) {
            float *span;
            uint32_t bits[4];
            random_block(stream, row, 1000 + table, bits);
            assert_ok(store_insert(model->store, table, (uint64_t)bits[0] << 32 | bits[1], &span));
            random_fill(span, g->tables[table].dim, INIT_NORMAL, 1, stream, 10000 * (table + 1) + row);
        }
}

/* Of the file, but for the version of the program that writes it. */
static uint64_t fingerprint_of(const char *path, size_t bytes_told)
{
    size_t bytes;
    uint8_t *data = fixture_read(path, &bytes);
    const size_t version_bytes = strlen(HETERPS_VERSION);
    assert_int_equal(bytes, bytes_told);
    uint8_t *version = memmem(data, 64, HETERPS_VERSION, version_bytes);
    assert_non_null(version);
    version[-1] = 0; /* its length */
    memmove(version, version + version_bytes, (size_t)(data + bytes - version) - version_bytes);
    const uint64_t hash = XXH3_64bits(data, bytes - version_bytes);
    free(data);
    return hash;
}

static void onnx_export__every_operator__keeps_its_bytes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t rows, fingerprint;
    } cases[] = {
        {layers, 7, UINT64_C(0xed8d7cab80e58728)},    {numbers, 5, UINT64_C(0x9a80183b896edf1f)},
        {numbers, 0, UINT64_C(0x59d699dd65560f5f)}, /* without a row */
        {valued, 4100, UINT64_C(0x312f07e50ec2a594)}, {hinge, 0, UINT64_C(0x9f3a7a6a2873e1fd)},
        {worded, 6, UINT64_C(0xabae891852411071)},
    };
    bool is_good = true;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct setup s;
        struct onnx_exported exported;
        setup_of(&s, cases[i].text, NULL, 0);
        values_put(&s.model, 3 + i, cases[i].rows);
        assert_ok(onnx_export(&s, fixture_path("net.onnx"), &exported));
        assert_int_equal(exported.row_count, cases[i].rows * s.graph.table_count);
        const uint64_t found = fingerprint_of(fixture_path("net.onnx"), exported.bytes);
        if (found != cases[i].fingerprint) printf("# case %zu: the fingerprint is 0x%016" PRIx64 "\n", i, found);
        is_good = is_good && found == cases[i].fingerprint;
        setup_close(&s);
    }
    assert_true(is_good);
}

static void refused(const char *text, const char *set, const char *message)
{
    struct setup s;
    struct onnx_exported exported = {0};
    setup_of(&s, text, &set, set != NULL);
    unlink(fixture_path("none.onnx"));
    if (onnx_export(&s, fixture_path("none.onnx"), &exported) != ST_INVALID) fail_msg("expected: %s", message);
    assert_message(message);
    assert_int_equal(access(fixture_path("none.onnx"), F_OK), -1);
    setup_close(&s);
}

static void onnx_export__what_nets_have_not__is_refused_by_name(void **state)
{
    (void)state;
    refused("[model]\nrules = 11\n" CLICKS
            "[fc h]\ninput = apart\nunits = 2\n[fc y]\ninput = h\nunits = 1\n[train]\nprecision = bf16\n" LOSS,
            NULL, "onnx: [fc h] multiplies in bf16, which has no equivalent; train it with --set train.precision=f32");
    refused(CLICKS "[busy b]\ninput = apart\n[fc y]\ninput = b\nunits = 1\n" LOSS, NULL,
            "onnx: [busy b] has no equivalent");
    refused(CLICKS "[fc y]\ninput = apart\nunits = 1\n" LOSS, "t.unseen=init",
            "onnx: table t reads keys without a row as their initial values (unseen = init), which has no equivalent");
    refused(CLICKS "[fc y]\ninput = apart\nunits = 1\n[loss tags.keys]\ninput = y\nlabel = click\n" STORE, NULL,
            "onnx: two inputs or outputs would be called tags.keys: inputs have names of columns, outputs of losses; "
            "rename one");
    refused(
        "[data]\nformat = csv\nsparse = list\n[column list]\nids_max = 3\nvocabulary = v\n[vocabulary v]\n"
        "column = list\npath = p\n[table t]\ndim = 4\n[embedding e]\ntable = t\ninput = list\n"
        "[fc y]\ninput = e\nunits = 1\n[loss l]\ninput = y\n" STORE,
        NULL,
        "onnx: field list is a list of words of a vocabulary, from which readers leave out other texts: this has no "
        "equivalent; let them have a word of their own (unknown of [vocabulary v])");
    refused(DRAWN MATCH "[fc y]\ninput = m\nunits = 1\n[loss l]\ninput = y\n" STORE, NULL,
            "onnx: field c is of candidates that are drawn, which has no equivalent");
    refused(DRAWN "[fc y]\ninput = a\nunits = 1\n[loss l]\ninput = y\n[fc z]\ninput = a\nunits = 4\n"
                  "[loss s]\nkind = nce\ninput = z, c.log_q\n" STORE,
            NULL, "onnx: [loss s] of kind nce is over words that are drawn, which has no equivalent");
    refused(DRAWN MATCH "[loss s]\nkind = sampled_softmax\ninput = m, c.log_q\n" STORE, NULL,
            "onnx: this model ranks the words of a vocabulary, which has no equivalent");
    refused(DRAWN "[concat z]\ninput = c.log_q, a\n[fc y]\ninput = z\nunits = 1\n[loss l]\ninput = y\n" STORE, NULL,
            "onnx: [concat z] reads c.log_q, which has no equivalent");
}

static void onnx_export__a_key_that_stands_for_none__is_refused(void **state)
{
    (void)state;
    struct setup s;
    struct onnx_exported exported;
    float *span;
    setup_of(&s, numbers, NULL, 0);
    assert_ok(store_insert(s.model.store, 1, 0, &span));
    assert_int_equal(onnx_export(&s, fixture_path("none.onnx"), &exported), ST_INVALID);
    assert_message("onnx: a row of table b has the key 0, which stands for no key there");
    setup_close(&s);
}

static void onnx_export__no_memory__says_so_fault(void **state)
{
    (void)state;
    FAULT_ALLOC_SKIP();
    static const char *const texts[] = {layers, numbers, valued};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct setup s;
        struct onnx_exported exported;
        char path[512];
        setup_of(&s, texts[i], NULL, 0);
        values_put(&s.model, 3, 4);
        snprintf(path, sizeof path, "%s", fixture_path("net.onnx"));
        EACH_ALLOCATION_FAILS(onnx_export(&s, path, &exported), (void)0);
        setup_close(&s);
    }
}

static void onnx_input__names__are_each_one_s_own(void **state)
{
    (void)state;
    struct onnx o = {0};
    uint32_t a, b;
    assert_ok(onnx_input(&o, "age", ONNX_FLOAT, 1, &a));
    assert_ok(onnx_input(&o, "ages", ONNX_INT64, 2, &b));
    assert_int_equal(a, 1);
    assert_int_equal(b, 2);
    assert_int_equal(onnx_input(&o, "age", ONNX_INT64, 1, &a), ST_INVALID);
    assert_message("onnx: two inputs or outputs would be called age");
    assert_int_equal(onnx_output(&o, b, "ages", 1), ST_INVALID);
    assert_ok(onnx_input(&o, "value", ONNX_FLOAT, 1, &a));
    assert_int_equal(onnx_input(&o, "value:", ONNX_FLOAT, 1, &a), ST_INVALID);
    assert_message("onnx: value:: inner values have names like value:N: rename this column or loss");
    onnx_close(&o);
    assert_null(o.names);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(onnx_export__every_operator__keeps_its_bytes),
        cmocka_unit_test(onnx_export__what_nets_have_not__is_refused_by_name),
        cmocka_unit_test(onnx_export__a_key_that_stands_for_none__is_refused),
        cmocka_unit_test(onnx_export__no_memory__says_so_fault),
        cmocka_unit_test(onnx_input__names__are_each_one_s_own),
    };
    return cmocka_run_group_tests(tests, fixture_open, fixture_close) ? 1 : 0;
}
