"use strict";
(() => {
  const source = document.getElementById("data");
  if (!source) return;
  const data = JSON.parse(source.textContent);
  const [ACCURACY, ENTROPY, ROC, ECE, COMPONENTS, FIT] = [0, 1, 2, 3, 4, 5];
  const state = {
    column: data.columns[0].key, pair: 0, reliability: data.columns[0].key, shown: -1, sort: "name", falling: false, find: "",
  };
  const probability = (p) => (p < 0.001 ? p.toExponential(0) : p.toPrecision(2));
  const title = (item) => item.name + (item.discretised ? " (discretised)" : "");

  /* ---------------------------------------------------------------- scales and axes */

  const LEFT = 62, RIGHT = 12, TOP = 10, BOTTOM = 48;
  let printing = false;
  /* Drawn at the size it is shown in, so that text keeps its own. */
  const sizeOf = (place) => (printing ? 330 : Math.min(Math.max(place.clientWidth, 280), 560));

  function scale(low, high, log) {
    /* A value between low and high to a share of the axis; with log, -x is laid out by -log(x). */
    const bend = log ? (v) => -Math.log(Math.max(-v, -high)) : (v) => v;
    return (v) => (bend(v) - bend(low)) / (bend(high) - bend(low));
  }

  function logTicks(low, high) {
    const steps = low / high > 1000 ? [1] : [1, 3];
    const decades = [-5, -4, -3, -2, -1, 0, 1].flatMap((power) => steps.map((m) => -m * 10 ** power));
    return decades.map((t) => Number(t.toPrecision(1))).filter((t) => t >= low && t <= high);
  }

  function axes(size, low, high, log, labelX, labelY, description) {
    const at = scale(low, high, log), width = size - LEFT - RIGHT, height = size - TOP - BOTTOM;
    const x = (v) => LEFT + width * at(v), y = (v) => TOP + height * (1 - at(v));
    const svg = shape("svg", { viewBox: `0 0 ${size} ${size}`, role: "group", "aria-label": description });
    for (const t of log ? logTicks(low, high) : ticks(low, high)) {
      const label = minus(String(t));
      svg.append(
        shape("line", { class: "grid", x1: x(t), x2: x(t), y1: TOP, y2: TOP + height }),
        shape("line", { class: "grid", x1: LEFT, x2: LEFT + width, y1: y(t), y2: y(t) }),
        shape("text", { x: x(t), y: TOP + height + 17, "text-anchor": "middle" }, label),
        shape("text", { x: LEFT - 7, y: y(t) + 4, "text-anchor": "end" }, label),
      );
    }
    svg.append(
      shape("rect", { class: "frame", x: LEFT, y: TOP, width: width, height: height }),
      shape("line", { class: "diagonal", x1: x(low), y1: y(low), x2: x(high), y2: y(high) }),
      shape("text", { class: "title", x: LEFT + width / 2, y: size - 10, "text-anchor": "middle" }, labelX),
      shape("text", { class: "title", transform: `translate(11 ${TOP + height / 2}) rotate(-90)`, "text-anchor": "middle" }, labelY),
    );
    return { svg, x, y };
  }

  /* ---------------------------------------------------------------- figures 2 and 3 */

  const figures = [
    { place: "plot-accuracy", measure: ACCURACY, name: "accuracy", good: (v) => v, digits: 3 },
    { place: "plot-entropy", measure: ENTROPY, name: "−CE", good: (v) => -v, digits: 3, log: true },
    { place: "plot-roc", measure: ROC, name: "ROC area", good: (v) => v, digits: 3 },
  ];
  const radius = (rows) => 2.2 + 1.5 * Math.max(Math.log10(rows) - 1, 0);

  function drawFigure({ place, measure, name, good, digits, log }) {
    const [first, second] = data.pairs[state.pair];
    const column = (model) => data.models.indexOf(model);
    const points = data.cases
      .map((item, i) => {
        const row = data.results[state.column][i];
        const value = (model) => row[column(model)]?.[measure] ?? null;
        return { item, i, x: value(second), y: value(first), p: data.p[state.column][`${first}-${second}`][i][measure] };
      })
      .filter((point) => point.x !== null && point.y !== null)
      .map((point) => ({ ...point, x: good(point.x), y: good(point.y) }))
      .sort((a, b) => b.item.rows - a.item.rows);
    const plot = byId(place);
    if (!points.length) {
      plot.replaceChildren(node("p", { class: "note" }, "No case has such a result."));
      return;
    }
    const values = points.flatMap((point) => [point.x, point.y]);
    let low = Math.min(...values), high = Math.max(...values);
    if (log) [low, high] = [low * 1.2, Math.min(Math.max(high / 1.2, -1), -0.001)];
    else [low, high] = [low - 0.03 * (high - low) - 0.002, Math.min(high + 0.03 * (high - low) + 0.002, 1.004)];
    const above = points.filter((point) => point.y > point.x + 1e-9).length;
    const below = points.filter((point) => point.y < point.x - 1e-9).length;
    const { svg, x, y } = axes(sizeOf(plot), low, high, log, `${second}, ${name}`, `${first}, ${name}`,
      `${name} of ${first} against ${second}: ${above} cases above the diagonal, ${below} below, ${points.length} in all`);
    const circles = points.map((point) => {
      const { item } = point;
      const circle = shape("circle", {
        class: `${item.kind}${item.discretised ? " ring" : ""}`, cx: x(point.x), cy: y(point.y), r: radius(item.rows),
        tabindex: "-1", role: "img", "data-case": point.i, "data-name": item.name,
        "aria-label": `${title(item)}: ${first} ${fixed(point.y, digits)}, ${second} ${fixed(point.x, digits)}`,
      });
      const show = () => highlight(circle, [
        node("b", {}, title(item)),
        `${first} ${fixed(point.y, digits)}, ${second} ${fixed(point.x, digits)}`, node("br"),
        point.p === null ? "" : `p = ${probability(point.p)}`, node("br"),
        `${item.rows} rows, ${item.features} ${item.kind} features, ${item.classes} classes`,
      ]);
      circle.addEventListener("pointerenter", show);
      circle.addEventListener("pointerleave", calm);
      circle.addEventListener("click", show);
      circle.addEventListener("focus", show);
      circle.addEventListener("blur", calm);
      return circle;
    });
    const order = [...circles].sort((a, b) => a.getAttribute("cx") - b.getAttribute("cx"));
    order[0].setAttribute("tabindex", "0");
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
      const next = step && order[order.indexOf(event.target) + step];
      if (!next) return;
      event.preventDefault();
      event.target.setAttribute("tabindex", "-1");
      next.setAttribute("tabindex", "0");
      next.focus();
    });
    svg.append(...circles);
    plot.replaceChildren(svg);
  }

  const tip = byId("tip");

  function highlight(circle, content) {
    for (const plot of document.querySelectorAll("#figures .plot")) {
      plot.classList.add("hovered");
      for (const other of plot.querySelectorAll("circle")) {
        other.classList.toggle("hot", other.dataset.case === circle.dataset.case);
      }
    }
    showDetails(Number(circle.dataset.case));
    tip.replaceChildren(...content);
    tip.hidden = false;
    const box = circle.getBoundingClientRect(), own = tip.getBoundingClientRect();
    const left = Math.min(box.right + 10, innerWidth - own.width - 8);
    const top = box.top - own.height - 8;
    tip.style.left = `${Math.max(left, 8)}px`;
    tip.style.top = `${top < 8 ? box.bottom + 8 : top}px`;
  }

  function showDetails(i) {
    const item = data.cases[i], row = data.results[state.column][i];
    const columns = [["Accuracy", ACCURACY, 3], ["CE", ENTROPY, 3], ["ROC area", ROC, 3], ["ECE", ECE, 3], ["Components", COMPONENTS, 1]];
    byId("details").replaceChildren(
      node("h3", {}, title(item)),
      node("p", {}, `${item.rows} rows, ${item.features} ${item.kind} features, ${item.classes} classes`),
      node("div", { class: "scroll" }, node("table", { class: "numbers" }, [
        node("thead", {}, node("tr", {}, [node("td"), ...columns.map(([label]) => node("th", { scope: "col" }, label))])),
        node("tbody", {}, data.models.map((model, m) => node("tr", {}, [
          node("th", { scope: "row" }, model), ...columns.map(([, at, digits]) => node("td", {}, fixed(row[m]?.[at], digits))),
        ]))),
      ])),
    );
  }

  function calm() {
    tip.hidden = true;
    for (const plot of document.querySelectorAll("#figures .plot")) plot.classList.remove("hovered");
    for (const circle of document.querySelectorAll("circle.hot")) circle.classList.remove("hot");
  }

  function drawLegend() {
    const entry = (text, ring, kind, r) => node("li", {}, [
      shape("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, shape("circle", {
        cx: 8, cy: 8, r, style: `fill:${ring ? "none" : `var(--${kind})`};stroke:var(--${kind});stroke-width:1.6`,
      })), text]);
    const kinds = ["discrete", "continuous", "mixed"].filter((kind) => data.cases.some((item) => item.kind === kind));
    byId("legend").append(...kinds.map((kind) => entry(`${kind} features`, false, kind, 5.5)));
    if (data.cases.some((item) => item.discretised)) byId("legend").append(entry("discretised", true, "soft", 5.5));
    byId("legend").append(...[100, 10000].map((rows) => entry(`${rows} rows`, true, "soft", radius(rows))));
  }

  /* ---------------------------------------------------------------- the table of datasets */

  const heads = [
    { key: "name", label: "Dataset", group: "", get: (item) => title(item), text: true },
    { key: "kind", label: "Features", group: "", get: (item) => item.kind, text: true, fact: true },
    { key: "rows", label: "Rows", group: "", get: (item) => item.rows, digits: 0, fact: true },
    { key: "classes", label: "Classes", group: "", get: (item) => item.classes, digits: 0, fact: true },
  ];
  for (const [measure, label, digits, models, best] of [
    [ACCURACY, "Accuracy", 3, data.models, Math.max],
    [ENTROPY, "Conditional entropy", 3, data.models, Math.min],
    [ROC, "ROC area", 3, data.models, Math.max],
    [ECE, "ECE", 3, data.models, Math.min],
    [COMPONENTS, "Components", 1, ["FM", "FAN"], null],
    [FIT, "Training time", 1, ["FM", "FAN"], null],
  ]) {
    for (const model of models) {
      const at = data.models.indexOf(model);
      const get = (item, row) => {
        const value = row[at]?.[measure] ?? null;
        return measure === FIT && value !== null ? value / row[0][FIT] : value;
      };
      heads.push({ key: `${label} ${model}`, label: model, group: label, get, digits, best, first: model === models[0] });
    }
  }

  function drawTable() {
    const rows = data.cases
      .map((item, i) => ({ item, row: data.results[state.column][i] }))
      .filter(({ item, row }) => row[0] && matches(item));
    const head = heads.find(({ key }) => key === state.sort);
    const sign = state.falling ? -1 : 1;
    rows.sort((a, b) => {
      const [u, v] = [head.get(a.item, a.row), head.get(b.item, b.row)];
      if (u === null || v === null) return (u === null) - (v === null);
      return sign * (head.text ? u.localeCompare(v) : u - v);
    });
    const groups = [];
    for (const { group } of heads) {
      if (groups.length && groups.at(-1).group === group) groups.at(-1).span += 1;
      else groups.push({ group, span: 1 });
    }
    byId("table").replaceChildren(
      node("thead", {}, [
        node("tr", {}, groups.map(({ group, span }) => node("th", { colspan: span, scope: "colgroup" }, group))),
        node("tr", {}, heads.map(drawHead)),
      ]),
      node("tbody", {}, rows.map(drawRow)),
    );
    byId("showing").textContent = `${rows.length} of ${data.cases.length} cases`;
  }

  function matches(item) {
    const words = state.find.toLowerCase().split(/\s+/).filter(Boolean);
    const text = `${title(item)} ${item.kind} ${item.classes === 2 ? "binary" : "many-valued"}`.toLowerCase();
    return words.every((word) => text.includes(word));
  }

  function drawHead({ key, label, group, first, text }) {
    const button = node("button", { type: "button" }, label);
    if (group) button.setAttribute("aria-label", `${group} of ${label}`);
    button.addEventListener("click", () => {
      state.falling = state.sort === key ? !state.falling : !text;
      state.sort = key;
      drawTable();
      byId("table").querySelector("[aria-sort] button").focus({ preventScroll: true });
    });
    const cell = node("th", { scope: "col" }, button);
    if (first) cell.classList.add("first");
    if (state.sort === key) cell.setAttribute("aria-sort", state.falling ? "descending" : "ascending");
    return cell;
  }

  function drawRow({ item, row }) {
    return node("tr", {}, heads.map((head) => {
      if (head.key === "name") return node("th", { scope: "row" }, title(item));
      const value = head.get(item, row);
      const cell = node("td", {}, head.text ? value : fixed(value, head.digits));
      if (head.fact || !head.best) cell.classList.add("fact");
      if (head.first) cell.classList.add("first");
      if (head.best && value !== null) {
        const rivals = heads.filter(({ group }) => group === head.group).map((h) => h.get(item, row)).filter((v) => v !== null);
        if (Math.abs(value - head.best(...rivals)) < 1e-9) cell.classList.add("best");
      }
      return cell;
    }));
  }

  /* ---------------------------------------------------------------- reliability diagrams */

  function drawReliability() {
    const curves = data.reliability[state.reliability];
    const chosen = state.shown < 0 ? curves.all : curves.cases[state.shown];
    const place = byId("reliability"), columns = getComputedStyle(place).gridTemplateColumns.split(" ");
    const size = printing ? 330 : Math.min(Math.max(parseFloat(columns[0]) || 340, 280), 420);
    place.replaceChildren(...data.models.filter((model) => chosen[model]).map((model) => {
      const points = chosen[model];
      const ece = points.reduce((sum, [predicted, observed, share]) => sum + share * Math.abs(observed - predicted), 0);
      const { svg, x, y } = axes(size, 0, 1, false, "confidence", "accuracy", `Reliability of ${model}, ECE ${fixed(ece, 3)}`);
      const path = points.map(([predicted, observed], i) => `${i ? "L" : "M"}${x(predicted)} ${y(observed)}`).join("");
      const group = shape("g", { class: model }, shape("path", { class: "curve", d: path }));
      for (const [predicted, observed, share] of points) {
        group.append(shape("circle", { class: "bin", cx: x(predicted), cy: y(observed), r: 2.5 + 16 * Math.sqrt(share) },
          shape("title", {}, `confidence ${fixed(predicted, 3)}, accuracy ${fixed(observed, 3)}, ${fixed(100 * share, 1)} % of rows`)));
      }
      svg.append(group);
      return node("figure", {}, [
        node("figcaption", {}, [node("b", {}, model), `, ECE ${fixed(ece, 3)}`]), node("div", { class: "plot" }, svg),
      ]);
    }));
  }

  /* ---------------------------------------------------------------- begin */

  const drawFigures = () => { calm(); figures.forEach(drawFigure); };
  segments(byId("choose-column"), data.columns.map(({ label }) => label), 0, (i) => {
    state.column = data.columns[i].key;
    drawFigures();
    drawTable();
  });
  segments(byId("choose-pair"), data.pairs.map(([first, second]) => `${first} – ${second}`), 0, (i) => {
    state.pair = i;
    drawFigures();
  });
  const calibrated = data.columns.filter(({ key }) => data.reliability[key]);
  segments(byId("choose-reliability"), calibrated.map(({ label }) => label), 0, (i) => {
    state.reliability = calibrated[i].key;
    drawReliability();
  });
  byId("choose-case").append(node("option", { value: -1 }, "all cases"),
    ...data.cases.map((item, i) => node("option", { value: i }, title(item))));
  byId("choose-case").addEventListener("change", (event) => {
    state.shown = Number(event.target.value);
    drawReliability();
  });
  byId("find").addEventListener("input", (event) => {
    state.find = event.target.value;
    drawTable();
  });
  const drawPlots = () => { drawFigures(); drawReliability(); };
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth !== width) drawPlots();
    width = innerWidth;
  });
  addEventListener("beforeprint", () => {
    printing = true;
    drawPlots();
    for (const details of document.querySelectorAll("details")) details.open = true;
  });
  addEventListener("afterprint", () => { printing = false; drawPlots(); });
  drawLegend();
  drawPlots();
  drawTable();
})();
