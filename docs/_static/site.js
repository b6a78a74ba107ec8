// Three things that a keyboard or a screen reader would miss.
document.addEventListener("DOMContentLoaded", () => {
  // The links of the gallery's cards lie over them, with their text set in size zero.
  for (const link of document.querySelectorAll(".sphx-glr-thumbcontainer a.reference")) {
    link.setAttribute("aria-label", link.textContent.trim());
  }
  // The arrows that unfold the sidebar have no text.
  for (const arrow of document.querySelectorAll(".bd-sidebar summary")) {
    const name = arrow.closest("li").querySelector("a");
    arrow.setAttribute("aria-label", "Pages of " + (name ? name.textContent.trim() : "this part"));
  }
});
window.addEventListener("load", () => {
  // Formulas wider than a narrow window scroll by themselves, and must be reachable to be scrolled.
  const started = window.MathJax && window.MathJax.startup && window.MathJax.startup.promise;
  if (started) {
    started.then(() => {
      for (const formula of document.querySelectorAll("mjx-container[display='true']")) {
        formula.setAttribute("tabindex", "0");
      }
    });
  }
});
