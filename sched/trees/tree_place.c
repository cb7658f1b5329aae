/* Units of trees, and the time of their placement, one unit after another. */
#include "sched/trees/tree_place.h"

#include <math.h>
#include <string.h>

void place_units_layout(struct place_units *u, struct layout *l, size_t unit_max, size_t child_max)
{
    LAYOUT_TAKE(l, u->kind, unit_max);
    LAYOUT_TAKE(l, u->is_output, unit_max);
    LAYOUT_TAKE(l, u->is_root, unit_max);
    LAYOUT_TAKE(l, u->is_right, unit_max);
    LAYOUT_TAKE(l, u->child_begin, unit_max + 1);
    LAYOUT_TAKE(l, u->child, child_max);
    itinerary_layout(&u->it, l, unit_max);
    LAYOUT_TAKE(l, u->piece, unit_max);
}

static uint32_t unit_put(struct place_units *u, uint32_t kind, bool is_output)
{
    const uint32_t unit = u->count++;
    u->kind[unit] = (uint8_t)kind;
    u->is_output[unit] = is_output;
    u->is_root[unit] = !is_output;
    u->is_right[unit] = false;
    u->child_begin[unit + 1] = u->child_begin[unit];
    return unit;
}

/* Adds a child to the last unit. */
static void child_put(struct place_units *u, uint32_t child)
{
    u->child[u->child_begin[u->count]++] = child;
    if (!u->is_output[u->count - 1]) u->is_root[child] = false;
}

/* Right are the last half of a root's children, without the middle one, and all units below them; an output
 * lies where its node does. A child of several units is right if one of them puts it there. */
static void sides_find(struct place_units *u)
{
    for (uint32_t i = u->count; i-- > 0;) {
        const uint32_t begin = u->child_begin[i], count = u->child_begin[i + 1] - begin;
        if (u->is_output[i]) continue;
        for (uint32_t e = 0; e < count; e++)
            if (u->is_root[i] ? e >= (count + 1) / 2 : u->is_right[i]) u->is_right[u->child[begin + e]] = true;
    }
    for (uint32_t i = 0; i < u->count; i++)
        if (u->is_output[i]) u->is_right[i] = u->is_right[u->child[u->child_begin[i]]];
}

void place_units_of_nodes(struct place_units *u, const struct tree_nodes *nodes, uint32_t output_kind)
{
    const uint32_t stride = output_kind == TREE_NONE ? 1 : 2;
    u->count = 0;
    u->child_begin[0] = 0;
    u->it.batch_count = 0;
    for (uint32_t i = 0; i < nodes->count; i++) {
        const uint32_t unit = unit_put(u, nodes->kind[i], false);
        for (uint32_t e = nodes->child_begin[i]; e < nodes->child_begin[i + 1]; e++)
            child_put(u, nodes->child[e] * stride);
        if (stride == 1) continue;
        unit_put(u, output_kind, true);
        child_put(u, unit);
    }
    sides_find(u);
}

/* Finds the units' pieces; `height` and `above` [count] are scratch. */
static void pieces_find(struct place_units *u, uint32_t *height, uint32_t *above)
{
    uint32_t longest = 1;
    for (uint32_t i = 0; i < u->count; i++) {
        height[i] = above[i] = 0;
        for (uint32_t e = u->child_begin[i]; e < u->child_begin[i + 1] && !u->is_output[i]; e++)
            if (height[u->child[e]] + 1 > height[i]) height[i] = height[u->child[e]] + 1;
        if (height[i] + 1 > longest) longest = height[i] + 1;
    }
    for (uint32_t i = u->count; i-- > 0;)
        for (uint32_t e = u->child_begin[i]; e < u->child_begin[i + 1] && !u->is_output[i]; e++)
            if (above[i] + 1 > above[u->child[e]]) above[u->child[e]] = above[i] + 1;
    for (uint32_t i = 0; i < u->count; i++) {
        const uint32_t node = u->is_output[i] ? u->child[u->child_begin[i]] : i;
        const uint32_t slack = (longest - 1 - height[node] - above[node]) * PLACE_SLACKS / longest;
        u->piece[i] = (uint8_t)(slack * PLACE_STRETCHES + (uint64_t)i * PLACE_STRETCHES / u->count);
    }
}

/* Sorts the units of each batch by piece; `order` [count] is scratch. */
static void pieces_sort(struct place_units *u, uint32_t *order)
{
    const struct itinerary *it = &u->it;
    memcpy(order, it->order, u->count * sizeof *order);
    for (uint32_t b = 0; b < it->batch_count; b++) {
        uint32_t at[PLACE_PIECES + 1] = {it->batch_begin[b]};
        for (uint32_t i = it->batch_begin[b]; i < it->batch_begin[b + 1]; i++) at[u->piece[order[i]] + 1]++;
        for (uint32_t p = 0; p < PLACE_PIECES; p++) at[p + 1] += at[p];
        for (uint32_t i = it->batch_begin[b]; i < it->batch_begin[b + 1]; i++)
            it->order[at[u->piece[order[i]]]++] = order[i];
    }
}

void place_units_batch(struct place_units *u, const struct batching *policy, struct itinerary_scratch *scratch)
{
    const struct tree_nodes nodes = {
        .count = u->count, .kind = u->kind, .child_begin = u->child_begin, .child = u->child};
    struct itinerary *it = &u->it;
    uint32_t batches = 0, at = 0, end;
    itinerary_make(it, &nodes, PLACE_KINDS_MAX, policy, scratch);
    /* Nothing waits for an output, so outputs come last. */
    for (uint32_t b = 0, begin = 0; b < it->batch_count; b++, begin = end) {
        end = it->batch_begin[b + 1];
        if (u->is_output[it->order[begin]]) continue;
        it->batch_kind[batches] = it->batch_kind[b];
        for (uint32_t i = begin; i < end; i++) it->order[at++] = it->order[i];
        it->batch_begin[++batches] = at;
    }
    for (uint32_t i = 0; i < u->count && at < u->count; i++) {
        if (!u->is_output[i]) continue;
        it->batch_kind[batches] = u->kind[i];
        it->order[at++] = i;
    }
    if (batches > 0 && at > it->batch_begin[batches]) it->batch_begin[++batches] = at;
    it->batch_count = batches;
    pieces_find(u, scratch->height, scratch->next);
    pieces_sort(u, scratch->batch);
}

/* --- time ------------------------------------------------------------------------------------- */

void place_clock_layout(struct place_clock *c, struct layout *l, size_t unit_max)
{
    LAYOUT_TAKE(l, c->device, unit_max);
    LAYOUT_TAKE(l, c->there, unit_max);
}

void place_clock_begin(struct place_clock *c)
{
    const struct place_clock begun = {.device = c->device, .there = c->there};
    *c = begun;
}

/* The time at which the child's value is on the device; sends it if it is not there. */
static double value_arrives(struct place_clock *c, const struct place_units *u, const struct place_machine *m,
                            uint32_t child, uint32_t device)
{
    double *there = &c->there[child][device];
    const uint32_t from = c->device[child];
    if (*there >= 0) return *there;
    const double bytes = m->bytes[u->kind[child]];
    double *busy_until = &c->link_busy_until[from][device];
    const double begin = m->is_synchronous ? c->result.seconds : fmax(c->there[child][from], *busy_until);
    *there = *busy_until = begin + m->link[from][device].latency + bytes * m->link[from][device].a_byte;
    c->result.transfers++;
    c->result.transfer_bytes += bytes;
    c->result.seconds = fmax(c->result.seconds, *there);
    return *there;
}

double place_clock_add(struct place_clock *c, const struct place_units *u, const struct place_machine *m, uint32_t unit,
                       uint32_t device)
{
    double begin = c->busy_until[device];
    c->device[unit] = (uint8_t)device;
    for (uint32_t e = u->child_begin[unit]; e < u->child_begin[unit + 1]; e++)
        begin = fmax(begin, value_arrives(c, u, m, u->child[e], device));
    if (m->is_synchronous) begin = c->result.seconds;
    const double end = begin + m->seconds[device][u->kind[unit]][0];
    for (uint32_t d = 0; d < m->device_count; d++) c->there[unit][d] = PLACE_NEVER;
    c->there[unit][device] = c->busy_until[device] = end;
    c->result.seconds = fmax(c->result.seconds, end);
    c->result.launches++;
    return end;
}

struct place_result place_time(struct place_clock *c, const struct place_units *u, const struct place_machine *m,
                               const uint8_t *device)
{
    place_clock_begin(c);
    for (uint32_t i = 0; i < u->count && !m->is_together; i++) place_clock_add(c, u, m, i, device[i]);
    for (uint32_t b = 0; b < u->it.batch_count && m->is_together; b++) place_clock_add_batch(c, u, m, b, device);
    if (m->is_together) place_clock_end(c, u, m);
    return c->result;
}
