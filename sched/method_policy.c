/* policy: a trained network plans an instance that it has not seen, without any search. */
#include <stdlib.h>

#include "sched/method.h"
#include "sched/policy.h"

status method_policy(struct search *search)
{
    const struct policy *policy = search->options.policy_from;
    if (policy == NULL) FAIL(USAGE, "method policy needs a trained one; give --policy FILE");
    type_index *types = malloc(search->model->layer_count * sizeof *types);
    if (types == NULL) FAIL(MEMORY, "no memory for a plan of %u layers", search->model->layer_count);
    status st = policy_apply(policy, search->model, types);
    if (st == ST_OK) (void)search_evaluate(search, types);
    free(types);
    return st;
}
