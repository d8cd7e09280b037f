import { expect, test } from 'vitest'
import type { PageEvent } from '@/api/page_events'
import a2a from '@/fixtures/a2a_lite.json'
import approvals from '@/fixtures/approvals.json'
import budget from '@/fixtures/budget.json'
import dag from '@/fixtures/dag.json'
import review from '@/fixtures/expert_review.json'
import { speak } from '@/i18n'
import { eventLine } from '@/views/travel/event-words'

test('every event of every sample has a line in both languages', async () => {
  for (const one of ['en', 'zh'] as const) {
    await speak(one)
    for (const sample of [a2a, approvals, budget, dag, review])
      for (const event of sample.events as PageEvent[]) expect([event.kind, eventLine(event)]).not.toEqual([event.kind, ''])
  }
  await speak('en')
})

test('a long text is cut', () => {
  const event = { kind: 'note', text: 'word '.repeat(100), code: '' } as unknown as PageEvent
  expect(eventLine(event).length).toBeLessThan(170)
})
