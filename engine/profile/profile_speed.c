/* Measures one config as a profile does. */
#include "engine/profile/profile_speed.h"

#include "engine/profile/profile_data.h"
#include "engine/profile/profile_run.h"

status profile_speed(const struct profile_speed_options *o, double *speed)
{
    const struct graph *g = o->graph;
    const struct profile_options where = {.graph = g, .graph_path = o->graph_path, .data = o->data};
    const struct profile_config config = {.cores = o->threads < o->cores->count ? o->threads : o->cores->count,
                                          .examples = g->header->micro};
    const struct resource_slow *const as_it_is = NULL;
    struct profile_data data;
    struct profile_run_result result;
    double seconds = 0;
    TRY(profile_data_open(&data, &where));
    data.settings.store_path = o->store_path;
    const struct profile_run_options run = {.graph = g,
                                            .settings = &data.settings,
                                            .data = data.paths,
                                            .cores = o->cores,
                                            .isa = o->isa,
                                            .configs = &config,
                                            .config_count = 1,
                                            .kinds = &as_it_is,
                                            .kind_count = 1,
                                            .seconds = o->seconds};
    const status st = profile_run(&run, &result);
    for (uint32_t l = 0; st == ST_OK && l < g->layer_count; l++) seconds += result.layers[l].pass;
    if (st == ST_OK) profile_run_free(&result);
    *speed = seconds > 0 ? config.examples / seconds : 1;
    profile_data_close(&data);
    return st;
}
