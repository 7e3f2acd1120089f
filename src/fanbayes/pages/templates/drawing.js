// What all pages draw with: elements, numbers as text, and axes. Text comes in as text, never as HTML.

const byId = (id) => document.getElementById(id);
const node = (tag, attributes = {}, children = []) => filled(document.createElement(tag), attributes, children);
const shape = (tag, attributes = {}, children = []) =>
  filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...[].concat(children).filter((child) => child !== null && child !== undefined));
  return element;
}

const minus = (text) => text.replace("-", "−");
const fixed = (value, digits) => (Number.isFinite(value) ? minus(value.toFixed(digits)) : "–");
const signed = (value, digits = 2) => (value > 0 ? "+" : "") + fixed(value, digits);
const percent = (p) => (p > 0 && p < 0.001 ? "< 0.1 %" : p < 1 && p > 0.999 ? "> 99.9 %" : `${fixed(100 * p, 1)} %`);
const clipped = (text, most) => (text.length > most ? `${[...text].slice(0, most - 1).join("")}…` : text);

// A number by so many digits as its range needs.
function plain(value, range) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.max(Math.abs(value), Math.abs(range));
  if (size >= 1e6 || (size < 1e-4 && size > 0)) return minus(value.toExponential(2));
  const digits = Math.min(Math.max(2 - Math.floor(Math.log10(Math.abs(range) || size || 1)), 0), 8);
  return minus(String(Number(value.toFixed(digits))));
}

// Round values that divide a range into some five parts.
function ticks(low, high, parts = 5) {
  const rough = (high - low) / parts, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= rough * (1 - 1e-9));
  if (!(step > 0) || !Number.isFinite(step)) return [];
  const first = Math.ceil(low / step - 1e-9), last = Math.floor(high / step + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}

// A square from 0 to 1 in both directions: {svg, x, y}.
function unitSquare(size, labelX, labelY, description, diagonal) {
  const left = 46, right = 10, top = 8, bottom = 42, side = size - left - right;
  const height = side + top + bottom;
  const x = (v) => left + side * v, y = (v) => top + side * (1 - v);
  const svg = shape("svg", { viewBox: `0 0 ${size} ${height}`, role: "img", "aria-label": description });
  for (const t of [0, 0.2, 0.4, 0.6, 0.8, 1]) {
    svg.append(
      shape("line", { class: "grid", x1: x(t), x2: x(t), y1: top, y2: top + side }),
      shape("line", { class: "grid", x1: left, x2: left + side, y1: y(t), y2: y(t) }),
      shape("text", { x: x(t), y: top + side + 16, "text-anchor": "middle" }, String(t)),
      shape("text", { x: left - 6, y: y(t) + 4, "text-anchor": "end" }, String(t)),
    );
  }
  svg.append(shape("rect", { class: "frame", x: left, y: top, width: side, height: side }));
  if (diagonal) svg.append(shape("line", { class: "diagonal", x1: x(0), y1: y(0), x2: x(1), y2: y(1) }));
  svg.append(
    shape("text", { class: "title", x: left + side / 2, y: height - 8, "text-anchor": "middle" }, labelX),
    shape("text", { class: "title", transform: `translate(11 ${top + side / 2}) rotate(-90)`, "text-anchor": "middle" }, labelY),
  );
  return { svg, x, y };
}

const line = (points, x, y) => points.map(([u, v], i) => `${i ? "L" : "M"}${x(u).toFixed(2)} ${y(v).toFixed(2)}`).join("");

// Buttons of which one is pressed.
function segments(place, labels, chosen, choose) {
  const buttons = labels.map((label, i) => node("button", {
    type: "button",
    "aria-pressed": String(i === chosen),
    click: () => {
      buttons.forEach((other, j) => other.setAttribute("aria-pressed", String(i === j)));
      choose(i);
    },
  }, label));
  place.replaceChildren(...buttons);
}

// What is drawn at the size it is shown in, so that its text keeps its own, is drawn again when the page gets wider.
function onResize(redraw) {
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth !== width) redraw();
    width = innerWidth;
  });
}
