// Networks: log p(s, x) of a row, missing values summed or integrated out.

// What has states, each of a class, with a log weight and the terms of a cell: networks and forests.
class States {
  constructor(compiled, views, nClasses) {
    Object.assign(this, compiled);
    this.view = views[compiled.view];
    this.nCodes = this.view.codes.length;
    this.nColumns = this.view.featureOf.length;
    this.nClasses = nClasses;
  }

  setStates(classOf, cellOf, logWeight) {
    [this.class_of, this.cell_of, this.log_weight] = [classOf, cellOf, logWeight];
    this.nStates = classOf.length;
    this.nCells = cellOf.reduce((most, cell) => Math.max(most, cell), 0) + 1;
    this.firstState = Array.from({ length: this.nClasses + 1 }, (_, c) => countBelow(classOf, c));
  }

  // log p(s, x) of each state, up to a constant, of a row as the view shows it.
  logStates(row) {
    const cells = this.logCells(row);
    return this.log_weight.map((weight, s) => weight + cells[this.cell_of[s]]);
  }

  // log sum_(s of c) exp of what states have, for each class.
  classLogs(ofStates) {
    return Float64Array.from({ length: this.nClasses }, (_, c) => {
      return logSum(ofStates, this.firstState[c], this.firstState[c + 1]);
    });
  }
}

class Network extends States {
  constructor(compiled, views, nClasses) {
    super(compiled, views, nClasses);
    this.setStates(compiled.class_of, compiled.cell_of, compiled.log_weight);
    this.order = parentsFirst(this.parent);
    this.upwards = this.order.slice().reverse();
    if (this.normals !== null) this.normals = new Normals(this.normals);
  }

  row(values) {
    return this.view.mix(this.view.encode(values));
  }

  isKnown(row, i) {
    return i < this.nCodes ? row.codes[i] >= 0 : !Number.isNaN(row.numbers[i - this.nCodes]);
  }

  logProba(values) {
    return logSoftmax(this.classLogs(this.logStates(this.row(values))));
  }

  // log p(x | cell) of each cell: messages from the leaves of the tree up (Pearl 1988).
  logCells(row) {
    const total = new Messages(this, row).upward();
    if (this.normals !== null) this.normals.add(row.numbers, total);
    return total;
  }

  attribute(values, pair, nFeatures) {
    return attributeNetwork(this, values, pair, nFeatures);
  }

  information(values) {
    return informationOf(this, values);
  }

  // What each column adds in each cell, [column * nCells + cell], 0 where missing. Where a value is missing above one
  // that is known, log p(x_i | what is known of the columns before it, cell).
  columnTerms(row) {
    const K = this.nCells;
    const found = new Float64Array(this.nColumns * K);
    const messages = new Messages(this, row);
    if (messages.hasHoles) {
      const known = { codes: new Int32Array(row.codes.length).fill(-1), numbers: row.numbers.map(() => NaN) };
      let before = new Float64Array(K);
      for (const i of this.order) {
        if (i < this.nCodes) known.codes[i] = row.codes[i];
        else known.numbers[i - this.nCodes] = row.numbers[i - this.nCodes];
        const after = this.logCells(known);
        for (let c = 0; c < K; c++) found[i * K + c] = after[c] - before[c];
        before = after;
      }
      return found;
    }
    for (let i = 0; i < this.nColumns; i++) messages.send(i, found.subarray(i * K, (i + 1) * K));
    if (this.normals !== null) this.normals.addColumns(row.numbers, found.subarray(this.nCodes * K));
    return found;
  }
}

// Columns, parents before their children.
function parentsFirst(parent) {
  const order = [];
  const children = Array.from(parent, () => []);
  parent.forEach((p, i) => (p < 0 ? order : children[p]).push(i));
  for (let k = 0; k < order.length; k++) order.push(...children[order[k]]); // grows on the way
  return order;
}

// What a row sends along the tree. A column is live if it is known, or one below it is: the others drop out.
class Messages {
  constructor(network, row) {
    this.network = network;
    this.row = row;
    const { nColumns, parent, upwards, nCells, levels } = network;
    this.known = new Uint8Array(nColumns);
    for (let i = 0; i < nColumns; i++) this.known[i] = network.isKnown(row, i) ? 1 : 0;
    this.live = this.known.slice();
    for (const i of upwards) if (this.live[i] && parent[i] >= 0) this.live[parent[i]] = 1;
    this.hasHoles = false;
    // Of columns that are live but not known: log p(what is known below | code), [code * nCells + cell]; or, of a
    // number, -(slope x + intercept)^2 but for a constant, [cell] and [nCells + cell].
    this.below = new Array(nColumns);
    for (let i = 0; i < nColumns; i++)
      if (this.live[i] && !this.known[i]) {
        this.hasHoles = true;
        this.below[i] = new Float64Array((levels[i] || 2) * nCells);
      }
  }

  // log p(x | cell) of each cell.
  upward() {
    const total = new Float64Array(this.network.nCells);
    for (const i of this.network.upwards) this.send(i, total);
    return total;
  }

  // After that: p(v | x, cell) of each column of codes that is not known, [cell * levels + v].
  downward() {
    const { order, parent, levels, place, log_table: table, nCells: K } = this.network;
    const found = new Array(order.length);
    for (const i of order) {
      if (levels[i] === 0 || this.known[i]) continue;
      const [n, p] = [levels[i], parent[i]];
      const isOpen = p >= 0 && !this.known[p];
      const [from, to] = isOpen ? [0, levels[p]] : p < 0 ? [0, 1] : [this.row.codes[p], this.row.codes[p] + 1];
      const [each, below] = [new Float64Array(n), this.below[i]];
      found[i] = new Float64Array(K * n);
      for (let u = from; u < to; u++)
        for (let c = 0; c < K; c++) {
          const share = isOpen ? found[p][c * levels[p] + u] : 1;
          if (share === 0) continue;
          const first = (place[i] + u * (n + 1)) * K + c;
          for (let v = 0; v < n; v++) each[v] = table[first + v * K] + (below === undefined ? 0 : below[v * K + c]);
          const total = logSum(each);
          for (let v = 0; v < n; v++) found[i][c * n + v] += share * Math.exp(each[v] - total);
        }
    }
    return found;
  }

  // Adds what column i and those below it say to `total`, or to what is below its parent if that is not known.
  send(i, total) {
    const { parent, levels, nCells, normals, nCodes } = this.network;
    const p = parent[i];
    if (!this.live[i] || (normals !== null && i >= nCodes)) return;
    if (p < 0) this.sendGiven(i, 0, total);
    else if (levels[p] === 0) this.sendRegression(i, total);
    else if (this.known[p]) this.sendGiven(i, this.row.codes[p], total);
    else
      for (let u = 0; u < levels[p]; u++) this.sendGiven(i, u, this.below[p].subarray(u * nCells, (u + 1) * nCells));
  }

  // The same, given that its parent has the code u.
  sendGiven(i, u, to) {
    const { levels, place, log_table: table, nCells: K, nCodes } = this.network;
    if (levels[i] === 0) return this.sendNumber(this.row.numbers[i - nCodes], place[i] + u, this.below[i], to);
    const first = (place[i] + u * (levels[i] + 1)) * K;
    if (this.known[i]) {
      const at = first + this.row.codes[i] * K;
      for (let c = 0; c < K; c++) to[c] += table[at + c];
      return;
    }
    const each = new Float64Array(levels[i]);
    for (let c = 0; c < K; c++) {
      for (let v = 0; v < each.length; v++) each[v] = table[first + v * K + c] + this.below[i][v * K + c];
      to[c] += logSum(each);
    }
  }

  sendNumber(x, number, below, to) {
    const { numeric, nCells: K, n_linear } = this.network;
    const at = 3 * number * K;
    if (number >= numeric.shape[0] - n_linear) {
      for (let c = 0; c < K; c++) to[c] += numeric[at + 2 * K + c] + numeric[at + c] * x;
    } else if (below === undefined) {
      for (let c = 0; c < K; c++) to[c] += numeric[at + 2 * K + c] - (numeric[at + c] * x + numeric[at + K + c]) ** 2;
    } else {
      for (let c = 0; c < K; c++) {
        const turn = new Rotation(numeric[at + c], below[c]);
        to[c] += numeric[at + 2 * K + c] + turn.logIntegral - turn.across(numeric[at + K + c], below[K + c]) ** 2;
      }
    }
  }

  // Of a number x whose parent is a number p. What depends on a p that is not known is put to what is below it.
  sendRegression(i, total) {
    const { regression, place, parent, nCells: K, nCodes } = this.network;
    const p = parent[i];
    const at = 4 * place[i] * K;
    for (let c = 0; c < K; c++) {
      let a = regression[at + 3 * K + c]; // -(a p + b)^2 is left
      let b = regression[at + K + c];
      total[c] += regression[at + 2 * K + c];
      if (this.known[i]) {
        b += regression[at + c] * this.row.numbers[i - nCodes];
      } else {
        const turn = new Rotation(regression[at + c], this.below[i][c]);
        total[c] += turn.logIntegral;
        a = turn.across(a, 0);
        b = turn.across(b, this.below[i][K + c]);
      }
      if (this.known[p]) {
        total[c] -= (a * this.row.numbers[p - nCodes] + b) ** 2;
      } else {
        const below = this.below[p];
        const turn = new Rotation(below[c], a);
        total[c] -= turn.across(below[K + c], b) ** 2;
        below[K + c] = turn.along(below[K + c], b);
        below[c] = turn.size;
      }
    }
  }
}

// (a x + b)^2 + (c x + d)^2 = (size x + along(b, d))^2 + across(b, d)^2: squares are turned, so that nothing cancels.
class Rotation {
  constructor(a, c) {
    this.size = Math.hypot(a, c);
    this.cosine = this.size > 0 ? a / this.size : 1;
    this.sine = this.size > 0 ? c / this.size : 0;
  }

  along(b, d) {
    return this.cosine * b + this.sine * d;
  }

  across(b, d) {
    return this.cosine * d - this.sine * b;
  }

  // Log of the integral of exp(-(size x)^2).
  get logIntegral() {
    return 0.5 * Math.log(Math.PI) - Math.log(this.size);
  }
}

function componentsOf(network, values) {
  const nComponents = network.component_of.reduce((most, h) => Math.max(most, h), 0) + 1;
  if (nComponents === 1) return null;
  const p = softmax(network.logStates(network.row(values)));
  const joint = Array.from({ length: network.nClasses }, () => new Array(nComponents).fill(0));
  p.forEach((value, s) => (joint[network.class_of[s]][network.component_of[s]] = value));
  if (!network.common_components) {
    const s = argmax(p);
    const best = { class: network.class_of[s], component: network.component_of[s], probability: p[s] };
    return { proba: joint, common: false, best };
  }
  const proba = joint.reduce((sum, of) => sum.map((value, h) => value + of[h]));
  const component = argmax(proba);
  return { proba, common: true, best: { class: null, component, probability: proba[component] } };
}
