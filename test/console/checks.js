// The problems of a page, as texts.
(() => {
  const problems = [];
  const shown = (e) => e.checkVisibility({ visibilityProperty: true }) && !e.closest(".visually-hidden");
  const say = (e) => `<${e.tagName.toLowerCase()}${e.id ? " id=" + e.id : ""}> "${e.textContent.trim().slice(0, 40)}"`;

  if (!document.documentElement.lang) problems.push("the page has no language");
  if (!document.title) problems.push("the page has no title");
  if (document.querySelectorAll("main").length !== 1) problems.push("the page has no <main>, or several");
  const headings = [...document.querySelectorAll("h1, h2, h3, h4, h5, h6")].filter(shown).map((e) => Number(e.tagName[1]));
  if (headings.filter((level) => level === 1).length !== 1) problems.push(`the page has headings ${headings}, want one h1`);
  headings.forEach((level, i) => { if (i > 0 && level > headings[i - 1] + 1) problems.push(`headings ${headings} leave out a level`); });
  const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
  for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) problems.push(`two elements have the ID ${id}`);

  for (const e of document.querySelectorAll("a[href], button, input:not([type=hidden]), select, summary")) {
    if (!shown(e)) continue;
    const box = e.getBoundingClientRect();
    const inText = e.tagName === "A" && getComputedStyle(e).display === "inline";
    if (!inText && (box.width < 24 || box.height < 24)) problems.push(`${say(e)} is ${Math.round(box.width)} by ${Math.round(box.height)} pixels, want at least 24 by 24`);
    if (e.tabIndex < 0) problems.push(`${say(e)} is not reached by Tab`);
  }

  // Contrast, by the definition of WCAG 2.2: 4.5, and 3 for large text.
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = ([r, g, b, a], below) => [r, g, b].map((v, i) => v * a + below[i] * (1 - a));
  const background = (e) => {
    if (!e) return rgba(matchMedia("(prefers-color-scheme: dark)").matches ? "#121212" : "white").slice(0, 3);
    return over(rgba(getComputedStyle(e).backgroundColor), background(e.parentElement));
  };
  const luminance = (color) => {
    const [r, g, b] = color.map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  for (const e of document.querySelectorAll("body *")) {
    const own = [...e.childNodes].some((n) => n.nodeType === Node.TEXT_NODE && n.textContent.trim());
    if (!own || !shown(e)) continue;
    const style = getComputedStyle(e), below = background(e);
    const [one, other] = [luminance(over(rgba(style.color), below)), luminance(below)].sort((a, b) => b - a);
    const contrast = (one + 0.05) / (other + 0.05);
    const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (contrast < (large ? 3 : 4.5)) problems.push(`${say(e)} has a contrast of ${contrast.toFixed(2)}`);
  }
  return problems;
})()
