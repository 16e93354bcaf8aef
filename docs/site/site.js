// The theme puts a landmark without a name into each block of code: its buttons are a group.
new MutationObserver(() => {
  for (const buttons of document.querySelectorAll(".md-code__nav:not([role])"))
    buttons.setAttribute("role", "group");
}).observe(document.body, { childList: true, subtree: true });
