// How things are called on the page.

const PROVIDERS = {
  fcm: "FCM",
  apns: "APNs",
  expo: "Expo",
  webpush: "Web Push",
  smtp: "E-mail",
  webhook: "Webhook",
};

const TAKEN = new Set(["OK", "CREATED", "RECEIPTS", "VALIDATED"]);

export const providerName = (name) => PROVIDERS[name] ?? name;

export const isTaken = (code) => TAKEN.has(code);

export const number = (value) => value.toLocaleString("en");

export const counted = (value, one, many = `${one}s`) => `${number(value)} ${value === 1 ? one : many}`;

export function age(at, now) {
  const minutes = Math.floor((now - at) / 60_000);
  if (minutes < 1) return "now";
  if (minutes < 60) return `${minutes} min`;
  if (minutes < 24 * 60) return `${Math.floor(minutes / 60)} h`;
  return at.toLocaleDateString(undefined, { day: "numeric", month: "short" });
}

export const clock = (at) => at.toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", hour12: false });

export const day = (at) => at.toLocaleDateString(undefined, { weekday: "long", day: "numeric", month: "long" });

// Names the sender of a mail alone, as mail programs do.
export const senderName = (sender) => sender.replace(/\s*<[^>]*>\s*$/, "").replaceAll('"', "") || sender;

// An image is named, never fetched: the page asks no other host for anything.
export function imageName(address) {
  try {
    const url = new URL(address);
    return `${url.host}${url.pathname}`;
  } catch {
    return address;
  }
}
