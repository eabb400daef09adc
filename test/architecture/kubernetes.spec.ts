import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { parse } from 'yaml';
import { SETTINGS } from '../../src/config/settings.schema.ts';
import { loadSettings, type Settings } from '../../src/config/settings.ts';
import type { Route } from '../../src/http/routes.ts';
import {
  FOLDER,
  type Manifest,
  manifestErrors,
  parseManifests,
  readManifests,
} from '../support/manifests.ts';
import { sharedReplica } from '../support/shared-replica.ts';

const manifests = readManifests();
const of = (kind: string) => manifests.filter((manifest) => manifest.kind === kind);
const deployments = of('Deployment');
const [job] = of('Job') as [Manifest];
const [settings] = of('ConfigMap') as [Manifest];
const kustomization = parse(readFileSync(join(FOLDER, 'kustomization.yaml'), 'utf8'));
const podSpec = ({ spec }: Manifest) => spec.template.spec;
const container = (manifest: Manifest) => podSpec(manifest).containers[0];

/** What the Secret would contain. */
const SECRETS: Record<string, string> = {
  DATABASE_URL: 'postgres://sluice:x@postgres:5432/sluice',
  API_KEYS: 'ops=admin:sk_ops_0123456789,metrics=read:sk_metrics_0123456789',
  SECRETS_KEYS: `k1=${Buffer.alloc(32, 1).toString('base64')}`,
  METRICS_KEY: 'sk_metrics_0123456789',
};

describe('the manifests', () => {
  it('are all named in the kustomization, and nothing else is', () => {
    const files = readdirSync(FOLDER).filter((name) => name !== 'kustomization.yaml');
    expect([...kustomization.resources].sort()).toEqual(files.sort());
    const names = manifests.map(({ kind, metadata }) => `${kind} ${metadata.name}`);
    expect(new Set(names).size).toBe(names.length);
  });

  it('are valid for Kubernetes, KEDA and the Prometheus operator, in every field', async () => {
    expect(await manifestErrors(manifests)).toEqual([]);
  });

  it.each([
    ['api.yaml', 'livenessProbe', 'livenesProbe'],
    ['api.yaml', 'maxUnavailable: 0', 'maxUnavailble: 0'],
    ['api.yaml', 'containerPort: 3000', "containerPort: '3000'"],
    ['workers.yaml', 'readOnlyRootFilesystem: true', 'readOnlyRootFilesystem: yes please'],
    ['workers.yaml', 'seconds: 5', 'second: 5'],
    ['scaling.yaml', 'minReplicaCount', 'minReplicasCount'],
    ['monitoring.yaml', 'matchLabels', 'matchLabel'],
    ['network.yaml', 'podSelector', 'podSelektor'],
    ['settings.yaml', "'off'", 'off'],
    ['migration.yaml', 'kind: Job', 'kind: Jobb'],
  ])('are checked so that a typo is found: %s, %s as %s', async (file, right, wrong) => {
    const text = readFileSync(join(FOLDER, file), 'utf8');
    expect(text).toContain(right);
    expect(await manifestErrors(parseManifests(text.replace(right, wrong)))).not.toEqual([]);
  });

  it('E9 run the roles separately, and every role', () => {
    const roles = deployments.map((one) => environmentOf(one).ROLES);
    expect(roles).toEqual(['api', 'upkeep', 'inbox,outbox'].filter((role) => roles.includes(role)));
    expect(roles.join().split(',').sort()).toEqual(['api', 'inbox', 'outbox', 'upkeep']);
  });

  it('set only known settings, to allowed values', () => {
    for (const manifest of [...deployments, job]) {
      const environment = environmentOf(manifest);
      expect(Object.keys(environment).filter((name) => !(name in SETTINGS))).toEqual([]);
      expect(() => loadSettings({ ...imageEnvironment(), ...environment })).not.toThrow();
    }
    expect(loadSettings(environmentOf(deployments[0]!)).migrations).toBe('off');
  });

  it('use from the Secret what the kustomization declares', () => {
    const text = readFileSync(join(FOLDER, 'kustomization.yaml'), 'utf8');
    const held = [...text.matchAll(/--from-literal=(\w+)=/g)].map(([, name]) => name!);
    expect(text).toContain('create secret generic sluice-secrets');
    const [monitor] = of('ServiceMonitor') as [Manifest];
    const references = [
      ...[...deployments, job].flatMap((one) =>
        (container(one).env as Variable[]).flatMap(({ valueFrom }) =>
          valueFrom ? [valueFrom.secretKeyRef] : [],
        ),
      ),
      monitor.spec.endpoints[0].authorization.credentials,
    ];
    expect(new Set(references.map(({ name }) => name))).toEqual(new Set(['sluice-secrets']));
    expect([...new Set(references.map(({ key }) => key))].sort()).toEqual(held.sort());
  });

  it('run as an unprivileged user, on a read-only file system, within limits', () => {
    for (const manifest of [...deployments, job]) {
      expect(podSpec(manifest)).toMatchObject({
        automountServiceAccountToken: false,
        securityContext: { runAsNonRoot: true, runAsUser: 10001, seccompProfile: { type: 'RuntimeDefault' } },
      });
      expect(container(manifest)).toMatchObject({
        image: 'sluice',
        securityContext: {
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ['ALL'] },
        },
        resources: { requests: { cpu: expect.any(String) }, limits: { memory: expect.any(String) } },
      });
      expect(podSpec(manifest).volumes).toBeUndefined();
    }
    expect(kustomization.images[0].name).toBe('sluice');
  });

  it('leave a replica the time it needs to stop, and its callers the time to notice', () => {
    for (const manifest of deployments) {
      const { drainGrace, drainTimeout } = loadSettings(environmentOf(manifest));
      const { periodSeconds, failureThreshold } = container(manifest).readinessProbe;
      expect(drainGrace).toBeGreaterThan(2 * periodSeconds * failureThreshold * 1_000);
      const preStopMs = container(manifest).lifecycle.preStop.sleep.seconds * 1_000;
      expect(preStopMs).toBeGreaterThanOrEqual(5_000);
      expect(podSpec(manifest).terminationGracePeriodSeconds * 1_000).toBeGreaterThan(
        preStopMs + drainGrace + drainTimeout + 5_000,
      );
    }
  });

  it('allow egress to receivers for all that send: workers deliver, the api pings', () => {
    const policy = of('NetworkPolicy').find(({ metadata }) => metadata.name === 'sluice-webhooks')!;
    const [{ key, operator, values }] = policy.spec.podSelector.matchExpressions;
    expect(operator).toBe('In');
    const senders = deployments.filter((one) => /\b(api|outbox)\b/.test(environmentOf(one).ROLES!));
    const labels = senders.map(({ spec }) => spec.template.metadata.labels as Labels);
    expect(labels.map((one) => one[key]).sort()).toEqual(values);
    expect(labels.every((one) => matches(policy.spec.podSelector.matchLabels, one))).toBe(true);
  });

  it('select pods that exist, by labels they have', () => {
    const pods = [...deployments, job].map(({ spec }) => spec.template.metadata.labels as Labels);
    const selectors: Labels[] = [
      ...deployments.map(({ spec }) => spec.selector.matchLabels),
      ...of('Service').map(({ spec }) => spec.selector),
      ...of('PodDisruptionBudget').map(({ spec }) => spec.selector.matchLabels),
      ...of('NetworkPolicy').map(({ spec }) => spec.podSelector.matchLabels),
      ...deployments.map((one) => podSpec(one).topologySpreadConstraints[0].labelSelector.matchLabels),
    ];
    expect(selectors.filter((selector) => !pods.some((labels) => matches(selector, labels)))).toEqual([]);
    const [monitor] = of('ServiceMonitor') as [Manifest];
    const watched = of('Service').filter(({ metadata }) =>
      matches(monitor.spec.selector.matchLabels, metadata.labels!),
    );
    expect(watched.map(({ metadata }) => metadata.name)).toEqual(['sluice-metrics']);
    expect(watched[0]!.spec.ports[0].name).toBe(monitor.spec.endpoints[0].port);
    const scaled = [...of('ScaledObject'), ...of('HorizontalPodAutoscaler')].map(
      ({ spec }) => spec.scaleTargetRef.name,
    );
    expect(scaled.sort()).toEqual(['sluice-api', 'sluice-workers']);
    const names = deployments.map(({ metadata }) => metadata.name);
    expect(
      of('PodDisruptionBudget')
        .map(({ metadata }) => metadata.name)
        .sort(),
    ).toEqual(names.sort());
    // A scaled deployment must not set its replicas: every apply would reset them.
    const fixed = deployments.filter(({ spec }) => spec.replicas !== undefined);
    expect(fixed.map(({ metadata }) => metadata.name).filter((name) => scaled.includes(name))).toEqual([]);
  });
});

describe('a running replica', () => {
  const { replica } = sharedReplica({ ROLES: 'api' });

  it('has the paths and the port of the manifests', () => {
    const paths = replica.app.routes.filter(({ method }: Route) => method === 'GET').map(({ url }) => url);
    const [monitor] = of('ServiceMonitor') as [Manifest];
    for (const manifest of deployments) {
      const { ports, startupProbe, readinessProbe, livenessProbe } = container(manifest);
      expect([startupProbe, readinessProbe, livenessProbe].map(({ httpGet }) => httpGet.path)).toEqual([
        '/readyz',
        '/readyz',
        '/livez',
      ]);
      for (const { httpGet } of [startupProbe, readinessProbe, livenessProbe]) {
        expect(paths).toContain(httpGet.path);
        expect(ports.map(({ name }: { name: string }) => name)).toContain(httpGet.port);
      }
      const { port }: Settings = loadSettings(environmentOf(manifest));
      expect(ports[0].containerPort).toBe(port);
    }
    expect(paths).toContain(monitor.spec.endpoints[0].path);
    for (const { spec } of of('Service')) expect(spec.ports[0].targetPort).toBe('http');
    expect(container(job).command).toEqual(['node', 'dist/src/migrate.js']);
  });
});

type Labels = Record<string, string>;
interface Variable {
  readonly name: string;
  readonly value?: string;
  readonly valueFrom?: { readonly secretKeyRef: { readonly name: string; readonly key: string } };
}

/** The environment of the process. */
/** What the image sets. */
function imageEnvironment(): Record<string, string> {
  const text = readFileSync(join(FOLDER, '../../Dockerfile'), 'utf8');
  const set = [...text.matchAll(/^(?:ENV| {3}) *([A-Z_]+)=(\S+)/gm)].map(([, name, value]) => [
    name!,
    value!,
  ]);
  return Object.fromEntries(set.filter(([name]) => name! in SETTINGS));
}

function environmentOf(manifest: Manifest): Record<string, string> {
  const { env, envFrom } = container(manifest) as {
    env: Variable[];
    envFrom: { configMapRef: { name: string } }[];
  };
  expect(envFrom.map(({ configMapRef }) => configMapRef.name)).toEqual([settings.metadata.name]);
  const own = env.map(({ name, value, valueFrom }) => [name, value ?? SECRETS[valueFrom!.secretKeyRef.key]!]);
  return { ...settings.data, ...Object.fromEntries(own) };
}

function matches(selector: Labels, labels: Labels): boolean {
  return Object.entries(selector).every(([name, value]) => labels[name] === value);
}
