/** The service worker of `<tocsin-inbox>`: shows pushes, and opens their page when they are clicked. */

self.addEventListener("install", () => self.skipWaiting());

self.addEventListener("push", (event) => {
  const { title, url, severity, badge, ...options } = event.data.json();
  options.data = { ...options.data, url };
  options.requireInteraction = severity === "critical";
  const work = [self.registration.showNotification(title, options)];
  if (badge !== undefined && "setAppBadge" in navigator) {
    work.push(badge > 0 ? navigator.setAppBadge(badge) : navigator.clearAppBadge());
  }
  event.waitUntil(Promise.all(work));
});

self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  const { url } = event.notification.data;
  event.waitUntil(self.clients.openWindow(url?.startsWith("https://") ? url : "/"));
});
