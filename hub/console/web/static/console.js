"use strict";

// Live pages: the console sends the fragments that have changed, which replace the elements with their IDs.
const page = document.body.dataset.live;
const stale = document.getElementById("stale");
const announcement = document.getElementById("announcement");

// What a page is hidden for before its connection is closed.
const hiddenFor = 60_000;

let source = null;
let hiddenTimer = 0;

function connect() {
  if (!page || source) return;
  source = new EventSource("/events?page=" + encodeURIComponent(page));
  for (const id of ["desktops", "offers", "session", "sessions", "away"]) {
    source.addEventListener(id, (event) => replace(id, event.data));
  }
  source.addEventListener("open", () => { stale.hidden = true; });
  source.addEventListener("gone", leave);
  source.addEventListener("error", () => {
    stale.hidden = false;
    // Refused: the login is over, or the session is gone. A stream that was cut reconnects by itself.
    if (source.readyState === EventSource.CLOSED) {
      source.close();
      source = null;
      setTimeout(check, 3000);
    }
  });
}

function disconnect() {
  if (source) source.close();
  source = null;
}

function leave() {
  disconnect();
  location.assign("/");
}

// check finds out why the stream was refused. A page that exists is connected again, without being loaded: to
// load a page can wake a session.
async function check() {
  try {
    const response = await fetch(location.href, { headers: { Accept: "text/html" }, redirect: "manual", cache: "no-store" });
    if (response.ok) return connect();
    if (response.type === "opaqueredirect" || response.status === 404) return leave();
  } catch {
    // no connection
  }
  setTimeout(check, 3000);
}

// states are the states of the sessions that are shown, by UID.
function states(root) {
  const found = new Map();
  for (const e of root.querySelectorAll("[data-session]")) found.set(e.dataset.session, e.dataset.state);
  return found;
}

function replace(id, html) {
  const old = document.getElementById(id);
  if (!old) return;
  const before = states(old.parentElement);
  const focused = old.contains(document.activeElement) ? document.activeElement.id : "";
  const open = old.querySelector("details")?.open;
  const parsed = new DOMParser().parseFromString(html, "text/html").getElementById(id);
  if (!parsed) return;
  old.replaceWith(parsed);
  if (focused) document.getElementById(focused)?.focus();
  if (open) parsed.querySelector("details")?.setAttribute("open", "");
  const changed = [];
  for (const [uid, state] of states(parsed.parentElement)) {
    if (before.get(uid) !== state) changed.push(state);
  }
  if (changed.length > 0) announcement.textContent = changed.join(". ");
  times();
}

// Times go on while nothing changes.
function length(milliseconds) {
  let minutes = Math.max(0, Math.floor(milliseconds / 60_000));
  const days = Math.floor(minutes / 1440), hours = Math.floor(minutes / 60) % 24;
  minutes %= 60;
  if (days > 0) return (days === 1 ? "1 day" : days + " days") + (hours > 0 ? ` ${hours} h` : "");
  if (hours > 0) return `${hours} h` + (minutes > 0 ? ` ${minutes} min` : "");
  return minutes > 0 ? `${minutes} min` : "less than a minute";
}

function times() {
  for (const e of document.querySelectorAll("time[data-end]")) e.textContent = length(Date.parse(e.dataset.end) - Date.now()) + " left";
  for (const e of document.querySelectorAll("time[data-since]")) e.textContent = "for " + length(Date.now() - Date.parse(e.dataset.since));
}

document.addEventListener("visibilitychange", () => {
  clearTimeout(hiddenTimer);
  if (document.hidden) hiddenTimer = setTimeout(disconnect, hiddenFor);
  else connect();
});

document.addEventListener("submit", (event) => {
  const question = event.target.dataset.confirm;
  if (question && !confirm(question)) event.preventDefault();
});

// The secret of a ticket is in the fragment of the address, which is sent nowhere and removed here.
const ticket = document.querySelector("form[data-fragment]");
if (ticket && location.hash.length > 1) {
  ticket.elements[ticket.dataset.fragment].value = location.hash.slice(1);
  history.replaceState(null, "", location.pathname);
  if ("submits" in ticket.dataset) ticket.requestSubmit();
}

document.querySelector("form[data-submit]")?.requestSubmit();
connect();
times();
setInterval(times, 30_000);
