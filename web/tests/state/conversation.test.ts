import { expect, test } from 'vitest'
import type { PageEvent } from '@/api/page_events'
import approvals from '@/fixtures/approvals.json'
import a2a from '@/fixtures/a2a_lite.json'
import review from '@/fixtures/expert_review.json'
import { conversation, expertsOf, type Entry } from '@/state/conversation'
import { foldAll } from '@/state/fold'
import { summary } from '@/state/summary'

const recorded = (fixture: { events: unknown }) => fixture.events as PageEvent[]
const turns = (entries: Entry[]) => entries.filter((one) => one.kind === 'turn')

test('each turn of a recorded run has its reply', () => {
  const events = recorded(review)
  const found = turns(foldAll(conversation, events).entries)
  expect(found).toHaveLength(events.filter((one) => one.kind === 'expert_step').length)
  expect(found.every((one) => one.result !== null && !one.broken)).toBe(true)
})

test('a turn whose reply lies after the slider has none yet', () => {
  const events = recorded(review)
  const index = events.findIndex((one) => one.kind === 'expert_result')
  const [turn] = turns(foldAll(conversation, events.slice(0, index)).entries)
  expect(turn).toMatchObject({ result: null, broken: false })
})

test('a tool call is folded into the turn that made it', () => {
  const [used] = turns(foldAll(conversation, recorded(a2a)).entries).filter((one) => one.tools.length)
  expect(used!.tools[0]!.result).not.toBeNull()
})

test('an intervention is one entry with each of its states', () => {
  const { entries } = foldAll(conversation, recorded(review))
  const found = entries.filter((one) => one.kind === 'intervention')
  const ids = new Set(recorded(review).flatMap((one) => (one.kind === 'intervention' ? [one.id] : [])))
  expect(found).toHaveLength(ids.size)
  expect(found.every((one) => one.states[0]!.state !== 'applied' || one.states.length === 1)).toBe(true)
})

test('a turn in which a person is asked waits, and others stop with the run', () => {
  const events = recorded(approvals)
  const waiting = turns(foldAll(conversation, events).entries).filter((one) => !one.result)
  expect(waiting.map((one) => [one.waits, one.broken])).toEqual([[true, false]])
})

test('an open question waits, and its answer completes it', () => {
  const events = recorded(approvals)
  const open = foldAll(conversation, events).entries.find((one) => one.kind === 'question')!
  expect(open.answer).toBeNull()
  const answer = { kind: 'answer', number: 999, index: 0, time: 1, scope: '', key: open.question.key, expert: null, text: 'approve', data: null, by: 'ann' } as const
  const { entries } = foldAll(conversation, [...events, answer])
  expect(entries.find((one) => one.kind === 'question')!.answer).toEqual(answer)
})

test('an entry that changes is another object', () => {
  const events = recorded(review)
  const index = events.findIndex((one) => one.kind === 'expert_result')
  const state = foldAll(conversation, events.slice(0, index))
  const before = turns(state.entries)[0]
  conversation.apply(state, events[index]!)
  expect(turns(state.entries)[0]).not.toBe(before)
})

test('a message belongs to who sends it and to whom it is for', () => {
  const base = { kind: 'message', number: 1, index: 0, time: 1, scope: '', key: 'k', type: 'handoff', text: '', step: '', round: 0, original: '' } as const
  const expert = { id: 'a', name: 'a', colour: '#000000', avatar: 'A' }
  const { entries } = foldAll(conversation, [{ ...base, expert, to: ['b'] }])
  expect(expertsOf(entries[0]!)).toEqual(['a', 'b'])
})

test('the summary of a recorded run is that of its result', () => {
  const state = foldAll(summary, recorded(review))
  expect([state.status, state.team, state.strategy]).toEqual(['completed', 'expert_review', 'collaborate'])
  expect(state.tokens).toBe(review.run.usage.total_tokens)
  expect([...state.experts.values()].every((one) => one.turns.size === 0)).toBe(true)
})
