import { expect, test } from 'vitest'
import type { PageEvent, PageVerdict } from '@/api/page_events'
import a2a from '@/fixtures/a2a_lite.json'
import budget from '@/fixtures/budget.json'
import review from '@/fixtures/expert_review.json'
import { foldAll } from '@/state/fold'
import { burnDown, coordinationRatio, money, verdictBoard } from '@/views/money/money'

const of = (sample: { events: unknown[] }, count = Infinity) => foldAll(money, (sample.events as PageEvent[]).slice(0, count))

test('what experts spend is what the run reports at its end', () => {
  for (const sample of [a2a, budget, review]) {
    const ended = sample.events.findLast((event) => event.kind === 'run') as unknown as { usage: { total_tokens: number; usd: number | null } }
    const state = of(sample)
    expect(state.total.tokens).toBe(ended.usage.total_tokens)
    expect(state.total.usd).toBeCloseTo(ended.usage.usd ?? 0, 9)
    const sum = (all: Iterable<{ tokens: number }>) => [...all].reduce((total, one) => total + one.tokens, 0)
    expect(sum(state.experts.values())).toBe(state.total.tokens)
    expect(sum(state.purposes.values())).toBe(state.total.tokens)
  }
})

test('coordination is a share of all tokens', () => {
  const state = of(review)
  expect(coordinationRatio(state)).toBeCloseTo(state.purposes.get('coordinate')!.tokens / state.total.tokens)
  expect(coordinationRatio(of(review, 1))).toBeNull()
})

test('a budget burns down from its limit, and never below nothing', () => {
  const burn = burnDown(of(budget), 'usd', (time) => time)
  expect(burn.limit).toBe(0.0044)
  expect(burn.points[0]!.value).toBe(0.0044)
  expect(burn.points.at(-1)!.value).toBeCloseTo(0, 9)
  expect(burn.points.every((point) => point.value >= 0)).toBe(true)
})

test('a raised limit counts from then on', () => {
  expect(of(review).limits!.tokens).toBe(500000)
  expect(of(review, 4).limits!.tokens).toBe(400000)
})

test('without a limit, what is spent grows, and nothing runs out', () => {
  const burn = burnDown(of(budget), 'tokens', (time) => time)
  expect([burn.limit, burn.emptyAt, burn.points[0]!.value]).toEqual([null, null, 0])
  expect(burn.points.at(-1)!.value).toBe(874)
})

test('at the present rate half a budget is spent in half the time that it lasts', () => {
  const state = { ...of(review, 1), limits: { tokens: 100, usd: null, calls: null, seconds: null }, points: [{ time: 10, tokens: 50, usd: 0 }] }
  expect(burnDown(state, 'tokens', (time) => time).emptyAt).toBe(20)
})

test('a plan that is half done will cost twice what is spent, and no more than there is', () => {
  const spent = (limit: number | null) => ({ ...of(review, 1), limits: { tokens: limit, usd: null, calls: null, seconds: null }, points: [{ time: 10, tokens: 50, usd: 0 }] })
  const progress = { done: 1, count: 2, isOver: false }
  const burn = (limit: number | null, isOver = false) => burnDown(spent(limit), 'tokens', (time) => time, { ...progress, isOver })
  expect([burn(200).projected, burn(200).ahead]).toEqual([100, { at: 20, value: 100, to: 'plan' }])
  expect(burn(75).ahead).toEqual({ at: 15, value: 0, to: 'plan' })
  expect(burn(null).ahead).toEqual({ at: 20, value: 100, to: 'plan' })
  expect([burn(200, true).projected, burn(200, true).ahead]).toEqual([null, null])
})

test('without a plan the line goes on at the present rate', () => {
  const state = { ...of(review, 1), limits: { tokens: 100, usd: null, calls: null, seconds: null }, points: [{ time: 10, tokens: 50, usd: 0 }] }
  expect(burnDown(state, 'tokens', (time) => time).ahead).toEqual({ at: 16, value: 20, to: 'rate' })
})

test('a revision stands beside the work that it revises', () => {
  const board = verdictBoard(of(review).verdicts)
  expect(board.map((row) => [row.step, row.verdicts.map((one) => one.outcome)])).toEqual([
    ['reading', ['revise', 'pass']],
    ['fixes', ['pass']],
  ])
})

test('a revision of a revision belongs to the first work', () => {
  const verdict = (work: string, revises: string) => ({ work, revises, step: 's', expert: null }) as unknown as PageVerdict
  expect(verdictBoard([verdict('a', ''), verdict('b', 'a'), verdict('c', 'b'), verdict('d', '')]).map((row) => row.verdicts.length)).toEqual([3, 1])
})
