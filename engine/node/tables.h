/* Accounts of the tables of all nodes, at node 0. */
#ifndef HETERPS_ENGINE_NODE_TABLES_H
#define HETERPS_ENGINE_NODE_TABLES_H

#include "engine/model/model_tables.h"
#include "engine/node/reduce.h"

/* By the main threads of all nodes, between two jobs: fills accounts [table_count], on node 0 of all nodes
 * together, on another node of its own. All nodes return the same: the failure of a node's
 * model_tables_count, or of the exchange. */
MUST_USE status reduce_tables_count(struct reduce *reduce, struct table_account *accounts);

#endif
