import { Denormalizer, type Message, type ReadModelTransaction } from '../../contract/index.ts';
import type { CandidateStatus } from './candidate.ts';
import { APPLY, MOVE } from './candidate-denormalizer.sql.ts';
import {
  CANDIDATE_ACCEPTED,
  CANDIDATE_APPLIED,
  CANDIDATE_INVITED,
  CANDIDATE_REJECTED,
  CANDIDATE_WITHDRAWN,
  CandidateApplied,
  CandidateFact,
  CandidateInvited,
} from './messages.ts';

const STATUS_AFTER: Record<string, CandidateStatus> = {
  [CANDIDATE_INVITED]: 'invited',
  [CANDIDATE_ACCEPTED]: 'accepted',
  [CANDIDATE_REJECTED]: 'rejected',
  [CANDIDATE_WITHDRAWN]: 'withdrawn',
};

/** Candidates and their history. */
@Denormalizer({
  types: [CANDIDATE_APPLIED, ...Object.keys(STATUS_AFTER)],
  payload: {
    [CANDIDATE_APPLIED]: CandidateApplied,
    [CANDIDATE_INVITED]: CandidateInvited,
    [CANDIDATE_ACCEPTED]: CandidateFact,
    [CANDIDATE_REJECTED]: CandidateFact,
    [CANDIDATE_WITHDRAWN]: CandidateFact,
  },
})
export class CandidateDenormalizer {
  async apply(message: Message<CandidateFact>, tx: ReadModelTransaction): Promise<void> {
    const { payload, occurredAt, receivedAt, source, id } = message;
    const step = [occurredAt ?? receivedAt, payload.by ?? source, payload.note, id];
    if (payload instanceof CandidateApplied) {
      await tx.query(APPLY, [payload.candidateId, payload.name, payload.vacancyId, ...step]);
    } else {
      const interviewAt = payload instanceof CandidateInvited ? payload.interviewAt : undefined;
      await tx.query(MOVE, [payload.candidateId, STATUS_AFTER[message.type], interviewAt, ...step]);
    }
  }
}
