import { setTimeout as delay } from 'node:timers/promises';
import { LightClient } from './light-client.mjs';
import { keyOf, POLLED_TYPE, TEXT } from './workload.mjs';

const PARTITIONS = 16;
const GROUP = 'readers';
const SESSION_MS = 2_000;
/** Posted all the time, in batches: every partition always has something in flight or to come. */
const PER_BATCH = 20;
const EVERY_MS = 50;
const MAX_WAIT_MS = 30_000;

/**
 * A group whose members come and go while messages are posted; they are connected to two replicas in turn. Returns the
 * milliseconds until every partition is owned again and the members have even shares, as they see it in the responses to
 * their polls; until what a killed member had is handed out again; and what was handed out twice although nobody was killed.
 */
export async function rebalance({ services, changes, kills }) {
  const admin = new LightClient(services[0]);
  await admin.call('PUT', '/v1/topics/changing', { types: [POLLED_TYPE], partitions: PARTITIONS });
  const definition = { topics: ['changing'], session: `${SESSION_MS}ms` };
  await admin.call('PUT', `/v1/groups/${GROUP}`, definition);
  const group = new Group(services);
  const posting = post(services[0]);
  process.send({ warm: true });
  await group.join();
  for (let warm = 0; warm < 5; warm++) {
    await group.join();
    await group.leave();
  }
  const [joins, leaves, deaths] = [[], [], []];
  group.repeats = 0;
  for (let change = 0; change < changes; change++) {
    joins.push(await group.join());
    leaves.push(await group.leave());
  }
  const { repeats } = group;
  for (let kill = 0; kill < kills; kill++) {
    await group.join();
    deaths.push((await group.kill()) - SESSION_MS);
  }
  process.send({ over: true });
  group.stop();
  await posting.stop();
  admin.close();
  return { joins, leaves, deaths, repeats };
}

class Group {
  #services;
  #joined = 0;
  #members = [];
  #seen = new Set();
  #onChange = () => undefined;
  repeats = 0;

  constructor(services) {
    this.#services = services;
  }

  async join() {
    const startedAt = performance.now();
    const member = new Member(this.#services[this.#joined++ % this.#services.length], (batches) =>
      this.#took(batches),
    );
    this.#members.push(member);
    await member.join();
    const evenAt = await this.#until(() => this.#isEven());
    // If something is repeated, then what the new member gets first.
    await this.#until(() => member.handed.size > 0);
    return evenAt - startedAt;
  }

  /** The youngest member commits what it has and leaves. */
  async leave() {
    const member = this.#members.pop();
    await member.stop();
    const startedAt = performance.now();
    await member.leave();
    return (await this.#until(() => this.#isEven())) - startedAt;
  }

  /** The youngest member is gone without a word, with messages in its hands: until all its partitions are read again. */
  async kill() {
    const member = this.#members.pop();
    const lost = member.kill();
    const startedAt = performance.now();
    for (const one of this.#members) one.handed.clear();
    const isRead = (partition) => this.#members.some(({ handed }) => handed.has(partition));
    return (await this.#until(() => [...lost].every(isRead))) - startedAt;
  }

  stop() {
    for (const member of this.#members) member.kill();
  }

  #took(batches) {
    for (const { partition, messages } of batches)
      for (const { offset } of messages) {
        const place = `${partition}/${offset}`;
        if (this.#seen.has(place)) this.repeats += 1;
        this.#seen.add(place);
      }
    this.#onChange();
  }

  #isEven() {
    const shares = this.#members.map(({ assigned }) => assigned.length);
    const owned = this.#members.flatMap(({ assigned }) => assigned);
    const isWhole = owned.length === PARTITIONS && new Set(owned).size === PARTITIONS;
    return isWhole && Math.max(...shares) - Math.min(...shares) <= 1;
  }

  /** Returns when it was. */
  async #until(isTrue) {
    const timeout = AbortSignal.timeout(MAX_WAIT_MS);
    timeout.addEventListener('abort', () => this.#onChange());
    while (!isTrue()) {
      timeout.throwIfAborted();
      for (const { failure } of this.#members) if (failure) throw failure;
      await new Promise((resolve) => {
        this.#onChange = resolve;
      });
    }
    return performance.now();
  }
}

/** Polls, and commits what it got with the next poll. */
class Member {
  assigned = [];
  /** Partitions of which it got messages. */
  handed = new Set();
  failure;
  #client;
  #onPolled;
  #id;
  #commit = [];
  #over = false;
  #polling;

  constructor(service, onPolled) {
    this.#client = new LightClient(service);
    this.#onPolled = onPolled;
  }

  async join() {
    const { member, assigned } = await this.#call('members', {});
    this.#id = member;
    this.#see(assigned, []);
    this.#polling = this.#poll().catch((error) => {
      if (!this.#over) this.failure = error;
      this.#onPolled([]);
    });
  }

  /** Ends after the poll in progress, and commits what that returned. */
  async stop() {
    this.#over = true;
    await this.#polling;
    if (this.#commit.length) await this.#call('commit', { member: this.#id, offsets: this.#commit });
  }

  async leave() {
    await this.#client.call('DELETE', `/v1/groups/${GROUP}/members/${this.#id}`);
    this.#client.close();
  }

  /** Returns the partitions that it had. */
  kill() {
    this.#over = true;
    this.#client.close();
    return new Set(this.assigned);
  }

  async #poll() {
    while (!this.#over) {
      const request = { member: this.#id, max: 500, wait: '5s', commit: this.#commit };
      const { assigned, batches } = await this.#call('poll', request);
      this.#commit = batches.map(({ topic, partition, fence, to }) => ({
        topic,
        partition,
        fence,
        offset: to,
      }));
      this.#see(assigned, batches);
    }
  }

  #see(assigned, batches) {
    this.assigned = assigned.map(({ partition }) => partition);
    for (const { partition } of batches) this.handed.add(partition);
    this.#onPolled(batches);
  }

  #call(what, body) {
    return this.#client.call('POST', `/v1/groups/${GROUP}/${what}`, body);
  }
}

function post(service) {
  const client = new LightClient(service);
  let over = false;
  let n = 0;
  const message = () => ({ type: POLLED_TYPE, key: keyOf(n), payload: { n: n++, text: TEXT } });
  const loop = async () => {
    while (!over) {
      await client.call('POST', '/v1/messages/batch', {
        messages: Array.from({ length: PER_BATCH }, message),
      });
      await delay(EVERY_MS);
    }
    client.close();
  };
  const done = loop();
  return {
    async stop() {
      over = true;
      await done;
    },
  };
}
