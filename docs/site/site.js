// What the theme's own script takes away or leaves out: a block of code can be reached by keyboard
// where the pointer cannot hover, too, and the landmark of its buttons has a name.
new MutationObserver(() => {
  for (const code of document.querySelectorAll("pre > code:not([tabindex])"))
    code.setAttribute("tabindex", "0");
  document.querySelectorAll(".md-code__nav").forEach((buttons, number) => {
    const name = `Block of code ${number + 1}`;
    if (buttons.getAttribute("aria-label") !== name) buttons.setAttribute("aria-label", name);
  });
}).observe(document.body, {
  attributeFilter: ["tabindex"], attributes: true, childList: true, subtree: true,
});
