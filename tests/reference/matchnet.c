/* samples/matchnet.cfg: a tower for the query q and one, with the same weights, for the titles p and n.
 *
 *   s = sum of the rows of the words      r = s / (1 + |s|)      z = r W + b
 *   cos(a, c) = a . c / (sqrt(a . a + 1e-12) sqrt(c . c + 1e-12))
 *   loss = max(0, margin - cos(zq, zp) + cos(zq, zn)) */
#include "reference.h"

#include <math.h>
#include <stddef.h>

enum { QUERY, POSITIVE, NEGATIVE, TEXTS };
static const double margin = 0.5, eps = 1e-12;
static struct table *words;
static struct layer query, title;

static void find(void)
{
    words = table_of("words");
    query = layer_of("query_fc", NONE);
    title = layer_of("pos_title_fc", NONE);
}

/* The cosine, and by how much it grows with a and c. */
static double cosine(const double *a, const double *c, long count, double *da, double *dc)
{
    double dot = 0, aa = eps, cc = eps;
    for (long i = 0; i < count; i++) {
        dot += a[i] * c[i];
        aa += a[i] * a[i];
        cc += c[i] * c[i];
    }
    double norms = sqrt(aa) * sqrt(cc);
    for (long i = 0; i < count; i++) {
        da[i] = c[i] / norms - dot * a[i] / (norms * aa);
        dc[i] = a[i] / norms - dot * c[i] / (norms * cc);
    }
    return dot / norms;
}

static double learn(const struct example *example)
{
    long dim = words->vectors.cols, width = query.outputs;
    double *s[TEXTS], *r[TEXTS], *z[TEXTS], *dz[TEXTS];
    for (int k = 0; k < TEXTS; k++) {
        s[k] = scratch(dim);
        r[k] = scratch(dim);
        dz[k] = scratch(width);
        field_sum(words, example, k, s[k]);
        for (long i = 0; i < dim; i++) r[k][i] = s[k][i] / (1 + fabs(s[k][i]));
        z[k] = layer_forward(k == QUERY ? &query : &title, r[k]);
    }
    double *by_positive = scratch(width), *by_negative = scratch(width);
    double loss = margin - cosine(z[QUERY], z[POSITIVE], width, by_positive, dz[POSITIVE]) +
                  cosine(z[QUERY], z[NEGATIVE], width, by_negative, dz[NEGATIVE]);
    int is_met = loss <= 0; /* the margin: nothing moves, but the rows have occurred */
    for (long i = 0; i < width; i++) {
        dz[QUERY][i] = is_met ? 0 : by_negative[i] - by_positive[i];
        dz[POSITIVE][i] *= is_met ? 0 : -1;
        dz[NEGATIVE][i] *= is_met ? 0 : 1;
    }
    for (int k = 0; k < TEXTS; k++) {
        double *dr = scratch(dim), *ds = scratch(dim);
        layer_backward(k == QUERY ? &query : &title, r[k], z[k], dz[k], dr);
        for (long i = 0; i < dim; i++) ds[i] = dr[i] / ((1 + fabs(s[k][i])) * (1 + fabs(s[k][i])));
        field_learn(words, example, k, ds);
    }
    return is_met ? 0 : loss;
}

static const char *const key_space[TEXTS] = {"query", "query", "query"};
const struct model matchnet = {.name = "matchnet",
                               .separator = '\t',
                               .list_separator = ' ',
                               .header_lines = 1,
                               .field_count = TEXTS,
                               .key_space = key_space,
                               .open = find,
                               .learn = learn};
