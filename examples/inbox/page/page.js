const inbox = document.querySelector("tocsin-inbox");
const person = document.querySelector("#person");
const language = document.querySelector("#language");
const form = document.querySelector("#announcement");
const result = document.querySelector("#result");

/** Return a token of the person who is signed in, as the application's own server signs it. */
async function token() {
  const answer = await fetch(`/session/${person.value}`, { method: "POST" });
  return (await answer.json()).token;
}

inbox.getToken = token;
inbox.labels = { announcements: "Announcements" };
inbox.addEventListener("tocsin-count", ({ detail }) => {
  document.title = detail.unread > 0 ? `(${detail.unread}) An inbox` : "An inbox";
});

person.addEventListener("change", async () => inbox.setAttribute("token", await token()));
language.addEventListener("change", () => inbox.setAttribute("lang", language.value));

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const answer = await fetch("/announcements", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(Object.fromEntries(new FormData(form))),
  });
  result.textContent = answer.ok ? "Sent." : `Not sent: ${answer.status}.`;
});
