// Forests of trees with naive Bayes in their nodes: one state for each class.

class Forest extends States {
  constructor(compiled, views, nClasses) {
    super(compiled, views, nClasses);
    const classes = Int32Array.from({ length: nClasses }, (_, c) => c);
    this.setStates(classes, classes, compiled.class_prior.map(Math.log));
  }

  // Codes of the columns, the last of each if it is missing.
  codes(row) {
    return Uint8Array.from({ length: this.nColumns }, (_, j) => {
      const v = row.codes[j];
      if (j < this.nCodes) return v < 0 ? this.n_codes[j] : this.code_of[j][v];
      const x = row.numbers[j - this.nCodes];
      return Number.isNaN(x) ? this.n_codes[j] : countBelow(this.cuts[j - this.nCodes], x);
    });
  }

  logCells(row) {
    const total = new Float64Array(this.nClasses);
    this.columnTerms(row).forEach((term, k) => (total[k % this.nClasses] += term));
    return total;
  }

  // What each column adds, [column * nClasses + class]: the steps down the trees count for the columns split on.
  columnTerms(row) {
    const { first_node, first_number, column, right, to_left, to_right, values, known, tables, nClasses: C } = this;
    const codes = this.codes(row);
    const found = new Float64Array(this.nColumns * C);
    const nKnown = known.shape[1];
    const has = (set, node, code) => (set[2 * node + (code >> 5)] >>> (code & 31)) & 1;
    for (let t = 0; t + 1 < first_node.length; t++) {
      let node = first_node[t];
      while (column[node] >= 0) {
        const j = column[node];
        const isLeft = has(to_left, node, codes[j]);
        if (!isLeft && !has(to_right, node, codes[j])) break;
        const next = isLeft ? node + 1 : first_node[t] + right[node];
        for (let c = 0; c < C; c++) found[j * C + c] += values[next * C + c] - values[node * C + c];
        node = next;
      }
      let width = 0;
      for (let k = 0; k < nKnown; k++) width += this.n_levels[known[t * nKnown + k]];
      let at = first_number[t] + this.network[node] * width * C;
      for (let k = 0; k < nKnown; k++) {
        const j = known[t * nKnown + k];
        const level = this.level[j * this.level.shape[1] + codes[j]];
        if (level < this.n_levels[j]) for (let c = 0; c < C; c++) found[j * C + c] += tables[at + level * C + c];
        at += this.n_levels[j] * C;
      }
    }
    return found;
  }
}
