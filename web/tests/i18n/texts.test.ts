import { expect, test } from 'vitest'
import { named, speak, t } from '@/i18n'
import { en } from '@/i18n/en'
import { zh } from '@/i18n/zh'

const DICTIONARIES = { en, zh }
const placeholders = (text: string) => [...new Set([...text.matchAll(/\{\w+\}/g)].map(([one]) => one))].sort()

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

test('a text follows the language and takes values', async () => {
  await speak('en')
  expect(t('slider.at', { at: 3, count: 9 })).toBe('Event 3 of 9')
  await speak('zh')
  expect(t('slider.at', { at: 3, count: 9 })).toBe('第 3 / 9 个事件')
  await speak('en')
})

test('a count of one has its own form where a language has one', async () => {
  expect([t('home.count', { count: 1 }), t('home.count', { count: '1' })]).toEqual(['1 run', '1 run'])
  expect([t('home.count', { count: 0 }), t('home.count', { count: '1,200' })]).toEqual(['0 runs', '1,200 runs'])
  await speak('zh')
  expect(t('home.count', { count: 1 })).toBe('1 次运行')
  await speak('en')
})

test('data without a text is shown as it is', () => {
  expect(named('status', 'completed')).toBe('Completed')
  expect(named('status', 'half_done')).toBe('half done')
})
