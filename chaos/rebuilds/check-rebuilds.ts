import { Folds } from '../folds.ts';
import type { History } from '../history.ts';
import { type Violation, violation } from '../violation.ts';

/** What readers and operators of a read model rely on while it is rebuilt. */
export function checkRebuilds(history: History): Violation[] {
  return [...places(history), ...reads(history), ...kept(history), ...compared(history), ...stopped(history)];
}

/** A message is in the inbox or in history, once. */
function places({ messages, rebuilds: { identities } }: History): Violation[] {
  const check = 'a message is in the inbox or in history, never in both';
  const archived = messages.filter((row) => row.archived);
  const inInbox = new Set(messages.filter((row) => !row.archived).map(({ position }) => position));
  const seen = new Set<number>();
  const twice = archived.flatMap(({ id, position }) => {
    const found = inInbox.has(position) || seen.has(position);
    seen.add(position);
    return found ? [violation(check, `${id} is in history, and somewhere else, too`)] : [];
  });
  if (identities === archived.length) return twice;
  return [...twice, violation(check, `${archived.length} messages in history have ${identities} identities`)];
}

/** What a reader saw is the fold of the first messages of its key; no read saw less than one before it. */
function reads({ messages, rebuilds: { seen, lost } }: History): Violation[] {
  const folds = new Folds(messages);
  const wrong = seen
    .filter(({ key, n, hash }) => folds.of(key)[n - 1] !== hash)
    .map(({ key, n }) => `${key} was read with ${n} links that are not its first ${n} finished messages`);
  return [...lost, ...wrong].map((detail) =>
    violation('readers see the fold, and never less than before', detail),
  );
}

/** The schema beside the living one has what the living one has. */
function kept({ messages, rebuilds }: History): Violation[] {
  if (!rebuilds.kept) return [];
  const check = 'a rebuilt read model is the fold of its messages';
  const folds = new Folds(messages);
  const wrong = rebuilds.kept
    .filter(({ key, n, hash }) => folds.of(key).length !== n || folds.of(key)[n - 1] !== hash)
    .map(({ key, n }) =>
      violation(check, `${key} has ${n} links of ${folds.of(key).length} in the rebuilt model`),
    );
  if (rebuilds.kept.length === folds.size) return wrong;
  return [
    ...wrong,
    violation(check, `${rebuilds.kept.length} keys of ${folds.size} are in the rebuilt model`),
  ];
}

/** Both schemas are compared as of one moment, so there is no difference. */
function compared({ rebuilds }: History): Violation[] {
  return rebuilds.compared.flatMap(({ id, tables }) =>
    tables
      .filter(({ onlyOld, onlyNew, different }) => onlyOld + onlyNew + different > 0)
      .map((table) =>
        violation(
          'a rebuilt read model is the fold of its messages',
          `rebuild ${id}: ${JSON.stringify(table)}`,
        ),
      ),
  );
}

function stopped({ rebuilds }: History): Violation[] {
  return rebuilds.stopped.map((detail) => violation('a rebuild goes on, and stops at no message', detail));
}
