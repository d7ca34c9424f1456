// Behaviour that HTML does not have by itself; the pages work without it.
"use strict";

// A refresh that fails says so once and goes on with the next.
document.addEventListener("htmx:responseError", () => document.body.classList.add("stale"));
document.addEventListener("htmx:sendError", () => document.body.classList.add("stale"));
// It follows an error as well.
document.addEventListener("htmx:afterOnLoad", ({ detail }) => {
  if (detail.successful) document.body.classList.remove("stale");
});

// A table that is wider than its place can be scrolled by keyboard, too.
function markScrollable() {
  for (const table of document.querySelectorAll(".table")) {
    if (table.scrollWidth > table.clientWidth) {
      table.tabIndex = 0;
      table.setAttribute("role", "region");
      table.setAttribute("aria-label", "Table that scrolls sideways");
    } else {
      for (const name of ["tabindex", "role", "aria-label"]) table.removeAttribute(name);
    }
  }
}
// On a phone the pages stand in a line, and the present one may be at its far end.
function showPresentPage() {
  const present = document.querySelector(".side nav [aria-current]");
  if (present) present.closest("nav").scrollLeft = present.offsetLeft - 60;
}

document.addEventListener("DOMContentLoaded", markScrollable);
document.addEventListener("DOMContentLoaded", showPresentPage);
document.addEventListener("htmx:afterSettle", markScrollable);
window.addEventListener("resize", markScrollable);
