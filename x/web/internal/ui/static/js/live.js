// Subscribes to the event stream and updates the content of the page after each snapshot.

import { anchored, arrange, watchPointer } from "./hold.js";

const retryDelay = 3000; // ms
const patience = 30000; // ms

// follow keeps the stream open while the page is visible. A browser reconnects after a connection
// error, but not after an error response, for example of a proxy while the server starts, so follow
// does that.
export function follow() {
  const pace = document.body.dataset.pace;
  if (pace === "off") return showStatus("paused", "Not live");
  let stream;
  const begin = () => {
    if (stream || document.hidden) return;
    stream = new EventSource(document.body.dataset.events);
    stream.addEventListener("snapshot", (event) => seen(JSON.parse(event.data)));
    stream.addEventListener("error", refused);
  };
  const refused = () => {
    outdated();
    showStatus("bad", "Connecting…", received);
    if (stream?.readyState !== EventSource.CLOSED) return;
    stream = undefined;
    checkLogin().catch(() => {}); // the server is unreachable
    setTimeout(begin, retryDelay);
  };
  const end = () => {
    stream?.close();
    stream = undefined;
  };
  document.addEventListener("visibilitychange", () => (document.hidden ? end() : begin()));
  window.addEventListener("pagehide", end);
  window.addEventListener("pageshow", begin);
  watchPointer(() => waiting && show());
  enablePauseButton();
  begin();
}

// checkLogin leads to the login page if the session has ended, unless the user would lose input.
async function checkLogin() {
  const headers = { "HX-Request": "true", "HX-Current-URL": location.href };
  leadToLogin(await fetch(location.href, { method: "HEAD", headers }));
}

function leadToLogin(response) {
  const login = response.status === 401 && response.headers.get("HX-Redirect");
  if (!login) return;
  if (document.body.hasAttribute("data-still") || busy()) return showStatus("bad", "Logged out");
  location.assign(login);
}

// held is true while the user has paused this tab.
let held = false;
let latest; // the last snapshot event
let received; // its time
let shown = performance.now(); // time of the last update of the page

// enablePauseButton shows the button that pauses and resumes this tab. The state survives a reload.
function enablePauseButton() {
  const button = document.getElementById("hold");
  button.hidden = false;
  const set = (hold) => {
    held = hold;
    sessionStorage.setItem("hold", hold ? "yes" : "");
    button.setAttribute("aria-pressed", hold);
    button.title = hold ? "Resume live updates (p)" : "Pause live updates (p)";
    if (hold) return showStatus("paused", "Paused");
    shown = -Infinity; // at once
    if (latest) seen(latest);
  };
  button.addEventListener("click", () => set(!held));
  if (sessionStorage.getItem("hold") === "yes") set(true);
}

// seen shows the status of Redis and updates the page, unless it is paused or busy.
function seen(snapshot) {
  latest = snapshot;
  if (!snapshot.error) received = new Date(snapshot.at);
  const still = document.body.hasAttribute("data-still");
  const hold = held || (busy() && !still);
  if (snapshot.error) showStatus("bad", "Redis is unreachable", received);
  else if (hold) showStatus("paused", "Paused");
  else showStatus("", "Live");
  if (snapshot.error) outdated();
  if (hold || (still && !snapshot.error)) return;
  if (!snapshot.error && performance.now() - shown < Number(document.body.dataset.pace) * 1000 - 500) return;
  shown = performance.now();
  document.body.dispatchEvent(new CustomEvent("snapshot"));
  update();
}

// outdated marks the figures of the page as old until the next update.
function outdated() {
  document.getElementById("main").dataset.stale = "";
  waiting = true;
}

const main = document.getElementById("main");
const url = main.dataset.live; // undefined: the page has no updates
let model = main.cloneNode(true); // the content as the server sent it last
let waiting = false; // the page does not show all of it
let asking = false;

// update requests the parts of the content that have changed.
async function update() {
  if (asking || !url) return;
  asking = true;
  try {
    const headers = { Accept: "text/html", "HX-Request": "true", "HX-Current-URL": location.href, "X-Live": model.dataset.version ?? "" };
    const response = await fetch(url, { headers, signal: AbortSignal.timeout(patience) });
    if (response.status === 401) return leadToLogin(response);
    if (response.status >= 500) outdated();
    else if (response.status !== 204) take(await response.text());
    if (response.status < 500 && waiting && !held && !busy()) show(); // the user may have become busy since the request was sent
  } catch {
    // retried at the next snapshot
  } finally {
    asking = false;
  }
}

// take completes an update with the parts that have not changed.
function take(text) {
  const page = new DOMParser().parseFromString(text, "text/html");
  const fresh = page.getElementById("main");
  if (!fresh) return;
  const parts = new Map([...model.querySelectorAll("[data-part]")].map((part) => [part.id, part]));
  for (const place of fresh.querySelectorAll("[data-same]")) {
    const part = parts.get(place.id);
    if (!part) return delete model.dataset.version; // the next request gets everything
    place.replaceWith(part);
  }
  model = document.adoptNode(fresh);
  document.title = page.title;
  waiting = true;
}

// show updates the page in place.
function show() {
  const fresh = model.cloneNode(true);
  waiting = arrange(fresh, main);
  anchored(main, () => htmx.swap({ text: fresh.outerHTML, sourceElement: main, target: main, swap: "outerMorph" }));
}

// busy reports whether an update would disturb the user: tasks are selected, a fold is open, text
// is selected, or a field has the focus.
function busy() {
  const focus = document.activeElement;
  if (main.querySelector("input[name=id]:checked, details[open]")) return true;
  if (main.contains(focus) && focus.matches("input:not([type=checkbox]), textarea, select")) return true;
  const marked = document.getSelection();
  return !marked.isCollapsed && main.contains(marked.anchorNode);
}

// showStatus shows a state of the updates and, for old figures, their age.
function showStatus(kind, text, since) {
  const live = document.getElementById("live");
  const key = [kind, text, since?.getTime()].join();
  if (live.dataset.kind === key) return;
  live.dataset.kind = key;
  const dot = document.createElement("span");
  dot.className = "dot " + kind;
  const words = document.createElement("span");
  words.textContent = text;
  live.replaceChildren(dot, words);
  if (!since) return;
  const time = document.createElement("time");
  time.dateTime = since.toISOString();
  words.append(" · data from ", time);
}
