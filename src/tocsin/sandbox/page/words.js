// The names, numbers and times that the page shows.

const PROVIDERS = {
  fcm: "FCM",
  apns: "APNs",
  expo: "Expo",
  webpush: "Web Push",
  smtp: "E-mail",
  webhook: "Webhook",
};

const ACCEPTED = new Set(["OK", "CREATED", "RECEIPTS", "VALIDATED"]);

export const providerName = (name) => PROVIDERS[name] ?? name;

export const isAccepted = (code) => ACCEPTED.has(code);

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

// Returns the name of a sender without the address, as mail programs show it.
export const senderName = (sender) => sender.replace(/\s*<[^>]*>\s*$/, "").replaceAll('"', "") || sender;

// The page shows the name of an image and never loads it: it sends no request to another host.
export function imageName(address) {
  try {
    const url = new URL(address);
    return `${url.host}${url.pathname}`;
  } catch {
    return address;
  }
}
