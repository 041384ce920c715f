// Shows confirmations in a dialog instead of on a separate page.

export function answerQuestions() {
  const dialog = document.getElementById("ask");
  const answer = document.getElementById("answer");

  // htmx inserts the confirmation into the dialog.
  document.addEventListener("htmx:after:swap", () => {
    if (answer.childElementCount > 0 && !dialog.open) dialog.showModal();
    const must = dialog.querySelector("[data-must]");
    if (must) compare(must);
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

  // The confirmation text is compared while the user types.
  document.addEventListener("input", (event) => {
    if (event.target.dataset?.must !== undefined) compare(event.target);
  });
}

// compare enables the button only if the field contains the confirmation text.
function compare(field) {
  field.form.querySelector("button:not([type=button])").disabled = field.value !== field.dataset.must;
}
