/* What the data cache is valid for: a file that an earlier run has left serves the same options alone. */
#include "tests/io/io_test.h"

#include "io/cache/cached_reader.h"
#include "tests/fault_alloc.h"

static char told[4096];
static void told_add(void *context, enum notice kind, const char *text)
{
    (void)context, (void)kind;
    snprintf(told + strlen(told), sizeof told - strlen(told), "%s\n", text);
}
static const struct notices notices = {.tell = told_add};

static const char *const words[] = {"x", "y", "z"}, *const other_words[] = {"x", "y", "q"};

/* All that a csv reader's options say. */
struct all {
    struct reader_column dense[2], field[2], label[1];
    struct reader_vocabulary vocabulary[1];
    struct reader_kind kind[1];
    struct reader_options o;
};

static void all_make(struct all *a, const char *path)
{
    *a = (struct all){.dense = {{.name = "d", .scale = 1}, {.name = "e", .scale = 2}},
                      .field = {{.name = "f", .seed = 7, .ids_max = 2, .vocabulary = READER_NONE},
                                {.name = "g", .seed = 8, .ids_max = 1, .vocabulary = 0}},
                      .label = {{.name = "l", .vocabulary = READER_NONE}},
                      .vocabulary = {{.word_count = 3, .unknown = READER_NONE, .text = words}},
                      .kind = {{.name = "leaf", .children_max = 2}}};
    a->o = (struct reader_options){.format = READER_CSV,
                                   .paths = path,
                                   .part = "test",
                                   .notices = &notices,
                                   .schema = {.example = {.dense_count = 2,
                                                          .dense_stride = 2,
                                                          .field_count = 2,
                                                          .key_count_max = 3,
                                                          .label_count = 1,
                                                          .has_weight = true,
                                                          .has_group = true},
                                              .dense = a->dense,
                                              .field = a->field,
                                              .label = a->label,
                                              .vocabulary = a->vocabulary,
                                              .vocabulary_count = 1,
                                              .kind = a->kind,
                                              .kind_count = 1,
                                              .weight = "w",
                                              .group = "u",
                                              .label_map = "",
                                              .has_header = true,
                                              .missing_text = "",
                                              .separator = ',',
                                              .list_separator = '|'}};
}

/* Opens it with a cache beside the data, and reads a pass; what is told. */
static const char *opened(const struct all *a)
{
    static struct arena arena;
    static struct micro_batch m;
    const struct batch_shape batch = {.batch = 16, .micro = 16, .lanes = 1};
    const struct data_cache_budget budget = {.ssd_bytes = 8 << 20};
    struct example_shape shape = a->o.schema.example;
    struct reader *reader;
    bool is_end = false;
    told[0] = 0;
    assert_ok(cached_reader_open(&reader, &a->o, &budget, NULL));
    assert_ok(arena_open(&arena, "m", micro_batch_bytes(batch, shape)));
    micro_batch_place(&m, &arena, batch, shape);
    assert_ok(reader_start(reader, 0));
    while (!is_end) {
        micro_batch_clear(&m);
        assert_ok(reader_fill(reader, &m, 16, &is_end));
    }
    reader_close(reader);
    arena_close(&arena);
    return told;
}

#define CHANGES(X)                                                                                                     \
    X(a.o.lines = READER_TRAIN)                                                                                        \
    X(a.o.held_out = 0.25f)                                                                                            \
    X(a.o.label_optional = true)                                                                                       \
    X(a.o.bad_skip = true)                                                                                             \
    X((a.o.bad_skip = true, a.o.bad_keep = true))                                                                      \
    X(a.o.unknown_keep = true)                                                                                         \
    X(a.o.schema.ids_over_is_error = true)                                                                             \
    X(a.o.schema.ids_over_is_few = true)                                                                               \
    X(a.o.schema.log1p = true)                                                                                         \
    X(a.o.schema.missing_is_key = true)                                                                                \
    X(a.o.schema.missing_value = 0.5f)                                                                                 \
    X(a.o.schema.has_quotes = true)                                                                                    \
    X(a.o.schema.list_separator = ';')                                                                                 \
    X(a.o.schema.window = 3)                                                                                           \
    X(a.o.schema.example.dense_count = 1)                                                                              \
    X(a.o.schema.example.field_count = 1)                                                                              \
    X(a.o.schema.example.key_count_max = 4)                                                                            \
    X(a.o.schema.example.has_weight = false)                                                                           \
    X(a.o.schema.example.has_group = false)                                                                            \
    X(a.o.schema.label_map = "1=0, *=1")                                                                               \
    X(a.o.schema.missing_text = "NA")                                                                                  \
    X(a.o.schema.weight = "d")                                                                                         \
    X(a.o.schema.group = "d")                                                                                          \
    X(a.dense[0].name = "l")                                                                                           \
    X(a.dense[1].mean = 1)                                                                                             \
    X(a.dense[1].scale = 1)                                                                                            \
    X(a.field[0].seed++)                                                                                               \
    X(a.field[0].ids_max = 1)                                                                                          \
    X(a.field[0].vocabulary = 0)                                                                                       \
    X(a.label[0].name = "d")                                                                                           \
    X(a.vocabulary[0].unknown = 1)                                                                                     \
    X(a.vocabulary[0].word_count = 2)                                                                                  \
    X(a.vocabulary[0].text = other_words)                                                                              \
    X(a.o.schema.kind_count = 0)                                                                                       \
    X(a.kind[0].name = "inner")                                                                                        \
    X(a.kind[0].children_min = 1)                                                                                      \
    X(a.kind[0].children_max = 1)                                                                                      \
    X(a.kind[0].needs_word = true)                                                                                     \
    X(a.kind[0].needs_number = true)

static void cached_reader__any_option_that_decides__is_read_anew(void **state)
{
    (void)state;
    struct all a;
    char path[1024];
    FILE *file = fopen(test_path("data.csv"), "wb");
    assert_non_null(file);
    fputs("w,u,d,e,f,g,l\n0.5,1,1,0,x|y,x,1\n2,2,2,1,x,y,0\n0,1,3,1,x|y,z,1\n", file);
    fclose(file);
    snprintf(path, sizeof path, "%s", test_path("data.csv"));
#define CHANGE(change)                                                                                                 \
    unlink(test_path("data.csv.cache"));                                                                               \
    all_make(&a, path);                                                                                                \
    opened(&a);                                                                                                        \
    assert_null(strstr(opened(&a), "have changed"));                                                                   \
    change;                                                                                                            \
    if (strstr(opened(&a), "columns, settings or the program have changed") == NULL) fail_msg("%s: %s", #change, told);
    CHANGES(CHANGE)
#undef CHANGE
    /* Others do not. */
    unlink(test_path("data.csv.cache"));
    all_make(&a, path);
    opened(&a);
    a.o.seed = 9, a.o.shuffle = 3, a.o.readers = 2, a.o.io_threads = true;
    assert_null(strstr(opened(&a), "have changed"));
    unlink(test_path("data.csv.cache"));
}

static void cached_reader_open__no_memory__says_so_fault(void **state)
{
    (void)state;
    FAULT_ALLOC_SKIP();
    struct all a;
    struct reader *reader;
    const struct data_cache_budget budget = {.ram_bytes = 1 << 20, .ssd_bytes = 8 << 20};
    all_make(&a, test_text("few.csv", "w,u,d,e,f,g,l\n0.5,1,1,0,x|y,x,1\n"));
    EACH_ALLOCATION_FAILS(cached_reader_open(&reader, &a.o, &budget, NULL), reader_close(reader));
    a.o.readers = 2, a.o.shuffle = 5;
    EACH_ALLOCATION_FAILS(cached_reader_open(&reader, &a.o, &budget, NULL), reader_close(reader));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cached_reader__any_option_that_decides__is_read_anew),
        cmocka_unit_test(cached_reader_open__no_memory__says_so_fault),
    };
    return cmocka_run_group_tests(tests, test_directory_make, test_directory_remove) ? 1 : 0;
}
