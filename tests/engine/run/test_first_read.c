/* The first lines of data before a training from rows of elsewhere: whether any key has
 * a row, of all tables or of one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/run/first_read.h"
#include "io/store/store_rows.h"
#include "tests/engine/run/session_fixture.h"

/* Two tables, of columns C1 and C2. */
static const char two_text[] = "[data]\nsparse = C1..C2\n[table emb]\ndim = 2\n"
                               "[embedding e]\ntable = emb\ninput = C1\npool = sum\n[table side]\ndim = 2\n"
                               "[embedding s]\ntable = side\ninput = C2\npool = sum\n[concat x]\ninput = e, s\n"
                               "[fc y]\ninput = x\nunits = 1\n[loss bce]\ninput = y\n"
                               "[train]\nbatch = 128\n[store]\nram = 1MiB\n";

static char graph_path[256], data_path[256];

static int group_open(void **state)
{
    struct graph graph;
    (void)state;
    if (fixture_directory_make("test_first_read") != 0) return -1;
    assert_ok(graph_compile(&graph, "two.cfg", two_text, sizeof two_text - 1, NULL, 0, NULL));
    snprintf(graph_path, sizeof graph_path, "%s", fixture_path("two.bin"));
    snprintf(data_path, sizeof data_path, "%s", fixture_path("data.tsv"));
    assert_ok(graph_write(&graph, graph_path));
    graph_close(&graph);
    return 0;
}

/* `rows` lines, whose C1 is one of `distinct` texts, and C2 the same. */
static void data_make(uint32_t rows, uint32_t distinct)
{
    FILE *file = fopen(data_path, "w");
    assert_non_null(file);
    for (uint32_t r = 0; r < rows; r++) {
        fputs("1", file);
        for (int i = 0; i < 13; i++) fputs("\t", file);
        fprintf(file, "\tk%u\tk%u", r % distinct, r % distinct);
        for (int i = 2; i < 26; i++) fputs("\t", file);
        fputs("\n", file);
    }
    assert_int_equal(fclose(file), 0);
}

/* A row of the key that the table has of a text. */
static void row_put(struct session *s, uint32_t table, const char *text)
{
    const struct graph *g = &s->setup.graph;
    const uint64_t key = reader_key(g->fields[table].seed, text, strlen(text));
    float *span;
    assert_ok(store_put(s->setup.model.store, table, key, &span));
    memset(span, 0, g->tables[table].span_floats * sizeof *span);
}

struct scene {
    struct session session;
    struct scope *scope, *before;
    char said[4096];
};

static status checked(const char *emb, const char *side, char said[4096])
{
    struct scene scene;
    memset(&scene, 0, sizeof scene);
    assert_ok(scope_open(&scene.scope));
    scene.before = scope_enter(scene.scope);
    log_open(LOG_TEXT, 0);
    assert_ok(
        session_open(&scene.session, &(struct session_options){.setup = {.graph_path = graph_path, .training = true},
                                                               .crew = {.threads = 1, .share = true}}));
    assert_string_equal(graph_string(&scene.session.setup.graph, scene.session.setup.graph.tables[0].name), "emb");
    if (emb) row_put(&scene.session, 0, emb);
    if (side) row_put(&scene.session, 1, side);
    fflush(NULL);
    int saved = dup(STDERR_FILENO), file = memfd_create("err", MFD_CLOEXEC);
    assert_true(saved >= 0 && file >= 0 && dup2(file, STDERR_FILENO) >= 0);
    struct failure failure;
    failure_keep(&failure, first_rows_check(&scene.session.crew, &scene.session.setup, data_path, "start.model"));
    fflush(NULL);
    ssize_t bytes = pread(file, said, 4095, 0);
    dup2(saved, STDERR_FILENO);
    close(saved), close(file);
    assert_true(bytes >= 0);
    said[bytes] = 0;
    session_close(&scene.session);
    scope_enter(scene.before);
    scope_close(scene.scope);
    return failure_adopt(&failure);
}

static void first_rows_check__keys_without_rows__are_refused_where_they_are_many(void **state)
{
    (void)state;
    char said[4096];
    /* The micro-batch has 128 lines, and a hundred keys are many. */
    data_make(200, 128);
    assert_int_equal(checked("other", NULL, said), ST_MISMATCH);
    assert_message("start.model: expected rows for keys of the first 128 examples of ");
    assert_message("data.tsv, found none for any of 100 keys or more: its keys were made by another rule");
    assert_string_equal(said, "");
    assert_int_equal(checked("other", "other", said), ST_MISMATCH);
    assert_ok(checked("k0", NULL, said));
    assert_string_equal(said, "");
    assert_ok(checked("k127", NULL, said));
    assert_int_equal(checked("k128", NULL, said), ST_MISMATCH);
    assert_ok(checked(NULL, NULL, said)); /* without rows there is nothing to say */
    assert_string_equal(said, "");
    /* One table has rows of the keys, the other has not. */
    assert_ok(checked("k5", "other", said));
    assert_non_null(strstr(said, "warning: start.model: table side, first 128 examples of "));
    assert_non_null(strstr(said, "data.tsv: none of 100 keys or more has a row"));
    assert_null(strstr(said, "table emb"));
    assert_ok(checked("other", "k5", said));
    assert_non_null(strstr(said, "table emb"));
    assert_null(strstr(said, "table side"));
    assert_ok(checked("k5", "k5", said));
    assert_string_equal(said, "");
}

static void first_rows_check__few_keys__are_looked_for_until_the_data_end(void **state)
{
    (void)state;
    char said[4096];
    data_make(300, 3);
    assert_int_equal(checked("other", NULL, said), ST_MISMATCH);
    assert_message("keys of the first 300 examples of ");
    assert_message("data.tsv, found none for any of 3 keys: its keys");
    assert_ok(checked("k2", NULL, said));
    assert_string_equal(said, "");
    assert_ok(checked("k2", "other", said));
    assert_non_null(strstr(said, "table side, first 300 examples of "));
    assert_non_null(strstr(said, "data.tsv: none of 3 keys has a row"));
    /* The last of many. */
    data_make(300, 300);
    assert_ok(checked("k99", NULL, said));
    /* Few keys in as many lines as are looked at are no proof, but worth a word. */
    data_make(20000, 3);
    assert_ok(checked("other", NULL, said));
    assert_non_null(strstr(said, "warning: start.model: table emb, first 10,112 examples of "));
    assert_non_null(strstr(said, "data.tsv: none of 3 keys has a row, so training begins them anew\n"));
    assert_ok(checked("k1", "other", said));
    assert_non_null(strstr(said, "table side"));
    assert_null(strstr(said, "table emb"));
    assert_ok(checked("k1", "k2", said));
    assert_string_equal(said, "");
    data_make(128, 100);
    assert_int_equal(checked("other", NULL, said), ST_MISMATCH);
    /* Of two tables the keys are counted together. */
    data_make(128, 50);
    assert_int_equal(checked("other", "other", said), ST_MISMATCH);
}

static void first_read__data__its_first_examples_and_bad_lines(void **state)
{
    (void)state;
    struct scope *scope, *before;
    struct session s;
    uint64_t bad = 7;
    data_make(3, 3);
    assert_ok(scope_open(&scope));
    before = scope_enter(scope);
    assert_ok(session_open(&s, &(struct session_options){.setup = {.graph_path = graph_path, .training = true},
                                                         .crew = {.threads = 1, .share = true}}));
    assert_ok(first_read(&s.crew, &s.setup, data_path, READER_ALL, NULL, NULL, &bad));
    assert_int_equal(bad, 0);
    assert_int_equal(first_read(&s.crew, &s.setup, fixture_path("nothing"), READER_ALL, NULL, NULL, &bad), ST_IO);
    session_close(&s);
    const char *const set[] = {"data.bad_lines=skip"};
    FILE *file = fopen(data_path, "a");
    fputs("bad\nbad, too\n", file);
    fclose(file);
    assert_ok(session_open(
        &s, &(struct session_options){.setup = {.graph_path = graph_path, .set = set, .set_count = 1, .training = true},
                                      .crew = {.threads = 1, .share = true}}));
    assert_ok(first_read(&s.crew, &s.setup, data_path, READER_ALL, NULL, NULL, &bad));
    assert_int_equal(bad, 2);
    session_close(&s);
    scope_enter(before);
    scope_close(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_rows_check__keys_without_rows__are_refused_where_they_are_many),
        cmocka_unit_test(first_rows_check__few_keys__are_looked_for_until_the_data_end),
        cmocka_unit_test(first_read__data__its_first_examples_and_bad_lines),
    };
    return cmocka_run_group_tests(tests, group_open, session_fixture_close) ? 1 : 0;
}
