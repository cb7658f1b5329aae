/* samples/dcnv2.cfg, after Wang et al., WWW 2021, eq. (1) with the matrix of eq. (2)
 * as a product of two of low rank:
 *
 *   b  = max(… max(I W + b, 0) …, 0)                      three layers from the numbers
 *   x0 = [ b | sums of the rows of C1's keys … C26's ]
 *   x1 = x0 * ((x0 V1) U1 + b1) + x0      x2 = x0 * ((x1 V2) U2 + b2) + x1      x3 alike       *: element by element
 *   y  = five layers from x3, max(…, 0) behind all but the last         loss = ln(1 + e^y) - label y */
#include "reference.h"

#include <stddef.h>

enum { FIELDS = 26, NUMBERS = 13, BOTTOM = 3, CROSSES = 3, TOP = 5 };
static struct table *emb;
static struct layer bottom[BOTTOM], down[CROSSES], up[CROSSES], top[TOP];

static void find(void)
{
    static const char *const bottoms[] = {"b1", "b2", "b3"}, *const downs[] = {"v1", "v2", "v3"},
                             *const ups[] = {"u1", "u2", "u3"}, *const tops[] = {"t1", "t2", "t3", "t4", "y"};
    emb = table_of("emb");
    for (int i = 0; i < BOTTOM; i++) bottom[i] = layer_of(bottoms[i], RELU);
    for (int i = 0; i < CROSSES; i++) down[i] = layer_of(downs[i], NONE), up[i] = layer_of(ups[i], NONE);
    for (int i = 0; i < TOP; i++) top[i] = layer_of(tops[i], i < TOP - 1 ? RELU : NONE);
}

static double learn(const struct example *example)
{
    long dim = emb->vectors.cols, width = bottom[BOTTOM - 1].outputs, cols = width + FIELDS * dim;
    double *b[BOTTOM + 1] = {example->number}, *x[CROSSES + 1], *v[CROSSES], *u[CROSSES], *t[TOP + 1], dy;
    layers_forward(bottom, BOTTOM, b);
    x[0] = scratch(cols);
    for (long i = 0; i < width; i++) x[0][i] = b[BOTTOM][i];
    for (int f = 0; f < FIELDS; f++) field_sum(emb, example, f, x[0] + width + f * dim);
    for (int c = 0; c < CROSSES; c++) {
        v[c] = layer_forward(&down[c], x[c]);
        u[c] = layer_forward(&up[c], v[c]);
        x[c + 1] = scratch(cols);
        for (long i = 0; i < cols; i++) x[c + 1][i] = x[0][i] * u[c][i] + x[c][i];
    }
    t[0] = x[CROSSES];
    layers_forward(top, TOP, t);
    double loss = logistic_loss(t[TOP][0], example->label, &dy);
    double *dx = scratch(cols), *dx0 = scratch(cols);
    layers_backward(top, TOP, t, &dy, dx);
    for (int c = CROSSES; c-- > 0;) {
        double *du = scratch(cols), *dv = scratch(down[c].outputs);
        for (long i = 0; i < cols; i++) {
            du[i] = dx[i] * x[0][i];
            dx0[i] += dx[i] * u[c][i];
        } /* and dx goes on to x[c] */
        layer_backward(&up[c], v[c], u[c], du, dv);
        layer_backward(&down[c], x[c], v[c], dv, dx);
    }
    for (long i = 0; i < cols; i++) dx0[i] += dx[i];
    layers_backward(bottom, BOTTOM, b, dx0, NULL);
    for (int f = 0; f < FIELDS; f++) field_learn(emb, example, f, dx0 + width + f * dim);
    return loss;
}

static const char *const key_space[FIELDS] = {"C1",  "C2",  "C3",  "C4",  "C5",  "C6",  "C7",  "C8",  "C9",
                                              "C10", "C11", "C12", "C13", "C14", "C15", "C16", "C17", "C18",
                                              "C19", "C20", "C21", "C22", "C23", "C24", "C25", "C26"};
const struct model dcnv2 = {.name = "dcnv2",
                            .separator = '\t',
                            .list_separator = '|',
                            .has_label = 1,
                            .number_count = NUMBERS,
                            .field_count = FIELDS,
                            .key_space = key_space,
                            .open = find,
                            .learn = learn};
