// Builds the console into dist/console: index.html, and hashed files in assets/. Fails above the size budget.
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';
import { root } from './ready.mjs';

const SOURCES = join(root, 'console');
const TARGET = join(root, 'dist/console');
/** Compressed with gzip; JavaScript counts as far as the first view loads it. */
const BUDGET = { js: 40 * 1024, css: 6 * 1024 };

rmSync(TARGET, { recursive: true, force: true });
mkdirSync(join(TARGET, 'assets'), { recursive: true });

const { metafile, outputFiles } = await build({
  absWorkingDir: root,
  entryPoints: {
    main: join(SOURCES, 'src/main.tsx'),
    style: join(SOURCES, 'style/style.css'),
    icon: join(SOURCES, 'icon.svg'),
  },
  outdir: TARGET,
  entryNames: '[name]-[hash]',
  chunkNames: '[name]-[hash]',
  assetNames: '[name]-[hash]',
  bundle: true,
  splitting: true,
  format: 'esm',
  target: ['es2023', 'chrome123', 'firefox125', 'safari17.5'],
  jsx: 'automatic',
  jsxImportSource: 'preact',
  loader: { '.md': 'text', '.svg': 'copy' },
  minify: true,
  legalComments: 'none',
  metafile: true,
  write: false,
  logLevel: 'warning',
});

const files = new Map(outputFiles.map(({ path, contents }) => [basename(path), contents]));
const entry = (extension) =>
  [...files.keys()].find((name) => new RegExp(`^(main|style|icon)-.*${extension}$`).test(name));
const preloaded = staticImportsOf(entry('js'));
const page = readFileSync(join(SOURCES, 'index.html'), 'utf8')
  .replace('{{icon}}', entry('svg'))
  .replace('{{css}}', entry('css'))
  .replace('{{js}}', entry('js'))
  .replace(
    '{{preloads}}',
    preloaded.map((name) => `<link rel="modulepreload" href="./assets/${name}" />`).join('\n    '),
  );

for (const [name, contents] of files) {
  writeFileSync(join(TARGET, 'assets', name), contents);
}
writeFileSync(join(TARGET, 'index.html'), page);
checkBudget();

/** What the browser loads before the first view, besides the entry itself. */
function staticImportsOf(name) {
  const outputs = new Map(Object.entries(metafile.outputs).map(([path, output]) => [basename(path), output]));
  const seen = new Set();
  const visit = (file) => {
    for (const { path, kind } of outputs.get(file)?.imports ?? []) {
      const imported = basename(path);
      if (kind !== 'import-statement' || seen.has(imported)) continue;
      seen.add(imported);
      visit(imported);
    }
  };
  visit(name);
  return [...seen];
}

function checkBudget() {
  const gz = (names) => names.reduce((sum, name) => sum + gzipSync(files.get(name), { level: 9 }).length, 0);
  const scripts = [...files.keys()].filter((name) => name.endsWith('.js'));
  const first = gz([entry('js'), ...preloaded]);
  const css = gz([entry('css')]);
  const kb = (size) => `${(size / 1024).toFixed(1)} KB`;
  console.log(
    `console: first view ${kb(first)} gz of JavaScript (all ${kb(gz(scripts))}), ${kb(css)} gz of CSS`,
  );
  if (first > BUDGET.js || css > BUDGET.css) {
    console.error(`console: above its budget of ${kb(BUDGET.js)} of JavaScript and ${kb(BUDGET.css)} of CSS`);
    process.exit(1);
  }
}
