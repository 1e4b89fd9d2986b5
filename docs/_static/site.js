// What the theme leaves out for screen readers and keys: levels of captions, names of its sidebars, code that scrolls.

addEventListener("DOMContentLoaded", () => {
  const each = (selector, change) => document.querySelectorAll(selector).forEach(change);
  each("p.caption[role=heading]", (caption) => caption.setAttribute("aria-level", "2"));
  each("aside.sidebar-drawer", (aside) => aside.setAttribute("aria-label", "All pages"));
  each("aside.toc-drawer", (aside) => aside.setAttribute("aria-label", "On this page"));
  each(".highlight pre", (pre) => pre.setAttribute("tabindex", "0"));
});
