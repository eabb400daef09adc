import { useState } from 'preact/hooks';
import { send } from '../../api.ts';
import type { AttentionAction, AttentionItem, DeadLetterFilter } from '../../api-types.ts';
import { plural } from '../../format.ts';
import { Act, ask } from '../../parts/confirm.tsx';
import { Ago } from '../../parts/time.tsx';
import { to } from '../../router.ts';
import { askBulk } from '../dead-letters/bulk.tsx';
import { startTest } from '../listeners/test-dialog.tsx';
import { screenOf } from './screen-of.ts';

/** The worst come first, and the picture below stays in sight. */
const SHOWN = 5;

export function AttentionList({ items }: { items: readonly AttentionItem[] }) {
  const [isWhole, setWhole] = useState(false);
  const hidden = items.length - SHOWN;
  return (
    <section class="panel attention" aria-label="What needs you">
      <header>
        <h2>
          {items.length
            ? `${plural(items.length, 'thing')} ${items.length === 1 ? 'needs' : 'need'} you`
            : 'What needs you'}
        </h2>
      </header>
      {items.length === 0 ? (
        <p class="nothing">
          <span class="dot" aria-hidden="true" /> Nothing needs you. Dead letters, failing listeners, old
          backlogs and the like would be here.
        </p>
      ) : (
        <ul>
          {(isWhole ? items : items.slice(0, SHOWN)).map((item) => (
            <Row key={item.id} item={item} />
          ))}
        </ul>
      )}
      {hidden > 0 && (
        <p class="more-note">
          <button type="button" class="link" aria-expanded={isWhole} onClick={() => setWhole(!isWhole)}>
            {isWhole ? 'Show the worst only' : `Show ${plural(hidden, 'more', 'more')}`}
          </button>
        </p>
      )}
    </section>
  );
}

function Row({ item }: { item: AttentionItem }) {
  const { severity, sentence, since, nextStep, guide, subject, action } = item;
  return (
    <li data-row class={severity}>
      <span class="severity">{severity === 'critical' ? 'Critical' : 'Warning'}</span>
      <div class="what">
        <a href={to(...screenOf(item.kind, subject, guide))} title={sentence}>
          <bdi class="clip-2">{sentence}</bdi>
        </a>
        <p>
          <bdi>{nextStep}</bdi> <a href={to('guide', { chapter: guide })}>How to</a>
        </p>
      </div>
      <span class="since">{since && <Ago at={since} />}</span>
      <span class="act">
        {action && <Act label={labelOf(action)} onClick={() => act(action, sentence)} />}
      </span>
    </li>
  );
}

/** An ellipsis says that something is asked before. */
function labelOf({ label, path }: AttentionAction): string {
  return path.endsWith('/test') || label.endsWith('…') ? label : `${label}…`;
}

/** Acts on many get the count, the reason and the progress; everything else is confirmed in one step; a test needs no confirmation. */
function act(action: AttentionAction, sentence: string): void {
  const bulk = /^\/?v1\/dead-letters\/(revive|discard)$/.exec(action.path);
  if (bulk)
    return void askBulk(bulk[1] as 'revive' | 'discard', (action.body?.filter ?? {}) as DeadLetterFilter);
  const tested = /^\/?v1\/listeners\/([^/]+)\/test$/.exec(action.path);
  if (tested) return void startTest(decodeURIComponent(tested[1]!));
  ask({
    title: action.label,
    children: sentence,
    confirm: action.label,
    done: `${action.label}: done.`,
    run: () => send(action.method, action.path, action.body),
  });
}
