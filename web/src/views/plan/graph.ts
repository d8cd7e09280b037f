// The graph of a plan: the order of its steps, and its critical path.
import type { StepView } from '@/views/plan/plan'

type Node = Pick<StepView, 'id' | 'needs'>

/** The steps so that each stands after those it needs; steps of a cycle come last. */
export function topological<N extends Node>(steps: readonly N[]): N[] {
  const ids = new Set(steps.map((step) => step.id))
  const open = new Map(steps.map((step) => [step.id, new Set(step.needs.filter((need) => ids.has(need) && need !== step.id))]))
  const ordered: N[] = []
  let rest = [...steps]
  while (rest.length) {
    const ready = rest.filter((step) => open.get(step.id)!.size === 0)
    if (ready.length === 0) return [...ordered, ...rest]
    ordered.push(...ready)
    const done = new Set(ready)
    rest = rest.filter((step) => !done.has(step))
    for (const step of rest) for (const one of ready) open.get(step.id)!.delete(one.id)
  }
  return ordered
}

/** The ids of the longest chain of steps by `weight`: what the plan can't be faster than. */
export function criticalPath<N extends Node>(steps: readonly N[], weight: (step: N) => number): Set<string> {
  const length = new Map<string, number>()
  const before = new Map<string, string>()
  let last = ''
  for (const step of topological(steps)) {
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
