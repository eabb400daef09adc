import { Controller, Get, Req } from '@nestjs/common';
import { ApiOperation, ApiQuery, ApiResponse, ApiTags } from '@nestjs/swagger';
import type { FastifyRequest } from 'fastify';
import { parseDuration } from '../../config/duration.ts';
import { Allow } from '../../http/access.ts';
import { Problem } from '../../http/problems.ts';
import { queryOf } from '../../http/query.ts';
import { Repeatable } from '../../http/repeats.ts';
import { ACTIVITY } from './activity.openapi.ts';
import { ActivityStore } from './activity-store.ts';
import { activityView } from './activity-view.ts';

const MAX_POINTS = 360;
const SLOT_SECONDS = 10;
/** Replicas write every ten seconds, so a series that is younger shows nothing new. */
const MAX_AGE_MS = 3_000;
const MAX_CACHED = 20;

type View = ReturnType<typeof activityView>;

@ApiTags('operations')
@Controller('v1/activity')
export class ActivityController {
  private readonly cached = new Map<string, { readonly atMs: number; readonly view: Promise<View> }>();

  constructor(private readonly store: ActivityStore) {}

  @Get()
  @Allow('read')
  @Repeatable()
  @ApiOperation({
    summary: 'What happened per step, over all replicas: accepted, applied, delivered, committed.',
    description: `Replicas report every ${SLOT_SECONDS} s, and what they reported is kept for 24 h. null: no replica reported. The listeners and groups with most activity, up to 200 each.`,
  })
  @ApiQuery({ name: 'range', required: false, description: '1m to 24h. Default: 15m.' })
  @ApiQuery({
    name: 'step',
    required: false,
    description: `10s to 1h, a multiple of 10s; at most ${MAX_POINTS} steps. Default: 30s.`,
  })
  @ApiResponse({ status: 200, description: 'Counts per step.', schema: ACTIVITY })
  read(@Req() request: FastifyRequest): Promise<View> {
    const query = queryOf(request.query, ['range', 'step']);
    const step = secondsOf('step', query.step ?? '30s', 10, 3_600);
    const range = secondsOf('range', query.range ?? '15m', 60, 86_400);
    if (step % SLOT_SECONDS !== 0) throw new Problem('invalid', 'step must be a multiple of 10s.');
    if (range / step > MAX_POINTS)
      throw new Problem('invalid', `range must be at most ${MAX_POINTS} times as long as step.`);
    return this.recent(Math.ceil(range / step) * step, step);
  }

  private recent(range: number, step: number): Promise<View> {
    const name = `${range}/${step}`;
    const found = this.cached.get(name);
    if (found && performance.now() - found.atMs < MAX_AGE_MS) return found.view;
    const view = this.store.series(range, step).then((series) => activityView(series, step));
    if (this.cached.size >= MAX_CACHED) this.cached.clear();
    this.cached.set(name, { atMs: performance.now(), view });
    // A failed query is not cached.
    view.catch(() => this.cached.delete(name));
    return view;
  }
}

function secondsOf(name: string, text: string, min: number, max: number): number {
  const seconds = (parseDuration(text) ?? 0) / 1000;
  if (Number.isInteger(seconds) && seconds >= min && seconds <= max) return seconds;
  const [least, most] = name === 'step' ? ['10s', '1h'] : ['1m', '24h'];
  throw new Problem('invalid', `${name} must be a duration from ${least} to ${most}, such as 5m.`);
}
