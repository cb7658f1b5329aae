"""The binary constituency Tree-LSTM in PyTorch 2, node by node and by level: what trees_others.py times and
trees_sst.py trains.

Cell paper   DynPartition's: leaf c = Wx + b, h = sigmoid(W'x + b') tanh(c); inner i, f_l, f_r, u affine in [h_l; h_r],
             c = i u + f_l c_l + f_r c_r, h = tanh(c)
Cell tai     Tai et al. 2015, section 3.2: leaf i, o, u of x; inner i, f_l, f_r, u, o; h = o tanh(c)
At every labelled node: an affine map to classes and log-softmax loss; the sum is divided by the batch's
trees. Each word seen in training has a row; all others share one of zeros."""
import re

import torch
from torch import nn
from torch.nn import functional as F

GATES = {'paper': (2, 4), 'tai': (3, 5)}  # of a leaf, of an inner node


class Tree:
    """Nodes by number, children before parents: words [leaf], children [inner] pairs, label [node] (-1:
    none), is_leaf [node]."""

    def __init__(self, text, classes):
        self.words, self.label, self.children = [], [], []
        open_labels, stack, tokens = [], [], re.findall('[()]|[^() \\t\\r\\n]+', text)
        for at, token in enumerate(tokens):
            if tokens[at - 1] == '(' and at:
                open_labels.append(int(token))
            elif token == ')':
                label = open_labels.pop()
                if tokens[at - 2] == str(label) and tokens[at - 3] == '(':
                    self.words.append(tokens[at - 1])
                    self.children.append(None)
                else:
                    right = stack.pop()
                    self.children.append((stack.pop(), right))
                stack.append(len(self.children) - 1)
                self.label.append(label if classes == 5 else {0: 0, 1: 0, 2: -1, 3: 1, 4: 1}[label])
        if len(stack) != 1 or open_labels:
            raise ValueError(f'not one tree: {text}')
        self.height = []
        for pair in self.children:
            self.height.append(0 if pair is None else 1 + max(self.height[child] for child in pair))


def trees_read(path, classes=5):
    trees = [Tree(line, classes) for line in open(path, encoding='utf-8') if line.strip()]
    return [tree for tree in trees if tree.label[-1] >= 0]  # of two classes: roots that are neither are dropped


def words_number(trees):
    """Gives each word of these trees a row; row 0 is that of all others."""
    numbers = {}
    for tree in trees:
        for word in tree.words:
            numbers.setdefault(word, len(numbers) + 1)
    return numbers


class Levels:
    """What a batch's nodes need by level. The frontier are rows of [h; c] whose parents have not come yet; at
    each level one permutation brings it into the order left children, right children, rest."""

    def __init__(self, trees, numbers):
        words, frontier, label = [], [], []
        for t, tree in enumerate(trees):
            leaves = [n for n, pair in enumerate(tree.children) if pair is None]
            words += [numbers.get(word, 0) for word in tree.words]
            frontier += [(t, n) for n in leaves]
        parents = {}
        for t, tree in enumerate(trees):
            for n, pair in enumerate(tree.children):
                if pair is not None:
                    parents.setdefault(tree.height[n], []).append((t, n))
        order, self.steps = list(frontier), []
        for height in sorted(parents):
            nodes = parents[height]
            at = {node: i for i, node in enumerate(frontier)}
            taken = [at[t, trees[t].children[n][side]] for side in (0, 1) for t, n in nodes]
            gone = set(taken)
            rest = [i for i in range(len(frontier)) if i not in gone]
            self.steps.append((torch.tensor(taken + rest), len(nodes), len(rest)))
            frontier = nodes + [frontier[i] for i in rest]
            order += nodes
        label = [trees[t].label[n] for t, n in order]
        at = {node: i for i, node in enumerate(order)}
        self.words, self.label = torch.tensor(words), torch.tensor(label)
        self.roots = torch.tensor([at[t, len(tree.children) - 1] for t, tree in enumerate(trees)])
        self.tree_count = len(trees)

    def to(self, device):
        """Moves what passes read."""
        self.words, self.label = self.words.to(device), self.label.to(device)
        self.steps = [(order.to(device), count, rest) for order, count, rest in self.steps]
        return self


class Net(nn.Module):
    def __init__(self, word_count, cell='paper', classes=5, dim=300, units=150, dropout=0.0, row_init=0.05):
        super().__init__()
        self.cell, self.units, self.dropout = cell, units, dropout
        self.rows = nn.Embedding(word_count + 1, dim, sparse=True)
        leaf, inner = GATES[cell]
        self.leaf, self.inner, self.out = (nn.Linear(dim, leaf * units), nn.Linear(2 * units, inner * units),
                                           nn.Linear(units, classes))
        nn.init.uniform_(self.rows.weight, -row_init, row_init)
        with torch.no_grad():
            self.rows.weight[0] = 0
            for layer in (self.leaf, self.inner, self.out):  # each gate's map by itself: Glorot and Bengio
                for gate in layer.weight.split(units) if layer is not self.out else [layer.weight]:
                    nn.init.xavier_uniform_(gate)
                layer.bias.zero_()

    def dense(self):
        return [p for layer in (self.leaf, self.inner, self.out) for p in layer.parameters()]

    def leaves(self, words):
        x = F.dropout(self.rows(words), self.dropout, self.training)
        gates = self.leaf(x).chunk(GATES[self.cell][0], -1)
        if self.cell == 'paper':
            return torch.sigmoid(gates[1]) * torch.tanh(gates[0]), gates[0]
        c = torch.sigmoid(gates[0]) * torch.tanh(gates[2])
        return torch.sigmoid(gates[1]) * torch.tanh(c), c

    def parents(self, h, left_c, right_c):
        """h: [h_l; h_r]."""
        gates = self.inner(h).chunk(GATES[self.cell][1], -1)
        c = (torch.sigmoid(gates[0]) * torch.tanh(gates[3]) + torch.sigmoid(gates[1]) * left_c
             + torch.sigmoid(gates[2]) * right_c)
        return (torch.tanh(c) if self.cell == 'paper' else torch.sigmoid(gates[4]) * torch.tanh(c)), c

    def by_level(self, levels):
        """Scores of all nodes, in the order of levels.label."""
        h, c = self.leaves(levels.words)
        hs, frontier = [h], torch.cat((h, c), 1)
        for order, count, rest in levels.steps:
            left, right, kept = frontier.index_select(0, order).split((count, count, rest))
            h, c = self.parents(torch.cat((left[:, :self.units], right[:, :self.units]), 1),
                                left[:, self.units:], right[:, self.units:])
            hs.append(h)
            frontier = torch.cat((torch.cat((h, c), 1), kept))
        return self.out(torch.cat(hs))

    def by_node(self, tree, words):
        """Scores of a tree's nodes, a node at a time; words: a tensor of each leaf's."""
        state, scores, leaf = [], [], 0
        for pair in tree.children:
            if pair is None:
                h, c = self.leaves(words[leaf])
                leaf += 1
            else:
                (left_h, left_c), (right_h, right_c) = state[pair[0]], state[pair[1]]
                h, c = self.parents(torch.cat((left_h, right_h)), left_c, right_c)
            state.append((h, c))
            scores.append(self.out(h))
        return torch.stack(scores)


def loss_of(scores, label, tree_count):
    return F.cross_entropy(scores, label, ignore_index=-1, reduction='sum') / tree_count
