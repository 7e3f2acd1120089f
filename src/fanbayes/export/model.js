/*
 * A fitted model that predicts and explains, from what `fanbayes.export.compile_model(clf).to_json()` gives in Python.
 * `fanbayes.export.model_javascript()` is the whole script: it defines `fanbayes` and needs nothing else.
 *
 *   const model = fanbayes.load(json);        // the object, or its text
 *
 *   model.classifier                          "FANClassifier", ...
 *   model.classes                             [label, ...]; everything about classes is in this order
 *   model.features                            [{name, kind, dtype, levels, cuts, low, high, mean, is_used, ...}, ...]
 *     kind "discrete": a value is one of `levels` (strings, numbers or booleans, as in the table)
 *     kind "continuous" or "binned": a value is a number; `low` and `high` are the least and largest seen in training
 *     is_used: whether the model makes anything of it
 *   model.classPrior                          [p(c), ...]
 *
 * A *case* is an object {name of a feature: value}. null (or NaN) is a missing value; a feature that the case does not
 * have is unknown. Both are the same unless the model was fitted with missing="informative": then that a value is
 * missing tells something, and nothing is told by what is unknown. A level that was not seen in training counts as
 * missing. What cannot be a value is an Error with a sentence that names the feature.
 *
 *   model.predict(case)             {proba: [p(c | x), ...], logProba: [...], best: number of the class}
 *
 *   model.components(case)          null if the model has no components, else
 *                                   {proba, common, best: {class, component, probability}}
 *     common true:  proba[h] = p(h | x), and best.class is null
 *     common false: proba[c][h] = p(c, h | x): the components of each class are its own
 *
 *   model.contributions(case, c, against)
 *                                   {classes: [c, against], logOdds, prior, contributions: [...], part, responsibility}
 *     c, against: numbers of two classes; by default the most probable one and the next
 *     contributions: one number for each of model.features, 0 if not used; prior + their sum = logOdds = log p(c | x) -
 *     log p(against | x). part: the component, or the member of an average, that is most responsible, and its share.
 *
 *   model.askNext(case)             [{feature: name, information, share}, ...], the most informative first
 *     one entry for each feature that is used and has no (known) value; information: by how much the doubt about the
 *     class is expected to fall when it is observed, in nats; share: the same as a part of the doubt, between 0 and 1.
 */

class Model {
  constructor(compiled) {
    this.classifier = compiled.classifier;
    this.classes = compiled.classes;
    this.classPrior = Array.from(compiled.class_prior);
    this._views = compiled.views.map((view) => new View(view, compiled.features));
    this._predictor = made(compiled.predictor, this._views, this.classes.length);
    const used = new Set(this._views.flatMap((view) => view.featureOf));
    this.features = compiled.features.map((feature, j) => ({ ...feature, is_used: used.has(j) }));
    this._readers = this.features.map((feature) => reader(feature));
    this._position = new Map(this.features.map((feature, j) => [feature.name, j]));
  }

  // Values of the features as they are read (see `reader`), of all in their order.
  _read(values) {
    if (values === null || typeof values !== "object") throw new TypeError("a case is an object {feature: value}");
    const found = new Array(this.features.length).fill(undefined);
    for (const [name, value] of Object.entries(values)) {
      const j = this._position.get(name);
      if (j === undefined) throw new RangeError(`there is no feature ${JSON.stringify(name)}`);
      found[j] = this._readers[j](value);
    }
    return found;
  }

  predict(values) {
    const logProba = Array.from(this._predictor.logProba(this._read(values)));
    return { proba: logProba.map(Math.exp), logProba, best: argmax(logProba) };
  }

  components(values) {
    return this._predictor instanceof Network ? componentsOf(this._predictor, this._read(values)) : null;
  }

  contributions(values, c, against) {
    const read = this._read(values);
    const pair = this._pair(read, c, against);
    const found = this._predictor.attribute(read, pair, this.features.length);
    return { classes: pair, ...found, contributions: Array.from(found.contributions) };
  }

  _pair(read, c, against) {
    const n = this.classes.length;
    if (n < 2) throw new RangeError("there is nothing to explain: the model knows one class only");
    const logProba = this._predictor.logProba(read);
    const order = Array.from(logProba.keys()).sort((a, b) => logProba[b] - logProba[a] || a - b);
    const first = c ?? order.find((k) => k !== against);
    const second = against ?? order.find((k) => k !== first);
    const isClass = (k) => Number.isInteger(k) && k >= 0 && k < n;
    if (!isClass(first) || !isClass(second) || first === second)
      throw new RangeError(`classes to compare are two different numbers from 0 to ${n - 1}`);
    return [first, second];
  }

  askNext(values) {
    return this._predictor.information(this._read(values)).map(({ feature, information, share }) => {
      return { feature: this.features[feature].name, information, share };
    });
  }
}

function made(compiled, views, nClasses) {
  const kinds = { network: Network, forest: Forest, average: Average };
  return new kinds[compiled.kind](compiled, views, nClasses);
}

function load(json) {
  return new Model(decode(typeof json === "string" ? JSON.parse(json) : json));
}
