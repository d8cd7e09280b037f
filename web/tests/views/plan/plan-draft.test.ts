import { expect, test } from 'vitest'
import { addStep, parsePlan, planIn, removeStep, setField, type PlanDraft } from '@/views/plan/plan-draft'

const plan: PlanDraft = { version: 2, steps: [{ id: 'a', task: 'x' }, { id: 'b', needs: ['a'], evaluate: { rounds: 2 } }, { id: 'c', needs: ['b'] }] }

test('what an editor does not show stays as it is', () => {
  const changed = setField(plan, 1, 'task', 'new')
  expect(changed).toEqual({ ...plan, steps: [plan.steps[0], { id: 'b', needs: ['a'], evaluate: { rounds: 2 }, task: 'new' }, plan.steps[2]] })
})

test('an emptied field is left out', () => {
  expect(setField(plan, 0, 'task', '').steps[0]).toEqual({ id: 'a' })
  expect(setField(plan, 1, 'needs', []).steps[1]).toEqual({ id: 'b', evaluate: { rounds: 2 } })
})

test('steps that needed a removed one need what it needed', () => {
  expect(removeStep(plan, 1).steps).toEqual([{ id: 'a', task: 'x' }, { id: 'c', needs: ['a'] }])
  expect(removeStep(plan, 0).steps[0]).toEqual({ id: 'b', evaluate: { rounds: 2 } })
})

test('an added step has a new id and needs the last one', () => {
  expect(addStep(plan, 'ann').steps.at(-1)).toEqual({ id: 'step_4', agent: 'ann', needs: ['c'], task: '' })
  expect(addStep({ steps: [{ id: 'step_2' }] }, '').steps.at(-1)).toEqual({ id: 'step_3', needs: ['step_2'], task: '' })
})

test('only what has steps is a plan', () => {
  expect(planIn({ steps: 'x' })).toBeNull()
  expect(planIn([1])).toBeNull()
  expect(parsePlan('{"steps": []}')).toEqual({ steps: [] })
  expect(() => parsePlan('{')).toThrow()
})
