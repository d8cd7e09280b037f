import { expect, test } from 'vitest'
import { heatMaps, type SweepRow } from '@/views/lab/lab'

const row = (topology: string, tasks: number, rounds: number, rate: number): SweepRow => ({ topology, tasks, rounds, rate, gate_pass: rate > 0.5, recommended: rate === 1 })

test('each topology has a map with the values of both dimensions in order', () => {
  const [first, second] = heatMaps([row('a', 8, 1, 0.2), row('a', 4, 1, 1), row('a', 4, 2, 0.6), row('b', 8, 2, 0.4)], 'tasks', 'rounds', 'rate')
  expect([first!.topology, second!.topology]).toEqual(['a', 'b'])
  expect(first!.columns).toEqual([4, 8])
  expect(first!.rows.map((line) => [line.value, line.cells.map((cell) => cell?.value ?? null)])).toEqual([
    [1, [1, 0.2]],
    [2, [0.6, null]],
  ])
})

test('all maps have one scale', () => {
  const [first, second] = heatMaps([row('a', 1, 1, 0), row('b', 1, 1, 1)], 'tasks', 'rounds', 'rate')
  expect([first!.rows[0]!.cells[0]!.heat, second!.rows[0]!.cells[0]!.heat]).toEqual([0, 1])
  expect(second!.rows[0]!.cells[0]).toMatchObject({ passes: true, recommended: true })
})

test('equal values are not hot', () => {
  expect(heatMaps([row('a', 1, 1, 0.3)], 'tasks', 'rounds', 'rate')[0]!.rows[0]!.cells[0]!.heat).toBe(0)
})
