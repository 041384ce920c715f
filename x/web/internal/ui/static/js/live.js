// Subscribes to the event stream and reloads the content of the page after each snapshot.

const retryDelay = 3000; // ms

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
    showStatus("bad", "Connecting…");
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
  // The user may have become busy since the request was sent.
  document.addEventListener("htmx:before:swap", (event) => event.target.id === "main" && (held || busy()) && event.preventDefault());
  window.addEventListener("pagehide", end);
  window.addEventListener("pageshow", begin);
  enablePauseButton();
  begin();
}

// checkLogin leads to the login page if the session has ended, unless the user would lose input.
async function checkLogin() {
  const headers = { "HX-Request": "true", "HX-Current-URL": location.href };
  const response = await fetch(location.href, { method: "HEAD", headers });
  const login = response.status === 401 && response.headers.get("HX-Redirect");
  if (!login) return;
  if (document.body.hasAttribute("data-still") || busy()) return showStatus("bad", "Logged out");
  location.assign(login);
}

// held is true while the user has paused this tab.
let held = false;
let latest; // the last snapshot event
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
  const still = document.body.hasAttribute("data-still");
  const hold = held || (busy() && !still);
  if (snapshot.error) showStatus("bad", "Redis is unreachable");
  else if (hold) showStatus("paused", "Paused");
  else showStatus("", "Live");
  if (hold || (still && !snapshot.error)) return;
  if (!snapshot.error && performance.now() - shown < Number(document.body.dataset.pace) * 1000 - 500) return;
  shown = performance.now();
  document.body.dispatchEvent(new CustomEvent("snapshot"));
}

// busy reports whether an update would disturb the user: tasks are selected, a fold is open, text
// is selected, or a field has the focus.
function busy() {
  const main = document.getElementById("main");
  const focus = document.activeElement;
  if (main.querySelector("input[name=id]:checked, details[open]")) return true;
  if (main.contains(focus) && focus.matches("input:not([type=checkbox]), textarea, select")) return true;
  const marked = document.getSelection();
  return !marked.isCollapsed && main.contains(marked.anchorNode);
}

function showStatus(kind, text) {
  const live = document.getElementById("live");
  if (live.dataset.kind === kind + text) return;
  live.dataset.kind = kind + text;
  const dot = document.createElement("span");
  dot.className = "dot " + kind;
  const words = document.createElement("span");
  words.textContent = text;
  live.replaceChildren(dot, words);
}
