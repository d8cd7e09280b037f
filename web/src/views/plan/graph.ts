// The graph of a plan: the ranks of its steps, where they stand, and its critical path.
import type { StepView } from '@/views/plan/plan'

type Step = Pick<StepView, 'id' | 'needs'>

/** The steps by rank: each stands after those it needs, in the order of the plan; steps of a cycle are the last rank. */
export function ranksOf<S extends Step>(steps: readonly S[]): S[][] {
  const ids = new Set(steps.map((step) => step.id))
  const open = new Map(steps.map((step) => [step.id, new Set(step.needs.filter((need) => ids.has(need) && need !== step.id))]))
  const ranks: S[][] = []
  let rest = [...steps]
  while (rest.length) {
    const ready = rest.filter((step) => open.get(step.id)!.size === 0)
    if (ready.length === 0) return [...ranks, rest]
    ranks.push(ready)
    const done = new Set(ready)
    rest = rest.filter((step) => !done.has(step))
    for (const step of rest) for (const one of ready) open.get(step.id)!.delete(one.id)
  }
  return ranks
}

/** More steps than this that may run at once are one group, until a reader opens it. */
export const MOST = 8

/** A place in the graph: a step, a group of steps, or the button that folds the steps of an open group. */
export interface Cell<S> {
  id: string
  kind: 'step' | 'group' | 'fold'
  rank: number
  steps: S[]
  x: number
  y: number
  width: number
  height: number
}

export interface Curve {
  id: string
  path: string
  from: string[]
  to: string[]
}

export interface Sizes {
  width: number
  height: number
  /** Between neighbours of a rank, and between ranks. */
  gap: number
  rankGap: number
  /** Ranks stand below each other, instead of side by side. */
  down: boolean
}

const FOLD = 28
const LANE = 10
const MARGIN = 16

interface Item<S> {
  cell: Cell<S> | null
  size: number
  at: number
}

/** Where everything stands. An edge that passes a rank has a lane of its own there, so that it crosses no step. */
export function layout<S extends Step>(steps: readonly S[], opened: ReadonlySet<number>, sizes: Sizes): { cells: Cell<S>[]; curves: Curve[]; width: number; height: number } {
  const { gap, down } = sizes
  const breadth = down ? sizes.width : sizes.height
  const depth = (down ? sizes.height : sizes.width) + sizes.rankGap
  const ranks = ranksOf(steps).map((rank, number) => itemsOf(rank, number, opened, sizes))
  const cellOf = new Map(ranks.flat().flatMap(({ cell }) => (cell && cell.kind !== 'fold' ? cell.steps.map((step) => [step.id, cell] as const) : [])))
  const edges = edgesOf(steps, cellOf)
  const lanes = addLanes(ranks, edges)
  const breadths = ranks.map((rank) => rank.reduce((sum, item) => sum + item.size + gap, -gap))
  const widest = Math.max(breadth, ...breadths)
  ranks.forEach((rank, number) => {
    let at = MARGIN + (widest - breadths[number]!) / 2
    for (const item of rank) {
      item.at = at + item.size / 2
      if (item.cell) [item.cell.x, item.cell.y] = down ? [at, MARGIN + number * depth] : [MARGIN + number * depth, at]
      at += item.size + gap
    }
  })
  const middle = new Map(ranks.flat().flatMap((item) => (item.cell ? [[item.cell.id, item.at] as const] : [])))
  const curves = edges.map(({ from, to, pairs }) => {
    const points = [middle.get(from.id)!, ...range(from.rank + 1, to.rank).map((rank) => lanes.get(laneId(from, rank))!.at), middle.get(to.id)!]
    return { id: `${from.id}→${to.id}`, path: pathOf(points, from.rank, depth, sizes), from: pairs.map(([need]) => need), to: pairs.map(([, step]) => step) }
  })
  const [along, across] = [ranks.length * depth - sizes.rankGap + 2 * MARGIN, widest + 2 * MARGIN]
  const cells = ranks.flat().flatMap(({ cell }) => (cell ? [cell] : []))
  return { cells, curves, width: down ? across : along, height: down ? along : across }
}

function itemsOf<S extends Step>(rank: S[], number: number, opened: ReadonlySet<number>, { width, height, down }: Sizes): Item<S>[] {
  const item = (kind: Cell<S>['kind'], id: string, steps: S[], size = down ? width : height): Item<S> => {
    const cell = { id, kind, rank: number, steps, x: 0, y: 0, width, height: kind === 'fold' ? FOLD : height }
    return { cell, size, at: 0 }
  }
  if (rank.length > MOST && !opened.has(number)) return [item('group', `group ${number}`, rank)]
  const items = rank.map((step) => item('step', step.id, [step]))
  return rank.length > MOST ? [item('fold', `fold ${number}`, rank, down ? width : FOLD), ...items] : items
}

interface GroupEdge<S> {
  from: Cell<S>
  to: Cell<S>
  pairs: (readonly [string, string])[]
}

/** The edges between cells, each with the steps that it stands for; those of a cycle are left out. */
function edgesOf<S extends Step>(steps: readonly S[], cellOf: Map<string, Cell<S>>): GroupEdge<S>[] {
  const edges = new Map<string, GroupEdge<S>>()
  for (const step of steps) {
    const to = cellOf.get(step.id)!
    for (const need of step.needs) {
      const from = cellOf.get(need)
      if (!from || from.rank >= to.rank) continue
      const id = `${from.id}→${to.id}`
      if (!edges.has(id)) edges.set(id, { from, to, pairs: [] })
      edges.get(id)!.pairs.push([need, step.id])
    }
  }
  return [...edges.values()]
}

const laneId = (from: Cell<unknown>, rank: number) => `${from.id}@${rank}`
const range = (start: number, end: number) => Array.from({ length: Math.max(0, end - start) }, (_, index) => start + index)

/** Add lanes to the ranks, at the height of their source; the edges of one source share them. */
function addLanes<S extends Step>(ranks: Item<S>[][], edges: readonly GroupEdge<S>[]): Map<string, Item<S>> {
  const lanes = new Map<string, Item<S>>()
  const places = new Map(ranks.flatMap((rank) => rank.map(({ cell }, index) => [cell!.id, (index + 0.5) / rank.length] as const)))
  const lengths = ranks.map((rank) => rank.length)
  const added = ranks.map((): { item: Item<S>; index: number }[] => [])
  for (const { from, to } of edges) {
    for (const rank of range(from.rank + 1, to.rank)) {
      if (lanes.has(laneId(from, rank))) continue
      const item = { cell: null, size: LANE, at: 0 }
      lanes.set(laneId(from, rank), item)
      added[rank]!.push({ item, index: Math.round(places.get(from.id)! * lengths[rank]!) })
    }
  }
  added.forEach((found, rank) => {
    for (const { item, index } of found.sort((a, b) => b.index - a.index)) ranks[rank]!.splice(index, 0, item)
  })
  return lanes
}

/** A curve from the end of a rank through the lanes of those after it to the beginning of the last. */
function pathOf(points: number[], rank: number, depth: number, { down, width, height, rankGap }: Sizes): string {
  const point = (along: number, across: number) => (down ? `${across},${along}` : `${along},${across}`)
  const length = down ? height : width
  let along = MARGIN + rank * depth + length
  let path = `M${point(along, points[0]!)}`
  points.slice(1).forEach((across, index) => {
    const next = along + rankGap
    const before = points[index]!
    path += ` C${point(along + rankGap / 2, before)} ${point(next - rankGap / 2, across)} ${point(next, across)}`
    along = next + length
    if (index < points.length - 2) path += ` L${point(along, across)}`
  })
  return path
}

/** The ids of the longest chain of steps by `weight`: what the plan can't be faster than. */
export function criticalPath<S extends Step>(steps: readonly S[], weight: (step: S) => number): Set<string> {
  const length = new Map<string, number>()
  const before = new Map<string, string>()
  let last = ''
  for (const step of ranksOf(steps).flat()) {
    let longest = 0
    for (const need of step.needs) {
      const found = length.get(need) ?? 0
      if (found > longest || (found === longest && length.has(need) && !before.has(step.id))) {
        longest = found
        before.set(step.id, need)
      }
    }
    length.set(step.id, longest + weight(step))
    if (last === '' || length.get(step.id)! > length.get(last)!) last = step.id
  }
  const path = new Set<string>()
  for (let id: string | undefined = last; id && !path.has(id); id = before.get(id)) path.add(id)
  return path
}

/** How long a step takes: measured, or as long as the others did on average. */
export function stepSeconds(steps: readonly StepView[], now: number): (step: StepView) => number {
  const measured = (step: StepView) => (step.startedAt === null ? null : (step.endedAt ?? Math.max(now, step.startedAt)) - step.startedAt)
  const known = steps.map(measured).filter((seconds) => seconds !== null)
  const average = known.length ? known.reduce((sum, one) => sum + one, 0) / known.length : 1
  return (step) => (step.state === 'skipped' ? 0 : (measured(step) ?? average))
}
