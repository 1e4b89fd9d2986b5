// Bytes -> the numbers to draw. Everything is checked here; nothing is checked later.

const MAGIC = [0x64, 0x65, 0x63, 0x61, 0x6c, 0, 0, 1]; // "decal", 0, 0, version 1
const ARRAY_TYPES = { float32: Float32Array, int32: Int32Array, uint32: Uint32Array, uint16: Uint16Array, uint8: Uint8Array };
const NO_SHARE = 65535; // marks what is not a number, among shares of 65534

/**
 * @typedef {object} Model One model's results. Arrays by level are flat: entry (level * count + i).
 * @property {string} name
 * @property {string[]} classes
 * @property {[string, string][]} settings
 * @property {[string, string][]} summary
 * @property {{efficiency: number[], coverage: ?number[], size: number[], missed: ?number[]}} curve
 * @property {Float32Array} lower  (A, n, s) ends of the intervals
 * @property {Float32Array} upper  (A, n, s)
 * @property {?Float32Array} point (n, s) the prediction that the sets are around
 * @property {?Int32Array} predicted (n,) its most probable class; least and most (A, n) are its bounds
 * @property {?Float32Array} says (n, s) what the classifier itself says: its class `said` (n,), of which it is `sure` (n,)
 * @property {?Uint8Array} asked (A, n) bit b: whether a person sees the input if share b of all is handed over
 * @property {Float32Array} aleatoric (A, n), likewise epistemic and total
 * @property {Object<string, Int32Array>} size  (A, n) by set rule
 * @property {Object<string, Uint32Array>} kept (A, n) by set rule: bit b is slot b
 * @property {Object<string, Int32Array>} takes (A, n) by rule that takes one class
 * @property {boolean} ordered  whether the order of the classes means something
 * @property {?string[]} nodes  of a tree of classes; `node` (A, n) is the last one that is sure
 * @property {?Uint8Array} covered (A, n)
 * @property {?Uint8Array} hit (A, n)
 */

/**
 * @typedef {object} Payload
 * @property {string} title
 * @property {(number|null)[]} alphas  falling
 * @property {number} start  the level shown first
 * @property {number} first  the input shown first
 * @property {?number} own  the model's own level
 * @property {?{brief: string, text: string}} promise  what holds there
 * @property {string} view  what is drawn of an input
 * @property {number[]} shares  of all inputs, to hand over
 * @property {number} count  inputs shown, n
 * @property {number} total  inputs there were
 * @property {number} slots  classes stored per input, m
 * @property {boolean} rest  whether one more slot holds all other classes
 * @property {number} width  m, or m + 1 with the rest: s
 * @property {Int32Array} rows
 * @property {Int32Array} alike (n,) the first input with the same answer
 * @property {Int32Array} look (n,) all inputs, first those worth a look
 * @property {Int32Array} slotClass (n, m)
 * @property {?Int32Array} labels
 * @property {?Float32Array} truth (n, s)
 * @property {?Float32Array} before (n, s) what was predicted before adapting to other frequencies
 * @property {?object} frequencies  before and now, with intervals and p-values
 * @property {{key: string, title: string, kind: "set"|"one", meaning: string}[]} rules
 * @property {Model[]} models
 */

/** gzip -> bytes. @param {Uint8Array} bytes @returns {Promise<Uint8Array>} */
export async function inflate(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

class PayloadError extends Error {}

export function need(condition, message) {
  if (!condition) throw new PayloadError(message);
}

export function readHeader(bytes) {
  need(bytes.length >= 12, "The data are missing or cut off.");
  need(MAGIC.every((byte, at) => bytes[at] === byte), "These are not decal results, or another version wrote them.");
  const length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(8, true);
  need(12 + length <= bytes.length, "The data are cut off within their description.");
  try {
    return [JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes.subarray(12, 12 + length))), 12 + length];
  } catch {
    throw new PayloadError("The description of the data cannot be read.");
  }
}

/** A function that finds an array by name and insists on its shape. */
export function arrayReader(bytes, index, base) {
  const body = bytes.slice(base); // a copy starts at offset 0 of its buffer, so every array is aligned
  return (name, shape, { optional = false } = {}) => {
    const entry = Object.hasOwn(index, name) ? index[name] : null;
    if (!entry && optional) return null;
    need(entry, `The array "${name}" is missing.`);
    const Type = ARRAY_TYPES[entry.dtype];
    need(Type, `The array "${name}" has the unknown type "${entry.dtype}".`);
    need(String(entry.shape) === String(shape), `The array "${name}" has shape ${entry.shape}, not ${shape}.`);
    const size = shape.reduce((a, b) => a * b, 1);
    const end = entry.offset + size * Type.BYTES_PER_ELEMENT;
    need(entry.offset % 8 === 0 && end <= body.length, `The array "${name}" is cut off.`);
    const stored = new Type(body.buffer, entry.offset, size);
    return entry.dtype === "uint16" ? asShares(stored) : stored;
  };
}

/** Probabilities of very many inputs are stored as whole numbers of 65534ths. */
function asShares(stored) {
  const shares = new Float32Array(stored.length);
  for (let at = 0; at < stored.length; at++) shares[at] = stored[at] === NO_SHARE ? NaN : stored[at] / 65534;
  return shares;
}

function readModel(header, i, read, { n, s, levels, setRules, oneRules }) {
  const { name, classes, settings = [], summary = [], curve } = header.models[i];
  need(Array.isArray(classes) && curve?.efficiency?.length === levels && curve.single, `Model ${i + 1} is described incompletely.`);
  const byRule = (kind, rules) =>
    Object.fromEntries(rules.map((rule) => [rule.key, read(`${i}/${kind}/${rule.key}`, [levels, n])]));
  const byLevel = (kind, optional) => read(`${i}/${kind}`, [levels, n], { optional });
  return {
    name: String(name),
    classes: classes.map(String),
    settings,
    summary,
    curve,
    groups: header.models[i].groups ?? [],
    reliability: header.models[i].reliability ?? null,
    lower: read(`${i}/lower`, [levels, n, s]),
    upper: read(`${i}/upper`, [levels, n, s]),
    costs: header.models[i].costs ?? null,
    ordered: Boolean(header.models[i].ordered),
    nodes: header.models[i].nodes ?? null,
    node: byLevel("node", true),
    point: read(`${i}/point`, [n, s], { optional: true }),
    says: read(`${i}/says`, [n, s], { optional: true }),
    ...Object.fromEntries(["predicted", "said", "sure"].map((name) => [name, read(`${i}/${name}`, [n], { optional: true })])),
    ...Object.fromEntries(["least", "most", "asked"].map((name) => [name, byLevel(name, true)])),
    aleatoric: byLevel("aleatoric"),
    epistemic: byLevel("epistemic"),
    total: byLevel("total"),
    size: byRule("size", setRules),
    kept: byRule("kept", setRules),
    takes: takesOf(read, i, oneRules, levels, n),
    covered: byLevel("covered", true),
    hit: byLevel("hit", true),
  };
}

/** One model may have a point prediction and the other not: rules it lacks are left out. */
function takesOf(read, i, rules, levels, n) {
  const found = rules.map((rule) => [rule.key, read(`${i}/takes/${rule.key}`, [levels, n], { optional: true })]);
  return Object.fromEntries(found.filter(([, array]) => array));
}

/** @param {Uint8Array} bytes @returns {Payload} */
export function decode(bytes) {
  const [header, base] = readHeader(bytes);
  const { alphas, inputs, slots, rules, models } = header;
  need(Array.isArray(alphas) && alphas.length > 0, "The data hold no level.");
  need(inputs && Number.isInteger(inputs.count) && inputs.count > 0, "The data hold no input.");
  need(Array.isArray(models) && [1, 2].includes(models.length), "The data must hold one or two models.");
  need(Array.isArray(rules) && rules.some((rule) => rule.kind === "set"), "The data hold no decision rule.");
  const n = inputs.count;
  const s = slots + (header.rest ? 1 : 0);
  const read = arrayReader(bytes, header.arrays ?? {}, base);
  const setRules = rules.filter((rule) => rule.kind === "set");
  const oneRules = rules.filter((rule) => rule.kind === "one");
  const shape = { n, s, levels: alphas.length, setRules, oneRules };
  for (const kind of ["names", "texts"])
    need(!inputs[kind] || inputs[kind].length === n, `There must be as many ${kind} as inputs.`);
  return {
    title: String(header.title),
    alphas,
    start: Math.min(Math.max(header.start | 0, 0), alphas.length - 1),
    first: Math.min(Math.max(header.first | 0, 0), n - 1),
    promise: header.promise ?? null,
    view: String(header.view),
    shares: header.shares ?? [],
    own: Number.isInteger(header.own) && header.own < alphas.length ? header.own : null,
    count: n,
    total: inputs.total,
    names: inputs.names && inputs.names.map(String),
    texts: inputs.texts && inputs.texts.map(String),
    groups: (inputs.groups ?? []).map(({ name, values }, at) => ({
      name: String(name),
      values: values.map(String),
      codes: read(`group/${at}`, [n]),
    })),
    grouped: (header.grouped ?? []).map(({ name, values }) => ({ name: String(name), values: values.map(String) })),
    pictures: readPictures(inputs.images, header.arrays ?? {}, read, n),
    slots,
    rest: Boolean(header.rest),
    width: s,
    rules,
    setRules,
    rows: read("rows", [n]),
    alike: read("alike", [n]),
    look: read("look", [n]),
    slotClass: read("slots", [n, slots]),
    labels: read("labels", [n], { optional: true }),
    truth: read("truth", [n, s], { optional: true }),
    before: read("before", [n, s], { optional: !header.frequencies }),
    frequencies: readFrequencies(header.frequencies, models[0].classes),
    models: models.map((_, i) => readModel(header, i, read, shape)),
  };
}

/** Class frequencies of a label shift; null where none were observed. */
function readFrequencies(found, classes) {
  if (!found) return null;
  for (const name of ["before", "estimate", "lower", "upper", "p_values", "order"])
    need(found[name]?.length === classes?.length, "The frequencies are described incompletely.");
  return found;
}

/** Thumbnails on sheets: files of a known kind, their cells, and the size of each picture; null without any. */
function readPictures(images, index, read, n) {
  if (!images) return null;
  const { kind, cells, columns, per } = images;
  need(["image/webp", "image/png"].includes(kind) && Array.isArray(cells), "The pictures are described incompletely.");
  need(columns > 0 && per > 0 && cells.length * per >= n, "There must be as many pictures as inputs.");
  const files = cells.map((_, at) => read(`sheet/${at}`, index[`sheet/${at}`]?.shape ?? []));
  return { kind, cells, columns, per, files, sizes: read("picture_sizes", [n, 2]) };
}
