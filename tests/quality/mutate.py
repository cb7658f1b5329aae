#!/usr/bin/env python3
"""Plants small bugs, one at a time, and says whether the tests notice.

    python3 tests/quality/mutate.py [FILE|FOLDER ...] [--count N] [--seed S] [--list] [--again ID,...] [--jobs J]
                                    [--work DIR] [--most N]
    python3 tests/quality/mutate.py --check

A bug is a comparison turned, 1 more or less at a bound or an index, a statement left out, neighbouring arguments
exchanged, another constant or default, && for || or a term of them dropped, + for - (mutations.py). The seed draws
lines, and for each line a bug. A bug that does not compile, or warns, is drawn again, and so is a bug whose objects are
the same bytes, or that tests/quality/equivalent.txt lists.

For each bug the tests of the mirror run first: tests/X/test_Y* for X/Y.c, then the others of tests/X. A
folder X without tests has those of the folder above, after test_Y* wherever they are; what only scripts test,
as engine/cmd, has tests/e2e/test_Y*, and test_cli or test_FOLDER. Then broader tests: other programs, then
scripts, the quick ones first, at most --most of each kind. The first red test ends it; a test that hangs is
red. Only tests that execute the line run: gcov finds once what each test executes, which the work folder
keeps. All happens in copies there; with --work DIR they stay, and the next run begins quickly.

Ends with which tests noticed what. The survivors, each with its difference, are in the work folder's report.txt
(--report FILE)."""
import argparse, concurrent.futures, difflib, fcntl, os, queue, random, re, signal, subprocess, sys, tempfile, threading
from collections import Counter, defaultdict

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from mutate_tree import (
    FOLDERS,
    OUT,
    Base,
    Map,
    build,
    bytes_of,
    command_of,
    copy_tree,
    empty,
    end_all,
    environment,
    is_red,
    run_limited,
    say,
    stopped,
    tests_of,
    write,
)
from mutations import mutations_of

HERE = os.path.dirname(os.path.abspath(__file__))
SUFFIXES = ('.c', '.h', '.cu', '.cuh', '.def')
CUDA_ONLY = ('gpu/cuda/', 'engine/image/')  # what a build without CUDA leaves out, or never runs
HANG_SECONDS, HANG_TIMES = 20, 5  # a test hangs after so long and so many times what it took when it was learnt


# --- mutants ------------------------------------------------------------------------------------


class Job:
    """A tree of links to the base's files, in which one bug at a time is planted."""

    def __init__(self, base, known, work, number):
        self.base, self.known, self.work, self.tree, self.temporary = (
            base,
            known,
            work,
            f'{work}/job{number}',
            f'{work}/tmp{number}',
        )
        empty(self.tree)
        subprocess.run(['cp', '-al', base.tree, self.tree], check=True)
        self.changed = []
        for name in base.members:
            self.archive(name)

    def archive(self, name):
        made = f'{self.tree}/{OUT}/{name}'
        if os.path.exists(made):
            os.remove(made)
        names = [
            os.path.relpath(m, OUT) for m in self.base.members[name]
        ]  # of the objects, not their bytes: made in no time
        subprocess.run(['ar', 'rcs', '--thin', name, *names], cwd=f'{self.tree}/{OUT}', check=True, capture_output=True)

    def compile(self, tree, target, to):
        command = self.base.commands[target].replace(f' -o {target}', f' -o {to}')
        return (
            subprocess.run(
                ['sh', '-c', 'eval "$0"', command],
                cwd=tree,
                capture_output=True,
                env={**os.environ, 'CCACHE_DISABLE': '1'},
            ).returncode
            == 0
        )

    def plain(self, target):
        """The base's object, compiled as the mutants are: without lines."""
        path = f'{self.work}/plain/{target}'
        if not os.path.exists(path) or os.path.getmtime(path) < os.path.getmtime(f'{self.base.tree}/{target}'):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            new = f'{path}.{threading.get_ident()}'
            if not self.compile(self.base.tree, target, new):
                sys.exit(f'mutate.py: {target} does not compile in {self.base.tree}')
            os.replace(new, path)
        return bytes_of(path)

    def put(self, file, data):
        write(f'{self.tree}/{file}', data)
        self.changed.append(file)

    def preprocessed(self, tree, target):
        command = re.sub(r' -c (\S+) -o \S+$', r' -E -P \1', self.base.commands[target])
        return subprocess.run(['sh', '-c', 'eval "$0"', command], cwd=tree, capture_output=True).stdout

    def object_make(self, target, is_far):
        """The mutant's object in its place. 'same': it is the base's bytes; 'wrong': it does not compile."""
        if is_far and self.preprocessed(self.tree, target) == self.preprocessed(self.base.tree, target):
            return 'same'
        new = f'{self.work}/{os.path.basename(self.tree)}.o'
        if not self.compile(self.tree, target, new):
            return 'wrong'
        data = bytes_of(new)
        if data == self.plain(target):
            return 'same'
        self.put(target, data)
        return 'new'

    def plant(self, mutation):
        """'wrong', 'same' or 'new'."""
        self.mutation, self.linked, result = mutation, set(), 'same'
        self.put(mutation.file, mutation.apply(self.base.source(mutation.file)).encode())
        self.targets = self.base.targets(mutation)
        is_far = not mutation.file.endswith(('.c', '.cu'))
        members = {m for list_ in self.base.members.values() for m in list_} | {f'{OUT}/engine/cmd/main.o'}
        for target in sorted(t for t in self.targets if t in members):
            made = self.object_make(target, is_far)
            if made == 'wrong':
                return 'wrong'
            result = 'new' if made == 'new' else result
        for name, list_ in self.base.members.items():
            if set(self.changed) & set(list_):
                self.archive(name)
        return result

    def clear(self):
        for file in self.changed:
            if os.path.exists(f'{self.tree}/{file}'):
                os.remove(f'{self.tree}/{file}')
            os.link(f'{self.base.tree}/{file}', f'{self.tree}/{file}')
        archives = [name for name, list_ in self.base.members.items() if set(self.changed) & set(list_)]
        self.changed = []
        for name in archives:
            self.archive(name)
        empty(self.temporary)

    def link(self, program):
        """False: it cannot be built with the bug."""
        if program in self.linked:
            return True
        self.linked.add(program)
        made, own = f'{self.tree}/{OUT}/{program}', f'{OUT}/{program}.o'
        if own in self.targets and own in self.base.commands and self.object_make(own, False) == 'wrong':
            return False
        if os.path.exists(made):
            os.remove(made)
        how = self.base.links[program] + (' -s' if program == 'heterps-run' else ' -Wl,-S')
        done = subprocess.run(['sh', '-c', 'eval "$0"', how], cwd=self.tree, capture_output=True, text=True)
        if done.returncode:
            say(f'  {program} does not link: {done.stderr.strip()[-200:]}')
        return done.returncode == 0

    def build_for(self, test):
        if not test.endswith('.sh'):
            return self.link(test)
        text = open(f'{self.tree}/{test}', encoding='utf-8').read()
        return self.link('heterps-run') and (
            'heterps-emu' not in text or 'heterps-emu' not in self.base.links or self.link('heterps-emu')
        )

    def try_test(self, test):
        """'' if it is green, else how it is red."""
        if not self.build_for(test):
            return 'does not build'
        limit = HANG_SECONDS + HANG_TIMES * self.known.seconds(test) if test in self.known.tests else 600
        for _ in range(2 if test in self.base.alone else 1):
            status, output = run_limited(
                command_of(self.tree, OUT, test), self.tree, environment(self.tree, OUT, self.temporary), limit
            )
            if not is_red(status, output):
                return ''
        return 'hangs' if status is None else 'fails'

    def judge(self, mutation, most, greens):
        """('mirror' | 'broader' | 'survived' | 'same' | 'wrong' | 'stopped', by which test or why)."""
        try:
            planted = self.plant(mutation)
            if planted != 'new':
                return planted, ''
            mirror, broader = tests_of(self.base, self.known, mutation, most)
            for test in mirror + broader:
                how = self.try_test(test)
                if stopped.is_set():
                    return 'stopped', ''
                if how and greens.is_green(test):
                    return ('mirror' if test in mirror else 'broader'), test + ('' if how == 'fails' else f' ({how})')
            return 'survived', (
                f'{len(mirror)} of the mirror, {len(broader)} broader ran'
                if mirror + broader
                else 'no test executes it'
            )
        finally:
            self.clear()


class Greens:
    """Which tests are green in the base: a test that is red anyway notices nothing."""

    def __init__(self, base, work):
        self.base, self.work, self.known, self.lock = base, work, {}, threading.Lock()

    def is_green(self, test):
        with self.lock:
            if test not in self.known and not stopped.is_set():
                env = environment(self.base.tree, OUT, f'{self.work}/tmp_green')
                self.known[test] = not is_red(
                    *run_limited(command_of(self.base.tree, OUT, test), self.base.tree, env, 600)
                )
                empty(f'{self.work}/tmp_green')
                if not self.known[test]:
                    say(f'  {test} is red without any bug: left out')
            return self.known.get(test, False)


# --- drawing and telling ------------------------------------------------------------------------


class Equivalents:
    """The list of what nobody can notice: file, function, line and change of each; `...` stands for anything."""

    def __init__(self, path, root):
        """Complains about entries that match nothing: self.gone."""
        entry = r'^(\S+\.\w+): (\S+)\n +(\S.*)\n +(\S.*)\n +\S'
        text = open(path, encoding='utf-8').read() if os.path.exists(path) else ''
        self.entries, self.gone = [
            [' '.join(x.split()) for x in m.groups()] for m in re.finditer(entry, text, re.M)
        ], []
        whole = {}
        for wanted in self.entries:
            pattern = self.pattern(wanted)
            for file in [f for f in product_files(root, []) if self.pattern(wanted[:1]).fullmatch(f)]:
                whole[file] = whole.get(file) or self.places(root, file)
            if not any(pattern.fullmatch(place) for places in whole.values() for place in places):
                self.gone.append(wanted)
                print(f'mutate.py: {path} lists what is not there: {": ".join(wanted)}', file=sys.stderr)
        self.patterns = [self.pattern(wanted) for wanted in self.entries]

    @staticmethod
    def pattern(wanted):
        return re.compile('\0'.join(re.escape(x).replace(r'\.\.\.', '.*') for x in wanted))

    @staticmethod
    def places(root, file):
        return ['\0'.join(m.place()) for m in mutations_of(file, open(f'{root}/{file}', encoding='utf-8').read())]

    def has(self, mutation):
        place = '\0'.join(mutation.place())
        return any(pattern.fullmatch(place) for pattern in self.patterns)


def product_files(root, names):
    found = set()
    for name in names or FOLDERS:
        name = os.path.normpath(os.path.relpath(os.path.join(root, name), root))
        path = f'{root}/{name}'
        if not os.path.exists(path) and names:
            sys.exit(f'mutate.py: {path} is not there')
        found |= (
            {name}
            if os.path.isfile(path)
            else {os.path.relpath(f'{folder}/{f}', root) for folder, _, files in os.walk(path) for f in files}
        )
    return sorted(f for f in found if f.endswith(SUFFIXES) and not f.startswith(CUDA_ONLY))


def drawn(root, files, seed):
    """The bugs, a line each at most, in the order that the seed draws."""
    draw, lines = random.Random(seed), defaultdict(list)
    for file in files:
        for m in mutations_of(file, open(f'{root}/{file}', encoding='utf-8').read()):
            lines[file, m.line].append(m)
    order = sorted(lines)
    draw.shuffle(order)
    for at in order:
        kind = draw.choice(sorted({m.kind for m in lines[at]}))
        yield draw.choice([m for m in lines[at] if m.kind == kind])


def difference(root, m):
    source = open(f'{root}/{m.file}', encoding='utf-8').read()
    return ''.join(
        line if line.endswith('\n') else line + '\n'
        for line in difflib.unified_diff(
            source.splitlines(True), m.apply(source).splitlines(True), f'a/{m.file}', f'b/{m.file}', n=2
        )
    )


def describe(m):
    return f'{m.id}  {m.file}:{m.line} {m.function}: {m.change}'


def plant_all(base, known, order, options, listed):
    """Plants until options.count are judged.

    Returns [(mutation, verdict, by)] in the order of drawing, and how many were not counted, by why."""
    jobs, greens = queue.Queue(), Greens(base, options.work)
    for n in range(options.jobs):
        jobs.put(Job(base, known, options.work, n + 1))
    verdicts, left_out = {}, Counter()
    fresh = iter(enumerate(order))

    def judge(n, m):
        job = jobs.get()
        try:
            return n, m, job.judge(m, options.most, greens)
        finally:
            jobs.put(job)

    pool, pending, is_over = concurrent.futures.ThreadPoolExecutor(options.jobs), set(), False
    try:
        while True:
            while not is_over and len(verdicts) + len(pending) < options.count and len(pending) < options.jobs:
                n, m = next(fresh, (None, None))
                if m is None:
                    is_over = True
                elif listed is not None and listed.has(m):
                    left_out['listed'] += 1
                else:
                    pending.add(pool.submit(judge, n, m))
            if not pending:
                break
            ended, pending = concurrent.futures.wait(pending, return_when=concurrent.futures.FIRST_COMPLETED)
            for future in ended:
                n, m, (verdict, by) = future.result()
                if verdict in ('same', 'wrong'):
                    left_out[verdict] += 1
                    continue
                verdicts[n] = m, verdict, by
                say(
                    f'{describe(m)}: '
                    + (
                        f'killed by the {verdict}: {by}'
                        if verdict == 'mirror'
                        else f'killed by a broader test: {by}' if verdict == 'broader' else f'SURVIVED: {by}'
                    )
                )
    except KeyboardInterrupt:
        end_all()
        say('stopped; what is known so far:')
    pool.shutdown(wait=True, cancel_futures=True)
    return [verdicts[n] for n in sorted(verdicts) if verdicts[n][1] != 'stopped'], left_out


def conclude(results, left_out, root, report):
    with open(report, 'w', encoding='utf-8') as out:
        for m, verdict, by in results:
            if verdict == 'survived':
                out.write(
                    f'{describe(m)}: {by}\n{difference(root, m)}\n'
                    f'as an entry of equivalent.txt:\n{m.file}: {m.function}\n'
                    f'    {" ".join(m.line_text.split())}\n    {m.change}\n    \n\n'
                )
    by_folder = defaultdict(Counter)
    for m, verdict, _ in results:
        by_folder[m.file.split('/')[0]][verdict] += 1
    for name, c in sorted(by_folder.items()):
        n = sum(c.values())
        say(
            f'{name:8} {n:4} planted: mirror {100 * c["mirror"] / n:5.1f} %, '
            f'all {100 * (n - c["survived"]) / n:5.1f} %, survived {c["survived"]}'
        )
    total = sum(by_folder.values(), Counter())
    n = sum(total.values())
    if n:
        say(
            f'noticed by the mirror {100 * total["mirror"] / n:.1f} %, '
            f'by all {100 * (n - total["survived"]) / n:.1f} %; survivors: {report}'
        )
    say(
        f'{total["mirror"]} killed by the mirror, {total["broader"]} by broader tests, {total["survived"]} survived, '
        f'{left_out["same"] + left_out["listed"]} equivalent ({left_out["listed"]} of them listed); '
        f'{left_out["wrong"]} did not compile'
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('places', nargs='*', help='files or folders of the product (all of it)')
    parser.add_argument('--count', type=int, default=40, help='bugs to plant (40)')
    parser.add_argument('--seed', help='the same seed plants the same bugs in the same tree (a fresh one)')
    parser.add_argument(
        '--list', action='store_true', help='print the bugs that are drawn, which the compiler has not seen yet'
    )
    parser.add_argument('--again', default='', help='plant these, by their ids')
    parser.add_argument('--jobs', type=int, default=1, help='bugs at a time (1)')
    parser.add_argument('--work', help='the folder to work in, which stays (a temporary one)')
    parser.add_argument(
        '--most', type=int, default=20, help='broader tests of each kind, programs and scripts, at most (20)'
    )
    parser.add_argument('--report', help='where survivors go (report.txt in the work folder, or ./mutate_report.txt)')
    parser.add_argument('--tree', default=os.path.dirname(os.path.dirname(HERE)), help='the tree (this one)')
    parser.add_argument(
        '--check', action='store_true', help='only whether every entry of equivalent.txt is still there'
    )
    o = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    root = os.path.abspath(o.tree)
    listed = Equivalents(f'{root}/tests/quality/equivalent.txt', root)
    if o.check:
        return 1 if listed.gone else 0
    files, seed = product_files(root, o.places), o.seed or str(random.SystemRandom().randrange(10**6))
    if o.again:
        wanted, listed = o.again.split(','), None
        order = [
            m
            for file in files
            for m in mutations_of(file, open(f'{root}/{file}', encoding='utf-8').read())
            if m.id in wanted
        ]
        if len(order) < len(wanted):
            sys.exit(f'mutate.py: not in this tree: {", ".join(sorted(set(wanted) - {m.id for m in order}))}')
    else:
        say(f'seed {seed}, {len(files)} files')
        order = drawn(root, files, seed)
    if o.list:
        for m in (order if o.again else [m for _, m in zip(range(o.count), (m for m in order if not listed.has(m)))]):
            say(describe(m))
        return 0
    kept, report = o.work, o.report or (f'{o.work}/report.txt' if o.work else 'mutate_report.txt')
    o.work = os.path.abspath(kept or tempfile.mkdtemp(prefix='mutate.'))
    os.makedirs(o.work, exist_ok=True)
    lock = open(f'{o.work}/lock', 'w')
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        sys.exit(f'mutate.py: another one works in {o.work}')
    try:
        cc = os.environ.get('CC', 'gcc')
        say(f'building in {o.work}')
        copy_tree(root, f'{o.work}/tree')
        build(f'{o.work}/tree', 'release', cc)
        base = Base(f'{o.work}/tree')
        known = Map(o.work, base).learn(o.jobs, cc)
        results, left_out = plant_all(base, known, order, o, listed)
        conclude(results, left_out, base.tree, report)
    finally:
        end_all()
        if not kept:
            empty(o.work)
    return 0


if __name__ == '__main__':
    sys.exit(main())
