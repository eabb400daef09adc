import { useEffect, useState } from 'preact/hooks';
import { type Failure, getText, path, urlOf } from '../../api.ts';
import { bytes } from '../../format.ts';
import { copyFetched } from '../../parts/copy.tsx';
import { Section } from '../../parts/heading.tsx';
import { Failed } from '../../parts/states.tsx';

const FIRST_BYTES = 64 * 1024;
/** More text than this makes a browser slow: it is downloaded. */
const SHOWN_BYTES = 1024 * 1024;

interface Loaded {
  readonly text: string;
  readonly total: number;
}

/** The payload as exactly the text that was posted: never parsed, so `1.0` stays `1.0`. */
export function Payload({ id, source }: { id: string; source: string }) {
  const [payload, setPayload] = useState<Loaded>();
  const [failure, setFailure] = useState<Failure>();
  const at = path`v1/messages/${id}/payload`;
  const load = (limit: number) =>
    getText(at, { source, limit }).then(
      ({ text, response }) => setPayload({ text, total: Number(response.headers.get('payload-bytes')) }),
      setFailure,
    );
  useEffect(() => void load(FIRST_BYTES), [id, source]);
  return (
    <Section
      title="Payload"
      note={payload && bytes(payload.total)}
      actions={
        payload && (
          <>
            <button type="button" onClick={() => void copyWhole(at, source)}>
              Copy
            </button>
            <a class="button" href={urlOf(at, { source })} download>
              Download
            </a>
          </>
        )
      }
    >
      {failure && <Failed failure={failure} />}
      {!payload && !failure && <p class="loading">Loading the payload…</p>}
      {payload && <Shown of={payload} more={() => void load(SHOWN_BYTES)} />}
    </Section>
  );
}

async function copyWhole(at: string, source: string): Promise<void> {
  const fetched = getText(at, { source }).then(({ text }) => text);
  await copyFetched(fetched, 'the payload');
}

function Shown({ of: { text, total }, more }: { of: Loaded; more: () => void }) {
  const shown = new TextEncoder().encode(text).length;
  return (
    <>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable region is reached by keyboard */}
      <section class="payload" tabIndex={0} aria-label="The payload">
        <pre>{text}</pre>
      </section>
      {shown < total && (
        <p class="payload-rest">
          The first {bytes(shown)} of {bytes(total)}.{' '}
          {shown < SHOWN_BYTES ? (
            <button type="button" onClick={more}>
              {total <= SHOWN_BYTES ? 'Load all of it' : `Load ${bytes(SHOWN_BYTES)}`}
            </button>
          ) : (
            'Download it to see the rest.'
          )}
        </p>
      )}
    </>
  );
}
