/* samples/din.cfg, after Zhou et al., KDD 2018, eq. (3): the weights of a history's places are what a network
 * says of each, not normalised.
 *
 *   u, i, c   rows of user, item, category   target = [ i | c ]   h_t = [ item | category ] of item t of the history
 *   a_t = sigmoid([ h_t | target | h_t - target | h_t * target ] A1 + b1) A2 + b2
 *   interest = sum over t of a_t h_t              t over the items of the history; an item without category has zeros
 *   y = three layers from [ u | target | interest ], max(…, 0) after all but the last     loss = ln(1 + e^y) - label y
 */
#include "reference.h"

#include <stddef.h>

enum { USER, ITEM, CATEGORY, ITEMS, CATEGORIES, FIELDS };
enum { ATTENTION = 2, TOP = 3, PLACES = 20 };
static struct table *users, *items, *categories;
static struct layer attention[ATTENTION], top[TOP];

static void find(void)
{
    users = table_of("user");
    items = table_of("item");
    categories = table_of("category");
    attention[0] = layer_of("a1", SIGMOID);
    attention[1] = layer_of("a2", NONE);
    top[0] = layer_of("h1", RELU);
    top[1] = layer_of("h2", RELU);
    top[2] = layer_of("y", NONE);
}

static double learn(const struct example *example)
{
    long user_dim = users->vectors.cols, item_dim = items->vectors.cols, dim = item_dim + categories->vectors.cols,
         count = example->field[ITEMS].count, named = example->field[CATEGORIES].count;
    if (count > PLACES || named > PLACES) give_up("a history longer than ids_max", "din");
    double *t[TOP + 1] = {scratch(top[0].inputs)}, *dx = scratch(top[0].inputs), dy;
    double *target = t[0] + user_dim, *interest = target + dim, *dtarget = dx + user_dim, *dinterest = dtarget + dim;
    double *h[PLACES], *a[PLACES][ATTENTION + 1], *none = scratch(dim); /* without category */
    field_sum(users, example, USER, t[0]);
    field_sum(items, example, ITEM, target);
    field_sum(categories, example, CATEGORY, target + item_dim);
    for (long p = 0; p < count; p++) {
        const double *item = row_of(items, example->field[ITEMS].key[p]),
                     *category = p < named ? row_of(categories, example->field[CATEGORIES].key[p]) : none;
        h[p] = scratch(dim);
        a[p][0] = scratch(4 * dim);
        for (long d = 0; d < dim; d++) {
            h[p][d] = d < item_dim ? item[d] : category[d - item_dim];
            a[p][0][d] = h[p][d];
            a[p][0][dim + d] = target[d];
            a[p][0][2 * dim + d] = h[p][d] - target[d];
            a[p][0][3 * dim + d] = h[p][d] * target[d];
        }
        layers_forward(attention, ATTENTION, a[p]);
        for (long d = 0; d < dim; d++) interest[d] += *a[p][ATTENTION] * h[p][d];
    }
    layers_forward(top, TOP, t);
    double loss = logistic_loss(t[TOP][0], example->label, &dy);
    layers_backward(top, TOP, t, &dy, dx);
    for (long p = 0; p < count; p++) {
        double *dh = scratch(dim), *dpair = scratch(4 * dim), da = 0;
        for (long d = 0; d < dim; d++) {
            da += dinterest[d] * h[p][d];
            dh[d] += dinterest[d] * *a[p][ATTENTION];
        }
        layers_backward(attention, ATTENTION, a[p], &da, dpair);
        for (long d = 0; d < dim; d++) {
            dh[d] += dpair[d] + dpair[2 * dim + d] + dpair[3 * dim + d] * target[d];
            dtarget[d] += dpair[dim + d] - dpair[2 * dim + d] + dpair[3 * dim + d] * h[p][d];
        }
        double *ditem = row_gradient(items, example->field[ITEMS].key[p]),
               *dcategory = p < named ? row_gradient(categories, example->field[CATEGORIES].key[p]) : scratch(dim);
        for (long d = 0; d < dim; d++) *(d < item_dim ? &ditem[d] : &dcategory[d - item_dim]) += dh[d];
    }
    for (long p = count; p < named; p++) (void)row_gradient(categories, example->field[CATEGORIES].key[p]); /* 0 */
    field_learn(users, example, USER, dx);
    field_learn(items, example, ITEM, dtarget);
    field_learn(categories, example, CATEGORY, dtarget + item_dim);
    return loss;
}

static const char *const key_space[FIELDS] = {"user", "item", "category", "item", "category"};
const struct model din = {.name = "din",
                          .separator = ',',
                          .list_separator = '|',
                          .header_lines = 1,
                          .has_label = 1,
                          .field_count = FIELDS,
                          .key_space = key_space,
                          .open = find,
                          .learn = learn};
