// A case that the reader makes up: what the model says of it, why, and what to ask next.

const FIRST_CONTROLS = 12;
const MOST_OPTIONS = 200;
const LONG = 60; // milliseconds
const PAUSE = 250;

function whatIf(data, model) {
  const byName = new Map(model.features.map((feature) => [feature.name, feature]));
  const ordered = data.features.map(({ name }) => byName.get(name)).filter((feature) => feature.is_used);
  const informative = new Set(data.features.filter((feature) => feature.missing).map(({ name }) => name));
  const state = { case: Object.create(null), find: "", all: false, against: null, first: null };
  let controls = new Map();

  // ------------------------------------------------------------ the case in the link

  // Levels as Python writes them: True, 2.0.
  const texts = new Map(data.features.map(({ name, levels }) => [name, levels ?? byName.get(name).levels.map(String)]));
  const written = (name, value) => {
    if (value === null) return "(missing)";
    const { kind, levels } = byName.get(name);
    return kind === "discrete" ? texts.get(name)[levels.indexOf(value)] : String(value);
  };

  function read(feature, text) {
    if (text === "(missing)" && informative.has(feature.name)) return null;
    if (feature.kind === "discrete") return feature.levels[texts.get(feature.name).indexOf(text)];
    const value = Number(text);
    return text.trim() !== "" && Number.isFinite(value) ? value : undefined;
  }

  // Of names and texts; what the model cannot read is unknown.
  function caseOf(entries) {
    const found = Object.create(null); // a feature may be called "constructor"
    for (const [name, text] of entries) {
      const feature = byName.get(name), value = feature && read(feature, text);
      if (value !== undefined) found[name] = value;
    }
    return found;
  }

  const linked = () => new URLSearchParams(location.hash.replace(/^#?what-if&?/, ""));
  const fragment = () =>
    `#what-if${Object.entries(state.case).map(([name, value]) => `&${encodeURIComponent(name)}=${encodeURIComponent(written(name, value))}`).join("")}`;

  // ------------------------------------------------------------ controls

  function set(name, value) {
    if (value === undefined) delete state.case[name];
    else state.case[name] = value;
    controls.get(name)?.show();
    schedule();
  }

  // [element, show]: what changes a value, and how it follows one.
  function numberControl(feature) {
    const low = feature.low, high = feature.high, step = feature.dtype?.startsWith("Int") || feature.dtype?.startsWith("UInt") ? 1 : (high - low) / 500;
    const slider = node("input", { type: "range", min: low, max: high, step: step || "any", "aria-label": feature.name,
      input: () => set(feature.name, Number(slider.value)) });
    const field = node("input", { type: "number", step: "any", "aria-label": `${feature.name}, exact value`, placeholder: "unknown",
      change: () => set(feature.name, field.value === "" ? undefined : Number(field.value)) });
    const show = () => {
      const value = state.case[feature.name], known = typeof value === "number";
      slider.classList.toggle("unknown", !known);
      slider.value = known ? value : (low + high) / 2;
      field.value = known ? Number(value.toPrecision(6)) : "";
    };
    return [[slider, field], show];
  }

  function levelControl(feature) {
    const own = texts.get(feature.name);
    if (own.length > MOST_OPTIONS) {
      const list = node("datalist", { id: `levels-${ordered.indexOf(feature)}` });
      const field = node("input", { type: "text", placeholder: "unknown", "aria-label": feature.name, autocomplete: "off", dir: "auto",
        input: () => {
          const find = field.value.toLowerCase();
          list.replaceChildren(...own.filter((text) => text.toLowerCase().includes(find)).slice(0, 50).map((text) => node("option", { value: text })));
        },
        change: () => set(feature.name, read(feature, field.value)) });
      field.setAttribute("list", list.id);
      return [[field, list], () => { field.value = feature.name in state.case ? written(feature.name, state.case[feature.name]) : ""; }];
    }
    const select = node("select", { "aria-label": feature.name, dir: "auto", change: () => {
      const i = Number(select.value);
      set(feature.name, i < 0 ? undefined : feature.levels[i]);
    } }, [node("option", { value: -1 }, "unknown"), ...own.map((text, i) => node("option", { value: i }, text || "(empty)"))]);
    return [[select], () => {
      const value = state.case[feature.name];
      select.value = value === undefined || value === null ? -1 : feature.levels.indexOf(value);
    }];
  }

  function controlOf(feature) {
    const [elements, showValue] = feature.kind === "discrete" ? levelControl(feature) : numberControl(feature);
    const clear = node("button", { type: "button", class: "link", "aria-label": `${feature.name} unknown`, click: () => set(feature.name, undefined) }, "unknown");
    const gone = informative.has(feature.name)
      ? node("button", { type: "button", class: "link", click: () => set(feature.name, null) }, "missing") : null;
    const row = node("div", { class: `control${gone ? " counts" : ""}`, "data-feature": feature.name }, [
      node("span", { class: "name", dir: "auto", title: feature.name }, feature.name), node("span", { class: "inputs" }, elements),
      node("span", { class: "states" }, [gone, clear]),
    ]);
    const show = () => {
      showValue();
      row.classList.toggle("known", feature.name in state.case);
      clear.hidden = !(feature.name in state.case);
      if (gone) gone.setAttribute("aria-pressed", String(state.case[feature.name] === null));
    };
    show();
    return { row, show };
  }

  function drawControls() {
    const words = state.find.toLowerCase().split(/\s+/).filter(Boolean);
    const matching = ordered.filter(({ name }) => words.every((word) => name.toLowerCase().includes(word)));
    const few = state.all || words.length ? matching.slice(0, 300) : matching.filter((feature, i) => i < FIRST_CONTROLS || feature.name in state.case);
    controls = new Map(few.map((feature) => [feature.name, controlOf(feature)]));
    byId("controls").replaceChildren(...[...controls.values()].map(({ row }) => row));
    byId("all-controls").hidden = few.length === matching.length || Boolean(words.length);
    byId("all-controls").textContent = `All ${matching.length} features`;
  }

  // ------------------------------------------------------------ what the model says

  let planned = false;

  function schedule() {
    if (planned) return;
    planned = true;
    requestAnimationFrame(() => {
      planned = false;
      answer();
    });
  }

  // Probabilities follow at once. The reasons of an average may take longer than a frame: then they wait for a pause.
  let taken = 0, waiting = 0;

  function answer() {
    const { proba, best } = model.predict(state.case);
    drawProbabilities(proba, best);
    byId("case-link").href = fragment();
    if (location.protocol !== "about:") {
      history.replaceState(null, "", Object.keys(state.case).length ? fragment() : location.href.split("#what-if")[0]);
    }
    clearTimeout(waiting);
    if (taken < LONG) drawReasons(proba, best);
    else waiting = setTimeout(drawReasons, PAUSE, proba, best);
    byId("reasons").classList.toggle("stale", taken >= LONG);
  }

  function drawReasons(proba, best) {
    const begun = performance.now();
    drawComponent(best);
    byId("why").hidden = proba.length < 2;
    if (proba.length > 1) drawWaterfall(proba);
    drawNext();
    taken = performance.now() - begun;
    byId("reasons").classList.remove("stale");
  }

  function drawProbabilities(proba, best) {
    const order = proba.map((_, c) => c);
    if (order.length > 12) order.sort((a, b) => proba[b] - proba[a]).splice(12);
    byId("probabilities").replaceChildren(...order.map((c) => node("div", { class: `probability${c === best ? " best" : ""}` }, [
      node("span", { class: "name", dir: "auto", title: data.classes[c] }, data.classes[c]),
      node("span", { class: "track" }, node("span", { class: "fill", style: `width:${(100 * proba[c]).toFixed(2)}%;background:${colour(c)}` })),
      node("output", { class: "value" }, percent(proba[c])),
    ])));
  }

  function drawComponent(bestClass) {
    const found = model.components(state.case);
    byId("component").hidden = !found;
    if (!found) return;
    const { best } = found, label = data.classes[best.class ?? bestClass];
    const cell = data.components.find(({ component, class: own }) => component === best.component && (own === null || own === label));
    const where = best.class === null && cell?.class ? `; in ${label}: ` : ": ";
    byId("component").replaceChildren(node("h3", {}, "Most probable component"), node("p", { dir: "auto" }, [
      node("b", {}, best.class === null ? `h${best.component}` : `${label}/h${best.component}`),
      `, probability ${percent(best.probability)}${cell ? `${where}${cell.words.join(", ")}` : ""}`,
    ]));
  }

  function drawWaterfall(proba) {
    const order = proba.map((_, c) => c).sort((a, b) => proba[b] - proba[a] || a - b);
    const c = state.first ?? order[0], against = state.against !== null && state.against !== c ? state.against : order.find((k) => k !== c);
    for (const [id, chosen] of [["class-for", c], ["class-against", against]]) byId(id).value = chosen;
    const found = model.contributions(state.case, c, against);
    const steps = found.contributions.map((value, j) => ({ name: model.features[j].name, value }))
      .filter(({ value }) => Math.abs(value) > 5e-4).sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
    const shown = steps.slice(0, 12), rest = steps.slice(12).reduce((sum, { value }) => sum + value, 0);
    const rows = [{ name: "prior", value: found.prior },
      ...shown.map(({ name, value }) => ({ name: name in state.case ? `${name} = ${shortValue(name, state.case[name])}` : `${name} (expected)`, value })),
      ...(steps.length > 12 ? [{ name: `${steps.length - 12} more features`, value: rest }] : [])];
    byId("waterfall").replaceChildren(waterfall(rows, found.logOdds, colour(c), colour(against), byId("waterfall").clientWidth),
      node("p", { class: "note", dir: "auto" }, `Log-odds of ${data.classes[c]} against ${data.classes[against]}: ${signed(found.logOdds)}. ` +
        "Bars to the right speak for the first, to the left for the second."));
  }

  const shortValue = (name, value) =>
    value === null || byName.get(name).kind === "discrete" ? clipped(written(name, value), 16) : plain(value, Math.abs(value) / 10);

  function drawNext() {
    const found = model.askNext(state.case).slice(0, 6);
    const most = Math.max(...found.map(({ share }) => share), 1e-12);
    byId("next").replaceChildren(...(found.length ? found.map(({ feature, share }) => node("div", { class: "probability" }, [
      node("button", { type: "button", class: "link name", dir: "auto", title: feature, click: () => show(feature) }, feature),
      node("span", { class: "track" }, node("span", { class: "fill next", style: `width:${(100 * share / most).toFixed(2)}%` })),
      node("span", { class: "value" }, percent(share)),
    ])) : [node("p", { class: "note" }, "Everything is known.")]));
  }

  // ------------------------------------------------------------ begin

  function show(name) {
    if (!controls.has(name)) {
      byId("find-control").value = state.find = name;
      drawControls();
    }
    const control = controls.get(name);
    if (!control) return;
    control.row.scrollIntoView({ block: "center" });
    control.row.querySelector("input, select").focus({ preventScroll: true });
  }

  function open(entries) {
    state.case = caseOf(entries);
    drawControls();
    answer();
  }

  for (const id of ["class-for", "class-against"]) byId(id).append(...data.classes.map((label, c) => node("option", { value: c }, label)));
  byId("class-for").addEventListener("change", (event) => {
    state.first = Number(event.target.value);
    schedule();
  });
  byId("class-against").addEventListener("change", (event) => {
    state.against = Number(event.target.value);
    schedule();
  });
  byId("find-control").addEventListener("input", (event) => {
    state.find = event.target.value;
    drawControls();
  });
  byId("all-controls").addEventListener("click", () => {
    state.all = true;
    drawControls();
  });
  byId("clear-case").addEventListener("click", () => {
    [state.first, state.against] = [null, null];
    open([]);
  });
  byId("case-link").addEventListener("click", (event) => {
    event.preventDefault();
    navigator.clipboard?.writeText(location.href.split("#")[0] + fragment())
      .then(() => { byId("case-copied").textContent = "copied"; }, () => { byId("case-copied").textContent = "it is in the address bar"; });
  });
  addEventListener("hashchange", () => { if (location.hash.startsWith("#what-if&")) open(linked()); });
  onResize(schedule);
  open(location.hash.startsWith("#what-if&") ? linked() : []);
  return { show, open };
}

// Steps from 0 to their sum, one below the other.
function waterfall(rows, total, forColour, againstColour, wide) {
  const ends = [];
  rows.reduce((sum, { value }) => { ends.push([sum, sum + value]); return sum + value; }, 0);
  const all = [0, total, ...ends.flat()];
  let low = Math.min(...all), high = Math.max(...all);
  if (!(high > low)) [low, high] = [-1, 1];
  const width = Math.min(Math.max(wide, 300), 560), left = Math.min(200, 0.4 * width), right = 56, row = 24, top = 4;
  const height = top + row * (rows.length + 1) + 6;
  const x = (v) => left + 8 + (width - left - right - 16) * (v - low) / (high - low);
  const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Contributions, together ${signed(total)}` });
  svg.append(shape("line", { class: "axis", x1: x(0), x2: x(0), y1: top, y2: height - 6 }));
  const bar = (name, from, to, value, i, kind) => {
    const y = top + row * i;
    svg.append(
      shape("text", { class: kind, x: left - 4, y: y + 16, "text-anchor": "end" }, [clipped(name, Math.floor(left / 7)), shape("title", {}, name)]),
      shape("rect", { x: Math.min(x(from), x(to)), y: y + 4, width: Math.max(Math.abs(x(to) - x(from)), 1), height: row - 8, rx: 2,
        style: `fill:${value >= 0 ? forColour : againstColour}` }),
      shape("text", { x: Math.max(x(from), x(to)) + 5, y: y + 16 }, signed(value)));
  };
  rows.forEach(({ name, value }, i) => bar(name, ...ends[i], value, i, "step"));
  bar("log-odds", 0, total, total, rows.length, "total");
  return svg;
}
