// The page of a fitted model: read what it holds, and draw.

(() => {
  const data = JSON.parse(byId("data").textContent);
  const compiled = JSON.parse(byId("model").textContent);
  const tried = compiled === null ? null : whatIf(data, fanbayes.load(compiled));
  featureList(data, tried && tried.show);
  if (data.arcs.length) drawTree(data, byId("tree"));
  if (data.quality) onResize(qualitySection(data));
  for (const button of document.querySelectorAll("[data-surprising]")) {
    if (!tried) button.remove();
    else button.addEventListener("click", () => {
      tried.open(Object.entries(data.quality.surprising[Number(button.dataset.surprising)].case));
      byId("what-if").scrollIntoView();
    });
  }
  // In a frame of a notebook, links to places on the page would lead to the notebook.
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.('a[href^="#"]');
    if (!link || link.id === "case-link") return;
    event.preventDefault();
    byId(link.getAttribute("href").slice(1))?.scrollIntoView();
  });
})();
