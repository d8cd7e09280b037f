// Texts of the page in two languages: the reader's choice, else the browser's language.
import { computed, ref, watchEffect } from 'vue'
import { en } from '@/i18n/en'
import { recall, remember } from '@/state/preferences'

export type MessageKey = keyof typeof en
export type Language = 'en' | 'zh'

type Dictionary = Record<MessageKey, string>

/** English is always there, since its keys are those of every language; another one is loaded for its readers. */
const dictionaries: Record<Language, Dictionary | null> = { en, zh: null }
const loaders: Record<Language, () => Promise<Dictionary>> = {
  en: async () => en,
  zh: async () => (await import('@/i18n/zh')).zh,
}

const preferred = (): Language => (navigator.language.toLowerCase().startsWith('zh') ? 'zh' : 'en')
const chosen = ref<Language>('en')
export const language = computed(() => chosen.value)

/** Show the page in a language, as soon as its texts are there. */
export async function speak(value: Language): Promise<void> {
  dictionaries[value] ??= await loaders[value]()
  chosen.value = value
}

/** Speak a language from now on, also when the page is opened again. */
export async function chooseLanguage(value: Language): Promise<void> {
  remember('language', value)
  await speak(value).catch(() => undefined) // where the server is away, the page goes on in the language that it has
}

/** Ends when the page can be shown in the reader's language. */
export const languageLoaded = speak(recall('language', ['en', 'zh'] as const) ?? preferred()).catch(() => undefined)

watchEffect(() => document.documentElement.setAttribute('lang', chosen.value === 'zh' ? 'zh-CN' : 'en'))

/** The text for a key, with `{name}` replaced by values. A text of two forms, `{count} run | {count} runs`, has the first for one. */
export function t(key: MessageKey, values: Record<string, string | number> = {}): string {
  const [first = '', other = first] = (dictionaries[chosen.value] ?? en)[key].split(' | ')
  const form = String(values['count']) === '1' ? first : other
  return form.replace(/\{(\w+)\}/g, (whole, name: string) => String(values[name] ?? whole))
}

/** The text for a key that is made of data, such as a status; the data itself where there is none. */
export function named(prefix: string, value: string): string {
  const key = `${prefix}.${value}`
  return key in en ? t(key as MessageKey) : value.replaceAll('_', ' ')
}
