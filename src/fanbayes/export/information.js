// What to ask next: I(C; X_i | x), the expected information about the class of a feature that is not known
// (`explanation/information.py`).

const REACH = 8; // normal densities are cut off so many standard deviations from the mean
const NARROWEST = 1e-12; // standard deviation, beside the mean
const STEP_RULE = gaussLegendre(8);

// [{feature, information, share}, ...], of the columns of a network that are not known.
function informationOf(network, values) {
  const row = network.row(values);
  const states = softmax(network.logStates(row));
  const proba = Array.from({ length: network.nClasses }, (_, c) => {
    return states.subarray(network.firstState[c], network.firstState[c + 1]).reduce((sum, p) => sum + p, 0);
  });
  const doubt = -proba.reduce((sum, p) => sum + xlogy(p, p), 0);
  const gainOf = gains(network, row, states);
  const found = [];
  for (let i = 0; i < network.nColumns; i++) {
    if (network.isKnown(row, i) || network.view.codes[i]?.by === "missing") continue;
    const information = Math.max(gainOf(i), 0);
    const share = doubt > 0 ? Math.min(information / doubt, 1) : 0;
    found.push({ feature: network.view.featureOf[i], information, share });
  }
  return found.sort((a, b) => b.information - a.information || a.feature - b.feature);
}

// I(C; X_i | x) as a function of the column i.
function gains(network, row, states) {
  const { nCodes, normals, levels } = network;
  const gainGiven = (density) => gain(network, states, density);
  network.densities ??= new Array(network.nColumns);
  const alone = (i) => gainGiven((network.densities[i] ??= densityOf(network, i)));
  if (normals !== null) {
    return (i) => {
      if (i < nCodes) return alone(i);
      const { mean, variance } = normals.conditional(row.numbers, i - nCodes);
      return gainGiven(normalDensity(mean, variance));
    };
  }
  if (network.parent.every((p) => p < 0)) return alone;
  const messages = new Messages(network, row);
  messages.upward();
  const posterior = messages.downward();
  return (i) => {
    if (i < nCodes) return gainGiven({ density: posterior[i], weight: new Float64Array(levels[i]).fill(1) });
    return isLinear(network, i) ? alone(i) : gainOfNumber(network, row, i);
  };
}

// Whether a number has linear terms: then it has no parent.
function isLinear({ parent, place, numeric, n_linear }, i) {
  return parent[i] < 0 && place[i] >= numeric.shape[0] - n_linear;
}

// Given p(x | cell) at points, [cell * n + point], and the weights of these.
function gain(network, states, { density, weight }) {
  const n = weight.length;
  const { nClasses, firstState, cell_of } = network;
  const joint = new Float64Array(n);
  const all = new Float64Array(n);
  let total = 0;
  for (let c = 0; c < nClasses; c++) {
    joint.fill(0);
    let prior = 0;
    for (let s = firstState[c]; s < firstState[c + 1]; s++) {
      prior += states[s];
      if (states[s] === 0) continue;
      const at = cell_of[s] * n;
      for (let k = 0; k < n; k++) joint[k] += states[s] * density[at + k];
    }
    for (let k = 0; k < n; k++) {
      total += weight[k] * (xlogy(joint[k], joint[k]) - xlogy(joint[k], prior));
      all[k] += joint[k];
    }
  }
  for (let k = 0; k < n; k++) total -= weight[k] * xlogy(all[k], all[k]);
  return total;
}

// Points to sum or integrate over, of a column without arcs: p(x | cell) [cell * n + point], and their weights.
function densityOf(network, i) {
  const { levels, place, log_table, numeric, nCells: K } = network;
  if (i < network.nCodes) {
    const n = levels[i];
    const density = new Float64Array(K * n);
    for (let v = 0; v < n; v++)
      for (let c = 0; c < K; c++) density[c * n + v] = Math.exp(log_table[(place[i] + v) * K + c]);
    return { density, weight: new Float64Array(n).fill(1) };
  }
  const slope = numeric.subarray(3 * place[i] * K, (3 * place[i] + 1) * K);
  if (isLinear(network, i)) {
    const { mean } = network.view.features[network.view.featureOf[i]];
    return poissonDensity(slope.map((logRatio) => mean * Math.exp(logRatio)));
  }
  const variance = slope.map((a) => 0.5 / a ** 2);
  const mean = slope.map((a, c) => -numeric[(3 * place[i] + 1) * K + c] / a);
  return normalDensity(mean, variance);
}

// By Gauss-Legendre rules on steps no longer than the least standard deviation of the cells that reach there.
function normalDensity(mean, variance) {
  const sigma = mean.map((m, c) => Math.max(Math.sqrt(variance[c]), NARROWEST * Math.abs(m)));
  const low = mean.map((m, c) => m - REACH * sigma[c]);
  const high = mean.map((m, c) => m + REACH * sigma[c]);
  const ends = Float64Array.from(new Set([...low, ...high])).sort();
  const points = [];
  const weight = [];
  for (let e = 1; e < ends.length; e++) {
    const [a, b] = [ends[e - 1], ends[e]];
    const middle = (a + b) / 2;
    let step = Infinity;
    for (let c = 0; c < sigma.length; c++) if (low[c] <= middle && middle <= high[c]) step = Math.min(step, sigma[c]);
    if (step === Infinity) continue;
    const n = Math.ceil((b - a) / step);
    for (let k = 0; k < n; k++) {
      const half = (b - a) / n / 2;
      STEP_RULE.nodes.forEach((x, m) => {
        points.push(a + half * (2 * k + 1 + x));
        weight.push(half * STEP_RULE.weights[m]);
      });
    }
  }
  const density = new Float64Array(mean.length * points.length);
  for (let c = 0; c < mean.length; c++)
    for (let k = 0; k < points.length; k++) {
      const z = (points[k] - mean[c]) / sigma[c];
      density[c * points.length + k] = Math.exp(-0.5 * (LOG_2PI + z * z)) / sigma[c];
    }
  return { density, weight };
}

// Counts within ten deviations of some rate; where these are many, some of them, each for those nearest to it.
function poissonDensity(rates) {
  const counts = new Set();
  const reaches = Array.from(rates, (rate) => {
    const reach = 10 * Math.sqrt(rate + 1);
    const [low, high] = [Math.max(rate - reach, 0), rate + reach];
    for (let k = 0; k < 1024; k++) counts.add(Math.floor(k === 1023 ? high : low + k * ((high - low) / 1023)));
    return [Math.floor(low), high];
  });
  const x = Float64Array.from(counts).sort();
  const isReached = (a, b) => reaches.some(([low, high]) => low <= a && b <= high); // nothing is between two reaches
  const gaps = [1, ...x.subarray(1).map((b, k) => (isReached(x[k], b) ? b - x[k] : 1)), 1];
  const weight = x.map((_, k) => (gaps[k] + gaps[k + 1]) / 2);
  const density = new Float64Array(rates.length * x.length);
  rates.forEach((rate, c) => {
    x.forEach((k, m) => (density[c * x.length + m] = Math.exp(k * Math.log(rate) - rate - logFactorial(k))));
  });
  return { density, weight };
}

// By Stirling's series, after a few steps where it is not yet exact.
function logFactorial(k) {
  let shift = 0;
  let x = k + 1;
  for (; x < 16; x++) shift += Math.log(x);
  const y = 1 / (x * x);
  const series = (1 / 12 - y * (1 / 360 - y * (1 / 1260 - y * (1 / 1680 - y / 1188)))) / x;
  return (x - 0.5) * Math.log(x) - x + 0.5 * LOG_2PI + series - shift;
}

// Where columns have arcs: given a state and the code of the column above it that has codes, a number is normal,
// whatever else is known, and its log density at three points tells all.
function gainOfNumber(network, row, i) {
  let above = network.parent[i];
  while (above >= network.nCodes) above = network.parent[above];
  const isOpen = above >= 0 && row.codes[above] < 0;
  const [codes, numbers] = [row.codes.slice(), row.numbers.slice()];
  const [logWeight, mean, variance, classOf] = [[], [], [], []];
  for (let u = 0; u < (isOpen ? network.levels[above] : 1); u++) {
    if (isOpen) codes[above] = u;
    const [low, middle, high] = [-1, 0, 1].map((x) => {
      numbers[i - network.nCodes] = x;
      return network.logStates({ codes, numbers });
    });
    for (let s = 0; s < network.nStates; s++) {
      const v = 1 / Math.max(2 * middle[s] - low[s] - high[s], 1e-12);
      const m = (v * (high[s] - low[s])) / 2;
      logWeight.push(middle[s] + 0.5 * (m ** 2 / v + Math.log(v)));
      mean.push(m);
      variance.push(v);
      classOf.push(network.class_of[s]);
    }
  }
  const p = softmax(logWeight);
  // States of a class together, those of weight 0 left out, as of a network whose cells they are.
  const kept = Array.from(p.keys()).filter((k) => p[k] > 0);
  kept.sort((a, b) => classOf[a] - classOf[b] || a - b);
  const [means, variances] = [kept.map((k) => mean[k]), kept.map((k) => variance[k])];
  const classes = Int32Array.from(kept, (k) => classOf[k]);
  const firstState = Array.from({ length: network.nClasses + 1 }, (_, c) => countBelow(classes, c));
  const states = Float64Array.from(kept, (k) => p[k]);
  const mixture = { nClasses: network.nClasses, firstState, cell_of: kept.map((_, s) => s) };
  return gain(mixture, states, normalDensity(means, variances));
}
