"""What the programs that compare heterps-run with limits and with others share: sides that run in turn, lines
that are left out with their reason, and the table: what, against what, the figure asked for, the figure
found, the command that gives it."""
import argparse
import json
import os
import re
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HETERPS = os.environ.get("HETERPS", "./heterps-run")
PLAIN = {}

median = statistics.median


class Skip(Exception):
    """Why a line is left out."""


class Table:
    def __init__(self, options):
        self.rounds, self.wrap, self.folder = options.rounds, shlex.split(options.wrap), tempfile.mkdtemp()
        self.kept = {}

    def once(self, key, make):
        """What several lines need is made once; so is a reason to leave them out."""
        if key not in self.kept:
            try:
                self.kept[key] = make(), None
            except Skip as skip:
                self.kept[key] = None, skip
        value, skip = self.kept[key]
        if skip:
            raise skip
        return value

    def run(self, command, environment=PLAIN, timed=True):
        """Standard output of a command."""
        try:
            done = subprocess.run((self.wrap if timed else []) + command, cwd=ROOT, env={**os.environ, **environment},
                                  capture_output=True, text=True)
        except OSError as error:
            raise Skip(f"{error.filename}: {error.strerror}")
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or [''])[-1]
            raise Skip(f"{' '.join(command)} ended with {done.returncode}: {last[:120]}")
        return done.stdout

    def rate(self, pattern, command, environment=PLAIN):
        """The number that a command prints where the pattern has its group."""
        output = self.run(command, environment)
        found = re.findall(pattern, output)
        if not found:
            raise Skip(f"{' '.join(command)}: no \"{pattern}\" in what it prints")
        return float(found[-1])

    def bench(self, arguments, prefix=()):
        """The figures of `heterps-run bench`, run behind `prefix`."""
        events = [json.loads(line)
                  for line in self.run([*prefix, HETERPS, "bench", "--json", *arguments.split()]).splitlines()]
        figures = [event for event in events if event["event"] == "bench"]
        if not figures:
            raise Skip("bench gave no figure")
        return figures

    def turns(self, *sides):
        """Rates of sides that run in turn, each the median of its best configuration. A side is
        {configuration: what measures its rate}."""
        found = [{name: [measure()] for name, measure in side.items()} for side in sides]
        best = [max(rates, key=lambda name: rates[name][0]) for rates in found]
        for _ in range(self.rounds - 1):
            for side, rates, name in zip(sides, found, best):
                rates[name].append(side[name]())
        return [median(rates[name]) for rates, name in zip(found, best)]


def run(description, rows, make_table):
    """Parses the command line and prints the lines of rows(): (what, against, wanted, find(table), command)."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", metavar="PATTERN", default="",
                        help="lines whose first two columns match, a regular expression")
    parser.add_argument("--wrap", metavar="COMMAND", default="", help="put before every timed command")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--list", action="store_true", help="the lines, without running anything")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds: expected a whole number from 1")
    try:
        re.compile(options.only)
    except re.error as error:
        parser.error(f"--only: not a regular expression: {error}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # by way of what removes the files
    if not os.access(os.path.join(ROOT, HETERPS), os.X_OK):
        sys.exit(f"{os.path.basename(sys.argv[0])}: no {HETERPS}; run ./build.sh")
    form = "| {} | {} | {} | {} | `{}` |" if options.markdown else "{:<58} {:<42} {:>6} {:>6}   {}"
    heading = ("what", "against", "wanted", "found", "command")
    print(form.format(*heading).replace("`", ""))
    if options.markdown:
        print("|---|---|---|---|---|")
    table = make_table(options)
    try:
        for what, against, wanted, find, command in rows():
            if not re.search(options.only, f"{what} | {against}"):
                continue
            found = ""
            if not options.list:
                try:
                    found = f"{find(table):.2f}"
                except Skip as skip:
                    found, command = "-", f"left out: {skip}"
            print(form.format(what, against, "" if wanted is None else f"{wanted:g}", found, command), flush=True)
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        shutil.rmtree(table.folder)
