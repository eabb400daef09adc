import { useEffect, useRef, useState } from 'preact/hooks';
import { useAction } from './parts/confirm.tsx';
import { signIn } from './session.ts';

/** An API key is what one signs in with; the browser keeps a cookie that only the service can read. */
export function SignIn() {
  const [key, setKey] = useState('');
  const field = useRef<HTMLInputElement>(null);
  const { isBusy, failure, start } = useAction(() => signIn(key.trim()));
  useEffect(() => {
    document.title = 'Sign in · Sluice';
    field.current?.focus();
  }, []);
  return (
    <main class="sign-in">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          start();
        }}
      >
        <h1>Sluice</h1>
        <p class="lead">
          Sign in with an API key. One with the scope read can see everything, one with admin can change it.
        </p>
        <label class="field">
          <span>API key</span>
          <input
            ref={field}
            type="password"
            name="key"
            autocomplete="current-password"
            required
            placeholder="sk_…"
            value={key}
            onInput={(event) => setKey(event.currentTarget.value)}
          />
        </label>
        {failure && (
          <p class="failed" role="alert">
            {failure.status === 401
              ? 'No live API key is this one. Check that all of it was copied; it may have been revoked.'
              : failure.detail}
          </p>
        )}
        <button type="submit" class="primary" disabled={isBusy || key.trim() === ''}>
          {isBusy ? 'Signing in…' : 'Sign in'}
        </button>
      </form>
    </main>
  );
}
