// The plot of the page Now: drawn by uPlot, coloured by the style sheet.
"use strict";

const EVENTS = ["accepted", "sent", "failed", "skipped"];
let plot = null;

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function columns() {
  return JSON.parse(document.getElementById("plot-data").dataset.columns);
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

function draw() {
  const place = document.getElementById("plot");
  if (plot) plot.destroy();
  const series = EVENTS.map((event) => ({
    label: event,
    stroke: colour(`--${event}`),
    width: 2,
    points: { show: false },
    value: (_, count) => (count === null ? "–" : count.toLocaleString("en")),
  }));
  plot = new uPlot(
    {
      width: place.clientWidth,
      height: 220,
      series: [{ value: (_, at) => (at === null ? "–" : new Date(at * 1000).toISOString().slice(0, 16).replace("T", " ") + " UTC") }, ...series],
      tzDate: (at) => uPlot.tzDate(new Date(at * 1000), "UTC"),
      scales: { y: { range: (_, low, high) => [0, Math.max(5, high * 1.1)] } },
      axes: [axis({ space: 70, size: 32, values: times }), axis({ size: 56, values: (_, ticks) => ticks.map((tick) => tick.toLocaleString("en")) })],
      legend: { live: true },
      cursor: { y: false, drag: { x: false, y: false } },
    },
    columns(),
    place,
  );
}

document.addEventListener("DOMContentLoaded", () => {
  draw();
  new ResizeObserver(() => plot.setSize({ width: document.getElementById("plot").clientWidth, height: 220 })).observe(document.getElementById("plot"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
});
document.addEventListener("htmx:afterSwap", () => plot && plot.setData(columns()));
