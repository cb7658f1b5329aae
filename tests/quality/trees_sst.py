#!/usr/bin/env python3
"""How well a Tree-LSTM trained from scratch tells the sentiment of the Stanford Sentiment Treebank: PyTorch
2's, and ours by the same recipe.

    python3 tests/quality/trees_sst.py DATA [--classes 5|2] [--seeds N] [--cell paper|tai]
    python3 tests/quality/trees_sst.py DATA [--classes 5|2] [--seeds N] --ours PROGRAM

DATA is a folder with train.txt, dev.txt and test.txt. Prints the recipe, then a line a seed, test accuracy at
the root after the pass that is best on dev, and the mean. Two classes: labels below and above 2; trees whose
root is 2 are dropped, other nodes of label 2 have no loss. PyTorch: pip install torch; one thread. --ours
compiles samples/sst.cfg, whose recipe is this one. Exit status 1: --ours could not be run."""
import argparse, json, os, random, statistics, subprocess, sys, tempfile, time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RECIPE = {'dim': 300, 'units': 150, 'batch': 25, 'rate': 0.05, 'row_rate': 0.05, 'l2': 1e-4, 'dropout': 0.5,
          'row_init': 0.05, 'passes': 12,
          'patience': 3}


def recipe_text(r):
    return (f'words of {r["dim"]}, uniform {r["row_init"]}; units {r["units"]}, glorot uniform a gate, biases 0; '
            f'dropout {r["dropout"]} of the words; adagrad {r["rate"]}, words\' {r["row_rate"]}; '
            f'l2 {r["l2"]} of all but words; batch {r["batch"]}, shuffled each pass; '
            'loss of all labelled nodes, summed over a tree; '
            f'the best of at most {r["passes"]} passes on dev, given up after {r["patience"]} worse ones')


def accuracy(net, batches):
    import torch
    net.eval()
    with torch.no_grad():
        hits = sum((net.by_level(b)[b.roots].argmax(1) == b.label[b.roots]).sum().item() for b in batches)
    return hits / sum(b.tree_count for b in batches)


def torch_train(parts, numbers, cell, classes, seed, r, is_told):
    """Test accuracy of the pass best on dev."""
    import torch
    from trees_net import Levels, Net, loss_of
    torch.manual_seed(seed)
    draw = random.Random(seed)
    train, dev, test = parts
    net = Net(len(numbers), cell, classes, r['dim'], r['units'], r['dropout'], r['row_init'])
    optimizers = [torch.optim.Adagrad(net.rows.parameters(), lr=r['row_rate']),
                  torch.optim.Adagrad(net.dense(), lr=r['rate'], weight_decay=r['l2'])]
    best, best_pass = (-1.0, 0.0), 0
    for number in range(1, r['passes'] + 1):
        begin, order = time.perf_counter(), list(train)
        draw.shuffle(order)
        net.train()
        for first in range(0, len(order), r['batch']):
            batch = Levels(order[first:first + r['batch']], numbers)
            for optimizer in optimizers:
                optimizer.zero_grad(set_to_none=True)
            loss_of(net.by_level(batch), batch.label, batch.tree_count).backward()
            for optimizer in optimizers:
                optimizer.step()
        found = accuracy(net, dev), accuracy(net, test)
        if is_told:
            seconds = time.perf_counter() - begin
            print(f'  pass {number:2d}   dev {found[0]:.4f}   test {found[1]:.4f}   {seconds:.1f} s', flush=True)
        if found[0] > best[0]:
            best, best_pass = found, number
        if number - best_pass >= r['patience']:
            break
    return best[1], best[0], best_pass


def two_classes_write(path, out):
    """Ours reads labels as they stand: 0 and 1; a node that is neither has none."""
    names = {'0': '0', '1': '0', '3': '1', '4': '1'}
    with open(path, encoding='utf-8') as text, open(out, 'w', encoding='utf-8') as to:
        for line in text:
            if line.strip() and line[1] != '2':
                parts = line.split('(')
                kinds = ['inner' if part[1:].isspace() else 'leaf' for part in parts]
                to.write('('.join(parts[:1]
                                  + [names.get(part[0], kind) + part[1:] for part, kind in zip(parts[1:], kinds[1:])]))


def ours_train(program, data, folder, classes, seed):
    """Accuracy on test of the model best on dev."""
    if classes == 2:
        for part in ('train', 'dev', 'test'):
            two_classes_write(f'{data}/{part}.txt', f'{folder}/{part}.txt')
        data = folder
    model, out = f'{folder}/model.bin', f'{folder}/out{seed}'
    units = [] if classes == 5 else ['--set', 'y.units=2']

    def run(*words):
        done = subprocess.run([program, *words], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f'trees_sst.py: {" ".join(words)}: {done.stderr}')
        return done.stdout

    run('compile', f'{ROOT}/samples/sst.cfg', '-o', model, '-q', '--set', f'train.seed={seed}', *units)
    run(model, '--data', f'{data}/train.txt', '--eval', f'{data}/dev.txt', '--out', out, '-q',
        '--set', 'train.stop=accuracy',
        '--set', f'train.epochs={RECIPE["passes"]}', '--set', f'train.patience={RECIPE["patience"]}')
    events = [json.loads(line) for line in run('eval', model, '--model', f'{out}/best', '--data', f'{data}/test.txt',
                                               '--log', 'json').splitlines()
              if line.startswith('{"event":"eval"')]
    return events[-1]['accuracy']


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('data')
    parser.add_argument('--classes', type=int, choices=(5, 2), default=5)
    parser.add_argument('--seeds', type=int, default=5)
    parser.add_argument('--cell', choices=('paper', 'tai'), default='paper')
    parser.add_argument('--set', action='append', default=[], metavar='KEY=VALUE',
                        help='another recipe, of PyTorch alone')
    parser.add_argument('--ours', metavar='PROGRAM')
    parser.add_argument('--passes', action='store_true', help='a line a pass')
    args = parser.parse_args()
    recipe = dict(RECIPE)
    for word in args.set:
        key, value = word.split('=')
        recipe[key] = type(recipe[key])(value)
    found = []
    print(f'recipe   {recipe_text(recipe)}', flush=True)
    if args.ours:
        with tempfile.TemporaryDirectory() as folder:
            for seed in range(1, args.seeds + 1):
                found.append(ours_train(os.path.abspath(args.ours), args.data, folder, args.classes, seed))
                print(f'seed {seed}   test {found[-1]:.4f}', flush=True)
    else:
        import torch
        from trees_net import Levels, trees_read, words_number
        torch.set_num_threads(1)
        train, dev, test = (trees_read(f'{args.data}/{part}.txt', args.classes) for part in ('train', 'dev', 'test'))
        numbers = words_number(train)
        whole = [[Levels(part[i:i + 100], numbers) for i in range(0, len(part), 100)] for part in (dev, test)]
        for seed in range(1, args.seeds + 1):
            test_hits, dev_hits, best_pass = torch_train((train, *whole), numbers, args.cell, args.classes,
                                                         seed, recipe, args.passes)
            found.append(test_hits)
            print(f'seed {seed}   test {test_hits:.4f}   dev {dev_hits:.4f}   of pass {best_pass}', flush=True)
    print(f'{args.classes} classes, mean of {len(found)}: {statistics.mean(found):.4f} '
          f'({min(found):.4f} - {max(found):.4f})')


main()
