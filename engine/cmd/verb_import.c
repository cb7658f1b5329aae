/* heterps-run import: makes a model's directory from another program's tensors; the reverse of export. */
#include <unistd.h>

#include "engine/base/log.h"
#include "engine/base/words.h"
#include "engine/cmd/command.h"
#include "engine/crew/setup.h"
#include "engine/model/model_saves.h"
#include "engine/model/warm_start.h"

struct import_options {
    const char *output, *transpose, *map;
    bool strict;
    struct flag_list field, set;
};
static const struct flag flags[] = {
    {.name = "--out",
     .type = FLAG_TEXT,
     .value = "DIR",
     .meaning = "the model's directory, made if absent; import replaces in it what a training would",
     .offset = offsetof(struct import_options, output),
     .is_required = true},
    {.name = "--transpose",
     .type = FLAG_TEXT,
     .value = "NAME[,NAME...]",
     .meaning = "weights that PATH has as [outputs, inputs], like PyTorch's Linear; all: the weights of every fc",
     .offset = offsetof(struct import_options, transpose)},
    {.name = "--map",
     .type = FLAG_READ,
     .value = "FILE",
     .meaning = "names in PATH of the graph's tensors: lines \"theirs = ours\", comments from # on",
     .offset = offsetof(struct import_options, map)},
    {.name = "--field",
     .type = FLAG_LIST,
     .value = "FIELD",
     .meaning = "the field of all texts of TABLE.words.txt, if lines do not name it; once for each table that needs it",
     .offset = offsetof(struct import_options, field)},
    {.name = "--strict",
     .type = FLAG_SWITCH,
     .meaning = "fail if the graph and PATH do not have the same tensors",
     .offset = offsetof(struct import_options, strict)},
    {.name = "--set",
     .type = FLAG_LIST,
     .value = "SECTION.KEY=VALUE",
     .meaning = "override a setting of the graph; may be repeated",
     .offset = offsetof(struct import_options, set)},
};

/* Before the tensors are read: whether the model can go there, and what it takes the place of. */
static status output_check(const struct setup *s, const char *path)
{
    if (access(path, F_OK) != 0) return ST_OK; /* made with the save */
    TRY(model_dir_check(&s->graph, path));
    if (model_dir_find(path) != ST_OK) return ST_OK;
    log_info("out      %s holds a model: the imported one takes its place", path);
    older_saves_warn(path, s->settings.checkpoint_keep);
    return ST_OK;
}

static status import(struct setup *s, const char *path, const struct import_options *o)
{
    const struct warm_start_options options = {.path = path,
                                               .is_import = true,
                                               .strict = o->strict,
                                               .transpose = o->transpose,
                                               .map = o->map,
                                               .field = o->field.item,
                                               .field_count = o->field.count};
    const struct model_save_options save = {.path = o->output, .keep = s->settings.checkpoint_keep};
    uint64_t bytes;
    char text[16];
    TRY(output_check(s, o->output));
    TRY(setup_memory_check(s));
    model_init(&s->model);
    TRY(warm_start(&s->model, &options));
    TRY(model_save(&s->model, &save, &bytes));
    log_info("saved    %s at step 0 (%s)", o->output, words_size(text, bytes));
    return ST_OK;
}

static status run(const char *const *positionals, const void *options_pointer)
{
    const struct import_options *o = options_pointer;
    struct setup setup;
    TRY(setup_open(
        &setup, &(struct setup_options){.graph_path = positionals[0], .set = o->set.item, .set_count = o->set.count}));
    status st = import(&setup, positionals[1], o);
    setup_close(&setup);
    return st;
}

const struct command command_import = {
    .name = "import",
    .positionals = "GRAPH PATH",
    .opens_positionals = true,
    .summary = "make a model's directory from another program's tensors: the reverse of export",
    .flags = flags,
    .flag_count = sizeof flags / sizeof *flags,
    .options_bytes = sizeof(struct import_options),
    .run = run,
    .help =
        "PATH is a .safetensors file, or a directory of them (as export writes), of .npy files, or of both. By name:\n"
        "  h1.weight      a parameter, [inputs, outputs]: of h1.weight.npy, or a tensor of a .safetensors file\n"
        "  emb.vectors    of table emb [rows, dim]: emb.vectors.npy, or \"vectors\" of emb.safetensors; "
        "and their keys:\n"
        "  emb.keys       the 64-bit keys as they are: emb.keys.npy, or \"keys\" of emb.safetensors\n"
        "  emb.words      or texts, one a line of emb.words.txt, which are hashed as the data's are; "
        "for a table that several fields look up with keys of\n"
        "                 their own, lines are FIELD, a tab, the text\n"
        "F32, or F64, F16 and BF16, which are converted. A tensor in PATH must fit; "
        "one that is missing keeps its initial value, and is listed.\n"
        "Optimizer state is the initial one, the step is 0: --resume continues from it, --model serves it."};
