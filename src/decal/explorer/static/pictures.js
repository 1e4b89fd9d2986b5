// Thumbnails, cut out of the sheets that hold them.

import { h } from "./dom.js";

/** A function (canvas, i) that draws the picture of input i, one for all parts of a page; null where there are no pictures. */
export function createPictures({ pictures }) {
  return pictures && (pictures.draw ??= createDrawing(pictures));
}

function createDrawing({ kind, cells, columns, per, files, sizes }) {
  const opened = files.map(() => null);

  function open(sheet) {
    const image = new Image();
    const address = URL.createObjectURL(new Blob([files[sheet]], { type: kind }));
    image.src = address;
    return image.decode().then(() => image).finally(() => URL.revokeObjectURL(address));
  }

  return async (canvas, i) => {
    const [sheet, at] = [Math.floor(i / per), i % per];
    const [width, height] = sizes.subarray(2 * i, 2 * i + 2);
    canvas.dataset.input = i;
    const image = await (opened[sheet] ??= open(sheet));
    if (Number(canvas.dataset.input) !== i) return; // another picture was asked for meanwhile
    Object.assign(canvas, { width, height });
    const [x, y] = [(at % columns) * cells[sheet][0], Math.floor(at / columns) * cells[sheet][1]];
    canvas.getContext("2d").drawImage(image, x, y, width, height, 0, 0, width, height);
    canvas.classList.toggle("tiny", width <= 64);
  };
}

/** A canvas for a picture; without a name it is decoration. */
export function pictureCanvas(name, testid) {
  const about = name ? { role: "img", "aria-label": name } : { "aria-hidden": "true" };
  return h("canvas", { class: "picture", width: 1, height: 1, "data-testid": testid, ...about });
}
