import type { ComponentChildren } from 'preact';
import { getText, path, send } from '../../api.ts';
import type { Message, Why } from '../../api-types.ts';
import { useGet } from '../../load.ts';
import { Act, ask } from '../../parts/confirm.tsx';
import { CopyButton, copyFetched } from '../../parts/copy.tsx';
import { Facts, Heading, Section } from '../../parts/heading.tsx';
import { KeyLink, Text } from '../../parts/links.tsx';
import { Failed, Show } from '../../parts/states.tsx';
import { Status } from '../../parts/status.tsx';
import { Ago } from '../../parts/time.tsx';
import { route } from '../../router.ts';
import { askHold } from '../holds/hold-dialog.tsx';
import { curlOf } from './curl.ts';
import { Payload } from './payload.tsx';
import { Timeline } from './timeline.tsx';
import { WhyPanel } from './why.tsx';

const REPEAT_SECONDS = 5;

/** What became of one message. */
export function MessageScreen() {
  const { id = '', source } = route.value.query;
  const message = useGet<Message>(path`v1/messages/${id}`, { source, payload: 'none' }, REPEAT_SECONDS);
  const why = useGet<Why>(path`v1/messages/${id}/why`, { source }, REPEAT_SECONDS);
  return (
    <>
      <Heading title={id} lead={message.data && <Lead of={message.data} />}>
        {message.data && <Actions of={message.data} />}
      </Heading>
      <Show of={message} what="the message">
        {(data) => (
          <>
            <WhyPanel of={data} why={why.data} />
            {why.failure && !message.failure && <Failed failure={why.failure} retry={why.reload} />}
            <div class="columns">
              <Section title="What happened">
                <Timeline of={data} />
              </Section>
              <div>
                <Details of={data} />
                <Payload id={data.id} source={data.source} />
              </div>
            </div>
          </>
        )}
      </Show>
    </>
  );
}

function Lead({ of: { status, type, id } }: { of: Message }) {
  return (
    <>
      <Status of={status} /> <Text of={type} /> <CopyButton text={id} what="the message id" />
    </>
  );
}

function Actions({ of: message }: { of: Message }) {
  const { id, source, status, key } = message;
  const letter = `${path`v1/dead-letters/${id}`}`;
  const which = `?stage=inbox&source=${encodeURIComponent(source)}`;
  const fetchCurl = async () => {
    const { text } = await getText(path`v1/messages/${id}/payload`, { source });
    return curlOf(message, text, new URL('../', document.baseURI).href);
  };
  return (
    <>
      <button type="button" onClick={() => void copyFetched(fetchCurl(), 'the curl command')}>
        Copy as curl
      </button>
      <Act label="Hold its key…" onClick={() => askHold(key)} />
      {status === 'dead' && (
        <>
          <Act
            label="Discard…"
            onClick={() =>
              ask({
                title: 'Discard this message',
                children: 'It ends for good and stays on record; messages behind it continue.',
                confirm: 'Discard',
                isDangerous: true,
                reason: 'required',
                done: 'Discarded.',
                run: (reason) => send('DELETE', `${letter}${which}`, { reason }),
              })
            }
          />
          <Act
            label="Revive…"
            kind="primary"
            onClick={() =>
              ask({
                title: 'Revive this message',
                children: 'It runs again with a new set of attempts, before the messages behind it.',
                confirm: 'Revive',
                reason: 'optional',
                done: 'Revived; it waits for its turn.',
                run: (reason) => send('POST', `${letter}/revive${which}`, { reason: reason ?? null }),
              })
            }
          />
        </>
      )}
    </>
  );
}

function Details({ of }: { of: Message }) {
  const headers = Object.entries(of.headers);
  return (
    <Section title="Details">
      <Facts
        of={[
          ['Key', <KeyLink key="key" of={of.key} />],
          ['Source', <Text key="source" of={of.source} />],
          ['Type', <Text key="type" of={of.type} />],
          ['Occurred', <Ago key="occurred" at={of.occurredAt} />],
          of.expiresAt ? ['Expires', <Ago key="expires" at={of.expiresAt} />] : null,
          of.producer
            ? ['Producer', <Text key="producer" of={`${of.producer.id}, number ${of.producer.sequence}`} />]
            : null,
          of.supersededBy ? ['Superseded by', <Text key="by" of={of.supersededBy} />] : null,
          ...headers.map(([name, value]): [string, ComponentChildren] => [
            `Header ${name}`,
            <Text key={name} of={value} />,
          ]),
        ]}
      />
    </Section>
  );
}
