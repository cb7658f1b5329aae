/* samples/ctrdnn1.cfg:
 *
 *   x  = [ rows of C1 … C26, an empty field 0 | I1 … I13 ]
 *   h1 = max(x W1 + b1, 0)      h2 = max(h1 W2 + b2, 0)      y = h2 W3 + b3      loss = ln(1 + e^y) - label y */
#include "reference.h"

#include <stddef.h>

enum { FIELDS = 26, NUMBERS = 13, LAYERS = 3 };
static struct table *emb;
static struct layer layers[LAYERS];

static void find(void)
{
    emb = table_of("emb");
    layers[0] = layer_of("h1", RELU);
    layers[1] = layer_of("h2", RELU);
    layers[2] = layer_of("y", NONE);
}

static double learn(const struct example *example)
{
    long dim = emb->vectors.cols;
    double *y[LAYERS + 1] = {scratch(FIELDS * dim + NUMBERS)}, *dx = scratch(FIELDS * dim + NUMBERS), dy;
    for (int f = 0; f < FIELDS; f++) field_sum(emb, example, f, y[0] + f * dim);
    for (int n = 0; n < NUMBERS; n++) y[0][FIELDS * dim + n] = example->number[n];
    layers_forward(layers, LAYERS, y);
    double loss = logistic_loss(y[LAYERS][0], example->label, &dy);
    layers_backward(layers, LAYERS, y, &dy, dx);
    for (int f = 0; f < FIELDS; f++) field_learn(emb, example, f, dx + f * dim);
    return loss;
}

const struct model ctrdnn1 = {.name = "ctrdnn1",
                              .separator = '\t',
                              .has_label = 1,
                              .number_count = NUMBERS,
                              .field_count = FIELDS,
                              .open = find,
                              .learn = learn};
