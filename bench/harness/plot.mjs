const BARS_WIDTH = 330;
const VALUE_WIDTH = 90;
const BAR = 22;
const GAP = 10;
const TOP = 46;
/** The width of the wider letters of the font below; an SVG cannot measure text. */
const LETTER = 7.4;

/** Horizontal bars, ours darker; plain SVG that is readable on a white and on a dark page. */
export function barPlot({ title, unit, bars }) {
  const left = Math.round(26 + LETTER * Math.max(16, ...bars.map(({ label }) => label.length)));
  const width = left + BARS_WIDTH + VALUE_WIDTH;
  const height = TOP + bars.length * (BAR + GAP) + 16;
  const most = Math.max(...bars.map(({ value }) => value));
  const scale = BARS_WIDTH / most;
  const drawn = bars.map(({ label, value, ours }, index) => {
    const y = TOP + index * (BAR + GAP);
    const length = Math.max(1, value * scale);
    return [
      `<text x="${left - 10}" y="${y + 15}" text-anchor="end" style="font-weight:${ours ? 700 : 400}">${escaped(label)}</text>`,
      `<rect x="${left}" y="${y}" width="${length.toFixed(1)}" height="${BAR}" rx="3" fill="${ours ? '#1f6feb' : '#b6c2cf'}"/>`,
      `<text x="${(left + length + 8).toFixed(1)}" y="${y + 15}">${formatted(value)}</text>`,
    ].join('\n  ');
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="${escaped(title)}">
  <style>text { font: 13px system-ui, sans-serif; fill: #24292f }</style>
  <rect width="${width}" height="${height}" rx="6" fill="#ffffff"/>
  <text x="16" y="26" style="font-size:15px;font-weight:600">${escaped(title)}</text>
  <text x="${width - 16}" y="26" text-anchor="end" style="fill:#57606a">${escaped(unit)}</text>
  ${drawn.join('\n  ')}
</svg>
`;
}

function formatted(value) {
  return value >= 100 ? Math.round(value).toLocaleString('en-US') : value.toPrecision(3);
}

function escaped(text) {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');
}
