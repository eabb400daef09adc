import { type FieldError, SluiceError } from '../errors.ts';

/**
 * The messages of a batch that a refusal names, by index, each with an error of its own. Empty: it is about the request, not
 * about single messages. Nothing of a refused batch was stored.
 */
export function refusedMessages(error: SluiceError): Map<number, SluiceError> {
  const faults = new Map<number, FieldError[]>();
  for (const { pointer, detail } of error.errors) {
    const match = /^\/messages\/(\d+)(.*)$/.exec(pointer);
    if (!match) continue;
    const index = Number(match[1]);
    faults.set(index, [...(faults.get(index) ?? []), { pointer: match[2]!, detail }]);
  }
  return new Map([...faults].map(([index, errors]) => [index, ofMessage(error, errors)]));
}

function ofMessage({ type, title, status }: SluiceError, errors: readonly FieldError[]): SluiceError {
  const detail = errors.map((one) => `${one.pointer} ${one.detail}`.trim()).join('; ');
  return new SluiceError({ type, title, status, detail, errors });
}
