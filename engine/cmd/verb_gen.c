/* heterps-run gen: writes generated data, in the Criteo format or in the format that a graph reads, and says
 * how well the labels can be predicted at best. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/inputs.h"
#include "engine/base/log.h"
#include "engine/base/memory.h"
#include "engine/base/stop.h"
#include "engine/cmd/command.h"
#include "engine/data/gen_criteo.h"
#include "engine/data/gen_graph.h"
#include "engine/data/gen_math.h"
#include "engine/eval/metrics.h"

struct gen_options {
    uint64_t rows, skip, seed;
    uint32_t vocab; /* 0: not given */
    double zipf;    /* below 0: not given */
    const char *output;
    struct flag_list set;
};

#define OFFSET(member) offsetof(struct gen_options, member)
/* Up to this number the flag table's doubles are exact. */
#define ROWS_MAX 1e15
static const struct flag gen_flags[] = {
    {.name = "--rows",
     .type = FLAG_U64,
     .value = "N",
     .meaning = "rows to write",
     .offset = OFFSET(rows),
     .min = 1,
     .max = ROWS_MAX,
     .is_required = true},
    {.name = "--skip",
     .type = FLAG_U64,
     .value = "N",
     .meaning = "start at row N: test data of the same model as rows 0 to N - 1 (default 0)",
     .offset = OFFSET(skip),
     .max = ROWS_MAX},
    {.name = "--seed",
     .type = FLAG_U64,
     .value = "S",
     .meaning = "the planted model and the rows (default 1)",
     .offset = OFFSET(seed),
     .max = 1e18},
    {.name = "--vocab",
     .type = FLAG_U32,
     .value = "V",
     .meaning = "values of a field (default 1000)",
     .offset = OFFSET(vocab),
     .min = 1,
     .max = GEN_CRITEO_VOCAB_MAX},
    {.name = "--zipf",
     .type = FLAG_F64,
     .value = "A",
     .meaning = "the k-th most frequent value has weight k^-A (default 1.05)",
     .offset = OFFSET(zipf),
     .max = 10},
    {.name = "--set",
     .type = FLAG_LIST,
     .value = "SECTION.KEY=VALUE",
     .meaning = "change a setting of the graph; may be repeated",
     .offset = OFFSET(set)},
    {.name = "-o",
     .type = FLAG_WRITE,
     .value = "FILE",
     .meaning = "where to write; - is standard output",
     .offset = OFFSET(output),
     .is_required = true},
};
#define VOCAB_DEFAULT 1000u
#define ZIPF_DEFAULT  1.05
static const struct gen_options gen_defaults = {.seed = 1, .zipf = -1};

/* How many rows' truth is kept at most, 5 bytes each, for the sums at the end. */
#define MEASURED_ROWS_MAX (UINT64_C(1) << 25)
#define BUFFER_BYTES      ((size_t)1 << 18)
#define MEASURE_COUNT     1024u

/* What the generator knows of the rows that it has made. */
struct truth {
    struct metrics metrics;
    float logit[MEASURE_COUNT], label[MEASURE_COUNT];
    uint32_t count; /* waiting to be added */
    uint64_t measured_count, positive_count;
};

static status truth_flush(struct truth *truth)
{
    TRY(metrics_add(&truth->metrics, &(struct metrics_examples){.logit = truth->logit,
                                                                .label = truth->label,
                                                                .logit_stride = 1,
                                                                .label_stride = 1,
                                                                .count = truth->count}));
    truth->measured_count += truth->count;
    truth->count = 0;
    return ST_OK;
}

/* One of the generators; mathfunc's keeps nothing. */
struct generator {
    bool is_math;
    uint64_t seed;
    struct gen_criteo *criteo;
    struct gen_graph *graph;
    struct graph opened; /* the graph that gen_graph generates for */
    struct ini ini;
    struct settings settings;
    struct schema schema;
    size_t line_bytes_max;
};

/* Refuses flags that what is to be written has no use for. */
static status flags_check(const char *format, const struct gen_options *o)
{
    const bool is_math = strcmp(format, "mathfunc") == 0, is_graph = !is_math && strcmp(format, "criteo") != 0;
    if (o->set.count > 0 && !is_graph) FAIL(USAGE, "--set is for a graph; gen %s has none", format);
    if (is_math && (o->vocab > 0 || o->zipf >= 0))
        FAIL(USAGE, "--vocab and --zipf are for fields of keys; expressions of mathfunc have none");
    return ST_OK;
}

static status generator_open(struct generator *g, const char *format, const struct gen_options *o)
{
    const uint32_t vocab = o->vocab > 0 ? o->vocab : VOCAB_DEFAULT;
    const double zipf = o->zipf >= 0 ? o->zipf : ZIPF_DEFAULT;
    g->line_bytes_max = GEN_CRITEO_LINE_BYTES_MAX;
    g->seed = o->seed;
    if (strcmp(format, "mathfunc") == 0) {
        g->is_math = true;
        g->line_bytes_max = GEN_MATH_LINE_BYTES_MAX;
        return ST_OK;
    }
    const struct gen_criteo_options criteo = {o->seed, vocab, zipf};
    if (strcmp(format, "criteo") == 0) return gen_criteo_open(&g->criteo, &criteo);
    TRY(inputs_add(NULL, format));
    TRY(graph_open_set(&g->opened, format, o->set.item, o->set.count));
    TRY(ini_parse(&g->ini, format, g->opened.text, g->opened.text_bytes));
    TRY(settings_read(&g->ini, &g->settings));
    if (g->settings.data_format == DATA_CRITEO) return gen_criteo_open(&g->criteo, &criteo);
    TRY(schema_open(&g->schema, &g->opened, &g->settings));
    const struct gen_graph_options graph = {&g->schema.reader, (enum reader_format)g->settings.data_format, o->seed,
                                            vocab, zipf};
    TRY(gen_graph_open(&g->graph, &graph));
    g->line_bytes_max = gen_graph_line_bytes_max(g->graph);
    return ST_OK;
}

static void generator_close(struct generator *g)
{
    if (g->criteo) gen_criteo_close(g->criteo);
    gen_graph_close(g->graph);
    schema_close(&g->schema);
    ini_free(&g->ini);
    graph_close(&g->opened);
}

static size_t row_write(struct generator *gen, uint64_t row, char *line, struct gen_criteo_truth *truth)
{
    *truth = (struct gen_criteo_truth){.label = NAN};
    if (gen->is_math) return gen_math_row(gen->seed, row, line);
    return gen->criteo ? gen_criteo_row(gen->criteo, row, line, truth) : gen_graph_row(gen->graph, row, line, truth);
}

static status rows_write(const struct gen_options *options, struct generator *gen, struct file_writer *output,
                         struct truth *truth, char *buffer)
{
    size_t used = gen->graph ? gen_graph_header(gen->graph, buffer) : 0;
    for (uint64_t i = 0; i < options->rows; i++) {
        struct gen_criteo_truth row;
        used += row_write(gen, options->skip + i, buffer + used, &row);
        if (used > BUFFER_BYTES || i + 1 == options->rows) {
            TRY(file_writer_put(output, buffer, used));
            used = 0;
            if (stop_requested())
                FAIL(STOPPED, "stopped by a signal after %" PRIu64 " rows; %s is not written", i + 1, options->output);
        }
        if (isnan(row.label)) continue;
        truth->positive_count += row.label > 0.5f;
        if (truth->measured_count < MEASURED_ROWS_MAX) {
            truth->logit[truth->count] = row.logit;
            truth->label[truth->count++] = row.label;
            if (truth->count == MEASURE_COUNT) TRY(truth_flush(truth));
        }
    }
    return truth_flush(truth);
}

static status truth_report(struct truth *truth, const struct gen_options *options, uint64_t written_bytes)
{
    uint64_t measured = truth->measured_count;
    struct metrics_result best;
    TRY(metrics_finish(&truth->metrics, &best));
    const double ctr = (double)truth->positive_count / (double)options->rows;
    char rate[64] = "", scope[64] = "";
    if (measured) snprintf(rate, sizeof rate, ", click rate %.4f", ctr);
    if (measured < options->rows) snprintf(scope, sizeof scope, " (of the first %" PRIu64 " rows)", measured);
    log_info("%" PRIu64 " rows, %" PRIu64 " bytes%s", options->rows, written_bytes, rate);
    if (measured) log_info("best possible: AUC %.5f, log loss %.5f%s", best.auc, best.logloss, scope);
    log_event_begin("gen");
    log_event_u64("rows", options->rows);
    log_event_u64("bytes", written_bytes);
    if (measured) {
        log_event_f64("bayes_auc", best.auc);
        log_event_f64("bayes_logloss", best.logloss);
        log_event_f64("ctr", ctr);
    }
    log_event_u64("measured_rows", measured);
    log_event_end();
    return ST_OK;
}

static status gen_run(const char *const positionals[COMMAND_POSITIONALS_MAX], const void *options_)
{
    const struct gen_options *options = options_;
    if (strcmp(options->output, "-") == 0 && log_format() == LOG_JSON)
        FAIL(USAGE, "gen: --log json and -o - both write to standard output");

    TRY(flags_check(positionals[0], options));
    struct generator gen = {0};
    struct file_writer output = {0};
    void *buffer = NULL, *truth_block = NULL;
    size_t buffer_bytes = 0;
    status st;
    TRY_GOTO(generator_open(&gen, positionals[0], options), done);
    buffer_bytes = BUFFER_BYTES + gen.line_bytes_max;
    TRY_GOTO(memory_take("generator", buffer_bytes, &buffer), done);
    TRY_GOTO(memory_take("generator", sizeof(struct truth), &truth_block), done);
    struct truth *truth = truth_block;
    TRY_GOTO(file_writer_open(&output, options->output), done);
    stop_listen(NULL, NULL);
    TRY_GOTO(rows_write(options, &gen, &output, truth, buffer), done);
    uint64_t written_bytes = output.written_bytes;
    TRY_GOTO(file_writer_commit(&output), done);
    st = truth_report(truth, options, written_bytes);
done:
    file_writer_abort(&output);
    if (truth_block) metrics_free(&((struct truth *)truth_block)->metrics);
    generator_close(&gen);
    memory_give("generator", truth_block, sizeof(struct truth));
    memory_give("generator", buffer, buffer_bytes);
    return st;
}

const struct command command_gen = {
    .name = "gen",
    .positionals = "WHAT",
    .summary = "write generated data whose best possible AUC is known",
    .help = "WHAT is criteo: label, 13 integers, 26 categorical values of 8 hexadecimal digits, separated by tabs; "
            "mathfunc:\n"
            "expressions of 1 to 128 nodes with the value of each, for samples/mathfunc.cfg; "
            "or a compiled graph: then it is\n"
            "data in the format and with the columns that the graph reads.\n"
            "Row i depends on --seed, --vocab, --zipf, the graph's columns and i only. "
            "A training set and a test set of one planted model:\n"
            "    heterps-run gen criteo --rows 2000000 -o train.tsv\n"
            "    heterps-run gen criteo --rows 100000 --skip 2000000 -o test.tsv\n"
            "    heterps-run gen din.bin --rows 100000 -o train.csv\n"
            "At the end it prints the AUC and log loss of the true probabilities, which no model can beat but by luck.",
    .flags = gen_flags,
    .flag_count = sizeof gen_flags / sizeof gen_flags[0],
    .options_bytes = sizeof(struct gen_options),
    .defaults = &gen_defaults,
    .run = gen_run,
};
