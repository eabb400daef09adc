import { useEffect } from 'preact/hooks';
import operating from '../../../../docs/operating.md';
import { Heading } from '../../parts/heading.tsx';
import { Empty } from '../../parts/states.tsx';
import { route, to } from '../../router.ts';
import { chaptersOf } from './chapters.ts';
import { Markdown } from './markdown.tsx';

const CHAPTERS = chaptersOf(operating);

/** The operating guide of this version, a chapter at a time. */
export function Guide() {
  const { chapter } = route.value.query;
  const shown = CHAPTERS.find(({ anchor }) => anchor === chapter);
  useEffect(() => scrollTo(0, 0), [chapter]);
  return (
    <>
      <Heading
        title={shown?.title ?? 'Operating by symptom'}
        lead="From the operating guide of this version."
      />
      <div class="columns guide">
        <section class="panel prose" aria-label="Chapter">
          {shown ? <Markdown of={shown.text} /> : <Empty title="Choose a chapter" />}
        </section>
        <nav class="panel" aria-label="Chapters">
          <ul>
            {CHAPTERS.map(({ anchor, title }) => (
              <li key={anchor}>
                <a
                  href={to('guide', { chapter: anchor })}
                  aria-current={anchor === chapter ? 'page' : undefined}
                >
                  {title}
                </a>
              </li>
            ))}
          </ul>
        </nav>
      </div>
    </>
  );
}
