import { expect, test } from 'vitest'
import type { PageEvent } from '@/api/page_events'
import approvals from '@/fixtures/approvals.json'
import review from '@/fixtures/expert_review.json'
import selector from '@/fixtures/selector.json'
import { foldAll } from '@/state/fold'
import { fitting, inRows, ticks, timeline, workingTime, type Span } from '@/views/plan/timeline'

const of = (sample: { events: unknown[] }) => foldAll(timeline, sample.events as PageEvent[])
const span = (from: number, to: number | null): Span => ({ key: '', kind: 'turn', what: 'work', step: '', attempt: 1, text: '', failed: false, cancelled: false, from, to })

test('each expert that was asked has a lane, with or without a plan', () => {
  expect([...of(review).lanes.keys()].sort()).toEqual(['advocate', 'architect', 'chief', 'guard', 'tester'])
  expect(of(selector).lanes.size).toBe(4)
})

test('a turn lasts until its result, and a failed one says so', () => {
  const spans = [...of(review).lanes.values()].flatMap((lane) => lane.spans)
  expect(spans.every((one) => one.to !== null && one.to >= one.from)).toBe(true)
  const failed = (review.events as PageEvent[]).filter((event) => event.kind === 'expert_result' && event.failure)
  expect(spans.filter((one) => one.failed)).toHaveLength(failed.length)
})

test('a run that waits for a person shows the wait and the pause', () => {
  const state = of(approvals)
  const waits = [...state.lanes.values()].flatMap((lane) => lane.spans).filter((one) => one.kind === 'wait')
  expect(waits.map((one) => one.what)).toEqual(['person'])
  expect(state.pauses).toHaveLength(1)
})

test('turns at the same time stand in rows of their own', () => {
  expect(inRows([span(0, 2), span(1, 3), span(2, 4), span(3.5, null)], 5).map((row) => row.length)).toEqual([2, 2])
})

test('pauses take no room', () => {
  const place = workingTime({ startedAt: 100, pauses: [{ from: 110, to: 4000 }, { from: 4010, to: null }] })
  expect([100, 105, 110, 2000, 4000, 4005, 4010, 9000].map(place)).toEqual([0, 5, 10, 10, 10, 15, 20, 20])
})

test('a turn that was stopped is cancelled, and not failed', () => {
  const { events } = review as unknown as { events: PageEvent[] }
  const stopped = events.map((event) => (event.kind === 'expert_result' ? { ...event, failure: { error: 'cancelled', message: 'stopped by others' } } : event))
  const spans = [...foldAll(timeline, stopped).lanes.values()].flatMap((lane) => lane.spans).filter((one) => one.kind === 'turn')
  expect(spans.some((one) => one.failed)).toBe(false)
  expect(spans.every((one) => one.cancelled)).toBe(true)
})

test('a mark has a label where the label ends before the axis', () => {
  expect(fitting([0, 100, 200], 220, 250, () => '1 min 40 s')).toEqual([0, 100])
  expect(fitting([0, 100, 200], 220, 250, () => '1 s')).toEqual([0, 100, 200])
})

test('marks stand at round places', () => {
  expect(ticks(10)).toEqual([0, 2, 4, 6, 8, 10])
  expect(ticks(0.9, 3).map((one) => Math.round(one * 10) / 10)).toEqual([0, 0.5])
  expect(ticks(0)).toEqual([0])
})
