// What table and grid share: of their items only those in sight exist, and one of them is chosen.

/** The items that a list has drawn. `show` scrolls to a place of the order and draws. */
export function createItems(scroller, store, show, onOpen) {
  const items = new Map(); // those drawn, by their place in the order

  /** Items that went out of sight, to be used again. Focus never goes with them. */
  function release(first, last) {
    const gone = [...items.values()].filter(({ at }) => at < first || at >= last);
    if (gone.some(({ element }) => element === document.activeElement)) scroller.focus({ preventScroll: true });
    for (const { at } of gone) items.delete(at);
    return gone;
  }

  function choose(order, at, { open = false, focus = false } = {}) {
    if (!order.length) return;
    const place = Math.min(Math.max(at, 0), order.length - 1);
    store.set({ input: order[place] });
    show(place);
    const element = focus ? items.get(place)?.element : null;
    element?.focus({ preventScroll: true });
    element?.scrollIntoView({ block: "nearest", inline: "nearest" });
    if (open) onOpen();
  }

  const holding = (target) => [...items.values()].find(({ element }) => element === target);
  return { get: (at) => items.get(at), set: (at, item) => items.set(at, item), release, choose, holding };
}
