import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import ts from 'typescript';
import { parseAllDocuments } from 'yaml';

const ROOT = resolve(import.meta.dirname, '../..');
export const FOLDER = join(ROOT, 'deploy/kubernetes');

export interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly labels?: Record<string, string> };
  // biome-ignore lint/suspicious/noExplicitAny: its type depends on the kind, and is checked by the compiler
  readonly spec?: any;
  readonly data?: Record<string, string>;
}

/** The module with the types of each kind. */
const MODULES: Record<string, string> = {
  ConfigMap: 'kubernetes-models/v1/ConfigMap',
  Deployment: 'kubernetes-models/apps/v1/Deployment',
  HorizontalPodAutoscaler: 'kubernetes-models/autoscaling/v2/HorizontalPodAutoscaler',
  Job: 'kubernetes-models/batch/v1/Job',
  NetworkPolicy: 'kubernetes-models/networking.k8s.io/v1/NetworkPolicy',
  PodDisruptionBudget: 'kubernetes-models/policy/v1/PodDisruptionBudget',
  ScaledObject: '@kubernetes-models/keda/keda.sh/v1alpha1/ScaledObject',
  Service: 'kubernetes-models/v1/Service',
  ServiceAccount: 'kubernetes-models/v1/ServiceAccount',
  ServiceMonitor: '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/ServiceMonitor',
};

/** Every object of the folder. YAML 1.1, as kubectl has it: there a bare `off` is a boolean. */
export function readManifests(): Manifest[] {
  const files = readdirSync(FOLDER).filter((name) => name !== 'kustomization.yaml');
  return files.flatMap((name) => parseManifests(readFileSync(join(FOLDER, name), 'utf8')));
}

export function parseManifests(text: string): Manifest[] {
  return parseAllDocuments(text, { version: '1.1' }).map((document) => {
    if (document.errors.length > 0) throw document.errors[0];
    return document.toJS();
  });
}

/** What the API server would reject or silently drop, found by the TypeScript compiler: an unknown field is a type error. */
export async function manifestErrors(manifests: readonly Manifest[]): Promise<string[]> {
  const unknown = manifests
    .filter(({ kind }) => !(kind in MODULES))
    .map(({ kind }) => `unknown kind ${kind}`);
  if (unknown.length > 0) return unknown;
  return [...compile(manifests), ...(await validate(manifests))];
}

/** The Kubernetes types are large: parsed once for all manifests. */
const parsed = new Map<string, ts.SourceFile | undefined>();

function compile(manifests: readonly Manifest[]): string[] {
  const source = manifests
    .map(({ kind, ...rest }, index) => {
      const type = `import(${JSON.stringify(MODULES[kind])}).I${kind}`;
      return `export const m${index}: ${type} = ${JSON.stringify({ ...rest, kind })};`;
    })
    .join('\n');
  const name = join(ROOT, 'test/manifests.ts');
  const options: ts.CompilerOptions = {
    strict: true,
    noEmit: true,
    skipLibCheck: true,
    module: ts.ModuleKind.Preserve,
    moduleResolution: ts.ModuleResolutionKind.Bundler,
    target: ts.ScriptTarget.ES2022,
    types: [],
  };
  const host = ts.createCompilerHost(options);
  const { getSourceFile, fileExists } = host;
  host.fileExists = (path) => path === name || fileExists(path);
  host.getSourceFile = (path, ...rest) => {
    if (path === name) return ts.createSourceFile(path, source, ts.ScriptTarget.ES2022);
    if (!parsed.has(path)) parsed.set(path, getSourceFile(path, ...rest));
    return parsed.get(path);
  };
  const program = ts.createProgram([name], options, host);
  return ts
    .getPreEmitDiagnostics(program)
    .map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, ' '));
}

/** Errors found by the schema, which types cannot express. */
async function validate(manifests: readonly Manifest[]): Promise<string[]> {
  const errors: string[] = [];
  for (const manifest of manifests) {
    const module = await import(MODULES[manifest.kind]!);
    const Model = module[manifest.kind] ?? module.default[manifest.kind];
    try {
      new Model(manifest).validate();
    } catch (error) {
      errors.push(`${manifest.kind} ${manifest.metadata.name}: ${(error as Error).message}`);
    }
  }
  return errors;
}
