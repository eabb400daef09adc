import { createPrivateKey, generateKeyPairSync, sign } from 'node:crypto';

export interface Certificate {
  readonly key: string;
  readonly cert: string;
}

/** A self-signed X.509 certificate in DER, written by hand: the machine that runs the tests may have no openssl. */
export function certificate({
  names = [],
  addresses = [],
  until = new Date(Date.now() + 86_400_000),
}: {
  names?: readonly string[];
  addresses?: readonly (readonly number[])[];
  until?: Date;
}): Certificate {
  const pair = generateKeyPairSync('ec', {
    namedCurve: 'P-256',
    publicKeyEncoding: { type: 'spki', format: 'der' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  });
  const ecdsaWithSha256 = der(0x30, Buffer.from('06082a8648ce3d040302', 'hex'));
  const name = der(
    0x30,
    der(0x31, der(0x30, Buffer.from('0603550403', 'hex'), der(0x0c, Buffer.from('test')))),
  );
  const alternatives = der(
    0x30,
    ...names.map((dns) => der(0x82, Buffer.from(dns))),
    ...addresses.map((address) => der(0x87, Buffer.from(address))),
  );
  const extension = der(0x30, Buffer.from('0603551d11', 'hex'), der(0x04, alternatives));
  const body = der(
    0x30,
    Buffer.from('a003020102', 'hex'),
    Buffer.from('020101', 'hex'),
    ecdsaWithSha256,
    name,
    der(0x30, utcTime(new Date(until.getTime() - 30 * 86_400_000)), utcTime(until)),
    name,
    pair.publicKey,
    der(0xa3, der(0x30, extension)),
  );
  const signature = sign('sha256', body, createPrivateKey(pair.privateKey));
  const bytes = der(0x30, body, ecdsaWithSha256, der(0x03, Buffer.from([0]), signature));
  const lines = bytes.toString('base64').match(/.{1,64}/g)!;
  return {
    key: pair.privateKey,
    cert: `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`,
  };
}

function der(tag: number, ...parts: Buffer[]): Buffer {
  const body = Buffer.concat(parts);
  const { length } = body;
  const size = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 255];
  return Buffer.concat([Buffer.from([tag, ...size]), body]);
}

function utcTime(date: Date): Buffer {
  const digits = date.toISOString().replace(/\D/g, '').slice(2, 14);
  return der(0x17, Buffer.from(`${digits}Z`));
}
