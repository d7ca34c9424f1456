// Draws devices and what they show.

import { age, clock, day, imageName, providerName, senderName } from "./words.js";

// A device shows its newest messages; the rest can be found in the raw log.
const MOST_NOTICES = 20;

const CHROME = {
  phone: () => "",
  browser: () => "Your site",
  mailbox: (device) => device.target,
  endpoint: (device) => `POST /webhook/${device.target}`,
  topic: (device) => (device.targetKind === "condition" ? "Everyone who matches" : "Everyone who subscribed"),
};

export class Devices {
  #list;
  #open;
  #drawn = new Map();
  #deviceTemplate = document.getElementById("device_template");
  #noticeTemplate = document.getElementById("notice_template");

  constructor(list, open) {
    this.#list = list;
    this.#open = open;
  }

  // Draws the changed devices, the one with the newest message first.
  draw(devices, lively) {
    for (const device of devices) {
      const drawn = this.#drawn.get(device.key) ?? this.#make(device);
      this.#update(drawn, device, lively);
      toFront(this.#list, drawn.item);
    }
  }

  // Removes messages that are no longer kept, without moving the devices.
  trim(devices) {
    for (const device of devices) {
      const drawn = this.#drawn.get(device.key);
      if (drawn) this.#update(drawn, device, false);
    }
  }

  remove(devices) {
    for (const device of devices) {
      this.#drawn.get(device.key)?.item.remove();
      this.#drawn.delete(device.key);
    }
  }

  clear() {
    this.#drawn.clear();
    this.#list.replaceChildren();
  }

  // Shows only the devices that match, and returns their number.
  filter(matches) {
    let shown = 0;
    for (const { item, device } of this.#drawn.values()) {
      const fits = matches(device);
      item.hidden = !fits;
      shown += fits;
    }
    return shown;
  }

  tick(now) {
    for (const time of this.#list.querySelectorAll("time")) {
      setText(time, age(new Date(time.dateTime), now));
    }
  }

  #make(device) {
    const item = this.#deviceTemplate.content.firstElementChild.cloneNode(true);
    const heading = item.querySelector("h3");
    item.dataset.kind = device.kind;
    item.dataset.provider = device.provider;
    heading.textContent = device.target;
    heading.title = device.target;
    item.querySelector(".tag").textContent =
      providerName(device.provider) + (device.kind === "topic" ? ` ${device.targetKind}` : "");
    item.querySelector(".chrome_middle").textContent = CHROME[device.kind](device);
    const drawn = { item, device, notices: new Map() };
    this.#drawn.set(device.key, drawn);
    this.#list.prepend(item);
    return drawn;
  }

  #update(drawn, device, lively) {
    drawn.device = device;
    const list = drawn.item.querySelector(".notices");
    const shown = device.messages.slice(0, MOST_NOTICES);
    const numbers = new Set(shown.map((message) => message.number));
    for (const [number, notice] of drawn.notices) {
      if (!numbers.has(number)) {
        notice.remove();
        drawn.notices.delete(number);
      }
    }
    for (const message of [...shown].reverse()) {
      if (!drawn.notices.has(message.number)) {
        const notice = this.#notice(message, lively);
        drawn.notices.set(message.number, notice);
        list.prepend(notice);
      }
    }
    showPreview(list, shown[0]);
    const latest = new Date(shown[0].at);
    setText(drawn.item.querySelector(".clock b"), clock(latest));
    setText(drawn.item.querySelector(".clock span"), day(latest));
    setText(drawn.item.querySelector(".chrome_left"), device.kind === "phone" ? clock(latest) : "");
  }

  #notice(message, lively) {
    const item = this.#noticeTemplate.content.firstElementChild.cloneNode(true);
    const part = (name) => item.querySelector(`.${name}`);
    const { look } = message;
    item.classList.toggle("arrived", lively);
    item.classList.toggle("silent", Boolean(look.silent));
    part("notice_from").textContent = from(message);
    part("notice_title").textContent = title(message);
    part("notice_body").textContent = look.body ?? "";
    if (look.badge !== undefined) {
      part("count").hidden = false;
      part("count").textContent = String(look.badge);
      part("count").title = "The badge on the app's icon";
    }
    if (look.image) {
      part("notice_image").hidden = false;
      part("notice_image").title = `${look.image} (not fetched)`;
      part("notice_image").lastElementChild.textContent = imageName(look.image);
    }
    const at = new Date(message.at);
    const time = item.querySelector("time");
    time.dateTime = message.at;
    time.title = at.toLocaleString();
    time.textContent = age(at, Date.now());
    item.querySelector("button").addEventListener("click", () => this.#open(message));
    return item;
  }
}

export function title(message) {
  const { look } = message;
  if (look.title) return look.title;
  if (look.silent) return "Silent, for the app alone";
  return look.body ? "" : "Without words";
}

function from(message) {
  if (message.device === "mailbox") return senderName(message.look.sender ?? "");
  if (message.device === "endpoint") return "Event";
  if (message.device === "browser") return "Your site";
  return "Your app";
}

// The newest mail of a mailbox is shown as its reader sees it, in a frame without scripts.
function showPreview(list, newest) {
  const present = list.querySelector(".preview");
  const wanted = newest.look.html ? mailAddress(newest.number) : null;
  if (present?.firstElementChild.getAttribute("src") === wanted) return;
  present?.remove();
  if (!wanted) return;
  const preview = document.createElement("li");
  preview.className = "preview";
  preview.inert = true;
  preview.ariaHidden = "true";
  preview.append(mailFrame(newest.number, ""));
  list.firstElementChild.after(preview);
}

export function mailFrame(number, name) {
  const frame = document.createElement("iframe");
  frame.setAttribute("sandbox", "");
  frame.setAttribute("referrerpolicy", "no-referrer");
  frame.setAttribute("loading", "lazy");
  frame.title = name;
  frame.src = mailAddress(number);
  return frame;
}

const mailAddress = (number) => `/_sandbox/messages/${number}/html`;

// `moveBefore` keeps focus and frames; not every browser has it.
function toFront(list, item) {
  if (list.firstElementChild === item) return;
  if (list.moveBefore) list.moveBefore(item, list.firstElementChild);
  else list.insertBefore(item, list.firstElementChild);
}

export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
