import { createConnection } from 'node:net';
import { bodyLength, HEAD_END } from './light-http.mjs';

/** One keep-alive connection that posts and waits for the response. */
export class LightClient {
  #socket;
  #head;
  #read = Buffer.alloc(0);
  #answered;
  #broken;
  #over;

  constructor(url) {
    const { hostname, port, pathname, host } = new URL(url);
    this.#head = `POST ${pathname} HTTP/1.1\r\nhost: ${host}\r\nconnection: keep-alive\r\ncontent-type: application/json\r\ncontent-length: `;
    this.#socket = createConnection({ host: hostname, port, noDelay: true });
    this.#socket.on('data', (chunk) => this.#take(chunk));
    this.#socket.on('error', (error) => this.#break(error));
    this.#socket.on('close', () => this.#break(new Error('the connection was closed')));
  }

  /** Returns the status once the whole response has arrived. */
  post(body) {
    if (this.#over) return Promise.reject(this.#over);
    return new Promise((resolve, reject) => {
      this.#answered = resolve;
      this.#broken = reject;
      this.#socket.write(`${this.#head}${Buffer.byteLength(body)}\r\n\r\n${body}`);
    });
  }

  close() {
    this.#socket.destroy();
  }

  #take(chunk) {
    const read = this.#read.length === 0 ? chunk : Buffer.concat([this.#read, chunk]);
    const end = read.indexOf(HEAD_END);
    const head = end < 0 ? '' : read.latin1Slice(0, end);
    const length = end < 0 ? 0 : bodyLength(head);
    const whole = end >= 0 && read.length >= end + HEAD_END.length + length;
    this.#read = whole ? read.subarray(end + HEAD_END.length + length) : read;
    if (whole) this.#answered(Number(head.slice(9, 12)));
  }

  #break(error) {
    this.#over = error;
    this.#broken?.(error);
  }
}
