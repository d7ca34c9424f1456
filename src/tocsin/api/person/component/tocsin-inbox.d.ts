/** The types of `<tocsin-inbox>`, the bell of a person's notifications. */

/** An item of an inbox. Its texts are plain, never HTML. */
export interface InboxItem {
  readonly id: string;
  readonly type: string;
  readonly category: string;
  readonly title: string;
  readonly body: string;
  readonly link: string | null;
  readonly icon: string | null;
  readonly data: Readonly<Record<string, string>>;
  readonly created_at: string;
  readonly seen_at: string | null;
  readonly read_at: string | null;
  readonly archived_at: string | null;
}

/** How many items are new; counting ends at 100, then there may be more. */
export interface InboxCounts {
  readonly unread: number;
  readonly unseen: number;
}

/** An item that a person opens; `href` is null if it leads nowhere that a page should follow. */
export interface OpenedItem {
  readonly item: InboxItem;
  readonly href: string | null;
}

/** Whether this browser gets Web Push. */
export type PushState = "unsupported" | "denied" | "on" | "off";

export interface TocsinInboxEventMap {
  /** The counts changed. */
  "tocsin-count": CustomEvent<InboxCounts>;
  /** An item was opened; `preventDefault()` keeps the browser from following its link. */
  "tocsin-open": CustomEvent<OpenedItem>;
  /** The token is refused and there is no other. */
  "tocsin-signed-out": CustomEvent<null>;
}

export class TocsinInbox extends HTMLElement {
  /** Returns a fresh token of the person; asked when there is none and when one has expired. */
  getToken: (() => Promise<string> | string) | null;
  /** Names of categories in the preferences, by category. */
  labels: Readonly<Record<string, string>>;
  readonly unread: number;
  readonly unseen: number;
  show(): void;
  hide(): void;
  /** Subscribe this browser to Web Push; call it in the handler of a click. */
  enablePush(): Promise<PushState>;
  /** End Web Push in this browser; call it before the person signs out. */
  disablePush(): Promise<PushState>;
  addEventListener<K extends keyof TocsinInboxEventMap>(
    type: K,
    listener: (this: TocsinInbox, event: TocsinInboxEventMap[K]) => unknown,
    options?: boolean | AddEventListenerOptions,
  ): void;
  addEventListener(
    type: string,
    listener: EventListenerOrEventListenerObject,
    options?: boolean | AddEventListenerOptions,
  ): void;
  removeEventListener<K extends keyof TocsinInboxEventMap>(
    type: K,
    listener: (this: TocsinInbox, event: TocsinInboxEventMap[K]) => unknown,
    options?: boolean | EventListenerOptions,
  ): void;
  removeEventListener(
    type: string,
    listener: EventListenerOrEventListenerObject,
    options?: boolean | EventListenerOptions,
  ): void;
}

declare global {
  interface HTMLElementTagNameMap {
    "tocsin-inbox": TocsinInbox;
  }
}
