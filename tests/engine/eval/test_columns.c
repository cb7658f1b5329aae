/* Columns of the data beside its examples: texts cut out of lines, queued and taken, and figures by their
 * values; and figures of the examples that training has predicted last. Slots are made by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <sys/mman.h>

#include "engine/base/log.h"
#include "engine/eval/by_value.h"
#include "engine/eval/progressive.h"
#include "tests/engine/fixture_files.h"
#include "tests/fault_alloc.h"
#include "tests/graph/rig.h"

/* --- columns ------------------------------------------------------------------------------------ */

static const struct reader_column click = {.name = "click"};
static struct setup setup;

static void setup_csv(bool has_header, const char *columns)
{
    memset(&setup, 0, sizeof setup);
    setup.settings.data_format = READER_CSV;
    setup.schema.reader = (struct reader_schema){.example = {.label_count = 1},
                                                 .label = &click,
                                                 .has_header = has_header,
                                                 .has_quotes = true,
                                                 .columns = columns,
                                                 .separator = ','};
}
static void setup_criteo(void)
{
    memset(&setup, 0, sizeof setup);
    setup.settings.data_format = READER_CRITEO;
    setup.schema.reader.example.label_count = 1;
}

static status header(struct columns *c, const char *line)
{
    const struct reader_listener *l = columns_listener(c);
    return l->header(l->context, line, strlen(line));
}
static void put(struct columns *c, const char *line)
{
    const struct reader_listener *l = columns_listener(c);
    assert_ok(l->example(l->context, line, line ? strlen(line) : 0));
}
/* The texts of the next example, or their values, between bars. */
static void next_look(struct columns *c, bool are_values, const char *expected)
{
    struct column_text texts[8];
    char all[512] = "";
    assert_ok(columns_next(c, texts));
    for (uint32_t i = 0; i < columns_count(c); i++) {
        if (are_values) columns_marks_remove(c, &texts[i]);
        snprintf(all + strlen(all), sizeof all - strlen(all), "|%.*s", (int)texts[i].bytes, texts[i].text);
    }
    assert_string_equal(all, expected);
}
static void next_check(struct columns *c, const char *expected) { next_look(c, false, expected); }

static void columns__csv_with_names__texts_between_separators(void **state)
{
    (void)state;
    struct columns *c;
    setup_csv(true, NULL);
    assert_ok(columns_open(&c, &setup, "--with", "b, d, click"));
    assert_int_equal(columns_count(c), 3);
    assert_string_equal(columns_name(c, 0), "b");
    assert_string_equal(columns_name(c, 1), "d");
    assert_string_equal(columns_name(c, 2), "click");
    assert_ok(header(c, "click, \"b\" ,\"c, x\",d"));
    put(c, "1,two,3,four");
    put(c, "0,  two and  a bit ,\"3, \"\"x\"\", y\" , four ");
    put(c, "1,\"t\"\"w,o\",,");
    put(c, "1, \"a,\"  tail, 3 ,f,five,six");
    next_check(c, "|two|four|1");
    next_check(c, "|two and  a bit|four|0");
    next_check(c, "|\"t\"\"w,o\"||1");
    next_check(c, "|\"a,\"  tail|f|1");
    put(c, "1,b"); /* too short for d */
    next_check(c, "|b||1");
    put(c, "B,C,D"); /* as many as there are but for the label: none of it */
    next_check(c, "|B|D|");
    put(c, NULL);
    next_check(c, "|||");
    put(c, "");
    next_check(c, "|||");
    put(c, "1,\"open,c,d"); /* a mark that nothing ends */
    next_check(c, "|\"open,c,d||1");
    /* The next file's columns lie elsewhere. */
    assert_ok(header(c, "d,b,e,click"));
    put(c, "D,B,E,0");
    put(c, "D,B,E");
    next_check(c, "|B|D|0");
    next_check(c, "|B|D|");
    columns_close(c);
}

static void columns_marks_remove__csv__gives_the_value(void **state)
{
    (void)state;
    struct columns *c;
    setup_csv(true, NULL);
    assert_ok(columns_open(&c, &setup, "--with", "a\"b, c, click"));
    assert_ok(header(c, "\"click\",\"a\"\"b\", \"c\" "));
    put(c, "1,\"mo\",mo");
    put(c, "\"0\", \"\"\"x\"\", \"\"\"\"\" ,\"\"");
    put(c, "\"a, b\",\" \""); /* without the label */
    put(c, "1,t\"w\"o,\"");
    next_look(c, true, "|mo|mo|1");
    next_look(c, true, "|\"x\", \"\"||0");
    next_look(c, true, "|a, b| |");
    next_look(c, true, "|t\"w\"o|\"|1");
    columns_close(c);
    setup.schema.reader.has_quotes = false;
    assert_ok(columns_open(&c, &setup, "--with", "\"c\""));
    assert_ok(header(c, "click,\"c\""));
    put(c, "1,\"mo\"");
    next_look(c, true, "|\"mo\"");
    columns_close(c);
}

static void columns__a_label_in_the_middle__may_be_lacking(void **state)
{
    (void)state;
    struct columns *c;
    setup_csv(false, "a, click, b, c1..c2");
    assert_ok(columns_open(&c, &setup, "--with", "c2, a, b"));
    put(c, "A,1,B,C1,C2");
    put(c, "A,B,C1,C2");
    put(c, "A,B,C1");
    next_check(c, "|C2|A|B");
    next_check(c, "|C2|A|B");
    next_check(c, "||A|C1");
    columns_close(c);
    setup.schema.reader.has_quotes = false;
    setup.schema.reader.separator = ' ';
    assert_ok(columns_open(&c, &setup, "--with", "b"));
    put(c, "A 1 \"B C1\" C2");
    next_check(c, "|\"B");
    columns_close(c);
}

static void columns__criteo__by_the_names_of_the_format(void **state)
{
    (void)state;
    struct columns *c;
    char line[256] = "1", *at = line + 1;
    setup_criteo();
    assert_ok(columns_open(&c, &setup, "--with", "I1, C26, label, C1"));
    for (int i = 1; i <= 13; i++) at += sprintf(at, "\t%d", i);
    for (int i = 1; i <= 26; i++) at += sprintf(at, "\tc%d", i);
    put(c, line);
    put(c, line + 2);
    next_check(c, "|1|c26|1|c1");
    next_check(c, "|1|c26||c1");
    columns_close(c);
}

static void setup_features(enum reader_format format)
{
    memset(&setup, 0, sizeof setup);
    setup.settings.data_format = format;
    setup.schema.reader.example.label_count = 1;
}

static void columns__lines_of_features__label_features_and_what_the_format_has(void **state)
{
    (void)state;
    struct columns *c;
    setup_features(READER_LIBSVM);
    assert_ok(columns_open(&c, &setup, "--with", "features, qid, label"));
    put(c, " 1 qid:7 3:0.5\t17 # 9:1");
    put(c, "3:0.5 17");    /* without a label */
    put(c, "qid:8 3:0.5"); /* with a group alone */
    put(c, "0");
    put(c, NULL);
    next_check(c, "|3:0.5\t17|7|1");
    next_check(c, "|3:0.5 17||");
    next_check(c, "|3:0.5|8|");
    next_check(c, "|||0");
    next_check(c, "|||");
    columns_close(c);
    setup_features(READER_LIBFM);
    assert_ok(columns_open(&c, &setup, "--with", "F2, F1, features, F3"));
    put(c, "1 3:0.5 17");
    put(c, "3:0.5");
    next_check(c, "|17|3:0.5|3:0.5 17|");
    next_check(c, "||3:0.5|3:0.5|");
    columns_close(c);
    assert_int_equal(columns_open(&c, &setup, "--with", "F0"), ST_INVALID);
    assert_message(
        "--with: no column is called \"F0\"; expected some of label, features, F1, F2, … by the place in the line");
    assert_int_equal(columns_open(&c, &setup, "--with", "F1x"), ST_INVALID);
    assert_int_equal(columns_open(&c, &setup, "--with", "F99999"), ST_INVALID);
    setup_features(READER_LIBFFM);
    assert_ok(columns_open(&c, &setup, "--with", "label, features"));
    put(c, "1 0:3:0.5 2:17:1");
    next_check(c, "|1|0:3:0.5 2:17:1");
    columns_close(c);
    assert_int_equal(columns_open(&c, &setup, "--with", "qid"), ST_INVALID);
}

/* What a writer has been given. */
struct written {
    struct file_sink sink; /* first */
    char text[64];
    size_t bytes;
};
static status written_open(struct file_sink *sink, const char *name) { return (void)sink, (void)name, ST_OK; }
static status written_put(struct file_sink *sink, const void *data, size_t bytes)
{
    struct written *written = (struct written *)sink;
    assert_true(written->bytes + bytes < sizeof written->text);
    memcpy(written->text + written->bytes, data, bytes);
    written->bytes += bytes;
    return ST_OK;
}
static status written_close(struct file_sink *sink) { return (void)sink, ST_OK; }

static void columns_text_put__tabs__are_held_by_quotation_marks(void **state)
{
    (void)state;
    static const struct {
        const char *text, *written;
    } cases[] = {{"", ""},
                 {"a \"b\"", "a \"b\""},
                 {"\"a\tb\"", "\"a\tb\""},
                 {"\"a\"\"\tb\"", "\"a\"\"\tb\""},
                 {"a\tb", "\"a\tb\""},
                 {"a\t\"b\"", "\"a\t\"\"b\"\"\""},
                 {"\"a\" \"\tb\"", "\"\"\"a\"\" \"\"\tb\"\"\""},
                 {"\"a\tb", "\"\"\"a\tb\""}};
    struct columns *c;
    setup_csv(true, NULL);
    for (int quotes = 0; quotes < 2; quotes++) {
        setup.schema.reader.has_quotes = quotes;
        assert_ok(columns_open(&c, &setup, "--with", "a"));
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            struct written written = {.sink = {written_open, written_put, written_close}};
            struct file_writer writer;
            assert_ok(file_writer_open_sink(&writer, "cell", &written.sink));
            assert_ok(columns_text_put(c, (struct column_text){cases[i].text, strlen(cases[i].text)}, &writer));
            assert_ok(file_writer_commit(&writer));
            /* Where marks mean nothing they are part of the text. */
            if (quotes || cases[i].text[0] != '"') assert_string_equal(written.text, cases[i].written);
            if (!quotes && i == 2) assert_string_equal(written.text, "\"\"\"a\tb\"\"\"");
        }
        columns_close(c);
    }
}

static void columns_open__names_that_are_none__are_told(void **state)
{
    (void)state;
    struct columns *c;
    setup_criteo();
    assert_int_equal(columns_open(&c, &setup, "--by", "C1,,C2"), ST_INVALID);
    assert_message("--by: expected names separated by commas, found nothing for column 2");
    assert_null(c);
    assert_int_equal(columns_open(&c, &setup, "--with", "C1, C27"), ST_INVALID);
    assert_message("--with: no column is called \"C27\"; expected some of label, I1..I13, C1..C26");
    assert_null(c);
    setup_csv(false, "a, b");
    assert_int_equal(columns_open(&c, &setup, "--with", "click"), ST_INVALID);
    assert_message("--with: no column is called \"click\"; expected some of a, b");
    setup_csv(true, NULL);
    assert_ok(columns_open(&c, &setup, "--with", "a"));
    assert_int_equal(header(c, "b,aa,A"), ST_INVALID);
    assert_message("--with: no column is called \"a\"");
    columns_close(c);
    setup.settings.data_format = READER_LIBSVM;
    assert_int_equal(columns_open(&c, &setup, "--with", "a"), ST_INVALID);
    assert_message("--with: no column is called \"a\"; expected some of label, features, qid");
    setup.settings.data_format = READER_TREES;
    assert_false(columns_have_names(&setup));
    assert_int_equal(columns_open(&c, &setup, "--with", "a"), ST_INVALID);
    assert_message("columns of data have names in the formats csv, criteo, libsvm, libfm and libffm; "
                   "this graph reads trees");
}

/* Reading is now far ahead, now not at all; texts get longer and longer. */
static void columns_next__behind_reading__in_order(void **state)
{
    (void)state;
    struct columns *c;
    uint32_t written = 0, taken = 0;
    setup_csv(false, "a, b");
    assert_ok(columns_open(&c, &setup, "--with", "b, a"));
    for (uint32_t round = 0; round < 200; round++) {
        for (uint32_t i = 0; i < round * 7 % 31; i++, written++) {
            char line[600];
            snprintf(line, sizeof line, "%u,%0*u", written, (int)(1 + round * 2), written);
            put(c, line);
        }
        for (uint32_t i = 0; (i < round * 5 % 29 || round % 50 == 49 || round == 199) && taken < written;
             i++, taken++) {
            struct column_text texts[2];
            char text[600];
            assert_ok(columns_next(c, texts));
            snprintf(text, sizeof text, "%.*s", (int)texts[0].bytes, texts[0].text);
            assert_int_equal(strtoul(text, NULL, 10), taken);
            snprintf(text, sizeof text, "%.*s", (int)texts[1].bytes, texts[1].text);
            assert_int_equal(strtoul(text, NULL, 10), taken);
        }
    }
    assert_int_equal(written, taken);
    assert_true(written > 2000);
    columns_close(c);
}

/* --- slots by hand ------------------------------------------------------------------------------ */

#define MICRO 4u
static const char plain_text[] =
    "[data]\ndense = I1..I2\n[train]\nbatch = 16\nmicro = 4\n[fc y]\ninput = dense\nunits = 1\n"
    "[fc z]\ninput = dense\nunits = 1\n[loss bce]\ninput = y\n"
    "[loss sq]\nkind = squared\ninput = z\n";
static const char weighted_text[] =
    "[data]\nformat = csv\ndense = a, b\nlabel = click\nweight = w\n[train]\nbatch = 16\nmicro = 4\n"
    "[fc y]\ninput = dense\nunits = 1\n[fc z]\ninput = dense\nunits = 1\n[loss bce]\ninput = y\n"
    "[loss sq]\nkind = squared\ninput = z\n";

struct scene {
    struct graph g;
    struct rig r;
    struct heads heads; /* to find the losses' inputs */
    struct input input;
    struct slot slot;
    float weight[MICRO];
};

static void scene_open(struct scene *s, const char *text)
{
    *s = (struct scene){0};
    assert_ok(graph_compile(&s->g, "test.cfg", text, strlen(text), NULL, 0, NULL));
    rig_open(&s->r, &s->g, 1, MICRO);
    assert_ok(heads_open(&s->heads, &s->g));
    assert_int_equal(s->heads.count, 2);
}
static void scene_close(struct scene *s)
{
    heads_close(&s->heads);
    rig_close(&s->r);
    graph_close(&s->g);
}
/* Example b has this logit and label; what the squared loss sees is the logit doubled. */
static void example_set(struct scene *s, uint32_t b, float logit, float label, float weight)
{
    for (uint32_t h = 0; h < 2; h++) {
        const struct view logits = op_in(&s->r.context, s->heads.items[h].node, 0),
                          labels = op_in(&s->r.context, s->heads.items[h].node, 1);
        logits.data[b * logits.stride] = logit * (float)(h + 1);
        labels.data[b * labels.stride] = label;
    }
    s->weight[b] = weight;
}
static const struct slot *slot_of(struct scene *s, uint64_t step, uint32_t micro_index, uint32_t count)
{
    s->r.m.example_count = count;
    s->r.m.step = step;
    s->r.m.micro_index = micro_index;
    s->input.batch = s->r.m;
    s->input.batch.weight = s->weight;
    s->slot = (struct slot){.input = &s->input, .tensor = s->r.tensor};
    return &s->slot;
}
static double log_loss(double logit, double label) { return log1p(exp(-fabs(logit))) + fmax(logit, 0) - label * logit; }

static double figure(const struct head *head, const char *key)
{
    for (uint32_t k = 0; k < head->figure_count; k++)
        if (strcmp(head->figures[k].key, key) == 0) return head->values[k];
    fail_msg("no figure %s", key);
    return 0;
}

/* --- by value ----------------------------------------------------------------------------------- */

static char printed[1 << 16];

/* What is told of the figures. */
static const char *told(struct by_value *by, const char *set, enum log_format format)
{
    fflush(NULL);
    int saved = dup(STDOUT_FILENO), file = memfd_create("out", MFD_CLOEXEC);
    assert_true(saved >= 0 && file >= 0 && dup2(file, STDOUT_FILENO) == STDOUT_FILENO);
    log_open(format, 0);
    log_results_to_output();
    status st = by_value_tell(by, set);
    fflush(NULL);
    ssize_t bytes = pread(file, printed, sizeof printed - 1, 0);
    dup2(saved, STDOUT_FILENO);
    close(saved);
    close(file);
    log_open(LOG_TEXT, 0);
    assert_ok(st);
    printed[bytes] = 0;
    return printed;
}

struct group {
    const char *value; /* NULL: the others */
    uint32_t others, count;
    double weights, loss, squares;
};

static void group_check(const json_t *event, const char *set, const struct group *group)
{
    const json_t *heads = json_object_get(event, "heads");
    assert_string_equal(json_string_value(json_object_get(event, "event")), "eval_by");
    assert_string_equal(json_string_value(json_object_get(event, "column")), "c");
    if (set)
        assert_string_equal(json_string_value(json_object_get(event, "set")), set);
    else
        assert_null(json_object_get(event, "set"));
    if (group->value)
        assert_string_equal(json_string_value(json_object_get(event, "value")), group->value);
    else
        assert_int_equal(json_integer_value(json_object_get(event, "other_values")), group->others);
    assert_int_equal(json_object_get(event, "value") != NULL, group->value != NULL);
    assert_int_equal(json_object_get(event, "other_values") != NULL, group->value == NULL);
    assert_int_equal(json_integer_value(json_object_get(event, "samples")), group->count);
    assert_true(fabs(json_number_value(json_object_get(event, "logloss")) - group->loss / group->weights) < 1e-6);
    assert_int_equal(json_array_size(heads), 2);
    for (size_t h = 0; h < 2; h++)
        assert_string_equal(json_string_value(json_object_get(json_array_get(heads, h), "name")), h ? "sq" : "bce");
    const double loss = json_number_value(json_object_get(json_array_get(heads, 0), "logloss")),
                 rmse = json_number_value(json_object_get(json_array_get(heads, 1), "rmse"));
    assert_true(fabs(loss - group->loss / group->weights) < 1e-6);
    assert_true(fabs(rmse - sqrt(group->squares / group->weights)) < 1e-6);
}

/* 9,000 examples whose values come in an order of their own: 1,500 values, so that index and texts grow. */
static void by_value__many_values__those_with_most_examples_and_the_others(void **state)
{
    (void)state;
    enum { EXAMPLES = 9000, VALUES = 1500, TOLD = 3 };
    for (int with_weight = 0; with_weight < 2; with_weight++) {
        static struct group groups[TOLD + 1];
        struct scene s;
        struct columns *c;
        struct by_value *by;
        scene_open(&s, with_weight ? weighted_text : plain_text);
        setup_csv(false, "c");
        assert_ok(columns_open(&c, &setup, "--with", "c"));
        assert_ok(by_value_open(&by, &s.g, c, TOLD));
        /* "b" and "a" are as many, and "b" is first; fewer have nothing;
         * each of the others is there 5 or 6 times. */
        static const struct group names[TOLD + 1] = {{.value = "b"}, {.value = "a"}, {.value = ""}, {.others = VALUES}};
        memcpy(groups, names, sizeof groups);
        uint32_t example = 0;
        for (uint32_t step = 0; example < EXAMPLES; step++) {
            const uint32_t count = 1 + step % MICRO;
            for (uint32_t b = 0; b < count; b++, example++) {
                const uint32_t i = example % 100 < 2 ? example % 100 : example % 225 == 50 ? 2 : 3;
                const float logit = (float)(example % 13) / 4 - 1.5f, label = (float)(example % 3 == 0),
                            weight = with_weight ? (float)(1 + example % 4) / 2 : 1;
                const char *mark = example / 300 % 2 ? "\"" : ""; /* files may write a value with them, or without */
                char line[32];
                if (i < 3)
                    snprintf(line, sizeof line, "%s%s%s", mark, groups[i].value, mark);
                else
                    snprintf(line, sizeof line, "%sv%u%s", mark, example % VALUES, mark);
                struct group *group = &groups[i];
                put(c, line);
                example_set(&s, b, logit, label, weight);
                group->count++;
                group->weights += (double)weight;
                group->loss += (double)weight * log_loss((double)logit, (double)label);
                group->squares += (double)weight * pow(2 * (double)logit - (double)label, 2);
            }
            assert_ok(by_value_add(by, slot_of(&s, step, 0, count), NULL));
        }
        assert_int_equal(groups[0].count, groups[1].count);
        assert_true(groups[2].count > 25 && groups[2].count < groups[1].count);
        const char *set = with_weight ? "tuesday" : NULL;
        json_t *events = json_array();
        char *at, *line = strtok_r((char *)(uintptr_t)told(by, set, LOG_JSON), "\n", &at);
        for (; line; line = strtok_r(NULL, "\n", &at)) json_array_append_new(events, json_loads(line, 0, NULL));
        for (size_t i = 0; i < json_array_size(events); i++)
            if (json_object_get(json_array_get(events, i), "column") == NULL) json_array_remove(events, i--);
        assert_int_equal(json_array_size(events), TOLD + 1);
        uint32_t others = 0;
        for (uint32_t v = 0; v < VALUES; v++) {
            bool is_there = false;
            for (uint32_t e = v; e < EXAMPLES; e += VALUES) is_there |= e % 100 >= 2 && e % 225 != 50;
            others += is_there;
        }
        groups[3].others = others;
        for (uint32_t i = 0; i <= TOLD; i++) group_check(json_array_get(events, i), set, &groups[i]);
        json_decref(events);
        by_value_close(by);
        columns_close(c);
        scene_close(&s);
    }
}

static void by_value_tell__few_values__a_line_each_and_no_others(void **state)
{
    (void)state;
    struct scene s;
    struct columns *c;
    struct by_value *by;
    scene_open(&s, plain_text);
    setup_csv(false, "c");
    assert_ok(columns_open(&c, &setup, "--with", "c"));
    assert_ok(by_value_open(&by, &s.g, c, 3));
    assert_string_equal(told(by, "none", LOG_TEXT), "");
    static const char *const values[] = {"x", "", "x", "y"};
    for (uint32_t b = 0; b < 4; b++) {
        put(c, values[b]);
        example_set(&s, b, b == 2 ? 0.5f : 0, b == 2, 1);
    }
    assert_ok(by_value_add(by, slot_of(&s, 0, 0, 4), NULL));
    assert_string_equal(
        told(by, "s", LOG_TEXT),
        "by       s c = x, bce: AUC 1.00000, log loss 0.58361, normalised entropy 0.8420, calibration 1.1225, "
        "PR AUC 1.00000 (2 examples)\n"
        "by       s c = x, sq: RMSE 0.00000, MAE 0.00000 (2 examples)\n"
        "by       s c = (nothing), bce: log loss 0.69315 (1 examples)\n"
        "by       s c = (nothing), sq: RMSE 0.00000, MAE 0.00000 (1 examples)\n"
        "by       s c = y, bce: log loss 0.69315 (1 examples)\n"
        "by       s c = y, sq: RMSE 0.00000, MAE 0.00000 (1 examples)\n");
    by_value_close(by);
    columns_close(c);
    scene_close(&s);
    by_value_close(NULL);
    columns_close(NULL);
}

/* --- progressive validation --------------------------------------------------------------------- */

#define WINDOW 10u

/* Takes the micro-batches of a step, `count` examples of numbers from `first` on: example n has
 * logit n / 8 - 1 and label n % 2. */
static float logit_of(uint32_t n) { return (float)(n % 29) / 8 - 1; }
static float weight_of(uint32_t n) { return (float)(1 + n % 3); }

static void micro_take(struct scene *s, struct progressive *p, uint64_t step, uint32_t micro, uint32_t first,
                       uint32_t count)
{
    for (uint32_t b = 0; b < count; b++)
        example_set(s, b, logit_of(first + b), (float)((first + b) % 2), weight_of(first + b));
    progressive_take(p, slot_of(s, step, micro, count));
}
static void step_tell(struct progressive *p, uint64_t step, uint32_t count)
{
    progressive_step(p, &(struct step_done){.step = step, .example_count = count});
}
/* The window is of these examples. */
static void window_check(struct progressive *p, const uint32_t *numbers, uint32_t count, bool has_weight)
{
    const struct heads *heads;
    double loss = 0, squares = 0, weights = 0;
    progressive_keep(p);
    assert_int_equal(progressive_measure(p, &heads), count);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t n = numbers[i];
        const double w = has_weight ? (double)weight_of(n) : 1, x = (double)logit_of(n), y = n % 2;
        weights += w;
        loss += w * log_loss(x, y);
        squares += w * pow(2 * x - y, 2);
    }
    assert_int_equal(heads->count, 2);
    assert_true(fabs(figure(&heads->items[0], "logloss") - loss / weights) < 1e-6);
    assert_true(fabs(figure(&heads->items[1], "rmse") - sqrt(squares / weights)) < 1e-6);
}

static void progressive__steps__the_last_examples_of_all_that_were_told(void **state)
{
    (void)state;
    for (int with_weight = 0; with_weight < 2; with_weight++) {
        struct scene s;
        struct progressive *p;
        const struct heads *heads;
        uint32_t told_numbers[512], told_count = 0, number = 0;
        scene_open(&s, with_weight ? weighted_text : plain_text);
        assert_ok(progressive_open(&p, &s.g, WINDOW, 4, NULL));
        progressive_keep(p);
        assert_int_equal(progressive_measure(p, &heads), 0);
        assert_true(isnan(figure(&heads->items[0], "logloss")));
        for (uint64_t step = 0; step < 20; step++) {
            const uint32_t count = step % 5 == 4 ? 3 : step % 3 == 2 ? 16 : 9;
            for (uint32_t m = 0; m * MICRO < count; m++) {
                const uint32_t in_micro = count - m * MICRO < MICRO ? count - m * MICRO : MICRO;
                micro_take(&s, p, step, m, number, in_micro);
                for (uint32_t i = 0; i < in_micro; i++) told_numbers[told_count++] = number++;
            }
            step_tell(p, step, count);
            const uint32_t kept = told_count < WINDOW ? told_count : WINDOW;
            window_check(p, told_numbers + told_count - kept, kept, with_weight);
        }
        progressive_close(p);
        scene_close(&s);
    }
    progressive_close(NULL);
}

/* Steps of one micro-batch overlap: what finds its cell taken is left out,
 * and what was kept stays until more is. */
static void progressive__late_steps__are_left_out(void **state)
{
    (void)state;
    struct scene s;
    struct progressive *p;
    const struct heads *heads;
    scene_open(&s, plain_text);
    assert_ok(progressive_open(&p, &s.g, WINDOW, 2, NULL));
    micro_take(&s, p, 0, 0, 0, 2);
    micro_take(&s, p, 1, 0, 2, 2);
    micro_take(&s, p, 2, 0, 4, 2); /* the cell of step 0, which is not told yet */
    step_tell(p, 0, 2);
    micro_take(&s, p, 4, 0, 6, 2);
    step_tell(p, 1, 2);
    step_tell(p, 2, 2);
    window_check(p, (const uint32_t[]){0, 1, 2, 3}, 4, false);
    step_tell(p, 4, 2);
    assert_int_equal(progressive_measure(p, &heads), 4);
    window_check(p, (const uint32_t[]){0, 1, 2, 3, 6, 7}, 6, false);
    progressive_close(p);
    /* A micro-batch of more than the window has its last ones there. */
    assert_ok(progressive_open(&p, &s.g, 3, 1, NULL));
    micro_take(&s, p, 0, 0, 0, 1);
    step_tell(p, 0, 1);
    micro_take(&s, p, 1, 0, 10, 4);
    step_tell(p, 1, 4);
    window_check(p, (const uint32_t[]){11, 12, 13}, 3, false);
    progressive_close(p);
    scene_close(&s);
}

/* An example that is put and taken, and told of. */
static status one_example(struct scene *s, struct columns *c)
{
    struct by_value *by;
    const struct reader_listener *l = columns_listener(c);
    TRY(by_value_open(&by, &s->g, c, 3));
    status st = l->example(l->context, "x", 1);
    if (st == ST_OK) st = by_value_add(by, slot_of(s, 0, 0, 1), NULL);
    if (st == ST_OK) st = by_value_tell(by, NULL);
    by_value_close(by);
    return st;
}

static void eval__no_memory__says_so_fault(void **state)
{
    (void)state;
    FAULT_ALLOC_SKIP();
    struct scene s;
    struct columns *c;
    struct progressive *p;
    scene_open(&s, weighted_text);
    setup_csv(false, "c");
    log_open(LOG_TEXT, -1);
    EACH_ALLOCATION_FAILS(columns_open(&c, &setup, "--with", "c"), columns_close(c));
    EACH_ALLOCATION_FAILS(progressive_open(&p, &s.g, WINDOW, 4, NULL), progressive_close(p));
    example_set(&s, 0, 0, 1, 1);
    for (int64_t n = 0, is_over = 0; !is_over; n++) {
        assert_ok(columns_open(&c, &setup, "--with", "c"));
        fault_alloc_set(n);
        const status st = one_example(&s, c);
        is_over = !fault_alloc_end();
        assert_true(st == ST_MEMORY || (is_over && st == ST_OK));
        columns_close(c);
    }
    log_open(LOG_TEXT, 0);
    scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns__csv_with_names__texts_between_separators),
        cmocka_unit_test(columns_marks_remove__csv__gives_the_value),
        cmocka_unit_test(columns__a_label_in_the_middle__may_be_lacking),
        cmocka_unit_test(columns__criteo__by_the_names_of_the_format),
        cmocka_unit_test(columns__lines_of_features__label_features_and_what_the_format_has),
        cmocka_unit_test(columns_text_put__tabs__are_held_by_quotation_marks),
        cmocka_unit_test(columns_open__names_that_are_none__are_told),
        cmocka_unit_test(columns_next__behind_reading__in_order),
        cmocka_unit_test(by_value__many_values__those_with_most_examples_and_the_others),
        cmocka_unit_test(by_value_tell__few_values__a_line_each_and_no_others),
        cmocka_unit_test(progressive__steps__the_last_examples_of_all_that_were_told),
        cmocka_unit_test(progressive__late_steps__are_left_out),
        cmocka_unit_test(eval__no_memory__says_so_fault),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
