/* Differentiates the forward nodes. Every tensor that a parameter or a row can move gets a gradient tensor,
 * and every node between it and a loss gets a backward node, in reverse order; tensors that only metrics
 * read, and their nodes, get none. A tensor with several consumers gets a gradient from each: the first
 * backward node to run writes it, the later ones add. */
#include "graph/compiler.h"

#include <stdlib.h>
#include <string.h>

static status gradient_add(struct compiler *c, uint32_t of, enum tensor_kind kind)
{
    char name[2 * INI_NAME_BYTES_MAX + 8];
    snprintf(name, sizeof name, "d.%s", compiler_string(c, compiler_tensor(c, of)->name));
    uint32_t name_offset;
    TRY(compiler_string_add(c, name, &name_offset));
    struct graph_tensor *t;
    TRY(list_add(&c->tensors, &t));
    *t = *compiler_tensor(c, of);
    t->kind = (uint8_t)kind;
    t->name = name_offset;
    t->init = INIT_ZEROS;
    t->init_scale = 0;
    t->grad = GRAPH_NONE;
    compiler_tensor(c, of)->grad = c->tensors.count - 1;
    return ST_OK;
}

/* Fails with the section that a node came from: compile runs right after parse, so the ini is still there. */
static status node_fail(struct compiler *c, const struct graph_node *node, const char *message)
{
    const char *name = compiler_string(c, node->name);
    const struct ini_section *section = ini_find(&c->ini, op_table[node->op].section, name);
    CHECK(section != NULL);
    return ini_fail(&c->ini, section, NULL, "%s", message);
}

static bool is_loss(const struct graph_node *n) { return (op_table[n->op].traits & OP_IS_LOSS) != 0; }

/* The heads that read a tensor, directly or not. */
enum { READ_BY_HEAD = 1, READ_BY_LOSS = 2 };

static status readers_find(struct compiler *c, uint8_t *readers)
{
    bool has_loss = false;
    for (uint32_t i = 0; i < c->forward_count; i++) has_loss |= is_loss(compiler_node(c, i));
    if (!has_loss)
        FAIL(INVALID, "%s: the model has no loss; expected a section like [loss bce] with input = NAME", c->ini.path);
    for (uint32_t i = c->forward_count; i-- > 0;) {
        const struct graph_node *node = compiler_node(c, i);
        uint8_t by = readers[compiler_output(c, node)];
        if (op_is_head(node->op)) {
            if (by) return node_fail(c, node, "a section below reads this; losses and metrics are nobody's input");
            by = is_loss(node) ? READ_BY_HEAD | READ_BY_LOSS : READ_BY_HEAD;
        } else if (!by) {
            return node_fail(c, node, "nothing that leads to the loss reads this; remove it, or make it an input");
        } else if (!(by & READ_BY_LOSS) && (node->param_count || op_table[node->op].traits & OP_LOOKS_UP)) {
            return node_fail(c, node, "only metrics read this, so nothing would train it; a loss must read it too");
        }
        for (uint32_t k = 0; k < node->input_count; k++) readers[compiler_args(c, node)[k]] |= by;
    }
    return ST_OK;
}

/* Checks that a loss moves something. */
static status loss_check(struct compiler *c, const struct graph_node *node)
{
    for (uint32_t k = 0; k < node->input_count; k++)
        if (compiler_tensor(c, compiler_args(c, node)[k])->grad != GRAPH_NONE) return ST_OK;
    return node_fail(c, node, "the loss depends on no parameter and no table: there is nothing to train");
}

static status update_add(struct compiler *c, uint32_t optimizer, uint32_t table)
{
    struct graph_update *update;
    TRY(list_add(&c->updates, &update));
    *update = (struct graph_update){.optimizer = optimizer, .table = table};
    return ST_OK;
}

/* Adds one update of all trained parameters together, one of each run of statistics, one of each table. */
static status updates_add(struct compiler *c)
{
    bool has_trained = false;
    for (uint32_t i = 0; i < c->tensors.count; i++)
        has_trained =
            has_trained || (compiler_tensor(c, i)->kind == TENSOR_PARAM && compiler_tensor(c, i)->update == 0);
    for (uint32_t i = 0; i < c->tensors.count; i++) {
        struct graph_tensor *t = compiler_tensor(c, i);
        if (!has_trained && (t->kind == TENSOR_PARAM || t->kind == TENSOR_PARAM_GRAD)) t->update--;
    }
    if (has_trained) TRY(update_add(c, 0, GRAPH_NONE));
    for (uint32_t i = 0; i < c->statistics.count; i++) {
        struct graph_optimizer *o;
        TRY(list_add(&c->optimizers, &o));
        *o = *LIST_AT(c->statistics, struct graph_optimizer, i);
        TRY(update_add(c, c->optimizers.count - 1, GRAPH_NONE));
    }
    for (uint32_t i = 0; i < c->tables.count; i++)
        TRY(update_add(c, LIST_AT(c->tables, struct graph_table, i)->optimizer, i));
    return ST_OK;
}

/* Numbers the lookups, for the gradients of their rows. */
static void lookups_number(struct compiler *c)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < c->forward_count; i++) {
        struct graph_node *node = compiler_node(c, i);
        struct embed_bag_attr attr;
        if (!(op_table[node->op].traits & OP_LOOKS_UP)) continue;
        memcpy(&attr, node->attr, sizeof attr);
        attr.lookup = count++;
        memcpy(node->attr, &attr, sizeof attr);
    }
}

/* Adds the backward node of a forward node. is_written: a node that runs earlier writes this gradient. */
static status backward_add(struct compiler *c, uint32_t index, bool *is_written)
{
    struct graph_node *backward;
    TRY(list_add(&c->nodes, &backward));
    struct graph_node *forward = compiler_node(c, index);
    forward->other = c->nodes.count - 1;
    *backward = (struct graph_node){.op = forward->op,
                                    .pass = PASS_BACKWARD,
                                    .layer = forward->layer,
                                    .name = forward->name,
                                    .other = index,
                                    .arg_begin = c->args.count,
                                    .input_count = forward->input_count};
    for (uint32_t k = 0; k < forward->input_count; k++) {
        uint32_t *flag;
        TRY(list_add(&c->args, &flag));
        const struct graph_tensor *input = compiler_tensor(c, compiler_args(c, forward)[k]);
        if (input->grad == GRAPH_NONE) continue;
        *flag = is_written[input->grad];
        is_written[input->grad] = true;
    }
    return ST_OK;
}

status compile_backward(struct compiler *c)
{
    lookups_number(c);
    bool *is_written = NULL;
    uint8_t *readers = calloc(c->tensors.count + 1, 1);
    if (readers == NULL) FAIL(MEMORY, "no memory to compile the model");
    status st = ST_OK;
    TRY_GOTO(readers_find(c, readers), done);

    /* Tensors that parameters or rows can move get a gradient, in forward order. */
    for (uint32_t i = 0; i < c->forward_count; i++) {
        bool moves = op_table[compiler_node(c, i)->op].traits & OP_LOOKS_UP;
        for (uint32_t k = 0; k < compiler_node(c, i)->param_count; k++) {
            uint32_t param = compiler_args(c, compiler_node(c, i))[compiler_node(c, i)->input_count + k];
            TRY_GOTO(gradient_add(c, param, TENSOR_PARAM_GRAD), done);
            moves = true;
        }
        for (uint32_t k = 0; k < compiler_node(c, i)->input_count; k++) {
            const struct graph_tensor *t = compiler_tensor(c, compiler_args(c, compiler_node(c, i))[k]);
            moves = moves || (t->kind == TENSOR_ACTIVATION && t->grad != GRAPH_NONE);
        }
        uint32_t output = compiler_output(c, compiler_node(c, i));
        if (moves && readers[output] & READ_BY_LOSS) /* no node reads a head's */
            TRY_GOTO(gradient_add(c, output, TENSOR_ACTIVATION), done);
        if (is_loss(compiler_node(c, i))) TRY_GOTO(loss_check(c, compiler_node(c, i)), done);
    }

    is_written = calloc(c->tensors.count + 1, 1);
    if (is_written == NULL)
        TRY_GOTO(status_fail(ST_MEMORY, __FILE__, __LINE__, "no memory to compile the model"), done);
    for (uint32_t i = c->forward_count; i-- > 0;) {
        const struct graph_node *node = compiler_node(c, i);
        if (is_loss(node) || compiler_tensor(c, compiler_output(c, node))->grad != GRAPH_NONE)
            TRY_GOTO(backward_add(c, i, is_written), done);
    }
    st = updates_add(c);
done:
    free(is_written);
    free(readers);
    return st;
}
