/* heterps-run compile: model text to graph file. */
#include <stdio.h>
#include <string.h>

#include "cfg/settings.h"
#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/base/words.h"
#include "engine/cmd/command.h"
#include "engine/data/compile_source.h"
#include "graph/op.h"

struct compile_options {
    const char *output;
    struct flag_list set;
};
static const struct flag flags[] = {
    {.name = "-o",
     .type = FLAG_WRITE,
     .value = "FILE",
     .meaning = "where to write the graph",
     .offset = offsetof(struct compile_options, output),
     .is_required = true},
    {.name = "--set",
     .type = FLAG_LIST,
     .value = "SECTION.KEY=VALUE",
     .meaning = "override a setting of the text; may be repeated",
     .offset = offsetof(struct compile_options, set)},
};

static status run(const char *const *positionals, const void *options_pointer)
{
    const struct compile_options *o = options_pointer;
    struct file_map text;
    struct graph graph;
    TRY(file_map_read(&text, positionals[0]));
    struct compile_source files = {.path = positionals[0],
                                   .text = (const char *)text.data,
                                   .text_bytes = text.bytes,
                                   .assignments = o->set.item,
                                   .assignment_count = o->set.count};
    const struct graph_source source = compile_source(&files);
    status st = graph_compile(&graph, positionals[0], files.text, files.text_bytes, o->set.item, o->set.count, &source);
    compile_source_close(&files);
    file_map_close(&text);
    TRY(st);
    st = graph_write(&graph, o->output);
    uint64_t params = 0, flops = 0;
    for (uint32_t i = 0; i < graph.layer_count; i++) {
        params += graph.layers[i].param_count;
        flops += graph.layers[i].flops_forward + graph.layers[i].flops_backward;
    }
    char count[27], size[16];
    if (st == ST_OK)
        log_info("compiled %s: %s, %s, %s parameters, %.1f kflop an example -> %s (%s)",
                 graph_string(&graph, graph.header->name), words_plural(WORDS, graph.layer_count, "layer"),
                 words_plural(WORDS, graph.forward_count, "op"), words_whole(count, params), (double)flops * 1e-3,
                 o->output, words_size(size, graph.bytes));
    graph_close(&graph);
    return st;
}

const struct command command_compile = {.name = "compile",
                                        .positionals = "MODEL.cfg",
                                        .opens_positionals = true,
                                        .replaces = MODEL_SPARE_BUT_GRAPH,
                                        .summary = "compile a model text into a graph file",
                                        .flags = flags,
                                        .flag_count = sizeof flags / sizeof *flags,
                                        .options_bytes = sizeof(struct compile_options),
                                        .run = run,
                                        .help =
                                            "`heterps-run help settings` lists every section and key of a model text."};
