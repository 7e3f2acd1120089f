// Why this class: log-odds as a sum over features (Aumann & Shapley 1974; `explanation/contributions.py`).
//
// An exponent t is on every known feature, from 0, everything missing, to 1, the case. The log-odds change with t by a
// sum over states s and columns i of coefficient_s(t) l_i(s): the coefficients are integrated once for all columns.

const TOLERANCE = 1e-10; // how closely contributions add up, beside terms of size 1
const ROUNDING = 3e-15;
const MOST_HALVINGS = 40;
const MOST_STEPS = 4096;

// Nodes and weights of the Gauss-Legendre rule of n points on [-1, 1], by Newton's method.
function gaussLegendre(n) {
  const nodes = new Float64Array(n);
  const weights = new Float64Array(n);
  for (let k = 0; k < n; k++) {
    let x = Math.cos((Math.PI * (n - k - 0.25)) / (n + 0.5));
    for (let step = 0; step < 100; step++) {
      let [before, p] = [1, x];
      for (let j = 2; j <= n; j++) [before, p] = [p, ((2 * j - 1) * x * p - (j - 1) * before) / j];
      const slope = (n * (x * p - before)) / (x * x - 1);
      weights[k] = 2 / ((1 - x * x) * slope * slope);
      nodes[k] = x;
      if (Math.abs(p / slope) < 1e-16) break;
      x -= p / slope;
    }
  }
  return { nodes, weights };
}

const RULE = gaussLegendre(16);

// Integral of the coefficients over t from 0 to 1, one for each slope. Steps are halved until each reproduces by how
// much the value of the path changes over it, but for rounding of terms of this size.
//
// path.value(t), and path.add(t, weight, to), which adds the weighted coefficients to an array
function integrate(path, slope, size) {
  const total = new Float64Array(slope.length);
  const steps = [{ begin: 0, length: 1, low: path.value(0), high: path.value(1) }];
  for (let n = 1; steps.length > 0; n++) {
    const { begin, length, low, high } = steps.pop();
    const part = new Float64Array(slope.length);
    RULE.nodes.forEach((x, k) => path.add(begin + (length * (x + 1)) / 2, (length * RULE.weights[k]) / 2, part));
    let error = low - high;
    for (let s = 0; s < part.length; s++) error += part[s] * slope[s];
    const isFine = Math.abs(error) <= 0.1 * TOLERANCE * length + ROUNDING * size;
    if (isFine || length <= 2 ** -MOST_HALVINGS || n > MOST_STEPS) {
      for (let s = 0; s < part.length; s++) total[s] += part[s];
    } else {
      const middle = path.value(begin + length / 2);
      steps.push({ begin: begin + length / 2, length: length / 2, low: middle, high });
      steps.push({ begin, length: length / 2, low, high: middle });
    }
  }
  return total;
}

// log sum_h exp(start_h + t slope_h).
class ClassPath {
  constructor(start, slope) {
    Object.assign(this, { start, slope });
  }

  at(t) {
    return this.start.map((a, h) => a + t * this.slope[h]);
  }

  value(t) {
    return logSum(this.at(t));
  }

  add(t, weight, to) {
    softmax(this.at(t)).forEach((p, h) => (to[h] += weight * p));
  }
}

// log p(c, x) of one class as log p(c) and what each column adds to it.
function termsOfClass(network, columnTerms, c) {
  const { nCells: K, nColumns, firstState, cell_of } = network;
  const [begin, end] = [firstState[c], firstState[c + 1]];
  const start = network.log_weight.slice(begin, end);
  const slope = new Float64Array(end - begin);
  const size = new Float64Array(end - begin);
  for (let i = 0; i < nColumns; i++)
    for (let s = begin; s < end; s++) {
      slope[s - begin] += columnTerms[i * K + cell_of[s]];
      size[s - begin] += Math.abs(columnTerms[i * K + cell_of[s]]);
    }
  const path = new ClassPath(start, slope);
  const weights = integrate(path, slope, Math.max(1, ...size));
  const terms = new Float64Array(nColumns);
  for (let i = 0; i < nColumns; i++)
    for (let s = begin; s < end; s++) terms[i] += weights[s - begin] * columnTerms[i * K + cell_of[s]];
  const posterior = softmax(path.at(1));
  const best = argmax(posterior);
  return {
    logJoint: path.value(1),
    logPrior: path.value(0),
    terms,
    part: network.component_of[begin + best],
    responsibility: posterior[best],
  };
}

function attributeNetwork(network, values, pair, nFeatures) {
  const columnTerms = network.columnTerms(network.row(values));
  const [one, other] = pair.map((c) => termsOfClass(network, columnTerms, c));
  const contributions = new Float64Array(nFeatures);
  let size = 1;
  network.view.featureOf.forEach((j, i) => {
    contributions[j] += one.terms[i] - other.terms[i];
    size += Math.abs(one.terms[i]) + Math.abs(other.terms[i]);
  });
  const { part, responsibility } = one;
  const [logOdds, prior] = [one.logJoint - other.logJoint, one.logPrior - other.logPrior];
  return checked({ logOdds, prior, contributions, part, responsibility }, size);
}

// An attribution that adds up, beside terms of this size.
function checked(found, size) {
  const rest = found.contributions.reduce((sum, value) => sum + value, found.prior) - found.logOdds;
  if (!(Math.abs(rest) <= TOLERANCE * (size + Math.abs(found.prior))))
    throw new RangeError("the case lies too far from what the model knows to be explained");
  return found;
}
