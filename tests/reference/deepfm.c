/* samples/deepfm.cfg, after Guo et al., IJCAI 2017, eq. (1) to (4):
 *
 *   w_s, e_s   rows of C_s in two tables, of 1 number and of D; an empty field 0
 *   pairs = sum over fields s < t of e_s . e_t
 *   h = max(max([ e_1 … e_26 | I1 … I13 ] W1 + b1, 0) W2 + b2, 0)
 *   y = [ h | pairs | w_1 … w_26 ] W3 + b3          loss = ln(1 + e^y) - label y
 *
 * where the paper adds h w + b, pairs and the w_s: it is the case in which W3 has ones for the last 27. */
#include "reference.h"

#include <stddef.h>

enum { FIELDS = 26, NUMBERS = 13 };
static struct table *first, *emb;
static struct layer hidden[2], last;

static void find(void)
{
    first = table_of("first");
    emb = table_of("emb");
    hidden[0] = layer_of("h1", RELU);
    hidden[1] = layer_of("h2", RELU);
    last = layer_of("y", NONE);
}

static double learn(const struct example *example)
{
    long dim = emb->vectors.cols, width = hidden[1].outputs;
    double *h[3] = {scratch(FIELDS * dim + NUMBERS)}, *e = h[0], *dx = scratch(FIELDS * dim + NUMBERS), dy;
    for (int f = 0; f < FIELDS; f++) field_sum(emb, example, f, e + f * dim);
    for (int n = 0; n < NUMBERS; n++) e[FIELDS * dim + n] = example->number[n];
    layers_forward(hidden, 2, h);
    double *all = scratch(last.inputs), *dall = scratch(last.inputs), *pairs = all + width;
    for (long i = 0; i < width; i++) all[i] = h[2][i];
    for (int s = 0; s < FIELDS; s++)
        for (int t = s + 1; t < FIELDS; t++)
            for (long d = 0; d < dim; d++) *pairs += e[s * dim + d] * e[t * dim + d];
    for (int f = 0; f < FIELDS; f++) field_sum(first, example, f, all + width + 1 + f);
    double *y = layer_forward(&last, all);
    double loss = logistic_loss(*y, example->label, &dy);
    layer_backward(&last, all, y, &dy, dall);
    layers_backward(hidden, 2, h, dall, dx);
    double dpairs = dall[width];
    for (int s = 0; s < FIELDS; s++)
        for (int t = 0; t < FIELDS; t++)
            for (long d = 0; d < dim && s != t; d++) dx[s * dim + d] += dpairs * e[t * dim + d];
    for (int f = 0; f < FIELDS; f++) {
        field_learn(emb, example, f, dx + f * dim);
        field_learn(first, example, f, dall + width + 1 + f);
    }
    return loss;
}

const struct model deepfm = {.name = "deepfm",
                             .separator = '\t',
                             .has_label = 1,
                             .number_count = NUMBERS,
                             .field_count = FIELDS,
                             .open = find,
                             .learn = learn};
