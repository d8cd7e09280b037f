// Numbers, money, durations and times as the reader writes them, in the reader's time zone.
import { language, t } from '@/i18n'

/** ISO 8601, or seconds since 1970 as page events have them. */
type Time = string | number
const dateOf = (time: Time) => new Date(typeof time === 'number' ? time * 1000 : time)

/** The reader's own locale where it is one of the chosen language: it says how times are written. */
const locale = () => navigator.languages.find((one) => one.startsWith(language.value)) ?? (language.value === 'zh' ? 'zh-CN' : 'en')
const formats = new Map<string, Intl.NumberFormat | Intl.DateTimeFormat>()

function cached<T extends Intl.NumberFormat | Intl.DateTimeFormat>(name: string, make: () => T): T {
  const key = `${locale()} ${name}`
  if (!formats.has(key)) formats.set(key, make())
  return formats.get(key) as T
}

/**
 * Locales with a decimal point, whose short numbers are written by hand: a format of the browser takes tens of milliseconds to
 * load, which is much of the first view. The result is the same.
 */
const POINT = new Set(['en', 'en-US', 'en-GB', 'en-AU', 'en-CA', 'en-IE', 'en-NZ', 'zh', 'zh-CN'])
const isShort = (value: number) => value >= 0 && value < 1000 && POINT.has(locale())

export function formatNumber(value: number): string {
  if (isShort(value) && Number.isInteger(value * 10)) return String(value)
  return cached('number', () => new Intl.NumberFormat(locale())).format(value)
}

const COMPACT = { en: [1000, ['', 'K', 'M', 'B']], zh: [10_000, ['', '万', '亿']] } as const

/** A large number in few characters: 12.3K. */
export function formatCompact(value: number): string {
  const [size, units] = COMPACT[language.value]
  let [short, unit] = [value, 0]
  while (short >= size - 0.05 && unit < units.length) [short, unit] = [short / size, unit + 1]
  if (isShort(short) && unit < units.length) return `${Math.round(short * 10) / 10}${units[unit]}`
  const options = { notation: 'compact', maximumFractionDigits: 1 } as const
  return cached('compact', () => new Intl.NumberFormat(locale(), options)).format(value)
}

/** An amount in US dollars; small amounts keep two digits that say something. */
export function formatMoney(usd: number): string {
  const small = usd !== 0 && Math.abs(usd) < 0.1
  if (isShort(usd) && usd < 999 && (!small || usd >= 0.001)) return small ? `$${Number(usd.toPrecision(2))}` : `$${usd.toFixed(2)}`
  const digits = small ? { maximumSignificantDigits: 2 } : { minimumFractionDigits: 2, maximumFractionDigits: 2 }
  const options = { style: 'currency', currency: 'USD', currencyDisplay: 'narrowSymbol', ...digits } as const
  return cached(`money ${small}`, () => new Intl.NumberFormat(locale(), options)).format(usd)
}

export function formatShare(value: number): string {
  return cached('share', () => new Intl.NumberFormat(locale(), { style: 'percent', maximumFractionDigits: 0 })).format(value)
}

/** A duration in at most two units; a second one that is zero is left out. */
export function formatDuration(seconds: number): string {
  const part = (unit: 'ms' | 's' | 'min' | 'h', count: number) => t(`duration.${unit}`, { count: formatNumber(count) })
  if (seconds < 1) return part('ms', Math.round(seconds * 1000))
  if (seconds < 59.95) return part('s', Math.round(seconds * 10) / 10)
  const whole = Math.round(seconds)
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor((whole % 3600) / 60), whole % 60]
  const parts = hours ? ([['h', hours], ['min', minutes]] as const) : ([['min', minutes], ['s', rest]] as const)
  return parts.flatMap(([unit, count], at) => (at && !count ? [] : [part(unit, count)])).join(' ')
}

export function formatBytes(bytes: number): string {
  if (bytes < 1000) return `${formatNumber(bytes)} B`
  return bytes < 1e6 ? `${formatNumber(Math.round(bytes / 100) / 10)} kB` : `${formatNumber(Math.round(bytes / 1e5) / 10)} MB`
}

export function formatTime(time: Time): string {
  const options = { hour: '2-digit', minute: '2-digit', second: '2-digit' } as const
  return cached('time', () => new Intl.DateTimeFormat(locale(), options)).format(dateOf(time))
}

export function formatDateTime(time: Time): string {
  const options = { dateStyle: 'medium', timeStyle: 'short' } as const
  return cached('date', () => new Intl.DateTimeFormat(locale(), options)).format(dateOf(time))
}

/** A day of UTC, such as 3 Nov. */
export function formatDay(day: string): string {
  const options = { day: 'numeric', month: 'short', timeZone: 'UTC' } as const
  return cached('day', () => new Intl.DateTimeFormat(locale(), options)).format(dateOf(day))
}

const STEPS = [
  ['day', 86_400],
  ['hour', 3600],
  ['minute', 60],
  ['second', 1],
] as const

/** How long ago a time was; a date where that is more than a week. */
export function formatAgo(time: Time, now = Date.now()): string {
  const seconds = (now - dateOf(time).getTime()) / 1000
  if (Math.abs(seconds) > 7 * 86_400) return formatDateTime(time)
  const [unit, size] = STEPS.find(([, one]) => seconds >= one) ?? ['now', 1]
  return t(`ago.${unit}`, { count: Math.floor(seconds / size) })
}
