import type { ProblemName } from '../problems.ts';
import { PROBLEM_MEDIA_TYPE, PROBLEMS } from '../problems.ts';
import type { ApiResponse, Content, Endpoint, Operation, Parameter } from './api-document.ts';
import { exampleOf } from './example.ts';
import { Html, html, prose } from './html.ts';
import type { SchemaView } from './schema-view.ts';
import type { Schemas } from './schemas.ts';

/** One operation: a line that expands to its parameters and responses, with a form that sends a request. */
export class OperationView {
  constructor(
    private readonly schemas: Schemas,
    private readonly schemaView: SchemaView,
  ) {}

  /** The id is inside, so that browsers open the line themselves when a link names it. */
  render({ method, path, operation }: Endpoint): Html {
    const { operationId, summary = '', description, 'x-scope': scope } = operation;
    return html`<details class="operation">
<summary><span class="method${method === 'GET' ? '' : ' writes'}">${method}</span> <code class="path">${breakable(path)}</code> <span class="about">${prose(summary)}</span>${scope && html` <span class="scope">${scope}</span>`}</summary>
<div class="body" id="${operationId}">
<div class="description">
${description && html`<p>${prose(description)}</p>`}
${scope && html`<p>Needs an api key with the scope <code>${scope}</code>.</p>`}
${this.parameters(operation.parameters ?? [])}
${this.requestBody(operation)}
${this.responses(operation.responses)}
<p class="link"><a href="#${operationId}">Link to this operation</a></p>
</div>
${this.form({ method, path, operation })}
</div>
</details>
`;
  }

  private parameters(parameters: readonly Parameter[]): Html {
    if (parameters.length === 0) return html``;
    const fields = parameters.map(({ name, in: place, required = false, description, schema = {} }) =>
      this.schemaView.field({ name, place, required, description }, schema),
    );
    return html`<h4>Parameters</h4>
<ul class="fields">${fields}</ul>`;
  }

  private requestBody({ requestBody }: Operation): Html {
    if (!requestBody) return html``;
    return html`<h4>Body${requestBody.required === false ? ' (optional)' : ''}</h4>
${this.content(requestBody.content)}`;
  }

  /** Media types that share a schema are shown with it once. */
  private content(content: Content): Html {
    const bySchema = new Map<string, { names: string[]; view: Html | undefined }>();
    for (const [name, { schema }] of Object.entries(content)) {
      const key = JSON.stringify(schema);
      const shown = bySchema.get(key) ?? { names: [], view: schema && this.schemaView.body(schema) };
      bySchema.set(key, { ...shown, names: [...shown.names, name] });
    }
    return html`${[...bySchema.values()].map(
      ({ names, view }) => html`<p class="media">${names.map((name) => html`<code>${name}</code> `)}</p>
${view}`,
    )}`;
  }

  private responses(responses: Operation['responses']): Html {
    const shown = Object.entries(responses).map(
      ([status, response]) => html`<dt><code>${status}</code></dt>
<dd>${prose(response.description || defaultDescription(status))}${this.response(status, response)}</dd>
`,
    );
    return html`<h4>Responses</h4>
<dl class="responses">${shown}</dl>`;
  }

  private response(status: string, { description, content = {}, headers = {} }: ApiResponse): Html {
    const { [PROBLEM_MEDIA_TYPE]: problem, ...others } = content;
    const fields = Object.entries(headers).map(([name, { description, schema = {} }]) =>
      this.schemaView.field({ name, place: 'header', required: false, description }, schema),
    );
    return html`${problem && problemLinks(status, description)}${this.content(others)}${
      fields.length > 0 ? html`<ul class="fields">${fields}</ul>` : ''
    }`;
  }

  private form({ method, path, operation }: Endpoint): Html {
    const { parameters = [], requestBody, 'x-scope': scope } = operation;
    return html`<form class="try" data-method="${method}" data-path="${path}"${scope && html` data-scope="${scope}"`}>
<h4>Request</h4>
${parameters.map((parameter) => this.input(parameter))}${requestBody && this.bodyInput(requestBody.content)}
<p class="actions"><button type="submit">Send</button> <button type="button" class="copy">Copy as curl</button></p>
<div class="result" role="status"></div>
</form>`;
  }

  private input({ name, in: place, required, schema = {} }: Parameter): Html {
    const { schema: resolved } = this.schemas.resolve(schema);
    const choices = resolved.enum ?? (resolved.type === 'boolean' ? [true, false] : undefined);
    const attributes = html`name="${name}" data-in="${place}"${required ? html` required` : ''}`;
    const control = choices
      ? html`<select ${attributes}><option value=""></option>${choices.map((choice) => html`<option>${String(choice)}</option>`)}</select>`
      : html`<input ${attributes} value="${required && resolved.example !== undefined ? String(resolved.example) : ''}" autocomplete="off" spellcheck="false">`;
    return html`<label><span>${name}</span>${control}</label>
`;
  }

  private bodyInput(content: Content): Html {
    const types = Object.keys(content);
    const { schema = {}, example = exampleOf(this.schemas, schema) } = content[types[0] ?? ''] ?? {};
    const text = JSON.stringify(example, null, 2);
    const rows = Math.min(24, text.split('\n').length);
    return html`<label${types.length === 1 ? html` hidden` : ''}><span>content type</span><select name="content-type">${types.map((type) => html`<option>${type}</option>`)}</select></label>
<label class="wide"><span>body</span><textarea name="body" rows="${rows}" spellcheck="false">
${text}</textarea></label>
`;
  }
}

/** A path may break after each slash, in a narrow window. */
function breakable(path: string): Html {
  return html`${path.split(/(?<=\/)/).map((part, index) => (index > 1 ? html`<wbr>${part}` : part))}`;
}

function defaultDescription(status: string): string {
  return status === '204' ? 'Done; no content.' : 'Done.';
}

/** The problems that the description names, or else all of this status. */
function problemLinks(status: string, description: string): Html {
  const possible = (Object.keys(PROBLEMS) as ProblemName[]).filter(
    (name) => String(PROBLEMS[name].status) === status,
  );
  const named = possible.filter((name) => description.includes(`\`${name}\``));
  const links = (named.length > 0 ? named : possible).map(
    (name) => html` <a href="#problem-${name}">${name}</a>`,
  );
  return html` <span class="problems">${links.length > 0 ? links : html`<a href="#problems">problems</a>`}</span>`;
}
