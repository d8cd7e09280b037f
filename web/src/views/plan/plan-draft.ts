// A plan that a person edits: JSON with a list of steps, whose other fields stay as they are.

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json }
export type PlanStepDraft = { [name: string]: Json }
export type PlanDraft = { [name: string]: Json; steps: PlanStepDraft[] }

const isObject = (value: unknown): value is PlanStepDraft => typeof value === 'object' && value !== null && !Array.isArray(value)

/** The plan in a JSON value, or `null` where there are no steps in it. */
export function planIn(value: unknown): PlanDraft | null {
  return isObject(value) && Array.isArray(value.steps) && value.steps.every(isObject) ? (value as PlanDraft) : null
}

/** Read a plan from a text; raises what is wrong with it. */
export function parsePlan(text: string): PlanDraft | null {
  return planIn(JSON.parse(text))
}

export const planText = (value: unknown) => JSON.stringify(value, null, 2)

export const textOf = (step: PlanStepDraft, field: string) => (typeof step[field] === 'string' ? (step[field] as string) : '')
export const listOf = (step: PlanStepDraft, field: string) =>
  Array.isArray(step[field]) ? (step[field] as Json[]).filter((one) => typeof one === 'string') : []

/** The plan with another value of a field; an empty one is left out. */
export function setField(plan: PlanDraft, index: number, field: string, value: string | string[]): PlanDraft {
  const steps = plan.steps.map((step, at) => {
    if (at !== index) return step
    const { [field]: _, ...rest } = step
    return value.length ? { ...step, [field]: value } : rest
  })
  return { ...plan, steps }
}

/** The plan without a step; the others no longer need it, but what it needed. */
export function removeStep(plan: PlanDraft, index: number): PlanDraft {
  const gone = plan.steps[index]!
  const id = textOf(gone, 'id')
  const steps = plan.steps.filter((_, at) => at !== index).map((step) => {
    const needs = listOf(step, 'needs')
    if (!needs.includes(id)) return step
    const left = [...new Set(needs.flatMap((one) => (one === id ? listOf(gone, 'needs') : [one])))]
    const { needs: _, ...rest } = step
    return left.length ? { ...step, needs: left } : rest
  })
  return { ...plan, steps }
}

/** The plan with another step at its end, which needs the last one. */
export function addStep(plan: PlanDraft, agent: string): PlanDraft {
  const ids = new Set(plan.steps.map((step) => textOf(step, 'id')))
  let number = plan.steps.length + 1
  while (ids.has(`step_${number}`)) number++
  const last = plan.steps.at(-1)
  const step: PlanStepDraft = { id: `step_${number}`, ...(agent && { agent }), ...(last && { needs: [textOf(last, 'id')] }), task: '' }
  return { ...plan, steps: [...plan.steps, step] }
}
