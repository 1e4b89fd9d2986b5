export default {
  async render({ model, el }) {
    const view = model.get("payload");
    let bytes = new Uint8Array();
    try {
      bytes = await inflate(new Uint8Array(view.buffer, view.byteOffset, view.byteLength));
    } catch (error) {
      console.warn("decal: the data of this widget cannot be read", error);
    }
    const mounted = mount(el, bytes, { address: false });
    // Plain keys are the explorer's: "d", "d" on one of its rows would delete the notebook's cell.
    const keep = (event) => {
      const command = event.ctrlKey || event.metaKey || event.altKey;
      if (!command && !(event.shiftKey && event.key === "Enter")) event.stopPropagation();
    };
    el.addEventListener("keydown", keep);
    return () => {
      el.removeEventListener("keydown", keep);
      mounted.destroy();
    };
  },
};
