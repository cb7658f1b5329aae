/* The costs of other choices: layers on other types, other throughputs. L (T - 1) provisions
 * for a plan's layers, once a run. */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "sched/explain.h"
#include "engine/base/words.h"
#include "sched/nodes.h"

#define NAME_WIDTH       24 /* characters of a name within a sentence */
#define NAME_BYTES       (4 * NAME_WIDTH + 16)
#define UNIT_CHANGES_MAX 4 /* types named in a sentence */
#define PER_MILLION      (1e6 / 3600)

/* A text that grows within its buffer. */
struct text {
    char *buffer;
    size_t bytes, used;
};
static void PRINTF_LIKE(2, 3) text_add(struct text *t, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(t->buffer + t->used, t->bytes - t->used, format, arguments);
    va_end(arguments);
    size_t room = t->bytes - t->used - 1;
    t->used += (size_t)length < room ? (size_t)length : room;
}
static struct text text_begin(char *buffer, size_t bytes)
{
    CHECK(bytes > 0);
    buffer[0] = 0;
    return (struct text){buffer, bytes, 0};
}

static const char *type_name(const struct instance *instance, uint32_t type, char buffer[NAME_BYTES])
{
    return words_name(buffer, NAME_BYTES, instance->types[type].resource.name, NAME_WIDTH);
}

char *explain_stage_name(const struct instance *instance, const struct cost_stage *stage, uint32_t width, char *buffer,
                         size_t bytes)
{
    words_name(buffer, bytes, instance->layers[stage->first].name, width);
    size_t used = strlen(buffer);
    if (stage->first == stage->last || used + 3 > bytes) return buffer;
    memcpy(buffer + used, "..", 3);
    words_name(buffer + used + 2, bytes - used - 2, instance->layers[stage->last].name, width);
    return buffer;
}

struct explain_change explain_layer(const struct cost_model *m, const struct solution *chosen, uint32_t layer,
                                    type_index *types, struct cost_stage *stages)
{
    struct explain_change best = {.layer = layer, .type = GRAPH_NONE};
    memcpy(types, chosen->types, m->layer_count * sizeof *types);
    for (uint32_t type = 0; type < m->type_count; type++) {
        if (type == chosen->types[layer]) continue;
        types[layer] = (type_index)type;
        uint32_t count = cost_stages(m, types, stages);
        struct cost_result result = provision_exact(m, stages, count);
        if (best.type != GRAPH_NONE && !(result.score < best.result.score)) continue;
        best.type = type;
        best.result = result;
    }
    if (best.type == GRAPH_NONE) return best;
    types[layer] = (type_index)best.type;
    best.stage_count = cost_stages(m, types, stages);
    best.result = provision_exact(m, stages, best.stage_count);
    for (uint32_t s = 0; s < best.stage_count && best.result.throughput > 0; s++)
        best.rate += m->price[stages[s].type] * stages[s].k;
    best.rate += cost_nodes_price(m, stages, best.stage_count);
    return best;
}

/* --- in words --------------------------------------------------------------------------------- */

#define INFEASIBLE "infeasible: "

size_t explain_prefix(const char *text)
{
    return strncmp(text, INFEASIBLE, strlen(INFEASIBLE)) == 0 ? strlen(INFEASIBLE) : 0;
}

static void infeasible_add(struct text *t, const struct cost_model *m, const struct cost_result *result,
                           const struct cost_stage *stages)
{
    const struct instance *i = m->instance;
    const struct cost_stage *stage = &stages[result->limiting_stage];
    char type[NAME_BYTES], name[2 * NAME_BYTES];
    type_name(i, stage->type, type);
    explain_stage_name(i, stage, NAME_WIDTH, name, sizeof name);
    if (result->is_memory_short) {
        const struct instance_node *node = &i->nodes->node[result->node];
        text_add(t, "the parameters of the layers on node %s do not fit in its %s", node->name,
                 words_bytes(WORDS, node->memory_bytes));
        return;
    }
    if (result->misplaced) {
        text_add(t, "%s", nodes_misplaced_text(result->misplaced));
        return;
    }
    if (!(result->throughput > 0)) {
        text_add(t, "the stages on %s need a unit each, and it has %s", type,
                 words_count(WORDS, m->limit[stage->type]));
        return;
    }
    text_add(t, "at most %s", words_number(WORDS, result->throughput, 4));
    if (isfinite(i->throughput_limit)) text_add(t, " of %s", words_number(WORDS, i->throughput_limit, 4));
    text_add(t, " examples/s, because %s on %s ", name, type);
    if (result->is_limit_reached)
        text_add(t, "would need more than the %s there %s", words_plural(WORDS, m->limit[stage->type], "unit"),
                 m->limit[stage->type] == 1 ? "is" : "are");
    else
        text_add(t, "takes %s an example however many units it has",
                 words_seconds(WORDS, stage->time.compute > stage->time.move ? stage->time.compute : stage->time.move));
}

char *explain_infeasible_text(const struct cost_model *m, const struct solution *solution, char *buffer, size_t bytes)
{
    struct text t = text_begin(buffer, bytes);
    if (solution->stage_count == 0)
        text_add(&t, "%s has proposed no plan", solution->method);
    else if (solution->measured > 0)
        solution_tried_text(solution, buffer, bytes);
    else
        infeasible_add(&t, m, &solution->result, solution->stages);
    return buffer;
}

/* Bytes of an example across all cuts of a plan; and the seconds that single units take to move them. */
static double cuts_bytes(const struct instance *i, const struct cost_stage *stages, uint32_t count)
{
    double bytes = 0;
    for (uint32_t s = 0; s < count; s++) bytes += i->layers[stages[s].last].cut_bytes;
    return bytes;
}
static double cuts_seconds(const struct cost_stage *stages, uint32_t count)
{
    double seconds = 0;
    for (uint32_t s = 0; s < count; s++) seconds += stages[s].time.move + stages[s].time.move_shared;
    return seconds;
}

static void cuts_add(struct text *t, const struct instance *i, const struct solution *chosen,
                     const struct explain_change *change, const struct cost_stage *stages)
{
    int further = (int)change->stage_count - (int)chosen->stage_count;
    double bytes = cuts_bytes(i, stages, change->stage_count) - cuts_bytes(i, chosen->stages, chosen->stage_count);
    double seconds = cuts_seconds(stages, change->stage_count) - cuts_seconds(chosen->stages, chosen->stage_count);
    if (further == 0)
        text_add(t, "as many cuts");
    else
        text_add(t, "%d %s cut%s", abs(further), further > 0 ? "further" : "fewer", words_s(abs(further)));
    if (bytes != 0)
        text_add(t, ", %s %s to move an example", words_bytes(WORDS, fabs(bytes)), bytes > 0 ? "more" : "less");
    else if (seconds != 0)
        text_add(t, ", %s %s to move an example", words_seconds(WORDS, fabs(seconds)), seconds > 0 ? "more" : "less");
}

static uint64_t units_of(const struct cost_stage *stages, uint32_t count, uint32_t type)
{
    uint64_t units = 0;
    for (uint32_t s = 0; s < count; s++) units += stages[s].type == type ? stages[s].k : 0;
    return units;
}

/* Whether the stage is the first of its type in the list. */
static bool is_first_of_type(const struct cost_stage *stages, uint32_t s)
{
    for (uint32_t other = 0; other < s; other++)
        if (stages[other].type == stages[s].type) return false;
    return true;
}

/* Adds "; 5 more gpu1, 2 fewer cpu-core", or that the units are the same. */
static void units_add(struct text *t, const struct instance *i, const struct solution *chosen,
                      const struct cost_stage *stages, uint32_t count)
{
    const struct cost_stage *lists[] = {stages, chosen->stages};
    const uint32_t counts[] = {count, chosen->stage_count};
    uint32_t told = 0;
    for (int l = 0; l < 2; l++)
        for (uint32_t s = 0; s < counts[l]; s++) {
            uint32_t type = lists[l][s].type;
            uint64_t now = units_of(stages, count, type), before = units_of(chosen->stages, chosen->stage_count, type);
            char name[NAME_BYTES];
            if (now == before || !is_first_of_type(lists[l], s) || (l == 1 && now > 0)) continue;
            if (told++ >= UNIT_CHANGES_MAX) continue;
            text_add(t, "%s %s %s %s", told == 1 ? ";" : ",",
                     words_count(WORDS, (double)(now > before ? now - before : before - now)),
                     now > before ? "more" : "fewer", type_name(i, type, name));
        }
    if (told == 0) text_add(t, "; the same units");
    if (told > UNIT_CHANGES_MAX) text_add(t, " and others");
}

char *explain_change_text(const struct cost_model *m, const struct solution *chosen,
                          const struct explain_change *change, const struct cost_stage *stages, char *buffer,
                          size_t bytes)
{
    const struct instance *i = m->instance;
    struct text t = text_begin(buffer, bytes);
    if (change->type == GRAPH_NONE) {
        text_add(&t, "there is no other type");
        return buffer;
    }
    if (!change->result.is_feasible) {
        text_add(&t, INFEASIBLE);
        infeasible_add(&t, m, &change->result, stages);
        return buffer;
    }
    const struct cost_time *times = &m->times[(size_t)change->layer * m->type_count];
    const struct cost_time here = times[chosen->types[change->layer]], there = times[change->type];
    double ratio = (there.compute + there.compute_shared) / (here.compute + here.compute_shared);
    cuts_add(&t, i, chosen, change, stages);
    if (ratio > 0.95 && ratio < 1.05)
        text_add(&t, "; a unit computes it as fast");
    else
        text_add(&t, "; a unit computes it %s times as %s", words_number(WORDS, ratio < 1 ? 1 / ratio : ratio, 2),
                 ratio < 1 ? "fast" : "long");
    units_add(&t, i, chosen, stages, change->stage_count);
    double rate = cost_nodes_price(m, chosen->stages, chosen->stage_count);
    for (uint32_t s = 0; s < chosen->stage_count; s++) rate += m->price[chosen->stages[s].type] * chosen->stages[s].k;
    text_add(&t, "; USD an hour %s, time %s", words_change(WORDS, change->rate / rate),
             words_change(WORDS, chosen->result.throughput / change->result.throughput));
    return buffer;
}

/* USD for computing a layer for a million examples on one unit. */
static double layer_usd(const struct cost_model *m, uint32_t layer, uint32_t type)
{
    const struct cost_time *time = &m->times[(size_t)layer * m->type_count + type];
    return (time->compute + time->compute_shared) * m->price[type] * PER_MILLION;
}

char *explain_layer_text(const struct cost_model *m, const struct solution *chosen, uint32_t layer, type_index *types,
                         struct cost_stage *stages, char *buffer, size_t bytes)
{
    struct text t = text_begin(buffer, bytes);
    uint32_t here = chosen->types[layer], other = GRAPH_NONE;
    double usd = layer_usd(m, layer, here);
    for (uint32_t type = 0; type < m->type_count; type++)
        if (type != here && (other == GRAPH_NONE || layer_usd(m, layer, type) < layer_usd(m, layer, other)))
            other = type;
    if (other == GRAPH_NONE) return buffer;
    double other_usd = layer_usd(m, layer, other);
    char name[NAME_BYTES];
    type_name(m->instance, other, name);
    if (usd <= other_usd) {
        text_add(&t, "cheapest to compute here: %s a million examples, %s %s", words_usd(WORDS, usd), name,
                 words_number(WORDS, other_usd, 4));
        return buffer;
    }
    text_add(&t, "cheaper to compute on %s: %s a million examples, here %s", name, words_usd(WORDS, other_usd),
             words_number(WORDS, usd, 4));
    memcpy(types, chosen->types, m->layer_count * sizeof *types);
    types[layer] = (type_index)other;
    struct cost_result there = provision_exact(m, stages, cost_stages(m, types, stages));
    if (!there.is_feasible)
        text_add(&t, "; but the plan would be infeasible");
    else if (chosen->result.is_feasible && there.cost > chosen->result.cost)
        text_add(&t, "; but the plan would cost %s", words_change(WORDS, there.cost / chosen->result.cost));
    return buffer;
}

/* --- where times come from -------------------------------------------------------------------- */

static const char *const source_sentences[INSTANCE_SOURCE_COUNT] = {
    [INSTANCE_GIVEN] = "as the instance gives them",
    [INSTANCE_MEASURED] = "measured on this machine",
    [INSTANCE_STORED] = "stored: measured elsewhere, not on this machine",
    [INSTANCE_DECLARED] = ("declared: estimated from its rates in the cluster file, nothing was measured, "
                           "shares that divide (alpha) included")};

char *explain_sources_text(const struct instance *i, char *buffer, size_t bytes)
{
    enum { NAMES_MAX = 6 };
    struct text t = text_begin(buffer, bytes);
    for (int source = 0; source < INSTANCE_SOURCE_COUNT; source++) {
        uint32_t count = 0;
        char name[NAME_BYTES];
        for (uint32_t type = 0; type < i->type_count; type++) {
            if (i->types[type].source != (enum instance_source)source) continue;
            if (count++ < NAMES_MAX)
                text_add(&t, "%s%s", count > 1 ? ", " : t.used ? " Times of " : "Times of ", type_name(i, type, name));
        }
        if (count > NAMES_MAX) text_add(&t, " and %s", words_plural(WORDS, count - NAMES_MAX, "further type"));
        if (count > 0) text_add(&t, " are %s.", source_sentences[source]);
    }
    /* A measured alpha has an interval. Only measured and stored types count. */
    uint32_t assumed = 0, measured = 0;
    for (uint32_t type = 0; type < i->type_count; type++) {
        enum instance_source source = i->types[type].source;
        for (uint32_t l = 0; l < i->layer_count && (source == INSTANCE_MEASURED || source == INSTANCE_STORED); l++) {
            const struct instance_time *time = instance_time(i, l, type);
            measured++;
            assumed += time->alpha_low == 0 && time->alpha_high == 0;
        }
    }
    if (assumed > 0)
        text_add(&t,
                 " How far %s of these %s layer times divide among units (alpha) is assumed, not measured: "
                 "the numbers of units may be off.",
                 assumed == measured ? "all" : words_count(WORDS, assumed), words_count(WORDS, measured));
    return buffer;
}

/* --- other throughputs ------------------------------------------------------------------------ */

/* Sets the fewest units of each stage within tau; false if the limits do not allow tau. */
static bool provision_within(const struct cost_model *m, struct cost_stage *stages, uint32_t count, double tau)
{
    for (uint32_t s = 0; s < count; s++) {
        stages[s].k = cost_units_least(&stages[s].time, tau, m->limit[stages[s].type]);
        if (stages[s].k == 0 || units_of(stages, s + 1, stages[s].type) > m->limit[stages[s].type]) return false;
    }
    return true;
}

uint32_t explain_provisions(const struct cost_model *m, const struct solution *solution, double throughput_from,
                            struct cost_stage *stages, struct explain_point *points, uint32_t room)
{
    uint32_t count = solution->stage_count, point_count = 0;
    if (count == 0 || !(throughput_from > 0)) return 0;
    memcpy(stages, solution->stages, count * sizeof *stages);
    double slow = 1 / throughput_from, fast = 0, from = slow;
    if (!provision_within(m, stages, count, slow)) return 0;
    /* The greatest throughput, to a few parts in a billion. */
    for (int step = 0; step < 60; step++) {
        double middle = (slow + fast) / 2;
        if (provision_within(m, stages, count, middle))
            slow = middle;
        else
            fast = middle;
    }
    double ratio = slow / from;
    for (uint32_t p = 0; p < room; p++) {
        double tau = p == 0 ? from : p + 1 < room ? from * pow(ratio, (double)p / (room - 1)) : slow;
        if (!provision_within(m, stages, count, tau)) continue;
        struct cost_result result = cost_of(m, stages, count);
        if (point_count > 0 && !(result.throughput > points[point_count - 1].throughput)) continue;
        points[point_count++] = (struct explain_point){result.throughput, result.cost};
    }
    return point_count;
}
