/**
 * The lane of a key. FROZEN: rows in the database store the result, and order per key depends on every version of the
 * service computing the same one. FNV-1a over the key's UTF-8 bytes (fast for short texts), then murmur3's finaliser,
 * because the low bits of FNV alone are badly distributed.
 */
export function laneOf(key: string, lanes: number): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < key.length; index++) {
    const unit = key.charCodeAt(index);
    if (unit > 0x7f) return laneOfBytes(Buffer.from(key), lanes);
    hash = Math.imul(hash ^ unit, 0x01000193);
  }
  return finished(hash) % lanes;
}

function laneOfBytes(bytes: Buffer, lanes: number): number {
  let hash = 0x811c9dc5;
  for (const byte of bytes) hash = Math.imul(hash ^ byte, 0x01000193);
  return finished(hash) % lanes;
}

function finished(hash: number): number {
  let h = hash ^ (hash >>> 16);
  h = Math.imul(h, 0x85ebca6b);
  h ^= h >>> 13;
  h = Math.imul(h, 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}
