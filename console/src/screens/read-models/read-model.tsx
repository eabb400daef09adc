import { path } from '../../api.ts';
import { milliseconds, plural } from '../../format.ts';
import { useGet } from '../../load.ts';
import { Facts, Heading, Section } from '../../parts/heading.tsx';
import { KeyLink, MessageLink, Text } from '../../parts/links.tsx';
import { Empty, Show } from '../../parts/states.tsx';
import { Ago } from '../../parts/time.tsx';
import { route, to } from '../../router.ts';
import { ReadModelActions } from './actions.tsx';
import { Differences } from './diff.tsx';
import { meaningOf, RebuildProgress, RebuildState } from './progress.tsx';
import type { ReadModel, Rebuild } from './types.ts';

export function ReadModelScreen() {
  const { name = '' } = route.value.query;
  const model = useGet<ReadModel>(path`v1/read-models/${name}`, {}, 2);
  return (
    <>
      <Heading
        title={name}
        lead={model.data && `A read model of ${plural(model.data.types.length, 'message type')}`}
      >
        {model.data && <ReadModelActions of={model.data} />}
      </Heading>
      <Show of={model} what="the read model">
        {({ types, version, rebuild }) => (
          <>
            {rebuild ? <LatestRebuild of={rebuild} /> : <NeverRebuilt />}
            <Section title="Definition">
              <Facts
                of={[
                  ['Schema of its tables', <code key="schema">{name}</code>],
                  ['Version of its code', <code key="version">{version}</code>],
                  ['Types', <Text key="types" of={types.join(', ')} />],
                ]}
              />
            </Section>
          </>
        )}
      </Show>
    </>
  );
}

function NeverRebuilt() {
  return (
    <Section title="Rebuild">
      <Empty title="Never rebuilt">
        Its progress, what differs from the living tables, and the switch would be here.
      </Empty>
    </Section>
  );
}

function LatestRebuild({ of: rebuild }: { of: Rebuild }) {
  return (
    <>
      <Trouble of={rebuild} />
      <Section
        title="Rebuild"
        note={
          <>
            <RebuildState of={rebuild} /> {meaningOf(rebuild)}
          </>
        }
      >
        <Facts of={factsOf(rebuild)} />
      </Section>
      {rebuild.diff && <Differences of={rebuild.diff} />}
    </>
  );
}

/** Why it does not continue. */
function Trouble({ of: { failure, waitsFor, status } }: { of: Rebuild }) {
  if (status === 'failed' && failure)
    return (
      <section class="why bad" aria-label="Why">
        <h2>{failure.id === undefined ? 'It has stopped' : 'It has stopped at a message'}</h2>
        {failure.id !== undefined && (
          <p>
            <MessageLink id={failure.id} source={failure.source} /> of the type <Text of={failure.type} />,
            key <KeyLink of={failure.key ?? null} />
          </p>
        )}
        <p class="error-text">
          <bdi>{failure.error}</bdi>
        </p>
        <p>
          {failure.id === undefined
            ? 'The new tables could not be made. Cancel the rebuild, correct the migration, and start it again.'
            : 'Skip the message with a reason, or cancel the rebuild. '}
          <a href={to('guide', { chapter: 'a-rebuild-is-stalled' })}>How to</a>
        </p>
      </section>
    );
  if (!waitsFor) return null;
  return (
    <section class="why" aria-label="Why">
      <h2>Why it waits</h2>
      <p>
        <Text of={waitsFor} />. <a href={to('guide', { chapter: 'a-rebuild-is-stalled' })}>How to</a>
      </p>
    </section>
  );
}

function factsOf(rebuild: Rebuild): Parameters<typeof Facts>[0]['of'] {
  const { createdAt, createdBy, options, schema, leftOut, switchedAt, pauseMs, endedAt } = rebuild;
  return [
    ['Progress', <RebuildProgress key="progress" of={rebuild} />],
    [
      'Started',
      <>
        <Ago at={createdAt} /> by <Text of={createdBy} />
      </>,
    ],
    ['Before the switch', options.dryRun ? 'waits for an operator' : 'does not wait'],
    ['A message that fails', options.recordFailures ? 'is left out' : 'stops it'],
    leftOut > 0 ? ['Left out', plural(leftOut, 'message')] : null,
    options.partial ? ['Older messages', 'may be missing: it was started from what there is'] : null,
    endedAt ? null : ['Other schema', <code key="schema">{schema}</code>],
    switchedAt
      ? [
          'Switched',
          <>
            <Ago at={switchedAt} />, no message was applied for {milliseconds(pauseMs)}
          </>,
        ]
      : null,
    endedAt ? ['Ended', <Ago key="ended" at={endedAt} />] : null,
  ];
}
