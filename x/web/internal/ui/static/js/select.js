// Selects all tasks of a page, copies payloads and results, and closes menus.

export function selectTasks() {
  prepare();
  document.addEventListener("htmx:after:swap", prepare);
  document.addEventListener("change", (event) => {
    if (!event.target.matches("input[data-all]")) return;
    for (const box of boxes(event.target)) box.checked = event.target.checked;
  });
  document.addEventListener("task-selection", (event) => {
    const all = event.target.querySelector("input[data-all]");
    if (all) mark(all);
  });
  document.addEventListener("click", (event) => fold((menu) => !menu.contains(event.target)));
  document.addEventListener("htmx:after:swap", () => fold(() => document.querySelector("dialog[open]")));
  document.addEventListener("keydown", (event) => event.key === "Escape" && fold(() => true));
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    button.lastChild.nodeValue = "Copied";
    setTimeout(() => (button.lastChild.nodeValue = "Copy"), 1500);
  });
}

// prepare shows the controls that require scripts.
function prepare() {
  for (const all of document.querySelectorAll("input[data-all]")) {
    all.hidden = false;
    mark(all);
  }
  if (navigator.clipboard) for (const button of document.querySelectorAll("[data-copy]")) button.hidden = false;
}

function fold(which) {
  for (const menu of document.querySelectorAll("details:is(.menu, .burger)[open]")) if (which(menu)) menu.open = false;
}

function boxes(all) {
  return [...all.form.querySelectorAll("input[name=id]")];
}

function mark(all) {
  const selected = boxes(all).filter((box) => box.checked).length;
  all.checked = selected > 0 && selected === boxes(all).length;
  all.indeterminate = selected > 0 && !all.checked;
}
