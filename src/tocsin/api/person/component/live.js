/** The live stream of an inbox: Server-Sent Events read with `fetch`, so that the token is in no address. */

const SILENCE_MS = 50_000;
const HIDDEN_MS = 60_000;
const LONGEST_WAIT_MS = 60_000;
const FIRST_WAIT_MS = 1_000;

/** Return how long to wait before the attempt after `failures`, spread so that clients do not come together. */
export function backoff(failures, base = FIRST_WAIT_MS, random = Math.random) {
  const longest = Math.min(LONGEST_WAIT_MS, base * 2 ** Math.min(failures, 10));
  return longest / 2 + (longest / 2) * random();
}

/** Splits a stream of text into frames `{event, data, id, retry}`. */
export class FrameReader {
  #rest = "";

  /** Return the frames that are complete with `text`. */
  feed(text) {
    const parts = (this.#rest + text).replaceAll("\r\n", "\n").split("\n\n");
    this.#rest = parts.pop();
    return parts.map((part) => this.#frame(part));
  }

  #frame(part) {
    const frame = { event: "message", data: null, id: null, retry: null };
    for (const line of part.split("\n")) {
      const colon = line.indexOf(":");
      if (colon < 1) continue;
      const value = line.slice(colon + 1).replace(/^ /, "");
      const field = line.slice(0, colon);
      if (field === "data") frame.data = frame.data === null ? value : `${frame.data}\n${value}`;
      else if (field === "event" || field === "id") frame[field] = value;
      else if (field === "retry" && /^\d+$/.test(value)) frame.retry = Number(value);
    }
    return frame;
  }
}

/**
 * Keeps a stream open and resumes where it broke off.
 *
 * `onStale` is called when events may have been missed, `onEvent` for each event, `onState` with
 * "connecting", "live", "waiting" or "signed-out". A page that is hidden for a minute closes its stream.
 */
export class LiveStream {
  #url;
  #tokens;
  #on;
  #lastId = null;
  #retryMs = FIRST_WAIT_MS;
  #failures = 0;
  #isRunning = false;
  #abort = null;
  #wake = null;
  #hiding = null;
  #isPaused = false;

  constructor(url, tokens, handlers) {
    this.#url = url;
    this.#tokens = tokens;
    this.#on = handlers;
  }

  start() {
    if (this.#isRunning) return;
    this.#isRunning = true;
    document.addEventListener("visibilitychange", this.#visibilityChanged);
    window.addEventListener("online", this.retryNow);
    this.#run();
  }

  stop() {
    this.#isRunning = false;
    clearTimeout(this.#hiding);
    document.removeEventListener("visibilitychange", this.#visibilityChanged);
    window.removeEventListener("online", this.retryNow);
    this.#abort?.abort();
    this.#wake?.();
  }

  /** Connect without waiting any longer. */
  retryNow = () => this.#wake?.();

  #visibilityChanged = () => {
    clearTimeout(this.#hiding);
    if (document.hidden) this.#hiding = setTimeout(this.#pause, HIDDEN_MS);
    else {
      this.#isPaused = false;
      this.retryNow();
    }
  };

  #pause = () => {
    this.#isPaused = true;
    this.#abort?.abort();
  };

  async #run() {
    let refused = null;
    while (this.#isRunning) {
      const { token, waitMs } = await this.#token(refused);
      if (!this.#isRunning) return;
      refused = null;
      if (token === null) {
        await this.#wait(waitMs);
        continue;
      }
      this.#on.onState("connecting");
      const result = await this.#session(token);
      if (!this.#isRunning) return;
      if (result.isRefused) refused = token;
      // The first refusal is answered by a new token at once; a second in a row waits as any other failure.
      if (result.isRefused && this.#failures++ === 0) continue;
      this.#on.onState("waiting");
      await this.#wait(this.#isPaused ? null : result.waitMs);
    }
  }

  /** Return the token to connect with; without one, null and how long to wait, or null to wait for the page. */
  async #token(refused) {
    try {
      const token = await (refused === null ? this.#tokens.current() : this.#tokens.renew(refused));
      if (token === null) this.#on.onState("signed-out");
      return { token, waitMs: null };
    } catch {
      this.#on.onState("waiting");
      return { token: null, waitMs: backoff(this.#failures++) };
    }
  }

  /** Read one stream until it ends; return how long to wait before the next. */
  async #session(token) {
    this.#abort = new AbortController();
    let silence;
    const heard = () => {
      clearTimeout(silence);
      silence = setTimeout(() => this.#abort.abort(), SILENCE_MS);
    };
    try {
      heard();
      const headers = { authorization: `Bearer ${token}`, accept: "text/event-stream" };
      if (this.#lastId !== null) headers["last-event-id"] = this.#lastId;
      const answer = await fetch(this.#url, { headers, cache: "no-store", signal: this.#abort.signal });
      if (!answer.ok || !answer.body) return this.#refusal(answer);
      return await this.#read(answer.body.pipeThrough(new TextDecoderStream()).getReader(), heard);
    } catch {
      // A network that broke, a silent server, or a page that hid: all are mended by connecting again.
      return { waitMs: backoff(this.#failures++, this.#retryMs) };
    } finally {
      clearTimeout(silence);
      this.#abort.abort();
    }
  }

  #refusal(answer) {
    const seconds = Number(answer.headers.get("retry-after"));
    if (answer.status === 401) return { isRefused: true, waitMs: backoff(this.#failures, this.#retryMs) };
    const wait = backoff(this.#failures++, this.#retryMs);
    return { waitMs: seconds > 0 ? Math.min(seconds * 1_000, LONGEST_WAIT_MS * 5) + wait / 2 : wait };
  }

  async #read(reader, heard) {
    const frames = new FrameReader();
    let isLive = false;
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return { waitMs: backoff(this.#failures++, this.#retryMs) };
      heard();
      for (const frame of frames.feed(value)) {
        if (frame.retry !== null) this.#retryMs = Math.max(100, frame.retry);
        if (frame.event === "end") return this.#ended(frame);
        if (frame.id !== null && !isLive) {
          isLive = true;
          this.#failures = 0;
          this.#on.onState("live");
          if (this.#lastId === null) this.#on.onStale();
        }
        if (frame.event === "reset") this.#on.onStale();
        else if (frame.event === "message" && frame.data !== null) this.#tell(frame.data);
        if (frame.id !== null) this.#lastId = frame.id;
      }
    }
  }

  #tell(data) {
    let event;
    try {
      event = JSON.parse(data);
    } catch {
      this.#on.onStale();
      return;
    }
    try {
      this.#on.onEvent(event);
    } catch (error) {
      // The stream goes on; the page learns of it as of any uncaught error.
      reportError(error);
    }
  }

  #ended(frame) {
    let end = {};
    try {
      end = JSON.parse(frame.data);
    } catch {
      // An end without a reason is an end all the same.
    }
    const waitMs = Number.isFinite(end.retry_ms) ? Math.max(0, end.retry_ms) : this.#retryMs;
    return { isRefused: end.reason === "token_expired", waitMs: Math.min(waitMs, LONGEST_WAIT_MS) };
  }

  /** Wait for a time, or until woken; null waits for that alone. */
  #wait(milliseconds) {
    return new Promise((resolve) => {
      const timer = milliseconds === null ? undefined : setTimeout(resolve, milliseconds);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    }).finally(() => (this.#wake = null));
  }
}
