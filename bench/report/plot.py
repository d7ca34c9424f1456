"""The outcome of a run as pictures."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter

from bench.contract import Chart
from bench.race.standing import Spread, Standing
from bench.report.tables import by_rate

SUBJECT_COLOUR = "#b3401f"
RIVAL_COLOUR = "#8a94a0"
INK = "#30363d"
CURVE_COLOURS = ("#8a94a0", "#b3401f", "#3b6ea5", "#6b8e23")


def draw(standings: Sequence[Standing], subject: str, path: Path) -> None:
    """Draw bars of the rate and of the processor time, with the rounds' ends as whiskers."""
    _settle()
    ordered = by_rate(standings)[::-1]
    figure = Figure(figsize=(10, 1.2 + 0.55 * len(ordered)), layout="constrained")
    rate, cpu = figure.subplots(1, 2, sharey=True)
    colours = [SUBJECT_COLOUR if each.name == subject else RIVAL_COLOUR for each in ordered]
    names = [each.title for each in ordered]
    _bars(rate, names, [each.rate for each in ordered], colours)
    _bars(cpu, names, [each.cpu_micros for each in ordered], colours)
    rate.set_title("messages a second (more is better)", color=INK, fontsize=10)
    cpu.set_title("CPU µs a message (less is better)", color=INK, fontsize=10)
    _save(figure, path)


def draw_chart(chart: Chart, path: Path) -> None:
    """Draw the curves, and each goal as a bar that its curve must stay below."""
    _settle()
    figure = Figure(figsize=(10, 5), layout="constrained")
    axes: Any = figure.subplots()
    for curve, colour in zip(chart.curves, itertools.cycle(CURVE_COLOURS), strict=False):
        across, upwards = zip(*curve.points, strict=True)
        axes.plot(across, upwards, color=colour, marker="o", label=curve.name)
        for place, bound in curve.goals:
            axes.plot([place], [bound], color=colour, marker="_", markersize=24, markeredgewidth=2)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.yaxis.set_minor_formatter(LogFormatter())  # As plain numbers, where they are shown at all.
    axes.set_xlabel(chart.across, color=INK)
    axes.set_ylabel(chart.upwards, color=INK)
    axes.set_title(chart.title, color=INK, fontsize=10)
    axes.grid(visible=True, which="both", color=INK, alpha=0.12)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(which="both", colors=INK)
    axes.legend(frameon=False, labelcolor=INK)
    _save(figure, path)


def _settle() -> None:
    # Without these the file would differ from run to run where the figures do not.
    mpl.rcParams["svg.hashsalt"] = "tocsin"
    mpl.rcParams["svg.fonttype"] = "none"


def _save(figure: Figure, path: Path) -> None:
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
