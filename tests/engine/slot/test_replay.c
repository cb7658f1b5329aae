/* A reader of micro-batches from memory: whole steps from the front of the data, in turn and for ever. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cfg/ini.h"
#include "engine/data/schema.h"
#include "engine/slot/replay.h"
#include "tests/engine/fixture_files.h"

#define ROWS 29u /* three steps of 8, and 5 more */

static const char model_text[] =
    "[data]\nformat = csv\nlabel = click\nweight = w\ngroup = q\ndense = x, y\nsparse = u, v\nids_max = 2\n"
    "[table t]\ndim = 2\n[embedding e]\ntable = t\ninput = sparse\n[concat k]\ninput = e, dense\n"
    "[fc o]\ninput = k\nunits = 1\n[loss l]\ninput = o\n[train]\nbatch = 8\nmicro = 4\n";

static struct scene {
    struct graph g;
    struct ini ini;
    struct settings settings;
    struct schema schema;
    char path[512];
    struct reader_options o;
} s;

static int group_open(void **state)
{
    (void)state;
    if (fixture_directory_make("test_replay") != 0) return -1;
    snprintf(s.path, sizeof s.path, "%s", fixture_path("data.csv"));
    FILE *file = fopen(s.path, "w");
    fputs("click,w,q,x,y,u,v\n", file);
    for (uint32_t row = 0; row < ROWS; row++)
        fprintf(file, "%u,%u.5,g%u,%u,%u,u%u%s,%s\n", row % 2, row, row / 3, row, 100 + row, row, row % 3 ? "" : "|w",
                row % 4 ? "v" : "");
    fclose(file);
    assert_ok(graph_compile(&s.g, "m.cfg", model_text, sizeof model_text - 1, NULL, 0, NULL));
    assert_ok(ini_parse(&s.ini, "m.cfg", s.g.text, s.g.text_bytes));
    assert_ok(settings_read(&s.ini, &s.settings));
    assert_ok(schema_open(&s.schema, &s.g, &s.settings));
    s.o = (struct reader_options){.format = READER_CSV, .paths = s.path, .schema = s.schema.reader, .part = "reader"};
    return 0;
}

static int group_close(void **state)
{
    (void)state;
    schema_close(&s.schema);
    ini_free(&s.ini);
    graph_close(&s.g);
    return fixture_directory_remove();
}

/* A micro-batch with memory of its own. */
static void place(struct micro_batch *m, struct arena *arena)
{
    const struct batch_shape shape = graph_batch(&s.g);
    assert_ok(arena_open(arena, "test", micro_batch_bytes(shape, graph_example(&s.g))));
    micro_batch_place(m, arena, shape, graph_example(&s.g));
    micro_batch_clear(m);
}

/* The rows from `first` on, whole micro-batches. */
static void rows_check(const struct micro_batch *m, uint32_t first)
{
    const uint32_t stride = s.g.header->dense_stride;
    assert_int_equal(m->example_count, 4);
    for (uint32_t b = 0; b < 4; b++) {
        const uint32_t row = first + b;
        assert_true(m->label[b] == (float)(row % 2));
        assert_true(m->weight[b] == (float)row + 0.5f);
        char group[16];
        snprintf(group, sizeof group, "g%u", row / 3);
        assert_true(m->group[b] == reader_key(0, group, strlen(group)));
        assert_false(m->is_bad[b]);
        const uint32_t *begin = m->key_begin + 2 * b;
        assert_int_equal(begin[1] - begin[0], row % 3 ? 1 : 2);
        assert_int_equal(begin[2] - begin[1], row % 4 ? 1 : 0);
        char key[16];
        snprintf(key, sizeof key, "u%u", row);
        assert_true(m->key[begin[0]] == reader_key(s.schema.reader.field[0].seed, key, strlen(key)));
        assert_int_equal(m->key_home[begin[0]], 2 * b);
        assert_true(m->dense[b * stride] < m->dense[b * stride + 1]);
    }
    assert_int_equal(m->key_count, m->key_begin[8]);
}

static void replay__steps__are_those_of_the_front_in_turn(void **state)
{
    (void)state;
    for (uint32_t wanted = 1; wanted <= 5; wanted++) {
        struct replay r;
        struct arena arena;
        struct micro_batch m;
        bool is_end = true;
        const uint32_t steps = wanted < 3 ? wanted : 3;
        assert_ok(replay_open(&r, &s.g, &s.o, wanted));
        assert_int_equal(r.step_count, steps);
        place(&m, &arena);
        assert_ok(reader_start(&r.reader, 7));
        for (uint32_t i = 0; i < 17; i++) {
            micro_batch_clear(&m);
            assert_ok(reader_fill(&r.reader, &m, 4, &is_end));
            assert_false(is_end);
            rows_check(&m, i % (2 * steps) * 4);
        }
        assert_int_equal(r.given, 17 * 4);
        /* From the front again, and behind what is passed over. */
        assert_ok(reader_start(&r.reader, 8));
        assert_int_equal(r.given, 0);
        assert_ok(reader_skip(&r.reader, 12, NULL, &is_end));
        assert_false(is_end);
        assert_int_equal(r.given, 12);
        micro_batch_clear(&m);
        assert_ok(reader_fill(&r.reader, &m, 4, &is_end));
        rows_check(&m, 3 % (2 * steps) * 4);
        arena_close(&arena);
        replay_close(&r);
        assert_null(r.micro);
    }
}

static void replay__keys_with_values__have_them(void **state)
{
    (void)state;
    static const char text[] = "[data]\nformat = libsvm\nsparse = features\nids_max = 2\n[table t]\ndim = 2\n"
                               "[embedding e]\ntable = t\ninput = sparse\n[fc o]\ninput = e\nunits = 1\n"
                               "[loss l]\ninput = o\n[train]\nbatch = 4\nmicro = 4\n";
    struct graph g;
    struct ini ini;
    struct settings settings;
    struct schema schema;
    struct replay r;
    struct arena arena;
    struct micro_batch m;
    bool is_end;
    const char *path = fixture_path("data.svm");
    FILE *file = fopen(path, "w");
    for (uint32_t row = 0; row < 8; row++) fprintf(file, "1 3:%u.5 9:%u.25\n", row, row);
    fclose(file);
    assert_ok(graph_compile(&g, "m.cfg", text, sizeof text - 1, NULL, 0, NULL));
    assert_ok(ini_parse(&ini, "m.cfg", g.text, g.text_bytes));
    assert_ok(settings_read(&ini, &settings));
    assert_ok(schema_open(&schema, &g, &settings));
    const struct reader_options o = {.format = READER_LIBSVM, .paths = path, .schema = schema.reader, .part = "reader"};
    assert_ok(replay_open(&r, &g, &o, 2));
    assert_ok(arena_open(&arena, "test", micro_batch_bytes(graph_batch(&g), graph_example(&g))));
    micro_batch_place(&m, &arena, graph_batch(&g), graph_example(&g));
    assert_ok(reader_start(&r.reader, 1));
    for (uint32_t step = 0; step < 3; step++) {
        micro_batch_clear(&m);
        assert_ok(reader_fill(&r.reader, &m, 4, &is_end));
        assert_int_equal(m.key_count, 8);
        for (uint32_t k = 0; k < 8; k++) {
            const uint32_t row = step % 2 * 4 + k / 2;
            assert_true(m.value[k] == (float)row + (k % 2 ? 0.25f : 0.5f));
        }
    }
    arena_close(&arena);
    replay_close(&r);
    schema_close(&schema);
    ini_free(&ini);
    graph_close(&g);
    unlink(path);
}

static void replay_open__less_than_a_step__is_refused(void **state)
{
    (void)state;
    struct replay r;
    char path[512];
    snprintf(path, sizeof path, "%s", fixture_path("short.csv"));
    for (uint32_t rows = 7; rows <= 8; rows++) {
        FILE *file = fopen(path, "w");
        fputs("click,w,q,x,y,u,v\n", file);
        for (uint32_t i = 0; i < rows; i++) fputs("1,1,g,1,2,u,v\n", file);
        fclose(file);
        struct reader_options o = s.o;
        o.paths = path;
        assert_int_equal(replay_open(&r, &s.g, &o, 2), rows == 8 ? ST_OK : ST_INVALID);
        if (rows == 7)
            assert_message("short.csv: a step has 8 examples, found fewer; give more data or a smaller train.batch");
        if (rows == 8) assert_int_equal(r.step_count, 1);
        replay_close(&r);
    }
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replay__steps__are_those_of_the_front_in_turn),
        cmocka_unit_test(replay__keys_with_values__have_them),
        cmocka_unit_test(replay_open__less_than_a_step__is_refused),
    };
    return cmocka_run_group_tests(tests, group_open, group_close) ? 1 : 0;
}
