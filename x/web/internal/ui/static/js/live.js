// Follows the event stream, and lets the page ask for its contents again when there is a new snapshot.

// follow listens for as long as the page is seen. A browser reconnects by itself.
export function follow() {
  let stream;
  const begin = () => {
    if (stream || document.hidden) return;
    stream = new EventSource(document.body.dataset.events);
    stream.addEventListener("snapshot", (event) => seen(JSON.parse(event.data)));
    stream.addEventListener("error", () => tell("bad", "Connecting…"));
  };
  const end = () => {
    stream?.close();
    stream = undefined;
  };
  document.addEventListener("visibilitychange", () => (document.hidden ? end() : begin()));
  window.addEventListener("pagehide", end);
  window.addEventListener("pageshow", begin);
  begin();
}

// seen tells how Redis is, and has the page brought up to date, unless somebody is busy with it.
function seen(snapshot) {
  if (snapshot.error) tell("bad", "Redis does not answer");
  else if (document.body.hasAttribute("data-still")) tell("", "Live");
  else if (busy()) tell("paused", "Held");
  else {
    tell("", "Live");
    document.body.dispatchEvent(new CustomEvent("snapshot"));
  }
  if (snapshot.error && !busy()) document.body.dispatchEvent(new CustomEvent("snapshot"));
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
