/** Web Push for this browser: subscribe it with Tocsin's key and register it as a device. */

const STORED = "tocsin-inbox-push";
const REGISTER_AGAIN_MS = 24 * 3_600_000;

export class WebPush {
  #calls;
  #worker;
  #subject;

  /** `worker` is the address of the service worker; `subject` returns whose the subscription is to be. */
  constructor(calls, worker, subject) {
    this.#calls = calls;
    this.#worker = worker;
    this.#subject = subject;
  }

  /** Return "unsupported", "denied", "on" or "off". */
  async state() {
    if (!this.#isPossible()) return "unsupported";
    if (Notification.permission === "denied") return "denied";
    const subscription = await this.#subscription();
    return subscription && Notification.permission === "granted" && stored()?.subject === (await this.#subject())
      ? "on"
      : "off";
  }

  /** Ask for permission and subscribe; call it in the handler of a click. */
  async enable() {
    if (!this.#isPossible()) return "unsupported";
    const permission = await Notification.requestPermission();
    if (permission !== "granted") return permission === "denied" ? "denied" : "off";
    const registration = await this.#registration();
    await active(registration);
    const { public_key: key } = await this.#calls.get("/v1/webpush/key");
    const applicationServerKey = bytesOf(key);
    let subscription = await registration.pushManager.getSubscription();
    if (subscription && !isFor(subscription, applicationServerKey)) {
      await subscription.unsubscribe();
      subscription = null;
    }
    subscription ??= await registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey });
    await this.#register(subscription);
    return "on";
  }

  /** Retire the device and end the subscription; to be called before a person signs out, too. */
  async disable() {
    if (!this.#isPossible()) return "unsupported";
    const subscription = await this.#subscription();
    localStorage.removeItem(STORED);
    if (!subscription) return "off";
    try {
      await this.#calls.post("/v1/devices/unregister", { token: JSON.stringify(subscription) });
    } finally {
      // Push services refuse what is sent to a subscription that ended, so that nothing is shown in any case.
      await subscription.unsubscribe();
    }
    return "off";
  }

  /** Register a browser again that is on, once a day: a device that is not seen for long is retired. */
  async refresh() {
    if ((await this.state()) !== "on" || Date.now() - stored().at < REGISTER_AGAIN_MS) return;
    await this.enable();
  }

  #isPossible() {
    return (
      window.isSecureContext &&
      "serviceWorker" in navigator &&
      "PushManager" in window &&
      "Notification" in window &&
      new URL(this.#worker, document.baseURI).origin === location.origin
    );
  }

  #registration() {
    return navigator.serviceWorker.register(trusted(this.#worker));
  }

  async #subscription() {
    const address = new URL(this.#worker, document.baseURI).href;
    const registrations = await navigator.serviceWorker.getRegistrations();
    const found = registrations.find((each) => each.active?.scriptURL === address);
    return (await found?.pushManager.getSubscription()) ?? null;
  }

  async #register(subscription) {
    await this.#calls.post("/v1/devices/register", {
      platform: "web",
      provider: "webpush",
      token: JSON.stringify(subscription),
      locale: navigator.language,
      timezone: Intl.DateTimeFormat().resolvedOptions().timeZone,
    });
    localStorage.setItem(STORED, JSON.stringify({ subject: await this.#subject(), at: Date.now() }));
  }
}

let policy = null;

/** Return an address as pages with `require-trusted-types-for` want it; they allow the policy by its name. */
function trusted(address) {
  if (!window.trustedTypes) return address;
  policy ??= trustedTypes.createPolicy("tocsin-inbox", { createScriptURL: (given) => given });
  return policy.createScriptURL(address);
}

function stored() {
  try {
    return JSON.parse(localStorage.getItem(STORED));
  } catch {
    return null;
  }
}

/** Wait until a service worker runs; `serviceWorker.ready` waits for one that controls this page. */
async function active(registration) {
  const worker = registration.active ?? registration.waiting ?? registration.installing;
  if (worker.state === "activated") return;
  await new Promise((resolve, reject) => {
    worker.addEventListener("statechange", () => {
      if (worker.state === "activated") resolve();
      else if (worker.state === "redundant") reject(new Error("The service worker did not start."));
    });
  });
}

function bytesOf(base64url) {
  const base64 = base64url.replaceAll("-", "+").replaceAll("_", "/");
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
}

function isFor(subscription, key) {
  const used = new Uint8Array(subscription.options.applicationServerKey ?? []);
  return used.length === key.length && used.every((byte, at) => byte === key[at]);
}
