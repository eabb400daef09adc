import { signal } from '@preact/signals';

/** How far the clock of the service is ahead of this one; small differences are the network. */
let skewMs = 0;
const SKEW_THAT_MATTERS_MS = 3_000;

/** Now, by the clock of the service, once a second while somebody looks. */
export const now = signal(Date.now());

export function serviceTime(at: string): void {
  const ahead = Date.parse(at) - Date.now();
  skewMs = Math.abs(ahead) > SKEW_THAT_MATTERS_MS ? ahead : 0;
}

function tick(): void {
  if (!document.hidden) now.value = Date.now() + skewMs;
}

setInterval(tick, 1_000);
document.addEventListener('visibilitychange', tick);
