/* Gates, choices and rows of experts. */
#include "graph/experts_frame.h"

#include <math.h>

#include "engine/base/fmath.h"
#include "graph/op_rules.h"

void experts_frame_layout(struct experts_frame *f, struct layout *l, const struct experts_attr *attr, uint32_t examples,
                          uint32_t K, uint32_t E)
{
    const size_t B = examples, rows = B * attr->top;
    LAYOUT_TAKE(l, f->expert, rows);
    LAYOUT_TAKE(l, f->row, rows);
    LAYOUT_TAKE(l, f->gate, rows);
    LAYOUT_TAKE(l, f->dgate, rows);
    LAYOUT_TAKE(l, f->p, B * E);
    LAYOUT_TAKE(l, f->load, E);
    LAYOUT_TAKE(l, f->begin, E + 1);
    LAYOUT_TAKE(l, f->from, rows);
    LAYOUT_TAKE(l, f->in, rows * K);
    LAYOUT_TAKE(l, f->hidden, rows * attr->hidden);
    LAYOUT_TAKE(l, f->out, rows * attr->units);
    LAYOUT_TAKE(l, f->dhidden, rows * attr->hidden);
    LAYOUT_TAKE(l, f->dout, rows * attr->units);
}

static void layers_set(struct experts_run *r)
{
    const struct experts_frame *f = &r->frame;
    const struct experts_attr *a = &r->attr;
    struct experts_layer *layer = r->layer;
    const enum activation activation = (enum activation)a->activation;
    if (a->hidden) *layer++ = (struct experts_layer){0, r->K, a->hidden, activation, f->in, f->hidden, f->dhidden};
    *layer++ = a->hidden ? (struct experts_layer){2, a->hidden, a->units, ACT_NONE, f->hidden, f->out, f->dout}
                         : (struct experts_layer){0, r->K, a->units, activation, f->in, f->out, f->dout};
    r->layer_count = (uint32_t)(layer - r->layer);
}

void experts_begin(struct experts_run *r, const struct op_context *c, const struct graph_node *n)
{
    const struct view x = op_in(c, n, EXPERTS_X), logits = op_in(c, n, EXPERTS_GATE), saved = op_saved(c, n, 0);
    *r = (struct experts_run){.c = c, .n = n, .B = x.rows, .E = logits.cols, .K = x.cols};
    memcpy(&r->attr, n->attr, sizeof r->attr);
    struct layout l = {.base = (uint8_t *)saved.data};
    experts_frame_layout(&r->frame, &l, &r->attr, r->B, r->K, r->E);
    CHECK(r->B == 0 || l.bytes <= ((size_t)saved.stride * (saved.rows - 1) + saved.cols) * sizeof(float));
    layers_set(r);
}

/* --- gates ------------------------------------------------------------------------------------ */

/* The expert that follows `before` by falling logit, of equals by number; `before` NONE: the first. Logits
 * that are NaN have no order: `otherwise`. */
static uint32_t expert_next(const float *logit, uint32_t E, uint32_t before, uint32_t otherwise)
{
    uint32_t best = GRAPH_NONE;
    for (uint32_t e = 0; e < E; e++) {
        if (before != GRAPH_NONE && !(logit[e] < logit[before] || (logit[e] == logit[before] && e > before))) continue;
        if (best == GRAPH_NONE ? logit[e] == logit[e] : logit[e] > logit[best]) best = e;
    }
    return best == GRAPH_NONE ? otherwise : best;
}

void experts_choose(const struct experts_run *r, uint32_t b)
{
    const uint32_t top = r->attr.top;
    const float *logit = view_row(op_in(r->c, r->n, EXPERTS_GATE), b);
    uint32_t *expert = r->frame.expert + (size_t)b * top;
    float *gate = r->frame.gate + (size_t)b * top, *p = r->frame.p + (size_t)b * r->E;
    double power[EXPERTS_MAX], sum = 0, chosen = 0;
    for (uint32_t j = 0, before = GRAPH_NONE; j < top; j++) before = expert[j] = expert_next(logit, r->E, before, j);
    for (uint32_t e = 0; e < r->E; e++) sum += power[e] = fmath_exp((double)logit[e] - (double)logit[expert[0]]);
    for (uint32_t e = 0; e < r->E; e++) p[e] = (float)(power[e] / sum);
    for (uint32_t j = 0; j < top; j++) chosen += power[expert[j]];
    if (top == 1 || isnan(sum)) chosen = sum; /* a NaN among the logits shows, whichever experts were chosen */
    for (uint32_t j = 0; j < top; j++) gate[j] = (float)(power[expert[j]] / chosen);
}

uint32_t experts_capacity(const struct experts_run *r)
{
    if (!r->c->training || r->attr.capacity == 0) return UINT32_MAX;
    /* The float nearest to 1.2 is above 1.2, and ceil of 5 times it is 7: a float's error is taken off. */
    const double share = (double)r->attr.capacity * r->attr.top * r->B / r->E, most = ceil(share * (1 - 0x1p-23));
    return most < 1 ? 1 : most < UINT32_MAX ? (uint32_t)most : UINT32_MAX;
}

void experts_queue(const struct experts_run *r)
{
    const struct experts_frame *f = &r->frame;
    const uint32_t top = r->attr.top, capacity = experts_capacity(r);
    memset(f->begin, 0, (r->E + 1) * sizeof *f->begin);
    memset(f->load, 0, r->E * sizeof *f->load);
    for (uint32_t j = 0; j < top; j++)
        for (uint32_t b = 0; b < r->B; b++) {
            const uint32_t choice = b * top + j, e = f->expert[choice];
            f->load[e]++;
            f->row[choice] = f->begin[e + 1] < capacity ? f->begin[e + 1]++ : GRAPH_NONE;
        }
    for (uint32_t e = 0; e < r->E; e++) {
        f->begin[e + 1] += f->begin[e];
        f->load[e] /= (float)(r->B * top);
    }
    for (uint32_t choice = 0; choice < r->B * top; choice++) {
        if (f->row[choice] == GRAPH_NONE) continue;
        f->row[choice] += f->begin[f->expert[choice]];
        f->from[f->row[choice]] = choice;
    }
}

void experts_logits_backward(const struct experts_run *r, uint32_t b)
{
    const struct view dlogits = op_din(r->c, r->n, EXPERTS_GATE);
    if (dlogits.data == NULL) return;
    const uint32_t top = r->attr.top, *expert = r->frame.expert + (size_t)b * top;
    const float *gate = r->frame.gate + (size_t)b * top, *dgate = r->frame.dgate + (size_t)b * top,
                *p = r->frame.p + (size_t)b * r->E;
    float *d = view_row(dlogits, b);
    const double balance = (double)r->attr.balance * r->E * (double)batch_weight(r->c->batch, b);
    double through = 0, load = 0;
    for (uint32_t j = 0; j < top; j++) through += (double)gate[j] * (double)dgate[j];
    for (uint32_t e = 0; e < r->E && balance != 0; e++) load += (double)r->frame.load[e] * (double)p[e];
    if (!op_din_adds(r->c, r->n, EXPERTS_GATE)) memset(d, 0, r->E * sizeof *d);
    for (uint32_t e = 0; e < r->E; e++) {
        double slope = top == 1 ? -(double)p[e] * through : 0;
        if (balance != 0) slope += balance * (double)p[e] * ((double)r->frame.load[e] - load);
        d[e] += (float)slope;
    }
    for (uint32_t j = 0; j < top; j++) {
        const double of_gate = (double)gate[j] * (double)dgate[j];
        d[expert[j]] += (float)(top == 1 ? of_gate : of_gate - (double)gate[j] * through);
    }
}
