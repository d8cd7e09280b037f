// What people did to a run, when it was accepted and when it took effect, and what the run asks them.
import type { PageEvent, PageIntervention, PageQuestion } from '@/api/page_events'
import type { Fold } from '@/state/fold'

export interface Deed {
  id: number
  what: string
  by: string
  to: string
  text: string
  data: unknown
  acceptedAt: number | null
  /** The first time it took effect; a message takes effect with each turn that reads it. */
  appliedAt: number | null
  applied: { time: number; key: string; number: number }[]
  refusedAt: number | null
  reason: string
}

export interface Steering {
  deeds: Map<number, Deed>
  questions: Map<string, PageQuestion>
  paused: Set<string>
}

function apply(state: Steering, event: PageEvent): void {
  switch (event.kind) {
    case 'intervention':
      intervene(state, event)
      break
    case 'question':
      state.questions.set(event.key, event)
      break
    case 'answer':
      state.questions.delete(event.key)
      break
    case 'run':
      if (event.state === 'ended') state.questions.clear()
      break
  }
}

function intervene(state: Steering, event: PageIntervention): void {
  const { id, what, by, to, text, data, time, key, number } = event
  const before = state.deeds.get(id) ?? { id, what, by, to, text, data, acceptedAt: null, appliedAt: null, applied: [], refusedAt: null, reason: '' }
  const deed = { ...before, reason: event.reason || before.reason }
  if (event.state === 'accepted') deed.acceptedAt = time
  if (event.state === 'refused') deed.refusedAt = time
  if (event.state === 'applied') {
    deed.appliedAt ??= time
    deed.applied = [...deed.applied, { time, key, number }]
  }
  state.deeds.set(id, deed)
  if (event.state === 'refused') return
  if (what === 'pause_member') state.paused.add(to)
  if (what === 'resume_member') state.paused.delete(to)
}

export const steering: Fold<Steering> = { initial: () => ({ deeds: new Map(), questions: new Map(), paused: new Set() }), apply }
