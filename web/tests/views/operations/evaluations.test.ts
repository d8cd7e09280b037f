import { expect, test } from 'vitest'
import { casesOf, rate, type Report } from '@/views/operations/evaluations'

const half = { value: 0.5, low: 0.094, high: 0.906 }
const group = (name: string, variant: string, passed: number, trials = 2) => ({ name, variant, passed, trials, pass_rate: half, reason: '' })
const attempt = (name: string, variant: string, number: number) => ({ case: name, variant, attempt: number, run_id: `${name}-${variant}-${number}`, passed: true, reason: '' })

test('a rate stands with its interval, and none is not zero', () => {
  expect(rate(half)).toBe('50% [9–91]')
  expect(rate(null)).toBe('–')
})

test('cases that fail come first, each with the attempts of its team', () => {
  const by_case = [group('a', 'x', 2), group('b', 'x', 1), group('b', 'y', 0), group('c', 'x', 0)]
  const trials = [attempt('a', 'x', 1), attempt('b', 'x', 1), attempt('b', 'y', 1), attempt('b', 'x', 2)]
  const rows = casesOf({ run_id: 'r', findings: [], report: { variants: [], by_tag: [], by_case, trials } } satisfies Report)
  expect(rows.map((row) => [row.name, row.variant, row.state])).toEqual([
    ['b', 'y', 'failed'],
    ['c', 'x', 'failed'],
    ['b', 'x', 'flaky'],
    ['a', 'x', 'passed'],
  ])
  expect(rows[2]!.attempts.map((one) => one.run_id)).toEqual(['b-x-1', 'b-x-2'])
  expect(rows[1]!.attempts).toEqual([])
})
