// What the theme's own script takes away or leaves out: blocks of code and wide tables can be reached
// by keyboard, also where no pointer hovers, and the landmark of a block's buttons has a name.
new MutationObserver(() => {
  const scrolling = "pre > code:not([tabindex]), .md-typeset__scrollwrap:not([tabindex])";
  for (const one of document.querySelectorAll(scrolling)) one.setAttribute("tabindex", "0");
  document.querySelectorAll(".md-code__nav").forEach((buttons, number) => {
    const name = `Block of code ${number + 1}`;
    if (buttons.getAttribute("aria-label") !== name) buttons.setAttribute("aria-label", name);
  });
}).observe(document.body, {
  attributeFilter: ["tabindex"], attributes: true, childList: true, subtree: true,
});
