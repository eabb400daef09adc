import { type IncomingMessage, request } from 'node:http';

export interface StreamEvent {
  readonly event: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests read arbitrary data
  readonly data: any;
  readonly atMs: number;
}

/** A client of server-sent events. */
export interface EventStream {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly events: StreamEvent[];
  /** Resolves when the server ended the stream or the connection is lost. */
  readonly ended: Promise<void>;
  isEnded: boolean;
  /** Stops and continues to read. */
  pause(): void;
  resume(): void;
  close(): void;
}

export function openEventStream(url: string, headers: Record<string, string>): Promise<EventStream> {
  return new Promise((resolve, reject) => {
    const sent = request(url, { headers, agent: false }, (response) => {
      const events: StreamEvent[] = [];
      let rest = '';
      const ended = new Promise<void>((end) => {
        response.on('close', () => {
          stream.isEnded = true;
          end();
        });
      });
      const stream: EventStream = {
        status: response.statusCode!,
        headers: response.headers,
        events,
        ended,
        isEnded: false,
        pause: () => void response.pause(),
        resume: () => void response.resume(),
        close: () => void sent.destroy(),
      };
      response.on('error', () => undefined);
      response.setEncoding('utf8').on('data', (text: string) => {
        const blocks = (rest + text).split('\n\n');
        rest = blocks.pop()!;
        for (const block of blocks) {
          const [, event, data] = /^event: (\w+)\ndata: (.*)$/.exec(block) ?? [];
          if (event) events.push({ event, data: JSON.parse(data!), atMs: performance.now() });
        }
      });
      resolve(stream);
    });
    sent.on('error', reject).end();
  });
}
