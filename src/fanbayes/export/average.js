// Averages: fits pooled (A0 to A3), each row with missing values completed before (M1).

class Average {
  constructor(compiled, views, nClasses) {
    Object.assign(this, compiled);
    this.nClasses = nClasses;
    this.members = compiled.members.map((fits) => fits.map((fit) => made(fit, views, nClasses)));
    this.fits = this.members.flat();
    this.memberOf = this.members.flatMap((fits, m) => fits.map(() => m));
    this.imputer = new Imputer(compiled.imputer, views, nClasses);
  }

  logProba(values) {
    const { completions, isEmpty } = this.imputer.complete(values);
    if (isEmpty) return this.class_prior.map(Math.log);
    const total = new Float64Array(this.nClasses);
    const proba = this.fits.map((fit) => probaOfEach(fit, this.rows(fit, values, completions)));
    completions.forEach(({ weight }, e) => {
      const { mixed } = this.pool((f) => proba[f][e]);
      for (let c = 0; c < total.length; c++) total[c] += weight * mixed[c];
    });
    const sum = total.reduce((s, p) => s + p, 0);
    return total.map((p) => Math.log(p / sum));
  }

  // The completions as a fit sees them.
  rows(fit, values, completions) {
    const { view } = fit;
    const encoded = view.encode(values);
    return completions.map((done) => view.mix(view.fill(encoded, this.imputer.network.view, done)));
  }

  // p of each member and, last, the classes' shares, the log-linear pool, and (A3), given p(c | x) of each fit.
  pool(probaOf) {
    const { nClasses: C, members, memberOf, weights, exponents, share, floor } = this;
    const p = Array.from({ length: members.length + 1 }, () => new Float64Array(C));
    memberOf.forEach((m, f) => {
      const own = probaOf(f);
      for (let c = 0; c < C; c++) p[m][c] += own[c] / members[m].length;
    });
    p[members.length].set(this.class_prior);
    const linear = new Float64Array(C);
    const logs = new Float64Array(C);
    p.forEach((of, m) => {
      for (let c = 0; c < C; c++) {
        linear[c] += weights[m] * of[c];
        logs[c] += exponents[m] * Math.log(of[c] + floor);
      }
    });
    const logLinear = softmax(logs);
    return { p, logLinear, mixed: linear.map((q, c) => share * q + (1 - share) * logLinear[c]) };
  }

  attribute(values, pair, nFeatures) {
    const { completions, isEmpty } = this.imputer.complete(values);
    const rows = this.fits.map((fit) => this.rows(fit, values, completions));
    const path = new AveragePath(this, completions, rows, pair);
    const found = path.attribution(nFeatures);
    if (!isEmpty) return checked(found, path.size);
    const prior = Math.log(this.class_prior[pair[0]]) - Math.log(this.class_prior[pair[1]]);
    return { ...found, prior, logOdds: prior, contributions: new Float64Array(nFeatures) };
  }

  // By the network that completes rows: it is a joint distribution.
  information(values) {
    return informationOf(this.imputer.network, values);
  }
}

// p(c | x) of each of several rows that have most of their columns in common, which are evaluated once.
function probaOfEach(fit, rows) {
  const proba = (logs) => softmax(fit.classLogs(logs));
  if (rows.length === 1 || fit instanceof Forest) return rows.map((row) => proba(fit.logStates(row)));
  const [first] = rows;
  const differ = (of) => first[of].map((x, i) => (rows.some((row) => !Object.is(row[of][i], x)) ? 1 : 0));
  const [codesDiffer, numbersDiffer] = [differ("codes"), differ("numbers")];
  const only = ({ codes, numbers }, which) => ({
    codes: codes.map((v, i) => (codesDiffer[i] === which ? v : -1)),
    numbers: numbers.map((x, i) => (numbersDiffer[i] === which ? x : NaN)),
  });
  const common = fit.logStates(only(first, 0));
  return rows.map((row) => {
    const own = fit.logCells(only(row, 1));
    return proba(common.map((value, s) => value + own[fit.cell_of[s]]));
  });
}

// Complete rows that stand for a row: all values of what is missing, or points of a Latin hypercube.
class Imputer {
  constructor(compiled, views, nClasses) {
    Object.assign(this, compiled);
    this.network = made(compiled.network, views, nClasses);
  }

  // {completions: [{weight, codes, numbers}, ...], isEmpty: whether nothing is known}
  complete(values) {
    const { network } = this;
    const row = network.row(values);
    const missing = Array.from({ length: network.nColumns }, (_, i) => i).filter((i) => !network.isKnown(row, i));
    const filled = missing.filter((i) => this.fills[i]);
    const isEmpty = missing.length === network.nColumns;
    if (filled.length === 0) return { completions: [{ weight: 1, ...row }], isEmpty };
    const states = softmax(network.logStates(row));
    const combinations = filled.reduce((sum, i) => sum + Math.log(network.levels[i]), 0);
    const isExact = filled.every((i) => i < network.nCodes) && combinations < Math.log(this.most_points + 0.5);
    const completions = isExact ? this.allValues(row, filled, states) : this.spread(row, filled, states);
    return { completions, isEmpty };
  }

  allValues(row, filled, states) {
    const { levels, cell_of } = this.network;
    let found = [{ codes: row.codes, numbers: row.numbers, p: states }];
    for (const i of filled) {
      found = found.flatMap(({ codes, numbers, p }) =>
        Array.from({ length: levels[i] }, (_, v) => {
          const share = p.map((value, s) => value * Math.exp(this.logLevel(i, v, cell_of[s])));
          return { codes: codes.map((w, j) => (j === i ? v : w)), numbers, p: share };
        }),
      );
    }
    const weights = found.map(({ p }) => p.reduce((sum, value) => sum + value, 0));
    const total = weights.reduce((sum, weight) => sum + weight, 0);
    return found.map(({ codes, numbers }, k) => ({ weight: weights[k] / total, codes, numbers }));
  }

  // By (M2), so that improbable classes have points as well; those of a class share its probability.
  spread(row, filled, states) {
    const { network } = this;
    const { numeric, place, levels, nCodes, nCells: K, cell_of, class_of } = network;
    const ofClass = new Float64Array(network.nClasses);
    states.forEach((p, s) => (ofClass[class_of[s]] += p));
    const { states: middles, parts, normal } = this.pointsOf(filled, ofClass);
    const n = middles.length;
    const tilted = states.map((p, s) => p / Math.sqrt(Math.max(ofClass[class_of[s]], 1e-300)));
    const chosen = Array.from(middles, (part) => quantileOf(tilted, part));
    const count = new Float64Array(network.nClasses);
    chosen.forEach((s) => (count[class_of[s]] += 1));
    const total = ofClass.reduce((sum, p, c) => sum + (count[c] > 0 ? p : 0), 0);
    return chosen.map((s, k) => {
      const [c, cell] = [class_of[s], cell_of[s]];
      const [codes, numbers] = [row.codes.slice(), row.numbers.slice()];
      for (const [which, i] of filled.entries()) {
        if (i < nCodes) {
          const p = Float64Array.from({ length: levels[i] }, (_, v) => Math.exp(this.logLevel(i, v, cell)));
          codes[i] = quantileOf(p, parts[which * n + k]);
        } else {
          const slope = numeric[3 * place[i] * K + cell];
          const intercept = numeric[(3 * place[i] + 1) * K + cell];
          numbers[i - nCodes] = (Math.SQRT1_2 * normal[which * n + k] - intercept) / slope;
        }
      }
      return { weight: ofClass[c] / count[c] / total, codes, numbers };
    });
  }

  // The more missing values, levels of these or probable classes, the more points.
  pointsOf(filled, ofClass) {
    const { points, enough_for, most_points, levels } = this;
    const doublings = (size) => Math.ceil(Math.log2(Math.max(size / enough_for, 1)) - 1e-6);
    const mostLevels = Math.max(0, ...filled.filter((i) => i < this.network.nCodes).map((i) => this.network.levels[i]));
    const classes = ofClass.reduce((sum, p) => sum + Math.sqrt(p), 0) ** 2;
    const lastForValues = points.findIndex(({ states }) => states.length >= most_points);
    const forValues = Math.min(doublings(Math.max(filled.length, mostLevels / levels)), lastForValues);
    return points[Math.max(forValues, Math.min(doublings(classes), points.length - 1))];
  }

  logLevel(i, v, cell) {
    return this.network.log_table[(this.network.place[i] + v) * this.network.nCells + cell];
  }
}

// Value at part u of a distribution, by whole numbers: the result must not depend on rounding.
function quantileOf(p, u) {
  const scale = 2 ** 32;
  const total = p.reduce((sum, value) => sum + value, 0);
  const wanted = Math.floor(u * scale);
  let cumulated = 0;
  for (let v = 0; v + 1 < p.length; v++) {
    cumulated += p[v];
    if (Math.floor((cumulated / total) * scale) > wanted) return v;
  }
  return p.length - 1;
}

// From everything missing to a row, which its completions stand for (`explanation/average.py`). A *slot* is a state of
// a fit beside a completion: those of a completion together, fit after fit.
class AveragePath {
  constructor(average, completions, rows, pair) {
    Object.assign(this, { average, completions, rows, pair });
    this.first = [0]; // of each fit among the slots of a completion
    average.fits.forEach((fit, f) => this.first.push(this.first[f] + fit.nStates));
    this.nSlots = this.first[average.fits.length];
    this.slope = new Float64Array(completions.length * this.nSlots);
    this.eachTerm((term, slot) => (this.slope[slot] += term));
    this.size = 1 + this.slope.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
    this.q = new Float64Array(this.slope.length);
  }

  // visit(what a column of a fit adds, slot, feature).
  eachTerm(visit) {
    this.average.fits.forEach((fit, f) => {
      const { nCells: K, cell_of, nStates, nColumns, view } = fit;
      this.rows[f].forEach((row, e) => {
        const terms = fit.columnTerms(row);
        const begin = e * this.nSlots + this.first[f];
        for (let i = 0; i < nColumns; i++) {
          const j = view.featureOf[i];
          for (let s = 0; s < nStates; s++) visit(terms[i * K + cell_of[s]], begin + s, j);
        }
      });
    });
  }

  // Sets q(s) of every slot at t; p(c) of the fits beside each completion, pooled, and p of the two classes.
  at(t) {
    const pools = this.completions.map((_, e) => {
      const proba = this.average.fits.map((fit, f) => this.probaAt(t, fit, e * this.nSlots + this.first[f]));
      return { proba, ...this.average.pool((f) => proba[f]) };
    });
    const total = this.pair.map((c) => {
      return this.completions.reduce((sum, { weight }, e) => sum + weight * pools[e].mixed[c], 0);
    });
    return { pools, total };
  }

  probaAt(t, { log_weight, class_of, nStates, nClasses }, begin) {
    const { q, slope } = this;
    let top = -Infinity;
    for (let s = 0; s < nStates; s++) {
      q[begin + s] = log_weight[s] + t * slope[begin + s];
      if (q[begin + s] > top) top = q[begin + s];
    }
    let sum = 0;
    for (let s = 0; s < nStates; s++) sum += q[begin + s] = Math.exp(q[begin + s] - top);
    const p = new Float64Array(nClasses);
    for (let s = 0; s < nStates; s++) p[class_of[s]] += q[begin + s] /= sum;
    return p;
  }

  value(t) {
    const { total } = this.at(t);
    return Math.log(total[0]) - Math.log(total[1]);
  }

  // d log-odds / d p_f(c) by way of (A1) and (A2), and from there to the states.
  add(t, by, to) {
    const { nClasses, fits, members, memberOf, weights, exponents, share, floor } = this.average;
    const { pools, total } = this.at(t);
    pools.forEach(({ proba, p, logLinear }, e) => {
      const byP = new Float64Array(nClasses);
      this.pair.forEach((c, k) => (byP[c] += ((k === 0 ? 1 : -1) * this.completions[e].weight) / total[k]));
      const mean = byP.reduce((sum, value, c) => sum + value * logLinear[c], 0);
      const byLog = byP.map((value, c) => (1 - share) * logLinear[c] * (value - mean));
      fits.forEach(({ class_of, nStates }, f) => {
        const m = memberOf[f];
        const byFit = byP.map((value, c) => {
          return (share * weights[m] * value + (exponents[m] * byLog[c]) / (p[m][c] + floor)) / members[m].length;
        });
        const middle = byFit.reduce((sum, value, c) => sum + value * proba[f][c], 0);
        const coefficient = byFit.map((value) => by * (value - middle));
        const begin = e * this.nSlots + this.first[f];
        for (let s = 0; s < nStates; s++) to[begin + s] += this.q[begin + s] * coefficient[class_of[s]];
      });
    });
  }

  attribution(nFeatures) {
    const coefficient = integrate(this, this.slope, this.size);
    const contributions = new Float64Array(nFeatures);
    this.eachTerm((term, slot, feature) => (contributions[feature] += coefficient[slot] * term));
    const { pools } = this.at(1);
    const { members, weights } = this.average;
    const own = members.map((_, m) => {
      const p = this.completions.reduce((sum, { weight }, e) => sum + weight * pools[e].p[m][this.pair[0]], 0);
      return Math.max(p * weights[m], Number.MIN_VALUE);
    });
    const part = argmax(own);
    const responsibility = own[part] / own.reduce((sum, value) => sum + value, 0);
    return { logOdds: this.value(1), prior: this.value(0), contributions, part, responsibility };
  }
}
