/* heterps-run bench: how fast products are on this machine, compared with what the machine can do. */
#include "engine/bench/bench.h"

#include "cfg/key.h"
#include "engine/base/log.h"
#include "engine/cmd/command.h"

struct bench_verb_options {
    const char *isa, *bytes, *precision;
    uint32_t threads, repeats, vocab, card;
    struct flag_list set, shape;
    bool json, markdown, quick;
};
#define OFFSET(member) offsetof(struct bench_verb_options, member)
static const struct flag flags[] = {
    {.name = "--threads",
     .type = FLAG_U32,
     .value = "N",
     .meaning = "measure on N cores; default: on one, and on all that this process may use",
     .offset = OFFSET(threads),
     .min = 1,
     .max = CORES_MAX},
    {.name = "--isa",
     .type = FLAG_TEXT,
     .value = "NAME",
     .meaning = "instruction set: base, avx2, avx512, avx512bf16, amx; default: the best here",
     .offset = OFFSET(isa)},
    {.name = "--precision",
     .type = FLAG_TEXT,
     .value = "NAME",
     .meaning = "gemm, train, card: number format of products: f32, bf16, of card tf32; default: all",
     .offset = OFFSET(precision)},
    {.name = "--quick",
     .type = FLAG_SWITCH,
     .meaning = "small sizes and short repeats: seconds, and rough figures",
     .offset = OFFSET(quick)},
    {.name = "--repeats",
     .type = FLAG_U32,
     .value = "N",
     .meaning = "repeats of every figure and of its limit; default: 5",
     .offset = OFFSET(repeats),
     .min = 1,
     .max = SERIES_MAX / 8},
    {.name = "--bytes",
     .type = FLAG_TEXT,
     .value = "SIZE",
     .meaning = "size of the table of gather, update and lookup (default: half of the free memory, at most 8GiB), "
                "of disk's file (1GiB), of card's copies (256MiB)",
     .offset = OFFSET(bytes)},
    {.name = "--vocab",
     .type = FLAG_U32,
     .value = "V",
     .meaning = "values of a field in the data of parse, feed and train; default: 38461",
     .offset = OFFSET(vocab),
     .min = 1,
     .max = 1000000000},
    {.name = "--shape",
     .type = FLAG_LIST,
     .value = "MxNxK",
     .meaning = "gemm, card: of these examples, units and inputs in place of the grid; may be repeated",
     .offset = OFFSET(shape)},
    {.name = "--card",
     .type = FLAG_U32,
     .value = "N",
     .meaning = "card: the N-th one, as devices counts them; default: 0",
     .offset = OFFSET(card),
     .max = 1023},
    {.name = "--set",
     .type = FLAG_LIST,
     .value = "SECTION.KEY=VALUE",
     .meaning = "train: override a setting of the model; may be repeated",
     .offset = OFFSET(set)},
    {.name = "--markdown",
     .type = FLAG_SWITCH,
     .meaning = "a table in Markdown, with the machine above it",
     .offset = OFFSET(markdown)},
    {.name = "--json",
     .type = FLAG_SWITCH,
     .meaning = "one object a line on standard output; the same as --log json",
     .offset = OFFSET(json)},
};
static const struct bench_verb_options defaults = {0};

static status run(const char *const *positionals, const void *options_pointer)
{
    const struct bench_verb_options *o = options_pointer;
    uint64_t bytes = 0;
    if (o->json) log_open(LOG_JSON, log_verbosity());
    if (o->bytes && (!cfg_parse_bytes(o->bytes, &bytes) || bytes == 0))
        FAIL(USAGE, "--bytes: expected a size such as 2GiB, found \"%s\"", o->bytes);
    return bench_run(&(struct bench_options){.subject = positionals[0] ? positionals[0] : "all",
                                             .what = positionals[0] ? positionals[1] : NULL,
                                             .isa = o->isa,
                                             .precision = o->precision,
                                             .threads = o->threads,
                                             .repeats = o->repeats,
                                             .bytes = bytes,
                                             .vocab = o->vocab,
                                             .card = o->card,
                                             .markdown = o->markdown,
                                             .quick = o->quick,
                                             .set = o->set.item,
                                             .set_count = o->set.count,
                                             .shape = o->shape.item,
                                             .shape_count = o->shape.count});
}

const struct command command_bench = {
    .name = "bench",
    .positionals = "[SUBJECT] [GRAPH|FORMAT|DIRECTORY]",
    .summary = "measure this machine, and how much of its speed this program uses",
    .help =
        "SUBJECT is one of\n"
        "    gemm     the three products of a fully connected layer; limit: the peak of multiply-adds\n"
        "    gather   rows of a table looked up and summed; limit: random rows read\n"
        "    update   rows of a table updated; limit: random rows read and written\n"
        "    lookup   keys of micro-batches that become rows; limit: random rows read\n"
        "    parse    text that becomes micro-batches, of all formats or FORMAT: "
        "criteo, criteo-shuffled, criteo-cached, criteo-blocks, csv, csv-quoted, libsvm,\n"
        "             libffm; limit: the text read and dropped\n"
        "    feed     text that becomes inputs with their rows; limit: one thread's rate, times what threads gain\n"
        "    ring     numbers between two threads; limit: a plain ring\n"
        "    disk     blocks of 4 KiB at random places of a file in DIRECTORY (default: the present one), "
        "1 to 256 in flight, by io_uring\n"
        "             and by threads; limit: a bare ring\n"
        "    net      messages between two processes over loopback, dense sums by two and by four, plain and sealed; "
        "limit: the same bytes\n"
        "             through plain sockets\n"
        "    trees    batches of the nodes of random trees and graphs, by each policy; limit: no itinerary has fewer\n"
        "    train    training with micro-batches in memory: ctrdnn, ctrdnn1, ctrdnn2, or GRAPH: "
        "the name of a sample (dcnv2 is\n"
        "             another), a model text or a compiled graph; limit: its operations at the peak\n"
        "    card     copies, products and updates of a card; "
        "limit: its driver's copies, cuBLASLt where it is installed, multiply-adds\n"
        "or all, which is the default. Every figure is the median of --repeats, each after one of its limit.",
    .flags = flags,
    .flag_count = sizeof flags / sizeof *flags,
    .options_bytes = sizeof(struct bench_verb_options),
    .defaults = &defaults,
    .uses_cards = true,
    .run = run};
