import { expect, test } from 'vitest'
import type { PageDelta, PageEvent } from '@/api/page_events'
import { live } from '@/state/live'

const piece = (text: string, offset: number, more: Partial<PageDelta> = {}): PageDelta => ({
  kind: 'delta', key: 'k', scope: '', expert: null, part: 'text', text, offset, attempt: 1, tool: '', call: 0, steps: [], ...more,
})

test('pieces are joined in order', () => {
  const state = live.initial()
  for (const one of [piece('he', 0), piece('llo', 2)]) live.write(state, one)
  expect(state.get('k')!.text).toBe('hello')
})

test('a piece makes another object, so that its row is drawn again', () => {
  const state = live.initial()
  live.write(state, piece('he', 0))
  const before = state.get('k')
  live.write(state, piece('llo', 2))
  expect(state.get('k')).not.toBe(before)
})

test('a reader that came in the middle waits for the next beginning', () => {
  const state = live.initial()
  live.write(state, piece('llo', 2))
  expect(state.get('k')!.text).toBe('')
  live.write(state, piece('again', 0))
  expect(state.get('k')!.text).toBe('again')
})

test('another attempt starts anew', () => {
  const state = live.initial()
  live.write(state, piece('first', 0))
  live.write(state, piece('second', 0, { attempt: 2 }))
  expect(state.get('k')!.text).toBe('second')
})

test('a result takes the place of its pieces', () => {
  const state = live.initial()
  live.write(state, piece('he', 0))
  live.apply(state, { kind: 'expert_result', key: 'k' } as PageEvent)
  expect(state.size).toBe(0)
})

test('counts characters as the server does', () => {
  const state = live.initial()
  for (const one of [piece('a 🦉 ', 0), piece('flies', 4)]) live.write(state, one)
  expect(state.get('k')?.text).toBe('a 🦉 flies')
})

test('steps of a plan are kept in order, and a part that begins again has its own', () => {
  const state = live.initial()
  for (const one of [piece('a', 0, { steps: ['step 1'] }), piece('b', 1, { steps: ['step 2'] })]) live.write(state, one)
  expect(state.get('k')?.steps).toEqual(['step 1', 'step 2'])
  live.write(state, piece('ab', 0, { steps: ['step 1', 'step 2'] }))
  expect(state.get('k')?.steps).toEqual(['step 1', 'step 2'])
})
