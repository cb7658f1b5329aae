/* What going on from a save says of settings that differ: what is refused, what warns, what is silent. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "cfg/settings.h"
#include "engine/base/log.h"
#include "engine/model/recipe.h"
#include "tests/engine/model/model_fixture.h"

static void graph_of(struct graph *graph, const char *const *set, uint32_t set_count)
{
    assert_ok(graph_compile(graph, "tiny.cfg", fixture_text, sizeof fixture_text - 1, set, set_count, NULL));
}

/* Saves a model of the settings, which stands `done` examples into its pass of 100. */
static void save_of(const char *path, const char *const *set, uint32_t set_count, uint64_t done)
{
    struct graph graph;
    struct model model;
    graph_of(&graph, set, set_count);
    assert_ok(model_open(&model, &graph, &(struct model_budget){.ram_bytes = FIXTURE_RAM_BYTES}));
    model_init(&model);
    model.progress =
        (struct progress){.step = 5, .epoch = 2, .epoch_examples = done, .examples = 200 + done, .pass_examples = 100};
    assert_ok(fixture_save(&model, path));
    model_close(&model);
    graph_close(&graph);
}

static char told[8192]; /* what the last resume printed */

/* Goes on from a save by the graph, and keeps in `told` what was printed. */
static status resume_of(const struct graph *graph, const char *path)
{
    struct model model;
    assert_ok(model_open(&model, graph, &(struct model_budget){.ram_bytes = FIXTURE_RAM_BYTES}));
    int standard_error = dup(STDERR_FILENO);
    FILE *printed = tmpfile();
    assert_true(standard_error >= 0 && printed != NULL);
    assert_true(dup2(fileno(printed), STDERR_FILENO) >= 0);
    status st = model_resume(&model, path);
    assert_true(dup2(standard_error, STDERR_FILENO) >= 0);
    close(standard_error);
    rewind(printed);
    told[fread(told, 1, sizeof told - 1, printed)] = 0;
    fclose(printed);
    if (st != ST_OK) assert_int_equal(model.progress.step, 0);
    model_close(&model);
    return st;
}

/* The same, of a save of save_of(), with other settings. */
static status resume_with(const char *path, const char *const *set, uint32_t set_count)
{
    struct graph graph;
    graph_of(&graph, set, set_count);
    const status st = resume_of(&graph, path);
    graph_close(&graph);
    return st;
}

static int count_of(const char *text, const char *part)
{
    int count = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at++) count++;
    return count;
}

static void model_resume__same_settings__says_nothing(void **state)
{
    (void)state;
    const char *set[] = {"data.shuffle=500", "train.l2=0.5"};
    save_of(fixture_path("same"), set, 2, 40);
    assert_ok(resume_with(fixture_path("same"), set, 2));
    assert_string_equal(told, "");
    /* The same numbers, written in another way. */
    const char *other[] = {"train.l2=5e-1", "data.shuffle=0500"};
    assert_ok(resume_with(fixture_path("same"), other, 2));
    assert_string_equal(told, "");
    /* A word of the newest rules for what the older ones' default is here;
     * and what it stands for, where it differs. */
    const char *older[] = {"model.rules=13"}, *slower[] = {"train.schedule=passes"};
    save_of(fixture_path("older"), older, 1, 40);
    assert_ok(resume_with(fixture_path("older"), NULL, 0));
    assert_null(strstr(told, "schedule"));
    assert_ok(resume_with(fixture_path("older"), slower, 1));
    assert_non_null(strstr(told, "train.schedule: constant when it was saved, passes now"));
    save_of(fixture_path("slower"), slower, 1, 40);
    assert_ok(resume_with(fixture_path("slower"), NULL, 0));
    assert_non_null(strstr(told, "train.schedule: passes when it was saved, constant now"));
}

/* `auto` of older rules is another optimizer for weights of a linear model, and the same one for the rest. */
static void model_resume__auto_of_other_rules__is_compared_by_what_it_stands_for(void **state)
{
    (void)state;
    static const char text[] = "[data]\nsparse = C1..C3\n[table emb]\ndim = 1\n[embedding e]\ntable = emb\n"
                               "input = sparse\n[fc y]\ninput = e\nunits = 1\n[loss bce]\ninput = y\nlabel = label\n"
                               "[train]\nbatch = 8\nschedule = constant\n";
    const char *older = "model.rules=12";
    struct graph graph;
    struct model model;
    assert_ok(graph_compile(&graph, "linear.cfg", text, sizeof text - 1, &older, 1, NULL));
    assert_ok(model_open(&model, &graph, &(struct model_budget){.ram_bytes = FIXTURE_RAM_BYTES}));
    model_init(&model);
    assert_ok(fixture_save(&model, fixture_path("linear")));
    model_close(&model);
    graph_close(&graph);
    assert_ok(graph_compile(&graph, "linear.cfg", text, sizeof text - 1, NULL, 0, NULL));
    assert_ok(resume_of(&graph, fixture_path("linear")));
    graph_close(&graph);
    const char *line = "warning: emb.optimizer: adagrad 0.1 initial_accumulator=0.0025 when it was saved, "
                       "adagrad 0.2 initial_accumulator=0.04 now: training goes on by another recipe";
    if (count_of(told, line) != 1) fail_msg("\"%s\" is not in:\n%s", line, told);
    assert_non_null(strstr(told, "model.rules: 12 when it was saved"));
    assert_int_equal(count_of(told, "optimizer"), 1);
}

static void model_resume__another_recipe__one_warning_a_key(void **state)
{
    (void)state;
    const char *set[] = {"train.batch=16",
                         "train.optimizer=adam 0.02 beta1=0.8",
                         "emb.l2=0.25",
                         "data.bad_lines=skip",
                         "side.car.optimizer=adagrad 0.3",
                         "train.lanes=2",
                         "data.label=label",
                         "train.schedule=linear steps=9",
                         "train.clip_norm=2",
                         "emb.clip_value=3",
                         "train.l1=0.5"};
    save_of(fixture_path("recipe"), NULL, 0, 40);
    assert_ok(resume_with(fixture_path("recipe"), set, sizeof set / sizeof *set));
    static const char *const lines[] = {
        "warning: train.batch: 8 when it was saved, 16 now",
        "warning: train.optimizer: adam 0.01 when it was saved, adam 0.02 beta1=0.8 now",
        "warning: emb.l2: 0 when it was saved, 0.25 now",
        "warning: data.bad_lines: error when it was saved, skip now",
        "warning: side.car.optimizer: adagrad 0.1 initial_accumulator=0.5 when it was saved, adagrad 0.3 now",
        "warning: train.lanes: 1 when it was saved, 2 now",
        "warning: train.schedule: constant when it was saved, linear steps=9 now",
        "warning: train.clip_norm: 0 when it was saved, 2 now",
        "warning: emb.clip_value: 0 when it was saved, 3 now",
        "warning: train.l1: 0 when it was saved, 0.5 now",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (count_of(told, lines[i]) != 1) fail_msg("\"%s\" is not in:\n%s", lines[i], told);
    assert_int_equal(count_of(told, "\n"), 10);
    const char *sync = "train.sync=wsp"; /* which has no lanes */
    assert_ok(resume_with(fixture_path("recipe"), &sync, 1));
    assert_int_equal(count_of(told, "warning: train.sync: bsp when it was saved, wsp now"), 1);
    assert_int_equal(count_of(told, "\n"), 1);
}

static void model_resume__only_about_running__says_nothing(void **state)
{
    (void)state;
    const char *set[] = {"model.name=other",   "data.path=/elsewhere/train.tsv",
                         "data.eval=test.tsv", "eval.every=7",
                         "checkpoint.every=9", "checkpoint.keep=4",
                         "store.ram=4MiB",     "train.in_flight=3",
                         "train.pipelines=2",  "train.clock_distance=1"};
    save_of(fixture_path("running"), NULL, 0, 40);
    assert_ok(resume_with(fixture_path("running"), set, sizeof set / sizeof *set));
    assert_string_equal(told, "");
}

static void model_resume__another_length__is_told_without_a_warning(void **state)
{
    (void)state;
    const char *set[] = {"train.epochs=9"};
    save_of(fixture_path("length"), NULL, 0, 40);
    assert_ok(resume_with(fixture_path("length"), set, 1));
    assert_string_equal(told, "resume   train.epochs: 1 when it was saved, 9 now\n");
}

static void model_resume__another_order_within_a_pass__is_refused_with_both_values(void **state)
{
    (void)state;
    const char *saved[] = {"data.shuffle=300"}, *set[] = {"data.shuffle=500", "train.batch=16"};
    save_of(fixture_path("within"), saved, 1, 40);
    assert_int_equal(resume_with(fixture_path("within"), set, 2), ST_INVALID);
    assert_message("within/manifest.json: data.shuffle was 300 when it was saved and is 500 now");
    assert_message("40 examples of a pass are done");
    assert_message("--set data.shuffle=300 --set train.epochs=3");
    assert_message("--init");
    assert_string_equal(told, ""); /* no warning before the refusal */
    /* A default is a value too. */
    assert_int_equal(resume_with(fixture_path("within"), NULL, 0), ST_INVALID);
    assert_message("data.shuffle was 300 when it was saved and is 0 now");
    /* Whoever only uses the model is not asked. */
    struct model model;
    fixture_model(&model, 0, 0);
    assert_ok(model_load(&model, fixture_path("within")));
    model_close(&model);
}

static void model_resume__another_order_between_passes__is_a_warning(void **state)
{
    (void)state;
    const char *set[] = {"data.shuffle=500"};
    const uint64_t done[] = {0, 100};
    for (int i = 0; i < 2; i++) {
        const char *path = fixture_path(i ? "between_100" : "between_0");
        save_of(path, NULL, 0, done[i]);
        assert_ok(resume_with(path, set, 1));
        assert_int_equal(count_of(told, "warning: data.shuffle: 0 when it was saved, 500 now"), 1);
        assert_int_equal(count_of(told, "\n"), 1);
    }
}

/* Settings that the model hash holds: the message says which, where the hash could only say that. */
static void model_resume__another_meaning_of_the_values__is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *set, *message;
    } cases[] = {
        {"data.transform=none", "data.transform was log1p when it was saved and is none now"},
        {"data.missing=key", "data.missing was none"},
        {"data.missing_value=2", "data.missing_value was 0 when it was saved and is 2 now"},
        {"data.ids_max=3", "data.ids_max was 1"},
        {"train.seed=2", "train.seed was 1 when it was saved and is 2 now"},
        {"emb.init=uniform 0.25", "emb.init was uniform 0.5 when it was saved and is uniform 0.25 now"},
    };
    save_of(fixture_path("meaning"), NULL, 0, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(resume_with(fixture_path("meaning"), &cases[i].set, 1), ST_INVALID);
        assert_message(cases[i].message);
        assert_message("--init");
    }
    /* The shape of a part is told by name and shape, as ever. */
    const char *units = "h1.units=6";
    assert_int_equal(resume_with(fixture_path("meaning"), &units, 1), ST_MISMATCH);
    assert_message("h1.weight");
    /* Other words for the same columns are no difference. */
    const char *columns[] = {"data.dense=I1, I2, I3", "data.sparse=C1,C2..C3"};
    assert_ok(resume_with(fixture_path("meaning"), columns, 2));
    assert_string_equal(told, "");
}

/* A text of another program, with a key that is not known here. */
static void model_resume__unknown_setting_in_the_save__warns_and_goes_on(void **state)
{
    (void)state;
    struct graph graph;
    struct model model;
    char text[2048];
    snprintf(text, sizeof text, "%s[eval]\nmood = good\n", fixture_text);
    fixture_compile(&graph, NULL);
    struct graph other = graph;
    other.text = text;
    other.text_bytes = (uint32_t)strlen(text);
    assert_ok(model_open(&model, &other, &(struct model_budget){.ram_bytes = FIXTURE_RAM_BYTES}));
    model_init(&model);
    model.progress.step = 5;
    assert_ok(fixture_save(&model, fixture_path("unknown")));
    model_close(&model);
    graph_close(&graph);
    assert_ok(resume_with(fixture_path("unknown"), NULL, 0));
    assert_int_equal(count_of(told, "warning: the recipe that the model was saved by cannot be compared"), 1);
    assert_int_equal(count_of(told, "mood"), 1);
}

/* A model's text may be any bytes, JSON may not. */
static void model_save__text_is_not_utf8__is_left_out(void **state)
{
    (void)state;
    const char *set[] = {"model.name=caf\xe9"};
    save_of(fixture_path("latin"), set, 1, 40);
    size_t bytes;
    uint8_t *manifest = fixture_read(fixture_path("latin/manifest.json"), &bytes);
    assert_null(memmem(manifest, bytes, "\"text\"", 6));
    free(manifest);
    assert_ok(resume_with(fixture_path("latin"), NULL, 0));
    assert_int_equal(count_of(told, "does not say by which recipe"), 1);
}

/* --- what a node says of its graph ------------------------------------------------------------- */

static struct {
    char text[1 << 16];
    uint32_t count;
} facts;

static void fact_keep(void *context, const char *what, const char *value)
{
    (void)context;
    const size_t end = strlen(facts.text);
    snprintf(facts.text + end, sizeof facts.text - end, "%s: %s\n", what, value);
    facts.count++;
}

static void facts_of(const char *const *set, uint32_t set_count)
{
    struct graph graph;
    graph_of(&graph, set, set_count);
    strcpy(facts.text, "\n");
    facts.count = 0;
    assert_ok(recipe_tell(&graph, fact_keep, NULL));
    graph_close(&graph);
}

static void has_fact(const char *fact)
{
    char line[256];
    snprintf(line, sizeof line, "\n%s\n", fact);
    if (count_of(facts.text, line) != 1) fail_msg("not once: \"%s\" in: %s", fact, facts.text);
}

/* Whether it was said or is the default, however it was written. */
static void recipe_tell__settings__values_that_count(void **state)
{
    (void)state;
    static const char *const set[] = {"train.lanes=4",       "store.ram=2MiB",  "checkpoint.every=7",
                                      "data.bad_lines=skip", "train.readers=2", "emb.l2=0.250"};
    facts_of(NULL, 0);
    const uint32_t count = facts.count;
    has_fact("train.batch: 8");
    has_fact("train.lanes: 1");
    has_fact("train.optimizer: adam 0.01");
    has_fact("data.header: yes");
    has_fact("data.bad_lines: error");
    has_fact("emb.dim: 4");
    has_fact("emb.init: uniform 0.5");
    has_fact("side.car.dim: 3");
    has_fact("side.car.l2: 0");
    has_fact("[embedding e]: there");
    has_fact("e.table: emb");
    has_fact("e.input: C1..C2");
    has_fact("[fc y]: there");
    has_fact("y.units: 1");
    has_fact("checkpoint.keep: 1");
    facts_of(set, sizeof set / sizeof *set);
    assert_int_equal(facts.count, count);
    has_fact("train.lanes: 4");
    has_fact("checkpoint.every: 7");
    has_fact("data.bad_lines: skip");
    has_fact("emb.l2: 0.25");
    assert_null(strstr(facts.text, "store.ram")); /* each node's own */
    assert_null(strstr(facts.text, "train.readers"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(model_resume__same_settings__says_nothing),
        cmocka_unit_test(model_resume__auto_of_other_rules__is_compared_by_what_it_stands_for),
        cmocka_unit_test(model_resume__another_recipe__one_warning_a_key),
        cmocka_unit_test(model_resume__only_about_running__says_nothing),
        cmocka_unit_test(model_resume__another_length__is_told_without_a_warning),
        cmocka_unit_test(model_resume__another_order_within_a_pass__is_refused_with_both_values),
        cmocka_unit_test(model_resume__another_order_between_passes__is_a_warning),
        cmocka_unit_test(model_resume__another_meaning_of_the_values__is_refused_by_name),
        cmocka_unit_test(model_resume__unknown_setting_in_the_save__warns_and_goes_on),
        cmocka_unit_test(model_save__text_is_not_utf8__is_left_out),
        cmocka_unit_test(recipe_tell__settings__values_that_count),
    };
    log_open(LOG_TEXT, 0);
    return cmocka_run_group_tests(tests, fixture_open, fixture_close) ? 1 : 0;
}
