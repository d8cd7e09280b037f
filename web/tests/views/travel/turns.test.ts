import { expect, test } from 'vitest'
import type { PageEvent } from '@/api/page_events'
import review from '@/fixtures/expert_review.json'
import selector from '@/fixtures/selector.json'
import { foldAll } from '@/state/fold'
import { align, turns, type Turn } from '@/views/travel/turns'

const of = (sample: { events: unknown[] }) => foldAll(turns, sample.events as PageEvent[])
const turn = (key: string, text: string): Turn => ({ key, expert: null, purpose: 'work', step: '', task: '', text, failure: '', tokens: 0, usd: null, seconds: 0 })
const run = (...made: Turn[]) => new Map(made.map((one) => [one.key, one]))

test('a run is equal to itself', () => {
  const { turns } = of(review)
  expect(turns.size).toBe(17)
  expect(align(turns, turns).every((row) => row.difference === 'same')).toBe(true)
})

test('turns are aligned by key, and what differs is marked', () => {
  const rows = align(run(turn('a', '1'), turn('b', '2'), turn('d', '4')), run(turn('a', '1'), turn('b', 'other'), turn('c', '3')))
  expect(rows.map((row) => [row.key, row.difference])).toEqual([
    ['a', 'same'],
    ['b', 'changed'],
    ['c', 'right'],
    ['d', 'left'],
  ])
})

test('the same answer to another task is told apart from another answer', () => {
  const [row] = align(run({ ...turn('a', '1'), task: 'x' }), run({ ...turn('a', '1'), task: 'y' }))
  expect(row!.difference).toBe('asked')
})

test('what only the other run has before the first common turn comes first', () => {
  expect(align(run(turn('b', '')), run(turn('a', ''), turn('b', ''))).map((row) => row.key)).toEqual(['a', 'b'])
})

test('the tokens of a run are those of its turns', () => {
  const ended = selector.events.findLast((event) => event.kind === 'run') as unknown as { usage: { total_tokens: number } }
  expect(of(selector).tokens).toBe(ended.usage.total_tokens)
})
