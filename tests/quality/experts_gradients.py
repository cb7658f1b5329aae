#!/usr/bin/env python3
"""Golden numbers of routed experts, by PyTorch's autograd in double precision: outputs and gradients.

    python3 tests/quality/experts_gradients.py >tests/golden/experts        pip install torch

All inputs follow from the text and from value(a, i), as in tests/quality/trees_gradients.py. Array 100 is x [B, K],
array 101 the gate's logits [B, E], array 102 the factors [B, N] by which the output is summed. Arrays 0, 1, … are the
parameters: with a hidden layer its weights [E, K, H] and biases [E, H], then the outputs' weights [E, H or K, N] and
biases [E, N].

A line: experts B K E N H top capacity balance activation | ARRAY a b n | …; for out, dx, dg, then d0, d1, … of the
parameters: gradients of f = sum(out * factors) + balance * E * sum over examples of sum_e s_e p_e, where s_e is the
share of e in all choices, and p the softmax of the logits. An example's first choice is the greatest logit, of equal
ones the first, and so on. An expert takes ceil(capacity * top * B / E) choices (0: all), first choices before second
ones, then in the order of examples. Projections a, b and norm n are as in trees_gradients.py."""
import math
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import torch
from trees_gradients import values

torch.set_default_dtype(torch.float64)
ACTIVATIONS = {'none': lambda z: z, 'relu': torch.relu, 'sigmoid': torch.sigmoid, 'tanh': torch.tanh,
               'softsign': torch.nn.functional.softsign}
SHAPES = [(1, 3, 2, 4, 0), (7, 3, 4, 2, 5), (12, 5, 3, 4, 0), (20, 4, 8, 3, 6), (16, 6, 5, 5, 4)]


def chosen_of(logits, top, capacity):
    """[(example, expert, whether it had room)] by rank, then by example; and each example's experts."""
    B, E = logits.shape
    order = [sorted(range(E), key=lambda e: (-logits[b, e].item(), e))[:top] for b in range(B)]
    most = max(1, math.ceil(capacity * top * B / E)) if capacity else B * top
    count, choices = [0] * E, []
    for j in range(top):
        for b in range(B):
            e = order[b][j]
            choices.append((b, e, count[e] < most))
            count[e] += count[e] < most
    return choices, order


def run(shape, top, capacity, balance, activation):
    B, K, E, N, H = shape
    x, logits = values(100, B, K).requires_grad_(), values(101, B, E).requires_grad_()
    sizes = ([(E, K, H), (E, H)] if H else []) + [(E, H or K, N), (E, N)]
    params = [values(i, *size).requires_grad_() for i, size in enumerate(sizes)]
    act = ACTIVATIONS[activation]
    p = torch.softmax(logits, 1)
    choices, order = chosen_of(logits, top, capacity)
    out = [torch.zeros(N) for _ in range(B)]
    for b, e, has_room in choices:
        if not has_room:
            continue
        y = act(x[b] @ params[0][e] + params[1][e])
        if H:
            y = y @ params[2][e] + params[3][e]
        gate = p[b, e] if top == 1 else p[b, e] / sum(p[b, i] for i in order[b])
        out[b] = out[b] + gate * y
    share = torch.zeros(E)
    for _, e, _ in choices:
        share[e] += 1 / len(choices)
    out = torch.stack(out)
    ((out * values(102, B, N)).sum() + balance * E * (p * share).sum()).backward()
    told = ([('out', out.detach()), ('dx', x.grad), ('dg', logits.grad)]
            + [(f'd{i}', a.grad) for i, a in enumerate(params)])
    return [(name, torch.zeros(1) if a is None else a) for name, a in told]


def main():
    number = 0
    for shape in SHAPES:
        for top in sorted({1, 2, shape[2]}):
            for capacity in (0, 0.625, 1.25):
                activation, balance = list(ACTIVATIONS)[number % len(ACTIVATIONS)], (0, 0.25)[number % 2]
                line = 'experts ' + ' '.join(map(str, (*shape, top, capacity, balance, activation)))
                for name, a in run(shape, top, capacity, balance, activation):
                    flat = a.reshape(-1)
                    first, second = ((flat * values(300 + k, len(flat))).sum().item() for k in (0, 1))
                    line += f' | {name} {first:.10g} {second:.10g} {flat.norm().item():.3g}'
                print(line)
                number += 1


if __name__ == "__main__":
    main()
