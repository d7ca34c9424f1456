/** What is known of an inbox: items by id, the pages that were loaded, and the counts. */

const SHOWN = {
  active: (item) => !item.archived_at,
  unread: (item) => !item.archived_at && !item.read_at,
  archived: (item) => Boolean(item.archived_at),
};
const MOST_ITEMS = 500;

export const TABS = Object.keys(SHOWN);

export class InboxStore {
  counts = { unread: 0, unseen: 0 };
  #items = new Map();
  #pages = new Map();
  // Events overtake answers: what changed since a call began is newer than its answer.
  #position = 0;
  #countsAt = 0;
  #changedAt = new Map();
  #bulk = [];
  #calls = 0;

  /** Return the items of a tab, newest first, as far as its pages go. */
  list(tab) {
    const page = this.#pages.get(tab);
    if (!page) return [];
    return [...this.#items.values()]
      .filter((item) => SHOWN[tab](item) && item.id >= page.floor)
      .sort((one, other) => (one.id < other.id ? 1 : -1));
  }

  get(id) {
    return this.#items.get(id);
  }

  isLoaded(tab) {
    return this.#pages.has(tab);
  }

  /** Return the cursor of the page that follows, or null if the tab is complete. */
  cursor(tab) {
    return this.#pages.get(tab)?.cursor ?? null;
  }

  get isFull() {
    return this.#items.size > MOST_ITEMS;
  }

  /** Forget the items and keep the counts. */
  forget() {
    this.#items.clear();
    this.#pages.clear();
  }

  /** Run a call and return what `take` makes of its answer and of the position when the call began. */
  async during(call, take) {
    const asked = this.#position;
    this.#calls += 1;
    try {
      return take(await call(), asked);
    } finally {
      this.#calls -= 1;
      if (this.#calls === 0) {
        this.#changedAt.clear();
        this.#bulk.length = 0;
      }
    }
  }

  /** Add a page; the first one replaces what the tab had and makes other tabs load again. */
  takePage(tab, page, asked, { isFirst }) {
    if (isFirst) {
      this.#pages.clear();
      const kept = new Set(page.items.map((item) => item.id));
      for (const id of this.#items.keys()) {
        if (!kept.has(id) && !this.#isNewer(id, asked)) this.#items.delete(id);
      }
    }
    for (const item of page.items) this.#takeOld(item, asked);
    const last = page.items.at(-1)?.id;
    const floor = page.next_cursor === null ? "" : (last ?? this.#pages.get(tab)?.floor ?? "");
    this.#pages.set(tab, { floor, cursor: page.next_cursor });
    this.takeCounts(page, asked);
  }

  /** Take the counts of an answer, unless something newer is known. */
  takeCounts({ unread, unseen }, asked) {
    if (this.#countsAt <= asked) this.counts = { unread, unseen };
  }

  /** Take an item of an answer, unless something newer is known. */
  takeAnswer({ item, ...counts }, asked) {
    this.#takeOld(item, asked);
    this.takeCounts(counts, asked);
  }

  /** Apply an event; return the item if it is new here. */
  apply(event) {
    const at = ++this.#position;
    this.#countsAt = at;
    this.counts = { unread: event.unread, unseen: event.unseen };
    if (event.event === "items.changed") {
      this.#bulk.push({ at, event });
      for (const item of this.#items.values()) this.#items.set(item.id, marked(item, event));
      if (this.#calls === 0) this.#bulk.length = 0;
      return null;
    }
    const isNew = event.event === "item.created" && !this.#items.has(event.item.id);
    this.#items.set(event.item.id, event.item);
    if (this.#calls > 0) this.#changedAt.set(event.item.id, at);
    return isNew ? event.item : null;
  }

  #isNewer(id, asked) {
    return (this.#changedAt.get(id) ?? -1) > asked;
  }

  #takeOld(item, asked) {
    if (this.#isNewer(item.id, asked)) return;
    const missed = this.#bulk.filter(({ at }) => at > asked);
    this.#items.set(
      item.id,
      missed.reduce((each, { event }) => marked(each, event), item),
    );
  }
}

/** Return an item after an event about all items up to one. */
function marked(item, { change, up_to, category, at }) {
  if (item.id > up_to || item.archived_at || (category !== null && item.category !== category)) return item;
  const seen_at = item.seen_at ?? at;
  return change === "read" ? { ...item, seen_at, read_at: item.read_at ?? at } : { ...item, seen_at };
}
