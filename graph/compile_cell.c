/* Compiles the equations of [cell NAME] into the steps of a cell (graph/cell.h).
 *
 *     line    name = sum            sum   term {+ term | - term}         term   factor {* factor}
 *     factor  (sum)  number  1.5  x  name  left.STATE  right.STATE  childN.STATE  child.STATE
 *             affine(vector, …)  sigmoid(sum)  tanh(sum)  relu(sum)  softsign(sum)  sin(sum)  cos(sum)
 *             sum(sum)  prod(sum)
 *
 * A name stands for its line, in later lines. child.STATE is a state of each child; sum(…) or prod(…) makes
 * one vector of all children, and its argument is computed for each child. A value without a name is
 * temporary: it may be written over. */
#include "graph/compile_cell.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/tree.h"

#define NAMES_MAX 128u
#define DEPTH_MAX 64u

/* The compiled form of an expression. */
struct value {
    uint32_t operand;
    bool is_temporary; /* a register without a name           */
    bool is_kept;      /* its step's backward pass reads it */
};

struct cell_compiler {
    const struct ini *ini;
    const struct ini_section *section;
    const struct ini_entry *entry;
    const char *at; /* the rest of the line's expression */
    const char *const *states;
    uint32_t state_count, depth;
    bool in_fold;     /* within sum(…) or prod(…) */
    bool reads_child; /* the fold's argument has a child.STATE */
    struct cell cell;
    struct cell_product products[CELL_STEPS_MAX];
    struct cell_step steps[CELL_STEPS_MAX];
    float constants[CELL_STEPS_MAX];
    struct {
        const char *name;
        uint32_t operand;
    } names[NAMES_MAX];
    uint32_t name_count;
    uint32_t own_count[2]; /* registers, edge registers; not of products */
};
#define OF_PRODUCT  0x800u /* in an operand's index: a product's output; product << 6 | output */

#define SAY(c, ...) return ini_fail((c)->ini, (c)->section, (c)->entry, __VA_ARGS__)

static status sum_parse(struct cell_compiler *c, struct value *out);

static void blanks_skip(struct cell_compiler *c) { c->at += strspn(c->at, " \t"); }

static bool take(struct cell_compiler *c, char wanted)
{
    blanks_skip(c);
    if (*c->at != wanted) return false;
    c->at++;
    return true;
}

static status expect(struct cell_compiler *c, char wanted)
{
    if (take(c, wanted)) return ST_OK;
    SAY(c, "expected '%c', found \"%s\"", wanted, c->at);
}

/* --- registers and steps ---------------------------------------------------------------------- */

static status register_new(struct cell_compiler *c, struct value *out)
{
    uint32_t *count = &c->own_count[c->in_fold];
    if (*count == CELL_REGISTERS_MAX)
        SAY(c, "expected at most %u intermediate results, found more", CELL_REGISTERS_MAX);
    *out = (struct value){cell_operand_pack(c->in_fold ? CELL_EDGE : CELL_REGISTER, (*count)++, 0), true, false};
    return ST_OK;
}

static status step_add(struct cell_compiler *c, enum cell_op op, uint32_t to, uint32_t a, uint32_t b)
{
    if (c->cell.step_count == CELL_STEPS_MAX) SAY(c, "expected at most %u steps, found more", CELL_STEPS_MAX);
    c->steps[c->cell.step_count++] = (struct cell_step){op, to, a, b};
    return ST_OK;
}

/* Whether a value may be written over here: a temporary of this level. */
static bool is_own(const struct cell_compiler *c, struct value v)
{
    return v.is_temporary && cell_operand(v.operand).kind == (c->in_fold ? CELL_EDGE : CELL_REGISTER);
}

/* Adds a step; `to` is the first operand if writable, else a new register. An activation's output stays. */
static status step_over(struct cell_compiler *c, enum cell_op op, struct value first, uint32_t b, struct value *out)
{
    *out = first;
    if (!is_own(c, first) || first.is_kept) TRY(register_new(c, out));
    out->is_kept = op == CELL_ACTIVATE;
    return step_add(c, op, out->operand, first.operand, b);
}

/* --- operands --------------------------------------------------------------------------------- */

static bool name_take(struct cell_compiler *c, char name[INI_NAME_BYTES_MAX])
{
    blanks_skip(c);
    size_t bytes = 0;
    while ((c->at[bytes] >= 'a' && c->at[bytes] <= 'z') || (c->at[bytes] >= 'A' && c->at[bytes] <= 'Z') ||
           c->at[bytes] == '_' || (bytes > 0 && c->at[bytes] >= '0' && c->at[bytes] <= '9'))
        bytes++;
    if (bytes == 0 || bytes >= INI_NAME_BYTES_MAX) return false;
    memcpy(name, c->at, bytes);
    name[bytes] = 0;
    c->at += bytes;
    return true;
}

/* Parses left.STATE, right.STATE, childN.STATE, child.STATE; the part before the point is `who`. */
static status state_parse(struct cell_compiler *c, const char *who, struct value *out)
{
    char state[INI_NAME_BYTES_MAX], *end = NULL;
    unsigned long child = strcmp(who, "right") == 0;
    bool is_each = strcmp(who, "child") == 0, is_left = strcmp(who, "left") == 0;
    if (!is_each && !is_left && child == 0) {
        if (strncmp(who, "child", 5) != 0)
            SAY(c, "expected left, right, child or childN before a point, found \"%s\"", who);
        child = strtoul(who + 5, &end, 10);
        if (*end != 0 || child == 0 || child > CELL_REGISTERS_MAX)
            SAY(c, "expected child1 to child%u, found \"%s\"", CELL_REGISTERS_MAX, who);
        child--;
    }
    if (!name_take(c, state)) SAY(c, "expected a state's name behind \"%s.\", found \"%s\"", who, c->at);
    uint32_t index = 0;
    while (index < c->state_count && strcmp(c->states[index], state) != 0) index++;
    if (index == c->state_count)
        SAY(c, "expected a state of the tree, found \"%s\"; `state` of its [tree] lists them", state);
    if (is_each && !c->in_fold)
        SAY(c, "child.%s has a value for every child: expected it within sum(…) or prod(…)", state);
    if (!is_each && child + 1 > c->cell.children_min) c->cell.children_min = (uint32_t)child + 1;
    if (is_each) c->cell.children_max = TREE_CHILDREN_MAX;
    c->reads_child |= is_each;
    *out = (struct value){cell_operand_pack(is_each ? CELL_CHILD_STATE : CELL_STATE, index, (uint32_t)child), false,
                          false};
    return ST_OK;
}

static bool products_match(const struct cell_product *one, const struct cell_product *other)
{
    return one->is_edge == other->is_edge && one->input_count == other->input_count &&
           memcmp(one->input, other->input, one->input_count * sizeof *one->input) == 0;
}

/* Parses affine(vector, …): an output of the product with these inputs. */
static status affine_parse(struct cell_compiler *c, struct value *out)
{
    struct cell_product p = {.is_edge = c->in_fold};
    TRY(expect(c, '('));
    do {
        struct value input;
        if (p.input_count == CELL_INPUTS_MAX)
            SAY(c, "expected at most %u vectors in affine(…), found more", CELL_INPUTS_MAX);
        TRY(sum_parse(c, &input));
        uint32_t kind = cell_operand(input.operand).kind;
        if (kind == CELL_NUMBER || kind == CELL_CONSTANT)
            SAY(c, "expected vectors in affine(…), found a single number");
        p.input[p.input_count++] = input.operand;
    } while (take(c, ','));
    TRY(expect(c, ')'));
    uint32_t i = 0;
    while (i < c->cell.product_count && !products_match(&c->products[i], &p)) i++;
    if (i == c->cell.product_count) {
        if (i == CELL_REGISTERS_MAX / 2)
            SAY(c, "expected at most %u different affine(…), found more", CELL_REGISTERS_MAX / 2);
        c->products[c->cell.product_count++] = p;
        TRY(step_add(c, CELL_PRODUCT, 0, i, 0));
    }
    if (c->products[i].output_count == CELL_REGISTERS_MAX)
        SAY(c, "expected at most %u affine(…) of the same vectors", CELL_REGISTERS_MAX);
    *out = (struct value){cell_operand_pack(c->in_fold ? CELL_EDGE : CELL_REGISTER,
                                            OF_PRODUCT | i << 6 | c->products[i].output_count++, 0),
                          true, false};
    return ST_OK;
}

/* Parses sum(…), prod(…) over all children. */
static status fold_parse(struct cell_compiler *c, enum cell_op op, struct value *out)
{
    struct value each;
    if (c->in_fold) SAY(c, "expected no sum(…) or prod(…) within another");
    TRY(expect(c, '('));
    c->in_fold = true;
    c->reads_child = false;
    status st = sum_parse(c, &each);
    c->in_fold = false;
    TRY(st);
    TRY(expect(c, ')'));
    if (!c->reads_child) SAY(c, "expected child.STATE within sum(…) or prod(…)");
    TRY(register_new(c, out));
    return step_add(c, op, out->operand, each.operand, 0);
}

static status function_parse(struct cell_compiler *c, const char *name, struct value *out)
{
    if (strcmp(name, "affine") == 0) return affine_parse(c, out);
    if (strcmp(name, "sum") == 0) return fold_parse(c, CELL_SUM, out);
    if (strcmp(name, "prod") == 0) return fold_parse(c, CELL_PROD, out);
    uint32_t activation = ACT_NONE + 1;
    while (activation < ACT_COUNT && strcmp(activation_names[activation], name) != 0) activation++;
    bool is_sin = strcmp(name, "sin") == 0, is_cos = strcmp(name, "cos") == 0;
    if (activation == ACT_LEAKY_RELU || (activation == ACT_COUNT && !is_sin && !is_cos))
        SAY(c, "expected affine, sigmoid, tanh, relu, softsign, sin, cos, sum or prod before '(', found \"%s\"", name);
    struct value argument;
    TRY(expect(c, '('));
    TRY(sum_parse(c, &argument));
    TRY(expect(c, ')'));
    if (!is_sin && !is_cos) return step_over(c, CELL_ACTIVATE, argument, activation, out);
    TRY(register_new(c, out));
    return step_add(c, is_sin ? CELL_SIN : CELL_COS, out->operand, argument.operand, 0);
}

/* Parses a name by itself: x, number, or a line above. */
static status name_parse(struct cell_compiler *c, const char *name, struct value *out)
{
    bool is_word = strcmp(name, "x") == 0;
    if (is_word || strcmp(name, "number") == 0) {
        *(is_word ? &c->cell.needs_word : &c->cell.needs_number) = 1;
        *out = (struct value){cell_operand_pack(is_word ? CELL_WORD : CELL_NUMBER, 0, 0), false, false};
        return ST_OK;
    }
    for (uint32_t i = 0; i < c->name_count; i++)
        if (strcmp(c->names[i].name, name) == 0) {
            *out = (struct value){c->names[i].operand, false, false};
            return ST_OK;
        }
    SAY(c, "expected x, number, or a line above, found \"%s\"", name);
}

static status constant_parse(struct cell_compiler *c, struct value *out)
{
    char *end;
    float number = strtof(c->at, &end);
    if (end == c->at || !isfinite(number)) SAY(c, "expected a name, a number or '(', found \"%s\"", c->at);
    if (c->cell.constant_count == CELL_STEPS_MAX) SAY(c, "expected at most %u numbers, found more", CELL_STEPS_MAX);
    c->at = end;
    c->constants[c->cell.constant_count] = number;
    *out = (struct value){cell_operand_pack(CELL_CONSTANT, c->cell.constant_count++, 0), false, false};
    return ST_OK;
}

static status factor_parse(struct cell_compiler *c, struct value *out)
{
    char name[INI_NAME_BYTES_MAX];
    if (++c->depth > DEPTH_MAX) SAY(c, "expected at most %u nested brackets, found more", DEPTH_MAX);
    status st;
    if (take(c, '(')) {
        st = sum_parse(c, out);
        if (st == ST_OK) st = expect(c, ')');
    } else if (!name_take(c, name)) {
        st = constant_parse(c, out);
    } else if (*c->at == '.') {
        c->at++;
        st = state_parse(c, name, out);
    } else {
        blanks_skip(c);
        st = *c->at == '(' ? function_parse(c, name, out) : name_parse(c, name, out);
    }
    c->depth--;
    return st;
}

/* --- sums of products ------------------------------------------------------------------------- */

/* A sum's term, not multiplied yet, so that one step can multiply and add it. */
struct term {
    struct value first, second;
    bool has_second;
};

static status term_parse(struct cell_compiler *c, struct term *t)
{
    t->has_second = false;
    TRY(factor_parse(c, &t->first));
    while (take(c, '*')) {
        struct value next;
        TRY(factor_parse(c, &next));
        if (t->has_second) {
            struct value product;
            TRY(register_new(c, &product));
            TRY(step_add(c, CELL_MULTIPLY, product.operand, t->first.operand, t->second.operand));
            t->first = product;
        }
        t->second = next;
        t->has_second = true;
    }
    return ST_OK;
}

static status term_value(struct cell_compiler *c, const struct term *t, struct value *out)
{
    *out = t->first;
    if (!t->has_second) return ST_OK;
    TRY(register_new(c, out));
    return step_add(c, CELL_MULTIPLY, out->operand, t->first.operand, t->second.operand);
}

static status sum_parse(struct cell_compiler *c, struct value *out)
{
    struct term t;
    TRY(term_parse(c, &t));
    TRY(term_value(c, &t, out));
    for (;;) {
        bool is_minus = false;
        if (!take(c, '+') && !(is_minus = take(c, '-'))) return ST_OK;
        TRY(term_parse(c, &t));
        if (t.has_second && !is_minus && is_own(c, *out) && !out->is_kept) {
            TRY(step_add(c, CELL_FMA, out->operand, t.first.operand, t.second.operand));
            continue;
        }
        struct value right, left = *out;
        TRY(term_value(c, &t, &right));
        TRY(step_over(c, is_minus ? CELL_SUBTRACT : CELL_ADD, left, right.operand, out));
    }
}

/* --- a cell ----------------------------------------------------------------------------------- */

/* Parses NAME = EXPRESSION: a register that nothing writes over any more. */
static status line_parse(struct cell_compiler *c)
{
    struct value v;
    c->at = c->entry->value;
    TRY(sum_parse(c, &v));
    blanks_skip(c);
    if (*c->at) SAY(c, "expected the end of the line, or + - *, found \"%s\"", c->at);
    if (!is_own(c, v)) {
        struct value copy;
        TRY(register_new(c, &copy));
        TRY(step_add(c, CELL_COPY, copy.operand, v.operand, 0));
        v = copy;
    }
    if (strcmp(c->entry->key, "x") == 0 || strcmp(c->entry->key, "number") == 0)
        SAY(c, "expected another name for the line: %s is a value of every node", c->entry->key);
    for (uint32_t i = 0; i < c->name_count; i++)
        if (strcmp(c->names[i].name, c->entry->key) == 0) SAY(c, "the name is taken");
    if (c->name_count == NAMES_MAX) SAY(c, "expected at most %u lines, found more", NAMES_MAX);
    c->names[c->name_count].name = c->entry->key;
    c->names[c->name_count++].operand = v.operand;
    return ST_OK;
}

/* The final operand: outputs of products come first, product after product, then the other registers. */
static uint32_t operand_place(const struct cell_compiler *c, uint32_t word)
{
    struct cell_operand o = cell_operand(word);
    if (o.kind != CELL_REGISTER && o.kind != CELL_EDGE) return word;
    bool is_edge = o.kind == CELL_EDGE;
    uint32_t index = o.index;
    if (index & OF_PRODUCT)
        index = c->products[(index & ~OF_PRODUCT) >> 6].output + (index & 63);
    else
        index += (is_edge ? c->cell.edge_count : c->cell.register_count) - c->own_count[is_edge];
    return cell_operand_pack((enum cell_operand_kind)o.kind, index, 0);
}

static status registers_place(struct cell_compiler *c)
{
    uint32_t count[2] = {0, 0};
    for (uint32_t i = 0; i < c->cell.product_count; i++) {
        c->products[i].output = count[c->products[i].is_edge];
        count[c->products[i].is_edge] += c->products[i].output_count;
    }
    c->cell.register_count = count[0] + c->own_count[0];
    c->cell.edge_count = count[1] + c->own_count[1];
    if (c->cell.register_count > CELL_REGISTERS_MAX || c->cell.edge_count > CELL_REGISTERS_MAX) {
        c->entry = NULL;
        SAY(c, "expected at most %u intermediate results, found %u", CELL_REGISTERS_MAX,
            c->cell.register_count > c->cell.edge_count ? c->cell.register_count : c->cell.edge_count);
    }
    for (uint32_t i = 0; i < c->cell.product_count; i++)
        for (uint32_t k = 0; k < c->products[i].input_count; k++)
            c->products[i].input[k] = operand_place(c, c->products[i].input[k]);
    for (uint32_t i = 0; i < c->cell.step_count; i++) {
        struct cell_step *s = &c->steps[i];
        if (s->op == CELL_PRODUCT) continue;
        s->to = operand_place(c, s->to);
        s->a = operand_place(c, s->a);
        if (cell_step_has_b(s)) s->b = operand_place(c, s->b);
    }
    return ST_OK;
}

static status cell_parse(struct cell_compiler *c)
{
    for (uint32_t i = 0; i < c->section->entry_count; i++) {
        c->entry = &c->section->entries[i];
        TRY(line_parse(c));
    }
    c->entry = NULL;
    for (uint32_t state = 0; state < c->state_count; state++) {
        uint32_t i = 0;
        while (i < c->name_count && strcmp(c->names[i].name, c->states[state]) != 0) i++;
        if (i == c->name_count) SAY(c, "expected a line %s = …, for it is a state of the tree", c->states[state]);
        c->cell.state[state] = c->names[i].operand;
    }
    TRY(registers_place(c));
    for (uint32_t state = 0; state < c->state_count; state++)
        c->cell.state[state] = cell_operand(operand_place(c, c->cell.state[state])).index;
    if (c->cell.children_max < c->cell.children_min) c->cell.children_max = c->cell.children_min;
    return ST_OK;
}

status cell_compile(const struct ini *ini, const struct ini_section *section, const char *const *states,
                    uint32_t state_count, uint32_t **words, uint32_t *word_count)
{
    struct cell_compiler *c = calloc(1, sizeof *c);
    if (c == NULL) FAIL(MEMORY, "no memory to compile the model");
    *c = (struct cell_compiler){.ini = ini, .section = section, .states = states, .state_count = state_count};
    status st = cell_parse(c);
    const struct {
        const void *from;
        size_t bytes;
    } parts[] = {{&c->cell, sizeof c->cell},
                 {c->products, c->cell.product_count * sizeof *c->products},
                 {c->steps, c->cell.step_count * sizeof *c->steps},
                 {c->constants, c->cell.constant_count * sizeof *c->constants}};
    size_t bytes = 0;
    for (size_t i = 0; i < 4; i++) bytes += parts[i].bytes;
    uint8_t *to = st == ST_OK ? malloc(bytes) : NULL;
    if (st == ST_OK && to == NULL) st = status_fail(ST_MEMORY, __FILE__, __LINE__, "no memory to compile the model");
    *words = (uint32_t *)(void *)to;
    *word_count = (uint32_t)(bytes / sizeof(uint32_t));
    for (size_t i = 0; st == ST_OK && i < 4; to += parts[i++].bytes) memcpy(to, parts[i].from, parts[i].bytes);
    free(c);
    return st;
}

void cell_reference_print(FILE *out, bool as_markdown)
{
    fprintf(out, as_markdown ? "### [cell NAME]\n\n" : "\n[cell NAME]\n");
    fprintf(out,
            "What a [tree] computes at a node of a kind of data.kinds, line by line: "
            "`NAME = SUM`, where a sum is of products (`a * b + c - d`) of\n"
            "%s\n",
            as_markdown ? "\n| value | is |\n|---|---|" : "");
    static const struct {
        const char *value, *is;
    } values[] = {
        {"NAME", "what a line above gives, a vector of `units` numbers"},
        {"x", "the vector of the node's word, of the second input of its [tree]"},
        {"number", "the number in the node's brackets"},
        {"0.5", "this number"},
        {"left.STATE right.STATE childN.STATE", "a state of the first, second, N-th child"},
        {"sum(SUM) prod(SUM)", "over all children, of whom child.STATE is one's state"},
        {"affine(a, b)", "a b W + bias: parameters of this cell, drawn like parameters of an fc; "
                         "affines of the same vectors are one product"},
        {"sigmoid(SUM) tanh(SUM) relu(SUM) softsign(SUM) sin(SUM) cos(SUM)", "element by element"},
    };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        fprintf(out, as_markdown ? "| `%s` | %s |\n" : "  %-36s %s\n", values[i].value, values[i].is);
    fprintf(out,
            "%sThe lines that `state` of the tree names are what parents see. "
            "A node has as many children as left, right and childN ask for, and any number where child stands.\n%s",
            as_markdown ? "\n" : "", as_markdown ? "\n" : "");
}
