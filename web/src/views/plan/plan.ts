// The plans of a run's teams: each step with its state, the work on it, and every verdict about it.
import type { PageEvent, PageExpert, PageExpertResult, PageExpertStep, PagePlanStep, PagePlanUpdate, PageStep, PageVerdict, PageVote } from '@/api/page_events'
import type { Fold } from '@/state/fold'

/** One ask for a step: work, coordination or judgement. */
export interface StepWork {
  key: string
  expert: PageExpert | null
  purpose: string
  attempt: number
  startedAt: number
  result: PageExpertResult | null
}

export interface StepView extends PagePlanStep {
  attempt: number
  startedAt: number | null
  endedAt: number | null
  reason: string
  score: number | null
  work: StepWork[]
  verdicts: PageVerdict[]
  vote: PageVote | null
}

export interface PlanVersion {
  version: number
  number: number
  time: number
  by: string
  reason: string
  difference: string[]
}

export interface PlanView {
  scope: string
  status: string
  version: number
  lead: string
  steps: StepView[]
  /** What the lead does after the steps, where it gives the answer; known once it begins. */
  answer: StepView | null
  versions: PlanVersion[]
}

export interface Plans {
  /** By the scope of the team. */
  plans: Map<string, PlanView>
  experts: Map<string, PageExpert>
}

/** The step in which a lead answers, which no plan lists; a lead that hands out steps answers in an ask of its own. */
export const ANSWER = 'answer'
const answers = ({ scope, key }: PageEvent) => key === `${scope}/lead/${ANSWER}`
const ENDED = new Set(['completed', 'degraded', 'skipped', 'failed', 'timeout', 'cancelled'])
export const hasEnded = (state: string) => ENDED.has(state)

function apply(state: Plans, event: PageEvent): void {
  if (event.expert) state.experts.set(event.expert.id, event.expert)
  switch (event.kind) {
    case 'team_formed':
      for (const member of event.members) state.experts.set(member.id, member)
      break
    case 'plan_update':
      state.plans.set(event.scope, updated(state.plans.get(event.scope), event))
      break
    case 'step':
      change(state, event)
      break
    case 'expert_step':
      begin(state, event)
      break
    case 'expert_result':
      end(state, event)
      break
    case 'verdict':
      edit(state, event, event.step, (step) => ({ ...step, verdicts: [...step.verdicts, event], score: event.score }))
      break
    case 'vote':
      edit(state, event, event.step, (step) => ({ ...step, vote: event }))
      break
  }
}

/** Plans and steps are replaced and never changed, so that a view that shows one is told. */
function edit(state: Plans, { scope }: PageEvent, id: string, changed: (step: StepView) => StepView): void {
  const plan = state.plans.get(scope)
  if (!plan) return
  const index = plan.steps.findIndex((step) => step.id === id)
  if (index >= 0) state.plans.set(scope, { ...plan, steps: plan.steps.with(index, changed(plan.steps[index]!)) })
  else if (id === ANSWER) state.plans.set(scope, { ...plan, answer: changed(plan.answer ?? answerOf(plan)) })
}

/** The answer needs the steps that no other step needs. */
function answerOf(plan: PlanView): StepView {
  const needed = new Set(plan.steps.flatMap((step) => step.needs))
  const needs = plan.steps.filter((step) => !needed.has(step.id)).map((step) => step.id)
  const step = { id: ANSWER, name: '', task: '', assignees: [plan.lead], needs, state: 'pending' as const, mode: 'single' as const, merge: '', milestone: false, parts: [], owns: [], when: '', priority: 0 }
  return { ...FRESH, ...step }
}

function updated(before: PlanView | undefined, event: PagePlanUpdate): PlanView {
  const { scope, status, version, lead, number, time, by, reason, difference } = event
  const known = new Map(before?.steps.map((step) => [step.id, step]))
  const isNew = !before || before.version !== version || difference.length > 0
  const versions = isNew ? [...(before?.versions ?? []), { version, number, time, by, reason, difference }] : before.versions
  return { scope, status, version, lead, versions, answer: before?.answer ?? null, steps: event.steps.map((step) => ({ ...FRESH, ...known.get(step.id), ...step })) }
}

const FRESH = { attempt: 1, startedAt: null, endedAt: null, reason: '', score: null, work: [], verdicts: [], vote: null }

function change(state: Plans, event: PageStep): void {
  edit(state, event, event.step, (step) => {
    const ended = hasEnded(event.state)
    return {
      ...step,
      state: event.state,
      attempt: event.attempt,
      reason: event.reason,
      score: event.score ?? step.score,
      assignees: event.assignees.length ? event.assignees : step.assignees,
      startedAt: step.startedAt ?? (event.state === 'running' ? event.time : null),
      endedAt: ended ? event.time : null,
    }
  })
}

function begin(state: Plans, event: PageExpertStep): void {
  const { key, expert, purpose, attempt, time } = event
  const work: StepWork = { key, expert, purpose, attempt, startedAt: time, result: null }
  edit(state, event, answers(event) ? ANSWER : event.step, (step) => ({
    ...step,
    work: [...step.work.filter((one) => one.key !== key), work],
    ...(answers(event) && { state: 'running', startedAt: time }),
  }))
}

function end(state: Plans, event: PageExpertResult): void {
  edit(state, event, answers(event) ? ANSWER : event.step, (step) => ({
    ...step,
    work: step.work.map((one) => (one.key === event.key ? { ...one, result: event } : one)),
    ...(answers(event) && { state: event.failure ? 'failed' : 'completed', endedAt: event.time }),
  }))
}

export const plans: Fold<Plans> = { initial: () => ({ plans: new Map(), experts: new Map() }), apply }
