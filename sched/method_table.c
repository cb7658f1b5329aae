/* The methods of methods.def, by number and by name. */
#include <stdio.h>
#include <string.h>

#include "sched/solution.h"

enum { FIXED = METHOD_FIXED, SAMPLED = METHOD_SAMPLED, LEARNED = METHOD_LEARNED, PROOF = METHOD_PROOF };

const struct method method_table[METHOD_ID_COUNT] = {
#define METHOD(id, name_, kind_, meaning_)                                                                             \
    [METHOD_ID_##id] = {.name = name_, .kind = (enum method_kind)kind_, .meaning = meaning_, .run = method_##id},
#include "sched/methods.def"
#undef METHOD
};

uint32_t method_find(const char *name)
{
    for (uint32_t m = 0; m < METHOD_ID_COUNT; m++)
        if (strcmp(method_table[m].name, name) == 0) return m;
    return GRAPH_NONE;
}

status solve_method_check(const char *method)
{
    if (strcmp(method, "auto") == 0 || method_find(method) != GRAPH_NONE) return ST_OK;
    char names[512] = "";
    size_t used = 0;
    for (uint32_t m = 0; m < METHOD_ID_COUNT && used < sizeof names; m++)
        used += (size_t)snprintf(names + used, sizeof names - used, ", %s", method_table[m].name);
    FAIL(USAGE, "unknown method \"%s\"; expected auto%s", method, names);
}

bool method_type_is_cpu(const struct instance *instance, uint32_t type)
{
    bool has_devices = false;
    for (uint32_t t = 0; t < instance->type_count; t++)
        has_devices = has_devices || !resource_is_imitated(instance->types[t].resource.device);
    return has_devices ? instance->types[type].resource.device == RESOURCE_CPU : type == 0;
}
