import { expect, test } from 'vitest'
import { matches, type RunRow } from '@/state/runs'

const row = { id: 'r1', team: 'Review', status: 'paused', task: 'Read the DESIGN', conversation: '' } as RunRow

test('words are found in the task, the team and the id, in any case', () => {
  expect(matches(row, ['design', 'r1', 'review'], '', '')).toBe(true)
  expect(matches(row, ['design', 'poem'], '', '')).toBe(false)
})

test('status and team filter', () => {
  expect(matches(row, [], 'paused', 'Review')).toBe(true)
  expect(matches(row, [], 'failed', '')).toBe(false)
  expect(matches(row, [], '', 'other')).toBe(false)
})
