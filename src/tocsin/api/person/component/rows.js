/** The rows of the list, one for each item, kept while the list changes around them. */

import { build, drawing, iconButton, label, set } from "./dom.js";

const ICON_NAME = /^[a-zA-Z][\w-]{0,63}$/;

/** Return the address that a link leads to, or null if a page should not follow it. */
export function safeLink(link) {
  const url = addressOf(link);
  return url && (url.protocol === "https:" || url.protocol === "http:") ? url.href : null;
}

function addressOf(link) {
  if (!link) return null;
  try {
    return new URL(link, document.baseURI);
  } catch {
    return null;
  }
}

export class Rows {
  #list;
  #actions;
  #rows = new Map();

  /** `actions` has `open(item, event)` and `mark(item, change)`. */
  constructor(list, actions) {
    this.#list = list;
    this.#actions = actions;
    list.addEventListener("keydown", (event) => this.#move(event));
  }

  /** Show these items, in this order. Return false if the row that had the focus is gone with all others. */
  render(items, language) {
    const focused = this.#focusedIndex();
    const kept = new Set(items.map((item) => item.id));
    for (const [id, row] of this.#rows) {
      if (!kept.has(id)) {
        row.element.remove();
        this.#rows.delete(id);
      }
    }
    let next = this.#list.firstElementChild;
    for (const item of items) {
      const row = this.#rows.get(item.id) ?? this.#add(item);
      row.update(item, language);
      if (row.element === next) next = next.nextElementSibling;
      else this.#list.insertBefore(row.element, next);
    }
    if (focused === -1 || this.#focusedIndex() !== -1) return true;
    const mains = this.#mains();
    mains[Math.min(focused, mains.length - 1)]?.focus();
    return mains.length > 0;
  }

  /** Write again how long ago each item came. */
  updateTimes(language) {
    for (const row of this.#rows.values()) row.updateTime(language);
  }

  #add(item) {
    const row = new Row(item, this.#actions);
    this.#rows.set(item.id, row);
    return row;
  }

  #mains() {
    return [...this.#list.querySelectorAll(".main")];
  }

  #focusedIndex() {
    const active = this.#list.getRootNode().activeElement;
    return active ? [...this.#list.children].findIndex((child) => child.contains(active)) : -1;
  }

  #move(event) {
    const mains = this.#mains();
    const at = this.#focusedIndex();
    const target = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: mains.length - 1 }[event.key];
    if (target === undefined || !mains[target]) return;
    event.preventDefault();
    mains[target].focus();
  }
}

class Row {
  #item;
  #createdAt;
  #main;
  #time = build("time", { part: "time" });
  #read;
  #archive;

  constructor(item, actions) {
    this.#item = item;
    this.#createdAt = new Date(item.created_at);
    const href = safeLink(item.link);
    this.#main = href ? build("a", { class: "main", href }) : build("button", { class: "main", type: "button" });
    if (href && new URL(href).origin !== location.origin) {
      this.#main.target = "_blank";
      this.#main.rel = "noopener noreferrer";
    }
    this.#main.part = "item-main";
    this.#main.addEventListener("click", (event) => actions.open(this.#item, event));
    this.#main.append(
      icon(item.icon),
      build(
        "span",
        { class: "texts" },
        build("span", { class: "title", part: "title", dir: "auto", text: item.title }),
        build("span", { class: "body", part: "body", dir: "auto", text: item.body }),
        this.#time,
      ),
    );
    const mark = (yes, no) => () => actions.mark(this.#item, this.#item[yes.at] ? no : yes.change);
    this.#read = iconButton("read", "action", mark({ at: "read_at", change: "read" }, "unread"));
    this.#archive = iconButton("archive", "action", mark({ at: "archived_at", change: "archive" }, "unarchive"));
    const buttons = build("span", { class: "actions" }, this.#read, this.#archive);
    this.element = build("li", {}, this.#main, buttons);
  }

  update(item, language) {
    this.#item = item;
    const { texts } = language;
    const isUnread = !item.read_at && !item.archived_at;
    this.element.className = isUnread ? "row unread" : "row";
    this.element.part = isUnread ? "item item-unread" : "item";
    set(this.#main, "aria-description", isUnread ? texts.unread : null);
    this.#read.hidden = Boolean(item.archived_at);
    relabel(this.#read, item.read_at ? "unread" : "read", item.read_at ? texts.markUnread : texts.markRead);
    relabel(this.#archive, item.archived_at ? "restore" : "archive", item.archived_at ? texts.restore : texts.archive);
    this.updateTime(language);
  }

  updateTime(language) {
    if (Number.isNaN(this.#createdAt.getTime())) return;
    this.#time.dateTime = this.#createdAt.toISOString();
    this.#time.title = language.date(this.#createdAt);
    this.#time.textContent = language.ago(this.#createdAt);
  }
}

function relabel(button, name, text) {
  if (!button.firstElementChild.classList.contains(`draws-${name}`)) button.replaceChildren(drawing(name));
  label(button, text);
}

/** Build an icon: a picture by https, else a bell that a page can style by the part `icon-NAME`. */
function icon(given) {
  const frame = build("span", { class: "icon", part: "icon" }, drawing("bell"));
  if (given && ICON_NAME.test(given)) frame.part.add(`icon-${given}`);
  else if (addressOf(given)?.protocol === "https:" && given.startsWith("https://")) {
    const picture = build("img", { alt: "", loading: "lazy", referrerpolicy: "no-referrer" });
    picture.addEventListener("error", () => picture.remove());
    picture.addEventListener("load", () => frame.classList.add("has-picture"));
    picture.src = given;
    frame.append(picture);
  }
  return frame;
}
