import { NetworkError, type ProduceResult, ProtocolError, ResponseError } from '@platformatic/kafka';
import { errorsWithin, isOfMessage } from './kafka-failures.ts';

/** What became of the messages for one partition. */
export type PartitionResult =
  | { readonly offset: bigint }
  /** `isOfMessage`: the broker does not take one of the messages; the others would be taken without it. */
  | { readonly error: unknown; readonly isOfMessage: boolean };

interface ProduceResponse {
  readonly responses?: readonly {
    readonly partitionResponses: readonly {
      readonly index: number;
      readonly errorCode: number;
      readonly baseOffset: bigint;
      readonly errorMessage: string | null;
    }[];
  }[];
}

/** From what `send` returned or threw. A request to several brokers can succeed at some, and for some partitions. */
export function resultsOf(returned: ProduceResult | unknown): (partition: number) => PartitionResult {
  const { offsets = [] } = (returned instanceof Error ? producedOf(returned) : returned) as ProduceResult;
  const results = new Map<number, PartitionResult>(
    offsets.map(({ partition, offset }) => [partition, { offset }]),
  );
  const errors = returned instanceof Error ? errorsWithin(returned) : [];
  for (const error of errors) if (error instanceof ResponseError) addResponse(results, error);
  const other = errors.find((error) => !isOfPartition(error)) ?? new NetworkError('No response.');
  const rest: PartitionResult = {
    error: returned instanceof Error && results.size === 0 ? returned : other,
    isOfMessage: false,
  };
  return (partition) => results.get(partition) ?? rest;
}

function producedOf(error: Error): ProduceResult {
  return (error as { produced?: ProduceResult }).produced ?? {};
}

function addResponse(results: Map<number, PartitionResult>, error: ResponseError): void {
  const { responses = [] } = (error as unknown as { response?: ProduceResponse }).response ?? {};
  for (const { index, errorCode, baseOffset, errorMessage } of responses.flatMap(
    ({ partitionResponses }) => partitionResponses ?? [],
  )) {
    if (errorCode === 0) results.set(index, { offset: baseOffset });
    else {
      const failure = new ProtocolError(errorCode, errorMessage);
      results.set(index, { error: failure, isOfMessage: isOfMessage(failure) });
    }
  }
}

/** An error that says which partition it is about is in its response, too. */
function isOfPartition(error: Error): boolean {
  return error instanceof AggregateError || error instanceof ProtocolError;
}
