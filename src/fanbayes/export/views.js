// From the values of a case to the columns that a network or a forest sees.

// A function that reads values of a feature. undefined: nothing is known; null: missing; else a number, or
// the position of a level, -1 for one that was not seen in training.
function reader(feature) {
  const { name, kind, distribution } = feature;
  if (kind === "discrete") {
    const key = (value) => (typeof value === "boolean" ? Number(value) : value); // as in Python, true is 1
    const position = new Map(feature.levels.map((level, k) => [key(level), k]));
    return (value) => {
      if (value === undefined || value === null || Number.isNaN(value)) return value === undefined ? value : null;
      if (!["string", "number", "boolean", "bigint"].includes(typeof value))
        throw new TypeError(`feature ${JSON.stringify(name)} takes one of its levels, or null`);
      return position.get(key(value)) ?? -1;
    };
  }
  return (value) => {
    if (value === undefined || value === null || Number.isNaN(value)) return value === undefined ? value : null;
    const x = typeof value === "boolean" ? Number(value) : value;
    if (typeof x !== "number" || !Number.isFinite(x))
      throw new TypeError(`feature ${JSON.stringify(name)} takes a finite number, or null`);
    if (distribution === "poisson" && !(x >= 0 && x <= 1e12 && x === Math.floor(x)))
      throw new RangeError(`feature ${JSON.stringify(name)} takes whole numbers from 0 to 1e12, or null`);
    return x;
  };
}

class View {
  constructor(compiled, features) {
    Object.assign(this, compiled);
    this.features = features;
    this.featureOf = [...compiled.codes.map((column) => column.feature), ...compiled.numbers]; // of each column
  }

  // Codes, -1 where missing, and standardised numbers, NaN where missing.
  encode(values) {
    const codes = Int32Array.from(this.codes, (column) => code(column, values[column.feature]));
    const numbers = Float64Array.from(this.numbers, (j) => {
      const { exponent, centre, scale } = this.features[j];
      const z = (scaled(values[j] ?? NaN, -exponent) - centre) / scale;
      return Math.min(Math.max(z, -this.furthest), this.furthest);
    });
    return { codes, numbers };
  }

  // What the model sees of such columns.
  mix({ codes, numbers }) {
    if (this.scores !== null) numbers = numbers.map((z, k) => this.score(z, k));
    if (this.mixing === null) return { codes, numbers };
    const n = numbers.length;
    const mixed = new Float64Array(n);
    for (let i = 0; i < n; i++)
      if (!Number.isNaN(numbers[i])) for (let j = 0; j < n; j++) mixed[j] += numbers[i] * this.mixing[i * n + j];
    for (let i = 0; i < n; i++) if (Number.isNaN(numbers[i])) mixed[i] = NaN;
    return { codes, numbers: mixed };
  }

  // On the line between two knots, or beyond them.
  score(z, k) {
    const n = this.scores.shape[2];
    const at = this.scores.subarray(2 * k * n, (2 * k + 1) * n);
    const to = this.scores.subarray((2 * k + 1) * n, (2 * k + 2) * n);
    const right = Math.min(Math.max(countBelow(at, z), 1), n - 1);
    const slope = (to[right] - to[right - 1]) / (at[right] - at[right - 1]);
    const score = to[right - 1] + slope * (z - at[right - 1]);
    return Math.min(Math.max(score, -this.furthest_score), this.furthest_score);
  }

  // A row of encoded columns in which something is missing, completed from another view's columns.
  fill({ codes, numbers }, base, done) {
    const number = (j) => done.numbers[base.numberAt.get(j)];
    return {
      codes: codes.map((v, i) => {
        const { by, feature } = this.codes[i];
        if (v >= 0 || by === "missing") return v;
        if (by === "level") return done.codes[base.codeAt.get(feature)];
        const { exponent, centre, scale } = this.features[feature];
        const x = scaled(number(feature) * scale + centre, exponent);
        return code(this.codes[i], Number.isNaN(x) ? null : Math.min(Math.max(x, -Number.MAX_VALUE), Number.MAX_VALUE));
      }),
      numbers: numbers.map((z, k) => (Number.isNaN(z) ? number(this.numbers[k]) : z)),
    };
  }

  // Places of features among the codes that are no indicators, and among the numbers.
  get codeAt() {
    return cached(this, "codeAt", () => {
      return new Map(this.codes.flatMap(({ by, feature }, i) => (by === "missing" ? [] : [[feature, i]])));
    });
  }

  get numberAt() {
    return cached(this, "numberAt", () => new Map(Array.from(this.numbers, (j, k) => [j, k])));
  }
}

// A property that is computed when it is first asked for.
function cached(object, name, compute) {
  const value = compute();
  Object.defineProperty(object, name, { value });
  return value;
}

function code(column, value) {
  if (value === undefined) return -1;
  if (column.by === "missing") return value === null ? 1 : 0;
  if (value === null) return -1;
  return column.by === "level" ? value : countBelow(column.cuts, value);
}
