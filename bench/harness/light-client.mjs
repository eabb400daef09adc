import { createConnection } from 'node:net';
import { bodyLength, HEAD_END } from './light-http.mjs';

/** One keep-alive connection that sends a request and waits for the response; opened when it is needed, and again after a pause. */
export class LightClient {
  #url;
  #socket;
  #read;
  #responded;
  #broken;

  constructor(url) {
    this.#url = new URL(url);
  }

  /** Returns the status once the whole response has arrived. */
  async post(body) {
    return (await this.#send('POST', this.#url.pathname, body)).status;
  }

  /** Sends and returns JSON; a failure is an error. */
  async call(method, path, value) {
    const { status, body } = await this.#send(method, path, value === undefined ? '' : JSON.stringify(value));
    if (status >= 300) throw new Error(`${method} ${path}: ${status} ${body}`);
    return body.length === 0 ? undefined : JSON.parse(body);
  }

  close() {
    this.#socket?.destroy();
  }

  #send(method, path, body) {
    this.#socket ??= this.#open();
    const type = body === '' ? '' : 'content-type: application/json\r\n';
    const head = `${method} ${path} HTTP/1.1\r\nhost: ${this.#url.host}\r\nconnection: keep-alive\r\n${type}content-length: `;
    return new Promise((resolve, reject) => {
      this.#responded = resolve;
      this.#broken = reject;
      this.#socket.write(`${head}${Buffer.byteLength(body)}\r\n\r\n${body}`);
    });
  }

  #open() {
    this.#read = Buffer.alloc(0);
    const { hostname, port } = this.#url;
    const socket = createConnection({ host: hostname, port, noDelay: true });
    socket.on('data', (chunk) => this.#take(chunk));
    socket.on('error', (error) => this.#broken(error));
    socket.on('close', () => {
      this.#socket = undefined;
      this.#broken?.(new Error('the connection was closed'));
    });
    return socket;
  }

  #take(chunk) {
    const read = this.#read.length === 0 ? chunk : Buffer.concat([this.#read, chunk]);
    const end = read.indexOf(HEAD_END);
    const head = end < 0 ? '' : read.latin1Slice(0, end);
    const start = end + HEAD_END.length;
    const length = end < 0 ? 0 : bodyLength(head);
    const whole = end >= 0 && read.length >= start + length;
    this.#read = whole ? read.subarray(start + length) : read;
    if (whole)
      this.#responded({ status: Number(head.slice(9, 12)), body: read.subarray(start, start + length) });
  }
}
