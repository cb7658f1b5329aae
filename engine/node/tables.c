/* Counts tables node by node; once a training. */
#include "engine/node/tables.h"

#include "engine/node/reduce_internal.h"
#include "engine/node/talk.h"
#include "io/store/store_rows.h"
#include "io/store/store_ticket.h"

status reduce_tables_count(struct reduce *r, struct table_account *accounts)
{
    const uint32_t tables = r->graph->table_count;
    struct table_account other[GRAPH_TABLES_MAX];
    if (tables == 0) return ST_OK;
    const uint32_t ticket = r->owned ? owned_done_ticket(r->owned) : r->exchange.rows.own_ticket;
    status st = store_hold(r);
    if (st == ST_OK) st = store_settle(r->model->store);
    if (st == ST_OK) st = model_tables_count(r->model, r->own_rows, ticket, accounts);
    for (uint32_t t = 0; t < tables && st == ST_OK; t++) r->own_rows[t] = accounts[t].row_count;
    st = reduce_agree(r, st);
    if (st == ST_OK && r->exchange.rank > 0) st = reduce_say_all(r, 0, accounts, tables * sizeof *accounts);
    for (uint32_t n = 1; n < r->exchange.node_count && r->exchange.rank == 0 && st == ST_OK; n++) {
        st = reduce_hear_all(r, n, other, tables * sizeof *other);
        if (st == ST_OK) model_tables_add(accounts, other, tables);
    }
    store_let_go(r);
    return st;
}
