/* Compares one figure of each evaluation with the best before. */
#include "engine/eval/early_stop.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/log.h"

static const struct figure_kind *figure_of(const struct early_stop *stop) { return &stop->head->figures[stop->figure]; }

static void name_print(const struct early_stop *stop, char *buffer, size_t bytes)
{
    snprintf(buffer, bytes, "%.63s.%s", stop->head->name, figure_of(stop)->key);
}

status early_stop_open(struct early_stop *stop, const struct heads *heads, const char *what, uint32_t patience,
                       struct best *best)
{
    char names[512];
    uint32_t head, figure;
    *stop = (struct early_stop){.patience = patience, .best = best};
    if (strcmp(what, "none") == 0) return ST_OK;
    if (!heads_figure_find(heads, what, &head, &figure))
        FAIL(INVALID, "train.stop: expected none, or what this model's evaluation gives: %s; found \"%s\"",
             heads_figure_names(heads, names, sizeof names), what);
    stop->head = &heads->items[head];
    stop->figure = figure;
    return ST_OK;
}

status early_stop_take(struct early_stop *stop, uint64_t step, bool *is_better)
{
    struct best *best = stop->best;
    double value = stop->head->values[stop->figure];
    char name[sizeof best->figure];
    name_print(stop, name, sizeof name);
    if (!isfinite(value))
        FAIL(INVALID,
             "train.stop = %s: the evaluation of step %" PRIu64 " has no such figure (it is %g); is one class absent?",
             name, step, value);
    if (best->figure[0] != 0 && strcmp(best->figure, name) != 0)
        log_warning("the save kept the best model by %s, and train.stop is %s: the search for the best begins anew",
                    best->figure, name);
    bool is_first = strcmp(best->figure, name) != 0;
    *is_better = is_first || (figure_of(stop)->better > 0 ? value > best->value : value < best->value);
    /* The model of an evaluation that was counted is evaluated again, by a run that finds nothing left to
     * train. */
    if (!*is_better && best->evaluated_step == step) return ST_OK;
    best->evaluated_step = step;
    best->evaluations_since++;
    if (!*is_better) return ST_OK;
    snprintf(best->figure, sizeof best->figure, "%s", name);
    best->value = value;
    best->step = step;
    best->evaluations_since = 0;
    return ST_OK;
}

bool early_stop_is_over(const struct early_stop *stop)
{
    char name[sizeof stop->best->figure];
    if (stop->head == NULL) return false;
    name_print(stop, name, sizeof name);
    return strcmp(stop->best->figure, name) == 0 && stop->best->evaluations_since >= stop->patience;
}

char *early_stop_text(const struct early_stop *stop, char *buffer, size_t bytes)
{
    snprintf(buffer, bytes, "%s %.*f", figure_of(stop)->text, figure_of(stop)->digits, stop->best->value);
    return buffer;
}
