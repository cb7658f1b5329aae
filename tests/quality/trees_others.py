#!/usr/bin/env python3
"""How fast others run the binary Tree-LSTM on the Stanford Sentiment Treebank, trees a second, beside ours.

    python3 tests/quality/trees_others.py DATA [--rounds 5] [--seconds 3] [--only PATTERN] [--json FILE]
        [--dgl-python PYTHON] [--heterps PROGRAM] [--batches 25,1]

DATA has train.txt. Words of 300, 150 units, five classes at every node (trees_net.py: cells paper and tai). Each other
program runs in a process of its own, and is left out with a sentence if it is not installed:
    node    PyTorch 2, a node at a time, as the paper's code does              pip install torch
    level   PyTorch 2, all nodes of equal height of the batch at once          (measured with 2.15.0)
    card    the same on a card, beside ours with all layers there (--only card; --batches 25,256)
    dynet   DyNet with autobatching; its CPU form has one thread               pip install dynet38 (2.2)
    dgl     DGL, prop_nodes_topo                                               of PYTHON: it needs another
            PyTorch than the newest; pip install dgl==2.1.0 torch==2.2.1 torchdata==0.7.1 'numpy<2'
            'setuptools<70' pandas pyyaml pydantic
A case is OTHER-CELL-train|infer-BATCH-THREADS; train is forward, backward and Adagrad's update; --only is a
regular expression that cases match. Trees are parsed before the clock starts; what a program makes of a
batch, levels or graphs, is on the clock. A round runs each case once; the figure is the rounds' median. With
--heterps ours, of the same cell, sizes and recipe, runs in turn with every training case. Each round then
gives two ratios of two neighbours in time: of trees a second by the clock, and by the processor's time of one
thread, which is what counts on a machine that others use. Ours reads its text within the time. Its share of
the peak is that of the products' multiply-adds, whose peak `heterps-run bench gemm` measures."""
import argparse, json, os, re, resource, statistics, subprocess, sys, tempfile, time

DIM, UNITS, CLASSES, RATE, TREES = 300, 150, 5, 0.05, 1000
OTHERS, CELLS, WORKS, THREADS = ('node', 'level', 'card', 'dynet', 'dgl'), ('paper', 'tai'), ('train', 'infer'), (1, 2)
LAYERS = 4  # of ours_text

# --- other programs: each returns a function that trains on, or infers, a list of trees -------------------------------


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


def by_torch(name, cell, work, numbers, threads):
    import torch
    from trees_net import Levels, Net
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    if name == 'card' and not torch.cuda.is_available():
        raise ImportError('there is no card for PyTorch')
    place = 'cuda' if name == 'card' else 'cpu'
    net = Net(len(numbers), cell, CLASSES, DIM, UNITS).to(place)
    optimizers = [torch.optim.Adagrad(p, lr=RATE) for p in (net.rows.parameters(), net.dense())]

    def scores_of(trees):
        if name != 'node':
            batch = Levels(trees, numbers).to(place)
            return net.by_level(batch), batch.label
        scores = [net.by_node(tree, torch.tensor([numbers[word] for word in tree.words])) for tree in trees]
        return torch.cat(scores), torch.tensor([label for tree in trees for label in tree.label])

    return torch_pass(work, scores_of, optimizers)


def by_dynet(name, cell, work, numbers, threads):
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
    layers = [(model.add_parameters((sum(s[0] for s in group), group[0][1])),
               model.add_parameters(sum(s[0] for s in group)))
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


def by_dgl(name, cell, work, numbers, threads):
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


def card_wait(other):
    """Waits for a card, which works on when a call has returned."""
    if other == 'card':
        import torch
        torch.cuda.synchronize()


def case_run(data, case, seconds):
    """In a process of its own: prints trees a second."""
    other, cell, work, batch, threads = case.split('-')
    os.environ['OMP_NUM_THREADS'] = threads
    from trees_net import Tree, words_number
    with open(f'{data}/train.txt', encoding='utf-8') as text:
        lines = text.readlines()
    trees = [Tree(line, CLASSES) for line in lines]
    numbers, batch = words_number(trees), int(batch)
    trees = trees[:TREES]
    try:
        step = {'dynet': by_dynet, 'dgl': by_dgl}.get(other, by_torch)(other, cell, work, numbers, int(threads))
    except ImportError as error:
        sys.exit(f'{other} is left out: {error}')
    for first in range(0, 4 * batch, batch):
        step(trees[first:first + batch])
    card_wait(other)
    begin, begin_cpu, done = time.perf_counter(), time.process_time(), 0
    while time.perf_counter() - begin < seconds:
        first = (4 * batch + done) % (TREES - TREES % batch)
        step(trees[first:first + batch])
        done += batch
    card_wait(other)
    print(done / (time.perf_counter() - begin), done / (time.process_time() - begin_cpu))


# --- ours, rounds, table ----------------------------------------------------------------------------------------------


# Gates in the order of trees_net.py's.
OURS_LEAF = {'paper': 'c = affine(x)\nh = sigmoid(affine(x)) * tanh(c)\n',
             'tai': 'i = sigmoid(affine(x))\no = sigmoid(affine(x))\nc = i * tanh(affine(x))\nh = o * tanh(c)\n'}
OURS_INNER = """i = sigmoid(affine(left.h, right.h))
l = sigmoid(affine(left.h, right.h))
r = sigmoid(affine(left.h, right.h))
u = tanh(affine(left.h, right.h))
c = i * u + l * left.c + r * right.c
"""
OURS_OUT = {'paper': 'h = tanh(c)\n', 'tai': 'h = sigmoid(affine(left.h, right.h)) * tanh(c)\n'}


def ours_text(cell, trees):
    """The model of trees_net.py with this recipe, for the longest of these trees."""
    words = max(len(tree.words) for tree in trees)
    nodes = max(len(tree.children) for tree in trees)
    return f"""[model]
name = other
[data]
format = trees
sparse = word, tree
label = label
[column word]
ids_max = {words}
[column tree]
ids_max = {nodes}
[table words]
dim = {DIM}
init = uniform 0.05
optimizer = adagrad {RATE}
[embedding e]
table = words
input = word
pool = none
[cell leaf]
{OURS_LEAF[cell]}
[cell inner]
{OURS_INNER}{OURS_OUT[cell]}
[tree t]
input = tree, e
units = {UNITS}
dim = {DIM}
state = h, c
gives = nodes
[fc y]
input = t
groups = {nodes}
units = {CLASSES}
[loss sentiment]
kind = softmax_nodes
input = y, tree
[train]
optimizer = adagrad {RATE}
"""


def ours_compile(program, cell, data, folder):
    from trees_net import Tree
    path = f'{folder}/{cell}.bin'
    with open(f'{data}/train.txt', encoding='utf-8') as text:
        trees = [Tree(line, CLASSES) for line in text]
    with open(f'{folder}/{cell}.cfg', 'w', encoding='utf-8') as out:
        out.write(ours_text(cell, trees))
    subprocess.run([program, 'compile', out.name, '-o', path], check=True, stdout=subprocess.DEVNULL)
    return path


def card_plan(folder):
    """A plan that gives all layers to the first card."""
    path = f'{folder}/card.json'
    with open(path, 'w', encoding='utf-8') as out:
        json.dump({'format': 'heterps-solution-1', 'types': [{'name': 'card', 'device': 'cuda:0', 'price_per_hour': 1}],
                   'stages': [{'first': 0, 'last': LAYERS - 1, 'type': 0, 'k': 1}]}, out)
    return path


def ours_run(program, graph, data, batch, threads, passes=3, plan=None):
    """Trees a second of a training of so many passes, by the clock and by the processor's time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([program, graph, '--data', f'{data}/train.txt', '--log', 'json',
                           '--threads', str(threads), '--set',
                           f'train.batch={batch}', '--set', f'train.epochs={passes}']
                          + (['--plan', plan] if plan else []), capture_output=True, text=True,
                          stdin=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    ends = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"event":"done"')]
    if done.returncode or not ends:
        sys.exit(f'trees_others.py: {program} {graph}: {done.stderr}')
    cpu_s = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return ends[-1]['samples_per_s'], ends[-1]['samples'] / cpu_s


def other_run(python, data, case, seconds):
    done = subprocess.run([python, '-W', 'ignore', os.path.abspath(__file__), data, '--case', case,
                           '--seconds', str(seconds)],
                          capture_output=True, text=True)
    if done.returncode:
        return (None, None), (done.stderr.strip().splitlines() or ['no output'])[-1]
    return [float(word) for word in done.stdout.split()[-2:]], None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('data')
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--seconds', type=float, default=3)
    parser.add_argument('--only', default='')
    parser.add_argument('--json')
    parser.add_argument('--dgl-python', default=sys.executable)
    parser.add_argument('--heterps')
    parser.add_argument('--batches', default='25,1')
    parser.add_argument('--passes', type=int, default=3, help='of ours over the data')
    parser.add_argument('--case', help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.case:
        return case_run(args.data, args.case, args.seconds)
    cases = [f'{p}-{c}-{w}-{b}-{t}' for c in CELLS for w in WORKS for b in args.batches.split(',')
             for t in THREADS for p in OTHERS]
    cases = [case for case in cases if re.search(args.only, case)
             and not (case.startswith('dynet') and case[-1] != '1')]
    out, found = set(), {case: {'other': [], 'ours': [], 'clock': [], 'cpu': []} for case in cases}
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.abspath(args.heterps) if args.heterps else None
        plan = card_plan(folder)
        graphs = {cell: ours_compile(program, cell, args.data, folder) for cell in CELLS} if program else {}
        for number in range(args.rounds):
            for case in cases:
                if case in out:
                    continue
                other, cell, work, batch, threads = case.split('-')
                speed, why = other_run(args.dgl_python if other == 'dgl' else sys.executable,
                                       args.data, case, args.seconds)
                if why:
                    print(f'{case}: {why}', file=sys.stderr)
                    out.add(case)
                    continue
                found[case]['other'].append(speed[0])
                if program and work == 'train':
                    ours = ours_run(program, graphs[cell], args.data, batch, threads, args.passes,
                                    plan if other == 'card' else None)
                    found[case]['ours'].append(ours[0])
                    found[case]['clock'].append(ours[0] / speed[0])
                    if threads == '1':
                        found[case]['cpu'].append(ours[1] / speed[1])
            print(f'round {number + 1} of {args.rounds}', file=sys.stderr)
    print(f'{"case":22s} {"other":>9s} {"ours":>9s}  trees/s   ours/other by the clock       '
          f'by the processor\'s time   (medians of {args.rounds})')
    told = []
    for case in cases:
        if case in out:
            continue
        row = {'case': case} | {name: statistics.median(values) for name, values in found[case].items() if values}
        line = f'{case:22s} {row["other"]:9.1f} {row.get("ours", 0):9.1f}         '
        for name in ('clock', 'cpu'):
            values = found[case][name]
            line += f'   {row[name]:8.2f} ({min(values):.2f} - {max(values):.2f})' if values else ''
        told.append(row)
        print(line)
    if args.json:
        with open(args.json, 'w') as file:
            json.dump(told, file, indent=1)


if __name__ == "__main__":
    main()
