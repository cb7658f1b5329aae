#!/usr/bin/env python3
"""Golden numbers of the cells of trees, by PyTorch's autograd in double precision: outputs and gradients of
50 random trees a cell.

    python3 tests/quality/trees_gradients.py >tests/golden/trees            pip install torch
    python3 tests/quality/trees_gradients.py CELL TREE                      whole arrays of this tree, to look
                                                                            into a difference

Dimensions: words of 3, states of 4. All inputs follow from the text and from value(a, i) = element i of array
a, exact in float32:
    uint32_t v = (i + 1) * 2654435761u + (a + 1) * 2246822519u;
    v = (v ^ v >> 15) * 2246822519u, v ^= v >> 13;
    value(a, i) = (v >> 24) / 128.0 - 1
A cell has products: affine maps of the same inputs, in order of their first appearance in the cell's lines
below. The weight of product p of the cell (counted over all its kinds) is array 2p, [inputs, outputs * 4]
with columns in the order of the affine(…) in the text; its bias is array 2p + 1. Words of tree t are array
100 + 2t, [nodes with a word, 3] in node order; the factors by which h is summed are array 101 + 2t [nodes,
4].

The text: a line `cell NAME`; a line `kind NAME EQUATION; …` each; then, for t = 0 …, a line
    tree COUNT … | ARRAY a b n | …
COUNT: children of each node, children before parents; a node takes those that stand last on the stack
(engine/base/tree.h). Nodes without children are of the first kind, others of the last. ARRAY: h of all nodes, dx, then
dw and db of each product, gradients of f = sum(h * factors). Of an array A the text has a = sum(A[i] value(300, i)),
b = sum(A[i] value(301, i)) and n, the root of the sum of squares, by which tolerances are scaled."""
import math
import random
import sys

import torch

DIM, UNITS, TREES = 3, 4, 50
torch.set_default_dtype(torch.float64)


def value(array, i):
    v = ((i + 1) * 2654435761 + (array + 1) * 2246822519) % 2**32
    v = (v ^ v >> 15) * 2246822519 % 2**32
    return ((v ^ v >> 13) >> 24) / 128 - 1


def values(array, *shape):
    return torch.tensor([value(array, i) for i in range(math.prod(shape))]).reshape(shape)


def sg(v):
    return torch.sigmoid(v)


# --- cells: text, products as (inputs, outputs), which nodes have a word, children of a tree's nodes, the
# equations in PyTorch ------------


def paper(x, children, p):
    if not children:
        c, g = p[0](x)
        return sg(g) * torch.tanh(c), c
    (left_h, left_c), (right_h, right_c) = children
    i, left, right, u = p[1](left_h, right_h)
    c = sg(i) * torch.tanh(u) + sg(left) * left_c + sg(right) * right_c
    return torch.tanh(c), c


def tai(x, children, p):
    if not children:
        i, o, u = p[0](x)
        c = sg(i) * torch.tanh(u)
        return sg(o) * torch.tanh(c), c
    (left_h, left_c), (right_h, right_c) = children
    i, left, right, o, u = p[1](left_h, right_h)
    c = sg(i) * torch.tanh(u) + sg(left) * left_c + sg(right) * right_c
    return sg(o) * torch.tanh(c), c


def child_sum(x, children, p):
    total = sum((h for h, _ in children), torch.zeros(UNITS))
    i, o, u = p[0](x, total)
    c = sg(i) * torch.tanh(u)
    for h, child_c in children:
        c = c + sg(*p[1](x, h)) * child_c
    return sg(o) * torch.tanh(c), c


def elman(x, children, p):
    h = torch.tanh(*(p[1](x, children[0][0]) if children else p[0](x)))
    return h, h


def lstm(x, children, p):
    if not children:
        i, o, u = p[0](x)
        c = sg(i) * torch.tanh(u)
        return sg(o) * torch.tanh(c), c
    h, c = children[0]
    i, f, o, u = p[1](x, h)
    c = sg(i) * torch.tanh(u) + sg(f) * c
    return sg(o) * torch.tanh(c), c


def gates(inputs, **lines):
    """'name = FUNCTION(affine(inputs))' each."""
    return [f'{name} = {function}(affine({inputs}))' for name, function in lines.items()]


S, T = 'sigmoid', 'tanh'
PAIR = 'left.h, right.h'
CELLS = {
    'paper': (paper, {'leaf': ['c = affine(x)', 'h = sigmoid(affine(x)) * tanh(c)'],
                      'inner': gates(PAIR, i=S, l=S, r=S, u=T)
                      + ['c = i * u + l * left.c + r * right.c', 'h = tanh(c)']},
              [(DIM, 2), (2 * UNITS, 4)], 'binary'),
    'tai': (tai, {'leaf': gates('x', i=S, o=S, u=T) + ['c = i * u', 'h = o * tanh(c)'],
                  'inner': gates(PAIR, i=S, l=S, r=S, o=S, u=T)
                  + ['c = i * u + l * left.c + r * right.c', 'h = o * tanh(c)']},
            [(DIM, 3), (2 * UNITS, 5)], 'binary'),
    'child_sum': (child_sum, {'node': ['s = sum(child.h)'] + gates('x, s', i=S, o=S, u=T) +
                              ['c = i * u + sum(sigmoid(affine(x, child.h)) * child.c)', 'h = o * tanh(c)']},
                  [(DIM + UNITS, 3), (DIM + UNITS, 1)], 'any'),
    'elman': (elman, {'first': ['h = tanh(affine(x))'], 'next': ['h = tanh(affine(x, left.h))']},
              [(DIM, 1), (DIM + UNITS, 1)], 'chain'),
    'lstm': (lstm, {'first': gates('x', i=S, o=S, u=T) + ['c = i * u', 'h = o * tanh(c)'],
                    'next': gates('x, left.h', i=S, f=S, o=S, u=T) + ['c = i * u + f * left.c', 'h = o * tanh(c)']},
             [(DIM, 3), (DIM + UNITS, 4)], 'chain'),
}


def shape_draw(draw, shape, nodes_max=15):
    """Children of each node, children before parents."""
    if shape == 'chain':
        return [0] + [1] * draw.randrange(nodes_max)
    counts, stands = [], 0
    for _ in range(draw.randint(1, (nodes_max + 1) // 2 if shape == 'binary' else nodes_max)):
        if shape == 'binary':
            counts.append(0)
            stands += 1
            while stands > 1 and draw.random() < 0.4:
                counts.append(2)
                stands -= 1
        else:
            counts.append(draw.randint(0, min(stands, 4)))
            stands += 1 - counts[-1]
    while stands > 1:
        counts.append(2 if shape == 'binary' else stands)
        stands -= counts[-1] - 1
    return counts


def tree_run(cell, number, counts):
    """(name, array) of all that is told of the tree."""
    function, _, products, shape = CELLS[cell]
    has_word = [shape != 'binary' or count == 0 for count in counts]
    x = values(100 + 2 * number, sum(has_word), DIM).requires_grad_()
    weights = [values(2 * p, inputs, outputs * UNITS).requires_grad_() for p, (inputs, outputs) in enumerate(products)]
    biases = [values(2 * p + 1, outputs * UNITS).requires_grad_() for p, (_, outputs) in enumerate(products)]
    maps = [lambda *inputs, w=w, b=b: (torch.cat(inputs) @ w + b).split(UNITS) for w, b in zip(weights, biases)]
    stack, hs, word = [], [], 0
    for count, has in zip(counts, has_word):
        children = stack[len(stack) - count:]
        del stack[len(stack) - count:]
        stack.append(function(x[word] if has else None, children, maps))
        hs.append(stack[-1][0])
        word += has
    h = torch.stack(hs)
    (h * values(101 + 2 * number, len(counts), UNITS)).sum().backward()
    told = [('h', h.detach()), ('dx', x.grad)]
    for p, (w, b) in enumerate(zip(weights, biases)):
        told += [(f'dw{p}', w.grad), (f'db{p}', b.grad)]
    return [(name, torch.zeros(1) if a is None else a) for name, a in told]


def main():
    wanted = (sys.argv[1], int(sys.argv[2])) if len(sys.argv) == 3 else None
    for cell, (_, kinds, _, shape) in CELLS.items():
        draw = random.Random(f'trees of {cell}')
        if not wanted:
            print(f'cell {cell}')
            for kind, lines in kinds.items():
                print(f'kind {kind} {"; ".join(lines)}')
        for number in range(TREES):
            counts = shape_draw(draw, shape)
            if wanted and wanted != (cell, number):
                continue
            line = 'tree ' + ' '.join(map(str, counts))
            for name, a in tree_run(cell, number, counts):
                if wanted:
                    print(f'{name} {list(a.shape)}', a.tolist(), sep='\n')
                flat = a.reshape(-1)
                first, second = ((flat * values(300 + k, len(flat))).sum().item() for k in (0, 1))
                line += f' | {name} {first:.10g} {second:.10g} {flat.norm().item():.3g}'
            print(line)


if __name__ == "__main__":
    main()
