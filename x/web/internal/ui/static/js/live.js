// Follows the event stream, and lets the page ask for its contents again when there is a new snapshot.

const again = 3000; // ms until the stream is asked for again

// follow listens for as long as the page is seen. A browser reconnects by itself where a connection ends or cannot be made, but not where
// the answer is an error, such as that of a proxy while the server starts.
export function follow() {
  const pace = document.body.dataset.pace;
  if (pace === "off") return tell("paused", "Not live");
  let stream;
  const begin = () => {
    if (stream || document.hidden) return;
    stream = new EventSource(document.body.dataset.events);
    stream.addEventListener("snapshot", (event) => seen(JSON.parse(event.data)));
    stream.addEventListener("error", refused);
  };
  const refused = () => {
    tell("bad", "Connecting…");
    if (stream?.readyState !== EventSource.CLOSED) return;
    stream = undefined;
    setTimeout(begin, again);
  };
  const end = () => {
    stream?.close();
    stream = undefined;
  };
  document.addEventListener("visibilitychange", () => (document.hidden ? end() : begin()));
  // Somebody may have become busy since the page was asked for.
  document.addEventListener("htmx:before:swap", (event) => event.target.id === "main" && (held || busy()) && event.preventDefault());
  window.addEventListener("pagehide", end);
  window.addEventListener("pageshow", begin);
  offerHold();
  begin();
}

// held says that who looks at this tab wants it to stay as it is.
let held = false;
let latest; // snapshot that was told of
let shown = performance.now(); // when the page was brought up to date

// offerHold shows the button that holds and goes on. It holds this tab, also after a reload.
function offerHold() {
  const button = document.getElementById("hold");
  button.hidden = false;
  const set = (hold) => {
    held = hold;
    sessionStorage.setItem("hold", hold ? "yes" : "");
    button.setAttribute("aria-pressed", hold);
    button.title = hold ? "Go on with live updates (p)" : "Hold live updates (p)";
    if (hold) return tell("paused", "Held");
    shown = -Infinity; // at once
    if (latest) seen(latest);
  };
  button.addEventListener("click", () => set(!held));
  if (sessionStorage.getItem("hold") === "yes") set(true);
}

// seen tells how Redis is, and has the page brought up to date, unless somebody is busy with it.
function seen(snapshot) {
  latest = snapshot;
  const still = document.body.hasAttribute("data-still");
  const hold = held || (busy() && !still);
  if (snapshot.error) tell("bad", "Redis does not answer");
  else if (hold) tell("paused", "Held");
  else tell("", "Live");
  if (hold || (still && !snapshot.error)) return;
  if (!snapshot.error && performance.now() - shown < Number(document.body.dataset.pace) * 1000 - 500) return;
  shown = performance.now();
  document.body.dispatchEvent(new CustomEvent("snapshot"));
}

// busy says that a page that changed now would be in the way: tasks are picked, something is unfolded, text is marked, something is being typed.
function busy() {
  const main = document.getElementById("main");
  const focus = document.activeElement;
  if (main.querySelector("input[name=id]:checked, details[open]")) return true;
  if (main.contains(focus) && focus.matches("input:not([type=checkbox]), textarea, select")) return true;
  const marked = document.getSelection();
  return !marked.isCollapsed && main.contains(marked.anchorNode);
}

function tell(kind, text) {
  const live = document.getElementById("live");
  if (live.dataset.kind === kind + text) return;
  live.dataset.kind = kind + text;
  const dot = document.createElement("span");
  dot.className = "dot " + kind;
  const words = document.createElement("span");
  words.textContent = text;
  live.replaceChildren(dot, words);
}
