"""The outcome of a run as a picture."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from bench.race import Spread, Standing
from bench.tables import by_rate

SUBJECT_COLOUR = "#b3401f"
RIVAL_COLOUR = "#8a94a0"
INK = "#30363d"


def draw(standings: Sequence[Standing], subject: str, path: Path) -> None:
    """Draw bars of the rate and of the processor time, with the rounds' ends as whiskers."""
    # Without these the file would differ from run to run where the figures do not.
    mpl.rcParams["svg.hashsalt"] = "tocsin"
    mpl.rcParams["svg.fonttype"] = "none"
    ordered = by_rate(standings)[::-1]
    figure = Figure(figsize=(10, 1.2 + 0.55 * len(ordered)), layout="constrained")
    rate, cpu = figure.subplots(1, 2, sharey=True)
    colours = [SUBJECT_COLOUR if each.name == subject else RIVAL_COLOUR for each in ordered]
    names = [each.title for each in ordered]
    _bars(rate, names, [each.rate for each in ordered], colours)
    _bars(cpu, names, [each.cpu_micros for each in ordered], colours)
    rate.set_title("messages a second (more is better)", color=INK, fontsize=10)
    cpu.set_title("CPU µs a message (less is better)", color=INK, fontsize=10)
    figure.savefig(path, metadata={"Date": None}, facecolor="white")


def _bars(axes: Any, names: Sequence[str], spreads: Sequence[Spread], colours: Sequence[str]) -> None:
    medians = [each.median for each in spreads]
    ends = [[each.median - each.low for each in spreads], [each.high - each.median for each in spreads]]
    axes.barh(names, medians, color=colours, xerr=ends, ecolor=INK, capsize=3)
    for place, each in enumerate(spreads):
        axes.annotate(
            f"{each.median:,.0f}",
            (each.high, place),
            (6, 0),
            textcoords="offset points",
            va="center",
            color=INK,
        )
    axes.set_xlim(right=1.18 * max(each.high for each in spreads))
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(left=False, colors=INK)
    axes.xaxis.set_major_formatter("{x:,.0f}")
