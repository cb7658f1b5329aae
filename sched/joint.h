/* Types and numbers of units as one choice, for a policy that draws both (HeterPS, section 7: "combine the
 * scheduling process and the provisioning process"). A column is a type with a number of units. A type has
 * columns for all small numbers, and then for numbers that grow by a constant factor up to its limit. A plan
 * of columns gives one to each layer. Layers that follow one another on one type are a stage; the column of
 * its first layer says its units. */
#ifndef HETERPS_SCHED_JOINT_H
#define HETERPS_SCHED_JOINT_H

#include "sched/cost.h"

#define JOINT_COLUMNS_MAX 1024u /* of all types, where there are fewer types than that */
#define JOINT_LEVELS_MAX  40u   /* numbers of units of a type                          */

struct joint {
    const struct cost_model *of;
    uint32_t column_count;
    type_index *type;        /* [columns]                                                    */
    uint32_t *unit_count;    /* [columns]                                                    */
    uint32_t *first;         /* [types + 1]: columns of a type                               */
    struct cost_model model; /* columns as types, as a policy sees them (net_view_open)      */
    type_index *types;       /* [L]: of the last decoded plan                                */
    uint32_t *units;         /* [L]: likewise                                                */
    void *memory;
};
/* Borrows the model and its instance until joint_close. MEMORY. */
MUST_USE status joint_open(struct joint *joint, const struct cost_model *model);
void joint_close(struct joint *joint);
/* Where a type has more numbers of units than columns, moves half of its columns next
 * to the numbers of a plan. */
void joint_near(struct joint *joint, const type_index *types, const uint32_t *units);
/* The columns[L] nearest to a plan's units; exactly its units if joint_near got the plan and had room. */
void joint_encode(const struct joint *joint, const type_index *types, const uint32_t *units, type_index *columns);
/* Multiplies the units of all columns[L] by a factor, to the nearest columns of their types. */
void joint_scale(const struct joint *joint, type_index *columns, double factor);
/* Sets types and units; and sets columns[L] of each stage's layers to the column of its first one, so that
 * the policy learns from the plan as it was scored. */
void joint_decode(struct joint *joint, type_index *columns);

#endif
