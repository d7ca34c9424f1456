import { bytesOf, readTable } from "./flatbuffers.js";

const POLL_MS = 700;
const MOST_SHOWN = 200;

const byId = (id) => document.getElementById(id);
const setup = await (await fetch("/data/setup")).json();
const counts = new Map(setup.types.map(({ type }) => [type, { events: 0, mails: 0 }]));
const seen = new Set();
const open = new Set();
const total = { events: 0, mails: 0 };
let rounds = setup.rounds;
let lastMail = 0;

function element(name, fields = {}, ...children) {
  const made = Object.assign(document.createElement(name), fields);
  made.append(...children);
  return made;
}

function showRows() {
  byId("rows").replaceChildren(...setup.types.map((expected) => {
    const arrived = counts.get(expected.type);
    return element(
      "tr", {},
      element("th", { scope: "row" }, ...breakable(expected.type)),
      cell(arrived.events, expected.events * rounds),
      cell(arrived.mails, expected.mails * rounds),
    );
  }));
}

/** Return a name that a narrow column may break after its dots and underscores. */
function breakable(name) {
  return name.split(/(?<=[._])/).flatMap((part) => [part, element("wbr")]);
}

function cell(arrived, expected) {
  if (!expected && !arrived) return element("td", { className: "never" }, element("span", { title: "never" }, "–"));
  const state = arrived === expected ? "done" : arrived > expected ? "over" : "open";
  const words = { done: "complete", over: "too many", open: "waiting" }[state];
  return element(
    "td", { className: state },
    `${arrived} of ${expected} `,
    element("span", { className: "mark", ariaHidden: "true" }, { done: "✓", over: "!", open: "…" }[state]),
    element("span", { className: "unseen" }, words),
  );
}

function add(kind, item) {
  const feed = byId(kind);
  feed.prepend(item);
  while (feed.children.length > MOST_SHOWN) feed.lastChild.remove();
  byId(`no_${kind}`).hidden = true;
  total[kind] += 1;
  byId(`${kind.slice(0, -1)}_count`).textContent = total[kind];
  showRows();
}

function time(at) {
  const moment = new Date(at);
  return element("time", { dateTime: moment.toISOString() }, moment.toLocaleTimeString());
}

function showEvent(player, event) {
  // An event may be sent twice; its id is the same.
  if (seen.has(event.event_id)) return;
  seen.add(event.event_id);
  const fields = readTable(bytesOf(event.payload), setup.tables[event.event_type]);
  const list = element("dl", {}, ...Object.entries(fields).flatMap(([name, value]) => [
    element("dt", {}, name), element("dd", {}, String(value)),
  ]));
  counts.get(event.event_type).events += 1;
  add("events", element(
    "li", {},
    element("p", { className: "head" }, element("strong", {}, player.name), " ", time(Number(event.id.split("-")[0]))),
    element("p", { className: "type" }, event.event_type),
    list,
  ));
}

function showMail(mail) {
  const count = counts.get(mail.type);
  if (count) count.mails += 1;
  add("mails", element(
    "li", {},
    element("p", { className: "head" }, element("strong", {}, setup.mailboxes[mail.to] ?? mail.to), " ", time(mail.at)),
    element("p", { className: "subject" }, mail.subject),
    element("p", { className: "address" }, mail.to),
    element("details", {}, element("summary", {}, "Text"), element("pre", {}, mail.text)),
  ));
}

function listen(player) {
  const query = new URLSearchParams({ access_token: player.token, last_event_id: "0-0" });
  const source = new EventSource(`${setup.gateway}/v1/events?${query}`);
  source.onopen = () => showState(player.id, true);
  source.onerror = () => showState(player.id, false);
  source.onmessage = ({ data }) => showEvent(player, JSON.parse(data));
}

function showState(id, isOpen) {
  isOpen ? open.add(id) : open.delete(id);
  const live = open.size === setup.players.length;
  byId("state").textContent = live ? "Live" : "Reconnecting";
  byId("state").dataset.state = live ? "live" : "waiting";
}

async function pollMails() {
  try {
    const answer = await (await fetch(`/data/mails?after=${lastMail}`)).json();
    rounds = answer.rounds;
    for (const mail of answer.mails) {
      lastMail = Math.max(lastMail, mail.number);
      showMail(mail);
    }
    showRows();
  } catch {
    showState("mails", false);
  }
  setTimeout(pollMails, POLL_MS);
}

byId("again").addEventListener("click", async () => {
  const body = JSON.stringify({ form_token: setup.form_token });
  await fetch("/data/rounds", { method: "POST", headers: { "content-type": "application/json" }, body });
});

showRows();
setup.players.forEach(listen);
pollMails();
