// Polls the sandbox every second and shows what is new.

import { Devices, setText, title } from "./devices.js";
import { open } from "./opened.js";
import { Providers } from "./providers.js";
import { MOST, Store } from "./store.js";
import { counted, number, providerName } from "./words.js";

const EVERY = 1_000;
const AFTER_A_FAILURE = 3_000;
const LONGEST_ANSWER = 10_000;

const byId = (id) => document.getElementById(id);
const finder = byId("finder");

const store = new Store();
const devices = new Devices(byId("devices"), open);
const providers = new Providers(setOutage);

let cursor = "";
let total = 0;
let met = false;
let paused = false;
let asking = false;
let askAgain = false;
let timer = 0;

async function ask() {
  if (asking) {
    askAgain = true;
    return;
  }
  clearTimeout(timer);
  asking = true;
  let wait = EVERY;
  try {
    const answer = await fetch(`/_sandbox/live?cursor=${encodeURIComponent(cursor)}`, {
      signal: AbortSignal.timeout(LONGEST_ANSWER),
    });
    if (!answer.ok) throw new Error(`the sandbox answered ${answer.status}`);
    show(await answer.json());
    setState(paused ? "paused" : "live");
  } catch {
    setState("lost");
    wait = AFTER_A_FAILURE;
  }
  asking = false;
  if (askAgain) {
    askAgain = false;
    ask();
  } else if (!paused && !document.hidden) {
    timer = setTimeout(ask, wait);
  }
}

function show(feed) {
  ({ cursor, total } = feed);
  if (feed.fresh) {
    store.clear();
    devices.clear();
  }
  const { changed, trimmed, emptied } = store.take(feed.messages);
  devices.remove(emptied);
  devices.trim(trimmed);
  devices.draw(changed, met);
  devices.tick(Date.now());
  providers.draw(feed.providers);
  if (met) announce(feed.messages);
  met = true;
  filter();
}

function filter() {
  const chosen = new FormData(finder);
  const provider = chosen.get("provider");
  const target = chosen.get("target").trim().toLowerCase();
  const shown = devices.filter(
    (device) => (!provider || device.provider === provider) && device.target.toLowerCase().includes(target),
  );
  const known = store.devices().length;
  byId("empty").hidden = total > 0;
  byId("counts_only").hidden = total === 0 || known > 0;
  byId("nothing_found").hidden = known === 0 || shown > 0;
  finder.hidden = known === 0;
  setText(byId("summary"), known ? summary(shown, known) : "");
}

function summary(shown, known) {
  const devicesShown = shown === known ? counted(known, "device") : `${number(shown)} of ${counted(known, "device")}`;
  const kept = total > MOST ? `, the last ${number(store.messageCount)} shown` : "";
  return `${devicesShown} · ${counted(total, "message")}${kept}`;
}

function announce(messages) {
  const last = messages.at(-1);
  if (!last) return;
  const others = messages.length > 1 ? `, and ${counted(messages.length - 1, "other")}` : "";
  byId("announcer").textContent = `${providerName(last.provider)} to ${last.target}: ${title(last) || last.look.body}${others}`;
}

const STATES = { live: "Live", paused: "Paused", lost: "The sandbox cannot be reached. Trying again" };

function setState(state) {
  const element = byId("state");
  element.dataset.state = state;
  setText(element, STATES[state]);
}

async function change(method, path, content) {
  try {
    await fetch(path, { method, body: content && JSON.stringify(content) });
  } catch {
    setState("lost");
  }
  await ask();
}

function setOutage(provider, down) {
  const path = `/_sandbox/faults/outage?provider=${encodeURIComponent(provider)}`;
  return down ? change("PUT", path, {}) : change("DELETE", path);
}

function setPaused(value) {
  paused = value;
  document.body.classList.toggle("paused", value);
  setText(byId("pause"), value ? "Resume" : "Pause");
  clearTimeout(timer);
  if (paused) setState("paused");
  else ask();
}

finder.addEventListener("input", filter);
finder.addEventListener("submit", (event) => event.preventDefault());
byId("show_all").addEventListener("click", () => {
  finder.reset();
  filter();
});
byId("pause").addEventListener("click", () => setPaused(!paused));
byId("reset").addEventListener("click", () => {
  byId("confirm").returnValue = "";
  byId("confirm").showModal();
});
byId("confirm").addEventListener("close", () => {
  if (byId("confirm").returnValue === "yes") change("POST", "/_sandbox/reset");
});
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && !paused) ask();
});

// Beside the devices there is room for the providers; above them there is not.
const beside = matchMedia("(min-width: 60rem)");
const fold = () => {
  byId("fold").open = beside.matches;
};
beside.addEventListener("change", fold);
fold();
ask();
