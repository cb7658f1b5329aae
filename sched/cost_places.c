/* Where stages lie and what crosses links: the part of the cost model for nodes (sched/cost.h). Runs once a
 * proposed plan, like sched/cost.c, and does not allocate. */
#include <math.h>
#include <string.h>

#include "sched/cost.h"
#include "sched/plan.h"

_Static_assert(INSTANCE_NODES_MAX <= 64, "a bit a node");

/* --- the model -------------------------------------------------------------------------------- */

/* Numbers the places in the order of the types. */
static void places_number(struct cost_model *m)
{
    const struct instance *i = m->instance;
    uint32_t count = 0;
    for (uint32_t t = 0; t < m->type_count; t++) {
        const uint64_t nodes = i->nodes ? i->types[t].resource.nodes : 1;
        uint32_t place = 0;
        while (place < count && m->place_nodes[place] != nodes) place++;
        if (place == count) m->place_nodes[count++] = nodes;
        m->place[t] = place;
        m->has_shared |= cost_is_shared(m, t);
    }
    CHECK(count == m->place_count);
}

static uint32_t leader_find(struct cost_model *m, uint32_t layer)
{
    while (m->leader[layer] != layer) layer = m->leader[layer];
    return layer;
}
/* From now on both layers, and all that follow their leaders, have the lesser of these. */
static void leaders_join(struct cost_model *m, uint32_t layer, uint32_t other)
{
    const uint32_t a = leader_find(m, layer), b = leader_find(m, other);
    m->leader[a > b ? a : b] = a < b ? a : b;
}

static void leaders_set(struct cost_model *m)
{
    const uint32_t last = m->layer_count - 1;
    for (uint32_t l = 0; l <= last; l++) m->leader[l] = l;
    for (uint32_t l = 0; l <= last && m->place_count > 1; l++) {
        const struct instance_layer *layer = &m->instance->layers[l];
        leaders_join(m, l, l - layer->tied_before);
        leaders_join(m, l, l + layer->tied_behind);
        if (layer->is_end) leaders_join(m, l, last);
    }
    for (uint32_t l = 0; l <= last; l++) {
        m->leader[l] = leader_find(m, l);
        m->has_leaders |= m->leader[l] != l;
    }
}

static void layers_set(struct cost_model *m)
{
    m->dense_bytes[0] = m->table_bytes[0] = m->row_bytes[0] = 0;
    for (uint32_t l = 0; l < m->layer_count; l++) {
        const struct instance_layer *layer = &m->instance->layers[l];
        m->cut_bytes[l] = l + 1 < m->layer_count ? layer->cut_bytes : 0;
        m->dense_bytes[l + 1] = m->dense_bytes[l] + layer->dense_bytes;
        m->table_bytes[l + 1] = m->table_bytes[l] + (layer->weight_bytes - layer->dense_bytes);
        m->row_bytes[l + 1] = m->row_bytes[l] + layer->row_bytes;
    }
}

double cost_places_set(struct cost_model *m)
{
    const struct instance *i = m->instance;
    const struct instance_nodes *n = i->nodes;
    double price = 0, a_byte = 0, wait = 0;
    places_number(m);
    layers_set(m);
    leaders_set(m);
    m->step = n && n->step > 0 ? n->step : i->batch;
    for (uint32_t a = 0; a < m->node_count; a++) {
        m->node_memory[a] = n && n->node[a].memory_bytes > 0 ? n->node[a].memory_bytes : INFINITY;
        m->node_price[a] = n ? n->node[a].price_per_hour : 0;
        m->has_node_memory |= isfinite(m->node_memory[a]);
        m->has_node_price |= m->node_price[a] > 0;
        price += m->node_price[a];
        for (uint32_t b = 0; b < m->node_count; b++) {
            struct cost_link *link = &m->links[(size_t)a * m->node_count + b];
            *link = (struct cost_link){0};
            if (a == b) continue;
            const struct instance_link *there = instance_link(n, a, b), *back = instance_link(n, b, a);
            link->a_byte = 0.5 / there->bandwidth + 0.5 / back->bandwidth;
            link->wait = (there->latency + back->latency) / n->message;
            a_byte = fmax(a_byte, link->a_byte);
            wait = fmax(wait, link->wait);
        }
    }
    m->links_most = wait;
    for (uint32_t l = 0; l < m->layer_count; l++) m->links_most += m->cut_bytes[l] * a_byte;
    if (m->has_shared) {
        const double dense = m->dense_bytes[m->layer_count], rows = m->row_bytes[m->layer_count];
        m->links_most += (2 * dense / m->step + rows / 2) * a_byte + 2 * wait * n->message / m->step;
    }
    return price;
}

/* --- links ------------------------------------------------------------------------------------ */

struct cost_uses cost_uses_begin(const struct cost_model *m, uint32_t first, uint32_t last, uint32_t type,
                                 uint64_t next_nodes)
{
    const uint64_t nodes = cost_nodes(m, type);
    struct cost_uses u = {.model = m, .nodes = nodes, .first_left = nodes, .second_left = nodes & (nodes - 1)};
    const uint32_t count = (uint32_t)__builtin_popcountll(nodes);
    if (next_nodes && next_nodes != nodes) {
        const struct instance_nodes *n = m->instance->nodes;
        u.before_left = nodes;
        u.behind_left = next_nodes;
        u.before_count = count;
        u.behind_count = (uint32_t)__builtin_popcountll(next_nodes);
        u.unit = n->lanes > 0 ? n->lanes : (uint64_t)u.before_count * u.behind_count;
        u.cut_bytes = m->cut_bytes[last];
    }
    if (count > 1) {
        const double dense = m->dense_bytes[last + 1] - m->dense_bytes[first];
        const double rows = m->row_bytes[last + 1] - m->row_bytes[first];
        u.exchange_bytes = 4 * dense / (count * m->step) + 2 * rows / ((double)count * count);
        u.exchanges = (dense > 0) + (rows > 0);
    }
    return u;
}

/* The next part of the cut, in which two runs of lanes overlap. */
static bool cut_next(struct cost_uses *u, struct cost_use *use)
{
    const struct cost_model *m = u->model;
    while (u->at < u->unit) {
        const uint32_t from = (uint32_t)__builtin_ctzll(u->before_left), to = (uint32_t)__builtin_ctzll(u->behind_left);
        const uint64_t before_end = u->unit * (u->before_at + 1) / u->before_count,
                       behind_end = u->unit * (u->behind_at + 1) / u->behind_count,
                       end = before_end < behind_end ? before_end : behind_end;
        const double share = (double)(end - u->at) / (double)u->unit;
        u->at = end;
        if (before_end == end) {
            u->before_left &= u->before_left - 1;
            u->before_at++;
        }
        if (behind_end == end) {
            u->behind_left &= u->behind_left - 1;
            u->behind_at++;
        }
        if (from == to || share == 0) continue;
        const struct cost_link *link = &m->links[(size_t)from * m->node_count + to];
        *use = (struct cost_use){.from = from, .to = to, .bytes = share * u->cut_bytes, .wait = share * link->wait};
        return true;
    }
    return false;
}

bool cost_uses_next(struct cost_uses *u, struct cost_use *use)
{
    const struct cost_model *m = u->model;
    if (cut_next(u, use)) return true;
    if (u->exchanges == 0 || u->second_left == 0) return false;
    *use = (struct cost_use){.from = (uint32_t)__builtin_ctzll(u->first_left),
                             .to = (uint32_t)__builtin_ctzll(u->second_left)};
    use->bytes = u->exchange_bytes;
    use->wait = u->exchanges * m->links[(size_t)use->from * m->node_count + use->to].wait *
                m->instance->nodes->message / m->step;
    use->is_exchange = true;
    u->second_left &= u->second_left - 1;
    if (u->second_left == 0) {
        u->first_left &= u->first_left - 1;
        u->second_left = u->first_left & (u->first_left - 1);
    }
    return true;
}

enum links_pass { LINKS_CLEAR, LINKS_ADD, LINKS_MOST };

/* Clears the seconds of the bytes on the links that a stage takes, adds its own, or returns the most that a
 * link takes for it. seconds[nodes, nodes], of pairs a < b. */
static double links_pass(enum links_pass pass, struct cost_uses uses, double *seconds)
{
    const struct cost_model *m = uses.model;
    struct cost_use use;
    double most = 0;
    while (cost_uses_next(&uses, &use)) {
        const uint32_t a = use.from < use.to ? use.from : use.to, b = use.from < use.to ? use.to : use.from;
        double *of = &seconds[(size_t)a * m->node_count + b];
        if (pass == LINKS_CLEAR) *of = 0;
        if (pass == LINKS_ADD) *of += use.bytes * m->links[(size_t)a * m->node_count + b].a_byte;
        if (pass == LINKS_MOST) most = fmax(most, *of + use.wait);
    }
    return most;
}

void cost_links_add(const struct cost_model *m, struct cost_stage *stages, uint32_t count)
{
    double seconds[INSTANCE_NODES_MAX * INSTANCE_NODES_MAX]; /* of all bytes; set only for pairs that occur */
    if (m->node_count == 1) return;
    for (int pass = LINKS_CLEAR; pass <= LINKS_MOST; pass++)
        for (uint32_t s = 0; s < count; s++) {
            const uint64_t next = s + 1 < count ? cost_nodes(m, stages[s + 1].type) : 0;
            stages[s].time.move +=
                links_pass((enum links_pass)pass,
                           cost_uses_begin(m, stages[s].first, stages[s].last, stages[s].type, next), seconds);
        }
}

double cost_links_seconds(const struct cost_model *m, uint32_t first, uint32_t last, uint32_t type, uint64_t next_nodes)
{
    double seconds[INSTANCE_NODES_MAX * INSTANCE_NODES_MAX], most = 0;
    if (m->node_count == 1) return 0;
    const struct cost_uses uses = cost_uses_begin(m, first, last, type, next_nodes);
    for (int pass = LINKS_CLEAR; pass <= LINKS_MOST; pass++) most = links_pass((enum links_pass)pass, uses, seconds);
    return most;
}

/* --- nodes ------------------------------------------------------------------------------------ */

double cost_nodes_price(const struct cost_model *m, const struct cost_stage *stages, uint32_t count)
{
    uint64_t used = 0;
    double price = 0;
    if (!m->has_node_price) return 0;
    for (uint32_t s = 0; s < count; s++) {
        const uint64_t nodes = cost_nodes(m, stages[s].type);
        for (uint64_t left = nodes & ~used; left; left &= left - 1) price += m->node_price[__builtin_ctzll(left)];
        used |= nodes;
    }
    return price;
}

double cost_memory_lack(const struct cost_model *m, const struct cost_stage *stages, uint32_t count, uint32_t *node)
{
    double used[INSTANCE_NODES_MAX], lack = 0;
    if (!m->has_node_memory) return 0;
    for (uint32_t a = 0; a < m->node_count; a++) used[a] = 0;
    for (uint32_t s = 0; s < count; s++)
        for (uint64_t left = cost_nodes(m, stages[s].type); left; left &= left - 1)
            used[__builtin_ctzll(left)] += cost_held_bytes(m, stages[s].first, stages[s].last, stages[s].type);
    for (uint32_t a = 0; a < m->node_count; a++) {
        if (!(used[a] - m->node_memory[a] > lack)) continue;
        lack = used[a] - m->node_memory[a];
        *node = a;
    }
    return lack;
}

/* Stages whose tables are on other nodes than the first ones, where any are on several. */
static uint32_t tables_misplaced(const struct cost_model *m, const struct cost_stage *stages, uint32_t count)
{
    const struct cost_stage *first = NULL;
    uint32_t other = 0;
    bool is_shared = false;
    for (uint32_t s = 0; s < count; s++) {
        if (!(m->row_bytes[stages[s].last + 1] > m->row_bytes[stages[s].first])) continue;
        if (first == NULL) first = &stages[s];
        other += m->place[stages[s].type] != m->place[first->type];
        is_shared |= cost_is_shared(m, stages[s].type);
    }
    return is_shared ? other : 0;
}

/* Runs of neighbouring stages on the same several nodes, beyond those that a run can have. */
static uint32_t runs_misplaced(const struct cost_model *m, const struct cost_stage *stages, uint32_t count)
{
    uint32_t runs = 0;
    for (uint32_t s = 0; s < count; s++)
        runs +=
            cost_is_shared(m, stages[s].type) && (s == 0 || m->place[stages[s].type] != m->place[stages[s - 1].type]);
    return runs > PLAN_SHARED_MAX ? runs - PLAN_SHARED_MAX : 0;
}

/* Layers on other nodes than their leaders. */
static uint32_t layers_misplaced(const struct cost_model *m, const struct cost_stage *stages, uint32_t count)
{
    uint32_t place_of[INSTANCE_LAYERS_MAX], wrong = 0;
    for (uint32_t s = 0; s < count; s++)
        for (uint32_t l = stages[s].first; l <= stages[s].last; l++) {
            place_of[l] = m->place[stages[s].type];
            wrong += place_of[m->leader[l]] != place_of[l];
        }
    return wrong;
}

uint32_t cost_misplaced(const struct cost_model *m, const struct cost_stage *stages, uint32_t count,
                        enum cost_misplaced *why)
{
    uint32_t wrong[] = {[COST_APART] = 0, [COST_TABLES] = 0, [COST_RUNS] = 0}, sum = 0;
    *why = COST_PLACED;
    if (m->place_count == 1 || count == 1) return 0;
    if (m->has_leaders) wrong[COST_APART] = layers_misplaced(m, stages, count);
    if (m->has_shared) {
        wrong[COST_TABLES] = tables_misplaced(m, stages, count);
        wrong[COST_RUNS] = runs_misplaced(m, stages, count);
    }
    for (uint32_t w = COST_RUNS; w > COST_PLACED; w--) {
        if (wrong[w] > 0) *why = (enum cost_misplaced)w;
        sum += wrong[w];
    }
    return sum;
}
