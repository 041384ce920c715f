// Keeps the rows of a table in place while the user points at one of them.

const idle = 30000; // ms after which a pointer that does not move holds nothing
let moved = -Infinity; // time of the last movement of the pointer

// watchPointer calls released after the pointer has left a table.
export function watchPointer(released) {
  let over; // the table below the pointer
  document.addEventListener("pointermove", (event) => {
    moved = performance.now();
    const body = event.pointerType === "mouse" ? event.target.closest("main tbody") : null;
    if (over && over !== body) released();
    over = body;
  });
  document.documentElement.addEventListener("pointerleave", () => {
    moved = -Infinity;
    if (over) released();
    over = undefined;
  });
  document.addEventListener("focusout", () => setTimeout(released));
}

// heldBodies returns the tables whose rows stay in place: below the pointer, or with the keyboard
// focus.
function heldBodies(main) {
  const pointed = performance.now() - moved < idle ? main.querySelector("tbody:hover") : null;
  return [...new Set([pointed, main.querySelector("tbody:has(:focus-visible)")])].filter(Boolean);
}

// arrange puts the rows of new content into the order of the page, for the tables that are held.
// Rows that are gone stay, and new ones wait. It reports whether anything waits.
export function arrange(fresh, main) {
  let waiting = 0;
  for (const body of heldBodies(main)) {
    const region = body.closest(".scroll");
    const label = region?.getAttribute("aria-label");
    const other = [...fresh.querySelectorAll(".scroll")].find((e) => e.getAttribute("aria-label") === label)?.querySelector("tbody");
    if (!other || [...body.rows, ...other.rows].some((row) => !row.id)) continue;
    const order = [...other.rows];
    const rows = new Map(order.map((row) => [row.id, row]));
    const kept = [...body.rows].map((row) => {
      const now = rows.get(row.id);
      rows.delete(row.id);
      if (now) return now;
      const gone = row.cloneNode(true);
      gone.classList.add("gone");
      return gone;
    });
    const changes = kept.filter((row, n) => row !== order[n]).length + rows.size;
    if (changes === 0) continue;
    other.replaceChildren(...kept);
    other.closest(".scroll").dataset.waits = "Rows stay in place while you point at them";
    waiting += changes;
  }
  return waiting > 0;
}

// anchored calls change, and scrolls the page so that the row below the pointer stays there.
export function anchored(main, change) {
  const row = main.querySelector("tbody tr:hover");
  const before = row?.getBoundingClientRect().top;
  change();
  if (row?.isConnected) window.scrollBy(0, row.getBoundingClientRect().top - before);
}
