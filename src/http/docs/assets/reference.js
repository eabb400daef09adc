// The filter, and requests sent from the page. Whatever comes from outside becomes text, never markup.
import { curlOf, headerBytes, indented, requestOf } from './request.js';

/** More than this of a response is not shown: a browser takes seconds to lay it out. */
const SHOWN_CHARACTERS = 200_000;

const filter = document.getElementById('filter');
const matches = document.getElementById('matches');
const key = document.getElementById('key');
const groups = [...document.querySelectorAll('.group')].map((group) => ({
  group,
  operations: [...group.querySelectorAll('.operation')].map((operation) => ({
    operation,
    text: `${operation.querySelector('summary').textContent} ${group.querySelector('h2').textContent}`
      .replaceAll(/\s+/g, ' ')
      .toLowerCase(),
  })),
}));

document.documentElement.classList.add('scripted');
// Some browsers fill fields again when a page is reloaded.
key.value = '';
filter.value = '';
openLinked();

filter.addEventListener('input', applyFilter);
window.addEventListener('hashchange', openLinked);
document.addEventListener('keydown', (event) => {
  if (event.key !== '/' || event.ctrlKey || event.metaKey || event.altKey) return;
  if (document.activeElement?.matches('input, textarea, select')) return;
  event.preventDefault();
  filter.focus();
});
document.addEventListener('submit', (event) => {
  event.preventDefault();
  void send(event.target);
});
document.addEventListener('click', (event) => {
  const button = event.target.closest('.copy');
  if (button) void copy(button);
});

function applyFilter() {
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  let count = 0;
  for (const { group, operations } of groups) {
    let shown = 0;
    for (const { operation, text } of operations) {
      operation.hidden = !words.every((word) => text.includes(word));
      if (!operation.hidden) shown += 1;
    }
    group.hidden = shown === 0;
    count += shown;
  }
  matches.textContent = words.length === 0 ? '' : `${count} ${count === 1 ? 'operation' : 'operations'}`;
}

/** Opens the operation that the URL names; browsers that know how have done it already. */
function openLinked() {
  const operation = document.querySelector(':target')?.closest('.operation');
  if (!operation) return;
  if (operation.open && !operation.hidden) return;
  filter.value = '';
  applyFilter();
  operation.open = true;
  operation.scrollIntoView();
}

function requestOfForm(form) {
  const { method, path } = form.dataset;
  const fields = [...form.querySelectorAll('[data-in]')].map((input) => ({
    name: input.name,
    place: input.dataset.in,
    required: input.required,
    value: input.value,
  }));
  const contentType = form.elements.namedItem('content-type')?.value;
  return requestOf({ method, path, fields, contentType, body: form.elements.namedItem('body')?.value });
}

async function copy(button) {
  const form = button.closest('form');
  const base = new URL('.', location.href).href;
  const command = curlOf(requestOfForm(form), base, form.dataset.scope !== undefined);
  try {
    await navigator.clipboard.writeText(command);
    say(button, 'Copied');
  } catch {
    // No clipboard without https, except on localhost: show what would have been copied.
    show(form, [element('pre', command)]);
  }
}

function say(button, word) {
  const before = button.textContent;
  button.textContent = word;
  setTimeout(() => {
    button.textContent = before;
  }, 1_500);
}

async function send(form) {
  const request = requestOfForm(form);
  if (request.missing.length > 0)
    return show(form, [element('p', `Missing: ${request.missing.join(', ')}.`)]);
  const headers = request.headers.map(([name, value]) => [name, headerBytes(value)]);
  if (key.value) headers.push(['Authorization', `Bearer ${headerBytes(key.value.trim())}`]);
  const stop = new AbortController();
  show(form, [stopButton(stop)]);
  const startedAt = performance.now();
  try {
    const response = await fetch(request.url, {
      method: request.method,
      headers,
      body: request.body,
      cache: 'no-store',
      redirect: 'error',
      signal: stop.signal,
    });
    const text = await response.text();
    show(form, shown(request, response, text, performance.now() - startedAt));
  } catch (error) {
    show(form, [
      element('p', stop.signal.aborted ? 'Stopped.' : `Not sent, or no response: ${error.message}`),
    ]);
  }
}

function stopButton(stop) {
  const button = element('button', 'Stop');
  button.type = 'button';
  button.addEventListener('click', () => stop.abort());
  return button;
}

function shown(request, response, text, milliseconds) {
  const status = element('p', `${response.status} ${response.statusText} · ${Math.round(milliseconds)} ms`);
  status.className = 'status';
  const url = element('p', `${request.method} ${response.url}`);
  url.className = 'sent';
  const lines = [...response.headers].map(([name, value]) => `${name}: ${value}`).join('\n');
  const headers = element('details');
  headers.append(element('summary', 'Headers'), element('pre', lines));
  const isJson = /[/+]json\b/.test(response.headers.get('content-type') ?? '');
  const short = text.slice(0, SHOWN_CHARACTERS);
  const body = element('pre', isJson && short === text ? indented(text) : short);
  const cut =
    short === text ? [] : [element('p', `The first ${SHOWN_CHARACTERS} of ${text.length} characters.`)];
  return [status, url, headers, ...(text === '' ? [] : [body]), ...cut];
}

function show(form, children) {
  form.querySelector('.result').replaceChildren(...children);
}

function element(name, text = '') {
  const made = document.createElement(name);
  made.textContent = text;
  return made;
}
