/* Nodes and links of an instance as JSON: parts of sched/instance.c. */
#ifndef HETERPS_SCHED_INSTANCE_NODES_H
#define HETERPS_SCHED_INSTANCE_NODES_H

#include "sched/instance.h"
#include "sched/json_read.h"

/* The first reads "nodes", "links", "message", "step" and "lanes"; the second, called after it,
 * a type's "node" or "nodes" if there are nodes. */
MUST_USE status instance_nodes_read(struct instance *instance, const struct json_part *whole);
MUST_USE status instance_type_nodes_read(const struct instance *instance, const struct json_part *part,
                                         struct resource_type *type);
/* The part of instance_check for nodes. */
MUST_USE status instance_nodes_check(const struct instance *instance);
/* False: memory is short. */
bool instance_nodes_put(json_t *whole, const struct instance *instance);

#endif
