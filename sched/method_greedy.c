/* Layer by layer the type that makes the layers so far cheapest: a partial plan costs as much as a
 * whole plan of its layers, provisioned exactly. Only the final plan is an evaluation of the search.
 * O(L^2 T) stages are provisioned. */
#include "sched/method.h"

#include <math.h>

status method_greedy(struct search *s)
{
    uint32_t L = s->model->layer_count, T = s->model->type_count;
    struct cost_model prefix = *s->model; /* borrows its tables */
    type_index types[INSTANCE_LAYERS_MAX];
    for (uint32_t l = 0; l < L; l++) {
        double best = INFINITY;
        type_index chosen = 0;
        prefix.layer_count = l + 1;
        /* A layer may take long if there are hundreds of layers: the clock is read before each. */
        s->next_look = 0;
        if (search_is_over(s)) return ST_OK;
        for (uint32_t t = 0; t < T; t++) {
            types[l] = (type_index)t;
            uint32_t count = cost_stages(&prefix, types, s->stages);
            double score = provision_exact(&prefix, s->stages, count).score;
            if (score < best) {
                best = score;
                chosen = (type_index)t;
            }
        }
        types[l] = chosen;
    }
    search_evaluate(s, types);
    return ST_OK;
}
