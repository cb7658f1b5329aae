/* Columns of types and numbers of units: made once a search, decoded for every drawn plan. */
#include "sched/joint.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/fmath.h"
#include "engine/base/memory.h"

/* Numbers of units to choose from, rising from 1 to the limit, at most `room`; returns how many. */
static uint32_t levels_of(uint32_t limit, uint32_t room, uint32_t levels[JOINT_LEVELS_MAX])
{
    uint32_t count = 0;
    for (double units = 1; count < room && units <= limit;) {
        levels[count++] = (uint32_t)units;
        /* The factor that reaches the limit with the numbers that are left, if steps of one do not. */
        const uint32_t left = room - count;
        const double next = left > 0 ? units * fmath_exp(fmath_log(limit / units) / left) : limit + 1.0;
        units = next > units + 1 ? floor(next + 0.5) : units + 1;
    }
    return count;
}

static bool is_in(const uint32_t *levels, uint32_t count, uint32_t k)
{
    for (uint32_t n = 0; n < count; n++)
        if (levels[n] == k) return true;
    return false;
}

/* As many numbers as levels_of gives, half of them next to a plan's numbers of the
 * type: 1 less, 1 more, 2 less … */
static uint32_t levels_near(const struct joint *j, uint32_t type, uint32_t limit, uint32_t room,
                            const type_index *types, const uint32_t *units, uint32_t levels[JOINT_LEVELS_MAX])
{
    uint32_t coarse[JOINT_LEVELS_MAX], count = 0;
    const uint32_t all = levels_of(limit, room, levels), L = j->model.layer_count;
    if (all == limit) return all; /* every number has a column */
    for (int64_t step = 0; step < room && count < all / 2; step++)
        for (uint32_t l = 0; l < L && count < all / 2; l++)
            for (int64_t k = (int64_t)units[l] - step; k <= (int64_t)units[l] + step; k += step ? 2 * step : 1)
                if (types[l] == type && k >= 1 && k <= limit && count < all / 2 && !is_in(levels, count, (uint32_t)k))
                    levels[count++] = (uint32_t)k;
    const uint32_t rest = levels_of(limit, all - count, coarse);
    for (uint32_t n = 0; n < rest; n++)
        if (!is_in(levels, count, coarse[n])) levels[count++] = coarse[n];
    for (uint32_t k = 1; count < all; k++)
        if (!is_in(levels, count, k)) levels[count++] = k;
    return count;
}

static void joint_layout(struct joint *j, struct layout *layout)
{
    const size_t L = j->model.layer_count, C = j->column_count;
    LAYOUT_TAKE(layout, j->model.times, L * C);
    LAYOUT_TAKE(layout, j->model.price, C);
    LAYOUT_TAKE(layout, j->model.limit, C);
    LAYOUT_TAKE(layout, j->model.place, C);
    LAYOUT_TAKE(layout, j->unit_count, C);
    LAYOUT_TAKE(layout, j->first, j->of->type_count + 1);
    LAYOUT_TAKE(layout, j->units, L);
    LAYOUT_TAKE(layout, j->type, C);
    LAYOUT_TAKE(layout, j->types, L);
    LAYOUT_TAKE(layout, j->model.is_card, C);
    LAYOUT_TAKE(layout, j->model.adds_moves, C);
}

static void column_set(struct joint *j, const struct cost_model *m, uint32_t column, uint32_t type, uint32_t k)
{
    j->type[column] = (type_index)type;
    j->unit_count[column] = k;
    j->model.price[column] = m->price[type] * k;
    j->model.limit[column] = m->limit[type] / k;
    j->model.place[column] = m->place[type];
    j->model.is_card[column] = m->is_card[type];
    j->model.adds_moves[column] = m->adds_moves[type];
    for (uint32_t l = 0; l < m->layer_count; l++) {
        const struct cost_time *of = &m->times[(size_t)l * m->type_count + type];
        j->model.times[(size_t)l * j->column_count + column] =
            (struct cost_time){of->compute + of->compute_shared / k, 0, of->move + of->move_shared / k, 0};
    }
}

static uint32_t room_of(const struct cost_model *m)
{
    const uint32_t room = JOINT_COLUMNS_MAX / m->type_count;
    return room < 1 ? 1 : room > JOINT_LEVELS_MAX ? JOINT_LEVELS_MAX : room;
}

void joint_near(struct joint *j, const type_index *types, const uint32_t *units)
{
    const struct cost_model *m = j->of;
    uint32_t levels[JOINT_LEVELS_MAX], column = 0;
    for (uint32_t t = 0; t < m->type_count; t++) {
        const uint32_t count = levels_near(j, t, m->limit[t], room_of(m), types, units, levels);
        for (uint32_t n = 0; n < count; n++) column_set(j, m, column++, t, levels[n]);
    }
}

status joint_open(struct joint *j, const struct cost_model *m)
{
    const uint32_t room = room_of(m);
    uint32_t levels[JOINT_LEVELS_MAX];
    *j = (struct joint){.of = m, .model = *m};
    for (uint32_t t = 0; t < m->type_count; t++) j->column_count += levels_of(m->limit[t], room, levels);
    j->model.type_count = j->column_count;
    struct layout sum = {.align = 8};
    joint_layout(j, &sum);
    j->memory = j->model.memory = malloc(sum.bytes + 1);
    if (j->memory == NULL) FAIL(MEMORY, "no memory for %u types with numbers of units", j->column_count);
    joint_layout(j, &(struct layout){.base = j->memory, .align = 8});
    uint32_t column = 0;
    for (uint32_t t = 0; t < m->type_count; t++) {
        const uint32_t count = levels_of(m->limit[t], room, levels);
        j->first[t] = column;
        for (uint32_t n = 0; n < count; n++) column_set(j, m, column++, t, levels[n]);
    }
    j->first[m->type_count] = column;
    return ST_OK;
}

void joint_close(struct joint *j)
{
    free(j->memory);
    *j = (struct joint){0};
}

/* The column of a type whose units are nearest to the given ones, by their ratio. */
static uint32_t column_near(const struct joint *j, uint32_t type, double units)
{
    uint32_t near = j->first[type];
    double least = INFINITY;
    for (uint32_t c = near; c < j->first[type + 1]; c++) {
        const double off = fmax(units / j->unit_count[c], j->unit_count[c] / units);
        if (off < least) near = c;
        least = fmin(least, off);
    }
    return near;
}

void joint_encode(const struct joint *j, const type_index *types, const uint32_t *units, type_index *columns)
{
    for (uint32_t l = 0; l < j->model.layer_count; l++) columns[l] = (type_index)column_near(j, types[l], units[l]);
}

void joint_scale(const struct joint *j, type_index *columns, double factor)
{
    for (uint32_t l = 0; l < j->model.layer_count; l++)
        columns[l] = (type_index)column_near(j, j->type[columns[l]], j->unit_count[columns[l]] * factor);
}

void joint_decode(struct joint *j, type_index *columns)
{
    for (uint32_t l = 0; l < j->model.layer_count; l++) {
        if (l > 0 && j->type[columns[l]] == j->types[l - 1]) columns[l] = columns[l - 1];
        j->types[l] = j->type[columns[l]];
        j->units[l] = j->unit_count[columns[l]];
    }
}
