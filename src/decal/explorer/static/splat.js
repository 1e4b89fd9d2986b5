// Ten thousand translucent discs in a few milliseconds: pixels are summed by hand, then shown at once.

const DEPTH = 0.8; // optical depth of one disc: it hides 1 - exp(-DEPTH) of what is behind it
const FULL = 255; // weight of a pixel that a disc covers wholly
const MOST = 8 * FULL; // weights beyond this look the same

const OPACITY = Float32Array.from({ length: MOST + 1 }, (_, weight) => 1 - Math.exp((-DEPTH * weight) / FULL));

/** Offsets and weights of the pixels of a disc with smooth edges. */
function discPixels(radius, width) {
  const reach = Math.ceil(radius);
  const pixels = [];
  for (let y = -reach; y <= reach; y++)
    for (let x = -reach; x <= reach; x++) {
      const covered = Math.min(Math.max(radius + 0.5 - Math.hypot(x, y), 0), 1);
      if (covered > 0) pixels.push([y * width + x, Math.round(covered * FULL)]);
    }
  return { reach, offsets: Int32Array.from(pixels, ([at]) => at), weights: Uint8Array.from(pixels, ([, w]) => w) };
}

/**
 * Paint layers of points: the first, and over it all others, mixed, so that none hides another where they are many.
 * @param {CanvasRenderingContext2D} pen
 * @param {{colour: string, xs: Float32Array, ys: Float32Array, count: number}[]} layers  in pixels of the canvas
 */
export function splat(pen, [behind, ...layers], radius) {
  const { width, height } = pen.canvas;
  const image = pen.createImageData(width, height);
  const disc = discPixels(radius, width);
  for (const stack of [[behind], layers]) {
    const filled = stack.filter(({ count: points }) => points);
    if (filled.length) lay(image.data, filled.map((layer) => sumsOf(layer, disc, width, height)), filled.map(({ colour }) => rgbOf(colour)));
  }
  pen.putImageData(image, 0, 0);
}

/** How much of each pixel a layer's discs cover, summed up. */
function sumsOf({ xs, ys, count: points }, { reach, offsets, weights }, width, height) {
  const sums = new Uint32Array(width * height);
  for (let p = 0; p < points; p++) {
    const [x, y] = [Math.round(xs[p]), Math.round(ys[p])];
    if (!(x >= reach && y >= reach && x < width - reach && y < height - reach)) continue;
    const at = y * width + x;
    for (let k = 0; k < offsets.length; k++) sums[at + offsets[k]] += weights[k];
  }
  return sums;
}

/** Put layers over what is there, as opaque as their sums say, in the mean of their colours. */
function lay(data, sums, colours) {
  for (let at = 0, byte = 0; byte < data.length; at++, byte += 4) {
    let weight = 0;
    for (let layer = 0; layer < sums.length; layer++) weight += sums[layer][at];
    if (!weight) continue;
    const own = OPACITY[Math.min(weight, MOST)];
    const behind = (data[byte + 3] / 255) * (1 - own);
    const all = own + behind;
    for (let part = 0; part < 3; part++) {
      let colour = 0;
      for (let layer = 0; layer < sums.length; layer++) colour += sums[layer][at] * colours[layer][part];
      data[byte + part] = ((colour / weight) * own + data[byte + part] * behind) / all;
    }
    data[byte + 3] = 255 * all;
  }
}

function rgbOf(colour) {
  return colour.match(/[\d.]+/g).slice(0, 3).map(Number);
}
