// The plots of the page Now: drawn by uPlot, coloured by the style sheet.
"use strict";

const HEIGHT = 220;
const drawn = new Map();

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function columns(place) {
  return JSON.parse(document.getElementById(place.dataset.source).dataset.columns);
}

function axis(extra) {
  const line = colour("--line");
  return { stroke: colour("--soft"), font: "12px system-ui, sans-serif", grid: { stroke: line, width: 1 }, ticks: { show: false }, ...extra };
}

// The hour and minute in UTC; the day where days are between two ticks.
function times(_, ticks) {
  const days = ticks.length > 1 && ticks[1] - ticks[0] >= 43200;
  return ticks.map((tick) => {
    const text = new Date(tick * 1000).toISOString();
    return days || text.slice(11, 16) === "00:00" ? text.slice(5, 10) : text.slice(11, 16);
  });
}

// A line for each power of ten, not for those between.
function powers(_, splits) {
  return splits.map((split) => (Number.isInteger(Number(Math.log10(split).toFixed(6))) ? split : null));
}

function number(count) {
  return count.toLocaleString("en");
}

function duration(seconds) {
  const [value, unit] = seconds < 1 ? [seconds * 1000, "ms"] : seconds < 60 ? [seconds, "s"] : seconds < 3600 ? [seconds / 60, "min"] : [seconds / 3600, "h"];
  return `${Number(value.toPrecision(3)).toLocaleString("en")} ${unit}`;
}

// Counts begin at zero. Times differ by powers of ten, and so do the lines of their grid.
const KINDS = {
  count: {
    shown: number,
    scale: { range: (_, low, high) => [0, Math.max(5, high * 1.1)] },
    size: 56,
    lines: (_, splits) => splits,
  },
  seconds: {
    shown: duration,
    scale: {
      distr: 3,
      range: (_, low, high) => (low === null ? [0.001, 1] : [10 ** Math.floor(Math.log10(low)), 10 ** Math.ceil(Math.log10(high * 1.001))]),
    },
    size: 64,
    // Powers of ten are no round minutes.
    tick: (seconds) => (seconds < 1 ? duration(seconds) : `${number(seconds)} s`),
    lines: powers,
  },
};

function values(kind) {
  const shown = kind.tick || kind.shown;
  const made = axis({ size: kind.size, values: (_, ticks) => ticks.map((tick) => (tick === null ? null : shown(tick))) });
  return { ...made, grid: { ...made.grid, filter: kind.lines } };
}

// Without a pointer on the plot, the legend has the newest values; uPlot empties it with each change.
function showNewest(plot) {
  const idx = Math.max(0, plot.data[1].findLastIndex((value) => value !== null));
  requestAnimationFrame(() => plot.cursor.left < 0 && plot.setLegend({ idx }));
}

// A line needs two points to be seen.
function isLonely(plot, line) {
  return plot.data[line].filter((value) => value !== null).length < 3;
}

function draw(place) {
  drawn.get(place)?.destroy();
  const kind = KINDS[place.dataset.unit || "count"];
  const shown = (value) => (value === null || value === undefined ? "–" : kind.shown(value));
  const lines = place.dataset.lines.split(" ").map((name) => ({
    label: name,
    stroke: colour(`--${name}`),
    width: 2,
    points: { show: isLonely, size: 6 },
    spanGaps: true,
    value: (_, value) => shown(value),
  }));
  const options = {
    width: place.clientWidth,
    height: HEIGHT,
    series: [{ value: (_, at) => (at === null ? "–" : new Date(at * 1000).toISOString().slice(0, 16).replace("T", " ") + " UTC") }, ...lines],
    tzDate: (at) => uPlot.tzDate(new Date(at * 1000), "UTC"),
    scales: { y: kind.scale },
    axes: [axis({ space: 70, size: 32, values: times }), values(kind)],
    legend: { live: true },
    cursor: { y: false, drag: { x: false, y: false } },
  };
  const plot = new uPlot(options, columns(place), place);
  plot.over.addEventListener("mouseleave", () => showNewest(plot));
  drawn.set(place, plot);
  showNewest(plot);
}

document.addEventListener("DOMContentLoaded", () => {
  const places = [...document.querySelectorAll(".plot")];
  const fit = new ResizeObserver((changes) => {
    for (const { target } of changes) {
      drawn.get(target).setSize({ width: target.clientWidth, height: HEIGHT });
      showNewest(drawn.get(target));
    }
  });
  for (const place of places) {
    draw(place);
    fit.observe(place);
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => places.forEach(draw));
});
document.addEventListener("htmx:afterSwap", ({ target }) => {
  for (const [place, plot] of drawn) {
    if (place.dataset.source !== target.id) continue;
    plot.setData(columns(place));
    showNewest(plot);
  }
});
