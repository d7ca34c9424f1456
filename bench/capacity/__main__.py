"""Compare the capacity model with a simulation: `python -m bench.capacity`."""

import argparse

from bench.capacity.deployments import DEPLOYMENTS, Deployment
from bench.capacity.model import Prediction, predict
from bench.capacity.simulation import observe
from bench.process import ROOT
from bench.progress import tell

LOAD = 0.7
MESSAGES = 400_000
PAGE = ROOT / "docs" / "explanation" / "beyond-one-machine.md"
MARKS = "<!-- python -m bench.capacity --write -->\n", "<!-- end -->\n"
HEAD = """| deployment | | messages/s at most | saturates first | p99 at 70 % of it |
|---|---|---:|---|---:|
"""


def rows(deployment: Deployment, predicted: Prediction, observed: Prediction | None) -> str:
    """Write the rows of a deployment: the model, the simulation, and what was measured."""
    written = _row(deployment.title, "model", *predicted)
    if observed is not None:
        written += _row("", "simulation", *observed)
    if deployment.measured is not None:
        rate, (low, high) = deployment.measured
        written += f"| | measured | {rate:,.0f} | | {1_000 * low:,.0f} to {1_000 * high:,.0f} ms |\n"
    return written


def _row(title: str, kind: str, rate: float, first: str, p99: float) -> str:
    return f"| {title} | {kind} | {rate:,.0f} | {first} | {1_000 * p99:,.0f} ms |\n"


def main() -> None:
    """Print the table, and put it into the page if asked to."""
    parser = argparse.ArgumentParser(prog="python -m bench.capacity", description=__doc__)
    parser.add_argument("--messages", type=int, default=MESSAGES, help="messages of each simulation")
    parser.add_argument("--write", action="store_true", help=f"write the table to {PAGE.relative_to(ROOT)}")
    given = parser.parse_args()
    table = HEAD
    for deployment in DEPLOYMENTS:
        tell(deployment.title)
        predicted = predict(deployment.stations, LOAD)
        table += rows(deployment, predicted, observe(deployment.stations, predicted, LOAD, given.messages))
    print(table)
    if given.write:
        before, _, rest = PAGE.read_text().partition(MARKS[0])
        _, _, after = rest.partition(MARKS[1])
        PAGE.write_text(f"{before}{MARKS[0]}{table}{MARKS[1]}{after}")


if __name__ == "__main__":
    main()
