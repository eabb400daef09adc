export interface Finding {
  readonly check: string;
  readonly verdict: 'ok' | 'warning' | 'fault' | 'skipped';
  readonly found: string;
  /** What to do about it. */
  readonly next?: string;
}

export function ok(check: string, found: string): Finding {
  return { check, verdict: 'ok', found };
}

export function warning(check: string, found: string, next: string): Finding {
  return { check, verdict: 'warning', found, next };
}

export function fault(check: string, found: string, next?: string): Finding {
  return { check, verdict: 'fault', found, ...(next ? { next } : {}) };
}
