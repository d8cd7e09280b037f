// A run in a few lines: its task, team, status, cost, and the experts in it.
import type { ExpertBadge, PageEvent } from '@/api/page-events'
import type { Fold } from '@/state/fold'

export interface ExpertState extends ExpertBadge {
  left: boolean
  busy: boolean
  said: number
}

export interface Summary {
  task: string
  team: string
  strategy: string
  status: string
  reason: string
  startedAt: string
  endedAt: string
  tokens: number
  usd: number | null
  experts: Map<string, ExpertState>
}

interface Usage {
  total_tokens?: number
  usd?: number | null
}

const text = (value: unknown, otherwise: string) => (typeof value === 'string' && value !== '' ? value : otherwise)
const ENDS: Record<string, string> = { started: 'running', resumed: 'running', paused: 'paused', interrupted: 'interrupted' }

function apply(state: Summary, event: PageEvent): void {
  if (event.expert) meet(state, event.expert)
  const expert = event.expert ? state.experts.get(event.expert.id) : undefined
  switch (event.kind) {
    case 'run':
      applyRun(state, event)
      break
    case 'expert_joined':
      if (expert) expert.left = false
      break
    case 'expert_left':
      if (expert) Object.assign(expert, { left: true, busy: false })
      break
    case 'expert_step':
      if (expert) expert.busy = true
      break
    case 'expert_result':
      if (expert) Object.assign(expert, { busy: false, said: expert.said + 1 })
      spend(state, event)
      break
  }
}

function applyRun(state: Summary, event: PageEvent): void {
  state.task = text(event.task, state.task)
  state.team = text(event.team, state.team)
  state.strategy = text(event.strategy, state.strategy)
  state.reason = text(event.reason, state.reason)
  state.startedAt ||= event.time
  const moment = text(event.state, '')
  state.status = ENDS[moment] ?? text(event.status, state.status)
  state.endedAt = moment === 'ended' ? event.time : ''
  const usage = event.usage as Usage | undefined
  if (usage?.total_tokens) state.tokens = usage.total_tokens
  if (typeof usage?.usd === 'number') state.usd = usage.usd
}

function spend(state: Summary, event: PageEvent): void {
  const usage = event.usage as Usage | undefined
  state.tokens += usage?.total_tokens ?? 0
  if (typeof event.cost === 'number') state.usd = (state.usd ?? 0) + event.cost
}

function meet(state: Summary, expert: ExpertBadge): void {
  if (!state.experts.has(expert.id)) state.experts.set(expert.id, { ...expert, left: false, busy: false, said: 0 })
}

export const summary: Fold<Summary> = {
  initial: () => ({
    task: '',
    team: '',
    strategy: '',
    status: 'unknown',
    reason: '',
    startedAt: '',
    endedAt: '',
    tokens: 0,
    usd: null,
    experts: new Map(),
  }),
  apply,
}
