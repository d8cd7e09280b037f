import { expect, test } from 'vitest'
import { criticalPath, topological } from '@/views/plan/graph'

const step = (id: string, ...needs: string[]) => ({ id, needs })
const WEIGHTS: Record<string, number> = { a: 1, b: 5, c: 2, d: 1 }
const weight = ({ id }: { id: string }) => WEIGHTS[id] ?? 1

test('steps stand after those that they need', () => {
  const ordered = topological([step('d', 'b', 'c'), step('b', 'a'), step('c', 'a'), step('a')]).map((one) => one.id)
  expect(ordered).toEqual(['a', 'b', 'c', 'd'])
})

test('a cycle and an unknown step do not hang the graph', () => {
  const steps = [step('a', 'b'), step('b', 'a'), step('c', 'nobody'), step('d', 'd')]
  expect(topological(steps).map((one) => one.id)).toEqual(['c', 'd', 'a', 'b'])
  expect(criticalPath(steps, weight).size).toBeGreaterThan(0)
})

test('the critical path is the longest chain by time', () => {
  expect([...criticalPath([step('a'), step('b', 'a'), step('c', 'a'), step('d', 'b', 'c')], weight)].sort()).toEqual(['a', 'b', 'd'])
})

test('a step that takes no time leaves its chain on the path', () => {
  expect([...criticalPath([step('a'), step('b', 'a')], () => 0)]).toEqual(['a'])
})

test('no steps have no critical path', () => {
  expect(criticalPath([], weight).size).toBe(0)
})
