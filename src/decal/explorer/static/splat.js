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
 * Paint layers of points, each over the one before.
 * @param {CanvasRenderingContext2D} pen
 * @param {{colour: string, xs: Float32Array, ys: Float32Array, count: number}[]} layers  in pixels of the canvas
 */
export function splat(pen, layers, radius) {
  const { width, height } = pen.canvas;
  const image = pen.createImageData(width, height);
  const sums = new Uint32Array(width * height);
  const { reach, offsets, weights } = discPixels(radius, width);
  for (const { colour, xs, ys, count: points } of layers) {
    if (!points) continue;
    sums.fill(0);
    for (let p = 0; p < points; p++) {
      const [x, y] = [Math.round(xs[p]), Math.round(ys[p])];
      if (!(x >= reach && y >= reach && x < width - reach && y < height - reach)) continue;
      const at = y * width + x;
      for (let k = 0; k < offsets.length; k++) sums[at + offsets[k]] += weights[k];
    }
    lay(image.data, sums, rgbOf(colour));
  }
  pen.putImageData(image, 0, 0);
}

/** Put a layer's colour over what is there, as opaque as its sums say. */
function lay(data, sums, [red, green, blue]) {
  for (let at = 0, byte = 0; at < sums.length; at++, byte += 4) {
    if (!sums[at]) continue;
    const own = OPACITY[Math.min(sums[at], MOST)];
    const behind = (data[byte + 3] / 255) * (1 - own);
    const all = own + behind;
    data[byte] = (red * own + data[byte] * behind) / all;
    data[byte + 1] = (green * own + data[byte + 1] * behind) / all;
    data[byte + 2] = (blue * own + data[byte + 2] * behind) / all;
    data[byte + 3] = 255 * all;
  }
}

function rgbOf(colour) {
  return colour.match(/[\d.]+/g).slice(0, 3).map(Number);
}
