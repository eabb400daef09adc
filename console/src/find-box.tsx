import { useEffect, useState } from 'preact/hooks';
import { go, route, to } from './router.ts';

/** One box for everything that has an id or a name. */
export function FindBox() {
  const given = route.value.screen === 'find' ? (route.value.query.q ?? '') : '';
  const [text, setText] = useState(given);
  useEffect(() => setText(given), [given]);
  return (
    <search class="find">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (text.trim()) go(to('find', { q: text.trim() }));
        }}
      >
        <input
          id="find"
          type="search"
          aria-label="Find a message id, webhook id, key or name"
          placeholder="Find a message id, webhook id, key or name"
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
        <kbd>/</kbd>
      </form>
    </search>
  );
}
