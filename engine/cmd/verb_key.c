/* heterps-run key: makes the key that the nodes of a cluster share. */
#include "engine/cmd/command.h"
#include "engine/base/log.h"
#include "io/net/link_key.h"

struct key_options {
    const char *out;
};
static const struct flag flags[] = {
    {.name = "-o",
     .type = FLAG_TEXT,
     .value = "FILE",
     .meaning = "write the key to a new file that only its owner can open; default: standard output",
     .offset = offsetof(struct key_options, out)},
};

static status run(const char *const *positionals, const void *options_pointer)
{
    const struct key_options *o = options_pointer;
    (void)positionals;
    TRY(key_make(o->out ? o->out : "-"));
    if (o->out) log_info("%s: a new key; give every node a copy that only its user can read", o->out);
    return ST_OK;
}

const struct command command_key = {
    .name = "key",
    .positionals = "",
    .summary = "make a key for the links between nodes",
    .help = "256 random bits as 64 hexadecimal digits. Nodes that hold the same key trust each other, and nobody else; "
            "what they send is\n"
            "encrypted with keys of their own. A file that others than its owner may open is refused when it is read.",
    .flags = flags,
    .flag_count = sizeof flags / sizeof *flags,
    .options_bytes = sizeof(struct key_options),
    .run = run};
