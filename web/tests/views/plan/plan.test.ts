import { expect, test } from 'vitest'
import type { PageEvent } from '@/api/page_events'
import dag from '@/fixtures/dag.json'
import review from '@/fixtures/expert_review.json'
import selector from '@/fixtures/selector.json'
import { foldAll } from '@/state/fold'
import { plans } from '@/views/plan/plan'

const events = (sample: { events: unknown[] }) => sample.events as PageEvent[]
const planOf = (sample: { events: unknown[] }, count = Infinity) => [...foldAll(plans, events(sample).slice(0, count)).plans.values()][0]!

test('each step has the state of the last event about it', () => {
  const states = Object.fromEntries(planOf(dag).steps.map((step) => [step.id, step.state]))
  expect(states).toEqual({ forecast: 'completed', ground: 'completed', tents: 'completed', shade: 'skipped', decision: 'completed' })
})

test('a step that is skipped says why', () => {
  expect(planOf(dag).steps.find((step) => step.id === 'shade')!.reason).toBe('its condition does not hold')
})

test('the plan can be shown as it was at any event', () => {
  const running = events(dag).findIndex((event) => event.kind === 'step' && event.state === 'running')
  expect(planOf(dag, running).steps.every((step) => step.state === 'pending')).toBe(true)
  expect(planOf(dag, running + 1).steps.filter((step) => step.state === 'running')).toHaveLength(1)
})

test('a step keeps every attempt and every verdict', () => {
  const reading = planOf(review).steps.find((step) => step.id === 'reading')!
  expect(reading.verdicts.map((one) => one.outcome)).toEqual(['revise', 'pass'])
  expect(reading.score).toBe(1)
  expect(reading.work.filter((one) => one.purpose === 'work')).toHaveLength(2)
  expect(reading.work.every((one) => one.result !== null)).toBe(true)
})

test('a competition shows its entries and its winner', () => {
  const step = planOf(review).steps.find((one) => one.id === 'first_fix')!
  expect(step.mode).toBe('compete')
  expect(step.vote!.entries[step.vote!.winner]).toBe('guard')
})

test('a new version of the plan keeps what is done, and its difference', () => {
  const plan = planOf(review)
  expect(plan.version).toBe(2)
  expect(plan.versions.find((one) => one.version === 2)!.difference.length).toBeGreaterThan(0)
  expect(plan.steps.find((step) => step.id === 'reading')!.work.length).toBeGreaterThan(0)
  expect(plan.steps.some((step) => step.id === 'roll_out')).toBe(true)
})

test('the answer of the lead follows the steps that no other needs', () => {
  const { answer, steps } = planOf(review)
  expect(answer).toMatchObject({ id: 'answer', state: 'completed', assignees: ['chief'] })
  expect(answer!.needs).toEqual(steps.filter((step) => !steps.some((other) => other.needs.includes(step.id))).map((step) => step.id))
  expect(answer!.work.every((one) => one.result !== null)).toBe(true)
  expect(planOf(dag).answer).toBeNull()
})

test('a team without a plan has none', () => {
  expect(foldAll(plans, events(selector)).plans.size).toBe(0)
})

test('a change of a step makes another plan, so that a view that shows it is told', () => {
  const state = plans.initial()
  const seen = new Set<unknown>()
  let changes = 0
  for (const event of events(dag)) {
    plans.apply(state, event)
    if (event.kind !== 'step') continue
    changes++
    seen.add([...state.plans.values()][0])
  }
  expect(seen.size).toBe(changes)
})
