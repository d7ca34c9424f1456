// Behaviour that HTML does not have by itself; the pages work without it.
"use strict";

// A refresh that fails says so once and goes on with the next.
document.addEventListener("htmx:responseError", () => document.body.classList.add("stale"));
document.addEventListener("htmx:sendError", () => document.body.classList.add("stale"));
document.addEventListener("htmx:afterOnLoad", () => document.body.classList.remove("stale"));
