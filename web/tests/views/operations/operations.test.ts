import { expect, test } from 'vitest'
import { byDay, byModel, byTeam, costOf, daysOf, passRate, totalOf, type Figures } from '@/views/operations/operations'

const row = (day: string, team: string, changes = {}) => ({ day, team, runs: 1, ended: 1, completed: 1, tokens: 100, usd: 0.5, unpriced: 0, steps: 2, passed: 1, judged: 1, ...changes })
const asked = (day: string, team: string, model: string, usd: number | null) => ({ day, team, model, requests: 2, tokens: 50, usd })
const FIGURES: Figures = {
  since: '2026-02-27',
  until: '2026-03-02',
  runs: 4,
  is_cut: false,
  measured: 4,
  unread: 0,
  teams: [row('2026-02-28', 'a'), row('2026-03-01', 'a', { runs: 2 }), row('2026-03-01', 'b', { usd: 0, unpriced: 1, steps: 2, passed: 2, judged: 0 })],
  models: [asked('2026-02-28', 'a', 'large', 0.2), asked('2026-03-01', 'b', 'large', 0.1), asked('2026-03-01', 'b', 'small', null), asked('2026-03-01', 'a', 'small', 0.1)],
}

test('every day is there, also over the end of a month', () => {
  expect(daysOf(FIGURES)).toEqual(['2026-02-27', '2026-02-28', '2026-03-01', '2026-03-02'])
  expect(byDay(FIGURES).map((one) => one.runs)).toEqual([0, 1, 3, 0])
  expect(byDay(FIGURES, 'b').map((one) => one.tokens)).toEqual([0, 0, 100, 0])
})

test('teams are added up, the busiest first', () => {
  expect(byTeam(FIGURES).map((one) => [one.team, one.runs, one.usd])).toEqual([['a', 3, 1], ['b', 1, 0]])
  expect(totalOf(FIGURES).runs).toBe(4)
})

test('a rate or a price that is not known is not zero', () => {
  const [a, b] = byTeam(FIGURES)
  expect([passRate(a!), passRate(b!)]).toEqual([0.5, null])
  expect([costOf(a!), costOf(b!)]).toEqual([1, null])
  const models = new Map(byModel(FIGURES).map((one) => [one.model, one]))
  expect(models.get('large')!.usd).toBeCloseTo(0.3)
  expect(models.get('small')!.usd).toBeNull()
  expect(byModel(FIGURES, 'a').map((one) => [one.model, one.requests])).toEqual([['large', 2], ['small', 2]])
})
