/* The parsers' kernels of every instruction set that runs here, against naive code, and whole files read by
 * each against the plain one. */
#include "tests/io/read/criteo_test.h"

#include <math.h>

#include "engine/base/fmath.h"
#include "engine/base/isa.h"
#include "io/read/reader_internal.h"

/* What TEST gives for each instruction set but base, which is the reference; says which are left out. */
#define EACH_ISA(kernels)                                                                                              \
    for (size_t isa_ = 0; isa_ < ISA_IO_COUNT; isa_++)                                                                 \
        for (const struct text_kernels *kernels = text_kernels_of(isa_io_names[isa_]); kernels; kernels = NULL)

static void columns_find__random_texts__are_cut_as_naive_code_does(void **state)
{
    (void)state;
    static char text[1024 + READER_SLACK_BYTES];
    static uint32_t begin[1024 + TEXT_BEGIN_MORE];
    uint64_t random = 5;
    for (int round = 0; round < 20000; round++) {
        /* Bytes behind the text are line ends and separators too, which must not count. */
        size_t bytes = test_random(&random) % (round % 4 ? 300 : 1000);
        uint64_t density = 1 + test_random(&random) % 40;
        for (size_t i = 0; i < bytes + READER_SLACK_BYTES; i++) {
            uint64_t r = test_random(&random) % density;
            text[i] = r == 0 ? ',' : r == 1 && i % 3 == 0 ? '"' : (char)('a' + r % 20);
        }
        if (bytes && round % 3) text[test_random(&random) % bytes] = '\n';
        text[bytes] = '\n';
        uint32_t limit = round % 5 ? 1000 : (uint32_t)(test_random(&random) % 70);
        uint32_t count = 0, expected[1024];
        size_t stop = 0;
        bool has_quote = false;
        expected[0] = 0;
        for (; stop < bytes && text[stop] != '\n'; stop++) {
            has_quote |= text[stop] == '"';
            if (text[stop] == ',') expected[++count] = (uint32_t)stop + 1;
        }
        expected[count + 1] = (uint32_t)stop + 1;
        EACH_ISA(kernels)
        {
            struct text_columns found = {.begin = begin};
            memset(begin, 0xff, sizeof begin);
            kernels->columns_find(text, bytes, ',', limit, &found);
            assert_int_equal(found.line_bytes, stop);
            assert_int_equal(found.has_end, stop < bytes);
            assert_int_equal(found.has_quote, has_quote);
            assert_int_equal(found.separator_count, count);
            for (uint32_t i = 0; i <= count + (count < limit) && i <= limit; i++)
                if (begin[i] != expected[i]) fail_msg("%s, round %d, column %u", kernels->name, round, i);
            for (uint32_t i = 1; i <= TEXT_PAD && count < limit; i++)
                if (begin[count + 1 + i] != stop + 1) fail_msg("%s, round %d, %u behind", kernels->name, round, i);
        }
    }
}

static void keys__texts_of_all_lengths__are_those_of_reader_key(void **state)
{
    (void)state;
    enum { COUNT = 21 };
    static char text[4096];
    uint64_t random = 9, key[COUNT + TEXT_SEEDS_PAD];
    uint32_t at[COUNT + TEXT_SEEDS_PAD] = {0}, bytes[COUNT + TEXT_SEEDS_PAD] = {0}, which[COUNT + TEXT_SEEDS_PAD] = {0};
    struct arena arena;
    struct text_seeds seeds;
    assert_ok(arena_open(&arena, "test", text_seeds_bytes(COUNT)));
    text_seeds_place(&seeds, &arena, COUNT);
    for (size_t i = 0; i < sizeof text; i++) text[i] = (char)test_random(&random);
    for (int round = 0; round < 5000; round++) {
        for (uint32_t i = 0; i < COUNT; i++) {
            text_seeds_set(&seeds, i, round % 2 ? i : test_random(&random));
            at[i] = (uint32_t)(test_random(&random) % 3000);
            which[i] = (uint32_t)(test_random(&random) % COUNT);
            bytes[i] = 1 + (uint32_t)(test_random(&random) % (round % 3 == 0 ? 300 : round % 3 == 1 ? 8 : 17));
        }
        EACH_ISA(kernels)
        {
            if (!kernels->keys) continue;
            kernels->keys(key, text, at, bytes, &seeds, which, COUNT);
            for (uint32_t i = 0; i < COUNT; i++)
                if (key[i] != reader_key(seeds.seed[which[i]], text + at[i], bytes[i]))
                    fail_msg("%s: a key of %u bytes", kernels->name, bytes[i]);
        }
    }
    arena_close(&arena);
}

static void fields__some_absent__have_keys_one_behind_another(void **state)
{
    (void)state;
    enum { COUNT = 37 };
    static char text[4096];
    uint64_t random = 3;
    for (size_t i = 0; i < sizeof text; i++) text[i] = (char)test_random(&random);
    for (uint32_t round = 0; round < 2000; round++) {
        const uint32_t field_count = 1 + round % COUNT;
        uint32_t at[COUNT + TEXT_PAD] = {0}, stop[COUNT + TEXT_PAD] = {0}, key_end[COUNT], expected = 0;
        uint64_t key[COUNT + 1];
        struct arena arena;
        struct text_plain plain;
        assert_ok(arena_open(&arena, "test", text_plain_bytes(field_count)));
        text_plain_place(&plain, &arena, field_count, round & 1);
        for (uint32_t f = 0; f < field_count; f++) text_plain_set(&plain, f, test_random(&random));
        for (uint32_t i = 0; i < COUNT + TEXT_PAD; i++) { /* behind the last field are texts, too */
            const uint64_t longest = round % 3 ? 8 : 40;
            at[i] = (uint32_t)(test_random(&random) % 3000);
            stop[i] = at[i] + 1 + (uint32_t)(test_random(&random) % 4 ? test_random(&random) % (longest + 1) : 0);
        }
        EACH_ISA(kernels)
        {
            if (!kernels->fields) continue;
            memset(key_end, 0xff, sizeof key_end);
            key[field_count] = 5;
            const uint32_t found = kernels->fields(&plain, text, at, stop, key, key_end);
            expected = 0;
            for (uint32_t f = 0; f < field_count; f++) {
                const uint32_t bytes = stop[f] - at[f] - 1;
                if (bytes == 0 && !plain.missing_is_key) {
                    assert_int_equal(key_end[f], expected);
                    continue;
                }
                if (key[expected] != reader_key(plain.seeds.seed[f], text + at[f], bytes))
                    fail_msg("%s: field %u of %u, %u bytes", kernels->name, f, field_count, bytes);
                assert_int_equal(key_end[f], ++expected);
            }
            assert_int_equal(found, expected);
            assert_int_equal(key[field_count], 5);
        }
        arena_close(&arena);
    }
}

/* Thirteen texts with tabs between them, then as many places again. */
static void integers_write(char *line, uint32_t begin[18], const char *const text[13])
{
    char *at = line;
    for (uint32_t i = 0; i < 18; i++) {
        begin[i] = (uint32_t)(at - line);
        at += sprintf(at, "%s\t", i < 13 ? text[i] : "x");
    }
}

static bool integers_of(const struct text_kernels *kernels, const char *line, const uint32_t *begin,
                        const float *log1p_of, float missing_value, float out[16])
{
    return kernels->integers(line, begin, begin + 1, 13, log1p_of, missing_value, out);
}

static void integers__any_that_are_short__are_those_of_fmath(void **state)
{
    (void)state;
    static float log1p_of[TEXT_LOG1P_COUNT];
    char line[1024], text[13][32];
    const char *texts[13];
    uint32_t begin[18];
    float out[16];
    uint64_t random = 2;
    for (uint32_t i = 0; i < TEXT_LOG1P_COUNT; i++) log1p_of[i] = (float)fmath_log1p(i);
    for (uint32_t i = 0; i < 13; i++) texts[i] = text[i];
    for (uint64_t round = 0; round < 60000; round++) {
        long value[13];
        for (uint32_t i = 0; i < 13; i++) {
            /* All small ones, and random ones of all lengths. */
            value[i] =
                (long)(round < 30000 ? round * 13 + i : test_random(&random) % 100000000 >> test_random(&random) % 27);
            if (test_random(&random) % 8 == 0 && value[i] < 10000000) value[i] = -value[i];
            sprintf(text[i], "%ld", value[i]);
            if (test_random(&random) % 16 == 0) text[i][0] = 0;
        }
        integers_write(line, begin, texts);
        EACH_ISA(kernels)
        {
            for (int is_log = 0; is_log < 2 && kernels->integers; is_log++) {
                assert_true(integers_of(kernels, line, begin, is_log ? log1p_of : NULL, -0.5f, out));
                for (uint32_t i = 0; i < 13; i++) {
                    double magnitude = fabs((double)value[i]);
                    float expected = (float)(is_log ? fmath_log1p(magnitude) : magnitude);
                    if (value[i] < 0) expected = -expected;
                    if (!text[i][0]) expected = -0.5f;
                    if (memcmp(&out[i], &expected, sizeof expected) != 0)
                        fail_msg("%s: %s gives %.9g, expected %.9g", kernels->name, text[i], out[i], expected);
                }
            }
        }
    }
}

static void integers__anything_else__is_left_to_plain_code(void **state)
{
    (void)state;
    static const char *const others[] = {"-",
                                         "--1",
                                         "+1",
                                         "1.0",
                                         " 1",
                                         "1\r",
                                         "1234567:",
                                         "/2345678",
                                         "\xb1",
                                         "123456789",
                                         "1-",
                                         "-1234567x",
                                         "\xff\xff\xff\xff\xff\xff\xff\xff",
                                         "0000000001",
                                         "a",
                                         "1 ",
                                         "-0a"};
    char line[1024];
    uint32_t begin[18];
    float out[16];
    for (size_t n = 0; n < sizeof others / sizeof *others; n++)
        for (uint32_t place = 0; place < 13; place++) {
            const char *texts[13];
            for (uint32_t i = 0; i < 13; i++) texts[i] = i == place ? others[n] : "7";
            integers_write(line, begin, texts);
            EACH_ISA(kernels)
            if (kernels->integers && integers_of(kernels, line, begin, NULL, 0, out))
                fail_msg("%s takes \"%s\" for an integer", kernels->name, others[n]);
        }
}

/* --- whole files ------------------------------------------------------------------------------ */

/* Lines of Criteo that are seldom what they should be. */
static size_t lines_make(char *out, uint64_t seed)
{
    static const char *const integers[] = {"",         "0", "-1", "17", "4095", "4096", "-99999999", "123456789012",
                                           "99999999", "5", "3",  "1",  "2",    "8",    "9",         "123",
                                           "45678"};
    static const char *const categories[] = {"",
                                             "68fd1e64",
                                             "80e26c9b",
                                             "fb936136",
                                             "7b4723c4",
                                             "25c83c98",
                                             "a",
                                             "bc",
                                             "def",
                                             "0123456",
                                             "5a9ed9b0",
                                             "a73ee510",
                                             "a 16 byte text",
                                             "much more than sixteen bytes of a text"};
    char *at = out;
    uint64_t random = seed;
    for (int n = 0; n < 400; n++) {
        uint64_t kind = n ? test_random(&random) % 40 : 30; /* opening looks at the first line */
        at += sprintf(at, "%s", kind == 0 ? "2" : kind == 1 ? "" : n % 2 ? "1" : "0");
        for (int i = 0; i < 13; i++)
            at += sprintf(
                at, "\t%s",
                kind == 2 && i == n % 13 ? "x" : integers[test_random(&random) % (sizeof integers / sizeof *integers)]);
        for (int i = 0; i < 26 - (kind == 3) + (kind == 4); i++)
            at += sprintf(at, "\t%s",
                          categories[test_random(&random) % (kind < 20 ? 6 : sizeof categories / sizeof *categories)]);
        if (kind == 5)
            for (int i = 0; i < 90; i++) *at++ = '\t';
        at = stpcpy(at, kind == 6 ? "\r\n" : kind == 7 ? "\n\n" : "\n");
    }
    if (seed % 2) at--;
    return (size_t)(at - out);
}

/* A function of all that a pass gives. */
static uint64_t file_hash(struct reader_options options, const char *isa, struct reader_counts *counts)
{
    struct test_batch b;
    struct reader *reader;
    uint64_t hash = 0;
    options.isa = isa;
    test_batch_open(&b, options.schema.example, TEST_MICRO);
    assert_ok(reader_open(&reader, &options));
    assert_ok(reader_start(reader, 0));
    for (bool end = false; !end;) {
        micro_batch_clear(&b.m);
        status st = reader_fill(reader, &b.m, TEST_MICRO, &end);
        if (st != ST_OK) {
            assert_int_equal(st, ST_INVALID);
            hash = reader_key(hash, status_message(), strlen(status_message()));
        }
        hash = test_batch_hash(&b, options.schema.example, hash);
    }
    *counts = reader_counts(reader);
    reader_close(reader);
    test_batch_close(&b);
    return hash;
}

static void isas_agree(struct reader_options options)
{
    struct reader_counts first, counts;
    uint64_t hash = file_hash(options, "base", &first);
    EACH_ISA(kernels)
    {
        if (file_hash(options, kernels->name, &counts) != hash) fail_msg("%s reads another file", kernels->name);
        assert_int_equal(counts.bad_count, first.bad_count);
        assert_int_equal(counts.line_count, first.line_count);
        assert_int_equal(counts.cut_count, first.cut_count);
    }
}

static void criteo__random_lines_under_all_options__give_the_same(void **state)
{
    (void)state;
    static const struct reader_column dense[] = {{.name = "I5", .mean = 1, .scale = 0.5f}, {.name = "I1", .scale = 1}},
                                      field[] = {{.name = "C26", .seed = 25},
                                                 {.name = "C3", .seed = 2},
                                                 {.name = "C3", .seed = 100},
                                                 {.name = "C1", .seed = 0},
                                                 {.name = "C8", .seed = UINT64_C(0x123456789abcdef)}};
    static char text[1000000];
    for (uint64_t flags = 0; flags < 64; flags++) {
        struct reader_options options = criteo_options(test_file("lines", text, lines_make(text, flags)));
        options.schema.log1p = flags & 1;
        options.schema.missing_is_key = flags & 2;
        options.schema.missing_value = 0.25f;
        options.label_optional = flags & 4;
        options.bad_skip = flags & 8;
        options.bad_keep = (flags & 8) && flags % 3;
        options.shuffle = flags & 16 ? 50 : 0;
        options.lines = flags & 4 ? READER_TRAIN : READER_ALL;
        options.held_out = 0.5f;
        if (flags & 32) {
            options.schema.example = (struct example_shape){
                .dense_count = 2, .dense_stride = 3, .field_count = 5, .key_count_max = 5, .label_count = 1};
            options.schema.dense = dense;
            options.schema.field = field;
        }
        isas_agree(options);
    }
}

/* Lines of features, one in some with what is seldom there. */
static size_t features_make(char *out, enum reader_format format, uint64_t seed)
{
    static const char *const ids[] = {"3",
                                      "17",
                                      "90",
                                      "12345",
                                      "99999999",
                                      "123456789",
                                      "4",
                                      "65536",
                                      "00000001",
                                      "0",
                                      "00",
                                      "1x",
                                      "x",
                                      "",
                                      "-3",
                                      "17:2",
                                      "12345678",
                                      "1234567a",
                                      "12345678901234567890",
                                      "123456789012345678901"};
    static const char *const values[] = {"1", "0.5", "1",   "12.3000",  "1",           "-0.25",     "3e5",    "-0",
                                         "1", "1.",  ".5",  "99999999", "123456789.5", "1.2345678", "-7.125", ".",
                                         "-", "",    "nan", "1e39",     "16777217",    "+1",        "1.5.2",  "0x1"};
    static const char *const fields[] = {"0", "1", "17", "65535", "65536", "00017", "000017", "", "-1", "x", "123456"};
    static const char *const blanks[] = {" ", " ", " ", " ", "\t", "  ", " \t "};
    char *at = out;
    uint64_t random = seed + 1;
#define PICK(list, usual) list[test_random(&random) % (is_odd ? sizeof list / sizeof *list : (usual))]
    for (int n = 0; n < 600; n++) {
        uint64_t kind = n ? test_random(&random) % 60 : 30, count = test_random(&random) % (kind == 8 ? 300 : 45);
        uint64_t odd = kind < 8 ? test_random(&random) % (count + 1) : count;
        at += sprintf(at, "%s", kind == 9 ? "x" : kind == 10 ? "" : n % 2 ? "1" : "0");
        if (format == READER_LIBSVM && kind >= 11 && n % 3 == 0) at += sprintf(at, " qid:%d", n / 5);
        for (uint64_t i = 0; i < count; i++) {
            bool is_odd = i == odd;
            at = stpcpy(at, PICK(blanks, 4));
            if (format == READER_LIBFFM) at += sprintf(at, "%s:", PICK(fields, 4));
            at = stpcpy(at, PICK(ids, 7));
            if (!is_odd || i % 2) at += sprintf(at, ":%s", PICK(values, 9));
        }
        at = stpcpy(at, kind == 12 ? " # 3:1 2:1" : kind == 13 ? " " : kind == 14 ? " \t" : "");
        at = stpcpy(at, kind == 15 ? "\r\n" : "\n");
    }
#undef PICK
    if (seed % 2) at--;
    return (size_t)(at - out);
}

static void features__random_lines_of_all_dialects__give_the_same(void **state)
{
    (void)state;
    static const enum reader_format formats[] = {READER_LIBSVM, READER_LIBFM, READER_LIBFFM};
    static const struct reader_column
        all[] = {{.name = "features", .seed = 7, .ids_max = 40, .vocabulary = READER_NONE}},
        places[] = {{.name = "F2", .seed = 1, .ids_max = 1, .vocabulary = READER_NONE},
                    {.name = "features", .seed = 2, .ids_max = 150, .vocabulary = READER_NONE},
                    {.name = "F70", .seed = 3, .ids_max = 1, .vocabulary = READER_NONE}},
        numbers[] = {{.name = "F17", .seed = 1, .ids_max = 9, .vocabulary = READER_NONE},
                     {.name = "F65535", .seed = 2, .ids_max = 1, .vocabulary = READER_NONE},
                     {.name = "F1", .seed = 3, .ids_max = 30, .vocabulary = READER_NONE}};
    static const struct reader_column *const fields[] = {all, places, numbers};
    static char text[1000000];
    for (uint64_t flags = 0; flags < 96; flags++) {
        uint64_t dialect = flags / 32;
        struct reader_options options = {.format = formats[dialect],
                                         .paths =
                                             test_file("features", text, features_make(text, formats[dialect], flags)),
                                         .part = "data",
                                         .bad_skip = true};
        struct reader_schema *s = &options.schema;
        s->field = fields[dialect];
        s->example =
            (struct example_shape){.field_count = dialect ? 3 : 1, .label_count = 1, .has_value = !(flags & 1)};
        for (uint32_t f = 0; f < s->example.field_count; f++) s->example.key_count_max += s->field[f].ids_max;
        s->missing_is_key = flags & 2;
        s->ids_over_is_error = flags & 4;
        s->example.has_group = dialect == 0 && (flags & 8);
        s->group = "qid";
        options.label_optional = flags & 8;
        options.bad_keep = flags & 16;
        isas_agree(options);
    }
}

/* A kernel may leave any line to plain code, so that whole files do not show what it takes by itself. */
static void features__plain_lines__are_taken_whole(void **state)
{
    (void)state;
    enum { COUNT = TEXT_FEATURES + 3 };
    static char text[8192];
    static const uint32_t field_of[] = {1, 0, 2};
    struct arena arena;
    struct text_numbers numbers = {.all = 1, .number_count = 2, .field = field_of};
    assert_ok(arena_open(&arena, "test", text_seeds_bytes(3)));
    text_seeds_place(&numbers.seeds, &arena, 3);
    for (uint32_t f = 0; f < 3; f++) text_seeds_set(&numbers.seeds, f, 70 + f);
    for (uint32_t has_number = 0; has_number < 2; has_number++)
        for (uint32_t count = 1; count <= COUNT; count++) {
            size_t bytes = 0, expected = 0, at[COUNT];
            uint32_t id_bytes[COUNT];
            numbers.has_number = has_number;
            for (uint32_t i = 0; i < count; i++) {
                if (i == TEXT_FEATURES) expected = bytes + 1;
                bytes += (size_t)sprintf(text + bytes, i ? " " : "");
                if (has_number) bytes += (size_t)sprintf(text + bytes, "%u:", i % 4);
                at[i] = bytes;
                id_bytes[i] = (uint32_t)sprintf(text + bytes, "%u", 7 + i * i * i * (i % 3 ? 1 : 9000));
                bytes += id_bytes[i];
                bytes += (size_t)sprintf(text + bytes, ":%s", i % 5 ? "1" : "0.25");
            }
            if (count <= TEXT_FEATURES) expected = bytes;
            EACH_ISA(kernels)
            {
                static struct text_features found;
                if (!kernels->features) continue;
                assert_int_equal(kernels->features(text, bytes, &numbers, &found), expected);
                assert_int_equal(found.count, count < TEXT_FEATURES ? count : TEXT_FEATURES);
                for (uint32_t i = 0; i < found.count; i++) {
                    const uint32_t field = has_number ? field_of[i % 4 < 2 ? i % 4 : 2] : 1;
                    assert_int_equal(found.at[i], at[i]);
                    assert_int_equal(found.id_bytes[i], id_bytes[i]);
                    if (has_number) assert_int_equal(found.field[i], field);
                    assert_int_equal(found.key[i], reader_key(70 + field, text + at[i], id_bytes[i]));
                    assert_true(found.value[i] == (i % 5 ? 1 : 0.25f));
                }
            }
        }
    arena_close(&arena);
}

/* Features in the order of their fields, but for one line in eight, with gaps, several of a field, and ids
 * that move what follows over the borders of blocks. */
static size_t ordered_make(char *out, enum reader_format format, uint64_t seed)
{
    static const char *const values[] = {"1", "1", "1", "1", "0.5000", "12.25", "3"};
    char *at = out;
    uint64_t random = seed + 1;
    for (int n = 0; n < 600; n++) {
        const bool is_mixed = n % 8 == 7, is_long = n % 50 == 9;
        uint64_t number = test_random(&random) % 4;
        at += sprintf(at, "%d", n % 2);
        for (int i = 0; number < 30 && i < (is_long ? 300 : 60); i++) {
            const int digits = i ? 1 + (int)(test_random(&random) % 9) : 1 + n % 20;
            *at++ = ' ';
            if (format == READER_LIBFFM) at += sprintf(at, "%d:", (int)(is_mixed ? test_random(&random) % 30 : number));
            for (int d = 0; d < digits; d++) *at++ = (char)('1' + test_random(&random) % 9);
            at += sprintf(at, ":%s", values[test_random(&random) % (sizeof values / sizeof *values)]);
            const uint64_t kind = test_random(&random) % (is_long ? 200 : 8);
            if (n % 100 == 9 && i == 2 * TEXT_FEATURES - 1) number = 0; /* between two calls of a kernel */
            number += kind == 0 ? 1 + test_random(&random) % 9 : kind < 6 && (!is_long || i % 9 == 0);
        }
        at = stpcpy(at, n % 7 == 3 ? "\r\n" : "\n");
    }
    if (seed % 2) at--;
    return (size_t)(at - out);
}

static void features__in_order_of_their_fields__give_the_same(void **state)
{
    (void)state;
    static char text[1000000], name[24][8];
    struct reader_column field[24];
    for (uint32_t f = 0; f < 24; f++) {
        sprintf(name[f], "F%u", f + 1 + (f > 15 ? 4 : 0)); /* F0 and F17 to F20 are of no field */
        field[f] = (struct reader_column){
            .name = name[f], .seed = f, .ids_max = f % 5 == 2 ? 9 : 3, .vocabulary = READER_NONE};
    }
    for (uint64_t flags = 0; flags < 64; flags++) {
        const enum reader_format format = flags & 32 ? READER_LIBFM : READER_LIBFFM;
        struct reader_options options = {.format = format,
                                         .paths = test_file("ordered", text, ordered_make(text, format, flags)),
                                         .part = "data",
                                         .bad_skip = true};
        struct reader_schema *s = &options.schema;
        s->field = field;
        s->example = (struct example_shape){.field_count = 24, .label_count = 1, .has_value = flags & 1};
        for (uint32_t f = 0; f < 24; f++) s->example.key_count_max += field[f].ids_max;
        s->missing_is_key = flags & 2;
        s->ids_over_is_error = flags & 4;
        options.bad_keep = flags & 8;
        isas_agree(options);
    }
}

/* Lines of eighteen columns: a label, nine numbers, eight texts. */
static size_t csv_make(char *out, uint64_t seed)
{
    static const char *const numbers[] = {"1", "23", "4095", "-7", "12345678", "", "?", "1.5", "123456789", "x"};
    static const char *const texts[] = {
        "a",    "68fd1e64",   "bc",       "much more than eight bytes", "", "?", "\"a,b\"", " d ", "\"\"", "\"e\" ",
        "f\"g", "\"h\"\"i\"", "ab\"c,d\""};
    char *at = out;
    uint64_t random = seed + 1;
    for (int n = 0; n < 500; n++) {
        const uint64_t kind = n ? test_random(&random) % 12 : 11;
        const char *line = at;
        if (kind != 1) at += sprintf(at, "%d,", n % 2);
        for (int i = 0; i < 9; i++)
            at += sprintf(at, "%s,", numbers[test_random(&random) % (kind == 2 ? 10 : kind < 7 ? 7 : 5)]);
        for (int i = 0; i < 8; i++) {
            /* A mark in a text that is the first byte of a block, and the line's first mark. */
            while (kind == 9 && i == 7 && (at - line) % 64) *at++ = 'a';
            const char *word = texts[test_random(&random) % (kind == 3 ? 13 : kind < 7 ? 6 : 4)];
            if (kind == 9 && i == 7) word = "\"c,d\"";
            at += sprintf(at, kind == 4 || kind == 8 ? "\"%s\"%s" : "%s%s", word, i < 7 ? "," : "");
        }
        at = stpcpy(at, kind == 5 ? ",\r\n" : kind == 6 ? "\r\n" : "\n");
    }
    if (seed % 2) at--;
    return (size_t)(at - out);
}

static void csv__columns_in_a_run_or_scattered__give_the_same(void **state)
{
    (void)state;
    static char text[1000000];
    static const struct reader_column label = {.name = "l"};
    static const char *const names[2][17] = {
        {"x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8"},
        {"x1", "x3", "x9", "x4", "x5", "x6", "x7", "x8", "x2", "f1", "f8", "f2", "f2", "f5", "f1", "f7", "f3"}};
    for (uint64_t flags = 0; flags < 128; flags++) {
        struct reader_options options = {.format = READER_CSV,
                                         .paths = test_file("lines", text, csv_make(text, flags)),
                                         .part = "data",
                                         .bad_skip = true};
        struct reader_column dense[9], field[8];
        struct reader_schema *s = &options.schema;
        for (uint32_t i = 0; i < 9; i++)
            dense[i] = (struct reader_column){
                .name = names[flags & 1][i], .mean = flags & 2 ? 2 : 0, .scale = flags & 2 ? 0.5f : 1};
        for (uint32_t i = 0; i < 8; i++)
            field[i] = (struct reader_column){
                .name = names[flags & 1][9 + i], .seed = i, .ids_max = 1, .vocabulary = READER_NONE};
        s->example = (struct example_shape){
            .dense_count = 9, .dense_stride = 9, .field_count = 8, .key_count_max = 8, .label_count = 1};
        s->dense = dense;
        s->field = field;
        s->label = &label;
        s->columns = "l,x1..x9,f1..f8";
        s->label_map = "";
        s->separator = ',';
        s->list_separator = '|';
        s->missing_text = flags & 4 ? "?" : "";
        s->missing_value = 0.25f;
        s->log1p = flags & 8;
        s->missing_is_key = flags & 16;
        s->has_quotes = flags & 32;
        options.label_optional = flags & 64;
        options.bad_keep = flags % 3 == 0;
        isas_agree(options);
    }
}

static void reader_open__unknown_instruction_set__is_refused(void **state)
{
    (void)state;
    struct reader *reader;
    struct reader_options options = criteo_options(criteo_file("some", 1));
    options.isa = "mmx";
    assert_fails(INVALID, "no parsers for the instruction set mmx here", reader_open(&reader, &options));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_find__random_texts__are_cut_as_naive_code_does),
        cmocka_unit_test(keys__texts_of_all_lengths__are_those_of_reader_key),
        cmocka_unit_test(fields__some_absent__have_keys_one_behind_another),
        cmocka_unit_test(integers__any_that_are_short__are_those_of_fmath),
        cmocka_unit_test(integers__anything_else__is_left_to_plain_code),
        cmocka_unit_test(criteo__random_lines_under_all_options__give_the_same),
        cmocka_unit_test(features__random_lines_of_all_dialects__give_the_same),
        cmocka_unit_test(features__plain_lines__are_taken_whole),
        cmocka_unit_test(features__in_order_of_their_fields__give_the_same),
        cmocka_unit_test(csv__columns_in_a_run_or_scattered__give_the_same),
        cmocka_unit_test(reader_open__unknown_instruction_set__is_refused),
    };
    for (size_t i = 0; i < ISA_IO_COUNT; i++)
        if (!text_kernels_of(isa_io_names[i])) print_message("# %s does not run here\n", isa_io_names[i]);
    return cmocka_run_group_tests(tests, test_directory_make, test_directory_remove) ? 1 : 0;
}
