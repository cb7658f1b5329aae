/* Runs the chosen subjects, describes the machine, and prints figures. */
#include "engine/bench/bench.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cfg/key.h"
#include "cfg/settings.h"
#include "engine/base/log.h"
#include "engine/base/machine.h"
#include "engine/base/memory.h"
#include "engine/base/words.h"

static const struct subject {
    const char *name, *what, *limit;
    status (*check)(const struct bench *b);
    status (*run)(const struct bench *b);
} subjects[BENCH_SUBJECT_COUNT] = {
#define SUBJECT(name, check, what, limit) {#name, what, limit, check, bench_##name},
    BENCH_SUBJECTS(SUBJECT)
#undef SUBJECT
};

/* --- output ------------------------------------------------------------------------------------ */

/* How the run is printed, set by bench_run; the subject whose figures come now. */
static struct {
    bool is_markdown;
    const char *subject;
} printed;

static PRINTF_LIKE(2, 0) void line_print(const char *end, const char *format, va_list arguments)
{
    if (log_format() == LOG_JSON) return;
    vprintf(format, arguments);
    puts(end);
    fflush(stdout);
}

void bench_line(const char *format, ...)
{
    va_list arguments;
    if (printed.is_markdown) return;
    va_start(arguments, format);
    line_print("", format, arguments);
    va_end(arguments);
}

void bench_note(const char *format, ...)
{
    va_list arguments;
    if (log_format() != LOG_JSON) printf(printed.is_markdown ? "| %s | " : "  ", printed.subject);
    va_start(arguments, format);
    line_print(printed.is_markdown ? " | | | | | | |" : "", format, arguments);
    va_end(arguments);
}

/* A line of the page outside the table. */
static PRINTF_LIKE(1, 2) void markdown_line(const char *format, ...)
{
    va_list arguments;
    if (!printed.is_markdown) return;
    va_start(arguments, format);
    line_print("", format, arguments);
    va_end(arguments);
}

char *bench_number(char *buffer, size_t bytes, double value)
{
    double size = value < 0 ? -value : value;
    snprintf(buffer, bytes, "%.*f", size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : 3, value);
    return buffer;
}

void bench_heading(const char *subject)
{
    printed.subject = subject;
    for (size_t i = 0; i < BENCH_SUBJECT_COUNT; i++)
        if (strcmp(subjects[i].name, subject) == 0)
            bench_line("\n%s: %s; limit: %s", subject, subjects[i].what, subjects[i].limit);
}

void bench_columns(void)
{
    bench_line("  %-38s %7s %8s %19s %-10s %8s %6s", "", "threads", "median", "least - greatest", "unit", "limit",
               "share");
}

double bench_share(const struct bench_figure *f)
{
    struct series shares = {0};
    if (f->limit == NULL) return 0;
    CHECK(f->limit->count == f->ours->count);
    for (uint32_t i = 0; i < f->ours->count; i++) {
        double ours = f->ours->value[i], limit = f->limit->value[i];
        series_add(&shares, f->less_is_better ? limit / ours : ours / limit);
    }
    return series_spread(&shares).median;
}

static void figure_event(const struct bench_figure *f)
{
    struct spread ours = series_spread(f->ours);
    log_event_begin("bench");
    log_event_text("subject", f->subject);
    log_event_text("name", f->name);
    if (f->precision) log_event_text("precision", f->precision);
    log_event_u64("threads", f->threads);
    log_event_text("unit", f->unit);
    for (size_t i = 0; i < sizeof f->detail / sizeof *f->detail && f->detail[i].name; i++)
        log_event_f64(f->detail[i].name, f->detail[i].value);
    log_event_f64("median", ours.median);
    log_event_f64("least", ours.least);
    log_event_f64("greatest", ours.greatest);
    log_event_u64("repeats", f->ours->count);
    if (f->limit) {
        struct spread limit = series_spread(f->limit);
        log_event_text("limit_name", f->limit_name);
        log_event_f64("limit", limit.median);
        log_event_f64("limit_least", limit.least);
        log_event_f64("limit_greatest", limit.greatest);
        log_event_f64("share", bench_share(f));
    }
    log_event_end();
}

void bench_tell(const struct bench_figure *f, bool is_line)
{
    figure_event(f);
    if (!is_line) return;
    char median[16], least[16], greatest[16], range[40], limit[16] = "", share[16] = "";
    struct spread ours = series_spread(f->ours);
    snprintf(range, sizeof range, "%s - %s", bench_number(least, sizeof least, ours.least),
             bench_number(greatest, sizeof greatest, ours.greatest));
    if (f->limit) {
        bench_number(limit, sizeof limit, series_spread(f->limit).median);
        snprintf(share, sizeof share, "%.2f", bench_share(f));
    }
    bench_number(median, sizeof median, ours.median);
    markdown_line("| %s | %s | %u | %s | %s | %s | %s | %s |", f->subject, f->name, f->threads, median, range, f->unit,
                  limit, share);
    bench_line("  %-38s %7u %8s %19s %-10s %8s %6s", f->name, f->threads, median, range, f->unit, limit, share);
}

/* --- the machine -------------------------------------------------------------------------------- */

static void machine_tell(const struct bench *b)
{
    char l1[16], l2[16], l3[16], all[16], left[16];
    struct machine m;
    const uint64_t available = memory_available_bytes();
    machine_read(&m, "/", b->cores.processor, b->cores.mask_count);
    const char *cpu = *m.cpu ? m.cpu : "unknown processor";
    bench_line("machine  %s, %u core%s, %s", cpu, b->cores.count, words_s(b->cores.count), b->isa_name);
    bench_line("         L1d %s, L2 %s, L3 %s; memory %s, %s of it free; huge pages: %s", words_size(l1, m.l1d_bytes),
               words_size(l2, m.l2_bytes), words_size(l3, m.l3_bytes), words_size(all, m.memory_bytes),
               words_size(left, available), m.huge_pages);
    bench_line("         medians of %u repeats, each after one of its limit; share: of that limit, median", b->repeats);
    markdown_line("heterps-run %s on %s, %u core%s, %s, memory of %s; "
                  "medians of %u repeats, each after one of its limit; share: of that limit, median.\n",
                  HETERPS_VERSION, cpu, b->cores.count, words_s(b->cores.count), b->isa_name, all, b->repeats);
    markdown_line("| subject | figure | threads | median | least - greatest | unit | limit | share |\n"
                  "|---|---|---:|---:|---:|---|---:|---:|");
    log_event_begin("machine");
    log_event_text("version", HETERPS_VERSION);
    log_event_text("cpu", cpu);
    log_event_u64("cores", b->cores.count);
    log_event_text("isa", b->isa_name);
    log_event_u64("l1d_bytes", m.l1d_bytes);
    log_event_u64("l2_bytes", m.l2_bytes);
    log_event_u64("l3_bytes", m.l3_bytes);
    log_event_u64("memory_bytes", m.memory_bytes);
    log_event_u64("memory_free_bytes", available);
    log_event_text("huge_pages", m.huge_pages);
    log_event_end();
}

/* --- running ------------------------------------------------------------------------------------ */

const int *bench_processors(const struct bench *b, uint32_t threads)
{
    return threads <= b->cores.count && b->cores.is_whole ? b->cores.processor : NULL;
}

bool bench_has_precision(const struct bench *b, uint32_t precision)
{
    return b->o->precision == NULL || strcmp(b->o->precision, cfg_precisions[precision]) == 0;
}

double bench_peak(const struct bench *b, uint32_t precision, uint32_t threads, bool by_wall, const char **by)
{
    const int *processors = bench_processors(b, threads);
    double fma = limit_fma(b->isa, threads, processors, by_wall);
    *by = "multiply-adds";
    if (precision != PRECISION_BF16) return fma;
    double bf16 = limit_bf16(b->isa, threads, processors, by_wall);
    if (bf16 > fma) *by = b->isa == ISA_amx ? "TDPBF16PS" : "VDPBF16PS";
    return bf16 > fma ? bf16 : fma;
}

static status isa_choose(struct bench *b)
{
    if (!isa_find(b->o->isa, &b->isa))
        FAIL(USAGE, "--isa: expected base, avx2, avx512, avx512bf16 or amx, found \"%s\"", b->o->isa);
    if (!isa_runs_here(b->isa))
        FAIL(USAGE, "--isa: %s does not run on this processor; the best here is %s", b->o->isa, isa_names[isa_best()]);
    b->isa_name = isa_names[b->isa];
    return ST_OK;
}

/* Refuses options that the subject has no use for. `chosen`: the subject, or BENCH_SUBJECT_COUNT: all. */
static status options_check(const struct bench_options *o, size_t chosen)
{
#define BIT(subject) (1u << BENCH_##subject)
    const unsigned all = 1u << BENCH_SUBJECT_COUNT, rows = BIT(gather) | BIT(update);
    const struct {
        const char *flag;
        bool is_given;
        unsigned subjects;
        const char *names;
    } rules[] = {
        {"--threads", o->threads > 0, all | BIT(gemm) | rows | BIT(feed) | BIT(train),
         "gemm, gather, update, feed and train"},
        {"--precision", o->precision != NULL, all | BIT(gemm) | BIT(train) | BIT(card), "gemm, train and card"},
        {"--bytes", o->bytes > 0, all | rows | BIT(lookup) | BIT(disk) | BIT(card),
         "gather, update, lookup, disk and card"},
        {"--vocab", o->vocab > 0, all | BIT(parse) | BIT(feed) | BIT(train), "parse, feed and train"},
        {"--shape", o->shape_count > 0, BIT(gemm) | BIT(card), "gemm and card"},
        {"--card", o->card > 0, all | BIT(card), "card"},
        {"--set", o->set_count > 0, all | BIT(train), "train"},
    };
#undef BIT
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (rules[i].is_given && !(rules[i].subjects >> chosen & 1))
            FAIL(USAGE, "%s: bench %s has no use for it; only %s", rules[i].flag, o->subject, rules[i].names);
    if (o->what && chosen != BENCH_train && chosen != BENCH_parse && chosen != BENCH_disk)
        FAIL(USAGE,
             "bench %s takes no \"%s\"; only `bench train GRAPH`, `bench parse FORMAT` and `bench disk DIRECTORY`",
             o->subject, o->what);
    return ST_OK;
}

status bench_run(const struct bench_options *o)
{
    struct bench b = {
        .o = o, .repeats = o->repeats ? o->repeats : BENCH_REPEATS, .vocab = o->vocab ? o->vocab : BENCH_VOCAB};
    bool is_all = strcmp(o->subject, "all") == 0;
    size_t chosen = 0;
    printed.is_markdown = o->markdown;
    if (o->markdown && log_format() == LOG_JSON) FAIL(USAGE, "expected one of --markdown and --json, found both");
    while (chosen < BENCH_SUBJECT_COUNT && strcmp(subjects[chosen].name, o->subject) != 0) chosen++;
    if (!is_all && chosen == BENCH_SUBJECT_COUNT)
        FAIL(USAGE,
             "bench: expected gemm, gather, update, lookup, parse, feed, ring, disk, net, trees, train, card or all, "
             "found \"%s\"",
             o->subject);
    TRY(options_check(o, chosen));
    uint32_t precision = 0;
    while (precision < PRECISION_COUNT && !bench_has_precision(&b, precision)) precision++;
    if (precision == PRECISION_COUNT)
        FAIL(USAGE, "--precision: expected f32, bf16 or tf32, found \"%s\"", o->precision);
    if (o->precision && precision >= PRECISION_CPU_COUNT && chosen != BENCH_card)
        FAIL(USAGE, "--precision: only bench card has %s, in which processors multiply as in f32", o->precision);
    TRY(isa_choose(&b));
    cores_allowed(&b.cores);
    if (o->threads > b.cores.count)
        FAIL(USAGE, "--threads: expected at most %u, the cores that this process may use, found %u", b.cores.count,
             o->threads);
    b.thread_counts[b.thread_count_count++] = o->threads ? o->threads : 1;
    if (o->threads == 0 && b.cores.count > 1) b.thread_counts[b.thread_count_count++] = b.cores.count;
    for (size_t i = 0; i < BENCH_SUBJECT_COUNT; i++)
        if ((is_all || i == chosen) && subjects[i].check) TRY(subjects[i].check(&b));
    machine_tell(&b);
    for (size_t i = 0; i < BENCH_SUBJECT_COUNT; i++)
        if (is_all || i == chosen) TRY(subjects[i].run(&b));
    return ST_OK;
}
