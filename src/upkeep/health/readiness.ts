import { Injectable } from '@nestjs/common';

/** Whether new requests should be sent to this replica. */
@Injectable()
export class Readiness {
  private current: 'starting' | 'ready' | 'draining' = 'starting';
  private readonly drainingListeners: (() => void)[] = [];

  get status(): 'starting' | 'ready' | 'draining' {
    return this.current;
  }

  get ready(): boolean {
    return this.current === 'ready';
  }

  setReady(): void {
    this.current = 'ready';
  }

  /** The replica serves requests for a while, and then stops. */
  startDraining(): void {
    this.current = 'draining';
    for (const callback of this.drainingListeners) callback();
  }

  onDraining(callback: () => void): void {
    this.drainingListeners.push(callback);
  }
}
