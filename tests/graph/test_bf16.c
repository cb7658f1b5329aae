/* bfloat16 (engine/base/bf16.h), and what rounding factors to it does to an fc: nothing where they are
 * bfloat16 already, so its gradient is the one that test_gradient compares with differences; else no more
 * than the two roundings of each product allow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "cfg/settings.h"
#include "engine/base/bf16.h"
#include "engine/bench/hand_graph.h"

static float of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static void bf16_round__any_number__is_the_nearest_and_even_of_two(void **state)
{
    (void)state;
    uint32_t random = 1;
    for (uint32_t i = 0; i < 2000000; i++) {
        uint32_t bits = random = random * 1664525u + 1013904223u;
        if (i % 3 == 0) bits = (bits & 0xffff0000) | 0x8000; /* between two */
        if (i % 5 == 0) bits &= 0xffff0000;                  /* one of them */
        if ((bits & 0x7f800000) == 0x7f800000 || (bits & 0x7f800000) == 0) continue;
        double x = (double)of_bits(bits), low = (double)of_bits(bits & 0xffff0000);
        uint32_t above = (bits & 0xffff0000) + 0x10000;
        double high = (above & 0x7fffffff) == 0x7f800000 ? copysign(0x1p128, x) : (double)of_bits(above);
        bool is_low = fabs(x - low) < fabs(high - x) || (fabs(x - low) == fabs(high - x) && (bits & 0x10000) == 0);
        uint32_t expected = is_low ? bits & 0xffff0000 : above;
        if (bits_of(bf16_round(of_bits(bits))) != expected)
            fail_msg("%a becomes %a, expected %a", x, (double)bf16_round(of_bits(bits)), (double)of_bits(expected));
    }
}

static void bf16_round__special_numbers__stay_what_they_are(void **state)
{
    (void)state;
    assert_int_equal(bits_of(bf16_round(-0.0f)), 0x80000000);
    assert_true(bf16_round(INFINITY) == INFINITY && bf16_round(-INFINITY) == -INFINITY);
    assert_true(bf16_round(of_bits(0x7f7f8000)) == INFINITY && bf16_round(of_bits(0x7f7f7fff)) < INFINITY);
    assert_true(isnan(bf16_round(NAN)) && isnan(bf16_round(of_bits(0x7f800001))) &&
                isnan(bf16_round(of_bits(0xff80ffff))));
    assert_int_equal(bits_of(bf16_round(-0x1p-127f)), 0x80000000);
    assert_int_equal(bits_of(bf16_round(0x1.fffffcp-127f)), 0);
    assert_true(bf16_round(0x1p-126f) == 0x1p-126f);
}

/* --- fc --------------------------------------------------------------------------------------- */

enum { B = 23, K = 37, N = 19 };
struct fc_run {
    struct hand_graph h;
    uint32_t in, out, weight, bias;
};

/* Forward and backward of the reference. */
static void fc_run(struct fc_run *f, uint8_t precision, bool is_rounded, bool is_absolute)
{
    struct hand_graph *h = &f->h;
    struct fc_attr attr = {.units = N, .groups = 1, .has_bias = 1, .precision = precision};
    hand_open(h, B, 11);
    f->in = hand_tensor_grad(h, B, K, K), f->out = hand_tensor_grad(h, B, N, N);
    f->weight = hand_tensor_grad(h, K, N, N), f->bias = hand_tensor_grad(h, 1, N, N);
    for (uint32_t t = 0; t < h->graph.tensor_count; t++) {
        const struct view *v = &h->view[t];
        bool is_sum = t == h->tensor[f->weight].grad || t == h->tensor[f->bias].grad;
        for (uint32_t i = 0; v->data != NULL && i < v->rows * v->stride; i++) {
            if (is_sum) v->data[i] = 0;
            if (is_rounded && t != f->bias) v->data[i] = bf16_round(v->data[i]);
            if (is_absolute) v->data[i] = fabsf(v->data[i]);
        }
    }
    hand_node(h, OP_ID_fc, (struct hand_tensors){1, {f->in}}, (struct hand_tensors){2, {f->weight, f->bias}}, f->out,
              (struct hand_tensors){0}, &attr, sizeof attr, NULL);
    op_table[OP_ID_fc].forward(&h->context, &h->node[0]);
    op_table[OP_ID_fc].backward(&h->context, &h->node[0]);
}

/* |a - b| <= share * c, element by element of one tensor. */
static void within(const char *what, const struct fc_run *a, const struct fc_run *b, const struct fc_run *c, uint32_t t,
                   double share)
{
    const struct view *v = &a->h.view[t];
    for (uint32_t i = 0; i < v->rows * v->stride; i++) {
        double x = (double)v->data[i], y = (double)b->h.view[t].data[i], most = share * (double)c->h.view[t].data[i];
        if (!(fabs(x - y) <= most)) fail_msg("%s %u: %a, expected %a within %a", what, i, x, y, most);
    }
}

static void all_within(const struct fc_run *a, const struct fc_run *b, const struct fc_run *c, double share)
{
    within("out", a, b, c, a->out, share);
    within("din", a, b, c, a->h.tensor[a->in].grad, share);
    within("dweight", a, b, c, a->h.tensor[a->weight].grad, share);
    within("dbias", a, b, c, a->h.tensor[a->bias].grad, 0); /* not a product: the same */
}

/* Sums of K terms in another order differ by at most about K roundings of the sum
 * of the terms' absolute values. */
static void fc__factors_are_bf16__equals_float32(void **state)
{
    (void)state;
    struct fc_run bf16, f32, absolute;
    fc_run(&bf16, PRECISION_BF16, true, false), fc_run(&f32, PRECISION_F32, true, false);
    fc_run(&absolute, PRECISION_F32, true, true);
    all_within(&bf16, &f32, &absolute, K * 0x1p-23);
    hand_close(&bf16.h), hand_close(&f32.h), hand_close(&absolute.h);
}

/* A factor is off by 2^-9 of itself at most, a product by 2^-8 and a little. */
static void fc__bf16__differs_from_float32_by_two_roundings_a_product(void **state)
{
    (void)state;
    struct fc_run bf16, f32, absolute;
    fc_run(&bf16, PRECISION_BF16, false, false), fc_run(&f32, PRECISION_F32, false, false);
    fc_run(&absolute, PRECISION_F32, false, true);
    all_within(&bf16, &f32, &absolute, 0x1.02p-8);
    uint32_t differing = 0;
    for (uint32_t i = 0; i < B * N; i++) differing += bf16.h.view[bf16.out].data[i] != f32.h.view[f32.out].data[i];
    assert_true(differing > B * N / 2);
    hand_close(&bf16.h), hand_close(&f32.h), hand_close(&absolute.h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bf16_round__any_number__is_the_nearest_and_even_of_two),
        cmocka_unit_test(bf16_round__special_numbers__stay_what_they_are),
        cmocka_unit_test(fc__factors_are_bf16__equals_float32),
        cmocka_unit_test(fc__bf16__differs_from_float32_by_two_roundings_a_product),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
