/* heterps-run trace FILE: joins the traces of several nodes. */
#include "engine/base/trace.h"
#include "engine/base/log.h"
#include "engine/cmd/command.h"

struct trace_options {
    bool none;
};

static status run(const char *const *positionals, const void *options)
{
    (void)options;
    TRY(trace_merge(positionals[0], 0, false));
    log_info("%s: all nodes, by node 0's clock", positionals[0]);
    return ST_OK;
}

const struct command command_trace = {
    .name = "trace",
    .positionals = "FILE",
    .summary = "join the traces of several nodes to one",
    .help = "In a training on several nodes with --trace FILE each node writes FILE.RANK, "
            "with times of node 0's clock, as far as small messages\n"
            "there and back tell them; FILE.0 says which nodes there were. "
            "This verb joins the files to FILE, for chrome://tracing or Perfetto, in which\n"
            "a node is a process. Training itself does so at its end if the files lie in one directory; "
            "else bring them there.",
    .options_bytes = sizeof(struct trace_options),
    .run = run};
