import { createPinia } from 'pinia'
import { expect, test, vi } from 'vitest'
import { createApp, nextTick } from 'vue'
import type { TurnEntry } from '@/state/conversation'
import PromptDialog from '@/views/conversation/PromptDialog.vue'

const request = (key: string) => ({ key, model: 'm', is_exact: true, instructions: key, messages: [], tools: [], output_schema: null, settings: null })

test('arrow keys, Home and End choose the request that is shown, and the focus follows', async () => {
  const prompt = { task: '', history: [], problem: '', requests: ['one', 'two', 'three'].map(request) }
  vi.stubGlobal('fetch', async () => new Response(JSON.stringify(prompt)))
  const place = document.body.appendChild(document.createElement('div'))
  const app = createApp(PromptDialog, { runId: 'r', turn: { asked: { key: 'k' }, expert: null } as unknown as TurnEntry })
  app.use(createPinia()).mount(place)
  await vi.waitFor(() => expect(document.querySelectorAll('[role=tab]').length).toBe(3))
  const tabs = () => [...document.querySelectorAll<HTMLElement>('[role=tab]')]
  const chosen = () => tabs().findIndex((one) => one.getAttribute('aria-selected') === 'true')
  const seen: number[] = []
  for (const key of ['ArrowRight', 'End', 'ArrowRight', 'ArrowLeft', 'Home', 'x']) {
    tabs()[chosen()]!.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }))
    await nextTick()
    seen.push(chosen())
    expect(tabs().map((one) => one.tabIndex)).toEqual([0, 1, 2].map((index) => (index === chosen() ? 0 : -1)))
  }
  expect(seen).toEqual([1, 2, 0, 2, 0, 0])
  expect(document.activeElement).toBe(tabs()[0])
  expect(document.querySelector('[role=tabpanel]')!.textContent).toContain('one')
  app.unmount()
  vi.unstubAllGlobals()
})
