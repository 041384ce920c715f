// Keyboard shortcuts, and range selection with shift.

export function handleKeys() {
  const help = document.getElementById("keys");
  help.addEventListener("click", (event) => {
    if (event.target === help || event.target.closest("[data-close]")) help.close();
  });
  let going = false; // after g, the next letter selects a page; there is no timeout
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input:not([type=checkbox], [type=radio]), textarea, select, dialog[open], [contenteditable]");
    if (typing || event.ctrlKey || event.metaKey || event.altKey || event.key === "Shift") return;
    const entry = going && [...document.querySelectorAll(".side a[data-key]")].find((a) => a.dataset.key === event.key);
    going = false;
    if (entry) {
      event.preventDefault();
      location.assign(entry.href);
      return;
    }
    const act = {
      "/": () => document.querySelector(".find input").focus(),
      "?": () => help.showModal(),
      p: () => document.getElementById("hold").click(),
      g: () => (going = true),
    }[event.key];
    if (!act || event.repeat) return;
    event.preventDefault();
    act();
  });
  // A click on a checkbox selects its row; a click with shift, all rows since the last click.
  let last;
  document.addEventListener("click", (event) => {
    const box = event.target.closest("input[name=id]");
    if (!box) return;
    const boxes = [...box.form.querySelectorAll("input[name=id]")];
    if (event.shiftKey && last && boxes.includes(last)) {
      const [from, to] = [boxes.indexOf(last), boxes.indexOf(box)].sort((a, b) => a - b);
      for (const one of boxes.slice(from, to + 1)) one.checked = box.checked;
    }
    last = box;
    box.form.dispatchEvent(new Event("task-selection", { bubbles: true }));
  });
}
