import type { AgentOptions } from 'node:https';
import { type NodeTransport, nodeTransport } from './http/node-transport.ts';
import { Sluice as AnySluice, type SluiceOptions } from './sluice.ts';

export * from './index.ts';

export interface NodeSluiceOptions extends Omit<SluiceOptions, 'fetch'> {
  /** Options of the agents of node:http and node:https, such as `ca` or `maxSockets`. */
  readonly agent?: AgentOptions | undefined;
}

/** As `Sluice`, over connections of node:http and node:https that are kept open. */
export class Sluice extends AnySluice {
  private readonly connections: NodeTransport;

  constructor({ agent, ...options }: NodeSluiceOptions) {
    const connections = nodeTransport(agent);
    super(options, connections.transport);
    this.connections = connections;
  }

  /** Closes idle connections, so that the process can end at once. */
  close(): void {
    this.connections.close();
  }
}
