/* Shared by the files of the page (sched/plan_page.h). */
#ifndef HETERPS_SCHED_PAGE_PARTS_H
#define HETERPS_SCHED_PAGE_PARTS_H

#include <stdio.h>

#include "sched/explain.h"
#include "engine/base/words.h"
#include "sched/plan_page.h"

/* Where a solution is in a drawing: per cent across, pixels down. */
struct page_mark {
    bool is_there;
    double across, down;
};
struct page {
    FILE *out;
    const struct solution *solutions, *chosen; /* chosen is the first */
    uint32_t count;
    const struct instance *instance;
    struct cost_model model;
    bool is_proven;   /* some solution is   */
    double reference; /* the cost that gaps refer to: compare_reference */
    /* scratch */
    struct page_mark *marks; /* [count] */
    type_index *types;
    struct cost_stage *stages;
    struct explain_change *changes; /* [L] of the chosen plan */
    char (*reasons)[1024];          /* [L] their texts        */
};

#define PAGE_NAME_BYTES 1024
/* A name for text and attributes: cut to `width` characters and escaped; the macro's buffer
 * lives until the end of the block. */
char *page_escape(char buffer[PAGE_NAME_BYTES], const char *name, uint32_t width);
#define ESCAPED(name, width) page_escape((char[PAGE_NAME_BYTES]){0}, name, width)
/* The same for a stage's layers, and for a type. */
char *page_stage_name(const struct page *page, const struct cost_stage *stage, uint32_t width,
                      char buffer[PAGE_NAME_BYTES]);
#define STAGE_NAME(page, stage, width) page_stage_name(page, stage, width, (char[PAGE_NAME_BYTES]){0})
#define TYPE_NAME(page, type, width)   ESCAPED((page)->instance->types[type].resource.name, width)

static inline bool page_has_limit(const struct page *page)
{
    double limit = page->instance->throughput_limit;
    return limit > 0 && limit < 1e300;
}

extern const char page_style[]; /* page_style.c */
/* plan_page.c: writes up to <body>; the title is escaped already. */
void page_head(FILE *out, const char *title);
/* page_table.c */
void page_layers(struct page *page);
void page_reasons(struct page *page);
void page_methods(struct page *page);
void page_units(struct page *page);
/* page_plot.c: a drawing with axes; places across are per cent, down pixels. Of a page it uses `out`. */
#define PAGE_PLOT_HEIGHT 270.0
struct page_axis {
    double low, high;
    bool is_log;
};
struct page_range {
    double least, most;
};
void page_range_add(struct page_range *range, double value);
/* An axis over all added values, with some air; logarithmic if they differ
 * by more than a factor of `wide`. */
struct page_axis page_axis_of(const struct page_range *range, double wide);
double page_down(const struct page_axis *y, double value);
double page_across(const struct page_axis *x, double value);
void page_plot_begin(struct page *p, const char *label, const struct page_axis *x, const char *x_name,
                     const struct page_axis *y, const char *y_name);
void page_plot_end(struct page *p);
/* A path: of class "curve" and another; commands M, L. */
void page_curve_begin(struct page *p, const char *class, const char *dashes);
void page_curve_point(struct page *p, char command, const struct page_axis *x, const struct page_axis *y,
                      double value_x, double value_y);
void page_curve_end(struct page *p);

MUST_USE status page_pipeline(struct page *page);
MUST_USE status page_throughput(struct page *page);
void page_learning(struct page *page);

#endif
