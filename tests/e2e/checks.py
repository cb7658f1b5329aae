"""What the clients of tests have in common: functions marked @test, each of which is told as a line "ok NAME"
or "not ok NAME: why"."""
import time, traceback

tests = []


def test(function):
    tests.append(function)
    return function


def read(path):
    with open(path, "rb") as file:
        return file.read()


def same(found, expected, what=""):
    assert found == expected, f"{what}: found {found!r:.300}, expected {expected!r:.300}"


def run_tests(some=None):
    """All of them, or some; returns how many failed."""
    failed = 0
    for function in some or tests:
        name, begin = function.__name__.replace("_", " "), time.time()
        try:
            function()
            print(f"ok {name}\n# {time.time() - begin:.1f} s", flush=True)
        except Exception:
            failed += 1
            print(f"not ok {name}: {traceback.format_exc()}".replace("\n", "\n# "), flush=True)
    return failed
