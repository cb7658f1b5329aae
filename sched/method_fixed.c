/* The plans that need no search: all layers on one kind of type, or the first layer on one kind and the rest
 * on the other. The plan's cost decides which type of a kind. HeterPS describes its heuristic both ways
 * round: `heuristic` (first layer on CPU, the rest on accelerators) and `inverse`. */
#include "sched/method.h"

enum kind { CPU, ACCELERATOR };

/* Evaluates every plan with the first layer on a type of kind `first` and the rest on one of kind `rest`; if
 * the kinds are the same, the types are. */
static status propose(struct search *s, enum kind first, enum kind rest)
{
    const struct instance *i = s->model->instance;
    uint32_t L = s->model->layer_count, T = s->model->type_count;
    type_index types[INSTANCE_LAYERS_MAX];
    bool has[2] = {false, false};
    for (uint32_t t = 0; t < T; t++) has[method_type_is_cpu(i, t) ? CPU : ACCELERATOR] = true;
    if (!has[first] || !has[rest])
        FAIL(INVALID, "%s has no %s type to put layers on", i->name, has[CPU] ? "accelerator" : "cpu");
    for (uint32_t a = 0; a < T; a++) {
        if ((method_type_is_cpu(i, a) ? CPU : ACCELERATOR) != first) continue;
        for (uint32_t b = 0; b < T; b++) {
            if ((method_type_is_cpu(i, b) ? CPU : ACCELERATOR) != rest || (first == rest && a != b)) continue;
            types[0] = (type_index)a;
            for (uint32_t l = 1; l < L; l++) types[l] = (type_index)b;
            search_evaluate(s, types);
        }
    }
    return ST_OK;
}

status method_cpu(struct search *search) { return propose(search, CPU, CPU); }
status method_gpu(struct search *search) { return propose(search, ACCELERATOR, ACCELERATOR); }
status method_heuristic(struct search *search) { return propose(search, CPU, ACCELERATOR); }
status method_inverse(struct search *search) { return propose(search, ACCELERATOR, CPU); }
