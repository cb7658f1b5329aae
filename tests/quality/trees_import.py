#!/usr/bin/env python3
"""Whether our Tree-LSTM, with the imported weights of PyTorch's, predicts the same.

    python3 tests/quality/trees_import.py DATA PROGRAM [--trees 200]

DATA is a folder with train.txt of the Stanford Sentiment Treebank. For each cell of trees_net.py a net with random
weights and biases is written as a .safetensors file, as PyTorch has it: weights [outputs, inputs], gates one below the
other. PROGRAM imports it by a map of names and predicts every node's classes. Prints the greatest difference of a
probability. Exit status 1: a difference is above 1e-5."""
import argparse, json, os, struct, subprocess, sys, tempfile

import torch

from trees_net import Net, Tree, words_number
from trees_others import CELLS, CLASSES, DIM, UNITS, ours_text

NAMES = """leaf.weight  = t.weight0.0
leaf.bias    = t.bias0.0
inner.weight = t.weight1.0
inner.bias   = t.bias1.0
out.weight   = y.weight
out.bias     = y.bias
rows         = words.vectors
"""
LIMIT = 1e-5


def safetensors_write(path, tensors):
    header, data = {}, b''
    for name, tensor in tensors.items():
        number = tensor.contiguous().flatten().tolist()
        header[name] = {'dtype': 'F32', 'shape': list(tensor.shape),
                        'data_offsets': [len(data), len(data) + 4 * len(number)]}
        data += struct.pack(f'<{len(number)}f', *number)
    text = json.dumps(header).encode()
    with open(path, 'wb') as out:
        out.write(struct.pack('<Q', len(text)) + text + data)


def difference(program, cell, lines, folder):
    trees = [Tree(line, CLASSES) for line in lines]
    numbers = words_number(trees)
    torch.manual_seed(1)
    net = Net(len(numbers), cell, CLASSES, DIM, UNITS, row_init=0.5)
    with torch.no_grad():
        for layer in (net.leaf, net.inner, net.out):
            layer.bias.uniform_(-0.5, 0.5)
    foreign, graph, model, data = (f'{folder}/{name}' for name in ('foreign', 'graph.bin', 'model', 'data.txt'))
    os.makedirs(foreign, exist_ok=True)
    tensors = {f'{name}.{part}': getattr(getattr(net, name), part).detach() for name in ('leaf', 'inner', 'out')
               for part in ('weight', 'bias')}
    safetensors_write(f'{foreign}/net.safetensors', tensors | {'rows': net.rows.weight.detach()[1:]})
    for path, text in ((f'{foreign}/words.words.txt', ''.join(word + '\n' for word in numbers)), (data, ''.join(lines)),
                       (f'{folder}/names', NAMES), (f'{folder}/model.cfg', ours_text(cell, trees))):
        with open(path, 'w', encoding='utf-8') as out:
            out.write(text)
    for command in (['compile', f'{folder}/model.cfg', '-o', graph],
                    ['import', graph, foreign, '--map', f'{folder}/names',
                     '--transpose', 't.weight0.0,t.weight1.0,y.weight', '--strict',
                     '--out', model],
                    ['predict', graph, '--model', model, '--data', data, '--tree-nodes', '-o', f'{folder}/out']):
        subprocess.run([program] + command, check=True, stdout=subprocess.DEVNULL)
    with open(f'{folder}/out', encoding='utf-8') as text:
        found = [[float(word) for word in line.split('\t')[2].split()] for line in text]
    expected = []
    with torch.no_grad():
        for tree in trees:
            expected += torch.softmax(net.by_node(tree,
                                                  torch.tensor([numbers[word] for word in tree.words])), 1).tolist()
    if len(found) != len(expected):
        sys.exit(f'trees_import.py: expected {len(expected)} nodes, found {len(found)}')
    return max(abs(a - b) for x, y in zip(found, expected) for a, b in zip(x, y)), len(found)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('data')
    parser.add_argument('program')
    parser.add_argument('--trees', type=int, default=200)
    args = parser.parse_args()
    with open(f'{args.data}/train.txt', encoding='utf-8') as text:
        lines = text.readlines()[:args.trees]
    worst = 0
    for cell in CELLS:
        with tempfile.TemporaryDirectory() as folder:
            found, nodes = difference(os.path.abspath(args.program), cell, lines, folder)
        print(f'{cell:6s} {nodes} nodes, {CLASSES} classes: greatest difference {found:.1e}, {LIMIT:.0e} allowed')
        worst = max(worst, found)
    return worst > LIMIT


if __name__ == '__main__':
    sys.exit(main())
