// What people did to a run, when it was accepted and when it took effect, and what the run asks them.
import type { PageAmounts, PageEvent, PageIntervention, PageQuestion, PageRun } from '@/api/page_events'
import type { Fold } from '@/state/fold'
import { withLimits } from '@/views/money/limits'

/** One thing that a person did; `id` is its number in the inbox of the run, negative for the run as a whole. */
export interface Deed {
  id: number
  what: string
  by: string
  to: string
  text: string
  data: unknown
  acceptedAt: number | null
  /** The first time that it took effect; a message takes effect with each turn that reads it. */
  appliedAt: number | null
  applied: { time: number; key: string }[]
  refusedAt: number | null
  /** The member was let go on before its pause took effect. */
  withdrawnAt: number | null
  reason: string
}

export interface Steering {
  /** Ids of the experts of the outermost team, which a person can address. */
  members: Set<string>
  deeds: Map<number, Deed>
  /** The open questions, by key. */
  questions: Map<string, PageQuestion>
  /** Members that are held before their next turn. */
  held: Set<string>
  /** The limits of the run or, where it has none, of its outermost team; with what is spent. */
  limits: PageAmounts | null
  spent: PageAmounts | null
}

const NOBODY = { by: '', to: '', text: '', data: null, acceptedAt: null, appliedAt: null, applied: [], refusedAt: null, withdrawnAt: null, reason: '' }

const isOutermost = (scope: string) => !scope.includes('/')

function apply(state: Steering, event: PageEvent): void {
  switch (event.kind) {
    case 'team_formed':
      if (isOutermost(event.scope)) for (const member of event.members) state.members.add(member.id)
      if (isOutermost(event.scope) && event.lead) state.members.add(event.lead)
      break
    case 'expert_joined':
      if (isOutermost(event.scope) && event.expert && (event.role === 'member' || event.role === 'lead')) state.members.add(event.expert.id)
      break
    case 'intervention':
      intervene(state, event)
      break
    case 'question':
      state.questions.set(event.key, event)
      break
    case 'answer':
      answered(state, event)
      break
    case 'budget':
      if (event.level === '') state.spent = event.spent
      if (event.limits && isOutermost(event.level)) state.limits = withLimits(state.limits, event.limits)
      break
    case 'run':
      turned(state, event)
      break
  }
}

function answered(state: Steering, event: PageEvent & { kind: 'answer' }): void {
  const asked = state.questions.get(event.key)
  state.questions.delete(event.key)
  const deed = { ...NOBODY, id: -event.number, what: 'answer', by: event.by, text: event.text, reason: asked?.text ?? '' }
  state.deeds.set(deed.id, { ...deed, acceptedAt: event.time, appliedAt: event.time })
}

const EFFECTS: Record<string, string> = { paused: 'pause', resumed: 'continue', interrupted: 'interrupted' }

/** A pause and a stop take effect where the run says so; without a person, the run did it itself. */
function turned(state: Steering, event: PageRun): void {
  if (event.limits) state.limits = withLimits(state.limits, event.limits)
  if (event.state === 'ended') state.questions.clear()
  const what = event.state === 'ended' ? (event.status === 'cancelled' ? 'cancel' : '') : EFFECTS[event.state]
  if (!what) return
  const asked = [...state.deeds.values()].findLast((deed) => deed.what === what && deed.acceptedAt !== null && deed.appliedAt === null)
  const deed = asked ?? { ...NOBODY, id: -event.number, what, reason: event.reason }
  state.deeds.set(deed.id, { ...deed, appliedAt: event.time, applied: [{ time: event.time, key: '' }] })
}

function intervene(state: Steering, event: PageIntervention): void {
  const { id, what, by, to, text, data, time, key } = event
  const before = state.deeds.get(id) ?? { ...NOBODY, id, what, by, to, text, data }
  const deed: Deed = { ...before, reason: event.reason || before.reason }
  if (event.state === 'accepted') deed.acceptedAt = time
  if (event.state === 'refused') deed.refusedAt = time
  if (event.state === 'applied') {
    deed.appliedAt ??= time
    deed.applied = [...deed.applied, { time, key }]
  }
  state.deeds.set(id, deed)
  if (event.state === 'refused') return
  if (what === 'pause_member') state.held.add(to)
  if (what === 'resume_member') release(state, to, time)
}

/** Let a member go on: a pause that has not taken effect never will. */
function release(state: Steering, member: string, time: number): void {
  state.held.delete(member)
  for (const deed of state.deeds.values()) {
    const isOpen = deed.what === 'pause_member' && deed.to === member && deed.appliedAt === null && deed.refusedAt === null
    if (isOpen) state.deeds.set(deed.id, { ...deed, withdrawnAt: deed.withdrawnAt ?? time })
  }
}

export const steering: Fold<Steering> = {
  initial: () => ({ members: new Set(), deeds: new Map(), questions: new Map(), held: new Set(), limits: null, spent: null }),
  apply,
}

/** The deeds, newest first. */
export const newestFirst = (state: Steering) => [...state.deeds.values()].sort((a, b) => timeOf(b) - timeOf(a))
const timeOf = (deed: Deed) => deed.acceptedAt ?? deed.refusedAt ?? deed.appliedAt ?? 0
