// A run in a few lines: its task, team, status, cost, and the experts in it.
import type { PageEvent, PageExpert, PageFailure, PageOrigin, PageRun, PageWait } from '@/api/page_events'
import type { Fold } from '@/state/fold'

export interface ExpertState {
  expert: PageExpert
  left: boolean
  /** Keys of its turns that are under way. */
  turns: Set<string>
  /** What it waits for, by key. */
  waits: Map<string, PageWait>
  said: number
}

export interface Summary {
  task: string
  team: string
  strategy: string
  status: string
  reason: string
  conversation: string
  origin: PageOrigin | null
  /** Whether workers of a queue drive it. */
  queued: boolean
  startedAt: number
  endedAt: number
  /** How long it was driven, as its end says. */
  seconds: number | null
  tokens: number
  usd: number | null
  experts: Map<string, ExpertState>
}

/** Whether a turn has no reply because a person stopped it, or the run. */
export const isCancelled = (failure: PageFailure | null | undefined) => failure?.error === 'cancelled'

const STATUSES: Record<string, string> = { started: 'running', resumed: 'running', paused: 'paused', interrupted: 'interrupted', queued: 'queued' }

function stateOf(state: Summary, expert: PageExpert): ExpertState {
  let found = state.experts.get(expert.id)
  if (!found) state.experts.set(expert.id, (found = { expert, left: false, turns: new Set(), waits: new Map(), said: 0 }))
  return found
}

function apply(state: Summary, event: PageEvent): void {
  const found = event.expert ? stateOf(state, event.expert) : null
  switch (event.kind) {
    case 'run':
      return applyRun(state, event)
    case 'team_formed':
      return event.members.forEach((member) => stateOf(state, member))
    case 'budget':
      if (event.level === '') {
        state.tokens = event.spent.tokens ?? state.tokens
        state.usd = event.spent.usd ?? state.usd
      }
      return
  }
  if (!found) return
  switch (event.kind) {
    case 'expert_joined':
      found.left = false
      break
    case 'expert_left':
      found.left = true
      found.turns.clear()
      found.waits.clear()
      break
    case 'expert_step':
      found.turns.add(event.key)
      break
    case 'expert_result':
      found.turns.delete(event.key)
      found.said += event.text ? 1 : 0
      break
    case 'wait':
      if (event.ended) found.waits.delete(event.key)
      else found.waits.set(event.key, event)
      break
  }
}

function applyRun(state: Summary, event: PageRun): void {
  state.task = event.task || state.task
  state.team = event.team || state.team
  state.strategy = event.strategy || state.strategy
  state.conversation = event.conversation || state.conversation
  state.origin ??= event.origin
  state.queued ||= event.state === 'queued'
  state.seconds = event.seconds
  state.reason = event.reason
  state.startedAt ||= event.time
  state.status = STATUSES[event.state] ?? event.status
  state.endedAt = event.state === 'ended' ? event.time : 0
  state.tokens = event.usage?.total_tokens || state.tokens
  state.usd = event.usage?.usd ?? state.usd
  if (event.state === 'started' || event.state === 'resumed') return
  for (const one of state.experts.values()) {
    one.turns.clear()
    if (event.state === 'ended') one.waits.clear()
  }
}

export const summary: Fold<Summary> = {
  initial: () => ({
    task: '',
    team: '',
    strategy: '',
    status: 'unknown',
    reason: '',
    conversation: '',
    origin: null,
    queued: false,
    startedAt: 0,
    endedAt: 0,
    seconds: null,
    tokens: 0,
    usd: null,
    experts: new Map(),
  }),
  apply,
}
