"""The tree in which mutate.py plants bugs: copies and builds it, runs its tests, and finds which lines each
executes."""
import concurrent.futures, glob, hashlib, json, os, re, shutil, signal, subprocess, sys, tempfile, threading, time
from collections import defaultdict

FOLDERS = ('engine', 'graph', 'sched', 'io', 'gpu', 'cfg')
OUT = 'build/release'
LIBRARIES = {'libheterps.a', 'libemulation.a'}
UNCOUNTED = '/isa/'  # files whose lines are not counted
LEARN_SECONDS = 300  # of a test that takes longer it is not known what it executes
FILE_BLOCKS_MAX = 8 << 21  # of 512 bytes: 8 GiB, so that a bug does not fill the disk


def say(text):
    print(text, flush=True)


def bytes_of(path):
    with open(path, 'rb') as file:
        return file.read()


def write(path, data):
    """In place of what is there, also where that is a link to another tree's file."""
    with open(path + '.new', 'wb') as file:
        file.write(data)
    os.replace(path + '.new', path)


def digest(data):
    return hashlib.sha1(data).hexdigest()[:12]


# --- trees --------------------------------------------------------------------------------------


def files_of(root):
    """What a copy of the tree needs: what git does not ignore, or without git everything but what a build makes."""
    found = subprocess.run(
        ['git', '-C', root, 'ls-files', '-zco', '--exclude-standard'], capture_output=True, text=True
    )
    if found.returncode == 0 and os.path.exists(f'{root}/.git'):
        return sorted({f for f in found.stdout.split('\0') if f and os.path.isfile(f'{root}/{f}')})
    return sorted(
        os.path.relpath(f'{folder}/{name}', root)
        for folder, _, names in os.walk(root)
        for name in names
        if not os.path.relpath(folder, root).startswith('build')
        and name not in ('heterps-run', 'compile_commands.json')
    )


def copy_tree(root, to):
    files = files_of(root)
    for f in files:
        if not os.path.exists(f'{to}/{f}') or bytes_of(f'{root}/{f}') != bytes_of(f'{to}/{f}'):
            os.makedirs(os.path.dirname(f'{to}/{f}'), exist_ok=True)
            shutil.copyfile(f'{root}/{f}', f'{to}/{f}')
            shutil.copymode(f'{root}/{f}', f'{to}/{f}')
    for gone in set(files_of(to)) - set(files):
        if gone.startswith(FOLDERS + ('tests',)):
            os.remove(f'{to}/{gone}')


def build(tree, mode, cc):
    log = f'{tree}.log'
    with open(log, 'w') as out:
        done = subprocess.run(
            ['./build.sh', 'tests'],
            cwd=tree,
            stdout=out,
            stderr=out,
            stdin=subprocess.DEVNULL,
            env={**os.environ, 'MODE': mode, 'CC': cc, 'NVCC': 'none', 'TESTS': '.', 'BUT': '^$'},
        )
    if done.returncode:
        sys.exit(f'mutate.py: {tree} does not build: see {log}')


class Base:
    """The tree as it is, built: its commands, what depends on what, its tests."""

    def __init__(self, tree):
        self.tree, self.commands, self.users, self.links = tree, {}, defaultdict(list), {}
        for line in open(f'{tree}/{OUT}/commands'):
            entry = json.loads(line.rstrip().rstrip(','))
            target = re.search(r' -o (\S+)$', entry['command'])[1]
            self.commands[target] = re.sub(r' -g\d? | -MMD ', ' ', entry['command'])
            if os.path.exists(f'{tree}/{target[:-1]}d'):
                text = open(f'{tree}/{target[:-1]}d').read().replace('\\\n', ' ')
                for file in set(text.partition(':')[2].split()):
                    self.users[os.path.normpath(file)].append(target)
        for how in glob.glob(f'{tree}/{OUT}/**/*.how', recursive=True):
            self.links[os.path.relpath(how, f'{tree}/{OUT}')[:-4]] = open(how).read().strip()
        self.members = {
            name: open(f'{tree}/{OUT}/{name}.list').read().split()
            for name in LIBRARIES
            if os.path.exists(f'{tree}/{OUT}/{name}.list')
        }
        self.programs = sorted(
            name
            for name in self.links
            if name.startswith('tests/') and os.path.basename(name).startswith(('test_', 'fuzz_'))
        )
        self.scripts = sorted(os.path.relpath(f, tree) for f in glob.glob(f'{tree}/tests/*/test_*.sh'))
        self.alone = {
            re.sub(r'\.c$', '', line.split()[0])
            for line in open(f'{tree}/tests/alone')
            if line.strip() and line[0] != '#'
        }
        self.text = {}

    def source(self, file):
        if file not in self.text:
            self.text[file] = open(f'{self.tree}/{file}', encoding='utf-8').read()
        return self.text[file]

    def names_using(self, file, name):
        """What stands for `name` in whoever includes `file`: itself, and inline functions and macros that use it."""
        names, headers = {name}, [
            f for f in self.users if f.endswith(('.h', '.cuh', '.def')) and os.path.exists(f'{self.tree}/{f}')
        ]
        while True:
            more = set()
            for f in headers:
                for m in re.finditer(
                    r'^(?:#\s*define\s+(\w+)((?:\\\n|.)*)|[^\n#/ ][^\n;{]*?(\w+)\([^;{]*\)\s*(\{.*?^\}|\{[^\n]*\}$))',
                    self.source(f),
                    re.S | re.M,
                ):
                    own, body = m[1] or m[3], m[2] or m[4] or ''
                    if own not in names and names & set(re.findall(r'\w+', body)):
                        more.add(own)
            if not more:
                return names
            names |= more

    def targets(self, mutation):
        """The objects that the mutation may change."""
        found = self.users.get(mutation.file, [])
        if mutation.file.endswith(('.h', '.cuh')) and mutation.function != '-':
            names = self.names_using(mutation.file, mutation.function)
            found = [t for t in found if names & set(re.findall(r'\w+', self.source(self.source_of(t))))]
        return found

    def source_of(self, target):
        return re.search(r' -c (\S+) -o', self.commands[target])[1]


# --- running tests ------------------------------------------------------------------------------

running, stopped = set(), threading.Event()


def run_limited(command, cwd, env, seconds):
    """(status, output); status None: it ran too long."""
    shell = f'echo 1000 2>/dev/null >/proc/self/oom_score_adj; ulimit -c 0; ulimit -f {FILE_BLOCKS_MAX}; exec "$@"'
    with tempfile.TemporaryFile() as out:
        child = subprocess.Popen(
            ['sh', '-c', shell, 'sh', *command],
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
        running.add(child.pid)
        try:
            status = child.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            try:
                os.killpg(child.pid, signal.SIGKILL)  # also what it left behind
            except ProcessLookupError:
                pass
            child.wait()
            running.discard(child.pid)
        out.seek(0)
        return status, out.read().decode(errors='replace')


def end_all():
    stopped.set()
    for pid in list(running):
        try:
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def is_red(status, output):
    wrong = [
        line for line in output.splitlines() if line.startswith('not ok ') and not re.search('# *skip', line, re.I)
    ]
    return status not in (0, 77) or bool(wrong)


def environment(tree, out, temporary):
    os.makedirs(temporary, exist_ok=True)
    return {
        **os.environ,
        'HETERPS': f'{tree}/{out}/heterps-run',
        'BUILD': f'{tree}/{out}',
        'CMOCKA_MESSAGE_OUTPUT': 'TAP',
        'TMPDIR': temporary,
    }


def command_of(tree, out, test):
    return ['sh', test] if test.endswith('.sh') else [f'{tree}/{out}/{test}']


def empty(folder):
    subprocess.run(['chmod', '-R', 'u+rwX', folder], stderr=subprocess.DEVNULL)
    shutil.rmtree(folder, ignore_errors=True)


# --- who executes what --------------------------------------------------------------------------


class Map:
    """Which lines each test executes, learnt in a tree built for it, a file a test."""

    def __init__(self, work, base):
        self.work, self.base, self.folder, self.tests, self.code = work, base, f'{work}/map', {}, {}
        os.makedirs(self.folder, exist_ok=True)

    def path(self, test):
        return f'{self.folder}/{test.replace("/", ".")}.json'

    def stamp(self, test):
        """Of what the test is made of, but for the product: its source and its folder's headers."""
        source = test if test.endswith('.sh') else f'{test}.c'
        own = sorted(
            f for f in self.base.users if f.startswith('tests/') and f'{OUT}/{test}.o' in self.base.users[f]
        ) or [source]
        return digest(b''.join(bytes_of(f'{self.base.tree}/{f}') for f in own))

    def learn(self, jobs, cc):
        todo = []
        for test in self.base.programs + self.base.scripts:
            try:
                known = json.load(open(self.path(test)))
            except (OSError, ValueError):
                known = {}
            if known.get('stamp') == self.stamp(test):
                self.tests[test] = known
            else:
                todo.append(test)
        if todo:
            say(f'learning which lines {len(todo)} tests execute (once; Ctrl-C goes on with what is known)')
            cover = f'{self.work}/cover'
            copy_tree(self.base.tree, cover)
            build(cover, 'debug', self.counting_cc(cc))
            if not os.path.exists(f'{cover}/{OUT}'):
                os.symlink('debug', f'{cover}/{OUT}')
            try:
                with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
                    for n, test in enumerate(pool.map(lambda test: self.learn_one(cover, test), todo), 1):
                        say(f'  {n} of {len(todo)}: {test}')
            except KeyboardInterrupt:
                end_all()
                stopped.clear()
        for known in self.tests.values():
            for file, (stamp, _, code) in known['files'].items():
                if stamp == self.stamp_of(file):
                    self.code.setdefault(file, set()).update(code)
        return self

    def stamp_of(self, file):
        return digest(self.base.source(file).encode()) if os.path.exists(f'{self.base.tree}/{file}') else ''

    def counting_cc(self, cc):
        """A compiler that has lines counted, but for the inner loops, which would take ten times as long.

        Optimised a little, for a debug build's scripts take five times as long; most lines keep counts of their own."""
        path = f'{self.work}/counting_cc'
        write(
            path,
            f'''#!/bin/sh
case "$*" in
*" -c "*{UNCOUNTED}*.c" -o "*) exec {cc} "$@" -O2 -Wno-error ;;
*) exec {cc} --coverage "$@" -O1 -Wno-error ;;
esac
'''.encode(),
        )
        os.chmod(path, 0o755)
        return path

    def learn_one(self, cover, test):
        if stopped.is_set():
            return test
        own = tempfile.mkdtemp(dir=self.work)
        env = {**environment(cover, OUT, f'{own}/tmp'), 'GCOV_PREFIX': f'{own}/gcov'}
        begin = time.time()
        status, _ = run_limited(command_of(cover, OUT, test), cover, env, LEARN_SECONDS)
        seconds, files = time.time() - begin, {}
        notes = []  # gcov wants a file's .gcno beside its counts
        for path in glob.glob(f'{own}/gcov/**/*.gcda', recursive=True):
            note = f'{cover}{path[path.index("/build/"):-4]}gcno'
            if path.count('/build/') == 1 and os.path.exists(note):
                os.symlink(note, path[:-4] + 'gcno')
                notes.append(path)
        for at in range(0, len(notes), 100):
            told = subprocess.run(
                ['gcov', '-i', '-t', *notes[at : at + 100]], cwd=cover, capture_output=True, text=True
            ).stdout
            for line in told.splitlines():
                self.lines_add(files, line)
        if not stopped.is_set():
            known = {
                'stamp': self.stamp(test),
                'seconds': round(seconds, 2),
                'is_whole': status is not None,
                'files': {f: (self.stamp_of(f), sorted(hit), sorted(code)) for f, (hit, code) in files.items() if hit},
            }
            write(self.path(test), json.dumps(known).encode())
            self.tests[test] = known
        empty(own)
        return test

    @staticmethod
    def lines_add(files, line):
        try:
            told = json.loads(line)
        except ValueError:
            return
        for entry in told.get('files', []):
            file = os.path.normpath(entry['file'])
            if file.startswith(FOLDERS):
                hit, code = files.setdefault(file, (set(), set()))
                for at in entry['lines']:
                    code.add(at['line_number'])
                    if at['count']:
                        hit.add(at['line_number'])

    def executes(self, test, mutation):
        """True, False, or None: not known."""
        known, code = self.tests.get(test), self.code.get(mutation.file)
        if known is None or not known['is_whole']:
            return None
        stamp, hit, _ = known['files'].get(mutation.file, ('', [], []))
        if UNCOUNTED in mutation.file:
            return None
        if mutation.function == '-' or mutation.is_macro:  # no lines of its own
            return None if hit or not mutation.file.endswith(('.c', '.cu')) else False
        if not code or stamp != self.stamp_of(mutation.file):
            return bool(hit)
        line = mutation.line
        while line not in code and line > mutation.line - 30:
            line -= 1
        return line in hit if line in code else None

    def seconds(self, test):
        return self.tests[test]['seconds'] if test in self.tests else 1000


def mirror_of(base, file):
    """The tests that stand for a file: those of its name, and those of its folder or the next one above that has some.

    A folder without any has those of the file's name in its neighbours, too, isa has every test_*_isa beside them, and
    of what only scripts test, scripts."""
    folder, name = os.path.dirname(file), os.path.splitext(os.path.basename(file))[0]
    name = name.removeprefix('verb_')
    place = folder[len('engine/') :] if folder.startswith('engine/base') else folder
    below = [p for p in base.programs if p.startswith(f'tests/{place.split("/")[0]}/')]
    named = lambda programs: [p for p in programs if re.match(rf'test_{name}(_|$)', os.path.basename(p))]
    own = [p for p in below if os.path.dirname(p) == f'tests/{place}']
    first = named(own or below)
    if os.path.basename(folder) == 'isa':
        first += [p for p in below if p.endswith('_isa') and p not in first]
    while place and not own:
        place = os.path.dirname(place)
        own = [p for p in base.programs if os.path.dirname(p) == f'tests/{place}']
    is_verb = folder == 'engine/cmd'  # verbs are tested by scripts, and by programs where these can reach them
    if not own or is_verb:
        words = [name, 'cli' if is_verb else os.path.basename(folder)]
        scripts = [[s for s in base.scripts if re.match(rf'tests/e2e/test_{w}(_|\.)', s)] for w in words]
        first, own = first + scripts[0], own + scripts[1]
    return first, [p for p in own if p not in first]


def tests_of(base, known, mutation, most):
    """([mirror's tests], [broader ones]), both in the order to run."""
    quick = known.seconds
    useful = {t for t in base.programs + base.scripts if known.executes(t, mutation) is not False}
    named, own = ([t for t in sorted(group, key=quick) if t in useful] for group in mirror_of(base, mutation.file))
    top = mutation.file.split('/')[0]
    tops = ('tests/base', 'tests/engine') if top == 'engine' else (f'tests/{top}',)
    rest = sorted(
        useful - set(named + own), key=lambda t: (not t.startswith(tops), t.startswith('tests/fuzz'), quick(t))
    )
    programs, scripts = [t for t in rest if not t.endswith('.sh')], sorted(
        (t for t in rest if t.endswith('.sh')), key=quick
    )
    return named + own, programs[:most] + scripts[:most]
