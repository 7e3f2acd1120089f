// How good the model is on the rows that were given: curves, and decisions that follow from probabilities.
//
// A row is decided for the class with the largest weight[c] p(c | x): a weight is what it costs to miss one of the class.
// Of two classes, weights are a threshold t on the probability of the second: weight = [t, 1 - t].

function qualitySection(data) {
  const found = data.quality, n = data.classes.length;
  const state = { positive: n === 2 ? 1 : firstClasses(data)[0], weight: data.classes.map(() => 1) };

  function decisions() {
    const matrix = data.classes.map(() => new Array(n).fill(0));
    found.proba.forEach((p, i) => {
      let best = 0;
      for (let c = 1; c < n; c++) if (p[c] * state.weight[c] > p[best] * state.weight[best]) best = c;
      matrix[found.labels[i]][best] += 1;
    });
    return matrix;
  }

  function drawConfusion() {
    const matrix = decisions(), most = Math.max(...matrix.flat(), 1);
    const total = found.labels.length, sum = (values) => values.reduce((a, b) => a + b, 0);
    const predicted = data.classes.map((_, c) => sum(matrix.map((row) => row[c])));
    const share = (part, whole) => (whole ? percent(part / whole) : "–");
    const head = (label, props = {}) => node("th", { scope: "col", dir: "auto", title: label, ...props }, clipped(label, 16));
    byId("confusion").replaceChildren(
      node("thead", {}, [
        node("tr", {}, [node("td"), node("th", { colspan: n, scope: "colgroup" }, "decided for"), node("td", { colspan: 3 })]),
        node("tr", {}, [node("th", { scope: "col" }, "true class"), ...data.classes.map((label) => head(label)),
          head("Recall"), head("Precision"), head("Rows")]),
      ]),
      node("tbody", {}, data.classes.map((label, c) => node("tr", {}, [
        node("th", { scope: "row", dir: "auto", title: label }, clipped(label, 24)),
        ...matrix[c].map((count, k) => node("td", {
          class: k === c ? "right" : "wrong", style: `--strength:${(0.7 * Math.sqrt(count / most)).toFixed(3)}`,
        }, String(count))),
        node("td", {}, share(matrix[c][c], sum(matrix[c]))),
        node("td", {}, share(matrix[c][c], predicted[c])),
        node("td", {}, String(sum(matrix[c]))),
      ]))),
    );
    const right = sum(matrix.map((row, c) => row[c]));
    const cost = sum(matrix.map((row, c) => state.weight[c] * (sum(row) - row[c])));
    byId("decided").textContent = n === 2
      ? `${data.classes[1]} from a probability of ${fixed(state.weight[0], 2)} on: right in ${share(right, total)} of rows. ` +
        `The right threshold where missing ${data.classes[1]} costs ${timesAsMuch(state.weight[1] / state.weight[0])} missing ${data.classes[0]}.`
      : `Right in ${share(right, total)} of rows; cost of the errors ${plain(cost / total, 0.1)} a row.`;
    drawCurves(matrix);
  }

  const timesAsMuch = (ratio) => (Math.abs(ratio - 1) < 1e-9 ? "as much as" : `${plain(ratio, 0.1)} times as much as`);

  function drawControls() {
    if (n === 2) {
      state.weight = [0.5, 0.5];
      byId("costs").replaceChildren(node("label", { class: "wide-label" }, [
        node("span", { dir: "auto" }, `Threshold for ${data.classes[1]}`),
        node("input", { type: "range", id: "threshold", min: 0.01, max: 0.99, step: 0.01, value: 0.5, input: (event) => {
          const t = Number(event.target.value);
          state.weight = [t, 1 - t];
          drawConfusion();
        } }),
      ]));
    } else if (n <= 12) {
      byId("costs").replaceChildren(node("span", { class: "status" }, "What it costs to miss one of"),
        ...data.classes.map((label, c) => node("label", {}, [
          node("span", { dir: "auto" }, `${clipped(label, 20)} `),
          node("input", { type: "number", min: 0, max: 1000, step: "any", value: 1, class: "cost", input: (event) => {
            const weight = Number(event.target.value);
            if (event.target.value === "" || !(weight >= 0)) return;
            state.weight[c] = weight;
            drawConfusion();
          } }),
        ])));
    }
  }

  const sizeOf = (place) => Math.min(Math.max(place.clientWidth || 330, 260), 400);
  const point = (matrix, c) => {
    const sum = (values) => values.reduce((a, b) => a + b, 0);
    const hits = matrix[c][c], positives = sum(matrix[c]), all = sum(matrix.map(sum));
    const decided = sum(matrix.map((row) => row[c]));
    return { recall: hits / positives, fallOut: (decided - hits) / (all - positives), precision: hits / decided };
  };

  function drawCurves(matrix) {
    const c = state.positive, curve = found.curves[c], name = clipped(data.classes[c], 22);
    const places = [byId("reliability"), byId("roc"), byId("precision-recall")];
    drawReliability(places[0], c);
    if (!curve) {
      for (const place of places.slice(1)) place.replaceChildren(node("p", { class: "note" }, "All rows are of this class, or none."));
      return;
    }
    const size = sizeOf(places[1]), now = point(matrix, c);
    const mark = (svg, x, y, u, v) => {
      if (Number.isFinite(u) && Number.isFinite(v)) svg.append(shape("circle", { class: "now", cx: x(u), cy: y(v), r: 5 }));
    };
    const roc = unitSquare(size, `others taken for ${name}`, `${name} found`, `ROC curve, area ${fixed(curve.area, 3)}`, true);
    roc.svg.append(shape("path", { class: "curve", style: `stroke:${colour(c)}`, d: line(curve.roc, roc.x, roc.y) }));
    mark(roc.svg, roc.x, roc.y, now.fallOut, now.recall);
    places[1].replaceChildren(caption("ROC", `area ${fixed(curve.area, 3)}`), roc.svg);
    const pr = unitSquare(size, `recall: ${name} found`, "precision", `Precision and recall, average precision ${fixed(curve.average_precision, 3)}`);
    pr.svg.append(
      shape("line", { class: "diagonal", x1: pr.x(0), x2: pr.x(1), y1: pr.y(curve.share), y2: pr.y(curve.share) }),
      shape("path", { class: "curve", style: `stroke:${colour(c)}`, d: line(curve.precision_recall, pr.x, pr.y) }));
    mark(pr.svg, pr.x, pr.y, now.recall, now.precision);
    places[2].replaceChildren(caption("Precision and recall", `mean ${fixed(curve.average_precision, 3)}`), pr.svg);
  }

  const caption = (title, said) => node("figcaption", {}, [node("b", {}, title), `, ${said}`]);

  function drawReliability(place, c) {
    const points = found.reliability[c], size = sizeOf(place);
    const { svg, x, y } = unitSquare(size, "predicted probability", "observed share", "Reliability diagram", true);
    svg.append(shape("path", { class: "curve", style: `stroke:${colour(c)}`, d: line(points, x, y) }));
    for (const [predicted, observed, share] of points) svg.append(shape("circle", {
      class: "bin", style: `color:${colour(c)}`, cx: x(predicted), cy: y(observed), r: 2.5 + 13 * Math.sqrt(share),
    }, shape("title", {}, `predicted ${fixed(predicted, 3)}, observed ${fixed(observed, 3)}, ${percent(share)} of rows`)));
    const gap = points.reduce((sum, [predicted, observed, share]) => sum + share * Math.abs(predicted - observed), 0);
    place.replaceChildren(caption("Reliability", `mean gap ${fixed(gap, 3)}`), svg);
  }

  byId("choose-positive").append(...data.classes.map((label, c) =>
    node("option", { value: c, ...(c === state.positive ? { selected: "" } : {}) }, label)));
  byId("choose-positive").addEventListener("change", (event) => {
    state.positive = Number(event.target.value);
    drawConfusion();
  });
  drawControls();
  drawConfusion();
  return drawConfusion;
}
