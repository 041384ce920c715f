// Continues a search: fetches one part of the results after the other, until the page has enough
// hits, all tasks are scanned, or the user stops it.

const enough = 50; // hits on the page after which the search pauses

export async function continueSearch() {
  const progress = document.getElementById("progress");
  if (!progress) return;
  let stopped = false;
  const more = document.getElementById("more");
  more.addEventListener("click", (event) => {
    if (event.target.closest("[data-stop]")) stopped = true;
  });
  let target = enough;
  for (let next = progress.dataset.next; next && !stopped; ) {
    more.replaceChildren(stopButton());
    const part = await load(next);
    if (!part) break;
    add(part);
    next = undefined;
    const url = part.querySelector("#more a")?.getAttribute("href");
    more.replaceChildren(...part.querySelector("#more").childNodes);
    if (url && rows().length < target && !stopped) next = url;
  }
}

async function load(url) {
  try {
    const response = await fetch(url, { headers: { "X-Search-Part": "yes" } });
    if (!response.ok) return undefined;
    return new DOMParser().parseFromString(await response.text(), "text/html");
  } catch {
    return undefined; // the link to continue stays
  }
}

function rows() {
  return document.querySelectorAll("#hits tbody tr");
}

// add appends the hits of a part.
function add(part) {
  document.getElementById("progress").replaceChildren(...part.getElementById("progress").childNodes);
  const body = document.querySelector("#hits tbody");
  const found = part.querySelector("#hits tbody");
  if (body && found) body.append(...found.children);
  else if (found || !body) document.getElementById("hits")?.replaceWith(part.getElementById("hits") ?? "");
}

function stopButton() {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "button";
  button.dataset.stop = "yes";
  button.textContent = "Stop searching";
  return button;
}
