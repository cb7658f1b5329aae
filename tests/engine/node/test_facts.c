/* What nodes have in common: equal for graphs that train alike, however they are written; and of two that do
 * not, the first difference, in the words of both. */
#include "tests/io/io_test.h"

#include "engine/node/facts.h"

static const char text[] = "[model]\nname = m\n"
                           "[data]\ndense = I1..I3\n"
                           "[fc h1]\ninput = dense\nunits = 5\n"
                           "[fc y]\ninput = h1\nunits = 1\n"
                           "[loss bce]\ninput = y\n"
                           "[train]\nbatch = 2000\nmicro = 100\n";

static struct facts facts_of(const char *source, const char *const *set, struct facts_options options)
{
    struct graph graph;
    struct facts facts;
    uint32_t set_count = 0;
    while (set && set[set_count]) set_count++;
    assert_ok(graph_compile(&graph, "m.cfg", source, strlen(source), set, set_count, NULL));
    options.graph = &graph;
    if (options.isa == NULL) options.isa = "avx2";
    if (options.verb == NULL) options.verb = "train";
    if (options.slices == NULL) options.slices = "spread";
    options.rows = "spread";
    assert_ok(facts_make(&facts, &options));
    graph_close(&graph);
    assert_true(facts.bytes > 0 && facts.text[facts.bytes - 1] == '\n');
    return facts;
}

static void assert_differ(const char *source, const char *const *set, struct facts_options options, const char *ours,
                          const char *theirs)
{
    struct facts here = facts_of(text, NULL, (struct facts_options){.node_count = 2}),
                 there = facts_of(source, set, options);
    struct facts_difference d;
    if (ours == NULL) {
        assert_true(here.hash == there.hash);
        assert_false(facts_differ(&here, there.text, there.bytes, &d));
    } else {
        assert_true(here.hash != there.hash);
        assert_true(facts_differ(&here, there.text, there.bytes, &d));
        assert_string_equal(d.ours, ours);
        assert_string_equal(d.theirs, theirs);
    }
    facts_free(&here);
    facts_free(&there);
}

static void facts__of_graphs_that_train_alike__are_the_same(void **state)
{
    (void)state;
    const struct facts_options two = {.node_count = 2};
    static const char *const running[] = {"store.ram=64MiB",   "data.path=elsewhere.tsv", "train.readers=3",
                                          "cluster.timeout=3", "train.batch=2k",          NULL};
    assert_differ(text, NULL, two, NULL, NULL);
    assert_differ(text, running, two, NULL, NULL);
}

static void facts__of_others__name_the_first_difference(void **state)
{
    (void)state;
    const struct facts_options two = {.node_count = 2};
    assert_differ(text, NULL, (struct facts_options){.node_count = 3}, "the number of nodes is 3 there, and 2 here",
                  "the number of nodes is 3 here, and 2 there");
    assert_differ(text, NULL, (struct facts_options){.node_count = 2, .isa = "base"},
                  "the instruction set (--isa) is base there, and avx2 here",
                  "the instruction set (--isa) is base here, and avx2 there");
    assert_differ(text, (const char *const[]){"train.batch=1k", NULL}, two, "train.batch is 1000 there, and 2000 here",
                  "train.batch is 1000 here, and 2000 there");
    assert_differ(text, (const char *const[]){"checkpoint.every=5", NULL}, two,
                  "checkpoint.every is 5 there, and 0 here", "checkpoint.every is 5 here, and 0 there");
    assert_differ(text, (const char *const[]){"h1.units=6", NULL}, two, "h1.units is 6 there, and 5 here",
                  "h1.units is 6 here, and 5 there");
    assert_differ(text, NULL, (struct facts_options){.node_count = 2, .saves = true},
                  "a directory for saves (--out) is given there, and missing here",
                  "a directory for saves (--out) is given here, and missing there");
    assert_differ(text, NULL, (struct facts_options){.node_count = 2, .slices = "local"},
                  "cluster.slices is local there, and spread here", "cluster.slices is local here, and spread there");
    assert_differ(text, NULL, (struct facts_options){.node_count = 2, .bucket_bytes = 4096},
                  "cluster.bucket is 4096 there, and 0 here", "cluster.bucket is 4096 here, and 0 there");
    assert_differ(text, NULL, (struct facts_options){.node_count = 2, .verb = "doctor"},
                  "the verb is doctor there, and train here", "the verb is doctor here, and train there");
    static const char longer[] = "[model]\nname = m\n"
                                 "[data]\ndense = I1..I3\n"
                                 "[fc h1]\ninput = dense\nunits = 5\n"
                                 "[fc h2]\ninput = h1\nunits = 5\n"
                                 "[fc y]\ninput = h2\nunits = 1\n"
                                 "[loss bce]\ninput = y\n"
                                 "[train]\nbatch = 2000\nmicro = 100\n";
    assert_differ(longer, NULL, two, "[fc h2] comes where the node here has [fc y]",
                  "[fc h2] comes where the node there has [fc y]");
}

/* Of a node that holds the key and sends anything. */
static void facts_differ__of_any_text__are_words_that_can_be_printed(void **state)
{
    (void)state;
    struct facts here = facts_of(text, NULL, (struct facts_options){.node_count = 2});
    struct facts_difference d;
    static const char *const others[] = {"",      "\n", "\t", "no tab", "the protocol of nodes\t1", "a\033[2J\tb\n",
                                         "\n\n\n"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_true(facts_differ(&here, others[i], strlen(others[i]), &d));
        for (const char *p = d.ours; *p; p++) assert_true(*p >= ' ');
        assert_true(strlen(d.ours) > 0 && strlen(d.theirs) > 0);
    }
    facts_free(&here);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(facts__of_graphs_that_train_alike__are_the_same),
        cmocka_unit_test(facts__of_others__name_the_first_difference),
        cmocka_unit_test(facts_differ__of_any_text__are_words_that_can_be_printed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
