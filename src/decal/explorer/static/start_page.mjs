{
  const unpacked = (text) => {
    if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text); // since 2025
    const packed = atob(text);
    const zipped = new Uint8Array(packed.length);
    for (let i = 0; i < packed.length; i += 1) zipped[i] = packed.charCodeAt(i);
    return zipped;
  };
  const text = document.getElementById("payload").textContent.trim();
  let bytes = new Uint8Array(); // which mount() reports, as it does any broken payload
  try {
    bytes = await inflate(unpacked(text));
  } catch (error) {
    console.warn("decal: the data of this page cannot be read", error);
  }
  mount(document.getElementById("decal"), bytes, { address: true });
}
