import type { ComponentType } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { FindBox } from './find-box.tsx';
import { isStale, snapshot } from './live.ts';
import { LiveIndicator } from './live-indicator.tsx';
import { DialogHost } from './parts/dialog.tsx';
import { Empty, Failed } from './parts/states.tsx';
import { Toast } from './parts/toast.tsx';
import { route, to } from './router.ts';
import { componentOf, MENU, SCREENS } from './screens.ts';
import { readSession, session, signOut } from './session.ts';
import { SignIn } from './sign-in.tsx';

export function App() {
  const state = session.value;
  if (state.kind === 'unknown') return <p class="boot">Asking the service who you are…</p>;
  if (state.kind === 'signed-out') return <SignIn />;
  if (state.kind === 'unreachable')
    return (
      <div class="boot">
        <Failed failure={state.failure} retry={() => void readSession()} />
      </div>
    );
  return (
    <>
      <button type="button" class="skip" onClick={() => document.getElementById('content')?.focus()}>
        Skip to the content
      </button>
      <TopBar />
      <div class={isStale.value ? 'frame stale' : 'frame'}>
        <Menu />
        <main id="content" tabIndex={-1}>
          <Outlet />
        </main>
      </div>
      <DialogHost />
      <Toast />
    </>
  );
}

function TopBar() {
  const state = session.value;
  if (state.kind !== 'signed-in') return null;
  const { environment, name, open } = state.session;
  return (
    <header class="top">
      <a class="brand" href={to('now')}>
        Sluice
      </a>
      {environment && (
        <span class="environment" title="The environment that this service names itself by">
          <bdi>{environment}</bdi>
        </span>
      )}
      <FindBox />
      <LiveIndicator />
      {open ? (
        <span class="who" title="The service runs without API keys, on loopback alone.">
          no sign-in
        </span>
      ) : (
        <button type="button" class="who" title={`Signed in as ${name}`} onClick={() => void signOut()}>
          Sign out <bdi>{name}</bdi>
        </button>
      )}
    </header>
  );
}

function Menu() {
  const { screen } = route.value;
  const marked = SCREENS[screen]?.under ?? screen;
  const [isOpen, setOpen] = useState(false);
  useEffect(() => setOpen(false), [route.value]);
  return (
    <nav aria-label="Screens" class={isOpen ? 'open' : ''}>
      <button type="button" class="menu-toggle" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        {SCREENS[marked]?.title ?? 'Menu'}
      </button>
      <ul>
        {MENU.map(([name, { title, key }]) => (
          <li key={name}>
            <a href={to(name)} aria-current={marked === name ? 'page' : undefined} title={`g ${key}`}>
              {title}
              <Badge screen={name} />
            </a>
          </li>
        ))}
      </ul>
    </nav>
  );
}

function Badge({ screen }: { screen: string }) {
  const backlog = snapshot.value?.backlog;
  if (!backlog) return null;
  const dead = [backlog.inbox, ...backlog.listeners, ...backlog.groups].reduce(
    (sum, one) => sum + one.deadLetters,
    0,
  );
  const value = { now: snapshot.value!.attention.items.length, 'dead-letters': dead }[screen];
  return value ? <span class="badge">{value > 999 ? '999+' : value}</span> : null;
}

function Outlet() {
  const { screen: name } = route.value;
  const screen = SCREENS[name];
  const [loaded, setLoaded] = useState<{ name: string; Component?: ComponentType }>({ name: '' });
  useEffect(() => {
    if (!screen) return;
    let isCurrent = true;
    componentOf(name).then(
      (Component) => isCurrent && setLoaded({ name, Component }),
      () => isCurrent && setLoaded({ name }),
    );
    return () => {
      isCurrent = false;
    };
  }, [name]);
  if (!screen)
    return (
      <Empty title="There is no such screen">
        <a href={to('now')}>Go to what needs you now</a>
      </Empty>
    );
  if (loaded.name !== name) return <p class="loading">Opening {screen.title}…</p>;
  const { Component } = loaded;
  // A new release has other files: the old ones are gone, and a reload gets the new ones.
  if (!Component)
    return (
      <Empty title="This screen could not be fetched">
        The service may have been upgraded, or does not respond. Reload the page.
      </Empty>
    );
  return <Component key={JSON.stringify(route.value.query.id ?? route.value.query.name ?? '')} />;
}
