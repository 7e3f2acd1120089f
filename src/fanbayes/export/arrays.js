// Arrays and numbers.

const TYPES = {
  float64: Float64Array,
  float32: Float32Array,
  int32: Int32Array,
  uint32: Uint32Array,
  uint8: Uint8Array,
};
const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const SIX_BITS = new Uint8Array(128);
for (let k = 0; k < 64; k++) SIX_BITS[LETTERS.charCodeAt(k)] = k;

function bytesOf(base64) {
  const padding = base64.endsWith("==") ? 2 : base64.endsWith("=") ? 1 : 0;
  const bytes = new Uint8Array((base64.length / 4) * 3 - padding);
  for (let from = 0, to = 0; from < base64.length; from += 4, to += 3) {
    let word = 0;
    for (let k = 0; k < 4; k++) word = (word << 6) | SIX_BITS[base64.charCodeAt(from + k)];
    bytes[to] = word >> 16;
    bytes[to + 1] = word >> 8; // beyond the end nothing is written
    bytes[to + 2] = word;
  }
  return bytes;
}

// What `CompiledModel.to_json` has made of arrays and numbers, undone; arrays are flat and know their shape.
function decode(value) {
  if (Array.isArray(value)) return value.map(decode);
  if (value === null || typeof value !== "object") return value;
  if ("base64" in value) {
    const array = new TYPES[value.dtype](bytesOf(value.base64).buffer);
    array.shape = value.shape;
    return array;
  }
  if ("float" in value) return { nan: NaN, inf: Infinity, "-inf": -Infinity }[value.float];
  if ("integer" in value) return BigInt(value.integer);
  return Object.fromEntries(Object.entries(value).map(([key, v]) => [key, decode(v)]));
}

function argmax(x) {
  let best = 0;
  for (let k = 1; k < x.length; k++) if (x[k] > x[best]) best = k;
  return best;
}

// log sum exp x[k] for k from begin to end.
function logSum(x, begin = 0, end = x.length) {
  let top = -Infinity;
  for (let k = begin; k < end; k++) if (x[k] > top) top = x[k];
  if (top === -Infinity) return top;
  let sum = 0;
  for (let k = begin; k < end; k++) sum += Math.exp(x[k] - top);
  return top + Math.log(sum);
}

// x less its log sum, as probabilities' logs. The largest is taken off first: beside something huge, the logarithm of
// a sum would be lost.
function logSoftmax(x) {
  const top = Math.max(...x);
  const shifted = x.map((value) => value - top);
  const total = logSum(shifted);
  return shifted.map((value) => value - total);
}

// exp(x) / sum exp(x).
function softmax(x) {
  let top = -Infinity;
  for (let k = 0; k < x.length; k++) if (x[k] > top) top = x[k];
  const p = new Float64Array(x.length);
  let sum = 0;
  for (let k = 0; k < x.length; k++) sum += p[k] = Math.exp(x[k] - top);
  for (let k = 0; k < x.length; k++) p[k] /= sum;
  return p;
}

// x 2^e, in two steps that neither overflow nor vanish where the product does not.
function scaled(x, exponent) {
  const half = Math.trunc(exponent / 2);
  return x * 2 ** half * 2 ** (exponent - half);
}

// How many of an increasing array are below x.
function countBelow(array, x) {
  let low = 0;
  let high = array.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (array[middle] < x) low = middle + 1;
    else high = middle;
  }
  return low;
}

const xlogy = (x, y) => (x === 0 ? 0 : x * Math.log(y));
