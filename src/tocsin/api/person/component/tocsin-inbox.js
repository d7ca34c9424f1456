/** `<tocsin-inbox server token lang>`: a bell with a person's notifications, live. */

import { CallError, Calls, Tokens } from "./calls.js";
import { Language } from "./language.js";
import { LiveStream } from "./live.js";
import { Panel } from "./panel.js";
import { PreferencesView } from "./preferences.js";
import { WebPush } from "./push.js";
import { safeLink } from "./rows.js";
import { InboxStore } from "./store.js";
import { sheet } from "./style.js";

const HERE = new URL(".", import.meta.url);
const FOLDER = "/v1/inbox/component/";
const PAGE = 20;
const MOST_RELOADED = 100;
const TIMES_EVERY_MS = 30_000;
/** Above every id: ids are hexadecimal. */
const EVERY_ID = "~";
const EVENTS = new Set(["item.created", "item.changed", "items.changed"]);

export class TocsinInbox extends HTMLElement {
  static observedAttributes = ["server", "gateway", "token", "lang", "dir", "worker"];

  /** Returns a fresh token; asked when there is none and when one has expired. */
  #getToken = null;
  #labels = {};
  #tokens = new Tokens(
    () => this.#getToken,
    () => this.#restart(),
  );
  #store = new InboxStore();
  #language = new Language("en");
  #root = this.attachShadow({ mode: "open" });
  #panel = null;
  #calls = null;
  #push = null;
  #preferences = null;
  #live = null;
  #state = "connecting";
  #loading = 0;
  #wasTold = "";
  #seenUpTo = "";
  #timer = null;

  constructor() {
    super();
    this.#root.adoptedStyleSheets = [sheet];
  }

  get getToken() {
    return this.#getToken;
  }

  set getToken(ask) {
    this.#getToken = ask;
    if (!this.#panel || !this.isConnected) return;
    // Frameworks set it at each rendering: a stream that runs is kept.
    if (this.#live) this.#live.retryNow();
    else this.#connect();
  }

  /** Names of categories in the preferences, by category. */
  get labels() {
    return this.#labels;
  }

  set labels(labels) {
    this.#labels = labels ?? {};
  }

  get unread() {
    return this.#store.counts.unread;
  }

  get unseen() {
    return this.#store.counts.unseen;
  }

  show() {
    if (this.#panel && !this.#panel.isOpen) this.#panel.element.showPopover();
  }

  hide() {
    if (this.#panel?.isOpen) this.#panel.element.hidePopover();
  }

  /** Subscribe this browser to Web Push; call it in the handler of a click. */
  async enablePush() {
    return this.#push.enable();
  }

  /** End Web Push in this browser; call it before the person signs out. */
  async disablePush() {
    return this.#push.disable();
  }

  connectedCallback() {
    for (const name of ["getToken", "labels"]) this.#upgrade(name);
    if (!this.#panel) this.#build();
    this.#translate();
    this.#tokens.set(this.getAttribute("token"));
    this.#connect();
  }

  disconnectedCallback() {
    this.#live?.stop();
    this.#live = null;
    clearInterval(this.#timer);
  }

  attributeChangedCallback(name, before, now) {
    if (before === now || !this.#panel) return;
    if (name === "lang" || name === "dir") this.#translate();
    else if (name === "token") this.#tokenChanged();
    else this.#restart();
  }

  /** Let a property that was set before the element was defined go through its setter. */
  #upgrade(name) {
    if (!Object.hasOwn(this, name)) return;
    const value = this[name];
    delete this[name];
    this[name] = value;
  }

  #build() {
    const bound = (name) => (...given) => this.#callPreferences(name, ...given);
    const calls = { get: bound("get"), patch: bound("patch") };
    const push = { state: () => this.#push.state(), enable: () => this.#push.enable(), disable: () => this.#push.disable() };
    const fail = (error) => this.#fail(error);
    this.#preferences = new PreferencesView({ calls, push, fail, labels: () => this.#labels });
    this.#panel = new Panel(
      this.#root,
      {
        open: (item, event) => this.#open(item, event),
        mark: (item, change) => this.#mark(item, change),
        markAll: () => this.#markAll(),
        select: (tab) => this.#select(tab),
        more: () => this.#load({ isFirst: false }),
        retry: () => this.#retry(),
        preferences: () => this.#showPreferences(),
        list: () => this.#showList(),
        toggled: (isOpen) => this.#toggled(isOpen),
      },
      this.#preferences.element,
    );
    this.#panel.showView("list");
  }

  #callPreferences(name, ...given) {
    return this.#calls[name](...given);
  }

  #connect() {
    const server = this.#server();
    this.#calls = new Calls(server, this.#tokens);
    const worker = this.getAttribute("worker") || server + FOLDER + "push-worker.js";
    this.#push = new WebPush(this.#calls, worker, () => this.#person());
    if (!this.getAttribute("token") && !this.#getToken) return;
    const gateway = (this.getAttribute("gateway") || server).replace(/\/+$/, "");
    this.#live = new LiveStream(`${gateway}/v1/inbox/stream`, this.#tokens, {
      onState: (state) => this.#liveChanged(state),
      onStale: () => this.#load({ isFirst: true }),
      onEvent: (event) => this.#happened(event),
    });
    this.#live.start();
    // Without a push service, or while it is away, the rest works all the same.
    this.#push.refresh().catch(() => {});
  }

  /** Return the address of the API: the attribute, or where this module came from, or the page's own. */
  #server() {
    const given = this.getAttribute("server");
    if (given !== null) return new URL(given, document.baseURI).href.replace(/\/+$/, "");
    return HERE.pathname.endsWith(FOLDER) ? HERE.href.slice(0, -FOLDER.length) : location.origin;
  }

  async #person() {
    await this.#tokens.current();
    return this.#tokens.subject;
  }

  #tokenChanged() {
    const before = this.#tokens.subject;
    this.#tokens.set(this.getAttribute("token"));
    if (this.#live && before !== null && before === this.#tokens.subject) this.#live.retryNow();
    else this.#restart();
  }

  /** Begin again with what the page has set; what another person had is not shown. */
  #restart() {
    if (!this.isConnected || !this.#panel) return;
    this.#live?.stop();
    this.#live = null;
    this.#store = new InboxStore();
    this.#seenUpTo = "";
    this.#panel.showError(null);
    this.#render();
    this.#connect();
  }

  #translate() {
    const tag = this.getAttribute("lang") || this.closest("[lang]")?.lang || document.documentElement.lang;
    this.#language = new Language(tag || navigator.language);
    this.#panel.translate(this.#language, this.getAttribute("dir") || this.#language.direction);
    if (this.#panel.isShowingPreferences) this.#showPreferences();
    this.#render();
  }

  #render() {
    const { tab } = this.#panel;
    const isLoading = this.#loading > 0 || (!this.#store.isLoaded(tab) && this.#state === "connecting");
    this.#panel.render(
      { items: this.#store.list(tab), counts: this.#store.counts, hasMore: this.#store.cursor(tab) !== null, isLoading },
      this.#language,
    );
    const { unread, unseen } = this.#store.counts;
    const told = `${unread} ${unseen}`;
    if (told === this.#wasTold) return;
    this.#wasTold = told;
    this.dispatchEvent(new CustomEvent("tocsin-count", { detail: { unread, unseen } }));
  }

  #liveChanged(state) {
    const wasSignedOut = this.#state === "signed-out" && state === "connecting";
    const isFirstFailure = state === "waiting" && this.#state === "connecting" && !this.#store.isLoaded(this.#panel.tab);
    this.#state = state;
    if (state === "signed-out") this.#fail(new CallError(401, "no_token"));
    // What cannot be live can still be read.
    else if (isFirstFailure || wasSignedOut) this.#load({ isFirst: true });
  }

  #happened(event) {
    const { texts } = this.#language;
    if (!EVENTS.has(event?.event)) {
      // A newer server: what it tells is in the list, too.
      this.#load({ isFirst: true });
      return;
    }
    const arrived = this.#store.apply(event);
    if (arrived && !arrived.read_at) this.#panel.announce(texts.arrived.replace("{title}", () => arrived.title));
    if (this.#store.isFull && !this.#panel.isOpen) this.#store.forget();
    this.#render();
    this.#markSeen();
  }

  /** Load the first page again, as far as it is shown, or the page that follows. */
  async #load({ isFirst }) {
    const { tab } = this.#panel;
    const store = this.#store;
    const cursor = store.cursor(tab);
    if (!isFirst && (cursor === null || this.#loading > 0)) return;
    const query = new URLSearchParams({ state: tab });
    query.set("limit", isFirst ? Math.min(MOST_RELOADED, Math.max(PAGE, store.list(tab).length)) : PAGE);
    if (!isFirst) query.set("cursor", cursor);
    this.#loading += 1;
    this.#render();
    try {
      await store.during(
        () => this.#calls.get(`/v1/inbox?${query}`),
        (page, asked) => store.takePage(tab, page, asked, { isFirst }),
      );
      this.#panel.showError(null);
    } catch (error) {
      if (store === this.#store) this.#fail(error, this.#language.texts.failed);
    } finally {
      this.#loading -= 1;
    }
    if (store !== this.#store) return;
    this.#render();
    this.#markSeen();
  }

  #retry() {
    this.#panel.showError(null);
    this.#live?.retryNow();
    if (this.#panel.isShowingPreferences) this.#showPreferences();
    else this.#load({ isFirst: true });
  }

  #select(tab) {
    if (tab === this.#panel.tab) return;
    this.#panel.tab = tab;
    this.#panel.scroller.scrollTop = 0;
    this.#render();
    if (!this.#store.isLoaded(tab)) this.#load({ isFirst: true });
  }

  #open(item, event) {
    if (!item.read_at) this.#mark(item, "read");
    const href = safeLink(item.link);
    const opened = new CustomEvent("tocsin-open", { detail: { item, href }, cancelable: true, bubbles: true, composed: true });
    if (!this.dispatchEvent(opened)) event.preventDefault();
  }

  #mark(item, change) {
    const store = this.#store;
    return this.#change(() =>
      store.during(
        () => this.#calls.post(`/v1/inbox/${encodeURIComponent(item.id)}/${change}`),
        (answer, asked) => store.takeAnswer(answer, asked),
      ),
    );
  }

  #markAll() {
    return this.#change(() => this.#markUpTo("read", this.#newest()));
  }

  /** Mark as seen what an open panel shows to somebody. */
  async #markSeen() {
    const newest = this.#newest();
    const isShown = this.#panel.isOpen && !document.hidden && !this.#panel.isShowingPreferences;
    if (!isShown || this.unseen === 0 || newest === undefined || newest === this.#seenUpTo) return;
    this.#seenUpTo = newest;
    await this.#change(() => this.#markUpTo("seen", newest));
  }

  #newest() {
    return this.#store.list(this.#panel.tab)[0]?.id;
  }

  async #markUpTo(change, newest) {
    const counts = await this.#calls.post(`/v1/inbox/${change}`, newest === undefined ? {} : { up_to: newest });
    const at = new Date().toISOString();
    this.#store.apply({ event: "items.changed", change, up_to: newest ?? EVERY_ID, category: null, at, ...counts });
  }

  async #change(call) {
    try {
      await call();
      this.#panel.showError(null);
    } catch (error) {
      this.#fail(error);
    }
    this.#render();
  }

  #fail(error, text = this.#language.texts.actionFailed) {
    const isSignedOut = error instanceof CallError && error.isSignedOut;
    this.#panel.showError(isSignedOut ? this.#language.texts.signedOut : text, !isSignedOut);
    if (isSignedOut) this.dispatchEvent(new CustomEvent("tocsin-signed-out", { bubbles: true, composed: true }));
    this.#render();
  }

  #toggled(isOpen) {
    clearInterval(this.#timer);
    if (!isOpen) {
      this.#showList({ isFocused: false });
      return;
    }
    this.#timer = setInterval(() => this.#panel.updateTimes(this.#language), TIMES_EVERY_MS);
    this.#panel.updateTimes(this.#language);
    if (this.#state !== "live" || !this.#store.isLoaded(this.#panel.tab)) {
      this.#live?.retryNow();
      this.#load({ isFirst: true });
    } else this.#markSeen();
  }

  async #showPreferences() {
    this.#panel.showView("preferences");
    this.#render();
    this.#panel.back.focus();
    try {
      await this.#preferences.show(this.#language);
      this.#panel.showError(null);
    } catch (error) {
      this.#preferences.element.replaceChildren();
      this.#fail(error);
    }
  }

  #showList({ isFocused = true } = {}) {
    const wasPreferences = this.#panel.isShowingPreferences;
    this.#panel.showView("list");
    this.#render();
    if (wasPreferences && isFocused) this.#panel.settings.focus();
  }
}

customElements.define("tocsin-inbox", TocsinInbox);
