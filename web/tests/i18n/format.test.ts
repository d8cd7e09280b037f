import { expect, test } from 'vitest'
import { speak } from '@/i18n'
import { formatAgo, formatCompact, formatDuration, formatMoney, formatNumber } from '@/i18n/format'

const VALUES = [0, 1, 9.9, 12.3, 99.9, 999, 999.9, 999.96, 1000, 1049, 1050, 9999, 9999.6, 12_345, 99_949, 99_950, 123_456, 999_949, 999_950, 1e6, 12_345_678, 99_999_499, 99_999_500, 1e8, 1.23e9, 1.5e12]
const AMOUNTS = [0, 0.000_012, 0.001, 0.0012, 0.0345, 0.0999, 0.1, 0.126, 1, 12.5, 999.99, 999.999, 1234.5]

test('numbers that are written by hand are those of the browser', async () => {
  const money = (usd: number) => (usd !== 0 && usd < 0.1 ? { maximumSignificantDigits: 2 } : { minimumFractionDigits: 2, maximumFractionDigits: 2 })
  for (const [language, locale] of [['en', 'en-US'], ['zh', 'zh-CN']] as const) {
    await speak(language)
    const compact = new Intl.NumberFormat(locale, { notation: 'compact', maximumFractionDigits: 1 })
    for (const value of VALUES) {
      expect([value, formatCompact(value)]).toEqual([value, compact.format(value)])
      expect([value, formatNumber(value)]).toEqual([value, new Intl.NumberFormat(locale).format(value)])
    }
    for (const usd of AMOUNTS) {
      const dollars = new Intl.NumberFormat(locale, { style: 'currency', currency: 'USD', currencyDisplay: 'narrowSymbol', ...money(usd) })
      expect([usd, formatMoney(usd)]).toEqual([usd, dollars.format(usd)])
    }
  }
  await speak('en')
})

test('a time is said as how long ago it was, and no time is in the future', () => {
  const ago = (seconds: number) => formatAgo(1_700_000_000 - seconds, 1_700_000_000_000)
  expect([-5, 0.4, 59, 61, 7300, 90_000, 200_000].map(ago)).toEqual(['now', 'now', '59 sec. ago', '1 min. ago', '2 hr. ago', '1 day ago', '2 days ago'])
})

test('a duration has two units at most, in the words of its language', async () => {
  const SECONDS = [0.05, 0.9994, 3.14, 59.97, 60, 200, 600, 3599.6, 7325]
  expect(SECONDS.map(formatDuration)).toEqual(['50 ms', '999 ms', '3.1 s', '1 min', '1 min', '3 min 20 s', '10 min', '1 h', '2 h 2 min'])
  await speak('zh')
  expect(SECONDS.map(formatDuration)).toEqual(['50 毫秒', '999 毫秒', '3.1 秒', '1 分', '1 分', '3 分 20 秒', '10 分', '1 小时', '2 小时 2 分'])
  await speak('en')
})
