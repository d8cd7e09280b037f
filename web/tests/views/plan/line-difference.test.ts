import { expect, test } from 'vitest'
import { lineDifference, withContext } from '@/views/plan/line-difference'

const shown = (before: string, after: string) => lineDifference(before, after).map((line) => ({ same: ' ', added: '+', removed: '-' })[line.change] + line.text)

test('a changed line is removed and added', () => {
  expect(shown('a\nb\nc', 'a\nx\nc')).toEqual([' a', '-b', '+x', ' c'])
})

test('lines that moved keep what stands between them', () => {
  expect(shown('a\nb\nc\nd', 'b\nc\nd\na')).toEqual(['-a', ' b', ' c', ' d', '+a'])
})

test('equal texts have no difference to show', () => {
  expect(withContext(lineDifference('a\nb', 'a\nb'))).toEqual([])
})

test('far lines are left out', () => {
  const before = Array.from({ length: 30 }, (_, index) => `line ${index}`)
  const lines = withContext(lineDifference(before.join('\n'), before.with(3, 'x').with(25, 'y').join('\n')), 1)
  expect(lines.map((line) => line?.text ?? '…')).toEqual(['line 2', 'line 3', 'x', 'line 4', '…', 'line 24', 'line 25', 'y', 'line 26'])
})

test('texts too large to compare are shown after each other', () => {
  const before = Array.from({ length: 3000 }, (_, index) => `a${index}`).join('\n')
  const lines = lineDifference(before, before.replaceAll('a', 'b'))
  expect(lines).toHaveLength(6000)
})
