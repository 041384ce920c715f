// Keys for those who do not want to reach for the mouse.

export function listenToKeys() {
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, textarea, select, dialog, [contenteditable]");
    if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    document.querySelector(".find input").focus();
  });
  // A row's box picks it; with shift, all from the last one on.
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
    box.form.dispatchEvent(new Event("picked", { bubbles: true }));
  });
}
