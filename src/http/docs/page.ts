import { PROBLEM_MEDIA_TYPE, PROBLEMS } from '../problems.ts';
import { type ApiDocument, groupsOf } from './api-document.ts';
import { type Html, html, prose } from './html.ts';
import { OperationView } from './operation-view.ts';
import { SchemaView } from './schema-view.ts';
import { Schemas } from './schemas.ts';

/**
 * The API reference as one page. It needs no script to be read; scripts add the filter and the sending of requests. Every
 * URL in it is relative, because a proxy may serve it below a prefix. `assets`: the folder of styles and scripts.
 */
export function referencePage(document: ApiDocument, assets: string): string {
  const { info } = document;
  const page = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${info.title} API</title>
<link rel="icon" href="${assets}/icon.svg">
<link rel="stylesheet" href="${assets}/reference.css">
<link rel="stylesheet" href="${assets}/operation.css">
<script type="module" src="${assets}/reference.js"></script>
</head>
<body>
<a class="skip" href="#operations">Skip to the operations</a>
<header>
<h1>${info.title} <span class="version">${info.version}</span></h1>
<div class="tools">
<label class="filter"><span>Filter</span><input type="search" id="filter" placeholder="method, path or words" autocomplete="off" spellcheck="false"></label>
<label class="key"><span>Api key</span><input type="password" id="key" placeholder="sk_…" autocomplete="off" title="Kept in this page's memory only; gone when you leave it"></label>
</div>
</header>
${contents(document)}
</body>
</html>
`;
  return page.text;
}

function contents(document: ApiDocument): Html {
  const groups = groupsOf(document);
  const schemas = new Schemas(document.components?.schemas ?? {});
  const schemaView = new SchemaView(schemas);
  const view = new OperationView(schemas, schemaView);
  return html`<div class="columns">
<nav aria-label="Contents">
<ul>
${groups.map(({ tag, endpoints }) => html`<li><a href="#${anchor(tag)}">${tag}</a> <span>${endpoints.length}</span></li>\n`)}
<li><a href="#problems">problems</a> <span>${Object.keys(PROBLEMS).length}</span></li>
<li><a href="openapi.json">openapi.json</a></li>
</ul>
</nav>
<main id="operations">
<p class="intro">${prose(document.info.description ?? '')}</p>
<p id="matches" role="status"></p>
${groups.map(
  ({ tag, description, endpoints }) => html`<section class="group" aria-labelledby="${anchor(tag)}">
<h2 id="${anchor(tag)}">${tag}</h2>
${description && html`<p class="intro">${prose(description)}</p>`}
<div class="operations">
${endpoints.map((endpoint) => view.render(endpoint))}</div>
</section>
`,
)}
${problems(schemaView, document)}
</main>
</div>`;
}

function anchor(tag: string): string {
  return `tag-${tag.replaceAll(/\W+/g, '-')}`;
}

function problems(schemaView: SchemaView, { components }: ApiDocument): Html {
  const rows = Object.entries(PROBLEMS).map(
    ([name, { status, title }]) =>
      html`<tr id="problem-${name}"><td>${status}</td><td><code>${name}</code></td><td>${title}</td></tr>\n`,
  );
  const schema = components?.schemas?.Problem;
  return html`<section aria-labelledby="problems">
<h2 id="problems">problems</h2>
<p>Every error is <code>${PROBLEM_MEDIA_TYPE}</code> (RFC 9457). Its <code>type</code> is <code>urn:sluice:problems/</code> and a name of this table; decide by it.</p>
<table>
<thead><tr><th scope="col">status</th><th scope="col">name</th><th scope="col">title</th></tr></thead>
<tbody>
${rows}</tbody>
</table>
${schema && html`<details class="shape"><summary>Its fields</summary>${schemaView.body(schema)}</details>`}
</section>`;
}
