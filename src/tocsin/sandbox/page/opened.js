// Shows one message with all its details.

import { mailFrame, title } from "./devices.js";
import { providerName } from "./words.js";

const dialog = document.getElementById("opened");
const part = (selector) => dialog.querySelector(selector);

export async function open(message) {
  dialog.dataset.provider = message.provider;
  part(".tag").textContent = providerName(message.provider);
  part(".opened_target").textContent = message.target;
  part("h2").textContent = title(message) || message.look.body;
  part(".facts").replaceChildren(...facts(message));
  part(".opened_parts").replaceChildren(...parts(message));
  const raw = part(".raw");
  raw.open = message.device !== "mailbox";
  const code = part(".raw code");
  code.textContent = "…";
  dialog.showModal();
  const shown = await fullMessage(message);
  code.textContent = typeof shown === "string" ? shown : JSON.stringify(shown, null, 2);
  if (shown.message_id) part(".facts").append(...fact("Message id", shown.message_id));
  if (shown.delivery_id) part(".facts").append(...fact("Delivery id", shown.delivery_id));
}

async function fullMessage(message) {
  try {
    const answer = await fetch(`/_sandbox/messages/${message.number}`);
    const content = await answer.json();
    return answer.ok ? content : content.detail;
  } catch {
    return "The sandbox cannot be reached.";
  }
}

function parts(message) {
  const { look } = message;
  const shown = [];
  if (look.html) shown.push(mailFrame(message.number, "The mail as its reader sees it"));
  if (look.body && message.device !== "endpoint") {
    const body = document.createElement("p");
    body.className = "opened_text";
    body.dir = "auto";
    body.textContent = look.body;
    shown.push(look.html ? folded("Text part", body) : body);
  }
  return shown;
}

function folded(name, content) {
  const details = document.createElement("details");
  const summary = document.createElement("summary");
  summary.textContent = name;
  details.append(summary, content);
  return details;
}

function facts(message) {
  const { look } = message;
  return [
    ["Arrived", `${new Date(message.at).toLocaleString()}, as number ${message.number}`],
    ["From", look.sender],
    ["Opens", look.link],
    ["Icon", look.icon],
    ["Image", look.image && `${look.image} (not fetched)`],
  ].flatMap(([name, value]) => (value ? fact(name, value) : []));
}

function fact(name, value) {
  const term = document.createElement("dt");
  const description = document.createElement("dd");
  term.textContent = name;
  description.textContent = value;
  return [term, description];
}
