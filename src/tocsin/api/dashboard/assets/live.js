// Parts of a page that are refreshed by a stream of events, and by polling while there is none.
"use strict";

const POLL_MS = 5000;
const RETRY_MS = 30000;

function show(part, html) {
  const scrolled = [...part.querySelectorAll(".table")].map((table) => table.scrollLeft);
  htmx.swap(part, html, { swapStyle: "innerHTML" });
  part.querySelectorAll(".table").forEach((table, place) => (table.scrollLeft = scrolled[place] || 0));
  document.body.classList.remove("stale");
}

function follow(part) {
  let source = null;
  let polling = null;
  let retrying = null;

  const refresh = () => htmx.trigger(part, "refresh");
  const stopPolling = () => (polling = clearInterval(polling));

  function poll() {
    if (polling) return;
    // Until the first answer nobody knows how old the state is.
    document.body.classList.add("stale");
    refresh();
    polling = setInterval(refresh, POLL_MS);
  }

  function close() {
    source?.close();
    stopPolling();
    retrying = clearTimeout(retrying);
  }

  function open() {
    source = new EventSource(part.dataset.stream);
    source.addEventListener("part", ({ data }) => {
      stopPolling();
      show(part, data);
    });
    source.addEventListener("stale", () => document.body.classList.add("stale"));
    // Polling leads to the form to sign in.
    source.addEventListener("end", ({ data }) => {
      if (data !== "signed_out") return;
      close();
      refresh();
    });
    source.addEventListener("error", () => {
      poll();
      if (source.readyState === EventSource.CLOSED) retrying ??= setTimeout(reopen, RETRY_MS);
    });
  }

  function reopen() {
    retrying = clearTimeout(retrying);
    open();
  }

  // What was polled is shown as what was streamed.
  part.addEventListener("htmx:beforeSwap", ({ detail }) => {
    if (detail.target !== part || !detail.shouldSwap) return;
    detail.shouldSwap = false;
    show(part, detail.serverResponse);
  });

  // Nobody looks at a hidden tab, and a browser has few connections to a server.
  document.addEventListener("visibilitychange", () => {
    close();
    if (!document.hidden) reopen();
  });
  if (!document.hidden) open();
}

document.addEventListener("DOMContentLoaded", () => document.querySelectorAll("[data-stream]").forEach(follow));
