import { expect, test } from 'vitest'
import { DICTIONARIES, language, named, t } from '@/i18n'

const placeholders = (text: string) => [...text.matchAll(/\{\w+\}/g)].map(([one]) => one).sort()

test('both languages have the same keys', () => {
  expect(Object.keys(DICTIONARIES.zh).sort()).toEqual(Object.keys(DICTIONARIES.en).sort())
})

test('both languages name the same values in each text', () => {
  for (const [key, text] of Object.entries(DICTIONARIES.en)) {
    expect([key, placeholders(DICTIONARIES.zh[key as keyof typeof DICTIONARIES.zh])]).toEqual([key, placeholders(text)])
  }
})

test('no text is empty', () => {
  for (const dictionary of Object.values(DICTIONARIES)) expect(Object.values(dictionary)).not.toContain('')
})

test('a text follows the language and takes values', () => {
  language.value = 'en'
  expect(t('slider.at', { at: 3, count: 9 })).toBe('Event 3 of 9')
  language.value = 'zh'
  expect(t('slider.at', { at: 3, count: 9 })).toBe('第 3 / 9 个事件')
  language.value = 'en'
})

test('data without a text is shown as it is', () => {
  expect(named('status', 'completed')).toBe('Completed')
  expect(named('status', 'half_done')).toBe('half done')
})
