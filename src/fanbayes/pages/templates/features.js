// Features, the most important first: a line each, and its distribution in each class when it is opened.

const FIRST_SHOWN = 25;
const MOST_SHOWN = 1000;
const N_PRINTED = 10;
const MOST_LEVELS = 20;
const N_COLOURS = 8;

const colour = (c) => `var(--c${c % N_COLOURS})`;
// Of more classes than colours, those that are shown have one each.
const shownColour = (data, state, c) => colour(data.classes.length > N_COLOURS ? [...state.shown].indexOf(c) : c);

function featureList(data, openWhatIf) {
  const state = { find: "", all: false, components: false, sort: "information", shown: new Set(firstClasses(data)) };
  const most = (key) => Math.max(...data.features.map((feature) => feature[key] ?? 0), 1e-12);
  const mostInformation = most("information"), mostDrop = most("drop");
  const hasDrop = data.quality !== null;
  const opened = new Map(); // body of each feature that is open

  const paint = (feature, body) => body.replaceChildren(...figureOf(data, feature, state, repaint, openWhatIf));
  const repaint = () => opened.forEach((body, feature) => paint(feature, body));

  function lineOf(feature) {
    const body = node("div", { class: "feature-body" });
    const bar = (value, top, kind) => node("span", { class: "meter" },
      node("span", { class: kind, style: `width:${(100 * Math.max(value ?? 0, 0) / top).toFixed(2)}%` }));
    const details = node("details", { class: "feature", open: opened.has(feature) ? "" : false, toggle: () => {
      if (!details.open) opened.delete(feature);
      else if (opened.get(feature) !== body) paint(feature, opened.set(feature, body).get(feature));
    } }, [
      node("summary", {}, [
        node("span", { class: "name", dir: "auto", title: feature.name }, feature.name),
        bar(feature.information, mostInformation, "information"),
        node("span", { class: "figure" }, fixed(feature.information, 4)),
        ...(hasDrop ? [bar(feature.drop, mostDrop, "drop"), node("span", { class: "figure" }, signed(feature.drop, 4))] : []),
      ]),
      body,
    ]);
    if (details.open) paint(feature, opened.set(feature, body).get(feature));
    return details;
  }

  function redraw() {
    const words = state.find.toLowerCase().split(/\s+/).filter(Boolean);
    const found = data.features.filter(({ name }) => words.every((word) => name.toLowerCase().includes(word)));
    if (state.sort === "drop") found.sort((a, b) => (b.drop ?? -1e9) - (a.drop ?? -1e9));
    const shown = state.all || words.length ? found.slice(0, MOST_SHOWN) : found.slice(0, FIRST_SHOWN);
    byId("features").replaceChildren(...shown.map(lineOf));
    byId("showing").textContent = `${shown.length} of ${data.features.length} features`;
    byId("show-all").hidden = shown.length === found.length || shown.length === MOST_SHOWN;
  }

  byId("features").classList.toggle("with-drop", hasDrop);
  byId("find").addEventListener("input", (event) => {
    state.find = event.target.value;
    redraw();
  });
  byId("show-all").addEventListener("click", () => {
    state.all = true;
    redraw();
  });
  if (hasDrop) segments(byId("sort"), ["by information", "by what its loss costs"], 0, (i) => {
    state.sort = i ? "drop" : "information";
    redraw();
  });
  if (data.features.length) opened.set(data.features[0], null);
  redraw();
  onResize(repaint);

  // On paper the first features are open.
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = data.features.slice(0, N_PRINTED).filter((feature) => !opened.has(feature));
    for (const feature of closed) opened.set(feature, null);
    redraw();
  });
  addEventListener("afterprint", () => {
    for (const feature of closed) opened.delete(feature);
    redraw();
  });
}

// The most probable classes, as many as there are colours.
function firstClasses(data) {
  const order = data.classes.map((_, c) => c).sort((a, b) => data.prior[b] - data.prior[a] || a - b);
  return order.slice(0, N_COLOURS).sort((a, b) => a - b);
}

function classLegend(data, state, redraw) {
  const many = data.classes.length > N_COLOURS;
  return node("ul", { class: "legend" }, data.classes
    .map((label, c) => [label, c])
    .filter(([, c]) => !many || state.shown.has(c))
    .map(([label, c]) => node("li", {}, node("button", {
      type: "button", class: "chip", "aria-pressed": String(state.shown.has(c)), dir: "auto",
      click: () => {
        if (!state.shown.delete(c)) state.shown.add(c);
        if (!state.shown.size) state.shown.add(c);
        redraw();
      },
    }, [node("i", { style: `background:${shownColour(data, state, c)}` }), node("span", { class: "name" }, label)])))
    .concat(many ? node("li", {}, node("select", {
      "aria-label": "Show another class",
      change: (event) => {
        state.shown.add(Number(event.target.value));
        if (state.shown.size > N_COLOURS) state.shown.delete([...state.shown][0]);
        redraw();
      },
    }, [node("option", { value: "" }, "another class …"), ...data.classes.map((label, c) => node("option", { value: c }, label))])) : []));
}

// Everything about one feature.
function figureOf(data, feature, state, redraw, openWhatIf) {
  const parts = [];
  const drawable = data.weight && (feature.table || feature.mean || feature.rate);
  if (drawable) {
    parts.push(classLegend(data, state, redraw));
    if (data.component_of.length) parts.push(node("label", { class: "check" }, [
      node("input", { type: "checkbox", ...(state.components ? { checked: "" } : {}), change: (event) => {
        state.components = event.target.checked;
        redraw();
      } }), " components behind the classes"]));
    const classes = [...state.shown].sort((a, b) => a - b);
    parts.push(feature.table ? bars(data, feature, classes, state) : curves(data, feature, classes, state));
  } else parts.push(node("p", { class: "note" }, feature.flat
    ? "It tells nothing: not two values of it were seen in training." : "Its distributions are not on this page."));
  if (feature.missing && data.weight) {
    const said = data.classes.map((label, c) => `${label} ${percent(mixed(data.weight[c], feature.missing))}`).slice(0, N_COLOURS);
    parts.push(node("p", { class: "note", dir: "auto" }, `That it is missing counts. It is missing in: ${said.join(", ")}.`));
  }
  if (feature.intervals) parts.push(intervalTable(feature.intervals));
  if (openWhatIf && !feature.flat) parts.push(node("p", {}, node("button", {
    type: "button", class: "link", click: () => openWhatIf(feature.name),
  }, "Try it in what-if")));
  return parts;
}

// How sure the parameters are: what their draws lie between.
function intervalTable([names, ...rows]) {
  const line = (tag, [first, ...cells]) => node("tr", {},
    [node("th", { dir: "auto" }, first), ...cells.map((cell) => node(tag, { dir: "auto" }, cell))]);
  return node("details", { class: "intervals" }, [
    node("summary", {}, "How sure are these numbers?"),
    node("div", { class: "scroll" }, node("table", { class: "numbers" }, [
      node("thead", {}, line("th", names)), node("tbody", {}, rows.map((row) => line("td", row)))])),
  ]);
}

const mixed = (weight, values) => weight.reduce((sum, w, k) => sum + w * values[k], 0);

// ---------------------------------------------------------------- levels

function bars(data, feature, classes, state) {
  const table = feature.table, prior = data.prior;
  const rows = table.map((cells, v) => {
    const p = data.classes.map((_, c) => mixed(data.weight[c], cells));
    const all = p.reduce((sum, q, c) => sum + prior[c] * q, 0);
    const gain = p.reduce((sum, q, c) => sum + (q > 0 && all > 0 ? prior[c] * q * Math.log(q / all) : 0), 0);
    return { v, p, cells, all, gain };
  });
  const few = rows.length <= MOST_LEVELS || feature.allLevels
    ? rows : [...rows].sort((a, b) => b.gain - a.gain).slice(0, MOST_LEVELS).sort((a, b) => a.v - b.v);
  const ticksOf = (row, c) => (state.components ? cellsOf(data, c).map(([k]) => ({ k, p: row.cells[k] })) : []);
  const top = Math.max(...few.flatMap((row) => classes.flatMap((c) => [row.p[c], ...ticksOf(row, c).map(({ p }) => p)])), 1e-12);
  const body = few.map((row) => node("tr", {}, [
    node("th", { scope: "row", dir: "auto", title: feature.levels[row.v] }, clipped(feature.levels[row.v] || "(empty)", 40)),
    node("td", { class: "bars-cell" }, classes.map((c) => node("div", { class: "bar", title: `${data.classes[c]}: ${percent(row.p[c])}` }, [
      node("span", { class: "track" }, [
        node("span", { class: "fill", style: `width:${(100 * row.p[c] / top).toFixed(2)}%;background:${shownColour(data, state, c)}` }),
        ...ticksOf(row, c).map(({ k, p }) => node("i", {
          class: "tick", style: `left:${(100 * p / top).toFixed(2)}%`, title: `${cellName(data, k, c)}: ${percent(p)}` })),
      ]),
      node("span", { class: "value" }, percent(row.p[c])),
    ]))),
  ]));
  const parts = [node("table", { class: "levels" }, node("tbody", {}, body))];
  if (few.length < rows.length) parts.push(node("p", { class: "note" }, [
    `The ${few.length} levels that tell most, of ${rows.length}. `,
    rows.length <= 2000 ? node("button", { type: "button", class: "link", click: (event) => {
      feature.allLevels = true;
      event.target.closest(".levels-figure").replaceWith(bars(data, feature, classes, state));
    } }, "Show all") : null]));
  if (state.components) parts.push(node("p", { class: "note" }, "Ticks are the components of a class, the bar is their mixture."));
  return node("div", { class: "levels-figure" }, parts);
}

// Components of a class that have some share of it: [[cell, share], ...].
const cellsOf = (data, c) => data.weight[c].map((w, k) => [k, w]).filter(([, w]) => w > 0.005);
const cellName = (data, k, c) =>
  `${data.common_components ? "" : `${data.classes[c]}/`}h${data.component_of[k]}`;

// ---------------------------------------------------------------- numbers

// p(x | cell) of a number or a count; of a count at whole numbers.
function density(feature, k) {
  if (feature.rate) {
    const rate = feature.rate[k];
    return (x) => Math.exp(x * Math.log(rate) - rate - logFactorial(x));
  }
  const mean = feature.mean[k], deviation = feature.deviation[k];
  return (x) => Math.exp(-(((x - mean) / deviation) ** 2) / 2) / (deviation * Math.sqrt(2 * Math.PI));
}

function logFactorial(n) {
  if (n > 30) return n * Math.log(n) - n + Math.log(2 * Math.PI * n) / 2 + 1 / (12 * n);
  let sum = 0;
  for (let i = 2; i <= n; i++) sum += Math.log(i);
  return sum;
}

function rangeOf(data, feature, classes) {
  const cells = [...new Set(classes.flatMap((c) => cellsOf(data, c).map(([k]) => k)))];
  const reach = (k, sign) => feature.rate
    ? feature.rate[k] + sign * 4 * Math.sqrt(feature.rate[k] + 1) : feature.mean[k] + sign * 3.7 * feature.deviation[k];
  let low = Math.min(...cells.map((k) => reach(k, -1))), high = Math.max(...cells.map((k) => reach(k, 1)));
  if (feature.low !== null && feature.high > feature.low) {
    const pad = 0.05 * (feature.high - feature.low);
    [low, high] = [Math.max(low, feature.low - pad), Math.min(high, feature.high + pad)];
    if (!(high > low)) [low, high] = [feature.low - pad, feature.high + pad];
  }
  return feature.rate ? [Math.max(Math.floor(low), 0), Math.ceil(high)] : [low, high];
}

function curves(data, feature, classes, state) {
  const [low, high] = rangeOf(data, feature, classes);
  if (!Number.isFinite(high - low) || !(high > low)) return node("p", { class: "note" }, "Its range is too wide, or too narrow, to be drawn.");
  const step = feature.rate ? Math.max(1, Math.ceil((high - low) / 240)) : (high - low) / 240;
  const at = Array.from({ length: Math.floor((high - low) / step + 1e-9) + 1 }, (_, i) => low + i * step);
  const lines = classes.map((c) => {
    const parts = cellsOf(data, c).map(([k, w]) => ({ k, w, p: at.map(density(feature, k)) }));
    return { c, parts, p: at.map((_, i) => parts.reduce((sum, part) => sum + part.w * part.p[i], 0)) };
  });
  const top = 1.05 * Math.max(...lines.flatMap(({ p }) => p));
  if (!(top > 0) || !Number.isFinite(top)) return node("p", { class: "note" }, "It is too narrow to be drawn.");
  const width = Math.min(Math.max(byId("features").clientWidth - 24, 280), 680), height = 230, left = 10, right = 10, bottom = 26;
  const x = (v) => left + (width - left - right) * (v - low) / (high - low);
  const y = (p) => 6 + (height - bottom - 6) * (1 - p / top);
  const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Density of ${feature.name} in each class` });
  for (const t of ticks(low, high, width / 100)) svg.append(
    shape("line", { class: "grid", x1: x(t), x2: x(t), y1: 6, y2: height - bottom }),
    shape("text", { x: x(t), y: height - 8, "text-anchor": x(t) < 30 ? "start" : x(t) > width - 30 ? "end" : "middle" }, plain(t, (high - low) / 8)));
  svg.append(shape("line", { class: "axis", x1: left, x2: width - right, y1: y(0), y2: y(0) }));
  for (const { c, parts, p } of lines) {
    const path = line(at.map((v, i) => [v, p[i]]), x, y);
    svg.append(shape("path", { class: "area", style: `fill:${shownColour(data, state, c)}`, d: `${path}L${x(at.at(-1))} ${y(0)}L${x(at[0])} ${y(0)}Z` }));
    if (state.components) for (const part of parts) svg.append(shape("path", {
      class: "part", style: `stroke:${shownColour(data, state, c)}`, d: line(at.map((v, i) => [v, part.w * part.p[i]]), x, y),
    }, shape("title", {}, `${cellName(data, part.k, c)}: ${percent(part.w)} of ${data.classes[c]}`)));
    svg.append(shape("path", { class: "curve", style: `stroke:${shownColour(data, state, c)}`, d: path }, shape("title", {}, data.classes[c])));
  }
  return node("figure", { class: "plot density" }, [svg, node("figcaption", { class: "note" },
    `${feature.rate ? "Probability" : "Density"} in each class${state.components ? "; thin lines are its components" : ""}.`)]);
}
