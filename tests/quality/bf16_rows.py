#!/usr/bin/env python3
"""What tables in bfloat16 cost in AUC: DeepFM with `store = bf16` in every [table] beside the same in
float32, seed by seed.

    python3 tests/quality/bf16_rows.py DATA [--heterps PATH] [--only NAME] [--seeds 10] [--rows 2000000]

DATA is a folder with adult, criteo_kaggle and frappe (tests/e2e/lib.sh says which files); a set that is not there is
left out. `gen` is generated rows: --rows to train on, a tenth of them to measure on. Prints a line a set: the mean of
the paired differences (bf16 less float32) and its 95 % interval by Student's t, with ! before it where the mean is
farther than 0.001 from 0. With few rows a seed's differences are noise of the order of this interval."""
import argparse, math, os, re, statistics, subprocess, tempfile

import defaults

# Quantiles 0.975 of Student's t, by degrees of freedom.
STUDENT = [0, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131]
BOUND = 0.001


def stored(text, store):
    return re.sub(r'^(\[table [^\]]*\])$', rf'\1\nstore = {store}', text, flags=re.M)


def generated(heterps, folder, rows):
    for part, count, skip in (('train', rows, 0), ('test', rows // 10, rows)):
        subprocess.run([heterps, 'gen', 'criteo', '--rows', str(count), '--skip', str(skip), '--seed', '1', '-o',
                        f'{folder}/gen.{part}', '-q'], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('data')
    parser.add_argument('--heterps', default=os.path.join(defaults.ROOT, 'heterps-run'))
    parser.add_argument('--only', action='append')
    parser.add_argument('--seeds', type=int, default=10)
    parser.add_argument('--rows', type=int, default=2000000)
    o = parser.parse_args()
    if not 2 <= o.seeds < len(STUDENT) + 1:
        parser.error(f'--seeds: expected 2 to {len(STUDENT)}')
    heterps = os.path.abspath(o.heterps)
    with tempfile.TemporaryDirectory() as folder:
        names = defaults.prepare(o.data, folder) + ['gen']
        print(f'{"set":9} {"f32":>8} {"bf16":>8} {"difference":>11}   95 % of the mean')
        for name in names:
            if o.only and name not in o.only:
                continue
            if name == 'gen':
                generated(heterps, folder, o.rows)
                text = open(f'{defaults.ROOT}/samples/deepfm.cfg').read()
            else:
                text = defaults.text_of('deepfm', name, True)
            auc = {store: [defaults.ours(heterps, folder, stored(text, store), f'{folder}/{name}.train',
                                         f'{folder}/{name}.test', 'auc', [f'train.seed={seed}', 'store.ram=256MiB'])
                           for seed in range(1, o.seeds + 1)] for store in ('f32', 'bf16')}
            apart = [b - a for a, b in zip(auc['f32'], auc['bf16'])]
            mean, half = statistics.mean(apart), STUDENT[o.seeds - 1] * statistics.stdev(apart) / math.sqrt(o.seeds)
            print(f'{name:9} {statistics.mean(auc["f32"]):8.5f} {statistics.mean(auc["bf16"]):8.5f} {mean:+11.5f}   '
                  f'{mean - half:+.5f} … {mean + half:+.5f}{"" if abs(mean) <= BOUND else "  !"}', flush=True)


if __name__ == '__main__':
    main()
