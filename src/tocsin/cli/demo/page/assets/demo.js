// What the page does beyond HTMX: it opens the dashboard beside the devices, and says when the demo is gone.
"use strict";

const frame = () => document.querySelector("iframe[name=dashboard]");
let shown = "";

function choose(view) {
  document.querySelector(`input[name=view][value=${view}]`).checked = true;
}

// Links lead to the frame; it has to be visible.
document.addEventListener("click", (event) => {
  if (event.target.closest("a[target=dashboard]")) choose("dashboard");
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
