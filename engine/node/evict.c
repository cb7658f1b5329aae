/* Bounds of rows that hold for all owners together. After a step's values all know how many rows there
 * may be (some on disks may be dead). Where they may be too many, all find the same threshold, digit by
 * digit (io/store/store_life.h).
 *
 *     VALUES over ──▶ bins of the first digit to all ──all are here──▶ the next digit's … ──▶ each removes its own
 *                 ──▶ the step is over
 *
 * A digit's bins are sent when those of the digit before have come from all, so no node is more than one
 * digit ahead, and there are two of everything. A message has a word for each bin that has rows, in the order
 * of bins: the bin's number above BIN_SHIFT, how many rows below it; one word of no rows if there are none.
 * So a node sends at most 8 bytes a row and digit, and never more than 512 KiB. Up to six digits, of which
 * the later ones look at few rows. */
#include <inttypes.h>
#include <string.h>

#include "engine/node/reduce_internal.h"

void evict_layout(struct reduce *r, struct layout *l)
{
    struct evicting *e = &r->evicting;
    for (uint32_t t = 0; t < r->graph->table_count; t++) e->is_bounded |= r->graph->tables[t].life.row_max > 0;
    for (int i = 0; i < 2 && e->is_bounded; i++) {
        LAYOUT_TAKE(l, e->own[i], STORE_BINS);
        LAYOUT_TAKE(l, e->sum[i], STORE_BINS);
    }
    for (uint32_t n = 0; n < r->exchange.node_count && e->is_bounded; n++) {
        uint64_t *bins = NULL;
        if (n != r->exchange.rank) LAYOUT_TAKE(l, bins, STORE_BINS);
        if (l->arena) r->peers[n].bins = bins;
    }
}

#define BIN_SHIFT 48
#define BIN_ROWS  ((UINT64_C(1) << BIN_SHIFT) - 1)
_Static_assert(STORE_BINS - 1 <= UINT64_MAX >> BIN_SHIFT, "a word has a bin's number");

/* Adds this node's bins to the sum, and packs them into a message, in their own place. Returns its words. */
static uint32_t bins_pack(struct evicting *e, uint64_t *bins)
{
    uint32_t words = 0;
    for (uint64_t i = 0; i < STORE_BINS; i++) {
        if (bins[i] == 0) continue;
        e->sum[e->round % 2][i] += bins[i];
        bins[words++] = i << BIN_SHIFT | bins[i];
    }
    if (words == 0) bins[words++] = 0;
    return words;
}

/* Adds another node's; false: no node packs so. */
static bool bins_unpack(uint64_t *sum, const uint64_t *word, uint64_t words)
{
    for (uint64_t i = 0; i < words; i++) {
        if (i > 0 && word[i] >> BIN_SHIFT <= word[i - 1] >> BIN_SHIFT) return false;
        if ((word[i] & BIN_ROWS) == 0 && (words > 1 || word[i])) return false;
        sum[word[i] >> BIN_SHIFT] += word[i] & BIN_ROWS;
    }
    return true;
}

/* Counts the own rows by the next digit, and tells all. A node that owns none leaves its store alone, which
 * its feed may be using. */
static status bins_send(struct reduce *r)
{
    struct evicting *e = &r->evicting;
    uint64_t *own = e->own[e->round % 2];
    if (r->owned)
        TRY(store_select_count(r->model->store, e->table, &e->select, own));
    else
        memset(own, 0, STORE_BINS * sizeof *own);
    const uint32_t words = bins_pack(e, own);
    e->is_counted = true;
    for (uint32_t n = 0; n < r->exchange.node_count; n++)
        if (n != r->exchange.rank) TRY(part_send(r, n, KIND_BINS, e->round, own, words * sizeof *own));
    return ST_OK;
}

/* The next table that may have too many rows, if there is one. */
static bool table_begin(struct reduce *r)
{
    struct evicting *e = &r->evicting;
    for (; e->table < r->graph->table_count; e->table++) {
        e->select = (struct store_select){.most = r->graph->tables[e->table].life.row_max};
        if (e->select.most > 0 && r->row_count[e->table] > e->select.most) return e->is_selecting = true;
    }
    return false;
}

/* Rows of the digits chosen so far are counted again by the next digit: as many. */
static status digit_check(const struct reduce *r, const uint64_t *sum)
{
    const struct evicting *e = &r->evicting;
    uint64_t rows = 0;
    for (uint32_t i = 0; i < STORE_BINS; i++) rows += sum[i];
    if (e->select.digit == 0 || rows == e->within) return ST_OK;
    FAIL(INVALID,
         "nodes have counted %" PRIu64 " rows of table \"%s\" by one digit, and %" PRIu64 " by the next: one of them "
         "does not train the same graph in the same way",
         e->within, graph_string(r->graph, r->graph->tables[e->table].name), rows);
}

/* All have counted. */
static status digit_end(struct reduce *r)
{
    struct evicting *e = &r->evicting;
    uint64_t *sum = e->sum[e->round % 2];
    TRY(digit_check(r, sum));
    const bool is_last = store_select_choose(&e->select, sum);
    if (e->select.digit > 0) e->within = sum[e->select.chosen[e->select.digit - 1]];
    memset(sum, 0, STORE_BINS * sizeof *sum); /* for the digit after the next */
    e->come[e->round % 2] = 0;
    e->round++;
    e->is_counted = false;
    if (!is_last) return ST_OK;
    if (r->owned) {
        TRY(store_select_remove(r->model->store, e->table, &e->select));
        r->own_rows[e->table] = store_row_count(r->model->store, e->table);
    }
    r->row_count[e->table] = e->select.row_count - e->select.gone;
    e->is_selecting = false;
    e->table++;
    return ST_OK;
}

status evict_step(struct reduce *r, bool *is_over)
{
    struct evicting *e = &r->evicting;
    *is_over = false;
    while (e->is_on) {
        if (!e->is_selecting && (!e->is_bounded || !table_begin(r))) {
            e->is_on = false;
            *is_over = true;
            return ST_OK;
        }
        if (!e->is_counted) TRY(bins_send(r));
        if (e->come[e->round % 2] + 1 < r->exchange.node_count) return ST_OK;
        TRY(digit_end(r));
    }
    return ST_OK;
}

void evict_begin(struct reduce *r)
{
    struct evicting *e = &r->evicting;
    e->is_on = true;
    e->table = 0;
    e->is_selecting = false;
}

static bool bins_expect(struct reduce *r, uint32_t from, uint64_t step, uint64_t bytes, struct reduce_message *message)
{
    const struct peer *peer = &r->peers[from];
    (void)step;
    if (peer->bins == NULL || peer->next_bins > r->evicting.round + 1) return false;
    if (bytes == 0 || bytes % sizeof *peer->bins || bytes > STORE_BINS * sizeof *peer->bins) return false;
    message->step = peer->next_bins;
    message->bytes = bytes;
    message->part[0].iov_base = peer->bins;
    return true;
}

static status bins_arrived(struct reduce *r, uint32_t from, const struct reduce_message *message)
{
    if (!bins_unpack(r->evicting.sum[message->step % 2], r->peers[from].bins, message->bytes / sizeof(uint64_t)))
        FAIL(INVALID,
             "node %u sent counts of rows that are not in the order of their bins, or of no rows: "
             "it does not train the same graph in the same way",
             reduce_name(r, from));
    r->evicting.come[message->step % 2]++;
    r->peers[from].next_bins++;
    return ST_OK;
}

const struct message_kind bins_kind = {.expect = bins_expect, .arrived = bins_arrived};
