// Keeps the page itself for when the service is away. Nothing of a conversation is ever kept.
const KEPT = "hermes-page-2";
const FILES = ["/", "/skins.css", "/manifest.webmanifest", "/assets/style.css", "/assets/icon.svg", "/assets/app.js",
  "/assets/service.js", "/assets/markdown.js", "/assets/conversation.js", "/assets/requests.js", "/assets/panes.js", "/assets/nodes.js", "/assets/canvas.js", "/assets/commands.js"];

self.addEventListener("install", (event) => {
  event.waitUntil(caches.open(KEPT).then((cache) => cache.addAll(FILES)).then(() => self.skipWaiting()));
});
self.addEventListener("activate", (event) => {
  event.waitUntil(caches.keys()
    .then((names) => Promise.all(names.filter((name) => name !== KEPT).map((name) => caches.delete(name))))
    .then(() => self.clients.claim()));
});
self.addEventListener("fetch", (event) => {
  const url = new URL(event.request.url);
  if (event.request.method !== "GET" || url.origin !== location.origin || !FILES.includes(url.pathname)) return;
  event.respondWith(fetch(event.request).then((answer) => {
    if (answer.ok) { const copy = answer.clone(); caches.open(KEPT).then((cache) => cache.put(event.request, copy)); }
    return answer;
  }).catch(() => caches.match(event.request)));
});
self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(self.clients.matchAll({ type: "window" }).then((open) =>
    open.length ? open[0].focus() : self.clients.openWindow("/")));
});
