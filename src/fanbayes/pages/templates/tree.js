// The tree between features of a TAN: parents on the left, what depends on them on the right.

function drawTree(data, place) {
  const children = new Map(), parent = new Map();
  for (const arc of data.arcs) {
    if (!children.has(arc.parent)) children.set(arc.parent, []);
    children.get(arc.parent).push(arc);
    parent.set(arc.feature, arc.parent);
  }
  const roots = [...children.keys()].filter((name) => !parent.has(name));
  const most = Math.max(...data.arcs.map(({ weight }) => weight), 1e-12);
  const row = 26, indent = 34, top = 8;
  const nodes = [];
  const visit = (name, depth, arc) => {
    const own = { name, depth, arc, at: nodes.length };
    nodes.push(own);
    for (const next of children.get(name) ?? []) visit(next.feature, depth + 1, next).above = own;
    return own;
  };
  roots.forEach((name) => visit(name, 0, null));
  const depth = Math.max(...nodes.map((one) => one.depth), 0);
  const width = 60 + indent * depth + 330, height = top + row * nodes.length + 6;
  const x = (one) => 10 + indent * one.depth, y = (one) => top + row * (one.at + 0.5);
  const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": "Tree between the features" });
  for (const one of nodes.filter(({ above }) => above)) {
    const strength = 1 + 4 * Math.sqrt(Math.max(one.arc.weight, 0) / most);
    svg.append(shape("path", {
      class: "arc", "stroke-width": strength.toFixed(1), d: `M${x(one.above)} ${y(one.above)}V${y(one)}H${x(one)}`,
    }, shape("title", {}, `${one.above.name} → ${one.name}: ${plain(one.arc.weight, one.arc.weight)} nats`)));
  }
  for (const one of nodes) svg.append(
    shape("circle", { class: "joint", cx: x(one), cy: y(one), r: 4.5 }),
    shape("text", { class: "label", x: x(one) + 11, y: y(one) + 4 }, [
      clipped(one.name, 32), shape("title", {}, one.name),
      ...(one.arc ? [shape("tspan", { class: "weight", dx: 8 }, plain(one.arc.weight, one.arc.weight))] : []),
    ]));
  place.replaceChildren(svg);
}
