import { expect, test } from 'vitest'
import type { PageEvent } from '@/api/page_events'
import approvals from '@/fixtures/approvals.json'
import review from '@/fixtures/expert_review.json'
import { foldAll } from '@/state/fold'
import { newestFirst, steering } from '@/views/steer/steering'

const of = (sample: { events: unknown[] }) => foldAll(steering, sample.events as PageEvent[])
const event = (number: number, kind: string, fields: object) => ({ number, index: 0, time: number, kind, scope: '', key: '', expert: null, ...fields }) as unknown as PageEvent
const intervention = (number: number, id: number, what: string, state: string, to = '') => event(number, 'intervention', { id, what, state, to, by: 'ann', text: '', data: null, reason: '' })

test('each deed says when it was accepted and when it took effect', () => {
  const deeds = [...of(review).deeds.values()]
  expect(deeds.map((deed) => deed.what).sort()).toEqual(['edit_plan', 'raise_budget', 'say'])
  for (const deed of deeds) expect(deed.appliedAt!).toBeGreaterThanOrEqual(deed.acceptedAt!)
})

test('a message takes effect with each turn that reads it', () => {
  const message = [...of(review).deeds.values()].find((deed) => deed.what === 'say')!
  expect(message.applied.length).toBeGreaterThan(1)
  expect(message.appliedAt).toBe(message.applied[0]!.time)
})

test('an open question stays until it is answered', () => {
  const events = approvals.events as PageEvent[]
  const asked = foldAll(steering, events).questions
  expect(asked.size).toBe(1)
  const [key] = asked.keys()
  const answer = { ...event(99, 'answer', { text: 'approve', data: null, by: 'ann', time: 4e9 }), key: key! } as PageEvent
  const state = foldAll(steering, [...events, answer])
  expect(state.questions.size).toBe(0)
  expect(newestFirst(state)[0]!.what).toBe('answer')
})

test('a pause that a person asked for takes effect when the run says so', () => {
  const paused = event(5, 'run', { state: 'paused', status: 'paused', reason: '', limits: null })
  const [deed] = [...foldAll(steering, [intervention(3, 1, 'pause', 'accepted'), paused]).deeds.values()]
  expect([deed!.what, deed!.acceptedAt, deed!.appliedAt, deed!.by]).toEqual(['pause', 3, 5, 'ann'])
  expect(foldAll(steering, [paused]).deeds.get(-5)!.acceptedAt).toBeNull()
})

test('a member is held from its pause until it is let go on, and not where that was refused', () => {
  const held = [intervention(1, 1, 'pause_member', 'accepted', 'bob'), intervention(2, 2, 'pause_member', 'refused', 'eve')]
  expect([...foldAll(steering, held).held]).toEqual(['bob'])
  expect(foldAll(steering, [...held, intervention(3, 3, 'resume_member', 'accepted', 'bob')]).held.size).toBe(0)
})

test('the limits are those of the team, and rise with it', () => {
  expect(of(review).limits).toEqual({ tokens: 500000, usd: null, calls: null, seconds: 900 })
})

test('a judge is no member that could be addressed', () => {
  expect([...of(review).members].sort()).toEqual(['advocate', 'architect', 'chief', 'guard', 'tester'])
})

test('a pause that is undone before it took effect never takes effect, and is not refused', () => {
  const undone = [intervention(1, 1, 'pause_member', 'accepted', 'bob'), intervention(3, 2, 'resume_member', 'accepted', 'bob'), intervention(9, 1, 'pause_member', 'refused', 'bob')]
  expect(foldAll(steering, undone).deeds.get(1)!.withdrawnAt).toBe(3)
  const applied = [intervention(1, 1, 'pause_member', 'accepted', 'bob'), intervention(2, 1, 'pause_member', 'applied', 'bob'), intervention(3, 2, 'resume_member', 'accepted', 'bob')]
  expect(foldAll(steering, applied).deeds.get(1)!.withdrawnAt).toBeNull()
})
