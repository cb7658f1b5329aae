/* Divides loads between links. Once a generation and division, on every node alike: all run the same program,
 * and so come to the same parts. */
#include "engine/node/share.h"

#include "engine/base/status.h"

/* Halvings of the interval that has the least time: more than a double tells apart. */
#define HALVINGS 200u

/* The shares that a node may have, if it may take `seconds`. False: it takes longer with any. */
static bool bounds_find(const struct share_load *l, double seconds, double *low, double *high)
{
    bool may = true;
    *low = 0;
    *high = 1;
    for (int i = 0; i < 2; i++) {
        const struct share_line *line = &l->line[i];
        const double room = seconds * l->bandwidth - line->base;
        if (line->slope > 0 && room < *high * line->slope) *high = room / line->slope;
        if (line->slope < 0 && room < *low * line->slope) *low = room / line->slope;
        may &= line->slope != 0 || room >= 0;
    }
    return may && *low <= *high;
}

/* Whether nodes may have shares whose sum is 1; sums of their least and greatest shares. */
static bool may_share(const struct share_load *load, uint32_t count, double seconds, double *low, double *high)
{
    bool may = true;
    *low = *high = 0;
    for (uint32_t n = 0; n < count; n++) {
        double least, most;
        may &= bounds_find(&load[n], seconds, &least, &most);
        *low += least;
        *high += most;
    }
    return may && *low <= 1 && *high >= 1;
}

double share_find(const struct share_load *load, uint32_t count, double *share)
{
    double below = 0, seconds = 0, low, high;
    CHECK(count >= 1 && count <= SHARE_NODES_MAX);
    for (uint32_t n = 0; n < count; n++) {
        CHECK(load[n].bandwidth > 0);
        for (int i = 0; i < 2; i++) {
            const struct share_line *line = &load[n].line[i];
            const double most = line->base + (line->slope > 0 ? line->slope : 0);
            if (most / load[n].bandwidth > seconds) seconds = most / load[n].bandwidth;
        }
    }
    seconds *= 1 + 1e-9; /* each node may have any share, whatever is rounded */
    for (uint32_t i = 0; i < HALVINGS; i++) {
        const double middle = below + (seconds - below) / 2;
        if (may_share(load, count, middle, &low, &high))
            seconds = middle;
        else
            below = middle;
    }
    CHECK(may_share(load, count, seconds, &low, &high));
    const double part = high > low ? (1 - low) / (high - low) : 0;
    for (uint32_t n = 0; n < count; n++) {
        double least, most;
        (void)bounds_find(&load[n], seconds, &least, &most);
        share[n] = least + part * (most - least);
    }
    return seconds;
}

void share_round(const double *share, uint32_t count, uint16_t *parts)
{
    double lost[SHARE_NODES_MAX];
    uint32_t given = 0;
    CHECK(count >= 1 && count <= SHARE_NODES_MAX);
    for (uint32_t n = 0; n < count; n++) {
        const double wanted = share[n] * SHARE_PARTS;
        parts[n] = (uint16_t)wanted;
        lost[n] = wanted - parts[n];
        given += parts[n];
    }
    for (; given < SHARE_PARTS; given++) {
        uint32_t most = 0;
        for (uint32_t n = 1; n < count; n++)
            if (lost[n] > lost[most]) most = n;
        parts[most]++;
        lost[most]--;
    }
    CHECK(given == SHARE_PARTS);
}

/* In units of all rows' bytes of a step, each way. A node asks for those of its lanes that others have, and
 * is asked for its own by the lanes of others. Rows of the next step travel while sums of this one
 * do, so all that a node sends counts. */
static void rows_load(struct share_load *load, double lanes)
{
    load->line[0] = load->line[1] = (struct share_line){lanes, 1 - 2 * lanes};
}

/* In units of the dense part's bytes. Of a bucket a node with lanes sends the sums of others' slices,
 * 1 - share, and gets the own slice's, share * (computing - 1). Then as much travels the other way: values.
 * The first bucket's sums and the last one's values travel alone, and take the greater of both twice.
 * Between them values of one bucket travel beside sums of the next, and take the sum of both. A node without
 * lanes gets sums, and sends values, of its slice, for each that has some. */
static void slices_load(struct share_load *load, double buckets, bool computes, double computing)
{
    const double alone = 2 / buckets, beside = 1 - 1 / buckets;
    if (!computes) {
        load->line[0] = load->line[1] = (struct share_line){0, (alone + beside) * computing};
        return;
    }
    load->line[0] = (struct share_line){beside + alone, beside * (computing - 2) - alone};
    load->line[1] = (struct share_line){beside, beside * (computing - 2) + alone * (computing - 1)};
}

static void load_find(struct share_load *load, const struct share_options *o, uint32_t node, uint32_t computing)
{
    const uint32_t own = o->lane_begin[node + 1] - o->lane_begin[node];
    load->bandwidth = o->bandwidth[node];
    if (o->what == SHARE_ROWS)
        rows_load(load, (double)own / o->lane_begin[o->node_count]);
    else
        slices_load(load, o->buckets, own > 0, computing);
}

bool share_make(uint16_t *parts, const struct share_options *o)
{
    struct share_load load[SHARE_NODES_MAX] = {0};
    double share[SHARE_NODES_MAX];
    uint16_t of[SHARE_NODES_MAX];
    uint32_t first = UINT32_MAX, computing = 0, count = 0, least = SHARE_PARTS, most = 0;
    bool is_even = true;
    CHECK(o->node_count >= 1 && o->node_count <= SHARE_NODES_MAX);
    for (uint32_t n = 0; n < o->node_count; n++) {
        parts[n] = o->holders >> n & 1;
        if (o->bandwidth == NULL) continue;
        const bool computes = o->lane_begin[n] < o->lane_begin[n + 1];
        computing += computes;
        if (!computes && !parts[n]) continue;
        if (first == UINT32_MAX) first = n;
        is_even &= o->bandwidth[n] == o->bandwidth[first];
    }
    if (is_even) return false;
    for (uint32_t n = 0; n < o->node_count; n++)
        if (parts[n]) load_find(&load[count++], o, n, computing);
    (void)share_find(load, count, share);
    share_round(share, count, of);
    for (uint32_t i = 0; i < count; i++) {
        if (of[i] < least) least = of[i];
        if (of[i] > most) most = of[i];
    }
    is_even = most <= least + 1; /* but for what is no whole part */
    for (uint32_t n = 0, i = 0; n < o->node_count && !is_even; n++)
        if (parts[n]) parts[n] = of[i++];
    return !is_even;
}
