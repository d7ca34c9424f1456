"""Prints the fastest Python of this machine that can run the benchmark: builds differ by a third.

Distributions build theirs with profile-guided optimisation, pyenv does not by default.
"""

import itertools
import shutil
import subprocess
import sys

CANDIDATES = (sys.executable, "python3", "/usr/bin/python3", *(f"python3.{minor}" for minor in range(11, 14)))
"""The first of equals is chosen."""
CLEARLY = 0.95
"""An interpreter has to be so much faster to be used instead of one before it."""
WORK = """
import ensurepip, sys, time, venv

if not (3, 11) <= sys.version_info < (3, 14):
    sys.exit(1)

class Delivery:
    def __init__(self, number):
        self.number, self.fields = number, {"number": number}

    def weight(self, more):
        return self.number + more

def work():
    began = time.process_time()
    for number in range(20_000):
        delivery = Delivery(number)
        fields = {**delivery.fields, "text": str(number)}
        delivery.weight(len(fields["text"]) + isinstance(fields, dict) + len([*fields]))
    return time.process_time() - began

print(min(work() for _ in range(10)))
"""


def main() -> None:
    """Print the path of the fastest interpreter to standard output."""
    # In turns: the machine may be slow for a while.
    found = dict.fromkeys(filter(None, map(shutil.which, CANDIDATES)))
    seconds: dict[str, float] = {}
    for path, _ in itertools.product(found, range(2)):
        tried = subprocess.run([path, "-c", WORK], check=False, capture_output=True, text=True)
        if tried.returncode == 0:
            seconds[path] = min(float(tried.stdout), seconds.get(path, float("inf")))
    if not seconds:
        sys.exit("The benchmark needs Python 3.11, 3.12 or 3.13 with venv and pip; none was found.")
    chosen = next(iter(seconds))
    for path, taken in seconds.items():
        if taken < CLEARLY * seconds[chosen]:
            chosen = path
    print(chosen)


if __name__ == "__main__":
    main()
