import { expect, test } from 'vitest'
import { createApp, h, nextTick, ref } from 'vue'
import { ApiError } from '@/api/client'
import NumberField from '@/components/NumberField.vue'
import { amountOf, isUnreadable, readable, type Amount } from '@/components/amounts'

test.each([
  ['20000', 20000],
  [' 0.5 ', 0.5],
  ['5.', 5],
  ['-5', -5],
  ['1e3', 1000],
  ['', ''],
  ['  ', ''],
  ['5e', '5e'],
  ['1-2', '1-2'],
  ['1e400', '1e400'],
  ['1,000', '1,000'],
  ['1.2.3', '1.2.3'],
  ['0x10', '0x10'],
  ['Infinity', 'Infinity'],
])('what is typed as %j is %j', (typed, amount) => expect(amountOf(typed)).toBe(amount))

test('a text that is no number is neither a number nor nothing', () => {
  expect(['5e', '', 0, undefined].map(isUnreadable)).toEqual([true, false, false, false])
  expect(readable({ tokens: 0, usd: '5e', seconds: '' })).toEqual({ tokens: 0 })
})

test('a field says what it can’t read, keeps what was typed, and forgets what the server said of another number', async () => {
  const amount = ref<Amount>('')
  const error = ref<unknown>(null)
  const place = document.body.appendChild(document.createElement('div'))
  const app = createApp(() => h(NumberField, { label: 'Tokens', field: 'tokens', error: error.value, modelValue: amount.value, 'onUpdate:modelValue': (now: Amount) => (amount.value = now) }))
  app.mount(place)
  const input = place.querySelector('input')!
  const type = async (text: string) => {
    input.value = text
    input.dispatchEvent(new Event('input'))
    await nextTick()
  }
  const problem = () => place.querySelector('[role=alert]')
  await type('5e')
  expect(problem()!.textContent).toContain('no number')
  expect(input.getAttribute('aria-describedby')).toBe(problem()!.id)
  await type('5.')
  expect([amount.value, input.value, problem()]).toEqual([5, '5.', null])
  error.value = new ApiError(422, 'invalid', 'too low', { tokens: 'too low' })
  await nextTick()
  expect(problem()!.textContent).toBe('too low')
  await type('50')
  expect([problem(), input.getAttribute('aria-invalid')]).toEqual([null, null])
  amount.value = ''
  await nextTick()
  expect(input.value).toBe('')
  app.unmount()
})
