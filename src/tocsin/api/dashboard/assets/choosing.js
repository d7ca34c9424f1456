// Choosing rows of a table: all of a page at once, and how many are chosen. Without it, rows are ticked one by one.
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  const form = document.getElementById("chosen");
  if (!form) return;
  const boxes = [...form.elements].filter((each) => each.name === "delivery_ids");
  const all = document.getElementById("choose-all");
  const count = document.getElementById("chosen-count");
  const button = form.querySelector("button");

  function update() {
    const chosen = boxes.filter((box) => box.checked).length;
    count.textContent = chosen ? `(${chosen})` : "";
    button.disabled = chosen === 0;
    all.checked = chosen === boxes.length;
    all.indeterminate = chosen > 0 && chosen < boxes.length;
  }

  all.closest("label").hidden = false;
  all.addEventListener("change", () => {
    for (const box of boxes) box.checked = all.checked;
    update();
  });
  for (const box of boxes) box.addEventListener("change", update);
  // The browser may have kept what was ticked before.
  update();
});
