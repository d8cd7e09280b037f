// Who did what when: a lane for each expert, with its turns, its waits, and the pauses of the run.
import type { PageEvent, PageExpert, PageFailure } from '@/api/page_events'
import type { Fold } from '@/state/fold'
import { isCancelled } from '@/state/summary'

export interface Span {
  key: string
  kind: 'turn' | 'wait'
  /** Of a turn its purpose, of a wait what is waited for. */
  what: string
  step: string
  attempt: number
  text: string
  failed: boolean
  cancelled: boolean
  from: number
  /** `null` while it lasts. */
  to: number | null
}

export interface Lane {
  /** The id of an expert, empty for what concerns the whole team. */
  id: string
  expert: PageExpert | null
  spans: Span[]
}

export interface Pause {
  from: number
  to: number | null
}

export interface Timeline {
  lanes: Map<string, Lane>
  pauses: Pause[]
  startedAt: number | null
  /** The time of the last event. */
  now: number
  isOver: boolean
}

const FRESH = { failed: false, cancelled: false }

function lane(state: Timeline, expert: PageExpert | null): Lane {
  const id = expert?.id ?? ''
  let found = state.lanes.get(id)
  if (!found) state.lanes.set(id, (found = { id, expert, spans: [] }))
  return found
}

function close(state: Timeline, key: string, kind: Span['kind'], time: number, failure: PageFailure | null = null): void {
  for (const one of state.lanes.values()) {
    const span = one.spans.findLast((span) => span.key === key && span.kind === kind && span.to === null)
    if (span) Object.assign(span, { to: time, failed: failure !== null && !isCancelled(failure), cancelled: isCancelled(failure) })
  }
}

function apply(state: Timeline, event: PageEvent): void {
  state.now = Math.max(state.now, event.time)
  state.startedAt ??= event.time
  switch (event.kind) {
    case 'expert_step': {
      close(state, event.key, 'turn', event.time)
      const { key, step, attempt, task, time } = event
      lane(state, event.expert).spans.push({ key, kind: 'turn', what: event.purpose, step, attempt, text: task, ...FRESH, from: time, to: null })
      break
    }
    case 'expert_result':
      close(state, event.key, 'turn', event.time, event.failure)
      break
    case 'wait':
      if (event.ended) close(state, event.key, 'wait', event.time)
      else {
        const { key, what, step, text, time } = event
        lane(state, event.expert).spans.push({ key, kind: 'wait', what, step, attempt: 1, text, ...FRESH, from: time, to: null })
      }
      break
    case 'run':
      applyRun(state, event.state, event.time)
      break
  }
}

function applyRun(state: Timeline, moment: string, time: number): void {
  const open = state.pauses.at(-1)
  if (moment === 'resumed' || moment === 'started') {
    if (open && open.to === null) open.to = time
    state.isOver = false
    return
  }
  if (!open || open.to !== null) state.pauses.push({ from: time, to: null })
  state.isOver = moment === 'ended'
}

export const timeline: Fold<Timeline> = {
  initial: () => ({ lanes: new Map(), pauses: [], startedAt: null, now: 0, isOver: false }),
  apply,
}

/** Spans of one lane in rows, so that none covers another. */
export function inRows(spans: readonly Span[], now: number): Span[][] {
  const rows: { spans: Span[]; until: number }[] = []
  for (const span of [...spans].sort((a, b) => a.from - b.from)) {
    const free = rows.find((row) => row.until <= span.from)
    const until = span.to ?? now
    if (free) {
      free.spans.push(span)
      free.until = until
    } else rows.push({ spans: [span], until })
  }
  return rows.map((row) => row.spans)
}

/** Seconds from the start of the run, without its pauses: hours of waiting for a person would leave nothing to see. */
export function workingTime(state: Pick<Timeline, 'pauses' | 'startedAt'>): (time: number) => number {
  const start = state.startedAt ?? 0
  return (time) => {
    let seconds = time - start
    for (const pause of state.pauses) if (time > pause.from) seconds -= Math.min(time, pause.to ?? Infinity) - pause.from
    return Math.max(0, seconds)
  }
}

/** The positions whose labels end before the axis does: one that sticks out makes a narrow page scroll sideways. */
export const fitting = (marks: readonly number[], length: number, width: number, label: (mark: number) => string) =>
  marks.filter((mark) => width * (1 - mark / length) >= label(mark).length * CHARACTER)
/** The width of a character of a label, in pixels; rather too much. */
const CHARACTER = 7

/** Round positions for about `count` marks on an axis of this length. */
export function ticks(length: number, count = 6): number[] {
  if (!(length > 0)) return [0]
  const rough = length / count
  const power = 10 ** Math.floor(Math.log10(rough))
  // Durations are written in whole milliseconds: finer marks would repeat themselves.
  const size = Math.max(0.001, power * ([1, 2, 5, 10].find((one) => one * power >= rough) ?? 10))
  return Array.from({ length: Math.floor(length / size) + 1 }, (_, index) => index * size)
}
