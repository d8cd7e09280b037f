// The turns of a run by key, and two runs aligned by the keys of their turns.
import type { PageEvent, PageExpert } from '@/api/page_events'
import type { Fold } from '@/state/fold'

export interface Turn {
  key: string
  expert: PageExpert | null
  purpose: string
  step: string
  task: string
  /** `null` until there is a result. */
  text: string | null
  failure: string
  tokens: number
  usd: number | null
  seconds: number
}

export interface Turns {
  turns: Map<string, Turn>
  status: string
  tokens: number
  usd: number | null
  startedAt: number
  endedAt: number
  answer: string
}

function apply(state: Turns, event: PageEvent): void {
  state.startedAt ||= event.time
  state.endedAt = Math.max(state.endedAt, event.time)
  switch (event.kind) {
    case 'expert_step': {
      const { key, expert, purpose, step, task } = event
      state.turns.set(key, { key, expert, purpose, step, task, text: null, failure: '', tokens: 0, usd: null, seconds: 0 })
      break
    }
    case 'expert_result': {
      const { key, expert, purpose, step, text, usage, cost, seconds } = event
      const task = state.turns.get(key)?.task ?? ''
      state.turns.set(key, { key, expert, purpose, step, task, text, failure: event.failure?.message ?? '', tokens: usage.total_tokens, usd: cost, seconds })
      state.tokens += usage.total_tokens
      if (cost !== null) state.usd = (state.usd ?? 0) + cost
      break
    }
    case 'run':
      state.status = event.state === 'started' || event.state === 'resumed' ? 'running' : event.status
      state.answer = event.output || state.answer
      break
  }
}

export const turns: Fold<Turns> = {
  initial: () => ({ turns: new Map(), status: 'unknown', tokens: 0, usd: null, startedAt: 0, endedAt: 0, answer: '' }),
  apply,
}

/** `asked`: the same answer to another task. */
export type Difference = 'same' | 'asked' | 'changed' | 'left' | 'right'

export interface AlignedTurn {
  key: string
  left: Turn | null
  right: Turn | null
  difference: Difference
}

/** The turns of both runs, in the order of the left one; what only the right one has stands after what it followed there. */
export function align(left: ReadonlyMap<string, Turn>, right: ReadonlyMap<string, Turn>): AlignedTurn[] {
  const after = new Map<string, Turn[]>()
  let previous = ''
  for (const turn of right.values()) {
    if (left.has(turn.key)) previous = turn.key
    else after.set(previous, [...(after.get(previous) ?? []), turn])
  }
  const only = (key: string) => (after.get(key) ?? []).map((turn): AlignedTurn => ({ key: turn.key, left: null, right: turn, difference: 'right' }))
  const rows = only('')
  for (const turn of left.values()) {
    const other = right.get(turn.key) ?? null
    rows.push({ key: turn.key, left: turn, right: other, difference: other === null ? 'left' : differenceOf(turn, other) }, ...only(turn.key))
  }
  return rows
}

function differenceOf(a: Turn, b: Turn): Difference {
  if (a.text !== b.text || a.failure !== b.failure || a.expert?.id !== b.expert?.id) return 'changed'
  return a.task === b.task ? 'same' : 'asked'
}
