/** The service worker of `<tocsin-inbox>`: shows pushes, opens their page when clicked, and sends receipts. */

const RECEIPTS = new URL("../../receipts/signed", self.location);

self.addEventListener("install", () => self.skipWaiting());

self.addEventListener("push", (event) => {
  const { title, url, severity, badge, ...options } = event.data.json();
  options.data = { ...options.data, url };
  options.requireInteraction = severity === "critical";
  const work = [self.registration.showNotification(title, options), report(options.data, "delivered")];
  if (badge !== undefined && "setAppBadge" in navigator) {
    work.push(badge > 0 ? navigator.setAppBadge(badge) : navigator.clearAppBadge());
  }
  event.waitUntil(Promise.all(work));
});

self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  const { data } = event.notification;
  const address = data.url?.startsWith("https://") ? data.url : "/";
  event.waitUntil(Promise.all([self.clients.openWindow(address), report(data, "opened")]));
});

self.addEventListener("notificationclose", (event) => event.waitUntil(report(event.notification.data, "dismissed")));

/** Send a receipt, if the push has a token for one. */
async function report({ delivery_id, receipt_token }, event) {
  if (!receipt_token) return;
  const body = JSON.stringify({ delivery_id, receipt_token, event });
  const headers = { "content-type": "application/json" };
  // A receipt is worth no retry: it is counted, and nothing depends on it.
  await fetch(RECEIPTS, { method: "POST", headers, body }).catch(() => {});
}
