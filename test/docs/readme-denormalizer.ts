import { Denormalizer } from '../../src/contract/denormalizer.ts';
import type { Message } from '../../src/contract/message.ts';
import type { ReadModelTransaction } from '../../src/contract/read-model-transaction.ts';
import {
  CANDIDATE_ACCEPTED,
  CANDIDATE_APPLIED,
  CandidateApplied,
} from '../../src/read-models/recruitment/messages.ts';

// The README prints this class exactly as it is here; readme.spec.ts runs it.
@Denormalizer({ types: [CANDIDATE_APPLIED, CANDIDATE_ACCEPTED], payload: CandidateApplied })
export class CandidateDenormalizer {
  async apply({ type, payload }: Message<CandidateApplied>, tx: ReadModelTransaction) {
    await tx.query(
      `INSERT INTO candidate (id, name, status, applied_at, changed_at, version) VALUES ($1, $2, $3, now(), now(), 1)
       ON CONFLICT (id) DO UPDATE SET status = $3, changed_at = now(), version = candidate.version + 1`,
      [payload.candidateId, payload.name ?? '', type === CANDIDATE_ACCEPTED ? 'accepted' : 'applied'],
    );
  }
}
