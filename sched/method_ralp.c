/* RALP's placement as a method: layers up to the split on one type, layers behind it
 * on another (sched/ralp.h). */
#include "sched/method.h"
#include "sched/ralp.h"

status method_ralp(struct search *s)
{
    const struct instance *i = s->model->instance;
    struct ralp_layer layers[INSTANCE_LAYERS_MAX];
    type_index types[INSTANCE_LAYERS_MAX];
    const uint32_t L = s->model->layer_count, T = s->model->type_count;
    TRY(ralp_layers_of_instance(layers, i));
    const struct ralp r = ralp_profile(layers, L, s->options.skewness ? *s->options.skewness : RALP_THRESHOLD);
    if (r.verdict != RALP_SPLIT) {
        char text[2 * INSTANCE_NAME_BYTES + 256];
        FAIL(INVALID, "%s", ralp_text(&r, i->name, i->layers[r.last].name, text, sizeof text));
    }
    bool is_split = false;
    if (T < 2) FAIL(INVALID, "%s has one type; ralp needs two, for workers and for the node of the back", i->name);
    /* Workers are types on several nodes, where there are any, and the back is on one. */
    for (uint32_t front = 0; front < T; front++)
        for (uint32_t back = 0; back < T; back++) {
            if (front == back) continue;
            if (s->model->has_shared && (!cost_is_shared(s->model, front) || cost_is_shared(s->model, back))) continue;
            for (uint32_t l = 0; l < L; l++) types[l] = (type_index)(l <= r.last ? front : back);
            search_evaluate(s, types);
            is_split = true;
        }
    if (!is_split)
        FAIL(INVALID, "%s: all types lie on several nodes; ralp needs one on one node, for the back", i->name);
    return ST_OK;
}
