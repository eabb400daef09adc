import { path } from '../../api.ts';
import type { DeadLetter, Hold, KeyView, MessageSummary } from '../../api-types.ts';
import { duration, plural } from '../../format.ts';
import { useGet } from '../../load.ts';
import { Act } from '../../parts/confirm.tsx';
import { Facts, Heading, Section } from '../../parts/heading.tsx';
import { MessageLink, Text } from '../../parts/links.tsx';
import { Empty, Show } from '../../parts/states.tsx';
import { Status } from '../../parts/status.tsx';
import { type Column, Table } from '../../parts/table.tsx';
import { Ago } from '../../parts/time.tsx';
import { route, to } from '../../router.ts';
import { askEndHold, askHold } from './hold-dialog.tsx';
import { HOLD_KINDS } from './hold-kinds.ts';

const RECENT: Column<MessageSummary>[] = [
  { head: 'Message', cell: ({ id, source }) => <MessageLink id={id} source={source} />, class: 'grow' },
  { head: 'Status', cell: ({ status }) => <Status of={status} /> },
  { head: 'Type', cell: ({ type }) => <Text of={type} class="clip" /> },
  { head: 'Received', cell: ({ receivedAt }) => <Ago at={receivedAt} />, isNumber: true },
];

const DEAD: Column<DeadLetter>[] = [
  {
    head: 'Message',
    cell: ({ message, source }) => <MessageLink id={message} source={source} />,
    class: 'grow',
  },
  { head: 'At', cell: ({ stage, listener, group }) => <Text of={listener ?? group ?? stage} /> },
  { head: 'Error', cell: ({ error }) => <Text of={error} class="clip" /> },
  { head: 'Died', cell: ({ diedAt }) => <Ago at={diedAt} />, isNumber: true },
];

/** Everything about one key: order is kept per key, so this is where a queue within the queue is seen. */
export function KeyScreen() {
  const { key = '' } = route.value.query;
  const view = useGet<KeyView>(path`v1/keys/${key}`, {}, 5);
  const hold = view.data?.hold;
  return (
    <>
      <Heading title={key} lead="A key: its messages are processed in order.">
        {view.data &&
          (hold ? (
            <Act label="End the hold…" onClick={() => askEndHold(key)} />
          ) : (
            <Act label="Hold…" onClick={() => askHold(key)} />
          ))}
      </Heading>
      <Show of={view} what="the key">
        {({ waiting, deadLetters, recent }) => (
          <>
            <Section title="State">
              <Facts
                of={[
                  [
                    'Waiting',
                    `${plural(waiting.count, 'message')}${waiting.oldestSeconds ? `, the oldest for ${duration(waiting.oldestSeconds)}` : ''}`,
                  ],
                  ['Hold', hold ? <HoldText key="hold" of={hold} /> : 'none'],
                  [
                    'Dead letters',
                    deadLetters.count ? (
                      <a key="dead" href={to('dead-letters', { key })}>
                        {plural(deadLetters.count, 'dead letter')}
                      </a>
                    ) : (
                      'none'
                    ),
                  ],
                ]}
              />
            </Section>
            {deadLetters.items.length > 0 && (
              <Section title="Dead letters">
                <Table
                  label="Dead letters"
                  columns={DEAD}
                  rows={deadLetters.items}
                  rowKey={({ stage, id, source }) => `${stage} ${source} ${id}`}
                />
              </Section>
            )}
            <Section title="Recent messages" note={<a href={to('messages', { key })}>All</a>}>
              {recent.length ? (
                <Table
                  label="Recent messages"
                  columns={RECENT}
                  rows={recent}
                  rowKey={({ id, source }) => `${source} ${id}`}
                />
              ) : (
                <Empty title="No message has this key" />
              )}
            </Section>
          </>
        )}
      </Show>
    </>
  );
}

function HoldText({ of: { kind, reason, until } }: { of: Hold }) {
  return (
    <>
      <Status of="held" /> {HOLD_KINDS[kind] ?? kind}
      {reason !== kind && (
        <>
          : <Text of={reason} />
        </>
      )}
      ,{' '}
      {until ? (
        <>
          until <Ago at={until} />
        </>
      ) : (
        'indefinitely'
      )}
    </>
  );
}
