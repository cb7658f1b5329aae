#!/usr/bin/env python3
"""How fast others run the binary Tree-LSTM on the Stanford Sentiment Treebank, trees a second, beside ours.

    python3 tests/quality/trees_peers.py DATA [--rounds 5] [--seconds 3] [--only PATTERN] [--json FILE]
        [--dgl-python PYTHON] [--heterps PROGRAM --graph GRAPH]

DATA has train.txt. Words of 300, 150 units, five classes at every node (trees_net.py: cells paper and tai). Peers, each in a process of its own,
left out with a sentence if it is not installed:
    node    PyTorch 2, a node at a time, as the paper's code does              pip install torch
    level   PyTorch 2, all nodes of equal height of the batch at once          (measured with 2.15.0)
    dynet   DyNet with autobatching; its CPU form has one thread               pip install dynet38 (2.2)
    dgl     DGL, prop_nodes_topo                                               of PYTHON: it needs another PyTorch than the newest; pip install
            dgl==2.1.0 torch==2.2.1 torchdata==0.7.1 'numpy<2' 'setuptools<70' pandas pyyaml pydantic
A case is PEER-CELL-train|infer-BATCH-THREADS; train is forward, backward and Adagrad's update; --only is a regular expression that cases
match. Trees are parsed before the clock starts; what a peer makes of a batch, levels or graphs, is on it. A round runs each case once; the figure
is the rounds' median. With --heterps and --graph, a compiled graph of that cell and size, ours is run in turn with every training case of its cell
(--cell), and each round gives a ratio of two neighbours in time."""
import argparse, json, os, re, statistics, subprocess, sys, time

DIM, UNITS, CLASSES, RATE, TREES = 300, 150, 5, 0.05, 1000
PEERS, CELLS, WORKS, BATCHES, THREADS = ('node', 'level', 'dynet', 'dgl'), ('paper', 'tai'), ('train', 'infer'), (25, 1), (1, 2)

# --- peers: each returns a function that trains on, or infers, a list of trees -------------------------------------------


def torch_pass(work, scores_of, optimizers):
    """What trains on trees, or infers: scores_of(trees) gives scores and labels of their nodes."""
    import torch
    from trees_net import loss_of

    def train(trees):
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        loss_of(*scores_of(trees), len(trees)).backward()
        for optimizer in optimizers:
            optimizer.step()

    def infer(trees):
        with torch.no_grad():
            scores_of(trees)[0].argmax(1)

    return train if work == 'train' else infer


def torch_peer(name, cell, work, numbers, threads):
    import torch
    from trees_net import Levels, Net
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    net = Net(len(numbers), cell, CLASSES, DIM, UNITS)
    optimizers = [torch.optim.Adagrad(p, lr=RATE) for p in (net.rows.parameters(), net.dense())]

    def scores_of(trees):
        if name == 'level':
            batch = Levels(trees, numbers)
            return net.by_level(batch), batch.label
        scores = [net.by_node(tree, torch.tensor([numbers[word] for word in tree.words])) for tree in trees]
        return torch.cat(scores), torch.tensor([label for tree in trees for label in tree.label])

    return torch_pass(work, scores_of, optimizers)


def dynet_peer(name, cell, work, numbers, threads):
    import dynet_config
    dynet_config.set(autobatch=1, mem=2048, random_seed=1)
    import dynet as dy
    if threads > 1:
        raise ImportError('DyNet has one thread on processors')
    from trees_net import GATES
    model = dy.ParameterCollection()
    rows = model.add_lookup_parameters((len(numbers) + 1, DIM))
    leaf, inner = GATES[cell]
    shapes = [(UNITS, DIM)] * leaf, [(UNITS, 2 * UNITS)] * inner, [(CLASSES, UNITS)]
    layers = [(model.add_parameters((sum(s[0] for s in group), group[0][1])), model.add_parameters(sum(s[0] for s in group)))
              for group in shapes]
    trainer = dy.AdagradTrainer(model, RATE)

    def gates_of(layer, x, count):
        all_gates = dy.affine_transform([layer[1], layer[0], x])
        return [dy.pick_range(all_gates, i * UNITS, (i + 1) * UNITS) for i in range(count)]

    def scores_of(tree):
        state, words, out = [], iter(tree.words), []
        for pair in tree.children:
            if pair is None:
                g = gates_of(layers[0], rows[numbers[next(words)]], leaf)
                if cell == 'paper':
                    c, o = g[0], dy.logistic(g[1])
                else:
                    c, o = dy.cmult(dy.logistic(g[0]), dy.tanh(g[2])), dy.logistic(g[1])
                h = dy.cmult(o, dy.tanh(c))
            else:
                (left_h, left_c), (right_h, right_c) = state[pair[0]], state[pair[1]]
                g = gates_of(layers[1], dy.concatenate([left_h, right_h]), inner)
                c = (dy.cmult(dy.logistic(g[0]), dy.tanh(g[3])) + dy.cmult(dy.logistic(g[1]), left_c) +
                     dy.cmult(dy.logistic(g[2]), right_c))
                h = dy.tanh(c) if cell == 'paper' else dy.cmult(dy.logistic(g[4]), dy.tanh(c))
            state.append((h, c))
            out.append(dy.affine_transform([layers[2][1], layers[2][0], h]))
        return out

    def train(trees):
        dy.renew_cg()
        losses = [dy.pickneglogsoftmax(s, label) for tree in trees for s, label in zip(scores_of(tree), tree.label)]
        loss = dy.esum(losses) * (1 / len(trees))
        loss.forward()
        loss.backward()
        trainer.update()

    def infer(trees):
        dy.renew_cg()
        dy.concatenate_cols([s for tree in trees for s in scores_of(tree)]).npvalue().argmax(0)

    step = train if work == 'train' else infer
    step.keeps = model  # the trainer and the parameters do not
    return step


def dgl_peer(name, cell, work, numbers, threads):
    os.environ['DGLBACKEND'] = 'pytorch'
    import dgl
    import torch
    from trees_net import Net
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    net = Net(len(numbers), cell, CLASSES, DIM, UNITS)
    optimizers = [torch.optim.Adagrad(p, lr=RATE) for p in (net.rows.parameters(), net.dense())]

    def message(edges):
        return {'h': edges.src['h'], 'c': edges.src['c']}

    def reduce(nodes):  # edges are in the order left, right
        h, c = nodes.mailbox['h'], nodes.mailbox['c']
        h, c = net.parents(h.reshape(len(h), -1), c[:, 0], c[:, 1])
        return {'h': h, 'c': c}

    def scores_of(trees):
        from_, to, leaves, words, first = [], [], [], [], 0
        for tree in trees:
            words += [numbers[word] for word in tree.words]
            for n, pair in enumerate(tree.children):
                if pair is None:
                    leaves.append(first + n)
                else:
                    from_ += [first + pair[0], first + pair[1]]
                    to += [first + n] * 2
            first += len(tree.children)
        graph, leaves = dgl.graph((torch.tensor(from_), torch.tensor(to)), num_nodes=first), torch.tensor(leaves)
        h, c = net.leaves(torch.tensor(words))
        zeros = torch.zeros(first, UNITS)
        graph.ndata['h'], graph.ndata['c'] = zeros.index_copy(0, leaves, h), zeros.index_copy(0, leaves, c)
        levels = dgl.topological_nodes_generator(graph)[1:]  # the first are leaves
        graph.prop_nodes(levels, message, reduce)
        return net.out(graph.ndata['h']), torch.tensor([label for tree in trees for label in tree.label])

    return torch_pass(work, scores_of, optimizers)


def case_run(data, case, seconds):
    """In a process of its own: prints trees a second."""
    peer, cell, work, batch, threads = case.split('-')
    os.environ['OMP_NUM_THREADS'] = threads
    from trees_net import Tree, words_number
    with open(f'{data}/train.txt', encoding='utf-8') as text:
        lines = text.readlines()
    trees = [Tree(line, CLASSES) for line in lines]
    numbers, batch = words_number(trees), int(batch)
    trees = trees[:TREES]
    try:
        step = {'dynet': dynet_peer, 'dgl': dgl_peer}.get(peer, torch_peer)(peer, cell, work, numbers, int(threads))
    except ImportError as error:
        sys.exit(f'{peer} is left out: {error}')
    for first in range(0, 4 * batch, batch):
        step(trees[first:first + batch])
    begin, done = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds:
        first = (4 * batch + done) % (TREES - TREES % batch)
        step(trees[first:first + batch])
        done += batch
    print(done / (time.perf_counter() - begin))


# --- ours, rounds, table ----------------------------------------------------------------------------------------------------


def ours_run(program, graph, data, batch, threads, passes=3):
    """Trees a second of a training of so many passes."""
    done = subprocess.run([program, graph, '--data', f'{data}/train.txt', '--log', 'json', '--threads', str(threads), '--set',
                           f'train.batch={batch}', '--set', f'train.epochs={passes}'], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    speeds = [json.loads(line)['samples_per_s'] for line in done.stdout.splitlines() if line.startswith('{"event":"done"')]
    if done.returncode or not speeds:
        sys.exit(f'trees_peers.py: {program} {graph}: {done.stderr}')
    return speeds[-1]


def peer_run(python, data, case, seconds):
    done = subprocess.run([python, '-W', 'ignore', os.path.abspath(__file__), data, '--case', case, '--seconds', str(seconds)],
                          capture_output=True, text=True)
    if done.returncode:
        return None, (done.stderr.strip().splitlines() or ['no output'])[-1]
    return float(done.stdout.split()[-1]), None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('data')
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--seconds', type=float, default=3)
    parser.add_argument('--only', default='')
    parser.add_argument('--json')
    parser.add_argument('--dgl-python', default=sys.executable)
    parser.add_argument('--heterps')
    parser.add_argument('--graph')
    parser.add_argument('--cell', choices=CELLS, default='paper', help="the graph's")
    parser.add_argument('--case', help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.case:
        return case_run(args.data, args.case, args.seconds)
    if bool(args.heterps) != bool(args.graph):
        parser.error('--heterps and --graph belong together')
    cases = [f'{p}-{c}-{w}-{b}-{t}' for c in CELLS for w in WORKS for b in BATCHES for t in THREADS for p in PEERS]
    cases = [case for case in cases if re.search(args.only, case) and not (case.startswith('dynet') and case[-1] != '1')]
    speeds, ratios, out = {case: [] for case in cases}, {case: [] for case in cases}, set()
    for number in range(args.rounds):
        for case in cases:
            if case in out:
                continue
            peer, cell, work, batch, threads = case.split('-')
            speed, why = peer_run(args.dgl_python if peer == 'dgl' else sys.executable, args.data, case, args.seconds)
            if why:
                print(f'{case}: {why}', file=sys.stderr)
                out.add(case)
                continue
            speeds[case].append(speed)
            if args.heterps and work == 'train' and cell == args.cell:
                ratios[case].append(ours_run(os.path.abspath(args.heterps), args.graph, args.data, batch, threads) / speed)
        print(f'round {number + 1} of {args.rounds}', file=sys.stderr)
    print(f'{"case":26s} {"trees/s":>9s} {"least":>9s} {"greatest":>9s}   ours/peer   (medians of {args.rounds})')
    told = []
    for case in cases:
        if not speeds[case]:
            continue
        row = {'case': case, 'trees_per_s': statistics.median(speeds[case]), 'least': min(speeds[case]), 'greatest': max(speeds[case])}
        line = f'{case:26s} {row["trees_per_s"]:9.1f} {row["least"]:9.1f} {row["greatest"]:9.1f}'
        if ratios[case]:
            row['ratio'] = statistics.median(ratios[case])
            line += f'   {row["ratio"]:9.2f}   ({min(ratios[case]):.2f} - {max(ratios[case]):.2f})'
        told.append(row)
        print(line)
    if args.json:
        with open(args.json, 'w') as file:
            json.dump(told, file, indent=1)


main()
