/** The bell and the panel that it opens: what is on the screen, without any calls. */

import { build, drawing, iconButton, label, set } from "./dom.js";
import { Rows } from "./rows.js";
import { TABS } from "./store.js";

const GAP = 8;
const WIDTH = 400;
const ENOUGH_HEIGHT = 320;
const TAB_TEXTS = { active: "all", unread: "unread", archived: "archived" };
const EMPTY_TEXTS = { active: "empty", unread: "emptyUnread", archived: "emptyArchived" };

export class Panel {
  tab = "active";
  #actions;
  #rows;
  #tabs = new Map();
  #badge = build("span", { class: "badge", part: "badge", "aria-hidden": "true" });
  #heading = build("h2", { id: "heading", part: "heading" });
  #list = build("ul", { part: "list", role: "list" });
  #empty = build("p", { class: "empty", part: "empty" });
  #note = build("p", { class: "note", part: "error", role: "alert" });
  #status = build("div", { class: "only-read-aloud", role: "status" });
  #hasMore = false;
  #observer;

  /** `actions`: open, mark, markAll, select(tab), more, retry, preferences, list, toggled(isOpen). */
  constructor(root, actions, preferences) {
    this.#actions = actions;
    this.#rows = new Rows(this.#list, actions);
    this.bell = build("button", { type: "button", class: "bell", part: "bell", "aria-haspopup": "dialog" });
    this.bell.append(build("slot", { name: "bell" }, drawing("bell")), this.#badge);
    this.#build(preferences);
    this.bell.popoverTargetElement = this.element;
    root.append(this.bell, this.element, this.#status);
    this.#observer = new IntersectionObserver(
      (entries) => entries.at(-1).isIntersecting && this.#hasMore && actions.more(),
      { root: this.scroller, rootMargin: "160px" },
    );
  }

  #build(preferences) {
    const actions = this.#actions;
    this.back = iconButton("back", "action", actions.list);
    this.markAll = iconButton("checks", "action", actions.markAll);
    this.settings = iconButton("settings", "action", actions.preferences);
    this.retry = build("button", { type: "button", class: "text-button", part: "retry", onclick: actions.retry });
    this.more = build("button", { type: "button", class: "text-button more", part: "more", onclick: actions.more });
    this.tablist = build("div", { role: "tablist", part: "tabs", class: "tabs", onkeydown: (event) => this.#moveTab(event) });
    for (const tab of TABS) {
      const button = build("button", { type: "button", role: "tab", id: `tab-${tab}`, part: "tab", "aria-controls": "scroller" });
      button.addEventListener("click", () => actions.select(tab));
      this.#tabs.set(tab, button);
      this.tablist.append(button);
    }
    this.scroller = build("div", { id: "scroller", class: "scroller", part: "scroller", role: "tabpanel" });
    this.scroller.append(this.#list, this.#empty, this.more);
    this.preferences = preferences;
    this.element = build(
      "div",
      { class: "panel", part: "panel", popover: "auto", role: "dialog", "aria-labelledby": "heading", tabindex: "-1" },
      build("header", { part: "header" }, this.back, this.#heading, this.markAll, this.settings),
      this.tablist,
      build("div", { class: "notes" }, this.#note, this.retry),
      this.scroller,
      preferences,
    );
    this.element.addEventListener("beforetoggle", (event) => this.#beforeToggle(event.newState === "open"));
    this.element.addEventListener("toggle", (event) => this.#toggled(event.newState === "open"));
    this.showError(null);
  }

  get isOpen() {
    return this.element.matches(":popover-open");
  }

  get isShowingPreferences() {
    return !this.preferences.hidden;
  }

  /** Show the list, or the preferences. */
  showView(name) {
    const isList = name === "list";
    for (const element of [this.markAll, this.settings, this.tablist, this.scroller]) element.hidden = !isList;
    for (const element of [this.back, this.preferences]) element.hidden = isList;
  }

  /** Write the texts of a language. */
  translate(language, direction) {
    const { texts } = language;
    for (const element of [this.bell, this.element]) {
      element.lang = language.code;
      element.dir = direction;
    }
    for (const [tab, button] of this.#tabs) button.textContent = texts[TAB_TEXTS[tab]];
    label(this.markAll, texts.markAll);
    label(this.settings, texts.preferences);
    label(this.back, texts.back);
    this.more.textContent = texts.more;
    this.retry.textContent = texts.retry;
  }

  /** Show a state of the inbox: `items`, `counts`, `hasMore`, `isLoading`. */
  render({ items, counts, hasMore, isLoading }, language) {
    const { texts } = language;
    const hadMore = this.#hasMore;
    this.#hasMore = hasMore && !isLoading;
    this.#badge.textContent = language.badge(counts.unread);
    this.#badge.hidden = counts.unread === 0;
    set(this.#badge, "part", counts.unseen > 0 ? "badge badge-unseen" : "badge");
    label(this.bell, language.bell(counts.unread));
    this.#heading.textContent = this.isShowingPreferences ? texts.preferences : texts.title;
    this.markAll.disabled = counts.unread === 0;
    for (const [tab, button] of this.#tabs) {
      button.setAttribute("aria-selected", String(tab === this.tab));
      button.tabIndex = tab === this.tab ? 0 : -1;
    }
    this.scroller.setAttribute("aria-labelledby", `tab-${this.tab}`);
    if (!this.#rows.render(items, language)) this.#tabs.get(this.tab).focus();
    this.#empty.hidden = items.length > 0 || !this.#note.hidden;
    this.#empty.textContent = isLoading ? texts.loading : texts[EMPTY_TEXTS[this.tab]];
    set(this.scroller, "aria-busy", isLoading ? "true" : null);
    this.more.hidden = !hasMore;
    // Observing anew tells whether the end is in sight: a page may be too short to move it out.
    if (hadMore && !this.#hasMore) this.#observer.unobserve(this.more);
    if (!hadMore && this.#hasMore) this.#observer.observe(this.more);
  }

  /** Show an error, with a button to try again if that helps; null shows none. */
  showError(text, canRetry = false) {
    this.#note.hidden = text === null;
    this.#note.textContent = text ?? "";
    this.retry.hidden = text === null || !canRetry;
  }

  /** Have a screen reader say something. */
  announce(text) {
    this.#status.textContent = text;
  }

  updateTimes(language) {
    this.#rows.updateTimes(language);
  }

  focusTab() {
    this.#tabs.get(this.tab).focus();
  }

  /** Put the panel below the bell, or above it where there is more room, within the window. */
  place = () => {
    const bell = this.bell.getBoundingClientRect();
    const { clientWidth, clientHeight } = document.documentElement;
    const width = Math.min(WIDTH, clientWidth - 2 * GAP);
    const isFromRight = getComputedStyle(this.element).direction === "rtl";
    const wanted = isFromRight ? bell.left : bell.right - width;
    const below = clientHeight - bell.bottom - 2 * GAP;
    const isAbove = below < ENOUGH_HEIGHT && bell.top > below;
    const { style } = this.element;
    style.setProperty("width", `${width}px`);
    style.setProperty("left", `${Math.max(GAP, Math.min(wanted, clientWidth - width - GAP))}px`);
    style.setProperty("top", isAbove ? "auto" : `${Math.max(GAP, bell.bottom + GAP)}px`);
    style.setProperty("bottom", isAbove ? `${clientHeight - bell.top + GAP}px` : "auto");
    style.setProperty("max-height", `${Math.max(200, isAbove ? bell.top - 2 * GAP : below)}px`);
  };

  /** Place the panel before it is shown; return the focus, unless a click elsewhere has taken it already. */
  #beforeToggle(isOpening) {
    if (isOpening) this.place();
    else if (this.element.contains(this.element.getRootNode().activeElement)) this.bell.focus();
  }

  #toggled(isOpen) {
    this.bell.setAttribute("aria-expanded", String(isOpen));
    const listen = isOpen ? window.addEventListener : window.removeEventListener;
    for (const name of ["resize", "scroll"]) listen.call(window, name, this.place, { passive: true });
    if (isOpen) this.element.focus();
    this.#actions.toggled(isOpen);
  }

  #moveTab(event) {
    const isFromRight = getComputedStyle(this.element).direction === "rtl";
    const step = { ArrowRight: isFromRight ? -1 : 1, ArrowLeft: isFromRight ? 1 : -1 }[event.key];
    const at = TABS.indexOf(this.tab);
    const target = { Home: 0, End: TABS.length - 1 }[event.key] ?? (step && (at + step + TABS.length) % TABS.length);
    if (target === undefined) return;
    event.preventDefault();
    this.#actions.select(TABS[target]);
    this.focusTab();
  }
}
