/** Calls of Tocsin's HTTP API with a person's token, which is renewed once if it has expired. */

const TIMEOUT_MS = 15_000;

/** An answer that is not a success, or none at all (`status` 0). */
export class CallError extends Error {
  constructor(status, code) {
    super(`${status} ${code}`);
    this.status = status;
    this.code = code;
  }

  get isSignedOut() {
    return this.status === 401;
  }
}

/** The token in use: set by the page, or asked of its function `getToken`. */
export class Tokens {
  #token = null;
  #renewal = null;
  #ask;
  #onOther;
  /** Whose the token is, or null if that cannot be read. */
  subject = null;

  /** `ask` returns the page's function, if it has one; `onOther` is called if its token is another person's. */
  constructor(ask, onOther) {
    this.#ask = ask;
    this.#onOther = onOther;
  }

  set(token) {
    this.#token = token || null;
    this.subject = token ? subjectOf(token) : null;
  }

  /** Return the token, asking for a first one if there is none. */
  async current() {
    return this.#token ?? this.renew(null);
  }

  /** Return a token other than `refused`, or null if the page has no other. */
  async renew(refused) {
    if (this.#token !== null && this.#token !== refused) return this.#token;
    const ask = this.#ask();
    if (!ask) return null;
    // Calls that fail together ask once.
    this.#renewal ??= Promise.resolve()
      .then(ask)
      .finally(() => (this.#renewal = null));
    const token = await this.#renewal;
    if (typeof token !== "string" || !token || token === refused) return null;
    const before = this.subject;
    this.set(token);
    if (before !== null && before !== this.subject) this.#onOther();
    return token;
  }
}

/** Return whose a JWT is, without verifying it; null if it cannot be read. */
export function subjectOf(token) {
  try {
    const payload = token.split(".")[1].replaceAll("-", "+").replaceAll("_", "/");
    const bytes = Uint8Array.from(atob(payload), (character) => character.charCodeAt(0));
    const { sub, org_id } = JSON.parse(new TextDecoder().decode(bytes));
    return sub === undefined ? null : JSON.stringify([sub, org_id ?? null]);
  } catch {
    return null;
  }
}

export class Calls {
  #tokens;
  #server;

  constructor(server, tokens) {
    this.#server = server;
    this.#tokens = tokens;
  }

  get = (path) => this.#call("GET", path);
  post = (path, body) => this.#call("POST", path, body);
  patch = (path, body) => this.#call("PATCH", path, body);

  async #call(method, path, body) {
    let token = await this.#current();
    let answer = await this.#fetch(method, path, body, token);
    if (answer.status === 401) {
      token = await this.#renewed(token);
      if (token !== null) answer = await this.#fetch(method, path, body, token);
    }
    const content = await answer.json().catch(() => null);
    if (!answer.ok) throw new CallError(answer.status, String(content?.code ?? "unknown"));
    if (content === null) throw new CallError(0, "not_json");
    return content;
  }

  async #current() {
    const token = await this.#tokens.current().catch(unavailable);
    if (token === null) throw new CallError(401, "no_token");
    return token;
  }

  #renewed(refused) {
    return this.#tokens.renew(refused).catch(unavailable);
  }

  async #fetch(method, path, body, token) {
    const headers = { authorization: `Bearer ${token}` };
    if (body !== undefined) headers["content-type"] = "application/json";
    try {
      return await fetch(this.#server + path, {
        method,
        headers,
        body: body === undefined ? undefined : JSON.stringify(body),
        cache: "no-store",
        credentials: "same-origin",
        // A click may mark an item as read and leave the page.
        keepalive: method === "POST",
        signal: AbortSignal.timeout(TIMEOUT_MS),
      });
    } catch {
      throw new CallError(0, "unreachable");
    }
  }
}

/** The page's function failed: that is not to say that the person is signed out. */
function unavailable() {
  throw new CallError(0, "token_unavailable");
}
