// Draws the counts, the active faults and the outage button of each stand-in.

import { setText } from "./devices.js";
import { counted, isAccepted, number, providerName } from "./words.js";

const MOST_CODES = 4;

export class Providers {
  #list = document.getElementById("providers");
  #note = document.getElementById("fold_note");
  #chips = document.querySelector("#finder .chips");
  #template = document.getElementById("provider_template");
  #drawn = new Map();
  #toggle;

  constructor(toggle) {
    this.#toggle = toggle;
  }

  draw(states) {
    for (const state of states) {
      const drawn = this.#drawn.get(state.name) ?? this.#make(state.name);
      const text = JSON.stringify(state);
      if (drawn.text === text) continue;
      drawn.text = text;
      drawn.state = state;
      update(drawn.item, state);
    }
    const down = states.filter((state) => state.outage).length;
    setText(this.#note, down ? counted(down, "outage") : "");
  }

  #make(name) {
    const item = this.#template.content.firstElementChild.cloneNode(true);
    const drawn = { item, state: null, text: "" };
    item.dataset.provider = name;
    item.querySelector("h3").textContent = providerName(name);
    item.querySelector(".outage").addEventListener("click", () => this.#toggle(name, !drawn.state.outage));
    this.#list.append(item);
    this.#drawn.set(name, drawn);
    this.#chips.append(chip(name));
    return drawn;
  }
}

function update(item, state) {
  const part = (name) => item.querySelector(`.${name}`);
  item.classList.toggle("down", Boolean(state.outage));
  item.classList.toggle("idle", state.requests === 0);
  setText(part("provider_count"), number(state.delivered));
  setText(part("figures"), figures(state));
  const codes = Object.entries(state.answers).sort(acceptedFirst);
  part("mix").replaceChildren(...codes.map(([code, count]) => bar(code, count)));
  part("codes").replaceChildren(...codes.slice(0, MOST_CODES).map(([code, count]) => answer(code, count)), ...rest(codes));
  part("faults").replaceChildren(...faults(state).map(entry));
  const button = part("outage");
  setText(button, state.outage ? "End outage" : "Begin outage");
  button.ariaLabel = `${button.textContent} of ${providerName(state.name)}`;
}

function figures(state) {
  if (state.requests === 0) return "No requests yet";
  const parts = [counted(state.requests, "request"), `${number(state.delivered)} arrived`];
  if (state.duplicates) parts.push(`${number(state.duplicates)} duplicates`);
  return parts.join(" · ");
}

function acceptedFirst([code, count], [otherCode, otherCount]) {
  return isAccepted(otherCode) - isAccepted(code) || otherCount - count;
}

function bar(code, count) {
  const element = document.createElement("i");
  element.className = isAccepted(code) ? "taken" : "refused";
  element.style.flexGrow = String(count);
  return element;
}

function answer(code, count) {
  const element = entry(code);
  const amount = document.createElement("b");
  element.className = isAccepted(code) ? "taken" : "refused";
  amount.textContent = number(count);
  element.append(" ", amount);
  return element;
}

function rest(codes) {
  const left = codes.slice(MOST_CODES).reduce((sum, [, count]) => sum + count, 0);
  return left ? [answer("others", left)] : [];
}

function faults(state) {
  const { outage } = state;
  if (!outage) return state.faults;
  const covered = { messages: "Messages are refused", tokens: "Access tokens are refused", everything: "Everything is refused" };
  const length = outage.seconds ? ` for ${outage.seconds} s` : "";
  return [covered[outage.covers] + length, ...state.faults];
}

function entry(text) {
  const element = document.createElement("li");
  element.textContent = text;
  return element;
}

function chip(name) {
  const label = document.createElement("label");
  const input = Object.assign(document.createElement("input"), { type: "radio", name: "provider", value: name });
  const text = document.createElement("span");
  text.textContent = providerName(name);
  label.append(input, text);
  return label;
}
