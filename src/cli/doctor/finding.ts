export interface Finding {
  readonly check: string;
  readonly verdict: 'ok' | 'warning' | 'failed' | 'skipped';
  readonly found: string;
  /** The next step for the operator. */
  readonly next?: string;
}

export function ok(check: string, found: string): Finding {
  return { check, verdict: 'ok', found };
}

export function warning(check: string, found: string, next: string): Finding {
  return { check, verdict: 'warning', found, next };
}

export function failed(check: string, found: string, next?: string): Finding {
  return { check, verdict: 'failed', found, ...(next ? { next } : {}) };
}
