/* Units of trees, how long a placement of theirs takes, and what none is below. */
#include "sched/trees/place.h"

#include <math.h>

#define NEVER (-1.0)

void place_units_layout(struct place_units *u, struct layout *l, size_t unit_max, size_t child_max)
{
    LAYOUT_TAKE(l, u->kind, unit_max);
    LAYOUT_TAKE(l, u->is_output, unit_max);
    LAYOUT_TAKE(l, u->is_root, unit_max);
    LAYOUT_TAKE(l, u->is_right, unit_max);
    LAYOUT_TAKE(l, u->child_begin, unit_max + 1);
    LAYOUT_TAKE(l, u->child, child_max);
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

/* Of the last unit. */
static void child_put(struct place_units *u, uint32_t child)
{
    u->child[u->child_begin[u->count]++] = child;
    if (!u->is_output[u->count - 1]) u->is_root[child] = false;
}

/* Right are the last half of a root's children, the middle one not, and all below them; an output lies where its node
 * does. Units that share a child find it right if one of them is. */
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

/* When the child's value is on the device; it is sent where it is not yet. */
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
    const double end = begin + m->seconds[device][u->kind[unit]];
    for (uint32_t d = 0; d < m->device_count; d++) c->there[unit][d] = NEVER;
    c->there[unit][device] = c->busy_until[device] = end;
    c->result.seconds = fmax(c->result.seconds, end);
    return end;
}

struct place_result place_time(struct place_clock *c, const struct place_units *u, const struct place_machine *m,
                               const uint8_t *device)
{
    place_clock_begin(c);
    for (uint32_t i = 0; i < u->count; i++) place_clock_add(c, u, m, i, device[i]);
    return c->result;
}

double place_least_seconds(const struct place_units *u, const struct place_machine *m, uint32_t unit)
{
    double least = m->seconds[0][u->kind[unit]];
    for (uint32_t d = 1; d < m->device_count; d++) least = fmin(least, m->seconds[d][u->kind[unit]]);
    return least;
}

double place_bound(const struct place_units *u, const struct place_machine *m, double *end)
{
    double path = 0, load = 0;
    for (uint32_t i = 0; i < u->count; i++) {
        const double least = place_least_seconds(u, m, i);
        double begin = 0;
        for (uint32_t e = u->child_begin[i]; e < u->child_begin[i + 1]; e++) begin = fmax(begin, end[u->child[e]]);
        end[i] = begin + least;
        path = fmax(path, end[i]);
        load += least;
    }
    return m->is_synchronous ? load : fmax(path, load / m->device_count);
}
