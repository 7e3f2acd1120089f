// Correlated numbers: normal distributions of all of them together, some of them missing.
//
// With o the numbers that are known and G = S_oo^-1,
// log N(x_o) = x'G mu - mu'G mu / 2 - (x'G x + log det 2 pi S_oo) / 2. The last part, the base, is the same in all
// cells of one covariance.

const LOG_2PI = Math.log(2 * Math.PI);
const LEAST_VARIANCE = 1e-12;

class Normals {
  constructor({ mean, cholesky, group }) {
    [this.n, this.nCells] = mean.shape;
    this.nGroups = cholesky.shape[0];
    Object.assign(this, { mean, cholesky, group });
  }

  // Known columns o, G (|o| x |o|), and the log determinant of 2 pi S_oo, of one covariance.
  given(numbers, g) {
    const known = [];
    numbers.forEach((x, i) => Number.isNaN(x) || known.push(i));
    const L = this.cholesky.subarray(g * this.n * this.n, (g + 1) * this.n * this.n);
    const factor = triangular(known.map((i) => Array.from(L.subarray(i * this.n, (i + 1) * this.n))));
    const inverse = inverseOf(factor);
    const precision = known.map((_, i) =>
      known.map((__, j) => inverse.reduce((sum, row) => sum + row[i] * row[j], 0)),
    );
    const logDet = factor.reduce((sum, row, i) => sum + 2 * Math.log(row[i]) + LOG_2PI, 0);
    return { known, precision, logDet, factor };
  }

  cellsOf(g) {
    return Array.from({ length: this.nCells }, (_, c) => c).filter((c) => this.group[c] === g);
  }

  // Adds the log density of the known numbers in each cell; without the base if all have the same.
  add(numbers, total) {
    this.each(numbers, (c, g, pull) => {
      g.known.forEach((i, k) => (total[c] += (numbers[i] - 0.5 * this.mean[i * this.nCells + c]) * pull[k]));
      if (this.nGroups > 1) total[c] += g.base;
    });
  }

  // What each number adds, [column * nCells + cell]: x_i (G mu)_i - mu_i (G mu)_i / 2 and, of several covariances, less
  // x_i (G x)_i / 2 and half of (log 2 pi S_oo)_ii.
  addColumns(numbers, found) {
    let shares = null;
    let of = null;
    this.each(numbers, (c, g, pull) => {
      if (this.nGroups > 1 && of !== g) {
        of = g;
        shares = logDiagonal(g.factor).map((share, k) => share + LOG_2PI + numbers[g.known[k]] * g.weighted[k]);
      }
      g.known.forEach((i, k) => {
        const term = (numbers[i] - 0.5 * this.mean[i * this.nCells + c]) * pull[k];
        found[i * this.nCells + c] += term - (shares === null ? 0 : 0.5 * shares[k]);
      });
    });
  }

  // visit(cell, what is known of its covariance, G mu), covariance after covariance.
  each(numbers, visit) {
    for (let g = 0; g < this.nGroups; g++) {
      const given = this.given(numbers, g);
      const times = (x) => given.precision.map((row) => row.reduce((sum, value, k) => sum + value * x[k], 0));
      const x = given.known.map((i) => numbers[i]);
      given.weighted = times(x);
      given.base = -0.5 * (given.weighted.reduce((sum, value, k) => sum + value * x[k], 0) + given.logDet);
      for (const c of this.cellsOf(g)) visit(c, given, times(given.known.map((i) => this.mean[i * this.nCells + c])));
    }
  }

  // Mean and variance in each cell of a number that is missing, given the others.
  conditional(numbers, j) {
    const mean = new Float64Array(this.nCells);
    const variance = new Float64Array(this.nCells);
    this.each(numbers, (c, g, pull) => {
      const L = this.cholesky.subarray(this.group[c] * this.n * this.n);
      const covariance = (a, b) => {
        let sum = 0;
        for (let k = 0; k <= Math.min(a, b); k++) sum += L[a * this.n + k] * L[b * this.n + k];
        return sum;
      };
      g.row ??= {};
      g.row[j] ??= g.known.map((i) => covariance(j, i));
      const row = g.row[j];
      mean[c] = this.mean[j * this.nCells + c] + row.reduce((sum, s, k) => sum + s * (g.weighted[k] - pull[k]), 0);
      const explained = g.precision.reduce((sum, of, k) => sum + row[k] * of.reduce((s, v, m) => s + v * row[m], 0), 0);
      variance[c] = Math.max(covariance(j, j) - explained, LEAST_VARIANCE);
    });
    return { mean, variance };
  }
}

// Lower triangular factor of R R' (n x n), of rows R (n x m), m >= n, by reflections: R R' is never formed.
function triangular(rows) {
  const R = rows.map((row) => Float64Array.from(row));
  R.forEach((row, i) => {
    let size = 0;
    for (let k = i; k < row.length; k++) size = Math.hypot(size, row[k]);
    if (size === 0) return;
    const axis = row.slice(i);
    const sign = axis[0] < 0 ? -1 : 1;
    axis[0] += sign * size;
    const norm = axis.reduce((sum, value) => sum + value * value, 0);
    for (let j = i; j < R.length; j++) {
      let dot = 0;
      for (let k = 0; k < axis.length; k++) dot += axis[k] * R[j][i + k];
      for (let k = 0; k < axis.length; k++) R[j][i + k] -= ((2 * dot) / norm) * axis[k];
    }
  });
  return R.map((row, i) => {
    return Float64Array.from({ length: R.length }, (_, k) => (k > i ? 0 : row[k] * (R[k][k] < 0 ? -1 : 1)));
  });
}

// Inverse of a lower triangular matrix.
function inverseOf(lower) {
  const inverse = lower.map((row) => new Float64Array(row.length));
  lower.forEach((row, i) => {
    for (let j = 0; j <= i; j++) {
      let sum = i === j ? 1 : 0;
      for (let k = j; k < i; k++) sum -= row[k] * inverse[k][j];
      inverse[i][j] = sum / row[i];
    }
  });
  return inverse;
}

// Diagonal of log(L L'), by Jacobi's rotations.
function logDiagonal(lower) {
  const n = lower.length;
  const A = lower.map((a) => lower.map((b) => a.reduce((sum, value, k) => sum + value * b[k], 0)));
  const V = lower.map((_, i) => lower.map((__, j) => (i === j ? 1 : 0)));
  for (let sweep = 0; sweep < 60; sweep++) {
    let off = 0;
    for (let p = 0; p < n; p++)
      for (let q = p + 1; q < n; q++) {
        if (Math.abs(A[p][q]) <= 1e-17 * Math.sqrt(Math.abs(A[p][p] * A[q][q]))) continue;
        off += 1;
        const theta = (A[q][q] - A[p][p]) / (2 * A[p][q]);
        const t = (theta < 0 ? -1 : 1) / (Math.abs(theta) + Math.hypot(theta, 1));
        const cosine = 1 / Math.hypot(t, 1);
        const sine = t * cosine;
        for (const M of [A, V])
          for (let k = 0; k < n; k++) {
            const [a, b] = [M[k][p], M[k][q]];
            M[k][p] = cosine * a - sine * b;
            M[k][q] = sine * a + cosine * b;
          }
        for (let k = 0; k < n; k++) {
          const [a, b] = [A[p][k], A[q][k]];
          A[p][k] = cosine * a - sine * b;
          A[q][k] = sine * a + cosine * b;
        }
      }
    if (off === 0) break;
  }
  const logs = A.map((row, k) => Math.log(Math.max(row[k], Number.MIN_VALUE)));
  return V.map((row) => row.reduce((sum, value, k) => sum + value * value * logs[k], 0));
}
