/* Columns of types and numbers of units: made once a search, decoded for every plan that is drawn. */
#include "sched/joint.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/memory.h"

/* The numbers of units to choose from, rising, at most `room`; returns how many. */
static uint32_t levels_of(uint32_t limit, uint32_t room, uint32_t levels[JOINT_LEVELS_MAX])
{
    uint32_t count = 0;
    for (double k = 1; count < room && k <= limit;) {
        levels[count++] = (uint32_t)k;
        /* The factor that leads to the limit with the numbers that are left, where steps of one do not. */
        const uint32_t left = room - count;
        const double next = left > 0 ? k * pow(limit / k, 1.0 / left) : limit + 1.0;
        k = next > k + 1 ? floor(next + 0.5) : k + 1;
    }
    return count;
}

static void joint_layout(struct joint *j, struct layout *l)
{
    const size_t L = j->model.layer_count, C = j->column_count;
    LAYOUT_TAKE(l, j->model.times, L * C);
    LAYOUT_TAKE(l, j->model.price, C);
    LAYOUT_TAKE(l, j->model.limit, C);
    LAYOUT_TAKE(l, j->model.node, C);
    LAYOUT_TAKE(l, j->unit_count, C);
    LAYOUT_TAKE(l, j->units, L);
    LAYOUT_TAKE(l, j->type, C);
    LAYOUT_TAKE(l, j->types, L);
    LAYOUT_TAKE(l, j->model.is_card, C);
}

static void column_set(struct joint *j, const struct cost_model *m, uint32_t column, uint32_t type, uint32_t k)
{
    j->type[column] = (type_index)type;
    j->unit_count[column] = k;
    j->model.price[column] = m->price[type] * k;
    j->model.limit[column] = m->limit[type] / k;
    j->model.node[column] = m->node[type];
    j->model.is_card[column] = m->is_card[type];
    for (uint32_t l = 0; l < m->layer_count; l++) {
        const struct cost_time *of = &m->times[(size_t)l * m->type_count + type];
        j->model.times[(size_t)l * j->column_count + column] =
            (struct cost_time){of->compute + of->compute_shared / k, 0, of->move + of->move_shared / k, 0};
    }
}

status joint_open(struct joint *j, const struct cost_model *m)
{
    uint32_t levels[JOINT_LEVELS_MAX], room = JOINT_COLUMNS_MAX / m->type_count;
    *j = (struct joint){.model = *m};
    if (room > JOINT_LEVELS_MAX) room = JOINT_LEVELS_MAX;
    if (room < 1) room = 1;
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
        for (uint32_t n = 0; n < count; n++) column_set(j, m, column++, t, levels[n]);
    }
    return ST_OK;
}

void joint_close(struct joint *j)
{
    free(j->memory);
    *j = (struct joint){0};
}

void joint_decode(struct joint *j, type_index *columns)
{
    for (uint32_t l = 0; l < j->model.layer_count; l++) {
        if (l > 0 && j->type[columns[l]] == j->types[l - 1]) columns[l] = columns[l - 1];
        j->types[l] = j->type[columns[l]];
        j->units[l] = j->unit_count[columns[l]];
    }
}
