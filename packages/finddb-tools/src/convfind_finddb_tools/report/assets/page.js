"use strict";
// A click on a heading sorts by that column: numbers the largest first, words from A on.
function sortBy(heading) {
  const table = heading.closest("table"), body = table.tBodies[0];
  const place = [...heading.parentNode.children].indexOf(heading);
  const numeric = heading.classList.contains("number");
  const old = heading.getAttribute("aria-sort");
  const descending = old ? old === "ascending" : numeric;
  const value = (row) => {
    const cell = row.children[place];
    return numeric ? Number(cell.dataset.value ?? "-Infinity") : cell.textContent;
  };
  const order = (a, b) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0);
  body.append(...[...body.rows].sort((a, b) => (descending ? order(b, a) : order(a, b))));
  for (const other of heading.parentNode.children) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
}
for (const heading of document.querySelectorAll("table.sortable th")) {
  heading.tabIndex = 0;
  heading.addEventListener("click", () => sortBy(heading));
  heading.addEventListener("keydown", (event) => { if (event.key === "Enter") sortBy(heading); });
}
