/* Routed experts against PyTorch's autograd in double precision: outputs and gradients of inputs, logits and
 * parameters, with full experts and the load loss. tests/golden/experts, written by
 * tests/quality/experts_gradients.py, which says its layout. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "graph/experts_frame.h"
#include "tests/engine/device/cpu/kernel_case.h"

#define LINES 42u
/* Of an array's norm: some tens of sums in float32. */
#define TOLERANCE 1e-6

static double error_worst;
static uint32_t line_count;

static double value(uint32_t array, uint32_t i)
{
    uint32_t bits = (i + 1) * 2654435761u + (array + 1) * 2246822519u;
    bits = (bits ^ bits >> 15) * 2246822519u;
    bits ^= bits >> 13;
    return (bits >> 24) / 128.0 - 1;
}

static void values_put(struct view v, uint32_t array)
{
    for (uint32_t i = 0; i < v.rows * v.cols; i++) v.data[i] = (float)value(array, i);
}

/* A line's experts, all of whose tensors lie without gaps. */
struct golden {
    uint32_t B, K, E;
    struct experts_attr attr;
    uint32_t x, gate, out;
    struct hand_tensors param;
};

static void golden_read(struct golden *o, const char *line, char **rest)
{
    char activation[16];
    int bytes = 0;
    *o = (struct golden){0};
    struct experts_attr *a = &o->attr;
    assert_int_equal(sscanf(line, "experts %u %u %u %u %u %u %f %f %15s%n", &o->B, &o->K, &o->E, &a->units, &a->hidden,
                            &a->top, &a->capacity, &a->balance, activation, &bytes),
                     9);
    while (strcmp(activation_names[a->activation], activation) != 0) a->activation++;
    *rest = (char *)line + bytes;
}

static uint32_t tensor_put(struct hand_graph *h, uint32_t rows, uint32_t cols, uint32_t array)
{
    const uint32_t t = hand_tensor_grad(h, rows, cols, cols);
    values_put(h->view[t], array);
    return t;
}

static void golden_build(struct fixture *f, const void *params)
{
    struct golden *o = (struct golden *)(uintptr_t)params;
    const struct experts_attr *a = &o->attr;
    struct hand_graph *h = &f->h;
    uint32_t adds[2] = {0, 0}, array = 0;
    hand_open(h, o->B, 1);
    o->x = tensor_put(h, o->B, o->K, 100);
    o->gate = tensor_put(h, o->B, o->E, 101);
    o->param = (struct hand_tensors){0};
    const uint32_t sizes[2][2] = {{o->K, a->hidden}, {a->hidden ? a->hidden : o->K, a->units}};
    for (uint32_t i = !a->hidden; i < 2; i++) {
        o->param.t[o->param.count++] = tensor_put(h, o->E * sizes[i][0], sizes[i][1], array++);
        o->param.t[o->param.count++] = tensor_put(h, o->E, sizes[i][1], array++);
    }
    o->out = hand_tensor_grad(h, o->B, a->units, a->units);
    values_put(h->view[h->tensor[o->out].grad], 102);
    for (uint32_t i = 0; i < o->param.count; i++) {
        const struct view d = h->view[h->tensor[o->param.t[i]].grad];
        memset(d.data, 0, (size_t)d.rows * d.cols * sizeof *d.data);
    }
    struct experts_frame frame;
    struct layout l = {0};
    experts_frame_layout(&frame, &l, a, 1, o->K, o->E);
    const uint32_t words = (uint32_t)(l.bytes / sizeof(float)), saved = hand_tensor(h, o->B, words, words);
    hand_node(h, OP_ID_experts, (struct hand_tensors){2, {o->x, o->gate}}, o->param, o->out,
              (struct hand_tensors){1, {saved}}, a, sizeof *a, adds);
}

/* The next array of the line: its two projections and norm against what `found` has. */
static void array_check(char **rest, const char *name, struct view found)
{
    double first, second, norm, sums[2] = {0, 0};
    char told[16];
    int bytes;
    if (sscanf(*rest, " | %15s %lf %lf %lf%n", told, &first, &second, &norm, &bytes) != 4) fail_msg("\"%s\"", *rest);
    assert_string_equal(told, name);
    *rest += bytes;
    for (uint32_t i = 0; i < found.rows * found.cols; i++)
        for (uint32_t k = 0; k < 2; k++) sums[k] += (double)found.data[i] * value(300 + k, i);
    const double error = fmax(fabs(sums[0] - first), fabs(sums[1] - second)) / fmax(norm, 1);
    if (error > error_worst) error_worst = error;
    if (!(error <= TOLERANCE))
        fail_msg("line %u, %s: expected %.9g and %.9g, found %.9g and %.9g (norm %g)", line_count + 1, name, first,
                 second, sums[0], sums[1], norm);
}

static void fixture_check(const struct fixture *f, const struct golden *o, char *rest)
{
    const struct hand_graph *h = &f->h;
    array_check(&rest, "out", h->view[o->out]);
    array_check(&rest, "dx", h->view[h->tensor[o->x].grad]);
    array_check(&rest, "dg", h->view[h->tensor[o->gate].grad]);
    for (uint32_t i = 0; i < o->param.count; i++) {
        char name[16];
        snprintf(name, sizeof name, "d%u", i);
        array_check(&rest, name, h->view[h->tensor[o->param.t[i]].grad]);
    }
    assert_string_equal(rest, "\n");
}

static void experts__many_shapes__have_the_gradients_of_pytorch(void **state)
{
    (void)state;
    FILE *file = fopen("tests/golden/experts", "r");
    assert_non_null(file);
    char *line = NULL, *rest;
    size_t line_bytes = 0;
    for (; getline(&line, &line_bytes, file) >= 0; line_count++) {
        struct golden o;
        golden_read(&o, line, &rest);
        struct fixture *reference = fixture_open(golden_build, &o), *device = fixture_open(golden_build, &o);
        reference_run(reference);
        fixture_check(reference, &o, rest);
        device_run(device, isa_best(), 2, 0);
        fixture_check(device, &o, rest);
        fixture_close(reference);
        fixture_close(device);
    }
    free(line);
    fclose(file);
    assert_int_equal(line_count, LINES);
    printf("# %u lines, reference and %s: worst difference %.1e of a norm, tolerance %.1e\n", line_count,
           isa_names[isa_best()], error_worst, TOLERANCE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(experts__many_shapes__have_the_gradients_of_pytorch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
