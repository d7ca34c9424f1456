// What the page does beyond HTMX: it opens the dashboard beside the devices, and says when the demo is gone.
"use strict";

const frame = () => document.querySelector("iframe[name=dashboard]");
let shown = "";
let moving = false;

function choose(view) {
  document.querySelector(`input[name=view][value=${view}]`).checked = true;
}

document.addEventListener("click", (event) => {
  // Links lead to the frame; it has to be visible.
  if (event.target.closest("a[target=dashboard]")) choose("dashboard");
  moving = Boolean(event.target.closest("#next-step"));
});

// The button that leads to the next step goes with its step: whoever pressed it is led to that of the next.
document.addEventListener("htmx:afterSettle", () => {
  if (!moving || document.getElementById("next-step")) return;
  moving = false;
  document.getElementById("run-step").focus();
});

// A step of the tour that belongs to a page of the dashboard opens it once, when it is done.
document.addEventListener("htmx:afterSettle", () => {
  const wanted = document.querySelector(".tour[data-dashboard]")?.dataset.dashboard ?? "";
  if (wanted && wanted !== shown) {
    frame().src = `dashboard?to=${encodeURIComponent(wanted)}`;
    choose("dashboard");
  }
  shown = wanted;
});

document.addEventListener("htmx:responseError", () => document.body.classList.add("stale"));
document.addEventListener("htmx:sendError", () => document.body.classList.add("stale"));
document.addEventListener("htmx:afterOnLoad", (event) => {
  if (event.detail.xhr.status < 400) document.body.classList.remove("stale");
});
