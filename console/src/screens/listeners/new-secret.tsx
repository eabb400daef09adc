import { copy } from '../../parts/copy.tsx';
import { Dialog } from '../../parts/dialog.tsx';

/** Shown once: the service keeps it encrypted and never shows it again. */
export function NewSecret({ name, secret }: { name: string; secret: string }) {
  return (
    <Dialog
      title={`The secret of ${name}`}
      footer={
        <button type="button" class="primary" onClick={() => void copy(secret, 'the secret')}>
          Copy
        </button>
      }
    >
      <p>Give it to the receiver now: it is not shown again.</p>
      <p>
        <code class="secret">{secret}</code>
      </p>
    </Dialog>
  );
}
