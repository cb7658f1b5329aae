/* What loading a save says of each way in which the graph is another: names, both sides'
 * values, the setting that differs; and rows that stay in files which go. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>

#include "engine/base/log.h"
#include "tests/engine/model/model_fixture.h"

#define DATA  "[data]\ndense = I1..I3\nsparse = C1..C3\n"
#define EMB   "[table emb]\ndim = 4\noptimizer = adagrad 0.05\n[embedding e]\ntable = emb\ninput = C1..C2\npool = sum\n"
#define SIDE  "[table side]\ndim = 2\n[embedding s]\ntable = side\ninput = C3\npool = sum\n"
#define CAT   "[concat x]\ninput = e, s, dense\n"
#define H     "[fc h]\ninput = x\nunits = 5\nactivation = relu\n"
#define G     "[fc g]\ninput = x\nunits = 5\nactivation = tanh\n"
#define Y     "[concat z]\ninput = h, g\n[fc y]\ninput = z\nunits = 1\n"
#define LOSS  "[loss l]\ninput = y\n"
#define WHOLE DATA EMB SIDE CAT H G Y LOSS

static void model_of(struct graph *graph, struct model *model, const char *text)
{
    assert_ok(graph_compile(graph, "m.cfg", text, strlen(text), NULL, 0, NULL));
    assert_ok(model_open(model, graph, &(struct model_budget){.ram_bytes = FIXTURE_RAM_BYTES}));
}

static void model_load__another_graph__says_what_differs(void **state)
{
    (void)state;
    static const struct {
        const char *text, *parts[2]; /* before and behind the name of the save, or the hashes */
    } cases[] = {
        {DATA EMB SIDE CAT "[fc h]\ninput = x\nunits = 6\nactivation = relu\n" G Y LOSS,
         {"h.weight: the graph has [13, 6], ", " has [13, 5]: h.units was 5 when it was saved and is 6 now"}},
        {DATA EMB SIDE CAT G H Y LOSS, {"the graph has the same parameters in another order"}},
        {DATA EMB SIDE CAT H "[fc f]\ninput = x\nunits = 5\nactivation = tanh\n[concat z]\ninput = h, f\n"
                             "[fc y]\ninput = z\nunits = 1\n" LOSS,
         {"f.weight: the graph has [13, 5], ", " has none: [fc g] was there when it was saved and is not now"}},
        {DATA EMB SIDE CAT H "[fc y]\ninput = h\nunits = 1\n" LOSS,
         {"y.weight: the graph has [5, 1], ", " has [10, 1]: [fc g] was there when it was saved and is not now"}},
        {DATA
         "[table emb]\ndim = 8\noptimizer = adagrad 0.05\n[embedding e]\ntable = emb\ninput = C1..C2\npool = sum\n" SIDE
             CAT H G Y LOSS,
         {"table emb: the graph has dim 8, ", " has 4: emb.dim was 4 when it was saved and is 8 now"}},
        {DATA
         "[table emb]\ndim = 4\noptimizer = adam 0.05\n[embedding e]\ntable = emb\ninput = C1..C2\npool = sum\n" SIDE
             CAT H G Y LOSS,
         {"table emb: a row of the graph has 13 floats (vector and optimizer state), of ",
          " 8: its optimizer or its life differs: "
          "emb.optimizer was adagrad 0.05 when it was saved and is adam 0.05 now"}},
        {DATA EMB "[concat x]\ninput = e, dense\n" H G Y LOSS,
         {"table 1: the graph has none, ", " has side: [table side] was there when it was saved and is not now"}},
        {DATA SIDE EMB CAT H G Y LOSS, {"table 0: the graph has side, ", " has emb"}},
        {DATA EMB SIDE
         "[table more]\ndim = 1\n[embedding m]\ntable = more\ninput = C3\n[concat x]\ninput = e, s, dense\n" H G
         "[concat z]\ninput = h, g, m\n[fc y]\ninput = z\nunits = 1\n" LOSS,
         {"table 2: the graph has more, ", " has none: z.input was h, g when it was saved and is h, g, m now"}},
        {DATA EMB SIDE CAT "[fc h]\ninput = x\nunits = 5\nactivation = tanh\n" G Y LOSS,
         {"the graph has the same tables and parameters, but another model hash ",
          ": its columns, ops, optimizers or seed differ: h.activation was relu when it was saved and is tanh now"}},
        {DATA EMB SIDE CAT "[fc h]\ninput = x\nunits = 5\n" G Y LOSS,
         {"the graph has the same tables and parameters, but another model hash ",
          ": its columns, ops, optimizers or seed differ: "
          "h.activation was relu when it was saved and is its default now"}},
        {DATA EMB SIDE CAT H G Y "[loss l]\nkind = squared\ninput = y\n",
         {"the graph has the same tables and parameters, but another model hash ",
          ": its columns, ops, optimizers or seed differ: "
          "l.kind was its default when it was saved and is squared now"}},
        {DATA EMB "[table side]\ndim = 2\n[embedding s]\ntable = side\ninput = C2\npool = sum\n" CAT H G Y LOSS,
         {"the graph has the same tables and parameters, but another model hash ",
          ": its columns, ops, optimizers or seed differ: s.input was C3 when it was saved and is C2 now"}},
        {DATA EMB SIDE CAT H G Y LOSS "[train]\nseed = 99\n",
         {"the graph has the same tables and parameters, but another model hash ",
          ": its columns, ops, optimizers or seed differ: train.seed was 1 when it was saved and is 99 now"}},
        {DATA "[table emb]\ndim = 4\noptimizer = adagrad 0.05\nrows = 100\n"
              "[embedding e]\ntable = emb\ninput = C1..C2\npool = sum\n" SIDE CAT H G Y LOSS,
         {"", "emb.rows was 0 when it was saved and is 100 now"}},
        {DATA "[table emb]\ndim = 4\noptimizer = adagrad 0.05\nvector_score = 1\n"
              "[embedding e]\ntable = emb\ninput = C1..C2\npool = sum\n" SIDE CAT H G Y LOSS,
         {"", "emb.vector_score was 0 when it was saved and is 1 now"}},
    };
    struct graph graph;
    struct model model;
    char path[256];
    snprintf(path, sizeof path, "%s", fixture_path("saved"));
    model_of(&graph, &model, WHOLE);
    model_init(&model);
    assert_ok(fixture_save(&model, path));
    model_close(&model);
    assert_ok(model_open(&model, &graph, &(struct model_budget){.ram_bytes = FIXTURE_RAM_BYTES}));
    assert_ok(model_load(&model, path));
    model_close(&model);
    graph_close(&graph);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        model_of(&graph, &model, cases[i].text);
        const status st = model_load(&model, path);
        assert_int_equal(st, ST_MISMATCH);
        assert_message("saved/manifest.json: ");
        for (int k = 0; k < 2 && cases[i].parts[k]; k++) assert_message(cases[i].parts[k]);
        assert_message(" (a model trained with --set needs the same --set here)");
        assert_int_equal(model.progress.step, 0);
        model_close(&model);
        graph_close(&graph);
    }
}

/* --- rows that stay in the files --------------------------------------------------------------------- */

#define MANY_ROWS 60000u

static _Atomic bool shared_is_loaded;

/* Removes the save's files of rows, as a training that thins its saves does, once they are mapped; or, on a
 * busy machine, when the load has ended. */
static void *rows_remove(void *directory)
{
    static char maps[1 << 20];
    char rows[512], path[1200];
    snprintf(rows, sizeof rows, "%s/emb.10.rows", (const char *)directory);
    for (bool is_mapped = false; !is_mapped && !atomic_load(&shared_is_loaded);) {
        FILE *file = fopen("/proc/self/maps", "r");
        if (file == NULL) return NULL;
        maps[fread(maps, 1, sizeof maps - 1, file)] = 0;
        fclose(file);
        is_mapped = strstr(maps, rows) != NULL;
    }
    const char *const names[] = {"emb.10.rows", "side.car.10.rows", "dense.10.safetensors"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", (const char *)directory, names[i]);
        (void)unlink(path);
    }
    return NULL;
}

static void model_load__rows_in_files_that_go_meanwhile__are_read_all_the_same(void **state)
{
    (void)state;
    struct model from, model;
    pthread_t remover;
    char path[256];
    float span[64];
    const uint64_t rows[] = {MANY_ROWS, MANY_ROWS};
    const struct model_budget large = {.ram_bytes = (uint64_t)32 << 20};
    snprintf(path, sizeof path, "%s", fixture_path("thinned"));
    assert_ok(model_open(&from, &fixture_graph, &large));
    model_init(&from);
    fixture_fill(&from, 1, MANY_ROWS);
    assert_ok(fixture_save(&from, path));
    assert_ok(model_open(&model, &fixture_graph, &(struct model_budget){.ram_bytes = large.ram_bytes, .rows = rows}));
    assert_int_equal(pthread_create(&remover, NULL, rows_remove, path), 0);
    const status st = model_load(&model, path);
    atomic_store(&shared_is_loaded, true);
    if (st != ST_OK) fail_msg("%s", status_message());
    assert_int_equal(pthread_join(remover, NULL), 0);
    for (uint32_t t = 0; t < 2; t++)
        for (uint64_t row = 0; row < MANY_ROWS; row += MANY_ROWS / 7) {
            const uint64_t key = store_key(from.store, t, row);
            assert_ok(store_copy(model.store, t, &key, 1, span));
            assert_memory_equal(span, store_span(from.store, t, row), fixture_graph.tables[t].dim * sizeof *span);
        }
    model_close(&model);
    model_close(&from);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(model_load__another_graph__says_what_differs),
        cmocka_unit_test(model_load__rows_in_files_that_go_meanwhile__are_read_all_the_same),
    };
    return cmocka_run_group_tests(tests, fixture_open, fixture_close) ? 1 : 0;
}
