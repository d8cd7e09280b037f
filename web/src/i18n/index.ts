// Texts of the page in two languages: the reader's choice, else the browser's language.
import { computed, ref, watchEffect } from 'vue'
import { en } from '@/i18n/en'
import { zh } from '@/i18n/zh'
import { recall, remember } from '@/state/preferences'

export type MessageKey = keyof typeof en
export type Language = 'en' | 'zh'

export const DICTIONARIES: Record<Language, Record<MessageKey, string>> = { en, zh }

const preferred = (): Language => (navigator.language.toLowerCase().startsWith('zh') ? 'zh' : 'en')
const chosen = ref<Language>(recall('language', ['en', 'zh'] as const) ?? preferred())

export const language = computed({
  get: () => chosen.value,
  set: (value: Language) => {
    chosen.value = value
    remember('language', value)
  },
})

watchEffect(() => document.documentElement.setAttribute('lang', chosen.value === 'zh' ? 'zh-CN' : 'en'))

/** The text for a key, with `{name}` replaced by values. */
export function t(key: MessageKey, values: Record<string, string | number> = {}): string {
  return DICTIONARIES[chosen.value][key].replace(/\{(\w+)\}/g, (whole, name: string) => String(values[name] ?? whole))
}

/** The text for a key that is made of data, such as a status; the data itself where there is none. */
export function named(prefix: string, value: string): string {
  const key = `${prefix}.${value}`
  return key in DICTIONARIES.en ? t(key as MessageKey) : value.replaceAll('_', ' ')
}
