// Asks questions in a dialog instead of on a page of their own.

export function answerQuestions() {
  const dialog = document.getElementById("ask");
  const answer = document.getElementById("answer");

  // htmx puts the question into the dialog.
  document.addEventListener("htmx:after:swap", () => {
    if (answer.childElementCount > 0 && !dialog.open) dialog.showModal();
    dialog.querySelector("[autofocus]")?.focus();
  });
  dialog.addEventListener("close", () => answer.replaceChildren());
  dialog.addEventListener("click", (event) => {
    const outside = event.target === dialog;
    const leave = event.target.closest("[data-close]");
    if (!outside && !leave) return;
    event.preventDefault();
    dialog.close();
  });

  // What must be typed is compared at once.
  document.addEventListener("input", (event) => {
    const must = event.target.dataset?.must;
    if (must === undefined) return;
    const right = event.target.value === must;
    event.target.form.querySelector("button:not([type=button])").disabled = !right;
  });
}
