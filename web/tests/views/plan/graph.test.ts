import { expect, test } from 'vitest'
import { criticalPath, layout, MOST, ranksOf } from '@/views/plan/graph'

const step = (id: string, ...needs: string[]) => ({ id, needs })
const WEIGHTS: Record<string, number> = { a: 1, b: 5, c: 2, d: 1 }
const weight = ({ id }: { id: string }) => WEIGHTS[id] ?? 1

test('steps stand after those that they need', () => {
  const ranks = ranksOf([step('d', 'b', 'c'), step('b', 'a'), step('c', 'a'), step('a')]).map((rank) => rank.map((one) => one.id))
  expect(ranks).toEqual([['a'], ['b', 'c'], ['d']])
})

test('a cycle and an unknown step do not hang the graph', () => {
  const steps = [step('a', 'b'), step('b', 'a'), step('c', 'nobody'), step('d', 'd')]
  expect(ranksOf(steps).flat().map((one) => one.id)).toEqual(['c', 'd', 'a', 'b'])
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

const SIZES = { width: 200, height: 90, gap: 20, rankGap: 60, down: false }
const many = (count: number) => [step('first'), ...Array.from({ length: count }, (_, index) => step(`s${index}`, 'first')), step('last', ...Array.from({ length: count }, (_, index) => `s${index}`))]

test('steps of a rank stand below each other as the plan lists them, and ranks from left to right', () => {
  const { cells } = layout([step('a'), step('z', 'a'), step('b', 'a'), step('m', 'a')], new Set(), SIZES)
  expect(cells.map((cell) => cell.id)).toEqual(['a', 'z', 'b', 'm'])
  const [a, z, b, m] = cells
  expect(z!.x).toBe(a!.x + 260)
  expect([b!.y - z!.y, m!.y - b!.y]).toEqual([110, 110])
  expect(a!.y).toBe(b!.y)
})

test('more than eight steps at once are one group with one edge, until it is opened', () => {
  expect(layout(many(MOST), new Set(), SIZES).cells).toHaveLength(MOST + 2)
  const folded = layout(many(12), new Set(), SIZES)
  expect(folded.cells.map((cell) => [cell.kind, cell.steps.length])).toEqual([['step', 1], ['group', 12], ['step', 1]])
  expect(folded.curves.map((curve) => curve.to.length)).toEqual([12, 12])
  const opened = layout(many(12), new Set([1]), SIZES)
  expect(opened.cells.filter((cell) => cell.kind === 'step')).toHaveLength(14)
  expect(opened.cells.filter((cell) => cell.kind === 'fold')).toHaveLength(1)
  expect(opened.curves).toHaveLength(24)
})

test('an edge over several ranks crosses no step', () => {
  const { cells, curves } = layout([step('a'), step('b', 'a'), step('c', 'b', 'a')], new Set(), SIZES)
  const middle = cells.find((cell) => cell.id === 'b')!
  const lane = Number(/L[\d.]+,([\d.]+)/.exec(curves.find((curve) => curve.id === 'a→c')!.path)![1])
  expect(lane < middle.y || lane > middle.y + middle.height).toBe(true)
})

test('ranks stand below each other where there is little room', () => {
  const { cells, width, height } = layout([step('a'), step('b', 'a')], new Set(), { ...SIZES, down: true })
  expect(cells.map((cell) => cell.x)).toEqual([16, 16])
  expect(cells[1]!.y - cells[0]!.y).toBe(150)
  expect([width, height]).toEqual([232, 272])
})
