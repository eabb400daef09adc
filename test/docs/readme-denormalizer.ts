import { Denormalizer, type Message, type ReadModelTransaction } from '../../src/contract/index.ts';
import {
  CANDIDATE_ACCEPTED,
  CANDIDATE_APPLIED,
  CandidateApplied,
} from '../../src/read-models/recruitment/messages.ts';

// The README prints this class exactly as it is here; readme.spec.ts runs it.
@Denormalizer({ types: [CANDIDATE_APPLIED, CANDIDATE_ACCEPTED], payload: CandidateApplied })
export class CandidateDenormalizer {
  async apply({ type, payload, receivedAt }: Message<CandidateApplied>, tx: ReadModelTransaction) {
    const status = type === CANDIDATE_ACCEPTED ? 'accepted' : 'applied';
    await tx.query(
      `INSERT INTO candidate (id, name, status, applied_at, changed_at, version) VALUES ($1, $2, $3, $4, $4, 1)
       ON CONFLICT (id) DO UPDATE SET status = $3, changed_at = $4, version = candidate.version + 1`,
      [payload.candidateId, payload.name ?? '', status, receivedAt],
    );
  }
}
