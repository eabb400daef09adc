/** The encodings of Kafka's protocol: https://kafka.apache.org/protocol. */
export class KafkaReader {
  at = 0;

  constructor(private readonly bytes: Buffer) {}

  int8 = () => this.fixed(1).readInt8();
  int16 = () => this.fixed(2).readInt16BE();
  int32 = () => this.fixed(4).readInt32BE();
  uint32 = () => this.fixed(4).readUInt32BE();
  int64 = () => this.fixed(8).readBigInt64BE();
  bool = () => this.int8() !== 0;

  fixed(length: number): Buffer {
    if (length < 0 || this.at + length > this.bytes.length) throw new Error('the request is too short');
    this.at += length;
    return this.bytes.subarray(this.at - length, this.at);
  }

  unsignedVarint(): number {
    let [value, shift] = [0, 0];
    for (;;) {
      const byte = this.int8() & 0xff;
      value += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) return value;
      shift += 7;
    }
  }

  /** Zigzag. */
  varint(): number {
    const raw = this.unsignedVarint();
    return raw % 2 === 0 ? raw / 2 : -(raw + 1) / 2;
  }

  /** With an int16 as length. */
  text(): string | undefined {
    const length = this.int16();
    return length < 0 ? undefined : this.fixed(length).toString();
  }

  compactBytes(): Buffer | undefined {
    const length = this.unsignedVarint();
    return length === 0 ? undefined : this.fixed(length - 1);
  }

  compactText(): string | undefined {
    return this.compactBytes()?.toString();
  }

  compactList<Item>(item: () => Item): Item[] {
    return Array.from({ length: Math.max(0, this.unsignedVarint() - 1) }, item);
  }

  varintBytes(): Buffer | undefined {
    const length = this.varint();
    return length < 0 ? undefined : this.fixed(length);
  }

  noTags(): void {
    if (this.unsignedVarint() !== 0) throw new Error('tagged fields are not expected');
  }

  get left(): number {
    return this.bytes.length - this.at;
  }
}

/** What is written, in order. */
export const wire = {
  int8: (value: number) => Buffer.from([value & 0xff]),
  int16: (value: number) => bufferOf(2, (to) => to.writeInt16BE(value)),
  int32: (value: number) => bufferOf(4, (to) => to.writeInt32BE(value)),
  int64: (value: bigint) => bufferOf(8, (to) => to.writeBigInt64BE(value)),
  unsignedVarint,
  text: (value: string) => Buffer.concat([wire.int16(Buffer.byteLength(value)), Buffer.from(value)]),
  compactText: (value: string | null) =>
    value === null
      ? unsignedVarint(0)
      : Buffer.concat([unsignedVarint(Buffer.byteLength(value) + 1), Buffer.from(value)]),
  compactBytes: (value: Buffer) => Buffer.concat([unsignedVarint(value.length + 1), value]),
  list: (items: readonly Buffer[]) => Buffer.concat([wire.int32(items.length), ...items]),
  compactList: (items: readonly Buffer[]) => Buffer.concat([unsignedVarint(items.length + 1), ...items]),
  noTags: Buffer.from([0]),
};

function bufferOf(length: number, write: (to: Buffer) => void): Buffer {
  const buffer = Buffer.alloc(length);
  write(buffer);
  return buffer;
}

function unsignedVarint(value: number): Buffer {
  const bytes: number[] = [];
  let left = value;
  for (; left >= 0x80; left = Math.floor(left / 128)) bytes.push((left % 128) | 0x80);
  return Buffer.from([...bytes, left]);
}

const CRC32C_TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte;
  for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0x82f63b78 : crc >>> 1;
  return crc >>> 0;
});

export function crc32c(bytes: Buffer): number {
  let crc = 0xffffffff;
  for (const byte of bytes) crc = CRC32C_TABLE[(crc ^ byte) & 0xff]! ^ (crc >>> 8);
  return (crc ^ 0xffffffff) >>> 0;
}

export interface KafkaRecord {
  readonly key: string | undefined;
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
}

/** A record batch of format 2, without compression. */
export function recordsOf(bytes: Buffer): KafkaRecord[] {
  const batch = new KafkaReader(bytes);
  batch.int64();
  if (batch.int32() !== batch.left) throw new Error('the length of a batch is wrong');
  batch.int32();
  if (batch.int8() !== 2) throw new Error('batches of format 2 are expected');
  if (batch.uint32() !== crc32c(bytes.subarray(batch.at)))
    throw new Error('the checksum of a batch is wrong');
  if (batch.int16() !== 0) throw new Error('attributes of a batch are not expected');
  const last = batch.int32();
  batch.fixed(8 + 8 + 8 + 2 + 4);
  const records = Array.from({ length: batch.int32() }, (_, at) => recordOf(batch, at));
  if (records.length !== last + 1 || batch.left > 0) throw new Error('the number of records is wrong');
  return records;
}

function recordOf(batch: KafkaReader, at: number): KafkaRecord {
  const length = batch.varint();
  const end = batch.at + length;
  batch.int8();
  batch.varint();
  if (batch.varint() !== at) throw new Error('the offset of a record is wrong');
  const [key, value] = [batch.varintBytes()?.toString(), batch.varintBytes()!.toString()];
  const headers = Array.from({ length: batch.varint() }, () => [
    batch.varintBytes()!.toString(),
    batch.varintBytes()!.toString(),
  ]);
  if (batch.at !== end) throw new Error('the length of a record is wrong');
  return { key, headers: Object.fromEntries(headers), text: value };
}
