/* A model is what training changes: dense parameters, their optimizer state, the rows of the
 * tables, and how far training has come. Parameters lie in one array at the offsets of their
 * tensors, their state in a second array.
 *
 *     graph ──model_open──▶ initial values ──model_load──▶ values of a model directory ──training──▶ model_save */
#ifndef HETERPS_ENGINE_MODEL_MODEL_H
#define HETERPS_ENGINE_MODEL_MODEL_H

#include "engine/base/file.h"
#include "engine/model/model_data.h"
#include "graph/graph.h"
#include "graph/optimizer.h"
#include "graph/row_vector.h"
#include "io/store/shard.h"

struct progress {
    uint64_t step;           /* steps done since the start of training                                  */
    uint64_t epoch;          /* passes finished                                                          */
    uint64_t epoch_examples; /* examples of the current pass that are done                               */
    uint64_t examples;       /* since the start of training                                             */
    uint64_t pass_examples;  /* of a whole pass; 0 while none has ended                                 */
    /* where the training on the present data began: 0, unless it continues a training on other data */
    uint64_t first_epoch, first_step;
};

/* The state of early stopping (engine/eval/early_stop.h). */
struct best {
    char figure[136];                           /* HEAD.FIGURE that decides; "": not yet evaluated */
    double value;                               /* the best so far */
    uint64_t step;                              /* the step that had this value */
    uint64_t evaluated_step, evaluations_since; /* the last evaluation; how many since the best */
};

#define MODEL_TAG_BYTES 40
/* Which rows a model has: all, or one owner's. Owners share every table by shards
 * (io/store/shard.h), or each has whole tables. */
struct model_share {
    uint32_t owner, owner_count;   /* count 0: all                                                 */
    const uint8_t *owner_of;       /* [SHARD_COUNT]: each shard's owner; kept                      */
    const uint8_t *owner_of_table; /* [table_count], likewise; NULL: tables are shared by shards   */
};
static inline uint32_t model_share_owner(const struct model_share *share, uint32_t table, uint64_t key)
{
    return share->owner_of_table ? share->owner_of_table[table] : share->owner_of[shard_of(key)];
}
static inline bool model_share_has(const struct model_share *share, uint32_t table, uint64_t key)
{
    return share->owner_count == 0 || model_share_owner(share, table, key) == share->owner;
}

struct model {
    const struct graph *graph;
    float *param;           /* [header->param_floats]                                                           */
    float *state;           /* [header->state_floats]: of update u at state_offset[u]: [state_count, param_count] */
    uint64_t *state_offset; /* [update_count]                                                         */
    struct store *store;
    struct progress progress;
    struct best best;
    char tag[MODEL_TAG_BYTES]; /* STEP[-GENERATION] of the save from which the model was loaded; "": from none */
    struct model_data data;    /* the data of training, with marks; closed with the model */
    struct model_share share;
    bool looks_up; /* rows are only looked up, and are vectors alone */
};
/* Floats of a row of the store. */
static inline uint32_t model_row_floats(const struct model *m, uint32_t table)
{
    const struct graph_table *t = &m->graph->tables[table];
    return m->looks_up ? row_vector_floats(t) : t->span_floats;
}
/* The period (engine/base/row_life.h) of the step that follows `step` steps. */
static inline uint64_t model_period(const struct graph *g, uint64_t step)
{
    return g->header->period ? step / g->header->period : 0;
}

/* Set by a run, not by the graph. */
struct model_table_settings {
    uint64_t ram_bytes, disk_bytes; /* of its rows' own; 0: a share of what other tables leave */
    bool unseen_is_zeros;           /* as of store_table_options                                              */
};
/* The memory that rows of tables may take. */
struct model_budget {
    uint64_t ram_bytes;                       /* index included                                          */
    uint64_t disk_bytes;                      /* 0: rows live in RAM only                                */
    const char *path;                         /* with a disk: a directory for its files, kept until close */
    bool io_threads;                          /* threads read and write, not io_uring                    */
    const struct model_table_settings *table; /* [table_count], for the call; NULL: all share */
    bool lives;                               /* training: rows enter and are dropped by their tables' rules */
    /* predicting alone: rows have no optimizer state in memory; implied by `rows` */
    bool looks_up;
    /* [table_count], for the call, or NULL: the number of rows. With it rows are only looked up and stay in
     * the files of the save that is loaded; ram_bytes are for the rows' index and for copies of some rows
     * (io/store/filed.h). MEMORY tells what the index needs. */
    const uint64_t *rows;
};

/* Takes the memory, zeroed and not yet touched: model_init or model_load fills it. Keeps the graph until
 * model_close. On failure *model is empty, and may be closed. MEMORY; INVALID: the graph's updates and
 * parameters do not fit each other; with a disk fails as cold_open. */
MUST_USE status model_open(struct model *model, const struct graph *graph, const struct model_budget *budget);
/* Fills in the initial values of parameters and their optimizer state: a function of graph and seed. */
void model_init(struct model *model);
void model_close(struct model *model);
/* Fills in the initial row of a key: store_table_options.row_init with the model as context. */
void model_row_init(void *model, uint32_t table, uint64_t key, float *span);

/* The dense part as named arrays, in the order of the graph: each parameter, after it with_state its
 * optimizer state as NAME.state0, … Arrays point into the model. */
struct model_array {
    char *name;
    float *data;
    uint32_t rows, cols, stride;
};
struct model_arrays {
    struct model_array *items;
    uint32_t count;
};
MUST_USE status model_arrays_list(struct model_arrays *arrays, const struct model *model, bool with_state);
void model_arrays_free(struct model_arrays *arrays);
/* Puts an array's values, row after row, into an open writer. */
MUST_USE status model_array_put(const struct model_array *array, struct file_writer *writer);
/* Puts all arrays as a safetensors file into an open writer; the caller commits. */
MUST_USE status model_arrays_put(const struct model_arrays *arrays, struct file_writer *writer);

/* Says early whether model_save can use the directory `path`, makes it if it is absent, and claims it for
 * this process until the process exits. INVALID or CORRUPT: the directory holds anything but a model,
 * or a model whose manifest or lock is a link to another directory's;
 * MISMATCH: another graph's model; IO: it cannot be written to; SYSTEM: another process has claimed it (a
 * lock on DIR/lock). May be called again. */
MUST_USE status model_dir_check(const struct graph *graph, const char *path);

#define MODEL_BEST_NAME "best"
struct model_save_options {
    const char *path; /* the directory; model_dir_check comes first */
    /* [table_count]: rows to save of each table: rows that exist at this step,
     * without rows read ahead; NULL: all */
    const uint64_t *row_count;
    uint32_t ticket; /* with a disk, rows as of it: ticket.number of the last finished step */
    uint32_t keep;   /* saves that stay in the directory, this one included; 0 is 1         */
    /* Of several owners the first one saves. `others` [owner_count - 1, table_count] are the rows that the
     * others have saved, under the generation that model_save_claim has given. NULL: there is one owner. */
    const struct manifest_part *others;
    uint32_t generation;
    struct admission *const *admission; /* [table_count], NULL where every key is admitted: the counts of all owners */
    struct file_sink *sink;             /* of model_save_rows: takes the files in place of the directory; or NULL */
};
/* Saves into a directory, in one piece:
 *     manifest.json               what the model is, its progress, its recipe, its files with bytes and xxh3
 *                                 (engine/model/manifest.h)
 *     manifest.STEP.json          the same for an older save that is kept
 *     dense.STEP.safetensors      parameters by name, optimizer state as NAME.state0, …
 *     TABLE.STEP.rows             key and span of each row, in the order of creation (io/store/row_file.h)
 *     lock                        empty; claims the directory
 *     best                        where early stopping keeps the best model: a directory of the same kind
 * A second save of the same step has STEP-1 for STEP, then STEP-2, …: no file is changed after a manifest has
 * named it. The manifest that was the newest gets its second name by a link, so it is not written twice.
 *
 * manifest.json is always the save that was written last. The `keep` saves written last stay, whatever their
 * steps: a run that goes on from an older save in the same directory leaves saves of later steps there until
 * `keep` newer saves are written. Nothing is removed before the new save is complete, and a save's manifest
 * goes before its files. So after a kill at any moment all manifests name whole saves. After a failure they
 * do, too, and what the failed save has written is removed. *bytes (or NULL) becomes the bytes written. */
MUST_USE status model_save(const struct model *model, const struct model_save_options *options, uint64_t *bytes);
/* A save of several owners, in three calls; all files have one tag. The first owner claims a generation that
 * no file of the directory has. Every other owner writes its rows, TABLE+OWNER.STEP.rows, and fills parts
 * [table_count], whose names model_parts_free frees. Then the first owner calls model_save. The next save
 * removes files that no manifest names. Fail as model_save. */
MUST_USE status model_save_claim(const struct model *model, const char *path, uint32_t *generation);
MUST_USE status model_save_rows(const struct model *model, const struct model_save_options *options,
                                struct manifest_part *parts);
/* Removes all files that have the tag of such a save, which failed: no manifest may name them. */
void model_save_drop(const struct model *model, const struct model_save_options *options);
void model_parts_free(struct manifest_part *parts, uint32_t part_count);

/* Whether PATH leads to a saved model: PATH is a model's directory, for its newest save, or a manifest in a
 * directory (DIR/manifest.2000.json), for the manifest's save. INVALID: it is neither. Called before
 * model_dir_check, which would make a mistyped directory. */
MUST_USE status model_dir_find(const char *path);
/* The directory of such a PATH, where training that is resumed from PATH saves. malloc'd: yours,
 * NULL after a failure (MEMORY). */
MUST_USE status model_dir_of(const char *path, char **directory);
/* Loads a save of model_save into a freshly opened model, also while another process goes on saving
 * there; `path` as above, or a file of graph and model (engine/model/lean.h). Sizes, checksums, model
 * hash and every name and shape are verified before the model is touched: CORRUPT, MISMATCH or INVALID
 * name the file and what differs; IO names a missing file. FULL: rows beyond the budget; the model is
 * then only good for model_close. */
MUST_USE status model_load(struct model *model, const char *path);
/* Notes the manifest that a path leads to (engine/base/inputs.h). For runs that do not save: a save takes the
 * manifest's name. MEMORY. */
MUST_USE status model_manifest_note(const char *path);
/* As model_load, to go on training. First compares the save's data with the model's (model_data_look),
 * INVALID, and the save's recipe with the graph's, which may refuse, or warn (engine/model/recipe.h).
 * model->data gets the save's marks. */
MUST_USE status model_resume(struct model *model, const char *path);
/* As model_resume, to train on other data: a new pass begins, and the rest of the saved pass is not
 * trained on. Steps, schedule, optimizers and rows go on; bounds of epochs and steps, and the evaluations
 * of early stopping, count from here. */
MUST_USE status model_continue(struct model *model, const char *path);
/* As model_load, model_resume or model_continue. */
enum model_purpose { MODEL_TO_USE, MODEL_TO_RESUME, MODEL_TO_CONTINUE };
MUST_USE status model_load_for(struct model *model, const char *path, enum model_purpose purpose);

/* A save that comes from elsewhere, not from a directory. */
struct model_source {
    const char *name;                /* of the place it comes from, for messages                                 */
    struct file_map manifest, dense; /* the files, in memory (file_map_memory)                                   */
    struct file_map *admission;      /* [table_count]: empty where every key is admitted                         */
    uint32_t table_count;            /* the graph's                                                              */
    /* The next of this owner's rows of the table; *row NULL: there is none.
     * The row stays until the next call. */
    status (*row_next)(struct model_source *, uint32_t table, uint64_t *key, const float **row);
};
/* Closes the files that nobody has taken. */
void model_source_close(struct model_source *source);
/* As model_load_for. Takes the files. */
MUST_USE status model_load_from(struct model *model, struct model_source *source, enum model_purpose purpose);
/* The hash of the manifest that a path leads to, which tells saves apart. Fails as model_dir_find. */
MUST_USE status model_manifest_hash(const char *path, uint64_t *hash);
/* Checks early, before any memory is filled, what model_resume, or model_continue (is_new_pass), checks of
 * data, recipe and model hash; fails like them. Warns of a new pass over the save's own data, and says how
 * many examples of the saved pass are left out. */
MUST_USE status model_resume_check(const struct model *model, const char *path, bool is_new_pass);

/* Whether the save at PATH is of a training on the model's data, wherever in them: the same
 * files; or neither's are known, as of streams. Fails as model_load. */
MUST_USE status model_data_is_saved(const struct model *model, const char *path, bool *is_saved);

enum model_export_format { MODEL_EXPORT_SAFETENSORS, MODEL_EXPORT_NPY };
struct model_exported {
    uint32_t files;
    uint64_t bytes, rows;
};
/* Writes the values into directory `path` (made if absent; not a model's directory), where warm_start finds
 * them: dense.safetensors (the parameters by name, in the graph's order) and for each table TABLE.safetensors
 * with "keys" U64 [n] and "vectors" F32 [n, dim], rows sorted by key; or the same as NAME.npy, TABLE.keys.npy
 * and TABLE.vectors.npy. The files' bytes depend on the model's values only. *exported (or NULL) becomes the
 * counts of what was written. A table called "dense" goes to "%64ense.safetensors". */
MUST_USE status model_export(const struct model *model, const char *path, enum model_export_format format,
                             struct model_exported *exported);
/* The same with rows from `sorted` (model_sorted.h), some of which other nodes may hold. */
struct model_sorted;
MUST_USE status model_export_sorted(const struct model *model, struct model_sorted *sorted, const char *path,
                                    enum model_export_format format, struct model_exported *exported);
/* A table's name made safe as a part of a file's name: bytes other than letters, digits, '_', '.', '-' become
 * %XX. malloc'd: yours, NULL after a failure (MEMORY). */
MUST_USE status model_file_stem(char **stem, const char *table);

#endif
