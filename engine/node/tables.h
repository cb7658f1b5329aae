/* What has become of the tables of all nodes, at node 0. */
#ifndef HETERPS_ENGINE_NODE_TABLES_H
#define HETERPS_ENGINE_NODE_TABLES_H

#include "engine/model/model_tables.h"
#include "engine/node/reduce.h"

/* By the main threads of all nodes, between two jobs: fills accounts [table_count], on node 0 of all nodes together, on
 * another of its own. All return the same: what model_tables_count of one of them, or the exchange, has failed with. */
MUST_USE status reduce_tables_count(struct reduce *reduce, struct table_account *accounts);

#endif
