/* Opens the set-up and the crew by which a verb uses a saved model. */
#include "engine/cmd/saved.h"

#include "engine/model/lean.h"

status saved_model(const char *graph_path, const char *model, const char **path)
{
    struct graph graph;
    *path = model ? model : graph_path;
    if (model != NULL || lean_is(graph_path)) return ST_OK;
    TRY(graph_open(&graph, graph_path)); /* a file that is no graph fails here, with its own message */
    graph_close(&graph);
    FAIL(USAGE, "--model is needed: %s is a graph without a model (`export --for serving` makes one file of both)",
         graph_path);
}

status saved_run(const char *graph_path, const struct saved_options *options,
                 status (*use)(struct crew *crew, const struct saved_options *options))
{
    struct setup setup;
    struct crew crew;
    TRY(setup_open(&setup, &(struct setup_options){.graph_path = graph_path,
                                                   .set = options->set.item,
                                                   .set_count = options->set.count,
                                                   .model = options->model}));
    status st = crew_open(&crew, &setup, &(struct crew_options){.threads = options->threads, .isa = options->isa});
    if (st == ST_OK) st = use(&crew, options);
    crew_close(&crew);
    setup_close(&setup);
    return st;
}
