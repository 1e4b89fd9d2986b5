// For pages with the story in a frame, <iframe class="decal-story">: it is as high as its content, and wears this page's theme.

{
  const frames = () => [...document.querySelectorAll("iframe.decal-story")];
  const tell = (frame, more) => frame.contentWindow?.postMessage({ decalTheme: document.body.dataset.theme ?? "auto", ...more }, "*");
  const themes = new MutationObserver(() => frames().forEach((frame) => tell(frame)));
  addEventListener("message", ({ source, data }) => {
    const frame = frames().find(({ contentWindow }) => contentWindow === source);
    if (!frame || !(data?.decalHeight > 0)) return;
    frame.style.height = `${data.decalHeight}px`;
    tell(frame);
    themes.observe(document.body, { attributeFilter: ["data-theme"] });
  });
  // A story that was there before this script has told its height to nobody.
  frames().forEach((frame) => tell(frame, { askHeight: true }));
}
